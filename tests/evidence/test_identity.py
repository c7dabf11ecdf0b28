"""The test of identity: exact for units, whatever they share; several statistics; honest tails."""

import itertools

import numpy as np
import pytest
from pytest import approx
from scipy.stats import hypergeom, norm

from mallow import Samples, permutation_test
from mallow.evidence import Draws, find_space, find_units, run_identity_test, run_permutations

pytestmark = pytest.mark.all_permutations


def run(x, y, ids=None, permutations=99, seed=0):
    names = (None, None) if ids is None else ids
    sides = [
        Samples(features=rows, ids=None if own is None else [str(name) for name in own])
        for rows, own in zip((x, y), names, strict=True)
    ]
    units = find_units(*sides)
    return run_identity_test({"": find_space([x, y], units)}, units, 1, Draws(permutations, seed))


def rows_as_ids(x):
    return ([str(i) for i in range(len(x))],) * 2


def share_rejected(draw, trials, level=0.2):
    return np.mean([run(*draw(np.random.default_rng([7, seed])), seed=seed).p_value <= level for seed in range(trials)])


def groups(rng, shared):
    centre = rng.normal(size=(2, 30, 1, 4))
    centre[1] = centre[0] if shared else centre[1]
    x, y = (centre + 0.3 * rng.normal(size=(2, 30, 4, 4))).reshape(2, 120, 4)
    ids = [f"{prompt}" for prompt in range(30) for _ in range(4)]
    return x, y, (ids, ids if shared else [f"other {name}" for name in ids])


def permuted(n):
    return [np.random.default_rng(seed).permutation(n) for seed in range(5)]


def partly_shared(rng, n, m):
    topic = 3.0 * rng.normal(size=(n, 3))
    x, y = topic + rng.normal(size=(n, 3)), topic[:m] + rng.normal(size=(m, 3))
    return x, y, (rows_as_ids(x)[0], rows_as_ids(y)[0])


NULLS = {
    "iid": lambda rng: (rng.normal(size=(60, 3)), rng.normal(size=(40, 3))),
    "pairs": lambda rng: (*(rng.normal(size=(60, 3)) + 0.3 * rng.normal(size=(2, 60, 3))), rows_as_ids(range(60))),
    "sorted": lambda rng: tuple(np.sort(rng.normal(size=(2, 60, 1)), axis=1) + 0.01 * rng.normal(size=(2, 60, 3))),
    "more prompts": lambda rng: partly_shared(rng, 60, 40),
    "other prompts, 4 each": lambda rng: groups(rng, shared=False),
    "same prompts, 4 each": lambda rng: groups(rng, shared=True),
    "each sample twice": lambda rng: tuple(np.tile(rng.normal(size=(2, 40, 3)), (1, 2, 1))),
}


@pytest.mark.parametrize("name", NULLS)
def test_true_nulls_are_rejected_as_often_as_meant(name):
    assert share_rejected(NULLS[name], 60) == approx(0.2, abs=0.17)  # three standard errors


def test_one_reference_text_against_four_generations():
    def draw(rng):
        centre = rng.normal(size=(40, 1, 4))
        x = (centre + 0.5 * rng.normal(size=(40, 1, 4))).reshape(-1, 4)
        y = (centre + 0.5 * rng.normal(size=(40, 4, 4))).reshape(-1, 4)
        return x, y, ([str(i) for i in range(40)], [str(i) for i in range(40) for _ in range(4)])

    assert share_rejected(draw, 60) == approx(0.2, abs=0.17)


def authors(count, each, rows, of_rows=1):
    """Some authors with so many texts each against others; half of the variance is that of authors."""

    def draw(rng):
        sides, names = [], []
        for side, (own, size) in enumerate(((count, each), (rows, of_rows))):
            author = np.repeat(np.arange(own), size)
            sides.append(rng.normal(size=(own, 5))[author] + rng.normal(size=(len(author), 5)))
            names.append([f"{side} {one}" for one in author])
        return *sides, names

    return draw


