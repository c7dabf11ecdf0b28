"""What differs beside the model: silent on halves of real data, and right about each defect that is planted."""

import importlib.util
import itertools
import json
import re
import time
import unicodedata
from pydoc_data.topics import topics

import numpy as np
import pytest

from mallow import InputError, Samples, read
from mallow.confounds._find import Finding, find_confounds


def passages() -> list[str]:
    """Passages of whole sentences from the language reference that every Python carries, 15 words or more each."""
    text = re.sub(r"[*_`|+=-]{2,}", " ", "\n\n".join(topics[name] for name in sorted(topics)))
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", re.sub(r"[ \t]+", " ", text))
    found, current = [], ""
    for sentence in sentences:
        current = f"{current} {sentence}" if current else sentence
        if len(current.split()) >= 15:
            found.append(current.strip())
            current = ""
    return list(dict.fromkeys(found))[:1600]


TEXTS = passages()


def halves(seed: int = 0, size: int = 500) -> tuple[list[str], list[str]]:
    order = np.random.default_rng(seed).permutation(len(TEXTS))
    return [TEXTS[i] for i in order[:size]], [TEXTS[i] for i in order[size : 2 * size]]


def only(reference: object, model: object, kind: str) -> Finding:
    """The one finding, which must be of this kind and of the model."""
    found = find_confounds(reference, {"model": model})
    assert [(each.system, each.kind) for each in found] == [("model", kind)], found
    return found[0]


def of_kind(reference: object, model: object, kind: str) -> list[Finding]:
    return [each for each in find_confounds(reference, {"model": model}) if each.kind == kind]


# --- no false alarms


def test_there_is_enough_real_text():
    assert len(TEXTS) > 1000


@pytest.mark.parametrize("size", [5, 20, 100, 500])
@pytest.mark.parametrize("seed", range(4))
def test_halves_of_real_text_give_nothing(seed, size):
    one, other = halves(seed, size)
    assert find_confounds(one, {"other": other}) == ()


def test_halves_of_human_webtext_give_nothing(shared):
    human = read(shared / "data" / "webtext-gpt2-large" / "human.jsonl.gz", field="gen").texts
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(human))
        for size in (30, 500):
            one, other = ([human[i] for i in part] for part in (order[:size], order[500 : 500 + size]))
            assert find_confounds(one, {"other": other}) == ()


def test_the_lost_leading_space_of_published_samples_is_found(shared):
    folder = shared / "data" / "webtext-gpt2-large"
    names = ("human", "nucleus", "typical")
    human, nucleus, typical = (read(folder / f"{name}.jsonl.gz", field="gen", skip_bad=True) for name in names)
    found = find_confounds(human, {"nucleus": nucleus, "typical": typical})
    (space,) = [each for each in found if each.kind == "space"]
    assert space.system == "typical"
    assert space.values["share"] == 0.0
    assert space.values["share_reference"] == pytest.approx(0.77)
    (empty, _) = [each for each in found if each.kind == "empty"]
    assert empty.values["left_out"] == 1


def test_short_answers_that_recur_on_both_sides_are_not_shared():
    answers = ["yes", "no", "maybe so"]
    rng = np.random.default_rng(0)
    one, other = ([answers[i] for i in rng.integers(3, size=300)] for _ in range(2))
    assert {each.kind for each in find_confounds(one, {"other": other})} == {"duplicates"}


def test_several_generations_of_a_prompt_count_as_one():
    # 60 texts, half of which end without a full stop, against 60 copies of 4 such texts: no evidence, unless it is 60 texts.
    one, other = halves(size=60)
    one = [text.rstrip(".") if i % 2 else text for i, text in enumerate(one)]
    ended = [text for text in other if text.endswith(".")]
    ids = tuple(str(i % 4) for i in range(len(ended)))
    assert of_kind(one, Samples("text", tuple(ended)), "truncation")
    assert not of_kind(one, Samples("text", tuple(ended), ids), "truncation")


# --- each defect, planted in real text


def test_length():
    one, other = halves()
    finding = of_kind(one, [" ".join(text.split()[:12]) + "." for text in other], "length")[0]
    middle = np.median([len(text.split()) for text in one])
    assert finding.values["words_50"] == 12
    assert finding.values["words_50_reference"] == middle
    assert f"the median text has 12 words, in the reference {middle:.0f}" in finding.message


