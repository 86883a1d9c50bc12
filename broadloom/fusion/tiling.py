"""Kernels whose operands disagree on the fast axis: what lies side by side along one loop for one does so along another
for the other.

What goes in: a kernel. What comes out: the loop that is tiled together with the last one; a pure function of the
kernel.
"""

from __future__ import annotations

from broadloom.fusion.handlers import accesses
from broadloom.fusion.ir import Kernel, Loop
from broadloom.fusion.vectors import stride
from broadloom.symbolic import product

SHORT_SIDE = 32  # points of a loop that is not tiled
NEAR_POINTS = 1 << 17  # whose elements the nearer caches hold, so that it costs little to walk across them


def tiled_loop(kernel: Kernel) -> int | None:
    """The number of the outer loop that is tiled together with the last one, or None: there is a loop along which
    some accesses take unit steps while they take long ones along the last, and others the other way round."""
    plain = not kernel.accumulators and not kernel.serial and not any(s.loops for s in kernel.stages)
    if not plain or len(kernel.outer) < 2 or not _is_long(kernel.outer[-1]):
        return None
    last = kernel.outer[-1].variable
    found = [a.index for s in kernel.stages for a in accesses(s.body)]
    if not any(stride(e, last) == 1 for e in found):
        return None
    across = [e for e in found if stride(e, last) not in (0, 1)]
    for k in range(len(kernel.outer) - 2, -1, -1):
        if _is_long(kernel.outer[k]) and any(stride(e, kernel.outer[k].variable) == 1 for e in across):
            return k
    return None


def _is_long(loop: Loop) -> bool:
    return not isinstance(loop.extent, int) or loop.extent > SHORT_SIDE


def walks_far_across(kernel: Kernel) -> bool:
    """Whether a kernel is worth running tile by tile though what it makes is only read by a reduction, which could
    make it itself: half a megabyte written and read again takes longer than steps within the caches."""
    points = product(loop.extent for loop in kernel.outer)
    return tiled_loop(kernel) is not None and not (isinstance(points, int) and points <= NEAR_POINTS)
