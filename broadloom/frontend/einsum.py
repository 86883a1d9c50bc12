"""numpy.einsum, as views, products, sums and matrix products of two operands at a time.

What goes in: subscripts and operands, or operands and lists of ints. What comes out: what NumPy gives - a view of a
single operand that is not summed, else a fresh array in the dtype of the operands. What holds: integers wrap around in
that dtype, bool is `or` of `and`, float16 is added up in float32 and rounded once. The order of contractions is
NumPy's (`np.einsum_path`), and its greedy one where NumPy's own loop would take all operands at once.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.operands import as_array, call, cast, constant, known_dtype, promote
from broadloom.frontend.shaping import Order, order_of, permuted
from broadloom.frontend.ufuncs import as_out, deliver, scalar
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.graph.strides import representative
from broadloom.records import dataclass
from broadloom.symbolic import Expr, Size

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe", "same_value")
Labels = tuple[str, ...]  # a letter, or "...k" for the k-th broadcast axis from the end


@dataclass(frozen=True, slots=True)
class Term:
    """An operand, with one label an axis."""

    x: ArrayHandle
    labels: Labels

    def size(self, label: str) -> Size:
        return self.x.shape[self.labels.index(label)]


def np_einsum(
    r: Recorder,
    *operands: Any,
    out: object = None,
    optimize: Any = False,
    dtype: object = None,
    order: str = "K",
    casting: str = "safe",
) -> ArrayHandle:
    """`numpy.einsum`."""
    kind = order_of(order)
    if casting not in CASTINGS:
        raise plain_numpy_raises(f"casting must be one of {', '.join(CASTINGS)}, got {casting!r}")
    subscripts, arrays = _subscripts(operands)
    given = [as_array(r, a) for a in arrays]
    labels, result = _labels(subscripts, given, optimize is not False)
    terms = [_diagonal(r, Term(x, own)) for x, own in zip(given, labels, strict=True)]
    sizes = _sizes(r, terms)
    target = as_out(out)
    if len(terms) == 1 and target is None and set(terms[0].labels) == set(result):
        return scalar(r, _view(r, given[0], terms[0], result))
    d = _dtype(given, target, dtype, casting)
    path = _path(terms, result, sizes, optimize)
    product = bool(optimize) and len(path[-1]) == 2  # NumPy leaves the last step to np.multiply or np.matmul
    if optimize is False or optimize is None:
        terms, step_dtype = [Term(r.promote(t.x, _wide(d)), t.labels) for t in terms], None
    else:
        step_dtype = None if dtype is None else d
    made, summed = _contracted(r, terms, path, result, sizes, step_dtype)
    value = shapes.permute(r, made.x, [made.labels.index(label) for label in result])
    if not product and not summed and d.is_inexact:
        value = call(r, "add", value, constant(r, 0, value.dtype))  # its own loop adds to 0, which makes 0.0 of -0.0
    value = cast(r, value, d)
    if target is not None:
        return deliver(r, value, target, casting)
    value = _ordered(r, value, terms, result, sizes, kind, product)
    return value if product and summed else scalar(r, value)


def np_einsum_path(r: Recorder, *operands: Any, optimize: Any = "greedy") -> Any:
    """`numpy.einsum_path`, which asks for shapes alone."""
    subscripts, arrays = _subscripts(operands)
    given = [as_array(r, a) for a in arrays]
    if any(isinstance(n, Expr) for x in given for n in x.shape):
        raise Unsupported("einsum_path of symbolic sizes", "compile with dynamic=False, or take the path outside")
    stand_ins = [np.broadcast_to(np.int8(0), [representative(n) for n in x.shape]) for x in given]
    try:
        return np.einsum_path(subscripts, *stand_ins, optimize=optimize)
    except (ValueError, TypeError, KeyError) as error:
        raise plain_numpy_raises(f"einsum_path: {error}") from error


# ---- subscripts -----------------------------------------------------------------------------------------------------


def _subscripts(operands: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The text of the subscripts, and the operands."""
    if not operands:
        raise plain_numpy_raises("must provide at least an operand and a subscripts list to einsum")
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), operands[1:]
    pairs = len(operands) // 2
    text = ",".join(_letters(labels) for labels in operands[1 : 2 * pairs : 2])
    if len(operands) % 2:
        text += "->" + _letters(operands[-1])
    return text, operands[: 2 * pairs : 2]


