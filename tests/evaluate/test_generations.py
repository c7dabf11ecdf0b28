"""Several generations per prompt: put into the order of the reference, and split; whatever does not fit stays as it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow import Samples
from mallow.evaluate._compare import generations_as_samples
from mallow.evaluate._evaluation import match_prompts, split_generations


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
