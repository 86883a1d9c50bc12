"""The frontend's one table of NumPy callables, each with its entry; `members` has the same of arrays.

What goes in: the callable, and the arguments as the user wrote them - handles, runtime and
Python numbers, symbolic ints, lists, slices, dtypes. What comes out: handles, or Python values where NumPy gives
those (dtypes, shapes, results of constants).

What holds: `FUNCTIONS` is keyed by the callable object; an entry is called as `entry(recorder, *args, **kwargs)`, and
raises `Unsupported` and nothing else for what it does not take, and for what NumPy itself rejects. `REFUSED` names what
is not captured, with the remedy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from broadloom.frontend import (
    assembling,
    assignment,
    casting,
    convolution,
    creation,
    decompositions,
    differences,
    einsum,
    elementwise,
    fft,
    gufuncs,
    histograms,
    indexing,
    linalg,
    loops,
    nan_reductions,
    norms,
    padding,
    quantiles,
    queries,
    random,
    random_choices,
    random_vectors,
    reductions,
    scans,
    searching,
    selection,
    shaping,
    solving,
    sorting,
    special,
    ufuncs,
)
from broadloom.frontend.entry import Entry
from broadloom.frontend.refused import IMPURE, remedies
from broadloom.frontend.unsupported import Unsupported
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle


def _of(
    function: Callable[..., Any], run: Callable[..., Any], fold: bool = True, selected: Callable[..., Any] | None = None
) -> tuple[Callable[..., Any], Entry]:
    module = getattr(function, "__module__", None) or "numpy"
    name = f"{module}.{function.__name__}".replace("numpy.", "np.").replace("_operator.", "operator.")
    return function, Entry(name, run, function if fold else None, selected)


# ---- ufuncs ----------------------------------------------------------------------------------------------------------


def _ufunc_entry(u: np.ufunc) -> Callable[..., Any]:
    def run(r: Recorder, *args: Any, **kwargs: Any) -> Any:
        return ufuncs.ufunc(r, u, *args, **kwargs)

    return run


UFUNCS: tuple[np.ufunc, ...] = tuple(dict.fromkeys((*loops.OPS, *loops.COMPOSED)))

_UFUNC_METHODS: dict[str, Callable[..., Any]] = {
    "reduce": reductions.ufunc_reduce,
    "accumulate": scans.ufunc_accumulate,
    "outer": ufuncs.outer,
    "at": assignment.ufunc_at,
}


def ufunc_method(u: np.ufunc, name: str) -> Entry:
    """The entry of `u.reduce`, `u.accumulate`, `u.outer` or `u.at`."""
    run = _UFUNC_METHODS.get(name)
    if run is None or (u not in loops.OPS and u not in loops.COMPOSED):
        raise Unsupported(f"np.{u.__name__}.{name} is not captured", "write it with whole-array functions")

    def bound(r: Recorder, *args: Any, **kwargs: Any) -> Any:
        return run(r, u, *args, **kwargs)

    return Entry(f"np.{u.__name__}.{name}", bound, getattr(u, name) if name != "at" else None)


# ---- Python's operators ----------------------------------------------------------------------------------------------

OPERATORS: dict[Callable[..., Any], np.ufunc] = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.true_divide,
    operator.floordiv: np.floor_divide,
    operator.mod: np.remainder,
    operator.and_: np.bitwise_and,
    operator.or_: np.bitwise_or,
    operator.xor: np.bitwise_xor,
    operator.lshift: np.left_shift,
    operator.rshift: np.right_shift,
    operator.lt: np.less,
    operator.le: np.less_equal,
    operator.gt: np.greater,
    operator.ge: np.greater_equal,
    operator.eq: np.equal,
    operator.ne: np.not_equal,
    operator.neg: np.negative,
    operator.pos: np.positive,
    operator.invert: np.invert,
    operator.abs: np.absolute,
    divmod: np.divmod,
}

INPLACE: dict[Callable[..., Any], Callable[..., Any]] = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod,
    operator.iand: operator.and_,
    operator.ior: operator.or_,
    operator.ixor: operator.xor,
    operator.ilshift: operator.lshift,
    operator.irshift: operator.rshift,
    operator.ipow: operator.pow,
    operator.imatmul: operator.matmul,
}


def _inplace_entry(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`x op= y`: written into an array; a new value for a NumPy scalar."""

    def run(r: Recorder, x: Any, y: Any) -> Any:
        if not isinstance(x, ArrayHandle) or x.numpy_scalar:
            return FUNCTIONS[plain](r, x, y)
        if plain is operator.pow:
            return ufuncs.power_operator(r, x, y, out=x)
        if plain is operator.matmul:
            return gufuncs.np_matmul(r, x, y, out=x)
        return ufuncs.ufunc(r, OPERATORS[plain], x, y, out=x)

    return run


