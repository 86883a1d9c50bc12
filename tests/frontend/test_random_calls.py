"""Random calls of many functions on random arrays: whatever NumPy gives the frontend gives, or it refuses.

What holds for each call: if NumPy raises, the frontend refuses or the interpreter raises the same class; if NumPy
does not raise, and the frontend does not refuse, all that `harness.check` compares is equal.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from broadloom.dtypes import ALL
from broadloom.frontend import Unsupported
from tests.frontend.harness import check, clone

SHAPES = [(), (0,), (1,), (5,), (2, 3), (3, 1), (1, 1), (0, 3), (3, 3), (2, 3, 4), (2, 0, 3), (1, 3, 1)]
NUMBERS = [0, 1, 2, 3, -1, 5, -7, 0.5, -0.0, 2.25]
AXES = [None, 0, 1, -1, -2, 2, (0,), (0, 1), (-1, 0)]
OPERANDS = [0, 1, 2, -1, 3, 0.5, 2.0, -1.5, True, 1j, 255, -300, np.float32(1.5), np.int8(3), np.array(2.0), [1, 2, 3]]
KEYS = [0, 1, -1, 2, None, ..., [0], [0, 0], [], np.array([[0], [-1]]), np.array(0)]
KEYS += [slice(*s) for s in ((None,), (1, None), (None, None, -1), (None, None, 2), (-2, -1), (5, 1, -2), (0, 0))]
REDUCTIONS = [
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "var",
    "std",
    "any",
    "all",
    "ptp",
    "nansum",
    "nanmax",
    "nanmin",
    "nanmean",
    "nanprod",
    "argmax",
    "cumsum",
]
UNARY = [
    "sin",
    "exp",
    "sqrt",
    "abs",
    "negative",
    "isnan",
    "square",
    "sign",
    "floor",
    "rint",
    "conj",
    "logical_not",
    "real",
    "imag",
    "signbit",
    "reciprocal",
    "positive",
    "fabs",
    "invert",
    "cbrt",
    "log1p",
    "deg2rad",
    "isfinite",
    "angle",
    "isreal",
    "iscomplex",
    "nan_to_num",
    "round",
    "fix",
    "copy",
    "squeeze",
    "ravel",
    "transpose",
    "flip",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "ascontiguousarray",
    "asfortranarray",
    "zeros_like",
    "ones_like",
    "diff",
    "cumsum",
    "argmin",
    "trace",
    "diagonal",
    "diag",
    "tril",
    "triu",
    "ediff1d",
    "array",
    "asarray",
    "gradient",
    "rot90",
    "fliplr",
    "average",
    "matrix_transpose",
    "trapezoid",
    "modf",
    "isposinf",
    "diagflat",
    "vander",
    "meshgrid",
    "unstack",
    "sinc",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "fmod",
    "power",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "arctan2",
    "hypot",
    "copysign",
    "equal",
    "less",
    "greater_equal",
    "logical_and",
    "logical_xor",
    "bitwise_and",
    "left_shift",
    "logaddexp",
    "heaviside",
    "dot",
    "matmul",
    "inner",
    "outer",
    "vdot",
    "vecdot",
    "kron",
    "append",
    "isclose",
    "cross",
    "nextafter",
    "float_power",
    "divmod",
    "tensordot",
    "correlate",
    "convolve",
    "matvec",
    "vecmat",
]
# BLAS multiplies complex infinities in its own way
CONTRACTIONS = [
    "dot",
    "matmul",
    "inner",
    "outer",
    "vdot",
    "vecdot",
    "kron",
    "tensordot",
    "correlate",
    "convolve",
    "matvec",
    "vecmat",
]
SHAPING: dict[str, Callable[..., Any]] = {
    "reshape": lambda np, x, p: x.reshape(p((-1,), (2, -1), (3, 2), (6,), (1, -1, 1), ()), order=p("C", "F", "A")),
    "ravel": lambda np, x, p: x.ravel(p("C", "F", "A")),
    "swapaxes": lambda np, x, p: np.swapaxes(x, p(0, 1, -1, 2), p(0, 1, -1)),
    "moveaxis": lambda np, x, p: np.moveaxis(x, p(0, 1, -1, 2), p(0, 1, -1)),
    "expand_dims": lambda np, x, p: np.expand_dims(x, p(0, 1, -1, (0, -1), (1, 2))),
    "concatenate": lambda np, x, p: np.concatenate([x, x[:1]], axis=p(0, 1, -1, 2)),
    "stack": lambda np, x, p: (np.stack([x, x], axis=p(0, 1, -1)), np.hstack([x, x]), np.vstack([x, x])),
    "take": lambda np, x, p: np.take(x, p(0, [0, -1], [[0], [-1]], []), axis=p(0, 1, -1, None)),
    "repeat": lambda np, x, p: np.repeat(x, p(0, 1, 3), axis=p(0, 1, None)),
    "tile": lambda np, x, p: np.tile(x, p(0, 1, 3, (2, 1), (2, 1, 3))),
    "roll": lambda np, x, p: np.roll(x, p(0, 1, -2, 7), p(0, 1, -1, None)),
    "pad": lambda np, x, p: np.pad(x, p(0, 1, (1, 2), (0, 3)), p("constant", "edge", "reflect", "symmetric", "wrap")),
    "pad-statistic": lambda np, x, p: np.pad(x, p(1, (1, 2)), p("maximum", "minimum", "mean")),
    "astype": lambda np, x, p: x.astype(
        p("f4", "i1", "u1", "c8", "f2", "i8"), order=p("C", "F", "K"), copy=p(True, False)
    ),
    "view": lambda np, x, p: x.view(p("f4", "i1", "u1", "c8", "f2", "i8", "f8")),
    "clip": lambda np, x, p: np.clip(x, p(*OPERANDS, None), p(*OPERANDS, None)),
    "where": lambda np, x, p: np.where(x, p(*OPERANDS), x),
    "split": lambda np, x, p: np.array_split(x, p(2, 3, [1, 2]), axis=p(0, 1, -1)),
    "diagonal": lambda np, x, p: (np.diagonal(x, p(0, 1, -2), p(0, 1), p(1, 2)), np.trace(x, p(0, 1))),
    "linspace": lambda np, x, p: np.linspace(p(0, x), p(1.5, x), p(0, 1, 3), axis=p(0, -1)),
    "full_like": lambda np, x, p: np.full_like(x, 2, dtype=p("f4", "i1", None), order=p("K", "C", "F")),
    "power": lambda np, x, p: x ** p(*OPERANDS),
    "reflected": lambda np, x, p: (p(2, 0.5, -3) - x, p(2, 0.5) // x, p(2, 1.5) % x),
    "update": lambda np, x, p: x.__iadd__(p(*OPERANDS)),
    "delete": lambda np, x, p: (np.delete(x, p(0, [0], slice(1)), axis=p(0, 1, None)), np.insert(x, 1, 2, axis=0)),
    "select": lambda np, x, p: np.select([x > 1, x > 0], [x, p(0, 1.5)], p(*OPERANDS[:6])),
    "take_along_axis": lambda np, x, p: np.take_along_axis(x, np.argmax(x, axis=0, keepdims=True), 0),
}


class Maker:
    """Draws arrays, arguments and calls."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.broadcast = False  # does a call have an argument with zero strides?
        self.finite = False  # are infinities and nans left out?

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def array(self, shape: tuple[int, ...] | None = None) -> np.ndarray:
        shape = self.pick(*SHAPES) if shape is None else shape
        d = self.pick(*(d for d in ALL if d.name != "bfloat16")).numpy
        d = d if self.random.random() < 0.6 else np.dtype(np.float64)
        base = np.array([self.pick(*NUMBERS) for _ in range(int(np.prod(shape)))])
        x = (np.abs(base) if d.kind == "u" else base).astype(d).reshape(shape)
        if d.kind == "f" and x.size and self.random.random() < 0.3 and not self.finite:
            x[np.unravel_index(self.random.randrange(x.size), shape)] = self.pick(np.nan, np.inf, -np.inf)
        if d.kind == "c":
            x = np.asarray(x * self.pick(1, 1 + 0.5j, 1 - 1j)).astype(d)
        return self.laid_out(x)

    def laid_out(self, x: np.ndarray) -> np.ndarray:
        layout = self.pick("c", "c", "c", "f", "permuted", "strided", "negative", "broadcast")
        if x.ndim == 0 or layout == "c":
            return x
        if layout == "f":
            return np.asfortranarray(x)
        if layout == "permuted":
            order = self.random.sample(range(x.ndim), x.ndim)
            return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
        if layout == "strided":
            wide = np.zeros([2 * n for n in x.shape], x.dtype)
            every = tuple(slice(None, None, 2) for _ in x.shape)
            wide[every] = x
            return wide[every]
        if layout == "negative":
            key = tuple(slice(None, None, self.pick(1, -1)) for _ in x.shape)
            return np.ascontiguousarray(x[key])[key]
        if x.shape[0] == 0:
            return x
        self.broadcast = True
        return np.broadcast_to(x[:1], x.shape)

    def key(self, x: np.ndarray) -> Any:
        parts = tuple(self.pick(*KEYS) for _ in range(self.random.randint(0, x.ndim + 1)))
        return parts if len(parts) != 1 or self.random.random() < 0.5 else parts[0]

    def call(self) -> tuple[str, Callable[..., Any], tuple[np.ndarray, ...]]:
        self.broadcast = self.finite = False
        kind = self.pick("reduction", "unary", "binary", "binary", "getitem", "setitem", "shaping", "shaping")
        return getattr(self, kind)()

    def reduction(self) -> Any:
        name, axis = self.pick(*REDUCTIONS), self.pick(*AXES)
        # A complex product of an infinity shows whether NumPy's loop began with the identity.
        self.finite = name == "prod"
        x = self.array()
        keywords: dict[str, Any] = {}
        if name != "cumsum" and self.random.random() < 0.4:
            keywords["keepdims"] = self.pick(True, False)
        if name in ("sum", "prod", "max", "min") and self.random.random() < 0.3:
            keywords["initial"] = self.pick(0, 1, 2.5)
        if name in ("sum", "prod", "mean", "cumsum") and self.random.random() < 0.3:
            keywords["dtype"] = self.pick("f4", "f8", "c16", "i8")
        if name in ("var", "std") and self.random.random() < 0.3:
            keywords["ddof"] = self.pick(0, 1, 2)
        return f"{name} {axis} {keywords}", lambda np, x: getattr(np, name)(x, axis=axis, **keywords), (x,)

    def unary(self) -> Any:
        name, x = self.pick(*UNARY), self.array()
        return name, lambda np, x: getattr(np, name)(x), (x,)

    def binary(self) -> Any:
        name = self.pick(*BINARY)
        self.finite = name in CONTRACTIONS
        x = self.array()
        if self.random.random() < 0.4:
            y = self.pick(*OPERANDS)
            swap = self.random.random() < 0.3
            return f"{name} {y!r}", lambda np, x: getattr(np, name)(*((y, x) if swap else (x, y))), (x,)
        other = self.array(self.pick(None, x.shape, x.shape[1:], x.shape[::-1]))
        return name, lambda np, x, y: getattr(np, name)(x, y), (x, other)

    def getitem(self) -> Any:
        x = self.array()
        key = self.key(x)
        return f"x[{key!r}]", lambda np, x: x[key], (x,)

    def setitem(self) -> Any:
        x = self.array()
        key, value = self.key(x), self.pick(*OPERANDS)
        update = self.random.random() < 0.4

        def f(np: Any, x: Any) -> Any:
            if update:
                x[key] += value
            else:
                x[key] = value
            return x

        return f"x[{key!r}] {'+' if update else ''}= {value!r}", f, (x,)

    def shaping(self) -> Any:
        name, x, seed = self.pick(*SHAPING), self.array(), self.random.randrange(1 << 30)
        f = SHAPING[name]

        def run(np: Any, x: Any) -> Any:
            return f(np, x, Maker(seed).pick)

        return f"{name} {seed}", run, (x,)


