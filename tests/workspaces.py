"""Workspaces one by one: code made within `apart()` asks for each of its buffers by itself, to the byte.

What goes in: functions that are compiled meanwhile. What comes out: the same code, but for where its buffers lie, which
are parts of one block otherwise: there a kernel that leaves its buffer comes to another one, or to what a size was
rounded up by. What holds: with an allocator that watches its blocks, no write beside a buffer is missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from unittest import mock

from broadloom.codegen import abi, driver
from broadloom.codegen.llvm import FunctionBuilder, Val, i64
from broadloom.fusion.memory_plan import elements

SCRATCH = "(scratch)"
Run = driver._Run
PLAIN = Run._allocate, Run._release


def _sizes(run: Run) -> dict[str, driver.Size]:
    """The bytes of each buffer."""
    found = {n: elements(run.buffers[n].layout) * run.buffers[n].dtype.itemsize for n in run.plan.offsets}
    scratch = max((work.scratch for work in run.transforms.values()), default=0)
    return found | ({SCRATCH: scratch} if scratch else {})


def _place(b: FunctionBuilder, slots: Val, number: int) -> tuple[Val, Val]:
    """Where address and size of a buffer are kept."""
    return b.gep("i64", slots, i64(2 * number)), b.gep("i64", slots, i64(2 * number + 1))


def _allocate(run: Run) -> Val | None:
    """As `_Run._allocate`."""
    b, sizes = run.b, _sizes(run)
    if not sizes:
        return None
    slots = b.alloca("i64", 2 * len(sizes), 8)
    for number in range(len(sizes)):
        b.store(i64(0), _place(b, slots, number)[0])
    for number, (name, wanted) in enumerate(sizes.items()):
        address, kept = _place(b, slots, number)
        size, overflow = run.indexer.checked(wanted)
        b.store(size, kept)
        b.store(size, abi.field(b, run.ctx, abi.ERROR_PAYLOAD))
        sound, ready = b.block("sound"), b.block("ready")
        b.cond_br(overflow, run.out_of_memory, sound)
        b.at(sound)
        base = b.call_pointer(b.load("ptr", abi.field(b, run.ctx, abi.CTX_ALLOC)), "ptr", run.ctx, size)
        b.store(base, address)
        b.cond_br(b.icmp("eq", base, Val("ptr", "null")), run.out_of_memory, ready)
        b.at(ready)
        if name == SCRATCH:
            run.scratch = base
        else:
            run.bases[name] = base
    return slots


def _release(run: Run, slots: Val | None) -> None:
    """As `_Run._release`."""
    if slots is None:
        return
    b = run.b
    for number in range(len(_sizes(run))):
        address, kept = _place(b, slots, number)
        base = b.load("ptr", address)
        free = partial(_free, run, base, kept)
        b.if_then(b.icmp("ne", base, Val("ptr", "null")), free)


def _free(run: Run, base: Val, kept: Val) -> None:
    b = run.b
    release = b.load("ptr", abi.field(b, run.ctx, abi.CTX_FREE))
    b.call_pointer(release, "void", run.ctx, base, b.load("i64", kept))


@contextmanager
def apart() -> Iterator[None]:
    """Code that is made meanwhile, not what a cache holds, takes its buffers one by one."""
    with mock.patch.object(Run, "_allocate", _allocate), mock.patch.object(Run, "_release", _release):
        yield


@contextmanager
def together() -> Iterator[None]:
    """Code that is made meanwhile, within `apart()` too, takes its buffers in one block, as it does for users."""
    allocate, release = PLAIN
    with mock.patch.object(Run, "_allocate", allocate), mock.patch.object(Run, "_release", release):
        yield
