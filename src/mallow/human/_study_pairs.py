"""The number of comparisons of each pair: equal for all, a star around the reference, or D-optimal for a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.errors import InputError
from mallow.human._paired import SCALE, make_design

_MOST_EXCHANGES = 1000  # chosen: the greedy start needs a handful

Counts = dict[tuple[str, str], int]
Array = NDArray[np.float64]


class PairScheme(Protocol):
    """A scheme for the number of comparisons of each pair of systems."""

    def __call__(self, systems: Sequence[str]) -> Counts:
        """The number of comparisons of each pair, in the order of `systems`, whose first is the reference."""


@dataclass(frozen=True)
class AllPairs:
    """Every pair of systems equally often, including the reference.

    Published: 90 comparisons of each of 36 pairs (paper: sec:a:human-eval:datasheet).

    Examples
    --------
    >>> AllPairs(90)(["human", "small", "large"])
    {('human', 'small'): 90, ('human', 'large'): 90, ('small', 'large'): 90}
    """

    per_pair: int = 90

    def __post_init__(self) -> None:
        whole("per_pair", self.per_pair, least=1)

    def __call__(self, systems: Sequence[str]) -> Counts:
        """`per_pair` comparisons of each pair."""
        return dict.fromkeys(combinations(systems, 2), self.per_pair)


@dataclass(frozen=True)
class Star:
    """Every system only against the reference: fewer votes, but less certain differences between systems.

    Examples
    --------
    >>> Star(90)(["human", "small", "large"])
    {('human', 'small'): 90, ('human', 'large'): 90}
    """

    per_pair: int = 90

    def __post_init__(self) -> None:
        whole("per_pair", self.per_pair, least=1)

    def __call__(self, systems: Sequence[str]) -> Counts:
        """`per_pair` comparisons of the first system with each other system."""
        return {(systems[0], other): self.per_pair for other in systems[1:]}


@dataclass(frozen=True)
class DOptimal:
    """The comparisons that make Bradley–Terry scores most certain for a budget of votes.

    It maximises the determinant of the information matrix, the Laplacian of the graph of comparisons in which a
    comparison of i and j has the weight p(1-p), where p is the probability that i wins, so comparisons with a nearly
    certain outcome contribute little. Comparisons are added one by one to the pair for which the determinant grows
    most. Then single comparisons are moved as long as it grows. Without `scores` all systems count as equally good, and
    the optimum compares all pairs equally often, as far as the budget allows.

    Attributes
    ----------
    budget : int
        Comparisons in all; at least the number of systems minus one, since otherwise some could not be ranked.
    scores : dict
        Expected scores of the systems, from a pilot or a guess, on the paper's scale of 100. Missing systems count as
        0.

    Examples
    --------
    >>> DOptimal(6)(["human", "small", "large"])
    {('human', 'small'): 2, ('human', 'large'): 2, ('small', 'large'): 2}
    >>> DOptimal(90, {"human": 300.0, "small": -300.0})(["human", "small", "large"])
    {('human', 'large'): 45, ('small', 'large'): 45}
    """

    budget: int
    scores: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole("budget", self.budget, least=1)

    def __call__(self, systems: Sequence[str]) -> Counts:
        """Comparisons of each pair, `budget` in all; pairs without any are left out."""
        unknown = set(self.scores) - set(systems)
        if unknown:
            raise InputError(
                f"`scores` must name systems of the study ({', '.join(systems)}); got {', '.join(sorted(unknown))}."
            )
        if self.budget < len(systems) - 1:
            raise InputError(
                f"`budget` must be at least {len(systems) - 1} comparisons to connect {len(systems)} systems; got "
                f"{self.budget}."
            )
        strengths = np.array([self.scores.get(name, 0.0) for name in systems]) / SCALE
        first, second = np.array(list(combinations(range(len(systems)), 2))).T
        win = 1.0 / (1.0 + np.exp(-(strengths[first] - strengths[second])))
        weights = np.maximum(win * (1.0 - win), 1e-12)
        # The score of the first system is fixed.
        edges = make_design(first, second, len(systems)).toarray()[:, 1:] * np.sqrt(weights)[:, None]
        counts = _exchange(_grow(edges, self.budget), edges)
        return {pair: int(count) for pair, count in zip(combinations(systems, 2), counts, strict=True) if count}


def _grow(edges: Array, budget: int) -> NDArray[np.int64]:
    """Comparisons added one by one, each where the log-determinant, log(1 + weight · resistance), grows most.

    The effective resistance between the ends of an edge measures the uncertainty of the difference of the two scores.
    """
    counts = np.zeros(len(edges), dtype=np.int64)
    inverse = np.linalg.inv(1e-6 * edges.T @ edges)  # a little of each pair, so that the start is not singular
    for _ in range(budget):
        gains = (edges @ inverse * edges).sum(axis=1)
        best = int(np.flatnonzero(gains >= gains.max() * (1 - 1e-9))[0])
        counts[best] += 1
        image = inverse @ edges[best]
        inverse = inverse - np.outer(image, image) / (1.0 + edges[best] @ image)
    return counts


def _exchange(counts: NDArray[np.int64], edges: Array) -> NDArray[np.int64]:
    """Comparisons, moved between pairs as long as the determinant grows (Fedorov's exchange)."""
    counts = counts.copy()
    for _ in range(_MOST_EXCHANGES):
        gram = edges @ np.linalg.solve(edges.T @ (counts[:, None] * edges), edges.T)
        gains = np.diagonal(gram)
        # The determinant of A - e eᵀ + f fᵀ, divided by the determinant of A, for each e that is taken away and each f
        # that is added.
        ratio = np.where(counts[:, None] > 0, (1.0 - gains[:, None]) * (1.0 + gains[None, :]) + gram**2, 0.0)
        taken, added = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
        if ratio[taken, added] <= 1.0 + 1e-9:
            break
        counts[taken] -= 1
        counts[added] += 1
    return counts


def orient(counts: Counts, rng: np.random.Generator) -> dict[tuple[str, str], list[bool]]:
    """For each comparison of each pair, whether its first system is on the left, in random order.

    Each pair is balanced to within one comparison, and so is each system over all its pairs. The odd comparisons, one
    per pair, are edges of a graph whose Eulerian walks enter each system as often as they leave it.

    Examples
    --------
    >>> sides = orient({("a", "b"): 3, ("b", "c"): 3, ("a", "c"): 3}, np.random.default_rng(0))
    >>> sorted(sum(left) for left in sides.values())
    [1, 1, 2]
    """
    odd = _eulerian([pair for pair, count in counts.items() if count % 2])
    sides = {}
    for pair, count in counts.items():
        left = [True, False] * (count // 2) + ([pair in odd] if count % 2 else [])
        sides[pair] = [left[place] for place in rng.permutation(count)]
    return sides


def _eulerian(edges: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """The edges that are walked forwards in a walk which enters each node as often as it leaves it, to within one."""
    around: dict[str, list[tuple[str, str]]] = {}
    for edge in edges:
        for node in edge:
            around.setdefault(node, []).append(edge)
    extra = [(node, "") for node in around if len(around[node]) % 2]  # "": a node that makes all degrees even
    for edge in extra:
        for node in edge:
            around.setdefault(node, []).append(edge)
    forwards, walked = set(), set()
    for start in around:
        node = start
        while around[node]:
            edge = around[node].pop()
            if edge in walked:
                continue
            walked.add(edge)
            if edge[0] == node:
                forwards.add(edge)
            node = edge[1] if edge[0] == node else edge[0]
    return forwards
