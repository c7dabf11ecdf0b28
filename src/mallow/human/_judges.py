"""Judges beside people: valid intervals from many votes of programs and few of people (prediction-powered)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mallow._checks import seed_from
from mallow.errors import Caveat, InputError, warn_about
from mallow.human._bradley_terry import build_ranking, connection_caveats
from mallow.human._paired import Floats, PairedFit, Rows, count_wins, fit_newton, make_design
from mallow.human._rank import as_votes
from mallow.human._rankings import JudgedRanking
from mallow.human._votes import Vote, Votes

_MOST = 0.99  # of the weight of the judges: people always count
_FOLDS = 5
_FEW = 200  # chosen: of people's votes beside judges, below which the normal approximation is rough


def rank_with_judges(
    votes: Votes | str | os.PathLike[str],
    *,
    question: str | None = None,
    judges: Sequence[str] | None = None,
    rng: int | np.random.Generator | None = 0,
) -> JudgedRanking:
    """Systems ranked by few votes of people and many of judges; intervals are valid whatever the judges are worth.

    Prediction-powered inference (Angelopoulos et al., 2023) for Bradley–Terry: the judges' votes on all pairs, minus
    what the pairs that people voted on show of their error. With weight λ the scores θ solve

        Σ_labelled x (y − λ f − (1 − λ) p(θ)) + (n/N) λ Σ_unlabelled x (f − p(θ)) = 0

    where y are the points that people gave, ties as half, f what the judges' votes predict of them, by a regression
    learned from other pairs, and λ makes the intervals shortest. The pairs that people voted on must be a random part
    of all pairs. Judges that answer at random get weight 0 and do no harm.

    Parameters
    ----------
    votes : Votes or path
        Of people and of judges (`Vote.judge`); votes on the same pair of texts have the same `task`.
    question : str or None
        None: the only one.
    judges : sequence of str, or None
        Which judges to use; None: all.
    rng : int, Generator or None
        For the folds of the regression.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> strength = {"a": 0.0, "b": 0.5, "c": 1.0}
    >>> votes = []
    >>> for task in range(3000):
    ...     left, right = rng.choice(list(strength), 2, replace=False)
    ...     likely = 1 / (1 + np.exp(strength[left] - strength[right]))
    ...     answer = 1 if rng.random() < likely else -1
    ...     other = answer if rng.random() < 0.9 else -answer
    ...     votes.append(Vote(left, right, other, "better", "judge", "", None, task=str(task), judge=True))
    ...     if task < 600:
    ...         votes.append(Vote(left, right, answer, "better", "", "", None, task=str(task)))
    >>> judged = rank_with_judges(Votes(tuple(votes)))
    >>> judged.labelled, judged.unlabelled, judged.effective > 900
    (600, 2400, True)
    """
    chosen = as_votes(votes).of(question)
    used = tuple(chosen.judges if judges is None else judges)
    unknown = [name for name in used if name not in chosen.judges]
    if unknown or not used:
        known = ", ".join(chosen.judges) or "none: mark their votes with judge=True"
        raise InputError(
            f"`judges` must name judges of the votes ({known}); got {unknown[0] if unknown else 'none'!r}."
        )
    tasks = _gather(chosen, used, np.random.default_rng(seed_from(rng)))
    n, unlabelled = tasks.sizes
    if n < 2 or not unlabelled:
        raise InputError(
            "`votes` must hold pairs that people and judges voted on, and pairs that judges alone voted on, with the "
            f"same `task` for the same texts; got {n} and {unlabelled}."
        )
    caveats = list(connection_caveats(tasks.wins(tasks.people), tasks.names, "the votes of people"))
    if n < _FEW:
        text = f"people voted on {n} pairs: with fewer than {_FEW}, intervals are rough."
        caveats.append(Caveat("few votes", text, values={"votes": n}))
    alone, alone_covariance = _solve(tasks, 0.0)
    weight = _best_weight(tasks, alone)
    fit, covariance = _solve(tasks, weight)
    facts: dict[str, Any] = {
        "votes": n,
        "annotators": 0,
        "ties": "half",
        "question": chosen.questions[0],
        "caveats": tuple(caveats),
    }
    rows = _rows(tasks, 0.0)
    people = build_ranking(rows, alone, alone_covariance, tasks.names, **facts)
    both = build_ranking(rows, fit, covariance, tasks.names, method="prediction-powered", **facts)
    both = replace(both, checks=people.checks, misfit=people.misfit)
    effective = n * float(np.trace(people.covariance) / np.trace(both.covariance))
    warn_about(caveats)
    return JudgedRanking(both, people, weight, effective, n, unlabelled, *_describe(chosen, used), tuple(caveats))


@dataclass(frozen=True)
class Tasks:
    """Pairs of texts, as they were shown.

    Attributes
    ----------
    names : tuple of str
    left, right : arrays (m,)
        The systems.
    people : array (m,)
        What people gave to the left side, ties as half; nan where they did not vote.
    votes : array (m, judges)
        What each judge gave to the left side; nan where it did not vote.
    judges : array (m,)
        What the judges say of people's vote: a prediction made without it.
    """

    names: tuple[str, ...]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    people: Floats
    votes: Floats
    judges: Floats

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Where people voted."""
        return ~np.isnan(self.people)

    @property
    def sizes(self) -> tuple[int, int]:
        """How many pairs people voted on, and how many they did not."""
        return int(self.labelled.sum()), int((~self.labelled).sum())

    def wins(self, points: Floats) -> Floats:
        """wins[i, j], by what somebody gave to the left sides; nan where they did not vote."""
        there = ~np.isnan(points)
        return count_wins(self.left[there], self.right[there], points[there], len(self.names))


