"""The Fréchet distance of features (FID of Inception features), its limit FD∞, and the saved moments of a reference."""

from __future__ import annotations

import math
import re
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mallow._checks import whole
from mallow._files import atomic_file, make_folder
from mallow._optional import did_you_mean
from mallow.baselines._points import ROWS, Doubles, as_generator, check_sample, thread_count
from mallow.engine import ordered_map, single_threaded_blas
from mallow.errors import Caveat, InputError, WithCaveats, warns
from mallow.estimate import Features
from mallow.samples import Limits, check_members

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, eq=False)
class Moments:
    """Size, mean and scatter of a sample, which the Fréchet distance is computed from. The moments of parts can be
    merged.

    Attributes
    ----------
    n : int
        The number of samples.
    mean : float64 array (d,)
    scatter : float64 array (d, d)
        Σ (x − mean)(x − mean)ᵀ over the sample.
    embedder : str or None
        The embedder of the features, if it is known. Distances between features of two embedders are refused.

    Examples
    --------
    >>> points = np.arange(12.0).reshape(6, 2) ** 2
    >>> streamed = Moments.of(points[:4]).merge(Moments.of(points[4:]))
    >>> bool(np.allclose(streamed.covariance, np.cov(points.T)))
    True
    """

    n: int
    mean: Doubles
    scatter: Doubles
    embedder: str | None = None

    def __post_init__(self) -> None:
        whole("n", self.n, least=1)
        if self.mean.ndim != 1 or self.scatter.shape != (len(self.mean), len(self.mean)):
            raise InputError(
                f"`mean` and `scatter` must have shapes (d,) and (d, d); got {self.mean.shape} and "
                f"{self.scatter.shape}."
            )
        if not (np.isfinite(self.mean).all() and np.isfinite(self.scatter).all()):
            raise InputError("`mean` and `scatter` must be finite; got NaN or infinite entries.")

    @classmethod
    def of(cls, points: Any) -> Moments:
        """The moments of points (n, d). A single row is allowed, since it may be the last part of a stream."""
        array = np.asarray(points)
        if array.ndim == 2 and len(array) == 1:
            return _moments(check_sample("points", np.repeat(array, 2, axis=0))[:1])
        return _moments(check_sample("points", array))

    def merge(self, other: Moments) -> Moments:
        """The moments of the two samples taken together."""
        if len(self.mean) != len(other.mean):
            raise InputError(
                f"`other` must have features of the same width, {len(self.mean)}; got {len(other.mean)}. "
                "Were they embedded by the same model?"
            )
        n, shift = self.n + other.n, other.mean - self.mean
        scatter = self.scatter + other.scatter + (self.n * other.n / n) * np.outer(shift, shift)
        embedder = self.embedder if self.embedder == other.embedder else None
        return Moments(n, self.mean + (other.n / n) * shift, scatter, embedder)

    @property
    def covariance(self) -> Doubles:
        """The unbiased covariance (d, d), divided by n − 1."""
        if self.n < 2:
            raise InputError(f"A covariance needs at least 2 samples; got {self.n}.")
        return self.scatter / (self.n - 1)


@warns
def frechet_distance(reference: Any, model: Any) -> WithCaveats[float]:
    """The Fréchet distance ‖μ − μ′‖² + tr(Σ + Σ′ − 2(ΣΣ′)^½) of the Gaussians with the moments of both samples.

    This is the *square* of their 2-Wasserstein distance, as usual (paper: optimal transport, Fréchet; Heusel et al.
    2017), with the unbiased covariances. 0 = the same mean and covariance. There is no upper limit, and the distance
    grows with the square of the unit of the features.

    tr (ΣΣ′)^½ is computed as the sum of the singular values of A A′ᵀ, where Σ = AᵀA. It is therefore a real number
    for every sample, whereas the matrix root of the product may be complex or may fail. With fewer samples than
    features the root A is the centred sample itself, so that no d × d matrix is needed. If all columns vary,
    ``scipy.linalg.sqrtm`` gives the same result (real part) up to rounding. Features without variance enter through
    the means only: two constant samples have the distance ‖μ − μ′‖².

    Known failure: the distance of two samples is larger than the distance of their distributions, and the fewer
    samples, the larger. With no more samples than features, there is an `EstimateWarning`. Only compare distances of
    samples of the same size.

    Parameters
    ----------
    reference : array (n, d) or Moments
        The features of at least 2 real samples, or their moments.
    model : array (n, d) or Moments
        The features of at least 2 samples of the model, or their moments.

    Examples
    --------
    >>> x, y = np.array([[0.0], [2.0], [4.0]]), np.array([[1.0], [2.0], [3.0]])  # means 2 and 2, deviations 2 and 1
    >>> frechet_distance(x, y)
    1.0
    """
    x, y = (
        sample if isinstance(sample, Moments) else check_sample(name, sample)
        for name, sample in (("reference", reference), ("model", model))
    )
    caveats = _check_sizes(x, y)
    with single_threaded_blas():  # the same bits on any number of processors
        mean_x, root_x = _mean_and_root(x)
        mean_y, root_y = _mean_and_root(y)
        shared = np.linalg.svd(root_x @ root_y.T, compute_uv=False)
    spread = float((root_x**2).sum()) + float((root_y**2).sum())
    distance = float(((mean_x - mean_y) ** 2).sum()) + spread - 2.0 * float(shared.sum())
    return WithCaveats(max(distance, 0.0), caveats)


