"""How vectors whose elements lie a step apart go to and from memory.

What goes in: the address of the first element, how many elements there are, the step between them, and, where not all
of them are there, how many are. What comes out: code at the current place.

What holds: nothing is read that lies outside of the first and the last element that is there, and nothing is written
but these elements, whatever lies between them. Near ones are read together with what is between them, and picked: one
read serves all that is loaded of the elements it covers. Others are read and written one by one; of those that are not
there the last one that is takes the place, and the places are written from the last to the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from broadloom.codegen.llvm import FunctionBuilder, Val, element_of, i64, lanes_of, like, vector
from broadloom.codegen.memory import masked_load, masked_store
from broadloom.codegen.outline import vector_bits
from broadloom.codegen.types import width
from broadloom.records import dataclass

_ABREAST = 4  # elements whose addresses are made of one


@dataclass(frozen=True, slots=True)
class Window:
    """Memory around the elements of a vector, in registers: for each `lanes` of these, in the order of memory, the
    pieces that hold them, with the place that each begins at."""

    count: int
    step: int
    lanes: int
    chunks: tuple[tuple[tuple[int, Val], ...], ...]

    def pick(self, b: FunctionBuilder, offset: int) -> Val:
        """The elements that lie `offset` behind the first of each step."""
        c, step = self.lanes, abs(self.step)
        picked = []
        for number, chunk in enumerate(self.chunks):
            wanted = []
            for k in range(number * c, number * c + c):
                place = k * step + offset
                piece = max(n for n, (start, _) in enumerate(chunk) if start <= place)
                wanted.append((piece, place - chunk[piece][0]))
            if self.step < 0:
                wanted.reverse()
            picked.append(_together(b, [v for _, v in chunk], wanted))
        return _joined(b, picked[::-1] if self.step < 0 else picked)


def load_window(
    b: FunctionBuilder, element: str, first: Val, align: int, shape: tuple[int, int, int], left: Val | None
) -> Window:
    """The window of `count` elements `step` apart and `span` more behind each, the first of which is at `first`."""
    count, step, span = shape
    by, c = abs(step), _lanes(b, element, count)
    low = first if step > 0 else b.gep(element, first, i64((count - 1) * step), flags="")
    top = (count - 1) * by + span  # the last place
    chunks = []
    for number in range(count // c):
        pieces = []
        for k in range(by):
            start = min((number * by + k) * c, top + 1 - c)
            address = b.gep(element, low, i64(start), flags="") if start else low
            if left is None:
                pieces.append((start, b.load(vector(element, c), address, align)))
            else:
                mask = _covered(b, left, range(start, start + c), shape)
                pieces.append((start, masked_load(b, vector(element, c), address, align, mask)))
        chunks.append(tuple(pieces))
    return Window(count, step, c, tuple(chunks))


def _covered(b: FunctionBuilder, left: Val, places: range, shape: tuple[int, int, int]) -> Val:
    """Which places of a window lie between elements that are there."""
    count, step, span = shape
    if step > 0:
        return _some(b, left, count, [max(0, -((span - place) // step)) for place in places])
    return _some(b, left, count, [max(0, count - 1 - place // -step) for place in places])


def _some(b: FunctionBuilder, left: Val, count: int, numbers: Sequence[int]) -> Val:
    """Which of these numbers are among the first `left`, of `count` at most."""
    type_ = "i8" if count < 128 else "i16"
    most = b.int_cast(b.intrinsic("smin", left, i64(count)), type_, signed=True)
    listed = ", ".join(f"{type_} {n}" for n in numbers)
    return b.icmp("slt", Val(vector(type_, len(numbers)), f"<{listed}>"), b.splat(most, len(numbers)))


def _lanes(b: FunctionBuilder, element: str, count: int) -> int:
    return min(count, vector_bits(b.module.features) // width(element))


def _together(b: FunctionBuilder, pieces: list[Val], wanted: list[tuple[int, int]]) -> Val:
    """One vector of these lanes (piece, lane)."""
    c = len(wanted)
    if len(pieces) == 1:
        return b.shuffle(pieces[0], pieces[0], [lane for _, lane in wanted])
    while len(pieces) > 1:
        merged = []
        for n in range(0, len(pieces) - 1, 2):
            lanes = [lane + c * (piece - n) if piece in (n, n + 1) else -1 for piece, lane in wanted]
            merged.append(b.shuffle(pieces[n], pieces[n + 1], lanes))
        odd = len(pieces) % 2 == 1
        last = len(pieces) - 1
        wanted = [
            (len(merged), lane) if odd and piece == last else (piece // 2, k) for k, (piece, lane) in enumerate(wanted)
        ]
        pieces = [*merged, pieces[-1]] if odd else merged
    return pieces[0]


def _joined(b: FunctionBuilder, parts: list[Val]) -> Val:
    """The parts one behind the other."""
    while len(parts) > 1:
        n = 2 * lanes_of(parts[0].type)
        parts = [b.shuffle(x, y, range(n)) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def store_near(b: FunctionBuilder, value: Val, first: Val, align: int, step: int, left: Val | None) -> None:
    """Stores elements `step` apart, under masks but where they lie side by side."""
    _store_places(b, value, first, align, (lanes_of(value.type), step, 1), left)


def store_pairs(b: FunctionBuilder, parts: Sequence[Val], first: Val, align: int, step: int, left: Val | None) -> None:
    """Stores pairs `step` pairs apart, given as two vectors, likewise."""
    count = lanes_of(parts[0].type)
    both = b.shuffle(parts[0], parts[1], range(2 * count))
    _store_places(b, both, first, align, (count, step, 2), left)


def _store_places(
    b: FunctionBuilder, values: Val, first: Val, align: int, shape: tuple[int, int, int], left: Val | None
) -> None:
    """Stores `count` groups of `size` elements, `step` groups apart; `values` has the first of all, then the next."""
    count, step, size = shape
    element, by = element_of(values.type), abs(step)
    low = first if step > 0 else b.gep(element, first, i64((count - 1) * step * size), flags="")
    c = _lanes(b, element, count * size)
    for start in range(0, count * by * size, c):
        numbers = [_number(place, shape) for place in range(start, start + c)]
        if all(n is None for n in numbers):
            continue
        address = b.gep(element, low, i64(start), flags="") if start else low
        lanes = [-1 if n is None else n + (start + k) % size * count for k, n in enumerate(numbers)]
        part = b.shuffle(values, values, lanes)
        if by == 1 and left is None:
            b.store(part, address, align)
            continue
        beyond = 127 if count < 128 else 1 << 14
        most = i64(count) if left is None else left
        masked_store(b, part, address, align, _some(b, most, count, [beyond if n is None else n for n in numbers]))


def _number(place: int, shape: tuple[int, int, int]) -> int | None:
    """The group that has an element at a place, None where none has."""
    count, step, size = shape
    number, between = divmod(place // size, abs(step))
    if between or number >= count:
        return None
    return number if step > 0 else count - 1 - number


def load_pairs_apart(
    b: FunctionBuilder, element: str, first: Val, align: int, count: int, step: Val, left: Val | None
) -> tuple[Val, Val]:
    """The two halves of pairs `step` pairs apart, one by one."""
    if width(element) > 32:
        step = b.mul(step, i64(2), "nsw")
        second = b.gep(element, first, i64(1), flags="")
        low, high = (load_apart(b, element, a, align, count, step, left) for a in (first, second))
        return low, high
    pairs = load_apart(b, f"i{2 * width(element)}", first, align, count, step, left)
    flat = b.bitcast(pairs, vector(element, 2 * count))
    return b.shuffle(flat, flat, range(0, 2 * count, 2)), b.shuffle(flat, flat, range(1, 2 * count, 2))


def store_pairs_apart(
    b: FunctionBuilder, parts: Sequence[Val], first: Val, align: int, step: Val, left: Val | None
) -> None:
    """Stores pairs `step` pairs apart, given as two vectors, one by one."""
    element, count = element_of(parts[0].type), lanes_of(parts[0].type)
    if width(element) > 32:
        step = b.mul(step, i64(2), "nsw")
        store_apart(b, parts[0], first, align, step, left)
        store_apart(b, parts[1], b.gep(element, first, i64(1), flags=""), align, step, left)
        return
    flat = b.shuffle(parts[0], parts[1], [k // 2 + k % 2 * count for k in range(2 * count)])
    store_apart(b, b.bitcast(flat, vector(f"i{2 * width(element)}", count)), first, align, step, left)


def load_apart(
    b: FunctionBuilder, element: str, first: Val, align: int, count: int, step: Val, left: Val | None
) -> Val:
    """Elements `step` apart, one by one."""
    bits = _bits(element)
    found = Val(vector(bits, count), "poison")
    for lane, address in enumerate(_addresses(b, bits, first, count, step, left)):
        found = b.insert(found, b.load(bits, address, align), lane)
    return b.bitcast(found, vector(element, count))


def _bits(element: str) -> str:
    """The type that single elements are moved as: LLVM moves a half by itself through a register that it waits for."""
    return "i16" if element == "half" else element


def store_apart(b: FunctionBuilder, value: Val, first: Val, align: int, step: Val, left: Val | None) -> None:
    """Stores elements `step` apart, one by one."""
    value = b.bitcast(value, like(value.type, _bits(element_of(value.type))))
    addresses = _addresses(b, element_of(value.type), first, lanes_of(value.type), step, left)
    for lane in reversed(range(len(addresses))):
        b.store(b.extract(value, lane), addresses[lane], align)


def _addresses(b: FunctionBuilder, element: str, first: Val, count: int, step: Val, left: Val | None) -> list[Val]:
    """Where the elements lie; those that are not there where the last one does that is."""
    if left is None:
        steps = [b.mul(step, i64(k), "nsw") for k in range(_ABREAST)]
        leap = b.mul(step, i64(_ABREAST), "nsw")
        found: list[Val] = []
        base = first
        for k in range(count):
            if k and k % _ABREAST == 0:
                base = b.gep(element, base, leap, flags="")
            found.append(b.gep(element, base, steps[k % _ABREAST], flags="") if k % _ABREAST else base)
        return found
    last = b.sub(left, i64(1), "nsw")
    numbers = [b.intrinsic("smin", last, i64(k)) for k in range(1, count)]
    return [first, *(b.gep(element, first, b.mul(n, step, "nsw"), flags="") for n in numbers)]
