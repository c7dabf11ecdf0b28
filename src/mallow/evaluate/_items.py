"""Systems compared by their scores on the same items, such as the questions of a benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from mallow._checks import positive
from mallow.errors import Caveat, InputError, warn_about
from mallow.evaluate._order import SystemPair, rank_systems
from mallow.evaluate._systems import OrderedScores, shown_pairs
from mallow.evidence import LEVEL, holm
from mallow.results import Axes, Estimate, TableData, draw, group_letters, p_number, render
from mallow.samples import read_item_scores
from mallow.theory import Array

Labels = NDArray[np.int64]

_POWER = 0.8
_FEW = 20  # chosen, as for votes: with fewer clusters intervals are long
_EXACT = 12  # chosen: up to this many clusters that differ, all 2^k exchanges of two systems are counted


@dataclass(frozen=True)
class ItemDifference(SystemPair):
    """The difference between the mean scores of two systems on the same items.

    Attributes
    ----------
    first : str
        The first system. The difference is first minus second.
    second : str
        The second system.
    difference : float
    interval : tuple
        A 95% interval of this difference, not corrected for other pairs, for other items (clusters) of the same kind.
    error : float
        The cluster-robust standard error of the difference.
    p_value : float
        Two-sided, for equal systems.
    adjusted : float
        The p-value after Holm's correction over all pairs.
    detectable : float
        The smallest true difference that this many items show with 80% probability, after correction for the number of
        pairs. NaN if the scores of both systems differ by the same amount on all items.
    """

    first: str
    second: str
    difference: float
    interval: tuple[float, float]
    error: float
    p_value: float
    adjusted: float
    detectable: float

    @property
    def significant(self) -> bool:
        """Whether the mean scores differ at the 5% level, after correction."""
        return self.adjusted < LEVEL

    @property
    def better(self) -> str:
        """The system with the higher mean score."""
        return self.first if self.difference > 0 else self.second


@dataclass(frozen=True, eq=False, repr=False)
class ItemComparison(OrderedScores):
    """Mean scores of several systems on the same items, and conclusions about their order.

    Attributes
    ----------
    scores : dict
        System → mean score with a 95% interval, highest first. To compare two systems, use `differences`, which are
        more precise than two intervals suggest.
    differences : tuple of ItemDifference
        Between all pairs, the system with the higher mean first.
    ranks : dict
        System → (best, worst): the ranks that are compatible with the significant differences.
    groups : tuple of tuples
        Systems that do not differ significantly, best first. A system may be in several groups.
    items : int
        The number of items that all systems have.
    clusters : int
        The number of independent groups of items; equal to `items` without clusters.
    detect : float or None
        The difference for which the table of differences lists how many items are needed.
    caveats : tuple of Caveat
    """

    KIND: ClassVar[str] = "item comparison"

    scores: dict[str, Estimate]
    differences: tuple[ItemDifference, ...]
    ranks: dict[str, tuple[int, int]]
    groups: tuple[tuple[str, ...], ...]
    items: int
    clusters: int
    detect: float | None = None
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        means = (f"{name} {score.value:.4f}" for name, score in self.scores.items())
        return f"ItemComparison({', '.join(means)}; winner: {self.winner or 'none'})"

    @property
    def verdict(self) -> str:
        """The system with the highest mean score, if there is a clear winner, and the system with the lowest."""
        text = self._order_sentences("Highest mean score", "a lower one", "Lowest mean score")
        grouped = "" if self.clusters == self.items else f" in {self.clusters:,} clusters"
        return f"{text} {self.items:,} items{grouped}."

    def items_needed(self, difference: float) -> dict[tuple[str, str], int]:
        """For each pair, the number of items that shows a difference of this size with 80% power, after correction.

        This assumes items of the same kind, in clusters of the same size. Pairs whose scores never differ are left out.
        """
        target = positive("difference", difference)
        return {
            (pair.first, pair.second): math.ceil(self.items * (pair.detectable / target) ** 2)
            for pair in self.differences
            if pair.detectable > 0
        }

    def _table(self) -> TableData:
        rows = []
        for name, score in self.scores.items():
            cells = [f"{score.value:.4f}", f"{score.low:.4f} to {score.high:.4f}", self._rank_text(name)]
            rows.append([name, *cells, group_letters(self.groups, name)])
        return TableData(["", "mean score", "95% interval", "rank", "tie group"], rows, left=(0, 4))

    def difference_table(self, form: str = "text", *, width: int | None = None) -> str:
        """The differences as a table; with more than 10 pairs, only between neighbours."""
        title, shown = shown_pairs(self.differences, self.scores)
        head = [title, "mean score", "95% interval\nof the difference", "p, corrected\nfor all pairs"]
        head += ["detectable\nwith 80% power", *([] if self.detect is None else [f"items to\ndetect {self.detect:g}"])]
        needed = {} if self.detect is None else self.items_needed(self.detect)
        rows = []
        for pair in shown:
            low, high = pair.interval
            row = [f"{pair.first} − {pair.second}", f"{pair.difference:+.4f}", f"{low:+.4f} to {high:+.4f}"]
            row += [p_number(pair.adjusted), f"{pair.detectable:.4f}" if pair.detectable > 0 else "–"]
            count = needed.get((pair.first, pair.second))
            rows.append(row + ([] if self.detect is None else ["–" if count is None else f"{count:,}"]))
        return render(form, TableData(head, rows), width=width)

    def _records(self) -> list[dict[str, Any]]:
        return [
            {
                "system": name,
                "score": score.value,
                "low": score.low,
                "high": score.high,
                "best_rank": self.ranks[name][0],
                "worst_rank": self.ranks[name][1],
                "tie_group": group_letters(self.groups, name),
            }
            for name, score in self.scores.items()
        ]

    def brief(self) -> dict[str, Any]:
        """The main numbers as a small dict: what ``--summary`` prints."""
        systems = {
            name: {"score": score.value, "low": score.low, "high": score.high, "ranks": list(self.ranks[name])}
            for name, score in self.scores.items()
        }
        return {**super().brief(), "systems": systems}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the possible ranks of each system, one line per system; returns the axes.

        The letters beside a name are its tie groups: no two systems with the same letter differ significantly.
        """
        ax = draw.axes(ax)
        names = {f"{name} ({group_letters(self.groups, name)})": ranks for name, ranks in self.ranks.items()}
        draw.ranks(ax, names, "ranks that the significant differences allow (1 = highest score)")
        return ax


