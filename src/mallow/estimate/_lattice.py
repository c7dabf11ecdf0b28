"""Lattice quantisation with spreading vectors: a small network spreads the points over a sphere, a lattice divides it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mallow._checks import positive, whole
from mallow._optional import optional
from mallow.errors import InputError
from mallow.estimate._cells import Cells, Labels, occupied_cells
from mallow.estimate._features import Features
from mallow.theory import Array

_BATCH = 256  # chosen: points in a step; the nearest of them stand for nearest neighbours
_RATE = 3e-3  # chosen: of Adam, with which 200 steps spread 10,000 points in 50 dimensions evenly
_LARGEST_SQUARE = {2: 200, 3: 100, 4: 50, 5: 16, 6: 9, 7: 4, 8: 4}  # chosen: squared norms tried, by dimension
_NEAR_ZERO = 1e-6  # chosen: below any distance that matters on the unit sphere


@dataclass(frozen=True)
class Lattice:
    """Bins of a lattice on a sphere, over which a network has spread the points (Sablayrolles et al., 2019).

    A network with two hidden layers maps a point to the unit sphere. It is trained so that the points spread evenly over the
    sphere (the mean log distance to the nearest other point grows) while neighbours stay closer than others. The bins are the
    integer vectors of squared norm r², with the r² whose number of vectors is the largest that is at most the number of
    bins asked for; in 4 dimensions, r² = 50 has 744, as in the first MAUVE paper. A point belongs to the vector
    nearest to its image. Bins that no point falls into are left out.

    Needs torch. The training is ordinary floating-point arithmetic: another processor may give other bins.

    Parameters
    ----------
    dimension : int
        Of the sphere's space, 2 to 8.
    steps : int
        Of training. 0: the network as it starts, random.
    spread : float
        The weight of the spreading term. The paper of the method has 0.01 to 0.1.
    hidden : int
        Width of the hidden layers.

    Examples
    --------
    >>> from mallow import Quantize
    >>> x, y = np.random.default_rng(0).normal(size=(2, 200, 6))
    >>> len(Quantize(bins=30, method=Lattice(steps=5))(x, y).p) <= 24  # integer vectors of squared norm 2 in 4 dimensions
    True
    """

    dimension: int = 4
    steps: int = 200
    spread: float = 0.05
    hidden: int = 128

    def __post_init__(self) -> None:
        if whole("dimension", self.dimension, least=2) > max(_LARGEST_SQUARE):
            raise InputError(f"`dimension` must be at most {max(_LARGEST_SQUARE)}; got {self.dimension}. Usual is 4.")
        whole("steps", self.steps, least=0)
        whole("hidden", self.hidden, least=1)
        positive("spread", self.spread)

    def fit(self, points: Features, times: Labels, bins: int, rng: np.random.Generator) -> Cells:
        """See `Quantiser.fit`."""
        torch = optional("torch", extra="text")
        middle, size = points.mean(axis=0, dtype=np.float64), max(float(np.abs(points).max()), 1e-300)
        spread = float(np.sqrt(np.mean((points / size - middle / size) ** 2))) or 1.0
        network = self._train(torch, self._scaled(points, middle, size, spread), times, rng)
        vectors = lattice_vectors(self.dimension, bins)

        def code(rows: Features) -> Labels:
            with torch.inference_mode():
                image = network(torch.from_numpy(self._scaled(rows, middle, size, spread))).numpy()
            nearest: Labels = (image @ vectors.T.astype(np.float32)).argmax(axis=1).astype(np.int64)
            return nearest

        return occupied_cells(points, times, code)

    def _scaled(self, points: Features, middle: Array, size: float, spread: float) -> Any:
        return ((points / size - middle / size) / spread).astype(np.float32)

    def _train(self, torch: Any, points: Any, times: Labels, rng: np.random.Generator) -> Any:
        network = _Spreader(torch, points.shape[1], self.hidden, self.dimension, rng)
        optimiser = torch.optim.Adam(network.weights, lr=_RATE)
        share = times / times.sum()
        for _ in range(self.steps if len(points) > 2 else 0):
            rows = rng.choice(len(points), size=min(_BATCH, len(points)), replace=False, p=share)
            source = torch.from_numpy(points[rows])
            image = network(source)
            with torch.no_grad():
                apart = torch.cdist(source, source)
                apart.fill_diagonal_(torch.inf)
                friend = apart.argmin(dim=1)
            other = torch.from_numpy(rng.permutation(len(rows)))
            gaps = torch.cdist(image, image) + torch.diag(torch.full((len(rows),), torch.inf))
            spreading = -torch.log(gaps.min(dim=1).values + _NEAR_ZERO).mean()
            ranking = torch.relu((image - image[friend]).norm(dim=1) - (image - image[other]).norm(dim=1)).mean()
            optimiser.zero_grad()
            (ranking + self.spread * spreading).backward()
            optimiser.step()
        return network


class _Spreader:
    """A network from points to the unit sphere; its first weights are drawn by numpy, the same on every machine."""

    def __init__(self, torch: Any, width: int, hidden: int, dimension: int, rng: np.random.Generator) -> None:
        self.torch = torch
        self.weights = []
        for rows, columns in ((width, hidden), (hidden, hidden), (hidden, dimension)):
            drawn = rng.normal(0.0, np.sqrt(2.0 / rows), size=(rows, columns)).astype(np.float32)
            self.weights += [torch.tensor(drawn, requires_grad=True), torch.zeros(columns, requires_grad=True)]

    def __call__(self, points: Any) -> Any:
        a, a0, b, b0, c, c0 = self.weights
        hidden = self.torch.relu(self.torch.relu(points @ a + a0) @ b + b0)
        return self.torch.nn.functional.normalize(hidden @ c + c0, dim=1)


def lattice_vectors(dimension: int, bins: int) -> Array:
    """The integer vectors of one squared norm, scaled to length 1: as many as possible, at most `bins`; at least 2·dimension.

    Examples
    --------
    >>> [len(lattice_vectors(4, bins)) for bins in (24, 100, 744)]
    [24, 96, 744]
    """
    most = _LARGEST_SQUARE[dimension]
    side = np.arange(-math.isqrt(most), math.isqrt(most) + 1)
    grid = np.stack(np.meshgrid(*[side] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    square = (grid**2).sum(axis=1)
    counts = np.bincount(square, minlength=most + 1)[1 : most + 1]
    chosen = 1 + int(np.where(counts <= bins, counts, 0).argmax()) if counts.min() <= bins else 1
    vectors: Array = grid[square == chosen] / math.sqrt(chosen)
    return vectors
