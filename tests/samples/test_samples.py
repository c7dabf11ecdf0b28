"""The value `Samples`: what it is made from, what it refuses, and what its parts keep."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow import InputError, Samples, read
from mallow.errors import Caveat

ATTRIBUTES = ("texts", "images", "ids", "prompts", "source", "skipped", "provenance", "caveats")
FULL = Samples(
    texts=["one", "two", "three"],
    features=np.arange(6.0).reshape(3, 2),
    ids=["a", "b", "c"],
    prompts=["p", "q", "r"],
    source="model.jsonl",
    skipped=("model.jsonl:2: empty text",),
    provenance={"embedder": "letters"},
    caveats=(Caveat("length", "Texts are short."),),
)


def assert_same(one, other):
    for name in ATTRIBUTES:
        assert getattr(one, name) == getattr(other, name), name
    assert (one.features is None) == (other.features is None)
    if one.features is not None:
        assert one.features.dtype == other.features.dtype
        assert np.array_equal(one.features, other.features)


@st.composite
def sample_sets(draw):
    """Samples of every kind, with and without features, ids and prompts."""
    n = draw(st.integers(1, 12))
    kind = draw(st.sampled_from(["texts", "images", "features"]))
    labels = st.none() | st.lists(st.text(), min_size=n, max_size=n)
    values = {"ids": draw(labels), "prompts": draw(labels)}
    if kind != "features":
        values[kind] = [f"{place}.png" for place in range(n)]
    if kind == "features" or draw(st.booleans()):
        values["features"] = np.arange(2.0 * n).reshape(n, 2)
    return Samples(**values)


# --- what it is made from


def test_lists_become_tuples_and_ids_become_strings():
    samples = Samples(texts=["one", np.str_("two")], ids=[7, np.int64(8)], prompts=np.array(["p", "q"]))
    assert (samples.texts, samples.ids, samples.prompts) == (("one", "two"), ("7", "8"), ("p", "q"))
    assert {type(value) for value in samples.texts + samples.ids + samples.prompts} == {str}
    assert Samples(texts=(text for text in "ab"), ids=iter([1, 2])).ids == ("1", "2")


def test_images_become_paths():
    samples = Samples(images=["a.png", Path("b.png")])
    assert (samples.kind, samples.images) == ("image", (Path("a.png"), Path("b.png")))
    assert samples.items == samples.images


def test_features_become_an_array_with_one_row_per_sample():
    assert Samples(features=[[1, 2], [3, 4]]).features.tolist() == [[1, 2], [3, 4]]
    one_feature = Samples(features=[1.0, 2.0, 3.0])
    assert (one_feature.features.shape, len(one_feature)) == ((3, 1), 3)
    features = np.eye(2)
    assert Samples(features=features).features is features, "an array is not copied"


def test_texts_and_images_may_come_with_features():
    texts = Samples(texts=["one", "two"], features=np.eye(2))
    images = Samples(images=["a.png", "b.png"], features=np.eye(2))
    assert (texts.kind, texts.items, len(texts)) == ("text", ("one", "two"), 2)
    assert images.kind == "image"
    assert np.array_equal(texts.require_features(), images.require_features())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "`Samples` needs one of `texts`, `images`, `audio` and `features`; got none of them."),
        ({"texts": ["a"], "images": ["a.png"]}, "`Samples` takes `texts` or `images`, not both. Make one set of each."),
        ({"texts": []}, "`Samples` must contain at least one sample; got none."),
        ({"images": []}, "`Samples` must contain at least one sample; got none."),
        ({"texts": ["a", "b"], "ids": ["1"]}, "`ids` must have one entry for each of the 2 samples; got 1."),
        (
            {"texts": ["a", "b"], "prompts": []},
            "`prompts` must have one entry for each of the 2 samples; got 0.",
        ),
        ({"texts": ["a"], "features": np.eye(2)}, "`features` must have one entry for each of the 1 samples; got 2."),
    ],
)
def test_what_is_not_one_set_of_samples_is_refused(values, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Samples(**values)


def test_the_arguments_are_named():
    with pytest.raises(TypeError, match="positional"):
        Samples("text", ("a",))
    with pytest.raises(TypeError, match=r"^Samples has no attributes paths$"):
        Samples.trusted(texts=("a",), paths=())


# --- what it tells


def test_samples_pickle_and_show_themselves_in_one_line():
    samples = pickle.loads(pickle.dumps(read(["one", "", "two"], skip_bad=True)))
    assert samples.texts == ("one", "two")
    assert repr(samples) == "Samples(text, n=2, source='list', skipped=1)"
    assert repr(FULL) == "Samples(text, n=3, width=2, source='model.jsonl', skipped=1)"
    assert repr(read(np.eye(2))) == "Samples(features, n=2, source='ndarray', skipped=0)"
    assert_same(pickle.loads(pickle.dumps(FULL)), FULL)


def test_generations_count_by_id_then_by_prompt():
    assert read(["a", "b"]).generations == 1
    assert Samples(texts=["a", "b"], prompts=["p", "p"]).generations == 2
    assert Samples(texts=["a", "b"], ids=["1", "2"], prompts=["p", "p"]).generations == 1
    assert Samples(texts=["a", "b", "c"], ids=["1", "2", "1"]).generations is None


def test_the_embedder_is_part_of_the_provenance():
    assert (FULL.embedder, read(np.eye(2)).embedder) == ("letters", None)


def test_the_kind_is_checked_where_it_matters():
    texts, features = read(["a"]), read(np.eye(2))
    assert (texts.images, texts.features, features.texts) == (None, None, None)
    assert (texts.require_texts(), features.require_features() is features.features) == (("a",), True)
    assert Samples(images=["a.png"]).require_images() == (Path("a.png"),)
    for call, message in (
        (texts.require_images, "list: image samples are needed here; got text samples."),
        (features.require_texts, "ndarray: text samples are needed here; got features samples."),
        (
            texts.require_features,
            "list: text samples have no features yet. Embed them first with `mallow.embed.embed_samples` or the command `mallow embed`.",
        ),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
            call()


# --- parts of it


def test_with_features_keeps_everything_else_and_adds_caveats():
    before = Samples(texts=["a", "b"], ids=["1", "2"], prompts=["p", "q"], source="s", caveats=(Caveat("a", "A."),))
    after = before.with_features(np.eye(2), provenance={"embedder": "e"}, caveats=[Caveat("b", "B.")])
    assert (after.texts, after.ids, after.prompts, after.source) == (("a", "b"), ("1", "2"), ("p", "q"), "s")
    assert (after.embedder, after.caveats) == ("e", (Caveat("a", "A."), Caveat("b", "B.")))
    assert np.array_equal(after.features, np.eye(2))
    assert (before.features, before.provenance) == (None, None)


def test_take_and_first_keep_everything():
    assert_same(FULL.take([0, 1, 2]), FULL)
    assert_same(FULL.take([0, 1]), FULL.first(2))
    last = FULL.take(np.array([2, 2]))
    assert (last.texts, last.ids, last.prompts) == (("three", "three"), ("c", "c"), ("r", "r"))
    assert last.features.tolist() == [[4, 5], [4, 5]]
    assert (last.source, last.skipped) == (FULL.source, FULL.skipped)
    assert (last.provenance, last.caveats) == (FULL.provenance, FULL.caveats)
    assert FULL.first(None) is FULL.first(3) is FULL.first(99) is FULL
    for count in (0, -1):
        with pytest.raises(InputError, match=f"^`count` must be an integer of at least 1; got {count}\\.$"):
            FULL.first(count)


@given(samples=sample_sets(), data=st.data())
def test_a_permutation_and_its_inverse_give_the_same_samples(samples, data):
    order = np.array(data.draw(st.permutations(range(len(samples)))))
    assert_same(samples.take(order).take(np.argsort(order)), samples)


@given(samples=sample_sets(), data=st.data())
def test_the_first_samples_are_those_of_the_first_prompts(samples, data):
    count = data.draw(st.integers(1, len(samples)))
    labels = samples.ids or samples.prompts or tuple(range(len(samples)))
    prompts = list(dict.fromkeys(labels))
    if len(prompts) == 1 < count:  # one prompt for all: samples are counted
        expected = range(count)
    else:
        expected = [place for place, label in enumerate(labels) if label in prompts[:count]]
    assert_same(samples.first(count), samples.take(expected))


@given(samples=sample_sets(), data=st.data())
def test_a_limit_never_cuts_a_prompt(samples, data):
    labels = samples.ids or samples.prompts
    some = samples.first(data.draw(st.integers(1, len(samples))))
    if labels is not None and len(set(labels)) > 1:
        own = some.ids or some.prompts
        assert all(own.count(label) == labels.count(label) for label in own)


def test_the_first_prompts_keep_all_generations_wherever_they_are():
    samples = Samples(texts=list("abcdef"), features=np.eye(6), ids=["1", "2", "3", "1", "2", "3"])
    some = samples.first(2)
    assert (some.texts, some.ids) == (("a", "b", "d", "e"), ("1", "2", "1", "2"))
    assert np.array_equal(some.features, np.eye(6)[[0, 1, 3, 4]])
    assert samples.first(3) is samples.first(5) is samples


@pytest.mark.parametrize(
    ("labels", "count", "places"),
    [
        ("abc", 2, range(2)),
        ("abc", 3, range(3)),
        ("abc", 5, range(3)),
        ("aaa", 1, [0, 1, 2]),
        ("aaa", 2, range(2)),
        ("aaa", 9, range(3)),
        ("a", 1, range(1)),
        ("abab", 1, [0, 2]),
        ("abab", 2, [0, 1, 2, 3]),
        ("abcb", 2, [0, 1, 3]),
    ],
)
def test_the_places_of_the_first_prompts(labels, count, places):
    samples = Samples(features=np.arange(len(labels))[:, None], ids=list(labels))
    assert samples.first(count).features.ravel().tolist() == list(places)


def test_bare_features_have_no_items():
    for items in ({"texts": ("a", "b")}, {"images": ("a.png", "b.png")}):
        samples = Samples.trusted(**items, features=np.eye(2), ids=("x", "y"))
        bare = samples.bare()
        assert (bare.kind, bare.texts, bare.images, bare.ids) == ("features", None, None, ("x", "y"))
        assert bare.features.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(InputError):
        Samples(texts=["a"]).bare()
