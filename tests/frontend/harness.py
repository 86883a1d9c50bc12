"""One small NumPy function, run twice: by NumPy on arrays, and through the frontend, a recorder and the interpreter.

What goes in: a function `f(np, *arrays)` written with the namespace it is given, and example arrays. What comes out:
an assertion that both agree in values, dtype, shape, kind (NumPy scalar, 0-d array, Python value), strides of axes
longer than one, writeable flag, memory shared with arguments and among results, and in what was written to the
arguments.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from broadloom.capture.recipe import apply_view
from broadloom.dtypes import DType, from_numpy
from broadloom.frontend import ATTRIBUTES, FUNCTIONS, METHODS, Unsupported, entry_of, getitem, setitem, ufunc_method
from broadloom.graph.interpret import interpret
from broadloom.graph.ir import TensorType
from broadloom.graph.recorder import Place, Recorder
from broadloom.graph.storage import ArrayHandle, WeakScalar

BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"
COMPARE = "lt le gt ge eq ne"


def unwrap(x: Any) -> Any:
    if isinstance(x, Traced | Weak):
        return x.value
    if isinstance(x, Function):
        return x.real
    if isinstance(x, tuple | list):
        return type(x)(unwrap(e) for e in x)
    if isinstance(x, slice):
        return slice(unwrap(x.start), unwrap(x.stop), unwrap(x.step))
    if isinstance(x, dict):
        return {k: unwrap(v) for k, v in x.items()}
    return x


def wrap(r: Recorder, x: Any) -> Any:
    if isinstance(x, ArrayHandle):
        return Traced(r, x)
    if isinstance(x, tuple):
        return tuple.__new__(type(x), [wrap(r, e) for e in x])
    return [wrap(r, e) for e in x] if isinstance(x, list) else x


def call(r: Recorder, entry: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return wrap(r, entry(r, *unwrap(args), **unwrap(kwargs)))


@dataclass(frozen=True, eq=False)
class Weak:
    """A runtime Python number."""

    value: WeakScalar


@dataclass(eq=False)
class Traced:
    """An array of the recorded program with the face of an ndarray."""

    __array_ufunc__ = None  # NumPy scalars defer to it, as to an ndarray

    r: Recorder
    value: ArrayHandle

    def __getattr__(self, name: str) -> Any:
        if name in ATTRIBUTES:
            return call(self.r, ATTRIBUTES[name], self)
        if name in METHODS:
            return lambda *args, **kwargs: call(self.r, METHODS[name], self, *args, **kwargs)
        raise AttributeError(name)

    def __getitem__(self, key: Any) -> Any:
        return call(self.r, getitem, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        call(self.r, setitem, self, key, value)

    def __len__(self) -> int:
        return self.value.shape[0]

    def __neg__(self) -> Any:
        return call(self.r, FUNCTIONS[operator.neg], self)

    def __pos__(self) -> Any:
        return call(self.r, FUNCTIONS[operator.pos], self)

    def __invert__(self) -> Any:
        return call(self.r, FUNCTIONS[operator.invert], self)

    def __abs__(self) -> Any:
        return call(self.r, FUNCTIONS[operator.abs], self)

    def __divmod__(self, other: Any) -> Any:
        return call(self.r, FUNCTIONS[divmod], self, other)


def _binary(name: str) -> None:
    function = getattr(operator, name if name not in ("and", "or") else name + "_")
    inplace = getattr(operator, "i" + name)
    setattr(Traced, f"__{name}__", lambda a, b: call(a.r, FUNCTIONS[function], a, b))
    setattr(Traced, f"__r{name}__", lambda a, b: call(a.r, FUNCTIONS[function], b, a))

    def into(a: Traced, b: Any) -> Any:
        result = call(a.r, FUNCTIONS[inplace], a, b)
        return a if isinstance(result, Traced) and result.value is a.value else result

    setattr(Traced, f"__i{name}__", into)


for _name in BINARY.split():
    _binary(_name)


def _comparison(name: str) -> None:
    function = getattr(operator, name)
    setattr(Traced, f"__{name}__", lambda a, b: call(a.r, FUNCTIONS[function], a, b))


for _name in COMPARE.split():
    _comparison(_name)


class Namespace:
    """`numpy`, with the functions of the table in the place of NumPy's."""

    def __init__(self, r: Recorder, module: Any = np) -> None:
        self._r, self._module = r, module

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._module, name)
        if type(real) is type(np):
            return Namespace(self._r, real)
        if not callable(real) or (isinstance(real, type) and real not in FUNCTIONS):
            return real
        return Function(self._r, real)


