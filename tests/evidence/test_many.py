"""The witness for many samples: the same answers as the ordinary one, from sums that are exact."""

import numpy as np
import pytest
from mallow.evidence._many import ManyLearner
from mallow.evidence._many_rules import Rules
from pytest import approx

import mallow.evidence._witness as witness_module
from held_out import paired, samples, shifted
from mallow.evidence import Witness, certify, difference_between, find_units, gather_evidence, make_learner
from mallow.evidence import _many as many
from mallow.evidence import _many_test as many_test
from mallow.evidence._blocks import ArrayRows
from mallow.evidence._coarse import CoarseGrid, Metrics, find_coarse_grid, sum_cells
from mallow.evidence._exchange import find_exchange
from mallow.evidence._witness import Learner
from mallow.theory import KL


def learn(*sets, seed=0, kind=ManyLearner, **options):
    every = [samples(*one) if isinstance(one, tuple) else samples(one) for one in sets]
    return kind(Witness(**options), [one.features for one in every], find_units(*every), seed)


# --- what is learned


@pytest.mark.parametrize("views", [(0, 1, 2), (1,), ()])
def test_rules_add_up_their_parts(views):
    """A score is linear + quadratic + length + constant + what the bins add, whichever views have a quadratic part."""
    rng = np.random.default_rng(0)
    linear, quadratic = rng.normal(size=(2, 3, 2, 4))
    quadratic[[view for view in range(3) if view not in views]] = 0
    length, constant = rng.normal(size=(2, 3, 2))
    tables = tuple(rng.normal(size=(3, 2, bins)) for bins in (3, 5))
    tables[1][0] = 0
    rows = rng.integers(-9, 10, (7, 4)).astype(float)
    lengths, labels = rng.normal(size=7), np.stack([rng.integers(0, 3, 7), rng.integers(0, 5, 7)])
    expected = np.einsum("vpd,nd->vpn", linear, rows) + np.einsum("vpd,nd->vpn", quadratic, rows**2)
    expected += length[..., None] * lengths + constant[..., None]
    for table, own in zip(tables, labels, strict=True):
        expected += table[:, :, own]
    rules = Rules(linear, quadratic, length, constant, tables)
    assert rules.score(rows, lengths, labels) == approx(expected, abs=1e-9)
    weights = rng.normal(size=(2, 3, 2))
    mixed = rules.mix(weights).score(rows, lengths, labels)
    assert mixed[:, 0] == approx(np.einsum("rvp,vpn->rn", weights, expected), abs=1e-9)


@pytest.mark.parametrize(("shift", "stretch"), [(0.15, 1.0), (0.0, 1.15)])
def test_it_finds_what_the_ordinary_witness_finds(shift, stretch):
    x, y = shifted(3000, 12, shift, 1)
    y = (y * stretch).astype(np.float32)
    found = {}
    for kind in (Learner, ManyLearner):
        evidence = gather_evidence(learn(x, y, kind=kind), 1, permutations=99, seed=0)
        found[kind] = evidence.certify(KL, 5.0)
        assert evidence.test.p_value < 0.001
    few, lots = found[Learner], found[ManyLearner]
    assert lots.estimates["midpoint"].value == approx(few.estimates["midpoint"].value, rel=0.15)
    assert lots.errors[2] == approx(few.errors[2], rel=0.15)


def test_rules_never_see_the_side_of_what_they_judge():
    """With the sides of one fold exchanged, all that is learned without sides stays; so must the scores of this fold."""
    (x, ids), (y, _) = paired(900, 6, 0.4, 3, shared=0.3)
    first = learn((x, ids), (y, ids))
    fold = first._cell[0]
    swapped_x, swapped_y = x.copy(), y.copy()
    swapped_x[fold == 2], swapped_y[fold == 2] = y[fold == 2], x[fold == 2]
    second = learn((swapped_x, ids), (swapped_y, ids))
    assert (second._cell[0] == fold).all()
    at_x, at_y = first.scores(1)
    again_x, again_y = second.scores(1)
    assert (at_x[fold == 2] == again_y[fold == 2]).all()
    assert (at_y[fold == 2] == again_x[fold == 2]).all()
    assert (at_x[fold != 2] != again_x[fold != 2]).any()  # others have seen it


