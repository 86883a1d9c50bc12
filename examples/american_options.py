"""American puts on a binomial tree: the price of one option, made an op that takes strikes x maturities.

J. C. Cox, S. A. Ross, M. Rubinstein: Option Pricing: A Simplified Approach. Journal of Financial Economics 7(3), 1979.
"""

from __future__ import annotations

import numpy as np

import broadloom as bl

STEPS = 32  # of the tree
RATE = 0.02


@bl.gufunc("(),(),(),()->()")  # the one line: spot, strike, years and volatility may be arrays that broadcast
def american_put(spot, strike, years, volatility):
    """The price of one put that may be exercised at any time; all arguments are float64 numbers."""
    step = years / STEPS
    up = np.exp(volatility * np.sqrt(step))
    rise = (np.exp(RATE * step) - 1.0 / up) / (up - 1.0 / up)
    discount = np.exp(-RATE * step)
    moves = np.arange(-STEPS, STEPS + 1)
    exercised = np.maximum(strike - spot * up**moves, 0.0)  # what exercise brings, by the number of moves up
    value = exercised[::2]
    for k in range(STEPS - 1, -1, -1):
        held = discount * (rise * value[1:] + (1.0 - rise) * value[:-1])
        value = np.maximum(held, exercised[STEPS - k : STEPS + k + 1 : 2])
    return value[0]


def market(strikes, maturities):
    """Spot, strikes (column), years to expiry (row) and volatilities that smile, as float64 arrays that broadcast."""
    strike = np.linspace(60.0, 140.0, strikes)[:, None]
    years = np.linspace(0.1, 2.0, maturities)
    return np.float64(100.0), strike, years, 0.2 + 0.15 * np.log(strike / 100.0) ** 2
