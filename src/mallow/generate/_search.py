"""From a language model and prefixes to new tokens: sampling, greedy, beam, adversarial and contrastive decoding."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from mallow._checks import positive, whole
from mallow.errors import InputError
from mallow.generate._protocol import LogProbs, NextToken, Tokens
from mallow.generate._rules import Chain, Eta, MinP, Nucleus, Rule, Temperature, TopK, Typical, largest

__all__ = [
    "Adversarial",
    "Beam",
    "Contrastive",
    "Decoder",
    "Greedy",
    "HiddenStates",
    "Sampling",
    "decoder",
    "generate",
]


@dataclass(frozen=True)
class Sampling:
    """Each token is drawn from the model's distribution after some rules; without rules this is ancestral sampling.

    Paper: sec:bg:lms. One uniform number a token is turned into a token by the inverse distribution function, so that a
    difference of 1e-6 in the model's probabilities changes a token about once in a million.
    """

    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", Chain(self.rules).rules)

    @property
    def name(self) -> str:
        """The decoder as `decoder` reads it."""
        return Chain(self.rules).name


@dataclass(frozen=True)
class Greedy:
    """The likeliest token each time (paper: sec:bg:lms, top-K with K = 1); of equals the one with the lowest id."""

    @property
    def name(self) -> str:
        """The decoder as `decoder` reads it."""
        return "greedy"


@dataclass(frozen=True)
class Beam:
    """The best continuation among those that a beam of `width` prefixes reaches (paper: setup, beam search).

    Each step ranks all one-token continuations of the beam by log-probability. Those among the first `width` that end the
    text are finished; the best `width` that do not end it go on. In the end the finished and the unfinished ones compete by
    log-probability / length ** length_penalty, the end of a text counting as a token. The search stops early only where no
    continuation can win any more, so that stopping changes nothing.

    Parameters
    ----------
    width : int
        The paper's b. From vocabulary ** length on the search is exact.
    length_penalty : float
        0: the likeliest text, which is often a short one. 1, the usual choice: the highest log-probability a token.
    no_repeat : int or None
        Leave out tokens that complete an n-gram of this length which the prefix with its continuation has already (the
        paper's "no 4-gram repeat" is 4). The tokens that are left keep their log-probabilities; ends are never left out. A
        text that cannot go on stays as it is.
    """

    width: int
    length_penalty: float = 1.0
    no_repeat: int | None = None

    def __post_init__(self) -> None:
        whole("width", self.width, least=1)
        if not (isinstance(self.length_penalty, (int, float)) and math.isfinite(self.length_penalty)):
            raise InputError(f"`length_penalty` must be a finite number; got {self.length_penalty!r}.")
        if self.no_repeat is not None:
            whole("no_repeat", self.no_repeat, least=1)

    @property
    def name(self) -> str:
        """The decoder as `decoder` reads it."""
        repeat = "" if self.no_repeat is None else f":no-repeat={self.no_repeat}"
        return f"beam:{self.width}:length-penalty={self.length_penalty!r}{repeat}"


@dataclass(frozen=True)
class Adversarial:
    """Gibberish with the perplexity of human text (paper: setup, adversarial perplexity sampling).

    The first `uniform_share` of max_new tokens, rounded up, are uniform over the vocabulary; then each token is the one that
    brings the perplexity of all new tokens so far, under the model and after the prefix, nearest to `perplexity`. The paper
    leaves open: near is meant for the logarithm, the mean surprisal; texts never end before max_new tokens, since 15 % of
    them presumes a length; tokens that the model holds for impossible are not drawn.

    Parameters
    ----------
    perplexity : float
        Of human text under this model: above 1.
    uniform_share : float
        The paper's 15 %.
    """

    perplexity: float
    uniform_share: float = 0.15

    def __post_init__(self) -> None:
        positive("perplexity", self.perplexity)
        if self.perplexity <= 1:
            raise InputError(
                f"`perplexity` must be above 1, that of a text known for certain; got {self.perplexity!r}."
            )
        _unit("uniform_share", self.uniform_share)

    @property
    def name(self) -> str:
        """The decoder as `decoder` reads it."""
        share = "" if self.uniform_share == 0.15 else f":uniform-share={self.uniform_share!r}"
        return f"adversarial:{self.perplexity!r}{share}"


@dataclass(frozen=True)
class Contrastive:
    """Of the k likeliest tokens the best by (1 − α)·P − α·(largest cosine with a hidden state so far), α = penalty.

    Su et al. 2022. At penalty 0 this is greedy decoding. The model must be a `HiddenStates`.
    """

    k: int
    penalty: float = 0.6

    def __post_init__(self) -> None:
        whole("k", self.k, least=1)
        _unit("penalty", self.penalty)

    @property
    def name(self) -> str:
        """The decoder as `decoder` reads it."""
        return f"contrastive:{self.k}:{self.penalty!r}"


Decoder = Sampling | Greedy | Beam | Adversarial | Contrastive
"""How tokens are chosen."""


@runtime_checkable
class HiddenStates(NextToken, Protocol):
    """A language model that also shows its hidden states: what contrastive search needs."""

    def hidden(self, state: Any, /) -> Sequence[NDArray[np.floating[Any]]]:
        """For each row the last layer's vectors (t, d) of the t tokens that the last `start` or `step` took in.

        After `start` these are all tokens of the prefix, without padding; after `step` it is one. `select` selects them too.
        """
        ...


def generate(
    model: NextToken,
    prefixes: Sequence[Sequence[int]],
    decoder: Decoder | str,
    *,
    max_new: int,
    min_new: int = 0,
    rng: int | np.random.Generator = 0,
    keys: Sequence[int] | None = None,
    batch: int = 64,
) -> list[list[int]]:
    """The new tokens of each prefix, at most `max_new`, without the token that ends the text.

    Parameters
    ----------
    model : NextToken
    prefixes : sequence of sequences of int
        Tokens, at least one each. Begin from nothing with the token that the model has for this, often its end of text.
    decoder : Decoder or str
        Such as ``Sampling((Nucleus(0.95),))`` or ``"nucleus:0.95"``.
    max_new, min_new : int
        The most tokens, and how many must come before a text may end.
    rng : int or Generator
        A number gives the same tokens in every call; a Generator goes on from call to call.
    keys : sequence of int or None
        A number for each prefix, by default its place: with `rng` it decides on the random numbers of that prefix alone. So a
        prefix has the same continuation in any batch and in any company, if its key goes with it.
    batch : int
        Prefixes that the model sees together.

    Examples
    --------
    >>> from mallow.generate._ngram import NGram
    >>> model = NGram.fit(["a rose is a rose is a rose"], order=3, min_count=1)
    >>> [new] = generate(model, [model.encode("a rose")], "greedy", max_new=3)
    >>> model.decode(new)
    ' is a rose'
    """
    chosen = _named(decoder)
    whole("max_new", max_new, least=1)
    whole("min_new", min_new, least=0)
    whole("batch", batch, least=1)
    if min_new > max_new:
        raise InputError(f"`min_new` must be at most max_new = {max_new}; got {min_new}.")
    _check_prefixes(model, prefixes, max_new)
    if isinstance(chosen, Contrastive) and not isinstance(model, HiddenStates):
        raise InputError(
            f"`decoder` must not be contrastive search for a model without hidden states, such as {model.name}. "
            "Give the model a method `hidden` (mallow.generate.HiddenStates), or choose another decoder."
        )
    rngs = _generators(rng, range(len(prefixes)) if keys is None else keys, len(prefixes))
    new: list[list[int]] = []
    for first in range(0, len(prefixes), batch):
        part = slice(first, first + batch)
        new += _run(_Job(model, prefixes[part], max_new, min_new, rngs[part]), chosen)
    return new


# --- names


def decoder(name: str) -> Decoder:
    """The decoder that a name stands for; the `name` of every decoder of this module reads back.

    - ``ancestral``, ``greedy``
    - ``temperature:T``, ``top-k:K``, ``nucleus:P``, ``typical:TAU``, ``eta:EPSILON``, ``min-p:P``, or several joined by +
    - ``beam:WIDTH``, with ``:length-penalty=L`` and ``:no-repeat=N``
    - ``adversarial:PERPLEXITY``, with ``:uniform-share=S``
    - ``contrastive:K:PENALTY``

    Examples
    --------
    >>> decoder("temperature:0.7+top-k:50")
    Sampling(rules=(Temperature(temperature=0.7), TopK(k=50)))
    >>> decoder("beam:4:no-repeat=4")
    Beam(width=4, length_penalty=1.0, no_repeat=4)
    """
    parts = [_parsed(part, name) for part in name.split("+")]
    rules = [part for part in parts if not isinstance(part, Decoder)]
    if len(rules) == len(parts):
        return Sampling(tuple(rules))
    if len(parts) == 1 and isinstance(parts[0], Decoder):
        return parts[0]
    raise InputError(f"`decoder` must join only rules ({', '.join(_RULES)}) by +; got {name!r}.")


def _named(value: Decoder | str) -> Decoder:
    if isinstance(value, str):
        return decoder(value)
    if not isinstance(value, Decoder):
        raise InputError(
            f"`decoder` must be a decoder such as Sampling() or a name such as 'nucleus:0.95'; got {value!r}."
        )
    return value


@dataclass(frozen=True)
class _Reader:
    """How the text after a name is read: values in their order, and options by name."""

    make: Callable[..., Rule | Decoder]
    values: tuple[tuple[str, Callable[[str], Any]], ...] = ()
    options: dict[str, tuple[str, Callable[[str], Any]]] = field(default_factory=dict)


_RULES = {
    "temperature": _Reader(Temperature, (("T", float),)),
    "top-k": _Reader(TopK, (("K", int),)),
    "nucleus": _Reader(Nucleus, (("P", float),)),
    "typical": _Reader(Typical, (("TAU", float),)),
    "eta": _Reader(Eta, (("EPSILON", float),)),
    "min-p": _Reader(MinP, (("P", float),)),
}
_READERS = {
    "ancestral": _Reader(Sampling),
    "greedy": _Reader(Greedy),
    **_RULES,
    "beam": _Reader(
        Beam, (("WIDTH", int),), {"length-penalty": ("length_penalty", float), "no-repeat": ("no_repeat", int)}
    ),
    "adversarial": _Reader(Adversarial, (("PERPLEXITY", float),), {"uniform-share": ("uniform_share", float)}),
    "contrastive": _Reader(Contrastive, (("K", int), ("PENALTY", float))),
}


def _parsed(part: str, whole_name: str) -> Rule | Decoder:
    word, *given = part.strip().split(":")
    if word not in _READERS:
        raise InputError(
            f"`decoder` must be one of {', '.join(_READERS)}; got {whole_name!r}.{_nearest(word, _READERS)}"
        )
    reader = _READERS[word]
    values = [each for each in given if "=" not in each]
    usage = ":".join([word, *(letters for letters, _ in reader.values)])
    if len(values) != len(reader.values):
        raise InputError(f"`decoder` must be written {usage}; got {part.strip()!r}.")
    options = {}
    for option, _, text in (each.partition("=") for each in given if "=" in each):
        if option not in reader.options:
            known = ", ".join(f"{each}=" for each in reader.options) or "none"
            raise InputError(
                f"`decoder` {word} has options {known}; got {option!r} in {whole_name!r}.{_nearest(option, reader.options)}"
            )
        keyword, read = reader.options[option]
        options[keyword] = _number(text, read, f"{usage}:{option}=", part)
    numbers = [_number(text, read, usage, part) for text, (_, read) in zip(values, reader.values, strict=True)]
    return reader.make(*numbers, **options)


def _number(text: str, read: Callable[[str], Any], usage: str, part: str) -> Any:
    try:
        return read(text)
    except ValueError:
        kind = "a whole number" if read is int else "a number"
        raise InputError(f"`decoder` must have {kind} in {usage}; got {text!r} in {part.strip()!r}.") from None


def _nearest(word: str, known: Any) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""


# --- the door


def _check_prefixes(model: NextToken, prefixes: Sequence[Sequence[int]], max_new: int) -> None:
    for i, prefix in enumerate(prefixes):
        if len(prefix) == 0:
            raise InputError(
                f"`prefixes` must each have at least one token; prefix {i} is empty. Begin from nothing with the token that "
                f"the model has for this, often its end of text {sorted(model.end)}."
            )
        if min(prefix) < 0 or max(prefix) >= model.vocabulary:
            raise InputError(
                f"`prefixes` must hold tokens from 0 to {model.vocabulary - 1}; prefix {i} has {min(prefix)} to {max(prefix)}."
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
                f"`max_new` must leave prefix and continuation within the model's context of {model.context} tokens; got "
                f"{len(prefix)} + {max_new} for prefix {i}. Use max_new={model.context - len(prefix)} or cut the prefix."
            )


def _generators(rng: int | np.random.Generator, keys: Sequence[int], count: int) -> list[np.random.Generator]:
    """A source of random numbers for each prefix, that depends on `rng` and the prefix's key alone."""
    if len(keys) != count:
        raise InputError(f"`keys` must hold one number for each of {count} prefixes; got {len(keys)}.")
    if isinstance(rng, np.random.Generator):
        entropy = int.from_bytes(rng.bytes(16), "little")
    else:
        entropy = whole("rng", rng, least=0)
    return [
        np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(whole("keys", key, least=0),))) for key in keys
    ]


