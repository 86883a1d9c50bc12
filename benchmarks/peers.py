"""The compilers that are compared: each turns a workload into a function of NumPy arrays.

What goes in: a `Workload`. What comes out: a callable that runs to completion; its first call compiles. Peers that
are not installed are left out by name.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

import broadloom as bl
from benchmarks.workloads import Function, Workload


def plain(workload: Workload) -> Function:
    return workload.make(np)


def broadloom(workload: Workload) -> Function:
    compiled: Function = bl.compile(workload.make(np))
    return compiled


def numba(workload: Workload) -> Function:
    module = importlib.import_module("numba")
    compiled: Function = module.njit(workload.make(np))
    return compiled


def jax(workload: Workload) -> Function:
    module = importlib.import_module("jax")
    compiled = module.jit(workload.make(importlib.import_module("jax.numpy")))

    def run(*arguments: Any) -> Any:
        return np.asarray(module.block_until_ready(compiled(*arguments)))

    return run


def torch(workload: Workload) -> Function:
    compiled: Function = importlib.import_module("torch").compile(workload.make(np))  # takes NumPy programs
    return compiled


OWN: dict[str, Callable[[Workload], Function]] = {"numpy": plain, "broadloom": broadloom}
OTHERS: dict[str, Callable[[Workload], Function]] = {"numba": numba, "jax": jax, "torch": torch}


def installed(name: str) -> bool:
    """Whether the peer can be imported here."""
    return importlib.util.find_spec(name) is not None