def _check_sizes(x: Moments | Features, y: Moments | Features) -> tuple[Caveat, ...]:
    """Refuse samples that are too small or of different widths. A caveat if they are few for their width."""
    sizes = [side.n if isinstance(side, Moments) else len(side) for side in (x, y)]
    widths = [len(side.mean) if isinstance(side, Moments) else side.shape[1] for side in (x, y)]
    for name, size in zip(("reference", "model"), sizes, strict=True):
        if size < 2:
            raise InputError(f"`{name}` must hold at least 2 samples; got {size}. Aim for 1,000 or more.")
    if widths[0] != widths[1]:
        raise InputError(
            f"`reference` and `model` must have features of the same width; got {widths[0]} and {widths[1]}. "
            "Were they embedded by the same model?"
        )
    if min(sizes) > widths[0]:
        return ()
    text = (
        f"{min(sizes)} samples of {widths[0]} features have a singular covariance: the Fréchet distance is much larger "
        "than the distance of the distributions. Only compare samples of the same size, or use more samples."
    )
    return (Caveat("singular covariance", text, values={"samples": min(sizes), "width": widths[0]}),)


def _mean_and_root(sample: Moments | Features) -> tuple[Doubles, Doubles]:
    """The mean (d,) and a root A (r, d) of the covariance AᵀA, with r = min(n, d)."""
    if not isinstance(sample, Moments):
        if len(sample) < sample.shape[1]:
            mean = sample.mean(axis=0, dtype=np.float64)
            return mean, (sample - mean) / math.sqrt(len(sample) - 1)
        sample = _moments(sample)
    values, vectors = np.linalg.eigh(sample.covariance)
    values[: max(0, len(values) - sample.n + 1)] = 0.0  # n points span n − 1 axes, and the rest is rounding
    return sample.mean, np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


def _moments(points: Features) -> Moments:
    """In float64 for features of any type: a root doubles the digits that an inexact covariance loses."""
    mean = points.mean(axis=0, dtype=np.float64)

    def block_sums(start: int) -> tuple[Doubles, Doubles]:
        centred = points[start : start + ROWS] - mean
        return centred.sum(axis=0), centred.T @ centred

    rest, scatter = np.zeros_like(mean), np.zeros((len(mean), len(mean)))
    with single_threaded_blas():
        for total, product in ordered_map(block_sums, range(0, len(points), ROWS), thread_count(), ahead=1):
            rest += total
            scatter += product
    scatter -= np.outer(rest, rest) / len(points)  # corrects for the rounding of the mean
    return Moments(len(points), mean + rest / len(points), scatter)