def test_the_order_of_rows_changes_nothing():
    (x, ids), (y, _) = paired(700, 5, 0.3, 4)
    at_x, at_y = learn((x, ids), (y, ids)).scores(1)
    order = np.random.default_rng(0).permutation(700)
    names = [ids[place] for place in order]
    other_x, other_y = learn((x[order], names), (y[order], names)).scores(1)
    assert (other_x == at_x[order]).all()
    assert (other_y == at_y[order]).all()


def test_exchanged_sides_change_signs():
    x, y = shifted(800, 4, 0.3, 5)
    at_x, at_y = learn(x, y).scores(1)
    back_y, back_x = learn((y, range(800)), (x, range(800))).scores(1)
    assert np.sign(at_x.mean()) == -np.sign(back_x.mean())
    ids = list(range(800))
    one, other = learn((x, ids), (y, ids)).scores(1), learn((y, ids), (x, ids)).scores(1)
    assert one[0] == approx(-other[1], abs=2.0**-9)
    assert one[1] == approx(-other[0], abs=2.0**-9)
    assert at_y.shape == back_y.shape


def test_nothing_is_learned_from_two_halves_of_one_distribution():
    false = 0
    low = []
    for seed in range(20):
        x, y = shifted(400, 5, 0.0, 100 + seed)
        evidence = gather_evidence(learn(x, y, seed=seed), 1, permutations=99, seed=seed)
        false += evidence.test.p_value <= 0.05
        low.append(evidence.certify(KL, 5.0).estimates["midpoint"].low)
    assert false <= 5  # 20 × 0.05 = 1; more than 5 has probability 0.0003
    assert sum(value > 0 for value in low) <= 2


def test_groups_and_unequal_sizes():
    (x, ids), (y, others) = paired(300, 4, 0.8, 6, gens=3)
    evidence = gather_evidence(learn((x, ids), (y, others)), 1, permutations=99, seed=0)
    assert evidence.test.exact
    assert evidence.test.p_value < 0.01
    rng = np.random.default_rng(0)
    alone = gather_evidence(
        learn((rng.normal(size=(300, 4)), range(300)), (y, np.repeat(range(1000, 1300), 3))),
        1,
        permutations=99,
        seed=0,
    )
    assert not alone.test.exact


def test_two_systems_together_are_one_model():
    x, a = shifted(900, 4, 0.2, 7)
    _, b = shifted(900, 4, 0.8, 8)
    learner = learn(x, a, b)
    certificates = [certify(*learn(x, own).scores(1), learner.units.pair(1), KL, 5.0) for own in (a, b)]
    found = difference_between(learner, (1, 2), (certificates[0], certificates[1]), KL)
    assert found.value["mauve"] > 0
    assert found.p_value["mauve"] < 0.001


@pytest.mark.parametrize("options", [{"bins": False}, {"variances": False}, {"strengths": ()}])
def test_views_can_be_left_out(options):
    x, y = shifted(600, 4, 0.5, 9)
    at_x, at_y = learn(x, y, **options).scores(1)
    assert at_x.mean() > at_y.mean()


@pytest.mark.parametrize(
    ("rows", "units", "kind"),
    [(119, 60, ManyLearner), (120, 60, Learner), (119, 61, Learner)],
    ids=["many", "few rows", "many rows, but few units"],
)
def test_many_samples_take_this_way(rows, units, kind, monkeypatch):
    x, y = shifted(60, 3, 0.5, 10)
    pairs = find_units(samples(x, range(60)), samples(y, range(60)))
    assert isinstance(make_learner(Witness(), [x, y], pairs, 0), Learner)
    monkeypatch.setattr(witness_module, "_MANY_ROWS", rows)
    monkeypatch.setattr(witness_module, "_MANY_UNITS", units)
    assert isinstance(make_learner(Witness(), [x, y], pairs, 0), kind)
    assert isinstance(make_learner(Witness(views=(lambda p, q, z: z[:, 0],)), [x, y], pairs, 0), Learner)


