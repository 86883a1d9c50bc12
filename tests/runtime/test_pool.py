"""The thread pool: every point once, for any chunking; nested, concurrent, after fork, at shutdown."""

import ctypes
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from broadloom.errors import CodegenError
from broadloom.runtime import native, pool
from broadloom.runtime.link import link
from broadloom.runtime.target import Target, emit_object, host, parse

# args = { ptr counts, ptr inner }: adds 1 to counts[i] for each point; fails at point args.bad.
KERNELS = """
%args = type { ptr, i64 }
define i32 @count(ptr %ctx, ptr %args, i64 %begin, i64 %end) {
entry:
  %counts = load ptr, ptr %args
  %badp = getelementptr %args, ptr %args, i64 0, i32 1
  %bad = load i64, ptr %badp
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %code = phi i32 [ 0, %entry ], [ %code1, %loop ]
  %p = getelementptr i64, ptr %counts, i64 %i
  %old = atomicrmw add ptr %p, i64 1 monotonic
  %hit = icmp eq i64 %i, %bad
  %code1 = select i1 %hit, i32 7, i32 %code
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i32 %code1
}
; each point runs a whole parallel loop of its own, as a nested call
define i32 @nested(ptr %ctx, ptr %args, i64 %begin, i64 %end) {
entry:
  %pfp = getelementptr i8, ptr %ctx, i64 16
  %pf = load ptr, ptr %pfp
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %r = call i32 %pf(ptr %ctx, ptr @count, ptr %args, i64 1000, i64 1)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""


class Args(ctypes.Structure):
    _fields_ = (("counts", ctypes.c_void_p), ("bad", ctypes.c_int64))


@pytest.fixture(scope="module")
def kernels():
    return link({"kernels": emit_object(KERNELS, host())})


def run(kernels, name, n, grain, threads, length=None, bad=-1):
    counts = np.zeros(length or n, np.int64)
    args = Args(counts.ctypes.data, bad)
    ctx = native.new_context(threads)
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)(ctx.parallel_for)
    code = call(ctypes.addressof(ctx), kernels.address(name), ctypes.addressof(args), n, grain)
    return code, counts


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize(("n", "grain"), [(1, 1), (2, 1), (7, 2), (1000, 1), (1000, 333), (100_001, 64), (5, 100)])
def test_every_point_runs_once(kernels, threads, n, grain):
    for _ in range(20):
        code, counts = run(kernels, "count", n, grain, threads)
        assert code == 0 and (counts == 1).all()


def test_workers_are_made_when_needed_and_kept(kernels):
    run(kernels, "count", 100_000, 1, 3)
    assert native.worker_count() >= 2
    before = native.worker_count()
    for _ in range(100):
        run(kernels, "count", 1000, 1, 3)
    assert native.worker_count() == before


def test_a_failing_chunk_is_reported_and_the_others_still_run(kernels):
    for bad in (0, 500, 999):
        code, counts = run(kernels, "count", 1000, 1, 4, bad=bad)
        assert code == 7 and (counts == 1).all()
    assert run(kernels, "count", 1000, 1, 4)[0] == 0


def test_nested_loops_run_serially_inside(kernels):
    code, counts = run(kernels, "nested", 50, 1, 4, length=1000)
    assert code == 0 and (counts == 50).all()


def test_many_callers_at_once(kernels):
    bad = []

    def caller():
        for _ in range(200):
            code, counts = run(kernels, "count", 3000, 10, 3)
            if code or not (counts == 1).all():
                bad.append(counts)

    threads = [threading.Thread(target=caller) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad


def test_long_idle_between_jobs_loses_no_wake(kernels):
    for pause in (0, 1e-4, 1e-3, 2e-2):
        for _ in range(10):
            threading.Event().wait(pause)
            code, counts = run(kernels, "count", 4000, 1, 4)
            assert code == 0 and (counts == 1).all()


WORKERS = """
import ctypes, os, time
import numpy as np
import broadloom as bl

before = set(os.listdir("/proc/self/task"))
f = bl.compile(lambda x: np.exp(x) * x, options={"num_threads": 2})
x = np.ones(1_000_000)
f(x)
workers = [int(t) for t in set(os.listdir("/proc/self/task")) - before]
every = os.sched_getaffinity(0)
assert workers

