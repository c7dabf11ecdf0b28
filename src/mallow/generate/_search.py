"""From a language model and prefixes to new tokens: one call for every decoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from mallow._checks import seed_from, whole
from mallow.errors import InputError
from mallow.generate._decoders import Adversarial, Beam, Contrastive, Decoder, Greedy, Sampling, resolve_decoder
from mallow.generate._protocol import HiddenStates, LogProbs, NextToken, Tokens
from mallow.generate._rules import Chain, largest

Choice = Callable[[LogProbs, NDArray[np.intp], int], NDArray[np.integer[Any]]]
"""Next tokens from log-probabilities (b, vocabulary), the numbers of their rows among the prefixes, and the step."""


def generate(
    model: NextToken,
    prefixes: Sequence[Sequence[int]],
    decoder: Decoder | str,
    *,
    max_new: int,
    min_new: int = 0,
    rng: int | np.random.Generator | None = 0,
    keys: Sequence[int] | None = None,
    batch: int = 64,
) -> list[list[int]]:
    """The new tokens of each prefix, at most `max_new`, without the token that ends the text.

    Parameters
    ----------
    model : NextToken
    prefixes : sequence of sequences of int
        Tokens, at least one each. To start a new text, pass the token that begins a text, often the model's end of
        text.
    decoder : Decoder or str
        Such as ``Sampling((Nucleus(0.95),))`` or ``"nucleus:0.95"``.
    max_new : int
        The maximum number of new tokens.
    min_new : int
        The number of new tokens before a text may end.
    rng : int, Generator or None
        An integer gives the same tokens in every call. A Generator continues from call to call; None: different each
        time.
    keys : sequence of int or None
        A number for each prefix, by default its place. Together with `rng` it determines the random numbers of that
        prefix, so a prefix with the same key has the same continuation in any batch.
    batch : int
        Prefixes that the model reads together.

    Examples
    --------
    >>> from mallow.generate import NGram
    >>> model = NGram.fit(["a rose is a rose is a rose"], order=3, min_count=1)
    >>> [new] = generate(model, [model.encode("a rose")], "greedy", max_new=3)
    >>> model.decode(new)
    ' is a rose'
    """
    chosen = resolve_decoder(decoder)
    whole("max_new", max_new, least=1)
    whole("min_new", min_new, least=0)
    whole("batch", batch, least=1)
    if min_new > max_new:
        raise InputError(f"`min_new` must be at most max_new = {max_new}; got {min_new}.")
    _check_prefixes(model, prefixes, max_new)
    if isinstance(chosen, Contrastive) and not isinstance(model, HiddenStates):
        raise InputError(
            f"`decoder` must not be contrastive search for a model without hidden states, such as {model.name}. "
            "Add a method `hidden` to the model (mallow.generate.HiddenStates), or choose another decoder."
        )
    generators = _generators(rng, range(len(prefixes)) if keys is None else keys, len(prefixes))
    new: list[list[int]] = []
    for first in range(0, len(prefixes), batch):
        part = slice(first, first + batch)
        new += _run(Job(model, prefixes[part], max_new, min_new, generators[part]), chosen)
    return new


def _run(job: Job, chosen: Decoder) -> list[list[int]]:
    match chosen:
        case Sampling():
            return choose_stepwise(job, draw_tokens(job, chosen), min_new=job.min_new)
        case Greedy():
            return choose_stepwise(job, lambda rows, places, step: rows.argmax(axis=1), min_new=job.min_new)
        case Adversarial():
            # These texts never end early, and are scored by the model's own rows, so the rows must not be renormalised.
            return choose_stepwise(job, steer_perplexity(job, chosen), min_new=0)
        case Beam():
            return search_beam(job, chosen)
        case Contrastive():
            return search_contrastive(job, cast(HiddenStates, job.model), chosen)  # checked in `generate`


def _check_prefixes(model: NextToken, prefixes: Sequence[Sequence[int]], max_new: int) -> None:
    for i, prefix in enumerate(prefixes):
        if len(prefix) == 0:
            raise InputError(
                f"`prefixes` must have at least one token each; prefix {i} is empty. For a text from its beginning "
                f"pass the token that begins a text, often the model's end of text {sorted(model.end)}."
            )
        if min(prefix) < 0 or max(prefix) >= model.vocabulary:
            raise InputError(
                f"`prefixes` must hold tokens from 0 to {model.vocabulary - 1}; prefix {i} has {min(prefix)} to "
                f"{max(prefix)}."
            )
        if model.context is None:
            continue
        if len(prefix) >= model.context:
            raise InputError(
                f"`prefixes` must be shorter than the model's context of {model.context} tokens; prefix {i} has "
                f"{len(prefix)}. Cut it."
            )
        if len(prefix) + max_new > model.context:
            raise InputError(
                f"`max_new` must keep prefix and continuation within the model's context of {model.context} tokens; "
                f"got {len(prefix)} + {max_new} for prefix {i}. Use `max_new={model.context - len(prefix)}` or cut the "
                "prefix."
            )


def _generators(rng: int | np.random.Generator | None, keys: Sequence[int], count: int) -> list[np.random.Generator]:
    """A source of random numbers for each prefix, which depends only on `rng` and the prefix's key."""
    if len(keys) != count:
        raise InputError(f"`keys` must hold one number for each of {count} prefixes; got {len(keys)}.")
    # A generator gives 16 bytes, more than `seed_from` draws. Texts of published runs depend on it.
    entropy = int.from_bytes(rng.bytes(16), "little") if isinstance(rng, np.random.Generator) else seed_from(rng)
    return [
        np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(whole("keys", key, least=0),))) for key in keys
    ]


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


