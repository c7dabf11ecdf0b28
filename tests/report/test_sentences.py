"""The sentences of the page: the verdict, the gap, what to cite."""

import re
from dataclasses import replace
from pathlib import Path

import mallow
from mallow.report import _sentences as sentences

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_gap_is_that_of_the_first_system_by_evidence(compared, compared_as):
    assert sentences.gap_sentence(compared_as([("a", 0.9), ("b", 0.8)])) == (
        "How close is a to the reference? The gap is real: with 95% confidence MAUVE is at most 0.9500 (p < 1e-5)."
    )
    first = next(iter(compared.scores))
    shown = sentences.gap_sentence(compared)
    assert shown.startswith(
        f"How close is {first} to the reference? No gap was shown with this embedder and this many samples ("
    )
    assert re.search(r"\(300 and 300; p = [\d.]+\)\.$", shown)


def test_nothing_is_said_twice_about_a_single_system(compared_as):
    alone = compared_as([("a", 0.96)])
    assert sentences.gap_sentence(alone) == ""
    assert alone.verdict.endswith("MAUVE is at most 0.9800 (p < 1e-5).")


def test_the_title_counts_the_systems(compared, compared_as):
    assert sentences.default_title(compared) == "3 systems against the reference"
    assert sentences.default_title(compared_as([("a", 0.9)])) == "a against the reference"


def test_systems_with_one_signature_are_listed_together(compared):
    near, twin = (compared.scores[name] for name in ("near", "twin"))
    other = replace(twin, signature=replace(twin.signature, rng=7))
    assert sentences.systems_by_signature({"a": near, "b": twin, "c": other}) == {
        str(near.signature): ("a", "b"),
        str(other.signature): ("c",),
    }


def test_what_to_cite_is_what_the_citation_file_says():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = sentences.bibtex(mallow.__version__)
    names = re.findall(r"family-names: (\w+), given-names: (\w+)", citation)
    assert len(names) == 9
    assert f"{{{' and '.join(f'{family}, {first}' for family, first in names)}}}" in cited
    field = dict(re.findall(r"^ {4}(\w+): \"?(.+?)\"?$", citation, flags=re.MULTILINE))
    for value in (
        field["journal"],
        field["volume"],
        field["issue"],
        field["year"],
        f"{field['start']}--{field['end']}",
    ):
        assert f"{{{value}}}" in cited
    assert field["title"] in cited.replace("{MAUVE}", "MAUVE")
    assert f"version = {{{mallow.__version__}}}" in cited
    assert "{The mallow developers}" in cited
    assert re.search(r"^version: (.*)$", citation, flags=re.MULTILINE)[1] == mallow.__version__


def test_the_reason_is_the_difference_to_the_next_system(compared_as):
    apart = compared_as([("a", 0.9), ("b", 0.8), ("c", 0.7)], [{"a", "b"}, {"a", "c"}])
    assert sentences.reason_sentence(apart) == (
        "The reason: the certified MAUVE of a is 0.1000 above the value of b (95% interval of the difference: 0.0000 to 1.0000; "
        "p = 0.01 after correction)."
    )
    against = compared_as([("a", 0.9), ("b", 0.8), ("c", 0.7)], [], baseline="c")
    assert "of a is 0.2000 above the value of c" in sentences.reason_sentence(against)
    assert sentences.reason_sentence(compared_as([("a", 0.9)])) == ""


def test_the_material_is_named_in_a_line(compared):
    assert sentences.material(compared) == "300 samples of the reference, 300 of each system, embedded by letters."
    near = compared.scores["near"]
    long = replace(near.signature, embedder="OnnxText(pack/model.onnx@0123456789ab, width=3)")
    small = replace(compared, scores={"a": replace(near, n=(1000, 50)), "b": near}, signature=long)
    assert sentences.material(small) == (
        "300 to 1,000 samples of the reference, 50 to 300 of each system, embedded by OnnxText(pack/model.onnx)."
    )


def test_clusters_are_named_by_their_words(diagnosed):
    far = diagnosed["far <b>"]
    words = [region.terms[0] for region in far.invented if region.significant]
    text = sentences.regions_in_words(far)
    assert text.split("invents ")[1].startswith(f"“{words[0]}”")
    chance = replace(far, missed=(), invented=())
    assert sentences.regions_in_words(chance) == "no cluster beyond chance"
    bare = replace(far, missed=(), invented=(replace(far.invented[0], terms=(), adjusted=0.001),))
    assert sentences.regions_in_words(bare) == "invents some clusters"


def test_the_words_of_reasons_are_marked(diagnosed):
    words = mallow.explain.Reason("words", "“of the” and “wave” more often", 0.01, 0.01, terms=("of the", "wave"))
    length = mallow.explain.Reason("length", "shorter texts: “no”", 0.01, 0.01)
    one = replace(diagnosed["near"], reasons=(words, length, words))
    assert sentences.telling_words(one) == ("of the", "wave")
