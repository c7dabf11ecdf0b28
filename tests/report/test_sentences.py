"""The sentences of the page: the verdict, the gap, what to cite."""

import re
from dataclasses import replace
from pathlib import Path

import mallow
from mallow.report import _sentences as sentences

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_gap_is_that_of_the_first_system_by_evidence(compared, compared_as):
    assert sentences.gap_sentence(compared_as([("a", 0.9), ("b", 0.8)])) == (
        "a against the reference: the gap is real: with 95 % confidence MAUVE is at most 0.95 (p < 1e-6)."
    )
    first = next(iter(compared.scores))
    shown = sentences.gap_sentence(compared)
    assert shown.startswith(f"{first} against the reference: no gap was found (p = ")
    assert shown.endswith("these 300 and 300 samples cannot be told apart.")


def test_nothing_is_said_twice_about_a_single_system(compared_as):
    alone = compared_as([("a", 0.96)])
    assert sentences.gap_sentence(alone) == ""
    assert alone.verdict.endswith("MAUVE is at most 0.98 (p < 1e-6).")


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
