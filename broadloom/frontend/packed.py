"""Integers of 1 to 7 bits: how the entries of the table take them, and how they lie in bytes.

What goes in: a call with packed integers among its arguments. What comes out: what the entry gives, the results that
are packed integers again marked as such. A handle with `packed` set holds the elements in their `wide` dtype, uint8 or
int8; nothing is packed but at the ends of a program, so that what is between fuses.

What holds: the elements of such a handle are always in the range of its dtype. The entry computes modulo 2**8, and the
result is reduced modulo 2**bits; that is right for the functions named here (sums and products do not mind, others
cannot leave the range but at the end), and any other function that would give 8-bit integers is refused by its name.
Results of other dtypes - bool, int64 sums, float quotients - are those of uint8 or int8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.operands import call, cast, constant, known_dtype
from broadloom.frontend.selection import Selection
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle, WeakScalar
from broadloom.records import dataclass
from broadloom.symbolic import Expr, Size, floordiv

Run = Callable[..., Any]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Results are elements of the operands, or cannot leave the range.
KEPT = _names("""
    x[key] T mT transpose permute_dims swapaxes moveaxis rollaxis matrix_transpose reshape ravel flatten squeeze
    expand_dims atleast_1d atleast_2d atleast_3d broadcast_to broadcast_arrays flip fliplr flipud rot90 diagonal real
    copy ascontiguousarray asfortranarray asarray array asanyarray concatenate stack vstack hstack dstack column_stack
    append block array_split split hsplit vsplit dsplit unstack repeat tile roll delete insert resize pad take
    take_along_axis compress where select choose max min amax amin nanmax nanmin maximum minimum fmax fmin clip sort
    partition positive pos conjugate conj floor ceil trunc round around fix nan_to_num sign bitwise_and bitwise_or
    bitwise_xor and_ or_ xor right_shift rshift zeros_like ones_like full_like empty_like zeros ones full empty eye
    identity tril triu diag diagflat imag iand ior ixor irshift fill copyto putmask fill_diagonal
""") | {"x[key] = value"}
# Results are right modulo 2**bits if they are modulo 2**8.
REDUCED = _names("""
    add subtract sub multiply mul negative neg square power pow absolute abs floor_divide floordiv remainder mod fmod
    reciprocal invert left_shift lshift gcd lcm divmod matmul dot inner vdot vecdot matvec vecmat outer kron cross
    tensordot einsum convolve correlate diff ediff1d ptp polyval matrix_power multi_dot iadd isub imul ifloordiv imod
    ilshift ipow imatmul
""")
# Step by step, the same: what a step makes of a number modulo 2**8 depends on it modulo 2**bits alone.
STEPWISE = _names("add subtract multiply maximum minimum fmax fmin bitwise_and bitwise_or bitwise_xor logical_and "
                  "logical_or logical_xor")  # fmt: skip
EXPLICIT = _names("astype uint8 int8 bitwise_count")  # an 8-bit result is meant
MAKING = _names("""
    zeros ones full empty zeros_like ones_like full_like empty_like asarray array asanyarray ascontiguousarray astype
    eye identity sum prod cumsum cumprod cumulative_sum cumulative_prod
""")  # which take a packed dtype
REINTERPRETING = _names("view packbits unpackbits")
COMPARING = _names("equal not_equal less less_equal greater greater_equal eq ne lt le gt ge")
# The positions of the arguments whose dtypes decide on the result's; of all others these are the first alone.
DECIDING = {"where": (1, 2), "select": (1,), "choose": (1,), "insert": (0,)}
FIRST_ALONE = _names("""
    x[key] take take_along_axis repeat tile roll delete compress full_like sort partition pad reshape fill fill_diagonal
""")
WRITTEN_FIRST = _names("fill copyto putmask fill_diagonal at") | {"x[key] = value"}
OPERATORS = _names("""
    sub mul floordiv mod pow and_ or_ xor lshift rshift iadd isub imul ifloordiv imod ipow iand ior ixor ilshift irshift
