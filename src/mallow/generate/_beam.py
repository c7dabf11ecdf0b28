"""Beam search: the best continuations of each prefix, extended together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mallow.generate._decoders import Beam
from mallow.generate._kept_tokens import largest
from mallow.generate._protocol import LogProbs, Tokens
from mallow.generate._steps import Job


@dataclass(frozen=True)
class _Hypothesis:
    score: float  # log-probability
    tokens: tuple[int, ...]
    row: int  # of the batch that its last token was appended to


def search_beam(job: Job, options: Beam) -> list[list[int]]:
    """The best continuation of each prefix."""
    model, count = job.model, len(job.prefixes)
    beams = [[_Hypothesis(0.0, (), i)] for i in range(count)]
    best: list[tuple[float, tuple[int, ...]]] = [(-math.inf, ()) for _ in range(count)]
    rows, state = model.start(job.prefixes)
    for step in range(job.max_new):
        for i, beam in enumerate(beams):
            if not beam:
                continue
            ended, going = _extend(rows, beam, job, options, job.prefixes[i], step)
            if not going and not ended and best[i][0] == -math.inf:
                ended = beam[:1]  # no continuation is allowed: the text stays as it is
            if step == job.max_new - 1:
                ended, going = [*ended, *going], []
            for hypothesis in ended:
                score = hypothesis.score / (step + 1) ** options.length_penalty
                if score > best[i][0]:
                    best[i] = (score, hypothesis.tokens)
            beams[i] = going if going and _can_win(going[0], best[i][0], step, job.max_new, options) else []
        alive = [hypothesis for beam in beams for hypothesis in beam]
        if not alive:
            break
        # The rows of the next batch are those of all beams, one beam after the other.
        state = model.select(state, np.array([hypothesis.row for hypothesis in alive], np.int64))
        rows, state = model.step(state, np.array([hypothesis.tokens[-1] for hypothesis in alive], np.int64))
        numbers = iter(range(len(alive)))
        beams = [[_Hypothesis(old.score, old.tokens, next(numbers)) for old in beam] for beam in beams]
    return [list(tokens) for _, tokens in best]


def _can_win(leader: _Hypothesis, best: float, step: int, max_new: int, options: Beam) -> bool:
    """Whether a continuation of the most likely text can still beat the best: its log-probability can only fall."""
    lengths = np.array([step + 2, max_new], np.float64)
    return bool((leader.score / lengths**options.length_penalty).max() > best)


def _extend(
    rows: LogProbs, beam: list[_Hypothesis], job: Job, options: Beam, prefix: Sequence[int], step: int
) -> tuple[list[_Hypothesis], list[_Hypothesis]]:
    """The continuations of a beam by one token: those that end the text, and those that go on, the most likely first."""
    end = job.model.end
    ranked: list[tuple[float, int, int]] = []
    for number, old in enumerate(beam):
        row = rows[old.row].astype(np.float64)
        if options.no_repeat is not None:
            row[_repeating(np.array([*prefix, *old.tokens]), options.no_repeat, job.end)] = -np.inf
        if step < job.min_new:
            row[job.end] = -np.inf
        # No more than these can be among the `width` best that go on, or among the `width` best of all.
        ranked += [(-(old.score + row[token]), number, int(token)) for token in largest(row, options.width + len(end))]
    ranked.sort()  # equal scores: by their place in the beam, then by token
    ended: list[_Hypothesis] = []
    going: list[_Hypothesis] = []
    for rank, (negative, number, token) in enumerate(ranked):
        old = beam[number]
        if token not in end:
            if len(going) < options.width:
                going.append(_Hypothesis(-negative, (*old.tokens, token), old.row))
        elif rank < options.width:
            ended.append(_Hypothesis(-negative, old.tokens, old.row))
    return ended, going


def _repeating(tokens: Tokens, size: int, end: Tokens) -> Tokens:
    """Tokens that would complete an n-gram of this size for a second time; never an end."""
    if len(tokens) < size:
        return tokens[:0]
    windows = sliding_window_view(tokens, size)
    same = (windows[:, :-1] == tokens[len(tokens) - size + 1 :]).all(axis=1)
    return np.setdiff1d(windows[same, -1], end)
