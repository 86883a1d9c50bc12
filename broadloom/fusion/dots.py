"""Instructions that multiply short numbers in groups, along the summation, and add a whole group to a sum.

What goes in: the enabled features of a target (LLVM's names), the bits of its vectors, dtypes of a product. What comes
out: the instructions that the target has, and the one that a product takes, if any. What holds: sums of integers wrap
around at 32 bits, exactly as if each product had been made and added in int32; those of bfloat16 are of float32.

An instruction takes four bytes or two words of each operand for each sum. Most want operands of given signs. A right
operand with the other sign is packed with its highest bit exchanged, so with that bit's worth more or less than it has;
what is too much of the sums is this worth times the sum of the left operand's row.

The instruction for bfloat16 takes subnormal numbers for zeros, and makes zeros of subnormal sums. Neither comes up
where the least exponents of both operands add up to enough: all sums are multiples of the least product's last bit. So
the operands are looked through before (`codegen.matmul.range`), which pays where each element is used often.
"""

from __future__ import annotations

from broadloom.dtypes import DType, bfloat16, int8, int16, uint8, uint16
from broadloom.fusion.products import FEW_ROWS
from broadloom.records import dataclass
from broadloom.symbolic import Size, product

LEAST_SIDE = 32  # rows and columns from which on looking through operands takes a tenth of the time of multiplying
LEAST_WORK = 96 * 96 * 96  # multiplications


@dataclass(frozen=True, slots=True)
class Dot:
    """`function` is LLVM's, of (sums, left, right), or of (sums, right, left) where it is `swapped`; `adds` tells that
    it adds to the sums itself, and takes them. `left` and `right` are what it takes of the operands. `flushes`: it has
    no subnormal numbers."""

    name: str
    function: str
    left: DType
    right: DType
    swapped: bool = False
    adds: bool = True
    flushes: bool = False

    @property
    def group(self) -> int:
        """Products that are added to a sum at once."""
        return 32 // self.left.bits


@dataclass(frozen=True, slots=True)
class Grouping:
    """How a product uses an instruction: each sum begins with so many times the sum of the left operand's row, and the
    highest bits of the right operand are exchanged if that is not 0."""

    dot: Dot
    correction: int = 0

    @property
    def key(self) -> str:
        """What tells it from others of a target."""
        return f"{self.dot.name}.{self.dot.left}.{self.dot.right}{'.flipped' if self.correction else ''}"

    def __str__(self) -> str:
        return f"in groups of {self.dot.group} by {self.dot.name}"


def dots_of(features: frozenset[str], bits: int) -> tuple[Dot, ...]:
    """The instructions for vectors of so many bits, those for more products at once first.

    >>> [d.name for d in dots_of(frozenset(("avx2", "avxvnni")), 256)]
    ['vpdpbusd', 'vpdpbusd', 'vpdpwssd']
    >>> [(d.name, d.function) for d in dots_of(frozenset(("avx2",)), 256)]
    [('vpmaddwd', 'llvm.x86.avx2.pmadd.wd')]
    >>> [(d.name, d.left.name, d.right.name) for d in dots_of(frozenset(("neon", "dotprod")), 128)]
    [('sdot', 'int8', 'int8'), ('udot', 'uint8', 'uint8')]
    >>> dots_of(frozenset(("neon",)), 128)
    ()
    """
    if "neon" in features:
        return _arm(features)
    vnni = "avx512vnni" in features if bits == 512 else {"avx512vnni", "avx512vl"} <= features or "avxvnni" in features
    halves: tuple[Dot, ...] = ()
    if {"avx512bf16", "avx512vl", "avx512bw"} <= features and bits > 128:
        function = f"llvm.x86.avx512bf16.dpbf16ps.{bits}"
        halves = (Dot("vdpbf16ps", function, bfloat16, bfloat16, flushes=True),)
    if vnni:
        bytes_, words = (f"llvm.x86.avx512.{name}.{bits}" for name in ("vpdpbusd", "vpdpwssd"))
        return (
            *halves,
            Dot("vpdpbusd", bytes_, uint8, int8),
            Dot("vpdpbusd", bytes_, int8, uint8, swapped=True),
            Dot("vpdpwssd", words, int16, int16),
        )
    pairs = {
        512: ("avx512bw", "vpmaddwd", "llvm.x86.avx512.pmaddw.d.512"),
        256: ("avx2", "vpmaddwd", "llvm.x86.avx2.pmadd.wd"),
        128: ("sse2", "pmaddwd", "llvm.x86.sse2.pmadd.wd"),
    }
    feature, name, function = pairs[bits]
    return (*halves, Dot(name, function, int16, int16, adds=False)) if feature in features else halves