# ---- NumPy's functions -----------------------------------------------------------------------------------------------

_PURE: dict[Callable[..., Any], Callable[..., Any]] = {
    **{u: _ufunc_entry(u) for u in UFUNCS},
    np.power: ufuncs.power,
    np.matmul: gufuncs.np_matmul,
    np.vecdot: gufuncs.np_vecdot,
    np.matvec: gufuncs.np_matvec,
    np.vecmat: gufuncs.np_vecmat,
    **{f: _ufunc_entry(u) for f, u in OPERATORS.items()},
    operator.pow: ufuncs.power_operator,
    operator.matmul: gufuncs.np_matmul,
    # reductions and scans
    np.sum: reductions.np_sum,
    np.prod: reductions.np_prod,
    np.max: reductions.np_max,
    np.min: reductions.np_min,
    np.amax: reductions.np_max,
    np.amin: reductions.np_min,
    np.all: reductions.np_all,
    np.any: reductions.np_any,
    np.mean: reductions.np_mean,
    np.var: reductions.np_var,
    np.std: reductions.np_std,
    np.argmax: reductions.np_argmax,
    np.argmin: reductions.np_argmin,
    np.count_nonzero: reductions.np_count_nonzero,
    np.ptp: reductions.np_ptp,
    np.average: reductions.np_average,
    np.nansum: nan_reductions.np_nansum,
    np.nanprod: nan_reductions.np_nanprod,
    np.nanmax: nan_reductions.np_nanmax,
    np.nanmin: nan_reductions.np_nanmin,
    np.nanmean: nan_reductions.np_nanmean,
    np.nanvar: nan_reductions.np_nanvar,
    np.nanstd: nan_reductions.np_nanstd,
    np.cumsum: scans.np_cumsum,
    np.cumprod: scans.np_cumprod,
    np.nancumsum: scans.np_nancumsum,
    np.nancumprod: scans.np_nancumprod,
    np.cumulative_sum: scans.np_cumulative_sum,
    np.cumulative_prod: scans.np_cumulative_prod,
    # sorting, searching, counting
    np.sort: sorting.np_sort,
    np.argsort: sorting.np_argsort,
    np.sort_complex: sorting.np_sort_complex,
    np.partition: sorting.np_partition,
    np.argpartition: sorting.np_argpartition,
    np.lexsort: sorting.np_lexsort,
    np.searchsorted: searching.np_searchsorted,
    np.digitize: searching.np_digitize,
    np.interp: searching.np_interp,
    np.isin: searching.np_isin,
    np.median: quantiles.np_median,
    np.nanmedian: quantiles.np_nanmedian,
    np.quantile: quantiles.np_quantile,
    np.percentile: quantiles.np_percentile,
    np.histogram: histograms.np_histogram,
    np.histogram_bin_edges: histograms.np_histogram_bin_edges,
    np.bincount: histograms.np_bincount,
    # shapes
    np.reshape: shaping.np_reshape,
    np.ravel: shaping.np_ravel,
    np.transpose: shaping.np_transpose,
    np.swapaxes: shaping.np_swapaxes,
    np.moveaxis: shaping.np_moveaxis,
    np.rollaxis: shaping.np_rollaxis,
    np.matrix_transpose: shaping.np_matrix_transpose,
    np.squeeze: shaping.np_squeeze,
    np.expand_dims: shaping.np_expand_dims,
    np.atleast_1d: shaping.np_atleast_1d,
    np.atleast_2d: shaping.np_atleast_2d,
    np.atleast_3d: shaping.np_atleast_3d,
    np.broadcast_to: shaping.np_broadcast_to,
    np.broadcast_arrays: shaping.np_broadcast_arrays,
    np.flip: shaping.np_flip,
    np.fliplr: shaping.np_fliplr,
    np.flipud: shaping.np_flipud,
    np.rot90: shaping.np_rot90,
    np.diagonal: shaping.np_diagonal,
    np.real: casting.np_real,
    np.imag: casting.np_imag,
    np.astype: casting.np_astype,
    # elementwise formulas
    np.where: elementwise.np_where,
    np.select: elementwise.np_select,
    np.choose: elementwise.np_choose,
    np.clip: elementwise.np_clip,
    np.round: elementwise.np_round,
    np.around: elementwise.np_round,
    np.fix: elementwise.np_fix,
    np.nan_to_num: elementwise.np_nan_to_num,
    np.angle: elementwise.np_angle,
    np.sinc: elementwise.np_sinc,
    np.isclose: elementwise.np_isclose,
    np.isposinf: elementwise.np_isposinf,
    np.isneginf: elementwise.np_isneginf,
    np.isreal: elementwise.np_isreal,
    np.iscomplex: elementwise.np_iscomplex,
    np.diff: differences.np_diff,
    np.ediff1d: differences.np_ediff1d,
    np.gradient: differences.np_gradient,
    np.trapezoid: differences.np_trapezoid,
    np.polyval: differences.np_polyval,
    np.cov: differences.np_cov,
    np.corrcoef: differences.np_corrcoef,
    # joining and taking apart
    np.concatenate: assembling.np_concatenate,
    np.stack: assembling.np_stack,
    np.vstack: assembling.np_vstack,
    np.hstack: assembling.np_hstack,
    np.dstack: assembling.np_dstack,
    np.column_stack: assembling.np_column_stack,
    np.append: assembling.np_append,
    np.block: assembling.np_block,
    np.array_split: assembling.np_array_split,
    np.split: assembling.np_split,
    np.hsplit: assembling.np_hsplit,
    np.vsplit: assembling.np_vsplit,
    np.dsplit: assembling.np_dsplit,
    np.unstack: assembling.np_unstack,
    np.repeat: assembling.np_repeat,
    np.tile: assembling.np_tile,
    np.roll: assembling.np_roll,
    np.delete: assembling.np_delete,
    np.insert: assembling.np_insert,
    np.resize: assembling.np_resize,
    np.pad: padding.np_pad,
    # indexing
    np.take: indexing.take,
    np.take_along_axis: indexing.take_along_axis,
    np.compress: indexing.compress,
    # linear algebra
    np.dot: linalg.np_dot,
    np.inner: linalg.np_inner,
    np.outer: linalg.np_outer,
    np.vdot: linalg.np_vdot,
    np.tensordot: linalg.np_tensordot,
    np.kron: linalg.np_kron,
    np.trace: linalg.np_trace,
    np.cross: linalg.np_cross,
    np.einsum: einsum.np_einsum,
    np.einsum_path: einsum.np_einsum_path,
    np.convolve: convolution.np_convolve,
    np.correlate: convolution.np_correlate,
    np.linalg.norm: norms.np_norm,
    np.linalg.vector_norm: norms.np_vector_norm,
    np.linalg.matrix_norm: norms.np_matrix_norm,
    np.linalg.cond: norms.np_cond,
    np.linalg.solve: solving.np_solve,
    np.linalg.inv: solving.np_inv,
    np.linalg.det: solving.np_det,
    np.linalg.slogdet: solving.np_slogdet,
    np.linalg.cholesky: solving.np_cholesky,
    np.linalg.matrix_power: solving.np_matrix_power,
    np.linalg.tensorinv: solving.np_tensorinv,
    np.linalg.tensorsolve: solving.np_tensorsolve,
    np.linalg.qr: decompositions.np_qr,
    np.linalg.svd: decompositions.np_svd,
    np.linalg.svdvals: decompositions.np_svdvals,
    np.linalg.eigh: decompositions.np_eigh,
    np.linalg.eigvalsh: decompositions.np_eigvalsh,
    np.linalg.eig: decompositions.np_eig,
    np.linalg.eigvals: decompositions.np_eigvals,
    np.linalg.pinv: decompositions.np_pinv,
    np.linalg.lstsq: decompositions.np_lstsq,
    np.linalg.matrix_rank: decompositions.np_matrix_rank,
    np.linalg.multi_dot: linalg.np_multi_dot,
    np.linalg.matmul: gufuncs.np_matmul,
    np.linalg.matrix_transpose: shaping.np_matrix_transpose,
    np.linalg.tensordot: linalg.np_linalg_tensordot,
    np.linalg.vecdot: gufuncs.np_linalg_vecdot,
    np.linalg.outer: linalg.np_linalg_outer,
    np.linalg.cross: linalg.np_linalg_cross,
    np.linalg.trace: linalg.np_linalg_trace,
    np.linalg.diagonal: linalg.np_linalg_diagonal,
    # Fourier transforms
    np.fft.fft: fft.np_fft,
    np.fft.ifft: fft.np_ifft,
    np.fft.rfft: fft.np_rfft,
    np.fft.irfft: fft.np_irfft,
    np.fft.hfft: fft.np_hfft,
    np.fft.ihfft: fft.np_ihfft,
    np.fft.fft2: fft.np_fft2,
    np.fft.ifft2: fft.np_ifft2,
    np.fft.rfft2: fft.np_rfft2,
    np.fft.irfft2: fft.np_irfft2,
    np.fft.fftn: fft.np_fftn,
    np.fft.ifftn: fft.np_ifftn,
    np.fft.rfftn: fft.np_rfftn,
    np.fft.irfftn: fft.np_irfftn,
    np.fft.fftshift: fft.np_fftshift,
    np.fft.ifftshift: fft.np_ifftshift,
    # questions about arrays and dtypes
    np.shape: queries.np_shape,
    np.ndim: queries.np_ndim,
    np.size: queries.np_size,
    np.result_type: queries.np_result_type,
    np.can_cast: queries.np_can_cast,
    np.common_type: queries.np_common_type,
    np.iscomplexobj: queries.np_iscomplexobj,
    np.isrealobj: queries.np_isrealobj,
    np.isscalar: queries.np_isscalar,
    np.isfortran: queries.np_isfortran,
    np.broadcast_shapes: queries.np_broadcast_shapes,
    np.iterable: queries.np_iterable,
}