def choose_stepwise(job: Job, choose: Choice, *, min_new: int) -> list[list[int]]:
    """Tokens are chosen one after the other, and finished texts leave the batch."""
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
    """The distributions given that the text does not end at this token."""
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


def draw_tokens(job: Job, options: Sampling) -> Choice:
    """Tokens drawn from the distribution after the rules."""
    chain = Chain(options.rules)

    def choose(rows: LogProbs, places: NDArray[np.intp], _step: int) -> Tokens:
        rows = chain(rows)
        uniform = [job.generators[prompt].random() for prompt in places]
        return np.array([_invert(row, u) for row, u in zip(rows, uniform, strict=True)], np.int64)

    return choose


def _invert(row: LogProbs, uniform: float) -> int:
    """The token at which the distribution function reaches a uniform number; never a token with probability 0."""
    places = np.flatnonzero(row > -np.inf)
    reached = np.cumsum(np.exp(row[places]), dtype=np.float64)
    position = np.searchsorted(reached, uniform * reached[-1], side="right")
    last = np.searchsorted(reached, reached[-1])  # the last token that adds to the sum
    return int(places[min(position, last)])


def steer_perplexity(job: Job, options: Adversarial) -> Choice:
    """The adversary: uniform tokens first, then the token that brings the mean surprisal nearest to its target."""
    target = math.log(options.perplexity)
    uniform_steps = math.ceil(options.uniform_share * job.max_new)
    surprisal = np.zeros(len(job.prefixes))  # of the new tokens so far

    def choose(rows: LogProbs, places: NDArray[np.intp], step: int) -> Tokens:
        rows = _mask_end(rows, job.end)
        tokens = np.empty(len(rows), np.int64)
        for i, (row, prompt) in enumerate(zip(rows, places, strict=True)):
            if step < uniform_steps:
                possible = np.flatnonzero(row > -np.inf)
                tokens[i] = possible[int(job.generators[prompt].random() * len(possible))]
            else:
                wanted = target * (step + 1) - surprisal[prompt]
                tokens[i] = np.abs(row + wanted).argmin()
            surprisal[prompt] -= row[tokens[i]]
        return tokens

    return choose


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
                ended = beam[:1]  # no continuation is allowed, so the text does not change
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
        # The next batch has the rows of all beams, one beam after the other.
        state = model.select(state, np.array([hypothesis.row for hypothesis in alive], np.int64))
        rows, state = model.step(state, np.array([hypothesis.tokens[-1] for hypothesis in alive], np.int64))
        numbers = iter(range(len(alive)))
        beams = [[_Hypothesis(old.score, old.tokens, next(numbers)) for old in beam] for beam in beams]
    return [list(tokens) for _, tokens in best]


def _can_win(leader: _Hypothesis, best: float, step: int, max_new: int, options: Beam) -> bool:
    """Whether a continuation of the most likely text can still win: its log-probability can only fall."""
    lengths = np.array([step + 2, max_new], np.float64)
    return bool((leader.score / lengths**options.length_penalty).max() > best)


def _extend(
    rows: LogProbs, beam: list[_Hypothesis], job: Job, options: Beam, prefix: Sequence[int], step: int
) -> tuple[list[_Hypothesis], list[_Hypothesis]]:
    """The continuations of a beam by one token: those that end the text and those that go on, the most likely first."""
    end = job.model.end
    ranked: list[tuple[float, int, int]] = []
    for number, old in enumerate(beam):
        row = rows[old.row].astype(np.float64)
        if options.no_repeat is not None:
            row[_repeating(np.array([*prefix, *old.tokens]), options.no_repeat, job.end)] = -np.inf
        if step < job.min_new:
            row[job.end] = -np.inf
        # No others can be among the `width` best that go on, or among the `width` best of all.
        ranked += [(-(old.score + row[token]), number, int(token)) for token in largest(row, options.width + len(end))]
    ranked.sort()  # equal scores are ordered by their place in the beam, then by token
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


def search_contrastive(job: Job, model: HiddenStates, options: Contrastive) -> list[list[int]]:
    """The continuation of each prefix; `model` is the job's model."""
    new: list[list[int]] = [[] for _ in job.prefixes]
    places = np.arange(len(job.prefixes))
    rows, state = model.start(job.prefixes)
    past = [_directions(vectors) for vectors in model.hidden(state)]  # of each prefix (t, d), normalised to length 1
    for step in range(job.max_new):
        if step < job.min_new:
            rows = exclude_end(rows, job.end)
        candidates = [largest(row, options.k) for row in rows]
        owner = np.repeat(np.arange(len(rows)), [len(tokens) for tokens in candidates])  # row of each candidate
        tokens = np.concatenate(candidates).astype(np.int64)
        next_rows, state = model.step(model.select(state, owner), tokens)
        directions = np.concatenate([_directions(vectors) for vectors in model.hidden(state)])
        likeness = [(past[places[row]] @ vector).max() for row, vector in zip(owner, directions, strict=True)]
        probability = np.exp(rows[owner, tokens].astype(np.float64))
        scores = (1 - options.penalty) * probability - options.penalty * np.array(likeness)
        best = np.array([np.flatnonzero(owner == row)[scores[owner == row].argmax()] for row in range(len(rows))])
        going = np.flatnonzero(~np.isin(tokens[best], job.end))
        if len(going) == 0:
            break
        kept, places = best[going], places[going]
        for prompt, candidate in zip(places, kept, strict=True):
            new[prompt].append(int(tokens[candidate]))
            past[prompt] = np.concatenate([past[prompt], directions[candidate][None]])
        rows, state = next_rows[kept], model.select(state, kept)
    return new


def _directions(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The vectors divided by their lengths. A zero vector stays zero."""
    vectors = np.asarray(vectors, np.float64)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0))
