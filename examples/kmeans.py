"""Lloyd's k-means steps on scikit-learn's handwritten digits.

S. P. Lloyd: Least squares quantization in PCM. IEEE Transactions on Information Theory 28(2), 1982.
"""

from __future__ import annotations

import numpy as np

CLUSTERS = 10


def assign(points, centres):
    """The number of the nearest centre of each point."""
    distance = (centres * centres).sum(axis=1) - 2.0 * (points @ centres.T)
    return distance.argmin(axis=1)


def kmeans_step(points, centres):
    """New centres (cluster, feature), and the mean square distance of the points from the old ones."""
    label = assign(points, centres)
    member = (label[:, None] == np.arange(CLUSTERS)).astype(points.dtype)
    count = np.maximum(member.sum(axis=0), 1.0)
    moved = (member.T @ points) / count[:, None]
    inertia = ((points - centres[label]) ** 2).sum(axis=1).mean()
    return moved, inertia


def digits():
    """1797 images of 8x8 pixels as float64 rows of 64, and the first centres."""
    from sklearn.datasets import load_digits

    points = load_digits().data / 16.0
    return points, points[np.random.default_rng(0).choice(len(points), CLUSTERS, replace=False)]
