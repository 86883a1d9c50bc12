"""What a photograph is like: light, contrast, edges and entropy of an image, and then of all its tiles at once.

I. Sobel, G. Feldman: An Isotropic 3x3 Image Gradient Operator (1968). C. E. Shannon: A Mathematical Theory of
Communication. Bell System Technical Journal 27(3), 1948.
"""

from __future__ import annotations

import numpy as np

import broadloom as bl

WEIGHTS = np.array([54, 183, 19], np.uint16)  # of red, green and blue in the light, 256 together
LEVELS = 64


def statistics(image):
    """Mean, standard deviation, contrast, edge energy and entropy (bits) of a uint8 image (row, column, channel).

    Contrast is the spread of the light between its darkest and brightest 5 %; edge energy the mean square of the
    gradient by Sobel's 3x3 masks.
    """
    light = (image @ WEIGHTS) / np.float32(255 * 256)
    low, high = np.quantile(light, [0.05, 0.95])
    rows = light[:-2] + 2 * light[1:-1] + light[2:]
    columns = light[:, :-2] + 2 * light[:, 1:-1] + light[:, 2:]
    gradient = (rows[:, 2:] - rows[:, :-2]) ** 2 + (columns[2:] - columns[:-2]) ** 2
    count, _ = np.histogram(light, bins=LEVELS, range=(0.0, 1.0))
    share = count / light.size
    entropy = -np.sum(share * np.log2(np.maximum(share, 1e-12)))
    return light.mean(), light.std(), high - low, gradient.mean(), entropy


statistics_of_tiles = bl.vmap(bl.vmap(statistics))  # the one line: tiles along the first two axes


def tiles(photo, size=32):
    """The photograph as square tiles with axes (tile row, tile column, row, column, channel); a rest is left out."""
    rows, columns = (n // size for n in photo.shape[:2])
    cut = photo[: rows * size, : columns * size].reshape(rows, size, columns, size, 3)
    return np.ascontiguousarray(cut.transpose(0, 2, 1, 3, 4))
