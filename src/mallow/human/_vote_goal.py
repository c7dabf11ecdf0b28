"""What votes are for, and what one costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mallow._checks import open_unit, positive
from mallow.errors import InputError


@dataclass(frozen=True)
class VoteGoal:
    """What the votes are for.

    Attributes
    ----------
    kind : str
        "apart": the difference between two systems is significant, in the right direction. "ranking": the systems have the
        right order, significant or not.
    systems : pair of str or None
        Which two systems to tell apart; None: the two with the closest scores.
    power : float
        The probability with which the goal is to be reached.
    level : float
        The level of significance, two-sided.

    Examples
    --------
    >>> VoteGoal("ranking", power=0.9)
    VoteGoal(kind='ranking', systems=None, power=0.9, level=0.05)
    """

    kind: Literal["apart", "ranking"] = "apart"
    systems: tuple[str, str] | None = None
    power: float = 0.8
    level: float = 0.05

    def __post_init__(self) -> None:
        if self.kind not in ("apart", "ranking"):
            raise InputError(f"`kind` must be 'apart' or 'ranking'; got {self.kind!r}.")
        open_unit("power", self.power, why=" It is a probability, such as 0.8.")
        open_unit("level", self.level, why=" It is a probability, such as 0.05.")


@dataclass(frozen=True)
class VoteCosts:
    """What a vote costs. The defaults are those of the paper (sec:a:human-eval:datasheet).

    Attributes
    ----------
    seconds : float
        For one pair with all its questions.
    wage : float
        Per hour.
    currency : str

    Examples
    --------
    >>> round(VoteCosts().money(3240))  # 90 votes on each of 36 pairs
    677
    """

    seconds: float = 47.0
    wage: float = 16.0
    currency: str = "USD"

    def __post_init__(self) -> None:
        positive("seconds", self.seconds)
        positive("wage", self.wage)

    def hours(self, votes: float) -> float:
        """Hours of work."""
        return votes * self.seconds / 3600.0

    def money(self, votes: float) -> float:
        """Pay for this work."""
        return self.hours(votes) * self.wage
