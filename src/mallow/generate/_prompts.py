"""Prompts: the beginnings of reference texts, as tokens of a model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from mallow._checks import whole
from mallow.errors import Caveat, InputError, warn_about
from mallow.generate._protocol import NextToken
from mallow.samples import Samples, read


@dataclass(frozen=True)
class Prompt:
    """The beginning of a text, to be continued.

    Attributes
    ----------
    id : str
        That of the text; unique among the prompts.
    text : str
    tokens : tuple of int
        The same text as tokens of the model, at least one.
    """

    id: str
    text: str
    tokens: tuple[int, ...]


def prompts_of(
    samples: object, model: NextToken, *, tokens: int | None = 35, skip_short: bool = False
) -> tuple[Prompt, ...]:
    """The first tokens of each text, as prompts.

    Parameters
    ----------
    samples : Samples, list, table or path
        Texts. Their ids become those of the prompts; texts without ids are numbered from 1.
    model : NextToken
        The model whose tokens are counted.
    tokens : int or None
        Length of the prompts; the default is the paper's 35. None: each whole text is a prompt.
    skip_short : bool
        Leave out texts with fewer tokens, with a warning that counts them, instead of refusing them.

    Examples
    --------
    >>> from mallow.generate import NGram
    >>> texts = ["the cat sat on the mat", "the dog sat on the cat"]
    >>> [prompt.text for prompt in prompts_of(texts, NGram.fit(texts, min_count=1), tokens=3)]
    ['the cat sat', 'the dog sat']
    """
    if tokens is not None:
        whole("tokens", tokens, least=1)
    least = tokens or 1
    texts = read(samples)
    ids = _unique_ids(texts)
    prompts: list[Prompt] = []
    short: list[tuple[str, int]] = []
    for id_, text in zip(ids, texts.require_texts(), strict=True):
        encoded = model.encode(text)
        if len(encoded) < least:
            short.append((id_, len(encoded)))
            continue
        kept = tuple(encoded[:tokens])
        prompts.append(Prompt(id_, text if tokens is None else model.decode(kept), kept))
    if short and not skip_short:
        raise InputError(
            f"`samples` must have at least {least} tokens each; {len(short)} of {len(ids)} in {texts.source} are shorter, such "
            f"as {short[0][0]!r} with {short[0][1]}. Ask for fewer tokens, or leave them out with skip_short=True "
            "(--skip-short)."
        )
    if not prompts:
        raise InputError(f"{texts.source}: no text has {least} tokens. Ask for fewer.")
    if short:
        message = f"{texts.source}: {len(short)} of {len(ids)} texts are shorter than {least} tokens and were left out."
        warn_about([Caveat("short texts", message, values={"short": len(short), "texts": len(ids)})])
    return tuple(prompts)


def check_prompts(model: NextToken, prompts: Sequence[Prompt], max_new: int) -> None:
    """Refuse prompts that are empty, share an id, or leave no room for `max_new` tokens."""
    if not prompts:
        raise InputError("`prompts` must hold at least one prompt; got none.")
    if len({prompt.id for prompt in prompts}) < len(prompts):
        raise InputError("`prompts` must have unique ids; some share one.")
    for prompt in prompts:
        if not prompt.tokens:
            raise InputError(f"`prompts` must have at least one token each; that of {prompt.id!r} is empty.")
        room = None if model.context is None else model.context - len(prompt.tokens)
        if room is not None and room < max_new:
            way_out = f"Use max_new={room}, or shorter prompts." if room > 0 else "Use shorter prompts."
            raise InputError(
                f"`prompts` must leave room for {max_new} new tokens in the model's context of {model.context}; that of "
                f"{prompt.id!r} has {len(prompt.tokens)} tokens. {way_out}"
            )


def prompts_digest(prompts: Sequence[Prompt]) -> str:
    """Twelve hexadecimal digits that identify the prompts."""
    total = hashlib.sha256()
    for prompt in prompts:
        total.update(json.dumps([prompt.id, prompt.text, prompt.tokens]).encode() + b"\n")
    return total.hexdigest()[:12]


def _unique_ids(samples: Samples) -> tuple[str, ...]:
    ids = samples.ids or tuple(str(place) for place in range(1, len(samples) + 1))
    seen: set[str] = set()
    for id_ in ids:
        if id_ in seen:
            raise InputError(
                f"{samples.source}: texts to be continued must have unique ids; {id_!r} occurs twice. Pass the reference, not "
                "several generations per prompt."
            )
        seen.add(id_)
    return ids
