"""Everything that a report shows, from samples that are embedded once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from mallow._checks import seed_from
from mallow.embed import AnyEmbedder, JointEmbedder, embed_all, read_all, resolve_embedder
from mallow.errors import EstimateWarning
from mallow.estimate import Quantize
from mallow.evaluate import MAUVE_STAR, Comparison, Measure, compare
from mallow.explain import Diagnosis, diagnose
from mallow.theory import debiased

__all__ = ["compare_and_diagnose"]


def compare_and_diagnose(
    reference: Any,
    systems: Mapping[str, Any],
    *,
    measure: Measure = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
) -> tuple[Comparison, dict[str, Diagnosis]]:
    """A comparison of several systems and a diagnosis of each, for `html` and `write`; no sample is embedded twice.

    The results are those of `mallow.compare` and `mallow.diagnose`. Caveats are in the results, and nothing is warned
    about. A measure that cannot be split into bins has no diagnoses.

    Parameters
    ----------
    reference, systems, measure, embedder, repeats, rng :
        As in `mallow.compare`.
    """
    seed = seed_from(rng)
    sets = read_all({"": reference, **systems}, embedder)
    chosen = resolve_embedder(sets, embedder)
    # The features of a string kernel depend on all texts that it sees, so `compare` embeds each pair by itself.
    if chosen is not None and not isinstance(chosen, JointEmbedder):
        sets, chosen = embed_all(sets, chosen), None
    human = sets.pop("")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # the results carry their caveats
        comparison = compare(human, sets, measure=measure, embedder=chosen, repeats=repeats, rng=seed)
        if not _splits_into_bins(measure):
            return comparison, {}
        return comparison, {
            name: diagnose(human, samples, measure=measure, embedder=chosen, rng=seed) for name, samples in sets.items()
        }


def _splits_into_bins(measure: Measure) -> bool:
    """Whether `diagnose` takes the measure."""
    return isinstance(measure.estimator, Quantize) and measure.estimator.smoothing is not debiased
