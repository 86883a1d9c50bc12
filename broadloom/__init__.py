"""Broadloom: an array compiler. NumPy functions in, one fused native module out.

>>> import numpy as np
>>> import broadloom as bl
>>> @bl.compile
... def f(x, y):
...     return np.sin(x) * y + x
>>> f(np.zeros(2), np.ones(2))
array([0., 0.])
"""

# isort: off
# fmt: off
from broadloom.array_api import fft, linalg, special
from broadloom.array_api.counting import bincount, topk
from broadloom.array_api.creation import (
    arange, asarray, empty, empty_like, eye, from_dlpack, full, full_like, linspace, meshgrid, ones, ones_like,
    tril, triu, zeros, zeros_like,
)
from broadloom.array_api.data_types import (
    astype, bfloat16, bool, broadcast_arrays, broadcast_to, can_cast, complex128, complex64, e, finfo, float16,
    float32, float64, iinfo, inf, int16, int32, int64, int8, isdtype, nan, newaxis, pi, result_type, uint16, uint32,
    uint64, uint8,
)
from broadloom.array_api.elementwise import (
    abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_invert, bitwise_left_shift,
    bitwise_or, bitwise_right_shift, bitwise_xor, ceil, clip, conj, copysign, cos, cosh, divide, equal, exp, expm1,
    floor, floor_divide, greater, greater_equal, hypot, imag, isfinite, isinf, isnan, less, less_equal, log, log10,
    log1p, log2, logaddexp, logical_and, logical_not, logical_or, logical_xor, maximum, minimum, multiply, negative,
    nextafter, not_equal, positive, pow, real, reciprocal, remainder, round, sign, signbit, sin, sinh, sqrt, square,
    subtract, tan, tanh, trunc,
)
from broadloom.array_api.linalg import (
    matmul, matrix_transpose, tensordot, vecdot,
)
from broadloom.array_api.manipulation import (
    concat, expand_dims, flip, moveaxis, permute_dims, repeat, reshape, roll, squeeze, stack, take, take_along_axis,
    tile, unstack,
)
from broadloom.array_api.numpy_elementwise import (
    absolute, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, bitwise_count, bitwise_not, cbrt,
    conjugate, deg2rad, degrees, divmod, exp2, fabs, float_power, fmax, fmin, fmod, frexp, gcd, heaviside, invert,
    lcm, ldexp, left_shift, logaddexp2, mod, modf, power, rad2deg, radians, right_shift, rint, spacing, true_divide,
)
from broadloom.array_api.numpy_numbers import (
    allclose, angle, around, array_equal, average, block, convolve, corrcoef, correlate, cov, cross, cumprod,
    cumsum, dot, ediff1d, einsum, fix, gradient, inner, interp, isclose, iscomplex, isneginf, isposinf, isreal,
    kron, matvec, nan_to_num, outer, pad, polyval, ptp, select, sinc, trapezoid, vdot, vecmat,
)
from broadloom.array_api.numpy_shapes import (
    append, array, array_split, ascontiguousarray, atleast_1d, atleast_2d, atleast_3d, column_stack, concatenate,
    copy, delete, diag, diagflat, diagonal, dsplit, dstack, fliplr, flipud, geomspace, hsplit, hstack, identity,
    indices, insert, logspace, ndim, ravel, resize, rot90, shape, size, split, swapaxes, transpose, tri, vander,
    vsplit, vstack,
)
from broadloom.array_api.numpy_sorting import (
    argpartition, argwhere, digitize, flatnonzero, histogram, histogram_bin_edges, intersect1d, isin,
    lexsort, median, nanargmax, nanargmin, nancumprod, nancumsum, nanmax, nanmean, nanmedian, nanmin, nanprod,
    nanstd, nansum, nanvar, partition, percentile, quantile, ravel_multi_index, setdiff1d, union1d, unique,
    unravel_index,
)
from broadloom.array_api.searching import (
    argmax, argmin, argsort, count_nonzero, nonzero, searchsorted, sort, unique_all, unique_counts, unique_inverse,
    unique_values, where,
)
from broadloom.array_api.statistics import (
    all, any, cumulative_prod, cumulative_sum, diff, max, mean, min, prod, std, sum, var,
)
from broadloom.array_api.info import API_VERSION as __array_api_version__, __array_namespace_info__
from broadloom import random
from broadloom.compiler.api import Compiled, compile, explain, make_graph
from broadloom.compiler.mapping import gufunc, vectorize, vmap
from broadloom.compiler.report import CompileReport
from broadloom.dtypes import int2, int3, int4, int5, int6, int7, uint1, uint2, uint3, uint4, uint5, uint6, uint7
from broadloom.tensor.dispatch import Tensor
from broadloom.tensor.packed import PackedTensor