def compare_items(
    systems: Mapping[str, Any],
    *,
    metric: str | None = None,
    clusters: str | Mapping[Any, Any] | None = None,
    detect: float | None = None,
) -> ItemComparison:
    """Which systems have a higher mean score than others on the same items, such as the questions of a benchmark.

    Scores are subtracted item by item, so easy and hard items cancel. Repeated samples of an item are averaged first.
    Items of one cluster, such as questions about one passage, depend on each other, so standard errors come from a
    jackknife over clusters. For independent items they are equation 1 of Miller (2024, "Adding Error Bars to Evals").
    For G clusters of equal size they are his clustered errors times √(G / (G − 1)), up to terms of order 1/n. Student's
    quantiles have G − 1 degrees of freedom, and fewer if the sizes differ. If at most 12 clusters differ between two
    systems, p is at least the p-value from exchanging the two systems within clusters. Holm's correction covers all
    pairs.

    Parameters
    ----------
    systems : mapping name → scores
        Two or more. Scores are a mapping item → score (or list of scores, for repeated samples), a list of numbers with
        one per item, a table, or the path of a file: samples_*.jsonl of lm-evaluation-harness, .eval or .json of
        Inspect, per_instance_stats.json of HELM; or .jsonl, .json or .csv with the columns ``item`` (or ``id``),
        ``score`` and, if wanted, ``cluster``. True and false count as 1 and 0. Only items that all systems have are
        used.
    metric : str or None
        The name of the score if a file has several, such as ``acc_norm`` or ``exact_match,flexible-extract``. It does
        not apply to scores without names.
    clusters : str, mapping or None
        Item → its cluster; or the field that holds it, such as ``doc.passage``. None: the column ``cluster``, if there
        is one; otherwise each item is independent.
    detect : float or None
        A difference to plan for. The table of differences then lists how many items are needed to detect it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> easy = rng.random(400)
    >>> right = {name: rng.random(400) < easy + gain for name, gain in [("small", 0.0), ("large", 0.2)]}
    >>> compare_items(right).winner
    'large'
    """
    if not isinstance(systems, Mapping) or len(systems) < 2:
        got = f"{len(systems)}" if isinstance(systems, Mapping) else type(systems).__name__
        raise InputError(f"`systems` must map two names or more to scores; got {got}.")
    if detect is not None:
        positive("detect", detect)
    column = clusters if isinstance(clusters, str) else None
    read = {str(name): read_item_scores(source, str(name), metric, column) for name, source in systems.items()}
    every = dict.fromkeys(item for system in read.values() for item in system.scores)
    items = [item for item in every if all(item in system.scores for system in read.values())]
    if len(items) < 2:
        raise InputError(
            f"`systems` must have at least two items in common, but they share {len(items)} of {len(every)}. Items are "
            f"the same if their ids are, such as '{next(iter(every))}'."
        )
    labels = _cluster_labels(read, items, clusters)
    means = np.array([[_mean(system.scores[item]) for system in read.values()] for item in items])
    order = np.argsort(-means.mean(axis=0), kind="stable")
    names = [list(read)[place] for place in order]
    caveats = _find_caveats(dict(zip(names, means.T[order], strict=True)), len(every), labels)
    result = _compare(names, means[:, order], labels, detect, caveats)
    warn_about(result.caveats)
    return result


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _cluster_labels(read: Mapping[str, Any], items: list[str], clusters: Any) -> Labels:
    """The cluster number of each item."""
    known: dict[str, str] = {}
    if isinstance(clusters, Mapping):
        known = {str(item): str(cluster) for item, cluster in clusters.items()}
    else:
        for system in read.values():
            for item, cluster in system.clusters.items():
                if known.setdefault(item, cluster) != cluster:
                    both = f"'{known[item]}' and '{cluster}'"
                    raise InputError(f"item '{item}' must be in the same cluster for all systems; got {both}.")
    if not known and clusters is None:
        return np.arange(len(items))
    missing = [item for item in items if item not in known]
    if missing:
        raise InputError(
            f"`clusters` must name the cluster of every item; {len(missing)} have none, such as '{missing[0]}'."
        )
    labels: Labels = np.unique([known[item] for item in items], return_inverse=True)[1]
    if labels.max() == 0:
        raise InputError(f"`clusters` must have at least two; all items are in '{known[items[0]]}'.")
    return labels


