"""A diagnosis as text, table, data frame, picture and JSON."""

import json
import re

import pytest

from explain.planted import TEXTS, TWO_BINS, X, Y, lengths_as_features, with_loops
from mallow import InputError, Samples
from mallow.explain import Diagnosis, diagnose

# The texts with loops are longer and have fewer different words; either says the same of all samples.
AWAY = (
    "fewer different words (64% of the first 20 words, reference 100%)",
    "more long texts (a tenth have at least 10 words, reference 6)",
)


@pytest.fixture(scope="module")
def of_texts() -> Diagnosis:
    samples = Samples(texts=TEXTS, ids=[f"id-{i}" for i in range(50)])
    return diagnose(samples, with_loops(20), embedder=lengths_as_features, measure=TWO_BINS)


@pytest.fixture(scope="module")
def of_features() -> Diagnosis:
    return diagnose(X, Y)


def test_it_survives_json(of_texts, of_features):
    for diagnosis in (of_texts, of_features):
        assert Diagnosis.from_json(diagnosis.to_json()) == diagnosis
        assert Diagnosis.from_dict(diagnosis.to_dict()) == diagnosis
        assert json.loads(diagnosis.to_json())["kind"] == "mallow diagnosis"
    assert of_texts.to_dict()["sample_kind"] == "text"
    with pytest.raises(InputError, match=r"must be what Diagnosis.to_dict wrote, but its kind is 'mallow score'"):
        Diagnosis.from_dict({"kind": "mallow score"})


def test_the_text_is_complete(of_texts):
    finding, reasons, own, other, gap, *regions = str(of_texts).split("\n\n")
    assert re.fullmatch(
        r"The gap is real \(p = 0\.0002\), but too small to be measured with this few samples\.", finding
    )
    assert re.fullmatch(
        r"Telltale signs, and the share of the evidence that each accounts for\n"
        rf"  ( \d|1)\d\d?%  ({'|'.join(map(re.escape, AWAY))})",
        reasons,
    )
    assert re.fullmatch(
        r"Most telling model samples: the lowest held-out scores\n  -\d\.\d\d  (loop ?){10}", own
    )  # equal texts only once
    title, *lines = other.splitlines()
    assert title == "Reference samples that the model hardly produces: the highest held-out scores"
    assert len(lines) == 3  # of ten
    assert all(re.fullmatch(r"  \+\d\.\d\d  a cat sat on mat \d\d", line) for line in lines)
    assert re.fullmatch(
        r"Regions: the mid-point gap is 0\.\d{4} in 2 bins of 50 reference and 50 model samples; 0\.\d{4} missed, 0\.\d{4} "
        r"invented",
        gap,
    )
    text = "\n\n".join(regions)
    assert (
        "INVENTED by the model\n\n1. 100% of what the model invents: 0 reference and 20 model samples, 10.0 and" in text
    )
    assert re.search(r"\n  score      -\d\.\d\d on average, held out\n  typical    loop\n  length     10 words;", text)
    assert "  typical    loop\n  length     10 words; elsewhere 6\n  model      loop loop" in text
    assert "not significant" not in text
    assert max(map(len, str(of_texts).splitlines())) < 160
    assert repr(of_texts).startswith("Diagnosis(p = 0.0002")
    assert ", reasons=1, missed 0." in repr(of_texts)
    assert "1 of 1 regions significant" in repr(of_texts)


def test_the_verdict_is_one_line_for_notebooks_and_files(of_texts):
    assert of_texts.verdict.startswith("The gap is real (p = ")
    assert of_texts.verdict.endswith(tuple(f" Telltale signs: {reason}." for reason in AWAY))
    assert of_texts.to_dict()["verdict"] == of_texts.verdict


def test_a_diagnosis_of_older_files_has_no_evidence(of_features):
    data = of_features.to_dict()
    for name in ("p_value", "certified", "reasons", "giveaways", "unmatched"):
        del data[name]
    old = Diagnosis.from_dict(data)
    assert old.regions == of_features.regions
    assert old.verdict == ""
    assert str(old).startswith("Regions: the mid-point gap is ")
    assert old._repr_html_().startswith("<p>Regions: the mid-point gap is ")


def test_the_text_of_features_names_places():
    text = str(diagnose(X, Y[:360]))
    assert re.search(r"reference  sample \d+\n", text)
    assert "not significant" in text


def test_the_table_has_one_row_per_region(of_texts, of_features):
    lines = of_texts.table().splitlines()
    assert re.split(r" {2,}", lines[0].strip()) == ["share", "reference", "model", "adjusted p", "typical terms"]
    assert lines[-1].startswith("invented   100%          0     20")
    assert lines[-1].endswith("loop")
    assert of_features.table("markdown").count("\n") == 1 + len(of_features.regions)
    html = of_features._repr_html_()
    assert html.startswith("<p>The gap is real: ")
    assert html.count("<tr>") == 1 + len(of_features.regions)


def test_the_data_frame_has_one_row_per_region(of_texts):
    pytest.importorskip("pandas", reason="needs pip install 'mallow[frames]'")
    frame = of_texts.to_frame()
    assert frame["side"].tolist() == ["missed", "invented"]
    assert frame["terms"].tolist()[1] == "loop"
    assert frame["share"].tolist() == [region.share for region in of_texts.regions]
    assert frame["expected_model"].tolist() == [region.expected[1] for region in of_texts.regions]


def test_bars_are_shares_of_the_whole_gap():
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs pip install 'mallow[plot]'")
    pyplot.switch_backend("agg")
    diagnosis = diagnose(X, Y, regions=1000)
    ax = diagnosis.plot()
    widths = [bar.get_width() for bar in ax.patches]
    assert len(widths) == len(diagnosis.regions)
    assert sum(widths) == pytest.approx(1)
    missed = sum(widths[: len(diagnosis.missed)])
    assert missed == pytest.approx(diagnosis.gap["missed"] / sum(diagnosis.gap.values()))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [f"bin {region.bin}" for region in diagnosis.regions]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["missed by the model", "invented by the model"]
    pale = [bar.get_alpha() < 1 for bar in ax.patches]
    assert pale == [not region.significant for region in diagnosis.regions]
    assert diagnosis.plot(ax) is ax
    pyplot.close("all")


def test_bars_are_labelled_by_terms(of_texts):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs pip install 'mallow[plot]'")
    pyplot.switch_backend("agg")
    assert of_texts.plot().get_yticklabels()[1].get_text() == "loop"
    assert len(diagnose(X, X).plot().patches) == 0
    pyplot.close("all")
