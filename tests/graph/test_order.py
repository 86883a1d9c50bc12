"""The memory order of every family of results, against the strides that NumPy itself gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from broadloom import dtypes
from broadloom.graph import order as orders
from broadloom.graph import strides as geometry
from broadloom.graph.ir import Input, TensorType
from broadloom.graph.strides import Operand
from broadloom.ops.table import OPS
from broadloom.symbolic import Symbol


def operand(x: np.ndarray) -> Operand:
    return Operand(x.shape, x.strides, x.itemsize)


@st.composite
def layouts(draw: Any, shape: tuple[int, ...], broadcast: bool = True) -> np.ndarray:
    """An array of the given shape: permuted, sliced with steps of either sign, and broadcast."""
    ndim = len(shape)
    permutation = draw(st.permutations(range(ndim)))
    kinds = [draw(st.sampled_from(["plain", "plain", "step", "back", "broadcast"])) for _ in shape]
    size = {"plain": lambda n: n, "step": lambda n: 2 * n, "back": lambda n: n, "broadcast": lambda n: 1}
    if not broadcast:
        kinds = ["plain" if k == "broadcast" else k for k in kinds]
    inner = [size[k](n) for k, n in zip(kinds, shape, strict=True)]
    memory = np.arange(1, 1 + int(np.prod(inner)), dtype=np.float64).reshape([inner[a] for a in permutation])
    x = memory.transpose(np.argsort(permutation).tolist())
    key = {"plain": slice(None), "step": slice(None, None, 2), "back": slice(None, None, -1), "broadcast": slice(None)}
    return np.broadcast_to(x[tuple(key[k] for k in kinds)], shape)


shapes = st.lists(st.integers(1, 3), min_size=0, max_size=4).map(tuple)
arrays = shapes.flatmap(layouts)


@st.composite
def pairs(draw: Any, count: int = 2) -> list[np.ndarray]:
    """Operands that broadcast: some have fewer axes or axes of one element."""
    shape = draw(shapes)
    result = []
    for _ in range(count):
        dropped = draw(st.integers(0, len(shape)))
        kept = tuple(1 if draw(st.integers(0, 4)) == 0 else n for n in shape[dropped:])
        result.append(draw(layouts(kept)))
    return result


def check(name: str, attrs: dict[str, Any], operands: list[np.ndarray], result: np.ndarray, *, exact: bool) -> None:
    """The inferred layout of an op has the strides of NumPy's result; inexact: but for axes of one element."""
    op = OPS[name]
    type = TensorType(dtypes.from_numpy(result.dtype), result.shape)
    (layout,) = orders.result_layouts(op, {**op.defaults, **attrs}, [operand(x) for x in operands], [type])
    inferred = geometry.dense_strides(result.shape, layout.order, result.itemsize)
    pairs = zip(result.shape, inferred, result.strides, strict=True)
    same = [(n == 1 and not exact) or a == b for n, a, b in pairs]
    assert all(same), f"{name} {attrs} on {[(x.shape, x.strides) for x in operands]}: {inferred} for {result.strides}"


