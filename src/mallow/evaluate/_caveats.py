"""What makes a score doubtful, besides confounds and what the estimator says: few samples, unequal sizes, sparse bins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mallow.errors import Caveat
from mallow.theory import Partition

__all__ = ["bin_caveats", "rename_system", "size_caveats", "unique_caveats"]

_FEW_SAMPLES = 1000  # paper: sec:best-practices
_EMPTY_BINS = 0.2  # share of bins with samples of one side only; chosen: random halves of real text stay well below
_BINS_PER_SAMPLE = 0.2  # chosen: twice the published n/10


def size_caveats(n: int, m: int) -> list[Caveat]:
    """Caveats about samples that are few or of different sizes."""
    caveats = []
    if min(n, m) < _FEW_SAMPLES:
        text = f"only {min(n, m)} samples: with fewer than {_FEW_SAMPLES} per side, scores are biased and noisy."
        caveats.append(Caveat("few samples", text, values={"n": n, "m": m}))
    if n != m:
        text = f"the sample sizes differ ({n} and {m}): compare scores only between samples of the same sizes."
        caveats.append(Caveat("unequal sizes", text, values={"n": n, "m": m}))
    return caveats


def bin_caveats(partition: Partition | None) -> list[Caveat]:
    """Caveats about bins that hold samples of one side only, or are too many for so few samples."""
    if partition is None:
        return []
    p, q = partition.p_counts, partition.q_counts
    empty, smaller = float(np.mean((p == 0) | (q == 0))), int(min(p.sum(), q.sum()))
    caveats = []
    if empty > _EMPTY_BINS:
        text = (
            f"{empty:.0%} of the bins hold samples of one side only: the two are far apart, or there are too many bins."
        )
        caveats.append(Caveat("empty bins", text, values={"share": empty}))
    if partition.bins > _BINS_PER_SAMPLE * smaller:
        text = f"{partition.bins} bins are many for {smaller} samples: pass bins='auto' or fewer."
        caveats.append(Caveat("many bins", text, values={"bins": partition.bins, "samples": smaller}))
    return caveats


def rename_system(caveats: Iterable[Caveat], name: str) -> list[Caveat]:
    """The caveats as those of a system; what concerns the reference stays so."""
    return [
        caveat if caveat.system is not None else Caveat(caveat.kind, caveat.message, name, caveat.values)
        for caveat in caveats
    ]


def unique_caveats(caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
    """The caveats without those that say the same again."""
    return tuple({(caveat.system, caveat.message): caveat for caveat in caveats}.values())