@pytest.mark.parametrize("sizes", [(6, 20, 100), (10, 10, 100), (20, 5, 5, 20), (25, 4, 100)])
def test_groups_of_other_sizes_are_no_gap(sizes):
    assert share_rejected(authors(*sizes), 6) <= 0.2  # conservative: of 400 trials at 5 against 80, none
    test = run(*authors(*sizes)(np.random.default_rng(0)))
    assert not test.exact
    assert test.permutations >= 99


def test_a_gap_between_groups_and_single_rows_is_seen():
    x, y, names = authors(40, 5, 200)(np.random.default_rng(1))
    assert run(x + 1.0, y, names).p_value < 0.01
    assert run(x, 2.0 * y, names).p_value < 0.01


def test_fewer_than_five_groups_give_no_answer():
    x, y, names = authors(4, 20, 80)(np.random.default_rng(2))
    test = run(x + 50.0, y, names)
    assert (test.p_value, test.permutations, test.exact, test.tail, test.statistics) == (1.0, 0, False, False, {})
    x, y, names = authors(4, 20, 4, 20)(np.random.default_rng(2))
    assert run(x + 50.0, y, names).exact  # groups of one size can be exchanged, however few they are
    assert run(x, x + 0.01).exact


def test_paired_shifts_are_seen_through_what_pairs_share():
    rng = np.random.default_rng(1)
    topic = 5.0 * rng.normal(size=(200, 5))
    x, y = topic + 0.3 * rng.normal(size=(200, 5)), topic + 0.3 * rng.normal(size=(200, 5)) + 0.15
    assert run(x, y, rows_as_ids(x)).p_value < 0.01
    assert permutation_test(x, y, paired=True) < 0.01
    assert run(x, y).p_value > 0.05


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("means", lambda y, rng: y + 0.25),
        ("total variance", lambda y, rng: 0.8 * y),
        ("bins", lambda y, rng: np.where(rng.random((400, 1)) < 0.5, y, -y) + 3 * np.sign(y[:, :1]) * 0),
    ],
)
def test_what_shows_a_gap_is_named(name, change):
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 400, 6))
    if name == "bins":  # the same means and variances, other clusters
        x = np.sign(rng.normal(size=(400, 1))) * 2.0 + 0.3 * x
        y = np.sqrt(4.0) * np.sign(rng.normal(size=(400, 1))) * np.array([1, 1, 1, -1, -1, -1]) + 0.3 * y
    else:
        y = change(y, rng)
    test = run(x, y)
    assert test.p_value < 0.05
    assert min(p for key, p in test.statistics.items() if name in key) == approx(0.01)


def test_the_p_value_of_a_tiny_example_is_that_of_all_swaps():
    x, y = np.array([[0.0], [1.0], [2.0], [4.0]]), np.array([[1.0], [2.5], [3.0], [7.0]])
    differences = (x - y)[:, 0]
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product([1, -1], repeat=4)]
    exact = np.mean(np.array(sums) >= abs(differences.sum()) - 1e-9)  # 2 of 16: all signs as they are, or all turned
    assert exact == 0.125
    test = run(x, y, rows_as_ids(x), permutations=4000)
    alone = [p for key, p in test.statistics.items() if key.startswith("means")]
    assert alone == approx([exact] * len(alone), abs=0.02)  # ties count: without them it would be 0


@pytest.mark.parametrize("paired", [True, False])
def test_units_of_measurement_do_not_matter(paired):
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(80, 4)), rng.normal(0.1, 1.0, size=(80 if paired else 70, 4))
    x[:, 1], y[:, 1] = np.rint(x[:, 1]), np.rint(y[:, 1])
    test = run(x, y)
    for factor in (2.0**-30, 2.0**40, 8.0):
        assert run(factor * x, factor * y) == test
    for factor in (3.0, 1e-7):
        assert run(factor * x, factor * y).p_value == approx(test.p_value, abs=0.02)


