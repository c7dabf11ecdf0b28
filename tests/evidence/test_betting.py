"""Bets on a gap: the limit of MAUVE that they prove holds at any time, for any function, and for a moving reference."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from mallow import Masses, area, frontier, integral, midpoint
from mallow.evidence._betting import _CLIPS, _WORST, _later, _payoffs, fit_betting, mauve_limit, midpoint_limit
from mallow.evidence._sequential_views import fit_views
from strategies import simplex_pairs


def rows(size: int, seed: int, shift: float = 0.0) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(size, 4))
    drawn[:, 0] += shift
    return drawn


def start(tolerance=0.9, window=None, names=None, size=400):
    reference = rows(size, 0)
    views = fit_views(reference[: size // 4])
    betting = fit_betting(views, reference[:1], tolerance, scale=5.0, window=window, seed=0)
    fitted = frozenset(() if names is None else names[: size // 4])
    counted = None if names is None else names[size // 4 :]
    return betting, betting.start(reference[size // 4 :], counted, fitted)


@given(pair=simplex_pairs(), scale=st.sampled_from([0.5, 1.0, 5.0, 10.0]))
def test_the_midpoint_limits_mauve_and_the_integral(pair, scale):
    masses = Masses.from_histograms(*pair)
    half = float(midpoint(masses))
    assert float(area(frontier(masses), scale=scale)) <= mauve_limit(half, scale) + 1e-7
    assert float(integral(masses)) >= half - 1e-9


@given(mauve=st.floats(0.01, 1.0), scale=st.sampled_from([1.0, 5.0]))
def test_the_two_limits_are_inverse(mauve, scale):
    assert mauve_limit(midpoint_limit(mauve, scale), scale) == approx(mauve, abs=1e-6)


@given(pair=simplex_pairs(), seed=st.integers(0, 100), size=st.sampled_from([0.1, 1.0, 30.0]))
def test_no_function_has_a_mean_payoff_beyond_the_midpoint(pair, seed, size):
    p, q = pair
    h = size * np.random.default_rng(seed).normal(size=len(p))
    first, second = np.meshgrid(np.arange(len(p)), np.arange(len(p)), indexing="ij")
    payoffs = _payoffs(h[first.ravel()], h[second.ravel()], [1] * first.size)
    mean = payoffs @ np.outer(p, q).ravel()
    assert (mean <= float(midpoint(Masses.from_histograms(p, q))) + 1e-9).all()
    assert (payoffs >= _WORST[:, None] - 1e-12).all()


def test_a_unit_with_several_samples_is_one_mean():
    h = np.array([1.0, -1.0, 2.0])
    single = _payoffs(np.zeros(3), h, [1, 1, 1])
    both = _payoffs(np.zeros(2), h, [2, 1])
    assert both[:, 0] == approx(single[:, :2].mean(axis=1))
    assert both[:, 1] == approx(single[:, 2])


def test_no_bet_can_lose_everything():
    betting, bets = start()
    for look in range(8):
        bets = betting.update(bets, rows(25, 1 + look, 1.5), None)
    assert bets.rule.bet.max() > 0
    worst = 1.0 + bets.rule.bet * (_WORST[bets.rule.clip] - betting.levels)
    assert (worst > 0.1).all()
    assert len(_CLIPS) == len(_WORST)


def test_bets_win_where_there_is_a_gap_and_are_not_made_where_there_is_none():
    ends = {}
    for shift in (0.0, 2.0):
        betting, bets = start()
        for look in range(20):
            bets = betting.update(bets, rows(25, 1 + look, shift), None)
        ends[shift] = betting.p_value(bets), betting.limit(bets)[0], len(bets.pool)
    assert ends[0.0][0] > 0.5
    assert ends[0.0][1] == 1.0
    assert ends[0.0][2] == 225  # of 300, a quarter is learned from: a calm stream spends nothing
    assert ends[2.0][0] < 1e-3
    assert 0.1 < ends[2.0][1] < 0.5  # the truth is 0.10


def test_the_whole_capital_starts_at_1_and_what_is_kept_falls():
    _, bets = start()
    assert (bets.capital + _later(0) == 1.0).all()
    assert _later(100) == 0.25
    assert _later(10**6) < 1e-4


def test_samples_of_a_unit_count_once_and_meet_their_own_reference():
    names = [f"prompt {place}" for place in range(400)]
    betting, bets = start(names=names)
    for low in range(100, 400, 50):
        bets = betting.update(bets, rows(50, low, 2.0), names[low : low + 50])
    assert bets.pairs == 200  # a function is learned from the units of 75, and from the first 25 others
    used = bets
    bets = betting.update(bets, rows(50, 7, 2.0), names[150:200])  # they come back
    assert (bets.pairs, len(bets.pool)) == (used.pairs, len(used.pool))
    bets = betting.update(bets, rows(20, 8, 2.0), names[:20])  # they fitted the views
    assert bets.pairs == used.pairs


def test_a_window_moves_with_the_stream():
    betting, bets = start(window=100)
    assert len(bets.pool) == 100
    for look in range(60):
        bets = betting.update(bets, rows(20, 1 + look, 0.02 * look), None)
        assert len(bets.pool) <= 100
        assert len(bets.rows) == len(bets.pool)
    assert bets.rows[:, 0].mean() > 0.6  # the mean is 1.2 at the end, and was 0
    assert betting.p_value(bets) > 0.05  # never far from the window
    for look in range(60, 75):
        bets = betting.update(bets, rows(20, 1 + look, 4.0), None)
    assert betting.p_value(bets) < 0.05


def test_the_limit_needs_all_larger_limits():
    betting, bets = start()
    most = np.full(len(betting.limits), 30.0)
    most[3] = 1.0
    assert betting.limit(replace(bets, most=most))[0] == betting.limits[2]
    assert betting.limit(replace(bets, most=np.full(len(most), 30.0)))[0] == betting.limits[-1]
    assert betting.limit(bets) == (1.0, 0.0)


@pytest.mark.parametrize("order", [np.argsort, lambda values: np.argsort(-values)])
def test_sorted_batches_raise_no_alarm(order):
    betting, bets = start()
    for look in range(30):
        batch = rows(30, 1 + look)
        bets = betting.update(bets, batch[order(batch[:, 0])], None)
    assert betting.p_value(bets) > 0.05
