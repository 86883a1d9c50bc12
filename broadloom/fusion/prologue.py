"""Pointwise code before a product of matrices becomes part of it: an operand's elements are computed where the product
packs them, and the operand itself is never stored.

What goes in: the steps of a program. What comes out: the same steps, where such code stands in a product's `prologues`,
and the decisions taken. What holds: a prologue has one loop for each axis of the operand in which that varies, and
stores the operand's element of its point, nothing else; nobody but the product reads the operand; what the prologue
loads is not stored between the places where the producer stood and where the product stands, nor by the product.

Whether that pays depends on how often an element is packed: of the right operand once, of the left one once for each
block of columns (where the result lies by columns, the two change roles).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from broadloom.fusion.cost import instruction_cost
from broadloom.fusion.decide import Fuse
from broadloom.fusion.epilogue import fitting, loops_of_axes
from broadloom.fusion.handlers import accesses, effects_of, facts_of, may_raise, without_dead
from broadloom.fusion.ir import Body, Buffer, Extern, Kernel, Region, Store
from broadloom.fusion.merge import NoFuse, is_pointwise
from broadloom.fusion.products import CACHED_RIGHT, FEW_ROWS, SUMS_PER_UNIT, TASK_COLUMNS, is_turned
from broadloom.fusion.vectors import NO_COLUMN, is_plain
from broadloom.platform import Caches
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, product

Step = Kernel | Extern
Axes = tuple[Symbol | None, ...]
LOOK_BACK = 24  # steps before a product among which a producer of its operands is looked for
DEAR_SHARE = 0.1  # of the time for multiplying, what evaluating an element again may take
STORED_COST = 0.2  # units of storing an element and reading it again
VECTOR_BYTES = 32  # of the vectors that costs are counted in


def fuse_prologues(
    steps: Sequence[Step], buffers: Mapping[str, Buffer], caches: Caches, depends: Callable[[Step, Step], bool]
) -> tuple[list[Step], list[tuple[Step, Step, Fuse | NoFuse]]]:
    """`depends(later, earlier)` says what must not change places."""
    result, uses = list(steps), _uses(steps)
    taken: list[tuple[Step, Step, Fuse | NoFuse]] = []
    number = 0
    while number < len(result):
        step = result[number]
        if isinstance(step, Extern) and step.routine == "matmul":
            for name in dict.fromkeys(r.buffer for r in step.operands):
                found = _producer(result, number, name)
                if found is None:
                    continue
                before, now = result[found], result[number]
                assert isinstance(before, Kernel) and isinstance(now, Extern)
                outcome = _taken_over(result, found, number, buffers[name], uses, caches, depends)
                taken.append((before, now, outcome))
                if isinstance(outcome, Fuse):
                    number -= _move(result, found, number, name)
        number += 1
    return result, taken


@dataclass(frozen=True, slots=True)
class _Uses:
    """How many of the steps read and store each buffer, before any was put into a product; the products' buffers."""

    read: Counter[str]
    stored: Counter[str]
    products: frozenset[str]


def _uses(steps: Sequence[Step]) -> _Uses:
    effects = [effects_of(s) for s in steps]
    made = (r.buffer for s in steps if isinstance(s, Extern) and s.routine == "matmul" for r in s.results)
    return _Uses(
        Counter(n for e in effects for n in e.read), Counter(n for e in effects for n in e.stored), frozenset(made)
    )


def _producer(steps: Sequence[Step], number: int, name: str) -> int | None:
    """The number of the last step before number `number` that stores the buffer `name`, if that is a kernel."""
    for found in range(number - 1, max(-1, number - 1 - LOOK_BACK), -1):
        if name in effects_of(steps[found]).stored:
            return found if isinstance(steps[found], Kernel) else None
    return None


def _move(steps: list[Step], found: int, number: int, name: str) -> int:
    """Puts the code for `name` into the product; how many steps are gone."""
    kernel, step = steps[found], steps[number]
    assert isinstance(kernel, Kernel) and isinstance(step, Extern)
    one = _for_one(kernel, name)
    assert one is not None
    steps[number] = replace(step, prologues=(*step.prologues, one))
    rest = _for_others(kernel, name)
    if rest is None:
        del steps[found]
        return 1
    steps[found] = rest
    return 0


