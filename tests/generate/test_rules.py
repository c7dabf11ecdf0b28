"""Decoding rules: exact sets, compared with their definitions; nested, minimal, with ties; and what is refused."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx

from mallow.errors import InputError
from mallow.generate import Chain, Eta, MinP, Nucleus, Rule, Temperature, TopK, Typical, TypicalSum

RULES = [Temperature(0.7), TopK(3), Nucleus(0.8), Typical(0.8), TypicalSum(0.8), Eta(0.05), MinP(0.3)]
dtypes = st.sampled_from([np.float32, np.float64])


@st.composite
def rows(draw, most=12):
    """A batch of rows: with ties and zeros (from small counts), or with arbitrary values."""
    shape = (draw(st.integers(1, 4)), draw(st.integers(1, most)))
    if draw(st.booleans()):
        weights = draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 4))).astype(float)
        weights[weights.sum(axis=1) == 0] = 1.0
    else:
        weights = np.exp(draw(hnp.arrays(np.float64, shape, elements=st.floats(-20, 0))))
    with np.errstate(divide="ignore"):
        return np.log(weights / weights.sum(axis=1, keepdims=True)).astype(draw(dtypes))


def kept(rule, log_probs):
    return np.isfinite(rule(log_probs))


def shortest(order, probs, mass):
    """The first tokens of an order whose probabilities reach the mass, added one by one."""
    total, chosen = 0.0, set()
    for token in order:
        chosen.add(int(token))
        total += float(probs[token])
        if total >= mass:
            break
    return chosen


# --- every rule


@given(log_probs=rows(), rule=st.sampled_from(RULES))
def test_what_is_kept_is_renormalised_in_proportion(log_probs, rule):
    before = log_probs.copy()
    out = rule(log_probs)
    assert out.dtype == log_probs.dtype
    assert out.shape == log_probs.shape
    assert np.array_equal(log_probs, before)  # pure
    tolerance = 1e-5 if out.dtype == np.float32 else 1e-12
    assert np.exp(out.astype(float)).sum(axis=1) == approx(1, abs=tolerance)
    assert not np.isfinite(out[~np.isfinite(log_probs)]).any()
    if not isinstance(rule, Temperature):
        for old, new in zip(log_probs, out, strict=True):
            change = new[np.isfinite(new)] - old[np.isfinite(new)]
            assert change == approx(np.full(len(change), change[0]), abs=1e-4)
            assert change[0] >= -1e-4


@given(log_probs=rows(), rule=st.sampled_from(RULES))
def test_a_row_does_not_depend_on_the_others(log_probs, rule):
    alone = np.concatenate([rule(row[None]) for row in log_probs])
    assert np.array_equal(rule(log_probs), alone)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_are_values(rule):
    assert rule.name == f"{type(rule).name}:{next(iter(vars(rule).values()))}"
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert hash(rule) == hash(pickle.loads(pickle.dumps(rule)))
    assert isinstance(rule, Rule)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_an_empty_batch_is_allowed_and_half_precision_is_widened(rule):
    assert rule(np.empty((0, 5))).shape == (0, 5)
    half = np.log(np.full((2, 4), 0.25)).astype(np.float16)
    assert rule(half).dtype == np.float32
    assert rule(half.astype(np.longdouble)).dtype == np.float64


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_certain_token_stays_certain(rule):
    certain = np.array([[-np.inf, 0.0, -np.inf]], np.float32)
    assert np.array_equal(rule(certain), certain)


# --- temperature


@given(log_probs=rows(), temperature=st.floats(0.05, 20))
def test_temperature_is_a_power(log_probs, temperature):
    powers = np.exp(log_probs.astype(float)) ** (1 / temperature)
    expected = powers / powers.sum(axis=1, keepdims=True)
    assert np.exp(Temperature(temperature)(log_probs)) == approx(expected, abs=1e-5)


@given(log_probs=rows())
def test_temperature_near_zero_is_the_mode(log_probs):
    for temperature in (1e-30, 1e-300, 5e-324):
        out = np.exp(Temperature(temperature)(log_probs))
        modes = log_probs == log_probs.max(axis=1, keepdims=True)
        assert out == approx(modes / modes.sum(axis=1, keepdims=True), abs=1e-6)


# --- top-k


@given(log_probs=rows(), k=st.integers(1, 15))
def test_top_k_keeps_the_k_largest_and_the_lowest_ids_among_equal_values(log_probs, k):
    for row, mask in zip(log_probs, kept(TopK(k), log_probs), strict=True):
        order = np.lexsort((np.arange(len(row)), -row))[:k]
        assert set(np.flatnonzero(mask)) == {int(token) for token in order if np.isfinite(row[token])}


@given(log_probs=rows())
def test_top_k_of_the_whole_vocabulary_is_ancestral_and_of_one_greedy(log_probs):  # paper: sec:bg:lms
    everything = TopK(log_probs.shape[1])(log_probs)
    assert np.array_equal(np.isfinite(everything), np.isfinite(log_probs))
    assert np.exp(everything) == approx(np.exp(log_probs), abs=1e-6)
    greedy = TopK(1)(log_probs)
    assert np.array_equal(greedy.argmax(axis=1), log_probs.argmax(axis=1))
    assert (np.isfinite(greedy).sum(axis=1) == 1).all()
    assert (greedy.max(axis=1) == 0).all()


def test_the_largest_are_possible():
    row = np.log(np.array([[0.0, 0.7, 0.0, 0.3]]), where=[[False, True, False, True]], out=np.full((1, 4), -np.inf))
    kept = [np.flatnonzero(np.isfinite(TopK(count)(row)[0])).tolist() for count in (1, 2, 3, 9)]
    assert kept == [[1], [1, 3], [1, 3], [1, 3]]


# --- nucleus


@given(log_probs=rows(), mass=st.floats(0.01, 0.999))
def test_the_nucleus_is_the_smallest_set_with_the_mass(log_probs, mass):  # paper: eq:nucleus-def
    for row, mask in zip(log_probs, kept(Nucleus(mass), log_probs), strict=True):
        probs = np.exp(row.astype(float))
        assert probs[mask].sum() >= mass - 1e-6
        # Smallest: without its least likely token it is too small, and no other token is likelier.
        assert probs[mask].sum() - probs[mask].min() < mass + 1e-6
        if (~mask).any():
            assert row[mask].min() >= row[~mask].max()
            tied = np.flatnonzero(row == row[mask].min())
            assert np.array_equal(np.sort(mask[tied])[::-1], mask[tied])  # the lowest ids among equal values


@given(log_probs=rows(), masses=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)))
def test_nuclei_nest(log_probs, masses):
    small, large = (kept(Nucleus(mass), log_probs) for mass in sorted(masses))
    assert (large[small]).all()


def test_the_nucleus_of_ties_is_as_small_as_asked():
    quarters = np.log(np.full((1, 4), 0.25))
    assert kept(Nucleus(0.5), quarters).tolist() == [[True, True, False, False]]
    assert kept(Nucleus(0.51), quarters).tolist() == [[True, True, True, False]]
    uneven = np.log([[0.2, 0.4, 0.2, 0.2]])
    assert kept(Nucleus(0.55), uneven).tolist() == [[True, True, False, False]]


@given(log_probs=rows())
def test_all_the_mass_is_every_possible_token(log_probs):
    for rule in (Nucleus(1), Typical(1.0)):
        assert np.array_equal(kept(rule, log_probs), np.isfinite(log_probs))


@pytest.mark.parametrize("spread", [0.01, 1.0, 4.0])
@pytest.mark.parametrize("mass", [0.1, 0.9, 0.99])
def test_on_a_large_vocabulary_sets_are_those_of_the_definition(spread, mass):
    log_probs = np.random.default_rng(0).normal(scale=spread, size=(3, 20_000))
    log_probs -= np.log(np.exp(log_probs).sum(axis=1, keepdims=True))
    for row, nucleus, typical in zip(
        log_probs, kept(Nucleus(mass), log_probs), kept(Typical(mass), log_probs), strict=True
    ):
        probs = np.exp(row)
        assert set(np.flatnonzero(nucleus)) == shortest(np.argsort(-row), probs, mass)
        far = np.abs(row - (probs * row).sum())
        assert set(np.flatnonzero(typical)) == shortest(np.argsort(far), probs, mass)


# --- typical


@given(log_probs=rows(), mass=st.floats(0.01, 0.999))
def test_the_typical_set_is_nearest_the_entropy_and_has_the_mass(log_probs, mass):  # erratum 6: Σ P ≥ τ
    for row, mask in zip(log_probs, kept(Typical(mass), log_probs), strict=True):
        exact = row.astype(float)
        probs = np.exp(exact)
        entropy = -(probs[probs > 0] * exact[probs > 0]).sum()
        far = np.abs(exact + entropy)
        assert probs[mask].sum() >= mass - 1e-6
        furthest = far[mask].max()
        assert probs[mask & (far < furthest - 1e-4)].sum() < mass + 1e-6
        assert furthest <= far[~mask].min(initial=np.inf) + 1e-4


@given(log_probs=rows(most=9), mass=st.floats(0.05, 0.95))
def test_the_printed_typical_set_has_the_mass_and_nearly_the_least_sum(log_probs, mass):
    for row, chosen, greedy in zip(
        log_probs.astype(float), kept(TypicalSum(mass), log_probs), kept(Typical(mass), log_probs), strict=True
    ):
        probs = np.exp(row)
        finite = np.flatnonzero(probs)
        far = np.abs(row[finite] - (probs[finite] * row[finite]).sum())
        subsets = (np.arange(1, 2 ** len(finite))[:, None] >> np.arange(len(finite))) & 1
        enough = subsets[subsets @ probs[finite] >= mass * probs.sum() - 1e-9]
        least = (enough @ far).min()
        assert probs[chosen].sum() >= mass * probs.sum() - 1e-5
        assert far[chosen[finite]].sum() <= least + far.max() + 1e-5
        assert far[chosen[finite]].sum() <= far[greedy[finite]].sum() + 1e-5


def test_a_likely_token_is_not_typical_where_the_entropy_is_high():
    # One token of 0.3 among 2,000 small ones: its surprisal of 1.2 is far below the entropy of 6. The rare tokens come
    # first, and the mass is reached only with all of them: those that seemed not worth sorting must be sorted as well.
    probs = np.concatenate([[0.3], np.full(2_000, 0.7 / 2_000)])
    assert not kept(Typical(0.6), np.log(probs)[None])[0, 0]
    mixed = np.concatenate([[0.3], np.full(1_000, 0.6999 / 1_000), np.full(100_000, 0.0001 / 100_000)])
    row = np.log(mixed)[None]
    mask = kept(Typical(0.9), row)[0]
    far = np.abs(row[0] - (mixed * row[0]).sum())
    assert set(np.flatnonzero(mask)) == shortest(np.argsort(far, kind="stable"), mixed, 0.9)


def test_tokens_not_worth_sorting_for_the_mass_can_still_be_nearer_the_entropy():
    # Entropy 9.3. The rare tokens, 5e-7 each, are below (1 − 0.95)/|V|, but their surprisal of 14.5 is nearer to the entropy
    # than the 1.6 of the likely token, which is needed for the mass: they come before it.
    common, rare = 60_000, 30_000
    mixed = np.concatenate([[0.2], np.full(common, (0.8 - rare * 5e-7) / common), np.full(rare, 5e-7)])
    row = np.log(mixed)[None]
    far = np.abs(row[0] - (mixed * row[0]).sum())
    expected = shortest(np.argsort(far, kind="stable"), mixed, 0.95)
    assert len(expected) == 1 + common + rare
    assert set(np.flatnonzero(kept(Typical(0.95), row)[0])) == expected


def test_equally_typical_tokens_are_taken_by_their_ids():
    sixths = np.log(np.full((1, 6), 1 / 6))
    assert kept(Typical(0.4), sixths).tolist() == [[True] * 3 + [False] * 3]


# --- η and min-p


@given(log_probs=rows(), epsilon=st.floats(1e-4, 0.9))
def test_eta_keeps_what_is_above_its_threshold(log_probs, epsilon):
    for row, mask in zip(log_probs, kept(Eta(epsilon), log_probs), strict=True):
        probs = np.exp(row.astype(float))
        entropy = -(probs[probs > 0] * np.log(probs[probs > 0])).sum()
        eta = min(epsilon, np.sqrt(epsilon) * np.exp(-entropy))
        clear = np.abs(probs - eta) > 1e-5 * eta
        if (probs[clear] > eta).any():
            assert np.array_equal(mask[clear], (probs > eta)[clear])
        elif clear.all():
            assert np.flatnonzero(mask).tolist() == [row.argmax()]


def test_eta_always_keeps_a_token():
    for size in range(1, 60):  # the threshold is next to 1 / size, and can exceed it by rounding
        flat = np.log(np.full((1, size), 1 / size))
        assert kept(Eta(0.99), flat).sum() == size
        assert kept(Eta(np.nextafter(1.0, 0.0)), flat).any()
    peaked = np.log([[0.5, 0.3, 0.2]])  # entropy 1.03: η = min(0.999, 0.357)
    assert kept(Eta(0.999), peaked).tolist() == [[True, False, False]]
    two = np.log([[0.45, 0.45] + [0.01] * 10])
    assert kept(Eta(0.999), two).sum() == 2


@given(log_probs=rows(), share=st.floats(0.01, 1))
def test_min_p_keeps_a_share_of_the_mode(log_probs, share):
    for row, mask in zip(log_probs, kept(MinP(share), log_probs), strict=True):
        ratio = np.exp(row.astype(float) - float(row.max()))
        clear = np.abs(ratio - share) > 1e-5
        assert np.array_equal(mask[clear], (ratio >= share)[clear])
        assert mask[row.argmax()]


def test_min_p_keeps_tokens_exactly_at_the_share():
    tied = np.log([[0.4, 0.4, 0.2]])
    assert kept(MinP(1), tied).tolist() == [[True, True, False]]  # both modes
    half = np.array([[0.0, np.log(0.5), np.nextafter(np.log(0.5), -1)]])
    assert kept(MinP(0.5), half).tolist() == [[True, True, False]]


# --- chains


@given(log_probs=rows())
def test_a_chain_is_one_rule_after_the_other(log_probs):
    chain = Chain((Temperature(0.5), TopK(4), Nucleus(0.9)))
    assert np.array_equal(chain(log_probs), Nucleus(0.9)(TopK(4)(Temperature(0.5)(log_probs))))
    assert Chain()(log_probs) is log_probs
    assert pickle.loads(pickle.dumps(chain)) == chain


def test_chains_have_names():
    assert Chain().name == "ancestral"
    assert Chain([Temperature(0.7), TopK(50)]).name == "temperature:0.7+top-k:50"


# --- what is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Nucleus(0), "`mass` must be above 0 and at most 1; got 0"),
        (lambda: Nucleus(1.5), "`mass` must be above 0 and at most 1; got 1.5"),
        (lambda: Nucleus(float("nan")), "`mass` must be above 0 and at most 1; got nan"),
        (lambda: Nucleus("0.9"), "`mass` must be above 0 and at most 1; got '0.9'"),
        (lambda: Typical(-0.1), "`mass` must be above 0 and at most 1; got -0.1"),
        (lambda: MinP(0), "`share` must be above 0 and at most 1; got 0"),
        (lambda: MinP(True), "`share` must be above 0 and at most 1; got True"),
        (lambda: TopK(0), "`k` must be an integer of at least 1; got 0"),
        (lambda: TopK(2.5), "`k` must be an integer of at least 1; got 2.5"),
        (lambda: Eta(1), "`epsilon` must lie strictly between 0 and 1; got 1. Its authors use"),
        (lambda: Temperature(0), "`temperature` must be a finite number above 0; got 0. For the limit 0 use greedy"),
        (lambda: Temperature(float("inf")), "`temperature` must be a finite number above 0; got inf"),
        (lambda: Chain(("nucleus",)), "`rules` must be decoding rules such as Nucleus"),
    ],
)
def test_options_outside_their_range_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize(
    ("log_probs", "message"),
    [
        ([[0, 1]], "`log_probs` must be an array of floating-point numbers; got dtype int64"),
        ([0.0, -1.0], r"`log_probs` must have two axes, rows and vocabulary; got shape \(2,\)"),
        ([[], []], r"`log_probs` must have two axes, rows and vocabulary; got shape \(2, 0\)"),
        ([[-1.0, 0.0], [-1.0, np.nan]], "at most 0 and not all −∞, but the largest value of row 1 is nan"),
        ([[-np.inf, -np.inf]], "at most 0 and not all −∞, but the largest value of row 0 is -inf"),
        ([[3.0, 2.0]], "the largest value of row 0 is 3. Subtract scipy.special.logsumexp"),
    ],
    ids=["integers", "one-axis", "no-vocabulary", "nan", "impossible", "logits"],
)
def test_rows_of_anything_but_log_probabilities_are_refused(rule, log_probs, message):
    with pytest.raises(InputError, match=message):
        rule(np.array(log_probs))


@pytest.mark.parametrize("rule", [Nucleus(0.9), Typical(0.9), Eta(0.1)], ids=lambda rule: rule.name)
def test_rows_that_do_not_sum_to_one_are_refused_where_it_matters(rule):
    with pytest.raises(InputError, match=r"sum to 1 after exp; got a row that sums to 0\.006"):
        rule(np.array([[-5.0, -100.0]]))
