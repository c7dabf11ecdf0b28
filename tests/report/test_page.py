"""The page: everything is on it, everything is escaped, nothing else is needed."""

import base64
import io
import json
import os
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

import mallow
from mallow.errors import Caveat
from mallow.errors import InputError
from mallow.evaluate._compare import Comparison, Difference
from mallow.explain import Diagnosis, Example, Region
from mallow.report import _sentences as words
from mallow.report import _svg as svg
from mallow.report import html, write
from mallow.report._page import _letter

ROOT = Path(__file__).resolve().parent.parent.parent
VOID = {"meta", "img"}


class Parsed(HTMLParser):
    """Tags, attributes and text of a page; refuses tags that are not closed in their order."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.headings, self.open = Counter(), [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def values(self, name):
        return [value for _, each, value in self.attributes if each == name]


# --- one valid page that needs nothing else


def test_the_page_is_valid_and_its_parts_are_in_order(page):
    found = Parsed(page)
    assert page.startswith("<!doctype html>")
    assert ("html", "lang", "en") in found.attributes
    assert ("meta", "charset", "utf-8") in found.attributes
    assert found.tags["title"] == found.tags["h1"] == found.tags["main"] == 1
    assert found.headings[0] == 1
    assert all(after <= before + 1 for before, after in zip(found.headings, found.headings[1:], strict=False))
    ids = found.values("id")
    assert len(set(ids)) == len(ids)
    for name in ("aria-labelledby", "aria-controls"):
        assert set(found.values(name)) <= set(ids)
    assert {target[1:] for target in found.values("href")} <= set(ids)


def test_the_page_needs_nothing_else(page):
    found = Parsed(page)
    assert all(target.startswith("#") for target in found.values("href"))
    assert all(target.startswith("data:image/png;base64,") for target in found.values("src"))
    assert not any(name.startswith("on") or name == "style" for _, name, _ in found.attributes)
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"https?:|@import|url\(", outside)
    [policy] = [value for value in found.values("content") if value.startswith("default-src")]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-\S{44}'; script-src 'sha256-\S{44}'; img-src data:; "
        r"base-uri 'none'; form-action 'none'",
        policy,
    )


def test_the_same_results_give_the_same_page(compared, diagnosed, found, page):
    again = Comparison.from_json(compared.to_json())
    assert html(again, diagnoses=diagnosed, findings=found) == page


# --- everything is escaped

TEXTS = st.text(
    st.one_of(
        st.sampled_from("<>&\"'/`={}%#\\"), st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs", "Cn"])
    ),
    min_size=1,
    max_size=30,
)


def poisoned(compared, text):
    """A page with the text in every place that a user's text can come to, and what it shows."""
    score = replace(compared.scores["near"], signature=f"sig {text}")
    name = f"name {text}"
    difference = replace(compared.differences[0], first=name, second="other")
    given = replace(
        compared,
        scores={name: score, "other": compared.scores["twin"]},
        differences=(difference,),
        ranks={name: (1, 2), "other": (1, 2)},
        groups=((name, "other"),),
        warnings=(f"warning {text}",),
    )
    example = Example(0, f"id {text}", f"sample {text}", None)
    region = Region(
        "missed",
        0,
        0.5,
        3,
        1,
        (2.0, 2.0),
        0.1,
        0.2,
        (example,),
        (),
        (f"term {text}",),
        {"region": 1.0, "elsewhere": 2.0},
    )
    diagnosis = Diagnosis(
        (region,), (), {"missed": 0.1, "invented": 0.0}, "text", (3, 1), 4, f"clusters {text}", (text,)
    )
    finding = Caveat(f"kind {text}", f"message {text}", f"system {text}")
    return html(given, diagnoses={name: diagnosis}, findings=[finding], title=f"title {text}")


@settings(max_examples=20)
@given(text=TEXTS)
def test_every_text_is_shown_as_it_is(compared, text):
    found, plain = Parsed(poisoned(compared, text)), Parsed(poisoned(compared, "plain"))
    assert found.tags == plain.tags
    assert len(found.attributes) == len(plain.attributes)
    for place in ("title", "name", "warning", "id", "sample", "term", "clusters", "system", "kind", "message", "sig"):
        assert " ".join(f"{place} {text}".split()) in found.text, place


def test_a_sample_with_a_script_is_text(page):
    assert "&lt;script&gt;document.title = &#39;owned&#39;&lt;/script&gt;" in page
    assert "<script>document.title" not in page
    assert page.count("<script>") == 1


