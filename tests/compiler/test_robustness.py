"""Threads, forks, failures inside parallel kernels, and arrays out of the ordinary: right, or a clear error."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import broadloom as bl
from broadloom.errors import OptionsError
from broadloom.graph.ir import Graph
from broadloom.graph.manager import PassContext
from broadloom.runtime.cache import ObjectCache


def same(got, want):
    assert type(got) is type(want) and got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


# ---- threads, forks, interrupts ---------------------------------------------------------------------------------


def test_threads_share_one_compiled_function():
    compiled = bl.compile(lambda x, y: (x * y + x).sum(axis=0), fullgraph=True)
    x = np.arange(600.0).reshape(300, 2)
    failures = []

    def work(seed):
        for k in range(40):
            n = 100 + (seed + k) % 5
            if not np.array_equal(compiled(x[:n], x[:n]), (x[:n] * x[:n] + x[:n]).sum(axis=0)):
                failures.append(n)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert len(compiled.report().compiles) <= 2


def test_large_kernels_from_two_threads_at_once():
    compiled = bl.compile(lambda x: np.sqrt(x) + x, fullgraph=True, options={"release_gil_us": 0.0})
    x = np.arange(400_000.0)
    want = np.sqrt(x) + x
    wrong = []

    def work():
        for _ in range(30):
            if not np.array_equal(compiled(x), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # that a fork goes well is the point
def test_fork_between_parallel_calls():
    compiled = bl.compile(lambda x: (np.exp(x) * 2).sum(), fullgraph=True)
    x = np.linspace(0, 1, 500_000)
    want = compiled(x)
    child = os.fork()
    if child == 0:
        fresh = bl.compile(lambda x: x * 3)  # the child compiles, too
        good = compiled(x) == want and fresh(x[:4])[1] == x[1] * 3
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert compiled(x) == want


@dataclass(frozen=True, slots=True)
class Halt:
    """A pass that stays where it is in the process that made it, once: a compilation without an end."""

    name: ClassVar[str] = "halt"
    home: ClassVar[int] = os.getpid()
    reached: ClassVar[threading.Event] = threading.Event()
    leave: ClassVar[threading.Event] = threading.Event()

    def run(self, graph: Graph, context: PassContext) -> Graph:
        if os.getpid() == self.home:
            self.reached.set()
            self.leave.wait(60)
        return graph


def in_child(work):
    """Forks; whether `work()` is true in the child, which is killed if it waits for ever."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the fork beside a thread is the point
        child = os.fork()
    if child == 0:
        signal.alarm(30)
        good = False
        try:
            good = bool(work())
        finally:
            os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def test_fork_while_another_thread_compiles_the_same_function():
    compiled = bl.compile(lambda x: x * 5 + 1, options={"passes": [Halt()], "use_cache": False})
    x = np.arange(4.0)
    thread = threading.Thread(target=compiled, args=(x,))
    thread.start()
    try:
        assert Halt.reached.wait(60)
        assert in_child(lambda: compiled(x).tolist() == [1.0, 6.0, 11.0, 16.0] and len(compiled.report().compiles) == 1)
    finally:
        Halt.leave.set()
        thread.join()
    assert compiled(x).tolist() == [1.0, 6.0, 11.0, 16.0] and len(compiled.report().compiles) == 1


def test_fork_while_another_thread_is_in_the_object_cache(tmp_path):
    reached, leave = threading.Event(), threading.Event()
    with ObjectCache(tmp_path / "cache") as store:
        store.put("00" * 32, b"code")

        def hold():
            with store.lock:
                reached.set()
                leave.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        try:
            assert reached.wait(60)
            assert in_child(lambda: store.get("00" * 32).data == b"code" and store.put("11" * 32, b"more"))
        finally:
            leave.set()
            thread.join()
        assert store.get("11" * 32).data == b"more"


