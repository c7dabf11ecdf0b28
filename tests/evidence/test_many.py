"""The witness for many samples: the same answers as the ordinary one, from sums that are exact."""

import numpy as np
import pytest
from pytest import approx

from held_out import paired, samples, shifted
from mallow.evidence import Draws, Witness, certify, difference_between, find_units, gather_evidence, make_learner
from mallow.evidence import _pass_learner as learner_module
from mallow.evidence._pass_learner import PassLearner
from mallow.evidence._witness import MemoryLearner
from mallow.theory import KL


def learn(*sets, kind=PassLearner, **options):
    every = [samples(*one) if isinstance(one, tuple) else samples(one) for one in sets]
    return kind(Witness(**options), [one.features for one in every], find_units(*every))


# --- what is learned


@pytest.mark.parametrize(("shift", "stretch"), [(0.15, 1.0), (0.0, 1.15)])
def test_it_finds_what_the_ordinary_witness_finds(shift, stretch):
    x, y = shifted(3000, 12, shift, 1)
    y = (y * stretch).astype(np.float32)
    found = {}
    for kind in (MemoryLearner, PassLearner):
        evidence = gather_evidence(learn(x, y, kind=kind), 1, permutations=99, seed=0)
        found[kind] = evidence.certify(KL, 5.0)
        assert evidence.test.p_value < 0.001
    few, lots = found[MemoryLearner], found[PassLearner]
    assert lots.estimates["midpoint"].value == approx(few.estimates["midpoint"].value, rel=0.15)
    assert lots.errors[2] == approx(few.errors[2], rel=0.15)


def test_rules_never_see_the_side_of_what_they_judge():
    """With the sides of one fold exchanged, all that is learned without sides stays; so must the scores of this fold."""
    (x, ids), (y, _) = paired(900, 6, 0.4, 3, shared=0.3)
    first = learn((x, ids), (y, ids))
    fold = first._cells.of_set[0]
    swapped_x, swapped_y = x.copy(), y.copy()
    swapped_x[fold == 2], swapped_y[fold == 2] = y[fold == 2], x[fold == 2]
    second = learn((swapped_x, ids), (swapped_y, ids))
    assert (second._cells.of_set[0] == fold).all()
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
        evidence = gather_evidence(learn(x, y), 1, permutations=99, seed=seed)
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


@pytest.mark.parametrize("options", [{"bins": False}, {"variances": False}, {"products": False}, {"strengths": ()}])
def test_views_can_be_left_out(options):
    x, y = shifted(600, 4, 0.5, 9)
    at_x, at_y = learn(x, y, **options).scores(1)
    assert at_x.mean() > at_y.mean()


@pytest.mark.parametrize(
    ("rows", "units", "kind"),
    [(119, 60, PassLearner), (120, 60, MemoryLearner), (119, 61, MemoryLearner)],
    ids=["many", "few rows", "many rows, but few units"],
)
def test_many_samples_take_this_way(rows, units, kind, monkeypatch):
    x, y = shifted(60, 3, 0.5, 10)
    pairs = find_units(samples(x, range(60)), samples(y, range(60)))
    assert isinstance(make_learner(Witness(), [x, y], pairs), MemoryLearner)
    monkeypatch.setattr("mallow.evidence._witness._MANY_ROWS", rows)
    monkeypatch.setattr("mallow.evidence._witness._MANY_UNITS", units)
    assert isinstance(make_learner(Witness(), [x, y], pairs), kind)
    assert isinstance(make_learner(Witness(views=(lambda p, q, z: z[:, 0],)), [x, y], pairs), MemoryLearner)


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
    for name, value in (("_MOST_ROWS", 50), ("_STACK_ROWS", 150), ("_TEST_UNITS", 60)):  # not all rows everywhere
        monkeypatch.setattr(learner_module, name, value)
    (x, ids), (y, others) = paired(90, 3, 0.4, 12, gens=2)
    x[:, 1] = np.where(np.arange(90) == 80, 4.0, 1.0)  # hardly any row tells it apart from a constant
    y[:, 1] = 1.0
    units = find_units(samples(x, ids), samples(y, others))
    in_memory = PassLearner(Witness(**options), [x, y], units)
    for sets in ([Chunks(x, 7), Chunks(y, 1000)], [x, Chunks(y, 50)]):
        elsewhere = PassLearner(Witness(**options), sets, units)
        for one, other in zip(in_memory.scores(1), elsewhere.scores(1), strict=True):
            assert np.array_equal(one, other)
        tests = [learner.test(1, Draws(40, seed=1)) for learner in (in_memory, elsewhere)]
        assert tests[0] == tests[1]
        assert isinstance(make_learner(Witness(**options), sets, units), PassLearner)


# --- sums, metrics, exchanges: against their definitions


# --- the grid of small integers
