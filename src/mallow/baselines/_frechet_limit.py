"""The Fréchet distance of infinitely many samples, extrapolated from those there are (FD∞, FID∞)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mallow._checks import whole
from mallow.baselines._frechet import Moments, frechet_distance
from mallow.baselines._points import as_generator, check_sample
from mallow.errors import Caveat, InputError, WithCaveats, warns


@warns
def frechet_limit(
    reference: Any,
    model: Any,
    *,
    sizes: int = 15,
    smallest: int | None = None,
    rng: int | np.random.Generator | None = 0,
) -> WithCaveats[float]:
    """The Fréchet distance at which the sample size has no influence any more: FD∞ (Chong and Forsyth 2020).

    The distance of n samples is larger than that of the distributions by about a constant times 1/n. So it is computed for
    several n, and a straight line in 1/n gives its value at 1/n = 0. If the reference is given as `Moments`, as published,
    only the samples of the model are varied, and the bias of the reference remains; if it is given as samples, both sides
    are. 0 = equal. The value may be slightly negative for equal distributions; it is not clipped.

    Known failure: with fewer samples than features the distance does not follow a line, and an `EstimateWarning` says so.

    Parameters
    ----------
    reference : array (n, d) or Moments
    model : array (m, d)
    sizes : int
        How many sample sizes, equally spaced; 15 as published.
    smallest : int or None
        The smallest of them; None means a quarter of the smaller sample. Published: 5,000 of 50,000.
    rng : int, numpy.random.Generator or None
        For the choice of the subsets.

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 400, 8))
    >>> from mallow.baselines import frechet_distance
    >>> frechet_distance(x, y) > 5 * abs(frechet_limit(x, y))
    True
    """
    whole("sizes", sizes, least=2)
    x = reference if isinstance(reference, Moments) else check_sample("reference", reference)
    y = check_sample("model", model)
    most = len(y) if isinstance(x, Moments) else min(len(x), len(y))
    least = whole("smallest", max(2, most // 4) if smallest is None else smallest, least=2)
    if least >= most:
        raise InputError(f"`smallest` must be less than the size of the smaller sample, {most}; got {least}.")
    counts = np.unique(np.linspace(least, most, sizes).astype(int))
    generator, distances = as_generator(rng), []
    caveats: tuple[Caveat, ...] = ()
    for count in counts:
        part = y[generator.choice(len(y), count, replace=False)]
        real = x if isinstance(x, Moments) else x[generator.choice(len(x), count, replace=False)]
        distance, doubts = frechet_distance.quiet(real, part)
        distances.append(distance)
        caveats = caveats or doubts  # that of the smallest part
    slope_and_limit = np.polyfit(1.0 / counts, distances, 1)
    return WithCaveats(float(slope_and_limit[1]), caveats)
