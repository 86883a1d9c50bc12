"""The workloads of the benchmarks on 1, 2, 3 and 4 threads: the same bits, at sizes where the work is really split.

Library calls are the exception: their bits are not promised, and the report lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import broadloom as bl
from benchmarks import arrays_numpy
from benchmarks.workloads import WORKLOADS, Workload
from broadloom.codegen.abi import BLAS_ENTER, BLAS_LEAVE
from broadloom.codegen.factorisations import FACTORISATIONS
from broadloom.runtime import symbols
from tests.compiled.pool import Pool, bits, observed

THREADS = (1, 2, 3, 4)
SCALES = (0.01, 0.05, 0.2)  # the first at which a kernel is split
LIBRARY = {"gemm", "getrf", "getrs", "potrf", "trsm", *FACTORISATIONS}
# Workloads with no kernel that several threads run, at these sizes.
UNSPLIT = {
    "tiny": "ten elements",
    "gelu-small": "too few elements for two threads, at any of these scales",
    "matmul-64": "too small for two threads",
    "matmul-int8": "too small for two threads, at any of these scales",
    "matmul-bfloat16": "too small for two threads, at any of these scales",
    "recurrence": "too few elements for two threads",
    "scatter-add": "numbers are added one after the other, as places repeat",
    **{f"fft-{n}": "one row" for n in (64, 1000, 1009, 4096, 65536, 1_000_000)},
}


@pytest.fixture
def pool() -> Iterator[Pool]:
    with observed() as found:
        yield found


def flat(result: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(x) for x in (result if isinstance(result, tuple) else (result,))]


def on_threads(pool: Pool, compiled: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[list[list[bytes]], int]:
    """The bits of the results, and how many jobs several threads ran."""
    found, split = [], 0
    for threads in THREADS:
        with pool.run(threads) as jobs:
            found.append(list(map(bits, flat(compiled(*arguments)))))
        split += sum(len(job.threads) > 1 for job in jobs)
    return found, split


def library_calls(compiled: Any) -> set[str]:
    return {k.kind for k in compiled.report().kernels} & LIBRARY


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_bits_of_workloads(workload: Workload, pool: Pool) -> None:
    for scale in SCALES:
        arguments = workload.arguments(scale)
        compiled = bl.compile(workload.make(arrays_numpy), fullgraph=True, dynamic=workload.symbolic)
        found, split = on_threads(pool, compiled, arguments)
        if not library_calls(compiled):
            assert found[1:] == found[:1] * 3
        if split:
            assert workload.name not in UNSPLIT
            return
    assert workload.name in UNSPLIT


def test_bits_without_library_calls(pool: Pool) -> None:
    """With the option `deterministic` there are none."""
    a = np.random.default_rng(0).standard_normal((3, 210, 190)).astype(np.float32)

    def program(a: np.ndarray[Any, Any]) -> Any:
        b = a.swapaxes(-1, -2)
        return a @ b[0], np.tanh(a @ b), a[0] @ a[1, 0]

    free, bound = (
        bl.compile(program, fullgraph=True, dynamic=False, options={"deterministic": d}) for d in (False, True)
    )
    free(a)
    found, split = on_threads(pool, bound, (a,))
    assert split and found[1:] == found[:1] * 3
    assert not library_calls(bound)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "product": lambda a: a @ (a + 1),
    "solve": lambda a: np.linalg.solve(a, a + 1),
    "inv": lambda a: np.linalg.inv(a),
    "det": lambda a: np.linalg.det(a),
    "cholesky": lambda a: np.linalg.cholesky(a @ a.T),
    "qr": lambda a: tuple(np.linalg.qr(a)),
    "svd": lambda a: tuple(np.linalg.svd(a)),
    "eigh": lambda a: tuple(np.linalg.eigh(a)),
    "eigvals": lambda a: np.linalg.eigvals(a + 0j),
    "none": lambda a: np.tanh(a).sum(axis=0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_report_lists_library_calls(name: str) -> None:
    """All of those that the module is linked with, and no others."""
    resolved: set[str] = set()
    resolve = symbols.resolve

    def noted(names: Any) -> dict[str, int]:
        found = resolve(names)
        resolved.update(found.keys() - {BLAS_ENTER, BLAS_LEAVE})
        return found

    a = np.random.default_rng(0).standard_normal((70, 70)) + 70 * np.eye(70)
    with mock.patch.object(symbols, "resolve", noted):
        compiled: Any = bl.compile(PROGRAMS[name], fullgraph=True, dynamic=False, options={"use_cache": False})
        compiled(a)
    listed = {"trsm" if kind == "getrs" else kind for kind in library_calls(compiled)}  # solved by two triangles
    assert bool(listed) == (name != "none") or name == "product"
    assert len(resolved) == len(listed)
    assert all(any(r.endswith(kind) for kind in listed) for r in resolved), (resolved, listed)