def test_interrupt_during_compilation_leaves_nothing_behind():
    program = textwrap.dedent(
        """
        import signal, numpy as np, broadloom as bl
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started without it
        source = "def f(x):\\n" + "".join(f"    x = np.sin(x) * {k}.5 + x\\n" for k in range(1500)) + "    return x\\n"
        names = {"np": np}
        exec(source, names)
        compiled = bl.compile(names["f"], options={"use_cache": False})
        small = bl.compile(lambda x: x + 1)
        small(np.ones(2))  # all imports are made
        print("ready", flush=True)
        try:
            compiled(np.ones(3))
        except KeyboardInterrupt:
            print("interrupted", len(compiled.report().compiles), flush=True)
        print("after", small(np.ones(3, np.float32))[0], flush=True)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    for _ in range(20):  # the interpreter drops an interrupt that reaches it in a callback of a weak reference
        process.send_signal(signal.SIGINT)
        if select.select([process.stdout], [], [], 3)[0]:
            break
    rest, _ = process.communicate(timeout=60)
    assert rest.decode().splitlines() == ["interrupted 0", "after 2.0"]


# ---- failures inside kernels ------------------------------------------------------------------------------------


def test_first_bad_index_of_a_parallel_gather_is_named():
    compiled = bl.compile(lambda x, i: x[i] * 2.0, fullgraph=True)
    x, i = np.arange(1000.0), np.zeros(300_000, np.int64)
    i[[250_001, 123_456, 299_999]] = 5000, -2000, 7000
    for _ in range(5):
        with pytest.raises(IndexError, match="index -2000 is out of bounds for axis 0 with size 1000"):
            compiled(x, i)
    i[:] = -1
    same(compiled(x, i), x[i] * 2.0)


def test_first_singular_matrix_is_named():
    compiled = bl.compile(lambda a, b: np.linalg.solve(a, b), fullgraph=True)
    a, b = np.tile(np.eye(3), (6, 1, 1)), np.ones((6, 3, 2))
    np.testing.assert_allclose(compiled(a, b), np.linalg.solve(a, b))
    a[[4, 2]] = 0
    with pytest.raises(np.linalg.LinAlgError, match=r"Singular matrix.*2"):
        compiled(a, b)


def test_matrix_that_is_not_positive_definite():
    compiled = bl.compile(lambda a: np.linalg.cholesky(a), fullgraph=True)
    a = np.array([[2.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(compiled(a), np.linalg.cholesky(a))
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        compiled(-a)


def test_nothing_is_written_when_a_check_fails():
    def f(x, i):
        x += 1
        return x[i]

    compiled = bl.compile(f, fullgraph=True)
    x = np.arange(4.0)
    with pytest.raises(IndexError):
        compiled(x, np.array([9]))
    np.testing.assert_array_equal(compiled(x, np.array([2])), x[[2]])


# ---- arrays out of the ordinary ---------------------------------------------------------------------------------


def layouts():
    base = np.arange(60.0).reshape(6, 10)
    odd = np.zeros(8 * 60 + 1, np.uint8)[1:].view(np.float64).reshape(6, 10)
    odd[:] = base
    return {
        "contiguous": base,
        "transposed": base.T,
        "every second": base[:, ::2],
        "reversed": base[::-1, ::-1],
        "zero stride": np.broadcast_to(base[:1], (6, 10)),
        "one row": base[2:3],
        "empty": base[:0],
        "empty columns": base[:, 4:4],
        "unaligned": odd,
        "unaligned, reversed": odd[::-1],
        "scalar": np.array(3.0),
    }


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("name", layouts())
def test_layouts(name, dynamic):
    def f(x):
        return x * 2 + x.sum(), np.cumsum(x, axis=None), x.T, (x > 3).any()

    compiled = bl.compile(f, dynamic=dynamic, fullgraph=True)
    x = layouts()[name]
    for _ in range(2):
        got, want = compiled(x), f(x)
        for a, b in zip(got, want, strict=True):
            assert type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-14)
            if isinstance(a, np.ndarray):
                assert [s for s, n in zip(a.strides, a.shape, strict=True) if n > 1] == [
                    s for s, n in zip(b.strides, b.shape, strict=True) if n > 1
                ]
                assert a.flags.writeable == b.flags.writeable
                assert np.shares_memory(a, x) == np.shares_memory(b, x)


def test_argument_that_overlaps_a_written_one():
    def f(x, y):
        x += y
        return x.sum()

    compiled = bl.compile(f)
    base = np.arange(10.0)
    plain = base.copy()
    assert compiled(base[1:], base[:-1]) == f(plain[1:], plain[:-1])
    np.testing.assert_array_equal(base, plain)
    assert compiled(base[:4], base[5:9]) == f(plain[:4], plain[5:9])
    np.testing.assert_array_equal(base, plain)
    assert compiled(base, base) == f(plain, plain)
    np.testing.assert_array_equal(base, plain)


def test_written_array_that_overlaps_itself():
    def f(x):
        x[:] = x + 1
        return x

    compiled = bl.compile(f)
    buffers = [np.lib.stride_tricks.as_strided(np.zeros(6), (3, 4), (8, 8)) for _ in range(2)]
    got, want = compiled(buffers[0]), f(buffers[1])
    np.testing.assert_array_equal(got, want)


def test_read_only_array_is_refused_as_numpy_refuses_it():
    def f(x):
        x[0] = 1
        return x

    x = np.zeros(3)
    x.flags.writeable = False
    compiled = bl.compile(f)
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="read-only"):
        compiled(x)
    np.testing.assert_array_equal(compiled(np.zeros(3)), [1, 0, 0])
    with pytest.raises(ValueError, match="read-only"):
        compiled(x)


def test_view_of_more_than_two_to_the_31_elements():
    n = 2**31 + 10
    x = np.broadcast_to(np.int8(1), (n,))
    compiled = bl.compile(lambda x: (x.sum(), x[-5:] * 2), fullgraph=True)
    total, tail = compiled(x)
    assert total == n
    np.testing.assert_array_equal(tail, [2] * 5)


def test_kept_results_stay_as_they_are():
    compiled = bl.compile(lambda x: x @ x, fullgraph=True)
    first, second = compiled(np.eye(2)), compiled(2 * np.eye(2))
    np.testing.assert_array_equal(first, np.eye(2))
    np.testing.assert_array_equal(second, 4 * np.eye(2))


def test_results_own_their_memory():
    compiled = bl.compile(lambda x: x * 2, fullgraph=True)
    x = np.ones(1 << 20)
    results = [compiled(x) for _ in range(4)]
    assert all(r.flags.owndata and r.flags.writeable for r in results)
    results[0][:] = 7
    assert all((r == 2).all() for r in results[1:])


# ---- options ----------------------------------------------------------------------------------------------------


def test_deterministic_makes_no_library_calls():
    x = np.random.default_rng(0).normal(size=(96, 96)) * (1 + 1j)
    plain = bl.compile(lambda x: x @ x, fullgraph=True)
    loops = bl.compile(lambda x: x @ x, fullgraph=True, options={"deterministic": True})
    np.testing.assert_allclose(loops(x), plain(x), rtol=1e-12, atol=1e-12)
    assert [k.kind for k in plain.report().kernels] == ["gemm"]
    assert [k.kind for k in loops.report().kernels] == ["kernel"]
    solved = bl.compile(lambda x: np.linalg.inv(x), options={"deterministic": True})
    with pytest.raises(OptionsError, match="deterministic forbids"):
        solved(x)


def test_bits_do_not_depend_on_the_number_of_threads():
    x = np.random.default_rng(0).normal(size=300_000).astype(np.float32)

    def f(x):
        return (
            x.sum(),
            np.exp(x).mean(),
            x.reshape(300, 1000).sum(axis=0),
            np.cumsum(x),
            x.reshape(300, 1000).var(axis=1),
        )

    results = []
    for threads in (1, 2, 3, 7):
        results.append(bl.compile(f, fullgraph=True, options={"num_threads": threads})(x))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(np.asarray(a).view(np.uint32), np.asarray(b).view(np.uint32))


def test_an_inverse_of_symbolic_size_meets_other_arrays():
    """Its two sizes are two symbols, which only a fact of the graph makes equal."""

    def f(a, b):
        return np.concatenate([np.linalg.inv(a), b], axis=1), np.linalg.inv(a) + b

    a, b = 2 * np.eye(5), np.ones((5, 5))
    for got, want in zip(bl.compile(f, dynamic=True, fullgraph=True)(a, b), f(a, b), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dynamic", [True, None, False])
@pytest.mark.parametrize(
    "fn",
    [
        lambda a: a.T,
        lambda a: a.reshape(-1),
        lambda a: a[:1],
        lambda a: a[None],
        lambda a: (np.broadcast_to(a, (2, *a.shape)), np.diagonal(a), a[0], a),
    ],
)
def test_views_are_as_writeable_as_the_argument_of_this_call(fn, dynamic) -> None:
    for order in ((True, False, True), (False, True, False)):
        compiled = bl.compile(fn, dynamic=dynamic)
        for writeable in order:
            x = np.arange(6.0).reshape(2, 3)
            x.flags.writeable = writeable
            got, want = (r if isinstance(r, tuple) else (r,) for r in (compiled(x), fn(x)))
            assert [r.flags.writeable for r in got] == [r.flags.writeable for r in want]
            assert all(np.shares_memory(r, x) for r in got)


@pytest.mark.parametrize("dtype", ["i8", "u4", "?", "f4", "f2", "c8"])
@pytest.mark.parametrize("method", ["sum", "max", "prod", "any", "mean"])
def test_reductions_of_single_elements_that_no_cache_holds(method, dtype):
    x = (np.arange(4_600_000) % 3).astype(dtype)[:, None]
    x[0] = x[7] = 0
    fold = getattr(np, method)
    got, want = bl.compile(lambda x: fold(x, axis=-1), fullgraph=True)(x), fold(x, axis=-1)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


# ---- LLVM ---------------------------------------------------------------------------------------------------------


def test_a_border_around_one_column_does_not_abort_the_code_generator():
    """Its two-address pass ran off the end of a block in this kernel, once sizes are symbols."""
    program = """
import numpy as np, broadloom as bl
def f(x):
    y = np.pad(x, (2, 1), constant_values=3)
    return y.astype(np.float32), y
compiled = bl.compile(f, fullgraph=True, options={"use_cache": False})
for n in (5, 17):
    x = np.arange(float(n))[:, None]
    for got, want in zip(compiled(x), f(x), strict=True):
        np.testing.assert_array_equal(got, want)
"""
    run = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-1000:]
