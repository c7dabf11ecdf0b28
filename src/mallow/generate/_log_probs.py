"""The log-probability of each token of a text under a language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.errors import InputError
from mallow.generate._protocol import LogProbs, NextToken, SequenceScores, Tokens
from mallow.generate._rules import SUM_TOLERANCE, Chain, Rule

Floats = NDArray[np.float64]

Text = str | Sequence[int]
"""A text, or its token ids."""

PrefixedTexts = list[tuple[Sequence[int], Sequence[int]]]
"""For each text, the tokens before it, possibly none, and the tokens to score."""


def token_log_probs(
    model: NextToken,
    texts: Sequence[Text],
    *,
    rules: Sequence[Rule] = (),
    prefixes: Sequence[Sequence[int]] | None = None,
    batch: int = 64,
) -> list[Floats]:
    """The natural log-probabilities (t,) of the tokens of each text, each after all tokens before it; −∞ is possible.

    Parameters
    ----------
    model : NextToken
        If it has a method `log_prob` (`SequenceScores`), this is used when there are no rules.
    texts : sequence of str or of token ids
        At least one text; empty texts are refused.
    rules : sequence of Rule
        Applied to every distribution first, which gives the probabilities of a decoder: ``TopK(1)`` is greedy.
    prefixes : sequence of token ids or None
        The tokens before each text, at least one each, for example a prompt. They are not scored. None: the token that
        begins a text.
    batch : int
        Texts that the model reads together. It affects only time and memory.

    Examples
    --------
    >>> from mallow.generate import NGram
    >>> model = NGram.fit(["to be or not to be"], min_count=1)
    >>> [scores] = token_log_probs(model, ["to be"])
    >>> scores.shape
    (2,)
    """
    whole("batch", batch, least=1)
    chain = Chain(tuple(rules))
    split = split_prefixes(model, texts, prefixes)
    if not chain.rules and isinstance(model, SequenceScores):
        return [_score_text(model, tokens, prefix, f"`texts[{i}]`") for i, (prefix, tokens) in enumerate(split)]
    scores = [np.empty(len(tokens)) for _, tokens in split]
    for indices, position, rows, tokens in iterate_positions(model, split, chain, batch):
        for text, value in zip(indices, rows[np.arange(len(rows)), tokens], strict=True):
            scores[text][position] = value
    return [check_scores(values, f"`texts[{i}]`") for i, values in enumerate(scores)]


def split_prefixes(model: NextToken, texts: Sequence[Text], prefixes: Sequence[Sequence[int]] | None) -> PrefixedTexts:
    """Each text as (prefix, tokens to score), checked. A <bos> that the tokenizer adds becomes the prefix."""
    if isinstance(texts, str):
        raise InputError("`texts` must be a sequence of texts; got one str. Pass [text].")
    if len(texts) == 0:
        raise InputError("`texts` must hold at least one text; got none.")
    if prefixes is not None and len(prefixes) != len(texts):
        raise InputError(f"`prefixes` must hold one prefix for each of {len(texts)} texts; got {len(prefixes)}.")
    split: PrefixedTexts = []
    for i, text in enumerate(texts):
        tokens: Sequence[int] = model.encode(text) if isinstance(text, str) else text
        prefix: Sequence[int] = () if prefixes is None else prefixes[i]
        if prefixes is not None:
            _check_tokens(model, prefix, f"`prefixes[{i}]`")
        if isinstance(text, str) and len(tokens) and model.decode([tokens[0]]) == "":
            prefix, tokens = (tokens[:1] if prefixes is None else prefix), tokens[1:]
        _check_tokens(model, tokens, f"`texts[{i}]`")
        # One more than the context, because the last token is scored but never read.
        room = None if model.context is None else model.context + 1 - max(len(prefix), 1)
        if room is not None and len(tokens) > room:
            raise InputError(
                f"`texts` must fit into the model's context of {model.context} tokens together with their prefixes; "
                f"text {i} has {len(tokens)}. Cut it to {room} tokens."
            )
        split.append((prefix, tokens))
    return split


def iterate_positions(
    model: NextToken, split: PrefixedTexts, chain: Chain, batch: int
) -> Iterator[tuple[NDArray[np.intp], int, LogProbs, Tokens]]:
    """Indices of texts, a position in them, the distributions (b, vocabulary) at this position, and its tokens."""
    split = [(prefix if len(prefix) else _default_prefix(model), tokens) for prefix, tokens in split]
    # The longest first, so that the texts of a batch have similar lengths, and the shortest are its last rows.
    order = np.argsort([-len(tokens) for _, tokens in split], kind="stable")
    for first in range(0, len(order), batch):
        indices = order[first : first + batch]
        lengths = np.array([len(split[text][1]) for text in indices])
        rows, state = model.start([split[text][0] for text in indices])
        _check_rows(rows, len(indices), model)
        for position in range(lengths[0]):
            tokens = np.array([split[text][1][position] for text in indices], np.int64)
            yield indices, position, chain(rows), tokens
            remaining = int((lengths > position + 1).sum())
            if remaining == 0:
                break
            if remaining < len(indices):
                indices, tokens = indices[:remaining], tokens[:remaining]
                state = model.select(state, np.arange(remaining))
            rows, state = model.step(state, tokens)


def check_scores(scores: Floats, name: str) -> Floats:
    """The log-probabilities of a text, refused if one is above 0."""
    bad = np.flatnonzero(~(scores <= SUM_TOLERANCE))
    if len(bad):
        raise InputError(
            f"`model` must return log-probabilities, which are at most 0; got {scores[bad[0]]:.4g} for token {bad[0]} "
            f"of {name}."
        )
    return np.minimum(scores, 0.0)  # a rounding error above 0 is 0


def check_normalised(total: float, model: NextToken) -> None:
    """Raise an InputError if the probabilities of a row, of which `total` is the sum, do not sum to 1."""
    if not abs(total - 1.0) <= SUM_TOLERANCE:
        raise InputError(
            f"`model` must return log-probabilities, which sum to 1 after exp, but a row of {model.name} sums to "
            f"{total:.4g}. Subtract scipy.special.logsumexp of each row from logits."
        )


def _default_prefix(model: NextToken) -> list[int]:
    if len(model.end) != 1:
        raise InputError(
            f"`prefixes` must hold the token that begins a text for {model.name}, which has {len(model.end)} ends of "
            "text: pass [[token]] * len(texts)."
        )
    return list(model.end)


def _check_tokens(model: NextToken, tokens: Sequence[int], name: str) -> None:
    if len(tokens) == 0:
        raise InputError(f"{name} must have at least one token; got none.")
    if min(tokens) < 0 or max(tokens) >= model.vocabulary:
        raise InputError(
            f"{name} must hold tokens from 0 to {model.vocabulary - 1}; got {min(tokens)} to {max(tokens)}. "
            "Do they come from the tokenizer of a different model?"
        )


def _check_rows(rows: LogProbs, count: int, model: NextToken) -> None:
    """Check the shape of a batch's first rows, and the sum of one; checking every row would take too long."""
    if rows.shape != (count, model.vocabulary):
        raise InputError(
            f"`model` must return one row of {model.vocabulary} log-probabilities per text; {model.name} returned "
            f"shape {rows.shape} for {count}."
        )
    with np.errstate(over="ignore"):
        check_normalised(float(np.exp(rows[0]).sum(dtype=np.float64)), model)


def _score_text(model: SequenceScores, tokens: Sequence[int], prefix: Sequence[int], name: str) -> Floats:
    scores = np.array(model.log_prob(tokens, prefix if len(prefix) else None), np.float64)
    if scores.shape != (len(tokens),):
        raise InputError(
            f"`log_prob` must return one number per token; got shape {scores.shape} for {len(tokens)} tokens of {name}."
        )
    return check_scores(scores, name)