__all__ = [
    "CompileReport", "Compiled", "PackedTensor", "Tensor", "__array_api_version__", "__array_namespace_info__", "abs",
    "absolute", "acos", "acosh", "add", "all", "allclose", "angle", "any", "append", "arange", "arccos", "arccosh",
    "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argpartition", "argsort", "argwhere",
    "around", "array", "array_equal", "array_split", "asarray", "ascontiguousarray", "asin", "asinh", "astype",
    "atan", "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "average", "bfloat16", "bincount",
    "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "block", "bool", "broadcast_arrays", "broadcast_to", "can_cast", "cbrt",
    "ceil", "clip", "column_stack", "compile", "complex64", "complex128", "concat", "concatenate", "conj",
    "conjugate", "convolve", "copy", "copysign", "corrcoef", "correlate", "cos", "cosh", "count_nonzero", "cov",
    "cross", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "deg2rad", "degrees", "delete", "diag",
    "diagflat", "diagonal", "diff", "digitize", "divide", "divmod", "dot", "dsplit", "dstack", "e", "ediff1d",
    "einsum", "empty", "empty_like", "equal", "exp", "exp2", "expand_dims", "explain", "expm1", "eye", "fabs", "fft",
    "finfo", "fix", "flatnonzero", "flip", "fliplr", "flipud", "float16", "float32", "float64", "float_power",
    "floor", "floor_divide", "fmax", "fmin", "fmod", "frexp", "from_dlpack", "full", "full_like", "gcd", "geomspace",
    "gradient", "greater", "greater_equal", "gufunc", "heaviside", "histogram", "histogram_bin_edges", "hsplit",
    "hstack", "hypot", "identity", "iinfo", "imag", "indices", "inf", "inner", "insert", "int2", "int3", "int4",
    "int5", "int6", "int7", "int8", "int16", "int32", "int64", "interp", "intersect1d", "invert", "isclose",
    "iscomplex", "isdtype", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal", "kron", "lcm",
    "ldexp", "left_shift", "less", "less_equal", "lexsort", "linalg", "linspace", "log", "log1p", "log2", "log10",
    "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor", "logspace", "make_graph",
    "matmul", "matrix_transpose", "matvec", "max", "maximum", "mean", "median", "meshgrid", "min", "minimum", "mod",
    "modf", "moveaxis", "multiply", "nan", "nan_to_num", "nanargmax", "nanargmin", "nancumprod", "nancumsum",
    "nanmax", "nanmean", "nanmedian", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "ndim", "negative",
    "newaxis", "nextafter", "nonzero", "not_equal", "ones", "ones_like", "outer", "pad", "partition", "percentile",
    "permute_dims", "pi", "polyval", "positive", "pow", "power", "prod", "ptp", "quantile", "rad2deg", "radians",
    "random", "ravel", "ravel_multi_index", "real", "reciprocal", "remainder", "repeat", "reshape", "resize",
    "result_type", "right_shift", "rint", "roll", "rot90", "round", "searchsorted", "select", "setdiff1d", "shape",
    "sign", "signbit", "sin", "sinc", "sinh", "size", "sort", "spacing", "special", "split", "sqrt", "square",
    "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot",
    "tile", "topk", "transpose", "trapezoid", "tri", "tril", "triu", "true_divide", "trunc", "uint1", "uint2",
    "uint3", "uint4", "uint5", "uint6", "uint7", "uint8", "uint16", "uint32", "uint64", "union1d", "unique",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "unravel_index", "unstack", "vander", "var",
    "vdot", "vecdot", "vecmat", "vectorize", "vmap", "vsplit", "vstack", "where", "zeros", "zeros_like",
]
