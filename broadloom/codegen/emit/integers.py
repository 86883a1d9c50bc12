"""Integer arithmetic with NumPy's meaning: wrap-around, floor division, zero divisors, wide shifts.

What goes in: integer lanes of one width; the cell says whether they are signed. What comes out: the lane NumPy's
loop would store.

What holds: x // 0 and x % 0 are 0; INT_MIN // -1 is INT_MIN and its remainder 0; a shift count outside the width
gives 0, or -1 for an arithmetic right shift of a negative value; a power wraps around, and where the exponent is
negative it is the integer part of the true power (NumPy raises there). LLVM's undefined cases are never reached.
"""

from __future__ import annotations

from broadloom.codegen.emit import byte_pairs
from broadloom.codegen.emit.cell import Cell
from broadloom.codegen.lane import Lane
from broadloom.codegen.llvm import FunctionBuilder, Param, const_int, mangle


def add(_: Cell, x: Lane, y: Lane) -> Lane:
    return x + y


def subtract(_: Cell, x: Lane, y: Lane) -> Lane:
    return x - y


def multiply(_: Cell, x: Lane, y: Lane) -> Lane:
    return byte_pairs.product(x, y)


def negative(_: Cell, x: Lane) -> Lane:
    return -x


def identity(_: Cell, x: Lane) -> Lane:
    return x


def absolute(cell: Cell, x: Lane) -> Lane:
    return x.slt(0).where(-x, x) if cell.signed else x


def sign(cell: Cell, x: Lane) -> Lane:
    positive = x.ne(0).convert("zext", x.element)
    return x.slt(0).where(-1, positive) if cell.signed else positive


def square(_: Cell, x: Lane) -> Lane:
    return byte_pairs.product(x, x)


def reciprocal(cell: Cell, x: Lane) -> Lane:
    """The integer part of 1/x. For 0 it is what converting infinity to the type gives."""
    at_zero = 1 << (x.bits - 1) if cell.signed and x.bits >= 32 else 0
    unit = x.eq(1) | x.eq(-1) if cell.signed else x.eq(1)
    return x.eq(0).where(at_zero, unit.where(x, 0))


# ---- division -----------------------------------------------------------------------------------------------------


def _truncated(cell: Cell, x: Lane, y: Lane) -> tuple[Lane, Lane, Lane]:
    """(quotient toward zero, remainder, the divisor used). A divisor of 0, or -1 below INT_MIN, becomes 1."""
    bad = y.eq(0)
    if cell.signed:
        bad = bad | (y.eq(-1) & x.eq(1 << (x.bits - 1)))
    divisor = bad.where(1, y)
    quotient = _quotient(x, divisor, cell.signed)
    return quotient, x - quotient * divisor, divisor


def _quotient(x: Lane, y: Lane, signed: bool) -> Lane:
    """x/y toward zero, y sound. Up to 32 bits through floats, which processors divide in vectors: with operands
    below 2**(p/2) the rounded quotient of p-bit floats never reaches the next integer."""
    if x.bits == 64:
        return x._wrap((x.b.sdiv if signed else x.b.udiv)(x.v, y.v))
    widen, to_float, to_int = ("sext", "sitofp", "fptosi") if signed else ("zext", "uitofp", "fptoui")
    if x.bits == 32:
        quotient = x.convert(to_float, "double") / y.convert(to_float, "double")
        return quotient.convert(to_int, "i32")
    x32, y32 = (z.convert(widen, "i32").convert("sitofp", "float") for z in (x, y))
    return (x32 / y32).convert("fptosi", "i32").convert("trunc", x.element)


def _needs_step(cell: Cell, remainder: Lane, divisor: Lane) -> Lane | None:
    """Where rounding toward zero and toward minus infinity differ; None where they never do."""
    if not cell.signed:
        return None
    return remainder.ne(0) & (remainder ^ divisor).slt(0)


