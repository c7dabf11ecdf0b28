"""Metrics that need token probabilities: perplexity, sparsemax score, Jensen–Shannon, ε-perplexity, n-gram models.

Two directions. *Generation perplexity* asks a scoring model how likely texts are, human or generated. The *language
modelling* metrics (paper: tab:mauve:expt:webtext-app-LM; Martins, Marinho and Martins 2020) ask how likely human text is
under the model that is judged, and never see what it generates.

Wherever texts are wanted, a text is a str or a sequence of token ids. A text is scored from its first token on, after the
token that opens it: the one that `encode` puts first if that spells nothing (a begin-of-text token), else the model's only
end of text. Its own end is not scored, since most samples are cut at some length; to have it, pass ids with the end in them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mallow._checks import positive, whole
from mallow.errors import InputError
from mallow.generate import (
    Chain,
    NextToken,
    NGram,
    Rule,
    SequenceScores,
    Text,
    checked_scores,
    opened_texts,
    refuse_unnormalised,
    steps_through,
    token_log_probs,
)
from mallow.theory import Masses

__all__ = [
    "LanguageModelling",
    "SequenceScores",
    "Text",
    "language_modelling",
    "ngram_mauve",
    "perplexity",
    "perplexity_gap",
    "text_perplexities",
    "token_log_probs",
]

Floats = NDArray[np.float64]

_LOG_2 = math.log(2.0)


# --- one number a token


def perplexity(
    scorer: NextToken, texts: Sequence[Text], *, given: Sequence[Sequence[int]] | None = None, batch: int = 64
) -> float:
    """The perplexity exp(−Σ log R(token) / number of tokens) of all texts together under a scoring model R.

    Of generated texts this is the *generation perplexity* (paper: baseline metrics, Gen. PPL., with GPT-2 large for R). Low
    is not good: greedy text has about 1, and an adversarial decoder can reach any value with gibberish (paper:
    sec:expt:properties). It says something beside the value for human text: `perplexity_gap`.

    The paper does not say how texts are averaged. Here every token counts the same, which is the usual definition; for
    every text to count the same, take the mean of `text_perplexities`, which is never smaller for texts of one length.
    `given` and `batch` are those of `token_log_probs`: continuations are judged after their prompts.

    Examples
    --------
    >>> scorer = NGram.fit(["to be or not to be"], min_count=1)
    >>> perplexity(scorer, ["to be"]) < perplexity(scorer, ["be to"])
    True
    """
    scores = np.concatenate(token_log_probs(scorer, texts, given=given, batch=batch))
    return _exp(-math.fsum(scores) / len(scores))


def text_perplexities(
    scorer: NextToken, texts: Sequence[Text], *, given: Sequence[Sequence[int]] | None = None, batch: int = 64
) -> Floats:
    """The perplexity of each text, shape (n,); `given` and `batch` as in `token_log_probs`."""
    scores = token_log_probs(scorer, texts, given=given, batch=batch)
    return np.array([_exp(-math.fsum(each) / len(each)) for each in scores])


def perplexity_gap(scorer: NextToken, reference: Sequence[Text], model: Sequence[Text], *, batch: int = 64) -> float:
    """|T(Q) − T(P)| of the perplexity under a scoring model, 0 being best (paper: baseline metrics).

    Examples
    --------
    >>> scorer = NGram.fit(["to be or not to be"], min_count=1)
    >>> perplexity_gap(scorer, ["to be", "or not"], ["or not", "to be"])
    0.0
    """
    return abs(perplexity(scorer, model, batch=batch) - perplexity(scorer, reference, batch=batch))


# --- one distribution a token


@dataclass(frozen=True)
class LanguageModelling:
    """How likely texts are under a model and its decoding rules; means over all tokens of all texts.

    Attributes
    ----------
    perplexity : float
        At least 1, lower is better; ∞ as soon as one token is impossible.
    epsilon_perplexity : float
        The same after ε is added to every probability, which is then renormalised; finite.
    sparsemax : float
        SP, from 0 to 1, higher is better.
    js : float
        Jensen–Shannon divergence, from 0 to log 2, lower is better.
    impossible : float
        The share of tokens with probability 0.
    tokens : int
        How many tokens there were.
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
    given: Sequence[Sequence[int]] | None = None,
    batch: int = 64,
) -> LanguageModelling:
    """Perplexity, ε-perplexity, sparsemax score and Jensen–Shannon divergence of human texts under a model.

    With q the model's distribution after the rules, x the token that stands in the text and e_x all mass on it, each token
    has (Martins, Marinho and Martins 2020)

        SP  = 1 − ½‖e_x − q‖² = q_x + ½(1 − ‖q‖²),
        JS  = ½ KL(e_x‖(e_x + q)/2) + ½ KL(q‖(e_x + q)/2) = log 2 + ½ q_x log q_x − ½(1 + q_x) log(1 + q_x),
        ε-perplexity = exp of the mean of −log((q_x + ε) / (1 + ε|V|)).

    JS depends on q_x alone, and so do both perplexities. For greedy decoding, ``TopK(1)``, SP is the accuracy and JS is
    log 2 · (1 − SP), as in the paper's table. None of them sees a generated text: they are single points of a frontier at
    best, JS prefers greedy decoding and ε-perplexity ancestral sampling (paper: tab:mauve:expt:webtext-app-LM). Beam search
    and adversarial decoding have no distribution of a token, and thus none of these.

    Parameters
    ----------
    model : NextToken
    texts : sequence of str or of token ids
        Human text.
    rules : sequence of Rule
        The decoder: ``()`` for ancestral sampling, ``(Nucleus(0.95),)``, ``(TopK(1),)`` for greedy.
    epsilon : float
        Above 0. The paper does not print its ε; its four greedy rows fit 1e-5 with |V| = 50,257 and nothing else.
    given, batch :
        As in `token_log_probs`.

    Examples
    --------
    >>> from mallow.generate._rules import TopK
    >>> model = NGram.fit(["to be or not to be"], min_count=1)
    >>> found = language_modelling(model, ["to be or be"], (TopK(1),))
    >>> found.perplexity, found.sparsemax, round(found.js, 3)
    (inf, 0.75, 0.173)
    """
    positive("epsilon", epsilon, why=" For ε = 0 it is the perplexity itself.")
    whole("batch", batch, least=1)
    opened = opened_texts(model, texts, given)
    log_q, squares = ([np.empty(len(tokens)) for _, tokens in opened] for _ in range(2))
    for places, position, rows, tokens in steps_through(model, opened, Chain(tuple(rules)), batch):
        for place, row, token in zip(places, rows, tokens, strict=True):  # row by row: O(|V|) beside the batch
            q = np.exp(row)
            refuse_unnormalised(float(q.sum(dtype=np.float64)), model)
            log_q[place][position] = row[token]
            q[token] = 0
            squares[place][position] = np.square(q, out=q).sum(dtype=np.float64)
    scores = np.concatenate([checked_scores(each, f"`texts[{i}]`") for i, each in enumerate(log_q)])
    return _summary(scores, np.concatenate(squares), model.vocabulary, float(epsilon))


