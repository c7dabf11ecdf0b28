"""Clipped density and coverage: shares of good samples that few outliers cannot change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln

from mallow.baselines._points import Doubles, Indices
from mallow.baselines._precision_recall import check_neighbors, count_balls, make_cloud, squared_radii
from mallow.engine import single_threaded_blas


@dataclass(frozen=True)
class ClippedShares:
    """Fidelity and coverage of a model's sample, each as an equivalent share of good samples.

    Attributes
    ----------
    density : float
        From 0 to 1. If a share of the model's samples is far from all real data and the others are drawn like them, the
        expected value is about one minus this share.
    coverage : float
        From 0 to 1. If only m of the model's samples are near real data and are drawn like them, the expected value is
        about m divided by the size of the sample.
    neighbors : int
        The k of the balls.
    """

    density: float
    coverage: float
    neighbors: int


def clipped_shares(reference: Any, model: Any, *, neighbors: int = 5) -> ClippedShares:
    """Clipped density and clipped coverage (Salvy, Talbot and Thirion, ICLR 2026).

    Around every real sample there is a ball that reaches to its k-th nearest real neighbour, as in `precision_recall`.
    For the density, no radius exceeds the median radius, and a model sample counts min(balls around it, k) / k. The
    mean is divided by the same mean for the real samples, each without its own ball, and is at most 1. For the
    coverage, a ball counts min(model samples inside, k) / k. The mean over balls is turned into the number of good
    samples with this expectation: the number of them in a ball is beta-binomial if both sides have one distribution.

    A point at the radius is inside, as in `precision_recall`. The authors' code leaves it out for coverage, and
    calls fewer than k good samples 0, where this is exact.

    Known failure: in many dimensions the balls see little but the variance. In 64 dimensions, a model with a third of
    the standard deviation has 1 for both, and one with three times as much has 0 for both.

    Parameters
    ----------
    reference : array (n, d)
        The features of more than `neighbors` real samples.
    model : array (n, d)
        The features of more than `neighbors` samples of the model.
    neighbors : int
        k, 5 in the paper.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> real, model = rng.normal(size=(2, 1000, 4))
    >>> model[:300] += 100  # 30% of the samples are far away
    >>> shares = clipped_shares(real, model)
    >>> round(shares.density, 1), round(shares.coverage, 1)
    (0.7, 0.7)
    """
    x, y = check_neighbors(reference, model, neighbors)
    with single_threaded_blas():
        centre = (x.mean(axis=0, dtype=np.float64) + y.mean(axis=0, dtype=np.float64)) / 2
        p, q = make_cloud(x, centre), make_cloud(y, centre)
        radius = squared_radii(p, neighbors)
        clipped = np.minimum(radius, np.median(np.repeat(radius, p.times)))
        around, _, _ = count_balls(p, clipped, q, np.zeros(len(q.distinct)))
        around_real, _, _ = count_balls(p, clipped, p, np.zeros(len(p.distinct)))
        _, inside, _ = count_balls(p, radius, q, np.zeros(len(q.distinct)))
    real = _mean_share(around_real - 1, p.times, neighbors)
    covered = _mean_share(inside, p.times, neighbors)
    expected = _expected_coverage(len(x), len(y), neighbors)
    return ClippedShares(
        density=min(1.0, _mean_share(around, q.times, neighbors) / real),
        coverage=float(np.interp(covered, expected, np.arange(len(y) + 1) / len(y))),
        neighbors=neighbors,
    )


def _mean_share(counts: Indices, times: Indices, neighbors: int) -> float:
    return float(times @ np.minimum(counts, neighbors) / (times.sum() * neighbors))


def _expected_coverage(n: int, most: int, neighbors: int) -> Doubles:
    """The mean of min(J, k) / k with 0, 1, …, `most` good samples, of which J are in a ball of n real samples.

    The share of the distribution in the ball of a real sample is Beta(k, n − k), so that J is beta-binomial.
    """
    good, inside = np.arange(most + 1)[:, None], np.arange(neighbors)
    out = np.maximum(good - inside, 0)
    logs = gammaln(good + 1) - gammaln(inside + 1) - gammaln(out + 1)
    logs += betaln(inside + neighbors, out + n - neighbors) - betaln(neighbors, n - neighbors)
    chance = np.where(inside <= good, np.exp(logs), 0.0)
    expected: Doubles = 1.0 - chance @ (neighbors - inside) / neighbors
    return expected