def test_what_no_page_can_carry_is_replaced(compared):
    page = poisoned(compared, "a\x00b\x1b\ud800c\r\nd")
    page.encode("utf-8")
    assert "sample a\ufffdb\ufffd\ufffdc\r\nd" in page
    assert not re.search(r"[\x00-\x08\x1b]", page)


def test_long_samples_are_cut(compared):
    page = poisoned(compared, "x" * 1000)
    assert f"sample {'x' * 593} … (407 more characters)" in page


# --- everything is on it


def test_the_ranking_has_every_number(compared, page):
    text = Parsed(page).text
    assert compared.groups == (("near", "twin"), ("far <b>",)) or compared.groups == (("twin", "near"), ("far <b>",))
    for name, one in compared.scores.items():
        best, worst = compared.ranks[name]
        pair = one.interval["mauve"]
        shown = [
            f"{best}–{worst}" if best != worst else f"{best}",
            name,
            "B" if name == "far <b>" else "A",
            f"{one.mauve:.3f}",
            f"{one.std['mauve']:.3f}",
            "none" if pair is None else f"{pair[0]:.3f}–{pair[1]:.3f}",
            f"{one.debiased['mauve']:.3f}",
            f"{one.noise_floor['mauve']:.3f}",
            "300",
        ]
        assert " ".join(shown) in text
        for key in ("frontier_integral", "midpoint"):
            assert f"{getattr(one, key):.3f} {one.std[key]:.3f}" in text


def test_differences_diagnosis_and_doubts_are_there(compared, diagnosed, found, page):
    text = Parsed(page).text
    for one in compared.differences:
        assert f"{one.first} {one.second} {one.difference['mauve']:.3f}".replace("-", "−") in text
    assert "cannot be told apart" in text
    assert re.search(r"(near|twin) is closer", text)
    assert compared.warnings
    assert found
    doubts = [*compared.warnings, *(each.message for each in found)]
    for said in [*doubts, *(each for one in diagnosed.values() for each in one.warnings)]:
        assert " ".join(said.split()) in text
    region = diagnosed["far <b>"].invented[0]
    assert region.significant
    assert f"Cluster {region.bin} {100 * region.share:.1f} % of what it invents" in text
    assert f"{region.reference} reference and {region.model} model samples; more than chance" in text
    assert f"Median length {region.lengths['region']:g} words" in text


def test_methods_name_the_settings(compared, page):
    text = Parsed(page).text
    measure = re.search(r"Measure\(.*\)(?= \| )", compared.signature)[0]
    assert f"by the measure {measure} on the features" in text
    assert "300 samples of the reference were compared with 300 of each system, in 20 bins." in text
    assert "with scale c = 5." in text
    assert "means over 3 runs with different seeds of clustering (seed 0)." in text
    assert "corrected by Holm's method over 3 pairs" in text
    assert compared.signature in text


def test_what_to_cite_is_what_the_citation_file_says():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = words.bibtex(mallow.__version__)
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
    assert "version" not in words.bibtex("")


def test_a_signature_of_another_form_is_quoted_only(compared):
    score = replace(compared.scores["near"], signature="something else")
    text = Parsed(html(score)).text
    assert "Scores were computed with mallow. MAUVE is" in text
    assert "something else" in text


# --- the verdict


def compared_as(compared, means, apart, baseline=None):
    """A comparison with these scores, of which these pairs differ significantly."""
    score = compared.scores["near"]
    scores = {
        name: replace(score, mauve=value, noise_floor={**score.noise_floor, "mauve": 0.95}) for name, value in means
    }
    names = [name for name, _ in means]
    values = dict(means)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if baseline in (None, a, b)]
    differences = tuple(
        Difference(
            a,
            b,
            {"mauve": values[a] - values[b]},
            {"mauve": (0.0, 1.0)},
            {"mauve": 0.01},
            {"mauve": 0.01 if {a, b} in apart else 0.9},
        )
        for a, b in pairs
    )
    worst = 1 + sum({names[0], other} not in apart for other in names[1:])
    ranks = {} if baseline else dict.fromkeys(names, (1, worst))
    return Comparison(scores, differences, ranks, (), {}, baseline, "", ())


MEANS = [("a", 0.9), ("b", 0.8), ("c", 0.7)]


