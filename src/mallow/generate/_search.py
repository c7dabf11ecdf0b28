"""From a language model and prefixes to new tokens: one call for every decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from mallow._checks import seed_from, whole
from mallow.errors import InputError
from mallow.generate._beam import search_beam
from mallow.generate._contrastive import search_contrastive
from mallow.generate._decoder_names import resolve_decoder
from mallow.generate._decoders import Adversarial, Beam, Contrastive, Decoder, Greedy, Sampling
from mallow.generate._protocol import HiddenStates, NextToken
from mallow.generate._steps import Job, choose_stepwise, draw_tokens, likeliest_tokens, steer_perplexity


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
        Tokens, at least one each. For a text from its beginning pass the token that begins a text, often the model's end of
        text.
    decoder : Decoder or str
        Such as ``Sampling((Nucleus(0.95),))`` or ``"nucleus:0.95"``.
    max_new, min_new : int
        The maximum number of new tokens, and how many must come before a text may end.
    rng : int, Generator or None
        An integer gives the same tokens in every call; a Generator continues from call to call; None: different each time.
    keys : sequence of int or None
        A number for each prefix, by default its place. Together with `rng` it determines the random numbers of that prefix:
        a prefix with the same key has the same continuation in any batch.
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
            return choose_stepwise(job, likeliest_tokens, min_new=job.min_new)
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
                f"`prefixes` must have at least one token each; prefix {i} is empty. For a text from its beginning pass the "
                f"token that begins a text, often the model's end of text {sorted(model.end)}."
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
                f"`max_new` must keep prefix and continuation within the model's context of {model.context} tokens; got "
                f"{len(prefix)} + {max_new} for prefix {i}. Use max_new={model.context - len(prefix)} or cut the prefix."
            )


def _generators(rng: int | np.random.Generator | None, keys: Sequence[int], count: int) -> list[np.random.Generator]:
    """A source of random numbers for each prefix, which depends only on `rng` and the prefix's key."""
    if len(keys) != count:
        raise InputError(f"`keys` must hold one number for each of {count} prefixes; got {len(keys)}.")
    # A generator gives 16 bytes, more than `seed_from` draws: texts of published runs depend on it.
    entropy = int.from_bytes(rng.bytes(16), "little") if isinstance(rng, np.random.Generator) else seed_from(rng)
    return [
        np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(whole("keys", key, least=0),))) for key in keys
    ]