def negative(axes: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    return tuple(sorted(a - ndim for a in axes))


@given(pairs())
def test_binary_ufuncs_follow_the_k_rule(xs: list[np.ndarray]) -> None:
    check("add", {}, xs, np.asarray(np.add(*xs)), exact=True)


@given(pairs(3))
def test_where_and_clip_follow_the_k_rule(xs: list[np.ndarray]) -> None:
    check("where", {}, [xs[0] > 2, *xs[1:]], np.where(xs[0] > 2, *xs[1:]), exact=False)
    check("clip", {}, xs, np.asarray(np.clip(*xs)), exact=True)


@given(arrays)
def test_copies_and_casts_keep_order(x: np.ndarray) -> None:
    check("cast", {"dtype": dtypes.float32}, [x], x.astype(np.float32), exact=True)
    copied = geometry.dense_strides(x.shape, orders.copy_order(operand(x)), x.itemsize)
    assert copied == np.copy(x, order="K").strides == np.zeros_like(x).strides


@given(arrays, st.data())
def test_reductions_keep_the_order_of_the_axes_that_stay(x: np.ndarray, data: Any) -> None:
    axes = tuple(a for a in range(x.ndim) if data.draw(st.booleans()))
    keepdims = data.draw(st.booleans())
    attrs = {"axes": negative(axes, x.ndim), "keepdims": keepdims}
    for name in ("sum", "mean", "var", "max", "any"):
        result = np.asarray(getattr(np, name)(x, axis=axes, keepdims=keepdims))
        check(name, attrs, [x], result, exact=False)
    if x.ndim:
        axis = data.draw(st.integers(0, x.ndim - 1))
        attrs = {"axis": axis - x.ndim, "keepdims": keepdims}
        check("argmax", attrs, [x], np.asarray(np.argmax(x, axis=axis, keepdims=keepdims)), exact=False)


@given(arrays.filter(lambda x: x.ndim > 0), st.data())
def test_scans_and_movement(x: np.ndarray, data: Any) -> None:
    axis = data.draw(st.integers(0, x.ndim - 1))
    at = axis - x.ndim
    check("cumsum", {"axis": at}, [x], np.cumsum(x, axis=axis), exact=False)
    check("cummax", {"axis": at}, [x], np.maximum.accumulate(x, axis=axis), exact=False)
    check("roll", {"shifts": (1,), "axes": (at,)}, [x], np.roll(x, 1, axis=axis), exact=False)
    check("repeat", {"repeats": 2, "axis": at}, [x], np.repeat(x, 2, axis=axis), exact=False)
    for reps in (1, 2):
        check("tile", {"reps": (reps,)}, [x], np.tile(x, reps), exact=False)
    width = tuple(data.draw(st.integers(0, 2)) for _ in x.shape)
    padded = np.pad(x, [(w, 1) for w in width])
    check("pad", {"before": width, "after": (1,) * x.ndim}, [x, np.zeros(())], padded, exact=False)


@given(shapes.filter(len), st.data())
def test_joining(shape: tuple[int, ...], data: Any) -> None:
    parts = [data.draw(layouts(shape)) for _ in range(data.draw(st.integers(1, 3)))]
    axis = data.draw(st.integers(0, len(shape) - 1))
    check("concat", {"axis": axis - len(shape)}, parts, np.concatenate(parts, axis=axis), exact=False)
    axis = data.draw(st.integers(0, len(shape)))
    check("stack", {"axis": axis - len(shape) - 1}, parts, np.stack(parts, axis=axis), exact=False)


@given(shapes, st.data())
def test_gufuncs(loop: tuple[int, ...], data: Any) -> None:
    loop = loop[:3]
    x, y = data.draw(layouts((*loop, 2, 3))), data.draw(layouts((*loop, 3, 4)))
    check("matmul", {}, [x, y], np.matmul(x, y), exact=False)
    a, b = data.draw(layouts((*loop, 3))), data.draw(layouts((*loop, 3)))
    check("vecdot", {}, [a, b], np.asarray(np.vecdot(a, b)), exact=False)
    square = data.draw(layouts((*loop, 3, 3))) * 0.01 + np.eye(3)
    check("inv", {}, [square], np.linalg.inv(square), exact=False)
    check("det", {}, [square], np.asarray(np.linalg.det(square)), exact=False)


@given(arrays.filter(lambda x: x.ndim > 0), st.data())
def test_indexing(x: np.ndarray, data: Any) -> None:
    axis = data.draw(st.integers(0, x.ndim - 1))
    index_shape = data.draw(shapes.filter(lambda s: len(s) < 4))
    index = data.draw(layouts(index_shape)).astype(np.int64) % x.shape[axis]
    taken = np.asarray(np.take(x, index, axis=axis))
    check("take", {"axis": axis - x.ndim, "index_rank": index.ndim}, [x, index], taken, exact=False)
    along_shape = tuple(2 if a == axis else n for a, n in enumerate(x.shape))
    along = data.draw(layouts(along_shape)).astype(np.int64) % x.shape[axis]
    check("take_along_axis", {"axis": axis - x.ndim}, [x, along], np.take_along_axis(x, along, axis), exact=False)


@given(arrays.filter(lambda x: x.ndim > 0), st.data())
def test_gather_is_advanced_indexing_with_the_index_in_front(x: np.ndarray, data: Any) -> None:
    count = data.draw(st.integers(1, min(x.ndim, 3)))
    axes = sorted(data.draw(st.permutations(range(x.ndim)))[:count])
    raw = [r.astype(np.int64) for r in data.draw(pairs(count))]
    indices = [r % x.shape[a] for r, a in zip(raw, axes, strict=True)]
    key: list[Any] = [slice(None)] * x.ndim
    for a, i in zip(axes, indices, strict=True):
        key[a] = i
    result = np.asarray(x[tuple(key)])
    rank = max(i.ndim for i in indices)
    assume(rank > 0)  # NumPy takes a 0-d array for an integer, which makes a view
    if axes[-1] - axes[0] == count - 1:  # NumPy moves the index dims to the place of adjacent axes
        result = np.moveaxis(result, range(axes[0], axes[0] + rank), range(rank))
    attrs = {"axes": tuple(a - x.ndim for a in axes), "core": x.ndim}
    check("gather", attrs, [x, *indices], result, exact=False)


@given(arrays, st.data())
def test_reshape_is_a_view_where_numpy_makes_one(x: np.ndarray, data: Any) -> None:
    candidates = [(x.size,), (1, *x.shape), (*x.shape, 1), x.shape[::-1], x.shape]
    candidates += [(d, x.size // d) for d in range(1, x.size + 1) if x.size % d == 0]
    candidates += [(a, b, x.size // (a * b)) for a in (1, 2, 3) for b in (1, 2, 3) if x.size % (a * b) == 0]
    candidates += [tuple(n for n in x.shape if n != 1)]
    shape = data.draw(st.sampled_from(candidates))
    strides = geometry.reshape_strides(operand(x), shape)
    reshaped = x.reshape(shape)
    assert (strides is not None) == np.shares_memory(x, reshaped)
    if strides is not None:
        assert [s for s, n in zip(strides, shape, strict=True) if n != 1] == [
            s for s, n in zip(reshaped.strides, shape, strict=True) if n != 1
        ]


@given(arrays.filter(lambda x: x.ndim >= 2), st.data())
def test_views_pass_strides_on(x: np.ndarray, data: Any) -> None:
    ndim = x.ndim
    axes = data.draw(st.permutations(range(ndim)))
    a, b = data.draw(st.permutations(range(ndim)).map(lambda p: p[:2]))
    cases: list[tuple[str, dict[str, Any], np.ndarray]] = [
        ("permute", {"axes": tuple(k - ndim for k in axes)}, x.transpose(axes)),
        ("flip", {"axes": (-1,)}, x[..., ::-1]),
        ("slice", {"starts": (0,), "sizes": (1 + (x.shape[-1] - 1) // 2,), "steps": (2,)}, x[..., ::2]),
        ("diagonal", {"offset": 0, "axis1": a - ndim, "axis2": b - ndim}, np.diagonal(x, 0, a, b)),
        ("expand", {"shape": (5, *x.shape)}, np.broadcast_to(x, (5, *x.shape))),
    ]
    for name, attrs, view in cases:
        type = TensorType(dtypes.float64, view.shape)
        strides = geometry.view_strides(name, attrs, operand(x), type)
        assert [s for s, n in zip(strides, view.shape, strict=True) if n != 1] == [
            s for s, n in zip(view.strides, view.shape, strict=True) if n != 1
        ], name


@given(arrays)
def test_contiguity_flags(x: np.ndarray) -> None:
    assert geometry.is_contiguous(x.shape, x.strides, x.itemsize) == x.flags.c_contiguous
    assert geometry.is_contiguous(x.shape, x.strides, x.itemsize, fortran=True) == x.flags.f_contiguous


@pytest.mark.parametrize(
    ("strides", "order", "expected"),
    [
        ((Symbol("a"), Symbol("b")), (0, 1), (504, 24)),
        ((Symbol("a"), Symbol("b")), (1, 0), (24, 504)),
        ((0, Symbol("b")), (0, 1), (0, 24)),
        ((Symbol("a"), 9), (0, 1), (1512, 72)),
        ((Symbol("n"), 1), (0, 1), (56, 8)),
    ],
)
def test_symbolic_strides_follow_the_order_of_the_input(strides: Any, order: Any, expected: tuple[int, ...]) -> None:
    n = Symbol("n")
    declared = Input("x", TensorType(dtypes.float64, (n, n)), strides, order)
    assert geometry.input_strides(declared) == expected