def test_length_without_spaces_is_seen_in_characters():
    one, other = (["".join(text.split()) for text in half] for half in halves())
    finding = of_kind(one, [text[: len(text) // 2] + "." for text in other], "length")[0]
    assert finding.values["characters_50"] < 0.6 * finding.values["characters_50_reference"]


def test_longer_tails_are_lengths_too():
    one, other = halves()
    mixed = [f"{a} {b} {b} {b}" if i % 6 == 0 else a for i, (a, b) in enumerate(zip(other, one[::-1], strict=True))]
    values = only(one, mixed, "length").values
    assert values["words_50"] < 1.1 * values["words_50_reference"]
    assert values["words_90"] > 1.1 * values["words_90_reference"]


def test_a_small_difference_of_length_is_none():
    one, other = halves()
    longer = [f"{text} Yes." for text in other]  # a word in 30
    assert find_confounds(one, {"model": longer}) == ()


def test_ends_that_are_cut():
    one, other = halves()
    cut = [re.sub(r"\W+\w+\W*$", "", text) if i % 2 else text for i, text in enumerate(other)]
    values = only(one, cut, "truncation").values
    assert values["share"] - values["share_reference"] == pytest.approx(0.5, abs=0.1)
    closed = [f'"{text}"' for text in one]  # quotation marks and brackets behind the end are no cut
    assert of_kind(one, closed, "truncation") == []


@pytest.mark.parametrize("unit", ["words", "characters"])
def test_a_common_greatest_length(unit):
    one, other = halves()
    limit = 22 if unit == "words" else 130

    def cut(text):
        return " ".join(text.split()[:limit]) if unit == "words" else text[:limit]

    reached = np.mean([(len(text.split()) if unit == "words" else len(text)) >= limit for text in other])
    for reference, model in ((one, [cut(text) for text in other]), ([cut(text) for text in other], one)):
        spikes = [each for each in of_kind(reference, model, "truncation") if unit in each.values]
        (finding,) = spikes
        side = "share" if model is not one else "share_reference"
        assert finding.values[side] == pytest.approx(reached)
        assert finding.values[unit] == limit
        assert f"have exactly {limit} {unit}" in finding.message
    both = [cut(text) for text in one], [cut(text) for text in other]
    assert find_confounds(both[0], {"model": both[1]}) == ()  # both sides cut alike, as is right


def test_duplicates():
    one, other = halves()
    doubled = [*other[:480], *(f" {other[0].upper()}\n" for _ in range(7)), *other[1:14]]
    (finding,) = of_kind(one, doubled, "duplicates")
    assert finding.values == {"repeats": 20, "n": 500, "share": 0.04, "most": 8}
    assert "20 of 500 texts (4.0 %)" in finding.message
    assert repr(other[0][:20])[:-1] in finding.message
    assert find_confounds(doubled, {"model": other[:0] or one})[0].system is None  # of the reference
    assert of_kind(one, [*other[:496], *other[:4]], "duplicates") == []  # one in a hundred is none


def test_copies_of_the_reference():
    one, other = halves()
    finding = only(one, [*other[:488], *(text.replace(" ", "  ") for text in one[:12])], "shared")
    assert finding.values == {"copies": 12, "n": 500, "share": 0.024, "expected": 0.0}
    assert "stand in the reference too" in finding.message
    assert of_kind(one, [*other[:495], *one[:5]], "shared") == []


def test_one_file_given_twice():
    one, other = halves()
    (finding,) = find_confounds(one, {"first": other, "second": other[::-1]})
    assert (finding.system, finding.kind) == ("second", "shared")
    assert "500 of 500 texts (100.0 %) stand in `first` too" in finding.message
    assert "given twice" in finding.message


def test_white_space_alone_and_what_was_left_out():
    one, other = halves()
    finding = only(one, read([*other, "", "  ", "\n"], skip_bad=True), "empty")
    assert finding.values == {"blank": 2, "left_out": 1, "n": 503, "share": 3 / 503}
    assert "list[500]: empty text" in finding.message
    finding = only(one, read([*other, {"x": 1}], skip_bad=True), "skipped")
    assert finding.values == {"left_out": 1, "n": 501, "share": 1 / 501}
    assert "no field `text`" in finding.message


def with_prompts(texts: list[str], *, kept: bool, known: bool = True) -> Samples:
    cut = [text.split(" ", 3) for text in texts]
    prompts = [" ".join(words[:3]) for words in cut]
    shown = tuple(text if kept else words[3] for text, words in zip(texts, cut, strict=True))
    return Samples("text", shown, prompts=tuple(prompts) if known else None)


@pytest.mark.parametrize("known", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("kept", [(True, False), (False, True)])
def test_prompts_on_one_side_only(kept, known):
    one, other = halves()
    if not all(known):
        one, other = one, list(one)  # continuations of the same prompts; copies are found too
    sides = [with_prompts(side, kept=k, known=a) for side, k, a in zip((one, other), kept, known, strict=True)]
    (finding,) = of_kind(*sides, "prompt")
    wanted = (1.0, 0.0) if kept[1] else (0.0, 1.0)
    assert (finding.values["share"], finding.values["share_reference"]) == pytest.approx(wanted, abs=0.03)


def test_prompts_on_both_sides_or_none_are_right():
    one, other = halves()
    for kept in (True, False):
        sides = [with_prompts(side, kept=kept) for side in (one, other)]
        assert of_kind(*sides, "prompt") == []


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("space", lambda text: " " + text, "begin with white space"),
        ("space", lambda text: text + "\n", "end with white space"),
        ("case", str.lower, "have no capital letters"),
        ("case", str.upper, "have nothing but capital letters"),
        ("leftovers", lambda text: text + "<|endoftext|>", "hold markers of a tokeniser"),
        (
            "leftovers",
            lambda text: re.sub(r"([.,]) ", r" \1 ", text + " Well, yes."),
            "have a space before a full stop",
        ),
    ],
)
def test_traits(kind, change, words):
    one, other = halves()
    changed = [change(text) if i % 2 else text for i, text in enumerate(other)]
    (finding,) = [each for each in of_kind(one, changed, kind) if words in each.message]
    assert finding.values["share"] - finding.values["share_reference"] == pytest.approx(0.5, abs=0.06)
    assert f"{100 * finding.values['share']:.1f} % of the texts {words}" in finding.message
    assert find_confounds([change(text) for text in one], {"model": [change(text) for text in other]}) == ()


def test_characters_that_one_side_lacks():
    one, other = halves()
    curly = [text.replace("'", "’").replace('"', "”") for text in one]
    finding, straight = of_kind(other, curly, "characters")
    assert straight.message.startswith('the character " stands in 64.2 % of the texts in the reference')
    assert straight.values["share"] == 0.0
    share = np.mean(["’" in text or "”" in text for text in curly])
    assert share / 2 < finding.values["share"] <= share
    assert finding.values["share_reference"] == np.mean(["”" in text for text in other]) < 0.05
    assert "of the texts here and all but never in the reference (4.8 %)" in finding.message
    assert "of the texts in the reference and all but never here (0.0 %)" in straight.message
    flat = [" ".join(text.split()) for text in other]
    (finding,) = of_kind(one, flat, "characters")
    assert finding.message.startswith("the character line feed stands in")


def test_characters_that_are_only_rarer_on_one_side_are_no_finding():
    one, other = halves()
    assert np.mean(['"' in text for text in one]) > 0.6
    rarer = [text.replace('"', "") if i % 2 else text for i, text in enumerate(other)]
    assert of_kind(one, rarer, "characters") == []


def test_marks_that_a_model_merely_does_not_write_are_no_finding():
    one, other = ([text.replace(";", ",") for text in half] for half in halves())
    some = [text.replace(",", ";", 1) if i % 5 == 0 else text for i, text in enumerate(one)]
    assert 0.1 < np.mean([";" in text for text in some]) < 0.5
    assert of_kind(some, other, "characters") == []
    most = [text.replace(" ", ";", 1) if i % 5 else text for i, text in enumerate(one)]
    (finding,) = of_kind(most, other, "characters")
    assert finding.message.startswith("the character ; stands in")


def test_decomposed_accents():
    one, other = ([text.replace("e ", "é ") for text in half] for half in halves())
    apart = [unicodedata.normalize("NFD", text) for text in other]
    found = of_kind(one, apart, "characters")
    assert any("not in composed Unicode (NFC)" in each.message for each in found)
    assert any("COMBINING ACUTE ACCENT" in each.message for each in found)


# --- images


def save(folder, count, *, seed=0, size=(24, 20), mode="RGB", suffix=".png", **options):
    image = pytest.importorskip("PIL.Image", reason="needs pip install 'mallow[images]'")
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for i in range(count):
        shape = (*size[::-1], 3) if mode == "RGB" else size[::-1]
        image.fromarray(rng.integers(256, size=shape, dtype=np.uint8)).save(folder / f"{i}{suffix}", **options)
    return folder


def test_images_alike_give_nothing(tmp_path):
    one, other = (save(tmp_path / name, 60, seed=seed) for seed, name in enumerate("ab"))
    assert find_confounds(one, {"other": other}) == ()


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"suffix": ".bmp"}, "format", "^100.0 % of the images are BMP, in the reference 0.0 %"),
        ({"mode": "L"}, "mode", "^100.0 % of the images are L,"),
        ({"size": (32, 32)}, "size", "^100.0 % of the images are 32×32,"),
    ],
)
def test_images_of_another_kind(tmp_path, options, kind, words):
    one, other = save(tmp_path / "a", 40), save(tmp_path / "b", 40, seed=1, **options)
    found = of_kind(one, other, kind)
    assert re.search(words, found[0].message)
    assert (found[0].values["share"], found[0].values["share_reference"]) == (1.0, 0.0)


