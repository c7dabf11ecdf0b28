"""A permutation test on the bins: is there any gap at all?"""

from __future__ import annotations

from typing import Any

import numpy as np

from mallow._checks import seed_from
from mallow.embed import AnyEmbedder, embed_all
from mallow.errors import InputError, warn_about
from mallow.evaluate._measure import MAUVE_STAR, Measure
from mallow.evaluate._run import generator_for, pair_points
from mallow.inference import permutation_p_value

__all__ = ["permutation_test"]


def permutation_test(
    reference: Any,
    model: Any,
    *,
    measure: Measure = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    permutations: int = 999,
    rng: int | np.random.Generator | None = 0,
) -> float:
    """The p-value of the hypothesis that model and reference are one distribution, by exchanging samples.

    Small means that the gap is real, however close to 1 the score is. Exact where all samples are independent. The
    estimator must be `Quantize`.
    """
    seed = seed_from(rng)
    sides = embed_all({"reference": reference, "model": model}, embedder)
    x, y = pair_points(sides["reference"], sides["model"])
    estimator = measure.estimator
    masses = estimator.masses(estimator.prepare(x, y), generator_for(seed, "clustering"))
    if masses.partition is None:
        raise InputError(f"`measure` must quantise for a permutation test; its estimator is {estimator!r}.")
    warn_about(masses.caveats)
    return permutation_p_value(
        masses.partition,
        measure.summarise_counts,
        permutations=permutations,
        rng=generator_for(seed, "permutations"),
    )
