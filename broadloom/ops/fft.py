"""Discrete Fourier transforms along the last axis.

Dtypes: float32, float64 and their complex companions; a transform computes in its operand's precision. `n` is the
number of points, an int from 1 on: an operand of another length is cut off or extended with zeros, as by numpy.fft.
`norm` says what the sum is divided by: "none", "root" (the square root of n) or "size" (n).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from broadloom.dtypes import DType, complex64, complex128, float32, float64
from broadloom.errors import ShapeError
from broadloom.ops import rules
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.rules import Array
from broadloom.ops.signature import Dim, Signature

REALS, COMPLEXES = (float32, float64), (complex64, complex128)
_COMPLEX_OF = dict(zip(REALS, COMPLEXES, strict=True))
_CAST = "numpy.fft computes in float64: cast first"
_HALVES = "numpy.fft computes float16 in float32: cast first"
_NORMS = {False: {"none": "backward", "root": "ortho", "size": "forward"}}
_NORMS[True] = {"none": "forward", "root": "ortho", "size": "backward"}


def _reasons(allowed: tuple[DType, ...], other: str) -> dict[DType, str]:
    return rules.reasons(allowed, bools=_CAST, ints=_CAST, halves=_HALVES, floats=other, complexes=other)


def _read(name: str, attrs: Mapping[str, Any]) -> int:
    """The number of points. Raises `ShapeError` for bad attributes."""
    rules.read_choice(name, attrs, "norm", "none", "root", "size")
    n = attrs["n"]
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ShapeError(f"{name}: n is not a number of points", got=repr(n), allowed="an int of at least 1")
    return n


def _fft_signature(attrs: Mapping[str, Any]) -> Signature:
    rules.read_choice("fft", attrs, "inverse", True, False)
    return Signature(((Dim("m"),),), rules.outs(Dim(_read("fft", attrs))))


def _rfft_signature(attrs: Mapping[str, Any]) -> Signature:
    return Signature(((Dim("m"),),), rules.outs(Dim(_read("rfft", attrs) // 2 + 1)))


def _irfft_signature(attrs: Mapping[str, Any]) -> Signature:
    return Signature(((Dim("m"),),), rules.outs(Dim(_read("irfft", attrs))))


def _fft(x: Array, n: int, norm: str, inverse: bool) -> Array:
    function = np.fft.ifft if inverse else np.fft.fft
    return _quiet(function, x, n, _NORMS[inverse][norm])


def _rfft(x: Array, n: int, norm: str) -> Array:
    return _quiet(np.fft.rfft, x, n, _NORMS[False][norm])


def _irfft(x: Array, n: int, norm: str) -> Array:
    if x.shape[-1] == 0:  # NumPy's leaves the memory of its result as it was
        return np.zeros((*x.shape[:-1], n), x.real.dtype)
    return _quiet(np.fft.irfft, x, n, _NORMS[True][norm])


def _quiet(function: Any, x: Array, n: int, norm: str) -> Array:
    with np.errstate(all="ignore"):
        result: Array = function(x, n, -1, norm)
    return result


def _complex_rule(name: str) -> rules.Rule:
    return rules.same_rule(name, _reasons(COMPLEXES, "make it complex first, or use rfft"))


def _rfft_rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    return (_COMPLEX_OF[rules.require_cell("rfft", dtypes[0], _RFFT_EMPTY)],)


def _irfft_rule(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
    return (rules.require_cell("irfft", dtypes[0], _COMPLEX_EMPTY).real,)


_RFFT_EMPTY = _reasons(REALS, "its transform has no symmetry: use fft")
_COMPLEX_EMPTY = _reasons(COMPLEXES, "make it complex first, or use rfft")


def _transform(
    name: str, doc: str, signature: Any, rule: rules.Rule, reference: Any, switches: tuple[dict[str, Any], ...]
) -> Op:
    sizes = ((8, 8), (5, 5), (1, 1), (6, 4), (3, 7), (0, 2), (17, 17), (12, 24))
    norms = ("none", "root", "size")
    samples = [
        Sample(((m,),), {"n": n, "norm": norms[k % 3], **switches[k % len(switches)]}) for k, (m, n) in enumerate(sizes)
    ]
    return Op(
        name=name,
        doc=doc,
        signature=signature,
        result_dtypes=rule,
        reference=reference,
        arity=1,
        attr_names=("n", "norm", *switches[0]),
        traits=frozenset({Trait.TRANSFORM}),
        samples=tuple(samples),
        sample_dtypes=tuple((d,) for d in (REALS if name == "rfft" else COMPLEXES)),
        empty=_RFFT_EMPTY if name == "rfft" else _COMPLEX_EMPTY,
    )


OPS = (
    _transform(
        "fft",
        "The sum of x[j] * exp(-2i pi j k/n) over j; with `inverse`, of x[j] * exp(2i pi j k/n).",
        _fft_signature,
        _complex_rule("fft"),
        _fft,
        ({"inverse": False}, {"inverse": True}),
    ),
    _transform(
        "rfft", "The first n//2 + 1 elements of the fft of real numbers.", _rfft_signature, _rfft_rule, _rfft, ({},)
    ),
    _transform(
        "irfft",
        """The inverse fft, which is real, of what rfft gives. Of n//2 + 1 elements only the real part of the first
        counts, and for even n of the last.""",
        _irfft_signature,
        _irfft_rule,
        _irfft,
        ({},),
    ),
)
