"""The agreement of metrics with people: correlations with intervals that include the errors of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mallow._checks import seed_from, whole
from mallow._optional import optional
from mallow.errors import Caveat, InputError, warn_about
from mallow.human._bradley_terry import some_names
from mallow.human._measured import Measured, measure_metrics, measure_people
from mallow.human._rank_correlations import average_ranks, kendall, pearson, spearman, worst_case_spearman
from mallow.results import Estimate, Result, TableData, draw, join_names, p_number, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_ROWS = 24  # chosen: more do not fit on a screen. They are in the JSON and in the data frame
Floats = NDArray[np.float64]
_EXACT = 7  # systems up to which all permutations are tried
_PERMUTATIONS = 9999
_FEWEST = 3
_CORRELATIONS = np.tanh(np.linspace(-2.6, 2.6, 27))  # of the true values; up to ±0.989
_SPREADS = np.array([0.35, 0.6, 0.8, 1.0, 1.25])  # of the true values, as shares of the observed spread


@dataclass(frozen=True)
class Correlation:
    """The agreement of one metric with people by one criterion.

    Attributes
    ----------
    metric : str
        The metric.
    criterion : str
        The question that people answered.
    systems : tuple of str
        The systems with values on both sides.
    spearman : Estimate
        Spearman's correlation of the values, and an interval that contains the correlation of the true values of these
        systems with 95% confidence. It reflects the errors of both sides; different systems may differ by more.
    kendall : Estimate
        Kendall's correlation, with the same kind of interval.
    pearson : Estimate
        Pearson's correlation, with the same kind of interval.
    worst_case : float
        The smallest Spearman correlation if each value of the metric moves by one standard deviation
        (paper: eq:worse-case-spearman).
    p_value : float
        The two-sided p-value for "no association", by permutations of the systems (Spearman correlation).
    """

    metric: str
    criterion: str
    systems: tuple[str, ...]
    spearman: Estimate
    kendall: Estimate
    pearson: Estimate
    worst_case: float
    p_value: float


@dataclass(frozen=True, repr=False)
class Correlations(Result):
    """Metrics against people.

    Attributes
    ----------
    correlations : tuple of Correlation
        For each metric and criterion.
    best : dict
        Criterion → the metric whose Spearman correlation is higher than all others by more than noise, or None.
    metrics : dict
        Metric → system → (value, standard deviation); higher is better.
    people : dict
        Criterion → system → (value, standard deviation); higher is better.
    caveats : tuple of Caveat
    """

    KIND: ClassVar[str] = "correlations"

    correlations: tuple[Correlation, ...]
    best: dict[str, str | None]
    metrics: dict[str, dict[str, tuple[float, float]]]
    people: dict[str, dict[str, tuple[float, float]]]
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        return f"Correlations({len(self.metrics)} metrics, {len(self.people)} criteria)"

    def __str__(self) -> str:
        lines = [*self.sentences(), "", self.table(), ""]
        lines.append(
            "95%: of the correlation of the true values of these systems. Worst: metric ± one standard deviation."
        )
        if len(self.correlations) <= _MOST_ROWS:
            lines += ["", self.other_table(), ""]
        return self._with_caveats(lines)

    def other_table(self, form: str = "text") -> str:
        """Kendall's τ and Pearson's correlation with their 95% intervals, and the p-value of no association."""
        rows = [
            [
                correlation.metric,
                correlation.criterion,
                *_cells(correlation.kendall),
                *_cells(correlation.pearson),
                p_number(correlation.p_value),
            ]
            for correlation in self.correlations
        ]
        head = ["", "", "Kendall", "95%", "Pearson", "95%", "p of no association"]
        return render(form, TableData(head, rows, left=(0, 1)))

    def of(self, metric: str, criterion: str) -> Correlation:
        """The correlation of one metric with one criterion."""
        found = self._by_name.get((metric, criterion))
        if found is None:
            raise InputError(
                f"`metric` and `criterion` must be among {', '.join(self.metrics)} and {', '.join(self.people)}; got "
                f"{metric!r} and {criterion!r}."
            )
        return found

    @property
    def _by_name(self) -> dict[tuple[str, str], Correlation]:
        return {(correlation.metric, correlation.criterion): correlation for correlation in self.correlations}

    def sentences(self) -> list[str]:
        """For each criterion, the metric that agrees best, and whether this is more than noise."""
        lines = []
        for criterion, best in self.best.items():
            ordered = _best_first(self.correlations, criterion)
            value, span = _cells(ordered[0].spearman)
            if len(ordered) > 1:
                text = f"{ordered[0].metric} has the highest rank correlation, {value} ({span})"
                text += f",{'' if best is not None else ' but not'} above all others outside the noise"
            else:
                text = f"the rank correlation of {ordered[0].metric} is {value} ({span})"
            lines.append(f"{criterion}: {text}.")
        return lines

    def _headline(self) -> str:
        return " ".join(self.sentences())

    def _table(self) -> TableData:
        head, rows, marked = [""], [], set()
        for criterion in self.people:
            head += [f"{criterion}\nSpearman", "95%", "worst"]
        for place, metric in enumerate(self.metrics):
            cells = [metric]
            for criterion in self.people:
                correlation = self._by_name.get((metric, criterion))
                if correlation is None:
                    cells += ["–", "–", "–"]
                    continue
                if self.best[criterion] == metric:
                    marked.add((place, len(cells)))
                cells += [*_cells(correlation.spearman), f"{correlation.worst_case:.3f}"]
            rows.append(cells)
        return TableData(head, rows, marked=marked)

    def _records(self) -> list[dict[str, Any]]:
        rows = []
        for correlation in self.correlations:
            row: dict[str, Any] = {
                "metric": correlation.metric,
                "criterion": correlation.criterion,
                "systems": len(correlation.systems),
            }
            for name in ("spearman", "kendall", "pearson"):
                estimate: Estimate = getattr(correlation, name)
                row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
            rows.append(row | {"worst_case": correlation.worst_case, "p_value": correlation.p_value})
        return rows

    def plot(self, ax: Axes | None = None, *, metric: str | None = None, criterion: str | None = None) -> Axes:
        """Draw one metric against one criterion, with one standard deviation of both; returns the axes.

        None: the criterion that comes first, and the metric that agrees with it best.
        """
        ax = draw.axes(ax)
        criterion = next(iter(self.people)) if criterion is None else criterion
        if metric is None:
            ordered = _best_first(self.correlations, criterion)
            metric = ordered[0].metric if ordered else ""
        correlation = self.of(metric, criterion)
        points = [(*self.metrics[metric][name], *self.people[criterion][name]) for name in correlation.systems]
        for place, (name, (x, dx, y, dy)) in enumerate(zip(correlation.systems, points, strict=True)):
            style = {key: value for key, value in draw.line_style(place).items() if key != "linestyle"}
            ax.errorbar(x, y, xerr=dx, yerr=dy, linestyle="none", elinewidth=1, label=name.replace("$", r"\$"), **style)
        ax.set_xlabel(f"{metric} (± 1 standard deviation)".replace("$", r"\$"))
        ax.set_ylabel(f"{criterion}: people (± 1 standard error)".replace("$", r"\$"))
        value, span = _cells(correlation.spearman)
        ax.set_title(f"Spearman {value} (95%: {span})", fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
        if len(points) <= 12:
            ax.legend(fontsize="x-small", framealpha=0.8, edgecolor="none")
        return ax

    def figure(self) -> Figure:
        """Draw every metric (rows) against every criterion (columns)."""
        figures = optional("matplotlib.figure", extra="plot")
        rows, columns = len(self.metrics), len(self.people)
        made: Figure = figures.Figure(figsize=(3.4 * columns, 3.0 * rows), layout="constrained")
        grid = np.asarray(made.subplots(rows, columns, squeeze=False))
        for row, metric in enumerate(self.metrics):
            for column, criterion in enumerate(self.people):
                ax = grid[row, column]
                try:
                    self.plot(ax, metric=metric, criterion=criterion)
                except InputError:
                    ax.set_axis_off()
                    continue
                if ax.get_legend() is not None and (row or column):
                    ax.get_legend().remove()
        return made


def _cells(estimate: Estimate) -> tuple[str, str]:
    return f"{estimate.value:.3f}", f"{estimate.low:.2f} to {estimate.high:.2f}"


def correlate(
    metrics: Any,
    people: Any,
    *,
    reference: str | None = None,
    draws: int = 2000,
    rng: int | np.random.Generator | None = 0,
) -> Correlations:
    """Rank and linear correlations of metrics with people's scores, with intervals that include both errors.

    Parameters
    ----------
    metrics : Comparison, table of baselines, path, or mapping metric → system → value
        Higher is better. A value may be a pair: the value and its standard deviation. A comparison gives the published
        and the certified MAUVE, and baselines give −|T(Q) − T(P)|. A path is the JSON file of these, or a .csv file
        with a column for the system and one per metric. A column "X std" holds the standard deviations of "X".
    people : Ranking, Rankings, JudgedRanking, path, or mapping criterion → system → score
        As for metrics. A ranking brings the covariance of its scores.
    reference : str or None
        The name of the reference text in `metrics`. Metrics with a value for it are compared by their distance from it,
        −|T(Q) − T(P)| (paper: sec:expt-setup:human-eval).
    draws : int
        Draws of the true values, for the intervals.
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
        for name, values in measured.items():
            systems = tuple(system for system in values.values if system in theirs.values)
            missing |= (set(values.values) ^ set(theirs.values)) - {reference}
            if len(systems) < _FEWEST:
                continue
            correlation, drawn = _correlation(name, criterion, systems, values, theirs, draws, generator)
            if correlation is not None:
                made.append(correlation)
                samples[name, criterion] = drawn
    if not made:
        raise InputError(
            f"`metrics` and `people` must share at least {_FEWEST} systems whose values differ; metrics has "
            f"{_names(measured)}, people has {_names(judged)}."
        )
    best = {criterion: _best(criterion, made, samples) for criterion in judged}
    caveats = _caveats(measured, judged, made, missing)
    warn_about(caveats)
    tables = (
        {name: values.table() for name, values in measured.items()},
        {name: values.table() for name, values in judged.items()},
    )
    return Correlations(tuple(made), best, *tables, tuple(caveats))