def _unit(name: str, value: float) -> None:
    if not (isinstance(value, (int, float, np.integer, np.floating)) and 0 <= value <= 1):
        raise InputError(f"`{name}` must lie between 0 and 1; got {value!r}.")


# --- one token after the other


@dataclass(frozen=True)
class _Job:
    """Prefixes that are continued together."""

    model: NextToken
    prefixes: Sequence[Sequence[int]]
    max_new: int
    min_new: int
    rngs: Sequence[np.random.Generator]

    @property
    def end(self) -> Tokens:
        """The tokens that end a text."""
        return np.array(sorted(self.model.end), np.int64)


def _run(job: _Job, chosen: Decoder) -> list[list[int]]:
    match chosen:
        case Sampling():
            return _stepwise(job, _Draw(job, Chain(chosen.rules)), job.min_new)
        case Greedy():
            return _stepwise(job, lambda rows, _places, _step: rows.argmax(axis=1), job.min_new)
        case Adversarial():
            return _stepwise(job, _Steer(job, chosen), 0)  # never ends, and scores by the model's own rows
        case Beam():
            return _beam(job, chosen)
        case Contrastive():
            return _contrastive(job, chosen)


# From log-probabilities (b, vocabulary), the places of the rows among the prefixes and the step: the next tokens.
_Choice = Callable[[LogProbs, NDArray[np.intp], int], NDArray[np.integer[Any]]]


