"""Random numbers by rejection and by search: loops whose steps are written for any handler of `ops.portable`.

What goes in: a handler, parameters, the number of an element and its key. What comes out: float64 numbers.

What holds: trial number t of an element uses the counters (element, t) of its own, so the numbers depend on nothing but
key and element. A loop ends when all of the elements that a handler holds have been accepted; the limits below are met
with a probability below 2**-200, and for parameters that are nan or infinite.

Sources: G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables" (2000) for gamma; W. Hörmann, "The
transformed rejection method for generating Poisson random variables" (1993) and "The generation of binomial random
variates" (1993) for Poisson and binomial numbers with means from 10 on, smaller ones by inversion; D. J. Best, N. I.
Fisher, "Efficient simulation of the von Mises distribution" (1979); L. Devroye, "Non-uniform random variate
generation" (1986), chapter X, for Zipf's distribution.
"""

from __future__ import annotations

import math

from broadloom.ops.portable import (
    Maths,
    State,
    Value,
    atan_positive,
    cospi,
    exp,
    expm1,
    log,
    log1p,
    log_normal,
    normal,
    philox,
    polynomial,
    positive,
    sinpi,
    unit,
)

LIMIT = 200  # trials; the least chance of acceptance is above 1/2
SEARCH_LIMIT = 200  # terms of a distribution function whose mean is below 10
INVERTED = 10.0  # the mean from which on rejection is used

# log(n!) = (x - 1/2)*log(x) - x + log(2*pi)/2 + STIRLING(1/x), x = n + 1, for n from 0 on: error below 3e-14.
STIRLING = (
    0.08333333333341995, -3.929459299465244e-11, -0.0027777747247684946, -9.645263338181734e-08,
    0.0007952909578883891, -1.7208062855490122e-05, -0.0004751158313712967, -0.0005808598802568842,
    0.0028104384688884443, -0.004557816475377002, 0.004517765439312517, -0.00298572606405887, 0.0012960516779639054,
    -0.0003365980199375578, 3.97824684295965e-05,
)  # fmt: skip


# ---- gamma -----------------------------------------------------------------------------------------------------------


def gamma(m: Maths, shape: Value, index: Value, key: Value, stream: Value) -> Value:
    """A gamma number of a shape from 1 on; nan for a smaller or nan one, infinity for an infinite one."""
    d = shape - 1.0 / 3.0
    c = 1.0 / (m.sqrt(d) * 3.0)
    good = (shape >= 1.0) & (shape < math.inf)
    start = m.where(m.equal(shape, math.inf), shape, m.like(shape, math.nan))
    return m.loop(_gamma_trial, (d, c, index, key, stream), (start,), good, LIMIT)[0]


def _gamma_trial(m: Maths, t: Value, args: State, state: State) -> tuple[State, Value]:
    """d*v with v = (1 + c*x)**3, x normal, where log(u) < x*x/2 + d - d*v + d*log(v)."""
    d, c, index, key, stream = args
    even = (t << 1) | stream
    first, second = philox(m, index, even, key)
    third, _ = philox(m, index, even | 1, key)
    x = normal(m, first, second)
    root = x * c + 1.0
    inside = root > 0.0
    root = m.where(inside, root, m.like(root, 1.0))
    v = root * root * root
    limit = x * x * 0.5 + d * ((1.0 - v) + log_normal(m, root) * 3.0)
    return (d * v,), inside & (log_normal(m, positive(m, third)) < limit)


# ---- von Mises -------------------------------------------------------------------------------------------------------

ALMOST_NORMAL = 2.0**40  # the concentration from which on the normal distribution is as good as a part in 2**40


def vonmises(m: Maths, kappa: Value, index: Value, key: Value, stream: Value) -> Value:
    """An angle in [-pi, pi] around 0, of a concentration from 0 on; nan for a negative or nan one."""
    k = m.where(kappa > 1e-100, kappa, m.like(kappa, 1e-100))
    root = m.sqrt(k * k * 4.0 + 1.0) + 1.0
    tau = m.sqrt(root)
    rho = tau / (tau + math.sqrt(2.0)) * (k * 2.0 / root)
    less = (1.0 - rho) * (1.0 - rho) / (rho * 2.0)  # s - 1, s that of the envelope, a wrapped Cauchy distribution
    first, second = philox(m, index, stream, key)
    far = normal(m, first, second) / m.sqrt(kappa)
    far = m.where(kappa >= ALMOST_NORMAL, far, m.like(kappa, math.nan))
    waiting = (kappa >= 0.0) & (kappa < ALMOST_NORMAL)
    return m.loop(_vonmises_trial, (k, less, index, key, stream), (far,), waiting, LIMIT)[0]


