"""The one door through which every array function goes, and `Tensor`, the value that goes through it.

What goes in: a function - NumPy's own, or a function of the frontend that NumPy lacks - and its arguments. What comes
out: its result, in which arrays are tensors. Without an interpreter on the stack the function runs at once: NumPy's
by NumPy itself, which is the reference of all that the op table says; the frontend's over the eager interpreter. With
one, the function's entry in the frontend runs over the interpreter's recorder, as it does when a graph is captured.

What holds: a tensor shares its memory with the NumPy array that it was made of and with its views, and all of these
share one version, which every write through a tensor raises. A tensor of an interpreter has no memory of its own.
Results are never NumPy scalars: a tensor of no axes stands for one.
"""

from __future__ import annotations

import math
import operator
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from broadloom.dtypes import DType
from broadloom.errors import TransformError
from broadloom.frontend.entry import Entry
from broadloom.frontend.table import entry_of, ufunc_method
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.tensor.eager import EagerBuilder
from broadloom.tensor.operations import GETITEM, SETITEM, Array, ArrayMethods, Operation, Run, run_entry
from broadloom.tensor.stack import Interpreter, active
from broadloom.tensor.users import user_location

# NumPy's functions that write to their first argument.
WRITING: frozenset[Run] = frozenset(
    {np.copyto, np.place, np.put, np.put_along_axis, np.putmask, np.fill_diagonal, np.ufunc.at}
)
_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), type(...), type, np.dtype, np.ndarray})
_NUMBERS = frozenset({np.bool, np.int64, np.float32, np.float64, np.complex128})
_new = object.__new__


class Version:
    """How often a piece of memory was written through tensors."""

    count = 0  # of the class until the first write: most results are never written, and one is made for each


class Diverted(Exception):
    """A tensor of a class with a protocol of its own is among the arguments."""

    def __init__(self, kind: type) -> None:
        self.kind = kind


def call(function: Run, /, *args: Any, **kwargs: Any) -> Any:
    """Calls an array function: one of NumPy, or a function of the frontend `f(recorder, *args)`.

    Raises what NumPy raises; `TransformError` for what an interpreter cannot take.
    """
    if type(function) is np.ufunc and not kwargs and not active():
        # the straight road, by which most calls go: whole arrays and numbers in, one fresh array out
        plain = []
        for a in args:
            kind = type(a)
            if kind is Tensor:
                plain.append(a._array)
            elif kind in _PLAIN:
                plain.append(a)
            else:
                break
        else:
            if len(plain) == function.nin:
                result = function(*plain)
                if type(result) is np.ndarray:
                    t = _new(Tensor)
                    t._array = result
                    t._version = Version()
                    return t
                return wrap(result)
    try:
        if not active():
            return (
                _own(function, args, kwargs)
                if is_own(function)
                else _eager(function, args, kwargs, function in WRITING)
            )
        name = getattr(function, "__name__", str(function))
        return active()[-1].call(name, function, _entry(function), args, kwargs)
    except Diverted as diverted:
        return diverted.kind.__tensor_call__(function, args, kwargs)  # type: ignore[attr-defined]


def apply(operation: Operation, /, *args: Any, **kwargs: Any) -> Any:
    """As `call`, for a step that is no function of NumPy's: a method, an attribute, an assignment."""
    try:
        if not active():
            return _eager(operation.run, args, kwargs, operation.writes)
        return active()[-1].call(operation.name, operation.run, operation.entry, args, kwargs)
    except Diverted as diverted:
        return diverted.kind.__tensor_call__(operation, args, kwargs)  # type: ignore[attr-defined]


def _entry(function: Run) -> Entry | None:
    u = getattr(function, "__self__", None)
    if isinstance(u, np.ufunc):
        return ufunc_method(u, function.__name__)
    return entry_of(function)


# ---- at once ---------------------------------------------------------------------------------------------------------