def _stepwise(job: _Job, choose: _Choice, min_new: int) -> list[list[int]]:
    """Tokens chosen one after the other; texts that have ended leave the batch."""
    model = job.model
    new: list[list[int]] = [[] for _ in job.prefixes]
    places = np.arange(len(job.prefixes))
    rows, state = model.start(job.prefixes)
    for step in range(job.max_new):
        if step < min_new:
            rows = _without_end(rows, job.end)
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


def _without_end(rows: LogProbs, end: Tokens) -> LogProbs:
    """The rows given that the text does not end here."""
    if len(end) == 0:
        return rows
    rows = _going_on(rows, end)
    rows -= rows.max(axis=1, keepdims=True)
    rows -= np.log(np.exp(rows).sum(axis=1, dtype=np.float64, keepdims=True)).astype(rows.dtype)
    return rows


def _going_on(rows: LogProbs, end: Tokens) -> LogProbs:
    """The rows with −∞ for the end of the text, not renormalised."""
    rows = rows.copy()
    rows[:, end] = -np.inf
    if not (rows.max(axis=1) > -np.inf).all():
        raise InputError(
            "The text must go on here (`min_new`, or adversarial decoding), but the model knows nothing but its end. "
            "Lower min_new or choose another decoder."
        )
    return rows


