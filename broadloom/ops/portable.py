"""Mathematics of random numbers, written once for NumPy and for native code, with the same bits in both.

What goes in: a handler `m` (`Maths`) and its values: float64 numbers and uint64 words. What comes out: values of the
same handler. NumPy arrays are run by `ops.random`, LLVM lanes by `codegen.emit.random`.

What holds: only + - * / and sqrt on float64, which IEEE 754 defines to the last bit, and integer arithmetic are used,
never a fused multiply-add. So a function has the same bits on every machine, in every lane and in NumPy. Errors of the
elementary functions stay below 1 unit in the last place (`sinpi`, `cospi`, `log1p`, `expm1`: below 2.5).

Sources: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC11) for
Philox; G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates" (1958).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

Value = Any  # a float64 number, a uint64 word or a truth value of the handler; also Python constants
State = tuple[Value, ...]
Step = Callable[["Maths", Value, State, State], tuple[State, Value]]  # (m, count, args, state) -> (state, finished)


class Maths(Protocol):
    """What the operators of the values do not give. Comparisons of numbers, `& | ^ ~ <<` and arithmetic are operators;
    words have no order."""

    def where(self, condition: Value, x: Value, y: Value) -> Value: ...
    def equal(self, x: Value, y: Value) -> Value: ...
    def right(self, x: Value, count: int) -> Value: ...
    def pattern(self, x: Value) -> Value: ...
    def number(self, pattern: Value) -> Value: ...
    def sqrt(self, x: Value) -> Value: ...
    def floor(self, x: Value) -> Value: ...
    def like(self, x: Value, value: float) -> Value: ...

    def loop(self, step: Step, args: State, state: State, waiting: Value, limit: int) -> State:
        """Runs `step` with counts 0, 1, ... on the elements that are `waiting`, until each is finished or `limit` is
        reached; an element that is not waiting keeps its state."""
        ...


# ---- Philox4x32-10 ---------------------------------------------------------------------------------------------------

LOW = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def philox(m: Maths, low: Value, high: Value, key: Value) -> tuple[Value, Value]:
    """The 128 bits of a counter, as two words: `low` and `high` are the counter's halves, the first 32-bit word of each
    in the lower bits. The 32-bit words are carried in 64-bit lanes, where their products need no shuffling."""
    c0, c1, c2, c3 = low & LOW, m.right(low, 32), high & LOW, m.right(high, 32)
    k0, k1 = key & LOW, m.right(key, 32)
    for n in range(ROUNDS):
        if n:
            k0, k1 = (k0 + WEYL[0]) & LOW, (k1 + WEYL[1]) & LOW
        p, q = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = m.right(q, 32) ^ c1 ^ k0, q & LOW, m.right(p, 32) ^ c3 ^ k1, p & LOW
    return c0 | (c1 << 32), c2 | (c3 << 32)


def below(m: Maths, low: Value, high: Value, count: Value) -> Value:
    """floor(x * count / 2**128) for the 128-bit x of two words: one of `count` integers, of which none is more likely
    than another by more than one part in 2**128/count. A count of 0 stands for 2**64."""
    words = (low & LOW, m.right(low, 32), high & LOW, m.right(high, 32))
    n0, n1 = count & LOW, m.right(count, 32)
    carry = m.like(low, 0)
    digits = []
    for w in words:
        carry = w * n0 + m.right(carry, 32)
        digits.append(carry & LOW)
    digits.append(m.right(carry, 32))
    carry = m.like(low, 0)
    for k, w in enumerate(words):  # each sum is below 2**64: (2**32 - 1)**2 + 2 * (2**32 - 1)
        carry = w * n1 + m.right(carry, 32) + digits[k + 1]
        digits[k + 1] = carry & LOW
    result = digits[4] + (m.right(carry, 32) << 32)
    return m.where(m.equal(count, 0), high, result)


# ---- words to numbers ------------------------------------------------------------------------------------------------


def unit(m: Maths, word: Value) -> Value:
    """The first 53 bits of a word as a multiple of 2**-53 in [0, 1). Both halves are put in place by their patterns."""
    upper = m.number(m.right(word, 32) | 0x4130000000000000) - (2.0**20 + 0.5)
    return upper + m.number((m.right(word, 11) & 0x1FFFFF) | 0x3FE0000000000000)


def positive(m: Maths, word: Value) -> Value:
    """(word + 1/2) * 2**-64, rounded: in (0, 1], as fine near 0 as 64 bits are."""
    upper = m.number(m.right(word, 32) | 0x4130000000000000) - 2.0**20
    return upper + (m.number((word & LOW) | 0x3F30000000000000) - (2.0**-12 - 2.0**-65))


# ---- elementary functions --------------------------------------------------------------------------------------------

# The polynomials of the math library, codegen/vmath/coefficients.py, where their intervals and errors are stated.
EXP = (
    0.5000000000000012, 0.166666666666667, 0.04166666666651552, 0.00833333333330734, 0.001388888894698966,
    0.0001984126991701973, 2.4801489967425297e-05, 2.7557216665846037e-06, 2.763127206223097e-07,
    2.5117739182529016e-08,
)  # fmt: skip
LOG = (
    0.6666666666666735, 0.39999999999411984, 0.2857142874304492, 0.22222198500147078, 0.18183568395926641,
    0.1531393976154734, 0.14797122078356123,
)  # fmt: skip
SIN = (
    -0.16666666666666632, 0.008333333333322411, -0.0001984126982980643, 2.7557313691404244e-06,
    -2.5050758029315006e-08, 1.5896790375685116e-10,
)  # fmt: skip
COS = (
    0.0416666666666666, -0.0013888888888874123, 2.4801587289481083e-05, -2.755731435197646e-07,
    2.0875723220479454e-09, -1.1359644876837323e-11,
)  # fmt: skip
ATAN = (
    -0.333333333333332, 0.19999999999953774, -0.14285714280215506, 0.11111110784409471, -0.09090897784783222,
    0.07692060686884246, -0.06663109260982322, 0.05847925835438148, -0.05039462193592123, 0.03806836915883837,
    -0.017911161910790282,
)  # fmt: skip

ONE, ROOT, MANTISSA = 0x3FF0000000000000, 0x3FE6A09E667F3BCD, (1 << 52) - 1  # patterns of 1 and sqrt(1/2)
COUNT = 0x4330000000000000  # the pattern of 2**52: with n below 2**52 in its low bits it is 2**52 + n
MAGIC = 1.5 * 2.0**52  # added to a number below 2**51, it leaves the nearest integer in the low bits
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
SMALLEST = 2.0**-1022
INFINITY = math.inf


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """c0 + c1*x + c2*x**2 + ..., each product and sum rounded."""
    result = x * coefficients[-1] + coefficients[-2]
    for c in reversed(coefficients[:-2]):
        result = result * x + c
    return result


def _split(m: Maths, x: Value, bias: Value) -> tuple[Value, Value]:
    """(k, f) with x = 2**k * (1 + f), 1 + f from sqrt(1/2) to sqrt(2); x positive and normal."""
    shifted = m.pattern(x) + (ONE - ROOT)
    k = m.number(m.right(shifted, 52) | COUNT) - bias
    return k, m.number((shifted & MANTISSA) + ROOT) - 1.0


def _log(k: Value, f: Value, low: Value) -> Value:
    """k*log(2) + log(1 + f) + low. With s = f/(2 + f): log(1 + f) = f - (f*f/2 - s*(f*f/2 + s*s*P(s*s)))."""
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    tail = s * (z * polynomial(z, LOG) + half)
    return k * LN2_HIGH - ((half - (tail + (k * LN2_LOW + low))) - f)


def log_normal(m: Maths, x: Value) -> Value:
    """log of a positive, finite number that is not subnormal."""
    k, f = _split(m, x, 2.0**52 + 1023)
    return _log(k, f, 0.0)


def _special(m: Maths, x: Value, result: Value) -> Value:
    """The logarithm's values at 0, infinity, nan and below 0."""
    result = m.where(m.equal(x, 0.0), m.like(x, -INFINITY), result)
    outside = m.where(m.equal(x, INFINITY), x, m.like(x, math.nan))
    return m.where((x < INFINITY) & (x >= 0.0), result, outside)


