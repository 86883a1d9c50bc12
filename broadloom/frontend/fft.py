"""`numpy.fft`: transforms of one axis, of several, and what goes with them.

What goes in: arrays of any dtype, and the arguments of NumPy's functions. What comes out: fresh arrays in the memory
order of NumPy's. What holds: the number of points is a constant of the graph - a symbolic axis that is transformed
becomes a static one, the others stay symbolic; repeated transforms run in NumPy's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType
from broadloom.frontend import shapes
from broadloom.frontend.assembling import np_roll
from broadloom.frontend.creation import np_arange
from broadloom.frontend.operands import as_array, call, cast, constant, is_symbolic
from broadloom.frontend.shaping import array_of, reversed_along
from broadloom.frontend.ufuncs import apply, deliver
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import Expr, Size, eq, floordiv, mul, sub

LARGEST = 1 << 23  # points; the tables of a transform are constants of the code
LARGEST_PRIME = 1 << 20  # points whose number has a prime factor above 13
_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
_NORM = {"backward": "none", "ortho": "root", "forward": "size"}  # of a forward transform


def _points(r: Recorder, x: ArrayHandle, n: object) -> int:
    """The number of points, as a constant."""
    size = shapes.as_size(n, "the number of points")
    if isinstance(size, Expr):
        found = r.size_at_hand(size)
        if not shapes.decide(r, eq(size, found)):
            raise Unsupported("the number of points of a transform is not known", "give it as a constant n")
        size = found
    if size < 1:
        raise plain_numpy_raises(f"Invalid number of FFT data points ({size}) specified.")
    smooth = size
    for prime in (2, 3, 5, 7, 11, 13):
        while smooth % prime == 0:
            smooth //= prime
    if size > (LARGEST if smooth == 1 else LARGEST_PRIME):
        raise Unsupported(
            f"a transform of {size} points",
            f"call it outside the compiled function, or take at most {LARGEST} points, a product of small primes",
        )
    return size


def _operand(r: Recorder, a: object, op: str) -> tuple[ArrayHandle, DType]:
    """The operand in the dtype of its transform, and NumPy's dtype for real numbers beside it."""
    x = array_of(r, a)
    given = x.dtype
    if op == "rfft" and given.kind == "c":
        raise plain_numpy_raises(f"no transform of real numbers for {given}")
    if given is dtypes.float16 or (given is dtypes.bfloat16 and op != "irfft"):
        return cast(r, x, dtypes.float32), given
    if given is dtypes.bfloat16 or given.kind not in "fc":
        return cast(r, x, dtypes.float64), dtypes.float64
    return x, given.real


