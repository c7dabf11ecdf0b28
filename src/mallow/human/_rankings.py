"""The result of rankings by several questions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mallow.errors import Caveat
from mallow.human._ranking import Ranking
from mallow.human._ranks import spearman
from mallow.results import Result, TableData, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Rankings(Result):
    """Rankings by several questions.

    Attributes
    ----------
    rankings : dict
        Question → Ranking.
    caveats : tuple of Caveat
        Of all of them.
    """

    KIND: ClassVar[str] = "rankings"

    rankings: dict[str, Ranking]
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        return f"Rankings({', '.join(self.rankings)}; {len(self.systems)} systems)"

    def __str__(self) -> str:
        lines = [*(f"{question}: {one.verdict}" for question, one in self.rankings.items()), "", self.table(), ""]
        lines += [f"Spearman correlation of {a} with {b}: {value:.3f}" for (a, b), value in self.correlations().items()]
        first = next(iter(self.rankings.values()))
        return "\n".join([*lines, first.summary, *(f"caveat: {line}" for line in self.caveat_lines())])

    @property
    def systems(self) -> tuple[str, ...]:
        """All systems, in the order of the first question."""
        return tuple(dict.fromkeys(name for one in self.rankings.values() for name in one.scores))

    def correlations(self) -> dict[tuple[str, str], float]:
        """The Spearman correlation of the scores by each two questions (paper: tab:mauve:expt:webtext-human-eval-all)."""
        coefficients = {}
        for first, second in combinations(self.rankings, 2):
            one, two = self.rankings[first].scores, self.rankings[second].scores
            common = [name for name in one if name in two]
            if len(common) > 1:
                coefficients[first, second] = float(
                    spearman(np.array([one[name] for name in common]), np.array([two[name] for name in common]))
                )
        return coefficients

    def _table(self) -> TableData:
        rows = []
        for name in self.systems:
            cells = [name]
            for one in self.rankings.values():
                if name in one.scores:
                    low, high = one.interval[name]
                    cells += [f"{one.scores[name]:.2f}", f"{low:.1f} to {high:.1f}"]
                else:
                    cells += ["–", "–"]
            rows.append(cells)
        head = [title for question in self.rankings for title in (question, "95 % interval of it")]
        return TableData(["", *head], rows)

    def _records(self) -> list[dict[str, Any]]:
        return [{"question": question, **row} for question, one in self.rankings.items() for row in one._records()]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the scores by each question with their 95 % intervals; returns the axes."""
        ax = draw.axes(ax)
        rows = {
            f"{name}, {question}": (one.scores[name], *one.interval[name])
            for name in self.systems
            for question, one in self.rankings.items()
            if name in one.scores
        }
        draw.intervals(ax, rows, "Bradley–Terry score, with 95 % interval")
        return ax
