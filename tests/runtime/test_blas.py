"""The count of threads that a library has while we call it, and what it has before and after."""

import ctypes
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

import broadloom as bl
from broadloom import cli
from broadloom.codegen.abi import BLAS_ENTER, BLAS_LEAVE
from broadloom.runtime import blas, symbols

GET, SET = ctypes.CFUNCTYPE(ctypes.c_int), ctypes.CFUNCTYPE(None, ctypes.c_int)
ENTER, LEAVE = ctypes.CFUNCTYPE(None, ctypes.c_int64), ctypes.CFUNCTYPE(None)
FORKED = """
import os, sys
from tests.runtime.test_blas import Library
library = Library(8)
library.enter(2)
child = os.fork()
if child == 0:
    library.forked()
    found = [library.count]
    library.enter(3), found.append(library.count), library.leave(), found.append(library.count)
    os._exit(0 if found == [8, 3, 8] else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or library.count != 2)
"""


class Library:
    """A library that has a count, and the functions that guard it."""

    def __init__(self, count):
        self.count, self.sets = count, 0
        self.held = (GET(lambda: self.count), SET(self._set))
        addresses = (ctypes.cast(f, ctypes.c_void_p).value for f in self.held)
        self.functions = blas.linked(blas.Control("set", *addresses))
        self.enter = ENTER(self.functions.address(BLAS_ENTER))
        self.leave = LEAVE(self.functions.address(BLAS_LEAVE))
        self.forked = LEAVE(self.functions.address("bl_blas_forked"))

    def _set(self, count):
        self.count, self.sets = count, self.sets + 1


@pytest.mark.parametrize(("before", "asked", "inside"), [(8, 2, 2), (2, 8, 2), (4, 4, 4), (4, 1, 1), (4, 0, 1)])
def test_the_count_is_lowered_for_a_call_and_never_raised(before, asked, inside):
    library = Library(before)
    for _ in range(3):
        library.enter(asked)
        assert library.count == inside
        library.leave()
        assert library.count == before
    assert library.sets == (6 if inside != before else 0)


def test_calls_at_the_same_time_run_on_the_least_count():
    library = Library(8)
    counts = []
    for step in (6, 2, 4, 0, 0, 0):
        library.enter(step) if step else library.leave()
        counts.append(library.count)
    assert counts == [6, 2, 2, 2, 2, 8]


def test_a_count_that_another_sets_meanwhile_stays():
    library = Library(8)
    library.enter(2)
    library.count = 5
    library.leave()
    assert library.count == 5


def test_many_threads_leave_the_count_as_it_was():
    library = Library(64)

    def calls(asked):
        for _ in range(300):
            library.enter(asked)
            assert library.count <= asked
            library.leave()

    threads = [threading.Thread(target=calls, args=(k,)) for k in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert library.count == 64


def test_a_child_of_a_call_that_runs_has_the_count_from_before():
    assert subprocess.run([sys.executable, "-c", FORKED], cwd=os.getcwd(), check=False).returncode == 0


# ---- calls of compiled functions ----------------------------------------------------------------------------------

ROUTINE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)


@contextmanager
def raised(count):
    """SciPy's library has that count meanwhile, which a machine of few processors does not give it by itself."""
    found = blas.control()
    get, put = GET(found.get), SET(found.set)
    before = get()
    put(count)
    try:
        yield get
    finally:
        put(before)


def inside(function, x, name, dynamic, **options):
    """The counts that the library has when the routine is called, which does nothing, and the count afterwards."""
    counts = []
    with raised(3) as get:
        routine = ROUTINE(lambda *_: counts.append(get()))
        address = ctypes.cast(routine, ctypes.c_void_p).value
        found = symbols.library_routine
        with mock.patch.object(symbols, "library_routine", lambda n: address if n == name else found(n)):
            compiled = bl.compile(function, fullgraph=True, dynamic=dynamic, options={"use_cache": False, **options})
            compiled(x)
        return counts, get()


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_call_takes_the_threads_of_its_run(dynamic):
    small, large = (np.ones((2, n, n), np.complex128) for n in (33, 200))
    for threads in (1, 2, 3, 4):
        counts = [min(threads, 3)] * 2
        assert inside(lambda x: x @ x, large, "zgemm", dynamic, num_threads=threads) == (counts, 3)
        assert inside(lambda x: x @ x, small, "zgemm", dynamic, num_threads=threads) == ([1, 1], 3)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [np.linalg.inv, lambda x: np.linalg.qr(x)[1], lambda x: np.linalg.svd(x)[1]])
def test_lapack_gives_the_count_back(function, dynamic):
    x = np.random.default_rng(0).standard_normal((150, 150))
    with raised(3) as get:
        compiled = bl.compile(lambda x: function(x), fullgraph=True, dynamic=dynamic, options={"num_threads": 1})
        np.testing.assert_allclose(compiled(x), function(x), rtol=1e-8, atol=1e-8)
        assert get() == 3
        if function is np.linalg.inv:
            with pytest.raises(np.linalg.LinAlgError):
                compiled(np.zeros((150, 150)))
            assert get() == 3


def test_a_library_without_such_a_function_is_told_of():
    assert blas.control_of(ctypes.CDLL("libm.so.6")) is None
    x = np.ones((40, 40), np.complex128)
    blas._functions.cache_clear()
    with mock.patch.object(blas, "control", lambda: None):
        compiled = bl.compile(lambda x: x @ x, fullgraph=True, options={"use_cache": False})
        np.testing.assert_array_equal(compiled(x), x @ x)
        (record,) = compiled.report().kernels
        assert record.reason.endswith(blas.UNCONTROLLED)
        assert not cli._blas_fact().ok
    blas._functions.cache_clear()
    assert blas.control().name in cli._blas_fact().value
