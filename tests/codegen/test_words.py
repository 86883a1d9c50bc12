"""Long expressions of sizes are words of a kernel; what changes within it is none."""

from __future__ import annotations

from broadloom.codegen.words import with_words
from broadloom.dtypes import float32, int64
from broadloom.fusion.handlers import accesses
from broadloom.fusion.ir import Body, Indirect, Kernel, Load, Loop, Stage, Store
from broadloom.symbolic import Symbol, free_symbols, smin

SIZES = tuple(Symbol(f"n{k}", 0) for k in range(12))


def test_what_is_looked_up_is_no_part_of_a_word():
    point, found = Symbol("i", 0, SIZES[0] - 1), Symbol("t0", 0, SIZES[1] - 1)
    offset = sum(smin(n, 7) for n in SIZES)
    index = found * SIZES[2] * SIZES[3] + offset
    body = Body(
        (Load("at", point, int64), Indirect(0, SIZES[1], found, -1), Load("x", index, float32), Store("o", point, 2))
    )
    kernel, words = with_words(Kernel("k", (Loop(point, SIZES[0]),), (Stage((), body),)))
    assert list(words.values()) == [offset]
    (word,) = words
    (moved,) = (a.index for a in accesses(kernel.stages[0].body) if a.buffer == "x")
    assert moved == found * SIZES[2] * SIZES[3] + word and free_symbols(moved) >= {found, word}
