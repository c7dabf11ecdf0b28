"""The page: everything is on it, everything is escaped, nothing else is needed."""

import base64
import io
import os
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mallow.errors import Caveat, InputError
from mallow.evaluate import Comparison
from mallow.explain import Diagnosis, Example, Region, Telltale
from mallow.report import collect_caveats, html, write
from mallow.report._sentences import reason_sentence, typeset
from mallow.results import Estimate, at_least, at_most, merge_caveats, p_number

VOID = {"meta", "img", "input"}


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
    parsed = Parsed(page)
    assert page.startswith("<!doctype html>")
    assert ("html", "lang", "en") in parsed.attributes
    assert ("meta", "charset", "utf-8") in parsed.attributes
    assert parsed.tags["h1"] == parsed.tags["main"] == 1
    assert parsed.tags["title"] == 1
    assert parsed.headings[0] == 1
    assert all(after <= before + 1 for before, after in zip(parsed.headings, parsed.headings[1:], strict=False))
    ids = parsed.values("id")
    assert len(set(ids)) == len(ids)
    for name in ("aria-labelledby", "aria-controls"):
        assert set(parsed.values(name)) <= set(ids)
    assert {target[1:] for target in parsed.values("href")} <= set(ids)
    # Chromium lets a curve have the focus as soon as a script listens for it; other browsers, and pages without scripts, do not.
    assert parsed.values("tabindex").count("0") == 2 * 3  # every curve in both large pictures


def test_the_page_needs_nothing_else(page):
    parsed = Parsed(page)
    assert all(target.startswith("#") for target in parsed.values("href"))
    assert all(target.startswith("data:image/png;base64,") for target in parsed.values("src"))
    assert not any(name.startswith("on") or name == "style" for _, name, _ in parsed.attributes)
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"https?:|@import|url\(", outside)
    [policy] = [value for value in parsed.values("content") if value.startswith("default-src")]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-\S{44}'; script-src 'sha256-\S{44}'; img-src data:; media-src data:; "
        r"base-uri 'none'; form-action 'none'",
        policy,
    )


def test_the_same_results_give_the_same_page(compared, diagnosed, page):
    again = Comparison.from_json(compared.to_json())
    diagnoses = {name: Diagnosis.from_json(diagnosis.to_json()) for name, diagnosis in diagnosed.items()}
    assert html(again, diagnoses=diagnoses) == page


# --- everything is escaped

TEXTS = st.text(
    st.one_of(
        st.sampled_from("<>&\"'/`={}%#\\"), st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs", "Cn"])
    ),
    min_size=1,
    max_size=30,
)


