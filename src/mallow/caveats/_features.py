"""Checks of features: duplicates, copies, norms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.caveats._copies import SampleKeys, copy_caveats, skipped_caveats
from mallow.caveats._statistics import Numbers, count_independent, quantiles_differ
from mallow.errors import Caveat
from mallow.estimate import row_keys
from mallow.samples import Samples

_MIN_NORM_RATIO = 1.5  # chosen: norms differ somewhat between samples of any two distributions
_BLOCK = 1024  # rows that are converted to double precision together


def feature_caveats(sets: Sequence[tuple[str, Samples]]) -> Iterator[Caveat]:
    """Caveats about sets of features, the first of which is the reference."""
    rows = [samples.require_features() for _, samples in sets]
    same_width = len({part.shape[1] for part in rows}) == 1
    # Features of different widths cannot be compared; scoring them is an error that names the embedder of each.
    keys = _row_keys([name for name, _ in sets], rows) if same_width else []
    norms = [np.sort(_norms(part)) for part in rows] if same_width else []
    for place, (name, samples) in enumerate(sets):
        yield from skipped_caveats(name, samples)
        if not same_width:
            continue
        yield from copy_caveats(keys[: place + 1], "rows")
        sizes = count_independent(samples), count_independent(sets[0][1])
        if place and quantiles_differ(norms[place], norms[0], *sizes, ratio=_MIN_NORM_RATIO):
            own, reference = float(np.median(norms[place])), float(np.median(norms[0]))
            yield Caveat(
                "norm",
                f"the median norm of the rows is {own:.4g} (reference: {reference:.4g}). Embed both sides in the same way, "
                "with the same scaling.",
                name,
                {"norm": own, "norm_reference": reference},
            )


def _row_keys(names: Sequence[str], rows: Sequence[NDArray[Any]]) -> list[tuple[str, SampleKeys]]:
    """Equal numbers for equal rows, in whichever set they are; every row is hashed once."""
    _, group = np.unique(np.concatenate([row_keys(part) for part in rows]), return_inverse=True)
    groups = np.split(group, np.cumsum([len(part) for part in rows])[:-1])
    return [
        (name, SampleKeys.count(group.tolist(), "row {}".format)) for name, group in zip(names, groups, strict=True)
    ]


def _norms(features: NDArray[Any]) -> Numbers:
    """The Euclidean norm of every row."""
    blocks = (features[low : low + _BLOCK].astype(np.float64) for low in range(0, len(features), _BLOCK))
    return np.concatenate([np.linalg.norm(block, axis=1) for block in blocks])
