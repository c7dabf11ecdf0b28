"""What makes a score doubtful, besides confounds and what the estimator says: few samples, unequal sizes, poor bins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mallow.errors import Caveat
from mallow.theory import Partition

_FEW_SAMPLES = 1000  # paper: sec:best-practices
_SIZE_RATIO = 0.95  # of the smaller to the larger; chosen: bias falls like 1/n, so that a few samples do not matter
_EMPTY_BINS = 0.2  # share of bins with samples of one side only; chosen: random halves of real text stay well below
_BINS_PER_SAMPLE = 0.2  # chosen: twice the published n/10
# A bin that holds more than both of these is not a matter of chance. Measured, 10 to 100 bins: at most 3.6/bins in real text
# (MiniLM, GloVe) and digits, 0.15 in Gaussian noise of width 1,000; 0.5 to 1 where an embedder collapses.
_LARGEST_BIN = 0.3  # share of each side
_LARGEST_BIN_RATIO = 5.0  # times 1/bins
# Where the measure ignores the lengths of rows and that hides a gap, this is why lengths differ, bins are crowded, or the
# score misses what the evidence shows. That systems have different sizes says more than that each differs from the reference.
_EXPLAINED_BY = dict.fromkeys(("norm", "one bin", "blind score"), "length normalisation") | {
    "unequal sizes": "system sizes"
}


def size_caveats(n: int, m: int) -> list[Caveat]:
    """Caveats about samples that are few or of different sizes."""
    caveats = []
    if min(n, m) < _FEW_SAMPLES:
        text = f"only {min(n, m)} samples: with fewer than {_FEW_SAMPLES} per side, scores are biased and noisy."
        caveats.append(Caveat("few samples", text, values={"n": n, "m": m}))
    if min(n, m) < _SIZE_RATIO * max(n, m):
        text = f"the sample sizes differ ({n} and {m}): compare scores only between samples of the same sizes."
        caveats.append(Caveat("unequal sizes", text, values={"n": n, "m": m}))
    return caveats


def system_size_caveats(sizes: Mapping[str, int]) -> list[Caveat]:
    """A caveat about systems of different sizes in one comparison; `sizes` has the number of samples of each."""
    least, most = min(sizes.values()), max(sizes.values())
    if least >= _SIZE_RATIO * most:
        return []
    smallest, largest = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    text = (
        f"the systems have different numbers of samples, from {least} ({smallest}) to {most} ({largest}): published scores "
        f"depend on the number, so that the columns of the table cannot be compared. Use {least} samples of each (limit, "
        "--limit), or judge by the differences."
    )
    return [Caveat("system sizes", text, values={"least": least, "most": most})]


def bin_caveats(partition: Partition | None) -> list[Caveat]:
    """Caveats about bins that hold samples of one side only, are too many, or of which one holds most samples."""
    if partition is None:
        return []
    p, q = partition.p_counts, partition.q_counts
    empty, smaller = float(np.mean((p == 0) != (q == 0))), int(min(p.sum(), q.sum()))
    caveats = []
    if empty > _EMPTY_BINS:
        text = (
            f"{empty:.0%} of the bins hold samples of one side only: the two are far apart, or there are too many bins."
        )
        caveats.append(Caveat("empty bins", text, values={"share": empty}))
    if partition.bins > _BINS_PER_SAMPLE * smaller:
        text = f"{partition.bins} bins are many for {smaller} samples: pass bins='auto' or fewer."
        caveats.append(Caveat("many bins", text, values={"bins": partition.bins, "samples": smaller}))
    return [*caveats, *_largest_bin_caveats(partition)]


def _largest_bin_caveats(partition: Partition) -> list[Caveat]:
    """A caveat if one bin holds most samples of both sides: a gap between the samples in it goes unnoticed."""
    p, q = partition.p_counts / len(partition.p_labels), partition.q_counts / len(partition.q_labels)
    largest = int(np.argmax(np.minimum(p, q)))
    share_p, share_q = float(p[largest]), float(q[largest])
    alone = partition.bins == 1
    if not alone and min(share_p, share_q) <= max(_LARGEST_BIN, _LARGEST_BIN_RATIO / partition.bins):
        return []
    text = (
        f"one of the {partition.bins} bins holds {share_p:.0%} of the reference samples and {share_q:.0%} of the model's, and "
        "differences within a bin do not count. Either most samples have nearly the same features, or outliers take up the "
        "other bins. Use another embedder, or remove the outliers on both sides."
    )
    if alone:
        text = (
            "all samples fall into one bin, because all have the same features: the score is 1 whatever they contain. Use "
            "another embedder."
        )
    return [Caveat("one bin", text, values={"share": share_q, "share_reference": share_p, "bins": partition.bins})]


def rename_system(caveats: Iterable[Caveat], name: str) -> list[Caveat]:
    """The caveats as those of a system; what concerns the reference stays so."""
    return [
        caveat if caveat.system is not None else Caveat(caveat.kind, caveat.message, name, caveat.values)
        for caveat in caveats
    ]


def unique_caveats(caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
    """The caveats without those that say the same again, or that another caveat of the same system explains."""
    present = {(caveat.system, caveat.kind) for caveat in caveats}
    kept = [
        one
        for one in caveats
        if present.isdisjoint((system, _EXPLAINED_BY.get(one.kind)) for system in (None, one.system))
    ]
    return tuple({(caveat.system, caveat.message): caveat for caveat in kept}.values())
