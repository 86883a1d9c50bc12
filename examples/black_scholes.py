"""European option prices by Black and Scholes: ordinary NumPy, compiled into one kernel.

F. Black, M. Scholes: The Pricing of Options and Corporate Liabilities. Journal of Political Economy 81(3), 1973.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf

RATE = 0.02


def normal_cdf(x):
    """The distribution function of the standard normal distribution."""
    return 0.5 * (1.0 + erf(x / np.sqrt(2.0)))


def price(spot, strike, years, volatility):
    """Call and put prices; all arguments are arrays of one shape."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (RATE + 0.5 * volatility**2) * years) / spread
    d2 = d1 - spread
    discounted = strike * np.exp(-RATE * years)
    call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
    put = discounted * normal_cdf(-d2) - spot * normal_cdf(-d1)
    return call, put


def options(count, seed=0):
    """Random options: spot, strike, years to expiry, volatility, as float64 arrays of `count` elements."""
    rng = np.random.default_rng(seed)
    return (
        rng.uniform(50.0, 150.0, count),
        rng.uniform(50.0, 150.0, count),
        rng.uniform(0.1, 3.0, count),
        rng.uniform(0.05, 0.6, count),
    )
