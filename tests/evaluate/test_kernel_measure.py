"""String kernels are measured as in the paper, by nearest neighbours, unless another measure is asked for."""

import pytest

from mallow import MAUVE_KERNEL, MAUVE_STAR, Measure, Neighbors, Quantize, area, compare, score
from mallow.cli._choices import find_measure
from mallow.embed import NGramKernel
from mallow.evaluate._measure import measure_for
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
    assert measure_for(find_measure(None, None, None, None, None), kernel) is MAUVE_KERNEL
    assert measure_for(find_measure(None, "quantize", None, None, None), kernel) == MAUVE_STAR
    assert find_measure("mauve-kernel", None, None, None, None) is MAUVE_KERNEL
