"""`PackedTensor`: integers of 1 to 7 bits, packed in bytes without gaps.

What goes in: bytes, the place of the elements in them, a dtype of `dtypes.PACKED`. What comes out: a tensor that is
indexed, assigned to and computed with as others are, modulo 2**bits, and takes `bits` bits for each element.

What holds: element number n lies in bits n * bits to (n + 1) * bits of the bytes, the lowest first, whatever the shape;
bytes come in whole groups of eight elements. Views share the bytes: a view is an offset and strides, counted in
elements. `__tensor_unflatten__(*x.__tensor_flatten__())` equals x: a subclass shows its arrays and how to put them
together, and whoever compiles or maps a function works on the arrays. Here every operation unpacks its operands, runs
the function's entry in the frontend and packs the result; a compiled function does all of it in one kernel.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import ml_dtypes
import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.errors import DTypeError
from broadloom.frontend import packed
from broadloom.frontend.entry import Entry
from broadloom.frontend.unsupported import Unsupported
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.ops.table import OPS
from broadloom.records import dataclass
from broadloom.tensor import dispatch
from broadloom.tensor.bits import GROUP, Place, dense, pack_bytes, unpack_bytes
from broadloom.tensor.dispatch import Tensor, Version, made
from broadloom.tensor.eager import EagerBuilder
from broadloom.tensor.operations import Operation
from broadloom.tensor.stack import active

Array = np.ndarray[Any, Any]
FOREIGN: dict[Any, DType] = {
    np.dtype(ml_dtypes.uint4): dtypes.uint4,
    np.dtype(ml_dtypes.int4): dtypes.int4,
    np.dtype(ml_dtypes.uint2): dtypes.uint2,
    np.dtype(ml_dtypes.int2): dtypes.int2,
}  # of ml_dtypes, whose arrays take a byte for each element


@dataclass(frozen=True, slots=True)
class Metadata:
    """What `__tensor_unflatten__` needs besides the bytes."""

    dtype: DType
    shape: tuple[int, ...]


def _number(kind: type) -> Any:
    def convert(self: PackedTensor) -> Any:
        return kind(self.numpy())

    return convert


class PackedTensor(Tensor):
    """A tensor of integers of 1 to 7 bits; see the module docstring. Made by `bl.asarray(x, dtype=bl.uint3)`.

    >>> x = from_numpy(np.array([1, 6, 7]), dtypes.uint3)
    >>> x + x, x.nbytes
    (Tensor([2, 4, 6], dtype=uint3), 2)
    """

    __slots__ = ("_bytes", "_dtype", "_place")
    _bytes: Array
    _dtype: DType
    _place: Place

    # ---- the subclass protocol ----------------------------------------------------------------------------------

    def __tensor_flatten__(self) -> tuple[tuple[Array, ...], Metadata]:
        """The arrays that the tensor is made of, and what else there is to know."""
        return (self.packed_bytes,), Metadata(self._dtype, self.shape)

    @classmethod
    def __tensor_unflatten__(cls, arrays: tuple[Array, ...], metadata: Metadata) -> Self:
        """The tensor of these bytes, which it shares. Raises `DTypeError` if they are not its."""
        (data,) = arrays
        needed = packed.byte_count(math.prod(metadata.shape), metadata.dtype.bits)
        if data.dtype != np.uint8 or data.shape != (needed,):
            raise DTypeError("bytes of a packed tensor", got=f"{data.dtype}{data.shape}", allowed=f"uint8[{needed}]")
        return cls._of(data, metadata.dtype, dense(metadata.shape), Version())

    @classmethod
    def _of(cls, data: Array, dtype: DType, place: Place, version: Version) -> Self:
        t = object.__new__(cls)
        t._bytes, t._dtype, t._place, t._version = data, dtype, place, version
        return t

    @property
    def is_whole(self) -> bool:
        """Whether the tensor's own bytes hold its elements in order and nothing else."""
        whole = self._place == dense(self.shape)
        return whole and self._bytes.size == packed.byte_count(self.size, self._dtype.bits)

    @property
    def packed_bytes(self) -> Array:
        """The bytes of the elements in order: its own, or new ones for a view."""
        return self._bytes if self.is_whole else pack_bytes(self.numpy(), self._dtype)

    # ---- what an array tells ------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self._place.shape

    @property
    def ndim(self) -> int:
        return len(self._place.shape)

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one element, were it alone."""
        return 1

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, which lie bit by bit."""
        return (self.size * self._dtype.bits + 7) // 8

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one to the next, by axis."""
        return self._place.strides

    def numpy(self) -> Array:
        """The elements as an array of uint8 or int8 of its own."""
        first, last = self._place.window
        bits = self._dtype.bits
        flat = unpack_bytes(self._bytes[first * bits : last * bits], self._dtype)
        return self._place.in_array(flat, first * GROUP).copy()

    def write(self, values: Array) -> None:
        """Gives the elements new values, modulo 2**bits."""
        first, last = self._place.window
        bits = self._dtype.bits
        part = self._bytes[first * bits : last * bits]
        flat = unpack_bytes(part, self._dtype)
        if self.size:
            self._place.in_array(flat, first * GROUP)[...] = values.astype(self._dtype.wide.numpy)
            part[...] = pack_bytes(flat, self._dtype)
        self._version.count += 1

    def viewed(self, step: Callable[[Array], Any]) -> Any:
        """The tensor that `step`, of an ndarray, makes without a copy; None if it copies."""
        memory = np.empty(max(1, self._bytes.size // self._dtype.bits * GROUP), np.uint8)
        before = self._place.in_array(memory, 0) if self.size else np.empty(self.shape, np.uint8)
        after = step(before)
        if not isinstance(after, np.ndarray) or (after.size and not np.may_share_memory(after, memory)):
            return None
        offset = after.ctypes.data - memory.ctypes.data if after.size else 0
        return self._of(self._bytes, self._dtype, Place(after.shape, after.strides, offset), self._version)

    # ---- every function and method ------------------------------------------------------------------------------

    @classmethod
    def __tensor_call__(cls, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A call of the door with packed tensors, or their dtypes, among its arguments."""
        if active():
            return _interpreted(function, args, kwargs)
        return _eager(function, args, kwargs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array of packed integers is a copy; remedy: leave out copy=False")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.numpy().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the CPU

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedTensor.__tensor_unflatten__, ((self.packed_bytes.copy(),), Metadata(self._dtype, self.shape))

    def item(self, *args: Any) -> Any:
        return self.numpy().item(*args)

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The bytes of the elements, in which they are packed."""
        if order not in ("C", None):
            raise ValueError(f"tobytes of packed integers; got order {order!r}; allowed: 'C'")
        return self.packed_bytes[: self.nbytes].tobytes()

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a tensor without axes")
        return (self[i] for i in range(self.shape[0]))

    def __repr__(self) -> str:
        text = repr(self.numpy().view(dispatch._Printed))
        return text.rpartition("dtype=")[0] + f"dtype={self._dtype})"

    def __str__(self) -> str:
        return str(self.numpy())

    def __format__(self, spec: str) -> str:
        return format(self.numpy(), spec)

    __bool__, __int__, __float__, __complex__ = map(_number, (bool, int, float, complex))

    def __index__(self) -> int:
        return operator.index(self.numpy())


def from_numpy(values: Any, dtype: DType) -> PackedTensor:
    """A packed tensor of an array's values, modulo 2**bits."""
    array = np.asarray(values)
    return PackedTensor._of(pack_bytes(array, dtype), dtype, dense(array.shape), Version())


# ---- at once ---------------------------------------------------------------------------------------------------------

# What may give a view of its first argument.
VIEWING = frozenset(
    f"x.{name}{brackets}"
    for brackets, names in (
        ("", ("T", "mT", "real")),
        ("()", ("transpose", "reshape", "ravel", "squeeze", "swapaxes", "diagonal")),
    )
    for name in names
) | {"x[key]"}
VIEWING_FUNCTIONS = frozenset(
    {np.transpose, np.reshape, np.ravel, np.squeeze, np.swapaxes, np.moveaxis, np.rollaxis, np.expand_dims, np.flip,
     np.fliplr, np.flipud, np.rot90, np.diagonal, np.broadcast_to, np.matrix_transpose, np.atleast_1d, np.atleast_2d,
     np.atleast_3d, np.real}
)  # fmt: skip


# What gives elements of its arguments, their places or their number: how many depends on data.
SELECTING = frozenset(
    {np.unique, np.unique_all, np.unique_counts, np.unique_inverse, np.unique_values, np.nonzero, np.flatnonzero,
     np.argwhere, np.extract, np.trim_zeros, np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d}
)  # fmt: skip


def _eager(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    name, run, entry = _described(function)
    first = args[0] if args else None
    if isinstance(first, PackedTensor):
        if name == "x[key]":
            return _item(first, args[1])
        if name == "x[key] = value":
            return _assign(first, args[1], args[2])
        if name in VIEWING or function in VIEWING_FUNCTIONS:
            seen = first.viewed(lambda x: run(x, *args[1:], **kwargs))
            if seen is not None:
                return seen
    if function in (np.asarray, np.array, np.asanyarray) and isinstance(kwargs.get("dtype"), DType):
        return _converted(first, **kwargs)
    if function in (np.array_equal, np.allclose, np.array_equiv):
        return run(*(np.asarray(a) if isinstance(a, Tensor) else a for a in args), **kwargs)
    if function in SELECTING or (function is np.where and len(args) == 1):
        return _selected(function, args, kwargs)
    if entry is None:
        raise TypeError(f"{name} of packed integers; remedy: cast first, x.astype(np.int8) or np.uint8")
    return _computed(name, entry, args, kwargs)


def _described(function: Any) -> tuple[str, Callable[..., Any], Entry | None]:
    if isinstance(function, Operation):
        return function.name, function.run, function.entry
    return getattr(function, "__name__", str(function)), function, dispatch._entry(function)


def _item(x: PackedTensor, key: Any) -> Any:
    """`x[key]`: a view where NumPy gives one, and a copy where NumPy gives a scalar."""
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(k, (list, np.ndarray, Tensor, bool, np.bool)) for k in keys):
        return from_numpy(x.numpy()[_plain(key)], x.dtype)
    open_ended = keys if any(k is ... for k in keys) else (*keys, ...)
    seen = x.viewed(lambda a: a[open_ended])
    return seen.copy() if not seen.ndim and open_ended is not keys else seen


def _plain(key: Any) -> Any:
    return packed.mapped(key, lambda k: np.asarray(k) if isinstance(k, Tensor) else k)


def _assign(x: PackedTensor, key: Any, value: Any) -> None:
    for v in packed.leaves(value):
        if type(v) is int and not packed.fits(v, x.dtype):
            raise OverflowError(f"Python integer {v} out of bounds for {x.dtype}")
    values = x.numpy()
    with np.errstate(all="ignore"):
        values[_plain(key)] = _as_integers(np.asarray(_plain(value)), x.dtype)
    x.write(values)


def _selected(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A function of `SELECTING`, by NumPy on unpacked arrays of the common dtype."""
    found = [x for x in packed.leaves(args) if isinstance(x, (Tensor, np.ndarray))]
    common = dtypes.promote(*(x.dtype if isinstance(x, PackedTensor) else dtypes.from_numpy(x.dtype) for x in found))

    def outward(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple.__new__(type(x), map(outward, x))
        packs = common.is_packed and isinstance(x, (np.ndarray, np.generic)) and x.dtype == common.wide.numpy
        return from_numpy(x, common) if packs else dispatch.wrap(x)

    def inward(x: Any) -> Any:
        if not isinstance(x, (Tensor, np.ndarray)):
            return x
        return np.asarray(x).astype(common.wide.numpy)

    return outward(function(*packed.mapped(args, inward), **kwargs))


def _converted(x: Any, dtype: DType, copy: bool | None = None, device: Any = None) -> Any:
    """`asarray` to a packed dtype: of nested lists, arrays (those of ml_dtypes as well) and tensors."""
    if device not in (None, "cpu"):
        raise ValueError(f"asarray; got device {device!r}; allowed: 'cpu'")
    if isinstance(x, PackedTensor) and x.dtype is dtype and not copy:
        return x
    if copy is False:
        raise ValueError(f"packing into {dtype} is a copy; remedy: leave out copy=False")
    for v in packed.leaves(x):
        if type(v) is int and not packed.fits(v, dtype):
            raise OverflowError(f"Python integer {v} out of bounds for {dtype}")
    array = np.asarray(packed.mapped(x, lambda v: np.asarray(v) if isinstance(v, Tensor) else v))
    return from_numpy(_as_integers(array, dtype), dtype)


def _as_integers(array: Array, dtype: DType) -> Array:
    """An array in the wide dtype, by the rules of `cast`."""
    if array.dtype in FOREIGN:
        return array.astype(FOREIGN[array.dtype].wide.numpy)
    reference: Array = OPS["cast"].reference(array, dtype=dtype.wide)
    return reference


def _computed(name: str, entry: Entry, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The entry over the eager interpreter, on unpacked operands."""
    builder = EagerBuilder()
    recorder = Recorder(builder=builder)
    known: dict[int, tuple[Any, ArrayHandle, Any]] = {}  # by the id of the object

    def inward(x: Any) -> Any:
        if not isinstance(x, (Tensor, np.ndarray)):
            return x
        if id(x) not in known:
            foreign = None if isinstance(x, Tensor) else FOREIGN.get(x.dtype)
            array = x.numpy() if isinstance(x, Tensor) else x if foreign is None else _as_integers(x, foreign)
            value = builder.adopt(array)
            handle = recorder.adopt(value, writeable=array.flags.writeable)
            handle.packed = x.dtype if isinstance(x, PackedTensor) else foreign
            known[id(x)] = x, handle, value
        return known[id(x)][1]

    given, named = (packed.mapped(tuple(args), inward), {k: packed.mapped(v, inward) for k, v in kwargs.items()})
    run = packed.run if packed.found(given) or packed.found(named) else _unpacked
    try:
        results = run(entry.name, entry.plain, recorder, given, named)
    except Unsupported as error:
        raise TypeError(str(error)) from error
    for x, handle, value in known.values():
        if handle.storage.value != value:
            written = builder.array(handle.storage.value)
            if isinstance(x, PackedTensor):
                x.write(written)
            else:
                (x if isinstance(x, Tensor) else made(x))[...] = written
    back = {id(handle): x for x, handle, _ in known.values()}
    return _outward(recorder, builder, back, results)


def _unpacked(name: str, plain: Callable[..., Any], r: Recorder, args: Any, kwargs: Mapping[str, Any]) -> Any:
    return plain(r, *args, **kwargs)


def _outward(recorder: Recorder, builder: EagerBuilder, back: Mapping[int, Any], result: Any) -> Any:
    if isinstance(result, ArrayHandle):
        if id(result) in back:
            return back[id(result)]
        array = builder.array(recorder.read(result))
        return made(array.copy()) if result.packed is None else from_numpy(array, result.packed)
    if isinstance(result, (tuple, list)):
        parts = [_outward(recorder, builder, back, e) for e in result]
        return tuple.__new__(type(result), parts) if isinstance(result, tuple) else parts
    return result


# ---- over an interpreter ---------------------------------------------------------------------------------------------


def _interpreted(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The call on handles of the interpreter, in which packed integers are marked."""
    interpreter = active()[-1]

    def inward(x: Any) -> Any:
        if not isinstance(x, PackedTensor):
            return x
        handle = interpreter.lift(x)
        handle.packed = x.dtype
        return dispatch.traced(interpreter, handle)

    given, named = (packed.mapped(tuple(args), inward), {k: packed.mapped(v, inward) for k, v in kwargs.items()})
    name, run, entry = _described(function)
    return active()[-1].call(name, run, entry, given, named)