def _gather(votes: Votes, judges: Sequence[str], rng: np.random.Generator) -> Tasks:
    """All pairs that a judge voted on. A pair is known by its task, or its prompt, and the sides of its systems."""
    people: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    others: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for vote in votes:
        key = (vote.task or vote.prompt, vote.left, vote.right)
        if vote.kind == "task" and vote.judge and vote.annotator in judges:
            others[key][vote.annotator] = vote.points
        elif vote.kind == "task" and not vote.judge:
            people[key].append(vote.points)
    keys = list(others)
    names = tuple(sorted({name for key in keys for name in key[1:]}))
    places = {name: place for place, name in enumerate(names)}
    left, right = (np.array([places[key[side]] for key in keys], dtype=np.int64) for side in (1, 2))
    own = np.array([np.mean(people[key]) if key in people else np.nan for key in keys])
    given = np.array([[others[key].get(judge, np.nan) for judge in judges] for key in keys])
    tasks = Tasks(names, left, right, own, given, np.zeros(len(keys)))
    return replace(tasks, judges=_predict(tasks, rng)) if tasks.labelled.sum() > 1 else tasks


def _predict(tasks: Tasks, rng: np.random.Generator) -> Floats:
    """People's points, predicted from the judges' votes by least squares.

    The regression is learned from other pairs than the one it predicts (folds), which is what makes the intervals
    valid. It knows each judge's vote, whether it is a tie, how strong that judge finds both systems, and how strong
    people do.
    """
    columns = [np.ones(len(tasks.left))]
    for points in tasks.votes.T:
        there = ~np.isnan(points)
        columns += [np.where(there, points - 0.5, 0.0), (points == 0.5).astype(float), _strengths(tasks, points)]
    judged = np.column_stack(columns)
    labelled = np.flatnonzero(tasks.labelled)
    folds = np.full(len(tasks.left), -1)
    folds[labelled] = rng.permutation(np.arange(len(labelled)) % _FOLDS)
    predictions = np.zeros(len(tasks.left))
    for fold in range(_FOLDS):
        learn = tasks.labelled & (folds != fold)
        features = np.column_stack([judged, _strengths(tasks, np.where(learn, tasks.people, np.nan))])
        ridge = np.eye(features.shape[1])  # a pair's worth of doubt
        gram = features[learn].T @ features[learn] + ridge
        coefficients = np.linalg.solve(gram, features[learn].T @ (tasks.people[learn] - 0.5))
        predicted = 0.5 + features @ coefficients
        predictions[folds == fold] = predicted[folds == fold]
        predictions[folds == -1] += predicted[folds == -1] / _FOLDS
    return predictions


