"""How likely human text is under a model and its decoding rules (paper: tab:mauve:expt:webtext-app-LM).

These metrics (Martins, Marinho and Martins 2020) never see what the model generates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mallow._checks import positive, whole
from mallow.baselines._perplexity import exp_or_infinity
from mallow.generate import (
    Chain,
    NextToken,
    Rule,
    Text,
    check_normalised,
    check_scores,
    iterate_positions,
    split_prefixes,
)

Floats = NDArray[np.float64]

_LOG_2 = math.log(2.0)


@dataclass(frozen=True)
class LanguageModelling:
    """How likely texts are under a model and its decoding rules; means over all tokens of all texts.

    Attributes
    ----------
    perplexity : float
        At least 1, lower is better; ∞ if a single token is impossible.
    epsilon_perplexity : float
        The same after adding ε to every probability and normalising; always finite.
    sparsemax : float
        SP, from 0 to 1, higher is better.
    js : float
        Jensen–Shannon divergence, from 0 to log 2, lower is better.
    impossible : float
        The share of tokens with probability 0.
    tokens : int
        The number of tokens.
    epsilon : float
        The ε of `epsilon_perplexity`.
    """

    perplexity: float
    epsilon_perplexity: float
    sparsemax: float
    js: float
    impossible: float
    tokens: int
    epsilon: float


def language_modelling(
    model: NextToken,
    texts: Sequence[Text],
    rules: Sequence[Rule] = (),
    *,
    epsilon: float = 1e-5,
    prefixes: Sequence[Sequence[int]] | None = None,
    batch: int = 64,
) -> LanguageModelling:
    """Perplexity, ε-perplexity, sparsemax score and Jensen–Shannon divergence of human texts under a model.

    With q the model's distribution after the rules, x the token in the text and e_x the distribution with all mass on x,
    each token has (Martins, Marinho and Martins 2020)

        SP  = 1 − ½‖e_x − q‖² = q_x + ½(1 − ‖q‖²),
        JS  = ½ KL(e_x‖(e_x + q)/2) + ½ KL(q‖(e_x + q)/2) = log 2 + ½ q_x log q_x − ½(1 + q_x) log(1 + q_x),
        ε-perplexity = exp of the mean of −log((q_x + ε) / (1 + ε|V|)).

    JS depends on q_x alone, as do both perplexities. For greedy decoding, ``TopK(1)``, SP is the accuracy and JS is
    log 2 · (1 − SP), as in the paper's table. None of these metrics uses generated text: they are at best single points of
    a frontier, JS prefers greedy decoding and ε-perplexity ancestral sampling (paper: tab:mauve:expt:webtext-app-LM). Beam
    search and adversarial decoding define no distribution of the next token, so that none of these metrics applies to them.

    Parameters
    ----------
    model : NextToken
    texts : sequence of str or of token ids
        Human text.
    rules : sequence of Rule
        The decoder: ``()`` for ancestral sampling, ``(Nucleus(0.95),)``, ``(TopK(1),)`` for greedy.
    epsilon : float
        Above 0. The paper does not print its ε; its four greedy rows agree with 1e-5 and |V| = 50,257 and with nothing
        else.
    prefixes, batch :
        As in `mallow.generate.token_log_probs`.

    Examples
    --------
    >>> from mallow.generate import NGram, TopK
    >>> model = NGram.fit(["to be or not to be"], min_count=1)
    >>> metrics = language_modelling(model, ["to be or be"], (TopK(1),))
    >>> metrics.perplexity, metrics.sparsemax, round(metrics.js, 3)
    (inf, 0.75, 0.173)
    """
    positive("epsilon", epsilon, why=" For ε = 0 it is the perplexity itself.")
    whole("batch", batch, least=1)
    split = split_prefixes(model, texts, prefixes)
    log_q, squares = ([np.empty(len(tokens)) for _, tokens in split] for _ in range(2))
    for places, position, rows, tokens in iterate_positions(model, split, Chain(tuple(rules)), batch):
        for place, row, token in zip(places, rows, tokens, strict=True):  # row by row: O(|V|) memory besides the batch
            q = np.exp(row)
            check_normalised(float(q.sum(dtype=np.float64)), model)
            log_q[place][position] = row[token]
            q[token] = 0
            squares[place][position] = np.square(q, out=q).sum(dtype=np.float64)
    scores = np.concatenate([check_scores(text_scores, f"`texts[{i}]`") for i, text_scores in enumerate(log_q)])
    return _average(scores, np.concatenate(squares), model.vocabulary, float(epsilon))


def _average(log_q: Floats, squares: Floats, vocabulary: int, epsilon: float) -> LanguageModelling:
    """The means over tokens; `squares` is Σ q_y² over the tokens y that are not in the text at that position."""
    count, q = len(log_q), np.exp(log_q)
    loss = ((1.0 - q) ** 2 + squares) / 2.0
    q_log_q = q * np.maximum(log_q, -1e4)  # 0·log 0 = 0
    js = np.maximum(_LOG_2 + (q_log_q - (1.0 + q) * np.log1p(q)) / 2.0, 0.0)
    # math.fsum is exact, so that the order of the texts has no effect.
    return LanguageModelling(
        perplexity=exp_or_infinity(-math.fsum(log_q) / count),
        epsilon_perplexity=exp_or_infinity(math.log1p(epsilon * vocabulary) - math.fsum(np.log(q + epsilon)) / count),
        sparsemax=1.0 - math.fsum(loss) / count,
        js=math.fsum(js) / count,
        impossible=float((log_q == -np.inf).mean()),
        tokens=count,
        epsilon=epsilon,
    )
