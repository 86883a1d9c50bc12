"""What the code of a kernel is made from: kernels of one form have the same code, which is then made once.

What goes in: a kernel without tables, rings and buffers of its own, and the buffers and sites that its code gets as
arguments, in order. What comes out: a value that is equal for kernels that differ only in which buffers and sites these
are. A long program consists of such kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broadloom.fusion.ir import Body, Buffer, Indirect, Kernel, Load, Masked, Store


def form_of(kernel: Kernel, names: Sequence[str], sites: Sequence[int], buffers: Mapping[str, Buffer]) -> object:
    """All that the code of a kernel is made from, names of buffers and numbers of sites apart: kernels of one form have
    the same code."""
    places = {n: k for k, n in enumerate(names)}
    memory = tuple((buffers[n].kind, buffers[n].dtype, buffers[n].layout, buffers[n].aligned) for n in names)
    stages = tuple((s.loops, s.sequential, _form_of(s.body, places, sites)) for s in kernel.stages)
    return memory, kernel.outer, kernel.accumulators, kernel.serial, stages


def _form_of(body: Body, places: Mapping[str, int], sites: Sequence[int]) -> tuple[object, ...]:
    found: list[object] = []
    for instruction in body.instructions:
        match instruction:
            case Load(buffer, index, dtype):
                found.append(("load", places[buffer], index, dtype))
            case Store(buffer, index, value, mode):
                found.append(("store", places[buffer], index, value, mode))
            case Indirect(value, size, symbol, site, key):
                found.append(("check", value, size, symbol, site if site < 0 else sites.index(site), key))
            case Masked(mask, inner, value, other, dtype):
                found.append(("masked", mask, inner.base, _form_of(inner, places, sites), value, other, dtype))
            case _:
                found.append(instruction)
    return tuple(found)
