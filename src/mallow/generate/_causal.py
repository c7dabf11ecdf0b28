"""Causal language models of transformers as next-token models: from the hub, a local folder or a GGUF file."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._optional import optional
from mallow.errors import InputError
from mallow.generate._key_values import with_room
from mallow.generate._protocol import Tokens
from mallow.models import Precision, Source, context, moved, tokenised

__all__ = ["CausalModel", "LoadedModel"]

Floats = NDArray[np.float32]

_AT_ONCE = 8192  # tokens of prefixes read in one pass: more is no faster, and their activations would not fit
_SCORED = 512  # tokens of a text whose logits are held at once
_LONGEST = 1 << 30  # tokens; some tokenizers say 10 ** 30 where there is no limit


@dataclass(frozen=True)
class CausalModel:
    """Which model continues texts, and how it is run; `loaded` gives the model itself, a `NextToken`.

    Parameters
    ----------
    model, revision, dtype, device
        As for `mallow.embed.LanguageModel`.

    Examples
    --------
    >>> CausalModel("gpt2-large", revision="main")
    CausalModel(model='gpt2-large', revision='main', dtype=None, device=None)
    """

    model: str
    revision: str | None = None
    dtype: Precision | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", self._source.model)

    @functools.cached_property
    def name(self) -> str:
        """Weights with their commit or digest, and precision; the weights are not loaded for it."""
        precision = self._source.precision  # first: without torch there is no point in asking the hub
        return f"CausalModel({self._source.label}, {precision})"

    def loaded(self) -> LoadedModel:
        """The model with its weights; reading a GGUF file takes a while."""
        source = self._source
        where = source.where  # what can be wrong without the weights comes before them
        if source.attention != "causal":
            reads = "reads both ways" if source.attention == "both" else "is an encoder–decoder model"
            raise InputError(f"`model` must be a causal model, which continues texts; {self.model} {reads}.")
        name = self.name
        tokenizer = source.loaded("AutoTokenizer")
        network, missing = source.network("AutoModelForCausalLM")
        source.refuse_missing([key for key in missing if "pooler" not in key])
        network = moved(network, where, self.model)
        source.refuse_empty(tokenizer, network)
        return LoadedModel(name, network, tokenizer, begins=source.wants_bos)

    @functools.cached_property
    def _source(self) -> Source:
        return Source(self.model, self.revision, self.dtype, self.device)


@dataclass(frozen=True, eq=False)
class _State:
    """Keys and values of all tokens so far, and where each row's own tokens are."""

    cache: Any
    mask: Any  # (b, t): 1 for a row's own tokens, 0 for padding on the left; None where no row is padded
    lengths: Tokens  # (b,) tokens of each row
    hidden: Any  # (u, t, d): the last layer's vectors of what was read last; None where the model does not show them
    shown: Tokens  # (b,) row of `hidden` that belongs to each row, so that selecting rows copies none of it
    read: Tokens  # (b,) how many of its last vectors are the row's own


