"""Loops around emitted scalars, compiled and callable on arrays: what the tests of codegen/emit and vmath share.

What goes in: what each loop computes, with its dtypes. What comes out: a function of arrays per loop, or the assembly.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from broadloom.codegen.emit import emit
from broadloom.codegen.llvm import FunctionBuilder, Param, Val, const_int, i64
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.types import memory_type
from broadloom.dtypes import DType
from broadloom.runtime.link import Library, link
from broadloom.runtime.target import assembly, emit_object, host

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One loop `out[i] = op(x[i], ...)`."""

    op: str
    operands: tuple[DType, ...]
    dtype: DType
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.operands))}) -> {self.dtype}"


def host_features() -> frozenset[str]:
    """The host's features by name."""
    return frozenset(f[1:] for f in host().features.split(",") if f.startswith("+"))


def _load(b: FunctionBuilder, dtype: DType, base: Val, i: Val) -> tuple[Val, ...]:
    type_ = memory_type(dtype)
    if dtype.kind == "c":
        pair = b.mul(i, i64(2))
        return b.load(type_, b.gep(type_, base, pair)), b.load(type_, b.gep(type_, base, b.add(pair, i64(1))))
    value = b.load(type_, b.gep(type_, base, i))
    return (b.icmp("ne", value, const_int("i8", 0)) if dtype.kind == "b" else value,)


def _store(b: FunctionBuilder, dtype: DType, value: Sequence[Val], base: Val, i: Val) -> None:
    type_ = memory_type(dtype)
    first = b.mul(i, i64(len(value))) if len(value) == 2 else i
    for k, part in enumerate(value):
        stored = b.zext(part, "i8") if dtype.kind == "b" else part
        b.store(stored, b.gep(type_, base, b.add(first, i64(k)) if k else first))


def module_text(
    cases: Sequence[Case],
    features: frozenset[str] | None = None,
    triple: str = "",
    finish: Callable[[ModuleBuilder], None] = lambda module: None,
) -> str:
    """A module with a function `loop<k>(operands..., out, n)` for each case; `finish` sees it before it is printed."""
    features = host_features() if features is None else features
    m = ModuleBuilder("loops", triple=triple or host().triple, features=features)
    for k, case in enumerate(cases):
        params = [Param("ptr", f"x{j}", "noalias") for j in range(len(case.operands))]
        f = m.function(f"loop{k}", "void", [*params, Param("ptr", "out", "noalias"), Param("i64", "n")])

        def body(i: Val, f: FunctionBuilder = f, case: Case = case) -> None:
            args = [_load(f, d, f.params[j], i) for j, d in enumerate(case.operands)]
            result = emit(f, case.op, args, case.operands, case.dtype, case.attrs)
            _store(f, case.dtype, result, f.params[-2], i)

        f.for_loop(i64(0), f.params[-1], body)
        f.ret()
    finish(m)
    return str(m)


def loop_assembly(case: Case) -> str:
    """What the host runs for one loop, optimised."""
    return assembly(module_text([case]))


_libraries: list[Library] = []


def compile_loops(
    cases: Sequence[Case],
    features: frozenset[str] | None = None,
    level: int = 1,
    finish: Callable[[ModuleBuilder], None] = lambda module: None,
) -> list[Callable[..., Array]]:
    """A function of equally long one-dimensional arrays for each case."""
    library = link([emit_object(module_text(cases, features, finish=finish), host(), level)], {})
    _libraries.append(library)
    return [functools.partial(_run, library.address(f"loop{k}"), case) for k, case in enumerate(cases)]


def _run(address: int, case: Case, *arrays: Array) -> Array:
    operands = [np.ascontiguousarray(a, d.numpy) for a, d in zip(arrays, case.operands, strict=True)]
    out = np.empty(operands[0].shape, case.dtype.numpy)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(operands) + 1), ctypes.c_int64)(address)
    function(*(a.ctypes.data for a in operands), out.ctypes.data, operands[0].size)
    return out
