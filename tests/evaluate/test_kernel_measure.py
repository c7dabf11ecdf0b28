"""String kernels are measured as in the paper, by nearest neighbours, unless another measure is asked for."""

import numpy as np
import pytest

from mallow import (
    MAUVE_STAR,
    InputError,
    Measure,
    Neighbors,
    Quantize,
    area,
    compare,
    compare_gaps,
    make_passport,
    score,
)
from mallow.embed import NGramKernel
from mallow.evidence import MAUVE_KERNEL, measure_for
from mallow.samples import Samples, read

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")


@pytest.fixture(scope="module")
def texts(shared):
    def first(name):
        found = read(shared / "data" / "webtext-gpt2-large" / f"{name}.jsonl.gz", field="gen", skip_bad=True).texts
        return [text.strip() for text in found if text.strip()][:200]

    return first


def test_greedy_decoding_is_far_from_people(texts):  # paper: sec:string-kernel feeds nearest neighbours
    human, greedy = texts("human"), texts("greedy")
    found = score(human, greedy, embedder="ngram", repeats=1)
    assert found.mauve == pytest.approx(0.070, abs=2e-3)
    published = Neighbors(pooled=False).from_distances(NGramKernel().distances(human, greedy), 200)
    assert found.mauve == pytest.approx(area(published, scale=10), abs=1e-6)
    assert "Neighbors(" in found.signature.measure
    assert found.certified["mauve"].high < 0.9
    in_bins = score(human, greedy, embedder="ngram", repeats=1, measure=Measure(Quantize()))
    assert in_bins.mauve > 0.9  # k-means sees nothing there
    both = compare(human, {"greedy": greedy, "nucleus": texts("nucleus")}, embedder="ngram", repeats=1)
    assert both.scores["greedy"].mauve == found.mauve
    assert both.scores["nucleus"].mauve > 0.8


def test_only_the_default_gives_way():
    kernel = Samples.trusted(features=[[0.0]], provenance={"embedder": "NGramKernel()", "kernel": True})
    plain = Samples.trusted(features=[[0.0]], provenance={"embedder": "MiniLM"})
    assert measure_for(MAUVE_STAR, kernel) is MAUVE_KERNEL
    assert measure_for(MAUVE_STAR, plain) is MAUVE_STAR
    assert measure_for(Measure(Quantize()), kernel) == Measure(Quantize())


def sentences(seed, words, n=40):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(words, 8)) for _ in range(n)]


WORDS = ["river", "house", "stone", "light", "green", "runs"]
HUMAN, NEAR, FAR = sentences(0, WORDS), sentences(1, WORDS), sentences(2, WORDS[:2])


def test_every_evaluation_of_a_kernel_uses_its_measure():
    groups = score(HUMAN, FAR, by=(["a"] * 40, ["a"] * 40), embedder="ngram", repeats=1)
    gaps = compare_gaps({"near": (HUMAN, NEAR), "far": (HUMAN, FAR)}, embedder="ngram", repeats=1)
    labels = ["a"] * 20 + ["b"] * 20
    matched = score(HUMAN, FAR, match=(labels, labels), embedder="ngram", repeats=1)
    for one in (groups.scores["a"], *gaps.scores.values(), matched.before, matched.same_size, matched.matched):
        assert one.signature.measure == repr(MAUVE_KERNEL)
        assert one.scale == 10
    # Differences are those of the certificates, which have the scale of the measure too.
    pairs = (
        (gaps.difference, gaps.scores["near"], gaps.scores["far"]),
        (matched.difference, matched.matched, matched.same_size),
    )
    for difference, first, second in pairs:
        expected = first.certified["mauve"].value - second.certified["mauve"].value
        assert difference.difference["mauve"] == pytest.approx(expected, abs=1e-9)
    assert gaps.difference.difference["mauve"] > 0.01
    with pytest.raises(InputError, match=r"`measure` must have bins, .*; got Measure\(Neighbors"):
        make_passport(groups.scores["a"], HUMAN, FAR, embedder="ngram")


def test_where_all_is_kept_as_many_at_random_are_all_in_their_order():
    matched = score(
        HUMAN,
        NEAR,
        match=(["a"] * 40, ["a"] * 40),
        embedder=lambda texts: np.array([[len(text), text.count("e")] for text in texts], float),
        repeats=1,
    )
    assert matched.kept == 1.0
    assert matched.same_size.to_json() == matched.before.to_json() == matched.matched.to_json()
    with pytest.raises(InputError, match="`repeats` must be an integer of at least 1; got 0"):
        score(HUMAN, NEAR, match="length", repeats=0)


def test_the_reference_says_whether_features_are_those_of_a_kernel():
    rng = np.random.default_rng(0)
    x = Samples(features=rng.normal(size=(40, 3)), provenance={"embedder": "NGramKernel()", "kernel": True})
    near, far = (Samples(features=rng.normal(shift, 1.0, size=(40, 3))) for shift in (0.5, 1.5))
    gaps = compare_gaps({"near": (x, near), "far": (x, far)}, repeats=1)
    assert [one.signature.measure for one in gaps.scores.values()] == [repr(MAUVE_KERNEL)] * 2
    expected = [one.certified["mauve"].value for one in gaps.scores.values()]
    assert gaps.difference.difference["mauve"] == pytest.approx(expected[0] - expected[1], abs=1e-9)