@dataclass(frozen=True)
class _Draw:
    job: _Job
    chain: Chain

    def __call__(self, rows: LogProbs, places: NDArray[np.intp], _step: int) -> Tokens:
        rows = self.chain(rows)
        uniform = [self.job.rngs[place].random() for place in places]
        return np.array([_drawn(row, u) for row, u in zip(rows, uniform, strict=True)], np.int64)


def _drawn(row: LogProbs, uniform: float) -> int:
    """The token at a uniform number's place in the distribution function; never one of probability 0."""
    places = np.flatnonzero(row > -np.inf)
    reached = np.cumsum(np.exp(row[places]), dtype=np.float64)
    place = np.searchsorted(reached, uniform * reached[-1], side="right")
    last = np.searchsorted(reached, reached[-1])  # the last with a probability that counts
    return int(places[min(place, last)])


class _Steer:
    """The adversary: uniform first, then whatever brings the mean surprisal to its target."""

    def __init__(self, job: _Job, options: Adversarial) -> None:
        self.job = job
        self.target = math.log(options.perplexity)
        self.uniform = math.ceil(options.uniform_share * job.max_new)
        self.surprisal = np.zeros(len(job.prefixes))  # of the new tokens so far

    def __call__(self, rows: LogProbs, places: NDArray[np.intp], step: int) -> Tokens:
        rows = _going_on(rows, self.job.end)
        tokens = np.empty(len(rows), np.int64)
        for i, (row, place) in enumerate(zip(rows, places, strict=True)):
            if step < self.uniform:
                possible = np.flatnonzero(row > -np.inf)
                tokens[i] = possible[int(self.job.rngs[place].random() * len(possible))]
            else:
                wanted = self.target * (step + 1) - self.surprisal[place]
                tokens[i] = np.abs(row + wanted).argmin()
            self.surprisal[place] -= row[tokens[i]]
        return tokens


