"""The math library against mpmath: errors in units of the last place, special values, vector code."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from mpmath import mp, mpf

from broadloom.codegen.lane import Lane
from broadloom.codegen.llvm import Param
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.vmath import FUNCTIONS, call
from broadloom.dtypes import DType, float32, float64
from broadloom.errors import CodegenError
from tests.codegen.loops import Array, Case, compile_loops, host_features, loop_assembly, module_text

ROOT = Path(__file__).parents[2]
PRECISION = 180
Numbers = Callable[..., Array]
BINARY = ("pow", "atan2", "hypot", "fmod", "logaddexp", "logaddexp2")
EXACT: dict[str, Callable[..., mpf]] = {
    "exp2": lambda x: mpf(2) ** x,
    "log2": lambda x: mp.log(x) / mp.ln2,
    "log10": mp.log10,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)) if x else x,
    "pow": lambda x, y: x**y,
    "atan2": mp.atan2,
    "hypot": mp.hypot,
    "logaddexp": lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))),
    "logaddexp2": lambda x, y: max(x, y) + mp.log1p(mpf(2) ** -abs(x - y)) / mp.ln2,
}
# Where each function has its transitions, overflows and cancellations: dense samples go there.
INTERVALS: dict[str, tuple[tuple[float, float], ...]] = {
    "exp": ((-750, 720), (-1, 1), (-746, -700), (-104, -80)),
    "exp2": ((-1080, 1030), (-1, 1), (-1075, -1000), (-150, -120)),
    "expm1": ((-45, 720), (-1, 1), (-1e-3, 1e-3)),
    "log": ((0.5, 2), (0.99, 1.01), (0, 100)),
    "log2": ((0.5, 2), (0.99, 1.01), (0, 100)),
    "log10": ((0.5, 2), (0.99, 1.01), (0, 100)),
    "log1p": ((-1, 1), (-1e-3, 1e-3), (0, 100)),
    "sin": ((-10, 10), (-1e5, 1e5)),
    "cos": ((-10, 10), (-1e5, 1e5)),
    "tan": ((-10, 10), (-1e5, 1e5)),
    "asin": ((-1, 1), (0.499, 0.501), (0.999, 1)),
    "acos": ((-1, 1), (0.499, 0.501), (0.999, 1), (-1, -0.999)),
    "atan": ((-3, 3), (0.41, 0.42), (2.41, 2.42)),
    "sinh": ((-715, 715), (-90, 90), (-2, 2)),
    "cosh": ((-715, 715), (-90, 90), (-2, 2)),
    "tanh": ((-25, 25), (-2, 2), (0.94, 0.96)),
    "asinh": ((-10, 10), (-0.1, 0.1)),
    "acosh": ((1, 2), (1, 1.001), (1, 100)),
    "atanh": ((-1, 1), (-0.1, 0.1), (0.99, 1)),
    "erf": ((-7, 7), (-1, 1), (0.94, 1.01)),
    "erfc": ((-7, 30), (-1, 1), (0.49, 0.51), (26, 28)),
    "cbrt": ((-10, 10), (0.99, 1.01)),
}
DOMAINS: dict[str, Callable[[Array], Array]] = {
    **dict.fromkeys(("log", "log2", "log10"), np.abs),
    "acosh": lambda x: np.maximum(np.abs(x), 1),
    "log1p": lambda x: np.where(x < -1, -1 / x, x),
    **dict.fromkeys(("asin", "acos", "atanh"), lambda x: np.where(np.abs(x) > 1, 1 / x, x)),
}
# Doubles and floats closest to a multiple of pi/2, as far as their exponents go.
HARD = {float64: 6381956970095103.0 * 2.0**797, float32: 16367173.0 * 2.0**72}
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0)


NUMPY_NAMES = {"pow": "power", "atan2": "arctan2"}
NUMPY_NAMES |= {f"a{n}": f"arc{n}" for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}


def info(dtype: DType) -> Any:
    return np.finfo(dtype.numpy)


def log_uniform(dtype: DType, n: int, rng: np.random.Generator) -> Array:
    """Numbers of every size and sign, subnormals too."""
    low = np.log2(float(info(dtype).smallest_subnormal))
    sizes = np.exp2(rng.uniform(low, info(dtype).maxexp, n).astype(np.longdouble))
    return np.asarray(np.minimum(sizes, info(dtype).max) * rng.choice([-1, 1], n)).astype(dtype.numpy)


def arguments(name: str, dtype: DType, n: int, rng: np.random.Generator) -> list[Array]:
    with np.errstate(all="ignore"):
        if name in BINARY:
            return _two_arguments(name, dtype, n, rng)
        dense = [rng.uniform(low, high, n).astype(dtype.numpy) for low, high in INTERVALS[name]]
        x = np.concatenate([log_uniform(dtype, n, rng), *dense])
        if name in ("sin", "cos", "tan"):
            near = (rng.integers(1, 10**6, n) * np.pi / 2).astype(dtype.numpy)
            x = np.concatenate([x, near, np.array([HARD[dtype], -HARD[dtype]], dtype.numpy)])
        keep = DOMAINS.get(name, lambda x: x)(x).astype(dtype.numpy)
    return [keep[np.isfinite(keep)]]


def _two_arguments(name: str, dtype: DType, n: int, rng: np.random.Generator) -> list[Array]:
    x, y = (np.concatenate([log_uniform(dtype, n, rng), rng.uniform(-9, 9, n).astype(dtype.numpy)]) for _ in "xy")
    if name in ("logaddexp", "logaddexp2"):  # of one sign: where the sum cancels, no bound holds
        return [np.abs(x) % 300, np.abs(y) % 300]
    if name != "pow":
        return [x, y]
    x = np.abs(np.concatenate([x, (1 + rng.uniform(-1e-3, 1e-3, n)).astype(dtype.numpy)]))
    top = 1.05 * np.log(float(info(dtype).max))
    y = (rng.uniform(-top, top, x.size) / np.log(x.astype(np.float64))).astype(dtype.numpy)
    keep = np.isfinite(y) & (x > 0)
    return [x[keep], y[keep]]


def worst_error(name: str, dtype: DType, operands: list[Array], got: Array) -> tuple[float, str]:
    """The largest error in units of the last place, and where. Overflow and underflow must be IEEE's."""
    exact = EXACT.get(name) or getattr(mp, name)
    bits, least, top = info(dtype).nmant, float(info(dtype).smallest_subnormal), float(info(dtype).max)
    worst, where = 0.0, ""
    with mp.workprec(PRECISION):
        limit, unit_floor = mpf(top) * (1 + mpf(2) ** -(bits + 2)), mpf(least)
        for *xs, value in zip(*(x.tolist() for x in operands), got.tolist(), strict=True):
            if any(x == 0 for x in xs):
                continue  # among the special values
            try:
                true = exact(*map(mpf, xs))
            except OverflowError:
                continue
            if not mp.isfinite(true):
                error = 0.0 if value == true else np.inf
            elif abs(true) > limit:
                error = 0.0 if value == (np.inf if true > 0 else -np.inf) else np.inf
            elif not np.isfinite(value):
                error = 0.0 if abs(true) > mpf(top) * (1 - mpf(2) ** -bits) else np.inf
            else:
                unit = max(mp.ldexp(1, mp.frexp(true)[1] - 1 - bits), unit_floor)
                error = float(abs(value - true) / unit)
            if not error <= worst:
                worst, where = error, f"{name}({', '.join(map(repr, xs))}) = {value!r}, exactly {float(true)!r}"
    return worst, where


