"""Checks of samples before anything is estimated: short texts, blind embedders, generations, prompts without partners."""

import re

import numpy as np
import pytest
from pytest import approx

from caveats.made_samples import embedded, of_features, texts_of
from mallow import Samples, read
from mallow.caveats import check_samples
from mallow.errors import Caveat

RNG = np.random.default_rng(0)


def raised(reference, model, *kinds):
    """The caveats of these kinds, with the sides that they are about."""
    return [(one.system, one) for one in check_samples({"model": (reference, model)})["model"] if one.kind in kinds]


def only(reference, model, *kinds):
    ((system, caveat),) = raised(reference, model, *kinds)
    return system, caveat


NEW = ("short texts", "same features", "generations", "uneven generations", "unmatched prompts")


def test_ordinary_samples_give_no_caveats():
    one, other = RNG.normal(size=(2, 1000, 8))
    assert check_samples({"model": (Samples(features=one), Samples(features=other))}) == {"model": []}
    long = [embedded(texts_of(1000, 260, seed), rows) for seed, rows in enumerate(RNG.normal(size=(2, 1000, 4)))]
    assert check_samples({"model": tuple(long)}) == {"model": []}


def test_each_system_has_its_own_caveats_and_those_of_the_reference():
    reference = of_features(1000, ids=[str(i // 2) for i in range(1000)])
    reference = reference.with_features(reference.features, provenance={}, caveats=[Caveat("cut", "Cut.")])
    systems = {"small": of_features(200), "large": of_features(1000, seed=1)}
    caveats = check_samples({name: (reference, samples) for name, samples in systems.items()})
    assert [(one.system, one.kind) for one in caveats["small"]] == [
        ("reference", "cut"),
        (None, "few samples"),
        (None, "unequal sizes"),
        ("reference", "generations"),
    ]
    assert [(one.system, one.kind) for one in caveats["large"]] == [("reference", "cut"), ("reference", "generations")]


def test_confounds_between_systems_stay():
    reference, first = of_features(1000), of_features(1001)
    pairs = {"first": (reference, first), "copy": (reference, Samples(features=first.features[:1000]))}
    assert [(name, one.kind) for name, each in check_samples(pairs).items() for one in each] == [("copy", "shared")]


# --- short texts


def test_short_texts_are_told_once():
    system, caveat = only(embedded(texts_of(50, 40)), embedded(texts_of(50, 40, 1)), "short texts")
    assert system == "reference"
    count = caveat.values["words"]
    assert count == approx(41, abs=1)  # a full stop is a mark
    assert caveat.values["tokens"] == approx(1.11 * count)
    assert caveat.message == (
        f"the texts are short, about {1.11 * count:.0f} tokens. The paper advises at "
        "least 256, because differences between shorter texts may go unnoticed. Use longer texts, or compare this score only "
        "with scores of texts as short as these."
    )
    system, _ = only(embedded(texts_of(50, 300)), embedded(texts_of(50, 40, 1)), "short texts")
    assert system == "model"
    assert raised(of_features(20), of_features(30), "short texts") == []
    texts = embedded(texts_of(50, 40))  # features of one side may have lost their texts
    assert raised(texts, of_features(50), "short texts") == raised(of_features(50), texts, "short texts") == []


def test_prompts_that_only_one_side_lacks_are_told():
    """One side may be a part of the other: whichever is larger."""
    all_ids, some = [f"p{place}" for place in range(40)], [f"p{place}" for place in range(10)]
    for reference, model in ((all_ids, some), (some, all_ids)):
        pair = of_features(len(reference), ids=reference), of_features(len(model), ids=model)
        assert len(raised(*pair, "unmatched prompts")) == 1


@pytest.mark.parametrize(("length", "short"), [(204, True), (212, False)])
def test_texts_of_256_tokens_are_long_enough(length, short):
    # 90% of 256 tokens at 1.11 tokens per word or mark are 208; the full stop is one of them.
    sides = [embedded(texts_of(60, length, seed)) for seed in (0, 1)]
    assert bool(raised(*sides, "short texts")) == short


# --- embedders that see nothing


def test_different_texts_with_the_same_features():
    texts = texts_of(100, 20)
    rows = np.arange(100) // 2 % 30  # 30 different rows
    features = np.eye(30)[rows]
    system, caveat = only(embedded(texts, width=30), embedded(texts_of(100, 20, 1), features), "same features")
    assert (system, caveat.values) == ("model", {"distinct": 30, "items": 100, "n": 100})
    assert caveat.message == (
        "100 different texts have only 30 different rows of features: the embedder cannot tell the others apart, and neither "
        "can a score. It may cut them, or not know their language. See what it notices with `mallow audit`, or use a different "
        "embedder."
    )
    constant = embedded(texts, np.ones((100, 3)))
    assert [system for system, _ in raised(constant, constant, "same features")] == ["reference", "model"]


def test_duplicates_are_not_held_against_the_embedder():
    texts = [*texts_of(80, 20), *["The same text."] * 20]
    features = np.eye(100)
    features[80:] = features[80]
    assert raised(embedded(texts, features), embedded(texts_of(100, 20, 1), np.eye(100)), "same features") == []
    assert (
        raised(of_features(40), Samples(features=np.ones((40, 4))), "same features") == []
    )  # duplicates, for all we know


@pytest.mark.parametrize(("merged", "blind"), [(5, False), (6, True)])
def test_a_few_texts_may_have_the_same_features(merged, blind):
    features = np.arange(100.0)[:, None] * np.ones(4)
    features[1 : merged + 1] = features[0]
    sides = embedded(texts_of(100, 20)), embedded(texts_of(100, 20, 1), features)
    assert bool(raised(*sides, "same features")) == blind


def test_different_widths_are_left_to_the_score():
    sides = embedded(texts_of(30, 20)), embedded(texts_of(30, 20, 1), width=5)
    assert raised(*sides, "same features") == []


def test_features_that_are_nearly_constant():
    rng = np.random.default_rng(3)

    def sides(noise):
        rows = 5.0 + noise * rng.normal(size=(2, 60, 8))
        return [embedded(texts_of(60, 20, seed), part) for seed, part in enumerate(rows)]

    system, caveat = only(*sides(1e-4), "same features")
    assert system == "model"
    spread = caveat.values["spread"]
    assert spread == approx(2e-5, rel=0.1)
    assert caveat.message == (
        f"the features of all texts are nearly the same: they differ by {spread:.1e} of their length, so that rounding errors "
        "decide the score. Use a different embedder, or a different layer or pooling of this one."
    )
    assert raised(*sides(0.01), "same features") == []
    alone = [Samples(features=side.features) for side in sides(1e-4)]  # numbers such as years are alike by nature
    assert raised(*alone, "same features") == []


# --- several samples per prompt, prompts without partners


def test_several_samples_per_prompt():
    ids = [str(i // 3) for i in range(300)]
    system, caveat = only(of_features(100, ids=ids[::3]), of_features(300, ids=ids), *NEW)
    assert (system, caveat.kind) == ("model", "generations")
    assert caveat.values == {"samples": 300, "prompts": 100, "least": 3, "most": 3}
    assert caveat.message == (
        "300 samples for 100 prompts: samples for one prompt are alike, so that certificates and tests count prompts, not "
        "samples. For a surer result use more prompts; more samples per prompt help little."
    )
    # That there are more samples than in the reference is part of this.
    assert [
        one.kind for one in check_samples({"m": (of_features(100, ids=ids[::3]), of_features(300, ids=ids))})["m"]
    ] == [
        "few samples",
        "generations",
    ]
    prompts = Samples(features=of_features(300).features, prompts=ids)
    assert only(of_features(100, prompts=ids[::3]), prompts, *NEW)[1].kind == "generations"
    one = only(of_features(300), of_features(300, ids=["p"] * 300), *NEW)[1]
    assert one.message.startswith("300 samples for 1 prompt: ")
    # One prompt for all samples makes no groups.
    assert raised(of_features(300), of_features(300, prompts=["p"] * 300), *NEW) == []


@pytest.mark.parametrize(("missing", "kind"), [(10, "generations"), (11, "uneven generations")])
def test_uneven_numbers_of_samples_per_prompt(missing, kind):
    ids = [str(i // 3) for i in range(300) if i % 3 or i // 3 >= missing]
    system, caveat = only(of_features(100), of_features(len(ids), ids=ids), *NEW)
    assert (system, caveat.kind) == ("model", kind)
    assert caveat.values == {"samples": 300 - missing, "prompts": 100, "least": 2, "most": 3}
    if kind == "uneven generations":
        assert caveat.message == (
            "289 samples for 100 prompts, from 2 to 3 each: prompts with more samples count for more. Use the same number of "
            "samples for each prompt."
        )


def test_prompts_that_one_side_lacks():
    reference, model = of_features(100, ids=range(100)), of_features(90, ids=range(40, 130))
    system, caveat = only(reference, model, *NEW)
    assert (system, caveat.kind) == ("model", "unmatched prompts")
    assert caveat.values == {"alone": 30, "missing": 40, "prompts": 90, "prompts_reference": 100}
    assert caveat.message == (
        "30 of the 90 prompts (ids) are not in the reference, and 40 of the 100 in the reference are missing here, so that the "
        "two may differ in topic. Keep the same prompts on both sides. A limit (limit, --limit) does so only if both list "
        "them in one order."
    )
    _, fewer = only(reference, of_features(40, ids=range(40)), *NEW)
    assert fewer.message.startswith(
        "60 of the 100 prompts (ids) of the reference are missing here, so that the two may"
    )
    _, more = only(of_features(40, ids=range(40)), reference, *NEW)
    assert more.message.startswith("60 of the 100 prompts (ids) are not in the reference, so that the two may differ")


@pytest.mark.parametrize(
    ("own", "unmatched"),
    [
        (range(100), False),
        (range(95), False),
        (range(94), True),
        (range(105), False),
        (range(106), True),
        (range(100, 200), False),  # other ids altogether, such as file names
    ],
)
def test_a_few_prompts_may_be_missing(own, unmatched):
    reference, model = of_features(100, ids=range(100)), of_features(len(own), ids=own)
    assert bool(raised(reference, model, "unmatched prompts")) == unmatched


# --- real data


def letter_counts(texts):
    return np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz ,."] for text in texts], float)


@pytest.mark.parametrize("name", ["reuters/reuters_c50", "classic-books/classic_books_chunks"])
def test_halves_of_real_texts_give_no_new_caveats(shared, name):
    samples = read(shared / "data" / f"{name}.jsonl.gz")
    for seed in range(2):
        places = np.random.default_rng(seed).permutation(len(samples))
        halves = [samples.take(part) for part in (places[:300], places[300:600])]
        sides = [half.with_features(letter_counts(half.texts), provenance={}) for half in halves]
        assert raised(*sides, *NEW) == []


def test_generations_of_a_real_model(shared):
    folder = shared / "data" / "webtext-gpt2-large"
    human, nucleus = (
        read(folder / f"{name}.jsonl.gz", field="gen", skip_bad=True, limit=200) for name in ("human", "nucleus")
    )
    assert (len(human), len(nucleus)) == (200, 600)  # the limit counts prompts
    sides = [each.with_features(letter_counts(each.texts), provenance={}) for each in (human, nucleus)]
    new = raised(*sides, *NEW)
    assert [(system, one.kind) for system, one in new] == [("reference", "short texts"), ("model", "generations")]
    assert re.search("about (19|20).* tokens", new[0][1].message)  # 200, since they were cut at 200


# --- the parts


def test_rows_are_counted_by_their_bytes():
    rows = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]])
    for features in (rows, rows[:, ::-1]):  # the second is not stored row by row
        texts = Samples(texts=["One.", "Two.", "Three."]).with_features(features, provenance={})
        caveats = [one for one in check_samples({"model": (texts, texts)})["model"] if one.kind == "same features"]
        assert [(one.values["distinct"], one.values["items"]) for one in caveats] == [(2, 3), (2, 3)]


# --- rows that seem to be pairs


def test_rows_that_seem_to_be_pairs_or_sorted():
    topic = RNG.normal(size=(200, 4))
    x, y = (Samples(features=topic + RNG.normal(size=(200, 4))) for _ in range(2))
    system, caveat = only(x, y, "row order")
    assert system == "model"
    for remedy in ("use paired=True (--paired), or give the prompts", "merely sorted", "nothing is to be done"):
        assert remedy in caveat.message
    assert not raised(x, y.take(RNG.permutation(200)), "row order")
    assert not raised(x, y.take(range(199)), "row order")
    assert not raised(x.with_row_ids(), y.with_row_ids(), "row order")
    assert not raised(x, x, "row order")  # copies are units anyway
    by_length = [Samples(features=np.sort(RNG.normal(size=(60, 1)), axis=0)) for _ in range(2)]
    assert raised(*by_length, "row order")


def test_independent_rows_hardly_ever_seem_to_be_pairs():
    pairs = [RNG.standard_t(4, size=(2, 80, 3)) for _ in range(300)]
    assert sum(bool(raised(*(Samples(features=side) for side in pair), "row order")) for pair in pairs) == 0
