"""Columns that threads share: how wide their pieces are, and that values do not depend on them."""

from __future__ import annotations

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.plans import COLUMN_STEP, runs_in_columns

from .programs import Native
from .test_panels import kernels, program


def softmax(x):
    shifted = np.exp(x - np.max(x, axis=0, keepdims=True))
    return shifted / np.sum(shifted, axis=0, keepdims=True)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("columns", "grain"), [(33, COLUMN_STEP), (1000, 4 * COLUMN_STEP), (1024, 4 * COLUMN_STEP), (1029, 5 * COLUMN_STEP)]
)
def test_a_thread_takes_two_wide_shares(columns, grain, dynamic, rng):
    x = rng.normal(size=(3000, columns)).astype(np.float32)
    p = program(softmax, x, dynamic=dynamic)
    assert all(map(runs_in_columns, kernels(p)))
    native = Native(p)
    (got,) = native(x)
    assert native.parallel_calls == 1 and native.grain == grain
    np.testing.assert_allclose(got, softmax(x), rtol=1e-4)


@pytest.mark.parametrize("shape", [(3000, 1), (3000, 5), (3000, 65), (700, 333)])
def test_columns_add_up_alike_on_any_threads(shape, rng):
    x = rng.normal(size=shape).astype(np.float32)
    results = {n: bl.compile(softmax, options={"num_threads": n})(x).tobytes() for n in (1, 2, 3, 4)}
    assert len(set(results.values())) == 1