@pytest.mark.parametrize(
    ("width", "folds", "cells"),
    [
        (2, 5, 20),
        (3, 5, 10),
        (4, 5, 5),
        (9, 5, 5),
        (2, 3, 18),
        (3, 3, 9),
        (4, 3, 3),
        (2, 20, 20),
        (3, 20, 20),
        (2, 11, 11),
    ],
)
def test_wide_samples_have_fewer_cells_but_as_many_as_folds(width, folds, cells, monkeypatch):
    monkeypatch.setattr(many, "_CELLS", ((2, 20), (3, 10), (np.inf, 5)))
    learner = learn(*shifted(30, width, 0.5, 11), folds=folds, bins=False, strengths=(1.0,))
    assert learner._sums.counts.shape == (cells, 2)
    assert sorted(set(learner._cell[0].tolist())) == list(range(cells))
    assert len(learner._groupings) == (1 if cells == folds else 8)
    for grouping in learner._groupings:
        assert np.bincount(grouping).tolist() == [cells // folds] * folds


class Chunks:
    """Rows that are not in memory: they come a few at a time, and of some rows no others are read."""

    def __init__(self, values, size):
        self.values, self.size, self.width = values, size, values.shape[1]

    def __len__(self):
        return len(self.values)

    def take(self, places):
        return self.values[places]

    def scan(self, function, *along):
        for low in range(0, len(self), self.size):
            at = slice(low, min(low + self.size, len(self)))
            yield at, function(self.values[at], *(own[..., at] for own in along))


@pytest.mark.parametrize("options", [{}, {"folds": 20}], ids=["several groupings", "one grouping"])
def test_it_does_not_matter_where_rows_are_nor_how_many_come_at_a_time(options, monkeypatch):
    for name, value in (("_GRID_ROWS", 50), ("_STACK_ROWS", 150), ("_TEST_UNITS", 60)):  # not all rows everywhere
        monkeypatch.setattr(many, name, value)
    (x, ids), (y, others) = paired(90, 3, 0.4, 12, gens=2)
    x[:, 1] = np.where(np.arange(90) == 80, 4.0, 1.0)  # hardly any row tells it apart from a constant
    y[:, 1] = 1.0
    units = find_units(samples(x, ids), samples(y, others))
    in_memory = ManyLearner(Witness(**options), [x, y], units, 0)
    for sets in ([Chunks(x, 7), Chunks(y, 1000)], [x, Chunks(y, 50)]):
        elsewhere = ManyLearner(Witness(**options), sets, units, 0)
        for one, other in zip(in_memory.scores(1), elsewhere.scores(1), strict=True):
            assert np.array_equal(one, other)
        tests = [learner.test(1, permutations=40, seed=1) for learner in (in_memory, elsewhere)]
        assert tests[0] == tests[1]
        assert isinstance(make_learner(Witness(**options), sets, units, 0), ManyLearner)


# --- sums, metrics, exchanges: against their definitions


def small_sums(seed=0, n=500, m=420, width=7):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(width, width))
    x, y = rng.normal(size=(n, width)) @ mixing, rng.normal(0.2, 1.0, size=(m, width)) @ mixing
    grid = find_coarse_grid([ArrayRows(x), ArrayRows(y)], [np.arange(n), np.arange(m)])
    folds = [rng.integers(5, size=n), rng.integers(5, size=m)]
    units = [np.arange(n), np.arange(m) // 2]
    return x, y, grid, folds, units, sum_cells([ArrayRows(x), ArrayRows(y)], folds, units, 5, grid)


def test_sums_of_folds_are_those_of_their_rows():
    x, y, grid, folds, units, sums = small_sums()
    for fold in range(5):
        rows = [grid.integers(own)[fold_ == fold].astype(np.float64) for own, fold_ in zip((x, y), folds, strict=True)]
        both = np.concatenate(rows)
        assert (sums.products[fold] == both.T @ both).all()
        for place, own in enumerate(rows):
            assert sums.counts[fold, place] == len(own)
            assert (sums.sums[fold, place] == own.sum(axis=0)).all()
            assert (sums.squares[fold, place] == (own**2).sum(axis=0)).all()
            assert sums.units[fold, place] == len(
                np.unique(
                    units[place][np.unique(units[place], return_index=True)[1]][
                        folds[place][np.unique(units[place], return_index=True)[1]] == fold
                    ]
                )
            )
    assert sums.products.dtype == np.int32  # half the memory of floats
    assert (sums.lengths[1] == (grid.integers(y).astype(np.float64) ** 2).sum(axis=1)).all()


def test_sums_too_large_for_short_integers_are_exact(monkeypatch):
    rows, cells, units = ArrayRows(np.random.default_rng(0).normal(size=(40, 2))), [np.zeros(40, int)], [np.arange(40)]
    grid = find_coarse_grid([rows], [np.arange(40)])
    found = {}
    for largest in (7327, 7328):  # 40 · 7327² < 2³¹
        monkeypatch.setattr("mallow.evidence._coarse.LEVELS", largest)
        found[largest] = sum_cells([rows], cells, units, 1, grid).products
    assert [own.dtype for own in found.values()] == [np.int32, np.float64]
    assert np.array_equal(found[7327], found[7328])
    uneven = [np.append(np.zeros(39, int), 1)]  # the largest cell counts
    assert sum_cells([rows], uneven, units, 2, grid).products.dtype == np.int32  # 39 · 7328² < 2³¹
    monkeypatch.setattr("mallow.evidence._coarse.LEVELS", 7500)
    assert sum_cells([rows], uneven, units, 2, grid).products.dtype == np.float64


def test_metrics_of_folds_solve_their_equations():
    x, y, grid, folds, _, sums = small_sums()
    rows, fold = grid.integers(np.concatenate([x, y])).astype(np.float64), np.concatenate(folds)
    targets = np.random.default_rng(1).normal(size=(7, 2))
    kept = np.array([[1.0, 1, 1, 0, 0], [0, 1, 0, 1, 1]])
    floor = np.cov(rows.T, bias=True).trace() / 7
    strengths = (0.001, 1.0)
    for strength, solved in zip(strengths, Metrics(sums).solve(targets, kept, strengths), strict=True):
        for column, own in enumerate(kept):
            covariance = np.cov(rows[own[fold] == 1].T, bias=True) + strength * floor * np.eye(7)
            assert solved[:, column] == approx(np.linalg.solve(covariance, targets[:, column]), rel=1e-9)


def test_sums_of_atoms_are_those_of_exchanged_rows():
    rng = np.random.default_rng(2)
    values = rng.integers(-127, 128, size=(1400, 3)).astype(np.float32)
    rounded = np.rint(values**2 / 16)
    for unit, is_reference in (
        (np.repeat(np.arange(700), 2), np.tile([True, False], 700)),
        (np.arange(1400), np.arange(1400) % 7 < 3),
    ):
        exchange = find_exchange(unit, is_reference)
        merged, join = exchange.merge(100, rng)
        means, squares, spread = many_test._sum_atoms(exchange, join, lambda low, high: values[low:high])
        half = np.abs(exchange.atoms.data).max()
        for signs in (merged.as_observed(), merged.draw(20, rng)):
            for table, found in ((values, means), (rounded, squares)):
                assert signs @ found * half == approx(signs @ merged.atoms @ table, abs=1e-6)
        each = (exchange.atoms[:-1] @ rounded) / half
        assert spread == approx(((each - each.mean(axis=0)) ** 2).sum(axis=0), rel=1e-9)


# --- the grid of small integers


def test_integers_stay_in_their_range_and_follow_their_column():
    rng = np.random.default_rng(4)
    rows = rng.normal(3.0, 2.0, size=(2000, 4))
    rows[:, 1] *= 2.0**-40
    rows[:, 2] = 7.0
    rows[0, 3] = 1e12
    grid = find_coarse_grid([ArrayRows(rows)], [np.arange(2000)])
    integers = grid.integers(rows)
    assert np.abs(integers).max() == 127
    assert (integers == np.rint(integers)).all()
    assert (integers[:, 2] == 0).all()
    assert integers[0, 3] == 127
    assert integers[1:, 3].std() == approx(127 / 6, rel=0.05)  # one huge number does not hide the others
    for column in (0, 1, 3):
        assert np.corrcoef(integers[1:, column], rows[1:, column])[0, 1] > 0.999


def test_a_column_that_is_constant_in_the_sample_is_seen_in_the_other_rows():
    rows = np.zeros((3000, 2))
    rows[2500:, 0] = 5.0
    rows[2900:, 0] = -1.0
    grid = find_coarse_grid([ArrayRows(rows)], [np.arange(100)])
    assert sorted(set(grid.integers(rows)[:, 0].tolist())) == [-25, 0, 127]
    assert (grid.integers(rows)[:, 1] == 0).all()


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**100])
def test_other_units_of_measurement_give_the_same_integers(scale):
    rows = np.random.default_rng(5).normal(size=(500, 3))
    integers = [find_coarse_grid([ArrayRows(own)], [np.arange(500)]).integers(own) for own in (rows, rows * scale)]
    assert (integers[0] == integers[1]).all()


