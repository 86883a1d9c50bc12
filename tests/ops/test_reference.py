"""Each reference kernel against the NumPy function that a user would have written, one loop point at a time.

The oracles know nothing of loop dims or negative axes' depth: they take one example. So this also holds every kernel
to its signature: the result is the stack of the examples' results.
"""

import bisect
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.linalg
import scipy.special

from broadloom.dtypes import ALL, from_numpy
from broadloom.errors import DTypeError, ShapeError
from broadloom.ops.infer import complete, infer
from broadloom.ops.record import Trait
from broadloom.ops.sampling import LOOP_SHAPES, operands
from broadloom.ops.table import OPS
from tests.ops.comparing import assert_same, reorders
from tests.ops.random_oracles import RANDOM_ORACLES


def rank(value):
    """What Python sorts by: nan behind all numbers, complex ones by real part, then imaginary part."""
    parts = [float(p) for p in (np.real(value), np.imag(value))] if np.iscomplexobj(value) else [value.item()]
    return (*(p != p for p in parts), *(0 if p != p else p for p in parts))


def argsort(x, axis, descending):
    def order(row):
        return np.array(sorted(range(len(row)), key=lambda i: rank(row[i]), reverse=descending), np.int64)

    return np.apply_along_axis(order, axis, x) if x.size else np.empty(x.shape, np.int64)


def searchsorted(a, v, side):
    find = bisect.bisect_left if side == "left" else bisect.bisect_right
    return np.int64(find([rank(e) for e in a], rank(v)))


NUMPY_NAMES = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atanh": "arctanh",
    "atan2": "arctan2", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "pow": "power",
}  # fmt: skip


NUMPY_UFUNCS = {"abs": np.absolute, "conj": np.conjugate, "round": np.rint, "bitwise_invert": np.invert}
NOT_UFUNCS = {*RANDOM_ORACLES, "erf", "erfc", "real", "imag", "clip", "fma", "cast", "bitcast", "where", "complex"}
NOT_UFUNCS |= {"mantissa", "exponent", "fraction", "ldexp", "interpolate"}


def ldexp(x, n):
    return np.ldexp(x, np.int32(min(max(int(n), -3000), 3000)))


def interpolate(x, x0, x1, y0, y1, inverse):
    if np.isnan(x) or x in (x0, x1):
        return x if np.isnan(x) else y1 if x == x1 else y0
    slope = (y1 - y0) * (1.0 / (x1 - x0)) if inverse else (y1 - y0) / (x1 - x0)
    line = slope * (x - x0) + y0
    if np.isnan(line):
        line = slope * (x - x1) + y1
        if np.isnan(line) and y0 == y1:
            line = y0
    return line


def through_float32(function):
    return lambda x: function(x.astype(np.float32)).astype(x.dtype) if x.dtype.itemsize == 2 else function(x)


def sliced(starts, sizes, steps):
    index = [start + np.arange(size) * step for start, size, step in zip(starts, sizes, steps, strict=True)]
    return np.ix_(*index)


def slice_update(x, value, **slices):
    x = x.copy()
    x[sliced(**slices)] = value
    return x


def index_key(x, axes, indices):
    key = [slice(None)] * x.ndim
    for axis, index in zip(axes, indices, strict=True):
        key[axis] = index
    return tuple(key)


def gather(x, *indices, axes, core):
    front = np.moveaxis(x, axes, range(len(axes)))
    return front[tuple(indices)]


def take_along_axis(x, indices, axis):
    rest = np.broadcast_shapes(x.shape[1:], indices.shape[1:])
    x, indices = (np.broadcast_to(a, (a.shape[0], *rest)) for a in (x, indices))
    return np.take_along_axis(x, indices, axis)


def scatter(x, value, *indices, axes, core, mode, index_rank):
    """One element after the other."""
    x = x.copy()
    points = value.shape[:index_rank]
    spread = [np.broadcast_to(i, points) for i in indices]
    for point in np.ndindex(points):
        key = index_key(x, axes, [int(i[point]) for i in spread])
        x[key] = value[point] if mode == "set" else x[key] + value[point]
    return x


def view_dtype(x, dtype):
    if dtype.name == "bool":
        return x.view(np.uint8).astype(bool)
    return x.view(dtype.numpy)


