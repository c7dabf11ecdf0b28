"""Differences that are unrelated to the model, removed: afterwards no caveat reports them, and nothing else has changed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow import InputError, Samples, find_confounds
from mallow.caveats import ALIGNMENTS, REMOVED_BY, align_samples
from mallow.samples import read

TEXTS = st.lists(st.text(alphabet="ab “”’\n—…", min_size=1, max_size=40), min_size=1, max_size=12)
OF_TEXTS = [name for name, (kind, _, _) in ALIGNMENTS.items() if kind == "text"]


def aligned(names, *sides):
    sets = {str(number): Samples(texts=side) for number, side in enumerate(sides)}
    return [samples.texts for samples in align_samples(sets, names).values()]


@pytest.mark.parametrize("name", OF_TEXTS)
@given(first=TEXTS, second=TEXTS)
def test_aligned_samples_are_not_changed_again(name, first, second):
    size = min(len(first), len(second))  # ranks of sets of different sizes do not match exactly
    first, second = ([text if text.strip() else "a" for text in side[:size]] for side in (first, second))
    once = aligned(name, first, second)
    assert aligned(name, *once) == once
    assert all(all(texts) for texts in once)


@given(side=st.lists(st.text(alphabet="ab ", min_size=1).filter(str.strip), min_size=1, max_size=30))
def test_sides_of_the_same_lengths_keep_their_texts(side):
    assert aligned("length", side, side[::-1]) == [tuple(side), tuple(side[::-1])]


@given(counts=st.tuples(*[st.lists(st.integers(1, 30), min_size=7, max_size=7)] * 2))
def test_lengths_get_one_distribution(counts):
    sides = [["w " * count for count in side] for side in counts]
    first, second = ([len(text.split()) for text in side] for side in aligned("length", *sides))
    assert sorted(first) == sorted(second) == np.minimum(*map(sorted, counts)).tolist()


@pytest.mark.parametrize(
    ("names", "text", "other"),
    [
        ("quotes", "“It’s «late»” — he said…", '"It\'s "late"" - he said...'),
        ("space", " a\tb \n\nc ", "a b c"),
        ("space", " \n", " \n"),  # a text must not become empty
        ("case", "NO One", "no one"),
        ("quotes, case", "“No”", '"no"'),
        ((), " “As it is” ", " “As it is” "),
    ],
)
def test_what_each_name_removes(names, text, other):
    assert aligned(names, [text]) == [(other,)]


def test_a_cut_keeps_the_white_space_inside():
    assert aligned("length", ["one\n\ntwo  three four"], ["a b c"]) == [("one\n\ntwo  three",), ("a b c",)]


def test_units_stay_and_features_go():
    samples = Samples(texts=["A", "B"], ids=["1", "1"])
    changed = align_samples({"": samples}, ["case"])[""]
    assert (changed.texts, changed.ids) == (("a", "b"), ("1", "1"))
    embedded = Samples(texts=["A"], features=np.ones((1, 2)))
    assert align_samples({"": embedded}, "")[""] is embedded


@pytest.mark.parametrize(
    ("sets", "names", "message"),
    [
        (
            {"": Samples(texts=["a"])},
            "lenth",
            r"`align` must contain names of quotes, .*; got 'lenth'\. Did you mean length\?",
        ),
        ({"": Samples(texts=["a"])}, "format", r"`align`: 'format' is for image samples; got text\. Leave it out\."),
        ({"": Samples(features=np.ones((2, 2)))}, "case", r"`align`: 'case' is for text samples; got features"),
        ({"": Samples(texts=["a"], features=np.ones((1, 2)))}, ["case"], "but these have features already"),
    ],
)
def test_what_cannot_be_aligned(sets, names, message):
    with pytest.raises(InputError, match=message):
        align_samples(sets, names)


WORDS = [
    "It",
    "was",
    "late",
    "and",
    "he",
    "said",
    "that",
    "the",
    "old",
    "house",
    "by",
    "the",
    "sea",
    "had",
    "no",
    "light",
    "for",
    "many",
    "years",
    "now.",
]


@pytest.mark.parametrize(
    ("kind", "spoil"),
    [
        ("characters", lambda text: text.replace('"', "“")),
        ("characters", lambda text: text.replace(" ", "\n")),
        ("space", lambda text: text + " "),
        ("case", str.lower),
        ("length", lambda text: " ".join(text.split()[:12])),
    ],
)
def test_a_caveat_is_gone_after_one_of_its_alignments(kind, spoil):
    rng = np.random.default_rng(0)
    texts = [f'"{rng.integers(9)} ' + " ".join(rng.choice(WORDS, size=rng.integers(15, 20))) + '."' for _ in range(400)]
    sets = {"": Samples(texts=texts[:200]), "model": Samples(texts=list(map(spoil, texts[200:])))}

    def kinds(samples):
        return {caveat.kind for caveat in find_confounds(samples[""], {"model": samples["model"]})}

    assert kind in kinds(sets)
    assert any(kind not in kinds(align_samples(sets, name)) for name in REMOVED_BY[kind])


def test_images_get_one_format(tmp_path):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for side, size, suffix, options in (("a", (24, 20), "png", {}), ("b", (16, 16), "jpg", {"quality": 60})):
        (tmp_path / side).mkdir()
        for number in range(40):
            pixels = rng.integers(256, size=(*size[::-1], 3)).astype(np.uint8)
            image.fromarray(pixels).save(tmp_path / side / f"{number}.{suffix}", **options)
    sets = {side: read(tmp_path / side) for side in "ab"}
    assert {caveat.kind for caveat in find_confounds(sets["a"], {"b": sets["b"]})} == {"format", "size"}
    changed = align_samples(sets, "format")
    assert find_confounds(changed["a"], {"b": changed["b"]}) == ()
    with image.open(changed["a"].images[0]) as first:
        assert (first.format, first.size) == ("JPEG", (16, 16))