def _letters(labels: Any) -> str:
    """A list of ints and Ellipsis as text."""
    if not isinstance(labels, (list, tuple)):
        raise plain_numpy_raises("subscripts for each operand must be a list or tuple")
    found = []
    for label in labels:
        if label is Ellipsis:
            found.append("...")
            continue
        try:
            number = operator.index(label)
        except TypeError as error:
            raise plain_numpy_raises("each subscript must be either an integer or an ellipsis") from error
        if not 0 <= number < len(LETTERS):
            raise plain_numpy_raises(f"subscript is not within the valid range [0, {len(LETTERS)})")
        found.append(LETTERS[number])
    return "".join(found)


def _labels(subscripts: str, given: Sequence[ArrayHandle], optimized: bool) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result. With a path, NumPy sums broadcast axes that the result leaves out;
    without, it refuses."""
    inputs, arrow, output = subscripts.partition("->")
    parts = inputs.split(",")
    if len(parts) != len(given):
        raise plain_numpy_raises("einsum: the number of operands is not the number of subscripts")
    found = [_operand_labels(part, x.ndim) for part, x in zip(parts, given, strict=True)]
    spread = max((sum(label.startswith("...") for label in own) for own in found), default=0)
    broadcast = tuple(f"...{k}" for k in range(spread, 0, -1))
    letters = [label for own in found for label in own if not label.startswith("...")]
    if not arrow:
        return found, (*broadcast, *sorted(x for x in set(letters) if letters.count(x) == 1))
    before, dots, after = _split(output)
    if len({*before, *after}) != len(before) + len(after) or not set(before + after) <= set(letters):
        raise plain_numpy_raises("einsum: an output subscript appears twice, or in no operand")
    if broadcast and not dots and not optimized:
        raise plain_numpy_raises("einsum: the output has no '...' for the axes that are broadcast")
    return found, (*before, *(broadcast if dots else ()), *after)


def _split(text: str) -> tuple[str, bool, str]:
    """What stands before and after an ellipsis, and whether there is one."""
    before, dots, after = text.partition("...")
    if any(c not in LETTERS for c in before + after):
        raise plain_numpy_raises(f"einsum: {text!r} is not a list of letters with at most one '...'")
    return before, bool(dots), after


def _operand_labels(text: str, ndim: int) -> Labels:
    before, dots, after = _split(text)
    spread = ndim - len(before) - len(after)
    if spread < 0 or (spread and not dots):
        raise plain_numpy_raises(f"einsum: {text!r} does not fit an operand with {ndim} axes")
    return (*before, *(f"...{k}" for k in range(spread, 0, -1)), *after)


# ---- operands -------------------------------------------------------------------------------------------------------


def _diagonal(r: Recorder, t: Term) -> Term:
    """A view in which every label stands once."""
    x, labels = t.x, list(t.labels)
    while len(set(labels)) < len(labels):
        i = next(k for k, label in enumerate(labels) if label in labels[k + 1 :])
        j = labels.index(labels[i], i + 1)
        if not shapes.same(r, x.shape[i], x.shape[j]):
            raise plain_numpy_raises(f"einsum: the axes of the repeated index {labels[i]!r} differ in size")
        x = r.view("diagonal", x, offset=0, axis1=i - x.ndim, axis2=j - x.ndim)
        label = labels[i]
        labels = [*(own for k, own in enumerate(labels) if k not in (i, j)), label]
    return Term(x, tuple(labels))


def _sizes(r: Recorder, terms: Iterable[Term]) -> dict[str, Size]:
    sizes: dict[str, Size] = {}
    for t in terms:
        for label, n in zip(t.labels, t.x.shape, strict=True):
            sizes[label] = shapes.broadcast_sizes(r, sizes.get(label, 1), n)
    return sizes


def _view(r: Recorder, given: ArrayHandle, t: Term, result: Labels) -> ArrayHandle:
    x = r.copy(t.x) if given.numpy_scalar else t.x
    axes = [t.labels.index(label) for label in result]
    return permuted(r, x, axes) if x is given else shapes.permute(r, x, axes)


def _dtype(given: Sequence[ArrayHandle], target: ArrayHandle | None, dtype: object, casting: Any) -> DType:
    """The dtype that the sums are made in."""
    d = promote(*(x.dtype for x in given)) if dtype is None else known_dtype(dtype)
    if d is dtypes.bfloat16:
        raise plain_numpy_raises("invalid data type for einsum")
    casts = [(x.dtype, d) for x in given] + ([(d, target.dtype)] if target is not None else [])
    if not all(np.can_cast(old.numpy, new.numpy, casting) for old, new in casts):
        raise plain_numpy_raises(f"einsum: an operand or out could not be cast to {d} according to {casting!r}")
    return d


def _aligned(r: Recorder, t: Term, labels: Labels) -> ArrayHandle:
    """The view with an axis for each of `labels`, of one element where the term has none."""
    own = [label for label in labels if label in t.labels]
    x = shapes.permute(r, t.x, [t.labels.index(label) for label in own])
    shape = tuple(t.size(label) if label in t.labels else 1 for label in labels)
    return shapes.reshape(r, x, shape)


def _ordered(
    r: Recorder,
    value: ArrayHandle,
    terms: Sequence[Term],
    result: Labels,
    sizes: Mapping[str, Size],
    kind: Order,
    product: bool,
) -> ArrayHandle:
    """The result in NumPy's memory order: that of one loop over all indices, or of a `product` of two."""
    if kind == "K" and product:
        return value
    if kind == "K":
        summed = tuple(sorted(label for label in sizes if label not in result))
        views = [_aligned(r, t, (*result, *summed)) for t in terms]
        return r.arrange(value, views, tuple(sizes[label] for label in summed))
    if kind == "A":
        kind = "F" if all(r.contiguous(t.x, fortran=True) for t in terms) else "C"
    return r.copy(value, kind)