def _find_caveats(means: Mapping[str, Array], every: int, labels: Labels) -> list[Caveat]:
    count, groups, caveats = len(labels), int(labels.max()) + 1, []
    if every > count:
        text = f"{every - count} of {every} items have no score of some system and were left out."
        caveats.append(Caveat("unmatched items", text, values={"items": every - count}))
    if groups < _FEW:
        noun = "items" if groups == count else "clusters"
        text = f"only {groups} {noun}: with fewer than {_FEW}, intervals are long. Use more {noun}."
        caveats.append(Caveat(f"few {noun}", text, values={noun: groups}))
    for name, values in means.items():
        if (values == values[0]).all():
            text = f"the score of every item is {values[0]:g}: its mean has no interval, which is not certainty."
            caveats.append(Caveat("constant scores", text, system=name))
    return caveats


def _compare(
    names: list[str], means: Array, labels: Labels, detect: float | None, caveats: list[Caveat]
) -> ItemComparison:
    """The result for mean scores, one row per item, the columns in the order of the systems."""
    sizes = np.bincount(labels).astype(float)
    freedom = max(sizes.sum() ** 2 / (sizes**2).sum() - 1.0, 1.0)  # the effective number of clusters, minus one
    half = float(stdtrit(freedom, 1.0 - LEVEL / 2))
    scores = {}
    for name, column in zip(names, means.T, strict=True):
        value, reach = float(column.mean()), half * _error(column, labels, sizes)
        scores[name] = Estimate(value, value - reach, value + reach)
    pairs = list(combinations(range(len(names)), 2))
    power = float(stdtrit(freedom, 1.0 - LEVEL / 2 / len(pairs)) + stdtrit(freedom, _POWER))
    found = []
    for i, j in pairs:
        rows = means[:, i] - means[:, j]
        value, error = float(rows.mean()), _error(rows, labels, sizes)
        exact = _exchange(np.bincount(labels, rows).astype(float))
        p_value = max(2.0 * float(stdtr(freedom, -abs(value) / error)) if error > 0 else 0.0, exact)
        low, high = value - half * error, value + half * error
        if p_value >= LEVEL:  # the interval agrees with the test
            low, high = min(low, 0.0), max(high, 0.0)
        found.append((names[i], names[j], value, (low, high), error, p_value, power * error or math.nan))
    adjusted = holm([row[5] for row in found])
    differences = tuple(
        ItemDifference(*row[:6], corrected, row[6]) for row, corrected in zip(found, adjusted, strict=True)
    )
    ranks, groups = rank_systems(names, differences)
    return ItemComparison(scores, differences, ranks, groups, len(means), len(sizes), detect, tuple(caveats))


def _error(values: Array, labels: Labels, sizes: Array) -> float:
    """The standard error of a mean, by leaving out one cluster at a time."""
    sums = np.bincount(labels, values - values.mean())
    count = len(sizes)
    error = math.sqrt((count - 1) / count * float(((sums / (sizes.sum() - sizes)) ** 2).sum()))
    return error if error > 1e-12 * float(np.abs(values).max(initial=0.0)) else 0.0  # rounding


def _exchange(sums: Array) -> float:
    """The p-value from exchanging two systems within clusters if few clusters differ; 0 if many do."""
    sums = sums[sums != 0]
    if len(sums) > _EXACT:
        return 0.0
    reached = np.abs(_signs(len(sums)) @ sums) >= abs(sums.sum()) - 1e-9 * np.abs(sums).sum()
    return float(reached.mean())


@cache
def _signs(count: int) -> Array:
    """All 2^count choices of signs, one per row."""
    bits = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    return np.asarray(1.0 - 2.0 * bits, dtype=np.float64)