def floor_divide(cell: Cell, x: Lane, y: Lane) -> Lane:
    quotient, remainder, divisor = _truncated(cell, x, y)
    step = _needs_step(cell, remainder, divisor)
    if step is not None:
        quotient = step.where(quotient - 1, quotient)
    return y.eq(0).where(0, quotient)


def remainder(cell: Cell, x: Lane, y: Lane) -> Lane:
    _, rest, divisor = _truncated(cell, x, y)
    step = _needs_step(cell, rest, divisor)
    return rest if step is None else step.where(rest + divisor, rest)


def fmod(cell: Cell, x: Lane, y: Lane) -> Lane:
    return _truncated(cell, x, y)[1]


def power(cell: Cell, x: Lane, y: Lane) -> Lane:
    """By squaring; straight-line code where the exponent is a literal."""
    exponent = y.literal
    if exponent is not None and exponent >= 0:
        return _known_power(x, exponent)
    type_ = x.type
    arguments = [Param(type_, "x"), Param(type_, "y")]
    function = x.b.module.helper(f"bl.power.{mangle(type_)}", type_, arguments, _squaring, _LOOP)
    result = Lane(x.b, x.b.call(function, x.v, y.v))
    if cell.signed:
        odd = (y & 1).ne(0).where(-1, x.lit(1))
        inverse = x.eq(1).where(1, x.eq(-1).where(odd, 0))
        result = y.slt(0).where(inverse, result)
    return result


_LOOP = "noinline nounwind willreturn memory(none)"


def _squaring(b: FunctionBuilder) -> None:
    """A loop over the bits that the exponent has. Taking all bits of its type, without a branch, would allow vectors,
    yet cost a hundred multiplications where most exponents need five."""
    x, y = (Lane(b, p) for p in b.params)
    type_, entry = x.type, b.current
    head, out = b.block("bit"), b.block("done")
    b.br(head)
    b.at(head)
    phis = [b.phi(type_, (start.v, entry)) for start in (x.lit(1), x, y)]
    result, base, rest = (Lane(b, phi.value) for phi in phis)
    result = (rest & 1).ne(0).where(result * base, result)
    rest = rest.lshr(1)
    for phi, following in zip(phis, (result, base * base, rest), strict=True):
        phi.add(following.v, head)
    b.cond_br(_any(rest).ne(0).v, head, out)
    b.at(out)
    b.ret(result.v)


def _any(bits: Lane) -> Lane:
    """The lanes of a vector joined by "or"."""
    if bits.type == bits.element:
        return bits
    name = f"llvm.vector.reduce.or.{mangle(bits.type)}"
    return Lane(bits.b, bits.b.call(bits.b.module.declare(name, bits.element, [bits.type]), bits.v))


def _known_power(x: Lane, exponent: int) -> Lane:
    result, base = x.lit(1), x
    while exponent:
        if exponent & 1:
            result = base if result.literal == 1 else byte_pairs.product(result, base)
        exponent >>= 1
        if exponent:
            base = byte_pairs.product(base, base)
    return result


def gcd(cell: Cell, x: Lane, y: Lane) -> Lane:
    """Of the magnitudes as unsigned numbers, so that INT_MIN counts as 2**(bits - 1)."""
    type_ = x.type
    arguments = [Param(type_, "x"), Param(type_, "y")]
    function = x.b.module.helper(f"bl.gcd.{mangle(type_)}", type_, arguments, _common_divisor, _LOOP)
    return Lane(x.b, x.b.call(function, absolute(cell, x).v, absolute(cell, y).v))