def _vonmises_trial(m: Maths, t: Value, args: State, state: State) -> tuple[State, Value]:
    """tan(angle/2) = sqrt((s - 1)/(s + 1))*tan(pi*u/2) is an angle of the envelope, accepted by c = k*(s - cos(angle))
    = k*(s*s - 1)/(s + cos(pi*u))."""
    k, less, index, key, stream = args
    first, second = philox(m, index, t | stream, key)
    u, v = unit(m, first), positive(m, second)
    more = less + 2.0
    half = u * 0.5
    angle = atan_positive(m, m.sqrt(less / more) * (sinpi(m, half) / cospi(m, half))) * 2.0
    c = k * (less * (more / ((less + 1.0) + cospi(m, u))))
    accepted = (c * (2.0 - c) > v) | (log(m, c / v) + 1.0 >= c)
    return (m.where(m.equal(first & 1, 0), angle, -angle),), accepted


# ---- Poisson ---------------------------------------------------------------------------------------------------------


def poisson(m: Maths, mean: Value, index: Value, key: Value, stream: Value) -> Value:
    """A Poisson number, as a float64; nan for a negative, nan or infinite mean."""
    first, _ = philox(m, index, stream, key)
    small = (mean >= 0.0) & (mean < INVERTED)
    mass = exp(m, -mean)
    u = unit(m, first)
    zero = m.like(mean, 0.0)
    count = m.loop(_poisson_term, (mean, u), (zero, mass, mass), small & (mass <= u), SEARCH_LIMIT)[0]
    count = m.where(small, count, m.like(mean, math.nan))
    large = (mean >= INVERTED) & (mean < 2.0**62)
    b = m.sqrt(mean) * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2.0)
    return m.loop(_poisson_trial, (mean, a, b, inverse_alpha, squeeze, index, key, stream), (count,), large, LIMIT)[0]


def _poisson_term(m: Maths, t: Value, args: State, state: State) -> tuple[State, Value]:
    """One more term of the distribution function; finished where it exceeds u."""
    mean, u = args
    count, mass, total = state
    count = count + 1.0
    mass = mass * (mean / count)
    total = total + mass
    return (count, mass, total), total > u


def _poisson_trial(m: Maths, t: Value, args: State, state: State) -> tuple[State, Value]:
    """Algorithm PTRS, with the probability taken relative to the mean: log(f(k)) = k*log(mean/x) + x - mean -
    log(2*pi*x)/2 - STIRLING, x = k + 1."""
    mean, a, b, inverse_alpha, squeeze, index, key, stream = args
    v, k, us, fits = _proposed(m, (index, key, stream), t, a, b, mean + 0.43)
    x = m.where(fits, k, m.like(k, 0.0)) + 1.0
    mass = -k * log1p(m, (x - mean) / mean) + (x - mean) - log(m, x) * 0.5 - 0.5 * math.log(2 * math.pi) - stirling(x)
    accepted = log(m, v * inverse_alpha / (a / (us * us) + b)) <= mass
    return (k,), fits & (((us >= 0.07) & (v <= squeeze)) | accepted)


def _proposed(m: Maths, where: State, t: Value, a: Value, b: Value, centre: Value) -> tuple[Value, Value, Value, Value]:
    """(v, k, us, whether k is not negative): u and v uniform, us = 1/2 - |u - 1/2|, k by the transformation."""
    index, key, stream = where
    first, second = philox(m, index, t | stream, key)
    u, v = unit(m, first) - 0.5, positive(m, second)
    us = 0.5 - m.where(u < 0.0, -u, u)
    us = m.where(us > 0.0, us, m.like(us, 2.0**-54))
    k = m.floor((a * 2.0 / us + b) * u + centre)
    return v, k, us, k >= 0.0


def stirling(x: Value) -> Value:
    """The remainder of Stirling's series for log((x - 1)!), x from 1 on."""
    z = 1.0 / x
    return z * polynomial(z, STIRLING)


# ---- binomial --------------------------------------------------------------------------------------------------------


