"""Two gaps compared: the larger is named, equal ones are not, and shared units cancel."""

import warnings

import numpy as np
import pytest

import mallow
from mallow.errors import EstimateWarning, InputError


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        yield


def pair(shift, seed, n=200, width=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, width)), rng.normal(shift, 1.0, size=(n, width))


def test_the_larger_gap_is_named_and_the_order_only_turns_the_sign():
    pairs = {"far": pair(0.9, 1), "near": pair(0.2, 2)}
    result = mallow.compare_gaps(pairs, repeats=1)
    assert result.larger == "far"
    assert result.verdict.startswith("The gap of far is larger: certified MAUVE of far minus that of near is -0.")
    turned = mallow.compare_gaps(dict(reversed(pairs.items())), repeats=1)
    assert turned.larger == "far"
    assert turned.difference.difference["mauve"] == pytest.approx(-result.difference.difference["mauve"])


def test_equal_gaps_are_rarely_told_apart():
    found = [
        mallow.compare_gaps({"a": pair(0.5, 2 * seed), "b": pair(0.5, 2 * seed + 1)}, repeats=1).larger
        for seed in range(5)
    ]
    assert sum(one is not None for one in found) <= 1


def test_units_that_both_pairs_share_cancel():
    x, y = pair(0.6, 5)
    ids = [f"u{i}" for i in range(200)]
    noise = np.random.default_rng(9).normal(0, 0.01, size=y.shape)
    first = mallow.Samples(features=x, ids=ids), mallow.Samples(features=y, ids=ids)
    other = [f"v{i}" for i in range(200)]
    again = mallow.Samples(features=x, ids=ids), mallow.Samples(features=y + noise, ids=ids)
    apart = mallow.Samples(features=x, ids=other), mallow.Samples(features=y + noise, ids=other)
    shared = mallow.compare_gaps({"a": first, "b": again}, repeats=1).difference.interval["mauve"]
    separate = mallow.compare_gaps({"a": first, "b": apart}, repeats=1).difference.interval["mauve"]
    assert shared[1] - shared[0] < 0.2 * (separate[1] - separate[0])


def test_a_space_of_one_pair_does_not_decide():
    """Both gaps are equally large; one is clearest in a space that the other pair does not have."""
    rng = np.random.default_rng(3)
    first, second = pair(0.3, 6), pair(0.3, 7)
    apart = [rng.normal(shift, 1.0, size=(200, 3)) for shift in (0.0, 2.0)]
    first = tuple(mallow.Samples(features=x, spaces={"mine": more}) for x, more in zip(first, apart, strict=True))
    result = mallow.compare_gaps({"first": first, "second": second}, repeats=1)
    assert mallow.score(*first, repeats=1).certified["mauve"].high < 0.1
    assert result.larger is None
    assert {score.signature.spaces for score in result.scores.values()} == {""}


def test_the_larger_pair_is_cut_to_the_smaller():
    x, y = pair(0.5, 3, n=260)
    result = mallow.compare_gaps({"small": pair(0.5, 4, n=150), "large": (x, y)}, repeats=1)
    assert result.left_out == (0, 220)
    assert {score.n for score in result.scores.values()} == {(150, 150)}


def test_references_and_models_are_cut_each_to_the_smaller_of_their_own():
    (x, _), (_, y) = pair(0.5, 3, n=100), pair(0.5, 3, n=60)
    (u, _), (_, v) = pair(0.5, 4, n=80), pair(0.5, 4, n=90)
    result = mallow.compare_gaps({"first": (x, y), "second": (u, v)}, repeats=1)
    assert {score.n for score in result.scores.values()} == {(80, 60)}
    assert result.left_out == (20, 30)


def test_anything_but_two_pairs_is_refused():
    with pytest.raises(InputError, match="`pairs` must map two names to"):
        mallow.compare_gaps({"a": pair(0, 1)})
    with pytest.raises(InputError, match="`pairs` must map two names to"):
        mallow.compare_gaps([pair(0, 1), pair(0, 2)])


def test_what_is_not_a_pair_is_refused():
    x, y = pair(0, 1, n=20)
    for pairs in ({"a": (x, y), "b": (x, y, y)}, {"a": (x, y), "b": (x,)}, dict.fromkeys("abc", (x, y))):
        with pytest.raises(
            InputError, match=r"`pairs` must map two names to \(reference, model\) each; got something else"
        ):
            mallow.compare_gaps(pairs)
    with pytest.raises(InputError, match="`repeats` must be"):
        mallow.compare_gaps({"a": (x, y), "b": (x, y)}, repeats=0)
