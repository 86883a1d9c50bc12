"""Helpers of the code generation tests: programs by hand, and a runner that calls the compiled module directly."""

from __future__ import annotations

import ctypes
import itertools
from unittest import mock

import numpy as np

from broadloom.codegen import abi, driver
from broadloom.dtypes import int64
from broadloom.fusion.ir import (
    Accumulated,
    Accumulator,
    Body,
    Buffer,
    Compute,
    IndexValue,
    Kernel,
    Layout,
    Literalv,
    Load,
    Loop,
    Program,
    Reduce,
    Stage,
    Store,
)
from broadloom.fusion.lowerings import contraction
from broadloom.fusion.products import Loops
from broadloom.runtime.link import link
from broadloom.runtime.symbols import resolve
from broadloom.runtime.target import emit_object, host
from broadloom.symbolic import Symbol
from tests.red_zones import MARK, ZONE

N, M = Symbol("n"), Symbol("m")
SIZES = ((N, 0, "size", 0), (M, 0, "size", 1))

HERE = host().features


def without(*names):
    kept = [f for f in HERE.split(",") if not f[1:].startswith(names)]
    return ",".join([*kept, *(f"-{f[1:]}" for f in HERE.split(",") if f[1:].startswith(names))])


FEATURES = {"host": HERE, "no-avx512": without("avx512"), "no-avx": without("avx", "f16c", "fma")}


def as_loops():
    """Within the `with`, products of matrices are lowered to loops."""
    return mock.patch.object(contraction, "choose_code", lambda *args, **named: Loops("asked for"))


class Written(list):
    """A body being written: each method appends an instruction and returns its number."""

    def __init__(self, base=0):
        super().__init__()
        self.base = base

    def put(self, instruction):
        self.append(instruction)
        return self.base + len(self) - 1

    def body(self):
        return Body(tuple(self), self.base)

    def load(self, name, index, dtype):
        return self.put(Load(name, index, dtype))

    def store(self, name, index, value, mode="set"):
        return self.put(Store(name, index, value, mode))

    def op(self, name, *args, dtype, **attrs):
        return self.put(Compute(name, args, dtype, tuple(sorted(attrs.items()))))

    def index(self, e):
        return self.put(IndexValue(e, int64))

    def number(self, dtype, value):
        return self.put(Literalv(dtype, np.asarray(value, dtype.numpy).tobytes()))


def loop(name, extent):
    top = max(extent - 1, 0) if isinstance(extent, int) else extent - 1
    return Loop(Symbol(name, 0, top), extent)


