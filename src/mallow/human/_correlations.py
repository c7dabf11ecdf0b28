"""The result of comparing metrics with people: correlations with their intervals, and what is best outside the noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mallow._optional import optional
from mallow.errors import Caveat, InputError
from mallow.results import Estimate, Result, TableData, draw, p_number, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MOST_ROWS = 24  # chosen: more do not fit a screen; they are in the JSON and in the data frame


@dataclass(frozen=True)
class Correlation:
    """How far one metric agrees with people by one criterion.

    Attributes
    ----------
    metric, criterion : str
    systems : tuple of str
        Those that both sides know.
    spearman, kendall, pearson : Estimate
        The correlation of the values as given, and an interval that contains the one of the true values of these systems with 95 %
        confidence. It reflects the errors of both sides; other systems than these may differ by more.
    worst_case : float
        The smallest Spearman correlation if each value of the metric moves by one standard deviation
        (paper: eq:worse-case-spearman).
    p_value : float
        Of the Spearman correlation, by permutations of the systems, two-sided: whether there is any association.
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
        Criterion → the metric with the highest Spearman correlation if it is above each other one outside the noise, or None.
    metrics, people : dict
        Metric or criterion → system → (value, standard deviation); higher is better.
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
            "95 %: of the correlation of the true values of these systems. Worst: metric ± one standard deviation."
        )
        if len(self.correlations) <= _MOST_ROWS:
            lines += ["", self.other_table(), ""]
        return "\n".join([*lines, *(f"caveat: {line}" for line in self.caveat_lines())]).rstrip()

    def other_table(self, form: str = "text") -> str:
        """Kendall's τ and Pearson's correlation with their 95 % intervals, and the p-value of no association."""
        rows = [
            [
                one.metric,
                one.criterion,
                *(
                    cell
                    for each in (one.kendall, one.pearson)
                    for cell in (f"{each.value:.3f}", f"{each.low:.2f} to {each.high:.2f}")
                ),
                p_number(one.p_value),
            ]
            for one in self.correlations
        ]
        head = ["", "", "Kendall", "95 %", "Pearson", "95 %", "p of no association"]
        return render(form, TableData(head, rows, left=(0, 1)))

    def of(self, metric: str, criterion: str) -> Correlation:
        """The correlation of one metric with one criterion."""
        for one in self.correlations:
            if (one.metric, one.criterion) == (metric, criterion):
                return one
        raise InputError(
            f"`metric` and `criterion` must be among {', '.join(self.metrics)} and {', '.join(self.people)}; got {metric!r} "
            f"and {criterion!r}."
        )

    def sentences(self) -> list[str]:
        """For each criterion, which metric agrees best, and whether that is more than noise."""
        lines = []
        for criterion, best in self.best.items():
            own = sorted(
                (one for one in self.correlations if one.criterion == criterion), key=lambda one: -one.spearman.value
            )
            top = own[0].spearman
            text = f"{criterion}: {own[0].metric} has the highest rank correlation, {top.value:.3f} ({top.low:.2f} to {top.high:.2f})"
            if len(own) == 1:
                lines.append(f"{text}.")
            elif best is not None:
                lines.append(f"{text}, above all others outside the noise.")
            else:
                lines.append(f"{text}, but not above all others outside the noise.")
        return lines

    def _headline(self) -> str:
        return " ".join(self.sentences())

    def _table(self) -> TableData:
        head, rows, marked = [""], [], set()
        for criterion in self.people:
            head += [f"{criterion}\nSpearman", "95 %", "worst"]
        for place, metric in enumerate(self.metrics):
            cells = [metric]
            for criterion in self.people:
                one = next((c for c in self.correlations if (c.metric, c.criterion) == (metric, criterion)), None)
                if one is None:
                    cells += ["–", "–", "–"]
                    continue
                if self.best[criterion] == metric:
                    marked.add((place, len(cells)))
                low, high = one.spearman.low, one.spearman.high
                cells += [f"{one.spearman.value:.3f}", f"{low:.2f} to {high:.2f}", f"{one.worst_case:.3f}"]
            rows.append(cells)
        return TableData(head, rows, marked=marked)

    def _records(self) -> list[dict[str, Any]]:
        rows = []
        for one in self.correlations:
            row: dict[str, Any] = {"metric": one.metric, "criterion": one.criterion, "systems": len(one.systems)}
            for name in ("spearman", "kendall", "pearson"):
                estimate: Estimate = getattr(one, name)
                row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
            rows.append(row | {"worst_case": one.worst_case, "p_value": one.p_value})
        return rows

    def plot(self, ax: Axes | None = None, *, metric: str | None = None, criterion: str | None = None) -> Axes:
        """Draw one metric against one criterion, with one standard deviation of both; returns the axes.

        None: the criterion that comes first, and the metric that agrees with it best.
        """
        ax = draw.axes(ax)
        criterion = next(iter(self.people)) if criterion is None else criterion
        if metric is None:
            own = [one for one in self.correlations if one.criterion == criterion]
            metric = max(own, key=lambda one: one.spearman.value).metric if own else ""
        one = self.of(metric, criterion)
        points = [(*self.metrics[metric][name], *self.people[criterion][name]) for name in one.systems]
        for place, (name, (x, dx, y, dy)) in enumerate(zip(one.systems, points, strict=True)):
            style = {key: value for key, value in draw.look(place).items() if key != "linestyle"}
            ax.errorbar(x, y, xerr=dx, yerr=dy, linestyle="none", elinewidth=1, label=name.replace("$", r"\$"), **style)
        ax.set_xlabel(f"{metric} (± 1 standard deviation)".replace("$", r"\$"))
        ax.set_ylabel(f"{criterion}: people (± 1 standard error)".replace("$", r"\$"))
        low, high = one.spearman.low, one.spearman.high
        ax.set_title(f"Spearman {one.spearman.value:.3f} (95 %: {low:.2f} to {high:.2f})", fontsize="medium")
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