def test_sizes_that_vary_are_compared_by_their_shorter_side(tmp_path):
    folders = [tmp_path / name for name in "ab"]
    for scale, folder in zip((1, 2), folders, strict=True):
        folder.mkdir()
        for i in range(60):
            save(folder / str(i), 1, seed=i + 100 * scale, size=((20 + i % 30) * scale, (60 - i % 40) * scale))
    finding = only(*folders, "size")
    assert finding.values["pixels"] == pytest.approx(2 * finding.values["pixels_reference"])


def test_jpeg_quality(tmp_path):
    one = save(tmp_path / "a", 40, suffix=".jpg", quality=90)
    other = save(tmp_path / "b", 40, seed=1, suffix=".jpg", quality=40)
    assert only(one, other, "compression").values == pytest.approx({"quality": 40, "quality_reference": 90}, abs=1)


def test_copies_of_images(tmp_path):
    one, other = save(tmp_path / "a", 40, suffix=".bmp"), save(tmp_path / "b", 30, seed=1, suffix=".bmp")
    for i in range(10):
        (other / f"copy{i}.bmp").write_bytes((one / f"{i % 5}.bmp").read_bytes())
    found = {each.kind: each.values for each in find_confounds(one, {"model": other})}
    assert found["shared"]["copies"] == 10
    assert found["duplicates"]["repeats"] == 5
    assert set(found) == {"shared", "duplicates"}