""")
# The positions of Python ints that become elements of the dtype, and so must fit; of ufuncs and operators, all.
ELEMENTS = {
    "where": (1, 2),
    "full_like": (1,),
    "full": (1,),
    "x[key] = value": (2,),
    "fill": (1,),
    "copyto": (1,),
    "putmask": (2,),
    "fill_diagonal": (1,),
    "asarray": (0,),
    "array": (0,),
    "asanyarray": (0,),
    "clip": (1, 2),
    "insert": (2,),
}
OF_LISTS = _names("asarray array asanyarray insert") | {"x[key] = value"}  # which make elements of lists as well


# ---- bytes -----------------------------------------------------------------------------------------------------------


def byte_count(elements: int, bits: int) -> int:
    """The bytes that whole groups of eight elements take; the last group is filled up with zeros."""
    return -(-elements // 8) * bits


def unpack(r: Recorder, data: ArrayHandle, dtype: DType, shape: tuple[Size, ...]) -> ArrayHandle:
    """The elements that lie in bytes."""
    flat = call(r, "unpack", data, bits=dtype.bits, signed=dtype.kind == "i", size=shapes.count(shape))
    return marked(shapes.reshape(r, flat, shape), dtype)


def pack(r: Recorder, x: ArrayHandle) -> ArrayHandle:
    """The bytes of the elements of a packed handle."""
    if x.packed is None:
        raise ValueError("not a handle of packed integers")
    return call(r, "pack", shapes.reshape(r, x, (shapes.count(x.shape),)), bits=x.packed.bits)


def reduced(r: Recorder, x: ArrayHandle, dtype: DType) -> ArrayHandle:
    """Elements of the wide dtype modulo 2**bits, as packed integers."""
    if dtype.kind == "u":
        result = call(r, "bitwise_and", x, constant(r, dtype.limits[1], dtypes.uint8))
    else:
        spare = constant(r, 8 - dtype.bits, dtypes.int8)
        result = call(r, "bitwise_right_shift", call(r, "bitwise_left_shift", x, spare), spare)
    return marked(r.as_scalar(result) if x.numpy_scalar else result, dtype)


def marked(x: ArrayHandle, dtype: DType) -> ArrayHandle:
    """A handle whose elements are in the range of the packed dtype."""
    x.packed = dtype
    return x


# ---- calls -----------------------------------------------------------------------------------------------------------


def found(x: Any) -> bool:
    """Whether there are packed integers, or a dtype of such, among arguments."""
    if isinstance(x, ArrayHandle):
        return x.packed is not None
    if isinstance(x, (tuple, list)):
        return any(map(found, x))
    if isinstance(x, dict):
        return any(map(found, x.values()))
    return type(x) is DType and x.is_packed


def leaves(x: Any) -> Iterator[Any]:
    """What stands in nested lists and tuples."""
    if isinstance(x, (tuple, list)):
        for e in x:
            yield from leaves(e)
    else:
        yield x


def mapped(x: Any, f: Run) -> Any:
    """`x` with `f` of each handle and dtype in it."""
    if type(x) in (tuple, list):
        return type(x)(mapped(e, f) for e in x)
    if isinstance(x, slice):
        return slice(*(mapped(e, f) for e in (x.start, x.stop, x.step)))
    return f(x)


@dataclass(frozen=True, slots=True)
class Call:
    """A call to be run. `common` is the dtype that its deciding operands promote to; `asked` the one asked for by
    `dtype=`, None if none was; `written` the handle that it writes to."""

    name: str
    method: str  # of a ufunc: reduce, accumulate, outer, at; else empty
    common: DType
    asked: DType | None
    written: ArrayHandle | None

    @property
    def result(self) -> DType | None:
        """The packed dtype of results that come out as its wide dtype; None: they are what they are."""
        if self.asked is not None:
            return self.asked if self.asked.is_packed else None
        return self.common if self.common.is_packed and self.name not in EXPLICIT else None


def run(entry: str, plain: Run, r: Recorder, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The call `plain(r, *args, **kwargs)` of the entry of this name. Raises `Unsupported`, and `OverflowError` for a
    Python int that does not fit."""
    answered = _question(entry, args)
    if answered is not None:
        return answered
    c = _read(entry, args, kwargs)
    if c.name == "clip":
        args, kwargs = _clipped(c, args, kwargs)
    _check(c, args, kwargs)
    before = {id(h): h.storage.version for h in _handles(args, kwargs)}

    def inward(x: Any) -> Any:
        if type(x) is DType:
            return x.wide
        return _lifted(r, c, x) if isinstance(x, ArrayHandle) else x

    given = mapped(tuple(args), inward)
    results = plain(r, *given, **{k: mapped(v, inward) for k, v in kwargs.items()})
    for h in _handles(args, kwargs):
        if h.packed is not None and h.storage.version != before[id(h)]:
            r.write(h, reduced(r, h, h.packed))
    storages = {id(h.storage) for h in _handles(args, kwargs)}
    return _outward(r, c, results, storages)


