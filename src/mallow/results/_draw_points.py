"""What is drawn of a score, and the points of its curves, for every kind of drawing."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mallow.results._estimate import Estimate
from mallow.theory import Array, Frontier

__all__ = ["Drawable", "band_outline", "cost_points", "exponentiated_points"]

_ENDS = 0.01  # raw costs are drawn for λ from here to 1 − this: nearer to the ends they may grow without bound


class Drawable(Protocol):
    """What is drawn of a score."""

    @property
    def mauve(self) -> float:
        """Area summary."""

    @property
    def interval(self) -> dict[str, tuple[float, float]]:
        """Where each summary of another draw would be; empty where that is not known."""

    @property
    def certified(self) -> dict[str, Estimate]:
        """What each summary is at most or at least; empty where nothing was certified."""

    @property
    def self_score(self) -> dict[str, float]:
        """What the reference scores against itself."""

    @property
    def frontier(self) -> Frontier:
        """Mean curve."""

    @property
    def certified_frontier(self) -> Frontier | None:
        """The certified curve."""

    @property
    def band(self) -> tuple[Frontier, Frontier] | None:
        """Least and greatest costs over the repeats."""

    @property
    def scale(self) -> float:
        """The constant c."""


def exponentiated_points(frontier: Frontier, scale: float) -> tuple[Array, Array]:
    """exp(−c·cost) of both costs, from (0, 1) to (1, 0)."""
    x = np.concatenate([[0.0], np.exp(-scale * frontier.p_to_mix), [1.0]])
    y = np.concatenate([[1.0], np.exp(-scale * frontier.q_to_mix), [0.0]])
    return x, y


def cost_points(frontier: Frontier) -> tuple[Array, Array]:
    """Both costs, for λ from 0.01 to 0.99."""
    inner = (frontier.lam >= _ENDS) & (frontier.lam <= 1.0 - _ENDS)
    return frontier.p_to_mix[inner], frontier.q_to_mix[inner]


def band_outline(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """The outline of the area between two curves: along the first, and back along the second."""
    return np.concatenate([first[0], second[0][::-1]]), np.concatenate([first[1], second[1][::-1]])
