"""Products and shifts of vectors of bytes are computed in pairs, with NumPy's values for every pair of operands."""

from __future__ import annotations

import re

import numpy as np
import pytest

import broadloom as bl
from broadloom.dtypes import from_numpy
from tests.codegen.programs import Native
from tests.fusion.graphs import graph_of, scheduled

OPS = {
    "multiply": np.multiply,
    "square": np.square,
    "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
}


def pairs(dtype):
    values = np.arange(256, dtype=np.uint8).view(dtype)
    return np.repeat(values, 256), np.tile(values, 256)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", OPS)
def test_all_pairs(name, dtype):
    arity = OPS[name].nin
    graph = graph_of(lambda b, *x: b.call(name, *x), *((65536,),) * arity, dtype=from_numpy(dtype))
    native = Native(scheduled(graph).program)
    assert not re.search(r"(mul|shl|[al]shr) <\d+ x i8>", native.text)
    assert re.search(r"(mul|shl|[al]shr) <\d+ x i16>", native.text)
    given = pairs(dtype)[:arity]
    np.testing.assert_array_equal(native(*given)[0], OPS[name](*given))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("size", [1, 2, 3, 31, 63, 64, 65, 129, 255])
def test_rows_of_any_length_and_place(size, dtype):
    x, y = (a[1000 : 1000 + size + 3] for a in pairs(dtype))
    function = bl.compile(lambda x, y: (x * y, x << y, x >> y, x**3, np.square(y)), fullgraph=True)
    for cut in (slice(0, size), slice(3, size + 3), slice(None, None, 2), slice(None, None, -1)):
        a, b = x[cut], y[cut]
        for got, want in zip(function(a, b), (a * b, a << b, a >> b, a**3, np.square(b)), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
