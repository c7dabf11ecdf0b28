"""The probability that a study with this many votes finds a difference, by simulation."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from mallow.human._paired import make_design
from mallow.theory import Array


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """The effect of prompts and annotators on a study.

    Attributes
    ----------
    variance : float
        The variance that they add to each score, in squared log-odds.
    freedom : float
        Degrees of freedom of the errors that are estimated from them.
    factors : array (runs,)
        The ratio of the estimated to the true variance in each study.
    """

    variance: float
    freedom: float
    factors: Array


def share_reached(
    draws: NDArray[np.int64],
    count: int,
    compared: NDArray[np.int64],
    values: Array,
    tested: tuple[int, int] | None,
    level: float,
    shared: SharedNoise,
) -> float:
    """The share of simulated studies in which the goal is reached."""
    estimates, information = _fit(np.asarray(draws + 0.5, dtype=np.float64), count + 1.0, compared, len(values))
    if tested is None:
        order = np.argsort(values)
        return float(np.mean((np.diff(estimates[:, order], axis=1) > 0).all(axis=1)))
    first, second = tested
    direction = np.zeros(len(values))
    direction[first], direction[second] = 1.0, -1.0
    solved = np.linalg.solve(information, np.broadcast_to(direction[1:, None], (len(draws), len(values) - 1, 1)))
    single = np.einsum("i,ni->n", direction[1:], solved[..., 0])
    clustered = (single + 2.0 * shared.variance) * shared.factors
    reach = np.maximum(
        np.sqrt(clustered) * float(stdtrit(shared.freedom, 1.0 - level / 2.0)),
        np.sqrt(single) * -NormalDist().inv_cdf(level / 2.0),
    )
    return float(
        np.mean((estimates[:, first] - estimates[:, second]) * np.sign(values[first] - values[second]) > reach)
    )


def _fit(wins: Array, count: float, compared: NDArray[np.int64], size: int) -> tuple[Array, Array]:
    """Bradley–Terry scores of many studies at once by Newton's method, the first system at 0, and their information.

    `wins` (runs, pairs) are the wins of the first system of each pair, out of `count` votes each.
    """
    design = make_design(compared[:, 0], compared[:, 1], size).toarray()[:, 1:]  # (pairs, size - 1)
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