def test_without_pillow_the_names_are_looked_at_and_the_rest_is_owned_up_to(tmp_path, monkeypatch):
    one = save(tmp_path / "a", 40, suffix=".jpeg")
    other = save(tmp_path / "b", 40, seed=1, suffix=".png")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "PIL" else find(name, *rest))
    found = find_confounds(one, {"model": other})
    assert [each.kind for each in found] == ["unchecked", "format"]
    assert re.search(r"are \.(jpg|png)", found[1].message)
    assert found[0].message.endswith("pip install 'mallow[images]'")


# --- features


def test_features():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 400, 8)).astype(np.float32)
    assert find_confounds(one, {"other": other}) == ()
    finding = only(one, 4 * other, "norm")
    assert finding.values["norm"] == pytest.approx(4 * finding.values["norm_reference"], rel=0.1)
    assert find_confounds(one, {"other": 1.2 * other}) == ()
    assert only(one, np.concatenate([other, one[:9]]), "shared").values["copies"] == 9
    assert only(one, np.concatenate([other, other[:9]]), "duplicates").values["repeats"] == 9


# --- what all share


def test_findings_come_in_order_and_can_be_written():
    one, other = halves()
    found = find_confounds(
        [*one, " "], {"a": [text.lower() for text in other], "b": [" " + text for text in other[:300]]}
    )
    assert [(each.system, each.kind) for each in found[:2]] == [(None, "empty"), ("a", "case")]
    assert [each.system for each in found] == [None, *["a"] * (len(found) - 3), "b", "b"]
    assert json.loads(json.dumps([each.to_dict() for each in found]))[0]["kind"] == found[0].kind
    assert str(found[0]) == f"reference: {found[0].message}"
    assert str(found[-1]).startswith("b: ")
    for each in found:
        assert re.search(r"\d", each.message)


def test_what_is_refused():
    with pytest.raises(InputError, match="`systems` must be a mapping of names to samples"):
        find_confounds(["a", "b"], ["c"])
    with pytest.raises(InputError, match="with one entry at least"):
        find_confounds(["a", "b"], {})
    with pytest.raises(InputError, match="All samples must be of one kind; got reference: text, x: features"):
        find_confounds(["a", "b"], {"x": np.zeros((2, 2))})
    assert find_confounds(np.ones((9, 2)), {"a": np.ones((9, 3))}) == ()  # refused where they are scored


def test_lone_surrogates_do_not_stop_it():
    one, other = halves(size=20)
    assert find_confounds(one, {"model": Samples("text", (*other[:-1], "\ud800"))}) == ()


def test_the_time_is_linear():
    def seconds(count):
        texts = [f"{text} {i}." for i, text in zip(range(count), itertools.cycle(TEXTS))]
        best = 9e9
        for _ in range(2):
            start = time.process_time()
            find_confounds(texts[::2], {"model": texts[1::2]})
            best = min(best, time.process_time() - start)
        return best

    assert seconds(6000) < 9 * seconds(1500)
