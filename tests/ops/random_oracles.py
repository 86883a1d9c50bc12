"""What the ops of random numbers give, found otherwise: Philox in Python's integers, mathematics by NumPy and mpmath,
the distributions that loop one element and one trial after the other. One example at a time."""

import math

import mpmath
import numpy as np

WORD = (1 << 64) - 1
LOW = (1 << 32) - 1


def philox_words(low, high, key):
    """The four 32-bit words of Philox4x32-10."""
    counter = [low & LOW, low >> 32, high & LOW, high >> 32]
    first, second = key & LOW, key >> 32
    for _ in range(10):
        p, q = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(q >> 32) ^ counter[1] ^ first, q & LOW, (p >> 32) ^ counter[3] ^ second, p & LOW]
        first, second = (first + 0x9E3779B9) & LOW, (second + 0xBB67AE85) & LOW
    return counter


def two_words(low, high, key):
    a, b, c, d = philox_words(int(low) & WORD, int(high) & WORD, int(key) & WORD)
    return a | b << 32, c | d << 32


def philox(low, high, key, word):
    return np.uint64(two_words(low, high, key)[word])


def below(low, high, key, count):
    first, second = two_words(low, high, key)
    return np.uint64((first | second << 64) * (int(count) or 1 << 64) >> 128)


def half_open(word):
    return (word >> 11) / 2.0**53


def positive(word):
    return (2 * word + 1) / 2.0**65


def unit(word, positive):
    return np.float64((2 * int(word) + 1) / 2**65 if positive else (int(word) >> 11) / 2**53)


def normal(low, high, key):
    first, second = two_words(low, high, key)
    turn = half_open(second) * 2
    return np.float64(math.sqrt(-2 * math.log(positive(first))) * -math.sin(math.pi * math.remainder(turn - 0.5, 2)))


def gamma(shape, index, key, stream):
    if not 1 <= shape < math.inf:
        return np.float64(shape if shape == math.inf else math.nan)
    d = float(shape) - 1 / 3
    for t in range(200):
        counter = int(stream) | 2 * t
        x = float(normal(index, counter, key))
        u = positive(two_words(index, counter | 1, key)[0])
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(u) < x * x / 2 + d - d * v + d * math.log(v):
            return np.float64(d * v)
    return np.float64(math.nan)


def _by_search(u, mass, ratio):
    """The first k at which the distribution function exceeds u; `ratio(k)` is f(k)/f(k - 1)."""
    k, total = 0, mass
    while total <= u and k < 200:
        k += 1
        mass *= ratio(k)
        total += mass
    return np.float64(k)


def _by_rejection(index, key, stream, propose, accept):
    for t in range(200):
        first, second = two_words(index, int(stream) | t, key)
        u, v = half_open(first) - 0.5, positive(second)
        us = max(0.5 - abs(u), 2.0**-54)
        k = propose(u, us)
        if k >= 0 and accept(k, us, v):
            return np.float64(k)
    return np.float64(math.nan)


def poisson(mean, index, key, stream):
    mean = float(mean)
    if not 0 <= mean < 2.0**62:
        return np.float64(math.nan)
    if mean < 10:
        u = half_open(two_words(index, stream, key)[0])
        return _by_search(u, math.exp(-mean), lambda k: mean / k)
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = -0.059 + 0.02483 * b
    alpha, squeeze = 1 / (1.1239 + 1.1328 / (b - 3.4)), 0.9277 - 3.6224 / (b - 2)

    def accept(k, us, v):
        if us >= 0.07 and v <= squeeze:
            return True
        return math.log(v / alpha / (a / us**2 + b)) <= k * math.log(mean) - mean - math.lgamma(k + 1)

    return _by_rejection(index, key, stream, lambda u, us: math.floor((2 * a / us + b) * u + (mean + 0.43)), accept)


def binomial(trials, chance, index, key, stream):
    n, p = float(trials), float(chance)
    if not (0 <= p <= 1 and 0 <= n < 2.0**62):
        return np.float64(math.nan)
    flipped = p > 0.5
    p = 1 - p if flipped else p
    q = 1 - p
    if n * p < 10:
        u = half_open(two_words(index, stream, key)[0])
        k = _by_search(u, math.exp(n * math.log1p(-p)), lambda k: max(n - k + 1, 0) * (p / q) / k)
        k = min(k, math.ceil(n))
    else:
        spread = math.sqrt(n * p * q)
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * p
        alpha, squeeze, mode = (2.83 + 5.1 / b) * spread, 0.92 - 4.2 / b, math.floor((n + 1) * p)

        def log_mass(k):
            return k * math.log(p / q) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

        def accept(k, us, v):
            if k > n:
                return False
            if us >= 0.07 and v <= squeeze:
                return True
            return math.log(v * alpha / (a / us**2 + b)) <= log_mass(k) - log_mass(mode)

        k = _by_rejection(index, key, stream, lambda u, us: math.floor((2 * a / us + b) * u + (n * p + 0.5)), accept)
    return np.float64(n - k if flipped else k)


def vonmises(kappa, index, key, stream):
    k = max(float(kappa), 1e-100)
    tau = 1 + math.sqrt(1 + 4 * k * k)
    rho = 2 * k / tau * math.sqrt(tau) / (math.sqrt(tau) + math.sqrt(2))
    less = (1 - rho) ** 2 / (2 * rho)  # s - 1
    for t in range(200):
        first, second = two_words(index, int(stream) | t, key)
        u, v = half_open(first), positive(second)
        z = math.cos(math.pi * u)
        c = k * less * (less + 2) / (less + 1 + z)
        if c * (2 - c) > v or math.log(c / v) + 1 - c >= 0:
            angle = 2 * math.atan(math.sqrt(less / (less + 2)) * math.tan(math.pi * u / 2))
            return np.float64(-angle if first & 1 else angle)
    return np.float64(math.nan)


def zipf(a, index, key, stream):
    less = float(a) - 1
    if not less > 0:
        return np.float64(math.nan)
    for t in range(200):
        u, v = map(positive, two_words(index, int(stream) | t, key))
        least = (2.0**63 - 1024) ** -less
        x = math.floor((u + least * (1 - u)) ** (-1 / less))
        rise = (1 + 1 / x) ** less
        if v * x * (rise - 1) / (2**less - 1) <= rise / 2**less:
            return np.float64(x)
    return np.float64(math.nan)


RANDOM_ORACLES = {
    "key_word": lambda key: np.uint64(int(key[0]) | int(key[1]) << 32),
    "word_key": lambda word: np.array([int(word) & LOW, int(word) >> 32], np.uint32),
    "philox": philox,
    "random_below": below,
    "random_unit": unit,
    "random_normal": normal,
    "random_gamma": gamma,
    "random_poisson": poisson,
    "random_binomial": binomial,
    "random_vonmises": vonmises,
    "random_zipf": zipf,
    "portable_log": np.log,
    "portable_log1p": np.log1p,
    "portable_exp": np.exp,
    "portable_expm1": np.expm1,
    "portable_sinpi": lambda x: np.float64(mpmath.sinpi(float(x)) if np.isfinite(x) else np.nan),
    "portable_cospi": lambda x: np.float64(mpmath.cospi(float(x)) if np.isfinite(x) else np.nan),
}