@warns
def frechet_limit(
    reference: Any,
    model: Any,
    *,
    sizes: int = 15,
    smallest: int | None = None,
    rng: int | np.random.Generator | None = 0,
) -> WithCaveats[float]:
    """FD∞, the Fréchet distance extrapolated to unlimited samples (Chong and Forsyth 2020).

    The distance of n samples exceeds the distance of the distributions by about a constant times 1/n. It is
    therefore computed for several n, and a straight line in 1/n gives its value at 1/n = 0. If the reference is
    given as `Moments`, as published, only the number of the model's samples is varied, and the bias of the reference
    remains. If it is given as samples, both numbers are varied. 0 = equal. The value may be slightly negative for
    equal distributions. It is not clipped.

    Known failure: with fewer samples than features the distance does not follow a line, and there is an
    `EstimateWarning`.

    Parameters
    ----------
    reference : array (n, d) or Moments
    model : array (m, d)
    sizes : int
        How many sample sizes, equally spaced; 15 as published.
    smallest : int or None
        The smallest of them; None means a quarter of the smaller sample. Published: 5,000 of 50,000.
    rng : int, numpy.random.Generator or None
        For the choice of the subsets.

    Examples
    --------
    >>> x, y = np.random.default_rng(0).normal(size=(2, 400, 8))
    >>> from mallow.baselines import frechet_distance
    >>> frechet_distance(x, y) > 5 * abs(frechet_limit(x, y))
    True
    """
    whole("sizes", sizes, least=2)
    x = reference if isinstance(reference, Moments) else check_sample("reference", reference)
    y = check_sample("model", model)
    most = len(y) if isinstance(x, Moments) else min(len(x), len(y))
    least = whole("smallest", max(2, most // 4) if smallest is None else smallest, least=2)
    if least >= most:
        raise InputError(f"`smallest` must be less than the size of the smaller sample, {most}; got {least}.")
    counts = np.unique(np.linspace(least, most, sizes).astype(int))
    generator, distances = as_generator(rng), []
    caveats: tuple[Caveat, ...] = ()
    for count in counts:
        part = y[generator.choice(len(y), count, replace=False)]
        real = x if isinstance(x, Moments) else x[generator.choice(len(x), count, replace=False)]
        distance, doubts = frechet_distance.quiet(real, part)
        distances.append(distance)
        given = f"FD∞ draws parts of {most} samples, and in the smallest part "
        caveats = caveats or tuple(replace(doubt, message=given + doubt.message) for doubt in doubts)
    slope_and_limit = np.polyfit(1.0 / counts, distances, 1)
    return WithCaveats(float(slope_and_limit[1]), caveats)


def save_statistics(moments: Moments, name: str) -> Path:
    """Write moments to a file that other tools read too, and return its path.

    The file is a .npz with the arrays ``mu`` and ``sigma`` (divided by n − 1), as pytorch-fid and clean-fid write
    and read them, and also with ``n`` and ``embedder``.

    Parameters
    ----------
    moments : Moments
        The moments of at least two samples.
    name : str
        A name, under which `load_statistics` and the command line find it again in the user's data folder; or a path
        that ends in .npz.
    """
    path = _path_of(name)
    arrays = {"mu": moments.mean, "sigma": moments.covariance, "n": np.array(moments.n)}
    if moments.embedder is not None:
        arrays["embedder"] = np.array(moments.embedder)
    make_folder(path.parent)
    with atomic_file(path) as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]
    return path


def load_statistics(name: str) -> Moments:
    """The moments that were saved under a name, or that are in a .npz file of a published tool.

    Files of other tools do not contain the number of samples. `Moments.n` is then the number of features plus one,
    so that the covariance is assumed to have full rank.
    """
    path = find_statistics(name)
    if path is None:
        names = sorted(file.stem for file in _folder().glob("*.npz")) if _folder().is_dir() else []
        listed = f"those that are saved: {', '.join(names)}" if names else "none are saved"
        raise InputError(f"there are no statistics {name!r}; {listed}.{did_you_mean(name, names)}")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            wanted = [key for key in ("mu", "sigma", "n", "embedder") if key in arrays]
            check_members(arrays.zip, wanted, str(path), Limits())
            mean, covariance = (np.asarray(arrays[key], np.float64) for key in ("mu", "sigma"))
            n = int(arrays["n"]) if "n" in arrays else mean.size + 1
            embedder = str(arrays["embedder"]) if "embedder" in arrays else None
        return Moments(n, mean, covariance * (n - 1), embedder)
    except Exception as error:  # numpy and zipfile may raise anything for a damaged file
        raise InputError(
            f"{path}: must be a .npz file with the arrays mu and sigma: {str(error).rstrip('.')}."
        ) from error


def find_statistics(name: str) -> Path | None:
    """The file of statistics of this name or path; None if there is none, or if it holds something else."""
    path = Path(name).expanduser() if _is_path(name) else None
    if path is None:
        saved = _folder() / f"{name}.npz"
        return saved if _NAME.fullmatch(name) and saved.is_file() and not Path(name).exists() else None
    if not path.is_file():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            return path if {"mu.npy", "sigma.npy"} <= set(archive.namelist()) else None
    except Exception:  # zipfile may raise anything for a damaged archive
        return None


def _path_of(name: str) -> Path:
    if _is_path(name) and not name.endswith(".npz"):
        raise InputError(f"the statistics must go to a file that ends in .npz, or have a plain name; got {name!r}.")
    if not (_is_path(name) or _NAME.fullmatch(name)):
        raise InputError(f"the name of statistics must consist of letters, digits, dots and hyphens; got {name!r}.")
    return Path(name).expanduser() if _is_path(name) else _folder() / f"{name}.npz"


def _is_path(name: str) -> bool:
    return name.endswith(".npz") or "/" in name or "\\" in name


def _folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir("mallow", appauthor=False)) / "statistics"
