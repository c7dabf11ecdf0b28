"""Judges and people: valid intervals from many votes of programs and few of people (prediction-powered)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from mallow._checks import seed_from
from mallow.errors import Caveat, InputError, warn_about
from mallow.human._bradley_terry import build_ranking, connection_caveats
from mallow.human._paired import (
    Errors,
    Floats,
    PairedFit,
    Rows,
    cluster_errors,
    count_wins,
    fit_newton,
    make_design,
    row_scores,
)
from mallow.human._rank import as_votes, cluster_votes
from mallow.human._rankings import JudgedRanking
from mallow.human._votes import Vote, Votes

_MOST = 0.99  # largest weight of the judges: people always count
_FOLDS = 5
_FEW = 200  # chosen: votes of people below which the normal approximation is rough


def rank_with_judges(
    votes: Votes | str | os.PathLike[str],
    *,
    question: str | None = None,
    judges: Sequence[str] | None = None,
    rng: int | np.random.Generator | None = 0,
) -> JudgedRanking:
    """Systems ranked by few votes of people and many of judges, with valid intervals for any quality of judges.

    Prediction-powered inference (Angelopoulos et al., 2023) for Bradley–Terry uses the judges' votes on all pairs,
    minus an estimate of their error from the pairs that people voted on. With weight λ the scores θ solve

        Σ_labelled x (y − λ f − (1 − λ) p(θ)) + (n/N) λ Σ_unlabelled x (f − p(θ)) = 0

    where y are the points that people gave (ties count as half), f is their prediction from the judges' votes, by a
    regression learned from other pairs, and λ makes the intervals shortest. The pairs that people voted on must be a
    random part of all pairs. Judges that answer at random get weight 0 and do no harm.

    Parameters
    ----------
    votes : Votes or path
        Votes of people and of judges (`Vote.judge`). Votes on the same pair of texts have the same `task`.
    question : str or None
        None: the only question.
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
            "`votes` must hold pairs that people and judges voted on, and pairs that only judges voted on, with the "
            f"same `task` for the same texts; got {n} and {unlabelled}."
        )
    caveats = list(connection_caveats(tasks.wins(tasks.people), tasks.names, "the votes of people"))
    if n < _FEW:
        text = f"people voted on {n} pairs: with fewer than {_FEW}, intervals are rough."
        caveats.append(Caveat("few votes", text, values={"votes": n}))
    alone = _solve(tasks, 0.0)
    weight = _best_weight(tasks, alone[1])
    clusterings, doubts = cluster_votes(tasks.by_people)
    caveats += doubts
    facts: dict[str, Any] = {
        "votes": n,
        "annotators": len({vote.annotator for vote in tasks.by_people} - {""}),
        "ties": "half",
        "question": chosen.questions[0],
        "caveats": tuple(caveats),
    }
    people = build_ranking(*alone, tasks.names, clusterings=clusterings, **facts)
    both = build_ranking(*_solve(tasks, weight), tasks.names, method="prediction-powered", **facts)
    both = replace(both, checks=people.checks, misfit=people.misfit)
    effective = n * float(np.trace(people.covariance) / np.trace(both.covariance))
    warn_about(caveats)
    return JudgedRanking(both, people, weight, effective, n, unlabelled, *_describe(chosen, used), tuple(caveats))


@dataclass(frozen=True)
class Tasks:
    """Pairs of texts, in the order shown: m of them."""

    names: tuple[str, ...]
    left: NDArray[np.int64]  # (m,), the systems
    right: NDArray[np.int64]
    people: Floats  # (m,), people's points for the left side, ties as half; nan without a vote
    votes: Floats  # (m, judges), each judge's points for the left side; nan without a vote
    judges: Floats  # (m,), the prediction of people's vote from the judges, made without it
    votes_of_people: tuple[tuple[Vote, ...], ...]  # on each pair
    shown: tuple[Vote, ...]  # a judge's vote on each pair

    @property
    def by_people(self) -> list[Vote]:
        """All votes of people, in the order of the pairs."""
        return [vote for votes in self.votes_of_people for vote in votes]

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Whether people voted on each pair."""
        return ~np.isnan(self.people)

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of pairs with and without votes of people."""
        return int(self.labelled.sum()), int((~self.labelled).sum())

    def wins(self, points: Floats) -> Floats:
        """wins[i, j], from points for the left sides; nan without a vote."""
        there = ~np.isnan(points)
        return count_wins(self.left[there], self.right[there], points[there], len(self.names))


