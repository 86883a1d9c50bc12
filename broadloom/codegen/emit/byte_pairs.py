"""Products and shifts of vectors of bytes, for which processors other than Arm's have no instructions.

What goes in: lanes of bytes, the counts of shifts at most 8. What comes out: the products and what is shifted. What
holds: two neighbouring bytes are computed in one lane of 16 bits, each by itself. Left to LLVM, this takes twice the
instructions, and a hundred times as long to compile.
"""

from __future__ import annotations

from broadloom.codegen.lane import Lane
from broadloom.codegen.llvm import lanes_of, vector

_LOW, _HIGH = 0x00FF, 0xFF00


def in_pairs(x: Lane) -> bool:
    """Whether these are vectors of bytes that are better computed in pairs."""
    return x.bits == 8 and lanes_of(x.type) % 2 == 0 and "neon" not in x.b.module.features


def _pairs(x: Lane) -> Lane:
    return Lane(x.b, x.b.bitcast(x.v, vector("i16", lanes_of(x.type) // 2)))


def _bytes(x: Lane) -> Lane:
    return Lane(x.b, x.b.bitcast(x.v, vector("i8", lanes_of(x.type) * 2)))


def product(x: Lane, y: Lane) -> Lane:
    """x * y, wrapped around."""
    if not in_pairs(x):
        return x * y
    a, b = _pairs(x), _pairs(y)
    return _bytes((a * b & _LOW) | a.lshr(8) * (b & _HIGH))


def left(x: Lane, count: Lane) -> Lane:
    """x << count."""
    a, n = _pairs(x), _pairs(count)
    return _bytes(((a << (n & _LOW)) & _LOW) | ((a & _HIGH) << n.lshr(8)))


def right(x: Lane, count: Lane) -> Lane:
    """x >> count, with zeros from the left."""
    a, n = _pairs(x), _pairs(count)
    return _bytes((a & _LOW).lshr(n & _LOW) | (a.lshr(n.lshr(8)) & _HIGH))


def signed_right(x: Lane, count: Lane) -> Lane:
    """x >> count, with the sign from the left; the count is at most 7."""
    a, n = _pairs(x), _pairs(count)
    return _bytes((a << 8).ashr(n & _LOW).lshr(8) | (a.ashr(n.lshr(8)) & _HIGH))
