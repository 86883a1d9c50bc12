"""Modules of which LLVM's vectoriser is to see a part: what is in which part, and that together they do the same."""

from __future__ import annotations

import re

import numpy as np
import pytest

import broadloom as bl
from broadloom.codegen import parts
from broadloom.codegen.parts import PLAIN, is_ready, parts_of
from broadloom.runtime.target import assembly, emit_object, host

from .programs import Native
from .test_panels import program

LOOP = """
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x = getelementptr float, ptr %to, i64 %i
  %v = load float, ptr %x
  %d = call float @twice(float %v)
  store float %d, ptr %x
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
TEXT = f"""target triple = "{host().triple}"
@table = private unnamed_addr constant [1 x float] [float 2.0]
define internal float @twice(float %x) alwaysinline nounwind {{
  %two = load float, ptr @table
  %y = fmul float %x, %two
  ret float %y
}}
define internal void @scalars(ptr noalias %to, i64 %n) noinline nounwind "{PLAIN}" {{{LOOP}define internal \
void @written(ptr noalias %to, i64 %n) noinline nounwind {{{LOOP}define void @both(ptr %to, i64 %n) nounwind {{
  call void @scalars(ptr %to, i64 %n)
  call void @written(ptr %to, i64 %n)
  ret void
}}
!broadloom.ready = !{{}}
"""


def bodies(text):
    return {m[1]: m[2] for m in re.finditer(r"(?ms)^(\w+):.*?\n(.*?)^\.Lfunc_end", text)}


@pytest.fixture
def split(monkeypatch):
    monkeypatch.setattr(parts, "LEAST", 1)


def test_each_function_is_in_one_part(split):
    found = parts_of(TEXT)
    assert found is not None and found.opened == ("scalars",)
    assert re.findall(r"(?m)^(define|declare) .*@(\w+)\(", found.plain) == [("define", "twice"), ("define", "scalars")]
    others = re.findall(r"(?m)^(define|declare) .*@(\w+)\(", found.others)
    assert others == [("declare", "scalars"), ("define", "twice"), ("define", "written"), ("define", "both")]
    assert "declare void @scalars(ptr noalias, i64)" in found.others


def test_only_one_part_goes_through_the_vectoriser(split):
    if host().triple.startswith("x86_64"):
        found = bodies(assembly(TEXT))
        assert "addps" in found["scalars"]
        assert "addss" in found["written"] and "addps" not in found["written"]


def test_functions_of_both_parts_are_internal(split):
    assert ".globl\tboth" in assembly(TEXT)
    assert not re.search(r"\.globl\s+(scalars|written|twice)", assembly(TEXT))
    assert emit_object(TEXT, host()) == emit_object(TEXT, host())


def test_few_functions_without_loops_of_scalars_stay_with_the_others():
    assert parts_of(TEXT) is None and not is_ready(TEXT)
    assert parts_of(TEXT.replace(f' "{PLAIN}"', "")) is None and is_ready(TEXT.replace(f' "{PLAIN}"', ""))


def test_products_beside_loops_of_scalars(rng):
    def both(x, y, k):
        return x @ y, np.exp(x @ y), k % 7

    x, y = (rng.normal(size=(8, 30, 30)).astype(np.float32) for _ in range(2))
    k = rng.integers(-99, 99, 1000)
    native = Native(program(both, x, y, k))
    found = parts_of(native.text)
    assert found is not None
    assert f' "{PLAIN}" ' in found.plain and f' "{PLAIN}" ' not in found.others and found.opened
    whole = bl.compile(both, fullgraph=True)(x, y, k)
    apart = [bl.compile(f, fullgraph=True) for f in (lambda x, y: (x @ y, np.exp(x @ y)), lambda k: k % 7)]
    for got, expected in zip(whole, (*apart[0](x, y), apart[1](k)), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_functions_with_vector_forms_keep_their_arguments(split):
    """LLVM takes an argument that is the same everywhere from a function that one module alone sees, and refuses the
    module, since vector forms go by the number of arguments."""
    lanes = host().lanes(32)
    form = f'"vector-function-abi-variant"="_ZGV_LLVM_N{lanes}vv_scaled(scaled.vector)"'
    many = f"<{lanes} x float>"
    text = TEXT.replace(
        "define internal void @scalars",
        f"""@llvm.compiler.used = appending global [1 x ptr] [ptr @scaled.vector], section "llvm.metadata"
define internal float @scaled(float %x, float %by) noinline nounwind willreturn memory(none) {form} {{
  %y = fdiv float %x, %by
  ret float %y
}}
define internal {many} @scaled.vector({many} %x, {many} %by) noinline nounwind willreturn memory(none) {{
  %y = fdiv {many} %x, %by
  ret {many} %y
}}
define internal void @scalars""",
    ).replace("call float @twice(float %v)", "call float @scaled(float %v, float 3.0)", 1)
    found = parts_of(text)
    assert found is not None and found.opened == ("scalars", "scaled")
    assert emit_object(text, host())[:4] == b"\x7fELF"
