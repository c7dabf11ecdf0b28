"""The public test of identity for samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from mallow._checks import seed_from, whole
from mallow.embed import AnyEmbedder, embed_all
from mallow.evidence._identity import IdentityTest
from mallow.evidence._space import find_spaces
from mallow.evidence._systems import pair_spaces
from mallow.evidence._units import find_units
from mallow.evidence._within import run_test
from mallow.samples import Samples


def permutation_test(
    reference: Any,
    model: Any,
    *,
    embedder: AnyEmbedder | str | None = None,
    paired: bool = False,
    prompts: str = "joint",
    independent_samples: bool = True,
    permutations: int = 999,
    rng: int | np.random.Generator | None = 0,
) -> float:
    """The p-value for "model and reference have one distribution", by exchanging units between them.

    A small value means that the gap is real, however close to 1 the score is. It is the test behind `Score.p_value`: it
    uses several statistics of the features at once and is exact if units are exchangeable. Samples that share an id (or
    a prompt, without ids) are one unit, and so is row i of both sides with `paired`, so shared prompts and several
    samples per prompt are no problem. If few permutations reach the observed gap, up to 100,000 are drawn, and the
    smallest possible p-value is 0.00001.

    If at least five units have several samples of both sides, a second test exchanges samples within units. It detects
    changes that are different for each prompt. The p-value is then twice the smaller of the two. The samples must be
    independent given their prompt; if they are not, pass ``independent_samples=False``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> permutation_test(rng.normal(size=(200, 3)), rng.normal(0.5, 1.0, size=(200, 3)))
    1e-05
    """
    sides = embed_all({"reference": reference, "model": model}, embedder, paired=paired, prompts=prompts)
    test = run_permutations(
        *sides.values(), independent_samples=independent_samples, permutations=permutations, rng=rng
    )
    return test.p_value


def run_permutations(
    reference: Samples,
    model: Samples,
    *,
    independent_samples: bool = True,
    permutations: int = 999,
    rng: int | np.random.Generator | None = 0,
) -> IdentityTest:
    """The whole test of samples with features: its p-value, whether it is exact, and the p-value of each statistic."""
    seed = seed_from(rng)
    whole("permutations", permutations, least=1)
    *points, widths = pair_spaces(reference, model)
    units = find_units(reference, model)
    spaces = find_spaces(points, units, widths)
    return run_test(spaces, units, 1, permutations=permutations, seed=seed, within=independent_samples)
