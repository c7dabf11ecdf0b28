"""The numbers of a score in one line, for summaries."""

from __future__ import annotations

from typing import Any, Protocol

from mallow.results import Estimate, at_least, at_most


class _Scored(Protocol):
    """What is read of a score."""

    @property
    def certified(self) -> dict[str, Estimate]:
        """By held-out evidence."""

    @property
    def interval(self) -> dict[str, tuple[float, float]]:
        """Of other draws."""

    @property
    def self_score(self) -> dict[str, float]:
        """Of the reference."""


def brief_values(score: _Scored, name: str) -> dict[str, Any]:
    """What is known of one summary of a score, rounded to four digits."""
    values: dict[str, Any] = {}
    if score.certified:
        one = score.certified[name]
        values["certified"] = round(one.value, 4)
        values |= {"at_most": float(at_most(one.high))} if name == "mauve" else {"at_least": float(at_least(one.low))}
    values["published"] = round(float(getattr(score, name)), 4)
    if name in score.interval:
        values["other_draws"] = [round(end, 4) for end in score.interval[name]]
    return values | {"self_score": round(score.self_score[name], 4)}