def _names(measured: dict[str, Measured]) -> str:
    names = sorted({name for values in measured.values() for name in values.values})
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _correlation(
    name: str,
    criterion: str,
    systems: tuple[str, ...],
    values: Measured,
    theirs: Measured,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Correlation | None, Floats]:
    x, x_covariance = values.take(systems)
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
    """The share of permutations of the systems with a rank correlation at least as far from 0."""
    first, second = average_ranks(x), average_ranks(y)
    first, second = first - first.mean(), second - second.mean()
    observed = abs(float(first @ second)) - 1e-9
    if len(x) <= _EXACT:
        orders = np.array(list(permutations(range(len(x)))))
        return float((np.abs(first[orders] @ second) >= observed).mean())
    shuffled = rng.permuted(np.tile(first, (_PERMUTATIONS, 1)), axis=1)
    return float((1 + (np.abs(shuffled @ second) >= observed).sum()) / (1 + _PERMUTATIONS))


def _best(criterion: str, made: list[Correlation], samples: dict[tuple[str, str], Floats]) -> str | None:
    """The metric whose draws are above the draws of each other metric with 97.5% probability.

    Draws of two metrics are independent here, although people's errors are common to both, so this is conservative.
    """
    ordered = _best_first(made, criterion)
    if len(ordered) < 2:
        return None
    top = ordered[0]
    for other in ordered[1:]:
        above = samples[top.metric, criterion] > samples[other.metric, criterion]
        if top.spearman.value <= other.spearman.value or float(above.mean()) < 0.975:
            return None
    return top.metric


