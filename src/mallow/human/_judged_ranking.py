"""The result of a ranking by people and judges together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mallow.errors import Caveat
from mallow.human._ranking import Ranking
from mallow.results import Result, TableData

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class JudgedRanking(Result):
    """A ranking by people, made more precise by judges that are programs.

    Attributes
    ----------
    ranking : Ranking
        By people and judges together; its intervals are valid for what people would say, however wrong the judges are.
    people : Ranking
        By the same people alone.
    weight : float
        Of the judges, from 0 (of no help) to nearly 1; chosen so that the intervals are shortest.
    effective : float
        As many votes of people alone would give scores as precise.
    labelled, unlabelled : int
        Pairs that people and judges voted on, and pairs that judges alone voted on.
    agreement : dict
        Judge → how often it names the winner that people name, or a tie where they do.
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
            f"{self.labelled:,} pairs with votes of people and judges, {self.unlabelled:,} with judges alone: as precise as "
            f"{self.effective:,.0f} votes of people. Weight of the judges: {self.weight:.2f}.",
            "",
            self.table(),
            "",
        ]
        for name, share in self.first.items():
            agrees = (
                f"; agrees with people on {self.agreement[name]:.2f} of the pairs" if name in self.agreement else ""
            )
            lines.append(f"{name}: the left side wins {share:.3f} of the untied votes{agrees}")
        return "\n".join([*lines, *(f"caveat: {line}" for line in self.caveat_lines())])

    def _headline(self) -> str:
        return self.ranking.verdict

    def _table(self) -> TableData:
        rows = []
        for name, score in self.ranking.scores.items():
            best, worst = self.ranking.ranks[name]
            own, alone = self.ranking.interval[name], self.people.interval[name]
            cells = [f"{score:.2f}", f"{own[0]:.2f} to {own[1]:.2f}", str(best) if best == worst else f"{best}–{worst}"]
            rows.append([name, *cells, f"{self.people.scores[name]:.2f}", f"{alone[0]:.2f} to {alone[1]:.2f}"])
        head = ["", "score", "95 % interval of it", "rank", "people alone", "95 % interval of that"]
        return TableData(head, rows)

    def _records(self) -> list[dict[str, Any]]:
        alone = {row["system"]: row for row in self.people._records()}
        return [
            {**row, **{f"people_{key}": alone[row["system"]][key] for key in ("score", "low", "high")}}
            for row in self.ranking._records()
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the scores with their 95 % intervals; returns the axes."""
        return self.ranking.plot(ax)