def at_rest():
    "The masks of the workers, once they sleep."
    give_up = time.monotonic() + 30
    while any(open(f"/proc/self/task/{t}/stat").read().rsplit(")", 1)[1].split()[0] != "S" for t in workers):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    return [os.sched_getaffinity(t) for t in workers]
"""

ASIDE = """
for _ in range(5):
    f(x)
    assert all(len(every - mask) == (len(every) > 1) for mask in at_rest())
"""

BOUND = """
threads = [int(t) for t in os.listdir("/proc/self/task")]
for one in every:
    for _ in range(3):
        f(x)
    at_rest()
    for t in threads:
        os.sched_setaffinity(t, {one})
    for _ in range(3):
        f(x)
        assert at_rest() == [{one}] * len(workers)
    for t in threads:
        os.sched_setaffinity(t, every)
    f(x)
    assert all(len(every - mask) == (len(every) > 1) for mask in at_rest())
"""

ALONE = """
two = set(sorted(every)[:2])
for t in os.listdir("/proc/self/task"):
    os.sched_setaffinity(int(t), two)
cpu = ctypes.CDLL(None).sched_getcpu
left = 0
for _ in range(11):
    f(x)
    (theirs,) = at_rest()
    assert len(theirs) == 1, theirs
    os.sched_setaffinity(0, theirs)  # the caller comes to the only CPU of the worker
    os.sched_setaffinity(0, two)
    f(x)
    assert os.sched_getaffinity(0) == two
    left += cpu() not in theirs
assert (left > 5) == (len(two) > 1), left  # one CPU alone nobody can leave
"""


@pytest.mark.parametrize(
    "then",
    [
        ASIDE,
        BOUND,
        ALONE,
    ],
    ids=[
        "workers sleep off the CPU of the caller",
        "masks that somebody sets stay",
        "a caller leaves a sleeper its only CPU",
    ],
)
def test_the_masks_of_threads(then):
    subprocess.run([sys.executable, "-c", WORKERS + then], check=True, timeout=60)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_makes_its_own_workers(kernels):
    run(kernels, "count", 100_000, 1, 3)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            none = native.worker_count() == 0
            result, counts = run(kernels, "count", 100_000, 1, 3)
            code = 0 if none and result == 0 and (counts == 1).all() and native.worker_count() == 2 else 2
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert run(kernels, "count", 1000, 1, 3)[0] == 0


def test_the_interpreter_ends_cleanly_with_sleeping_workers():
    program = f"""
import ctypes, time
from broadloom.runtime import native
from broadloom.runtime.link import link
from broadloom.runtime.target import emit_object, host
text = {KERNELS!r}
lib = link([emit_object(text, host())])
class Args(ctypes.Structure):
    _fields_ = (("counts", ctypes.c_void_p), ("bad", ctypes.c_int64))
counts = (ctypes.c_int64 * 100000)()
args = Args(ctypes.addressof(counts), -1)
ctx = native.new_context(4)
call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)(ctx.parallel_for)
call(ctypes.addressof(ctx), lib.address("count"), ctypes.addressof(args), 100000, 1)
assert native.worker_count() == 3
time.sleep(0.05)
print("ran", sum(counts))
"""
    out = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert (out.returncode, out.stdout, out.stderr) == (0, "ran 100000\n", "")


def test_signals_reach_the_main_thread(kernels):
    run(kernels, "count", 100_000, 1, 4)
    seen = []
    old = signal.signal(signal.SIGUSR1, lambda *_: seen.append(threading.current_thread() is threading.main_thread()))
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        threading.Event().wait(0.01)
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert seen == [True]


def test_a_platform_without_a_pool_is_named():
    with pytest.raises(CodegenError, match="riscv64"):
        pool.pool_text(Target("riscv64-unknown-linux-gnu", "", "", False, 128))


def test_the_text_verifies_for_aarch64():
    arm = Target("aarch64-unknown-linux-gnu", "", "", True, 128)
    functions = {f.name for f in parse(native.runtime_text(arm), arm).functions}
    assert {"bl_parallel_for", "bl_alloc", "bl_result_handler"} <= functions