# ---- contraction ----------------------------------------------------------------------------------------------------


def _path(terms: Sequence[Term], result: Labels, sizes: Mapping[str, Size], optimize: Any) -> list[tuple[int, ...]]:
    """Which operands to contract, step after step; a new one stands last. A path changes the result by rounding alone,
    so ordinary sizes stand for symbolic ones."""
    letter = dict(zip(sizes, LETTERS, strict=False))
    if len(letter) < len(sizes):
        raise plain_numpy_raises("einsum: too many indices")
    text = ",".join("".join(letter[label] for label in t.labels) for t in terms)
    stand_ins = []
    for t in terms:
        shape = [1 if n == 1 else representative(sizes[label]) for label, n in zip(t.labels, t.x.shape, strict=True)]
        stand_ins.append(np.broadcast_to(np.int8(0), shape))
    wanted = f"{text}->{''.join(letter[label] for label in result)}"
    try:
        found = np.einsum_path(wanted, *stand_ins, optimize="greedy" if optimize in (False, None) else optimize)[0]
    except (ValueError, TypeError, KeyError, IndexError, RuntimeError) as error:
        raise plain_numpy_raises(f"einsum: {error}") from error
    return [tuple(sorted(step, reverse=True)) for step in found[1:]]


def _wide(d: DType) -> DType:
    """The dtype that sums in `d` are made in."""
    return dtypes.float32 if d is dtypes.float16 else d


def _contracted(
    r: Recorder,
    terms: Sequence[Term],
    path: Sequence[tuple[int, ...]],
    result: Labels,
    sizes: Mapping[str, Size],
    dtype: DType | None,
) -> tuple[Term, bool]:
    """What the path makes, and whether its last step was a sum of products. Each step is made in `dtype` or, as in
    NumPy, in that of its operands."""
    left = list(terms)
    summed = False
    for number, step in enumerate(path):
        chosen = [left.pop(k) for k in step]
        needed = {*result, *(label for t in left for label in t.labels)}
        wanted = result if number == len(path) - 1 else _order({x for t in chosen for x in t.labels} & needed, sizes)
        d = dtype or promote(*(t.x.dtype for t in chosen))
        if len(chosen) != 2:
            chosen = [Term(r.promote(t.x, _wide(d)), t.labels) for t in chosen]
        made, summed = chosen[0], False
        for k, other in enumerate(chosen[1:], 1):
            later = {label for t in chosen[k + 1 :] for label in t.labels}
            made, summed = _pair(r, made, other, needed | later, wanted, d if len(chosen) == 2 else _wide(d))
        made = _summed(r, made, needed)
        made = Term(cast(r, made.x, d), made.labels)
        left.append(made if wanted is result else Term(_aligned(r, made, wanted), wanted))
    return left[0], summed