def bound(name: str, dtype: DType) -> float:
    entry = FUNCTIONS[name]
    return entry.float_bound if dtype is float32 else entry.double_bound


def case(name: str, dtype: DType) -> Case:
    return Case(name, (dtype,) * (2 if name in BINARY else 1), dtype)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "fmod"])
def test_error_is_within_the_stated_bound(
    name: str, dtype: DType, rng: np.random.Generator, request: pytest.FixtureRequest
) -> None:
    n = 4000 if request.config.getoption("--full") else 300
    (function,) = compile_loops([case(name, dtype)])
    operands = arguments(name, dtype, n, rng)
    worst, where = worst_error(name, dtype, operands, function(*operands))
    assert worst <= bound(name, dtype), where


def in_double(name: str) -> Callable[..., Array]:
    """NumPy's or SciPy's function, whose doubles serve to judge floats."""
    source = scipy.special if name.startswith("erf") else np
    return getattr(source, NUMPY_NAMES.get(name, name))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in (*BINARY, "sin", "cos", "tan")])
def test_floats_of_every_exponent_are_within_the_bound(
    name: str, rng: np.random.Generator, request: pytest.FixtureRequest
) -> None:
    """Against doubles, which takes no time: 2**11 floats an exponent, or every 31st of all floats."""
    step = 31 if request.config.getoption("--full") else 1 << 13
    (function,) = compile_loops([case(name, float32)])
    for start in range(0, 1 << 32, 1 << 25):
        patterns = np.arange(start + int(rng.integers(step)), start + (1 << 25), step, dtype=np.uint32)
        x = patterns.view(np.float32)
        with np.errstate(all="ignore"):
            true = in_double(name)(x.astype(np.float64))
            unit = np.ldexp(1.0, np.maximum(np.frexp(np.abs(true))[1] - 24, -149))
            error = np.abs(function(x).astype(np.float64) - true) / unit
        error[~(np.abs(true) <= float(info(float32).max))] = 0.0
        assert error.max() <= bound(name, float32) + 1e-6, f"{name}({x[error.argmax()]!r})"


