"""`mode="fast-compile"`: less code, by fewer passes, of the same values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen.abi import features_of
from broadloom.codegen.driver import prepared_text
from broadloom.codegen.parts import is_ready
from broadloom.codegen.prepare import prepare
from broadloom.runtime.target import DEFAULT_LEVEL, QUICK_LEVEL, host
from tests.codegen.test_panels import program
from tests.compiled.checking import configurations, loop_shapes, loop_sizes, operands_of, resized
from tests.compiled.layouts import arranged
from tests.compiled.modules import QUICK, Call, Module, cells, compiled, plan

CELLS = [calls for calls in cells().values() if calls]
TOGETHER, SAMPLE = 24, 6  # calls a module, modules
MASKS = {"avx512vl", "avx512bw"} <= features_of(host().features)


def text(function: Callable[..., Any], *args: Any, brief: bool = True, dynamic: bool = False) -> str:
    return prepared_text(prepare(program(function, *args, dynamic=dynamic), host().caches, brief=brief), host())


def canonical(x: np.ndarray) -> bytes:
    """The bits of an array, those of a nan left out: which of two nan a sum keeps is the processor's to say."""
    if x.dtype.name == "bfloat16":
        x = x.astype(np.float32)
    if x.dtype.kind not in "fc":
        return x.tobytes()
    real = x.reshape(-1).view(f"f{x.dtype.itemsize // (1 + (x.dtype.kind == 'c'))}")
    return np.where(np.isnan(real), np.nan, real).astype(real.dtype).tobytes()


def differing(calls: Sequence[Call], rng: np.random.Generator, *, symbolic: bool) -> list[str]:
    """The calls whose results depend on the mode."""
    choices = [c for c in configurations(rng) if c.symbolic == symbolic]
    c = choices[int(rng.integers(len(choices)))]
    graph, placed, symbols = plan(calls, c.layout, c.loops, symbolic, rng)
    modules = [Module(graph, placed, compiled(graph)), Module(graph, placed, compiled(graph, tools=QUICK))]
    found: list[str] = []
    for sizes in loop_sizes(c, symbols, rng):
        values, shapes = dict(sizes), loop_shapes(c, sizes)
        arguments: list[Any] = []
        for p in placed:
            sizes_of_call = p.hints
            values |= sizes_of_call
            arrays = operands_of(p, p.at(sizes_of_call), shapes, rng)
            laid = zip(arrays, p.layouts, p.loop_ranks, strict=True)
            arguments += [*(arranged(x, layout, rank, rng) for x, layout, rank in laid), *(values[s] for s in p.sizes)]
        first, second = (m.run(arguments, threads=2) for m in modules)
        for p in placed:
            same = all(canonical(first[k]) == canonical(second[k]) for k in p.outputs)
            found += [] if same else [f"{p.call} {c} {sizes}"]
    return found


@pytest.mark.parametrize("number", range(SAMPLE))
def test_ops_give_the_same_bits_in_both_modes(number: int, rng: np.random.Generator) -> None:
    chosen = [CELLS[int(k)] for k in rng.permutation(len(CELLS))[:TOGETHER]]
    drawn = [calls[int(rng.integers(len(calls)))] for calls in chosen]
    symbolic = bool(number % 2)
    found = differing(drawn if symbolic else [resized(c, rng) for c in drawn], rng, symbolic=symbolic)
    assert not found, "\n".join(found)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "points": lambda x: np.tanh(x * 0.5) + np.exp(-x),
    "softmax": lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1)[:, None],
    "columns": lambda x: x.sum(0) / np.sqrt(x.var(0) + 1),
    "stencil": lambda x: np.pad(x, 1)[2:, 1:-1] + np.pad(x, 1)[:-2, 1:-1] + np.sin(x),
    "running": lambda x: np.cumsum(x, -1),
    "search": lambda x: np.argmax(x, -1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 33), (40, 100), (33, 64)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_give_the_same_bits_in_both_modes(name, shape, dtype, rng):
    if name == "search" and 0 in shape:
        return  # NumPy refuses it
    x = rng.normal(size=shape).astype(dtype)
    f = FUNCTIONS[name]
    default, quick = (bl.compile(f, fullgraph=True, mode=m, options={"use_cache": False}) for m in MODES)
    want, got = default(x), quick(x)
    assert got.tobytes() == want.tobytes() and got.dtype == want.dtype and got.shape == want.shape


MODES = ("default", "fast-compile")


def test_the_mode_decides_the_level():
    assert bl.compile(lambda x: x, mode="fast-compile")._state.tools.level == QUICK_LEVEL < DEFAULT_LEVEL
    assert QUICK.brief


def test_loops_are_there_once():
    """Where the target has masks; elsewhere what is left of a row needs a loop of its own."""
    x = np.zeros((100, 1001), np.float32)
    counts = [text(lambda x: np.exp(x - x.max(-1, keepdims=True)), x, brief=b).count("call <") for b in (False, True)]
    steps = [text(lambda x: x * 2 + 1, x, brief=b).count("fmul <") for b in (False, True)]
    assert steps == [2, 1] if MASKS else steps == [1, 1]
    assert counts[1] < counts[0] if MASKS else counts[1] <= counts[0]


def test_nothing_is_stored_past_the_caches():
    x = np.zeros(1 << 27, np.uint8)

    def function(x):
        return x + 1

    assert "!nontemporal" in text(function, x, brief=False) and "!nontemporal" not in text(function, x)


def test_a_kernel_of_symbolic_size_has_no_second_form_with_tables():
    x = np.zeros((300, 400), np.uint8)

    def curve(x):
        return (np.power(x / 255.0, 0.45) * 255).astype(np.uint8)

    full, brief = (text(curve, x, brief=b, dynamic=True).count("define internal void @kernel.") for b in (False, True))
    assert (full, brief) == (2, 1)


def test_functions_that_are_called_twice_are_called():
    body = text(lambda x: np.exp(x) + np.exp(-x), np.zeros(1000, np.float32))
    assert " noinline nounwind willreturn" in body
    assert " noinline nounwind willreturn" not in text(lambda x: np.exp(x) + np.exp(-x), np.zeros(1000), brief=False)


def test_only_sums_that_the_vectoriser_orders_go_through_it() -> None:
    x = np.zeros((40, 100))

    def flattened(x):
        return x[:, 1:].ravel() * 2.0

    assert is_ready(text(flattened, x)) and not is_ready(text(flattened, x, brief=False))
    for brief in (False, True):
        assert not is_ready(text(lambda x: (x[:, 1:].ravel() * 2.0).sum(), x, brief=brief))
        assert is_ready(text(lambda x: (x * 2.0).sum(-1), x, brief=brief))
