"""How dtypes appear in LLVM: types in registers, types in memory, and literals.

What goes in: a `DType`, and for literals its little-endian bit pattern. What comes out: LLVM type names and literal
texts that denote exactly these bits.

What holds: bool is i1 in a register and i8 in memory; float16 is `half`; bfloat16 is held as its i16 bit pattern,
because LLVM turns `bfloat` arithmetic into library calls (or instructions that flush subnormals) on x86; a complex
is a pair, interleaved (real, imaginary) in memory.
"""

from __future__ import annotations

import struct
from functools import cache

from broadloom.dtypes import DType

_FLOATS = {"float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double"}


@cache
def register_type(dtype: DType) -> tuple[str, ...]:
    """The LLVM types of one scalar in registers: one, or two for a complex.

    >>> from broadloom.dtypes import bool_, uint8, complex64
    >>> register_type(bool_), register_type(uint8), register_type(complex64)
    (('i1',), ('i8',), ('float', 'float'))
    """
    if dtype.kind == "c":
        part = _FLOATS[dtype.real.name]
        return (part, part)
    if dtype.kind == "f":
        return (_FLOATS[dtype.name],)
    return (f"i{dtype.bits}",)


@cache
def memory_type(dtype: DType) -> str:
    """The LLVM type of one element in memory; for a complex, of one of its two halves.

    >>> from broadloom.dtypes import bool_, float16
    >>> memory_type(bool_), memory_type(float16)
    ('i8', 'half')
    """
    return "i8" if dtype.kind == "b" else register_type(dtype)[0]


@cache
def width(llvm_type: str) -> int:
    """Bits of a scalar LLVM type.

    >>> width("double"), width("i8")
    (64, 8)
    """
    known = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}
    return known[llvm_type] if llvm_type in known else int(llvm_type[1:])


def float_literal(llvm_type: str, bits: int) -> str:
    """The text of a float by bit pattern: nan payloads, infinities and -0.0 come out exactly.

    >>> float_literal("float", 0x3F800000), float_literal("double", 1 << 63), float_literal("half", 0x3C00)
    ('0x3FF0000000000000', '0x8000000000000000', '0xH3C00')
    """
    if llvm_type == "half":
        return f"0xH{bits:04X}"
    if llvm_type == "bfloat":
        return f"0xR{bits:04X}"
    if llvm_type == "double":
        return f"0x{bits:016X}"
    exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:  # LLVM writes a float as the double of the same value; a nan keeps its payload's top bits
        wide = (bits >> 31) << 63 | 0x7FF << 52 | mantissa << 29
    else:
        wide = struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", bits))[0]))[0]
    return f"0x{wide:016X}"


def literal(dtype: DType, data: bytes) -> tuple[tuple[str, str], ...]:
    """(type, text) of each register of the scalar with these little-endian bytes.

    >>> from broadloom.dtypes import int8, complex64
    >>> literal(int8, bytes([255])), literal(complex64, bytes(8))
    ((('i8', '-1'),), (('float', '0x0000000000000000'), ('float', '0x0000000000000000')))
    """
    types = register_type(dtype)
    step = len(data) // len(types)
    return tuple((t, _part(t, data[k * step : (k + 1) * step])) for k, t in enumerate(types))


def _part(llvm_type: str, data: bytes) -> str:
    if llvm_type == "i1":
        return "true" if any(data) else "false"
    if llvm_type[0] == "i":
        return str(int.from_bytes(data, "little", signed=True))
    return float_literal(llvm_type, int.from_bytes(data, "little"))
