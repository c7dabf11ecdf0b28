"""ψ-sampling: samples of a two-stage generator whose embeddings are moved towards their mean, or away from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.errors import InputError

Stage = Callable[[NDArray[np.float32]], Any]

_DRAWS = 10_000  # chosen: the error of the mean embedding is a hundredth of its spread


def psi_samples(
    mapping: Stage,
    synthesis: Stage,
    psi: float,
    count: int,
    *,
    latent: int,
    mean: Any = None,
    batch: int = 1000,
    rng: int | np.random.Generator | None = 0,
) -> NDArray[Any]:
    """Samples s(w* + ψ(h(z) − w*)) of a generator s ∘ h: z ~ N(0, I), w* the mean of h(z) (paper: sec:expt:vision).

    ψ = 1 is the generator itself. Below 1 the embeddings are contracted towards their mean, which gives likelier, less
    varied samples; at 0 all are s(w*). Above 1 they are spread out, which gives more varied samples of lower quality.
    The truncation of a GAN is the case in which w is its intermediate space.

    Parameters
    ----------
    mapping : callable
        h, from latent variables (b, latent) in float32 to embeddings (b, …). For a generator of one stage, ``lambda z:
        z``.
    synthesis : callable
        s, from embeddings in float32 to samples (b, …), such as images.
    psi : float
        ψ, at least 0.
    count : int
        The number of samples.
    latent : int
        The width of z.
    mean : array or None
        w*, if it is known. None: the mean over 10,000 draws (`mean_embedding`). Keep it for several ψ.
    batch : int
        Samples made at once.
    rng : int, numpy Generator or None
        The same seed gives the same z for every ψ, whatever the batch.

    Examples
    --------
    >>> for psi in (0.0, 0.5, 1.0):
    ...     samples = psi_samples(lambda z: z + 3.0, lambda w: 10.0 * w, psi, 2, latent=1, mean=3.0)
    ...     print(samples.round(1).ravel().tolist())
    [30.0, 30.0]
    [30.6, 29.3]
    [31.3, 28.7]
    """
    if not (isinstance(psi, (int, float, np.integer, np.floating)) and 0 <= psi < np.inf):
        raise InputError(f"`psi` must be a finite number of at least 0; got {psi!r}.")
    count, batch, latent = (
        whole(name, value, least=1) for name, value in (("count", count), ("batch", batch), ("latent", latent))
    )
    rng = np.random.default_rng(rng)
    middle = mean_embedding(mapping, latent=latent, batch=batch, rng=rng.spawn(1)[0]) if mean is None else mean
    middle = np.asarray(middle, np.float32)
    made = []
    for embedded in _embeddings(mapping, count, batch, latent, rng):
        if middle.shape not in ((), embedded.shape[1:]):
            raise InputError(f"`mean` must have the shape of an embedding, {embedded.shape[1:]}; got {middle.shape}.")
        moved = middle + np.float32(psi) * (embedded - middle)
        samples = np.asarray(synthesis(moved))
        if samples.shape[:1] != (len(embedded),):
            raise InputError(
                f"`synthesis` must return one sample for each of {len(embedded)} embeddings; got shape {samples.shape}."
            )
        made.append(samples)
    return np.concatenate(made)


def mean_embedding(
    mapping: Stage,
    *,
    latent: int,
    draws: int = _DRAWS,
    batch: int = 1000,
    rng: int | np.random.Generator | None = 0,
) -> NDArray[np.float32]:
    """The mean w* of h(z) over draws of z ~ N(0, I); parameters as in `psi_samples`.

    Examples
    --------
    >>> mean_embedding(lambda z: z**2, latent=2, draws=100_000).round(1).tolist()
    [1.0, 1.0]
    """
    batches = _embeddings(mapping, whole("draws", draws, least=1), batch, latent, np.random.default_rng(rng))
    mean: NDArray[np.float32] = np.asarray(
        sum(part.sum(axis=0, dtype=np.float64) for part in batches) / draws, np.float32
    )
    return mean


def _embeddings(
    mapping: Stage, count: int, batch: int, latent: int, rng: np.random.Generator
) -> Iterator[NDArray[np.float32]]:
    """Batches of embeddings h(z) of z ~ N(0, I)."""
    for first in range(0, count, batch):
        z = rng.standard_normal((min(batch, count - first), latent)).astype(np.float32)
        embedded = np.asarray(mapping(z), np.float32)
        if embedded.shape[:1] != (len(z),) or not np.isfinite(embedded).all():
            raise InputError(
                f"`mapping` must return one finite embedding for each of {len(z)} latent variables; got shape "
                f"{embedded.shape}{'' if np.isfinite(embedded).all() else ', with NaN or infinities'}."
            )
        yield embedded
