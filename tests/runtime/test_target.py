"""LLVM text to object bytes: verified, deterministic, vectorised, with errors that say what was wrong."""

import pytest

from broadloom.errors import CodegenError
from broadloom.runtime.target import assembly, emit_object, host

SAXPY = """
define void @saxpy(ptr noalias %x, ptr noalias %y, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %px = getelementptr float, ptr %x, i64 %i
  %py = getelementptr float, ptr %y, i64 %i
  %a = load float, ptr %px
  %b = load float, ptr %py
  %s = fmul float %a, 3.0
  %t = fadd float %s, %b
  store float %t, ptr %py
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def test_loops_are_vectorised_and_not_contracted():
    text = assembly(SAXPY)
    if host().triple.startswith("x86_64"):
        assert "addps" in text and "mulps" in text
        assert "fmadd" not in text


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_equal_input_gives_equal_bytes(level):
    assert emit_object(SAXPY, host(), level) == emit_object(SAXPY, host(), level)


def test_text_that_does_not_parse_is_named_with_its_line():
    with pytest.raises(CodegenError, match=r"(?s)LLVM refused.*:2:.*%missing"):
        emit_object("define i32 @f() {\n  ret i32 %missing\n}", host())


def test_text_that_parses_but_does_not_verify_is_refused():
    text = """define i32 @f(i1 %c) {
    entry:
      br i1 %c, label %a, label %b
    a:
      %x = add i32 1, 2
      br label %b
    b:
      ret i32 %x
    }"""
    with pytest.raises(CodegenError, match=r"(?s)LLVM refused.*dominate"):
        emit_object(text, host())


def test_an_unknown_level_is_refused():
    with pytest.raises(CodegenError, match="level"):
        emit_object(SAXPY, host(), 7)


READY = SAXPY + "!broadloom.ready = !{}\n"


def test_loops_of_a_ready_module_stay_as_they_are():
    text = assembly(READY)
    if host().triple.startswith("x86_64"):
        assert "addss" in text and "addps" not in text
