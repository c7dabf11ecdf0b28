"""Ways to divide points into bins other than k-means: random centres, products, residuals, lattices, level sets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mallow._checks import positive, whole
from mallow._optional import optional
from mallow.errors import InputError
from mallow.estimate._features import Features
from mallow.estimate._kmeans import lloyd
from mallow.estimate._nearest import nearest_centres
from mallow.theory import KL_INTEGRAL, Array

Labels = NDArray[np.int64]

_ENTRIES = 1 << 22  # chosen: distances held at once, 32 MB
_BATCH = 256  # chosen: points in a step. The nearest of them serve as nearest neighbours
_RATE = 3e-3  # chosen: of Adam, with which 200 steps spread 10,000 points in 50 dimensions evenly
_LARGEST_SQUARE = {1: 1, 2: 200, 3: 100, 4: 50, 5: 16, 6: 9, 7: 4, 8: 4}  # chosen: squared norms tried, by dimension
_LEAST_CELLS, _MOST_CELLS = 256, 1024  # chosen: cuts are tried between this many cells
_NEAR_ZERO = 1e-6  # chosen: below any distance that matters on the unit sphere


class Quantiser(Protocol):
    """A way to divide points into bins, used instead of the k-means of `Quantize(method=None)`."""

    def fit(self, points: Features, times: Labels, bins: int, rng: np.random.Generator) -> Labels:
        """A number for each of the distinct points (g, d), equal in a bin, with at most `bins` different ones.

        `times` (g,) is how often each point occurs.
        """


def occupied_bins(points: Features, times: Labels, codes: Labels) -> tuple[Labels, Array]:
    """The bins of points with any codes: a label for each point, from 0, and the mean of each bin.

    Only codes that occur are bins, since smoothing would give mass to the others, equally on both sides.
    """
    _, labels = np.unique(codes, return_inverse=True)
    labels = labels.astype(np.int64)
    weight = np.bincount(labels, times)
    rows = points.astype(np.float64)
    return labels, np.stack([np.bincount(labels, times * column) / weight for column in rows.T], axis=1)


def nearest_of(points: Features, centres: Array) -> Labels:
    """The nearest centre of each point, the first of equals."""
    from scipy.spatial.distance import cdist

    step = max(1, _ENTRIES // len(centres))
    parts = [cdist(points[low : low + step], centres).argmin(axis=1) for low in range(0, len(points), step)]
    return np.concatenate(parts).astype(np.int64)


@dataclass(frozen=True)
class RandomCentres:
    """Bins around randomly drawn points of the samples. Any gain of k-means over this is due to its centres.

    Examples
    --------
    >>> from mallow import Quantize
    >>> x, y = np.random.default_rng(0).normal(size=(2, 200, 3))
    >>> Quantize(bins=10, method=RandomCentres())(x, y).p.shape
    (10,)
    """

    def fit(self, points: Features, times: Labels, bins: int, rng: np.random.Generator) -> Labels:
        """See `Quantiser.fit`."""
        drawn = rng.choice(len(points), size=min(bins, len(points)), replace=False, p=times / times.sum())
        centres = points[np.sort(drawn)].astype(np.float64)
        return nearest_of(points, centres)


@dataclass(frozen=True)
class Product:
    """Product quantisation: the axes in groups, k-means in each. A bin for each combination that occurs.

    With b bins in all, each of g groups has b^(1/g) clusters, at least 2; fewer groups are used if 2^g > b. Axes are
    assigned to the groups in turn, so that the groups have about the same variance where the axes are principal
    components.

    Parameters
    ----------
    groups : int
        The number of groups g; at most the number of axes.

    Examples
    --------
    >>> from mallow import Quantize
    >>> x, y = np.random.default_rng(0).normal(size=(2, 200, 4))
    >>> len(Quantize(bins=16, method=Product())(x, y).p)  # 4 × 4
    16
    """

    groups: int = 2

    def __post_init__(self) -> None:
        whole("groups", self.groups, least=1)

    def fit(self, points: Features, times: Labels, bins: int, rng: np.random.Generator) -> Labels:
        """See `Quantiser.fit`."""
        groups = _parts(bins, min(self.groups, points.shape[1]))
        bins_per_group = _root(bins, groups)
        number = np.zeros(len(points), np.int64)
        for first, child in zip(range(groups), rng.spawn(groups), strict=True):
            part = np.ascontiguousarray(points[:, first::groups])
            run = lloyd(part, bins_per_group, rng=child, weights=times, max_iter=40)
            number = number * bins_per_group + nearest_centres(part, run.centres, run.grid)
        return number


@dataclass(frozen=True)
class Residual:
    """Residual quantisation: k-means, then k-means of the residuals, and so on. A bin for each combination that occurs.

    Points are assigned as in a deep residual mixture model (DRMM, Hämäläinen and Solin, 2020), which the first MAUVE
    paper tried, but no mixture is fitted. There, 3 layers of 10 components are up to 1,000 bins. With b bins in all,
    each of l levels has b^(1/l) clusters, at least 2; fewer levels are used if 2^l > b.

    Parameters
    ----------
    levels : int
        l.

    Examples
    --------
    >>> from mallow import Quantize
    >>> x, y = np.random.default_rng(0).normal(size=(2, 200, 3))
    >>> len(Quantize(bins=27, method=Residual())(x, y).p) <= 27
    True
    """

    levels: int = 3

    def __post_init__(self) -> None:
        whole("levels", self.levels, least=1)

    def fit(self, points: Features, times: Labels, bins: int, rng: np.random.Generator) -> Labels:
        """See `Quantiser.fit`."""
        levels = _parts(bins, self.levels)
        bins_per_level = _root(bins, levels)
        number, rest = np.zeros(len(points), np.int64), points.astype(np.float64)
        for child in rng.spawn(levels):
            run = lloyd(rest, bins_per_level, rng=child, weights=times, max_iter=40)
            nearest = nearest_centres(rest, run.centres, run.grid)
            number, rest = number * bins_per_level + nearest, rest - run.centres[nearest]
        return number


@dataclass(frozen=True)
class LevelSets:
    """The oracle: bins of points at which the likelihood ratio P/Q is about the same (paper: thm:quant_error_fdiv).

    A partition that loses least of an f-divergence cuts the ratio into intervals. The cuts are those that lose least of
    the frontier integral of KL, by dynamic programming over narrow cells of the ratio (at least 4 per bin, up to 1,024)
    whose masses follow from the ratio, with samples of equal size. The level sets in the proof of the theorem, which
    only keep its bound, are `mallow.theory.bounds.oracle_partition`, for known masses. Both need the true ratio, so
    their use is to measure how far a real quantiser is from the optimum.

    Parameters
    ----------
    log_ratio : callable
        From points (n, d), after the reduction, to log p/q (n,). Pass ``Quantize(reduce=None, …)`` if it is known for
        features.

    Examples
    --------
    >>> from mallow import Quantize
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(500, 1)), rng.normal(1.0, 1.0, size=(500, 1))
    >>> Quantize(bins=10, reduce=None, method=LevelSets(lambda points: 0.5 - points[:, 0]))(x, y).p.shape
    (10,)
    """

    log_ratio: Callable[[Any], Any]

    def fit(self, points: Features, times: Labels, bins: int, rng: np.random.Generator) -> Labels:
        """See `Quantiser.fit`."""
        from scipy.special import expit

        level, place = np.unique(self._levels(points), return_inverse=True)
        share, weight = expit(level), np.bincount(place, times)  # p/(p + q); of the pooled samples
        p, q = weight * share, weight * (1 - share)
        cells = max(bins, min(_MOST_CELLS, max(_LEAST_CELLS, 4 * bins)))
        at = np.cumsum(weight) / weight.sum() + share  # rises with the level: narrow in mass and in share
        _, cell = np.unique(np.floor(at * cells / 2), return_inverse=True)
        in_cells = [np.bincount(cell, side) / (side.sum() or 1.0) for side in (p, q)]
        bins_of = _best_cuts(in_cells[0], in_cells[1], bins)
        return bins_of[cell][place]

    def _levels(self, points: Features) -> Any:
        level = np.asarray(self.log_ratio(points), np.float64)
        if level.shape != (len(points),) or np.isnan(level).any():
            raise InputError(
                f"`log_ratio` must return a number for each of {len(points)} points; got shape {level.shape}"
                f"{', with NaN' if np.isnan(level).any() else ''}."
            )
        return level


def _best_cuts(p: Array, q: Array, bins: int) -> Labels:
    """A bin for each cell (k,), made of neighbouring cells, so that the frontier integral is the largest possible."""
    low, high = (np.concatenate([[0.0], np.cumsum(side)]) for side in (p, q))
    width = [
        np.maximum(edge[None, :] - edge[:, None], 0.0) for edge in (low, high)
    ]  # of the cells from a row to a column
    value = np.where(np.tri(len(low), dtype=bool), -np.inf, KL_INTEGRAL.terms(*width))
    best, starts = value[0], []
    for _ in range(1, min(bins, len(p))):
        total = best[:, None] + value  # before the last bin, and inside it
        starts.append(total.argmax(axis=0))
        best = total.max(axis=0)
    edges = [len(p)]
    for start in reversed(starts):
        edges.append(int(start[edges[-1]]))
    return np.searchsorted(edges[:0:-1], np.arange(len(p)), side="right").astype(np.int64)


def _parts(bins: int, parts: int) -> int:
    """The largest number of parts, each with at least two clusters, that fits into the bins."""
    return max(1, min(parts, bins.bit_length() - 1))


def _root(bins: int, parts: int) -> int:
    """The largest number whose power does not exceed the bins."""
    root: int = max(1, round(float(bins) ** (1.0 / parts)))
    return root - 1 if root**parts > bins else root


@dataclass(frozen=True)
class Lattice:
    """Bins of a lattice on a sphere, over which a network has spread the points (Sablayrolles et al., 2019).

    A network with two hidden layers maps a point to the unit sphere. It is trained so that the points spread evenly
    over the sphere (the mean log distance to the nearest other point grows) while neighbours stay closer than others.
    The bins are the integer vectors of squared norm r². The r² is the one with the most vectors among those with at
    most as many vectors as requested bins; in 4 dimensions, r² = 50 has 744, as in the first MAUVE paper. A point
    belongs to the vector nearest to its image. Empty bins are left out.

    Needs torch. The training is ordinary floating-point arithmetic: different processors may give different bins.

    Parameters
    ----------
    dimension : int
        The dimension of the sphere's space, 2 to 8; half the number of bins if that is less.
    steps : int
        Steps of training. 0: the network keeps its random start.
    spread : float
        The weight of the spreading term. The paper of the method uses 0.01 to 0.1.
    hidden : int
        Width of the hidden layers.

    Examples
    --------
    >>> from mallow import Quantize
    >>> x, y = np.random.default_rng(0).normal(size=(2, 200, 6))
    >>> len(Quantize(bins=30, method=Lattice(steps=5))(x, y).p) <= 24  # vectors of squared norm 2 in 4 dimensions
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

    def fit(self, points: Features, times: Labels, bins: int, rng: np.random.Generator) -> Labels:
        """See `Quantiser.fit`."""
        torch = optional("torch", extra="text")
        middle, size = points.mean(axis=0, dtype=np.float64), max(float(np.abs(points).max()), 1e-300)
        spread = float(np.sqrt(np.mean((points / size - middle / size) ** 2))) or 1.0
        scaled = ((points / size - middle / size) / spread).astype(np.float32)
        dimension = min(self.dimension, max(1, bins // 2))  # 2·dimension vectors are the fewest
        network = self._train(torch, scaled, times, dimension, rng)
        with torch.inference_mode():
            image = network(torch.from_numpy(scaled)).numpy()
        nearest: Labels = (image @ lattice_vectors(dimension, bins).T.astype(np.float32)).argmax(axis=1)
        return nearest.astype(np.int64)

    def _train(self, torch: Any, points: Any, times: Labels, dimension: int, rng: np.random.Generator) -> Any:
        network = _Spreader(torch, points.shape[1], self.hidden, dimension, rng)
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
    """A network from points to the unit sphere. Its first weights are drawn by numpy, the same on every machine."""

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
    """The integer vectors of one squared norm, scaled to length 1: as many as possible, from 2·dimension to `bins`.

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
    chosen = 1 + int(np.where(counts <= bins, counts, 0).argmax())
    vectors: Array = grid[square == chosen] / math.sqrt(chosen)
    return vectors
