"""Linear algebra on the last two axes: LU and Cholesky factors, what is solved with them, solve, inv, det.

Dtypes: float32, float64, complex64, complex128. Where NumPy raises LinAlgError so do these ops: cholesky of a matrix
that is not positive definite, solve and inv of a singular one. `solve`, `inv` and `det` can be decomposed:
`lu_factor{check_singular}` then `lu_solve`, or the product of the diagonal with the sign of the interchanges.
numpy.linalg computes float32 and complex64 in double precision and rounds the results: so do cholesky, solve, inv and
det here. lu_factor, lu_solve and triangular_solve work in their operands' own precision, as LAPACK does.

`linalg` makes the records of this family; `ops.decompositions` has the rest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal

import numpy as np

from broadloom import dtypes
from broadloom.dtypes import DType, complex64, int32
from broadloom.errors import DTypeError
from broadloom.lazy import scipy_blas, scipy_lapack
from broadloom.ops import rules
from broadloom.ops.movement import loop_shape, with_loop
from broadloom.ops.record import Op, Sample, Trait
from broadloom.ops.rules import LAPACK, Array
from broadloom.ops.signature import Signature

_FLOAT64_FIRST = "numpy.linalg computes in float64: cast first"
_EMPTY = rules.reasons(LAPACK, bools=_FLOAT64_FIRST, ints=_FLOAT64_FIRST, halves=rules.NO_HALF_LAPACK)
SWITCH = (True, False)
_LETTER = {"f": "s", "d": "d", "F": "c", "D": "z"}


def _routine(name: str, dtype: np.dtype[Any]) -> Callable[..., Any]:
    routine: Callable[..., Any] = getattr(scipy_lapack, _LETTER[dtype.char] + name)
    return routine


def _each(core: Callable[..., Any], arrays: tuple[Array, ...], ranks: tuple[int, ...], outs: tuple[Array, ...]) -> None:
    """Runs `core` on each loop point's operands, into the outputs' loop points."""
    loop = loop_shape(arrays, ranks)
    full = [with_loop(a, loop, r) for a, r in zip(arrays, ranks, strict=True)]
    for point in np.ndindex(loop):
        results = core(*(a[point] for a in full))
        for out, result in zip(outs, results, strict=True):
            out[point] = result


def _lu_factor(a: Array, check_singular: bool = False) -> tuple[Array, Array]:
    lu, pivots = np.empty(a.shape, a.dtype), np.empty(a.shape[:-1], np.int32)
    if a.size == 0:
        return lu, pivots
    getrf = _routine("getrf", a.dtype)

    def core(matrix: Array) -> tuple[Array, Array]:
        factors, interchanges, info = getrf(matrix)
        if check_singular and info > 0:
            raise np.linalg.LinAlgError("Singular matrix")
        return factors, interchanges + 1

    _each(core, (a,), (2,), (lu, pivots))
    return lu, pivots


def _lu_solve(lu: Array, pivots: Array, b: Array) -> Array:
    loop = loop_shape((lu, pivots, b), (2, 1, 2))
    result = np.empty(loop + b.shape[-2:], b.dtype)
    if result.size == 0:
        return result
    trsm = getattr(scipy_blas, _LETTER[b.dtype.char] + "trsm")  # OpenBLAS's getrs wakes threads at every size

    def core(f: Array, p: Array, y: Array) -> tuple[Array]:
        x = y.copy()
        for row, other in enumerate(p - 1):
            x[[row, other]] = x[[other, row]]
        return (trsm(1, f, trsm(1, f, x, lower=1, diag=1)),)

    _each(core, (lu, pivots, b), (2, 1, 2), (result,))
    return result


def _triangular_solve(a: Array, b: Array, lower: bool, transpose: bool, unit_diagonal: bool) -> Array:
    loop = loop_shape((a, b), (2, 2))
    result = np.empty(loop + b.shape[-2:], b.dtype)
    n = a.shape[-1]

    def core(matrix: Array, y: Array) -> tuple[Array]:
        x = y.copy()
        m = matrix.T if transpose else matrix
        forward = lower != transpose
        for i in range(n) if forward else range(n - 1, -1, -1):
            solved = slice(0, i) if forward else slice(i + 1, n)
            x[i] -= m[i, solved] @ x[solved]
            if not unit_diagonal:
                x[i] /= m[i, i]
        return (x,)

    _each(core, (a, b), (2, 2), (result,))
    return result


ResultType = DType | Literal["same", "real", "complex"]  # of the operands' dtype


def _lapack_rule(name: str, results: tuple[ResultType, ...], pivots: int | None = None) -> rules.Rule:
    """All operands but the pivots have one dtype with a cell."""

    def rule(given: tuple[DType, ...], attrs: Mapping[str, Any]) -> tuple[DType, ...]:
        if pivots is not None and given[pivots] is not int32:
            raise DTypeError(f"{name}: pivots have another dtype", got=given[pivots], allowed="int32")
        same = [d for i, d in enumerate(given) if i != pivots]
        d = rules.require_cell(name, rules.require_same(name, same), _EMPTY)
        return tuple(_of(r, d) for r in results)

    return rule


def _of(result: ResultType, d: DType) -> DType:
    if result == "complex":
        return d if d.kind == "c" else dtypes.promote(d, complex64)
    return result if isinstance(result, DType) else d.real if result == "real" else d


def linalg(
    name: str,
    signature: str | Callable[[Mapping[str, Any]], str],
    reference: Callable[..., Any],
    samples: tuple[Sample, ...],
    doc: str,
    *,
    results: tuple[ResultType, ...] = ("same",),
    pivots: int | None = None,
    choices: Mapping[str, tuple[object, ...]] | None = None,
    defaults: Mapping[str, object] | None = None,
    raises: Callable[[tuple[DType, ...], Mapping[str, Any]], bool] | None = None,
) -> Op:
    """An op on matrices; `choices` are the attributes with all of their values."""
    allowed = choices or {}
    parsed = cache(Signature.parse)

    def read(attrs: Mapping[str, Any]) -> Signature:
        for attribute, values in allowed.items():
            rules.read_choice(name, attrs, attribute, *values)
        return parsed(signature if isinstance(signature, str) else signature(attrs))

    def quiet(*arrays: Array, **attrs: Any) -> Any:
        with np.errstate(all="ignore"):
            return reference(*arrays, **attrs)

    operands = len(samples[0].core_shapes)
    return Op(
        name=name,
        doc=doc,
        signature=read,
        result_dtypes=_lapack_rule(name, results, pivots),
        reference=quiet,
        arity=operands,
        attr_names=tuple(allowed),
        traits=frozenset({Trait.LINALG} | ({Trait.MAY_RAISE} if raises else set())),
        samples=samples,
        sample_dtypes=tuple(tuple(int32 if i == pivots else d for i in range(operands)) for d in LAPACK),
        defaults=dict(defaults or {}),
        raises=raises,
        empty=_EMPTY,
    )


def always(dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> bool:
    return True


def matrix(n: int, domain: str, attrs: Mapping[str, Any] | None = None) -> Sample:
    return Sample(((n, n),), attrs or {}, domains={0: (domain, n)})  # type: ignore[dict-item]


def system(n: int, k: int, domain: str, attrs: Mapping[str, Any] | None = None) -> Sample:
    return Sample(((n, n), (n, k)), attrs or {}, domains={0: (domain, n)})  # type: ignore[dict-item]


_TRIANGULAR = tuple(
    system(3, 2, "lower" if lower else "upper", {"lower": lower, "transpose": t, "unit_diagonal": unit})
    for lower in (True, False)
    for t in (True, False)
    for unit in (True, False)
)

OPS = (
    linalg("lu_factor", "(n,n)->(n,n),(n)", _lu_factor,
           (matrix(3, "regular"), matrix(1, "regular"), matrix(0, "regular"),
            matrix(3, "regular", {"check_singular": True})),
           """LAPACK's getrf: (lu, pivots). L is unit lower and U upper in lu; row i was interchanged with row
           pivots[i], counted from 1, int32. With `check_singular` (default False) an exact zero on U's diagonal raises
           LinAlgError.""",
           results=("same", int32), choices={"check_singular": SWITCH}, defaults={"check_singular": False},
           raises=lambda dtypes, attrs: bool(attrs["check_singular"])),
    linalg("lu_solve", "(n,n),(n),(n,k)->(n,k)", _lu_solve,
           (Sample(((3, 3), (3,), (3, 2)), domains={0: ("lu", 3), 1: ("pivots", 3)}),
            Sample(((0, 0), (0,), (0, 2)), domains={0: ("lu", 0), 1: ("pivots", 0)})),
           "`lu_solve(lu, pivots, b)`: x with a @ x == b, given lu_factor of a. A zero diagonal gives inf or nan.",
           pivots=1),
    linalg("cholesky", "(n,n)->(n,n)", np.linalg.cholesky, (matrix(3, "definite"), matrix(0, "definite")),
           """The lower L with L @ L.conj().T == a, zero above the diagonal. Reads a's lower triangle alone. Raises
           LinAlgError if a is not positive definite.""",
           raises=always),
    linalg("triangular_solve", "(n,n),(n,k)->(n,k)", _triangular_solve, (*_TRIANGULAR, system(0, 2, "lower",
           {"lower": True, "transpose": False, "unit_diagonal": False})),
           """`triangular_solve(a, b)`: x with a @ x == b, or a.T @ x == b with `transpose` (not conjugated). Reads
           one triangle of a, without the diagonal if it is unit. A zero diagonal gives inf or nan.""",
           choices=dict.fromkeys(("lower", "transpose", "unit_diagonal"), SWITCH)),
    linalg("solve", "(n,n),(n,k)->(n,k)", np.linalg.solve, (system(3, 2, "regular"), system(0, 2, "regular")),
           "x with a @ x == b. Raises LinAlgError if a is exactly singular.", raises=always),
    linalg("inv", "(n,n)->(n,n)", np.linalg.inv, (matrix(3, "regular"), matrix(0, "regular")),
           "The inverse. Raises LinAlgError if a is exactly singular.", raises=always),
    linalg("det", "(n,n)->()", lambda a: np.asarray(np.linalg.det(a)), (matrix(3, "regular"), matrix(0, "regular")),
           "The determinant; 0 for a singular matrix, 1 for size 0."),
)  # fmt: skip
