"""A comparison and its diagnoses: as if made one by one, with every sample embedded once, nothing learned twice, and without warnings."""

import string
import warnings

import numpy as np
import pytest

from mallow import EstimateWarning, Gaussian, Measure, Quantize, compare, diagnose
from mallow.report import compare_and_diagnose
from mallow.theory import extrapolated

MEASURE = Measure(Quantize(bins=20))
pytestmark = pytest.mark.filterwarnings("error")


class Letters:
    """An embedder that counts its calls."""

    name = "Letters(test)"
    kind = "text"

    def __init__(self):
        self.calls = []

    def __call__(self, texts):
        self.calls.append(len(texts))
        return np.array([[text.count(letter) for letter in string.ascii_lowercase] for text in texts], dtype=float)


@pytest.fixture(scope="module")
def texts(texts):
    """A third of them: nothing here depends on how many there are."""
    human, systems = texts
    return human[:100], {name: own[:100] for name, own in systems.items()}


@pytest.mark.parametrize("embedder", [Letters(), "ngram"], ids=["each", "joint"])
def test_results_are_those_of_compare_and_diagnose(texts, embedder):
    human, systems = texts
    systems = {name: systems[name] for name in ("near", "far <b>")}
    comparison, diagnoses = compare_and_diagnose(human, systems, measure=MEASURE, embedder=embedder, repeats=2, rng=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        expected = compare(human, systems, measure=MEASURE, embedder=embedder, repeats=2, rng=3)
        each = {name: diagnose(human, own, measure=MEASURE, embedder=embedder, rng=3) for name, own in systems.items()}
    assert comparison.to_dict() == expected.to_dict()
    assert {name: diagnosis.to_dict() for name, diagnosis in diagnoses.items()} == {
        name: diagnosis.to_dict() for name, diagnosis in each.items()
    }


def test_every_sample_is_embedded_once(texts, monkeypatch):
    monkeypatch.setenv("MALLOW_CACHE", "off")
    human, systems = texts
    embedder = Letters()
    compare_and_diagnose(human, systems, measure=MEASURE, embedder=embedder, repeats=1)
    assert embedder.calls == [len(set(some)) for some in (human, *systems.values())]


def test_what_the_comparison_learned_is_not_learned_again(texts, monkeypatch):
    def learn(*_, **__):
        raise AssertionError("learned again")

    human, systems = texts
    monkeypatch.setattr("mallow.explain._diagnosis.hold_out", learn)
    comparison, diagnoses = compare_and_diagnose(human, systems, measure=MEASURE, embedder=Letters(), repeats=1)
    for name, diagnosis in diagnoses.items():
        assert diagnosis.verdict == comparison.scores[name].verdict


@pytest.mark.parametrize("estimator", [Gaussian(), Quantize(bins=20, smoothing=extrapolated)])
def test_a_measure_that_cannot_be_split_into_bins_has_no_diagnoses(texts, estimator):
    human, systems = texts
    near = {"near": systems["near"]}
    comparison, diagnoses = compare_and_diagnose(human, near, measure=Measure(estimator), embedder=Letters(), repeats=1)
    assert (list(comparison.scores), diagnoses) == (["near"], {})


class Brightness:
    """An embedder of pictures: the mean of each quarter."""

    name = "Brightness(test)"
    kind = "image"

    def __call__(self, paths):
        image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
        return np.stack([np.asarray(image.open(path), dtype=float).reshape(4, -1).mean(axis=1) for path in paths])


def test_clusters_of_pictures_have_six_examples(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    rng = np.random.default_rng(0)
    for side, high in (("real", 250), ("made", 120)):
        (tmp_path / side).mkdir()
        for place in range(60):
            pixels = rng.integers(0, high, size=(4, 4), dtype=np.uint8)
            image.fromarray(pixels).save(tmp_path / side / f"{place}.png")
    measure = Measure(Quantize(bins=2))
    _, diagnoses = compare_and_diagnose(
        tmp_path / "real", {"made": tmp_path / "made"}, measure=measure, embedder=Brightness(), repeats=1
    )
    [missed] = diagnoses["made"].missed
    assert len(missed.reference_examples) == 6
