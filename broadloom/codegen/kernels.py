"""Kernels as LLVM functions.

What goes in: a `Kernel` of a verified `Program`. What comes out: an LLVM function of the kernel type of `abi`, and
the `Signature` that tells the driver what to put into its argument block.

What holds: kernels with the same code share one function; buffers are distinct memory, and said to be.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from broadloom.codegen import abi
from broadloom.codegen.accumulators import Emit
from broadloom.codegen.body import Place
from broadloom.codegen.forms import form_of
from broadloom.codegen.index import I64_MAX
from broadloom.codegen.inner_loops import local_place
from broadloom.codegen.llvm import Function, FunctionBuilder, Param, i32, i64
from broadloom.codegen.module import ModuleBuilder
from broadloom.codegen.nest import NestBuilder
from broadloom.codegen.streams import Stream
from broadloom.codegen.words import with_words
from broadloom.fusion.handlers import bodies_of, instructions_of, stages_of
from broadloom.fusion.ir import Buffer, Indirect, Kernel
from broadloom.records import dataclass
from broadloom.symbolic import Size, Symbol, free_symbols


@dataclass(frozen=True, slots=True)
class Signature:
    """The argument block of a kernel function: 8 bytes each for these buffers' addresses, these sizes and these sites'
    numbers, in this order."""

    function: Function
    buffers: tuple[str, ...]
    words: tuple[Size, ...]
    sites: tuple[int, ...]


class KernelEmitter:
    """Emits kernels into a module; holds what they share."""

    def __init__(
        self, module: ModuleBuilder, buffers: Mapping[str, Buffer], emit: Emit, *, brief: bool = False
    ) -> None:
        self.module, self.buffers, self.emit, self.brief = module, buffers, emit, brief
        self._by_form: dict[object, Function] = {}
        self._by_text: dict[str, Function] = {}
        self._count = 0

    def kernel(self, kernel: Kernel, rows: Sequence[Buffer] = (), stream: Stream | None = None) -> Signature:
        """The function of `kernel`: a new one, or an earlier one with the same code. `rows` are its row buffers,
        `stream` is stored past the caches."""
        own = {*(r.name for r in rows), *kernel.local}
        if rows or stream or kernel.local or kernel.tables or kernel.rings:
            names, symbols, sites = _needs(kernel, own)
            return Signature(self._function(kernel, names, symbols, sites, rows, stream), names, symbols, sites)
        kernel, values = with_words(kernel)
        names, symbols, sites = _needs(kernel, own)
        words = tuple(values.get(s, s) for s in symbols)
        form = form_of(kernel, names, sites, self.buffers)  # in a long program, one of many alike
        function = self._by_form.get(form)
        if function is None:
            function = self._by_form[form] = self._function(kernel, names, symbols, sites, rows, stream)
        return Signature(function, names, words, sites)

    def _function(
        self,
        kernel: Kernel,
        names: tuple[str, ...],
        symbols: tuple[Symbol, ...],
        sites: tuple[int, ...],
        rows: Sequence[Buffer],
        stream: Stream | None,
    ) -> Function:
        """The code of a kernel, or the earlier function with the same."""
        name = f"kernel.{self._count}"
        params = [Param("ptr", "ctx"), *(self._param(n, k) for k, n in enumerate(names))]
        params += [_size_param(s, k) for k, s in enumerate(symbols)]
        params += [Param("i32", f"site{k}") for k in range(len(sites))]
        params += [Param("i64", "begin"), Param("i64", "end")]
        b = self.module.function(f"{name}.body", "void", params, linkage="internal", attributes="noinline nounwind")
        given = list(b.params[1:-2])
        places = {n: Place(given.pop(0), self.buffers[n]) for n in names}
        places |= {r.name: local_place(b, r) for r in (*rows, *(self.buffers[n] for n in kernel.local))}
        bound = {s: given.pop(0) for s in symbols}
        numbers = dict(zip(sites, given, strict=True))
        NestBuilder(b, self.emit, kernel, places, bound, numbers, stream, brief=self.brief).build()
        text = str(b).replace(f"@{name}.body", "@body", 1)
        function = self._by_text.get(text)
        if function is not None:
            self.module.discard(f"{name}.body")
            return function
        self._count += 1
        function = self._by_text[text] = self._entry(name, b)
        return function

    def _param(self, name: str, number: int) -> Param:
        buffer = self.buffers[name]
        align = buffer.dtype.real.itemsize if buffer.aligned else 1
        return Param("ptr", f"b{number}", f"noalias align {align}")

    def _entry(self, name: str, body: FunctionBuilder) -> Function:
        """The function of the kernel type, which unpacks the argument block."""
        params = [Param("ptr", "ctx"), Param("ptr", "args"), Param("i64", "begin"), Param("i64", "end")]
        b = self.module.function(name, "i32", params, linkage="internal", attributes=abi.ONCE)
        ctx, args, begin, end = b.params
        unpacked = []
        for k, t in enumerate(body.ref.params[1:-2]):
            unpacked.append(b.load(t, b.gep("i64", args, i64(k)), 8))
        b.call(body.ref, ctx, *unpacked, begin, end)
        b.ret(i32(0))
        return b.ref


def _size_param(symbol: Symbol, number: int) -> Param:
    known = f"range(i64 {symbol.lo}, {-I64_MAX - 1})" if symbol.lo >= 0 else ""
    return Param("i64", f"s{number}", known)


def _needs(kernel: Kernel, own: Collection[str]) -> tuple[tuple[str, ...], tuple[Symbol, ...], tuple[int, ...]]:
    """Buffers but its `own`, size symbols and sites that a kernel uses, in order of first use."""
    names: dict[str, None] = {}
    sites: dict[int, None] = {}
    symbols: dict[Symbol, None] = {}
    local = {loop.variable for loop in kernel.outer}

    def see(e: Size) -> None:
        if not isinstance(e, int):
            for s in sorted(free_symbols(e), key=lambda s: s.sort_key):
                if s not in local:
                    symbols.setdefault(s)

    for loop in kernel.outer:
        see(loop.extent)
    local.update(t.variable for t in kernel.tables)
    local.update(r.row for r in kernel.rings)
    for ring in kernel.rings:
        see(ring.extent)
    for stage in stages_of(kernel):
        local.update(loop.variable for loop in stage.loops)
        for loop in stage.loops:
            see(loop.extent)
    for body in bodies_of(kernel):
        for instruction in instructions_of(body):
            if isinstance(instruction, Indirect):
                if instruction.site >= 0:
                    sites.setdefault(instruction.site)
                see(instruction.size)
                see(instruction.key)
                local.add(instruction.symbol)
            index = getattr(instruction, "index", None)
            if index is not None:
                see(index)
            buffer = getattr(instruction, "buffer", None)
            if buffer is not None and buffer not in own:
                names.setdefault(buffer)
    return tuple(names), tuple(symbols), tuple(sites)
