"""Methods, attributes and items of arrays, each with its entry.

What goes in: the name, and the arguments as the user wrote them, the array first. What comes out: handles, or Python
values where NumPy gives those. What holds: entries are those of `table`; methods of NumPy scalars give NumPy scalars.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from broadloom.frontend import (
    assembling,
    assignment,
    casting,
    elementwise,
    indexing,
    linalg,
    queries,
    reductions,
    scans,
    searching,
    selection,
    shaping,
    sorting,
    ufuncs,
)
from broadloom.frontend.entry import Entry
from broadloom.frontend.refused import METHOD_REMEDIES
from broadloom.frontend.table import selected_by
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle


def _method(run: Callable[..., Any]) -> Callable[..., Any]:
    """Methods of NumPy scalars give NumPy scalars for 0-d results."""

    @functools.wraps(run, assigned=(), updated=())  # for the signature
    def call(r: Recorder, x: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = run(r, x, *args, **kwargs)
        return shaping.kept_scalar(r, x, result) if isinstance(result, ArrayHandle) else result

    return call


_METHODS: Mapping[str, Callable[..., Any]] = {
    "all": reductions.np_all,
    "any": reductions.np_any,
    "argmax": reductions.np_argmax,
    "argmin": reductions.np_argmin,
    "argpartition": sorting.np_argpartition,
    "argsort": sorting.np_argsort,
    "astype": casting.method_astype,
    "choose": elementwise.np_choose,
    "clip": elementwise.method_clip,
    "compress": casting.method_compress,
    "conj": ufuncs.conjugate_method,
    "conjugate": ufuncs.conjugate_method,
    "copy": casting.method_copy,
    "cumprod": scans.np_cumprod,
    "cumsum": scans.np_cumsum,
    "diagonal": shaping.np_diagonal,
    "dot": linalg.np_dot,
    "fill": assignment.fill,
    "flatten": shaping.np_flatten,
    "max": reductions.np_max,
    "mean": reductions.np_mean,
    "min": reductions.np_min,
    "partition": sorting.method_partition,
    "prod": reductions.np_prod,
    "ravel": shaping.np_ravel,
    "repeat": assembling.np_repeat,
    "reshape": shaping.method_reshape,
    "round": elementwise.np_round,
    "searchsorted": searching.np_searchsorted,
    "sort": sorting.method_sort,
    "squeeze": shaping.np_squeeze,
    "std": reductions.np_std,
    "sum": reductions.np_sum,
    "swapaxes": shaping.np_swapaxes,
    "take": indexing.take,
    "trace": linalg.np_trace,
    "transpose": shaping.method_transpose,
    "var": reductions.np_var,
    "view": casting.method_view,
}

METHODS: dict[str, Entry] = {
    name: Entry(f"ndarray.{name}", _method(run), selected=selected_by(run)) for name, run in _METHODS.items()
}
REFUSED_METHODS: dict[str, str] = METHOD_REMEDIES

_SELECTED_ATTRIBUTES: dict[str, Callable[..., Any]] = {
    "dtype": selection.dtype_only(queries.attribute_dtype),
    "itemsize": selection.dtype_only(queries.attribute_itemsize),
    "ndim": selection.ndim,
    "size": selection.size,
}

ATTRIBUTES: dict[str, Entry] = {
    name: Entry(f"ndarray.{name}", run, selected=_SELECTED_ATTRIBUTES.get(name))
    for name, run in {
        "T": _method(shaping.np_transpose),
        "mT": _method(shaping.np_matrix_transpose),
        "real": casting.real,
        "imag": casting.imag,
        "shape": queries.np_shape,
        "ndim": queries.np_ndim,
        "size": queries.attribute_size,
        "dtype": queries.attribute_dtype,
        "itemsize": queries.attribute_itemsize,
        "nbytes": queries.attribute_nbytes,
        "device": queries.attribute_device,
    }.items()
}

getitem = Entry("x[key]", indexing.getitem)
setitem = Entry("x[key] = value", assignment.setitem, selected=assignment.set_selected)
