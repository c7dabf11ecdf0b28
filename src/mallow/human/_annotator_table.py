"""The result of looking at the annotators of a study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mallow.errors import Caveat
from mallow.results import Result, TableData, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Annotator:
    """What is known about one person.

    Attributes
    ----------
    name : str
    votes : int
        On tasks, without gold pairs and repeats.
    seconds : float or None
        The median.
    fast : float
        The share of answers faster than the limit.
    left : float or None
        The share of untied votes for the left side.
    agreement, expected : float or None
        How often the untied votes are for the system that the votes of all others put first, and how often that is expected
        of a person who votes like the others.
    reliability : float or None
        (agreement − 1/2) / (expected − 1/2): 1 is a person like the others, 0 one who guesses. It is drawn towards 1 where there
        are few votes.
    gold, repeats : tuple (right, all)
        Gold pairs answered correctly, and repeated pairs answered for the same side again.
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
        "nominal" (who won) and "ordinal" (all five options) → Krippendorff's α; None where no pair was judged by two people.
    shared : int
        How many pairs were judged by several people.
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
        return "\n".join([*lines, "", self.table(), *(f"caveat: {line}" for line in self.caveat_lines())])

    @property
    def flagged(self) -> tuple[str, ...]:
        """The names of those with a flag, for `rank(..., exclude=...)`."""
        return tuple(one.name for one in self.annotators if one.flags)

    @property
    def agreement_sentence(self) -> str:
        """Krippendorff's α in words."""
        if self.alpha["nominal"] is None or self.alpha["ordinal"] is None:
            return "No pair was judged by two people: their agreement is not known."
        return (
            f"Krippendorff's α on {self.shared} pairs that several people judged: {self.alpha['nominal']:.2f} for the winner, "
            f"{self.alpha['ordinal']:.2f} for all five options (1 is perfect, 0 is chance)."
        )

    def _table(self) -> TableData:
        def number(value: float | None, digits: int = 2) -> str:
            return "–" if value is None else f"{value:.{digits}f}"

        rows = [
            [
                one.name,
                str(one.votes),
                number(one.seconds, 0),
                number(one.fast),
                number(one.left),
                number(one.agreement),
                number(one.expected),
                number(one.reliability),
                f"{one.gold[0]}/{one.gold[1]}" if one.gold[1] else "–",
                f"{one.repeats[0]}/{one.repeats[1]}" if one.repeats[1] else "–",
                ", ".join(one.flags),
            ]
            for one in self.annotators
        ]
        head = ["", "votes", "median\nseconds", "share\nfast", "share\nleft", "agrees", "expected", "reliability"]
        return TableData([*head, "gold", "repeats", "flags"], rows, left=(0, 10))

    def _records(self) -> list[dict[str, Any]]:
        return [
            {
                "annotator": one.name,
                "votes": one.votes,
                "seconds": one.seconds,
                "fast": one.fast,
                "left": one.left,
                "agreement": one.agreement,
                "expected": one.expected,
                "reliability": one.reliability,
                "flags": ", ".join(one.flags),
            }
            for one in self.annotators
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each person's agreement with the others against the median time; returns the axes."""
        ax = draw.axes(ax)
        for flagged, marker in ((False, "o"), (True, "X")):
            own = [one for one in self.annotators if bool(one.flags) == flagged and one.agreement is not None]
            x = [one.seconds or 0.0 for one in own]
            y = [one.agreement or 0.0 for one in own]
            sizes = [10.0 + 4.0 * one.votes for one in own]
            ax.scatter(x, y, s=sizes, marker=marker, alpha=0.6, label="flagged" if flagged else "not flagged")
        ax.set_xlabel("median seconds per answer (larger marks: more votes)")
        ax.set_ylabel("agreement with the votes of all others")
        draw.legend(ax)
        return ax
