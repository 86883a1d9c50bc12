"""The text of a loop program.

What goes in: a `Program`. What comes out: the form that `fusion.parse` reads back. What holds: the text is canonical,
`parse(print(p)) == p`; source locations are comments.

    program f
    symbol n: [0, inf] = size 0 0
    buffer in0: float32[n] strides (1,) input 0
    buffer out0: float32[n] strides (1,) output 0
    kernel k0 origins (exp)
      outer i: [0, n - 1] < n
      stage
        %0 = load in0[i] float32
        %1 = exp(%0) float32
        %2 = store out0[i] %1

An instruction's number is its operand number, effects included. The instructions of a masked body stand indented
below it.
"""

from __future__ import annotations

from collections.abc import Sequence

from broadloom.errors import VerifyError
from broadloom.fusion.ir import (
    Accumulated,
    Body,
    Buffer,
    Compute,
    Extern,
    IndexValue,
    Indirect,
    Instruction,
    Kernel,
    Layout,
    Literalv,
    Load,
    Lookup,
    Loop,
    Masked,
    Program,
    Reduce,
    Region,
    Running,
    Stage,
    Store,
)
from broadloom.graph.text import format_name, format_value
from broadloom.symbolic import Symbol


def print_program(program: Program) -> str:
    """The text of `program`, without source locations."""
    lines = [f"program {format_name(program.name)}"]
    bound = {b[0]: b for b in program.bindings}
    for symbol in program.symbols:
        lines.append(f"symbol {_symbol(symbol)}")
    for symbol, position, what, axis in bound.values():
        lines.append(f"bind {symbol} = {what} {position} {axis}")
    lines += [_buffer(b) for b in program.buffers]
    for site in program.sites:
        comment = f"  # {site.location}" if site.location is not None else ""
        lines.append(f"site {site.code} {format_name(site.op)} {site.axis}{comment}".replace("\n", " "))
    for step in program.steps:
        if isinstance(step, Kernel):
            lines += print_kernel(step)
        else:
            lines.append(_extern(step))
            for prologue in step.prologues:
                lines += ["  prologue", *(f"    {line}" for line in print_kernel(prologue))]
            if step.epilogue is not None:
                lines += ["  epilogue", *(f"    {line}" for line in print_kernel(step.epilogue))]
    return "\n".join(lines) + "\n"


def print_kernel(kernel: Kernel) -> list[str]:
    """The lines of one kernel."""
    head = f"kernel {format_name(kernel.name)}"
    if kernel.serial:
        head += " serial"
    if kernel.origins:
        head += f" origins ({', '.join(map(format_name, kernel.origins))})"
    if kernel.local:
        head += f" local ({', '.join(map(format_name, kernel.local))})"
    lines = [head]
    lines += [f"  outer {_loop(loop)}" for loop in kernel.outer]
    lines += [f"  accumulator {format_name(a.name)} {a.kind} {a.dtype} {a.value_dtype}" for a in kernel.accumulators]
    for t in kernel.tables:
        lines.append(f"  table {format_name(t.name)} {_symbol(t.variable)} {t.key} -> {t.dtype}")
        lines += print_body(t.body, "    ")
    for r in kernel.rings:
        place = f"step {r.step} ahead {r.ahead} behind {r.behind}"
        lines.append(f"  ring {format_name(r.buffer)} {_symbol(r.row)} < {r.extent} {place}")
        lines += _stages(r.stages, "    ")
    return lines + _stages(kernel.stages, "  ")


def _stages(stages: Sequence[Stage], indent: str) -> list[str]:
    lines = []
    for stage in stages:
        lines.append(f"{indent}stage" + " sequential" * stage.sequential + " border" * stage.border)
        lines += [f"{indent}  loop {_loop(loop)}" for loop in stage.loops]
        lines += print_body(stage.body, indent + "  ")
    return lines


def print_body(body: Body, indent: str = "") -> list[str]:
    """The lines of a body, numbered from its base."""
    lines = []
    for number, instruction in enumerate(body.instructions, body.base):
        lines.append(f"{indent}%{number} = {_instruction(instruction)}")
        if isinstance(instruction, Masked):
            if instruction.body.base != number:
                raise VerifyError("masked body does not continue the enclosing one", got=instruction.body.base)
            lines += print_body(instruction.body, indent + "  ")
    return lines


def _instruction(i: Instruction) -> str:
    match i:
        case Load(buffer, index, dtype):
            return f"load {format_name(buffer)}[{index}] {dtype}"
        case Store(buffer, index, value, mode):
            return f"store {format_name(buffer)}[{index}] %{value}{' add' if mode == 'add' else ''}"
        case Literalv(dtype, data):
            return f"literal {dtype} {data.hex()}"
        case IndexValue(index, dtype):
            return f"index [{index}] {dtype}"
        case Compute(op, args, dtype, attrs):
            tail = " {" + ", ".join(f"{k}={format_value(v)}" for k, v in attrs) + "}" if attrs else ""
            return f"{op}({', '.join(f'%{a}' for a in args)}) {dtype}{tail}"
        case Indirect(value, size, symbol, site, key):
            tail = "" if key == 0 else f" key [{key}]"
            return f"indirect {_symbol(symbol)} = %{value} < [{size}] site {site}{tail}"
        case Reduce(name, value, position):
            return f"reduce {format_name(name)} %{value}{'' if position is None else f' at %{position}'}"
        case Running(name, value, dtype):
            return f"running {format_name(name)} %{value} {dtype}"
        case Accumulated(name, dtype):
            return f"accumulated {format_name(name)} {dtype}"
        case Masked(mask, _, value, other, dtype):
            return f"masked %{mask} ? %{value} : %{other} {dtype}"
        case Lookup(table, value, dtype):
            return f"lookup {format_name(table)}[%{value}] {dtype}"
    raise VerifyError("unknown instruction", got=type(i).__name__)


def _symbol(s: Symbol) -> str:
    return f"{s.name}: [{s.lo}, {'inf' if s.hi is None else s.hi}]"


def _loop(loop: Loop) -> str:
    return f"{_symbol(loop.variable)} < {loop.extent}"


def _layout(layout: Layout) -> str:
    shape = ", ".join(map(str, layout.shape))
    offset = f" offset [{layout.offset}]" if layout.offset != 0 else ""
    return f"[{shape}] strides {format_value(layout.strides)}{offset}"


def _buffer(b: Buffer) -> str:
    text = f"buffer {format_name(b.name)}: {b.dtype}{_layout(b.layout)} {b.kind}"
    if b.position >= 0:
        text += f" {b.position}"
    if not b.aligned:
        text += " unaligned"
    c = b.constant
    if c is not None:
        data = f"sha256:{c.digest}" if c.data is None else f"data:{c.data.hex()}"
        text += f" = {c.dtype}[{', '.join(map(str, c.shape))}] {data}"
    return text


def _region(r: Region) -> str:
    return f"{format_name(r.buffer)}{_layout(r.layout)}"


def _extern(e: Extern) -> str:
    operands, results = ("; ".join(map(_region, rs)) for rs in (e.operands, e.results))
    attrs = ", ".join(f"{k}={format_value(v)}" for k, v in e.attrs)
    site = f" site {e.site}" if e.site >= 0 else ""
    return f"extern {format_name(e.name)} {e.routine} ({operands}) -> ({results}) {{{attrs}}}{site}"
