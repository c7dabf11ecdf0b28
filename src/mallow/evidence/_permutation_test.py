"""The test of identity alone: is there any gap at all?"""

from __future__ import annotations

from typing import Any

import numpy as np

from mallow._checks import seed_from, whole
from mallow.embed import AnyEmbedder, embed_all
from mallow.evidence._identity import IdentityTest, run_identity_test
from mallow.evidence._space import find_space
from mallow.evidence._systems import pair_points
from mallow.evidence._units import find_units


def permutation_test(
    reference: Any,
    model: Any,
    *,
    embedder: AnyEmbedder | str | None = None,
    permutations: int = 999,
    rng: int | np.random.Generator | None = 0,
) -> float:
    """The p-value of the hypothesis that model and reference are one distribution, by exchanging units between them.

    Small means that the gap is real, however close to 1 the score is. It is the test behind `Score.p_value`: several
    statistics of the features at once, exact where units are exchangeable. Samples that share an id, and row i of equally
    long arrays, are one unit, so that shared prompts and several samples per prompt are no problem. Below
    1/(permutations + 1) the p-value is that of a normal tail, an approximation.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> permutation_test(rng.normal(size=(200, 3)), rng.normal(0.5, 1.0, size=(200, 3))) < 0.001
    True
    """
    return run_permutations(reference, model, embedder=embedder, permutations=permutations, rng=rng).p_value


def run_permutations(
    reference: Any,
    model: Any,
    *,
    embedder: AnyEmbedder | str | None = None,
    permutations: int = 999,
    rng: int | np.random.Generator | None = 0,
) -> IdentityTest:
    """The whole test: its p-value, whether it is exact, and what each statistic says."""
    seed = seed_from(rng)
    whole("permutations", permutations, least=1)
    sides = embed_all({"reference": reference, "model": model}, embedder)
    points = pair_points(sides["reference"], sides["model"])
    units = find_units(sides["reference"], sides["model"])
    return run_identity_test(find_space(points, units, seed), units, 1, permutations=permutations, seed=seed)
