"""Programs as text: printed and parsed back, verified, interpreted; and where their buffers lie."""

import itertools
import re

import numpy as np
import pytest

from broadloom.dtypes import float64, int64
from broadloom.errors import ParseError, VerifyError
from broadloom.fusion.evaluate import evaluate
from broadloom.fusion.ir import Buffer, Layout, Site
from broadloom.fusion.memory_plan import ALIGNMENT, plan_memory
from broadloom.fusion.parse import parse
from broadloom.fusion.text import print_program
from broadloom.fusion.verify import verify
from broadloom.graph.ir import Constant
from broadloom.symbolic import Symbol
from broadloom.symbolic import evaluate as evaluate_size

EVERYTHING = """\
program "all of it"
symbol n: [0, inf]
symbol m: [1, 100]
symbol s: [-9, inf]
bind n = size 0 0
bind m = size 0 1
bind s = stride 1 0
buffer x: float32[n, m] strides (m, 1) input 0
buffer at: int64[n] strides (s,) input 1 unaligned
buffer t: float32[n, m] strides (m, 1) workspace
buffer c: float32[2] strides (1,) constant = float32[2] data:0000803f0000c07f
buffer d: float64[1000] strides (1,) constant = float64[1000] sha256:0123456789abcdef
buffer o: float32[n, m] strides (1, n) offset [3*n] output 0
buffer k: int64[n] strides (1,) output 1
site index take -1
site linalg "odd op" 0
kernel k0 serial origins (add, "sum of it")
  outer i: [0, n - 1] < n
  accumulator a sum float32 float32
  accumulator b argmax int64 float32
  stage sequential
    loop j: [0, m - 1] < m
    %0 = load x[i*m + j] float32
    %1 = literal float32 0000c07f
    %2 = index [i*m + j] int64
    %3 = load at[i*s] int64
    %4 = indirect q: [0, n - 1] = %3 < [n] site 0 key [j*n + i]
    %5 = running a %0 float32
    %6 = reduce b %0 at %2
    %7 = cast(%2) float32 {dtype=float32}
    %8 = less(%7, %5) bool
    %9 = masked %8 ? %11 : %1 float32
      %9 = load x[m*q + j] float32
      %10 = less(%9, %1) bool
      %11 = masked %10 ? %9 : %5 float32
    %10 = store o[j*n + i + 3*n] %9
    %11 = store t[i*m + j] %5 add
  stage
    %0 = accumulated b int64
    %1 = store k[i] %0
extern f getrf (t[n, m] strides (m, 1)) -> (t[n, m] strides (m, 1); k[n] strides (1,) offset [2]) {dtype=float32} site 1
"""


def test_every_kind_of_line_comes_back():
    p = parse(EVERYTHING)
    assert print_program(p) == EVERYTHING
    assert parse(print_program(p)) == p
    verify(p)
    masked = p.steps[0].stages[0].body.instructions[9]
    assert (masked.body.base, len(masked.body.instructions), masked.value) == (9, 3, 11)
    assert p.buffers[1].aligned is False
    assert p.sites[1] == Site("linalg", "odd op", 0)


def test_comments_and_blank_lines_mean_nothing():
    commented = "\n\n".join(f"{line}  # {number}" for number, line in enumerate(EVERYTHING.splitlines()))
    assert parse(commented) == parse(EVERYTHING)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("program", "programme"),
        ("buffer x: float32", "buffer x: float33"),
        ("argmax", "argmost"),
        ("%5 = running", "%6 = running"),
        ("< [n] site 0", "< [n]"),
        ("load x[i*m + j]", "load x[i*m + z]"),
        ("strides (s,)", "stride (s,)"),
        ("site linalg", "site linear"),
        ("= size 0 0", "= length 0 0"),
        ("extern f", "exterm f"),
        ("[-9, inf]", "[-9]"),
    ],
)
def test_what_is_out_of_place_is_named_with_its_line(old, new):
    with pytest.raises(ParseError):
        parse(EVERYTHING.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%7 = cast(%2)", "%7 = cast(%8)"),
        ("%8 = less(%7, %5) bool", "%8 = less(%7, %5) float32"),
        ("%8 = less(%7, %5)", "%8 = less(%2, %5)"),
        ("load x[i*m + j]", "load y[i*m + j]"),
        ("store o[j*n + i + 3*n]", "store c[i]"),
        ("site 0 key", "site 7 key"),
        ("key [j*n + i]", "key [j*n + q]"),
        ("reduce b %0 at %2", "reduce b %0"),
        ("running a %0", "running z %0"),
        ("literal float32 0000c07f", "literal float32 00"),
        ("loop j: [0, m - 1] < m", "loop i: [0, m - 1] < m"),
        ("bind s = stride 1 0\n", ""),
        ("output 1", "output 2"),
        ("strides (1, n) offset", "strides (1,) offset"),
        ("accumulated b int64", "accumulated b float32"),
        ("? %11 : %1 float32", "? %10 : %1 float32"),
        ("%10 = store o[j*n + i + 3*n] %9", "%10 = store o[m*q + r] %9"),
        ("store k[i] %0", "store x[i] %0"),
    ],
)
def test_a_broken_invariant_is_found(old, new):
    text = EVERYTHING.replace(old, new, 1)
    assert text != EVERYTHING
    with pytest.raises((VerifyError, ParseError)):
        verify(parse(text))


