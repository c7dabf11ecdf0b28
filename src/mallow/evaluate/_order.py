"""The order of systems by significant differences: winners, ranks, groups, and the sentences about them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from mallow.results import join_names


class SystemPair(ABC):
    """The common part of differences between two systems, `first` minus `second`."""

    first: str
    second: str

    @property
    def systems(self) -> frozenset[str]:
        """Both names."""
        return frozenset((self.first, self.second))

    @property
    @abstractmethod
    def significant(self) -> bool:
        """Whether it is significant after correction."""

    @property
    @abstractmethod
    def better(self) -> str | None:
        """The name of the better system."""


class OrderedSystems:
    """The common part of results about ordered systems: `scores`, best first, `differences` and `ranks`."""

    scores: Mapping[str, Any]
    differences: tuple[Any, ...]
    ranks: Mapping[str, tuple[int, int]]

    @property
    def winner(self) -> str | None:
        """The system that is significantly better than all others; None if there is none."""
        first = next(iter(self.scores))
        return first if len(self.scores) > 1 and self.ranks.get(first) == (1, 1) else None

    @property
    def best(self) -> tuple[str, ...]:
        """The first system, and the systems that do not differ from it significantly."""
        return self._tied_with(next(iter(self.scores)))

    @property
    def last(self) -> str | None:
        """The system that is significantly worse than all others; None if there is none."""
        *_, name = self.scores
        count = len(self.scores)
        return name if count > 1 and self.ranks.get(name) == (count, count) else None

    @property
    def worst(self) -> tuple[str, ...]:
        """The last system, after the systems that do not differ from it significantly."""
        return self._tied_with(list(self.scores)[-1])

    def _tied_with(self, name: str) -> tuple[str, ...]:
        apart = {pair.systems for pair in self.differences if pair.significant}
        return tuple(other for other in self.scores if frozenset((name, other)) not in apart)

    def _rank_text(self, name: str) -> str:
        """The ranks that a system may have; "" if they are not known."""
        best, worst = self.ranks.get(name, (0, 0))
        return "" if not best else f"{best}" if best == worst else f"{best} to {worst}"

    def _order_sentences(self, best: str, others: str, last: str) -> str:
        """The winner, or the systems that may be first, and the last, in the words of the result."""
        level = "(5% level, corrected for all pairs)"
        if self.winner is not None:
            text = f"{best}: {self.winner}. Every other system has {others} {level}."
        else:
            noun = best.split(" ", 1)[1]
            alike = f"no difference was shown between the {noun}s of {join_names(self.best)}"
            text = f"There is no clear winner: {alike} {level}."
        if len(self.scores) == 2:
            return text
        if self.last is not None:
            return f"{text} {last}: {self.last}."
        if not set(self.best) & set(self.worst):
            return f"{text} {last}s: {join_names(self.worst)}, which were not shown to differ."
        return text


def rank_systems(
    order: Sequence[str], differences: Sequence[SystemPair]
) -> tuple[dict[str, tuple[int, int]], tuple[tuple[str, ...], ...]]:
    """Rank ranges, and the largest sets of neighbours in which no two differ significantly.

    Both are empty without differences.
    """
    if not differences and len(order) > 1:
        return {}, ()
    significant = [pair for pair in differences if pair.significant]
    apart = {pair.systems for pair in significant}
    ranks = {}
    for name in order:
        mine = [pair for pair in significant if name in pair.systems]
        beaten_by = sum(pair.better != name for pair in mine)
        ranks[name] = (1 + beaten_by, len(order) - (len(mine) - beaten_by))
    groups: list[tuple[str, ...]] = []
    for i in range(len(order)):
        group = [order[i]]
        for other in order[i + 1 :]:
            if all(frozenset((name, other)) not in apart for name in group):
                group.append(other)
        if not any(set(group) <= set(earlier) for earlier in groups):
            groups.append(tuple(group))
    return ranks, tuple(groups)
