"""Samples with a planted defect, and embedders for them."""

import numpy as np

from mallow import Measure, Quantize


def cloud(n: int, seed: int, planted: int = 0) -> np.ndarray:
    """Points around 0, the last `planted` of which form a cluster of their own."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3))
    points[n - planted :] = rng.normal((7, 7, 0), 0.5, size=(planted, 3))
    return points


X, Y = cloud(400, 0), cloud(400, 1, planted=40)
TWELVE_BINS = Measure(Quantize(bins=12))
TWO_BINS = Measure(Quantize(bins=2, reduce=None))
TEXTS = [f"a cat sat on mat {i}" for i in range(10, 60)]


def lengths_as_features(texts: list[str]) -> list[list[float]]:
    return [[float(len(text))] for text in texts]


def with_loops(n: int) -> list[str]:
    """Texts of which the last n repeat one word, all in the same way."""
    return TEXTS[: 50 - n] + ["loop loop loop loop loop loop loop loop loop loop"] * n
