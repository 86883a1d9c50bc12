"""The `fft` extension of the array API standard: discrete Fourier transforms, and the two-dimensional ones of NumPy.

What goes in: tensors; `n` or `s` are the sizes along the axes, cut or filled with zeros; `norm` says which direction is
divided by the size: "backward", "forward", or both by its root ("ortho"). What comes out: tensors of the precision of
the input.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import fft as numpy_fft  # an attribute of NumPy only from its first use on

from broadloom.tensor.dispatch import call


def fft(x: Any, /, *, n: Any = None, axis: int = -1, norm: Any = "backward") -> Any:
    """The transform along an axis."""
    return call(numpy_fft.fft, x, n=n, axis=axis, norm=norm)


def ifft(x: Any, /, *, n: Any = None, axis: int = -1, norm: Any = "backward") -> Any:
    """The inverse transform along an axis."""
    return call(numpy_fft.ifft, x, n=n, axis=axis, norm=norm)


def rfft(x: Any, /, *, n: Any = None, axis: int = -1, norm: Any = "backward") -> Any:
    """The transform of real numbers, its first half."""
    return call(numpy_fft.rfft, x, n=n, axis=axis, norm=norm)


def irfft(x: Any, /, *, n: Any = None, axis: int = -1, norm: Any = "backward") -> Any:
    """The inverse of `rfft`; `n` is the size of the result."""
    return call(numpy_fft.irfft, x, n=n, axis=axis, norm=norm)


def hfft(x: Any, /, *, n: Any = None, axis: int = -1, norm: Any = "backward") -> Any:
    """The transform, all real, of a signal of which the first half is given, the rest being its conjugate."""
    return call(numpy_fft.hfft, x, n=n, axis=axis, norm=norm)


def ihfft(x: Any, /, *, n: Any = None, axis: int = -1, norm: Any = "backward") -> Any:
    """The inverse of `hfft`."""
    return call(numpy_fft.ihfft, x, n=n, axis=axis, norm=norm)


def fftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = "backward") -> Any:
    """The transform along several axes, all by default."""
    return call(numpy_fft.fftn, x, s=s, axes=axes, norm=norm)


def ifftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = "backward") -> Any:
    """The inverse transform along several axes."""
    return call(numpy_fft.ifftn, x, s=s, axes=axes, norm=norm)


def rfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = "backward") -> Any:
    """The transform of real numbers along several axes, the first half along the last."""
    return call(numpy_fft.rfftn, x, s=s, axes=axes, norm=norm)


def irfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Any = "backward") -> Any:
    """The inverse of `rfftn`; `s` are the sizes of the result."""
    return call(numpy_fft.irfftn, x, s=s, axes=axes, norm=norm)


def fft2(x: Any, /, *, s: Any = None, axes: Any = (-2, -1), norm: Any = "backward") -> Any:
    """`fftn` along the last two axes."""
    return call(numpy_fft.fft2, x, s=s, axes=axes, norm=norm)


def ifft2(x: Any, /, *, s: Any = None, axes: Any = (-2, -1), norm: Any = "backward") -> Any:
    """`ifftn` along the last two axes."""
    return call(numpy_fft.ifft2, x, s=s, axes=axes, norm=norm)


def rfft2(x: Any, /, *, s: Any = None, axes: Any = (-2, -1), norm: Any = "backward") -> Any:
    """`rfftn` along the last two axes."""
    return call(numpy_fft.rfft2, x, s=s, axes=axes, norm=norm)


def irfft2(x: Any, /, *, s: Any = None, axes: Any = (-2, -1), norm: Any = "backward") -> Any:
    """`irfftn` along the last two axes."""
    return call(numpy_fft.irfft2, x, s=s, axes=axes, norm=norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies that the elements of `fft` stand for, of samples at distance `d`."""
    frequencies = call(numpy_fft.fftfreq, n, d=d, device=device)
    return frequencies if dtype is None else call(np.astype, frequencies, dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies that the elements of `rfft` stand for, with samples at distance `d`."""
    frequencies = call(numpy_fft.rfftfreq, n, d=d, device=device)
    return frequencies if dtype is None else call(np.astype, frequencies, dtype)


def fftshift(x: Any, /, *, axes: Any = None) -> Any:
    """The elements moved by half of each axis, so that frequency zero stands in the middle."""
    return call(numpy_fft.fftshift, x, axes=axes)


def ifftshift(x: Any, /, *, axes: Any = None) -> Any:
    """The inverse of `fftshift`."""
    return call(numpy_fft.ifftshift, x, axes=axes)
