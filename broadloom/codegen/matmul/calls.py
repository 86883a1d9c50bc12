"""Calls of the runtime that a product makes: for memory, and for its parts on several threads.

What goes in: a builder in a function whose parameters begin with the context and an argument block. What comes out:
code that calls through the context. What holds: no memory is lost where there is no more of it.
"""

from __future__ import annotations

from collections.abc import Callable

from broadloom.codegen import abi
from broadloom.codegen.llvm import NULL, Function, FunctionBuilder, Val, i64
from broadloom.fusion.cost import CHUNK_COST, PARALLEL_COST

Memory = tuple[Val, Val]  # address and bytes


def threads(b: FunctionBuilder) -> Val:
    """How many threads there are."""
    return b.load("i64", abi.field(b, b.params[0], abi.CTX_THREADS))


def allocate(b: FunctionBuilder, total: Val, site: Val, held: Memory | None = None) -> Memory:
    """Memory for this call; without any it has failed, and gives back what it held."""
    ctx = b.params[0]
    memory = b.call_pointer(b.load("ptr", abi.field(b, ctx, abi.CTX_ALLOC)), "ptr", ctx, total)

    def none() -> None:
        abi.fail(b, ctx, site, i64(0), total, i64(0))
        if held is not None:
            free(b, held)
        b.ret()

    b.if_then(b.icmp("eq", memory, NULL), none)
    return memory, total


def free(b: FunctionBuilder, memory: Memory) -> None:
    """Gives memory back."""
    ctx = b.params[0]
    b.call_pointer(b.load("ptr", abi.field(b, ctx, abi.CTX_FREE)), "void", ctx, *memory)


def parallel(b: FunctionBuilder, kernel: Function, count: Val, cost: Val) -> None:
    """Runs points of these cost units each, on several threads where that pays."""
    worth = b.icmp("sgt", b.mul(count, cost), i64(int(PARALLEL_COST)))
    few = b.udiv(i64(int(CHUNK_COST)), b.intrinsic("smax", cost, i64(1)))
    _run(b, kernel, count, b.intrinsic("smax", b.select(worth, few, count), i64(1)))


def share_out(b: FunctionBuilder, tasks: Function, following: Val, count: Val, cost: Val) -> None:
    """Runs tasks, which workers take one by one: as many workers as there are threads, or one. `following` is where
    the number of the next task lies."""
    b.store(i64(0), following)
    worth = b.icmp("sgt", b.mul(count, cost), i64(int(PARALLEL_COST)))
    workers = b.select(worth, b.intrinsic("smin", threads(b), count), b.intrinsic("smin", i64(1), count))
    _run(b, tasks, workers, i64(1))


def _run(b: FunctionBuilder, kernel: Function, count: Val, grain: Val) -> None:
    ctx, args = b.params[:2]
    run = b.load("ptr", abi.field(b, ctx, abi.CTX_PARALLEL_FOR))
    b.call_pointer(run, "i32", ctx, kernel.pointer, args, count, grain)


def take(
    b: FunctionBuilder, following: Val, count: Val, run: Callable[[Val], None], together: Val | None = None
) -> None:
    """Runs what this worker gets hold of, of `count` pieces of work, of which it takes so many in turn `together`."""
    step = together or i64(1)
    head, inside, out = b.block("take"), b.block("taken"), b.block("none")
    b.br(head)
    b.at(head)
    taken = b.value("i64", f"atomicrmw add ptr {following.text}, i64 {step.text} monotonic")
    b.cond_br(b.icmp("slt", taken, count), inside, out)
    b.at(inside)
    if together is None:
        run(taken)
    else:
        b.for_loop(taken, b.intrinsic("smin", b.add(taken, step), count), run, name="together", flags="nuw nsw")
    b.br(head)
    b.at(out)