def _eager(function: Run, args: tuple[Any, ...], kwargs: Mapping[str, Any], writes: bool) -> Any:
    arrays = [a._array if type(a) is Tensor else a if type(a) in _PLAIN else unwrap(a) for a in args]
    if not kwargs:
        result = function(*arrays)
        out = args[function.nin :] or None if isinstance(function, np.ufunc) else None
    else:
        named = {k: v if type(v) in _PLAIN else unwrap(v) for k, v in kwargs.items()}
        result = function(*arrays, **named)
        out = kwargs.get("out")
    if out is not None:
        return _into(result, out, args)
    if writes:
        _count_write(args[0])
    return wrap(result, args)


def _into(result: Any, out: Any, args: tuple[Any, ...]) -> Any:
    """A result that was written to `out`: that very tensor or array."""
    given = out if isinstance(out, tuple) else (out,)
    for written in given:
        _count_write(written)
    if isinstance(result, tuple):
        return tuple(_into_one(r, o, args) for r, o in zip(result, given, strict=False))
    return _into_one(result, given[0], args)


def _into_one(result: Any, out: Any, args: tuple[Any, ...]) -> Any:
    held = out._array if type(out) is Tensor else out
    return out if held is result else wrap(result, args)


def _count_write(x: Any) -> None:
    if type(x) is Tensor:
        x._version.count += 1


def is_own(function: Run) -> bool:
    """Whether a function is one of the frontend, which NumPy lacks: it gives tensors for arrays too."""
    return isinstance(function, types.FunctionType) and str(function.__module__).startswith("broadloom.frontend")


