"""Perplexity of texts under a scoring model (paper: baseline metrics, Gen. PPL.).

Generation perplexity asks a scoring model how likely texts are, human or generated. The converse question, how likely human
text is under the model that is evaluated, is that of `mallow.baselines.language_modelling`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mallow.generate import NextToken, Text, token_log_probs


def perplexity(
    scorer: NextToken, texts: Sequence[Text], *, prefixes: Sequence[Sequence[int]] | None = None, batch: int = 64
) -> float:
    """The perplexity exp(−Σ log R(token) / number of tokens) of all texts together under a scoring model R.

    For generated texts this is the *generation perplexity* (paper: baseline metrics, Gen. PPL., with GPT-2 large as R). Low
    is not good: greedy text has a value of about 1, and an adversarial decoder can reach any value with gibberish (paper:
    sec:expt:properties). It is meaningful only in comparison with the value of human text: `perplexity_gap`.

    The paper does not say how it averages over texts. Here every token has the same weight, which is the usual definition;
    to give every text the same weight, take the mean of `text_perplexities`, which is never smaller for texts of equal
    length.

    A text is scored from its first token on, after the token that begins every text: the one that `encode` puts first, if
    it decodes to nothing (a begin-of-text token), otherwise the model's only end-of-text token. The end of the text is not
    scored, because most samples are cut off at some length; to score it, pass token ids that include it.

    Parameters
    ----------
    scorer : NextToken
    texts : sequence of str or of token ids
    prefixes, batch :
        As in `mallow.generate.token_log_probs`; continuations are scored after their prompts.

    Examples
    --------
    >>> from mallow.generate import NGram
    >>> scorer = NGram.fit(["to be or not to be"], min_count=1)
    >>> perplexity(scorer, ["to be"]) < perplexity(scorer, ["be to"])
    True
    """
    scores = np.concatenate(token_log_probs(scorer, texts, prefixes=prefixes, batch=batch))
    return exp_or_infinity(-math.fsum(scores) / len(scores))


def text_perplexities(
    scorer: NextToken, texts: Sequence[Text], *, prefixes: Sequence[Sequence[int]] | None = None, batch: int = 64
) -> NDArray[np.float64]:
    """The perplexity of each text, shape (n,); parameters as in `perplexity`."""
    texts_scores = token_log_probs(scorer, texts, prefixes=prefixes, batch=batch)
    return np.array([exp_or_infinity(-math.fsum(scores) / len(scores)) for scores in texts_scores])


def perplexity_gap(scorer: NextToken, reference: Sequence[Text], model: Sequence[Text], *, batch: int = 64) -> float:
    """|T(Q) − T(P)| of the perplexity under a scoring model, where 0 is best (paper: baseline metrics).

    Examples
    --------
    >>> from mallow.generate import NGram
    >>> scorer = NGram.fit(["to be or not to be"], min_count=1)
    >>> perplexity_gap(scorer, ["to be", "or not"], ["or not", "to be"])
    0.0
    """
    return abs(perplexity(scorer, model, batch=batch) - perplexity(scorer, reference, batch=batch))


def exp_or_infinity(value: float) -> float:
    """exp, with ∞ instead of an OverflowError."""
    return math.exp(value) if value < 709.0 else math.inf
