"""The regions of a gap: the share of each bin in it, its significance, and samples that distinguish the two sides.

The mid-point summary is a sum of non-negative terms over the bins,

    ½ (r f(p/r) + r f(q/r))     with r = (p + q)/2,

so each bin has its share of the gap. The model *misses* a bin with p > q (type II error) and *invents* a bin with q > p
(type I error). The two totals add up to the mid-point. The costs D_f(P‖R) and D_f(Q‖R) are not split separately: for
every c, f(t) + c(t − 1) has the same divergence but other terms, and with the non-negative generator of KL these are
larger for invented bins than for missed ones. In the sum of both costs c cancels in every bin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln

from mallow.errors import Caveat, InputError
from mallow.estimate import Features
from mallow.evidence import LEVEL, Evidence, holm
from mallow.explain._region import Example, OffTopic, Region, Side, Telltale
from mallow.explain._unit_tests import UnitTests, two_sided
from mallow.explain._words import terms_of_groups
from mallow.samples import Samples
from mallow.theory import Array, Divergence, Masses, Partition

_MOST_SMALL_BINS = 0.5  # chosen: share of bins that cannot be significant above which fewer bins are recommended


def bin_costs(masses: Masses, divergence: Divergence) -> Array:
    """The part of each bin in the mid-point summary: ½ (r f(p/r) + r f(q/r)) with r = (p + q)/2; never negative.

    Examples
    --------
    >>> from mallow import KL, midpoint
    >>> masses = Masses.from_histograms([0.5, 0.5, 0.0], [0.5, 0.25, 0.25])
    >>> costs = bin_costs(masses, KL)
    >>> costs.round(3), float((costs.sum() - midpoint(masses)).round(12))
    (array([0.   , 0.021, 0.087]), 0.0)
    """
    mix, half = (masses.p + masses.q) / 2.0, (masses.p - masses.q) / 2.0
    costs: Array = (divergence.terms(masses.p, mix, half) + divergence.terms(masses.q, mix, -half)) / 2.0
    return costs


def unit_p_values(partition: Partition, evidence: Evidence) -> Array:
    """The two-sided probability of proportions at least as unequal if both sides had one distribution, (bins,).

    The bins are made from the pooled samples without regard to their sides. If all samples were drawn independently
    from one distribution, every way of dividing them into sides of n and m would be as likely as the observed one,
    with the same bins. The number of reference samples in a bin that holds c samples is then hypergeometric: n of
    n + m samples are marked, c are drawn. The smaller tail is doubled, since the same counts decide whether a bin
    counts as missed or invented. No correction is needed for the clustering or for the number of bins in it. If the
    sides do differ, the bins depend a little on that difference. For a bin in which they do not differ, the p-value for
    a fixed bin is then a good approximation.

    If samples belong together, units are exchanged instead of samples. A unit with equal numbers of samples of both
    sides may have its sides swapped. A sample that is the only one in its unit may be on either side. The number of
    reference samples in a bin is then a sum of independent numbers with known distributions, and the p-value is exact.
    If there are other units, such as several samples for a prompt on only one side, the difference of proportions is
    compared with its cluster-robust error.
    """
    units = evidence.units
    of_p, of_q = units.sizes(0), units.sizes(1)
    single = of_p + of_q == 1
    if not (single | (of_p == of_q)).all():
        labels = np.concatenate([partition.p_labels, partition.q_labels])
        shape, rows = (len(labels), partition.bins), np.arange(len(labels) + 1)
        _, z = UnitTests.of(evidence).difference(sparse.csr_array((np.ones(len(labels)), labels, rows), shape))
        return two_sided(z)
    sides = enumerate((partition.p_labels, partition.q_labels))
    in_p, in_q = (units.totals(side, np.eye(partition.bins)[labels]) for side, labels in sides)
    alone = int(np.count_nonzero(single & (of_p == 1))), int(np.count_nonzero(single & (of_q == 1)))
    p_values = [
        _exchange_p_value(p.astype(int), q.astype(int), single, alone) for p, q in zip(in_p.T, in_q.T, strict=True)
    ]
    return np.array(p_values)


def _exchange_p_value(
    p: NDArray[np.int64], q: NDArray[np.int64], single: NDArray[np.bool_], alone: tuple[int, int]
) -> float:
    """The p-value for one bin with `p` and `q` samples of each unit; `alone` counts the single samples of each side."""
    drawn = int((p + q)[single].sum())
    fewest, most = max(0, drawn - alone[1]), min(drawn, alone[0])
    places = np.arange(fewest, most + 1)
    # Hypergeometric probabilities of fewest, fewest + 1, … single samples of the reference.
    chances = np.exp(
        _log_choose(alone[0], places) + _log_choose(alone[1], drawn - places) - _log_choose(sum(alone), drawn)
    )
    observed = int(p[single].sum()) - fewest
    excess = (p - q)[~single]
    observed += int(np.maximum(excess, 0).sum())
    for size, times in zip(*np.unique(np.abs(excess[excess != 0]), return_counts=True), strict=True):
        swaps = np.zeros(int(size * times) + 1)
        swaps[::size] = np.exp(_log_choose(times, np.arange(times + 1)) - times * math.log(2.0))
        chances = np.convolve(chances, swaps)
    return min(1.0, 2.0 * min(float(chances[: observed + 1].sum()), float(chances[observed:].sum())))


def _log_choose(n: int, k: Any) -> Array:
    logarithm: Array = gammaln(n + 1.0) - gammaln(np.add(k, 1.0)) - gammaln(n - np.add(k, 0.0) + 1.0)
    return logarithm


@dataclass(frozen=True, eq=False)
class BinTable:
    """The costs and p-values of each bin; arrays (bins,)."""

    partition: Partition
    costs: Array
    excess: Array  # p − q: above 0 in bins that the model misses
    p_values: Array
    adjusted: Array

    @property
    def gap(self) -> dict[str, float]:
        """The sum of the costs on each side."""
        return {side: float(self.costs[self._on(side)].sum()) for side in ("missed", "invented")}

    def largest(self, regions: int) -> list[tuple[Side, int]]:
        """The sides and numbers of the bins to show: the largest costs first, the lower number first among equals."""
        order = np.argsort(-self.costs, kind="stable")
        missed, invented = (order[self._on(side)[order]][:regions] for side in ("missed", "invented"))
        return [("missed", int(i)) for i in missed] + [("invented", int(i)) for i in invented]

    def _on(self, side: str) -> NDArray[np.bool_]:
        return self.excess > 0 if side == "missed" else self.excess < 0


def tabulate_bins(masses: Masses, divergence: Divergence, evidence: Evidence) -> BinTable:
    """The costs and p-values of all bins; `evidence` has the units of the samples."""
    partition = masses.partition
    if partition is None:  # for the type checker: Quantize always returns one
        raise InputError("`measure` must keep the bin of every sample, but its masses have no partition.")
    costs = bin_costs(masses, divergence)
    if not np.isfinite(costs).all():
        raise InputError(
            f"The mid-point of {divergence} must be finite to be split into shares; empty bins make it infinite. "
            "Smooth the counts, as Quantize() does by default, or use another divergence."
        )
    p_values = unit_p_values(partition, evidence)
    return BinTable(partition, costs, masses.p - masses.q, p_values, np.array(holm(p_values.tolist())))


def small_bin_caveats(partition: Partition, evidence: Evidence) -> list[Caveat]:
    """A caveat if most bins could not be significant even with all their units on one side."""
    units, bins = evidence.units, partition.bins
    labels = (partition.p_labels, partition.q_labels)
    touched = [np.unique(unit * bins + label) for unit, label in zip(units.sets, labels, strict=True)]
    pooled = np.bincount(np.unique(np.concatenate(touched)) % bins, minlength=bins)  # the number of units in each bin
    n, m = (len(np.unique(unit)) for unit in units.sets)
    extremes = [np.minimum(pooled, n), np.maximum(pooled - m, 0)]  # all from the reference, then all from the model
    best = np.minimum(*(_hypergeometric(extreme, pooled, n, m) for extreme in extremes))
    share = float(np.mean(best * len(best) >= LEVEL))
    if share <= _MOST_SMALL_BINS:
        return []
    text = (
        f"{share:.0%} of the {len(best)} bins hold too few samples to be significant, even if all were of one side: "
        "pass fewer bins or more samples."
    )
    return [Caveat("small bins", text, values={"share": share, "bins": len(best)})]


def _hypergeometric(observed: NDArray[Any], pooled: NDArray[Any], n: int, m: int) -> Array:
    """Two-sided p-values of `observed` reference samples among the `pooled` samples of each bin."""
    from scipy.stats import hypergeom

    marked = hypergeom(n + m, n, pooled)
    p_values: Array = np.minimum(2.0 * np.minimum(marked.cdf(observed), marked.sf(observed - 1)), 1.0)
    return p_values


Sides = tuple[Samples, Samples]  # the reference and the model


def describe_regions(
    table: BinTable, count: int, sides: Sides, points: tuple[Features, Features], examples: int, evidence: Evidence
) -> list[Region]:
    """The regions of each side with the largest costs."""
    partition, gap, chosen = table.partition, table.gap, table.largest(count)
    n, m = len(partition.p_labels), len(partition.q_labels)
    labels = (partition.p_labels, partition.q_labels)
    members = [[np.flatnonzero(part == number) for part in labels] for _, number in chosen]
    contents = _describe_texts([0 if side == "missed" else 1 for side, _ in chosen], members, sides)
    regions = []
    for (side, number), places, (terms, lengths) in zip(chosen, members, contents, strict=True):
        shown = [
            _nearest_examples(samples, part[inside], inside, partition.centres[number], examples)
            for samples, part, inside in zip(sides, points, places, strict=True)
        ]
        in_reference, in_model = (len(inside) for inside in places)
        in_bin = in_reference + in_model
        scores = evidence.reference_scores[places[0]] if side == "missed" else evidence.model_scores[places[1]]
        regions.append(
            Region(
                side=side,
                bin=number,
                share=float(table.costs[number] / gap[side]),
                reference=in_reference,
                model=in_model,
                expected=(n * in_bin / (n + m), m * in_bin / (n + m)),
                p_value=float(table.p_values[number]),
                adjusted=float(table.adjusted[number]),
                reference_examples=shown[0],
                model_examples=shown[1],
                terms=terms,
                lengths=lengths,
                score=float(scores.mean()),
            )
        )
    return regions


def _nearest_examples(
    samples: Samples, rows: Features, places: NDArray[np.intp], centre: NDArray[Any], count: int
) -> tuple[Example, ...]:
    """The samples at `places`, with points `rows`, that are nearest to the centre; equal texts only once."""
    distance = ((rows.astype(np.float64) - centre) ** 2).sum(axis=1)
    nearest = places[np.argsort(distance, kind="stable")]
    return tuple(make_example(samples, row) for row in distinct_places(samples, nearest, count))


def _describe_texts(
    excess: list[int], members: list[list[NDArray[np.intp]]], sides: Sides
) -> list[tuple[tuple[str, ...], dict[str, float]]]:
    """For each region, typical terms and lengths of the texts of the side with more samples; empty without texts."""
    if sides[0].kind != "text":
        return [((), {}) for _ in excess]
    texts = [samples.require_texts() for samples in sides]
    lengths = [np.array([len(text.split()) for text in part]) for part in texts]
    groups, medians = [], []
    for side, places in zip(excess, members, strict=True):
        inside = places[side]
        groups.append([texts[side][row] for row in inside])
        elsewhere = np.concatenate([np.delete(lengths[side], inside), lengths[1 - side]])
        medians.append({"region": float(np.median(lengths[side][inside])), "elsewhere": float(np.median(elsewhere))})
    terms = terms_of_groups(groups, [*texts[0], *texts[1]])
    return list(zip(terms, medians, strict=True))


_KEPT = 10  # samples of each kind; chosen


def find_telltales(samples: Samples, scores: Array, sign: int, evidence: Evidence) -> tuple[Telltale, ...]:
    """The samples with the largest scores of a sign, the clearest first, equal texts only once; none without a gap."""
    if evidence.test.p_value >= LEVEL:
        return ()
    order = np.argsort(-sign * scores, kind="stable")
    clear = order[sign * scores[order] > 0]
    telltales = []
    for rank, row in enumerate(distinct_places(samples, clear, _KEPT), start=1):
        telltales.append(Telltale(**vars(make_example(samples, row)), score=float(scores[row]), rank=rank))
    return tuple(telltales)


def find_off_topic(reference: Samples, model: Samples, evidence: Evidence) -> tuple[OffTopic, ...]:
    """The model's texts farthest from their prompts; none without a gap, or if evidence does not use prompts."""
    if evidence.test.p_value >= LEVEL or "prompts" not in evidence.spaces or model.texts is None:
        return ()
    of_reference, of_model = ((side.spaces or {})["prompts"][:, 0].tolist() for side in (reference, model))
    answers: dict[str, list[float]] = {}
    for prompt, cosine in zip(reference.prompts or (), of_reference, strict=True):
        answers.setdefault(prompt, []).append(cosine)
    usual = {prompt: float(np.mean(cosines)) for prompt, cosines in answers.items()}
    prompts = model.prompts or ()
    farther = np.array([of_model[row] - usual.get(prompt, -np.inf) for row, prompt in enumerate(prompts)])
    order = np.argsort(farther, kind="stable")
    return tuple(
        OffTopic(
            **vars(make_example(model, row)), prompt=(own := prompts[row]), cosine=of_model[row], reference=usual[own]
        )
        for row in distinct_places(model, order[farther[order] < 0], _KEPT)
    )


def distinct_places(samples: Samples, rows: NDArray[np.intp], count: int) -> list[int]:
    """At most `count` of the rows, the first ones, without those whose text occurred before."""
    chosen: list[int] = []
    shown: set[str] = set()
    for row in rows.tolist():
        if len(chosen) == count:
            break
        text = None if samples.texts is None else samples.texts[row]
        if text is None or text not in shown:
            shown.add(text or "")
            chosen.append(row)
    return chosen


def make_example(samples: Samples, row: int) -> Example:
    """The sample in a row, in the form for results."""
    text = None if samples.texts is None else samples.texts[row]
    files = samples.images if samples.audio is None else samples.audio
    path = None if files is None else str(files[row])
    return Example(row, samples.ids[row] if samples.ids else None, text, path)
