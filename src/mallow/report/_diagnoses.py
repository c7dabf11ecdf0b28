"""Everything that a report shows, from samples that are embedded once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mallow._checks import seed_from
from mallow.embed import AnyEmbedder
from mallow.estimate import Quantize
from mallow.evaluate import Comparison, Settings, compare_pairs, embed_pairs
from mallow.evidence import MAUVE_STAR, Measure
from mallow.explain import Diagnosis, diagnose_embedded
from mallow.theory import extrapolated

# Examples of each side of a cluster; chosen: a row of small pictures, a few texts.
_EXAMPLES = {"image": 6, "text": 3, "audio": 3, "features": 3}


def compare_and_diagnose(
    reference: Any,
    systems: Mapping[str, Any],
    *,
    measure: Measure = MAUVE_STAR,
    embedder: AnyEmbedder | str | None = None,
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
) -> tuple[Comparison, dict[str, Diagnosis]]:
    """A comparison of several systems and a diagnosis of each, for `html` and `write`; nothing is embedded or learned twice.

    The results are those of `mallow.compare` and `mallow.diagnose`, the latter with six examples of images. Caveats are in the results, and nothing is warned
    about. A measure that cannot be split into bins has no diagnoses.

    Parameters
    ----------
    reference, systems, measure, embedder, repeats, rng :
        As in `mallow.compare`.
    """
    seed = seed_from(rng)
    pairs = embed_pairs(reference, systems, embedder, measure)
    comparison = compare_pairs(pairs, Settings(measure, repeats, seed))
    if not _splits_into_bins(measure):
        return comparison, {}
    return comparison, {
        name: diagnose_embedded(
            human,
            samples,
            measure=measure,
            examples=_EXAMPLES[human.kind],
            seed=seed,
            evidence=comparison.scores[name].evidence,
        )
        for name, (human, samples) in pairs.items()
    }


def _splits_into_bins(measure: Measure) -> bool:
    """Whether `diagnose` takes the measure."""
    return isinstance(measure.estimator, Quantize) and measure.estimator.smoothing is not extrapolated