def test_every_float_around_the_seam_of_tanh_is_within_the_bound() -> None:
    """Where a polynomial ends and exp begins, no float is left out."""
    (function,) = compile_loops([case("tanh", float32)])
    x = np.arange(*np.array([0.8, 1.1], np.float32).view(np.int32), dtype=np.int32).view(np.float32)
    true = np.tanh(x.astype(np.float64))
    assert np.abs(function(x) - true).max() * 2.0**24 <= 0.97


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tan", "erfc", "pow", "tanh", "atan", "hypot"])
def test_bounds_hold_without_fused_multiply_add(name: str, rng: np.random.Generator) -> None:
    for dtype in (float32, float64):
        (function,) = compile_loops([case(name, dtype)], host_features() - {"fma"})
        operands = arguments(name, dtype, 150, rng)
        worst, where = worst_error(name, dtype, operands, function(*operands))
        allowed = 1.25 if (name, dtype) == ("tanh", float32) else bound(name, dtype)
        assert worst <= allowed, where


@pytest.mark.parametrize("features", ["host", "plain"])
def test_fmod_is_exact(features: str, rng: np.random.Generator) -> None:
    chosen = host_features() if features == "host" else host_features() - {"fma"}
    functions = compile_loops([case("fmod", d) for d in (float32, float64)], chosen)
    for dtype, function in zip((float32, float64), functions, strict=True):
        for span in (1, 30, 300, 2200):
            x, y = log_uniform(dtype, 20000, rng), log_uniform(dtype, 20000, rng)
            with np.errstate(all="ignore"):
                near = (x * np.exp2(rng.uniform(-span, 2, x.size))).astype(dtype.numpy)
                y = np.where(near == 0, y, near)
                expected = np.fmod(x, y)
            np.testing.assert_array_equal(
                function(x, y).view(f"i{dtype.itemsize}"), expected.view(f"i{dtype.itemsize}")
            )


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_special_values_are_those_of_c(name: str) -> None:
    reference = in_double(name)
    for dtype in (float32, float64):
        values = [*SPECIAL, float(info(dtype).max), float(info(dtype).smallest_subnormal), -float(info(dtype).max)]
        x = np.array(values, dtype.numpy)
        operands = [v.ravel() for v in np.meshgrid(x, x)] if name in BINARY else [x]
        (function,) = compile_loops([case(name, dtype)])
        got = function(*operands)
        with np.errstate(all="ignore"):
            expected = reference(*operands)
        plain = np.isfinite(expected) & (expected != 0)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        np.testing.assert_array_equal(got[~plain], expected[~plain])
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))
        np.testing.assert_allclose(got[plain], expected[plain], rtol=1e-6 if dtype is float32 else 1e-14)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_loop_is_vector_code_without_calls(name: str, dtype: DType) -> None:
    text = loop_assembly(case(name, dtype))
    assert not re.search(r"^\s+(call|bl|blr)\b", text, re.MULTILINE)
    assert re.search(r"\w+p[sd]\b.*%[xyz]mm|\bv\d+\.(2d|4s)", text)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_the_tail_of_a_loop_gives_the_bits_of_its_body(name: str, rng: np.random.Generator) -> None:
    for dtype in (float32, float64):
        (function,) = compile_loops([case(name, dtype)], level=2)
        operands = [np.abs(log_uniform(dtype, 67, rng)) for _ in case(name, dtype).operands]
        together = function(*operands)
        alone = np.concatenate([function(*(x[k : k + 1] for x in operands)) for k in range(67)])
        np.testing.assert_array_equal(together, alone)


def test_other_types_are_refused() -> None:
    f = ModuleBuilder("m").function("f", "half", [Param("half", "x")])
    with pytest.raises(CodegenError, match="math function exp on other types"):
        call("exp", Lane(f, f.params[0]))


def test_the_document_states_the_bounds() -> None:
    text = (ROOT / "docs" / "math.md").read_text()
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.MULTILINE)
    assert {n: (float(f), float(d)) for n, f, d in rows} == {
        n: (e.float_bound, e.double_bound) for n, e in FUNCTIONS.items()
    }


def test_the_coefficients_are_those_of_the_generator(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "tools" / "minimax.py"), run_name="__main__")
    mp.dps = 15
    assert capsys.readouterr().out == (ROOT / "broadloom" / "codegen" / "vmath" / "coefficients.py").read_text()


def test_powers_of_floats_do_not_look_for_subnormal_doubles() -> None:
    """A float is a normal number in double, where its logarithm is taken."""
    smallest = "0x0010000000000000"
    assert smallest in module_text([Case("pow", (float64, float64), float64)])
    assert smallest not in module_text([Case("pow", (float32, float32), float32)])
