"""The checklist that every estimator must pass: range, symmetry, order, edges, and sense on real text and images."""

import warnings
from functools import cache

import numpy as np
import pytest
from pytest import approx
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits

from mallow import EstimateWarning, area, frontier, integral, midpoint
from mallow.embed import glove
from mallow.estimate import (
    Classifier,
    Gaussian,
    KernelDensity,
    Neighbors,
    Product,
    Quantize,
    RandomCentres,
    Residual,
)
from mallow.samples import read

ESTIMATORS = {
    **{type(one).__name__: one for one in (Quantize(), Neighbors(), KernelDensity(), Classifier())},
    "Gaussian": Gaussian(samples=1000),
    **{f"Quantize-{type(one).__name__}": Quantize(method=one) for one in (Residual(), Product(), RandomCentres())},
}
every = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS.keys())

DRAW = np.random.default_rng(17)
ROUND = DRAW.normal(size=(160, 4))
PAIRS = {
    "near": (ROUND[:80], ROUND[80:] + 0.5),
    "wider": (ROUND[:80], 2.0 * ROUND[80:]),
    "heavy tails": (DRAW.standard_cauchy(size=(90, 3)), DRAW.standard_cauchy(size=(110, 3))),
    "uneven": (ROUND[:40], ROUND[40:] + 0.2),
    "one dimension": (DRAW.normal(size=80), DRAW.normal(0.7, 1.0, size=80)),
    "constant column": (np.c_[ROUND[:80], np.ones(80)], np.c_[ROUND[80:], np.ones(80)]),
    "wide": (DRAW.normal(size=(30, 200)), DRAW.normal(size=(30, 200))),
    "duplicates": (np.repeat(ROUND[:12], 10, axis=0), np.repeat(ROUND[6:18], 10, axis=0)),
    "far": (ROUND[:80] + np.array([9, 0, 0, 0]), ROUND[80:] - np.array([9, 0, 0, 0])),
    "tiny": (ROUND[:3], ROUND[3:6]),
    "huge numbers": (1e9 * ROUND[:80], 1e9 * ROUND[80:]),
}


def masses_of(estimator, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # doubtful pairs are the point
        return estimator(x, y, rng=3)


def score_of(estimator, x, y):
    return float(area(masses_of(estimator, x, y), scale=estimator.scale))


@every
@pytest.mark.parametrize("name", PAIRS)
def test_every_summary_is_in_its_range_and_symmetric(estimator, name):
    x, y = PAIRS[name]
    masses, swapped = masses_of(estimator, x, y), masses_of(estimator, y, x)
    curve = frontier(masses)
    assert 0.0 <= area(curve, scale=estimator.scale) <= 1.0
    assert 0.0 <= integral(masses) <= 1.0 + 1e-9
    assert 0.0 <= midpoint(masses) <= np.log(2.0) + 1e-9
    for cost in (curve.p_to_mix, curve.q_to_mix):
        assert np.isfinite(cost).all()
        assert (cost >= 0).all()
    assert integral(swapped) == approx(integral(masses), abs=1e-9)
    assert midpoint(swapped) == approx(midpoint(masses), abs=1e-9)


@every
def test_the_order_of_rows_changes_nothing(estimator):
    for x, y in (PAIRS["near"], PAIRS["duplicates"]):
        shuffled = masses_of(estimator, DRAW.permutation(x), DRAW.permutation(y))
        assert integral(shuffled) == approx(integral(masses_of(estimator, x, y)), abs=1e-9)


@every
@pytest.mark.parametrize("name", ["near", "wide", "duplicates", "constant column", "heavy tails"])
def test_identical_samples_score_1(estimator, name):
    x = PAIRS[name][0]
    assert integral(masses_of(estimator, x, x.copy())) == approx(0.0, abs=1e-6)


@every
def test_a_larger_gap_is_measured_as_larger(estimator):
    x, y = ROUND[:80], ROUND[80:]
    shifts = [np.array([shift, 0, 0, 0]) for shift in (0.0, 0.7, 1.5, 10.0)]
    gaps = [float(integral(masses_of(estimator, x - shift, y + shift))) for shift in shifts]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 0.7  # separable


# --- real text: six decoders of GPT-2 large, embedded by word vectors


@cache
def embedded(folder, name):
    texts = read(folder / f"{name}.jsonl.gz", field="gen", skip_bad=True).texts
    return glove()([text.strip() for text in texts if text.strip()][:700])


@every
def test_real_text_is_ordered(estimator, shared):
    folder = shared / "data" / "webtext-gpt2-large"
    human = embedded(folder, "human")
    scores = {
        name: score_of(estimator, human, embedded(folder, name))
        for name in ("greedy", "beam", "typical", "contrastive", "nucleus", "topk")
    }
    poor, rest = max(scores["greedy"], scores["beam"]), min(v for k, v in scores.items() if k not in ("greedy", "beam"))
    # Coarse products of bins see less than the defaults do: 0.07 for two groups.
    assert poor < rest - (0.05 if isinstance(getattr(estimator, "method", None), Product) else 0.08), scores
    half = np.random.default_rng(1).permutation(len(human))
    same = score_of(estimator, human[half[:350]], human[half[350:]])
    assert same > max(0.85, poor + 0.05)


# --- real images: digits of scikit-learn, 8 × 8 pixels


@every
def test_real_images_are_ordered(estimator):
    found, rng = load_digits(), np.random.default_rng(0)
    order = rng.permutation(len(found.images))
    reference, real = found.images[order[:600]], found.images[order[600:1200]]
    few = real[found.target[order[600:1200]] < 3]
    sets = {
        "real": real,
        "blurred": np.array([gaussian_filter(image, 1.0) for image in real]),
        "three digits of ten": few[rng.integers(0, len(few), 600)],
    }
    scores = {
        name: score_of(estimator, reference.reshape(600, -1), each.reshape(600, -1)) for name, each in sets.items()
    }
    same = scores.pop("real")
    assert same > 0.9
    assert max(scores.values()) < same - 0.25, scores
