"""Direct estimation: exact where samples are the distribution itself, consistent for short texts, useless for long ones."""

import itertools
import math
import pydoc_data.topics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx

from mallow.errors import EstimateWarning, InputError
from mallow.estimate import direct, direct_frontier, log_likelihoods
from mallow.generate import NGram, Nucleus, TopK, generate
from mallow.theory import CHI2, KL, Masses, area, frontier, integral, midpoint

SEQUENCES = list(itertools.product(range(3), repeat=3))


def letters(text):
    return list(text)


def probabilities(rows):
    """Of all sequences of three tokens, after token 0, when `rows` (3, 3) are the quarters that follow each token."""
    table = np.array(rows) / 4
    return np.array([table[0, a] * table[a, b] * table[b, c] for a, b, c in SEQUENCES])


def enumerated(p, q):
    """The arguments of `direct` for samples in which each sequence stands exactly as often as it is likely."""
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p), np.log(q)
    at_p, at_q = (np.repeat(np.arange(27), np.round(64 * side).astype(int)) for side in (p, q))
    assert len(at_p) == len(at_q) == 64
    return log_p[at_p], log_q[at_p], log_p[at_q], log_q[at_q]


P = probabilities([[2, 1, 1], [1, 1, 2], [1, 2, 1]])
Q = probabilities([[1, 1, 2], [2, 1, 1], [1, 1, 2]])
SPARSE = probabilities([[2, 2, 0], [1, 0, 3], [2, 1, 1]])


# --- exact


@pytest.mark.parametrize("q", [Q, SPARSE, P], ids=["full", "sparse", "same"])
def test_a_sample_that_is_the_distribution_has_the_exact_frontier(q):
    truth = Masses.from_histograms(P, q)
    for grid in (None, 10, [0.01, 0.5, 0.999]):
        curve, exact = direct_frontier(*enumerated(P, q), grid=grid), frontier(truth, grid=grid)
        assert curve.lam.tolist() == exact.lam.tolist()
        assert curve.p_to_mix == approx(exact.p_to_mix, abs=1e-12)
        assert curve.q_to_mix == approx(exact.q_to_mix, abs=1e-12)
        assert area(curve, scale=5) == approx(area(exact, scale=5), abs=1e-9)
    curve = direct_frontier(*enumerated(P, q))
    assert integral(curve) == approx(integral(truth), abs=1e-9)
    assert midpoint(curve) == approx(midpoint(truth), abs=1e-12)


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("divergence", [KL, CHI2], ids=str)
def test_masses_of_such_a_sample_are_exact_for_every_divergence(divergence, pooled):
    truth, estimate = Masses.from_histograms(P, Q), direct(*enumerated(P, Q), pooled=pooled)
    exact, curve = (frontier(masses, divergence, grid=20) for masses in (truth, estimate))
    assert curve.p_to_mix == approx(exact.p_to_mix, abs=1e-12)
    assert curve.q_to_mix == approx(exact.q_to_mix, abs=1e-12)


def test_masses_see_what_is_missed_when_pooled_only():
    truth = Masses.from_histograms(P, SPARSE)
    plain, pooled = (direct(*enumerated(P, SPARSE), pooled=pooled) for pooled in (False, True))
    assert integral(plain) < integral(truth) - 0.01
    assert integral(pooled) == approx(integral(truth), abs=1e-9)


def test_a_few_texts_that_dominate_are_reported():
    four = (
        [-700.0, -700.0],
        [-600.0, -700.0],
        [-700.0, -700.0],
        [-700.0, -700.0],
    )  # human text, likelier under the model
    with pytest.warns(EstimateWarning, match=r"the mean likelihood ratio is .* Use pooled=True or shorter texts\."):
        masses = direct(*four, pooled=False)
    assert masses.caveats[0].kind == "isolated points"
    assert integral(direct(*four)) <= 1


def test_a_constant_of_both_log_probabilities_does_not_matter():
    four = enumerated(P, Q)
    base = direct_frontier(*four)
    moved = direct_frontier(*(log_prob - 3000.0 for log_prob in four))
    assert moved.p_to_mix == approx(base.p_to_mix, abs=1e-9)


# --- log space


log_probs = hnp.arrays(np.float64, 5, elements=st.floats(-5000, 0))


