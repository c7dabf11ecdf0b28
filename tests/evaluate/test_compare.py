"""Comparison: scores, differences, ranks, groups, variance; nothing is named inside the noise."""

import warnings

import numpy as np
import pytest
from pytest import approx

from mallow import Comparison, EstimateWarning, InputError, Measure, compare, score
from mallow.estimate import Quantize
from mallow.evaluate._comparison import Difference, rank_systems
from mallow.samples import Samples


def sample(n, shift=0.0, seed=0, width=5, noise=0.8):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(6, width))
    return centres[rng.integers(6, size=n)] + noise * rng.normal(size=(n, width)) + shift


def quietly(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return function(*args, **options)


X = sample(1000)
SYSTEMS = {
    "far": sample(1000, 0.8, 2),
    "same": sample(1000, 0.0, 3),
    "same again": sample(1000, 0.0, 4),
    "middle": sample(1000, 0.4, 5),
}


@pytest.fixture(scope="module")
def found():
    return quietly(compare, X, SYSTEMS)


def test_systems_are_ranked_and_those_that_cannot_be_told_apart_are_grouped(found):
    assert list(found.scores)[2:] == ["middle", "far"]
    assert found.ranks["far"] == (4, 4)
    assert found.ranks["middle"] == (3, 3)
    assert found.ranks["same"] == found.ranks["same again"] == (1, 2)
    assert [set(group) for group in found.groups] == [{"same", "same again"}, {"middle"}, {"far"}]
    assert found.winner is None


def test_scores_are_those_of_score(found):
    alone = quietly(score, X, SYSTEMS["far"])
    assert found.scores["far"].mauve == alone.mauve
    assert found.scores["far"].interval == alone.interval
    assert found.scores["far"].noise_floor["mauve"] == approx(alone.noise_floor["mauve"], abs=0.02)


def test_differences_of_all_pairs_have_intervals_and_corrected_p_values(found):
    assert len(found.differences) == 6
    for one in found.differences:
        for name in ("mauve", "frontier_integral", "midpoint"):
            low, high = one.interval[name]
            assert low <= one.difference[name] <= high
            assert one.p_value[name] <= one.adjusted[name] <= 1
            assert (one.p_value[name] < 0.05) == (low > 0 or high < 0)


def test_a_baseline_limits_the_comparisons():
    found = quietly(compare, X, SYSTEMS, baseline="same", repeats=2)
    assert [(one.first, one.second) for one in found.differences] == [
        ("far", "same"),
        ("same again", "same"),
        ("middle", "same"),
    ]
    assert found.ranks == {}
    assert found.winner is None


def test_one_codebook_for_all():
    measure = Measure(Quantize(codebook="shared"))
    found = quietly(compare, X, SYSTEMS, measure=measure, repeats=2)
    centres = [one.masses.partition.centres for one in found.scores.values()]
    assert all(np.array_equal(centres[0], other) for other in centres)
    labels = [one.masses.partition.p_labels for one in found.scores.values()]
    assert all(np.array_equal(labels[0], other) for other in labels)
    assert list(found.scores)[-1] == "far"
    assert "codebook=shared" in found.signature.measure


def test_pairing_sharpens_the_difference_of_like_systems():
    rng = np.random.default_rng(0)
    alike = SYSTEMS["middle"] + 0.05 * rng.normal(size=(1000, 5))
    shuffled = alike[rng.permutation(1000)]
    paired, apart = (
        quietly(compare, X, {"a": SYSTEMS["middle"], "b": other}, repeats=2).differences[0]
        for other in (alike, shuffled)
    )

    def width(one):
        low, high = one.interval["frontier_integral"]
        return high - low

    assert width(paired) < 0.9 * width(apart)


def test_samples_with_ids_are_paired_by_id():
    rng = np.random.default_rng(0)
    ids = tuple(f"prompt {i}" for i in range(1000))
    order = rng.permutation(1000)
    reference = Samples(features=X, ids=ids)
    shuffled = Samples(features=SYSTEMS["middle"][order], ids=tuple(ids[i] for i in order))
    plain = {"a": SYSTEMS["middle"], "b": SYSTEMS["same"]}
    by_id = {"a": shuffled, "b": Samples(features=SYSTEMS["same"], ids=ids)}
    found = quietly(compare, reference, by_id, repeats=1)
    assert found.differences == quietly(compare, X, plain, repeats=1).differences
    other = Samples(features=SYSTEMS["same"], ids=(*ids[:-1], "another"))
    with pytest.warns(
        EstimateWarning, match="b: 1 ids, such as 'another', are not in the reference: samples are paired by position"
    ):
        compare(reference, {"b": other}, repeats=1)
    names = Samples(features=SYSTEMS["same"], ids=tuple(f"{i}.png" for i in range(1000)))
    found = compare(reference, {"b": names}, repeats=1)  # file names are labels, not pairs
    assert found.scores["b"].caveats == ()


def test_ids_that_repeat_are_generations_of_a_prompt():
    ids = tuple(f"prompt {i}" for i in range(600))
    generations = np.stack([sample(600, 0.4, seed) for seed in (11, 12)], axis=1)
    order = np.random.default_rng(0).permutation(600)
    flat = Samples(features=generations[order].reshape(1200, -1), ids=tuple(ids[i] for i in order for _ in range(2)))
    found = quietly(compare, Samples(features=sample(600), ids=ids), {"two": flat}, repeats=1)
    assert found.to_dict() == quietly(compare, sample(600), {"two": generations}, repeats=1).to_dict()
    assert found.signature.generations == 2


def test_where_samples_are_missing_nothing_is_paired():
    ids = tuple(f"prompt {i}" for i in range(1000))
    some = Samples(features=SYSTEMS["same"][:900], ids=ids[:900])
    found = quietly(compare, Samples(features=X, ids=ids), {"some": some}, repeats=1)
    assert found.scores["some"].n == (1000, 900)


def test_several_generations_have_a_variance_of_their_own():
    generations = np.stack([sample(600, 0.4, seed) for seed in (11, 12, 13)], axis=1)
    found = quietly(compare, sample(600), {"three": generations, "one": generations[:, 0]}, repeats=2)
    assert set(found.variance["three"]) == {"clustering", "sampling", "generation"}
    assert set(found.variance["one"]) == {"clustering", "sampling"}
    assert "generations=3" in str(found.scores["three"].signature)
    single = [quietly(score, sample(600), generations[:, i], repeats=2) for i in range(3)]
    three = found.scores["three"]
    assert three.mauve == approx(np.mean([one.mauve for one in single]), abs=1e-9)
    assert three.frontier.p_to_mix == approx(np.mean([one.frontier.p_to_mix for one in single], axis=0), abs=1e-9)
    assert three.band[0].q_to_mix == approx(np.min([one.band[0].q_to_mix for one in single], axis=0), abs=1e-9)
    assert three.band[1].q_to_mix == approx(np.max([one.band[1].q_to_mix for one in single], axis=0), abs=1e-9)


def test_samples_of_other_sizes_are_not_paired():
    found = quietly(compare, X, {"a": sample(700, 0.1, 1), "b": sample(800, 0.8, 2)}, repeats=1)
    assert found.winner == "a"
    assert "a: the sample sizes differ (1000 and 700)" in str(found)
    assert [one.kind for one in found.scores["a"].caveats] == ["few samples", "unequal sizes"]  # its own, also in here
    assert {one.system for one in found.scores["b"].caveats} == {"b"}


def test_equal_caveats_of_several_systems_are_shown_once():
    found = quietly(
        compare, X[:300], {name: sample(300, 0.1, seed) for seed, name in enumerate("abc", start=1)}, repeats=1
    )
    assert [line for line in str(found).splitlines() if "samples" in line] == [
        "caveat: all three systems: only 300 samples: with fewer than 1000 per side, scores are biased and noisy."
    ]
    assert all("few samples" in [one.kind for one in score.caveats] for score in found.scores.values())


def test_a_joint_embedder_gives_the_score_that_score_gives():
    rng = np.random.default_rng(0)
    words = ["the", "old", "river", "runs", "slowly", "under", "a", "green", "stone", "bridge"]
    texts = [" ".join(rng.choice(words, 12)) for _ in range(240)]
    human, systems = texts[:80], {"a": texts[80:160], "b": [text.replace("river", "road") for text in texts[160:]]}
    found = quietly(compare, human, systems, embedder="ngram", repeats=1)
    for name, model in systems.items():
        assert found.scores[name].mauve == quietly(score, human, model, embedder="ngram", repeats=1).mauve
    shared = quietly(compare, human, systems, embedder="ngram", measure=Measure(Quantize(codebook="shared")), repeats=1)
    assert len({one.masses.partition.centres.shape for one in shared.scores.values()}) == 1


def test_every_set_is_embedded_once():
    seen = []

    def lengths(texts):
        seen.append(len(texts))
        return np.array([[len(text), text.count("e")] for text in texts], dtype=float)

    texts = [f"Sentence {i} of {'many ' * (i % 7)}words" for i in range(400)]
    quietly(compare, texts[:100], {"a": texts[100:200], "b": texts[200:]}, embedder=lengths, repeats=1)
    assert seen == [100, 100, 200]


def test_json_loses_nothing(found):
    text = found.to_json()
    again = Comparison.from_json(text)
    assert again.to_json() == text
    assert again.differences == found.differences
    assert again.ranks == found.ranks
    assert again.groups == found.groups
    assert repr(again) == repr(found)
    with pytest.raises(InputError, match=r"must be what Comparison.to_dict wrote; its kind is 'mallow score'"):
        Comparison.from_dict(found.scores["far"].to_dict())


def test_the_text_names_ranks(found):
    assert repr(found).endswith("winner: none)")
    verdict, _, *lines = str(found).splitlines()
    assert verdict.startswith("No winner can be named: ")
    assert lines[0].endswith("1 to 2")
    assert lines[3].startswith("far")
    assert lines[3].endswith("4")


def test_the_picture_names_every_system(found):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = found.plot()
    assert {label.get_text() for label in ax.get_yticklabels()} == set(SYSTEMS)
    matplotlib.pyplot.close(ax.figure)


def difference(first, second, value, p):
    same = {"mauve": value}
    return Difference(first, second, same, {"mauve": (0.0, 0.0)}, {"mauve": p}, {"mauve": p})


def test_groups_may_overlap_and_ranks_count_what_is_certain():
    order = ["a", "b", "c"]
    found = (difference("a", "b", 0.1, 0.5), difference("b", "c", 0.1, 0.5), difference("a", "c", 0.2, 0.01))
    ranks, groups = rank_systems(order, found)
    assert ranks == {"a": (1, 2), "b": (1, 3), "c": (2, 3)}
    assert groups == (("a", "b"), ("b", "c"))


@pytest.mark.parametrize(
    ("systems", "options", "message"),
    [
        ({}, {}, r"`systems` must map at least one name to samples; got dict"),
        ([X], {}, r"`systems` must map at least one name to samples; got list"),
        ({1: X}, {}, r"`systems` must have names that are strings; got 1"),
        ({"a": X}, {"baseline": "b"}, r"`baseline` must be one of the systems \(a\); got 'b'"),
        ({"a": X[:, :2]}, {}, r"features of the same width; got 5 and 2"),
        ({"a": X}, {"repeats": 0}, r"`repeats` must be an integer of at least 1; got 0"),
    ],
)
def test_bad_input_is_refused(systems, options, message):
    with pytest.raises(InputError, match=message):
        compare(X, systems, **options)
