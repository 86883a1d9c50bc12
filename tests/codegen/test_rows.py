"""Stages that run in vectors along a row: every length, every target, every kind of fold, what is left at the end."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.abi import features_of
from broadloom.codegen.driver import module_text
from broadloom.codegen.outline import BODIES, LIMIT, vector_bits
from broadloom.codegen.rows import row_of
from broadloom.dtypes import bfloat16
from broadloom.fusion.ir import Kernel
from broadloom.runtime.target import assembly, host

from .programs import Native
from .test_panels import kernels, program

LENGTHS = [4, 5, 15, 16, 17, 31, 33, 64, 65, 100, 127, 128, 200, 257, 1000]
WIDE, NARROW, BARE = (
    frozenset(names.split()) for names in ("avx512f avx512vl avx512bw avx2 fma", "avx2 fma", "sse4.2")
)


def rows_of(function, *arrays, features, dynamic=False):
    found = []
    for kernel in kernels(program(function, *arrays, dynamic=dynamic)):
        assert isinstance(kernel, Kernel)
        accumulators = {a.name: a for a in kernel.accumulators}
        found += [row_of(s, accumulators, features) for s in kernel.stages if s.loops]
    return found


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x, residual, scale, offset):
    h = x + residual
    centred = h - np.mean(h, axis=-1, keepdims=True)
    spread = np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
    return centred / spread * scale + offset


def spread_out(x):
    return np.max(x, axis=-1), np.min(x, axis=-1), np.sum(x, axis=-1), np.prod(x, axis=-1)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_every_length(dtype, dynamic, machine, rng):
    lengths = LENGTHS if dynamic else LENGTHS[::3]
    x = rng.normal(size=(3, 40)).astype(dtype)
    several = Native(program(softmax, x, dynamic=True)) if dynamic else None
    eps = np.finfo(dtype).eps
    for n in lengths:
        x = rng.normal(size=(3, n)).astype(dtype)
        (got,) = (several or Native(program(softmax, x)))(x)
        np.testing.assert_allclose(got, softmax(x.astype(np.float64)), rtol=16 * eps, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8, np.int64, np.float16, np.uint16])
def test_every_fold_of_every_width(dtype, machine, rng):
    x = np.ones((2, 40), dtype)
    native = Native(program(spread_out, x, dynamic=True))
    for n in LENGTHS:
        x = rng.integers(-3 if np.dtype(dtype).kind in "if" else 0, 4, (2, n)).astype(dtype)
        x[0, 8:] = rng.integers(0, 2, n)[8:]
        largest, smallest, total, product = native(x)
        np.testing.assert_array_equal(largest, x.max(-1))
        np.testing.assert_array_equal(smallest, x.min(-1))
        np.testing.assert_array_equal(total, x.sum(-1))
        if np.dtype(dtype).kind != "f":
            np.testing.assert_array_equal(product, x.prod(-1))
        else:
            np.testing.assert_array_equal(product[0], x[0].prod())


@pytest.mark.parametrize("n", [5, 16, 40, 64, 100, 300])
def test_nan_and_infinities_at_every_place(n, machine):
    x = np.full((n, n), -1.0, np.float32)
    native = Native(program(spread_out, x))
    for bad in (np.nan, -np.nan, np.inf, -np.inf):
        np.fill_diagonal(x, bad)
        largest, smallest, total, _ = native(x)
        np.testing.assert_array_equal(largest, x.max(-1))
        np.testing.assert_array_equal(smallest, x.min(-1))
        np.testing.assert_array_equal(total, np.full(n, bad))


def test_rows_of_nan_and_of_infinities(machine):
    x = np.array([[np.nan] * 37, [np.inf] * 37, [-np.inf] * 37, [-0.0] * 37], np.float64)
    largest, smallest, _, _ = Native(program(spread_out, x))(x)
    np.testing.assert_array_equal(largest, [np.nan, np.inf, -np.inf, 0.0])
    np.testing.assert_array_equal(smallest, [np.nan, np.inf, -np.inf, 0.0])


@pytest.mark.parametrize("shape", [(0, 768), (1, 768), (5, 33), (7, 768), (3, 4097), (2, 12_289)])
def test_a_residual_and_a_layer_norm(shape, machine, rng):
    x, residual = rng.normal(size=(2, *shape)).astype(np.float32)
    scale, offset = rng.normal(size=(2, shape[1])).astype(np.float32)
    (got,) = Native(program(layer_norm, x, residual, scale, offset))(x, residual, scale, offset)
    want = layer_norm(*(a.astype(np.float64) for a in (x, residual, scale, offset)))
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_what_is_the_same_for_a_row_is_rounded_as_numpy_rounds_it(machine, rng):
    def shifted(x, by):
        top = np.max(x, axis=-1, keepdims=True)
        return (x - top) * by / (top + by) + np.arange(x.shape[1]) * by

    x, by = rng.normal(size=(9, 77)), rng.normal(size=(9, 1))
    (got,) = Native(program(shifted, x, by))(x, by)
    assert got.tobytes() == shifted(x, by).tobytes()


def test_casts_at_both_ends(machine, rng):
    def standardised(x):
        h = x.astype(np.float32)
        top = np.max(h, axis=-1, keepdims=True)
        return np.clip(h / top * np.float32(255), 0, 255).astype(np.uint8), (h - top).astype(np.float16), h > top / 2

    x = rng.integers(1, 256, (5, 203), dtype=np.uint8)
    for got, want in zip(Native(program(standardised, x))(x), standardised(x), strict=True):
        assert got.tobytes() == want.tobytes()
    for dtype in (np.float16, bfloat16.numpy):
        h = rng.integers(-20, 20, (5, 203)).astype(dtype)
        np.testing.assert_array_equal(
            Native(program(lambda h: h - h.max(-1, keepdims=True), h))(h)[0], h - h.max(-1)[:, None]
        )


def test_rows_that_do_not_lie_side_by_side(machine, rng):
    room = rng.normal(size=(8, 203)).astype(np.float32)
    odd = np.frombuffer(b"." + room.tobytes(), np.uint8)[1:].view(np.float32).reshape(8, 203)
    for x in (room[:, 1:], room[::2, 3:-1], room[::-1, :100], odd):
        compiled = bl.compile(lambda x: softmax(x), fullgraph=True)
        np.testing.assert_allclose(compiled(x), softmax(x), rtol=1e-5)


def test_any_split_of_the_rows_gives_the_same(rng):
    x = rng.normal(size=(37, 1001)).astype(np.float32)
    p = program(softmax, x)
    for split in ((), (0.3,), (0.1, 0.2, 0.5, 0.9)):
        assert Native(p)(x)[0].tobytes() == Native(p, split=split, always_split=True)(x)[0].tobytes()


def test_long_rows_keep_their_rounding_errors(machine, rng):
    x = rng.random((3, 300_001)).astype(np.float32)
    total = Native(program(lambda x: x.sum(axis=-1), x))(x)[0]
    # a chain of additions is off by 1e-5 or more; blocks by a few halves of the last place
    np.testing.assert_allclose(total, x.sum(axis=-1, dtype=np.float64), rtol=3e-7)


def test_a_step_takes_as_much_as_the_row_fills():
    counts = {}
    for n in (9, 16, 17, 33, 64, 100, 768):
        (row,) = rows_of(lambda x: x.max(-1), np.zeros((20, n), np.float32), features=WIDE)
        counts[n] = row.count
    assert counts == {9: 16, 16: 16, 17: 32, 33: 16, 64: 64, 100: 64, 768: 64}
    (row,) = rows_of(lambda x: x.max(-1), np.zeros((20, 100), np.float64), features=NARROW)
    assert (row.count, row.masked) == (16, False)
    (row,) = rows_of(lambda x: x.sum(-1), np.zeros((20, 100), np.uint8), features=WIDE)
    assert (row.count, row.masked) == (16, True)  # summed in 64 bits
    (row,) = rows_of(lambda x: x.sum(-1), np.zeros((8, 768), np.float32), features=WIDE)
    assert row.count == 32  # eight rows at once
    # exp has more numbers at hand than 16 registers hold beside four of anything
    light, heavy, last = rows_of(softmax, np.zeros((20, 768), np.float32), features=NARROW)
    assert (light.count, heavy.count, last.count) == (32, 16, 32)
    light, heavy, last = rows_of(softmax, np.zeros((20, 768), np.float32), features=BARE)
    assert (light.count, heavy.count, last.count) == (16, 8, 16)


def test_what_llvm_finds_vectors_for(rng):
    x, at = rng.normal(size=(5, 40)), rng.integers(0, 40, (5, 40))
    for function, args in (
        (lambda x: (x + 1j).sum(-1), (x,)),
        (lambda x: np.argmax(x, -1), (x,)),
        (lambda x: np.cumsum(x, -1), (x,)),
        (lambda x, at: np.take_along_axis(x, at, -1).sum(-1), (x, at)),
        (lambda x: np.any(x > 2, -1), (x,)),
    ):
        assert set(rows_of(function, *args, features=WIDE)) == {None}


def test_a_maximum_takes_one_instruction_to_the_next(rng):
    """Its nan are compared two vectors at a time, beside it."""
    native = Native(program(lambda x: x.max(-1), np.zeros((8, 1024), np.float32)))
    body = assembly(native.text).split("kernel.0.body:")[1].split(".Lfunc_end")[0]
    folds = body.count("maxps") + body.count("fmaxnm") + body.count("fcmgt")
    assert folds >= 4 and "blendmps" not in body and "vpmovd2m" not in body


@pytest.mark.parametrize(("count", "outlined"), [(1, False), (BODIES * LIMIT + 1, True)])
def test_a_function_that_rows_call_often_is_compiled_once(count, outlined):
    def chain(x):
        for k in range(count):
            x = np.exp(x - k)
        return x, np.sum(x, axis=-1)

    text = Native(program(chain, np.ones((40, 60), np.float32))).text
    attributes = re.findall(r"define internal <\d+ x float> @bl\.exp\.v\d+f32\(.*\) (\w+)", text)
    assert attributes and set(attributes) == {"noinline" if outlined else "alwaysinline"}


def test_what_is_the_same_for_a_row_is_computed_before_its_loop():
    """A root beside a long body is taken once a row, in a block that neither loads a vector nor multiplies one."""
    x, scale = np.ones((300, 1000), np.float32), np.ones(300, np.float32)
    p = program(lambda x, s: (np.tanh(x) * np.sqrt(s)[:, None]).sum(-1), x, scale)
    blocks = re.split(r"\n(?=[\w.]+:\n)", Native(p).text)
    rooted = [block for block in blocks if re.search(r"call .*@llvm\.sqrt\.", block)]
    assert rooted and not any(re.search(r"= (load|fmul) <", block) for block in rooted)


@pytest.mark.parametrize("shape", [(500, 701), (40, 3)], ids=str)
def test_casts_at_the_edges_are_made_in_vectors(shape):
    """Bytes to floats and back, with all between them: nothing is converted one by one where the target has masks."""
    target = replace(host(), features=",".join(f"+{name}" for name in sorted(WIDE)))
    photo = np.ones(shape, np.uint8)
    p = program(lambda x: np.clip(x.astype(np.float32) * 1.1 + 3, 0, 255).astype(np.uint8), photo)
    text = module_text(p, target)
    for cast in ("uitofp", "fptosi"):
        assert re.search(rf"= {cast} <\d+ x", text) and not re.search(rf"= {cast} (i8|float)", text)


def test_what_combines_chunks_is_short(rng):
    """A vector of one register at a time, and no loop for what is left where there are masks."""
    x = rng.normal(size=100_000).astype(np.float32)

    def top(x):
        return np.log(np.sum(np.exp(x - np.max(x)))) + np.max(x)

    native = Native(program(top, x))
    kernel = native.text.split("@kernel.1.body(")[1].split("\n}")[0]
    lanes = vector_bits(features_of(host().features)) // 32
    assert set(re.findall(r"call (<\d+ x float>) @bl\.exp", kernel)) == {f"<{lanes} x float>"}
    np.testing.assert_allclose(native(x)[0], top(x.astype(np.float64)), rtol=1e-6)