def test_seeds_hardly_matter():
    rng = np.random.default_rng(9)
    x, y = np.abs(rng.normal(size=(2, 150, 6))) ** np.array([1.0, 1.15])[:, None, None]
    names = range(150), range(150, 300)
    z = norm.isf([run(x, y, names, permutations=499, seed=seed).p_value for seed in range(8)])
    assert 0.5 < z.mean() < 3.5
    assert z.std(ddof=1) < 0.3


@pytest.mark.parametrize("width", [1, 3])
def test_many_rows_have_kernels_by_random_features(width, monkeypatch):
    rng = np.random.default_rng(10)
    x, y = rng.normal(size=(200, width)), np.sign(rng.normal(size=(190, width))) + 0.1 * rng.normal(size=(190, width))
    exact = run(x, y)
    monkeypatch.setattr("mallow.evidence._atoms._KERNEL_EFFORT", 0)
    found = run(x, y)
    assert list(found.statistics) == list(exact.statistics)
    kernels = [name for name in found.statistics if name.startswith("kernel")]
    assert len(kernels) == 4
    assert min(found.statistics[name] for name in kernels) == min(exact.statistics[name] for name in kernels) == 0.01


def test_a_sample_against_itself_has_no_gap():
    x = np.random.default_rng(3).normal(size=(100, 4)).astype(np.float32)
    assert run(x, x.copy()).p_value == 1.0
    assert run(x, x.copy(), ([str(i) for i in range(100)],) * 2).p_value == 1.0
    assert run(np.ones((20, 3)), np.ones((20, 3))).p_value == 1.0
    wide = np.random.default_rng(3).normal(size=(60, 200))
    assert [run(wide, wide[order], seed=order[0]).p_value for order in permuted(60)] == [1.0] * 5  # rounding is no gap


def test_small_p_values_come_from_more_permutations_and_are_bounds_where_none_reaches_the_gap():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 300, 3))
    near, far = run(x, y), run(x, y + 1.0)
    assert (near.permutations, near.tail) == (99, False)
    assert near.p_value > 0.1
    assert (far.permutations, far.tail, far.p_value) == (99_999, True, 1e-5)


def test_a_small_p_value_is_known_to_its_order_of_magnitude():
    # 4 of 30 against 6 of 1,000: by the hypergeometric distribution P(at least 4 of the 10 among 30) = 1.1e-4
    x, y = np.zeros((1000, 1)), np.zeros((30, 1))
    x[:6], y[:4] = 1.0, 1.0
    exact = hypergeom(1030, 10, 30).sf(3)
    test = run(x, y, (range(1000), range(1000, 1030)))
    assert exact / 2 < test.p_value < 2 * exact
    assert not test.tail


def test_skewed_samples_of_very_different_sizes_have_honest_tails():
    rng = np.random.default_rng(5)
    p_values = [run(*(rng.lognormal(size=(size, 1)) for size in (300, 10)), seed=seed).p_value for seed in range(40)]
    assert min(p_values) > 1e-4


def test_few_units_never_give_a_p_value_below_what_their_exchanges_allow():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4, 2))
    assert run(x, x + 100.0, rows_as_ids(x)).p_value >= 1 / 16
    assert run(x, x + 100.0).p_value >= 0.8 / 35  # up to the noise of permutations


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(80, 4)), rng.normal(0.1, 1.0, size=(80, 4))
    order = rng.permutation(80)
    assert run(x[order], y[order]).p_value == run(x, y).p_value


def test_the_public_test_is_the_one_of_a_score():
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(100, 3)), rng.normal(0.3, 1.0, size=(100, 3))
    assert permutation_test(x, y, permutations=99) == run(x, y).p_value
    assert run_permutations(Samples(features=x), Samples(features=x[::-1]), permutations=99).permutations == 99