def numpy_error(f: Callable[..., Any], arrays: tuple[np.ndarray, ...]) -> Exception | None:
    try:
        with np.errstate(all="ignore"):
            f(np, *map(clone, arrays))
    except (ValueError, TypeError, IndexError, ArithmeticError, np.linalg.LinAlgError) as error:
        return error
    return None


@pytest.mark.parametrize("part", range(4))
def test_random_calls(part: int, seed: int, request: pytest.FixtureRequest) -> None:
    maker = Maker(seed)
    refusals = 0
    count = 4_000 if request.config.option.full else 400
    for _ in range(count):
        name, f, arrays = maker.call()
        told = f"{name} of {', '.join(f'{a.dtype}{a.shape} strides {a.strides}' for a in arrays)}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error = numpy_error(f, arrays)
            try:
                # NumPy walks axes of stride zero in orders that depend on its buffering
                check(f, *arrays, exact=False, strides=not maker.broadcast)
                assert error is None, f"{told}: NumPy raises {error!r}"
            except Unsupported:
                refusals += error is None
            except (ValueError, TypeError, IndexError, ArithmeticError) as raised:
                assert isinstance(raised, type(error)), f"{told}: {raised!r}, NumPy {error!r}"
            except AssertionError as difference:
                raise AssertionError(f"{told}: {difference}") from difference
    assert refusals < count / 20
