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


def test_functions_with_vector_forms_keep_their_arguments():
    """That LLVM knows the same divisor everywhere is no reason to take it away from the scalar form alone."""
    x, y = np.linspace(-9, 9, 300), np.ones((40, 40))

    def f(x, y):
        return np.fmod(x, 2.0), np.fmod(x[::3], 2.0), np.tanh(y) @ y, np.exp(y - y.max(axis=1, keepdims=True))

    got = bl.compile(f, fullgraph=True, dynamic=False, options={"use_cache": False})(x, y)
    for g, w in zip(got, f(x, y), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)