def _question(entry: str, args: tuple[Any, ...]) -> Any:
    """The answer to a question about dtypes and bytes; None for other calls."""
    x = args[0] if args else None
    if entry == "np.result_type":
        found = dtypes.promote(*(h.packed or h.dtype if isinstance(h, ArrayHandle) else known_dtype(h) for h in args))
        return found if found.is_packed else found.numpy
    if isinstance(x, ArrayHandle) and x.packed is not None:
        if entry == "ndarray.dtype":
            return x.packed
        if entry == "ndarray.nbytes":
            return floordiv(shapes.count(x.shape) * x.packed.bits + 7, 8)
    return None


def _handles(args: Any, kwargs: Mapping[str, Any]) -> list[ArrayHandle]:
    every = [*leaves(tuple(args)), *leaves(tuple(kwargs.values()))]
    return [x for x in every if isinstance(x, ArrayHandle) and not isinstance(x, Selection)]


def _read(entry: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
    parts = [entry] if entry.startswith("x[") else entry.split(".")
    method = parts.pop() if parts[-1] in ("reduce", "accumulate", "outer", "at") and len(parts) == 3 else ""
    name = parts[-1]
    if name in REINTERPRETING:
        raise Unsupported(f"{entry} of packed integers", f"take their bytes, or cast first: x.astype({_wide_of(args)})")
    if method in ("reduce", "accumulate", "at") and name not in STEPWISE:
        raise Unsupported(f"{entry} of packed integers", f"cast first: x.astype({_wide_of(args)})")
    asked = [x for x in (*args, *kwargs.values()) if isinstance(x, (DType, np.dtype)) or _is_scalar_type(x)]
    if kwargs.get("dtype") is not None:
        asked = [kwargs["dtype"]]
    deciding = _deciding(name, args)
    common = dtypes.promote(*deciding) if deciding else dtypes.bool_
    target = known_dtype(asked[0]) if asked else None
    if target is not None and target.is_packed and name not in MAKING:
        raise Unsupported(f"{entry} with dtype={target}", f"cast the result: .astype({target})")
    written = args[0] if name in WRITTEN_FIRST or method == "at" or _in_place(entry) else None
    out = kwargs.get("out")
    if out is not None:
        written = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        if target is None and common.is_packed and getattr(written, "packed", None) is not common:
            raise Unsupported(f"{entry} with out= of another dtype than {common}", "assign the result: out[...] = ...")
    return Call(name, method, common, target, written if isinstance(written, ArrayHandle) else None)


def _in_place(entry: str) -> bool:
    return entry.startswith("operator.i") and entry not in ("operator.inv", "operator.invert")


def _is_scalar_type(x: Any) -> bool:
    return isinstance(x, type) and (issubclass(x, np.generic) or x in (bool, int, float, complex))


def _wide_of(args: tuple[Any, ...]) -> DType:
    return next((x.packed.wide for x in leaves(args) if isinstance(x, ArrayHandle) and x.packed), dtypes.uint8)


def _deciding(name: str, args: tuple[Any, ...]) -> list[DType]:
    """The dtypes of the operands that decide on the result's."""
    if name in FIRST_ALONE or name == "x[key] = value":
        args = args[:1]
    elif name in DECIDING:
        args = tuple(args[k] for k in DECIDING[name] if k < len(args))
    result = []
    for x in leaves(args):
        if isinstance(x, ArrayHandle):
            result.append(x.packed or x.dtype)
        elif isinstance(x, (np.generic, np.ndarray)):
            result.append(known_dtype(x.dtype))
    return result


def _clipped(c: Call, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`clip` without the bounds that bound nothing, as NumPy leaves them out for its own integers."""
    if not c.common.is_packed:
        return args, dict(kwargs)
    low, high = c.common.limits
    below, above = ({1, "min", "a_min"}, {2, "max", "a_max"})

    def kept(place: int | str, x: Any) -> Any:
        if type(x) is not int:
            return x
        return None if (place in below and x <= low) or (place in above and x >= high) else x

    return tuple(kept(k, x) for k, x in enumerate(args)), {k: kept(k, x) for k, x in kwargs.items()}


def _check(c: Call, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Python ints that become elements fit the dtype."""
    into = c.written.packed if c.written is not None and c.name in WRITTEN_FIRST else None
    dtype = c.asked or into or c.common
    if not dtype.is_packed or c.name in COMPARING:
        return
    places = ELEMENTS.get(c.name, range(len(args)) if _elementwise(c.name) else ())
    found = [args[k] for k in places if k < len(args)]
    found += [kwargs[k] for k in ("fill_value", "constant_values", "min", "max", "a_min", "a_max") if k in kwargs]
    for x in leaves(found) if c.name in OF_LISTS else found:
        if isinstance(x, Expr) or (isinstance(x, WeakScalar) and x.kind == "i"):
            raise Unsupported(f"a runtime Python int may not fit {dtype}", "make it an array: np.asarray(n)")
        if type(x) is int and not fits(x, dtype) and not (c.name == "pow" and x == 2):
            raise OverflowError(f"Python integer {x} out of bounds for {dtype}")


def _elementwise(name: str) -> bool:
    """Whether it is a ufunc or operator with integer results: its Python ints take the dtype of what they meet."""
    return name in KEPT | REDUCED and (name in OPERATORS or isinstance(getattr(np, name, None), np.ufunc))


def fits(value: int, dtype: DType) -> bool:
    """Is the Python int in the range of the dtype?"""
    low, high = dtype.limits
    return low <= value <= high


def _lifted(r: Recorder, c: Call, x: ArrayHandle) -> ArrayHandle:
    """An operand in the dtype that the entry shall see: that of the common one, as the 8-bit dtype cannot tell how
    few bits there are."""
    if x.packed is None or x is c.written:
        if x is c.written and x.packed is not None and c.common.kind == "i" and x.packed.kind == "u":
            raise plain_numpy_raises(f"cannot cast {c.common} to {x.packed} by rule 'same_kind'")
        return x
    own = x.packed or x.dtype
    signed = own.kind == "u" and c.common.kind == "i" and c.name not in FIRST_ALONE
    return cast(r, x, dtypes.int8) if signed else x


def _outward(r: Recorder, c: Call, result: Any, storages: set[int]) -> Any:
    if isinstance(result, Selection):
        raise Unsupported("a boolean selection of packed integers", "use np.where, or assign: x[mask] = value")
    if isinstance(result, (tuple, list)):
        parts = [_outward(r, c, e, storages) for e in result]
        return tuple.__new__(type(result), parts) if isinstance(result, tuple) else parts
    if not isinstance(result, ArrayHandle):
        return result
    if c.asked is not None and result.packed is not None and result.packed is not c.asked:
        result = r.copy(result)  # the operand itself, under another dtype
    dtype = c.result
    if result.packed is not None or dtype is None:
        return result
    if result.dtype is not dtype.wide:
        return result
    if c.asked is not None:
        return reduced(r, result, dtype)
    if c.name in KEPT and not c.method:
        return marked(result, dtype)
    if c.name in REDUCED or c.method or id(result.storage) in storages:
        return reduced(r, result, dtype)
    raise Unsupported(f"{c.name} of packed integers", f"cast first: x.astype({dtype.wide})")
