"""Library calls that a kernel for many small matrices can make as well, where the sizes of a call allow it.

What goes in: a step with the attribute `lanes`. What comes out: the step of `codegen.lanes.step` that does the same in
place, and the condition under which it is taken.
"""

from __future__ import annotations

from dataclasses import replace

from broadloom.codegen.index import Indexer
from broadloom.codegen.llvm import FunctionBuilder, Val, i1, i64
from broadloom.fusion.ir import Extern, Kernel
from broadloom.passes.small_matrices import FEW, LIMIT
from broadloom.symbolic import Size, product

_OTHERS = {"getrf": "lanes_lu", "getrs": "lanes_lu_solve", "potrf": "lanes_cholesky", "trsm": "lanes_trsm"}


def other_of(step: Kernel | Extern) -> Extern | None:
    """The step that may take the place of a library call."""
    if not isinstance(step, Extern):
        return None
    attrs = dict(step.attrs)
    if not attrs.get("lanes"):
        return None
    if step.routine == "trsm":
        attrs["transpose"] = attrs["trans"] == "T"
    return replace(step, routine=_OTHERS[step.routine], attrs=tuple(sorted(attrs.items())))


def allowed(b: FunctionBuilder, indexer: Indexer, step: Extern) -> Val:
    """i1: whether there are enough matrices, and small ones."""
    layouts = [r.layout for r in (*step.operands, *step.results) if len(r.layout.shape) >= 2]
    batch = step.results[0].layout.shape[:-2]
    sides: list[Size] = [n for y in layouts if len(y.shape) == len(batch) + 2 for n in y.shape[-2:]]
    found = i1(True)
    for side in dict.fromkeys(sides):
        found = b.and_(found, b.icmp("sle", indexer.value(side), i64(LIMIT)))
    return b.and_(found, b.icmp("sge", indexer.value(product(batch)), i64(FEW)))
