"""Pointwise code behind a product of matrices becomes part of it: it runs on each tile of sums while that is in the
cache.

What goes in: the steps of a program. What comes out: the same steps, where a kernel that takes the elements of a
product one by one stands in the product's `epilogue`, and the decisions taken. What holds: such a kernel has one loop
for each axis of the product, in the product's order; it loads the product at the element of its point alone; it stores
nothing that the product reads. The product itself is stored only where others load it (the attribute `kept`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from broadloom.fusion.decide import Fuse
from broadloom.fusion.handlers import accesses, effects_of, facts_of, instructions_of
from broadloom.fusion.ir import Extern, Kernel, Layout, Load, Loop
from broadloom.fusion.merge import NoFuse, is_pointwise
from broadloom.fusion.products import is_turned
from broadloom.fusion.vectors import is_plain
from broadloom.symbolic import Size, Symbol, coefficient

Step = Kernel | Extern
LOOK_AHEAD = 8  # steps behind a product among which its consumer is looked for


def fuse_epilogues(
    steps: Sequence[Step], outputs: frozenset[str], depends: Callable[[Step, Step], bool]
) -> tuple[list[Step], list[tuple[Step, Step, Fuse | NoFuse]]]:
    """`outputs` are the buffers that the caller sees; `depends(later, earlier)` says what must not change places."""
    result = list(steps)
    taken: list[tuple[Step, Step, Fuse | NoFuse]] = []
    for number in range(len(steps) - 1, -1, -1):
        step = result[number]
        if not isinstance(step, Extern) or step.routine != "matmul" or step.epilogue is not None:
            continue
        name = step.results[0].buffer
        found = _consumer(result, number, name, depends)
        if found is None:
            continue
        other = result[found]
        assert isinstance(other, Kernel)
        fitted = fitting(step, other)
        if isinstance(fitted, NoFuse):
            taken.append((step, other, fitted))
            continue
        stored = name in facts_of(other.stages[0].body).stored
        others = (s for k, s in enumerate(result) if k not in (number, found))
        kept = not stored and (name in outputs or any(name in effects_of(s).loaded for s in others))
        del result[found]
        attrs = tuple(sorted((*step.attrs, ("kept", kept))))
        result[number] = replace(step, epilogue=fitted, attrs=attrs)
        taken.append((step, other, Fuse(f"{name} is finished tile by tile")))
    return result, taken


def _consumer(steps: Sequence[Step], number: int, name: str, depends: Callable[[Step, Step], bool]) -> int | None:
    """The first step behind number `number` that reads the buffer `name`, if it is a kernel that may run as early."""
    for found in range(number + 1, min(len(steps), number + 1 + LOOK_AHEAD)):
        step = steps[found]
        if name in effects_of(step).loaded:
            between = steps[number + 1 : found]
            return found if isinstance(step, Kernel) and not any(depends(step, s) for s in between) else None
    return None


def fitting(product: Extern, kernel: Kernel) -> Kernel | NoFuse:
    """The kernel as an epilogue of the product, its loops in the product's order."""
    if not is_pointwise(kernel) or kernel.tables:
        return NoFuse("the consumer is not pointwise")
    body, (result,) = kernel.stages[0].body, product.results
    found = {i.index for i in instructions_of(body) if isinstance(i, Load) and i.buffer == result.buffer}
    others = {a.index for a in accesses(body) if a.buffer == result.buffer and a.mode != "load"}
    if len(found) != 1 or others - found:
        return NoFuse("the product is read at another point than it is made")
    (index,) = found
    axes = loops_of_axes(result.layout, index, kernel.outer)
    if axes is None:
        return NoFuse("the consumer does not run over the elements of the product")
    loops = tuple(loop for loop in axes if loop is not None)
    column = _column(result.layout, loops)
    if column is None or not all(is_plain(i, column) for i in body.instructions):
        return NoFuse("the consumer is no code for vectors of columns")
    if effects_of(product).read & facts_of(body).stored:
        return NoFuse("the consumer stores what the product reads")
    return replace(kernel, outer=loops)


def loops_of_axes(layout: Layout, index: Size, outer: Sequence[Loop]) -> tuple[Loop | None, ...] | None:
    """For each axis of an operand the loop that runs along it, by the strides in the index, None where all elements are
    one; or None where the loops and the index are not just those of the layout."""
    rest, left, found = index, list(outer), list[Loop | None]()
    for size, step in zip(layout.shape, layout.strides, strict=True):
        if size == 1 or step == 0:
            found.append(None)
            continue
        for loop in left:
            split = coefficient(rest, loop.variable)
            if loop.extent == size and split is not None and split[0] == step:
                rest = split[1]
                found.append(loop)
                left.remove(loop)
                break
        else:
            return None
    return tuple(found) if not left and rest == layout.offset else None


def _column(layout: Layout, loops: Sequence[Loop]) -> Symbol | None:
    """The variable along which the elements of the product lie side by side."""
    given = iter(loops)
    variables = [next(given).variable if size != 1 else None for size in layout.shape]
    last = len(variables) - 1
    return variables[last - 1 if is_turned(layout) else last]
