"""Heat conduction in a plate: the explicit five-point scheme, several steps in one compiled call.

The plate is a square grid with fixed temperatures on its rim.
"""

from __future__ import annotations

import numpy as np

STEPS = 5
DIFFUSION = 0.2  # thermal diffusivity times time step over grid spacing squared; stable up to 0.25


def step(field):
    """One time step of a float64 field with axes (row, column)."""
    centre = field[1:-1, 1:-1]
    neighbours = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
    result = field.copy()
    result[1:-1, 1:-1] = centre + DIFFUSION * (neighbours - 4.0 * centre)
    return result


def advance(field):
    """`STEPS` time steps."""
    for _ in range(STEPS):
        field = step(field)
    return field


def plate(size):
    """A cold plate with one hot edge and a hot disc."""
    field = np.zeros((size, size))
    field[0] = 1.0
    row, column = np.mgrid[:size, :size]
    field[(row - size / 2) ** 2 + (column - size / 3) ** 2 < (size / 8) ** 2] = 1.0
    return field
