"""A test that may be looked at as often as one likes: its tails, its clock, its sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow.engine import single_threaded_blas
from mallow.estimate import Quantize
from mallow.evidence import fit_sequential_test

WIDTH = 6
SPECTRUM = np.exp(-np.arange(WIDTH))


def draw(n: int, seed: int, width: int = WIDTH) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, width)) * np.exp(-np.arange(width) * 6 / width)


def fit(seed: int, size: int = 400, names: bool = False):
    reference = draw(size, seed)
    codebook = Quantize(bins=12).fit(reference[: size // 4], rng=seed)
    fitted = [f"fitted {place}" for place in range(size // 4)] if names else ()
    return fit_sequential_test(
        codebook, reference[: size // 4], reference[size // 4 :], np.arange(size - size // 4), fitted
    )


def look(test, looks, rows, names=None) -> None:
    test.update(looks, rows, test.codebook.count(rows), names)


def test_looking_at_every_batch_raises_no_more_alarms_than_promised():
    alarms, naive = [], []
    with single_threaded_blas():
        for seed in range(40):
            test, rows = fit(seed), draw(500, 1000 + seed)
            looks = test.start()
            for part in np.split(rows, 25):
                look(test, looks, part)
            alarms.append(min(test.p_values(looks).values()) < 0.05)
            naive.append(4 * min(looks.tails) < 0.05)  # the same test for a single look
    assert (
        sum(alarms) <= 5
    )  # more would happen in 1% of tests if 5% of runs raised an alarm; experiments/honesty/monitor.md
    assert sum(naive) >= 8


@pytest.mark.parametrize(
    ("change", "view"),
    [
        (lambda rows: rows + 0.8 * SPECTRUM * (np.arange(WIDTH) == 0), "mean"),
        (lambda rows: rows + 0.8 * SPECTRUM * (np.arange(WIDTH) == 4), "fine mean"),
        (lambda rows: rows * 0.7, "spread"),
        (lambda rows: np.abs(rows) * np.where(np.arange(len(rows)) % 2, 1, -1)[:, None], "bins"),
    ],
    ids=["shift", "shift along a small direction", "narrow", "signs that go together"],
)
def test_every_view_finds_its_gap(change, view):
    test = fit(3)
    looks = test.start()
    for part in np.split(change(draw(500, 77)), 50):
        look(test, looks, part)
    assert test.p_values(looks)[view] < 0.01


def test_the_first_look_is_at_ten_units():
    test, rows = fit(0), draw(10, 5) + 100.0
    looks = test.start()
    assert looks.units == 0
    for count in range(9):
        look(test, looks, rows[count : count + 1])
        assert looks.tails == [1.0] * 4
    look(test, looks, rows[-1:])
    assert min(looks.tails) < 1e-3
    assert min(test.p_values(looks).values()) >= 1e-4


def test_p_values_never_rise():
    test, looks, before = fit(1), fit(1).start(), 1.0
    for part in np.split(np.concatenate([draw(50, 3) + 1.0, draw(2000, 4)]), 41):
        look(test, looks, part)
        now = min(test.p_values(looks).values())
        assert now <= before
        before = now
    assert before < 0.05  # what was seen stays seen, though the later samples have no gap


@settings(max_examples=25)
@given(data=st.data())
def test_samples_of_a_unit_count_as_if_they_were_equal(data):
    names = data.draw(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=30))
    cuts = sorted(set(data.draw(st.lists(st.integers(1, 30), max_size=3))))
    test, rows = _FITTED, draw(len(names), 1)
    looks = test.start()
    for part in np.split(np.arange(len(names)), [cut for cut in cuts if cut < len(names)]):
        look(test, looks, rows[part], [names[place] for place in part])
    sizes = np.array([names.count(name) for name in set(names)])
    assert looks.units == approx(len(names) ** 2 / (sizes**2).sum())
    assert looks.rows == len(names)


_FITTED = fit(0)


def test_samples_without_names_are_units_of_their_own():
    looks = _FITTED.start()
    look(_FITTED, looks, draw(7, 0))
    look(_FITTED, looks, draw(3, 0), ["a", "a", "a"])
    assert looks.units == approx(100 / (7 + 9))


def test_copies_of_samples_do_not_add_certainty():
    # As many units, each four times: the same means, so the same tails.
    rows, test = draw(60, 8) + 0.2, _FITTED
    once, fourfold = test.start(), test.start()
    look(test, once, rows, [str(place) for place in range(60)])
    look(test, fourfold, np.repeat(rows, 4, axis=0), [str(place // 4) for place in range(240)])
    assert fourfold.units == once.units == 60
    assert fourfold.tails == approx(once.tails, rel=1e-6)


def test_units_that_fitted_the_views_are_left_out():
    test, rows = fit(0, names=True), draw(40, 9)
    whole, part = test.start(), test.start()
    names = [f"fitted {place}" if place % 2 else f"new {place}" for place in range(40)]
    look(test, whole, rows, names)
    look(test, part, rows[::2])
    assert (whole.left_out, whole.rows) == (20, 20)
    assert whole.tails == part.tails
    look(test, whole, rows[1::2], names[1::2])
    assert (whole.left_out, whole.rows) == (40, 20)


def test_merging_adds_samples_and_the_next_question_looks_at_them():
    test, rows = _FITTED, draw(300, 10)
    names = [str(place % 50) for place in range(300)]
    whole, one, other = test.start(), test.start(), test.start()
    look(test, whole, rows, names)
    look(test, one, rows[:100], names[:100])
    look(test, other, rows[100:], names[100:])
    kept = list(one.tails)
    test.merge(one, other)
    assert one.tails == kept
    test.p_values(one)
    assert all(np.array_equal(a, b) for a, b in zip(one.sums, whole.sums, strict=True))
    assert (one.squares, one.rows, one.size_squares, one.sizes) == (
        whole.squares,
        whole.rows,
        whole.size_squares,
        whole.sizes,
    )
    # The looks of `one` and the look at all samples: not what `other` found.
    assert one.tails == [min(pair) for pair in zip(kept, whole.tails, strict=True)]
    fresh = test.start()
    test.merge(fresh, other)
    assert test.p_values(fresh) == test.p_values(other)
    assert fresh.tails == other.tails


def test_repeated_units_of_the_reference_count_once():
    rows = np.repeat(draw(200, 0), 2, axis=0)
    codebook = Quantize(bins=10).fit(rows[:100], rng=0)
    once = fit_sequential_test(codebook, rows[:100], rows[100:], np.arange(300))
    units = fit_sequential_test(codebook, rows[:100], rows[100:], np.arange(300) // 2)
    assert [test.units for test in once.tests] == [300.0] * 4
    assert [test.units for test in units.tests] == [150.0] * 4
