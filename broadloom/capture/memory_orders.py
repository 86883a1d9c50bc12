"""Memory orders that depend on which axes have one element or none: guarded, or left to a specialisation of their own.

What goes in: the results of a recording, and the sizes of this call. What comes out: guards on sizes, and the order of
this call in the layout of each result; or the sizes that have to be constants, for which the call is captured again.

What holds: with its guards, a recording gives every result the strides that NumPy gives it, but for those of axes of
one element and of arrays without elements, by which no element is found. One recording serves all sizes where the order
is the same for all, which is tried out where that is cheap, and else taken to depend on them. Sizes above one are all
alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from broadloom.errors import Location
from broadloom.graph.ir import Order
from broadloom.graph.order import dense_layout
from broadloom.graph.origins import Inadmissible, behind, concrete, is_plain, layouts_at
from broadloom.graph.storage import ArrayHandle, Storage
from broadloom.graph.strides import ORDINARY, Operand, dense_strides, representatives
from broadloom.records import dataclass
from broadloom.symbolic import Expr, ShapeEnv, Size, Symbol, evaluate, free_symbols, gt

MOST_STEPS = 1500  # layouts worked out, and sizes ruled out, to find that an order is the same for all sizes


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about shape and strides by whose answer a program arranged a result."""

    handle: ArrayHandle
    ask: Callable[[Operand], Any]
    answer: Any


def settle_orders(
    env: ShapeEnv, results: Sequence[ArrayHandle], questions: Sequence[Asked], location: Location | None
) -> frozenset[Symbol]:
    """Guards sizes in `env`, and gives fresh results the order of this call. If symbols come back, the recording is
    wrong for this call, or a guard would be for it alone: they have to be constants."""
    shown = dict.fromkeys(h.storage for h in results if h.storage.input is None and not h.storage.origin.plain)
    stored = [ArrayHandle(s, (), s.type, s.layout.strides) for s in shown]
    open_ = [q for q in questions if q.handle.ndim > 1 and not is_plain(q.handle)]
    steps = behind([*stored, *(q.handle for q in open_)])
    sizes = _sizes(steps)
    symbols = frozenset(s for n in sizes for s in free_symbols(n))
    if not symbols:
        return frozenset()
    hints = {s: env.hint(s) for s in symbols}
    now, layouts = layouts_at(steps, hints)
    right = all(q.ask(now[q.handle]) == q.answer for q in open_)
    orders = {s: layouts[s].order for s in shown}
    if not right or _depends(env, steps, orders, open_, hints):
        few = frozenset(s for n in sizes if env.hint(n) < 2 for s in free_symbols(n))
        if few or not right:
            return few or symbols
        for n in sizes:
            env.decide(gt(n, 1), location)
    for s, order in orders.items():
        if s.layout.order != order:  # also where the sizes at hand show no difference: others that are let in may
            s.layout = dense_layout(representatives(s.type.shape), order, s.type.dtype.itemsize)
    return frozenset()


def _agree(shape: Sequence[int], a: Order, b: Order) -> bool:
    """Whether arrays of these orders have their elements in the same places."""
    strides = (dense_strides(shape, order, 1) for order in (a, b))
    return a == b or 0 in shape or all(n == 1 or s == t for n, s, t in zip(shape, *strides, strict=True))


def _depends(
    env: ShapeEnv,
    steps: Sequence[ArrayHandle],
    orders: Mapping[Storage, Order],
    questions: Sequence[Asked],
    hints: Mapping[Symbol, int],
) -> bool:
    """Whether other sizes that the guards let in may give other orders or answers."""
    tried = 0
    sizes = _sizes(steps)
    for values in _trials(env, hints, sizes):
        tried += 1 + len(sizes) // 4 if values is None else len(steps)
        if tried > MOST_STEPS:
            return True
        if values is None:
            continue
        try:
            there, layouts = layouts_at(steps, values)
        except Inadmissible:
            continue
        if any(q.ask(there[q.handle]) != q.answer for q in questions):
            return True
        if not all(_agree(concrete(s.type.shape, values), layouts[s].order, order) for s, order in orders.items()):
            return True
    return False


def _trials(env: ShapeEnv, hints: Mapping[Symbol, int], sizes: Sequence[Expr]) -> Iterator[dict[Symbol, int] | None]:
    """All ways to give each size none, one and more elements, or those of this call; None for those that the guards do
    not allow."""
    reduced = {s: env.simplify(s) for s in hints}
    free = sorted({t for n in reduced.values() if isinstance(n, Expr) for t in free_symbols(n)}, key=lambda s: s.name)
    few = (1, 0) if all(isinstance(n, Symbol) for n in sizes) else (1, 2, 3, 0)  # where n > 1, n - 1 may be one
    choices = [[n for n in dict.fromkeys((ORDINARY, *few, env.hint(s))) if n >= s.lo] for s in free]
    for chosen in itertools.product(*choices):
        values = dict(zip(free, chosen, strict=True))
        try:
            values |= {s: evaluate(n, values) for s, n in reduced.items()}
            allowed = all(evaluate(n, values) >= 0 for n in sizes)
            allowed = allowed and all(r.holds(values) for r in env.guards if r.symbols <= values.keys())
        except ZeroDivisionError:  # nor can a call have sizes of which one is divided by none
            allowed = False
        yield values if allowed else None


def _sizes(steps: Sequence[ArrayHandle]) -> list[Expr]:
    """The symbolic sizes of the arrays, each once."""
    found: dict[Size, None] = dict.fromkeys(n for h in steps for n in (*h.storage.type.shape, *h.shape))
    return [n for n in found if isinstance(n, Expr)]
