"""Decoding one token after the other: sampling, greedy and adversarial decoding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError
from mallow.generate._decoders import Adversarial, Sampling
from mallow.generate._protocol import LogProbs, NextToken, Tokens
from mallow.generate._rules import Chain


@dataclass(frozen=True)
class Job:
    """Prefixes that are continued together."""

    model: NextToken
    prefixes: Sequence[Sequence[int]]
    max_new: int
    min_new: int
    generators: Sequence[np.random.Generator]

    @property
    def end(self) -> Tokens:
        """The tokens that end a text."""
        return np.array(sorted(self.model.end), np.int64)


Choice = Callable[[LogProbs, NDArray[np.intp], int], NDArray[np.integer[Any]]]
"""The next tokens, from log-probabilities (b, vocabulary), the places of these rows among the prefixes, and the step."""


def choose_stepwise(job: Job, choose: Choice, *, min_new: int) -> list[list[int]]:
    """Tokens chosen one after the other; texts that have ended leave the batch."""
    model = job.model
    new: list[list[int]] = [[] for _ in job.prefixes]
    places = np.arange(len(job.prefixes))
    rows, state = model.start(job.prefixes)
    for step in range(job.max_new):
        if step < min_new:
            rows = exclude_end(rows, job.end)
        tokens = np.asarray(choose(rows, places, step), np.int64)
        going = np.flatnonzero(~np.isin(tokens, job.end))
        for row in going:
            new[places[row]].append(int(tokens[row]))
        if step == job.max_new - 1 or len(going) == 0:
            break
        if len(going) < len(tokens):
            places, tokens, state = places[going], tokens[going], model.select(state, going)
        rows, state = model.step(state, tokens)
    return new


def exclude_end(rows: LogProbs, end: Tokens) -> LogProbs:
    """The rows under the condition that the text does not end here."""
    if len(end) == 0:
        return rows
    rows = _mask_end(rows, end)
    rows -= rows.max(axis=1, keepdims=True)
    rows -= np.log(np.exp(rows).sum(axis=1, dtype=np.float64, keepdims=True)).astype(rows.dtype)
    return rows


def _mask_end(rows: LogProbs, end: Tokens) -> LogProbs:
    """The rows with −∞ for the end of the text, not renormalised."""
    rows = rows.copy()
    rows[:, end] = -np.inf
    if not (rows.max(axis=1) > -np.inf).all():
        raise InputError(
            "The text must not end here (`min_new`, or adversarial decoding), but the model allows nothing else. "
            "Lower min_new or choose another decoder."
        )
    return rows


# --- choices


def likeliest_tokens(rows: LogProbs, _places: NDArray[np.intp], _step: int) -> NDArray[np.intp]:
    """Greedy decoding."""
    return np.asarray(rows.argmax(axis=1))


def draw_tokens(job: Job, options: Sampling) -> Choice:
    """Tokens drawn from the distribution that the rules leave."""
    chain = Chain(options.rules)

    def choose(rows: LogProbs, places: NDArray[np.intp], _step: int) -> Tokens:
        rows = chain(rows)
        uniform = [job.generators[place].random() for place in places]
        return np.array([_invert(row, u) for row, u in zip(rows, uniform, strict=True)], np.int64)

    return choose


def _invert(row: LogProbs, uniform: float) -> int:
    """The token at which the distribution function reaches a uniform number; never one with probability 0."""
    places = np.flatnonzero(row > -np.inf)
    reached = np.cumsum(np.exp(row[places]), dtype=np.float64)
    place = np.searchsorted(reached, uniform * reached[-1], side="right")
    last = np.searchsorted(reached, reached[-1])  # the last token that adds to the sum
    return int(places[min(place, last)])


def steer_perplexity(job: Job, options: Adversarial) -> Choice:
    """The adversary: uniform tokens first, then whichever token brings the mean surprisal nearest to its target."""
    target = math.log(options.perplexity)
    uniform_steps = math.ceil(options.uniform_share * job.max_new)
    surprisal = np.zeros(len(job.prefixes))  # of the new tokens so far

    def choose(rows: LogProbs, places: NDArray[np.intp], step: int) -> Tokens:
        rows = _mask_end(rows, job.end)
        tokens = np.empty(len(rows), np.int64)
        for i, (row, place) in enumerate(zip(rows, places, strict=True)):
            if step < uniform_steps:
                possible = np.flatnonzero(row > -np.inf)
                tokens[i] = possible[int(job.generators[place].random() * len(possible))]
            else:
                wanted = target * (step + 1) - surprisal[place]
                tokens[i] = np.abs(row + wanted).argmin()
            surprisal[place] -= row[tokens[i]]
        return tokens

    return choose