@pytest.mark.parametrize(
    ("apart", "baseline", "sentence"),
    [
        ([{"a", "b"}, {"a", "c"}], None, "a is closest to the reference: it beats every other system"),
        (
            [{"b", "c"}],
            None,
            "No winner can be named: a, b and c cannot be told apart (5 % level, corrected for all pairs).",
        ),
        ([{"a", "c"}], None, "No winner can be named: a and b cannot be told apart"),
        (
            [{"a", "b"}, {"b", "c"}],
            "b",
            "Compared with b: a is closer to the reference; c is farther from it.",
        ),
        ([], "a", "Compared with a: b and c are not to be told apart."),
    ],
)
def test_the_verdict_names_a_winner_or_none(compared, apart, baseline, sentence):
    given = compared_as(compared, MEANS, apart, baseline)
    said, gap = words.verdict(given)
    assert said.startswith(sentence)
    assert gap == (
        "a scores 0.900, which is 0.050 below the 0.950 that the reference scores against itself (the noise floor)."
    )
    text = Parsed(html(given)).text
    assert f"{said} {gap}" in text


def test_untested_differences_name_no_winner(compared):
    scores = {"low": replace(compared.scores["near"], mauve=0.5), "high": compared.scores["near"]}
    text = Parsed(html(scores)).text
    assert "No winner can be named: the differences were not tested. high has the highest score." in text
    assert re.search(r"\bhigh \d\.\d{3} .*\blow 0\.500 ", text)  # the best first


def test_no_gap_above_the_floor(compared):
    given = compared_as(compared, [("a", 0.96)], [])
    assert words.verdict(given) == (
        "a was compared with the reference only.",
        "a scores 0.960, no less than the reference against itself (0.950, the noise floor): this score shows no gap. "
        "Samples that continue the reference's own prompts may score above that.",
    )


# --- one score, several, and what estimators without bins leave out


def test_one_score_is_a_page_too(compared):
    score = replace(compared.scores["far <b>"], warnings=("only few samples.",))
    for what, name in ((score, "model"), ({"far <b>": score}, "far <b>")):
        found = Parsed(html(what))
        assert f"{name} against the reference" in found.text
        assert "only few samples." in found.text
        assert "Group" not in found.text
        assert "Differences" not in found.text
    assert "Thin lines" not in found.text


def test_a_score_without_bins_and_repeats(compared):
    score = replace(
        compared.scores["near"],
        debiased={},
        interval=dict.fromkeys(compared.scores["near"].interval),
        band=None,
        masses=replace(compared.scores["near"].masses, partition=None),
        values={"mauve": (0.9,)},
    )
    page = html(score)
    text = Parsed(page).text
    assert "none none" in text
    assert "The estimator was run once (seed 0)." in text
    assert "bins." not in text
    assert "Intervals are at" not in text
    assert "darker band" not in text
    assert 'class="band"' not in page
    assert '<rect class="interval" x="1"' in page  # in the key
    assert page.count("<rect") == 1


def test_without_doubts_the_page_says_so(compared):
    assert "Warnings and confounds None were found." in Parsed(html(replace(compared, warnings=()))).text


def test_a_baseline_is_marked(compared):
    given = compared_as(compared, MEANS, [], "b")
    text = Parsed(html(given)).text
    assert "b baseline" in text
    assert "Rank " not in text


# --- images


def image_diagnosis(path):
    region = Region("invented", 3, 0.5, 0, 9, (4.5, 4.5), 0.01, 0.02, (), (Example(0, None, None, str(path)),), (), {})
    return Diagnosis((), (region,), {"missed": 0.0, "invented": 0.1}, "image", (9, 9), 4, "signature", ())