def _best_first(correlations: Sequence[Correlation], criterion: str) -> list[Correlation]:
    return sorted(
        (correlation for correlation in correlations if correlation.criterion == criterion),
        key=lambda correlation: -correlation.spearman.value,
    )


def _caveats(
    measured: dict[str, Measured], judged: dict[str, Measured], made: list[Correlation], missing: set[str]
) -> list[Caveat]:
    caveats = []
    if missing:
        text = f"only one side knows {some_names(sorted(missing))}: they take no part."
        caveats.append(Caveat("systems left out", text))
    for side, tables in (("metrics", measured), ("people", judged)):
        exact = [name for name, table in tables.items() if not table.covariance.any()]
        if exact:
            text = (
                f"no errors are given for {some_names(exact)} ({side}): the intervals treat these values as exact and "
                "are too short."
            )
            caveats.append(Caveat("no errors", text))
    fewest = min(len(correlation.systems) for correlation in made)
    if fewest < 10:
        text = (
            f"only {fewest} systems: the interval is about these, and other systems may give quite another correlation."
        )
        caveats.append(Caveat("few systems", text, values={"systems": fewest}))
    absent = [name for name in measured if not any(correlation.metric == name for correlation in made)]
    if absent:
        text = f"{join_names(absent[:4])}: fewer than {_FEWEST} common systems, or all values equal."
        caveats.append(Caveat("metrics left out", text))
    return caveats