# --- beam search


@dataclass(frozen=True)
class _Hypothesis:
    score: float  # log-probability
    tokens: tuple[int, ...]
    row: int  # of the batch that its last token was appended to


def _beam(job: _Job, options: Beam) -> list[list[int]]:
    model, count = job.model, len(job.prefixes)
    beams = [[_Hypothesis(0.0, (), i)] for i in range(count)]
    best: list[tuple[float, tuple[int, ...]]] = [(-math.inf, ()) for _ in range(count)]
    rows, state = model.start(job.prefixes)
    for step in range(job.max_new):
        for i, beam in enumerate(beams):
            if not beam:
                continue
            ended, going = _continued(rows, beam, job, options, job.prefixes[i], step)
            if not going and not ended and best[i][0] == -math.inf:
                ended = beam[:1]  # no continuation is allowed: the text stays as it is
            if step == job.max_new - 1:
                ended, going = [*ended, *going], []
            for one in ended:
                score = one.score / (step + 1) ** options.length_penalty
                if score > best[i][0]:
                    best[i] = (score, one.tokens)
            beams[i] = going if going and _can_win(going[0], best[i][0], step, job.max_new, options) else []
        alive = [one for beam in beams for one in beam]
        if not alive:
            break
        # The rows of the next batch: every beam's, one after the other.
        state = model.select(state, np.array([one.row for one in alive], np.int64))
        rows, state = model.step(state, np.array([one.tokens[-1] for one in alive], np.int64))
        numbers = iter(range(len(alive)))
        beams = [[_Hypothesis(one.score, one.tokens, next(numbers)) for one in beam] for beam in beams]
    return [list(tokens) for _, tokens in best]


