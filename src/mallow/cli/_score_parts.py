"""A score with answers to further questions about the same samples: what `mallow score` prints with --train and the like."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from mallow.errors import Caveat
from mallow.evaluate import GroupScores, MatchedScore, Score
from mallow.explain import Memorisation
from mallow.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class ScoreParts(Result):
    """A score, and what else was asked for."""

    KIND: ClassVar[str] = "score with more"

    score: Score
    memorisation: Memorisation | None = None
    matched: MatchedScore | None = None
    groups: GroupScores | None = None

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.parts))

    @property
    def parts(self) -> tuple[Result, ...]:
        """The score and the other results."""
        values = (getattr(self, field.name) for field in fields(self))
        return tuple(value for value in values if value is not None)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Those of all parts."""
        every = (caveat for part in self.parts for caveat in getattr(part, "caveats", ()))
        return tuple({str(caveat): caveat for caveat in every}.values())

    def table(self, form: str = "text", *, width: int | None = None) -> str:
        """The tables of all parts."""
        return "\n\n".join(part.table(form, width=width) for part in self.parts)

    def brief(self) -> dict[str, Any]:
        """The main numbers of the score, and those of the other parts by their names."""
        more = {part.KIND: part.brief() for part in self.parts[1:]}
        return {**self.score.brief(), **more, **self._doubts()}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the frontier; returns the axes."""
        return self.score.plot(ax)