def _taken_over(
    steps: Sequence[Step],
    found: int,
    number: int,
    buffer: Buffer,
    uses: _Uses,
    caches: Caches,
    depends: Callable[[Step, Step], bool],
) -> Fuse | NoFuse:
    """Whether the product number `number` computes the elements of `buffer`, as the kernel number `found` does."""
    kernel, step, name = steps[found], steps[number], buffer.name
    assert isinstance(kernel, Kernel) and isinstance(step, Extern)
    if buffer.kind != "workspace":
        return NoFuse(f"{name} is seen by the caller")
    if uses.products & effects_of(kernel).read and any(_finishes(kernel, s) for s in reversed(steps[:found])):
        return NoFuse(f"{name} is finished behind the product that it is made of")
    if uses.read[name] > 1:
        return NoFuse(f"{name} has more readers than the product")
    if uses.stored[name] > 1:
        return NoFuse(f"{name} is stored more than once")
    if sum(r.buffer == name for r in step.operands) > 1:
        return NoFuse(f"{name} is both operands")
    one, rest = _for_one(kernel, name), _for_others(kernel, name)
    if one is None:
        return NoFuse("the producer is not pointwise")
    if one.tables or one.local or may_raise(one.stages[0].body):
        return NoFuse("the producer has checks or memory of its own")
    if rest is not None and _shared_cost(kernel, one, rest) > STORED_COST:
        return NoFuse("what the producer stores for others too is too dear to be computed twice")
    (side,) = [k for k, r in enumerate(step.operands) if r.buffer == name]
    between = [*([] if rest is None else [rest]), *steps[found + 1 : number]]
    if any(depends(s, one) for s in between) or effects_of(step).stored & effects_of(one).loaded:
        return NoFuse("what the producer reads is stored to before the product is made")
    operand = step.operands[side]
    axes = axes_of(one, operand)
    if axes is None:
        return NoFuse("the product reads another array than the producer makes")
    if inner_axis(one.stages[0].body, axes) is None:
        return NoFuse("the producer is no code for vectors along either axis")
    return decide(reading_of(step, side, buffer.dtype.itemsize), evaluation_cost(one.stages[0].body), caches)


def _for_one(kernel: Kernel, name: str) -> Kernel | None:
    """The code that stores into the buffer `name`, as a kernel of its own; None where it is not pointwise. Of small
    kernels that became one point, one after the other, it is a stage."""
    stages = [s for s in kernel.stages if name in facts_of(s.body).stored]
    if len(stages) != 1 or kernel.accumulators or kernel.serial or stages[0].sequential:
        return None
    (stage,) = stages
    if not (is_pointwise(kernel) or (not kernel.outer and stage.loops)):
        return None
    body = without_dead(stage.body, facts_of(stage.body).stored - {name})
    return replace(kernel, outer=(*kernel.outer, *stage.loops), stages=(replace(stage, loops=(), body=body),))


def _for_others(kernel: Kernel, name: str) -> Kernel | None:
    """The code that stores into other buffers."""
    bodies = [(s, without_dead(s.body, frozenset((name,)))) for s in kernel.stages]
    stages = tuple(replace(s, body=body) for s, body in bodies if body.instructions)
    return replace(kernel, stages=stages) if stages else None


def _finishes(kernel: Kernel, product: Step) -> bool:
    """Whether the kernel can run behind a product, on its tiles."""
    if not isinstance(product, Extern) or product.routine != "matmul":
        return False
    return product.results[0].buffer in effects_of(kernel).read and isinstance(fitting(product, kernel), Kernel)


def _shared_cost(kernel: Kernel, *parts: Kernel) -> float:
    """Cost units of what several parts of the kernel compute."""
    once, all_parts = (sum(evaluation_cost(s.body) for k in ks for s in k.stages) for ks in ((kernel,), parts))
    return all_parts - once