def _own(function: Run, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A function of the frontend, over the eager interpreter."""
    entry = entry_of(function)
    if entry is None:
        raise TypeError(f"{function.__name__} is not in the frontend's table")
    builder = EagerBuilder()
    recorder = Recorder(builder=builder)

    def inward(x: Any) -> Any:
        return recorder.adopt(builder.adopt(np.asarray(x)), writeable=False)

    def outward(h: ArrayHandle) -> Any:
        axes = sorted(range(h.ndim), key=lambda a: -abs(h.strides[a]))
        array = builder.array(recorder.read(h))
        return made(
            np.array(array.transpose(axes), order="C", copy=True).transpose(np.argsort(np.array(axes, np.intp)))
        )

    result = run_entry(
        entry, recorder, [over(a, inward) for a in args], {k: over(v, inward) for k, v in kwargs.items()}
    )
    return with_tensors(result, outward)


def unwrap(x: Any) -> Any:
    """An argument as NumPy takes it: tensors inside of containers and slices become arrays."""
    kind = type(x)
    if kind in _PLAIN:
        return x
    if kind is slice and type(x.start) in _PLAIN and type(x.stop) in _PLAIN and type(x.step) in _PLAIN:
        return x
    return over(x, lambda t: data_of(t) if isinstance(t, Tensor) else t)


def over(x: Any, f: Callable[[Any], Any]) -> Any:
    """`x` with `f` of each tensor and array in it; containers are made anew only where something changes.

    Raises `Diverted` for a tensor whose class has a protocol of its own, and for the dtype of such tensors.
    """
    if isinstance(x, Tensor):
        if hasattr(type(x), "__tensor_call__"):
            raise Diverted(type(x))
        return f(x)
    if isinstance(x, np.ndarray):
        return f(x)
    if type(x) in (tuple, list):
        new = [over(e, f) for e in x]
        return x if all(a is b for a, b in zip(x, new, strict=True)) else type(x)(new)
    if type(x) is slice:
        return slice(*(over(e, f) for e in (x.start, x.stop, x.step)))
    if type(x) is dict:
        return {k: over(v, f) for k, v in x.items()}
    if type(x) is DType:
        if x.is_packed:
            raise Diverted(sys.modules["broadloom.tensor.packed"].PackedTensor)
        return x.numpy
    return x


def data_of(x: Any, use: str = "its data") -> Array:
    """The array of a tensor. Raises `TransformError` where it stands for many; `use` says what the array is for."""
    if type(x) is Tensor:
        return x._array
    if type(x) is Traced:
        try:
            array = x._interpreter.concrete(x._interpreter.recorder.read(x._handle))[...]
            array.flags.writeable = False  # a write would reach the caller's array past the interpreter
            return array  # type: ignore[no-any-return]
        except TransformError as error:
            if x._interpreter not in active():
                raise TransformError(
                    f"{use} of a value that was kept from a batched function",
                    got=f"a tensor of shape {x.shape} that stands for many, while that function runs",
                    allowed="its use inside of the function",
                    remedy="return it from the function",
                    location=user_location(),
                ) from error
            raise TransformError(
                f"{use} of a batched value",
                got=f"a tensor of shape {x.shape} that stands for many, one for each example",
                allowed="array functions of it",
                remedy=_REMEDIES.get(use, "use array functions, or move it out of the batched function"),
                location=user_location(),
            ) from error
    raise Diverted(type(x))


_INTO_NUMPY = (
    "where it is assigned to an array that NumPy made, make that with bl.zeros or np.zeros_like(x); where it indexes "
    "one, use np.take, or index bl.asarray of it"
)
_REMEDIES = {
    "a condition": "choose with np.where(condition, x, y), which takes both sides",
    "an index or size": "take elements with np.take or x[i], where i is a tensor; no size can depend on data",
    "its data": _INTO_NUMPY,
    "int()": _INTO_NUMPY,
    "float()": _INTO_NUMPY,
    "complex()": _INTO_NUMPY,
}


def wrap(result: Any, sources: Sequence[Any] = ()) -> Any:
    """A result of NumPy as this package gives it; an array that shares memory with a source shares its version.

    An array of a class of its own (masked, a matrix) stays what it is."""
    if isinstance(result, np.ndarray):
        if type(result) is not np.ndarray:
            return result
        shared = _shared(result, sources)
        return made(result) if shared is None else shared
    if type(result) in _NUMBERS:
        return made(np.asarray(result))
    if isinstance(result, np.generic) and result.dtype.kind in "biufcV":
        return made(np.asarray(result))
    if isinstance(result, (tuple, list)):
        parts = [wrap(r, sources) for r in result]
        return tuple.__new__(type(result), parts) if isinstance(result, tuple) else parts
    return result


def _shared(result: Array, sources: Sequence[Any]) -> Any:
    """The source that a result is, or a tensor that shares the version of the source whose memory it shows, if any."""
    base = result.base
    if base is not None and not isinstance(base, np.ndarray):
        base = getattr(base, "base", None)  # what holds the memory of `as_strided`
    for s in sources:
        if type(s) is Tensor:
            array = s._array
            if array is result:
                return s
            if base is not None and (base is array or base is array.base):
                return made(result, s._version)
        elif base is not None and type(s) in (list, tuple):
            found = _shared(result, s)
            if found is not None:
                return found
    return None


def made(array: Array, version: Version | None = None) -> Any:
    """A tensor of an array, which it shares.

    >>> made(np.zeros(2)).shape
    (2,)
    """
    t = _new(Tensor)
    t._array = array
    t._version = Version() if version is None else version
    return t


def data_of_any(x: Any) -> Any:
    """The array of a tensor; an array as it is."""
    return data_of(x) if isinstance(x, Tensor) else x


def traced(interpreter: Interpreter, handle: ArrayHandle) -> Any:
    """A tensor that stands for a value of an interpreter."""
    t = object.__new__(Traced)
    t._interpreter, t._handle = interpreter, handle
    return t


def with_tensors(result: Any, outward: Callable[[ArrayHandle], Any]) -> Any:
    """A result of the frontend: handles become tensors."""
    if isinstance(result, ArrayHandle):
        return outward(result)
    if isinstance(result, (tuple, list)):
        parts = [with_tensors(r, outward) for r in result]
        return tuple.__new__(type(result), parts) if isinstance(result, tuple) else parts
    return wrap(result)


API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


# ---- the tensor ------------------------------------------------------------------------------------------------------


class Tensor(ArrayMethods):
    """An array of n axes and one dtype.

    Made by `asarray`, `zeros` and the other creation functions. It is indexed, assigned to, and taken by the functions
    of this namespace and of NumPy as an `ndarray` is, with NumPy's shapes, dtypes (NEP 50), views and errors.

    Follows the Python array API standard, 2024.12 (https://data-apis.org/array-api/2024.12/).

    >>> x = made(np.arange(6.0).reshape(2, 3))
    >>> x.sum(axis=0)
    Tensor([3., 5., 7.])
    >>> np.sin(x[:, 0]).shape
    (2,)
    """

    __slots__ = ("__weakref__", "_array", "_handle", "_interpreter", "_version")
    _array: Array
    _version: Version
    _interpreter: Interpreter  # these two: of a tensor that stands for a value of an interpreter
    _handle: ArrayHandle

    _call, _apply = staticmethod(call), staticmethod(apply)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        raise TypeError("a Tensor is made by bl.asarray, bl.zeros and the other creation functions")

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        shape: tuple[int, ...] = self._array.shape
        return shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._array.ndim

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._array.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, by axis."""
        return data_of(self, "the strides").strides

    @property
    def version(self) -> int:
        """How often the memory, which views share, was written through tensors."""
        return self._version.count

    @property
    def device(self) -> str:
        """Where the elements are: "cpu"."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """The tensor itself, for the one device there is. Raises `ValueError` for another."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"to_device; got device {device!r}, stream {stream!r}; allowed: 'cpu', no stream")
        return self

    def numpy(self) -> Array:
        """The data as a NumPy array, without a copy."""
        return data_of(self)

    def item(self, *args: Any) -> Any:
        """The element as a Python number."""
        return data_of(self, "item()").item(*args)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return data_of(self, "tolist()").tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The bytes of the elements."""
        return data_of(self, "tobytes()").tobytes(order)

    # ---- protocols ----------------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(data_of(self), dtype=dtype, copy=copy)

    def __array_function__(self, function: Run, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call(function, *args, **kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
        if method == "__call__":
            return call(ufunc, *args, **kwargs)
        result = call(getattr(ufunc, method), *args, **kwargs)
        if method == "at":
            _count_write(args[0])
        return result

    def __array_namespace__(self, /, *, api_version: str | None = None) -> types.ModuleType:
        if api_version not in (None, *API_VERSIONS):
            raise ValueError(f"array API version; got {api_version!r}; allowed: {', '.join(API_VERSIONS)}")
        return sys.modules["broadloom"]

    def __dlpack__(
        self, /, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        array = data_of(self, "DLPack")
        return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return data_of(self, "DLPack").__dlpack_device__()

    def __reduce__(self) -> tuple[Any, ...]:
        return made, (data_of(self, "pickling").copy("K"),)

    def __copy__(self) -> Any:
        return self.copy("K")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.copy("K")

    # ---- indexing and iteration ---------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        return apply(GETITEM, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        apply(SETITEM, self, key, value)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a tensor without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a tensor without axes")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool(call(np.any, self == value))

    # ---- as a Python number -------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(data_of(self, "a condition"))

    def __int__(self) -> int:
        return int(data_of(self, "int()"))

    def __float__(self) -> float:
        return float(data_of(self, "float()"))

    def __complex__(self) -> complex:
        return complex(data_of(self, "complex()"))

    def __index__(self) -> int:
        return operator.index(data_of(self, "an index or size"))

    def __repr__(self) -> str:
        return repr(data_of(self, "its text").view(_Printed))

    def __str__(self) -> str:
        return str(data_of(self, "its text"))

    def __format__(self, spec: str) -> str:
        return format(data_of(self, "its text"), spec)


class Traced(Tensor):
    """A tensor that stands for a value of an interpreter."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self._handle.shape  # type: ignore[return-value]

    @property
    def ndim(self) -> int:
        return self._handle.ndim

    @property
    def dtype(self) -> Any:
        return self._handle.packed or self._handle.dtype.numpy

    @property
    def version(self) -> int:
        return self._handle.storage.version

    def __repr__(self) -> str:
        return f"Tensor(one for each example, shape={self.shape}, dtype={self.dtype})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


class _Printed(np.ndarray[Any, Any]):
    """An array under the name that its text shall begin with."""


for _class in (Traced, _Printed):
    _class.__name__ = "Tensor"  # for whoever sees it in a text or an error
