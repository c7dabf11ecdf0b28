"""What all estimators share: caveats are values, only the call warns and checks."""

import warnings

import numpy as np
import pytest

from mallow import EstimateWarning, InputError
from mallow.estimate import Classifier, Gaussian, KernelDensity, Neighbors, Quantize

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 2)), RNG.normal(9.0, 1.0, size=(20, 2))
LONELY = np.concatenate([RNG.normal(size=(19, 2)), [[5.0, 5.0]]])
NEAR_LONELY = np.concatenate([RNG.normal(size=(19, 2)), [[5.3, 5.0]]])
FEW = np.repeat([[0.0, 1.0], [1.0, 0.0]], 10, axis=0)

DOUBTFUL = [
    (Quantize(bins=10), FEW, FEW, "few distinct points", {"distinct": 2, "bins": 10}),
    (Neighbors(25, reduce=None), X, Y, "many neighbours", {"neighbors": 25, "smaller_sample": 20}),
    (KernelDensity(0.3, reduce=None, pooled=False), LONELY, NEAR_LONELY, "isolated points", None),
    (Classifier(folds=4), X, Y, "separable samples", {"accuracy": 1.0}),
]


@pytest.mark.parametrize(
    ("estimator", "x", "y", "kind", "values"), DOUBTFUL, ids=lambda value: getattr(value, "kind", "")
)
def test_caveats_are_values_and_only_the_call_warns(estimator, x, y, kind, values):
    masses = estimator.masses(estimator.prepare(x, y), 0)  # a warning would be an error here
    (caveat,) = masses.caveats
    assert caveat.kind == kind
    assert values is None or caveat.values == values
    assert caveat.system is None
    with pytest.warns(EstimateWarning) as caught:
        again = estimator(x, y, rng=0)
    assert [str(warning.message) for warning in caught] == [caveat.message]
    assert caught[0].filename == __file__  # the line of the user's call
    assert again.caveats == masses.caveats
    assert estimator.masses(estimator.prepare(y, x), 0).caveats == masses.caveats


@pytest.mark.parametrize("estimator", [Neighbors(25), KernelDensity(1e-9, pooled=False)], ids=["neighbors", "kernels"])
def test_distances_are_a_door_too(estimator):
    points = np.concatenate([LONELY, NEAR_LONELY])
    distances = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    with pytest.warns(EstimateWarning) as caught:
        masses = estimator.from_distances(distances, 20)
    assert [str(warning.message) for warning in caught] == [caveat.message for caveat in masses.caveats]
    assert caught[0].filename == __file__


ALL = [Quantize(bins=5), Neighbors(4), KernelDensity(), Classifier(), Gaussian(samples=100)]


@pytest.mark.parametrize("estimator", ALL, ids=lambda estimator: type(estimator).__name__)
def test_only_the_call_checks_the_samples(estimator, monkeypatch):
    near = X + 0.3
    expected = estimator(X, near, rng=3).p

    def refuse(*_):
        raise AssertionError("checked again")

    for module in ("_features", "_reduce"):
        monkeypatch.setattr(f"mallow.estimate.{module}.checked_pair", refuse)
    assert np.array_equal(estimator.masses(estimator.prepare(X, near), 3).p, expected)
    with pytest.raises(AssertionError, match="checked again"):
        estimator(X, near)


@pytest.mark.parametrize("estimator", ALL, ids=lambda estimator: type(estimator).__name__)
def test_the_call_refuses_what_is_not_finite(estimator):
    with pytest.raises(
        InputError,
        match=r"`model` must be finite; got 1 NaN or infinite entries in 1 of 20 rows \(rows 2\)\. Embed these samples again, or leave",
    ):
        estimator(X, np.where(np.arange(40).reshape(20, 2) == 5, np.nan, Y))


@pytest.mark.parametrize("estimator", ALL, ids=lambda estimator: type(estimator).__name__)
def test_rng_may_be_a_seed_a_generator_or_none(estimator):
    near = X + 0.3
    seeded = estimator(X, near, rng=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # an unlucky split may separate 10 points
        assert estimator(X, near, rng=None).p.shape == seeded.p.shape
    assert np.array_equal(estimator(X, near, rng=np.random.default_rng(5)).p, seeded.p)