def log(m: Maths, x: Value) -> Value:
    """log with IEEE's special values: -inf at 0, nan below."""
    small = x < SMALLEST
    bias = m.where(small, m.like(x, 2.0**52 + 1077), m.like(x, 2.0**52 + 1023))
    k, f = _split(m, m.where(small, x * 2.0**54, x), bias)
    return _special(m, x, _log(k, f, 0.0))


def log1p(m: Maths, x: Value) -> Value:
    """log(1 + x), exact near 0: what 1 + x loses to rounding is carried on."""
    u = x + 1.0
    part = u - 1.0
    lost = (1.0 - (u - part)) + (x - part)
    k, f = _split(m, u, 2.0**52 + 1023)
    tiny = (x < 2.0**-54) & (x > -(2.0**-54))
    return m.where(tiny, x, _special(m, u, _log(k, f, lost / u)))


def _reduced(m: Maths, x: Value) -> tuple[Value, Value]:
    """(k, exp(r) - 1) with x = k*log(2) + r."""
    k = (x * (1.0 / math.log(2.0)) + MAGIC) - MAGIC
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    return k, r + r * r * polynomial(r, EXP)


def _power_of_two(m: Maths, k: Value) -> Value:
    """2**k for a whole number k from -1022 to 1023."""
    return m.number(m.pattern(k + (2.0**52 + 1023)) << 52)


