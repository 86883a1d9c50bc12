"""What of NumPy is not captured, each with the remedy that a graph break shows.

What goes in: nothing. What comes out: `remedies()`, keyed by the NumPy callable, and `METHOD_REMEDIES` by the name
of the ndarray method or attribute. Together with the table these cover NumPy's public functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

OUTSIDE = "call it outside the compiled function"
DATA_SIZE = "the size of the result depends on data: use a mask with np.where or where=, or call it outside"
QUANTILES = "quantiles without nans are not compiled: fill the nans, or call it outside the compiled function"
HISTOGRAMS = "use np.histogram of each axis, or bl.bincount of combined bin numbers"
BOOLEAN = "it gives a Python bool of data: return the array comparison, or call it outside the compiled function"
FILES = "read and write files outside the compiled function"
TEXT = "make text outside the compiled function"
STATE = "set NumPy's global state outside the compiled function"
DATES = "dates are not numbers here: convert them outside the compiled function"
BITS = "packed bits are not compiled: use shifts and masks"
CALLBACK = "it calls back into Python for each element: write it with whole-array functions"
WRITING = "assign by index in its place: x[indices] = values"
MATRICES = "numpy.matrix is not compiled: use two-dimensional arrays"
SETS = "the size of the result depends on data: use np.sort or np.isin, or call it outside the compiled function"

IMPURE = frozenset({FILES, TEXT, STATE, CALLBACK, WRITING, MATRICES})  # not even with constant arguments

_BY_REMEDY: dict[str, str] = {
    QUANTILES: "nanpercentile nanquantile",
    HISTOGRAMS: "histogram2d histogramdd",
    DATA_SIZE: "nonzero flatnonzero argwhere extract trim_zeros",
    SETS: "unique unique_all unique_counts unique_inverse unique_values union1d intersect1d setdiff1d setxor1d",
    BOOLEAN: "allclose array_equal array_equiv may_share_memory shares_memory",
    FILES: "load save savez savez_compressed loadtxt savetxt genfromtxt fromfile fromregex fromstring frombuffer "
    "from_dlpack",
    TEXT: "array2string array_repr array_str format_float_positional format_float_scientific info show_config "
    "show_runtime get_include",
    STATE: "seterr geterr seterrcall geterrcall setbufsize getbufsize set_printoptions get_printoptions printoptions "
    "test",
    DATES: "busday_count busday_offset is_busday datetime_as_string datetime_data isnat",
    BITS: "packbits unpackbits",
    CALLBACK: "apply_along_axis apply_over_axes frompyfunc fromfunction fromiter piecewise mask_indices nested_iters",
    WRITING: "put place put_along_axis",
    MATRICES: "bmat asmatrix",
    OUTSIDE: "asarray_chkfinite real_if_close ix_ "
    "ravel_multi_index unravel_index diag_indices diag_indices_from tril_indices tril_indices_from triu_indices "
    "triu_indices_from unwrap i0 kaiser hamming hanning bartlett blackman poly polyadd "
    "polyder polydiv polyfit polyint polymul polysub roots nanargmax nanargmin",
    "use np.vstack in its place": "row_stack",
}

_LINALG: dict[str, str] = {
    STATE: "test",
}
DATA_DEPENDENT = frozenset({DATA_SIZE, SETS})


def remedies() -> dict[Callable[..., Any], str]:
    """The remedy for every refused callable of this NumPy."""
    found: dict[Callable[..., Any], str] = {}
    for module, table in ((np, _BY_REMEDY), (np.linalg, _LINALG), (np.fft, {STATE: "test"})):
        for remedy, names in table.items():
            for name in names.split():
                function = getattr(module, name, None)
                if function is not None:
                    found[function] = remedy
    found[np.lib.stride_tricks.sliding_window_view] = "add up shifted slices: x[i : n - k + i + 1] for i in range(k)"
    found[np.lib.stride_tricks.as_strided] = "use slices, reshape and np.broadcast_to"
    return found


METHOD_REMEDIES: dict[str, str] = {
    **dict.fromkeys(("item", "tolist", "tobytes", "tofile", "dump", "dumps"), "it takes data out of the array: "
                    "return the array and convert it outside the compiled function"),
    "nonzero": DATA_SIZE,
    "flat": "use x.reshape(-1), or x.ravel()",
    "put": "assign by index: x[indices] = values",
    "resize": "use np.resize or np.pad",
    "byteswap": OUTSIDE,
    "setfield": OUTSIDE,
    "getfield": "use x.view(dtype) in its place",
    "setflags": "set flags outside the compiled function",
    "flags": "ask for flags outside the compiled function",
    "strides": "strides belong to the compiler: ask outside the compiled function",
    "base": "ask outside the compiled function",
    "ctypes": OUTSIDE,
    "data": OUTSIDE,
    "to_device": "arrays stay on the CPU: leave it out",
}  # fmt: skip
