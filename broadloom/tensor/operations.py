"""What a tensor does as an `ndarray` does: operators, attributes and methods, each of which goes through the door.

What goes in: names of methods and NumPy's functions. What comes out: `ArrayMethods`, the base of tensors that has them,
and `Operation`, a step that is no function of NumPy's. What holds: nothing here computes; a class sets `_call` and
`_apply`, the two ways into the door.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from broadloom.errors import IndexingError, ShapeError, TransformError
from broadloom.frontend.entry import Entry
from broadloom.frontend.members import ATTRIBUTES, METHODS, getitem, setitem
from broadloom.frontend.table import entry_of
from broadloom.frontend.unsupported import BadIndex, NumpyRaises, Unsupported
from broadloom.graph.recorder import Recorder
from broadloom.records import dataclass
from broadloom.tensor.users import user_location

Array = np.ndarray[Any, Any]
Run = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """A step that is no function of NumPy's: how it runs on arrays, and its entry in the frontend, if it has one."""

    name: str
    run: Run
    entry: Entry | None
    writes: bool = False


def run_entry(entry: Entry, recorder: Recorder, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """An entry of the frontend over a recorder. What it refuses is an error for whoever wrote the call."""
    try:
        return entry(recorder, *args, **kwargs)
    except BadIndex as error:
        raise IndexingError(error.what, remedy=error.remedy, location=user_location()) from error
    except NumpyRaises as error:
        raise ShapeError(error.what, remedy=error.remedy, location=user_location()) from error
    except Unsupported as error:
        raise TransformError(error.what, remedy=error.remedy, location=user_location()) from error


WRITING_METHODS = frozenset({"fill", "partition", "put", "sort"})
_OPERANDS = (int, float, complex, np.generic, np.ndarray, list, tuple)


def _setitem(array: Array, key: Any, value: Any) -> None:
    array[key] = value


GETITEM = Operation("x[key]", operator.getitem, getitem)
SETITEM = Operation("x[key] = value", _setitem, setitem, writes=True)


def _operators(function: Run, inplace: Run | None = None) -> tuple[Any, Any, Any]:
    """`x op y`, `y op x` and `x op= y`."""
    updating = Operation(f"x {function.__name__}= y", inplace or function, entry_of(inplace), writes=True)

    def forward(self: ArrayMethods, other: Any) -> Any:
        return self._call(function, self, other) if isinstance(other, _TAKEN) else NotImplemented

    def backward(self: ArrayMethods, other: Any) -> Any:
        return self._call(function, other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def update(self: ArrayMethods, other: Any) -> Any:
        return self._apply(updating, self, other) if isinstance(other, _TAKEN) else NotImplemented

    return forward, backward, update


def _unary(function: Run) -> Any:
    def run(self: ArrayMethods) -> Any:
        return self._call(function, self)

    return run


def _attribute(name: str) -> Any:
    """An attribute of an ndarray."""
    operation = Operation(f"x.{name}", operator.attrgetter(name), ATTRIBUTES.get(name))

    def get(self: ArrayMethods) -> Any:
        return self._apply(operation, self)

    return property(get, doc=f"As `numpy.ndarray.{name}`.")


def _part(name: str) -> Any:
    """`real` or `imag`, which can be set."""
    part = _attribute(name)

    def put(self: Any, value: Any) -> None:
        if name == "imag" and self.dtype.kind != "c":
            raise TypeError("a tensor of real numbers has no imaginary part to set")
        part.fget(self)[...] = value

    return part.setter(put)


def _method(name: str) -> Any:
    """A method of an ndarray."""

    def run(array: Array, *args: Any, **kwargs: Any) -> Any:
        return getattr(array, name)(*args, **kwargs)

    operation = Operation(f"x.{name}()", run, METHODS.get(name), name in WRITING_METHODS)

    def method(self: ArrayMethods, *args: Any, **kwargs: Any) -> Any:
        return self._apply(operation, self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"As `numpy.ndarray.{name}`."
    return method


class ArrayMethods:
    """See the module docstring."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    _call: ClassVar[Run]
    _apply: ClassVar[Run]

    # ---- operators ----------------------------------------------------------------------------------------------

    __add__, __radd__, __iadd__ = _operators(np.add, operator.iadd)
    __sub__, __rsub__, __isub__ = _operators(np.subtract, operator.isub)
    __mul__, __rmul__, __imul__ = _operators(np.multiply, operator.imul)
    __truediv__, __rtruediv__, __itruediv__ = _operators(np.true_divide, operator.itruediv)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _operators(np.floor_divide, operator.ifloordiv)
    __mod__, __rmod__, __imod__ = _operators(np.remainder, operator.imod)
    __pow__, __rpow__, __ipow__ = _operators(operator.pow, operator.ipow)
    __matmul__, __rmatmul__, __imatmul__ = _operators(np.matmul, operator.imatmul)
    __and__, __rand__, __iand__ = _operators(np.bitwise_and, operator.iand)
    __or__, __ror__, __ior__ = _operators(np.bitwise_or, operator.ior)
    __xor__, __rxor__, __ixor__ = _operators(np.bitwise_xor, operator.ixor)
    __lshift__, __rlshift__, __ilshift__ = _operators(np.left_shift, operator.ilshift)
    __rshift__, __rrshift__, __irshift__ = _operators(np.right_shift, operator.irshift)
    __divmod__, __rdivmod__, _ = _operators(np.divmod, operator.iadd)
    __lt__, __le__ = _operators(np.less)[0], _operators(np.less_equal)[0]
    __gt__, __ge__ = _operators(np.greater)[0], _operators(np.greater_equal)[0]
    __eq__, __ne__ = _operators(np.equal)[0], _operators(np.not_equal)[0]
    __neg__, __pos__, __abs__, __invert__ = map(_unary, (np.negative, np.positive, np.absolute, np.invert))

    # ---- attributes and methods of an ndarray -------------------------------------------------------------------

    T, mT = map(_attribute, ("T", "mT"))
    real, imag = map(_part, ("real", "imag"))
    flat, flags, data = map(_attribute, ("flat", "flags", "data"))
    all, any, argmax, argmin, argpartition, argsort = map(
        _method, ("all", "any", "argmax", "argmin", "argpartition", "argsort")
    )
    astype, byteswap, choose, clip, compress, conj = map(
        _method, ("astype", "byteswap", "choose", "clip", "compress", "conj")
    )
    conjugate, copy, cumprod, cumsum, diagonal, dot = map(
        _method, ("conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot")
    )
    fill, flatten, max, mean, min, nonzero = map(_method, ("fill", "flatten", "max", "mean", "min", "nonzero"))
    partition, prod, put, ravel, repeat, reshape = map(
        _method, ("partition", "prod", "put", "ravel", "repeat", "reshape")
    )
    round, searchsorted, sort, squeeze, std, sum = map(
        _method, ("round", "searchsorted", "sort", "squeeze", "std", "sum")
    )
    swapaxes, take, trace, transpose, var, view = map(
        _method, ("swapaxes", "take", "trace", "transpose", "var", "view")
    )


_TAKEN = (ArrayMethods, *_OPERANDS)
