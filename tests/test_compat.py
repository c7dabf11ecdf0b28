"""The drop-in replacement: the arguments, attribute names and numbers of mauve-text."""

import inspect
import json
import warnings

import numpy as np
import pytest
from pytest import approx

from mallow import EstimateWarning, InputError
from mallow.compat import compute_mauve, from_histograms

# inspect.signature of mauve.compute_mauve in mauve-text 0.4.0
ARGUMENTS = [
    "p_features",
    "q_features",
    "p_tokens",
    "q_tokens",
    "p_text",
    "q_text",
    "num_buckets",
    "pca_max_data",
    "kmeans_explained_var",
    "kmeans_num_redo",
    "kmeans_max_iter",
    "featurize_model_name",
    "device_id",
    "max_text_length",
    "divergence_curve_discretization_size",
    "mauve_scaling_factor",
    "verbose",
    "seed",
    "batch_size",
    "use_float64",
]
WRONG_THERE = {"h01_identical_uniform_k2", "h20_single_bin_k1"}


def test_the_arguments_are_those_of_mauve_text():
    assert list(inspect.signature(compute_mauve).parameters) == ARGUMENTS


def test_histograms_agree_with_mauve_text(shared):
    for path in sorted((shared / "conformance").glob("h*.npz")):
        case = np.load(path)
        counts = "p_counts" in case
        result = from_histograms(*(case[f"{side}_{'counts' if counts else 'hist'}"] for side in "pq"))
        assert result.p_hist == approx(case["p_hist"], abs=1e-12)
        assert result.num_buckets == int(case["num_buckets"])
        assert result.divergence_curve == approx(case["divergence_curve"], abs=1e-9), path.stem
        for star in ["", "_star"] if counts else [""]:
            if path.stem not in WRONG_THERE:
                assert getattr(result, f"mauve{star}") == approx(float(case[f"mauve{star}"]), abs=1e-9), path.stem
            integral = float(case[f"frontier_integral{star}"])
            assert getattr(result, f"frontier_integral{star}") == approx(integral, abs=1e-9), path.stem


def test_features_agree_with_mauve_text_in_the_mean(shared):
    for path in sorted((shared / "conformance").glob("f*.npz")):
        case = np.load(path)
        options = json.loads(str(case["kwargs"]))
        runs = [
            compute_mauve(p_features=case["p_features"], q_features=case["q_features"], seed=seed, **options)
            for seed in range(10)
        ]
        assert runs[0].num_buckets == int(case["num_buckets"])
        for name in ("mauve", "frontier_integral", "mauve_star", "frontier_integral_star"):
            values = np.array([getattr(run, name) for run in runs])
            spread = np.sqrt((float(case[f"{name}_std"]) ** 2 + values.var(ddof=1)) / 10)
            assert abs(values.mean() - float(case[f"{name}_mean"])) <= 3 * spread + 0.005, (path.stem, name)


def test_identical_samples_score_one():
    x = np.random.default_rng(0).normal(size=(60, 4))
    result = compute_mauve(x, x.copy())
    assert result.mauve == result.mauve_star == 1.0
    assert result.divergence_curve.shape == (27, 2)


def test_options_are_used():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 4)), rng.normal(0.5, 1.0, size=(80, 4))
    fine = compute_mauve(x, y, num_buckets=12, divergence_curve_discretization_size=200, mauve_scaling_factor=1)
    assert fine.num_buckets == 12
    assert fine.divergence_curve.shape == (202, 2)
    assert fine.mauve > compute_mauve(x, y, num_buckets=12).mauve
    assert compute_mauve(x, y, use_float64=True, verbose=True, batch_size=4, device_id=0).num_buckets == 8
    with pytest.warns(EstimateWarning, match="`pca_max_data` has no effect"):
        compute_mauve(x, y, pca_max_data=50)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"One of `p_features`, `p_tokens` and `p_text` must be passed; got none of them\.$"),
        (
            {"p_features": np.ones((9, 2))},
            r"One of `q_features`, `q_tokens` and `q_text` must be passed; got none of them\.$",
        ),
        ({"p_text": ["a"], "max_text_length": 0}, r"`max_text_length` must be an integer of at least 1; got 0\.$"),
    ],
    ids=["nothing", "one side", "no length"],
)
def test_missing_input_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        compute_mauve(**arguments)


def test_a_gpu_that_is_not_there(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    x, y = np.random.default_rng(0).normal(size=(2, 40, 2))
    with (
        pytest.warns(
            EstimateWarning, match="`device_id` 0 is a GPU, and there is none here: the model runs on the CPU"
        ),
        pytest.raises(InputError, match="`q_features`"),
    ):
        compute_mauve(p_features=x, device_id=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EstimateWarning)
        compute_mauve(x, y, device_id=0)  # no model runs


def test_bins_are_those_of_mauve_text_beyond_5000_samples_too():
    x, y = np.random.default_rng(0).normal(size=(2, 5200, 2))
    assert compute_mauve(x, y, kmeans_num_redo=1, kmeans_max_iter=1).num_buckets == 520
