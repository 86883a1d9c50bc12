"""`bl.special`: special functions, by the names they have in `scipy.special`, which is imported at their first call.

What goes in: tensors and numbers. What comes out: tensors of the dtypes that SciPy's functions give.
"""

from __future__ import annotations

from typing import Any

from broadloom.lazy import scipy_special
from broadloom.tensor.dispatch import call


def cbrt(x: Any, /) -> Any:
    """The cube root."""
    return call(scipy_special.cbrt, x)


def digamma(x: Any, /) -> Any:
    """The derivative of the logarithm of the gamma function."""
    return call(scipy_special.digamma, x)


def entr(x: Any, /) -> Any:
    """-x * log(x), 0 for 0, -inf for negative numbers."""
    return call(scipy_special.entr, x)


def erf(x: Any, /) -> Any:
    """The error function."""
    return call(scipy_special.erf, x)


def erfc(x: Any, /) -> Any:
    """1 - erf(x), without loss for great `x`."""
    return call(scipy_special.erfc, x)


def erfcinv(x: Any, /) -> Any:
    """The inverse of `erfc`."""
    return call(scipy_special.erfcinv, x)


def erfinv(x: Any, /) -> Any:
    """The inverse of `erf`."""
    return call(scipy_special.erfinv, x)


def exp10(x: Any, /) -> Any:
    """10 to the power of `x`."""
    return call(scipy_special.exp10, x)


def exp2(x: Any, /) -> Any:
    """2 to the power of `x`."""
    return call(scipy_special.exp2, x)


def expit(x: Any, /) -> Any:
    """1 / (1 + exp(-x))."""
    return call(scipy_special.expit, x)


def expm1(x: Any, /) -> Any:
    """exp(x) - 1, exact for small `x`."""
    return call(scipy_special.expm1, x)


def gamma(x: Any, /) -> Any:
    """The gamma function."""
    return call(scipy_special.gamma, x)


def gammaln(x: Any, /) -> Any:
    """The logarithm of the size of the gamma function."""
    return call(scipy_special.gammaln, x)


def huber(delta: Any, r: Any, /) -> Any:
    """r * r / 2 for numbers up to `delta` in size, beyond it linear."""
    return call(scipy_special.huber, delta, r)


def i0(x: Any, /) -> Any:
    """The modified Bessel function of order 0."""
    return call(scipy_special.i0, x)


def log1p(x: Any, /) -> Any:
    """log(1 + x), exact for small `x`."""
    return call(scipy_special.log1p, x)


def log_expit(x: Any, /) -> Any:
    """log(expit(x)), without overflow on the way."""
    return call(scipy_special.log_expit, x)


def logit(x: Any, /) -> Any:
    """log(x / (1 - x))."""
    return call(scipy_special.logit, x)


def ndtr(x: Any, /) -> Any:
    """The distribution function of the normal distribution."""
    return call(scipy_special.ndtr, x)


def ndtri(x: Any, /) -> Any:
    """The inverse of `ndtr`."""
    return call(scipy_special.ndtri, x)


def xlog1py(x: Any, y: Any, /) -> Any:
    """x * log1p(y), 0 where `x` is 0."""
    return call(scipy_special.xlog1py, x, y)


def xlogy(x: Any, y: Any, /) -> Any:
    """x * log(y), 0 where `x` is 0."""
    return call(scipy_special.xlogy, x, y)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """The logarithm of `softmax`, without overflow on the way."""
    return call(scipy_special.log_softmax, x, axis=axis)


def logsumexp(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """log(sum(exp(a))) along the axes, without overflow on the way."""
    return call(scipy_special.logsumexp, a, axis=axis, keepdims=keepdims)


def softmax(x: Any, axis: Any = None) -> Any:
    """exp(x) divided by its sum along the axes."""
    return call(scipy_special.softmax, x, axis=axis)
