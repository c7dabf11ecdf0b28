"""Barycentric frontiers on the bins against linear programmes, and entropic ones against exact ones and definitions."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from pytest import approx
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from mallow import EstimateWarning, InputError, Masses, area
from mallow.theory import Partition
from mallow.theory import _transport_frontiers as _transport_barycentres
from mallow.theory.transport import (
    barycentric_frontier,
    entropic_barycentric_frontier,
    entropic_cost,
    entropic_linear_frontier,
    free_barycentric_frontier,
    linear_frontier,
    point_masses,
    quantized_cost,
)
from point_clouds import clouds

pytest.importorskip("ot", reason="needs the extra 'transport'")


@pytest.mark.parametrize("most", [1, 2, 7])
def test_no_more_barycentres_are_looked_for_than_allowed(most, monkeypatch):
    solved = []
    solve = _transport_barycentres._barycentre_costs
    monkeypatch.setattr("mallow.theory._transport_frontiers._MOST_VERTICES", most)
    monkeypatch.setattr(
        "mallow.theory._transport_frontiers._barycentre_costs", lambda *own: solved.append(0) or solve(*own)
    )
    rng = np.random.default_rng(0)
    curve = barycentric_frontier(point_masses(rng.normal(size=(40, 1)), rng.normal(1, 1, size=(30, 1))), tolerance=1e-9)
    # Each of the first `most` − 1 that is found divides an edge; what is open then is looked at once.
    assert most <= len(solved) <= 2 * most - 1
    assert (np.diff(curve.p_to_mix) <= 0).all()


def histograms(bins, d, seed=0):
    """Two histograms over bins whose centres are Gaussian points."""
    rng = np.random.default_rng([seed, bins, d])
    p, q = rng.dirichlet(np.ones(bins), size=2)
    return Masses(p, q, partition=Partition(np.zeros(1, int), np.zeros(1, int), rng.normal(size=(bins, d))))


def by_programme(masses, lam):
    """The costs of P and Q to a barycentre on the bins, by a linear programme over both plans and R."""
    cost = cdist(masses.partition.centres, masses.partition.centres, "sqeuclidean")
    k = len(cost)
    objective = np.concatenate([lam * cost.ravel(), (1 - lam) * cost.ravel(), np.zeros(k)])
    rows, target = [], []
    for side, mass in enumerate((masses.p, masses.q)):
        for i in range(k):
            row = np.zeros(len(objective))
            row[side * k * k + i * k : side * k * k + (i + 1) * k] = 1.0
            rows.append(row)
            target.append(mass[i])
        for r in range(k):
            row = np.zeros(len(objective))
            row[side * k * k + r : (side + 1) * k * k : k] = 1.0
            row[2 * k * k + r] = -1.0
            rows.append(row)
            target.append(0.0)
    solved = linprog(objective, A_eq=np.array(rows), b_eq=target, method="highs")
    plans = solved.x[: 2 * k * k].reshape(2, -1)
    return plans @ cost.ravel()


@pytest.mark.parametrize("d", [1, 2, 3, 30])
def test_barycentres_are_those_of_the_linear_programme(d):
    masses = histograms(9, d)
    curve = barycentric_frontier(masses, tolerance=1e-9)
    for lam in (0.1, 0.25, 0.42, 0.5, 0.61, 0.9):
        exact = by_programme(masses, lam)
        value = lam * curve.p_to_mix + (1 - lam) * curve.q_to_mix
        assert value.min() == approx(lam * exact[0] + (1 - lam) * exact[1], rel=1e-7)
        place = np.searchsorted(curve.lam, lam)  # the corner of this λ
        if abs(curve.lam - lam).min() > 1e-9:
            assert (curve.p_to_mix[place], curve.q_to_mix[place]) == approx(tuple(exact), rel=1e-6, abs=1e-9)


def test_in_many_dimensions_the_barycentre_is_one_of_both_and_not_between():
    masses = histograms(12, 30)
    whole, curve = quantized_cost(masses), barycentric_frontier(masses, tolerance=1e-9)
    place = np.searchsorted(curve.lam, 0.25)
    assert (curve.p_to_mix[place], curve.q_to_mix[place]) == approx((whole, 0.0))
    assert by_programme(masses, 0.25) == approx([whole, 0.0], abs=1e-9)
    free = free_barycentric_frontier(masses)
    assert (free.p_to_mix[256], free.q_to_mix[256]) == approx((whole * 9 / 16, whole / 16))  # as if space were filled


@given(pair=clouds(most=4, widths=(1, 2)))
@settings(max_examples=8)
def test_the_frontier_on_the_bins_lies_between_the_free_and_the_linear_one(pair):
    x, y = (points / 100 for points in pair)
    masses = point_masses(x, y)
    free, fixed, linear = (
        float(area(build(masses), scale=5))
        for build in (free_barycentric_frontier, barycentric_frontier, linear_frontier)
    )
    assert linear - 2e-3 <= fixed <= free + 1e-6


def test_a_chain_of_bins_is_nearly_as_good_as_free_space():
    grid = np.linspace(0, 1, 81)[:, None]
    p, q = (np.bincount([place], minlength=81).astype(float) for place in (0, 80))
    masses = Masses(p, q, partition=Partition(np.zeros(1, int), np.zeros(1, int), grid))
    fixed, free = barycentric_frontier(masses, tolerance=1e-5), free_barycentric_frontier(masses)
    assert float(area(fixed, scale=5)) == approx(float(area(free, scale=5)), abs=2e-3)


def test_entropic_costs_are_those_of_the_definition():
    masses = histograms(7, 2)
    centres, p, q = masses.partition.centres, masses.p, masses.q
    curve = entropic_linear_frontier(masses, regulariser=0.7, points=3)
    assert curve.lam.tolist() == [0.25, 0.5, 0.75]
    for place, lam in enumerate(curve.lam):
        mix = lam * p + (1 - lam) * q
        for side, costs in ((p, curve.p_to_mix), (q, curve.q_to_mix)):
            assert costs[place] == approx(entropic_cost(centres, centres, p=side, q=mix, regulariser=0.7), rel=1e-6)


def test_no_other_histogram_has_a_smaller_entropic_objective():
    masses, eps, rng = histograms(5, 2), 0.5, np.random.default_rng(3)
    cost = cdist(masses.partition.centres, masses.partition.centres, "sqeuclidean")

    def plan(side, mix):
        kernel, v = np.exp(-cost / eps), np.ones(5)
        for _ in range(200):
            u = side / (kernel @ v)
            v = mix / (kernel.T @ u)
        return u[:, None] * kernel * v

    def objective(mix, lam):
        plans = plan(masses.p, mix), plan(masses.q, mix)
        return sum(
            w * ((one * cost).sum() + eps * (one * np.log(one)).sum())
            for w, one in zip((lam, 1 - lam), plans, strict=True)
        )

    curve = entropic_barycentric_frontier(masses, regulariser=eps, points=2)
    from scipy.optimize import minimize

    for place, lam in enumerate(curve.lam):

        def free(z, lam=lam):
            return objective(np.exp(z) / np.exp(z).sum(), lam)

        found = minimize(free, np.log((masses.p + masses.q) / 2) + 0.1 * rng.normal(size=5), method="BFGS")
        best = np.exp(found.x) / np.exp(found.x).sum()
        assert curve.p_to_mix[place] == approx((plan(masses.p, best) * cost).sum(), rel=1e-3)
        assert curve.q_to_mix[place] == approx((plan(masses.q, best) * cost).sum(), rel=1e-3)


@pytest.mark.parametrize(
    ("entropic", "exact"),
    [(entropic_linear_frontier, linear_frontier), (entropic_barycentric_frontier, barycentric_frontier)],
)
def test_a_small_entropy_is_nearly_exact_and_a_large_one_blurs(entropic, exact):
    masses = histograms(8, 3)
    largest = cdist(masses.partition.centres, masses.partition.centres, "sqeuclidean").max()
    truth = float(area(exact(masses), scale=0.3))
    near = float(area(entropic(masses, regulariser=largest / 100, points=127), scale=0.3))
    blurred = float(area(entropic(masses), scale=0.3))
    assert near == approx(truth, abs=0.04)
    assert blurred < near - 0.05
    same = Masses(masses.p, masses.p, partition=masses.partition)
    assert area(exact(same), scale=0.3) == 1.0
    assert area(entropic(same), scale=0.3) < 0.9  # an entropic plan moves mass even between equals


def test_what_has_not_converged_is_said(monkeypatch):
    monkeypatch.setattr("mallow.theory._transport_frontiers._MOST_ROUNDS", 20)
    with pytest.warns(EstimateWarning, match=r"entropic plans have not converged: their masses are off by .* in total"):
        curve = entropic_linear_frontier(histograms(8, 3), regulariser=0.1)
    values = dict(curve.caveats[0].values)
    assert list(values) == ["error", "gap"]  # the worst of several is found by its gap
    assert values["error"] == values["gap"] > 1e-6


SAME_PLACE = point_masses(np.zeros((9, 2)), np.array([[0.0, 0.0], [1.0, 0.0]]))


@pytest.mark.parametrize("build", [entropic_linear_frontier, entropic_barycentric_frontier])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regulariser": 0.0}, r"`regulariser` must be a finite number above 0; got 0\.0"),
        (
            {"regulariser": 1e-9},
            r"`regulariser` must be at least 1/500 of the largest cost, 1; got 1e-09\. .* is exact\.",
        ),
        (
            {"regulariser": None},
            r"`regulariser` cannot be the median of the pairwise costs, which is 0: more than half",
        ),
        ({"points": 0}, r"`points` must be an integer of at least 1; got 0\."),
    ],
)
def test_bad_options_are_refused(build, options, message):
    with pytest.raises(InputError, match=message):
        build(SAME_PLACE, **options)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, np.nan])
def test_bad_tolerances_are_refused(tolerance):
    with pytest.raises(InputError, match=r"`tolerance` must lie strictly between 0 and 1"):
        barycentric_frontier(SAME_PLACE, tolerance=tolerance)


def test_progress_goes_from_nothing_to_all(monkeypatch):
    shown = []

    @contextmanager
    def bar(*_, **__):
        yield lambda done, text: shown.append(done)

    monkeypatch.setattr("mallow.theory._transport_frontiers.bar", bar)
    barycentric_frontier(histograms(8, 3))
    assert shown[-1] == 1000
    assert shown == sorted(shown)
    assert shown[0] >= 0


# --- the parts


def test_mass_that_stays_costs_nothing_and_equal_histograms_have_no_curve():
    same = Masses(np.array([0.5, 0.5]), np.array([0.5, 0.5]), partition=histograms(2, 2).partition)
    curve = barycentric_frontier(same)
    assert (curve.lam.tolist(), curve.p_to_mix.tolist(), curve.q_to_mix.tolist()) == ([0, 1], [0, 0], [0, 0])
    one = free_barycentric_frontier(point_masses([[0.0]], [[3.0]]))
    assert len(one.lam) == 1025
    assert one.p_to_mix == approx(9.0 * (1 - one.lam) ** 2)
    assert one.q_to_mix == approx(9.0 * one.lam**2)


def test_values_of_lambda_are_evenly_spaced_and_rounds_are_looked_at_every_twentieth(monkeypatch):
    looks = []

    @contextmanager
    def bar(verb, total):
        yield lambda done, text: looks.append((verb, total, done))

    monkeypatch.setattr("mallow.theory._transport_frontiers.bar", bar)
    curve = entropic_linear_frontier(histograms(6, 2), points=4)
    assert curve.lam == approx([0.2, 0.4, 0.6, 0.8])
    assert [done for _, _, done in looks] == list(range(20, 20 * len(looks) + 1, 20))
    assert {own[:2] for own in looks} == {("frontier", 20_000)}
    assert curve.caveats == ()
    assert len(entropic_linear_frontier(histograms(6, 2)).lam) == 63
    assert len(entropic_barycentric_frontier(histograms(6, 2)).lam) == 63
    assert len(entropic_barycentric_frontier(histograms(6, 2), points=1).lam) == 1


@pytest.mark.parametrize("build", [entropic_linear_frontier, entropic_barycentric_frontier])
def test_bins_in_one_place_cost_nothing(build):
    place = Masses(
        np.array([0.3, 0.7]),
        np.array([0.6, 0.4]),
        partition=Partition(np.zeros(1, int), np.zeros(1, int), np.ones((2, 2))),
    )
    curve = build(place, points=3)
    assert curve.p_to_mix.tolist() == curve.q_to_mix.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("share", "fine"), [(1 / 499, True), (1 / 501, False)])
def test_a_regulariser_of_a_five_hundredth_is_the_least(share, fine):
    masses = point_masses([[0.0], [2.0]], [[0.0], [2.0]])
    if fine:
        assert entropic_linear_frontier(masses, regulariser=4 * share, points=1).p_to_mix == approx([0.0], abs=1e-9)
    else:
        with pytest.raises(InputError, match="`regulariser` must be at least 1/500 of the largest cost, 4"):
            entropic_linear_frontier(masses, regulariser=4 * share, points=1)