def _summary(log_q: Floats, squares: Floats, vocabulary: int, epsilon: float) -> LanguageModelling:
    """`squares` is Σ q_y² over the tokens y that do not stand in the text."""
    count, q = len(log_q), np.exp(log_q)
    loss = ((1.0 - q) ** 2 + squares) / 2.0
    q_log_q = q * np.maximum(log_q, -1e4)  # 0·log 0 = 0
    js = np.maximum(_LOG_2 + (q_log_q - (1.0 + q) * np.log1p(q)) / 2.0, 0.0)
    # math.fsum is exact: the order of the texts makes no difference.
    return LanguageModelling(
        perplexity=_exp(-math.fsum(log_q) / count),
        epsilon_perplexity=_exp(math.log1p(epsilon * vocabulary) - math.fsum(np.log(q + epsilon)) / count),
        sparsemax=1.0 - math.fsum(loss) / count,
        js=math.fsum(js) / count,
        impossible=float((log_q == -np.inf).mean()),
        tokens=count,
        epsilon=epsilon,
    )


# --- n-gram models of both sides


def ngram_mauve(reference: Sequence[str], model: Sequence[str], *, order: int = 5, pooled: bool = True) -> Masses:
    """Masses from the likelihood ratio of two n-gram models, fitted to either side (Pimentel, Meister and Cotterell 2023).

    MAUVE(P, Q) ≈ MAUVE(P̂, Q̂) with n-gram models for P̂ and Q̂ (paper: related work, footnote on 5-gram estimation). It
    follows human judgement much less than the estimators on embeddings; known failure: log-likelihoods of texts are sums
    over tokens, so that the noise of two fits, some tenths a token, becomes a ratio of e^±10 for a text. Two samples of the
    same distribution do not look the same unless there is far more text than a fit can use.

    No model scores a text it was fitted on: each side is cut in two, and either half is scored by the models of the other
    halves. Texts are dealt by their content, so that copies of a text, on one side or on both, are in the same half: a text
    is never scored by a model that has seen a copy, the order of the texts changes nothing, and the same texts on both sides
    have r = 1 everywhere.

    Parameters
    ----------
    reference, model : sequence of str
        None of them empty. The end of a text is scored too.
    order : int
        The longest n-gram.
    pooled : bool
        As in `Masses.from_log_ratio`. True, since a ratio of e^10 would otherwise be the whole cost.

    Examples
    --------
    >>> texts = [f"{a} saw {b}" for a in ("she", "he", "it") for b in ("me", "you", "us", "them")]
    >>> masses = ngram_mauve(texts, texts[::-1], order=3)
    >>> bool(np.allclose(masses.p, masses.q))
    True
    """
    sides = {"reference": reference, "model": model}
    for name, texts in sides.items():
        if isinstance(texts, str) or not all(isinstance(text, str) and text for text in texts):
            raise InputError(f"`{name}` must be texts, none of them empty.")
    halves = _halves([*reference, *model])
    cut = {name: [[text for text in texts if halves[text] == half] for half in (0, 1)] for name, texts in sides.items()}
    for name, parts in cut.items():
        if not all(parts):
            raise InputError(
                f"`{name}` must hold enough different texts to be cut in two; one half of its {len(sides[name])} is empty."
            )
    at: dict[str, list[float]] = {"reference": [], "model": []}
    for half in (0, 1):
        p, q = (NGram.fit(cut[name][1 - half], order=order) for name in ("reference", "model"))
        for name, ratios in at.items():
            ratios += [_text_log_prob(p, text) - _text_log_prob(q, text) for text in cut[name][half]]
    return Masses.from_log_ratio(at["reference"], at["model"], pooled=pooled)


def _text_log_prob(model: NGram, text: str) -> float:
    return math.fsum(model.log_prob([*model.encode(text), *model.end]))


def _halves(texts: Sequence[str]) -> dict[str, int]:
    """Each different text → 0 or 1, alternately in the order of their digests, which has nothing to do with content."""
    ranked = sorted(set(texts), key=lambda text: hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    return {text: place % 2 for place, text in enumerate(ranked)}


# --- the door


# --- going through texts


def _exp(value: float) -> float:
    return math.exp(value) if value < 709.0 else math.inf
