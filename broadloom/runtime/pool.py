"""The thread pool, as native code: one per process, asleep when there is nothing to do.

What goes in: a kernel, its argument block, a number of outer points and the least worthwhile chunk. What comes
out: the kernel has run for every point, in chunks, on the calling thread and on workers. What holds:

- All state lies in one page that the kernel wipes in a child of `fork`: a child starts with no workers and no lock
  held, and makes workers when it first needs them.
- `state` is {epoch, unclaimed chunks}; a chunk is claimed by compare-and-swap on both, after the job's fields were
  read, so a claim that succeeds proves that the fields were the current job's.
- The caller works too and waits for unfinished chunks, never for workers: a worker that wakes late delays nobody.
- One job at a time: a nested call, or a second thread, finds `busy` set and runs its kernel serially.
- A worker spins briefly, then sleeps in a futex, off the CPU of the caller: there it would wake up behind it, and wait
  for milliseconds. A caller that has come to the only CPU of a sleeper since then leaves it before it wakes anybody.
- A worker has the CPU back while it works, unless somebody has set its mask meanwhile, or the caller may not run there
  either (a process that was bound to other CPUs stays bound).
- The sleeper count and `state` are written and read sequentially consistent on both sides, so no wake is lost.
- Where chunks begin depends on the number of threads; results must not, which is the kernels' promise.

Workers are plain POSIX threads with all signals blocked; they never touch Python, so the interpreter may end while
they sleep. The text contains no address and links into a shared library as well.
"""

from __future__ import annotations

from broadloom.errors import CodegenError
from broadloom.runtime.target import Target
from broadloom.runtime.text import ll_text

MAX_THREADS = 256

# The names that the text asks of the C library.
C_FUNCTIONS = (
    "mmap", "munmap", "madvise", "syscall", "pthread_create", "pthread_detach", "pthread_sigmask",
    "sched_getcpu", "sched_getaffinity", "sched_setaffinity",
)  # fmt: skip

# By architecture: the numbers of the system calls futex and gettid; the spin hint, as an intrinsic and its argument
# (inline assembly would need LLVM's assembler, which llvmlite does not set up).
_MACHINE = {
    "x86_64": (202, 186, "llvm.x86.sse2.pause", ""),
    "aarch64": (98, 178, "llvm.aarch64.hint", "i32 1"),
}

# Offsets in the state page, grouped by who writes them so that spinning readers share no line with writers.
_FIELDS = {
    "STATE": 0,  # i64: epoch << 32 | unclaimed
    "SEQUENCE": 64,  # i32 futex: one more for each wake
    "SLEEPERS": 128,  # i32
    "UNFINISHED": 192,  # i32 futex
    "WAITING": 256,  # i32: the caller sleeps
    "BUSY": 320,  # i32
    "WORKERS": 324,  # i32: started
    "KERNEL": 384,
    "CTX": 392,
    "ARGS": 400,
    "POINTS": 408,
    "CHUNK": 416,
    "CHUNKS": 424,
    "FAILED": 432,  # i32
    "CPU": 436,  # i32: where the caller runs
    "CALLER": 440,  # i32: its thread, where it woke somebody
    "ONLY": 444,  # i32: one more than the CPU of a sleeper that may run on no other; 0
}


_SPINS = 2000  # about 30 us: longer than the gap between the kernels of one call, shorter than anyone notices


def pool_text(target: Target) -> str:
    """The LLVM IR of the pool; it belongs into one module with `allocator.allocator_text()`, whose declarations and
    page function it uses. It defines `bl_parallel_for(ctx, kernel, args, n, grain)`, `bl_pool_chunk(n, grain, threads)`
    and `bl_pool_workers()`.

    Raises `CodegenError` for an architecture whose system calls are not known.
    """
    architecture = target.triple.split("-")[0]
    if architecture not in _MACHINE or "linux" not in target.triple:
        raise CodegenError(
            "the thread pool is not available on this platform", got=target.triple, allowed="x86-64 and AArch64 Linux"
        )
    futex, gettid, hint, argument = _MACHINE[architecture]
    values = {**_FIELDS, "FUTEX": futex, "GETTID": gettid, "PAUSE": f"{hint}({argument})"}
    values |= {"SPINS": _SPINS, "MAX": MAX_THREADS}
    return f"{ll_text('pool', values=values)}declare void @{hint}({argument.split(' ')[0]})\n"
