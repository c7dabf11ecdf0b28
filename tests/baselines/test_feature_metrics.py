"""All feature metrics together: the numbers of other packages on the same features, and a story of handwritten digits."""

import gzip
import math

import numpy as np
import pytest
from pytest import approx

from baselines.feature_samples import precision_recall_by_definition, same
from mallow.baselines import discriminator_accuracy, frechet_distance, kernel_distance, precision_recall

# --- other packages, on the same features


def recorded_features():
    rng = np.random.default_rng(0)
    return {
        "wide": (np.round(rng.normal(size=(400, 16)), 3), np.round(rng.normal(0.2, 1.1, size=(300, 16)), 3)),
        "narrow": (np.round(rng.gamma(2.0, size=(250, 3)), 3), np.round(rng.normal(2.0, 1.0, size=(250, 3)), 3)),
        "short": (np.round(rng.normal(size=(30, 64)), 3), np.round(rng.normal(0.2, 1.1, size=(30, 64)), 3)),
    }


# torch-fidelity 0.4.0 with torch 2.13.0, NumPy 2.4.6 (torchvision, which the package imports but these functions do not
# use, replaced by an empty module), X and Y torch tensors of the features above.
# fid_statistics_to_metric(fid_features_to_statistics(X), fid_features_to_statistics(Y), False)
FID = {"wide": 1.424376889099129, "narrow": 0.4061249812364638, "short": 70.42539047309286}
# kid_features_to_metric(X[:s], Y[:s], kid_subsets=1, kid_subset_size=s), s the smaller size
KID = {"wide": 0.17208350324704158, "narrow": 7.205878519205726, "short": 0.08671851593257296}
# kid_features_to_metric(X, Y, kid_subsets=10, kid_subset_size=20): mean and std
KID_OF_SUBSETS = {
    "wide": (0.035065604741295074, 0.14631886362351976),
    "narrow": (3.034519804503714, 20.626432992443263),
    "short": (0.09958889925290956, 0.0596267373471106),
}
# prc_features_to_metric(Y, X, prc_neighborhood=3 and 5): precision and recall; the generated sample comes first
PRC = {
    ("wide", 3): (0.5733333230018616, 0.887499988079071),
    ("wide", 5): (0.6800000071525574, 0.9325000047683716),
    ("narrow", 3): (0.9120000004768372, 0.843999981880188),
    ("narrow", 5): (0.9559999704360962, 0.8999999761581421),
    ("short", 3): (0.5, 0.8666666746139526),
    ("short", 5): (0.7666666507720947, 0.9333333373069763),
}
# prdc 0.2 with scikit-learn 1.9.1: compute_prdc(x, y, nearest_k): precision, recall, density, coverage. It uses < where the
# paper has ≤; no distance of these features is tied with a radius.
PRDC = {
    ("wide", 3): (0.5733333333333334, 0.8875, 0.5188888888888888, 0.6),
    ("wide", 5): (0.68, 0.9325, 0.5246666666666667, 0.8075),
    ("narrow", 3): (0.912, 0.844, 0.8893333333333333, 0.712),
    ("narrow", 5): (0.956, 0.9, 0.9032, 0.812),
    ("short", 3): (0.5, 0.8666666666666667, 0.42222222222222217, 0.6),
    ("short", 5): (0.7666666666666667, 0.9333333333333333, 0.48666666666666664, 0.8333333333333334),
}


@pytest.mark.parametrize("name", FID)
@pytest.mark.filterwarnings("ignore:30 samples of 64 features")
def test_torch_fidelity_has_the_same_frechet_and_kernel_distance(name):
    x, y = recorded_features()[name]
    # With fewer samples than features, it takes roots of eigenvalues that are 0 up to rounding: 1e-7 is its own error.
    assert frechet_distance(x, y) == approx(FID[name], rel=1e-6 if name == "short" else 1e-10)
    size = min(len(x), len(y))
    assert kernel_distance(x[:size], y[:size]) == approx(KID[name], rel=1e-10)
    legacy = np.random.RandomState(2020)  # draws the same subsets
    chosen = [[legacy.choice(len(side), 20, replace=False) for side in (x, y)] for _ in range(10)]
    distances = [kernel_distance(x[i], y[j]) for i, j in chosen]
    assert (np.mean(distances), np.std(distances)) == approx(KID_OF_SUBSETS[name], rel=1e-9)


@pytest.mark.parametrize(("name", "k"), PRDC)
def test_torch_fidelity_and_prdc_have_the_same_precision_and_recall(name, k):
    shares = precision_recall(*recorded_features()[name], neighbors=k)
    assert (shares.precision, shares.recall, shares.density, shares.coverage) == approx(PRDC[name, k], rel=1e-12)
    assert (shares.precision, shares.recall) == approx(PRC[name, k], rel=1e-6)


# --- a story


def read_digits(folder, kind, skip):
    with gzip.open(folder / "data" / "mnist" / f"t10k-{kind}.gz") as file:
        return np.frombuffer(file.read()[skip:], np.uint8)


def test_digits(shared):
    """Pixels of handwritten digits, which are integers and full of ties: a random half against worse and worse models."""
    digits = read_digits(shared, "images-idx3-ubyte", 16).reshape(-1, 28 * 28)
    labels = read_digits(shared, "labels-idx1-ubyte", 8)
    order = np.random.default_rng(0).permutation(len(digits))
    x, rest, rest_labels = digits[order[:900]], digits[order[900:]], labels[order[900:]]
    good, few = rest[:900], rest[rest_labels < 5][:900]
    noisy = np.clip(good + np.random.default_rng(1).integers(0, 96, good.shape), 0, 255)
    for model in (good, few):
        expected = precision_recall_by_definition(x.astype(float), model.astype(float), 5)
        assert same(precision_recall(x, model), expected)
    shares = {name: precision_recall(x, model) for name, model in (("good", good), ("few", few), ("noisy", noisy))}
    assert shares["good"].recall > shares["few"].recall + 0.1  # half of the digits are missed …
    assert shares["few"].precision > shares["good"].precision - 0.1  # … but the others are real
    assert shares["noisy"].density < 0.5 * shares["good"].density
    frechet = [frechet_distance(x, model) for model in (good, few, noisy)]
    kernel = [kernel_distance(x / 255, model / 255) for model in (good, few, noisy)]
    assert frechet == sorted(set(frechet))
    assert kernel == sorted(set(kernel))
    assert discriminator_accuracy(x, good) == approx(0.5, abs=4 * 0.5 / math.sqrt(450))
    assert discriminator_accuracy(x, noisy) > 0.98