def _common_divisor(b: FunctionBuilder) -> None:
    """Stein's algorithm: what is odd in both is subtracted until they are equal, without a division.

    J. Stein, Computational problems associated with Racah algebra, 1967.
    """
    x, y = (Lane(b, p) for p in b.params)
    entry, head, out = b.current, b.block("step"), b.block("done")
    shared, odd = _trailing(x | y), x.lshr(_trailing(x))
    b.br(head)
    b.at(head)
    phis = [b.phi(x.type, (start.v, entry)) for start in (odd, y)]
    small, rest = (Lane(b, phi.value) for phi in phis)
    rest = rest.lshr(_trailing(rest))
    # Where x is 0 the result is y: the step is taken once, from 0, and leaves it as the smaller one.
    small, rest = small.eq(0).where(rest, small), small.eq(0).where(0, rest)
    low, high = small.intrinsic("umin", rest), small.intrinsic("umax", rest)
    done = rest.eq(0)
    small, rest = done.where(small, low), done.where(0, high - low)
    for phi, following in zip(phis, (small, rest), strict=True):
        phi.add(following.v, head)
    b.cond_br(_any(rest).ne(0).v, head, out)
    b.at(out)
    b.ret((small << shared).v)


def _trailing(x: Lane) -> Lane:
    """The number of zero bits below the lowest one; 0 of 0."""
    count = Lane(x.b, x.b.intrinsic("cttz", x.v, const_int("i1", 0)))
    return x.eq(0).where(0, count)


# ---- bits ---------------------------------------------------------------------------------------------------------


def bitwise_and(_: Cell, x: Lane, y: Lane) -> Lane:
    return x & y


def bitwise_or(_: Cell, x: Lane, y: Lane) -> Lane:
    return x | y


def bitwise_xor(_: Cell, x: Lane, y: Lane) -> Lane:
    return x ^ y


def bitwise_invert(_: Cell, x: Lane) -> Lane:
    return ~x


def bitwise_count(cell: Cell, x: Lane) -> Lane:
    ones = absolute(cell, x).intrinsic("ctpop")
    return ones if x.bits == 8 else ones.convert("trunc", "i8")


def left_shift(_: Cell, x: Lane, y: Lane) -> Lane:
    if byte_pairs.in_pairs(x):
        return byte_pairs.left(x, y.intrinsic("umin", 8))
    inside = y.ult(x.bits)
    return inside.where(x << inside.where(y, 0), 0)


def right_shift(cell: Cell, x: Lane, y: Lane) -> Lane:
    if byte_pairs.in_pairs(x):
        shift, most = (byte_pairs.signed_right, 7) if cell.signed else (byte_pairs.right, 8)
        return shift(x, y.intrinsic("umin", most))
    inside = y.ult(x.bits)
    if cell.signed:
        return x.ashr(inside.where(y, x.bits - 1))
    return inside.where(x.lshr(inside.where(y, 0)), 0)


# ---- order --------------------------------------------------------------------------------------------------------


def maximum(cell: Cell, x: Lane, y: Lane) -> Lane:
    return x.intrinsic("smax" if cell.signed else "umax", y)


def minimum(cell: Cell, x: Lane, y: Lane) -> Lane:
    return x.intrinsic("smin" if cell.signed else "umin", y)


def clip(cell: Cell, x: Lane, low: Lane, high: Lane) -> Lane:
    return minimum(cell, maximum(cell, x, low), high)


def equal(_: Cell, x: Lane, y: Lane) -> Lane:
    return x.icmp("eq", y)


def not_equal(_: Cell, x: Lane, y: Lane) -> Lane:
    return x.icmp("ne", y)


def less(cell: Cell, x: Lane, y: Lane) -> Lane:
    return x.icmp("slt" if cell.signed else "ult", y)


def less_equal(cell: Cell, x: Lane, y: Lane) -> Lane:
    return x.icmp("sle" if cell.signed else "ule", y)


def greater(cell: Cell, x: Lane, y: Lane) -> Lane:
    return x.icmp("sgt" if cell.signed else "ugt", y)


def greater_equal(cell: Cell, x: Lane, y: Lane) -> Lane:
    return x.icmp("sge" if cell.signed else "uge", y)


def never(_: Cell, x: Lane) -> Lane:
    """False everywhere: isnan, isinf of an exact type."""
    return x.icmp("ne", x)


def always(_: Cell, x: Lane) -> Lane:
    """True everywhere: isfinite of an exact type."""
    return x.icmp("eq", x)


def zero(_: Cell, x: Lane) -> Lane:
    """The imaginary part of an exact value."""
    return x.lit(0)
