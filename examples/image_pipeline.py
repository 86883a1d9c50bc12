"""A photograph, brightened, gamma-corrected, blurred and sharpened: uint8 in, uint8 out.

Intermediate images are float32. The blur is the separable binomial filter (1, 2, 1) / 4 in both directions, with the
edge pixels repeated.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

BRIGHTNESS = np.float32(1.15)
GAMMA = np.float32(0.8)
AMOUNT = np.float32(1.5)


def blur(image):
    """The 3x3 binomial blur of an image with axes (row, column, channel)."""
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)), mode="edge")
    rows = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
    return (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]) / 4


def enhance(photo):
    """A uint8 photograph with axes (row, column, channel), enhanced."""
    light = photo.astype(np.float32) / 255
    toned = np.minimum(light * BRIGHTNESS, 1) ** GAMMA
    sharp = toned + AMOUNT * (toned - blur(toned))
    return (np.clip(sharp, 0, 1) * 255 + np.float32(0.5)).astype(np.uint8)


def photographs():
    """The two photographs that scikit-learn ships, by name."""
    from sklearn.datasets import load_sample_images

    sample = load_sample_images()
    return {Path(name).stem: image for name, image in zip(sample.filenames, sample.images, strict=True)}