def _order(labels: Iterable[str], sizes: Mapping[str, Size]) -> Labels:
    """The axes of an intermediate result as NumPy puts them: the shorter ones first."""
    return tuple(sorted(labels, key=lambda label: (representative(sizes[label]), label)))


def _summed(r: Recorder, t: Term, needed: set[str]) -> Term:
    """Without the labels that nothing needs."""
    axes = tuple(k - len(t.labels) for k, label in enumerate(t.labels) if label not in needed)
    if not axes:
        return t
    total = call(r, "any" if t.x.dtype is dtypes.bool_ else "sum", t.x, axes=axes, keepdims=False)
    return Term(total, tuple(label for label in t.labels if label in needed))


def _pair(r: Recorder, a: Term, b: Term, needed: set[str], wanted: Labels, dtype: DType) -> tuple[Term, bool]:
    """The product of two terms, summed over what nothing needs, and whether an index of both was. What one of them
    alone has is summed first, in its own dtype."""
    a, b = _without_ones(r, a, b, needed), _without_ones(r, b, a, needed)
    emptied = [_has_no_elements(t) for t in (a, b)]
    a, b = (_summed(r, x, needed | set(other.labels)) for x, other in ((a, b), (b, a)))
    a, b = (Term(r.promote(t.x, dtype), t.labels) for t in (a, b))
    both = [label for label in a.labels if label in b.labels]
    batch, inner = [x for x in both if x in needed], [x for x in both if x not in needed]
    rows, columns = ([x for x in t.labels if x not in both] for t in (a, b))
    if not inner:
        labels = tuple(x for x in wanted if x in (*a.labels, *b.labels))
        if len(labels) < len({*a.labels, *b.labels}):
            labels = (*batch, *rows, *columns)
        factors = [_aligned(r, t, labels) for t in (a, b)]
        # an array without elements has no memory order of its own: NumPy sums it straight into this one
        factors = [r.copy(x, "C") if was else x for x, was in zip(factors, emptied, strict=True)]
        return Term(call(r, "logical_and" if dtype is dtypes.bool_ else "multiply", *factors), labels), False
    return _matrix_product(r, a, b, batch, rows, inner, columns), True


def _has_no_elements(t: Term) -> bool:
    return any(n == 0 for n in t.x.shape)


def _without_ones(r: Recorder, t: Term, other: Term, needed: set[str]) -> Term:
    """Without axes of one element that nothing needs, or that are longer in the other term: the element is the same
    for all of them."""

    def drops(label: str, n: Size) -> bool:
        if n == 1 and label not in needed:
            return True
        return label in other.labels and _is_one(r, n, other.size(label))

    gone = [k for k, (label, n) in enumerate(zip(t.labels, t.x.shape, strict=True)) if drops(label, n)]
    if not gone:
        return t
    return Term(shapes.drop_axes(r, t.x, gone), tuple(x for k, x in enumerate(t.labels) if k not in gone))


def _is_one(r: Recorder, n: Size, other: Size) -> bool:
    return n is not other and n != other and not shapes.same(r, n, other) and shapes.same(r, n, 1)


def _matrix_product(
    r: Recorder, a: Term, b: Term, batch: list[str], rows: list[str], inner: list[str], columns: list[str]
) -> Term:
    """Axes of one kind are joined, so that there is at most one of rows, one summed, and one of columns."""

    def joined(t: Term, *groups: list[str]) -> ArrayHandle:
        moved = _aligned(r, t, tuple(label for group in (batch, *groups) for label in group))
        sizes = [shapes.count(t.size(label) for label in group) for group in groups if group]
        return shapes.reshape(r, moved, (*(t.size(label) for label in batch), *sizes))

    left, right = joined(a, rows, inner), joined(b, inner, columns)
    op = {(0, 0): "vecdot", (0, 1): "vecmat", (1, 0): "matvec", (1, 1): "matmul"}[bool(rows), bool(columns)]
    if op in ("vecdot", "vecmat") and left.dtype.kind == "c":
        left = call(r, "conj", left)  # those two conjugate their first operand
    product = call(r, op, left, right)
    shape = (*(a.size(x) for x in (*batch, *rows)), *(b.size(x) for x in columns))
    return Term(shapes.reshape(r, product, shape), (*batch, *rows, *columns))
