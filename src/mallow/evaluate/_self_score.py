"""What the reference scores against itself: about what a perfect model gets with so many samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mallow.estimate import Quantize, as_features, row_keys, split_size
from mallow.evidence import SUMMARIES, Measure, Units, find_units, generator_for
from mallow.samples import Samples

Rows = NDArray[np.int64]


def self_score(measure: Measure, reference: Samples, m: int, *, repeats: int, seed: int) -> dict[str, float]:
    """Each summary of the reference against itself, split in the ratio of its own size to m: the mean over `repeats`.

    The number depends on the measure, the reference, m and the seed: neither on the order of the rows nor on any model,
    since the reference is reduced and clustered alone. Samples with the same id or prompt stay on one side.

    Parameters
    ----------
    reference : Samples
        With features.
    m : int
        How many samples the model has.
    """
    x = as_features("reference", reference.require_features())
    units = find_units(reference)
    size = split_size(len(x), m)
    # Equal rows have equal keys: which of them comes first makes no difference.
    rows = np.lexsort([row_keys(x), units.keys[units.sets[0]]])
    children = generator_for(seed, "self-score").spawn(repeats)
    splits = [split_rows(units, rows, size, child) for child in children]
    estimator = measure.estimator
    if isinstance(estimator, Quantize):
        masses = estimator.against_itself(x, splits, m, children)
    else:
        pairs = zip(splits, children, strict=True)
        masses = [estimator.masses(estimator.prepare(x[one], x[other]), child) for (one, other), child in pairs]
    summaries = [measure.summarise(each) for each in masses]
    return {name: float(np.mean([one[name] for one in summaries])) for name in SUMMARIES}


def split_rows(units: Units, rows: Rows, size: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Both parts of a random split of rows, about `size` in the first; units stay whole if there are enough.

    `rows` lists all rows in an order that does not depend on the present one.
    """
    of_unit = units.sets[0][rows]
    ordered, first_seen = np.unique(of_unit, return_index=True)
    position = np.empty(units.count, np.int64)
    position[ordered[np.argsort(first_seen)]] = rng.permutation(len(ordered))
    shuffled = rows[np.argsort(position[of_unit], kind="stable")]
    ends = np.cumsum(np.bincount(position[of_unit]))[:-1]  # where a unit ends
    ends = ends[(ends >= 2) & (ends <= len(rows) - 2)]
    if not len(ends):
        shuffled, ends = rng.permutation(rows), np.array([size])
    cut = ends[np.argmin(np.abs(ends - size))]
    return shuffled[:cut], shuffled[cut:]
