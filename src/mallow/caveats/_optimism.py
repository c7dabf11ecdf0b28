"""Whether the bins flatter the samples that placed them.

k-means puts its centres where the samples are. In many dimensions, and where the texts for one prompt lie near each
other, a bin holds the samples that made it, of both sides, while others would fall apart: the samples seem to agree
more than the distributions do in the same bins. The jackknife cannot see that, since it takes the bins as given. How
much it is depends on the data (experiments/honesty/optimism.py), so it is measured: half of the units place bins, and
both halves are counted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.errors import Caveat
from mallow.estimate import Codebook, Quantize
from mallow.evidence import NORMAL, Measure, Units, debiased_estimate, generator_for

_ERRORS = 2.0  # standard errors, which are too large for this difference: see experiments/honesty/optimism.py
_LEAST = 0.01  # chosen: of MAUVE; smaller differences do not matter
_FEWEST_UNITS = 40  # chosen: with fewer in each half there is nothing to compare


def optimism_caveats(measure: Measure, prepared: Any, units: Units, seed: int) -> list[Caveat]:
    """A caveat where the samples that placed the bins agree clearly more, or less, than others in the same bins.

    Two clusterings of half the samples each: about a tenth of the time of five repeats.

    Parameters
    ----------
    prepared : object
        What the estimator's `prepare` returned for the reference and the model.
    units : Units
        Those of the reference (set 0) and of the model (set 1).
    """
    estimator = measure.estimator
    if not isinstance(estimator, Quantize) or isinstance(estimator.codebook, Codebook):
        return []
    rng = generator_for(seed, "optimism")
    half = _draw_half(units, prepared.group, rng)
    inside = np.concatenate([half[units.sets[0]], half[units.sets[1]]])
    parts = [_select(units, inside), _select(units, ~inside)]
    if min(len(np.unique(side)) for part in parts for side in part.sets) < _FEWEST_UNITS:
        return []
    own, other, variance = np.zeros(2), np.zeros(2), 0.0  # MAUVE and the integral
    for placing, (first, second), child in zip((inside, ~inside), (parts, parts[::-1]), rng.spawn(2), strict=True):
        partitions = estimator.hold_out(prepared, placing, child)
        for partition, some, total in zip(partitions, (first, second), (own, other), strict=True):
            corrected = debiased_estimate([partition], some, divergence=measure.divergence, scale=measure.area_scale)
            cost = corrected["frontier_integral"]
            total += np.array([corrected["mauve"].value, cost.value]) / 2.0
            variance += ((cost.high - cost.low) / (2.0 * NORMAL)) ** 2 / 4.0
    gap = own[0] - other[0]
    if abs(gap) < _LEAST or abs(own[1] - other[1]) < _ERRORS * math.sqrt(variance):
        return []
    direction, consequence = ("more", "too high") if gap > 0 else ("less", "too low")
    text = (
        f"the samples that place the bins agree {direction} than others do: with bins from half of the samples, the "
        f"bias-corrected "
        f"MAUVE is {own[0]:.3f} for these and {other[0]:.3f} for the other half in the same bins. The published "
        f"score and "
        f"its bias-corrected value are {consequence}; the held-out evidence is not affected. Fewer bins help."
    )
    return [Caveat("bins fitted to samples", text, values={"inside": float(own[0]), "outside": float(other[0])})]


def _draw_half(units: Units, group: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Half of the units that have samples of the reference and half of the others, whatever the order of the rows."""
    half = np.zeros(units.count, np.bool_)
    reference, model = np.split(group, [len(units.sets[0])])  # the distinct row of each sample breaks ties
    order = np.lexsort(
        [units.totals(1, model.astype(np.float64)), units.totals(0, reference.astype(np.float64)), units.keys]
    )
    has_reference, has_model = units.sizes(0)[order] > 0, units.sizes(1)[order] > 0
    for members in (order[has_reference], order[has_model & ~has_reference]):
        half[rng.permutation(members)[: len(members) // 2]] = True
    return half


def _select(units: Units, rows: NDArray[np.bool_]) -> Units:
    """The units of some rows, those of the reference first."""
    reference, model = np.split(rows, [len(units.sets[0])])
    return Units((units.sets[0][reference], units.sets[1][model]), units.keys)
