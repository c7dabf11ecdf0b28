"""Decoders as values: how the next tokens of a text are chosen. `generate` runs them, `decoder` reads their names."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mallow._checks import positive, whole
from mallow._optional import did_you_mean
from mallow.errors import InputError
from mallow.generate._rules import Chain, Eta, MinP, Nucleus, Rule, Temperature, TopK, Typical, TypicalSum

_UNIFORM_SHARE = 0.15  # paper: setup, adversarial perplexity sampling


@dataclass(frozen=True)
class Sampling:
    """Each token is drawn from the model's distribution after some rules; without rules this is ancestral sampling.

    Paper: sec:bg:lms. One uniform random number per token is turned into a token by the inverse distribution function.
    A difference of 1e-6 in the model's probabilities therefore changes about one token in a million.
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
    """The most likely token at each step (paper: sec:bg:lms, top-K with K = 1). The lowest id in case of a tie."""

    name = "greedy"


@dataclass(frozen=True)
class Beam:
    """The best continuation that a beam of `width` prefixes reaches (paper: setup, beam search).

    Each step ranks all continuations of the beam by one token by their log-probability. Those among the first `width`
    that end the text are finished. The best `width` that do not end it go on. Finally the finished and the unfinished
    texts compete by log-probability / length ** length_penalty, where the end of a text counts as a token. The search
    stops early only if no continuation can win any more, so stopping never changes the result.

    Parameters
    ----------
    width : int
        The paper's b. From vocabulary ** length on, the search is exact.
    length_penalty : float
        0 finds the most likely text, which is often short. 1, the usual choice, finds the highest log-probability per
        token.
    no_repeat : int or None
        Leave out tokens that would complete an n-gram of this length which already occurs in the prefix with its
        continuation (the paper's "no 4-gram repeat" is 4). The other tokens keep their log-probabilities, and ends are
        never left out. A text that cannot continue stays unchanged.
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

    The first `uniform_share` of max_new tokens, rounded up, are drawn uniformly from the vocabulary. Each further token
    is the one that brings the perplexity of all new tokens so far, under the model and after the prefix, nearest to
    `perplexity`. Three details that the paper leaves open: distance is measured on the logarithm, the mean surprisal;
    texts never end before max_new tokens, because the 15% need a fixed length; tokens with probability 0 are not drawn.

    Parameters
    ----------
    perplexity : float
        The perplexity of human text under this model; above 1.
    uniform_share : float
        The paper's 15%.
    """

    perplexity: float
    uniform_share: float = _UNIFORM_SHARE

    def __post_init__(self) -> None:
        positive("perplexity", self.perplexity)
        if self.perplexity <= 1:
            raise InputError(
                f"`perplexity` must be above 1, the perplexity of a text without any surprise; got {self.perplexity!r}."
            )
        _check_unit("uniform_share", self.uniform_share)

    @property
    def name(self) -> str:
        """The decoder as `decoder` reads it."""
        share = "" if self.uniform_share == _UNIFORM_SHARE else f":uniform-share={self.uniform_share!r}"
        return f"adversarial:{self.perplexity!r}{share}"


@dataclass(frozen=True)
class Contrastive:
    """The best of the k most likely tokens by (1 − α)·P − α·(largest cosine with an earlier hidden state), α = penalty.

    Su et al. 2022. At penalty 0 this is greedy decoding. The model must be a `HiddenStates`.
    """

    k: int
    penalty: float = 0.6  # chosen: as in the examples of its authors

    def __post_init__(self) -> None:
        whole("k", self.k, least=1)
        _check_unit("penalty", self.penalty)

    @property
    def name(self) -> str:
        """The decoder as `decoder` reads it."""
        return f"contrastive:{self.k}:{self.penalty!r}"


Decoder = Sampling | Greedy | Beam | Adversarial | Contrastive
"""How tokens are chosen."""


def is_deterministic(decoder: Decoder) -> bool:
    """Whether a decoder draws no random numbers, so that a prompt has only one continuation."""
    return isinstance(decoder, (Greedy, Beam, Contrastive))


def _check_unit(name: str, value: float) -> None:
    if not (isinstance(value, (int, float, np.integer, np.floating)) and 0 <= value <= 1):
        raise InputError(f"`{name}` must lie between 0 and 1; got {value!r}.")


