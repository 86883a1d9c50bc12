"""Squares of vectors: where their elements go, and that each step is one instruction without a table of places."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from broadloom.codegen.llvm import Param, i64, vector
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.transpose import transposed
from broadloom.runtime.target import assembly, host


@dataclass(frozen=True)
class Row:
    type: str
    elements: tuple


class Moves:
    """What a builder does to the elements of vectors."""

    count = 0

    def shuffle(self, x, y, places):
        self.count += 1
        both = x.elements + y.elements
        return Row(x.type, tuple(both[p] for p in places))


@pytest.mark.parametrize("element", ["i8", "half", "float", "i32", "double"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
def test_every_element_changes_row_and_column(element, lanes):
    rows = [
        Row(f"<{lanes} x {element}>" if lanes > 1 else element, tuple((r, c) for c in range(lanes)))
        for r in range(lanes)
    ]
    moves = Moves()
    found = transposed(moves, rows)
    assert [v.elements for v in found] == [tuple((r, c) for r in range(lanes)) for c in range(lanes)]
    assert moves.count == lanes * (lanes.bit_length() - 1)


@pytest.mark.parametrize(
    ("element", "lanes"), [("float", 16), ("float", 8), ("float", 4), ("double", 8), ("double", 4)]
)
def test_no_step_reads_a_table_of_places(element, lanes):
    module = ModuleBuilder("m", triple=host().triple)
    f = module.function("f", "void", [Param("ptr", "x"), Param("ptr", "y")])
    kind = vector(element, lanes)
    rows = [f.load(kind, f.gep(kind, f.params[0], i64(k)), 4) for k in range(lanes)]
    for k, row in enumerate(transposed(f, rows)):
        f.store(row, f.gep(kind, f.params[1], i64(k)), 4)
    f.ret()
    if host().triple.startswith("x86_64") and host().vector_bits >= lanes * (64 if element == "double" else 32):
        assert not re.search(r"\bvperm[it]2|\bvpermp[sd]\b|\bvpermilp[sd]\s+[^$]", assembly(str(module)))
