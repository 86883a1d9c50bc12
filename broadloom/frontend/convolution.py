"""Convolution and correlation with a short kernel of static size, as a sum of shifted products.

What goes in: a signal and a kernel. What comes out: a fresh array. No weight meets an element that is not there.
"""

from __future__ import annotations

from collections.abc import Sequence

from broadloom import dtypes
from broadloom.frontend import shapes
from broadloom.frontend.operands import as_array, call, cast, constant, result_dtype
from broadloom.frontend.shaping import reversed_along
from broadloom.frontend.unsupported import Unsupported, plain_numpy_raises
from broadloom.graph.recorder import Recorder
from broadloom.graph.storage import ArrayHandle
from broadloom.symbolic import add, ge, sub


def np_convolve(r: Recorder, a: object, v: object, mode: str = "full") -> ArrayHandle:
    """`numpy.convolve` with a short kernel of static size."""
    x, kernel = as_array(r, a), as_array(r, v)
    if x.ndim == 0 or kernel.ndim == 0:
        x, kernel = (shapes.reshape(r, k, (1,)) if k.ndim == 0 else k for k in (x, kernel))
    if isinstance(x.shape[0], int) and isinstance(kernel.shape[0], int) and kernel.shape[0] > x.shape[0]:
        x, kernel = kernel, x
    return _sliding_products(r, x, reversed_along(r, kernel, [-1]), mode)


def np_correlate(r: Recorder, a: object, v: object, mode: str = "valid") -> ArrayHandle:
    """`numpy.correlate` with a short kernel of static size, not longer than the signal."""
    x, kernel = as_array(r, a), as_array(r, v)
    sizes = [n for n in (*x.shape[:1], *kernel.shape[:1]) if isinstance(n, int)]
    if len(sizes) == 2 and sizes[1] > sizes[0]:
        raise Unsupported("np.correlate with a kernel longer than the signal", "exchange the arguments")
    if kernel.dtype.kind == "c":
        kernel = call(r, "conj", kernel)
    return _sliding_products(r, x, kernel, mode)


LONGEST_KERNEL = 64


def _sliding_products(r: Recorder, x: ArrayHandle, kernel: ArrayHandle, mode: str) -> ArrayHandle:
    if x.ndim != 1 or kernel.ndim != 1:
        raise plain_numpy_raises("object too deep for desired array")
    k, n = kernel.shape[0], x.shape[0]
    if not isinstance(k, int) or not 0 < k <= LONGEST_KERNEL:
        raise Unsupported(f"a kernel of {k} elements", f"use a kernel of 1 to {LONGEST_KERNEL} elements")
    if (not isinstance(n, int) or n == 0) and not shapes.decide(r, ge(n, k)):
        raise Unsupported("a signal shorter than the kernel", "exchange the arguments")
    d = result_dtype(r, x.dtype.numpy, kernel.dtype.numpy)
    wide = dtypes.float32 if d.kind == "f" and d.bits == 16 else d  # whose products NumPy adds up in float32
    x, kernel = cast(r, x, wide), cast(r, kernel, wide)
    left = {"full": k - 1, "same": k // 2, "valid": 0}.get(mode)
    if left is None:
        raise plain_numpy_raises(f"mode must be one of 'valid', 'same', or 'full', got {mode!r}")
    right = {"full": k - 1, "same": k - 1 - k // 2, "valid": 0}[mode]
    weights = [shapes.drop_axes(r, shapes.cut(r, kernel, 0, i, 1), [0]) for i in range(k)]
    if mode == "valid":
        m = sub(n, k - 1)
        terms = [call(r, "multiply", shapes.cut(r, x, 0, i, m), w) for i, w in enumerate(weights)]
        return cast(r, _total(r, terms), d)
    # Products are padded, not the signal: no weight meets a zero that is not there (inf * 0 is nan).
    zero = constant(r, 0, wide)
    products = [call(r, "multiply", x, w) for w in weights]
    padded = [call(r, "pad", p, zero, before=(k - 1 - i,), after=(i,)) for i, p in enumerate(products)]
    return r.copy(shapes.cut(r, cast(r, _total(r, padded), d), 0, k - 1 - left, add(n, left + right - k + 1)))


def _total(r: Recorder, terms: Sequence[ArrayHandle]) -> ArrayHandle:
    total = terms[0]
    for term in terms[1:]:
        total = call(r, "add", total, term)
    return total