def _clamped(m: Maths, x: Value, low: float, high: float) -> Value:
    """x within [low, high]; nan stays."""
    x = m.where(x > high, m.like(x, high), x)
    return m.where(x < low, m.like(x, low), x)


def exp(m: Maths, x: Value) -> Value:
    """e**x. The power of two is two factors, so that a result below the normal range is rounded once."""
    k, less = _reduced(m, _clamped(m, x, -746.0, 710.0))
    half = m.floor(k * 0.5)
    return (less + 1.0) * _power_of_two(m, half) * _power_of_two(m, k - half)


def expm1(m: Maths, x: Value) -> Value:
    """e**x - 1, exact near 0."""
    k, less = _reduced(m, _clamped(m, x, -40.0, 60.0))
    scale = _power_of_two(m, k)
    result = m.where(x > 50.0, exp(m, x), (scale - 1.0) + scale * less)
    return m.where((x < 2.0**-54) & (x > -(2.0**-54)), x, result)


def _quadrant(m: Maths, x: Value) -> tuple[Value, Value, Value]:
    """(n, sin(r), cos(r)) with pi*x = n*pi/2 + r, n in the two lowest bits of a word, for |x| below 2**50."""
    shifted = x * 2.0 + MAGIC
    r = (x - (shifted - MAGIC) * 0.5) * math.pi
    z = r * r
    return m.pattern(shifted), r + r * z * polynomial(z, SIN), 1.0 - (z * 0.5 - z * z * polynomial(z, COS))


def sinpi(m: Maths, x: Value) -> Value:
    """sin(pi*x)."""
    n, sine, cosine = _quadrant(m, x)
    value = m.where(m.equal(n & 1, 0), sine, cosine)
    return m.number(m.pattern(value) ^ ((n & 2) << 62))


def cospi(m: Maths, x: Value) -> Value:
    """cos(pi*x)."""
    n, sine, cosine = _quadrant(m, x)
    value = m.where(m.equal(n & 1, 0), cosine, sine)
    return m.number(m.pattern(value) ^ (((n + 1) & 2) << 62))


def atan_positive(m: Maths, x: Value) -> Value:
    """The arc tangent of a number from 0 to infinity, by that of (x - 1)/(x + 1) or -1/x where x is large."""
    large, middle = x > 1.0 + math.sqrt(2.0), x > math.sqrt(2.0) - 1.0
    above = m.where(large, m.like(x, -1.0), m.where(middle, x - 1.0, x))
    below = m.where(large, x, m.where(middle, x + 1.0, m.like(x, 1.0)))
    base = m.where(large, m.like(x, math.pi / 2), m.where(middle, m.like(x, math.pi / 4), m.like(x, 0.0)))
    r = above / below
    z = r * r
    return base + (r + r * z * polynomial(z, ATAN))


def normal(m: Maths, first: Value, second: Value) -> Value:
    """A standard normal number of two words, by Box and Muller: the radius has 64 bits, so it reaches 9.4."""
    radius = m.sqrt(log_normal(m, positive(m, first)) * -2.0)
    return radius * cospi(m, unit(m, second) * 2.0)
