"""Many simulated studies at once: Bradley–Terry fits, and how often they reach a goal."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def share_reached(
    draws: NDArray[np.int64],
    count: int,
    compared: NDArray[np.int64],
    values: Array,
    tested: tuple[int, int] | None,
    level: float,
) -> float:
    """In which share of the simulated studies the goal is reached."""
    estimates, information = _fit(np.asarray(draws + 0.5, dtype=np.float64), count + 1.0, compared, len(values))
    if tested is None:
        order = np.argsort(values)
        return float(np.mean((np.diff(estimates[:, order], axis=1) > 0).all(axis=1)))
    first, second = tested
    direction = np.zeros(len(values))
    direction[first], direction[second] = 1.0, -1.0
    variance = np.linalg.solve(information, np.broadcast_to(direction[1:, None], (len(draws), len(values) - 1, 1)))
    error = np.sqrt(np.einsum("i,ni->n", direction[1:], variance[..., 0]))
    z = (estimates[:, first] - estimates[:, second]) / error * np.sign(values[first] - values[second])
    return float(np.mean(z > -NormalDist().inv_cdf(level / 2.0)))


def _fit(wins: Array, count: float, compared: NDArray[np.int64], size: int) -> tuple[Array, Array]:
    """Bradley–Terry scores of many studies at once by Newton's method, the first system at 0, and their information.

    `wins` (runs, pairs) are those of the first system of each pair, of `count` votes each.
    """
    signs = np.zeros((len(compared), size))
    signs[np.arange(len(compared)), compared[:, 0]] = 1.0
    signs[np.arange(len(compared)), compared[:, 1]] = -1.0
    design = signs[:, 1:]  # (pairs, size - 1)
    estimates = np.zeros((len(wins), size - 1))
    for _ in range(25):
        chance = 1.0 / (1.0 + np.exp(-(estimates @ design.T)))
        gradient = (wins - count * chance) @ design
        information = np.einsum("pi,np,pj->nij", design, count * chance * (1.0 - chance), design, optimize=True)
        step = np.linalg.solve(information, gradient[..., None])[..., 0]
        estimates += np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-6:
            break
    return np.concatenate([np.zeros((len(wins), 1)), estimates], axis=1), np.asarray(information)
