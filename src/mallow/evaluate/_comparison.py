"""The result of comparing systems: their scores, the differences between them, and the order that these allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mallow.errors import Caveat
from mallow.evaluate._score import Score
from mallow.evaluate._signature import Signature
from mallow.results import Result, TableData, draw, join_names, merge_caveats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Comparison", "Difference", "rank_systems"]

_LEVEL = 0.05  # the usual level of significance


@dataclass(frozen=True)
class Difference:
    """How much one system's bias-corrected score differs from another's.

    Attributes
    ----------
    first, second : str
        The systems; differences are first minus second.
    difference : dict
        Of each summary.
    interval : dict
        A 95 % interval of each.
    p_value : dict
        Two-sided, for equal scores.
    adjusted : dict
        The p-values after Holm's correction over all pairs compared.
    """

    first: str
    second: str
    difference: dict[str, float]
    interval: dict[str, tuple[float, float]]
    p_value: dict[str, float]
    adjusted: dict[str, float]

    @property
    def significant(self) -> bool:
        """Whether the area differs at the 5 % level, after correction."""
        return self.adjusted["mauve"] < _LEVEL

    @property
    def systems(self) -> frozenset[str]:
        """Both names."""
        return frozenset((self.first, self.second))

    @property
    def better(self) -> str:
        """The system with the higher score."""
        return self.first if self.difference["mauve"] > 0 else self.second


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Scores of several systems and what can be said about their order.

    Attributes
    ----------
    scores : dict
        System → Score, best first. Each score has its own caveats.
    differences : tuple of Difference
        Between all pairs, or between each system and the baseline where there is one.
    ranks : dict
        System → (best, worst): the ranks that are compatible with the significant differences. Empty with a baseline.
    groups : tuple of tuples
        Systems that cannot be told apart, best first; a system may be in several groups. Empty with a baseline.
    variance : dict
        System → {"clustering", "sampling", "generation"}: the variance of its area. That of clustering is of a single
        repeat; "generation" is there where several generations per prompt were given.
    baseline : str or None
    signature : Signature
        Of the first score.
    caveats : tuple of Caveat
        Reasons for doubt about any of the scores.
    """

    KIND: ClassVar[str] = "comparison"

    scores: dict[str, Score]
    differences: tuple[Difference, ...]
    ranks: dict[str, tuple[int, int]]
    groups: tuple[tuple[str, ...], ...]
    variance: dict[str, dict[str, float]]
    baseline: str | None
    signature: Signature
    caveats: tuple[Caveat, ...]

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {score.mauve:.4f}" for name, score in self.scores.items())
        return f"Comparison({scores}; winner: {self.winner or 'none'})"

    def __str__(self) -> str:
        lines = [self.verdict, self.table()]
        return "\n".join([*lines, *(f"caveat: {line}" for line in self.caveat_lines())])

    @property
    def winner(self) -> str | None:
        """The system that beats all others significantly; None where there is no such system."""
        first = next(iter(self.scores))
        return first if len(self.scores) > 1 and self.ranks.get(first) == (1, 1) else None

    @property
    def best(self) -> tuple[str, ...]:
        """The system with the highest score, and those that do not differ from it significantly."""
        first, *others = self.scores
        apart = {one.systems for one in self.differences if one.significant}
        return (first, *(other for other in others if frozenset((first, other)) not in apart))

    @property
    def verdict(self) -> str:
        """One sentence: which system is closest to the reference, or that none can be named."""
        first, level = next(iter(self.scores)), "(5 % level, corrected for all pairs)"
        if len(self.scores) == 1:
            return f"{first} was compared with the reference only."
        if self.baseline is not None:
            return self._against(self.baseline)
        if self.winner is not None:
            return f"{self.winner} is closest to the reference: it beats every other system {level}."
        if not self.differences:
            return f"No winner can be named: the differences were not tested. {first} has the highest score."
        return f"No winner can be named: {join_names(self.best)} cannot be told apart {level}."

    def _against(self, baseline: str) -> str:
        sides: dict[str, list[str]] = {"closer to the reference": [], "farther from it": [], "not distinguishable": []}
        for one in self.differences:
            other = one.second if one.first == baseline else one.first
            if not one.significant:
                sides["not distinguishable"].append(other)
            else:
                sides["closer to the reference" if one.better == other else "farther from it"].append(other)
        parts = [
            f"{join_names(names)} {'is' if len(names) == 1 else 'are'} {key}" for key, names in sides.items() if names
        ]
        return f"Compared with {baseline}: {'; '.join(parts) or 'the differences were not tested'}."

    def caveat_lines(self) -> list[str]:
        """The caveats, equal ones of several systems merged into one line."""
        return merge_caveats(self.caveats, list(self.scores))

    def _rank_text(self, name: str) -> str:
        best, worst = self.ranks.get(name, (0, 0))
        return "" if not best else f"{best}" if best == worst else f"{best} to {worst}"

    def _table(self) -> TableData:
        rows = []
        for name, score in self.scores.items():
            corrected = f"{score.debiased['mauve']:.4f}" if score.debiased else "–"
            floor = f"{score.noise_floor['mauve']:.4f}"
            numbers = [
                f"{score.mauve:.4f}",
                f"{score.std['mauve']:.4f}",
                corrected,
                score.interval_text("mauve"),
                floor,
            ]
            rows.append([name, *numbers, self._rank_text(name)])
        return TableData(["", "MAUVE", "std", "bias-corrected", "95 % interval of it", "noise floor", "rank"], rows)

    def _records(self) -> list[dict[str, Any]]:
        records = []
        for name, score in self.scores.items():
            area = next(record for record in score._records() if record["summary"] == "mauve")
            best, worst = self.ranks.get(name, (None, None))
            others = {"frontier_integral": score.frontier_integral, "midpoint": score.midpoint}
            area = {("mauve" if key == "score" else key): value for key, value in area.items() if key != "summary"}
            records.append({"system": name, **area, **others, "best_rank": best, "worst_rank": worst})
        return records

    def _also(self) -> dict[str, Any]:
        return {"winner": self.winner, "verdict": self.verdict}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each system's score with its spread, its interval and the noise floor; returns the axes."""
        ax = draw.axes(ax)
        draw.scores(ax, self.scores)
        return ax


def rank_systems(
    order: Sequence[str], differences: Sequence[Difference]
) -> tuple[dict[str, tuple[int, int]], tuple[tuple[str, ...], ...]]:
    """Rank ranges, and the largest sets of neighbours of which no two differ significantly; empty without differences."""
    if not differences and len(order) > 1:
        return {}, ()
    significant = [one for one in differences if one.significant]
    apart = {one.systems for one in significant}
    ranks = {}
    for name in order:
        mine = [one for one in significant if name in one.systems]
        beaten_by = sum(one.better != name for one in mine)
        ranks[name] = (1 + beaten_by, len(order) - (len(mine) - beaten_by))
    groups: list[tuple[str, ...]] = []
    for i in range(len(order)):
        group = [order[i]]
        for other in order[i + 1 :]:
            if all(frozenset((name, other)) not in apart for name in group):
                group.append(other)
        if not any(set(group) <= set(earlier) for earlier in groups):
            groups.append(tuple(group))
    return ranks, tuple(groups)