def poisoned(compared, text):
    """A page with the text in every place where a user's text can appear."""
    score = compared.scores["near"]
    score = replace(score, signature=replace(score.signature, embedder=f"embedder {text}"))
    name = f"name {text}"
    difference = replace(compared.differences[0], first=name, second="other")
    changed = replace(
        compared,
        scores={name: score, "other": compared.scores["twin"]},
        differences=(difference,),
        ranks={name: (1, 2), "other": (1, 2)},
        groups=((name, "other"),),
        signature=score.signature,
        caveats=(Caveat(f"kind {text}", f"message {text}", f"system {text}"),),
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
    clusters = replace(score.signature, embedder=f"clusters {text}")
    doubt = Caveat("few samples", f"doubt {text}")
    diagnosis = Diagnosis((region,), (), {"missed": 0.1, "invented": 0.0}, "text", (3, 1), 4, clusters, (doubt,))
    telltale = Telltale(0, f"mark {text}", f"telltale {text}", None, score=-1.5, rank=1)
    diagnosis = replace(diagnosis, giveaways=(telltale,))
    return html(changed, diagnoses={name: diagnosis}, title=f"title {text}")


@settings(max_examples=20)
@given(text=TEXTS)
def test_every_text_is_shown_as_it_is(compared, text):
    parsed, plain = Parsed(poisoned(compared, text)), Parsed(poisoned(compared, "plain"))
    assert parsed.tags == plain.tags
    assert len(parsed.attributes) == len(plain.attributes)
    places = ("title", "name", "id", "sample", "term", "embedder", "clusters", "system", "kind", "message", "doubt")
    places += ("mark", "telltale")
    for place in places:
        assert " ".join(f"{place} {text}".split()) in parsed.text, place


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
    for name, score in compared.scores.items():
        best, worst = compared.ranks[name]
        low, high = score.interval["mauve"]
        certified = score.certified["mauve"]
        shown = [
            f"{best}–{worst}" if best != worst else f"{best}",
            name,
            "B" if name == "far <b>" else "A",
            f"{certified.value:.4f}",
            f"at most {at_most(certified.high)}",
            typeset(p_number(score.p_value)),
            f"{score.mauve:.3f}",
            f"{low:.3f} to {high:.3f}",
            f"{score.self_score['mauve']:.3f}",
            "300",
        ]
        assert " ".join(shown) in text
        assert f"{name} : {' '.join(typeset(score.verdict).split())}" in text
        for key in ("frontier_integral", "midpoint"):
            certified, corrected, (low, high) = score.certified[key], score.debiased[key], score.interval[key]
            shown = [
                f"{certified.value:.4f}",
                f"at least {at_least(certified.low)}",
                f"{getattr(score, key):.3f}",
                f"{low:.3f} to {high:.3f}",
                f"{score.std[key]:.3f}",
                f"{score.self_score[key]:.3f}",
                f"{corrected.value:.3f}",
                f"{corrected.low:.3f} to {corrected.high:.3f}",
            ]
            assert " ".join(shown) in text


def test_every_value_lies_in_the_range_beside_it(page):
    plain = re.sub(r"</?(bdi|strong)[^>]*>", "", page)
    cells = re.findall(r"(\d\.\d+)</td>(?=\s*<td[^>]*>(?:at (most|least) )?(\d\.\d+)(?: to (\d\.\d+))?</td>)", plain)
    ranges = [(float(value), kind, float(first), second) for value, kind, first, second in cells if kind or second]
    assert (
        len(ranges) >= 3 * 2 + 9 * 3
    )  # certified and published in the ranking, and bias-corrected among all summaries
    for value, kind, first, second in ranges:
        low, high = (0.0, first) if kind == "most" else (first, float(second or "inf"))
        assert low <= value <= high


def test_every_95_per_cent_says_of_what(page):
    outside = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    after = re.findall(r"95%\s+(\w+\s+\w+)", Parsed(outside).text)
    assert len(after) > 5
    meanings = {re.sub(r"\s+", " ", words).split()[0] for words in after}
    assert meanings <= {"confidence", "of", "interval", "upper", "bound"}


def test_differences_and_diagnoses_are_there(compared, diagnosed, page):
    text = Parsed(page).text
    places = list(compared.scores)
    for difference in compared.ordered_differences():
        value, (low, high) = difference.difference["mauve"], difference.interval["mauve"]
        shown = f"{value:.4f} {low:.4f} to {high:.4f}".replace("-", "−")
        assert (
            f"{difference.first} {difference.second} {shown} {typeset(p_number(difference.p_value['mauve']))}" in text
        )
        assert places.index(difference.first) < places.index(difference.second)
        first, second = (
            round(compared.scores[name].certified["mauve"].value, 4) for name in (difference.first, difference.second)
        )
        assert value == pytest.approx(first - second, abs=1.01e-4)  # from what is printed
    assert "no difference was shown" in text
    assert re.search(r"the gap of (near|twin) is smaller", text)
    text = Parsed(re.sub(r"</?mark>", "", page)).text
    region = diagnosed["far <b>"].invented[0]
    assert region.significant
    words = ", ".join(f"“{term}”" for term in region.terms[:3])
    joined = text.replace("“ ", "“").replace(" ”", "”").replace("” ,", "”,")
    assert f"{words} {100 * region.share:.1f}% of what it invents" in joined
    assert (
        f"Cluster {region.bin}: {region.reference} reference and {region.model} model samples, more than chance explains"
        in text
    )
    assert f"Median length {region.lengths['region']:g} words" in text
    far = diagnosed["far <b>"]
    for one in (*far.giveaways[:3], *far.unmatched[:3]):
        assert f"{' '.join(one.text.split())} held-out score {one.score:+.2f}".replace(" -", " −") in text
    assert len(far.giveaways) > 3
    assert text.count("The most telling samples") == sum(bool(one.giveaways) for one in diagnosed.values())


def test_every_caveat_is_there_once(compared, diagnosed, page):
    text = Parsed(page).text
    caveats = collect_caveats(compared, diagnosed)
    assert {caveat.kind for caveat in caveats} >= {"few samples", "duplicates"}
    assert {caveat.message for diagnosis in diagnosed.values() for caveat in diagnosis.caveats} <= {
        caveat.message for caveat in caveats
    }
    for line in merge_caveats(caveats, list(compared.scores)):
        assert text.count(" ".join(line.split())) == 1
    assert "few samples all three systems: only 300 samples:" in text


def test_methods_name_the_settings(compared, page):
    text = Parsed(page).text
    assert "on features of letters (26 per sample). The signature lists all settings. Features were scaled to" in text
    assert "reduced by PCA to 90% of their variance and clustered by k-means" in text
    assert "300 samples of the reference were compared with 300 samples of each system, in 20 bins." in text
    assert "with scale c = 5." in text
    assert "means over 3 runs with different seeds of clustering (seed 0)." in text
    assert "corrected by Holm's method over 3 pairs" in text
    assert "The p-values for “no gap” come from 499 or 99,999 permutations of units." in text
    assert "The self-score is the mean score of random parts of the reference against each other." in text
    assert str(compared.signature) in text
    other = replace(compared.signature, measure="Measure(Neighbors(neighbors=5), KL, scale=5)")
    text = Parsed(html(replace(compared, signature=other))).text
    assert "by the measure Measure(Neighbors(neighbors=5), KL, scale=5) on features of letters" in text
    assert "k-means" not in text


def test_pictures_stand_in_a_row_and_are_not_said_to_be_words(compared, diagnosed, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    path = tmp_path / "digit.png"
    image.new("L", (8, 8)).save(path)

    def as_pictures(region):
        examples = tuple(Example(place, f"{place}.png", path=str(path)) for place in range(6))
        return replace(region, terms=(), lengths={}, reference_examples=examples, model_examples=examples)

    pictures = {
        name: replace(
            one, missed=tuple(map(as_pictures, one.missed)), invented=tuple(map(as_pictures, one.invented)), reasons=()
        )
        for name, one in diagnosed.items()
    }
    page = html(compared, diagnoses=pictures)
    assert page.count("<img ") == 12 * sum(len((*one.missed, *one.invented)) for one in pictures.values())
    assert "more examples" not in page
    assert "typical words" not in page
    assert "typical words" in html(compared, diagnoses=diagnosed)


def test_ids_are_no_bare_numbers(compared, diagnosed):
    def numbered(region):
        return replace(region, model_examples=tuple(replace(one, id="672") for one in region.model_examples))

    far = diagnosed["far <b>"]
    page = html(compared, diagnoses={"far <b>": replace(far, invented=tuple(map(numbered, far.invented)))})
    assert "<figcaption>id 672</figcaption>" in page
    assert "<figcaption>672" not in page
    nameless = replace(far.invented[0], model_examples=(Example(0, text="a wave"),), reference_examples=())
    page = html(
        compared, diagnoses={"far <b>": replace(far, missed=(), invented=(nameless,), giveaways=(), unmatched=())}
    )
    assert "None</figcaption>" not in page


# --- the verdict


@pytest.mark.parametrize(
    ("apart", "baseline", "sentence"),
    [
        ([{"a", "b"}, {"a", "c"}], None, "Smallest proven gap: a. Every other system has a larger one"),
        (
            [{"b", "c"}],
            None,
            "There is no clear winner: no difference was shown between the proven gaps of a, b and c (5% level, corrected for all pairs).",
        ),
        ([{"a", "c"}], None, "There is no clear winner: no difference was shown between the proven gaps of a and b"),
        (
            [{"a", "b"}, {"b", "c"}],
            "b",
            "Compared with the proven gap of b: the gap of a is smaller; the gap of c is larger.",
        ),
        ([], "a", "Compared with the proven gap of a: the gap of b and c is not shown to differ."),
    ],
)
def test_the_page_begins_with_the_verdict(compared_as, apart, baseline, sentence):
    comparison = compared_as([("a", 0.9), ("b", 0.8), ("c", 0.7)], apart, baseline)
    assert comparison.verdict.startswith(sentence)
    gap = "How close is a to the reference? The gap is real: with 95% confidence MAUVE is at most 0.9500 (p < 10⁻⁵)."
    reason = reason_sentence(comparison)
    assert re.match(
        r"The reason: the certified MAUVE of (a is 0.1000 above the value of b|b is 0.1000 below the value of a) \(",
        reason,
    )
    text = Parsed(html(comparison)).text
    assert (
        " ".join(typeset(f"3 systems against the reference {comparison.verdict} {reason} {gap} 300 samples").split())
        in text
    )


def test_untested_differences_name_no_winner(compared):
    near = compared.scores["near"]
    low = {**near.certified, "mauve": Estimate(0.5, 0.0, 0.6)}
    text = Parsed(html({"low": replace(near, certified=low), "high": near})).text
    assert "There is no clear winner: the differences were not tested. high has the highest certified MAUVE." in text
    assert re.search(r"\bhigh \d\.\d{4} .*\blow 0\.5000 ", text)  # the best first


# --- one score, several, and what estimators without bins leave out


def test_one_score_is_a_page_too(compared):
    score = replace(compared.scores["far <b>"], caveats=(Caveat("few samples", "only few samples."),))
    for what, name in ((score, "model"), ({"far <b>": score}, "far <b>")):
        parsed = Parsed(html(what))
        assert f"{name} against the reference" in parsed.text
        assert f"{name}: only few samples." in parsed.text
        assert "Group" not in parsed.text
        assert "Differences" not in parsed.text
    assert "Thin lines" not in parsed.text


def test_a_score_without_bins_and_repeats(compared):
    score = replace(
        compared.scores["near"],
        debiased={},
        interval={},
        certified={},
        certified_frontier=None,
        evidence=None,
        band=None,
        signature=replace(compared.scores["near"].signature, bins=None),
        values={"mauve": (0.9,)},
    )
    page = html(score)
    text = Parsed(page).text
    assert f"model – – {p_number(score.p_value)} {score.mauve:.3f} – {score.self_score['mauve']:.3f}" in text
    assert "The estimator was run once (seed 0)." in text
    assert not re.search(r"in \d+ bins", text)
    assert "The range beside a published score" not in text
    assert "held-out evidence" not in text
    assert "dashed curve" not in text
    assert 'class="certified"' not in page
    assert "darker band" not in text
    assert 'class="band"' not in page
    assert '<rect class="interval" x="1"' in page  # in the key
    assert len(re.findall(r'<rect class="(?:interval|possible)"', page)) == 2  # both in the key
    assert "Certified: the true curve" not in text


def test_a_page_without_caveats_says_so(compared):
    assert "Caveats There are none." in Parsed(html(replace(compared, caveats=()))).text


def test_a_baseline_is_marked(compared_as):
    text = Parsed(html(compared_as([("a", 0.9), ("b", 0.8), ("c", 0.7)], baseline="b"))).text
    assert "b baseline" in text
    assert "Rank " not in text


# --- images


def image_diagnosis(path, signature):
    region = Region("invented", 3, 0.5, 0, 9, (4.5, 4.5), 0.01, 0.02, (), (Example(0, None, None, str(path)),), (), {})
    return Diagnosis((), (region,), {"missed": 0.0, "invented": 0.1}, "image", (9, 9), 4, signature, ())


def test_images_are_shown_small(compared, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    path = tmp_path / "a&b.png"
    image.new("RGB", (1000, 500), "red").save(path)
    page = html(compared, diagnoses={"near": image_diagnosis(path, compared.signature)})
    parsed = Parsed(page)
    [source] = parsed.values("src")
    with image.open(io.BytesIO(base64.b64decode(source.removeprefix("data:image/png;base64,")))) as shown:
        assert shown.size == (192, 96)
        assert shown.convert("RGB").getpixel((5, 5)) == (255, 0, 0)
    assert parsed.values("alt") == [str(path)]


def test_images_that_cannot_be_read_are_named(compared, tmp_path, monkeypatch):
    (tmp_path / "no.png").write_text("no image")
    for path in (tmp_path / "no.png", tmp_path / "missing.png"):
        parsed = Parsed(html(compared, diagnoses={"near": image_diagnosis(path, compared.signature)}))
        assert parsed.tags["img"] == 0
        assert str(path) in parsed.text
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    image.new("RGB", (10, 10)).save(tmp_path / "yes.png")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    parsed = Parsed(html(compared, diagnoses={"near": image_diagnosis(tmp_path / "yes.png", compared.signature)}))
    assert parsed.tags["img"] == 0


# --- the file


def test_the_file_is_the_page(compared, page, diagnosed, tmp_path):
    path = tmp_path / "r.html"
    path.write_text("old")
    write(path, compared, diagnoses=diagnosed)
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
    with pytest.raises(InputError, match=r"x\.html: the folder .*none does not exist\. Create it first\.$"):
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


def test_no_control_character_reaches_the_page(compared):
    """C0 without tab and line ends, DEL, all of C1 (by which terminals and old browsers are steered), halves of pairs."""
    controls = [*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0), 0xD800, 0xDFFF, 0xFFFE, 0xFFFF]
    letters = "".join(map(chr, controls))
    page = html(compared, title=f"A{letters}B")
    assert set(page).isdisjoint(letters)
    assert f"<h1>A{chr(0xFFFD) * len(letters)}B</h1>" in page