def test_images_are_shown_small(compared, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    path = tmp_path / "a&b.png"
    image.new("RGB", (1000, 500), "red").save(path)
    page = html(compared, diagnoses={"near": image_diagnosis(path)})
    found = Parsed(page)
    [source] = found.values("src")
    with image.open(io.BytesIO(base64.b64decode(source.removeprefix("data:image/png;base64,")))) as shown:
        assert shown.size == (192, 96)
        assert shown.convert("RGB").getpixel((5, 5)) == (255, 0, 0)
    assert found.values("alt") == [str(path)]


def test_images_that_cannot_be_read_are_named(compared, tmp_path, monkeypatch):
    (tmp_path / "no.png").write_text("no image")
    for path in (tmp_path / "no.png", tmp_path / "missing.png"):
        found = Parsed(html(compared, diagnoses={"near": image_diagnosis(path)}))
        assert found.tags["img"] == 0
        assert str(path) in found.text
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    image.new("RGB", (10, 10)).save(tmp_path / "yes.png")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = Parsed(html(compared, diagnoses={"near": image_diagnosis(tmp_path / "yes.png")}))
    assert found.tags["img"] == 0


# --- the file


def test_the_file_is_the_page(compared, page, diagnosed, found, tmp_path):
    path = tmp_path / "r.html"
    path.write_text("old")
    write(path, compared, diagnoses=diagnosed, findings=found)
    assert path.read_bytes() == page.encode("utf-8")
    assert os.listdir(tmp_path) == ["r.html"]


def test_a_failed_write_leaves_the_old_file(compared, tmp_path, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(InputError, match=r"r\.html: cannot be written: No space left on device\.$"):
        write(path, compared)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["r.html"]


def test_places_that_cannot_be_written_are_refused(compared, tmp_path):
    with pytest.raises(InputError, match=r"x\.html: the folder .*none does not exist\. Make it first\.$"):
        write(tmp_path / "none" / "x.html", compared)
    with pytest.raises(InputError, match=r"is a folder, not a file\. Name a file in it\.$"):
        write(tmp_path, compared)
    with pytest.raises(InputError, match=r"cannot be written: File name too long\.$"):
        write(tmp_path / ("x" * 300), compared)


def test_wrong_input_is_refused(compared, diagnosed):
    with pytest.raises(
        InputError, match=r"^`diagnoses` must be of the systems compared \(model\); got one of 'near'\.$"
    ):
        html(compared.scores["near"], diagnoses=diagnosed)
    for wrong in ({}, [1], {"a": 1}, "text"):
        with pytest.raises(InputError, match=r"^`comparison` must be a Comparison, a Score, or a mapping of names"):
            html(wrong)


# --- geometry


@given(st.lists(st.floats(0, 20), min_size=1, max_size=8), st.integers(4, 8), st.booleans())
def test_axes_hold_their_values_on_few_round_ticks(values, most, from_zero):
    axis = svg.Scale.around(values, most_ticks=most, low=0.0 if from_zero else None)
    assert axis.low <= min(values) + 1e-9
    assert max(values) <= axis.high + 1e-9
    assert 2 <= len(axis.ticks) <= most + 1
    assert (axis.ticks[0], axis.ticks[-1]) == (axis.low, axis.high)
    assert axis(axis.low) == 0
    assert axis(axis.high) == 100
    shown = [float(axis.label(tick)) for tick in axis.ticks]
    assert shown == approx(axis.ticks, abs=1e-9)


def points(path):
    return np.array([[float(number) for number in pair.split()] for pair in path.strip("MZ").split("L")])


def test_the_shaded_area_is_the_score(compared):
    for one in compared.scores.values():
        x, y = points(svg.exponentiated_square(one).area).T
        covered = abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2 / 200**2
        assert covered == approx(one.mauve, abs=0.01)


def test_costs_are_drawn_from_the_origin_up(compared):
    one = compared.scores["far <b>"]
    square = svg.cost_square(one)
    x, y = points(square.line).T
    assert (np.diff(x) <= 0).all()
    assert (np.diff(y) <= 0).all()  # towards the top, where y is 0
    assert ((x >= 0) & (x <= 200) & (y >= 0) & (y <= 200)).all()
    half = np.argmin(np.abs(one.frontier.lam - 0.5))
    assert square.middle[0] == approx(200 * one.frontier.p_to_mix[half] / square.axis.high, abs=0.1)
    assert square.middle[1] == approx(200 - 200 * one.frontier.q_to_mix[half] / square.axis.high, abs=0.1)


def test_strips_lie_in_the_chart(compared):
    axis, strips = svg.score_strips(compared.scores)
    for strip, one in zip(strips, compared.scores.values(), strict=True):
        assert axis.low + strip.score / 100 * (axis.high - axis.low) == approx(one.mauve, abs=1e-3)
        for place in (strip.score, strip.floor, *strip.spread, *(strip.interval or ())):
            assert 0 <= place <= 100


def test_letters_go_on_after_z():
    assert [_letter(place) for place in (0, 25, 26, 27, 701, 702)] == ["A", "Z", "AA", "AB", "ZZ", "AAA"]


def test_a_report_from_a_stored_comparison(compared, page):
    again = Comparison.from_dict(json.loads(compared.to_json()))
    assert [each.name for each in svg.score_strips(again.scores)[1]] == list(compared.scores)
