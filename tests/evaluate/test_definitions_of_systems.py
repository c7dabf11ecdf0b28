"""Several systems and generations: put into order, split, ranked and averaged; compared with the definitions."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from made_results import made_difference, made_score
from mallow import Measure, Samples
from mallow.estimate import Neighbors, Quantize
from mallow.evaluate import Difference
from mallow.evaluate._compare import _all_variances, _mean_score, generations_as_samples
from mallow.evaluate._evaluation import _with_one_number_of_bins, match_prompts, split_generations
from mallow.evaluate._order import rank_systems


def features(n, width=2):
    return np.arange(n * width, dtype=float).reshape(n, width)


def with_ids(ids):
    return Samples(features=features(len(ids)), ids=ids)


@given(prompts=st.integers(2, 6), times=st.integers(1, 4), seed=st.integers(0, 100))
def test_each_part_has_one_sample_of_every_prompt_in_the_order_of_the_reference(prompts, times, seed):
    rng = np.random.default_rng(seed)
    ids = rng.permutation([f"p{place}" for place in range(prompts)])
    reference, samples = with_ids(ids), with_ids(rng.permutation(np.repeat(ids, times)))
    ordered, doubts = match_prompts(reference, samples)
    parts = split_generations(ordered)
    assert doubts == []
    assert [part.ids for part in parts] == [tuple(ids)] * times
    place = {row.tobytes(): i for i, row in enumerate(samples.features)}
    order = np.array([[place[row.tobytes()] for row in part.features] for part in parts])
    assert sorted(order.ravel()) == list(range(prompts * times))
    assert (np.diff(order, axis=0) > 0).all()  # among the samples of a prompt, the first comes first


def test_samples_in_the_order_of_the_reference_are_not_copied():
    samples = with_ids(["a", "b", "a", "b"])
    assert match_prompts(with_ids(["a", "b"]), samples)[0] is samples


@pytest.mark.parametrize(
    ("reference", "ids"),
    [
        (None, ["a", "a", "b", "b"]),  # no ids on one side
        (["a", "b"], None),
        (["a", "b"], ["a", "a", "b"]),  # another number for each
        (["a", "a"], ["a", "a"]),  # prompts that repeat
        (["a", "b", "c"], ["a", "a", "b", "b"]),  # prompts that are missing
        (["a", "b"], ["c", "c", "d", "d"]),  # other names altogether
    ],
)
def test_what_cannot_be_matched_is_one_generation(reference, ids):
    own = Samples(features=features(len(reference or "ab")), ids=reference)
    samples = Samples(features=features(len(ids or "abcd")), ids=ids, source="here")
    ordered, doubts = match_prompts(own, samples)
    (part,) = split_generations(ordered)
    assert doubts == []
    assert np.array_equal(part.features, samples.features)
    assert (part.source, part.prompts) == ("here", None)
    assert part.ids == (samples.ids if samples.generations == 1 else None)


def test_ids_that_only_the_model_has_are_told():
    _, (one,) = match_prompts(with_ids(["a", "b"]), with_ids(["a", "c"]))
    assert (one.kind, one.values) == ("unmatched ids", {"ids": 1})
    assert one.message == (
        "the id 'c' is not in the reference: only samples whose ids the reference has are paired with it."
    )
    _, (several,) = match_prompts(with_ids(["a", "b", "c"]), with_ids(["a", "z", "y"]))
    assert several.values == {"ids": 2}
    assert several.message.startswith("2 ids, such as 'y', are not in the reference: ")


def test_an_array_of_generations_has_an_id_for_each_prompt():
    rows, three = features(2), np.arange(12.0).reshape(2, 3, 2)
    made = generations_as_samples({"": rows, "m": three, "n": features(2)})
    assert made["m"].ids == ("prompt 0",) * 3 + ("prompt 1",) * 3
    assert np.array_equal(made["m"].features, three.reshape(6, 2))
    assert made["m"].source == "array"
    assert made[""].ids == ("prompt 0", "prompt 1")
    assert np.array_equal(made[""].features, rows)
    assert isinstance(made["n"], np.ndarray)  # only the reference gets ids
    line = generations_as_samples({"": np.arange(2.0), "m": three})[""]
    assert line.ids == ("prompt 0", "prompt 1")


def test_other_sources_stay_as_they_are():
    texts = np.array([[["a"], ["b"]]])  # three axes of words are no features
    sources = {"": ["a", "b"], "m": texts, "n": features(3)}
    made = generations_as_samples(sources)
    assert made == sources
    assert made is not sources
    reference = Samples(features=features(2))
    assert generations_as_samples({"": reference, "m": np.zeros((2, 2, 2))})[""] is reference
    whole = np.zeros((2, 2, 2), int)
    assert generations_as_samples({"": reference, "m": whole})["m"].generations == 2


def test_prompts_without_ids_are_not_split():
    samples = Samples(features=features(4), prompts=["a", "a", "b", "b"])
    assert split_generations(samples) == [samples]
    assert [len(part) for part in split_generations(with_ids(["a", "b", "c", "a", "b", "c"]))] == [3, 3]
    uneven = with_ids(["a", "a", "b"])
    assert split_generations(uneven) == [uneven]


# --- ranks, bins, variances and means of several systems


X = np.random.default_rng(0).normal(size=(100, 5))


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
    ("estimator", "bins"),
    [
        (Quantize(), 6),  # a tenth of the smallest
        (Quantize(bins=7), 7),
        (Neighbors(), None),
        (Quantize(codebook=Quantize(bins=3).fit(X[:50])), "auto"),
    ],
)
def test_all_systems_have_the_bins_of_the_smallest(estimator, bins):
    def of(n):
        return Samples(features=X[:n])

    generations = {"a": [(of(100), of(100))], "b": [(of(100), of(90)), (of(100), of(60))]}
    measure = Measure(estimator)
    found = _with_one_number_of_bins(measure, generations)
    assert getattr(found.estimator, "bins", None) == bins
    assert (found is measure) == (bins != 6)
    alike = {"a": [(of(100), of(100))], "b": [(of(100), of(100))]}
    assert _with_one_number_of_bins(measure, alike) is measure


def test_where_the_variance_comes_from():
    one = made_score(std={"mauve": 0.02, "frontier_integral": 0.0, "midpoint": 0.0})
    (found,) = _all_variances(Measure(), {"a": [None]}, {"a": one}).values()
    # The interval is that of a difference of two draws: ± 1.96 √2 standard errors; two repeats halve the noise of seeds.
    total = (0.03 / (2 * 1.959964)) ** 2 / 2
    assert found == approx({"clustering": 4e-4, "sampling": max(0.0, total - 2e-4)}, rel=1e-6)
    assert found["sampling"] == 0.0
    calm = replace(one, std=dict.fromkeys(one.std, 0.001))
    (found,) = _all_variances(Measure(), {"a": [None]}, {"a": calm}).values()
    assert found == approx({"clustering": 1e-6, "sampling": total - 5e-7}, rel=1e-6)
    (found,) = _all_variances(Measure(), {"a": [None]}, {"a": replace(calm, interval={})}).values()
    assert found == approx({"clustering": 1e-6})


def test_the_mean_over_generations_is_that_of_every_number():
    first, second = made_score(0.9), made_score(0.8)
    second = replace(second, values=dict.fromkeys(second.values, (0.3, 0.05)))
    mean = _mean_score("a", [first, second])
    assert mean.values == {name: approx((0.4, 0.15)) for name in first.values}
    assert (mean.mauve, mean.frontier_integral, mean.midpoint) == approx((0.275, 0.275, 0.275))
    assert mean.std == approx(dict.fromkeys(first.std, 0.25 / np.sqrt(2)))
    assert mean.interval["mauve"] == approx((0.83, 0.86))
    assert mean.interval["midpoint"] == approx((0.007, 0.014))
    assert astuple(mean.debiased["mauve"]) == approx((0.88, 0.87, 0.9))
    assert mean.signature.generations == 2
    assert np.array_equal(mean.frontier.p_to_mix, first.frontier.p_to_mix)
    assert len(mean.band) == 2
    once = [replace(one, values={name: own[:1] for name, own in one.values.items()}) for one in (first, second)]
    assert _mean_score("a", once).std == dict.fromkeys(first.std, 0.0)
    assert _mean_score("a", once).mauve == approx(0.4)


@settings(max_examples=60)
@given(data=st.data(), count=st.integers(1, 6))
def test_ranks_and_groups_follow_from_the_significant_differences(data, count):
    names = "abcdef"[:count]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    apart = {pair for pair in pairs if data.draw(st.booleans())}
    made = [made_difference(a, b, 0.1, 0.01 if (a, b) in apart else 0.5) for a, b in pairs]
    turned = [one.reverse() if data.draw(st.booleans()) else one for one in made]
    ranks, groups = rank_systems(names, turned)
    for place, name in enumerate(names):
        worse_than = sum((other, name) in apart for other in names[:place])
        better_than = sum((name, other) in apart for other in names[place + 1 :])
        assert ranks[name] == (1 + worse_than, count - better_than)
    assert set().union(*groups) == set(names)
    for group in groups:
        assert not any((a, b) in apart for a in group for b in group)
        assert not any(set(group) < set(other) for other in groups)
    assert len(set(groups)) == len(groups)


def test_nothing_is_ranked_without_differences():
    assert rank_systems(["a", "b"], []) == ({}, ())
    assert rank_systems(["a"], []) == ({"a": (1, 1)}, (("a",),))