# These make or copy arrays: also with constant arguments the array is made by the graph, fresh at each call.
_MAKING: dict[Callable[..., Any], Callable[..., Any]] = {
    np.zeros: creation.np_zeros,
    np.ones: creation.np_ones,
    np.empty: creation.np_zeros,
    np.full: creation.np_full,
    np.zeros_like: creation.np_zeros_like,
    np.ones_like: creation.np_ones_like,
    np.empty_like: creation.np_zeros_like,
    np.full_like: creation.np_full_like,
    np.arange: creation.np_arange,
    np.linspace: creation.np_linspace,
    np.logspace: creation.np_logspace,
    np.geomspace: creation.np_geomspace,
    np.eye: creation.np_eye,
    np.identity: creation.np_identity,
    np.tri: creation.np_tri,
    np.tril: creation.np_tril,
    np.triu: creation.np_triu,
    np.diag: creation.np_diag,
    np.diagflat: creation.np_diagflat,
    np.vander: creation.np_vander,
    np.meshgrid: creation.np_meshgrid,
    np.fft.fftfreq: fft.np_fftfreq,
    np.fft.rfftfreq: fft.np_rfftfreq,
    np.indices: creation.np_indices,
    np.array: casting.np_array,
    np.asarray: casting.np_asarray,
    np.asanyarray: casting.np_asarray,
    np.ascontiguousarray: casting.np_ascontiguousarray,
    np.asfortranarray: casting.np_asfortranarray,
    np.require: casting.np_require,
    np.copy: casting.np_copy,
    np.copyto: assignment.np_copyto,
    np.putmask: assignment.np_putmask,
    np.fill_diagonal: assignment.np_fill_diagonal,
}

