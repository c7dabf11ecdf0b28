"""What two noisy measurements of the same systems say about their true values: draws that know both errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_CORRELATIONS = np.tanh(np.linspace(-2.6, 2.6, 27))  # of the true values; up to ±0.989
_SPREADS = np.array([0.35, 0.6, 0.8, 1.0, 1.25])  # of the true values, as shares of the observed spread


def draw_true_values(
    x: Floats, x_covariance: Floats, y: Floats, y_covariance: Floats, *, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """True values of both sides, (draws, n) each, from their distribution given the measurements and their errors.

    The true values of a system are a draw from a bivariate normal distribution whose mean, spreads and correlation are unknown
    (flat on a grid); the measurements add normal errors with the given covariances. Drawing each side by itself would put
    the errors in twice and pull all correlations towards 0.
    """
    n = len(x)
    sides = [_standardised(x, x_covariance), _standardised(y, y_covariance)]
    grid = np.array([(a, b, r) for a in _SPREADS for b in _SPREADS for r in _CORRELATIONS])  # (g, 3)
    both = np.concatenate([sides[0][0], sides[1][0]])
    noise = np.zeros((2 * n, 2 * n))
    noise[:n, :n], noise[n:, n:] = sides[0][1], sides[1][1]
    shift = np.kron(np.eye(2), np.full((n, n), 100.0))  # any mean, on either side
    kinds = np.stack(
        [np.stack([grid[:, 0] ** 2, grid.prod(axis=1)]), np.stack([grid.prod(axis=1), grid[:, 1] ** 2])]
    )  # (2, 2, g)
    prior = np.einsum("abg,ij->gaibj", kinds, np.eye(n)).reshape(len(grid), 2 * n, 2 * n) + shift
    factor = np.linalg.cholesky(prior + noise + 1e-9 * np.eye(2 * n))
    half = np.linalg.solve(factor, np.broadcast_to(both, (len(grid), 2 * n))[..., None])[..., 0]
    fit = -0.5 * (half**2).sum(axis=1) - np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    chance = np.exp(fit - fit.max())
    counts = rng.multinomial(draws, chance / chance.sum())
    parts = []
    for place in np.flatnonzero(counts):
        gain = np.linalg.solve(prior[place] + noise + 1e-9 * np.eye(2 * n), prior[place]).T
        # A draw of truth and errors, corrected by what the measurements say: exact, and works where an error is 0.
        truth = rng.standard_normal((counts[place], 2 * n)) @ np.linalg.cholesky(prior[place] + 1e-9 * np.eye(2 * n)).T
        errors = rng.standard_normal((counts[place], 2 * n)) @ _root(noise).T
        parts.append(truth + (both - truth - errors) @ gain.T)
    made = np.concatenate(parts)
    return made[:, :n], made[:, n:]


def _standardised(values: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    spread = float(values.std()) or 1.0
    return (values - values.mean()) / spread, covariance / spread**2


def _root(covariance: Floats) -> Floats:
    """A matrix whose product with its transpose is the covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
