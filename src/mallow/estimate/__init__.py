"""From features to masses: every estimator of the paper, each a callable frozen dataclass.

    estimator(x, y, rng=0) -> Masses          x the reference, y the model, one row per sample

`estimator.scale` is the paper's constant c for it. Repeats share everything that needs no randomness:
``estimator.prepare(x, y)`` once, then ``estimator.masses(prepared, rng)`` for each. Only the call itself checks its
arguments and raises warnings. `masses` returns caveats as values, in `Masses.caveats`.

    features  _features · _row_order          accepted arrays, in an order that depends only on their values
    reduce    _reduce · _pca · _spectrum      joint principal components
    bins      _quantize · _kmeans · _nearest · _device · _quantisers
    shards    _survey · _stream               the same bins, for rows that are never all in memory
    ratios    _neighbors · _kernel_density · _classifier · _gaussian · _direct
"""

from collections.abc import Callable

from mallow.estimate._classifier import Classifier, calibrate_scores, choose_penalty, logistic_regression
from mallow.estimate._direct import LogLikelihoods, direct, direct_frontier, log_likelihoods
from mallow.estimate._features import Estimator, Features, as_features, checked_features, checked_pair, same_width
from mallow.estimate._gaussian import Gaussian
from mallow.estimate._kernel_density import KernelDensity
from mallow.estimate._kmeans import lloyd
from mallow.estimate._neighbors import Neighbors
from mallow.estimate._pca import Reduction
from mallow.estimate._quantisers import Lattice, LevelSets, Product, RandomCentres, Residual
from mallow.estimate._quantize import Codebook, Prepared, Quantize, automatic_bins, published_bins, split_size
from mallow.estimate._reduce import Reduce
from mallow.estimate._row_order import canonical_order, hash_names, mix_keys, row_keys, unit_keys
from mallow.estimate._stream import quantize_shards
from mallow.estimate._survey import Survey, fetch_rows, survey_rows

ESTIMATORS: dict[str, Callable[[], Estimator]] = {
    "quantize": Quantize,
    "neighbors": Neighbors,
    "kernel-density": KernelDensity,
    "classifier": Classifier,
    "gaussian": Gaussian,
}
"""Estimators from features, by the names that they have on the command line."""

__all__ = [
    "Classifier",
    "Codebook",
    "Estimator",
    "Gaussian",
    "KernelDensity",
    "Lattice",
    "LevelSets",
    "LogLikelihoods",
    "Neighbors",
    "Product",
    "Quantize",
    "RandomCentres",
    "Reduce",
    "Residual",
    "direct",
    "direct_frontier",
    "log_likelihoods",
]
