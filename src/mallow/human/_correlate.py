"""How far metrics agree with people."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import seed_from, whole
from mallow.errors import Caveat, InputError, warn_about
from mallow.human._correlations import Correlation, Correlations
from mallow.human._latent import draw_true_values
from mallow.human._measured import Measured, measure_metrics, measure_people
from mallow.human._ranks import average_ranks, kendall, pearson, spearman
from mallow.human._worst_case import worst_case_spearman
from mallow.results import Estimate, join_names

Floats = NDArray[np.float64]

_EXACT = 7  # systems up to which all permutations are tried
_PERMUTATIONS = 9999
_FEWEST = 3


def correlate(
    metrics: Any,
    people: Any,
    *,
    reference: str | None = None,
    draws: int = 2000,
    rng: int | np.random.Generator | None = 0,
) -> Correlations:
    """Rank and linear correlations of metrics with the scores that people gave, with intervals that know both errors.

    Parameters
    ----------
    metrics : Comparison, table of baselines, path, or mapping metric → system → value
        Higher is better. A value may be a pair: the value and its standard deviation. Of a comparison the published and the
        certified MAUVE are taken; of baselines −|T(Q) − T(P)|. A path is the JSON file of these, or a .csv file with a column for
        the system and one per metric; a column "X std" holds the standard deviations of "X".
    people : Ranking, Rankings, JudgedRanking, path, or mapping criterion → system → score
        As for metrics; a ranking brings the covariance of its scores.
    reference : str or None
        The name under which `metrics` holds the values of the reference text: metrics that have it are compared by their
        distance from it, −|T(Q) − T(P)| (paper: sec:expt-setup:human-eval).
    draws : int
        Of the true values, for the intervals.
    rng : int, Generator or None

    Examples
    --------
    >>> metrics = {"mauve": {name: (0.90 + i / 100, 0.006) for i, name in enumerate("abcdefghij")}}
    >>> people = {"human-like": {name: (10.0 * i, 5.0) for i, name in enumerate("abcdefghij")}}
    >>> one = correlate(metrics, people).of("mauve", "human-like")
    >>> one.spearman.value, round(one.worst_case, 3)
    (1.0, 0.939)
    """
    whole("draws", draws, least=100)
    measured, judged = measure_metrics(metrics, reference), measure_people(people)
    generator = np.random.default_rng(seed_from(rng))
    made, samples, missing = [], {}, set()
    for criterion, theirs in judged.items():
        for name, own in measured.items():
            systems = tuple(system for system in own.values if system in theirs.values)
            missing |= (set(own.values) ^ set(theirs.values)) - {reference}
            if len(systems) < _FEWEST:
                continue
            one, drawn = _correlation(name, criterion, systems, own, theirs, draws, generator)
            if one is not None:
                made.append(one)
                samples[name, criterion] = drawn
    if not made:
        raise InputError(
            f"`metrics` and `people` must share at least {_FEWEST} systems whose values differ; metrics has "
            f"{_names(measured)}, people has {_names(judged)}."
        )
    best = {criterion: _best(criterion, made, samples) for criterion in judged}
    caveats = _caveats(measured, judged, made, missing)
    warn_about(caveats)
    tables = {name: one.table() for name, one in measured.items()}, {name: one.table() for name, one in judged.items()}
    return Correlations(tuple(made), best, *tables, tuple(caveats))


def _names(measured: dict[str, Measured]) -> str:
    names = sorted({name for one in measured.values() for name in one.values})
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _correlation(
    name: str,
    criterion: str,
    systems: tuple[str, ...],
    own: Measured,
    theirs: Measured,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Correlation | None, Floats]:
    x, x_covariance = own.take(systems)
    y, y_covariance = theirs.take(systems)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None, np.zeros(0)
    if x_covariance.any() or y_covariance.any():
        true = draw_true_values(x, x_covariance, y, y_covariance, draws=draws, rng=rng)
    else:
        true = np.tile(x, (draws, 1)), np.tile(y, (draws, 1))
    estimates, ranked = {}, np.zeros(0)
    for kind, correlation in (("spearman", spearman), ("kendall", kendall), ("pearson", pearson)):
        value, drawn = float(correlation(x, y)), correlation(*true)
        ranked = drawn if kind == "spearman" else ranked
        low, high = (float(end) for end in np.nanquantile(drawn, [0.025, 0.975]))
        estimates[kind] = Estimate(value, min(low, value), max(high, value))
    worst = worst_case_spearman(x, np.sqrt(np.diag(x_covariance)), y)
    return Correlation(name, criterion, systems, **estimates, worst_case=worst, p_value=_permuted(x, y, rng)), ranked


def _permuted(x: Floats, y: Floats, rng: np.random.Generator) -> float:
    """How often a permutation of the systems gives a rank correlation at least as far from 0."""
    first, second = average_ranks(x), average_ranks(y)
    first, second = first - first.mean(), second - second.mean()
    observed = abs(float(first @ second)) - 1e-9
    if len(x) <= _EXACT:
        orders = np.array(list(permutations(range(len(x)))))
        return float((np.abs(first[orders] @ second) >= observed).mean())
    shuffled = rng.permuted(np.tile(first, (_PERMUTATIONS, 1)), axis=1)
    return float((1 + (np.abs(shuffled @ second) >= observed).sum()) / (1 + _PERMUTATIONS))


def _best(criterion: str, made: list[Correlation], samples: dict[tuple[str, str], Floats]) -> str | None:
    """The metric whose draws are above those of each other metric with 97.5 % probability.

    Draws of two metrics are independent here, although people's errors are common to both: fewer are marked than could be.
    """
    own = sorted((one for one in made if one.criterion == criterion), key=lambda one: -one.spearman.value)
    if len(own) < 2:
        return None
    top = samples[own[0].metric, criterion]
    for other in own[1:]:
        drawn = samples[other.metric, criterion]
        if own[0].spearman.value <= other.spearman.value or float((top > drawn).mean()) < 0.975:
            return None
    return own[0].metric


def _caveats(
    measured: dict[str, Measured], judged: dict[str, Measured], made: list[Correlation], missing: set[str]
) -> list[Caveat]:
    caveats = []
    if missing:
        names = sorted(missing)
        some = join_names(names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"])
        caveats.append(Caveat("systems left out", f"only one side knows {some}: they take no part."))
    for side, known in (("metrics", measured), ("people", judged)):
        exact = [name for name, one in known.items() if not one.covariance.any()]
        if exact:
            some = join_names(exact if len(exact) <= 4 else [*exact[:3], f"{len(exact) - 3} more"])
            text = (
                f"no errors are given for {some} ({side}): the intervals treat these values as exact and are too short."
            )
            caveats.append(Caveat("no errors", text))
    fewest = min(len(one.systems) for one in made)
    if fewest < 10:
        text = (
            f"only {fewest} systems: the interval is about these, and other systems may give quite another correlation."
        )
        caveats.append(Caveat("few systems", text, values={"systems": fewest}))
    absent = [name for name in measured if not any(one.metric == name for one in made)]
    if absent:
        caveats.append(
            Caveat(
                "metrics left out",
                f"{join_names(absent[:4])}: fewer than {_FEWEST} common systems, or all values equal.",
            )
        )
    return caveats