def _transform(
    r: Recorder, op: str, a: object, n: object, axis: object, norm: object, out: object, inverse: bool
) -> ArrayHandle:
    """One axis, by `op`; of an fft and an irfft `inverse` tells the direction, which for hfft is not the op's."""
    x, beside = _operand(r, a, op)
    where = shapes.axis_from_end(axis, x.ndim)
    if n is None:
        n = mul(sub(x.shape[where], 1), 2) if op == "irfft" else x.shape[where]
    points = _points(r, x, n)
    direction = "backward" if norm is None else norm
    if not isinstance(direction, str) or direction not in _NORM:
        raise plain_numpy_raises(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    scaling = _NORM[_SWAPPED[direction] if inverse else direction]
    if op == "irfft" or (op == "fft" and inverse):
        x = cast(r, x, _complex_of(x.dtype))
    attrs: dict[str, Any] = {"n": points, "norm": "none" if beside is dtypes.float16 else scaling}
    moved = shapes.move_axis_last(r, x, where)
    if op == "fft" and moved.dtype.kind == "f":
        result = _completed(r, call(r, "rfft", moved, **attrs), points)
    else:
        if op == "fft":
            attrs["inverse"] = inverse
        result = call(r, op, moved, **attrs)
    if beside is dtypes.float16 and scaling != "none":
        result = apply(r, np.multiply, result, constant(r, _half_scale(points, scaling), result.dtype.real))
    if op == "irfft":
        result = cast(r, result, beside)
    order = [*range(x.ndim - 1)]
    order.insert(where % x.ndim, x.ndim - 1)
    result = shapes.permute(r, result, order)
    if out is not None:
        return deliver(r, result, _out(out))
    return result if where == -1 else r.copy(result)


def _completed(r: Recorder, half: ArrayHandle, points: int) -> ArrayHandle:
    """The whole transform of real numbers: the rest is the conjugate of the first half, backwards."""
    count = (points - 1) // 2
    if count == 0:
        return half
    rest = reversed_along(r, shapes.cut(r, half, -1, 1, count), [-1])
    return call(r, "concat", half, call(r, "conj", rest), axis=-1)


def _half_scale(points: int, scaling: str) -> float:
    """The factor that NumPy rounds to float16, as it does for an operand of that dtype."""
    with np.errstate(all="ignore"):
        if scaling == "root":
            return float(np.reciprocal(np.sqrt(points, dtype=np.float16)))
        return float(np.reciprocal(points, dtype=np.float16))


def _out(out: object) -> ArrayHandle:
    if not isinstance(out, ArrayHandle):
        raise plain_numpy_raises("out must be an array")
    return out


def _complex_of(d: DType) -> DType:
    return dtypes.complex64 if d.real is dtypes.float32 else dtypes.complex128


# ---- one axis --------------------------------------------------------------------------------------------------------


def np_fft(
    r: Recorder, a: object, n: object = None, axis: object = -1, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.fft`."""
    return _transform(r, "fft", a, n, axis, norm, out, False)


def np_ifft(
    r: Recorder, a: object, n: object = None, axis: object = -1, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.ifft`."""
    return _transform(r, "fft", a, n, axis, norm, out, True)


def np_rfft(
    r: Recorder, a: object, n: object = None, axis: object = -1, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.rfft`."""
    return _transform(r, "rfft", a, n, axis, norm, out, False)


def np_irfft(
    r: Recorder, a: object, n: object = None, axis: object = -1, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.irfft`."""
    return _transform(r, "irfft", a, n, axis, norm, out, True)


def np_hfft(
    r: Recorder, a: object, n: object = None, axis: object = -1, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.hfft`: the real transform of half of a Hermitian signal. As NumPy does, it leaves `out` alone."""
    x = array_of(r, a)
    return _transform(r, "irfft", call(r, "conj", x) if x.dtype.kind == "c" else x, n, axis, norm, None, False)


def np_ihfft(
    r: Recorder, a: object, n: object = None, axis: object = -1, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.ihfft`."""
    result = _transform(r, "rfft", a, n, axis, norm, None, True)
    return deliver(r, call(r, "conj", result), None if out is None else _out(out))


# ---- several axes ----------------------------------------------------------------------------------------------------

One = Callable[..., ArrayHandle]


def _axes(r: Recorder, x: ArrayHandle, s: object, axes: object, real: bool = False) -> tuple[list[Any], list[int]]:
    """The numbers of points and the axes, as NumPy finds them."""
    if is_symbolic(axes):
        raise Unsupported("axes known only at run time", "use constant axes")
    given = None if s is None else _listed(s)
    if axes is None:
        count = x.ndim if given is None else len(given)
        if given is not None and count > x.ndim:
            raise plain_numpy_raises("more sizes than axes")
        chosen = list(range(-count, 0))
    else:
        chosen = [shapes.axis_from_end(axis, x.ndim) for axis in _listed(axes)]
    sizes = [x.shape[axis] for axis in chosen] if given is None else given
    if len(sizes) != len(chosen):
        raise plain_numpy_raises("Shape and axes have different lengths.")
    if given is None and real and chosen:
        sizes[-1] = mul(sub(x.shape[chosen[-1]], 1), 2)
    found = [x.shape[axis] if size == -1 else size for size, axis in zip(sizes, chosen, strict=True)]
    return found, chosen


def _listed(x: object) -> list[Any]:
    if isinstance(x, np.ndarray):
        return [int(e) for e in x]
    if isinstance(x, ArrayHandle):
        raise Unsupported("sizes or axes of a transform that are data", "give them as ints")
    if not isinstance(x, (list, tuple)):
        raise plain_numpy_raises(f"{x!r} is not a sequence")
    if any(e is None for e in x):
        raise Unsupported("None among the sizes of a transform", "use -1, or leave the sizes out")
    return list(x)


def _each(
    r: Recorder, one: One, x: ArrayHandle, sizes: Sequence[Any], axes: Sequence[int], norm: object, out: object
) -> ArrayHandle:
    """`one` along each axis, the last axis first."""
    result = x
    for size, axis in zip(reversed(sizes), reversed(axes), strict=True):
        result = one(r, result, size, axis, norm, out)
    return result


def np_fftn(
    r: Recorder, a: object, s: object = None, axes: object = None, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.fftn`."""
    x = array_of(r, a)
    return _each(r, np_fft, x, *_axes(r, x, s, axes), norm, out)


def np_ifftn(
    r: Recorder, a: object, s: object = None, axes: object = None, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.ifftn`."""
    x = array_of(r, a)
    return _each(r, np_ifft, x, *_axes(r, x, s, axes), norm, out)


def np_rfftn(
    r: Recorder, a: object, s: object = None, axes: object = None, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.rfftn`: real along the last of the axes."""
    x = array_of(r, a)
    sizes, chosen = _axes(r, x, s, axes)
    if not chosen:
        raise plain_numpy_raises("at least 1 axis must be transformed")
    first = np_rfft(r, x, sizes[-1], chosen[-1], norm, out)
    return _each(r, np_fft, first, sizes[:-1], chosen[:-1], norm, out)


def np_irfftn(
    r: Recorder, a: object, s: object = None, axes: object = None, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.irfftn`: the first axis first, the last one real."""
    x = array_of(r, a)
    sizes, chosen = _axes(r, x, s, axes, True)
    if not chosen:
        raise plain_numpy_raises("at least 1 axis must be transformed")
    for size, axis in zip(sizes[:-1], chosen[:-1], strict=True):
        x = np_ifft(r, x, size, axis, norm)
    return np_irfft(r, x, sizes[-1], chosen[-1], norm, out)


_LAST_TWO = (-2, -1)


def np_fft2(
    r: Recorder, a: object, s: object = None, axes: object = _LAST_TWO, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.fft2`."""
    return np_fftn(r, a, s, axes, norm, out)


def np_ifft2(
    r: Recorder, a: object, s: object = None, axes: object = _LAST_TWO, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.ifft2`."""
    return np_ifftn(r, a, s, axes, norm, out)


def np_rfft2(
    r: Recorder, a: object, s: object = None, axes: object = _LAST_TWO, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.rfft2`."""
    return np_rfftn(r, a, s, axes, norm, out)


def np_irfft2(
    r: Recorder, a: object, s: object = None, axes: object = _LAST_TWO, norm: object = None, out: object = None
) -> ArrayHandle:
    """`numpy.fft.irfft2`."""
    return np_irfftn(r, a, s, axes, norm, out)


# ---- frequencies and shifts ------------------------------------------------------------------------------------------


def np_fftfreq(r: Recorder, n: object, d: object = 1.0, device: object = None) -> ArrayHandle:
    """`numpy.fft.fftfreq`."""
    size = _frequencies(n, device)
    half = floordiv(size, 2)
    steps = [np_arange(r, 0, sub(size, half)), np_arange(r, mul(half, -1), 0)]
    return _spaced(r, call(r, "concat", *steps, axis=-1), n, d)


def np_rfftfreq(r: Recorder, n: object, d: object = 1.0, device: object = None) -> ArrayHandle:
    """`numpy.fft.rfftfreq`."""
    size = _frequencies(n, device)
    return _spaced(r, np_arange(r, 0, floordiv(size, 2) + 1), n, d)


def _frequencies(n: object, device: object) -> Size:
    if device not in (None, "cpu"):
        raise plain_numpy_raises(f"device {device!r} is not 'cpu'")
    size = shapes.as_size(n, "n")
    if isinstance(n, bool) or (isinstance(size, int) and size < 1):
        raise plain_numpy_raises(f"no frequencies of {size} points")
    return size


def _spaced(r: Recorder, steps: ArrayHandle, n: Any, d: Any) -> ArrayHandle:
    """The steps times 1 / (n * d)."""
    if isinstance(d, (list, tuple)):
        raise plain_numpy_raises("a spacing is a number or an array")
    if is_symbolic((n, d)):
        spacing: object = apply(r, np.true_divide, 1.0, apply(r, np.multiply, n, d))
    else:
        try:
            with np.errstate(all="ignore"):
                spacing = 1.0 / (n * d)
        except (TypeError, ZeroDivisionError) as error:
            raise plain_numpy_raises(str(error)) from error
    return apply(r, np.multiply, steps, spacing)


def np_fftshift(r: Recorder, x: object, axes: object = None) -> ArrayHandle:
    """`numpy.fft.fftshift`."""
    return _shift(r, x, axes, lambda n: floordiv(n, 2))


def np_ifftshift(r: Recorder, x: object, axes: object = None) -> ArrayHandle:
    """`numpy.fft.ifftshift`."""
    return _shift(r, x, axes, lambda n: mul(floordiv(n, 2), -1))


def _shift(r: Recorder, x: object, axes: object, by: Callable[[Size], Size]) -> ArrayHandle:
    a = as_array(r, x)
    if a.ndim == 0:
        raise plain_numpy_raises("a 0-d array has no axis to shift")
    if axes is None:
        chosen = list(range(a.ndim))
    else:
        listed = list(axes) if isinstance(axes, (list, tuple)) else [axes]
        chosen = [shapes.axis_from_end(axis, a.ndim) for axis in listed]
    return np_roll(r, a, [by(a.shape[axis]) for axis in chosen], chosen)
