"""How likely a model holds texts to be, token by token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.errors import InputError
from mallow.generate._protocol import LogProbs, NextToken, Tokens
from mallow.generate._rules import Chain, Rule

__all__ = [
    "SequenceScores",
    "Text",
    "checked_scores",
    "opened_texts",
    "refuse_unnormalised",
    "steps_through",
    "token_log_probs",
]

Floats = NDArray[np.float64]
_SUM_TOLERANCE = 0.01  # as for decoding rules: half-precision logits, normalised in float32, are well inside

Text = str | Sequence[int]
"""A text, or its token ids."""


@runtime_checkable
class SequenceScores(Protocol):
    """What a `NextToken` may offer besides: the scores of a whole text at once, much faster than token by token."""

    def log_prob(self, tokens: Sequence[int], given: Sequence[int] | None, /) -> Any:
        """Log-probability (t,) of each token after those before it; None: in a text that opens as the model's texts do."""
        ...


def token_log_probs(
    model: NextToken,
    texts: Sequence[Text],
    *,
    rules: Sequence[Rule] = (),
    given: Sequence[Sequence[int]] | None = None,
    batch: int = 64,
) -> list[Floats]:
    """For each text the natural log-probabilities (t,) of its tokens, each after all before it; −∞ is possible.

    Parameters
    ----------
    model : NextToken
        Its `log_prob` is used where it has one (`SequenceScores`) and there are no rules.
    texts : sequence of str or of token ids
        At least one, none of them empty.
    rules : sequence of Rule
        Applied to every distribution first, so that these are the probabilities of a decoder: ``TopK(1)`` is greedy.
    given : sequence of token ids or None
        What comes before each text, and is not scored: prompts. At least one token each. None: what opens a text.
    batch : int
        Texts that the model sees together; it changes nothing but time and memory.

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
    opened = opened_texts(model, texts, given)
    if not chain.rules and isinstance(model, SequenceScores):
        return [_whole_text(model, tokens, before, f"`texts[{i}]`") for i, (before, tokens) in enumerate(opened)]
    found = [np.empty(len(tokens)) for _, tokens in opened]
    for places, position, rows, tokens in steps_through(model, opened, chain, batch):
        for place, value in zip(places, rows[np.arange(len(rows)), tokens], strict=True):
            found[place][position] = value
    return [checked_scores(scores, f"`texts[{i}]`") for i, scores in enumerate(found)]


Opened = list[tuple[Sequence[int], Sequence[int]]]  # what stands before each text, which may be nothing; its tokens


def opened_texts(model: NextToken, texts: Sequence[Text], given: Sequence[Sequence[int]] | None) -> Opened:
    """Each text as (what comes before, tokens to score), checked."""
    if isinstance(texts, str):
        raise InputError("`texts` must be several texts; got one str. Pass [text].")
    if len(texts) == 0:
        raise InputError("`texts` must hold at least one text; got none.")
    if given is not None and len(given) != len(texts):
        raise InputError(f"`given` must hold what comes before each of {len(texts)} texts; got {len(given)}.")
    opened: Opened = []
    for i, text in enumerate(texts):
        tokens: Sequence[int] = model.encode(text) if isinstance(text, str) else text
        before: Sequence[int] = () if given is None else given[i]
        if given is not None:
            _check_tokens(model, before, f"`given[{i}]`")
        if isinstance(text, str) and len(tokens) and model.decode([tokens[0]]) == "":
            before, tokens = (tokens[:1] if given is None else before), tokens[1:]
        _check_tokens(model, tokens, f"`texts[{i}]`")
        room = (
            None if model.context is None else model.context + 1 - max(len(before), 1)
        )  # the last token is never read
        if room is not None and len(tokens) > room:
            raise InputError(
                f"`texts` must fit the model's context of {model.context} tokens with what comes before them; text {i} has "
                f"{len(tokens)}. Cut it to {room} tokens."
            )
        opened.append((before, tokens))
    return opened


def _opening(model: NextToken) -> list[int]:
    if len(model.end) != 1:
        raise InputError(
            f"`given` must say what opens a text for {model.name}, which has {len(model.end)} ends of text: pass "
            "[[token]] * len(texts), with the token that begins a text."
        )
    return list(model.end)


def _check_tokens(model: NextToken, tokens: Sequence[int], name: str) -> None:
    if len(tokens) == 0:
        raise InputError(f"{name} must have at least one token; got none.")
    if min(tokens) < 0 or max(tokens) >= model.vocabulary:
        raise InputError(
            f"{name} must hold tokens from 0 to {model.vocabulary - 1}; got {min(tokens)} to {max(tokens)}. "
            "Were they made by another model's tokenizer?"
        )


def steps_through(
    model: NextToken, opened: Opened, chain: Chain, batch: int
) -> Iterator[tuple[NDArray[np.intp], int, LogProbs, Tokens]]:
    """Places of texts, a position in them, their distributions (b, vocabulary) there, and the tokens that stand there."""
    opened = [(before if len(before) else _opening(model), tokens) for before, tokens in opened]
    # The longest first: the texts of a batch have about the same length, and those that are through are the last rows.
    order = np.argsort([-len(tokens) for _, tokens in opened], kind="stable")
    for first in range(0, len(order), batch):
        places = order[first : first + batch]
        lengths = np.array([len(opened[place][1]) for place in places])
        rows, state = model.start([opened[place][0] for place in places])
        _check_rows(rows, len(places), model)
        for position in range(lengths[0]):
            tokens = np.array([opened[place][1][position] for place in places], np.int64)
            yield places, position, chain(rows), tokens
            going = int((lengths > position + 1).sum())
            if going == 0:
                break
            if going < len(places):
                places, tokens = places[:going], tokens[:going]
                state = model.select(state, np.arange(going))
            rows, state = model.step(state, tokens)


def _check_rows(rows: LogProbs, count: int, model: NextToken) -> None:
    """The first rows of a batch; looking at all of them would take as long as many a model."""
    if rows.shape != (count, model.vocabulary):
        raise InputError(
            f"`model` must give one row of {model.vocabulary} log-probabilities a text; {model.name} gave shape "
            f"{rows.shape} for {count}."
        )
    with np.errstate(over="ignore"):
        refuse_unnormalised(float(np.exp(rows[0]).sum(dtype=np.float64)), model)


def refuse_unnormalised(total: float, model: NextToken) -> None:
    """Raise an InputError if the probabilities of a row do not sum to 1."""
    if not abs(total - 1.0) <= _SUM_TOLERANCE:
        raise InputError(
            f"`model` must give log-probabilities, which sum to 1 after exp; a row of {model.name} sums to {total:.4g}. "
            "Subtract scipy.special.logsumexp of each row from logits."
        )


def _whole_text(model: SequenceScores, tokens: Sequence[int], before: Sequence[int], name: str) -> Floats:
    scores = np.array(model.log_prob(tokens, before if len(before) else None), np.float64)
    if scores.shape != (len(tokens),):
        raise InputError(
            f"`log_prob` must give one number a token; got shape {scores.shape} for {len(tokens)} of {name}."
        )
    return checked_scores(scores, name)


def checked_scores(scores: Floats, name: str) -> Floats:
    """The log-probabilities of a text, none of them above 0."""
    bad = np.flatnonzero(~(scores <= _SUM_TOLERANCE))
    if len(bad):
        raise InputError(
            f"`model` must give log-probabilities, which are at most 0; got {scores[bad[0]]:.4g} for token {bad[0]} of {name}."
        )
    return np.minimum(scores, 0.0)  # a rounding error above 0 is 0