def strides_of(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step = step * size
    return tuple(strides)


def array(name, dtype, shape, kind, position=-1, **rest):
    return Buffer(name, dtype, Layout(tuple(shape), strides_of(shape)), kind, position, **rest)


def program(steps, buffers, symbols=(), bindings=(), sites=()):
    return Program("p", tuple(symbols), tuple(bindings), tuple(buffers), tuple(steps), tuple(sites))


def pointwise(loops, body, name="k", **rest):
    return Kernel(name, tuple(loops), (Stage((), body),), **rest)


def reduction(kind, axis, dtype):
    """The reduction of a float32[n, m] and the like over axis 0, 1 or both (None)."""
    i, j = loop("i", N), loop("j", M)
    outer, inner = {1: ((i,), (j,)), 0: ((j,), (i,)), None: ((), (i, j))}[axis]
    flat = i.variable * M + j.variable
    searched = kind.startswith("arg")
    result = int64 if searched else dtype
    w = Written()
    x = w.load("x", flat, dtype)
    w.put(Reduce("a", x, w.index(flat if axis is None else inner[0].variable) if searched else None))
    s = Written()
    s.store("o", outer[0].variable if outer else 0, s.put(Accumulated("a", result)))
    k = Kernel("k", outer, (Stage(inner, w.body()), Stage((), s.body())), (Accumulator("a", kind, result, dtype),))
    shape = {1: (N,), 0: (M,), None: ()}[axis]
    return program([k], [array("x", dtype, (N, M), "input", 0), array("o", result, shape, "output", 0)], [N, M], SIZES)


ARRAY = np.dtype([("data", "u8"), ("ndim", "i4"), ("dtype", "i4"), ("shape", "u8"), ("strides", "u8")])
ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
PARALLEL = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


class Failed(Exception):
    def __init__(self, code, site, key, payload):
        super().__init__(code, site, key, payload)
        self.code, self.site, self.key, self.payload = code, site, key, payload


class Native:
    """A program compiled for this machine. Calling it returns new output arrays."""

    def __init__(self, program, *, split=(0.1, 0.37, 0.5), constants=None, always_split=False):
        self.program = program
        with mock.patch.object(driver, "PARALLEL_COST", -1.0 if always_split else driver.PARALLEL_COST):
            self.text = driver.module_text(program, host(), constants)
        external = {x.split("@")[1].split("(")[0] for x in self.text.splitlines() if x.startswith("declare void @bl_")}
        self.library = link([emit_object(self.text, host())], resolve(external))
        self.plan = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(self.library.address("bl_plan"))
        self.run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
            self.library.address("bl_run")
        )
        self.split = split
        self.live = {}
        self.damaged = False
        self.parallel_calls = 0
        self.grain = 0
        self.allocated = 0
        self.exhausted = False
        self.start: int | None = None  # how many bytes behind the beginning of a line the results begin; None: anywhere

    def _alloc(self, ctx, size):
        if self.exhausted:
            return None
        memory = np.full(size + 2 * ZONE + 64, MARK, np.uint8)
        start = ZONE + -(memory.ctypes.data + ZONE) % 64
        address = memory.ctypes.data + start
        self.live[address] = memory[:start], memory[start + size :]
        self.allocated += size
        return address

    def _free(self, ctx, address, size):
        self.damaged |= any((zone != MARK).any() for zone in self.live.pop(address))

    def _parallel(self, ctx, kernel, args, n, grain):
        self.parallel_calls += 1
        self.grain = grain
        cuts = sorted({0, n, *(int(n * f) for f in self.split)})
        for begin, end in reversed(list(itertools.pairwise(cuts))):
            KERNEL(kernel)(ctx, args, begin, end)
        return 0

    def __call__(self, *inputs):
        keep = []

        def describe(arrays):
            table = np.zeros(max(1, len(arrays)), ARRAY)
            for row, a in zip(table, arrays, strict=False):
                shape, strides = np.array(a.shape or (0,), np.int64), np.array(a.strides or (0,), np.int64)
                keep.extend((shape, strides))
                row["data"], row["ndim"] = a.ctypes.data, a.ndim
                row["shape"], row["strides"] = shape.ctypes.data, strides.ctypes.data
            keep.append(table)
            return table, keep[-1 - 2 * len(arrays) : -1]

        given, _ = describe(inputs)
        outs = sorted((b for b in self.program.buffers if b.kind == "output"), key=lambda b: b.position)
        blank = [np.zeros((1,) * len(b.layout.shape), b.dtype.numpy) for b in outs]
        table, sizes = describe(blank)
        assert self.plan(given.ctypes.data, table.ctypes.data) == 0
        results, guarded = [], []
        for k, b in enumerate(outs):
            n = len(b.layout.shape)
            shape, strides = sizes[2 * k][:n], sizes[2 * k + 1][:n]
            size = int(np.prod(shape)) * b.dtype.itemsize
            memory = np.full(size + 128, 0xCD, np.uint8)
            at = 0 if self.start is None else -memory.ctypes.data % 64 + self.start
            guarded.append((memory, at, at + size))
            results.append(np.ndarray(tuple(shape), b.dtype.numpy, memory, at, tuple(strides)))
        table, _ = describe(results)
        ctx = np.zeros(abi.CTX_SIZE, np.uint8)
        calls = [ALLOC(self._alloc), FREE(self._free), PARALLEL(self._parallel)]
        ctx[:24].view(np.uint64)[:] = [ctypes.cast(c, ctypes.c_void_p).value for c in calls]
        ctx[24:32].view(np.int64)[0] = 2
        ctx[abi.ERROR_SITE : abi.ERROR_SITE + 4].view(np.int32)[0] = -1
        code = self.run(ctx.ctypes.data, given.ctypes.data, table.ctypes.data)
        assert not self.live, "the workspace is freed"
        for memory, begin, end in guarded:
            assert np.all(memory[:begin] == 0xCD) and np.all(memory[end:] == 0xCD), "what is beside a result is kept"
        assert not self.damaged, "nothing is written beside a workspace"
        if code:
            site = int(ctx[abi.ERROR_SITE : abi.ERROR_SITE + 4].view(np.int32)[0])
            key, *payload = ctx[abi.ERROR_KEY : abi.ERROR_KEY + 40].view(np.int64).tolist()
            raise Failed(code, site, key, tuple(payload[:2]))
        return results