def test_the_interpreter_refuses_what_lies_outside_of_a_buffer():
    text = """\
program f
symbol n: [0, inf]
bind n = size 0 0
buffer x: float32[n] strides (1,) input 0
buffer y: float32[n] strides (1,) output 0
kernel k
  outer i: [0, n - 1] < n
  stage
    %0 = load x[i + 1] float32
    %1 = store y[i] %0
"""
    with pytest.raises(VerifyError, match="outside"):
        evaluate(parse(text), [np.zeros(3, np.float32)])
    p = parse(text.replace("[i + 1]", "[n - i - 1]"))
    np.testing.assert_array_equal(evaluate(p, [np.arange(3, dtype=np.float32)])[0], [2, 1, 0])


# ---- the memory plan ----------------------------------------------------------------------------------------------


def chain(sizes):
    """x -> t0 -> t1 -> ... -> y, each of its own size."""
    names = ["x", *(f"t{k}" for k in range(len(sizes))), "y"]
    symbols = [Symbol(name) for name in ("n", "m")]
    lines = ["program chain", "symbol n: [0, inf]", "symbol m: [0, inf]", "bind n = size 0 0", "bind m = size 0 1"]
    lines.append("buffer x: float32[n, m] strides (m, 1) input 0")
    lines += [f"buffer t{k}: float32[{s}] strides (1,) workspace" for k, s in enumerate(sizes)]
    lines.append("buffer y: float32[1] strides (1,) output 0")
    for k, (source, target) in enumerate(itertools.pairwise(names)):
        lines += [f"kernel k{k}", "  stage", f"    %0 = load {source}[0] float32", f"    %1 = store {target}[0] %0"]
    p = parse("\n".join(lines))
    verify(p)
    return p, symbols


def overlaps(p, plan, values):
    """Pairs of buffers that share bytes."""
    spans = {}
    for b in p.buffers:
        if b.name in plan.offsets:
            start = evaluate_size(plan.offsets[b.name], values)
            assert start % ALIGNMENT == 0
            spans[b.name] = (start, start + max(1, evaluate_size(b.layout.shape[0], values) * 4))
    assert all(end <= evaluate_size(plan.total, values) for _, end in spans.values())
    names = sorted(spans, key=lambda n: int(n[1:]))
    pairs = [(a, b) for k, a in enumerate(names) for b in names[k + 1 :]]
    return [(a, b) for a, b in pairs if spans[a][0] < spans[b][1] and spans[b][0] < spans[a][1]]


@pytest.mark.parametrize(
    "sizes",
    [
        (100, 100, 100, 100),
        (1000, 10, 500, 499, 0, 3),
        ("n", "n", "n", "n"),
        ("n", "2*n", "n", "2*n", 7, "m", "n + m"),
        ("n*m", 64, "n*m + 1", 64, "n*m"),
    ],
)
def test_buffers_share_memory_only_when_one_is_dead(sizes):
    p, (n, m) = chain(sizes)
    plan = plan_memory(p)
    for values in ({n: 0, m: 0}, {n: 1, m: 5}, {n: 1000, m: 17}):
        for a, b in overlaps(p, plan, values):
            assert abs(int(a[1:]) - int(b[1:])) >= 2, "neighbours in the chain are alive together"


def test_dead_buffers_are_reused():
    p, (n, _) = chain(("n",) * 6)
    assert evaluate_size(plan_memory(p).total, {n: 1000}) < 3 * 4200
    p, _ = chain((1000,) * 6)
    assert plan_memory(p).total == 2 * 4032
    p, _ = chain((1000, 10, 500, 480))
    assert plan_memory(p).total == 4032 + 64, "two smaller ones fit beside each other where the large one was"


def test_unused_buffers_take_no_room():
    p, _ = chain(())
    extra = Buffer("spare", float64, Layout((10,), (1,)), "workspace")
    assert plan_memory(type(p)("p", p.symbols, p.bindings, (*p.buffers, extra), p.steps)).total == 0


def test_constants_are_printed_by_their_bits():
    data = np.array([np.nan, -0.0]).tobytes()
    buffer = Buffer("c", float64, Layout((2,), (1,)), "constant", constant=Constant(float64, (2,), data))
    index = Buffer("o", int64, Layout((), ()), "output", 0)
    p = type(parse(EVERYTHING))("p", (), (), (buffer, index), ())
    assert parse(print_program(p)) == p
    assert re.search(r"data:000000000000f87f0000000000000080", print_program(p))