def _gather(votes: Votes, judges: Sequence[str], rng: np.random.Generator) -> Tasks:
    """All pairs that a judge voted on. A pair is identified by its task (or prompt) and the sides of its systems."""
    people: dict[tuple[str, str, str], list[Vote]] = defaultdict(list)
    others: dict[tuple[str, str, str], dict[str, Vote]] = defaultdict(dict)
    for vote in votes:
        key = (vote.task or vote.prompt, vote.left, vote.right)
        if vote.kind == "task" and vote.judge and vote.annotator in judges:
            others[key][vote.annotator] = vote
        elif vote.kind == "task" and not vote.judge:
            people[key].append(vote)
    keys = list(others)
    names = tuple(sorted({name for key in keys for name in key[1:]}))
    places = {name: place for place, name in enumerate(names)}
    left, right = (np.array([places[key[side]] for key in keys], dtype=np.int64) for side in (1, 2))
    by_people = tuple(tuple(people.get(key, ())) for key in keys)
    means = np.array([np.mean([vote.points for vote in votes]) if votes else np.nan for votes in by_people])
    points = [{judge: vote.points for judge, vote in others[key].items()} for key in keys]
    given = np.array([[judged.get(judge, np.nan) for judge in judges] for judged in points])
    shown = tuple(next(iter(others[key].values())) for key in keys)
    tasks = Tasks(names, left, right, means, given, np.zeros(len(keys)), by_people, shown)
    return replace(tasks, judges=_predict(tasks, rng)) if tasks.labelled.sum() > 1 else tasks


def _predict(tasks: Tasks, rng: np.random.Generator) -> Floats:
    """People's points, predicted from the judges' votes by least squares.

    The regression is learned from other pairs than the pair it predicts (folds), which makes the intervals valid. It
    uses each judge's vote, whether it is a tie, and the strength of both systems by this judge and by people.
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
        ridge = np.eye(features.shape[1])  # a prior worth one pair
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


def _rows(tasks: Tasks, weight: float) -> tuple[Rows, NDArray[np.int64]]:
    """The equation of `rank_with_judges` as weighted rows, and their pairs.

    Each vote of people is a row with the points (y − λf) / (1 − λ). Each pair without one is a row with the points f.
    """
    n, m = tasks.sizes
    counts = np.array([len(votes) for votes in tasks.votes_of_people])
    pairs = np.repeat(np.arange(len(counts)), np.maximum(counts, 1))
    people = np.full(len(pairs), np.nan)
    people[counts[pairs] > 0] = [vote.points for vote in tasks.by_people]
    judges, labelled = tasks.judges[pairs], counts[pairs] > 0
    points = np.where(labelled, (people - weight * judges) / (1.0 - weight), judges)
    weights = np.where(labelled, (1.0 - weight) / np.maximum(counts[pairs], 1), weight * n / m)
    keep = weights > 0
    pairs = pairs[keep]
    design = make_design(tasks.left[pairs], tasks.right[pairs], len(tasks.names))
    return Rows(design, points[keep], weights[keep], len(tasks.names)), pairs


def _solve(tasks: Tasks, weight: float) -> tuple[Rows, PairedFit, Errors]:
    """The rows, scores and errors at this weight.

    Errors are clustered as for people; pairs without a vote of people also belong to their items. The numbers of pairs
    with and without votes of people are fixed, so each kind varies around its own mean.
    """
    rows, pairs = _rows(tasks, weight)
    fit = fit_newton(rows) or fit_newton(rows, ridge=0.25)
    if fit is None:
        raise InputError("`votes` of people are too few for scores of all systems. Collect more, or use fewer systems.")
    scores = row_scores(rows, fit).toarray()
    labelled = tasks.labelled[pairs]
    for part in (labelled, ~labelled):
        shares = rows.weight[part, None] / max(float(rows.weight[part].sum()), 1e-300)
        scores[part] -= shares * scores[part].sum(axis=0)
    others = [tasks.shown[pair] for pair in pairs[~labelled]]
    order = np.argsort(np.concatenate([np.flatnonzero(labelled), np.flatnonzero(~labelled)]))
    clusterings = [groups[order] for groups in cluster_votes(tasks.by_people, others)[0]]
    return rows, fit, cluster_errors(rows, fit, clusterings, sparse.csr_matrix(scores))


def _best_weight(tasks: Tasks, fit: PairedFit) -> float:
    """The λ with the smallest sum of variances of the scores (Angelopoulos, Duchi and Zrnic, 2023: power tuning)."""
    labelled, (n, m), k = tasks.labelled, tasks.sizes, len(tasks.names)
    design = make_design(tasks.left, tasks.right, k)
    expected, dense = expit(design @ fit.coefficients), design.toarray()
    by_people = dense * np.where(labelled, tasks.people - expected, 0.0)[:, None]  # x (y − p)
    by_judges = dense * (tasks.judges - expected)[:, None]  # x (f − p)
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