@given(p_at_p=log_probs, q_at_p=log_probs, p_at_q=log_probs, q_at_q=log_probs, missing=st.integers(0, 31))
@pytest.mark.filterwarnings("ignore:the estimated divergence:mallow.errors.EstimateWarning")
def test_curves_of_any_log_probabilities_are_monotone_and_in_range(p_at_p, q_at_p, p_at_q, q_at_q, missing):
    gone = np.array([missing >> i & 1 for i in range(5)], bool)
    q_at_p, p_at_q = (np.where(gone, -np.inf, log_prob) for log_prob in (q_at_p, p_at_q))
    curve = direct_frontier(p_at_p, q_at_p, p_at_q, q_at_q)
    assert np.isfinite(curve.p_to_mix).all()
    assert np.isfinite(curve.q_to_mix).all()
    assert (np.diff(curve.p_to_mix) <= 1e-9).all()
    assert (np.diff(curve.q_to_mix) >= -1e-9).all()
    assert (curve.p_to_mix <= -np.log(curve.lam) + 1e-9).all()
    assert (curve.q_to_mix <= -np.log(curve.lam[::-1]) + 1e-9).all()
    assert 0 <= area(curve, scale=5) <= 1
    swapped = direct_frontier(q_at_q, p_at_q, q_at_p, p_at_p)
    assert swapped.p_to_mix == approx(curve.q_to_mix[::-1], abs=1e-9)
    pooled = direct(p_at_p, q_at_p, p_at_q, q_at_q, pooled=True)
    assert np.isfinite(pooled.p).all()


def test_ratios_without_bound_are_the_disjoint_frontier():
    curve = direct_frontier([-700.0, -9000.0], [-np.inf, -99999.0], [-np.inf, -3000.0], [-1.0, -2.0])
    assert integral(curve) == approx(1, abs=1e-6)
    assert area(curve, scale=5) == approx(area(Masses.from_histograms([1, 0], [0, 1]), scale=5), abs=1e-8)


def test_leading_axes_stay_in_front():
    four = [np.stack([a, b]) for a, b in zip(enumerated(P, Q), enumerated(P, P), strict=True)]
    curve = direct_frontier(*four)
    assert area(curve, scale=5) == approx(
        [area(direct_frontier(*enumerated(P, q)), scale=5) for q in (Q, P)], abs=1e-12
    )


def test_the_area_of_a_curve_cut_at_zero_is_nearly_exact():
    at_p = np.array([-0.9, 1.0, 0.2])  # log-ratios: the cost is above 0 for small λ, below for large
    four = at_p, np.zeros(3), np.array([-1.0, -0.5, -2.0]), np.zeros(3)
    fine = direct_frontier(*four, grid=10_001)
    assert 0.1 < (fine.p_to_mix == 0).mean() < 0.9
    assert area(direct_frontier(*four), scale=5) == approx(area(fine, scale=5), abs=2e-3)


# --- truth by sampling


def test_independent_tokens_converge_to_the_truth():
    """For unigram models the sequence distributions are products, with known probabilities."""
    rng = np.random.default_rng(0)
    p, q, length, count = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.3, 0.4]), 3, 100_000
    x, y = (rng.choice(3, size=(count, length), p=side) for side in (p, q))
    four = [np.log(side)[tokens].sum(axis=1) for tokens, side in ((x, p), (x, q), (y, p), (y, q))]
    assert np.mean(four[0] - four[1]) == approx(length * np.sum(p * np.log(p / q)), abs=0.01)
    whole = [np.prod(side[np.array(SEQUENCES)], axis=1) for side in (p, q)]
    truth = Masses.from_histograms(*whole)
    assert integral(direct_frontier(*four)) == approx(integral(truth), abs=3e-3)
    for pooled in (False, True):
        assert integral(direct(*four, pooled=pooled)) == approx(integral(truth), abs=3e-3)


@pytest.fixture(scope="module")
def models():
    """Two n-gram models of different order, of the same text, over letters: they share their tokens."""
    texts = [text[:3000].lower() for text in list(pydoc_data.topics.topics.values())[:40]]
    return [NGram.fit(texts, order=order, tokenize=letters, min_count=10**9) for order in (3, 2)]


def written(model, length, count, decoder="ancestral", rng=0):
    return generate(model, [[0]] * count, decoder, max_new=length, min_new=length, rng=rng)


