"""Rankings by people: by one question, by several, and by people and judges together."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow.errors import Caveat
from mallow.evaluate import OrderedSystems, SystemPair
from mallow.evidence import LEVEL
from mallow.human._rank_correlations import spearman
from mallow.results import Estimate, Result, TableData, draw, group_letters, join_names, p_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class PairDifference(SystemPair):
    """The difference between the scores of two systems.

    Attributes
    ----------
    first : str
        One system.
    second : str
        The other system.
    difference : float
        Score of the first minus score of the second.
    interval : tuple
        A 95% interval of this difference, not corrected for other pairs.
    p_value : float
        The two-sided p-value for equal scores.
    adjusted : float
        The p-value after Holm's correction over all pairs.
    """

    first: str
    second: str
    difference: float
    interval: tuple[float, float]
    p_value: float
    adjusted: float

    @property
    def significant(self) -> bool:
        """Whether the scores differ at the 5% level, after correction."""
        return self.adjusted < LEVEL

    @property
    def better(self) -> str:
        """The system with the higher score."""
        return self.first if self.difference > 0 else self.second


@dataclass(frozen=True)
class PairCheck:
    """The votes on one pair, compared with the prediction from the scores.

    Attributes
    ----------
    first : str
        One system.
    second : str
        The other system.
    votes : float
    share : float
        The share of votes for the first, ties as half.
    expected : float
        The share that the model predicts.
    z : float
        The deviation in its own standard errors.
    adjusted : float
        The p-value after Holm's correction over all pairs that can be checked.
    """

    first: str
    second: str
    votes: float
    share: float
    expected: float
    z: float
    adjusted: float


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(OrderedSystems, Result):
    """Systems ranked by people, by Bradley–Terry.

    Attributes
    ----------
    scores : dict
        System → score, best first. P(i beats j) = 1 / (1 + exp(−(wᵢ − wⱼ) / 100)). The mean is 0 (paper:
        sec:a:human-eval:bt).
    interval : dict
        System → (low, high): contains the score relative to the mean of these systems, by other people and on other
        prompts, with 95% confidence. To compare two systems, use `differences`, which are more precise than two
        intervals suggest.
    ranks : dict
        System → (best, worst): the ranks that are compatible with the significant differences.
    groups : tuple of tuples
        Systems that do not differ significantly, best first. A system may be in several groups.
    differences : tuple of PairDifference
        Between all pairs.
    effects : dict
        Other effects on votes, in points: "left" (being on the left), "length" (being twice as long), each with its 95%
        interval; "tie" (the share of ties between equals, under Davidson's model).
    covariance : array (n, n)
        The covariance of the scores, in their order. With few prompts or annotators, intervals are longer than it
        suggests.
    checks : tuple of PairCheck
        How well the model predicts each pair; empty unless there are more pairs than scores.
    misfit : float or None
        The p-value of the whole fit; None if it cannot be checked.
    votes : int
        The number of votes that were used.
    annotators : int
        The number of annotators; 0 if not known.
    ties : str
        How ties were counted, with their number, such as "half (12)".
    question : str
    dropped : dict
        Reason → how many votes were left out.
    method : str
        The method of the fit.
    caveats : tuple of Caveat
    """

    KIND: ClassVar[str] = "ranking"

    scores: dict[str, float]
    interval: dict[str, tuple[float, float]]
    ranks: dict[str, tuple[int, int]]
    groups: tuple[tuple[str, ...], ...]
    differences: tuple[PairDifference, ...]
    effects: dict[str, Estimate]
    covariance: NDArray[np.float64]
    checks: tuple[PairCheck, ...]
    misfit: float | None
    votes: float
    annotators: int
    ties: str
    question: str
    dropped: dict[str, int] = field(default_factory=dict)
    method: str = "newton"
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {value:+.1f}" for name, value in self.scores.items())
        return f"Ranking({scores}; {self.votes:g} votes)"

    def __str__(self) -> str:
        lines = [self._headline(), self.summary, "", self.table()]
        lines += [*([""] if self.effects else []), *self.effect_lines(), "", self.fit_sentence]
        return self._with_caveats(lines)

    @property
    def verdict(self) -> str:
        """The conclusion about the order, in one sentence."""
        significant = sum(pair.significant for pair in self.differences)
        told = f"{significant} of {len(self.differences)} pairs of systems differ significantly."
        if self.winner is not None:
            few = f"{self.annotators} annotator{'' if self.annotators == 1 else 's'} preferred"
            people = few if 0 < self.annotators < 5 else "People prefer"
            return f"{people} {self.winner} to every other system. {told}"
        if len(self.best) == len(self.scores):
            return f"No system is significantly better than all others. {told}"
        if len(self.best) > 4:
            return f"{len(self.best)} systems share the first place. {told}"
        return f"{join_names(self.best)} share the first place. {told}"

    @property
    def summary(self) -> str:
        """The numbers of votes and people, the dropped votes, and the treatment of ties."""
        by = f" by {self.annotators} annotators" if self.annotators else ""
        text = f"{self.votes:,g} votes{by}; ties: {self.ties}."
        if self.dropped:
            text += " Dropped: " + "; ".join(f"{count:,} {reason}" for reason, count in self.dropped.items()) + "."
        return text

    @property
    def fit_sentence(self) -> str:
        """Whether the scores explain the votes on each pair."""
        if self.misfit is None:
            return "The fit cannot be checked: there are no more pairs of systems than scores."
        worst = [check for check in self.checks if check.adjusted < LEVEL]
        if not worst and self.misfit < LEVEL:
            fault = "but no single pair deviates significantly"
            return f"The scores do not explain the votes as a whole ({p_text(self.misfit)}), {fault}."
        if not worst:
            whole = f"{p_text(self.misfit)} for the whole"
            return f"The scores explain the pairs ({whole}; no pair deviates significantly)."
        pairs = (
            f"{check.first} against {check.second}: {check.share:.2f}, expected {check.expected:.2f}"
            for check in worst[:5]
        )
        more = f"; and {len(worst) - 5} more" if len(worst) > 5 else ""
        return f"The scores do not explain all pairs ({p_text(self.misfit)} for the whole): {'; '.join(pairs)}{more}."

    def effect_lines(self) -> list[str]:
        """Other effects on votes, one line each."""
        words = {
            "left": "points for standing on the left",
            "length": "points for being twice as long",
            "tie": "is the share of ties between equal systems",
        }
        lines = []
        for name, effect in self.effects.items():
            form = ".3f" if name == "tie" else "+.1f"
            value, low, high = (format(number, form) for number in (effect.value, effect.low, effect.high))
            lines.append(f"{value} {words[name]} (95% interval: {low} to {high})")
        return lines

    def probability(self, first: str, second: str) -> float:
        """The probability that people prefer the first to the second, without ties."""
        return 1.0 / (1.0 + float(np.exp(-(self.scores[first] - self.scores[second]) / 100.0)))

    def _also(self) -> dict[str, Any]:
        return {"winner": self.winner, "verdict": self.verdict}

    def _headline(self) -> str:
        return f"{self.question}: {self.verdict}" if self.question else self.verdict

    def _table(self) -> TableData:
        rows = []
        for name, score in self.scores.items():
            low, high = self.interval[name]
            best, worst = self.ranks[name]
            span = str(best) if best == worst else f"{best}–{worst}"
            rows.append([name, f"{score:.2f}", f"{low:.2f} to {high:.2f}", span, group_letters(self.groups, name)])
        return TableData(["", "score", "95% interval", "rank", "group"], rows, left=(0, 4))

    def _records(self) -> list[dict[str, Any]]:
        return [
            {
                "system": name,
                "score": score,
                "low": self.interval[name][0],
                "high": self.interval[name][1],
                "best_rank": self.ranks[name][0],
                "worst_rank": self.ranks[name][1],
            }
            for name, score in self.scores.items()
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the scores with their 95% intervals; returns the axes."""
        ax = draw.axes(ax)
        rows = {name: (score, *self.interval[name]) for name, score in self.scores.items()}
        draw.intervals(ax, rows, "Bradley–Terry score (100 points: odds of e to 1), with 95% interval")
        if self.question:
            ax.set_title(self.question)
        return ax


@dataclass(frozen=True, eq=False, repr=False)
class Rankings(Result):
    """Rankings by several questions.

    Attributes
    ----------
    rankings : dict
        Question → Ranking.
    caveats : tuple of Caveat
        The caveats of all rankings.
    """

    KIND: ClassVar[str] = "rankings"

    rankings: dict[str, Ranking]
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        return f"Rankings({', '.join(self.rankings)}; {len(self.systems)} systems)"

    def __str__(self) -> str:
        lines = [
            *(f"{question}: {ranking.verdict}" for question, ranking in self.rankings.items()),
            "",
            self.table(),
            "",
        ]
        lines += [f"Spearman correlation of {a} with {b}: {value:.3f}" for (a, b), value in self.correlations().items()]
        first = next(iter(self.rankings.values()))
        return self._with_caveats([*lines, first.summary])

    @property
    def systems(self) -> tuple[str, ...]:
        """All systems, in the order of the first question."""
        return tuple(dict.fromkeys(name for ranking in self.rankings.values() for name in ranking.scores))

    def correlations(self) -> dict[tuple[str, str], float]:
        """The Spearman correlation of the scores by two questions (paper: tab:mauve:expt:webtext-human-eval-all)."""
        coefficients = {}
        for first, second in combinations(self.rankings, 2):
            x, two = self.rankings[first].scores, self.rankings[second].scores
            common = [name for name in x if name in two]
            if len(common) > 1:
                coefficients[first, second] = float(
                    spearman(np.array([x[name] for name in common]), np.array([two[name] for name in common]))
                )
        return coefficients

    def _table(self) -> TableData:
        rows = []
        for name in self.systems:
            cells = [name]
            for ranking in self.rankings.values():
                if name in ranking.scores:
                    low, high = ranking.interval[name]
                    cells += [f"{ranking.scores[name]:.2f}", f"{low:.1f} to {high:.1f}"]
                else:
                    cells += ["–", "–"]
            rows.append(cells)
        head = [title for question in self.rankings for title in (question, "95% interval")]
        return TableData(["", *head], rows)

    def _records(self) -> list[dict[str, Any]]:
        return [
            {"question": question, **row} for question, ranking in self.rankings.items() for row in ranking._records()
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the scores by each question with their 95% intervals; returns the axes."""
        ax = draw.axes(ax)
        rows = {
            f"{name}, {question}": (ranking.scores[name], *ranking.interval[name])
            for name in self.systems
            for question, ranking in self.rankings.items()
            if name in ranking.scores
        }
        draw.intervals(ax, rows, "Bradley–Terry score, with 95% interval")
        return ax


@dataclass(frozen=True, eq=False, repr=False)
class JudgedRanking(Result):
    """A ranking by people, made more precise by judges that are programs.

    Attributes
    ----------
    ranking : Ranking
        The ranking by people and judges together. Its intervals are valid for people's votes, however wrong the judges
        are.
    people : Ranking
        The ranking by the same people without judges.
    weight : float
        The weight of the judges, from 0 (no help) to nearly 1, chosen so that the intervals are shortest.
    effective : float
        The number of votes of people that would give equally precise scores without judges.
    labelled : int
        Pairs that people and judges voted on.
    unlabelled : int
        Pairs that only judges voted on.
    agreement : dict
        Judge → the share of pairs with the same winner as by people, or a tie by both.
    first : dict
        "people" and each judge → the share of untied votes for the left side: 1/2 without position bias.
    caveats : tuple of Caveat
    """

    KIND: ClassVar[str] = "judged ranking"

    ranking: Ranking
    people: Ranking
    weight: float
    effective: float
    labelled: int
    unlabelled: int
    agreement: dict[str, float]
    first: dict[str, float]
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        return f"JudgedRanking({self.labelled} + {self.unlabelled} pairs, worth {self.effective:.0f} votes of people)"

    def __str__(self) -> str:
        lines = [
            self.ranking.verdict,
            f"{self.labelled:,} pairs with votes of people and judges, {self.unlabelled:,} with only judges: as "
            f"precise as {self.effective:,.0f} votes of people. Weight of the judges: {self.weight:.2f}.",
            "",
            self.table(),
            "",
        ]
        for name, share in self.first.items():
            agrees = (
                f"; agrees with people on {self.agreement[name]:.2f} of the pairs" if name in self.agreement else ""
            )
            lines.append(f"{name}: the left side wins {share:.3f} of the untied votes{agrees}")
        return self._with_caveats(lines)

    def _headline(self) -> str:
        return self.ranking.verdict

    def _table(self) -> TableData:
        alone = {name: cells for name, *cells in self.people._table().rows}
        rows = [[name, *cells[:3], *alone[name][:2]] for name, *cells in self.ranking._table().rows]
        head = ["", "score", "95% interval", "rank", "people only", "95% interval"]
        return TableData(head, rows)

    def _records(self) -> list[dict[str, Any]]:
        alone = {row["system"]: row for row in self.people._records()}
        return [
            {**row, **{f"people_{key}": alone[row["system"]][key] for key in ("score", "low", "high")}}
            for row in self.ranking._records()
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the scores with their 95% intervals; returns the axes."""
        return self.ranking.plot(ax)
