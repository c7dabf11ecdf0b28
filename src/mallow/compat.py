"""`compute_mauve` with the arguments and the result of mauve-text 0.4.0: change one import and nothing else.

    from mallow.compat import compute_mauve        # was: from mauve import compute_mauve

The numbers equal the numbers of mauve-text (a 25-point grid, the best of five k-means runs) up to the noise of
clustering, except where mauve-text is wrong (0.75 for two identical samples). `mallow.score` adds a bound on the
gap, intervals and a self-score.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mallow._checks import positive, whole
from mallow._optional import optional
from mallow.embed import LanguageModel, embed_samples
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Quantize, Reduce, published_bins
from mallow.theory import Array, Masses, area, frontier, integral
from mallow.theory.smoothing import empirical, krichevsky_trofimov

__all__ = ["MauveResult", "compute_mauve", "from_histograms"]


@dataclass(frozen=True, eq=False)
class MauveResult:
    """The result of mauve-text, with the same attribute names.

    Attributes
    ----------
    mauve : float
        MAUVE without smoothing.
    frontier_integral : float
        Frontier integral without smoothing.
    mauve_star : float
        MAUVE with add-1/2 smoothing.
    frontier_integral_star : float
        Frontier integral with add-1/2 smoothing.
    p_hist : array (num_buckets,)
        Histogram of the human texts, without smoothing.
    q_hist : array (num_buckets,)
        Histogram of the machine's texts, without smoothing.
    divergence_curve : array (points + 2, 2)
        Columns exp(−c KL(q‖r)) and exp(−c KL(p‖r)), from (1, 0) to (0, 1).
    num_buckets : int
    """

    p_hist: Array
    q_hist: Array
    mauve: float
    frontier_integral: float
    mauve_star: float
    frontier_integral_star: float
    divergence_curve: Array
    num_buckets: int


def compute_mauve(
    p_features: Any = None,
    q_features: Any = None,
    p_tokens: Sequence[Any] | None = None,
    q_tokens: Sequence[Any] | None = None,
    p_text: Sequence[str] | None = None,
    q_text: Sequence[str] | None = None,
    num_buckets: int | Literal["auto"] = "auto",
    pca_max_data: int = -1,
    kmeans_explained_var: float = 0.9,
    kmeans_num_redo: int = 5,
    kmeans_max_iter: int = 500,
    featurize_model_name: str = "gpt2-large",
    device_id: int = -1,
    max_text_length: int = 1024,
    divergence_curve_discretization_size: int = 25,
    mauve_scaling_factor: float = 5,
    verbose: bool = False,
    seed: int = 25,
    batch_size: int = 1,
    use_float64: bool = False,
) -> MauveResult:
    """MAUVE of two samples, with the arguments of mauve-text 0.4.0.

    Texts and tokens are embedded as in mauve-text: by the hidden state of the last token in the model
    `featurize_model_name`, with at most `max_text_length` tokens (the extra `text`). A `device_id` of -1
    is the CPU; other numbers are CUDA devices. If there is none, the CPU is used, with a warning.

    Differences from mauve-text: `pca_max_data` has no effect and gives a warning, since PCA always uses all data.
    `batch_size` has no effect, since batches are chosen by length. `verbose` prints nothing. k-means stops when no
    label changes, at the latest after `kmeans_max_iter` rounds. `use_float64` converts features to float64.
    """
    model = LanguageModel(
        featurize_model_name,
        pooling="last",
        max_length=whole("max_text_length", max_text_length, least=1),
        dtype="float32",
        device=_device(device_id, needed=p_features is None or q_features is None),
    )
    x = np.atleast_1d(_find_features("p", p_features, p_tokens, p_text, model))
    y = np.atleast_1d(_find_features("q", q_features, q_tokens, q_text, model))
    if pca_max_data != -1:
        warnings.warn("`pca_max_data` has no effect: PCA uses all the data.", EstimateWarning, stacklevel=2)
    if use_float64:
        x, y = x.astype(np.float64), y.astype(np.float64)
    estimator = Quantize(
        bins=published_bins(min(len(x), len(y))) if num_buckets == "auto" else num_buckets,
        smoothing=empirical,
        reduce=Reduce(variance=kmeans_explained_var),
        restarts=whole("kmeans_num_redo", kmeans_num_redo, least=1),
        max_iter=whole("kmeans_max_iter", kmeans_max_iter, least=1),
    )
    partition = estimator(x, y, rng=seed).partition
    if partition is None:
        raise InputError("`p_features` and `q_features` could not be quantised.")
    return from_histograms(
        partition.p_counts, partition.q_counts, scale=mauve_scaling_factor, points=divergence_curve_discretization_size
    )


def _device(device_id: int, *, needed: bool) -> str:
    """The device of torch. Without a GPU it is the CPU, with a warning where a model will run."""
    if device_id < 0 or not needed:
        return "cpu"
    if optional("torch", extra="text").cuda.is_available():
        return f"cuda:{device_id}"
    text = f"`device_id` {device_id} is a GPU, and there is none here: the model runs on the CPU."
    warnings.warn(text, EstimateWarning, stacklevel=3)
    return "cpu"


def _find_features(
    side: str, features: Any, tokens: Sequence[Any] | None, texts: Sequence[str] | None, model: LanguageModel
) -> Any:
    """The features of one side: as passed, or else made from its tokens, or else from its texts."""
    if features is not None:
        return features
    if tokens is not None:
        return model.of_tokens([np.asarray(text).reshape(-1).tolist() for text in tokens])
    if texts is not None:
        return embed_samples(list(texts), model).features
    raise InputError(f"One of `{side}_features`, `{side}_tokens` and `{side}_text` must be passed; got none of them.")


def from_histograms(p_counts: Any, q_counts: Any, *, scale: float = 5, points: int = 25) -> MauveResult:
    """The result for two histograms, of counts or probabilities; starred scores of probabilities are not smoothed."""
    scale, points = positive("scale", scale), whole("points", points, least=2)
    p, q = np.asarray(p_counts, dtype=np.float64), np.asarray(q_counts, dtype=np.float64)
    grid = np.linspace(1e-6, 1 - 1e-6, points)
    if abs(p.sum() - 1) <= 1e-6:
        plain = starred = Masses.from_histograms(p, q)
    else:
        plain = Masses.from_histograms(empirical(p), empirical(q))
        starred = Masses.from_histograms(krichevsky_trofimov(p), krichevsky_trofimov(q))
    curve = frontier(plain, grid=grid)
    inner = np.exp(-scale * np.stack([curve.q_to_mix, curve.p_to_mix], axis=1))
    return MauveResult(
        p_hist=plain.p,
        q_hist=plain.q,
        mauve=float(area(curve, scale=scale)),
        frontier_integral=float(integral(plain)),
        mauve_star=float(area(starred, scale=scale, grid=grid)),
        frontier_integral_star=float(integral(starred)),
        divergence_curve=np.concatenate([[[1.0, 0.0]], inner, [[0.0, 1.0]]]),
        num_buckets=len(plain.p),
    )
