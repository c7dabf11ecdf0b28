"""The frontier from the probabilities of whole texts, without features (paper: sec:direct-est).

Known failure, and the reason not to rank models by this: *the paper finds a rank correlation of 0.43 with MAUVE and
0.37 with people.* P is not known, so the probabilities of a large language model, the surrogate, are used instead.

- The surrogate is the judge. Models similar to it win, and the surrogate itself, sampled without truncation, is
  perfect: its ratio is 1 at every text.
- The log-probability of a text is a sum over its tokens. If two models differ by δ per token, their ratio is e^(δt)
  after t tokens: beyond a few dozen tokens any two models are disjoint, however similar they are, and all scores are at
  their minimum.
- A decoder that truncates (top-K, nucleus) gives human text probability 0 as soon as one of its tokens is cut off. It
is therefore rated below ancestral sampling, contrary to the human judgement in the paper.
- Human text that is likelier under the model than under the surrogate makes KL(P‖R_λ) negative, which is impossible for
  a divergence.

Everything stays in log space: log-probabilities of several thousand are usual, and −∞ is allowed where it has a
meaning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mallow._checks import first_place, real_array, same_shape
from mallow.errors import Caveat, InputError, warn_about, warns
from mallow.theory import Array, Frontier, Grid, Masses, frontier, range_caveats

if TYPE_CHECKING:  # the other estimators work without models that generate
    from mallow.generate import NextToken, Rule, Text


_STANDARD_ERRORS = 3.0  # chosen: a divergence this many standard errors below 0 is not negative by chance
_ROUNDING = 1e-9  # chosen: estimates less negative than this are rounding


class LogLikelihoods(NamedTuple):
    """Natural log-probabilities of whole texts: the arguments of `direct` and `direct_frontier`, in their order."""

    p_at_p: Array
    q_at_p: Array
    p_at_q: Array
    q_at_q: Array


def log_likelihoods(
    surrogate: NextToken,
    model: NextToken,
    reference: Sequence[Text],
    generated: Sequence[Text],
    *,
    rules: Sequence[Rule] = (),
    batch: int = 64,
) -> LogLikelihoods:
    """Log-probabilities of human and generated texts, under a surrogate of P and under the model with its decoder.

    Parameters
    ----------
    surrogate : NextToken
        Replaces the human distribution P: a large model, without decoding rules (paper: GPT-2 xl).
    model : NextToken
        The model Q that wrote `generated`.
    reference : sequence of str or of token ids
        The human texts. Token ids must mean the same to both models. Truncated texts are scored as they are. For
        complete texts, pass ids that include the end token.
    generated : sequence of str or of token ids
        The generated texts, likewise.
    rules : sequence of Rule
        The decoder of `generated`, such as ``(Nucleus(0.95),)``. Texts that it cannot generate have log-probability −∞.
    batch : int
        As in `mallow.generate.token_log_probs`.

    Examples
    --------
    >>> from mallow.generate import NGram
    >>> human, machine = ["to be or not to be", "to be is to do"], ["to be or to be", "do be do"]
    >>> surrogate, model = NGram.fit(human, min_count=1), NGram.fit(machine, min_count=1)
    >>> likelihoods = log_likelihoods(surrogate, model, human, machine)
    >>> bool((likelihoods.p_at_p > likelihoods.q_at_p).all())
    True
    """
    ids = not all(isinstance(text, str) for text in (*reference, *generated))
    if ids and surrogate.vocabulary != model.vocabulary:
        raise InputError(
            f"Token ids must mean the same to `surrogate` and `model`, but they have {surrogate.vocabulary} and "
            f"{model.vocabulary} tokens. Pass texts instead of ids."
        )
    return LogLikelihoods(
        _totals(surrogate, reference, (), batch),
        _totals(model, reference, rules, batch),
        _totals(surrogate, generated, (), batch),
        _totals(model, generated, rules, batch),
    )


@warns
def direct_frontier(
    log_p_at_p: Any, log_q_at_p: Any, log_p_at_q: Any, log_q_at_q: Any, *, grid: Grid = None
) -> Frontier:
    """The KL frontier as the paper estimates it: each divergence is averaged over the sample of its expectation.

        KL(P‖R_λ) ≈ mean over x ~ P of  log P′(x) − log(λP′(x) + (1−λ)Q(x)),
        KL(Q‖R_λ) ≈ mean over x ~ Q of  log Q(x) − log(λP′(x) + (1−λ)Q(x)).

    The paper does not say what to do with estimates below 0. The first is negative for small λ when human text is
    likelier under Q than under the surrogate P′. Here they are set to 0, with an `EstimateWarning` if this cannot be
    chance. Each estimate is convex in λ, so the curve is then monotone. It has a kink, and its area is accurate to
    about 1e-3 instead of 1e-8. Models should not be ranked by it: the surrogate is the judge, and any two models are
    disjoint on long texts (rank correlation with people in the paper: 0.37).

    Parameters
    ----------
    log_p_at_p : array-like (..., n)
        Log-probabilities of human texts under the surrogate (finite).
    log_q_at_p : array-like (..., n)
        Log-probabilities of human texts under the model (−∞ for texts that it never generates).
    log_p_at_q : array-like (..., m)
        Log-probabilities of generated texts under the surrogate (possibly −∞).
    log_q_at_q : array-like (..., m)
        Log-probabilities of generated texts under the model (finite).
    grid :
        As in `mallow.frontier`.

    Examples
    --------
    >>> curve = direct_frontier([-700.0, -800.0], [-np.inf, -900.0], [-900.0, -900.0], [-600.0, -600.0], grid=2)
    >>> curve.p_to_mix.round(3), curve.q_to_mix.round(3)
    (array([0.693]), array([0.693]))
    """
    at_p, at_q = _log_ratios(log_p_at_p, log_q_at_p, log_p_at_q, log_q_at_q)
    template = frontier(Masses.from_histograms([1.0], [1.0]), grid=grid)  # for its λ
    lam = template.lam
    rest = lam[::-1] if template.exact else 1.0 - lam  # 1 − λ without cancellation: exact nodes are symmetric
    to_p, doubts_p = _mean_cost("human", -at_p, lam, rest)
    to_q, doubts_q = _mean_cost("generated", at_q, rest, lam)
    return Frontier(lam, to_p, to_q, exact=template.exact, caveats=(*doubts_p, *doubts_q))


def direct(log_p_at_p: Any, log_q_at_p: Any, log_p_at_q: Any, log_q_at_q: Any, *, pooled: bool = True) -> Masses:
    """Masses from the likelihood ratio P′/Q of texts, for every divergence and summary.

    As with nearest neighbours and classifiers, and unlike the paper's formula (`direct_frontier`), costs are never
    negative. Models should not be ranked by it, see `direct_frontier`.

    Parameters
    ----------
    log_p_at_p :
        As in `direct_frontier`.
    log_q_at_p :
        As in `direct_frontier`.
    log_p_at_q :
        As in `direct_frontier`.
    log_q_at_q :
        As in `direct_frontier`.
    pooled : bool
        As in `Masses.from_log_ratio`. False: the cost of P is averaged over the generated texts (paper:
        eq:knn:fdiv-from-LR). Regions that the model misses altogether then do not count, and if human text is likelier
        under Q than under the surrogate, the cost of Q may be infinite. A caveat is added if a few texts dominate.

    Examples
    --------
    >>> direct([-700.0], [-700.0], [-900.0], [-900.0]).p
    array([0.5, 0.5])
    """
    ratios = _log_ratios(log_p_at_p, log_q_at_p, log_p_at_q, log_q_at_q)
    masses = Masses.from_log_ratio(*ratios, pooled=pooled)
    if masses.p.ndim > 1:
        return masses  # a batch: each row has its own caveats
    masses = replace(masses, caveats=range_caveats(masses, "Use pooled=True or shorter texts."))
    warn_about(masses.caveats)
    return masses


def _totals(model: NextToken, texts: Sequence[Text], rules: Sequence[Rule], batch: int) -> Array:
    """The log-probability of each text: the sum over its tokens."""
    from mallow.generate import token_log_probs

    return np.array([math.fsum(scores) for scores in token_log_probs(model, texts, rules=rules, batch=batch)])


def _log_ratios(log_p_at_p: Any, log_q_at_p: Any, log_p_at_q: Any, log_q_at_q: Any) -> tuple[Array, Array]:
    """log P′ − log Q at the human texts, possibly +∞, and at the generated ones, possibly −∞."""
    p_at_p = _finite(
        "log_p_at_p", log_p_at_p, "the surrogate must give human text a probability above 0. Score it without rules."
    )
    q_at_p = _at_most_finite("log_q_at_p", log_q_at_p)
    p_at_q = _at_most_finite("log_p_at_q", log_p_at_q)
    q_at_q = _finite(
        "log_q_at_q", log_q_at_q, "a model gives its own texts a probability above 0. Are these its decoding rules?"
    )
    same_shape("log_p_at_p", p_at_p, "log_q_at_p", q_at_p)
    same_shape("log_p_at_q", p_at_q, "log_q_at_q", q_at_q)
    return p_at_p - q_at_p, p_at_q - q_at_q


def _at_most_finite(name: str, values: Any) -> Array:
    array = real_array(name, values)
    bad = ~(array < np.inf)
    if bad.any():
        index = first_place(bad)
        raise InputError(f"`{name}` must hold log-probabilities, finite or −∞; got {array[index]} at index {index}.")
    return array


def _finite(name: str, values: Any, why: str) -> Array:
    array = _at_most_finite(name, values)
    if not np.isfinite(array).all():
        index = first_place(~np.isfinite(array))
        raise InputError(f"`{name}` must be finite; got {array[index]} at index {index}: {why}")
    return array


def _mean_cost(whose: str, log_other: Array, weight: Array, weight_other: Array) -> tuple[Array, tuple[Caveat, ...]]:
    """The mean over texts of −log(weight + weight_other·e^log_other), at least 0, for all pairs of weights (..., λ)."""
    means, errors = [], []
    for log_weight, log_weight_other in zip(np.log(weight), np.log(weight_other), strict=True):
        costs = -np.logaddexp(log_weight, log_weight_other + log_other)
        means.append(costs.mean(axis=-1))
        errors.append(costs.std(axis=-1) / math.sqrt(costs.shape[-1]))
    cost, error = np.stack(means, axis=-1), np.stack(errors, axis=-1)
    below = cost + _STANDARD_ERRORS * error < -_ROUNDING
    return np.maximum(cost, 0.0), _negative_cost(whose, float(cost.min())) if below.any() else ()


def _negative_cost(whose: str, least: float) -> tuple[Caveat, ...]:
    message = (
        f"the estimated divergence of the {whose} texts is as low as {least:.3g} and was set to 0: the surrogate is "
        "not the distribution of the human texts."
    )
    return (Caveat("negative divergence", message, values={"divergence": least}),)