_POINTWISE: tuple[Callable[..., Any], ...] = (
    elementwise.np_clip,
    elementwise.method_clip,
    elementwise.np_round,
    elementwise.np_fix,
    elementwise.np_isclose,
    elementwise.np_where,
    casting.method_astype,
    casting.method_copy,
    ufuncs.conjugate_method,
)

_REDUCING: tuple[Callable[..., Any], ...] = (
    reductions.np_sum,
    reductions.np_prod,
    reductions.np_mean,
    reductions.np_var,
    reductions.np_std,
    reductions.np_any,
    reductions.np_all,
)

_SUMS_OF_PRODUCTS = (linalg.np_dot, linalg.np_inner, linalg.np_vdot, gufuncs.np_matmul, norms.np_norm)

# Functions that NumPy lacks: the entry itself is the callable.
_OWN: tuple[Callable[..., Any], ...] = (
    random.key,
    random.split,
    random.fold_in,
    random.bits,
    random.random,
    random.uniform,
    random.bernoulli,
    random.integers,
    random.standard_normal,
    random.normal,
    random.lognormal,
    random.wald,
    random.standard_exponential,
    random.exponential,
    random.laplace,
    random.logistic,
    random.gumbel,
    random.standard_cauchy,
    random.rayleigh,
    random.weibull,
    random.pareto,
    random.power,
    random.triangular,
    random.standard_gamma,
    random.gamma,
    random.chisquare,
    random.noncentral_chisquare,
    random.noncentral_f,
    random.f,
    random.standard_t,
    random.beta,
    random.poisson,
    random.binomial,
    random.negative_binomial,
    random.geometric,
    random.logseries,
    random.zipf,
    random.vonmises,
    random_choices.choice,
    random_choices.permutation,
    random_choices.permuted,
    random_vectors.dirichlet,
    random_vectors.multinomial,
    random_vectors.multivariate_normal,
)

