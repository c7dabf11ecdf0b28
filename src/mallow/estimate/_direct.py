"""The frontier from probabilities of whole texts, without samples in a space of features (paper: sec:direct-est).

Known failure, and the reason why nobody should rank models by this: *the paper finds a rank correlation of 0.43 with MAUVE
and 0.37 with people.* P is not known, so the probabilities of a large language model stand for it.

- The surrogate is the judge. A model near it wins, and the surrogate itself, sampled without truncation, is perfect:
  its ratio is 1 at every text.
- A text's log-probability is a sum over its tokens. The ratio of two models that differ by δ a token is e^(δt) after t
  tokens: beyond some dozens of tokens every two models are disjoint, however alike, and all scores are at their least.
- A decoder that truncates (top-K, nucleus) gives human text probability 0 as soon as one token was cut away, so that
  it is rated below ancestral sampling, against the human judgement of the paper.
- Human text that the model finds likelier than the surrogate does makes KL(P‖R_λ) negative, which no divergence is.

Everything stays in log space: log-probabilities in the thousands are usual, and −∞ is legal where it has a meaning.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mallow._checks import first_place, real_array, same_shape
from mallow.errors import EstimateWarning, InputError
from mallow.generate import NextToken, Rule, Text, token_log_probs
from mallow.theory import Array, Frontier, Grid, Masses, frontier

__all__ = ["LogLikelihoods", "direct", "direct_frontier", "log_likelihoods"]

_STANDARD_ERRORS = 3.0  # below 0, from which a negative estimate of a divergence is no chance


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
    """Log-probabilities of human and generated texts under a surrogate of P and under the model with its decoder.

    Parameters
    ----------
    surrogate : NextToken
        Stands for the human distribution P; a large model, without decoding rules (paper: GPT-2 xl).
    model : NextToken
        The model Q that wrote `generated`.
    reference, generated : sequence of str or of token ids
        Human and generated texts. Ids must mean the same to both models. Texts that were cut at some length are
        scored as they are; where a text has ended, pass ids with the end in them.
    rules : sequence of Rule
        The decoder of `generated`, such as ``(Nucleus(0.95),)``: it makes −∞ of what it can not write.
    batch : int
        As in `mallow.baselines.token_log_probs`.

    Examples
    --------
    >>> from mallow.generate._ngram import NGram
    >>> human, machine = ["to be or not to be", "to be is to do"], ["to be or to be", "do be do"]
    >>> surrogate, model = NGram.fit(human, min_count=1), NGram.fit(machine, min_count=1)
    >>> found = log_likelihoods(surrogate, model, human, machine)
    >>> bool((found.p_at_p > found.q_at_p).all())
    True
    """
    ids = not all(isinstance(text, str) for text in (*reference, *generated))
    if ids and surrogate.vocabulary != model.vocabulary:
        raise InputError(
            f"Token ids must mean the same to `surrogate` and `model`; they have {surrogate.vocabulary} and "
            f"{model.vocabulary} tokens. Pass texts."
        )
    return LogLikelihoods(
        _totals(surrogate, reference, (), batch),
        _totals(model, reference, rules, batch),
        _totals(surrogate, generated, (), batch),
        _totals(model, generated, rules, batch),
    )


def direct_frontier(
    log_p_at_p: Any, log_q_at_p: Any, log_p_at_q: Any, log_q_at_q: Any, *, grid: Grid = None
) -> Frontier:
    """The KL frontier as the paper estimates it: each divergence is averaged over the sample it is an expectation of.

        KL(P‖R_λ) ≈ mean over x ~ P of  log P′(x) − log(λP′(x) + (1−λ)Q(x)),
        KL(Q‖R_λ) ≈ mean over x ~ Q of  log Q(x) − log(λP′(x) + (1−λ)Q(x)).

    The paper does not say what becomes of estimates below 0, which the first is for small λ when human text is likelier
    under Q than under the surrogate P′. They are set to 0 here, with an `EstimateWarning` where it can not be chance.
    Each estimate is convex in λ, so that the curve is then monotone; it has a kink, and its area is known to about 1e-3
    instead of 1e-8. See the module for why not to use this.

    Parameters
    ----------
    log_p_at_p, log_q_at_p : array-like (..., n)
        Log-probabilities of human texts under the surrogate, finite, and under the model; −∞: it never writes this.
    log_p_at_q, log_q_at_q : array-like (..., m)
        Log-probabilities of generated texts under the surrogate, which may be −∞, and under the model, finite.
    grid :
        As in `mallow.frontier`.

    Examples
    --------
    >>> curve = direct_frontier([-700.0, -800.0], [-np.inf, -900.0], [-900.0, -900.0], [-600.0, -600.0], grid=2)
    >>> curve.p_to_mix.round(3), curve.q_to_mix.round(3)
    (array([0.693]), array([0.693]))
    """
    at_p, at_q = _log_ratios(log_p_at_p, log_q_at_p, log_p_at_q, log_q_at_q)
    like = frontier(Masses.from_histograms([1.0], [1.0]), grid=grid)  # for its λ
    rest = like.lam[::-1] if like.exact else 1.0 - like.lam  # 1 − λ without cancellation: exact nodes are symmetric
    to_p = _mean_cost("human", -at_p, like.lam, rest)
    to_q = _mean_cost("generated", at_q, rest, like.lam)
    return Frontier(like.lam, to_p, to_q, exact=like.exact)


def direct(log_p_at_p: Any, log_q_at_p: Any, log_p_at_q: Any, log_q_at_q: Any, *, pooled: bool = False) -> Masses:
    """Masses of the likelihood ratio P′/Q of texts, for every divergence and summary.

    As for nearest neighbours and classifiers, and unlike the paper's formula (`direct_frontier`), the cost of P is averaged
    over the generated texts (paper: eq:knn:fdiv-from-LR). No cost can be negative then, but what the model misses
    altogether is not seen (see `Masses.from_log_ratio`, and `pooled` there), and where human text is likelier under Q
    than under the surrogate the cost of Q may be infinite. See the module for why not to use this.

    Parameters
    ----------
    log_p_at_p, log_q_at_p, log_p_at_q, log_q_at_q :
        As in `direct_frontier`.
    pooled : bool
        As in `Masses.from_log_ratio`. True has no outliers.

    Examples
    --------
    >>> direct([-700.0], [-700.0], [-900.0], [-900.0]).p
    array([1., 1.])
    """
    return Masses.from_log_ratio(*_log_ratios(log_p_at_p, log_q_at_p, log_p_at_q, log_q_at_q), pooled=pooled)


def _totals(model: NextToken, texts: Sequence[Text], rules: Sequence[Rule], batch: int) -> Array:
    return np.array([math.fsum(scores) for scores in token_log_probs(model, texts, rules=rules, batch=batch)])


def _log_ratios(log_p_at_p: Any, log_q_at_p: Any, log_p_at_q: Any, log_q_at_q: Any) -> tuple[Array, Array]:
    """log P′ − log Q at the human texts, +∞ possible, and at the generated ones, −∞ possible."""
    p_at_p = _finite(
        "log_p_at_p", log_p_at_p, "the surrogate must give human text a probability above 0: no rules for it"
    )
    q_at_p = _at_most_finite("log_q_at_p", log_q_at_p)
    p_at_q = _at_most_finite("log_p_at_q", log_p_at_q)
    q_at_q = _finite(
        "log_q_at_q", log_q_at_q, "a model gives its own texts a probability above 0: are these its decoding rules?"
    )
    same_shape("log_p_at_p", p_at_p, "log_q_at_p", q_at_p)
    same_shape("log_p_at_q", p_at_q, "log_q_at_q", q_at_q)
    return p_at_p - q_at_p, p_at_q - q_at_q


def _at_most_finite(name: str, values: Any) -> Array:
    array = real_array(name, values)
    bad = ~(array < np.inf)
    if bad.any():
        place = first_place(bad)
        raise InputError(f"`{name}` must hold log-probabilities, finite or −∞; got {array[place]} at index {place}.")
    return array


def _finite(name: str, values: Any, why: str) -> Array:
    array = _at_most_finite(name, values)
    if not np.isfinite(array).all():
        place = first_place(~np.isfinite(array))
        raise InputError(f"`{name}` must be finite; got {array[place]} at index {place}: {why}")
    return array


def _mean_cost(whose: str, log_other: Array, own: Array, other: Array) -> Array:
    """The mean of −log(own + other·e^log_other) over texts, at least 0, for each pair of weights; shape (..., λ)."""
    means, errors = [], []
    for log_own, log_rest in zip(np.log(own), np.log(other), strict=True):
        each = -np.logaddexp(log_own, log_rest + log_other)
        means.append(each.mean(axis=-1))
        errors.append(each.std(axis=-1) / math.sqrt(each.shape[-1]))
    cost, error = np.stack(means, axis=-1), np.stack(errors, axis=-1)
    below = cost + _STANDARD_ERRORS * error < -1e-9
    if below.any():
        warnings.warn(
            f"the estimated divergence of the {whose} texts is as low as {cost.min():.3g}, and was set to 0: the surrogate "
            "is not the distribution of the human texts.",
            EstimateWarning,
            stacklevel=3,
        )
    found: Array = np.maximum(cost, 0.0)
    return found
