"""The annotators: their agreement (Krippendorff's α), the reliability of each, and who should be checked."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from mallow.errors import Caveat, InputError
from mallow.evidence import holm
from mallow.human._paired import Rows, count_wins, fit_newton
from mallow.human._read_votes import FASTEST
from mallow.human._votes import Vote, Votes, number_systems
from mallow.results import Result, TableData, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Level = Literal["nominal", "ordinal"]
Floats = NDArray[np.float64]
_LEVEL = 0.05
_MOSTLY = 0.5  # chosen: people who are fast in more than half of their answers are flagged as fast
_SPREAD = 0.5  # chosen: the standard deviation of reliability between people
_PRIOR = 0.25  # of the penalised fit that predicts a person's votes from the votes of all others


def krippendorff_alpha(
    units: Mapping[str, Sequence[float]] | Sequence[Sequence[float]], level: Level = "nominal"
) -> float:
    """Krippendorff's α: 1 for perfect agreement, 0 for agreement by chance, below 0 for systematic disagreement.

    α = 1 − Dₒ/Dₑ, the observed over the expected disagreement of two values of one unit (Krippendorff, Content
    Analysis, ch. 12). "nominal": values agree or not. "ordinal": the distance of two values is the number of values
    given between them, where each end counts half.

    Parameters
    ----------
    units : sequences of numbers
        The values that the annotators gave to each unit, in any order. A unit with fewer than two values is ignored.
    level : str
        "nominal" or "ordinal".

    Examples
    --------
    >>> krippendorff_alpha([[1, 1], [2, 2], [1, 1]])
    1.0
    >>> round(krippendorff_alpha([[1, 2], [2, 2], [1, 1], [3, 3]]), 3)
    0.667
    """
    if level not in ("nominal", "ordinal"):
        raise InputError(f"`level` must be nominal or ordinal; got {level!r}.")
    rows = [list(values) for values in (units.values() if isinstance(units, Mapping) else units)]
    rows = [values for values in rows if len(values) > 1]
    if not rows:
        raise InputError("`units` must hold a unit with at least two values: nobody rated the same thing twice.")
    sizes = np.array([len(values) for values in rows])
    categories, place = np.unique(np.concatenate(rows), return_inverse=True)
    counts = np.zeros((len(rows), len(categories)))
    np.add.at(counts, (np.repeat(np.arange(len(rows)), sizes), place), 1.0)
    if len(categories) == 1:
        return 1.0
    # Coincidences: every pair of values of a unit, weighted so that each value counts once.
    coincidence = (counts / (sizes - 1)[:, None]).T @ counts - np.diag((counts / (sizes - 1)[:, None]).sum(axis=0))
    totals = coincidence.sum(axis=1)
    n = totals.sum()
    distance = _distances(totals, level)
    observed = float((coincidence * distance).sum())
    expected = float((np.outer(totals, totals) * distance).sum()) / (n - 1)
    return float(1.0 - observed / expected)


def _distances(totals: Floats, level: Level) -> Floats:
    if level == "nominal":
        return 1.0 - np.eye(len(totals))
    middle = np.cumsum(totals) - totals / 2  # lower values, and half of the equal ones
    squares: Floats = (middle[:, None] - middle[None, :]) ** 2
    return squares


def oriented_answers(votes: Sequence[Vote]) -> dict[tuple[str, str, tuple[str, str], str], list[tuple[str, int]]]:
    """(question, prompt, pair, task) → annotators and answers, relative to the pair's first system: 2 is definitely it.

    Votes without a prompt and a task are about unknown texts and are left out.
    """
    units: dict[tuple[str, str, tuple[str, str], str], list[tuple[str, int]]] = {}
    for vote in votes:
        if not (vote.prompt or vote.task):
            continue
        answer = -vote.answer if vote.left == vote.pair[0] else vote.answer
        key = (vote.question, vote.prompt, vote.pair, vote.task if not vote.prompt else "")
        units.setdefault(key, []).append((vote.annotator, answer))
    return units


def alpha_of_votes(votes: Sequence[Vote], level: Level) -> tuple[float | None, int]:
    """α over pairs that several people judged, and their number; None if there are none.

    "nominal" is about who won or whether it was a tie; "ordinal" uses all five options.
    """
    units = []
    for answers in oriented_answers(votes).values():
        last = dict(answers)  # one value per person
        if len(last) > 1:
            units.append([float(a) if level == "ordinal" else math.copysign(1.0, a) * (a != 0) for a in last.values()])
    return (krippendorff_alpha(units, level), len(units)) if units else (None, 0)


@dataclass(frozen=True)
class Annotator:
    """The data about one person.

    Attributes
    ----------
    name : str
    votes : int
        The number of votes on tasks, without gold pairs and repeats.
    seconds : float or None
        The median time of an answer.
    fast : float
        The share of answers faster than the limit.
    left : float or None
        The share of untied votes for the left side.
    agreement : float or None
        The share of untied votes for the system that the votes of all others put first.
    expected : float or None
        The expected share for a person who votes like the others.
    reliability : float or None
        (agreement − 1/2) / (expected − 1/2): 1 means a person like the others, and 0 a person who guesses. It is shrunk
        towards 1 with few votes.
    gold : tuple (right, all)
        Gold pairs answered correctly.
    repeats : tuple (right, all)
        Repeated pairs answered for the same side again.
    flags : tuple of str
        "fast", "one-sided", "contradictory".
    """

    name: str
    votes: int
    seconds: float | None
    fast: float
    left: float | None
    agreement: float | None
    expected: float | None
    reliability: float | None
    gold: tuple[int, int]
    repeats: tuple[int, int]
    flags: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Annotators(Result):
    """All annotators of a study.

    Attributes
    ----------
    annotators : tuple of Annotator
        Flagged ones first, then by number of votes.
    alpha : dict
        "nominal" (who won) and "ordinal" (all five options) → Krippendorff's α; None if no pair was judged by two
        people.
    shared : int
        The number of pairs that several people judged.
    caveats : tuple of Caveat
    """

    KIND: ClassVar[str] = "annotators"

    annotators: tuple[Annotator, ...]
    alpha: dict[str, float | None]
    shared: int
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        return f"Annotators({len(self.annotators)} people, {len(self.flagged)} flagged)"

    def __str__(self) -> str:
        lines = [f"{len(self.annotators)} annotators, {len(self.flagged)} flagged. {self.agreement_sentence}"]
        return self._with_caveats([*lines, "", self.table()])

    @property
    def flagged(self) -> tuple[str, ...]:
        """The names of flagged people, for `rank(..., exclude=...)`."""
        return tuple(annotator.name for annotator in self.annotators if annotator.flags)

    @property
    def agreement_sentence(self) -> str:
        """Krippendorff's α in words."""
        if self.alpha["nominal"] is None or self.alpha["ordinal"] is None:
            return "No pair was judged by two people: their agreement is not known."
        return (
            f"Krippendorff's α on {self.shared} pairs that several people judged: {self.alpha['nominal']:.2f} for the "
            f"winner, {self.alpha['ordinal']:.2f} for all five options (1 is perfect, 0 is chance)."
        )

    def _table(self) -> TableData:
        def number(value: float | None, digits: int = 2) -> str:
            return "–" if value is None else f"{value:.{digits}f}"

        def share(passed: tuple[int, int]) -> str:
            return f"{passed[0]}/{passed[1]}" if passed[1] else "–"

        rows = [
            [
                person.name,
                str(person.votes),
                number(person.seconds, 0),
                *map(number, (person.fast, person.left, person.agreement, person.expected, person.reliability)),
                share(person.gold),
                share(person.repeats),
                ", ".join(person.flags),
            ]
            for person in self.annotators
        ]
        head = ["", "votes", "median\nseconds", "share\nfast", "share\nleft", "agrees", "expected", "reliability"]
        return TableData([*head, "gold", "repeats", "flags"], rows, left=(0, 10))

    def _records(self) -> list[dict[str, Any]]:
        shown = ("votes", "seconds", "fast", "left", "agreement", "expected", "reliability")
        return [
            {
                "annotator": person.name,
                **{name: getattr(person, name) for name in shown},
                "flags": ", ".join(person.flags),
            }
            for person in self.annotators
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each person's agreement with the others against the median time; returns the axes."""
        ax = draw.axes(ax)
        for flagged, marker in ((False, "o"), (True, "X")):
            people = [
                annotator
                for annotator in self.annotators
                if bool(annotator.flags) == flagged and annotator.agreement is not None
            ]
            x = [person.seconds or 0.0 for person in people]
            y = [person.agreement or 0.0 for person in people]
            sizes = [10.0 + 4.0 * person.votes for person in people]
            ax.scatter(x, y, s=sizes, marker=marker, alpha=0.6, label="flagged" if flagged else "not flagged")
        ax.set_xlabel("median seconds per answer (larger marks: more votes)")
        ax.set_ylabel("agreement with the votes of all others")
        draw.legend(ax)
        return ax


def check_annotators(votes: Votes, *, min_seconds: float = FASTEST) -> Annotators:
    """The agreement of annotators, the reliability of each, and who is fast, one-sided or contradictory.

    Read the votes with `min_seconds=0`, so that fast answers are included. A person is *fast* with more than half of
    the answers below `min_seconds`. A person is *one-sided* if the share of votes for one side is too far from 1/2 for
    chance, and *contradictory* if they agree with the others less often than by guessing, or fail gold or repeated
    pairs as often as a guesser would. Tests are at the 5% level, corrected by Holm's method over all people, so few
    honest people are flagged. `rank(votes, exclude=check_annotators(votes).flagged)` is the ranking without them.

    Examples
    --------
    >>> votes = [Vote("a", "b", -1, "better", who, str(i), 40.0) for who in ("ann", "bob") for i in range(20)]
    >>> print(check_annotators(Votes(tuple(votes))).flagged)
    ('ann', 'bob')
    """
    people = [vote for vote in votes if vote.annotator and not vote.judge]
    if not people:
        raise InputError("`votes` must hold votes of known annotators, but there are none.")
    tasks = [vote for vote in people if vote.kind == "task"]
    by_name: dict[str, list[Vote]] = defaultdict(list)
    for vote in people:
        by_name[vote.annotator].append(vote)
    predicted = _predictions(tasks)
    facts = [_describe(name, given, predicted.get(name), min_seconds) for name, given in sorted(by_name.items())]
    sided, against = (holm(p_values) for p_values in ([fact[1] for fact in facts], [fact[2] for fact in facts]))
    made = []
    for (person, *_), p_side, p_against in zip(facts, sided, against, strict=True):
        raised = {
            "fast": person.fast > _MOSTLY,
            "one-sided": p_side < _LEVEL,
            "contradictory": p_against < _LEVEL,
        }
        made.append(replace(person, flags=tuple(flag for flag, is_raised in raised.items() if is_raised)))
    made.sort(key=lambda person: (not person.flags, -person.votes, person.name))
    alpha, shared = {}, 0
    for level in ("nominal", "ordinal"):
        alpha[level], shared = alpha_of_votes(tasks, level)
    return Annotators(tuple(made), alpha, shared)


def _predictions(tasks: Sequence[Vote]) -> dict[str, list[tuple[Vote, float]]]:
    """For each person, the untied votes with the chance of the left side by the votes of all others."""
    predictions: dict[str, list[tuple[Vote, float]]] = defaultdict(list)
    for question in dict.fromkeys(vote.question for vote in tasks):
        votes = [vote for vote in tasks if vote.question == question and vote.answer]
        names, left, right, points = number_systems(votes)
        people = np.array([vote.annotator for vote in votes])
        for person in dict.fromkeys(people.tolist()):
            others = people != person
            if not others.any():
                continue
            wins = count_wins(left[others], right[others], points[others], len(names))
            fit = fit_newton(Rows.of_wins(wins), ridge=_PRIOR)
            if fit is None:
                continue
            for row in np.flatnonzero(~others):
                gap = fit.coefficients[left[row]] - fit.coefficients[right[row]]
                predictions[person].append((votes[row], float(1.0 / (1.0 + np.exp(-gap)))))
    return predictions


def _describe(
    name: str, votes: Sequence[Vote], predicted: Sequence[tuple[Vote, float]] | None, min_seconds: float
) -> tuple[Annotator, float, float]:
    """A person without flags, and the p-values for "votes for both sides equally" and "answers carefully"."""
    tasks = [vote for vote in votes if vote.kind == "task"]
    times = [vote.seconds for vote in tasks if vote.seconds is not None]
    untied = [vote for vote in tasks if vote.answer]
    # All questions of a page are answered together: tests count pages, shares count votes.
    right_pages, side_pages = _count_pages([(vote, float(np.sign(vote.answer))) for vote in untied])
    p_side = min(1.0, 2 * float(bdtr(min(right_pages, side_pages - right_pages), side_pages, 0.5)))
    agreement = expected = reliability = None
    p_against = 1.0
    if predicted:
        chances = np.array([chance for _, chance in predicted])
        agrees = np.array([(vote.answer < 0) == (chance > 0.5) for vote, chance in predicted])
        agreement, expected = float(agrees.mean()), float(np.maximum(chances, 1.0 - chances).mean())
        agreeing, pages = _count_pages(
            [(vote, 1.0 if ok else -1.0) for (vote, _), ok in zip(predicted, agrees, strict=True)]
        )
        reliability = _reliability(agreement, expected, pages)
        p_against = float(bdtr(agreeing, pages, 0.5))
    gold = [np.sign(v.answer) == np.sign(v.expected) for v in votes if v.kind == "gold" and v.expected is not None]
    repeats = _repeats(votes)
    passed = [(int(sum(checks)), len(checks)) for checks in (gold, repeats)]
    person = Annotator(
        name,
        votes=len(tasks),
        seconds=float(median(times)) if times else None,
        fast=float(np.mean([time < min_seconds for time in times])) if times else 0.0,
        left=sum(vote.answer < 0 for vote in untied) / len(untied) if untied else None,
        agreement=agreement,
        expected=expected,
        reliability=reliability,
        gold=passed[0],
        repeats=passed[1],
        flags=(),
    )
    # Small if so few right answers would be unusual even for a person who is right three times out of four.
    below = [float(bdtr(right, count, 0.75)) for right, count in passed if count]
    return person, p_side, min([p_against, *below])


def _reliability(agreement: float, expected: float, count: int) -> float:
    """(agreement − 1/2) / (expected − 1/2), shrunk towards 1 in proportion to its error."""
    if expected - 0.5 < 1e-6 or not count:
        return 1.0
    slope = (agreement - 0.5) / (expected - 0.5)
    noise = 0.25 / count / (expected - 0.5) ** 2
    return (slope * _SPREAD**2 + noise) / (_SPREAD**2 + noise)


def _count_pages(values: Sequence[tuple[Vote, float]]) -> tuple[int, int]:
    """The pages with a positive sum of votes, and all with a nonzero sum. Votes on unknown texts are pages."""
    sums: dict[Any, float] = defaultdict(float)
    for number, (vote, value) in enumerate(values):
        sums[(vote.prompt, vote.task, vote.pair) if vote.prompt or vote.task else number] += value
    return sum(total > 0 for total in sums.values()), sum(total != 0 for total in sums.values())


def _repeats(own: Sequence[Vote]) -> list[bool]:
    """For each repeated pair, whether the same text won again."""
    first = {key: answers[0][1] for key, answers in oriented_answers([v for v in own if v.kind == "task"]).items()}
    again = oriented_answers([vote for vote in own if vote.kind == "repeat"])
    return [bool(np.sign(first[key]) == np.sign(answers[-1][1])) for key, answers in again.items() if key in first]