def _arm(features: frozenset[str]) -> tuple[Dot, ...]:
    found: list[Dot] = []
    if "dotprod" in features:
        found += [Dot(f"{d.kind.replace('i', 's')}dot", _neon(d), d, d) for d in (int8, uint8)]
    if "i8mm" in features:
        mixed = "llvm.aarch64.neon.usdot.v4i32.v16i8"
        found += [Dot("usdot", mixed, uint8, int8), Dot("usdot", mixed, int8, uint8, swapped=True)]
    return tuple(found)


def _neon(dtype: DType) -> str:
    return f"llvm.aarch64.neon.{'u' if dtype.kind == 'u' else 's'}dot.v4i32.v16i8"


def grouping(dots: tuple[Dot, ...], left: DType, right: DType, total: DType) -> Grouping | None:
    """How the product of operands of these dtypes in memory, with sums of `total`, is made with one of these
    instructions; None where it is not.

    >>> from broadloom.dtypes import int32
    >>> vnni = dots_of(frozenset(("avx512f", "avx512vnni")), 512)
    >>> [grouping(vnni, x, y, int32).correction for x, y in [(uint8, int8), (int8, int8), (uint8, uint8)]]
    [0, -128, 128]
    >>> print(grouping(vnni, int16, int8, int32))
    in groups of 2 by vpdpwssd
    >>> grouping(vnni, int32, int8, int32), grouping(vnni, uint16, int16, int32)
    (None, None)
    """
    if total.bits != 32:
        return None
    found = [
        Grouping(dot, correction)
        for dot in dots
        if (dot.left.kind == "f") == (total.kind == "f")
        for correction in [_correction(right, dot.right)]
        if correction is not None and _fits(left, dot.left)
    ]
    found.sort(key=lambda g: (-g.dot.group, g.correction != 0))
    return found[0] if found else None


def worth_looking(rows: Size, columns: Size, depth: Size) -> bool:
    """Whether the elements of a product's operands may be used often enough to be looked through before, and there may
    be enough of them to be worth code for both answers."""
    often = all(not isinstance(size, int) or size >= LEAST_SIDE for size in (rows, columns))
    work = product((rows, columns, depth))
    return often and not (isinstance(work, int) and work < LEAST_WORK)


def told(dots: tuple[Dot, ...], left: DType, right: DType, total: DType, sides: tuple[Size, Size, Size]) -> str:
    """What a report says of how products of short numbers are added up; nothing of others, nor of few rows. `sides`
    are rows and columns.

    >>> from broadloom.dtypes import int32
    >>> told(dots_of(frozenset(("avx2", "avxvnni")), 256), int8, int8, int32, (100, 9, 50))
    ', in groups of 4 by vpdpbusd'
    >>> told((), int8, uint8, int32, (100, 9, 50))
    ', one by one: the machine has no instruction for groups of int8 and uint8'
    """
    if total.bits != 32 or max(left.bits, right.bits) > 16:
        return ""
    found = grouping(dots, left, right, total)
    if total.kind == "f":
        some = found is not None and worth_looking(*sides)
        return f", {found} if they lie in memory and no sum can be subnormal or infinite" if some else ""
    if isinstance(sides[0], int) and sides[0] < FEW_ROWS:
        return ""
    if found is None:
        return f", one by one: the machine has no instruction for groups of {left} and {right}"
    return f", {found}"


def _fits(given: DType, wanted: DType) -> bool:
    """Whether the one holds all values of the other."""
    return given is wanted or (given in (int8, uint8) and wanted is int16)


def _correction(given: DType, wanted: DType) -> int | None:
    if _fits(given, wanted):
        return 0
    other = {int8: uint8, uint8: int8, uint16: int16, int16: uint16}
    if other.get(given) is not wanted:
        return None
    worth = 1 << given.bits - 1
    return -worth if given.kind == "i" else worth
