"""Scores from wins: the Bradley–Terry model, with checks of what the votes determine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from mallow.errors import Caveat, InputError, warn_about
from mallow.evaluate import rank_systems
from mallow.evidence import holm
from mallow.human._paired import (
    SCALE,
    Errors,
    Floats,
    Ints,
    PairedFit,
    Rows,
    check_pairs,
    components,
    fit_newton,
    fit_zermelo,
)
from mallow.human._rankings import PairDifference, Ranking
from mallow.results import Estimate, join_names

Method = Literal["newton", "zermelo"]
_RIDGE = 0.25  # of the penalty: a normal prior with standard deviation 2 in log-odds, 200 points


def bradley_terry(wins: Any, names: Sequence[str] | None = None, *, method: Method = "newton") -> Ranking:
    """Bradley–Terry scores from the number of wins of each system against each other system.

    P(i beats j) = 1 / (1 + exp(−(wᵢ − wⱼ) / 100)), by maximum likelihood, with mean 0 (paper: sec:a:human-eval:bt).
    Errors assume independent votes; `rank` uses the names of voters to allow for the dependence of one person's votes.

    The maximum exists if, however the systems are split into two parts, each part has won against the other (Ford's
    condition). Otherwise a weak penalty keeps the scores finite, with a caveat. If two parts were never compared, no
    scores exist, which is an error.

    Parameters
    ----------
    wins : array (n, n)
        wins[i, j]: how often i beat j. A tie may count as half a win for both. The diagonal is 0.
    names : sequence of n str, or None
        None: "0", "1", …
    method : str
        "newton", or "zermelo" as published. They agree to 1e-8.

    Examples
    --------
    >>> ranking = bradley_terry([[0, 30], [10, 0]], ["large", "small"])
    >>> {name: round(score, 3) for name, score in ranking.scores.items()}  # the log-odds log(30 / 10), times 100
    {'large': 54.931, 'small': -54.931}
    """
    counts = _check_wins(wins)
    n = len(counts)
    labels = tuple(str(i) for i in range(n)) if names is None else tuple(names)
    if len(labels) != n or len(set(labels)) != n:
        raise InputError(f"`names` must be {n} different names, one per row of `wins`; got {list(labels)}.")
    if method not in ("newton", "zermelo"):
        raise InputError(f"`method` must be newton or zermelo; got {method!r}.")
    rows = Rows.of_wins(counts)
    caveats = connection_caveats(counts, labels, "`wins`")
    fit = fit_or_penalise(rows, penalise=bool(caveats))
    if method == "zermelo" and not fit.penalised:
        fit = replace(fit, coefficients=fit_zermelo(counts))
    ranking = build_ranking(
        rows,
        fit,
        Errors.independent(fit),
        labels,
        votes=float(counts.sum()),
        annotators=0,
        ties="as counted in `wins`",
        question="",
        method="newton" if fit.penalised else method,
        caveats=caveats,
    )
    warn_about(ranking.caveats)
    return ranking


def _check_wins(wins: Any) -> Floats:
    try:
        counts = np.asarray(wins, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("`wins` must be a square array of counts, but it holds something else.") from None
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise InputError(f"`wins` must be a square array of counts; got shape {counts.shape}.")
    if len(counts) < 2:
        raise InputError("`wins` must hold at least 2 systems, since a single one cannot be ranked.")
    if not np.isfinite(counts).all() or (counts < 0).any():
        raise InputError("`wins` must hold counts of at least 0; got a negative or infinite one, or nan.")
    if np.diag(counts).any():
        raise InputError("`wins` must have zeros on its diagonal: no system is compared with itself.")
    return counts


def connection_caveats(wins: Floats, names: Sequence[str], what: str) -> tuple[Caveat, ...]:
    """An error if systems were never compared. A caveat if some never lost to the rest (Ford's condition)."""

    def describe(part: Sequence[int]) -> str:
        return some_names([names[i] for i in part])

    parts = components(wins, strong=False)
    if len(parts) > 1:
        small = min(parts, key=len)
        rest = [i for i in range(len(names)) if i not in small]
        raise InputError(
            f"{what} must connect all systems, but no vote links {describe(small)} with {describe(rest)}, not even "
            "through other systems. Collect votes between them, or rank each group separately."
        )
    strong = components(wins, strong=True)
    if len(strong) == 1:
        return ()
    never_lost, never_won = [], []
    for part in strong:
        rest = [i for i in range(len(names)) if i not in part]
        if not wins[np.ix_(rest, part)].any():
            never_lost.append(f"{describe(part)} never lost to the other systems")
        elif not wins[np.ix_(part, rest)].any() and len(strong) > 2:
            never_won.append(f"{describe(part)} never won against the other systems")
    message = (
        f"{'; '.join([*never_lost, *never_won])}: the votes set no limit to these differences. "
        f"A weak penalty (a normal prior with a standard deviation of {SCALE / _RIDGE**0.5:.0f} points) keeps the "
        "scores finite. They and their intervals depend on it. Collect more votes."
    )
    return (Caveat("separation", message, values={"ridge": _RIDGE}),)


def some_names(names: Sequence[str]) -> str:
    """Names for a sentence; with more than four, the first three and the number of others."""
    return join_names(names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"])


def fit_or_penalise(rows: Rows, *, penalise: bool) -> PairedFit:
    """The maximum of the likelihood, or of the penalised likelihood on request or if there is no maximum."""
    fit = None if penalise else fit_newton(rows)
    fit = fit_newton(rows, ridge=_RIDGE) if fit is None else fit
    if fit is None:  # with a penalty the maximum exists; only extreme numbers fail
        raise InputError("`votes` give no finite scores: the numbers of votes or the covariates are too extreme.")
    return fit


def build_ranking(
    rows: Rows,
    fit: PairedFit,
    errors: Errors,
    systems: Sequence[str],
    *,
    clusterings: Sequence[Ints] = (),
    effects: Sequence[str] = (),
    **facts: Any,
) -> Ranking:
    """The result, from coefficients and their errors in log-odds. The systems come first in both.

    `clusterings` are the items and people of the rows, for the check of the fit. `effects` are the names of the other
    coefficients, and `facts` the other fields of the ranking.
    """
    n = len(systems)
    order = np.argsort(-fit.coefficients[:n], kind="stable")
    names = [systems[i] for i in order]
    unit = np.eye(len(fit.coefficients))
    centre = np.eye(n) - 1.0 / n
    scores = SCALE * fit.coefficients[:n][order]
    scores = scores - scores.mean()
    interval = {}
    for i, name, score in zip(order, names, scores.tolist(), strict=True):
        reach = errors.reach(SCALE * (unit[i] - unit[:n].mean(axis=0)))
        interval[name] = (score - reach, score + reach)
    differences = _differences(names, scores, SCALE * unit[order], errors)
    ranks, groups = rank_systems(names, differences)
    checks, misfit = check_pairs(rows, fit, systems, clusterings)
    return Ranking(
        scores=dict(zip(names, scores.tolist(), strict=True)),
        interval=interval,
        ranks=ranks,
        groups=groups,
        differences=differences,
        effects=_effects(fit, errors, n, effects),
        covariance=SCALE**2 * (centre @ errors.joint()[:n, :n] @ centre)[np.ix_(order, order)],
        checks=checks,
        misfit=misfit,
        **facts,
    )


def _differences(names: Sequence[str], scores: Floats, contrasts: Floats, errors: Errors) -> tuple[PairDifference, ...]:
    pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    gaps = [float(scores[i] - scores[j]) for i, j in pairs]
    p_values = [errors.p_value(contrasts[i] - contrasts[j], gap) for (i, j), gap in zip(pairs, gaps, strict=True)]
    adjusted = holm(p_values)
    reaches = [errors.reach(contrasts[i] - contrasts[j]) for i, j in pairs]
    return tuple(
        PairDifference(names[i], names[j], gap, (gap - reach, gap + reach), p, corrected)
        for (i, j), gap, reach, p, corrected in zip(pairs, gaps, reaches, p_values, adjusted, strict=True)
    )


def _effects(fit: PairedFit, errors: Errors, systems: int, names: Sequence[str]) -> dict[str, Estimate]:
    effects = {}
    for place, name in enumerate(names, start=systems):
        value, reach = float(fit.coefficients[place]), errors.reach(np.eye(len(fit.coefficients))[place])
        ends = np.array([value, value - reach, value + reach])
        if name == "tie":
            ends = np.exp(ends) / (2.0 + np.exp(ends))  # of two equal systems: 1, 1 and e^τ
        else:
            ends = SCALE * ends * (np.log(2.0) if name == "length" else 1.0)
        effects[name] = Estimate(*(float(end) for end in ends))
    return effects
