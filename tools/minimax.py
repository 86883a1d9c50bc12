"""Computes the polynomial coefficients of the math library.

    python tools/minimax.py > broadloom/codegen/vmath/coefficients.py

What goes in: the table SPECS, one function and interval a row. What comes out: the module `coefficients`, on standard
output, with the error of each polynomial (before rounding of its coefficients) as a comment.

The error, weighted by what it contributes to the final result, is equal at all extrema (the Remez exchange, see
Trefethen, Approximation Theory and Approximation Practice, chapter 10).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mpmath import mp, mpf

mp.dps = 60
Function = Callable[[mpf], mpf]


@dataclass(frozen=True, slots=True)
class Spec:
    """`function` on [low, high] by a polynomial of `degree`; the error is told relative to what `scale` says it
    contributes to the final result."""

    name: str
    function: Function
    low: float
    high: float
    degree: int
    scale: Function


def exp_tail(r: mpf) -> mpf:
    """exp(r) = 1 + r + r*r*tail."""
    return mp.hyp1f1(1, 3, r) / 2


def log_tail(z: mpf) -> mpf:
    """log((1 + s)/(1 - s)) = 2s + s*z*tail, z = s*s."""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


def log_tail_pow(z: mpf) -> mpf:
    """log((1 + s)/(1 - s)) = 2s + s*z*(2/3 + z*tail)."""
    return (log_tail(z) - mpf(2) / 3) / z


def sin_tail(z: mpf) -> mpf:
    """sin(r) = r + r*z*tail, z = r*r."""
    r = mp.sqrt(z)
    return (mp.sin(r) / r - 1) / z


def cos_tail(z: mpf) -> mpf:
    """cos(r) = 1 - z/2 + z*z*tail."""
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def asin_tail(z: mpf) -> mpf:
    """asin(x) = x + x*z*tail, z = x*x."""
    x = mp.sqrt(z)
    return (mp.asin(x) / x - 1) / z


def atan_tail(z: mpf) -> mpf:
    """atan(x) = x + x*z*tail."""
    x = mp.sqrt(z)
    return (mp.atan(x) / x - 1) / z


def tanh_tail(z: mpf) -> mpf:
    """tanh(x) = x + x*z*tail."""
    x = mp.sqrt(z)
    return (mp.tanh(x) / x - 1) / z


def exp_twice(r: mpf) -> mpf:
    """exp(2r) = 1 + r*value."""
    return mp.expm1(2 * r) / r


def inverse_cube_root(r: mpf) -> mpf:
    """r**(-1/3)."""
    return r ** (mpf(-1) / 3)


def erf_small(z: mpf) -> mpf:
    """erf(x) = x + x*value, z = x*x."""
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1


def erf_large(t: mpf) -> mpf:
    """erf(x) = 1 - erfc(1)*exp(-t*value), t = x - 1."""
    return -mp.log(mp.erfc(t + 1) / mp.erfc(1)) / t


def erf_large_share(t: mpf) -> mpf:
    """What an error of `erf_large` makes of erf."""
    return t * mp.erfc(t + 1)


def erfc_scaled(q: mpf) -> mpf:
    """erfc(x) = exp(-x*x) * value / (1 + 2x), with q = (x - 4)/(x + 4)."""
    if q == 1:
        return 2 / mp.sqrt(mp.pi)
    x = 4 * (1 + q) / (1 - q)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def _one(_: mpf) -> mpf:
    return mpf(1)


LN2_HALF = 0.3466
Z_LOG = 0.02946
Z_PIO4 = 0.6170
Z_TAN_PIO8 = 0.1717
SPECS = (
    Spec("EXP_F64", exp_tail, -LN2_HALF, LN2_HALF, 9, lambda r: r * r),
    Spec("EXP_F32", exp_tail, -LN2_HALF, LN2_HALF, 5, lambda r: r * r),
    Spec("LOG_F64", log_tail, 0, Z_LOG, 6, lambda z: z / 2),
    Spec("LOG_F32", log_tail, 0, Z_LOG, 2, lambda z: z / 2),
    Spec("LOG_POW", log_tail_pow, 0, Z_LOG, 7, lambda z: z * z / 2),
    Spec("SIN_F64", sin_tail, 0, Z_PIO4, 5, lambda z: z),
    Spec("COS_F64", cos_tail, 0, Z_PIO4, 5, lambda z: z * z),
    Spec("SIN_F32", sin_tail, 0, Z_PIO4, 3, lambda z: z),
    Spec("COS_F32", cos_tail, 0, Z_PIO4, 2, lambda z: z * z),
    Spec("ASIN_F64", asin_tail, 0, 0.25, 12, lambda z: z),
    Spec("ASIN_F32", asin_tail, 0, 0.25, 5, lambda z: z),
    Spec("ATAN_F64", atan_tail, 0, Z_TAN_PIO8, 10, lambda z: z),
    Spec("ATAN_F32", atan_tail, 0, Z_TAN_PIO8, 4, lambda z: z),
    Spec("TANH_F32", tanh_tail, 0, 1.0, 6, lambda z: z),
    Spec("EXP_TWICE_F32", exp_twice, -LN2_HALF / 2, LN2_HALF / 2, 5, abs),
    Spec("CBRT", inverse_cube_root, 0.87, 1.13, 5, _one),
    Spec("EXP_MID", exp_tail, -LN2_HALF, LN2_HALF, 5, lambda r: r * r),
    Spec("LOG_MID", log_tail, 0, Z_LOG, 3, lambda z: z / 2),
    Spec("ERF_SMALL_F64", erf_small, 0, 0.9026, 11, _one),
    Spec("ERF_LARGE_F64", erf_large, -0.0501, 5.0, 16, erf_large_share),
    Spec("ERF_SMALL_F32", erf_small, 0, 0.9026, 7, _one),
    Spec("ERF_LARGE_F32", erf_large, -0.0501, 3.0, 6, erf_large_share),
    Spec("ERFC_F64", erfc_scaled, -1.0, 0.76, 23, _one),
)


def chebyshev_nodes(low: mpf, high: mpf, count: int) -> list[mpf]:
    return [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]


def solve(spec: Spec, nodes: list[mpf]) -> tuple[list[mpf], mpf]:
    """The polynomial whose weighted error is +E, -E, +E, ... at the nodes, and |E|."""
    n = spec.degree + 1
    matrix, right = mp.matrix(n + 1), mp.matrix(n + 1, 1)
    for i, x in enumerate(nodes):
        weight = spec.scale(x)
        for k in range(n):
            matrix[i, k] = weight * x**k
        matrix[i, n] = (-1) ** i
        right[i] = weight * spec.function(x)
    solution = mp.lu_solve(matrix, right)
    return [solution[k] for k in range(n)], abs(solution[n])


def extrema(grid: list[mpf], errors: list[mpf], count: int) -> list[mpf]:
    """One point of largest error from each run of equal sign, the `count` neighbouring ones that are largest."""
    points: list[tuple[mpf, mpf]] = []
    for x, e in zip(grid, errors, strict=True):
        if points and (e > 0) == (points[-1][1] > 0):
            if abs(e) > abs(points[-1][1]):
                points[-1] = (x, e)
        else:
            points.append((x, e))
    while len(points) > count:
        points.pop(0 if abs(points[0][1]) < abs(points[-1][1]) else -1)
    return [x for x, _ in points]


def fit(spec: Spec) -> tuple[list[mpf], mpf]:
    """(coefficients, largest weighted error on a grid)."""
    low, high = mpf(spec.low), mpf(spec.high)
    count = spec.degree + 2
    nodes = chebyshev_nodes(low, high, count)[::-1]
    grid = chebyshev_nodes(low, high, 40 * count)[::-1]
    values, weights = [spec.function(x) for x in grid], [spec.scale(x) for x in grid]
    for _ in range(12):
        coefficients, level = solve(spec, nodes)
        errors = [(mp.polyval(coefficients[::-1], x) - f) * w for x, f, w in zip(grid, values, weights, strict=True)]
        worst = max(map(abs, errors))
        nodes = extrema(grid, errors, count)
        if worst < level * mpf("1.01") or len(nodes) < count:
            break
    return coefficients, worst


HEADER = '''"""Polynomial coefficients of the math library, lowest power first. Written by tools/minimax.py."""
'''


def main() -> None:
    print(HEADER, end="")
    for spec in SPECS:
        coefficients, worst = fit(spec)
        what = (spec.function.__doc__ or "").splitlines()[0]
        print(f"\n# {what}  On [{spec.low}, {spec.high}], error 2**{float(mp.log(worst, 2)):.1f}.")
        print(f"{spec.name} = (")
        for c in coefficients:
            print(f"    {float(c)!r},")
        print(")")


if __name__ == "__main__":
    main()