def decoder(name: str) -> Decoder:
    """The decoder with this name. The `name` of every decoder can be read back.

    - ``ancestral``, ``greedy``
    - ``temperature:T``, ``top-k:K``, ``nucleus:P``, ``typical:TAU``, ``typical-sum:TAU``, ``eta:EPSILON``, ``min-p:P``,
      or several joined by +
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
    parts = [_parse(part, name) for part in name.split("+")]
    rules = [part for part in parts if not isinstance(part, Decoder)]
    if len(rules) == len(parts):
        return Sampling(tuple(rules))
    if len(parts) == 1 and isinstance(parts[0], Decoder):
        return parts[0]
    raise InputError(f"`decoder` must join only rules ({', '.join(_RULES)}) by +; got {name!r}.")


def resolve_decoder(value: Decoder | str) -> Decoder:
    """A decoder unchanged, or the decoder with this name; anything else is refused."""
    if isinstance(value, str):
        return decoder(value)
    if not isinstance(value, Decoder):
        raise InputError(
            f"`decoder` must be a decoder such as Sampling() or a name such as 'nucleus:0.95'; got {value!r}."
        )
    return value


@dataclass(frozen=True)
class _Syntax:
    """The arguments after the first word of a name: values in a fixed order, then options by name."""

    make: Callable[..., Rule | Decoder]
    values: tuple[tuple[str, Callable[[str], Any]], ...] = ()  # placeholder for usage, type
    options: dict[str, Callable[[str], Any]] = field(default_factory=dict)  # option: type


_RULES = {
    "temperature": _Syntax(Temperature, (("T", float),)),
    "top-k": _Syntax(TopK, (("K", int),)),
    "nucleus": _Syntax(Nucleus, (("P", float),)),
    "typical": _Syntax(Typical, (("TAU", float),)),
    "typical-sum": _Syntax(TypicalSum, (("TAU", float),)),
    "eta": _Syntax(Eta, (("EPSILON", float),)),
    "min-p": _Syntax(MinP, (("P", float),)),
}
_SYNTAX = {
    "ancestral": _Syntax(Sampling),
    "greedy": _Syntax(Greedy),
    **_RULES,
    "beam": _Syntax(Beam, (("WIDTH", int),), {"length-penalty": float, "no-repeat": int}),
    "adversarial": _Syntax(Adversarial, (("PERPLEXITY", float),), {"uniform-share": float}),
    "contrastive": _Syntax(Contrastive, (("K", int), ("PENALTY", float))),
}


def _parse(part: str, whole_name: str) -> Rule | Decoder:
    word, *arguments = part.strip().split(":")
    if word not in _SYNTAX:
        raise InputError(
            f"`decoder` must be one of {', '.join(_SYNTAX)}; got {whole_name!r}.{did_you_mean(word, _SYNTAX)}"
        )
    syntax = _SYNTAX[word]
    values = [argument for argument in arguments if "=" not in argument]
    usage = ":".join([word, *(placeholder for placeholder, _ in syntax.values)])
    if len(values) != len(syntax.values):
        raise InputError(f"`decoder` must be written {usage}; got {part.strip()!r}.")
    options = {}
    for option, _, text in (argument.partition("=") for argument in arguments if "=" in argument):
        if option not in syntax.options:
            known = ", ".join(f"{name}=" for name in syntax.options) or "none"
            raise InputError(
                f"`decoder` {word} has the options {known}; got {option!r} in {whole_name!r}."
                f"{did_you_mean(option, syntax.options)}"
            )
        options[option.replace("-", "_")] = _read_number(text, syntax.options[option], f"{usage}:{option}=", part)
    numbers = [_read_number(text, read, usage, part) for text, (_, read) in zip(values, syntax.values, strict=True)]
    return syntax.make(*numbers, **options)


def _read_number(text: str, read: Callable[[str], Any], usage: str, part: str) -> Any:
    try:
        return read(text)
    except ValueError:
        kind = "a whole number" if read is int else "a number"
        raise InputError(f"`decoder` must have {kind} in {usage}; got {text!r} in {part.strip()!r}.") from None