def test_long_texts_of_like_models_are_disjoint(models):
    surrogate, model = models
    integrals = {}
    for length in (1, 4, 64):
        x, y = written(surrogate, length, 150, rng=1), written(model, length, 150, rng=2)
        integrals[length] = integral(direct_frontier(*log_likelihoods(surrogate, model, x, y)))
    assert integrals[1] < 0.2
    assert integrals[1] < integrals[4] < integrals[64]
    assert integrals[64] > 0.98


def test_the_surrogate_is_perfect_and_truncation_is_punished(models):
    surrogate, _ = models
    human, ancestral = written(surrogate, 40, 60, rng=1), written(surrogate, 40, 60, rng=2)
    same = direct_frontier(*log_likelihoods(surrogate, surrogate, human, ancestral))
    assert area(same, scale=5) == approx(1, abs=1e-9)
    nucleus = written(surrogate, 40, 60, "nucleus:0.9", rng=3)
    four = log_likelihoods(surrogate, surrogate, human, nucleus, rules=(Nucleus(0.9),))
    assert (four.q_at_p == -np.inf).mean() > 0.9
    assert np.isfinite(four.q_at_q).all()
    assert integral(direct_frontier(*four)) > 0.7


def test_text_likelier_under_the_model_than_under_the_surrogate_is_told(models):
    good, poor = models
    human, machine = written(good, 64, 50, rng=1), written(good, 64, 50, rng=2)
    four = log_likelihoods(poor, good, human, machine)
    with pytest.warns(
        EstimateWarning, match=r"divergence of the human texts is as low as -\d.* surrogate is not the dist"
    ):
        curve = direct_frontier(*four)
    assert (curve.p_to_mix >= 0).all()


def test_log_likelihoods_are_sums_over_tokens_in_any_batch(models):
    surrogate, model = models
    x, y = ["some text", "more"], ["other text"]
    four = log_likelihoods(surrogate, model, x, y, batch=1)
    assert four.p_at_p == approx([surrogate.log_prob(surrogate.encode(text)).sum() for text in x])
    assert four.q_at_q == approx([model.log_prob(model.encode(text)).sum() for text in y])
    truncated = log_likelihoods(surrogate, model, x, y, rules=(TopK(30),))
    assert truncated.p_at_p.tolist() == four.p_at_p.tolist()  # the surrogate has no rules
    assert (truncated.q_at_q > four.q_at_q).all()


# --- errors


@pytest.mark.parametrize(
    ("place", "values", "message"),
    [
        (
            0,
            [-1.0, -np.inf],
            r"`log_p_at_p` must be finite; got -inf at index 1: the surrogate must give human text a probability above 0\. Score it without rules\.",
        ),
        (
            3,
            [-np.inf, -1.0],
            r"`log_q_at_q` must be finite; got -inf at index 0: a model gives its own texts a probability above 0\. Are these its decoding rules\?",
        ),
        (1, [np.nan, -1.0], r"`log_q_at_p` must hold log-probabilities, finite or −∞; got nan at index 0\."),
        (2, [-1.0, np.inf], r"`log_p_at_q` must hold log-probabilities, finite or −∞; got inf at index 1\."),
        (1, [-1.0], r"`log_p_at_p` and `log_q_at_p` must have the same shape"),
        (2, [-1.0] * 3, r"`log_p_at_q` and `log_q_at_q` must have the same shape"),
        (0, [], r"`log_p_at_p` must not be empty"),
    ],
)
@pytest.mark.parametrize("estimate", [direct, direct_frontier])
def test_bad_log_probabilities_are_refused(estimate, place, values, message):
    four = [[-1.0, -2.0] for _ in range(4)]
    four[place] = values
    with pytest.raises(InputError, match=message):
        estimate(*four)


def test_ids_must_mean_the_same_to_both_models(models):
    other = NGram.fit(["to be or not to be"], min_count=1)
    with pytest.raises(
        InputError,
        match=r"must mean the same to `surrogate` and `model`, but they have 257 and \d+ tokens\. Pass texts instead",
    ):
        log_likelihoods(models[0], other, [[1, 2]], ["a"])
    assert math.isfinite(log_likelihoods(models[0], other, ["a b"], ["a"]).q_at_p[0])