@dataclass
class Function:
    r: Recorder
    real: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        entry = entry_of(self.real)
        if entry is None:
            raise Unsupported(f"{self.real} is not in the table")
        return call(self.r, entry, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        entry = ufunc_method(self.real, name)
        return lambda *args, **kwargs: call(self.r, entry, *args, **kwargs)


# ---- running ---------------------------------------------------------------------------------------------------------


def record(f: Callable[..., Any], arrays: Sequence[Any]) -> tuple[Recorder, Any, list[Any]]:
    """Record f; Python floats among the arguments are runtime numbers."""
    r = Recorder("f")
    traced: list[Any] = []
    for i, a in enumerate(arrays):
        if isinstance(a, float):
            traced.append(Weak(WeakScalar(r.scalar_input(f"x{i}"), "f")))
            continue
        d: DType = from_numpy(a.dtype)
        strides = tuple(s // a.itemsize for s in a.strides)
        order = tuple(sorted(range(a.ndim), key=lambda k, a=a: (-abs(a.strides[k]), k)))
        traced.append(Traced(r, r.input(f"x{i}", TensorType(d, a.shape), strides, order, writeable=a.flags.writeable)))
    result = f(Namespace(r), *traced)
    return r, result, traced


def leaves(x: Any) -> list[Any]:
    if isinstance(x, tuple | list):
        return [leaf for e in x for leaf in leaves(e)]
    return [x]


def place_array(place: Place, outputs: Sequence[np.ndarray], arguments: Sequence[np.ndarray]) -> Any:
    base = outputs[place.index] if place.kind == "output" else arguments[place.index]
    for step in place.views:
        attrs = step.attributes
        base = apply_view(base, step.op, attrs)
    return base[()] if place.scalar else base


def clone(a: Any) -> Any:
    """A copy with the same strides."""
    if not isinstance(a, np.ndarray):
        return a
    low = sum((n - 1) * s for n, s in zip(a.shape, a.strides, strict=True) if s < 0) if a.size else 0
    high = sum((n - 1) * s for n, s in zip(a.shape, a.strides, strict=True) if s > 0) if a.size else 0
    buffer = np.zeros(high - low + a.itemsize, np.uint8)
    copy = np.ndarray(a.shape, a.dtype, buffer, -low, a.strides)
    copy[...] = a
    copy.flags.writeable = a.flags.writeable
    return copy


def check(f: Callable[..., Any], *arrays: Any, exact: bool = True, strides: bool = True) -> None:
    """NumPy and the frontend agree on f of these arrays."""
    theirs = [clone(a) for a in arrays]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = leaves(f(np, *theirs))
    r, result, traced = record(f, arrays)
    got = leaves(result)
    assert len(got) == len(expected), (got, expected)
    handles = [g.value for g in got if isinstance(g, Traced)]
    recorded = r.finish(handles)
    ours = [clone(a) for a in arrays]
    outputs = interpret(recorded.graph, ours)
    places = iter(recorded.places)
    actual: list[Any] = []
    for g in got:
        actual.append(place_array(next(places), outputs, ours) if isinstance(g, Traced) else g)
    for g, a, e in zip(got, actual, expected, strict=True):
        compare(a, e, exact, strides)
        if isinstance(e, np.ndarray) and isinstance(g, Traced):
            assert g.value.writeable == e.flags.writeable, f"writeable {g.value.writeable}, NumPy {e.flags.writeable}"
    for a, e in zip(ours, theirs, strict=True):
        compare(a, e, exact, strides)
    compare_sharing(actual, expected, ours, theirs)
    for g, e in zip(got, expected, strict=True):
        for t, x in zip(traced, theirs, strict=True):
            if isinstance(g, Traced) and isinstance(t, Traced):
                assert (g.value is t.value) == (e is x), f"identity with an argument: NumPy {e is x}"


def compare(a: Any, e: Any, exact: bool, strides: bool) -> None:
    assert type(a) is type(e), f"type {type(a)}, NumPy {type(e)}"
    if not isinstance(e, np.ndarray | np.generic):
        assert a == e, (a, e)
        return
    assert a.dtype == e.dtype, f"dtype {a.dtype}, NumPy {e.dtype}"
    assert a.shape == e.shape, f"shape {a.shape}, NumPy {e.shape}"
    same = same_values(np.asarray(a), np.asarray(e), exact)
    assert same, f"values\n{a}\nNumPy\n{e}"
    if isinstance(e, np.ndarray) and strides and e.size:
        ours = [s for s, n in zip(a.strides, a.shape, strict=True) if n > 1]
        theirs = [s for s, n in zip(e.strides, e.shape, strict=True) if n > 1]
        assert ours == theirs, f"strides {a.strides}, NumPy {e.strides} of shape {e.shape}"


def same_values(a: np.ndarray, e: np.ndarray, exact: bool) -> bool:
    if e.dtype.kind in "fc" or e.dtype.name == "bfloat16":
        wide = np.complex128 if e.dtype.kind == "c" else np.float64
        x, y = a.astype(wide), e.astype(wide)
        if exact:
            # -0.0 and 0.0 differ, one nan is as good as another
            parts = ((x.real, y.real), (x.imag, y.imag)) if e.dtype.kind == "c" else ((x, y),)
            return all(
                bool(np.all((p == q) & (np.signbit(p) == np.signbit(q)) | np.isnan(p) & np.isnan(q))) for p, q in parts
            )
        eps = float(np.finfo(e.dtype).eps) if e.dtype.name != "bfloat16" else 2.0**-7
        return bool(np.allclose(x, y, rtol=64 * eps, atol=64 * eps, equal_nan=True))
    return bool(np.array_equal(a, e))


def compare_sharing(actual: Sequence[Any], expected: Sequence[Any], ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if not isinstance(e, np.ndarray):
            continue
        pairs = [*zip(ours, theirs, strict=True), *zip(actual[:i], expected[:i], strict=True)]
        for k, (x, y) in enumerate(pairs):
            if isinstance(y, np.ndarray):
                mine, numpys = np.shares_memory(a, x), np.shares_memory(e, y)
                assert mine == numpys, f"result {i} shares memory with {k}: {mine}, NumPy {numpys}"


def refused(f: Callable[..., Any], *arrays: Any) -> Unsupported:
    """The refusal of f, which nothing was recorded of."""
    try:
        record(f, arrays)
    except Unsupported as error:
        return error
    raise AssertionError("the frontend took it")