# Values of Python, whatever their arguments: NumPy's own call, never in the graph.
PLAIN: tuple[Callable[..., Any], ...] = (
    np.dtype,
    np.finfo,
    np.iinfo,
    np.promote_types,
    np.min_scalar_type,
    np.issubdtype,
    np.isdtype,
    np.mintypecode,
    np.typename,
    np.ndindex,
    np.base_repr,
    np.binary_repr,
)

_TYPES: tuple[type[np.generic], ...] = tuple(
    dict.fromkeys(
        (
            *(np.bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
            *(np.float16, np.float32, np.float64, np.complex64, np.complex128, np.longlong, np.ulonglong),
        )
    )
)


def selected_by(run: Callable[..., Any], f: Callable[..., Any] | None = None) -> Callable[..., Any] | None:
    """How an entry takes boolean selections, if it does."""
    if run in _REDUCING:
        return selection.reduction(run)
    if run is reductions.np_count_nonzero:
        return selection.count_nonzero(run)
    if run in _SUMS_OF_PRODUCTS:
        return selection.with_zeros(run)
    if f in (np.power, operator.pow):
        return selection.power(run)
    if f in UFUNCS or f in OPERATORS:
        return selection.pointwise(run, f.nin if isinstance(f, np.ufunc) else 2)
    return selection.pointwise(run) if run in _POINTWISE else None


def _selected_in_place(f: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any] | None:
    handler = None if f is operator.imatmul else selected_by(_PURE[plain], plain)
    return None if handler is None else selection.inplace(handler)


# Functions that NumPy does not have: the entry itself is what stands for them.
OWN: tuple[Callable[..., Any], ...] = (sorting.topk, sorting.sort, sorting.argsort, histograms.bincount)

FUNCTIONS: dict[Callable[..., Any], Entry] = {
    **dict(_of(f, run, selected=selected_by(run, f)) for f, run in _PURE.items()),
    **dict(_of(f, run, fold=False) for f, run in _MAKING.items()),
    **dict(_of(f, _inplace_entry(plain), False, _selected_in_place(f, plain)) for f, plain in INPLACE.items()),
    **dict(_of(f, queries.plain_only(f)) for f in PLAIN),
    **{f: Entry(f"bl.random.{f.__name__}", f) for f in _OWN},
    **{t: Entry(f"np.{t.__name__}", partial(casting.scalar_type, t), t) for t in _TYPES},
    **{f: Entry(f"bl.{f.__name__}", f) for f in OWN},
    decompositions.eig: Entry("bl.linalg.eig", decompositions.eig),
    decompositions.eigvals: Entry("bl.linalg.eigvals", decompositions.eigvals),
}


def entry_of(function: Any) -> Entry | None:
    """The entry of a callable: of NumPy, or of `scipy.special` if the user has imported that.

    A refused function that is pure has one as well: for constants it is NumPy's own, for runtime values it refuses.
    """
    try:
        found = FUNCTIONS.get(function)
    except TypeError:  # not hashable, so not in the table
        return None
    if found is None and function in REFUSED and REFUSED[function] not in IMPURE:
        run = partial(queries.refused, function, REFUSED[function])
        return Entry(f"np.{function.__name__}", run, function)
    name = special.name_of(function) if found is None else None
    if name in special.FUNCTIONS:
        return Entry(f"scipy.special.{name}", special.FUNCTIONS[name], function)
    if name in special.LOOPS and isinstance(function, np.ufunc):
        run = partial(_special_ufunc, special.LOOPS[name], function)
        return Entry(f"scipy.special.{name}", run, function, selection.pointwise(run))
    return found


def _special_ufunc(loop: loops.Loop, u: np.ufunc, r: Recorder, *args: Any, **kwargs: Any) -> Any:
    def compute(r: Recorder, u: np.ufunc, operands: tuple[ArrayHandle, ...], dtypes: Any) -> Any:
        return loop(r, *operands)

    return ufuncs.run_ufunc(r, u, compute, args, **kwargs)


REFUSED: dict[Callable[..., Any], str] = remedies()