def _can_win(leader: _Hypothesis, best: float, step: int, max_new: int, options: Beam) -> bool:
    """Whether a continuation of the likeliest text can still beat the best: its log-probability can only fall."""
    lengths = np.array([step + 2, max_new], np.float64)
    return bool((leader.score / lengths**options.length_penalty).max() > best)


def _continued(
    rows: LogProbs, beam: list[_Hypothesis], job: _Job, options: Beam, prefix: Sequence[int], step: int
) -> tuple[list[_Hypothesis], list[_Hypothesis]]:
    """The continuations of a beam by one token: those that end the text, and those that go on, the likeliest first."""
    end = job.model.end
    ranked: list[tuple[float, int, int]] = []
    for number, one in enumerate(beam):
        row = rows[one.row].astype(np.float64)
        if options.no_repeat is not None:
            row[_repeating(np.array([*prefix, *one.tokens]), options.no_repeat, job.end)] = -np.inf
        if step < job.min_new:
            row[job.end] = -np.inf
        # No more than this can be among the `width` best that go on, or among the `width` best of all.
        ranked += [(-(one.score + row[token]), number, int(token)) for token in largest(row, options.width + len(end))]
    ranked.sort()  # equals: by their place in the beam, then by token
    ended: list[_Hypothesis] = []
    going: list[_Hypothesis] = []
    for rank, (negative, number, token) in enumerate(ranked):
        one = beam[number]
        if token not in end:
            if len(going) < options.width:
                going.append(_Hypothesis(-negative, (*one.tokens, token), one.row))
        elif rank < options.width:
            ended.append(_Hypothesis(-negative, one.tokens, one.row))
    return ended, going


def _repeating(tokens: Tokens, size: int, end: Tokens) -> Tokens:
    """Tokens that would complete an n-gram of this size that is there already; never an end."""
    if len(tokens) < size:
        return tokens[:0]
    windows = sliding_window_view(tokens, size)
    same = (windows[:, :-1] == tokens[len(tokens) - size + 1 :]).all(axis=1)
    return np.setdiff1d(windows[same, -1], end)


# --- contrastive search


def _contrastive(job: _Job, options: Contrastive) -> list[list[int]]:
    model = cast(HiddenStates, job.model)  # seen to at the door
    new: list[list[int]] = [[] for _ in job.prefixes]
    places = np.arange(len(job.prefixes))
    rows, state = model.start(job.prefixes)
    past = [_directions(vectors) for vectors in model.hidden(state)]  # of each prefix (t, d), of length 1
    for step in range(job.max_new):
        if step < job.min_new:
            rows = _without_end(rows, job.end)
        candidates = [largest(row, options.k) for row in rows]
        owner = np.repeat(np.arange(len(rows)), [len(each) for each in candidates])  # row of each candidate
        tokens = np.concatenate(candidates).astype(np.int64)
        tried, state = model.step(model.select(state, owner), tokens)
        shown = np.concatenate([_directions(vectors) for vectors in model.hidden(state)])
        alike = np.array([(past[places[row]] @ one).max() for row, one in zip(owner, shown, strict=True)])
        scores = (1 - options.penalty) * np.exp(rows[owner, tokens].astype(np.float64)) - options.penalty * alike
        best = np.array([np.flatnonzero(owner == row)[scores[owner == row].argmax()] for row in range(len(rows))])
        going = np.flatnonzero(~np.isin(tokens[best], job.end))
        if len(going) == 0:
            break
        kept, places = best[going], places[going]
        for place, one in zip(places, kept, strict=True):
            new[place].append(int(tokens[one]))
            past[place] = np.concatenate([past[place], shown[one][None]])
        rows, state = tried[kept], model.select(state, kept)
    return new


def _directions(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    vectors = np.asarray(vectors, np.float64)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0))
