"""The result of comparing systems: their scores, the differences between them, and the order that follows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from mallow._optional import did_you_mean
from mallow.errors import Caveat, InputError
from mallow.evaluate._order import SystemPair
from mallow.evaluate._score import Score, brief_values
from mallow.evaluate._systems import (
    CERTIFIED,
    OrderedScores,
    ScoredSystems,
    render_differences,
    score_cells,
    shown_pairs,
)
from mallow.evidence import LEVEL, Signature
from mallow.results import Axes, TableData, draw, join_names, number_cell

_SHOWN = 0.001  # published scores are printed with three digits


@dataclass(frozen=True)
class Difference(SystemPair):
    """The difference between the proven gaps of two systems, by held-out evidence.

    A proven gap is the gap that the samples certify. The true gap is at least as large, so a system with a larger
    proven gap need not be farther away. Therefore `significant` also requires that richer views do not reverse the
    order.

    Attributes
    ----------
    first : str
        The first system. Differences are first minus second.
    second : str
        The second system.
    difference : dict
        The difference of the certified value of each summary.
    interval : dict
        A 95% interval of each difference.
    p_value : dict
        Two-sided, for systems that are equally far from the reference.
    adjusted : dict
        The p-values after Holm's correction over all pairs compared.
    """

    first: str
    second: str
    difference: dict[str, float]
    interval: dict[str, tuple[float, float]]
    p_value: dict[str, float]
    adjusted: dict[str, float]

    def __post_init__(self) -> None:
        for name in ("difference", "interval", "p_value", "adjusted"):
            estimates = getattr(self, name)
            if "mauve" not in estimates:
                raise InputError(f"`{name}` must have an entry mauve; got {', '.join(estimates) or 'none'}.")

    @property
    def significant(self) -> bool:
        """Whether the area differs at the 5% level, after correction."""
        return self.adjusted["mauve"] < LEVEL

    @property
    def better(self) -> str:
        """The system with the higher certified area."""
        return self.first if self.difference["mauve"] > 0 else self.second

    def reverse(self) -> Difference:
        """The same difference, second minus first."""
        return Difference(
            self.second,
            self.first,
            difference={name: 0.0 - value for name, value in self.difference.items()},  # no −0
            interval={name: (0.0 - high, 0.0 - low) for name, (low, high) in self.interval.items()},
            p_value=self.p_value,
            adjusted=self.adjusted,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(OrderedScores):
    """Scores of several systems and conclusions about their order.

    Attributes
    ----------
    scores : dict
        System → Score, in the order of the certified area, best first. Each score has its own caveats.
    differences : tuple of Difference
        Between all pairs, or between each system and the baseline if there is one.
    ranks : dict
        System → (best, worst): the ranks that are compatible with the significant differences. Empty with a baseline.
    groups : tuple of tuples
        Systems that do not differ significantly, best first. A system may be in several groups. Empty with a baseline.
    variance : dict
        System → {"clustering", "sampling", "generation"}: the variance of its area. The variance of clustering is for a
        single repeat. "generation" is present if several generations per prompt were given.
    baseline : str or None
    signature : Signature
        The signature of the first score.
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
        certified = (f"{name} {_certified_cells(score)[0]}" for name, score in self.scores.items())
        return f"Comparison({', '.join(certified)}; winner: {self.winner or 'none'})"

    def __getitem__(self, name: str) -> Score:
        """The score of a system."""
        if name not in self.scores:
            hint = did_you_mean(name, self.scores) if isinstance(name, str) else ""
            raise InputError(f"the systems are {join_names(list(self.scores))}; got {name!r}.{hint}")
        return self.scores[name]

    def plot_frontiers(self, ax: Axes | None = None, *, certified: bool | None = None) -> Axes:
        """Draw the exponentiated frontiers of all systems in one picture, each with its name beside the line.

        Parameters
        ----------
        ax : matplotlib axes or None
            None: new ones.
        certified : bool or None
            True: the certified frontiers. None: the published frontiers, or the certified ones if no published ones
            exist.

        Returns
        -------
        matplotlib.axes.Axes
        """
        ax = draw.axes(ax)
        published = all(score.is_published for score in self.scores.values())
        draw.frontiers(ax, self.scores, certified=not published if certified is None else certified)
        return ax

    def plot_ranks(self, ax: Axes | None = None) -> Axes:
        """Draw the ranks that the significant differences allow each system; returns the axes."""
        if not self.ranks:
            raise InputError("a comparison with a baseline has no ranks. Compare all pairs: leave out `baseline`.")
        ax = draw.axes(ax)
        draw.ranks(ax, self.ranks)
        return ax

    @property
    def verdict(self) -> str:
        """The system with the smallest proven gap, if there is a clear winner, and the system with the largest.

        If published scores have a different order, one more sentence explains why.
        """
        return " ".join(filter(None, [self._order_text(), self._reversed_text()]))

    def _order_text(self) -> str:
        first = next(iter(self.scores))
        if len(self.scores) == 1:
            return f"{first} was compared with the reference only. {self.scores[first].verdict}"
        if self.baseline is not None:
            return self._against(self.baseline)
        if not self.differences:
            kind = "certified" if self.scores[first].certified else "published"
            return f"There is no clear winner: the differences were not tested. {first} has the highest {kind} MAUVE."
        return self._order_sentences("Smallest proven gap", "a larger one", "Largest proven gap")

    def _reversed_text(self) -> str:
        """The reason why bins and proven gaps order systems differently; "" if both orders agree up to noise."""
        shown = {pair.systems: pair.better for pair in self.differences if pair.significant}
        turned = []
        for first, second in combinations(self.scores, 2):  # the first has the smaller proven gap
            here, there = self.scores[first], self.scores[second]
            if not (here.certified and here.interval and there.interval) or there.mauve - here.mauve < _SHOWN:
                continue
            apart = here.interval["mauve"][1] < there.interval["mauve"][0]
            if shown.get(frozenset((first, second)), first if apart else None) == first:
                turned.append((there.mauve - here.mauve, first, second))
        if not turned:
            return ""
        _, first, second = max(turned)
        above, below = (f"{name} ({self.scores[name].mauve:.3f})" for name in (second, first))
        such = "" if len(turned) == 1 else f" ({len(turned)} pairs of systems are in the opposite order)"
        return (
            f"Published MAUVE puts {above} above {below}{such}. It counts samples in bins of a few directions, whereas "
            "the proven gap uses all directions."
        )

    def _against(self, baseline: str) -> str:
        sides: dict[str, list[str]] = {"smaller": [], "larger": [], "not shown to differ": []}
        for pair in self.differences:
            other = pair.second if pair.first == baseline else pair.first
            if not pair.significant:
                sides["not shown to differ"].append(other)
            else:
                sides["smaller" if pair.better == other else "larger"].append(other)
        parts = [f"the gap of {join_names(names)} is {key}" for key, names in sides.items() if names]
        return f"Compared with the proven gap of {baseline}: {'; '.join(parts) or 'the differences were not tested'}."

    def _table(self) -> TableData:
        titles = ["p-value\n(no gap)", "published\nMAUVE", "95% of\nrepeat samples"]
        rows = [
            [name, *_certified_cells(score), *score_cells(score, titles), self._rank_text(name)]
            for name, score in self.scores.items()
        ]
        itself = [[name, "", "", "", number_cell(value, 3), "", ""] for name, value in self._self_scores().items()]
        best = [(list(self.scores).index(self.winner), column) for column in (0, 1)] if self.winner else []
        return TableData(["", *CERTIFIED, *titles, "rank"], [*rows, *itself], breaks=[len(rows)], bold=best)

    def _self_scores(self) -> dict[str, float]:
        """The score of the reference against itself, by size if the systems have different sizes."""
        by_size = {score.n[1]: score.self_score["mauve"] for score in self.scores.values() if score.is_published}
        if not by_size:
            return {}
        if len(set(by_size.values())) == 1:
            return {"self-score": next(iter(by_size.values()))}
        return {f"self-score, m = {size:,}": value for size, value in sorted(by_size.items(), reverse=True)}

    def ordered_differences(self) -> tuple[Difference, ...]:
        """The differences in the order of the scores, the system with the higher certified area first.

        With a baseline, each other system minus the baseline.
        """
        if self.baseline is not None:
            oriented = [pair if pair.second == self.baseline else pair.reverse() for pair in self.differences]
        else:
            order = {name: i for i, name in enumerate(self.scores)}
            oriented = [pair if order[pair.first] < order[pair.second] else pair.reverse() for pair in self.differences]
        names = list(self.scores)
        return tuple(sorted(oriented, key=lambda pair: (names.index(pair.first), names.index(pair.second))))

    def difference_table(self, form: str = "text", *, width: int | None = None, digits: int | None = None) -> str:
        """The differences of the certified area as a table; with more than 10 pairs, only between neighbours.

        "" for none.
        """
        every = self.ordered_differences()
        if not every:
            return ""
        title, shown = shown_pairs(every, self.scores)
        rows = [
            (pair.first, pair.second, pair.difference["mauve"], *pair.interval["mauve"], pair.adjusted["mauve"])
            for pair in shown
        ]
        return render_differences(title, rows, form, width, digits)

    def _records(self) -> list[dict[str, Any]]:
        records = []
        for name, score in self.scores.items():
            area = next(record for record in score._records() if record["summary"] == "mauve")
            best, worst = self.ranks.get(name, (None, None))
            others = {"frontier_integral": score.frontier_integral, "midpoint": score.midpoint}
            area = {("mauve" if key == "score" else key): value for key, value in area.items() if key != "summary"}
            records.append({"system": name, **area, **others, "best_rank": best, "worst_rank": worst})
        return records

    def brief(self) -> dict[str, Any]:
        """The main numbers as a small dict, without curves and samples: what ``--summary`` prints."""
        systems = {
            name: {**brief_values(score, "mauve"), "p_value": score.p_value, "ranks": list(self.ranks.get(name, ()))}
            for name, score in self.scores.items()
        }
        facts = {"n": next(iter(self.scores.values())).n[0], "signature": str(self.signature)}
        return {"kind": "mallow comparison", **self._also(), "systems": systems, **facts, **self._doubts()}


def _certified_cells(score: Score) -> list[str]:
    return score_cells(score, CERTIFIED) if score.certified else ["–", "–"]


class ComparedSystems(ScoredSystems):
    """The common part of results that hold a `comparison` and take its caveats."""

    comparison: Comparison

    def _scored(self) -> dict[str, Score]:
        return self.comparison.scores

    def _tables(self, form: str = "text", width: int | None = None) -> list[str]:
        return [self.table(form, width=width), self.comparison.difference_table(form, width=width)]

    @property
    def best(self) -> tuple[str, ...]:
        """The system with the highest certified area, followed by the systems that do not differ from it."""
        return self.comparison.best

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """The caveats of the comparison."""
        return self.comparison.caveats
