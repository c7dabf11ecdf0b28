"""Names of decoders, such as "nucleus:0.95": read here, written by the `name` of each decoder and rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mallow._optional import did_you_mean
from mallow.errors import InputError
from mallow.generate._decoders import Adversarial, Beam, Contrastive, Decoder, Greedy, Sampling
from mallow.generate._rules import Eta, MinP, Nucleus, Rule, Temperature, TopK, Typical, TypicalSum


def decoder(name: str) -> Decoder:
    """The decoder with this name; the `name` of every decoder can be read back.

    - ``ancestral``, ``greedy``
    - ``temperature:T``, ``top-k:K``, ``nucleus:P``, ``typical:TAU``, ``typical-sum:TAU``, ``eta:EPSILON``, ``min-p:P``, or
      several joined by +
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
    """A decoder as it is, or the one with this name; anything else is refused."""
    if isinstance(value, str):
        return decoder(value)
    if not isinstance(value, Decoder):
        raise InputError(
            f"`decoder` must be a decoder such as Sampling() or a name such as 'nucleus:0.95'; got {value!r}."
        )
    return value


@dataclass(frozen=True)
class _Syntax:
    """What follows the first word of a name: values in a fixed order, then options by name."""

    make: Callable[..., Rule | Decoder]
    values: tuple[tuple[str, Callable[[str], Any]], ...] = ()  # placeholder for usage, type
    options: dict[str, tuple[str, Callable[[str], Any]]] = field(default_factory=dict)  # option: (keyword, type)


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
    "beam": _Syntax(
        Beam, (("WIDTH", int),), {"length-penalty": ("length_penalty", float), "no-repeat": ("no_repeat", int)}
    ),
    "adversarial": _Syntax(Adversarial, (("PERPLEXITY", float),), {"uniform-share": ("uniform_share", float)}),
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
        keyword, read = syntax.options[option]
        options[keyword] = _read_number(text, read, f"{usage}:{option}=", part)
    numbers = [_read_number(text, read, usage, part) for text, (_, read) in zip(values, syntax.values, strict=True)]
    return syntax.make(*numbers, **options)


def _read_number(text: str, read: Callable[[str], Any], usage: str, part: str) -> Any:
    try:
        return read(text)
    except ValueError:
        kind = "a whole number" if read is int else "a number"
        raise InputError(f"`decoder` must have {kind} in {usage}; got {text!r} in {part.strip()!r}.") from None
