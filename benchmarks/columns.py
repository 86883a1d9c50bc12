"""The columns of the comparison: each turns a workload into a function of its own arrays.

What goes in: a `Workload`, and its arguments as NumPy arrays. What comes out: a `Prepared` call of no arguments that
runs to completion; its first run compiles. What holds: a column's libraries are imported in its own process alone, by
name, so that this table can be read anywhere; arrays are converted before anything is timed.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from benchmarks.workloads import Arrays, Function, Workload


def _roots(xp: Any) -> Function:
    def roots(x):
        return xp.sqrt(x)

    return roots


# what a compiler is woken with, so that no workload pays for its start
TRIFLE = Workload("trifle", "the square roots of 3", _roots, lambda s: (np.ones(3),))


@dataclass(frozen=True, slots=True)
class Prepared:
    """`call()` computes; `to_numpy` turns what it returned into NumPy arrays. `part()` computes the part of it whose
    time is taken as well."""

    call: Callable[[], Any]
    to_numpy: Callable[[Any], Any] = np.asarray
    part: Callable[[], Any] | None = None


Prepare = Callable[[Workload, Arrays], Prepared | None]


@dataclass(frozen=True, slots=True)
class Column:
    """`package` has to be installed in the environment the column runs in: the project's own, or that of the `peer`s.
    One that `compiles` has a first call worth timing. `prepare` returns None for a workload the column leaves out."""

    name: str
    package: str
    prepare: Prepare
    peer: bool = True
    compiles: bool = True


def stepped(function: Function, steps: int) -> Function:
    """The function applied to its own result, `steps` times; other arguments stay."""
    if steps == 1:
        return function

    def run(state: Any, *others: Any) -> Any:
        for _ in range(steps):
            state = function(state, *others)
        return state

    return run


def numpy(workload: Workload, arguments: Arrays) -> Prepared:
    function = workload.make(importlib.import_module("benchmarks.arrays_numpy"))
    return Prepared(partial(stepped(function, workload.steps), *arguments))


def broadloom(workload: Workload, arguments: Arrays) -> Prepared:
    module = importlib.import_module("broadloom")
    namespace = importlib.import_module("benchmarks.arrays_numpy")
    compiled = module.compile(workload.make(namespace), dynamic=True if workload.symbolic else None)
    part = workload.part and partial(module.compile(workload.part(namespace)), *arguments)
    return Prepared(partial(stepped(compiled, workload.steps), *arguments), part=part)


def _torch(workload: Workload, arguments: Arrays, function: Function) -> Prepared:
    module = importlib.import_module("torch")

    def tensor(a: np.ndarray) -> Any:
        return (
            module.from_numpy(a.view(np.int16)).view(module.bfloat16) if a.dtype == bfloat16 else module.from_numpy(a)
        )

    def array(t: Any) -> np.ndarray:
        return t.view(module.int16).numpy().view(bfloat16) if t.dtype == module.bfloat16 else t.numpy()

    return Prepared(partial(stepped(function, workload.steps), *map(tensor, arguments)), array)


def torch(workload: Workload, arguments: Arrays) -> Prepared | None:
    if workload.numpy_only:
        return None
    return _torch(workload, arguments, workload.make(importlib.import_module("benchmarks.arrays_torch")))


def torch_library(workload: Workload, arguments: Arrays) -> Prepared | None:
    function = importlib.import_module("benchmarks.arrays_torch").LIBRARY.get(workload.name)
    return function and _torch(workload, arguments, function)


def torch_compile(workload: Workload, arguments: Arrays) -> Prepared | None:
    if workload.numpy_only:
        return None
    module = importlib.import_module("torch")
    module.compiler.reset()  # no workload is to find another's sizes
    function = workload.make(importlib.import_module("benchmarks.arrays_torch"))
    return _torch(workload, arguments, module.compile(function, dynamic=False))


def jax(workload: Workload, arguments: Arrays) -> Prepared | None:
    if workload.numpy_only:
        return None
    module = importlib.import_module("jax")
    function = workload.make(importlib.import_module("benchmarks.arrays_jax"))
    if workload.steps > 1:
        compiled = module.jit(
            lambda state, *others: module.lax.fori_loop(0, workload.steps, lambda _, s: function(s, *others), state)
        )
    else:
        compiled = module.jit(function)
    arrays = [module.device_put(a) for a in arguments]

    def run() -> Any:
        result = compiled(*arrays)
        return module.block_until_ready(result) if isinstance(result, tuple) else result.block_until_ready()

    return Prepared(run)


def numba(workload: Workload, arguments: Arrays) -> Prepared | None:
    function = importlib.import_module("benchmarks.loops").LOOPS.get(workload.name)
    return function and Prepared(partial(function, *arguments))


@cache
def _triad() -> Callable[[], Any]:
    calls = importlib.import_module("benchmarks.limits").loops(len(os.sched_getaffinity(0)))
    return calls["triad"]


def triad(workload: Workload, arguments: Arrays) -> Prepared:
    """STREAM's triad whatever the workload, on arrays of its own that are made once."""
    return Prepared(_triad())


COLUMNS: dict[str, Column] = {
    c.name: c
    for c in (
        Column("numpy", "numpy", numpy, peer=False, compiles=False),
        Column("broadloom", "broadloom", broadloom, peer=False),
        Column("torch", "torch", torch, compiles=False),
        Column("torch-library", "torch", torch_library, compiles=False),
        Column("torch-compile", "torch", torch_compile),
        Column("jax", "jax", jax),
        Column("numba", "numba", numba),
    )
}
OURS = "broadloom"
PART = f"{OURS}, a part"  # the times of `Prepared.part`, which is no column
TRIAD = "triad"  # takes its turns where memory is the limit; what it computes is nobody's result
LIMIT = Column(TRIAD, "llvmlite", triad, peer=False, compiles=False)


def start(column: Column, threads: int) -> str:
    """Import what the column needs, with that many threads, and let it compile a trifle; the version of its package."""
    package = importlib.import_module(column.package)
    if column.package == "torch":
        package.set_num_threads(threads)
        package.set_grad_enabled(False)
    if column.package == "jax":
        package.config.update("jax_enable_x64", True)
    prepared = column.prepare(TRIFLE, TRIFLE.arguments(1.0))
    if prepared:
        prepared.call()
    return metadata.version(column.package)


def forget(column: Column) -> None:
    """Give back memory that only earlier workloads needed, so that the next one's is its own."""
    gc.collect()
    if column.name == OURS:
        native = importlib.import_module("broadloom.runtime.native")
        allocator = importlib.import_module("broadloom.runtime.allocator")
        address, size = native.runtime().address, allocator.LARGE_BLOCK
        native.limit_blocks(size)
        block = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address("bl_alloc"))(None, size)
        # a bound takes effect with the next block that comes back and is not larger
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address("bl_free"))(None, block, size)
        native.limit_blocks(allocator.DEFAULT_LIMIT)
