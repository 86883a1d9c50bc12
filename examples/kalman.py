"""A Kalman filter follows one object; `bl.vmap` makes it follow thousands.

State: position and velocity in the plane, x = (px, py, vx, vy). Only positions are measured, with noise; between two
measurements the velocity wanders.

R. E. Kalman: A New Approach to Linear Filtering and Prediction Problems. Journal of Basic Engineering 82(1), 1960.
"""

from __future__ import annotations

import numpy as np

import broadloom as bl

STEP = 0.1  # seconds between two measurements
MOTION = np.array([[1.0, 0.0, STEP, 0.0], [0.0, 1.0, 0.0, STEP], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
SEEN = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
WANDER = np.diag([0.0, 0.0, 0.02, 0.02])
NOISE = np.diag([0.3, 0.3])


def follow(measured, state, spread):
    """The states (step, 4) of one object, estimated from its `measured` positions (step, 2).

    `state` (4,) is the first guess, and `spread` (4, 4) its covariance.
    """
    path = np.empty((len(measured), 4))
    for k in range(len(measured)):
        state = MOTION @ state  # predict
        spread = MOTION @ spread @ MOTION.T + WANDER
        surprise = measured[k] - SEEN @ state  # update
        gain = np.linalg.solve(SEEN @ spread @ SEEN.T + NOISE, SEEN @ spread).T
        state = state + gain @ surprise
        spread = spread - gain @ SEEN @ spread
        path[k] = state
    return path


follow_all = bl.vmap(follow)  # the one line: objects along the first axis of every argument


def objects(count, steps, seed=0):
    """Measured positions of objects that wander, first guesses and covariances, and the true positions."""
    rng = np.random.default_rng(seed)
    velocity = rng.normal(size=(count, 1, 2)) + np.cumsum(rng.normal(0.0, 0.02**0.5, (count, steps, 2)), axis=1)
    position = rng.normal(0.0, 10.0, (count, 1, 2)) + np.cumsum(velocity * STEP, axis=1)
    measured = position + rng.normal(0.0, 0.3**0.5, position.shape)
    state = np.concatenate([measured[:, 0], np.zeros((count, 2))], axis=1)
    spread = np.broadcast_to(np.diag([0.3, 0.3, 2.0, 2.0]), (count, 4, 4)).copy()
    return measured, state, spread, position