def test_sums_of_a_block_are_exact_in_single_precision():
    from mallow.evidence._coarse import LEVELS, ROWS

    assert ROWS * LEVELS**2 < 2**24
    extreme = np.full((ROWS, 2), LEVELS, np.float32)
    assert (extreme.T @ extreme == ROWS * LEVELS**2).all()
    assert isinstance(find_coarse_grid([ArrayRows(extreme)], [np.arange(9)]), CoarseGrid)


def test_axes_of_bins_are_integers_with_known_signs():
    rng = np.random.default_rng(6)
    for width in (10, 300):
        root = rng.normal(size=(width, width)) * np.arange(1, width + 1) ** -0.7
        axes = many._leading(root.T @ root)
        assert (axes == np.rint(axes)).all()
        assert axes.shape[1] <= 32
        assert (axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] > 0).all()
        assert np.linalg.norm(axes, axis=0) == approx(2.0**12, rel=1e-2)


def test_no_rows_become_no_integers():
    values = np.random.default_rng(7).normal(size=(20, 2))
    grid = find_coarse_grid([ArrayRows(values)], [np.arange(20)])
    for source in (ArrayRows(values), Chunks(values, 3)):
        integers = np.full((20, 2), 99, np.int8)
        many._put_integers(grid, source, np.arange(0), integers, np.arange(0))
        assert (integers == 99).all()
        many._put_integers(grid, source, np.array([3, 5]), integers, np.array([1, 0]))
        assert np.array_equal(integers[:2], grid.integers(values[[5, 3]]))
        assert (integers[2:] == 99).all()


def test_points_of_bins_are_integers_short_enough_for_exact_products():
    rng = np.random.default_rng(8)
    integers = rng.integers(-127, 128, size=(200, 40)).astype(np.float32)
    integers[0] = 127
    axes = many._leading(np.cov(integers.T))
    for exponent in (0, 6, 12):
        points = many._points(integers, axes, exponent)
        assert points.dtype == np.float32
        assert (points == np.rint(points)).all()
        assert np.linalg.norm(points.astype(np.float64), axis=1).max() <= 2048
    exact = np.rint(np.ldexp(integers.astype(np.float64) @ axes, -12))
    assert (points == exact).all()  # none is too long here


def test_bins_have_small_numbers_however_many_samples_there_are():
    from mallow.evidence._space import find_centres

    points = np.random.default_rng(9).normal(size=(3000, 4))
    for pair in (10_000, 10_000_000):
        assert max(len(own) for own in find_centres(points, np.arange(3000), pair, 0, partitions=1)) <= 200