# ---- the decision -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """How a product reads an operand. `times` is how often an element is packed, None where that is not known, and
    `shared` by how many rows or columns of the other operand each time; `rows` are those of the left operand; `matrix`
    is what is packed at once, in bytes, where each matrix of a stack is packed on its own, else None."""

    side: str  # "left" or "right"
    rows: Size
    times: int | None
    shared: int
    itemsize: int
    matrix: Size | None = None


def decide(reading: Reading, cost: float, caches: Caches) -> Fuse | NoFuse:
    """Whether elements of `cost` units are computed where they are packed.

    >>> once = Reading("right", 1024, 1, 1024, 4)
    >>> print(decide(once, 5.0, Caches()).reason)
    the right operand is computed where it is packed, once
    >>> print(decide(Reading("left", 1024, 4, 256, 4), 0.15, Caches()).reason)
    the left operand is computed where it is packed, 4 times, which is cheap
    >>> print(decide(Reading("left", 1024, 4, 256, 4), 0.65, Caches()).reason)
    the left operand is packed 4 times, and 0.65 units an element are too dear for that
    >>> print(decide(Reading("left", 1, 1, 256, 4), 0.15, Caches()).reason)
    nothing is packed for a product of so few rows
    """
    if isinstance(reading.rows, int) and reading.rows < FEW_ROWS:
        return NoFuse("nothing is packed for a product of so few rows")
    size = reading.matrix
    if isinstance(size, int) and size <= caches.second // CACHED_RIGHT:
        return NoFuse("the matrices of the stack are small and read as they lie, not packed one by one")
    where = f"the {reading.side} operand is computed where it is packed"
    if reading.times == 1:
        return Fuse(f"{where}, once")
    often = "any number of" if reading.times is None else f"{reading.times}"
    work = reading.shared * reading.itemsize / (SUMS_PER_UNIT * VECTOR_BYTES)
    if cost > DEAR_SHARE * work:
        dear = f"{cost:.2g} units an element are too dear for that"
        return NoFuse(f"the {reading.side} operand is packed {often} times, and {dear}")
    return Fuse(f"{where}, {often} times, which is cheap")


def reading_of(step: Extern, side: int, itemsize: int) -> Reading:
    """How the product reads its operand number `side`."""
    (result,) = step.results
    turned = is_turned(result.layout)
    layout = step.operands[side].layout
    m, n = result.layout.shape[-2:]
    rows, columns = (n, m) if turned else (m, n)
    batch = list(zip(layout.shape[:-2], layout.strides[:-2], strict=True))
    again = product(size for size, along in batch if along == 0)
    if (side == 0) != turned:
        blocks: Size = (columns + TASK_COLUMNS - 1) // TASK_COLUMNS
        shared = min(columns, TASK_COLUMNS) if isinstance(columns, int) else TASK_COLUMNS
        return Reading("left", rows, _known(again * blocks), shared, itemsize)
    if all(along == 0 or size == 1 for size, along in batch):
        return Reading("right", rows, 1, 1, itemsize)
    matrix = product(layout.shape[-2:]) * itemsize
    return Reading("right", rows, _known(again), rows if isinstance(rows, int) else FEW_ROWS, itemsize, matrix)


def _known(size: Size) -> int | None:
    return max(size, 1) if isinstance(size, int) else None


def evaluation_cost(body: Body) -> float:
    """Cost units of computing an element, without storing it."""
    return sum(instruction_cost(i) for i in body.instructions if not isinstance(i, Store))


# ---- the code -----------------------------------------------------------------------------------------------------


def axes_of(kernel: Kernel, region: Region) -> Axes | None:
    """For each axis of an operand the loop of the kernel that stores it, None where the operand stays the same; or None
    if the kernel does not store just what the region shows."""
    stores = [a for s in kernel.stages for a in accesses(s.body) if a.buffer == region.buffer]
    if len(stores) != 1 or stores[0].mode != "set":
        return None
    loops = loops_of_axes(region.layout, stores[0].index, kernel.outer)
    return None if loops is None else tuple(None if loop is None else loop.variable for loop in loops)


def inner_axis(body: Body, axes: Axes) -> int | None:
    """The axis of the operand's last two, -1 or -2, along which elements are computed side by side: one along which all
    that is loaded stays, or lies side by side."""
    fitting = [k for k in (-1, -2) if _is_plain_along(body, axes[k])]
    varying = [k for k in fitting if axes[k] is not None]
    return next(iter((*varying, *fitting)), None)


def _is_plain_along(body: Body, variable: Symbol | None) -> bool:
    column = NO_COLUMN if variable is None else variable
    return all(isinstance(i, Store) or is_plain(i, column) for i in facts_of(body).instructions)