def bitcast(x, dtype):
    return view_dtype(x.reshape(1), dtype).reshape(())


def number(x, i, bits, signed):
    """The integer in bits i * bits and on, by Python's integers."""
    value = (int.from_bytes(x.tobytes(), "little") >> (i * bits)) & ((1 << bits) - 1)
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def logsumexp(x, axes, keepdims):
    if axes == ():
        return x
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(scipy.special.logsumexp(wide, axis=axes, keepdims=keepdims)).astype(x.dtype)


def with_dtype(function):
    return lambda x, axes, keepdims: function(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


def over(function):
    def oracle(x, axes, keepdims, **attrs):
        return function(x, axis=axes, keepdims=keepdims, **attrs)

    return oracle


def lu_factor(a, check_singular):
    if a.size == 0:
        return a, np.empty(0, np.int32)
    lu, pivots = scipy.linalg.lu_factor(a)
    return lu, pivots.astype(np.int32) + 1


def lu_solve(lu, pivots, b):
    return b if b.shape[0] == 0 else scipy.linalg.lu_solve((lu, pivots - 1), b)


def triangular_solve(a, b, lower, transpose, unit_diagonal):
    if b.shape[0] == 0:
        return b
    return scipy.linalg.solve_triangular(a, b, lower=lower, trans=int(transpose), unit_diagonal=unit_diagonal)


def qr_raw(a):
    h, tau = np.linalg.qr(a, mode="raw")
    return h.T, tau


def as_complex(function):
    def oracle(a):
        results = function(a)
        kind = np.result_type(a.dtype, np.complex64)
        return tuple(x.astype(kind) for x in results) if isinstance(results, tuple) else results.astype(kind)

    return oracle


def fma(x, y, z):
    """The nearest to the exact value of the floats around it."""
    plain = np.longdouble(x) * np.longdouble(y) + np.longdouble(z)  # without overflow of the product
    if not np.isfinite(plain) or x == 0 or y == 0:
        return plain.astype(x.dtype)
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    if not exact:
        return x.dtype.type(0.0)
    guess = x.dtype.type(float(mpmath.mpf(exact.numerator) / exact.denominator))
    around = [np.nextafter(guess, x.dtype.type(-np.inf)), guess, np.nextafter(guess, x.dtype.type(np.inf))]
    beyond = 2 * Fraction(2) ** (np.finfo(x.dtype).maxexp - 1)

    def distance(f):
        value = Fraction(float(f)) if np.isfinite(f) else beyond if f > 0 else -beyond
        return abs(exact - value), int(f.view(f"i{f.itemsize}")) & 1

    return np.copysign(min((f for f in around if not np.isnan(f)), key=distance), x.dtype.type(1 if exact > 0 else -1))


ORACLES = {
    "mantissa": lambda x: np.frexp(x)[0],
    "exponent": lambda x: np.frexp(x)[1],
    "fraction": lambda x: np.modf(x)[0],
    "ldexp": ldexp,
    "interpolate": interpolate,
    **RANDOM_ORACLES,
    "fma": fma,
    "erf": through_float32(scipy.special.erf),
    "erfc": through_float32(scipy.special.erfc),
    "abs": np.abs,
    "round": np.round,
    "conj": np.conj,
    "real": np.real,
    "imag": np.imag,
    "clip": np.clip,
    "where": np.where,
    "complex": lambda x, y: np.stack([x, y], -1).view(f"c{2 * x.itemsize}")[..., 0],
    "bitcast": bitcast,
    "sum": with_dtype(np.sum),
    "prod": with_dtype(np.prod),
    "max": over(np.max),
    "min": over(np.min),
    "mean": over(np.mean),
    "var": over(np.var),
    "std": over(np.std),
    "any": over(np.any),
    "all": over(np.all),
    "count_nonzero": lambda x, axes, keepdims: (
        np.asarray(np.count_nonzero(x, axis=axes, keepdims=keepdims)) if axes else (x != 0).astype(np.int64)
    ),
    "logsumexp": logsumexp,
    "argmax": lambda x, axis, keepdims: np.argmax(x, axis=axis, keepdims=keepdims),
    "argmin": lambda x, axis, keepdims: np.argmin(x, axis=axis, keepdims=keepdims),
    "cumsum": lambda x, axis: np.cumsum(x, axis, dtype=x.dtype),
    "cumprod": lambda x, axis: np.cumprod(x, axis, dtype=x.dtype),
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "iota": lambda size, dtype: np.array(range(size), np.int64).astype(dtype.numpy),
    "eye": lambda rows, cols, offset, dtype: np.eye(rows, cols, offset, dtype.numpy),
    "from_size": lambda size: np.array([size])[0],
    "permute": lambda x, axes: np.transpose(x, [a % x.ndim for a in axes]),
    "reshape": lambda x, core, shape: np.reshape(x, shape),
    "expand": np.broadcast_to,
    "slice": lambda x, **slices: x[sliced(**slices)],
    "diagonal": np.diagonal,
    "view_dtype": view_dtype,
    "flip": lambda x, axes: np.flip(x, [a % x.ndim for a in axes]),
    "roll": lambda x, shifts, axes: np.roll(x, shifts, [a % x.ndim for a in axes]),
    "pad": lambda x, value, before, after: np.pad(x, list(zip(before, after, strict=True)), constant_values=value[()]),
    "extend": lambda x, before, after, mode: np.pad(x, list(zip(before, after, strict=True)), mode=mode),
    "concat": lambda *arrays, axis: np.concatenate(arrays, axis),
    "stack": lambda *arrays, axis: np.stack(arrays, axis),
    "unpack": lambda x, bits, signed, size: np.array(
        [number(x, i, bits, signed) for i in range(size)], np.int8 if signed else np.uint8
    ),
    "pack": lambda x, bits: np.frombuffer(
        sum((int(v) % (1 << bits)) << (bits * i) for i, v in enumerate(x)).to_bytes(-(-x.size // 8) * bits, "little"),
        np.uint8,
    ),
    "repeat": np.repeat,
    "tile": np.tile,
    "slice_update": slice_update,
    "take": lambda x, indices, axis, index_rank: np.take(x, indices, axis),
    "take_along_axis": take_along_axis,
    "gather": gather,
    "scatter": scatter,
    "sort": lambda x, axis, descending: np.take_along_axis(x, argsort(x, axis, descending), axis),
    "argsort": lambda x, axis, descending: argsort(x, axis, descending),
    "searchsorted": searchsorted,
    "matmul": np.matmul,
    "matvec": lambda x, y: x @ y,
    "vecmat": lambda x, y: np.conj(x) @ y if x.dtype.kind == "c" else x @ y,
    "vecdot": lambda x, y: np.asarray(np.vdot(x, y)),
    "outer": np.outer,
    "lu_factor": lu_factor,
    "lu_solve": lu_solve,
    "cholesky": np.linalg.cholesky,
    "triangular_solve": triangular_solve,
    "solve": np.linalg.solve,
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": np.linalg.slogdet,
    "qr": np.linalg.qr,
    "qr_raw": qr_raw,
    "svd": np.linalg.svd,
    "svdvals": np.linalg.svdvals,
    "eigh": lambda a, uplo: np.linalg.eigh(a, uplo),
    "eigvalsh": lambda a, uplo: np.linalg.eigvalsh(a, uplo),
    "eig": as_complex(np.linalg.eig),
    "eigvals": as_complex(np.linalg.eigvals),
}


NORMS = {
    "fft": {"none": "backward", "root": "ortho", "size": "forward"},
    "ifft": {"none": "forward", "root": "ortho", "size": "backward"},
}


def fft(x, n, norm, inverse):
    name = "ifft" if inverse else "fft"
    return getattr(np.fft, name)(x, n, norm=NORMS[name][norm])


def irfft(x, n, norm):
    return np.fft.irfft(x if x.size else np.zeros(1, x.dtype), n, norm=NORMS["ifft"][norm])


ORACLES |= {"fft": fft, "rfft": lambda x, n, norm: np.fft.rfft(x, n, norm=NORMS["fft"][norm]), "irfft": irfft}


def loop_dtypes(op, dtype):
    """The dtypes of the loop that NumPy's function runs for operands of one dtype, the result last; None: refused."""
    arity = op.arity
    function = NUMPY_UFUNCS.get(op.name) or getattr(np, NUMPY_NAMES.get(op.name, op.name))
    try:
        return function.resolve_dtypes((dtype.numpy,) * arity + (None,))
    except TypeError:
        return None


def own_value(op):
    """`cast` alone defines values that NumPy leaves to the machine; its test stands in test_semantics."""
    return op.name == "cast"


def oracle_of(op):
    return ORACLES.get(op.name) or getattr(np, NUMPY_NAMES.get(op.name, op.name))


def examples(signature, arrays, loop):
    """The operands of each loop point."""
    ranks = signature.core_ranks(len(arrays))
    full = [np.broadcast_to(a, loop + a.shape[a.ndim - r :]) for a, r in zip(arrays, ranks, strict=True)]
    for point in np.ndindex(loop):
        yield point, [np.asarray(a[point]).copy() for a in full]


def check(op, sample, dtypes, loops, rng):
    arrays = operands(sample, dtypes, rng, loops, edges=not reorders(op))
    types = [(from_numpy(a.dtype), a.shape) for a in arrays]
    attrs = complete(op, sample.attrs)
    try:
        inferred = infer(op, types, attrs)
    except (DTypeError, ShapeError):
        assert op.name in ("bitcast", "view_dtype"), "only these have widths that do not fit"
        return
    got = op.reference(*arrays, **attrs)
    got = got if isinstance(got, tuple) else (got,)
    signature = op.signature(attrs)
    loop, _ = signature.bind([a.shape for a in arrays])
    expected = [np.empty(shape, dtype.numpy) for dtype, shape in inferred]
    for point, example in examples(signature, arrays, loop):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = oracle_of(op)(*example, **attrs)
        results = results if isinstance(results, tuple) else (results,)
        for out, result in zip(expected, results, strict=True):
            assert np.asarray(result).dtype == out.dtype
            out[point] = result
    for a, b in zip(got, expected, strict=True):
        assert_same(op, a, b)


@pytest.mark.parametrize("op", [op for op in OPS.values() if not own_value(op)], ids=str)
def test_reference_is_numpys_function(op, request, rng):
    full = request.config.getoption("--full")
    loops = LOOP_SHAPES if full else (LOOP_SHAPES[0], LOOP_SHAPES[-1])
    for sample in op.samples:
        for dtypes in op.sample_dtypes:
            for pair in loops:
                check(op, sample, dtypes, pair, rng)


UFUNC_OPS = [op for op in OPS.values() if op.has(Trait.POINTWISE) and op.name not in NOT_UFUNCS]


@pytest.mark.parametrize("op", UFUNC_OPS, ids=str)
def test_a_cell_is_filled_where_numpy_has_a_loop(op):
    for dtype in ALL:
        found = loop_dtypes(op, dtype)
        own = found is not None and all(d == dtype.numpy for d in found[:-1])
        if op.name == "round" and dtype.is_integer:
            own = True  # np.round keeps integers, np.rint has no loop for them
        assert own == (dtype not in op.empty), f"{op} x {dtype}: NumPy runs {found}"
        if own and op.name != "round":
            (result,) = op.result_dtypes((dtype,) * op.arity, {})
            assert result.numpy == found[-1]


def strided(array, rng):
    """The same values at other strides: every second element of a larger array, some axes backwards."""
    room = np.zeros([2 * n for n in array.shape], array.dtype)
    view = room[tuple(slice(None, None, int(rng.choice([-2, 2]))) for _ in array.shape)]
    view[...] = array
    return view


@pytest.mark.parametrize("op", [op for op in OPS.values() if op.samples[0].core_shapes], ids=str)
def test_strides_of_operands_mean_nothing(op, rng):
    dtypes = op.sample_dtypes[len(op.sample_dtypes) // 2]
    for sample in op.samples:
        if op.name in ("bitcast", "view_dtype") and sample.attrs["dtype"].itemsize != dtypes[0].itemsize:
            continue
        arrays = operands(sample, dtypes, rng, LOOP_SHAPES[-1], edges=not reorders(op))
        expected, got = (op.reference(*a, **sample.attrs) for a in (arrays, [strided(x, rng) for x in arrays]))
        pairs = zip(got, expected, strict=True) if isinstance(got, tuple) else [(got, expected)]
        for a, b in pairs:
            assert_same(op, a, b)