class LoadedModel:
    """A causal model of transformers with its weights, a `NextToken` that shows its hidden states too.

    Prefixes of different lengths are padded on the left, and the padding is masked. Equal prefixes are read once. The keys
    and values of what was read are kept, so that one more token costs one token. Make one with `CausalModel.loaded`.
    """

    def __init__(self, name: str, network: Any, tokenizer: Any, *, begins: bool) -> None:
        self._torch = optional("torch", extra="text")
        self._name = name
        self._network = network
        self._tokenizer = tokenizer
        self._begins = begins
        self._takes = frozenset(inspect.signature(network.forward).parameters)
        self._seen: Any = None  # hidden states of the last pass
        # The network below its head: one of the two is called, which one differs between models.
        for body in {network.base_model, network.get_decoder()} - {network, None}:
            body.register_forward_hook(self._watch)

    def __repr__(self) -> str:
        return self._name

    @property
    def name(self) -> str:
        """Weights with their commit or digest, and precision."""
        return self._name

    @functools.cached_property
    def vocabulary(self) -> int:
        """Tokens that the tokenizer knows: many models have some more, for a round number, which stand for nothing."""
        known = int(max(self._tokenizer.get_vocab().values())) + 1
        return min(int(self._network.config.get_text_config().vocab_size), known)

    @functools.cached_property
    def end(self) -> frozenset[int]:
        """The ends of text of the generation settings and of the tokenizer."""
        stated = getattr(self._network.generation_config, "eos_token_id", None)
        found = [self._tokenizer.eos_token_id, *(stated if isinstance(stated, list) else [stated])]
        return frozenset(int(token) for token in found if token is not None and token < self.vocabulary)

    @functools.cached_property
    def context(self) -> int | None:
        """The positions that the model has; None where there is no limit."""
        found = context(self._network, self._tokenizer)
        return found if found < _LONGEST else None

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with the one that begins a text where the tokenizer adds it; none for an empty text."""
        if text == "":
            return []
        [found] = tokenised(self._tokenizer, [text], _LONGEST, begins=self._begins)
        tokens: list[int] = found.tolist()
        while tokens and tokens[-1] in self.end and len(tokens) > 1:  # some tokenizers end every text
            tokens.pop()
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without the one that begins a text; other special tokens are spelt."""
        found = list(tokens)
        if found and found[0] == self._tokenizer.bos_token_id:
            found = found[1:]
        return str(self._tokenizer.decode(found, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def start(self, prefixes: Sequence[Sequence[int]]) -> tuple[Floats, _State]:
        """Log-probabilities (b, vocabulary) after each prefix, and the state."""
        torch = self._torch
        places = {prefix: place for place, prefix in enumerate(dict.fromkeys(map(tuple, prefixes)))}
        lengths = np.array([len(prefix) for prefix in places], np.int64)
        if len(lengths) == 0 or lengths.min() == 0:
            raise InputError(
                "`prefixes` must be at least one, and each have at least one token; got none or an empty one."
            )
        width = int(lengths.max())
        padded = lengths.min() < width
        if padded and not self._ignores_padding:
            raise InputError(
                f"`prefixes` must have the same length in a batch of {self.name}, to which padding makes a difference; got "
                f"{lengths.min()} to {width} tokens. Use prompts of one length, or batch=1."
            )
        ids = np.array([(*prefix[:1] * (width - len(prefix)), *prefix) for prefix in places], np.int64)
        inside = np.arange(width) >= width - lengths[:, None]
        mask = torch.from_numpy(inside.astype(np.int64)).to(self._network.device) if padded else None
        positions = (inside.cumsum(axis=1) - 1).clip(min=0) if padded else None
        rows, cache, hidden = self._pass(ids, mask, positions, None)
        state = _State(cache, mask, lengths, hidden, np.arange(len(lengths)), lengths)
        if len(places) < len(prefixes):
            of = np.array([places[tuple(prefix)] for prefix in prefixes], np.int64)
            return rows[of], self.select(state, of)
        return rows, state

    def step(self, state: _State, tokens: Tokens) -> tuple[Floats, _State]:
        """The same after one more token of each row."""
        torch = self._torch
        count = len(state.lengths)
        mask = positions = None
        if state.mask is not None:
            mask = torch.cat([state.mask, state.mask.new_ones((count, 1))], dim=1)
            positions = state.lengths[:, None]
        ids = np.asarray(tokens, np.int64)[:, None]
        rows, cache, hidden = self._pass(ids, mask, positions, state.cache)
        ones = np.ones(count, np.int64)
        return rows, _State(cache, mask, state.lengths + 1, hidden, np.arange(count), ones)

    def select(self, state: _State, rows: Tokens) -> _State:
        """The state of some rows; keys and values of others are not kept."""
        rows = np.asarray(rows, np.int64)
        if np.array_equal(rows, np.arange(len(state.lengths))):
            return state
        cache = _copied(state.cache)
        of = self._torch.from_numpy(rows).to(self._network.device)
        cache.reorder_cache(of)
        mask = None if state.mask is None else state.mask[of]
        few = replace(state, cache=cache, mask=mask, lengths=state.lengths[rows])
        return replace(few, shown=state.shown[rows], read=state.read[rows])

    def log_prob(self, tokens: Sequence[int], given: Sequence[int] | None = None) -> NDArray[np.float64]:
        """The log-probability of each token after those before it, in one pass through the network.

        Equal to what `start` and `step` give after the prefix `given`, by default the model's only end of text, to the
        precision of the network.
        """
        torch = self._torch
        if given is None and len(self.end) != 1:
            raise InputError(
                f"`given` must say what opens a text for {self.name}, which has {len(self.end)} ends of text."
            )
        before = list(self.end if given is None else given)
        if not before:
            raise InputError("`given` must have at least one token; got none. Pass None for the beginning of a text.")
        stream = np.array([*before, *tokens], np.int64)
        wanted, found, cache = torch.from_numpy(stream[len(before) :]), np.empty(len(tokens)), None
        with torch.inference_mode():
            for first in range(0, len(stream) - 1, _SCORED):  # the logits of a long text would be larger than all else
                read = torch.from_numpy(stream[first : min(first + _SCORED, len(stream) - 1)])
                seen = self._network(
                    input_ids=read[None].to(self._network.device), past_key_values=cache, use_cache=True
                )
                cache = seen.past_key_values
                # Row i is about token i + 1 of the stream, which is i + 1 − len(before) of the text.
                skipped = max(len(before) - 1 - first, 0)
                rows = seen.logits[0, skipped:, : self.vocabulary].float()
                place = first + skipped + 1 - len(before)
                picked = wanted[place : place + len(rows)].to(rows.device)
                scores = rows.gather(1, picked[:, None])[:, 0] - torch.logsumexp(rows, dim=1)
                found[place : place + len(rows)] = scores.double().cpu().numpy()
        self._seen = None
        return found

    def hidden(self, state: _State) -> list[Floats]:
        """For each row the last layer's vectors (t, d), after its norm, of the tokens read last."""
        if state.hidden is None:
            raise InputError(
                f"{self.name} does not show its hidden states. Choose another decoder than contrastive search."
            )
        vectors = state.hidden.float().cpu().numpy()  # (u, t, d)
        return [vectors[row, vectors.shape[1] - own :] for row, own in zip(state.shown, state.read, strict=True)]

    def _watch(self, _module: Any, _inputs: Any, output: Any) -> None:
        self._seen = getattr(output, "last_hidden_state", None)

    def _pass(self, ids: Tokens, mask: Any, positions: NDArray[np.int64] | None, cache: Any) -> tuple[Floats, Any, Any]:
        """Log-probabilities after the last token of each row, keys and values, and hidden states (b, t, d)."""
        torch, device = self._torch, self._network.device
        before = 0 if mask is None else mask.shape[1] - ids.shape[1]
        chunk = max(1, _AT_ONCE // len(ids))
        options: dict[str, Any] = {"use_cache": True}
        if "logits_to_keep" in self._takes:
            options["logits_to_keep"] = 1  # of a long prefix the logits would be larger than all else
        seen = []
        with torch.inference_mode():
            for first in range(0, ids.shape[1], chunk):
                part = slice(first, first + chunk)
                if mask is not None:
                    options["attention_mask"] = mask[:, : before + part.stop]
                if positions is not None and "position_ids" in self._takes:
                    options["position_ids"] = torch.from_numpy(np.ascontiguousarray(positions[:, part])).to(device)
                given = torch.from_numpy(np.ascontiguousarray(ids[:, part])).to(device)
                found = self._network(input_ids=given, past_key_values=cache, **options)
                seen.append(self._seen)
                cache = with_room(getattr(found, "past_key_values", None))
                if not hasattr(cache, "reorder_cache"):
                    raise InputError(
                        f"`model` must keep keys and values of what it has read; {self.name} does not. Choose one with "
                        "attention."
                    )
            logits = found.logits[:, -1, : self.vocabulary].float()
            rows: Floats = torch.log_softmax(logits, dim=-1).cpu().numpy()
            hidden = seen[0] if len(seen) == 1 or seen[0] is None else torch.cat(seen, dim=1)
        self._seen = None
        return rows, cache, hidden

    @functools.cached_property
    def _ignores_padding(self) -> bool:
        """Whether padding on the left changes nothing, found by trying: it does where positions cannot be given."""
        self.__dict__["_ignores_padding"] = True  # for the batch that tries
        short, long = [2, 3], [2, 3, 4, 3, 2]
        alone, _ = self.start([short])
        both, _ = self.start([short, long])
        return bool(np.abs(np.exp(alone[0]) - np.exp(both[0])).sum() <= 0.05)  # bfloat16 rounds to about 0.01


def _copied(cache: Any) -> Any:
    """The same keys and values, to be replaced without a change to the original."""
    found = copy.copy(cache)
    found.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in found.layers:
        # Recurrent layers keep a table of states.
        vars(layer).update(
            {name: copy.copy(each) for name, each in vars(layer).items() if isinstance(each, (dict, list))}
        )
    return found
