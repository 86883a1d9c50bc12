"""Linking: addresses that work, code that lives as long as it is held, errors that name what is missing."""

import ctypes
import gc
import subprocess
import sys

import numpy as np
import pytest
from llvmlite.binding.orcjit import ResourceTracker

from broadloom.errors import CodegenError
from broadloom.runtime import symbols
from broadloom.runtime.link import link, object_symbols
from broadloom.runtime.target import emit_object, host, llvm_lock


def build(text):
    return emit_object(text, host())


CALLS = """
declare double @outside(double)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
@table = private constant [3 x double] [double 1.0, double 2.0, double 4.0]
define double @f(double %x, i64 %i) {
  %p = getelementptr double, ptr @table, i64 %i
  %t = load double, ptr %p
  %y = call double @outside(double %x)
  %z = fadd double %t, %y
  ret double %z
}
define void @copy(ptr %to, ptr %from, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret void
}
"""
OUTSIDE = "define double @outside(double %x) {\n %y = fmul double %x, 10.0\n ret double %y\n}"


def test_objects_may_refer_to_each_other():
    library = link({"a": build(CALLS), "b": build(OUTSIDE)})
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)(library.address("f"))
    assert [f(3.0, i) for i in range(3)] == [31.0, 32.0, 34.0]
    assert library.names == {"f", "copy", "outside"}


def test_addresses_can_be_given_and_the_c_library_is_there():
    other = link([build(OUTSIDE)])
    library = link([build(CALLS)], {"outside": other.address("outside")})
    to, origin = (ctypes.c_char * 8)(), ctypes.create_string_buffer(b"broadlo")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(library.address("copy"))(
        ctypes.addressof(to), ctypes.addressof(origin), 8
    )
    assert to.raw == b"broadlo\0"


def test_a_missing_symbol_is_named():
    with pytest.raises(CodegenError, match="nothing provides; got outside;"):
        link([build(CALLS)])


def test_a_name_defined_twice_is_refused():
    with pytest.raises(CodegenError, match="outside is defined twice; got a and b"):
        link({"a": build(OUTSIDE), "b": build(OUTSIDE)})


def test_an_unknown_function_is_named():
    with pytest.raises(CodegenError, match="got g; allowed: outside"):
        link([build(OUTSIDE)]).address("g")


@pytest.mark.parametrize("cut", [0, 5, 40, 63, 200])
def test_a_truncated_object_is_refused_without_reaching_the_linker(cut):
    with pytest.raises(CodegenError, match="object file"):
        link([build(CALLS)[:cut]])


def test_symbols_of_an_object():
    defined, wanted = object_symbols(build(CALLS))
    assert defined == {"f", "copy"}
    assert wanted >= {"outside"} and not wanted & defined


def test_many_libraries_come_and_go():
    image = build(OUTSIDE)
    for _ in range(200):
        library = link([image])
        address = library.address("outside")
        assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(2.0) == 20.0
        del library
    gc.collect()


def test_code_is_unloaded_under_the_lock_whoever_finds_it_dead(monkeypatch):
    """So that no child of a fork inherits LLVM in the hands of a thread that it does not have."""
    held = []
    dispose = ResourceTracker._dispose
    monkeypatch.setattr(ResourceTracker, "_dispose", lambda self: held.append(llvm_lock._is_owned()) or dispose(self))
    for in_a_cycle in (False, True):
        found = [link([build(OUTSIDE)])]
        if in_a_cycle:
            found.append(found)
        del found
        gc.collect()
    assert held == [True, True]


def test_functions_of_the_python_executable_are_in_reach():
    text = "declare void @Py_IncRef(ptr)\ndefine void @hold(ptr %o) {\n call void @Py_IncRef(ptr %o)\n ret void\n}"
    library = link([build(text)], {"Py_IncRef": symbols.python_api("Py_IncRef")})
    thing = object()
    before = sys.getrefcount(thing)
    ctypes.PYFUNCTYPE(None, ctypes.py_object)(library.address("hold"))(thing)
    assert sys.getrefcount(thing) == before + 1


def test_blas_is_found_through_scipy_and_computes():
    a, b, c = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4), np.zeros((2, 4))
    dgemm = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(symbols.resolve(["bl_dgemm"])["bl_dgemm"])
    n = ctypes.create_string_buffer(b"N")
    m4, m2, m3 = (ctypes.c_int32(k) for k in (4, 2, 3))
    one, zero = ctypes.c_double(1), ctypes.c_double(0)
    ref = ctypes.addressof
    dgemm(ref(n), ref(n), ref(m4), ref(m2), ref(m3), ref(one), b.ctypes.data, ref(m4), a.ctypes.data, ref(m3),
          ref(zero), c.ctypes.data, ref(m4))  # fmt: skip
    assert np.array_equal(c, a @ b)
    assert symbols.resolve(["bl_dgetrf"])["bl_dgetrf"]


def test_an_unknown_routine_is_named():
    with pytest.raises(CodegenError, match="got dgemmx"):
        symbols.resolve(["bl_dgemmx"])


def test_scipy_is_not_imported_before_it_is_needed():
    code = "import sys, broadloom.runtime.symbols as s; s.numpy_api(); print('scipy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