def draw_true_values(
    x: Floats, x_covariance: Floats, y: Floats, y_covariance: Floats, *, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """True values of both sides, (draws, n) each, from their distribution given the measurements and their errors.

    The true values of a system are a draw from a bivariate normal distribution whose mean, spreads and correlation are
    unknown (flat on a grid). The measurements add normal errors with the given covariances. Drawing each side by itself
    would count the errors twice and pull all correlations towards 0.
    """
    n = len(x)
    sides = [_standardised(x, x_covariance), _standardised(y, y_covariance)]
    grid = np.array([(a, b, r) for a in _SPREADS for b in _SPREADS for r in _CORRELATIONS])  # (g, 3)
    both = np.concatenate([sides[0][0], sides[1][0]])
    noise = np.zeros((2 * n, 2 * n))
    noise[:n, :n], noise[n:, n:] = sides[0][1], sides[1][1]
    shift = np.kron(np.eye(2), np.full((n, n), 100.0))  # any mean, on either side
    kinds = np.stack(
        [np.stack([grid[:, 0] ** 2, grid.prod(axis=1)]), np.stack([grid.prod(axis=1), grid[:, 1] ** 2])]
    )  # (2, 2, g)
    prior = np.einsum("abg,ij->gaibj", kinds, np.eye(n)).reshape(len(grid), 2 * n, 2 * n) + shift
    factor = np.linalg.cholesky(prior + noise + 1e-9 * np.eye(2 * n))
    half = np.linalg.solve(factor, np.broadcast_to(both, (len(grid), 2 * n))[..., None])[..., 0]
    fit = -0.5 * (half**2).sum(axis=1) - np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    chance = np.exp(fit - fit.max())
    counts = rng.multinomial(draws, chance / chance.sum())
    parts = []
    for place in np.flatnonzero(counts):
        gain = np.linalg.solve(prior[place] + noise + 1e-9 * np.eye(2 * n), prior[place]).T
        # A draw of truth and errors, corrected by the measurements, which is exact and works with an error of 0.
        truth = rng.standard_normal((counts[place], 2 * n)) @ np.linalg.cholesky(prior[place] + 1e-9 * np.eye(2 * n)).T
        errors = rng.standard_normal((counts[place], 2 * n)) @ _root(noise).T
        parts.append(truth + (both - truth - errors) @ gain.T)
    made = np.concatenate(parts)
    return made[:, :n], made[:, n:]


def _standardised(values: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    spread = float(values.std()) or 1.0
    return (values - values.mean()) / spread, covariance / spread**2


def _root(covariance: Floats) -> Floats:
    """A matrix whose product with its transpose is the covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