def binomial(m: Maths, trials: Value, chance: Value, index: Value, key: Value, stream: Value) -> Value:
    """How many of a number of trials succeed, as a float64; nan where the chance is not in [0, 1] or the number
    negative or not finite. Chances above 1/2 count the failures."""
    high = chance > 0.5
    p = m.where(high, 1.0 - chance, chance)
    valid = (chance >= 0.0) & (chance <= 1.0) & (trials >= 0.0) & (trials < 2.0**62)
    mean = trials * p
    small = valid & (mean < INVERTED)
    odds = p / (1.0 - p)
    first, _ = philox(m, index, stream, key)
    u = unit(m, first)
    mass = exp(m, trials * log1p(m, -p))
    start = (m.like(mean, 0.0), mass, mass)
    count = m.loop(_binomial_term, (trials, odds, u), start, small & (mass <= u), SEARCH_LIMIT)[0]
    count = m.where(small, count, m.like(mean, math.nan))
    count = _binomial_large(m, trials, p, odds, (index, key, stream), count, valid & (mean >= INVERTED))
    return m.where(high, trials - count, count)


def _binomial_term(m: Maths, t: Value, args: State, state: State) -> tuple[State, Value]:
    trials, odds, u = args
    count, mass, total = state
    mass = mass * ((trials - count) * odds / (count + 1.0))
    count = count + 1.0
    total = total + mass
    return (count, mass, total), (total > u) | (count >= trials)


def _binomial_large(
    m: Maths, trials: Value, p: Value, odds: Value, where: State, count: Value, waiting: Value
) -> Value:
    """Algorithm BTRS."""
    deviation = m.sqrt(trials * p * (1.0 - p))
    b = deviation * 2.53 + 1.15
    a = b * 0.0248 + p * 0.01 - 0.0873
    alpha = (5.1 / b + 2.83) * deviation
    squeeze = 0.92 - 4.2 / b
    mode = m.floor((trials + 1.0) * p)
    x, y = mode + 1.0, trials - mode + 1.0
    slope = log(m, odds * (y / x))
    args = (trials, trials * p + 0.5, a, b, alpha, squeeze, mode, slope, stirling(x) + stirling(y), *where)
    return m.loop(_binomial_trial, args, (count,), waiting, LIMIT)[0]


def _binomial_trial(m: Maths, t: Value, args: State, state: State) -> tuple[State, Value]:
    """Accepts by log(f(k)/f(mode)), the factorials by Stirling's formula relative to those of the mode."""
    trials, centre, a, b, alpha, squeeze, mode, slope, rest, *where = args
    v, k, us, fits = _proposed(m, tuple(where), t, a, b, centre)
    fits = fits & (k <= trials)
    k = m.where(fits, k, mode)
    x, y, off = k + 1.0, trials - k + 1.0, k - mode
    mass = off * slope - (x - 0.5) * log1p(m, off / (mode + 1.0)) - (y - 0.5) * log1p(m, -off / (trials - mode + 1.0))
    mass = mass + (rest - (stirling(x) + stirling(y)))
    accepted = log(m, v * alpha / (a / (us * us) + b)) <= mass
    return (k,), fits & (((us >= 0.07) & (v <= squeeze)) | accepted)


# ---- Zipf ------------------------------------------------------------------------------------------------------------

LARGEST = 2.0**63 - 1024  # the largest float64 that an int64 holds


def zipf(m: Maths, a: Value, index: Value, key: Value, stream: Value) -> Value:
    """A number of Zipf's distribution of an exponent above 1, as a float64; nan for another exponent."""
    valid, far = a > 1.0, a >= 1025.0
    less = a - 1.0
    start = m.where(far, m.like(a, 1.0), m.like(a, math.nan))
    scale = exp(m, less * math.log(2.0))
    least = exp(m, less * -math.log(LARGEST))  # of u, so that no proposal is too large
    return m.loop(_zipf_trial, (less, scale, least, index, key, stream), (start,), valid & (a < 1025.0), LIMIT)[0]


def _zipf_trial(m: Maths, t: Value, args: State, state: State) -> tuple[State, Value]:
    """x = floor(u**(-1/(a - 1))), accepted where v*x*(T - 1)/(b - 1) <= T/b, T = (1 + 1/x)**(a - 1), b = 2**(a - 1)."""
    less, scale, least, index, key, stream = args
    first, second = philox(m, index, t | stream, key)
    u = positive(m, first)
    x = m.floor(exp(m, log(m, u + least * (1.0 - u)) / -less))
    fits = (x >= 1.0) & (x <= LARGEST)
    x = m.where(fits, x, m.like(x, 1.0))
    rise = expm1(m, log1p(m, 1.0 / x) * less)
    accepted = positive(m, second) * x * (rise / (scale - 1.0)) <= (rise + 1.0) / scale
    return (x,), fits & accepted