def _strengths(tasks: Tasks, points: Floats) -> Floats:
    """The chance of the left side by a weakly penalised Bradley–Terry fit to these points, minus 1/2."""
    wins = tasks.wins(points)
    fit = fit_newton(Rows.of_wins(wins), ridge=0.25) if wins.any() else None
    if fit is None:
        return np.zeros(len(points))
    chance: Floats = expit(fit.coefficients[tasks.left] - fit.coefficients[tasks.right]) - 0.5
    return chance


def _rows(tasks: Tasks, weight: float) -> Rows:
    """The equation above as weighted rows: labelled ones with the points (y − λf) / (1 − λ), unlabelled ones with f."""
    n, m = tasks.sizes
    points = np.where(tasks.labelled, (tasks.people - weight * tasks.judges) / (1.0 - weight), tasks.judges)
    weights = np.where(tasks.labelled, 1.0 - weight, weight * n / m)
    keep = weights > 0
    design = make_design(tasks.left[keep], tasks.right[keep], len(tasks.names))
    return Rows(design, points[keep], weights[keep], len(tasks.names))


def _solve(tasks: Tasks, weight: float) -> tuple[PairedFit, Floats]:
    """The scores at this weight, and their covariance."""
    fit = fit_newton(_rows(tasks, weight)) or fit_newton(_rows(tasks, weight), ridge=0.25)
    if fit is None:
        raise InputError("`votes` of people are too few for scores of all systems. Collect more, or use fewer systems.")
    by_people, by_judges = _scores(tasks, fit)
    labelled, (n, m) = tasks.labelled, tasks.sizes
    noise = n * np.cov((by_people - weight * by_judges)[labelled].T)
    noise = noise + weight**2 * n**2 / m * np.cov(by_judges[~labelled].T)
    inverse = fit.invert()
    return fit, inverse @ noise @ inverse


def _scores(tasks: Tasks, fit: PairedFit) -> tuple[Floats, Floats]:
    """x (y − p) and x (f − p) for each pair; the first is 0 where people did not vote."""
    design = make_design(tasks.left, tasks.right, len(tasks.names))
    expected = expit(design @ fit.coefficients)
    people = np.where(tasks.labelled, tasks.people - expected, 0.0)
    dense: Floats = design.toarray()
    return dense * people[:, None], dense * (tasks.judges - expected)[:, None]


def _best_weight(tasks: Tasks, fit: PairedFit) -> float:
    """The λ with the least sum of variances of the scores (Angelopoulos, Duchi and Zrnic, 2023: power tuning)."""
    by_people, by_judges = _scores(tasks, fit)
    labelled, (n, m), k = tasks.labelled, tasks.sizes, len(tasks.names)
    centre = np.eye(k) - 1.0 / k
    inverse = centre @ fit.invert()
    both = np.cov(by_people[labelled].T, by_judges[labelled].T)
    cross, same = both[:k, k:], both[k:, k:]
    gain = float(np.trace(inverse @ (cross + cross.T) @ inverse.T)) / 2
    cost = float(np.trace(inverse @ (same + n / m * np.cov(by_judges[~labelled].T)) @ inverse.T))
    return float(np.clip(gain / cost, 0.0, _MOST)) if cost > 0 else 0.0


def _describe(votes: Votes, judges: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """How often each judge agrees with people, and the share of votes for the left side."""
    people = {(vote.task or vote.prompt, vote.pair): vote for vote in votes if not vote.judge and vote.kind == "task"}
    agreement: dict[str, list[bool]] = defaultdict(list)
    sides: dict[str, list[bool]] = defaultdict(list)
    for vote in votes:
        if vote.kind != "task" or (vote.judge and vote.annotator not in judges):
            continue
        if vote.answer:
            sides[vote.annotator if vote.judge else "people"].append(vote.answer < 0)
        other: Vote | None = people.get((vote.task or vote.prompt, vote.pair)) if vote.judge else None
        if other is not None:
            agreement[vote.annotator].append(vote.winner == other.winner)
    order = ["people", *judges]
    return (
        {name: float(np.mean(agreement[name])) for name in judges if agreement[name]},
        {name: float(np.mean(sides[name])) for name in order if sides[name]},
    )
