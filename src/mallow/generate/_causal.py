"""Causal language models of transformers as next-token models, from the hub, a local folder or a GGUF file."""

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
from mallow.generate._protocol import Tokens
from mallow.models import Precision, Source, context_length, move_network, tokenise

Floats = NDArray[np.float32]

# Chosen. Tokens of prefixes read in one pass: more is not faster, and the activations take too much memory.
_AT_ONCE = 8192
_SCORED = 512  # chosen: tokens of a text with logits in memory at the same time
_LONGEST = 1 << 30  # tokens; some tokenizers state 10 ** 30 for "no limit"

_ROOM = 32  # tokens (chosen: more would be copied in vain if rows are selected at every step, as in beam search)


@dataclass(frozen=True)
class CausalModel:
    """A causal model by name, with its settings; `load` returns the model itself, a `NextToken`.

    Parameters
    ----------
    model
        A name, folder or GGUF file, as for `mallow.embed.LanguageModel`.
    revision
        Branch, tag or commit on the hub.
    dtype
        The precision of the weights, as for `mallow.embed.LanguageModel`.
    device
        A device of torch, as for `mallow.embed.LanguageModel`.

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

    @property
    def name(self) -> str:
        """Weights with their commit or digest, and precision; found without loading the weights."""
        precision = self._source.precision  # first, since without torch there is no reason to ask the hub
        return f"CausalModel({self._source.label}, {precision})"

    def load(self) -> LoadedModel:
        """The model with its weights; for a GGUF file this can take half a minute."""
        source = self._source
        device = source.chosen_device  # checks that do not need the weights come before loading them
        if source.attention != "causal":
            reads = "reads in both directions" if source.attention == "both" else "is an encoder–decoder model"
            raise InputError(f"`model` must be a causal model, which continues texts; {self.model} {reads}.")
        name = self.name
        tokenizer = source.load("AutoTokenizer")
        network, missing = source.load_network("AutoModelForCausalLM")
        source.refuse_missing_weights([key for key in missing if "pooler" not in key])
        network = move_network(network, device, self.model)
        source.refuse_empty_tokenizer(tokenizer, network)
        if self.name != name:
            raise InputError(f"{self.model}: the model was changed while it was loaded. Load it again.")
        return LoadedModel(name, network, tokenizer, add_bos=source.wants_bos)

    @functools.cached_property
    def _source(self) -> Source:
        return Source(self.model, self.revision, self.dtype, self.device)


@dataclass(frozen=True, eq=False)
class _State:
    """Keys and values of all tokens so far, and which of them belong to each row."""

    cache: Any
    mask: Any  # (b, t): 1 for a row's own tokens, 0 for padding on the left; None if no row is padded
    lengths: Tokens  # (b,) number of tokens of each row
    hidden: Any  # (u, t, d): the last layer's vectors of the tokens read last; None if the model does not show them
    hidden_row: Tokens  # (b,) the row of `hidden` that belongs to each row, so that selecting rows copies nothing
    hidden_count: Tokens  # (b,) how many of the last vectors there are the row's own


class LoadedModel:
    """A causal model of transformers with its weights: a `NextToken` that also shows its hidden states.

    Prefixes of different lengths are padded on the left, and the padding is masked. Equal prefixes are read once. The
    keys and values of all tokens so far are kept, so that each step reads only the new token. `CausalModel.load`
    returns one.
    """

    def __init__(self, name: str, network: Any, tokenizer: Any, *, add_bos: bool) -> None:
        self._torch = optional("torch", extra="text")
        self._name = name
        self._network = network
        self._tokenizer = tokenizer
        self._add_bos = add_bos
        self._arguments = frozenset(inspect.signature(network.forward).parameters)
        self._last_hidden: Any = None  # hidden states of the last pass
        # The network below its head. Only one of the two is called; which one depends on the model.
        for body in {network.base_model, network.get_decoder()} - {network, None}:
            body.register_forward_hook(self._keep_hidden)

    def __repr__(self) -> str:
        return self._name

    @property
    def name(self) -> str:
        """Weights with their commit or digest, and precision."""
        return self._name

    @functools.cached_property
    def vocabulary(self) -> int:
        """Number of tokens that the tokenizer knows; many models have a few unused ones, to reach a round number."""
        known = int(max(self._tokenizer.get_vocab().values())) + 1
        return min(int(self._network.config.get_text_config().vocab_size), known)

    @functools.cached_property
    def end(self) -> frozenset[int]:
        """The tokens that end a text, from the generation settings and from the tokenizer."""
        stated = getattr(self._network.generation_config, "eos_token_id", None)
        ends = [self._tokenizer.eos_token_id, *(stated if isinstance(stated, list) else [stated])]
        return frozenset(int(token) for token in ends if token is not None and token < self.vocabulary)

    @functools.cached_property
    def context(self) -> int | None:
        """The number of positions of the model; None if there is no limit."""
        length = context_length(self._network, self._tokenizer)
        return length if length < _LONGEST else None

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with <bos> first if the tokenizer adds it; none for an empty text."""
        if text == "":
            return []
        [encoded] = tokenise(self._tokenizer, [text], _LONGEST, add_bos=self._add_bos)
        tokens: list[int] = encoded.tolist()
        while tokens and tokens[-1] in self.end and len(tokens) > 1:  # some tokenizers add an end to every text
            tokens.pop()
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without <bos>; other special tokens are spelt out."""
        visible = list(tokens)
        if visible and visible[0] == self._tokenizer.bos_token_id:
            visible = visible[1:]
        return str(self._tokenizer.decode(visible, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def start(self, prefixes: Sequence[Sequence[int]]) -> tuple[Floats, _State]:
        """Log-probabilities (b, vocabulary) after each prefix, and the state."""
        torch = self._torch
        places = {prefix: number for number, prefix in enumerate(dict.fromkeys(map(tuple, prefixes)))}
        lengths = np.array([len(prefix) for prefix in places], np.int64)
        if len(lengths) == 0 or lengths.min() == 0:
            raise InputError(
                "`prefixes` must hold at least one prefix, each with at least one token; got none or an empty one."
            )
        width = int(lengths.max())
        padded = lengths.min() < width
        if padded and not self._ignores_padding:
            raise InputError(
                f"`prefixes` must have the same length in a batch of {self.name}, whose results depend on padding; got "
                f"{lengths.min()} to {width} tokens. Use prompts of one length, or `batch=1`."
            )
        ids = np.array([(*prefix[:1] * (width - len(prefix)), *prefix) for prefix in places], np.int64)
        inside = np.arange(width) >= width - lengths[:, None]
        mask = torch.from_numpy(inside.astype(np.int64)).to(self._network.device) if padded else None
        positions = (inside.cumsum(axis=1) - 1).clip(min=0) if padded else None
        rows, cache, hidden = self._pass(ids, mask, positions, None)
        state = _State(cache, mask, lengths, hidden, np.arange(len(lengths)), lengths)
        if len(places) < len(prefixes):
            owner = np.array([places[tuple(prefix)] for prefix in prefixes], np.int64)
            return rows[owner], self.select(state, owner)
        return rows, state

    def step(self, state: _State, tokens: Tokens) -> tuple[Floats, _State]:
        """The same after one more token per row."""
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
        """The state of some rows; keys and values of the others are dropped."""
        rows = np.asarray(rows, np.int64)
        if np.array_equal(rows, np.arange(len(state.lengths))):
            return state
        cache = _copy_cache(state.cache)
        chosen = self._torch.from_numpy(rows).to(self._network.device)
        cache.reorder_cache(chosen)
        return replace(
            state,
            cache=cache,
            mask=None if state.mask is None else state.mask[chosen],
            lengths=state.lengths[rows],
            hidden_row=state.hidden_row[rows],
            hidden_count=state.hidden_count[rows],
        )

    def log_prob(self, tokens: Sequence[int], prefix: Sequence[int] | None = None) -> NDArray[np.float64]:
        """The log-probability of each token after `prefix` and the tokens before it, in one pass through the network.

        Equal to the results of `start` and `step` up to the precision of the network. The default prefix is the model's
        end of text, if it has only one.
        """
        torch = self._torch
        if prefix is None and len(self.end) != 1:
            raise InputError(
                f"`prefix` must hold the token that begins a text for {self.name}, which has {len(self.end)} ends of "
                "text."
            )
        before = list(self.end if prefix is None else prefix)
        if not before:
            raise InputError("`prefix` must have at least one token; got none. Pass None for the beginning of a text.")
        stream = np.array([*before, *tokens], np.int64)
        wanted, log_probs, cache = torch.from_numpy(stream[len(before) :]), np.empty(len(tokens)), None
        with torch.inference_mode():
            for first in range(0, len(stream) - 1, _SCORED):  # the logits of a long text would need most of the memory
                part = torch.from_numpy(stream[first : min(first + _SCORED, len(stream) - 1)])
                output = self._network(
                    input_ids=part[None].to(self._network.device), past_key_values=cache, use_cache=True
                )
                cache = output.past_key_values
                # Row i predicts token i + 1 of the stream, which is token i + 1 − len(before) of the text.
                skipped = max(len(before) - 1 - first, 0)
                rows = output.logits[0, skipped:, : self.vocabulary].float()
                start = first + skipped + 1 - len(before)
                picked = wanted[start : start + len(rows)].to(rows.device)
                scores = rows.gather(1, picked[:, None])[:, 0] - torch.logsumexp(rows, dim=1)
                log_probs[start : start + len(rows)] = scores.double().cpu().numpy()
        self._last_hidden = None
        return log_probs

    def hidden(self, state: _State) -> list[Floats]:
        """For each row the last layer's vectors (t, d), after its norm, of the tokens read last."""
        if state.hidden is None:
            raise InputError(
                f"{self.name} does not show its hidden states. Choose another decoder than contrastive search."
            )
        vectors = state.hidden.float().cpu().numpy()  # (u, t, d)
        last_tokens = zip(state.hidden_row, state.hidden_count, strict=True)
        return [vectors[row, vectors.shape[1] - count :] for row, count in last_tokens]

    def _keep_hidden(self, _module: Any, _inputs: Any, output: Any) -> None:
        self._last_hidden = getattr(output, "last_hidden_state", None)

    def _pass(self, ids: Tokens, mask: Any, positions: NDArray[np.int64] | None, cache: Any) -> tuple[Floats, Any, Any]:
        """Log-probabilities after the last token of each row, keys and values, and hidden states (b, t, d)."""
        torch, device = self._torch, self._network.device
        before = 0 if mask is None else mask.shape[1] - ids.shape[1]
        chunk = max(1, _AT_ONCE // len(ids))
        options: dict[str, Any] = {"use_cache": True}
        if "logits_to_keep" in self._arguments:
            options["logits_to_keep"] = 1  # the logits of a long prefix would need most of the memory
        hidden_parts = []
        with torch.inference_mode():
            for first in range(0, ids.shape[1], chunk):
                part = slice(first, first + chunk)
                if mask is not None:
                    options["attention_mask"] = mask[:, : before + part.stop]
                if positions is not None and "position_ids" in self._arguments:
                    options["position_ids"] = torch.from_numpy(np.ascontiguousarray(positions[:, part])).to(device)
                inputs = torch.from_numpy(np.ascontiguousarray(ids[:, part])).to(device)
                output = self._network(input_ids=inputs, past_key_values=cache, **options)
                hidden_parts.append(self._last_hidden)
                cache = add_room(getattr(output, "past_key_values", None))
                if not hasattr(cache, "reorder_cache"):
                    raise InputError(
                        f"`model` must keep the keys and values of past tokens; {self.name} does not. Choose a model "
                        "with attention."
                    )
            logits = output.logits[:, -1, : self.vocabulary].float()
            rows: Floats = torch.log_softmax(logits, dim=-1).cpu().numpy()
            single = len(hidden_parts) == 1 or hidden_parts[0] is None
            hidden = hidden_parts[0] if single else torch.cat(hidden_parts, dim=1)
        self._last_hidden = None
        return rows, cache, hidden

    @functools.cached_property
    def _ignores_padding(self) -> bool:
        """Whether padding on the left changes nothing, by experiment. Models without positions depend on it."""
        self.__dict__["_ignores_padding"] = True  # for the batch of the experiment
        short, long = [2, 3], [2, 3, 4, 3, 2]
        alone, _ = self.start([short])
        both, _ = self.start([short, long])
        return bool(np.abs(np.exp(alone[0]) - np.exp(both[0])).sum() <= 0.05)  # the rounding of bfloat16 is about 0.01


def _copy_cache(cache: Any) -> Any:
    """The same keys and values, which can be replaced without changing the original."""
    copied = copy.copy(cache)
    copied.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in copied.layers:
        # Recurrent layers keep a table of states.
        tables = {name: copy.copy(value) for name, value in vars(layer).items() if isinstance(value, (dict, list))}
        vars(layer).update(tables)
    return copied


def add_room(cache: Any) -> Any:
    """The same cache of transformers, but its plain layers grow in place.

    For each token transformers joins old and new keys into a new tensor: with 250 texts of 150 tokens this took most of
    the time of a step. Layers of other kinds (sliding windows, recurrent states) do not change.
    """
    plain, with_room = _layers()
    for layer in getattr(cache, "layers", ()):
        if type(layer) is plain:
            layer.__class__ = with_room
    return cache


@functools.cache
def _layers() -> tuple[type, type]:
    """The layer class of transformers, and its subclass with room, defined here because transformers is optional."""
    torch = optional("torch", extra="text")
    plain: Any = optional("transformers.cache_utils", extra="text").DynamicLayer

    class LayerWithRoom(plain):  # type: ignore[misc]
        """Keys and values (b, heads, t, d) are the beginnings of longer tensors.

        A step writes after them, into tensors that earlier states may share. These are not used again
        (`NextToken.step`).
        """

        _longer: tuple[Any, Any] | None = None
        keys: Any
        values: Any

        def update(self, key_states: Any, value_states: Any, *rest: Any, **more: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            longer = self._longer or (None, None)
            keys, self.keys = _append(torch, longer[0], self.keys, key_states)
            values, self.values = _append(torch, longer[1], self.values, value_states)
            self._longer = (keys, values)
            return self.keys, self.values

        def reorder_cache(self, beam_idx: Any) -> None:
            if self._longer is None or not _is_beginning(self._longer[0], self.keys):
                super().reorder_cache(beam_idx)
                return
            length = self.get_seq_length()
            self._longer = (self._longer[0].index_select(0, beam_idx), self._longer[1].index_select(0, beam_idx))
            self.keys, self.values = (tensor[..., :length, :] for tensor in self._longer)

    return plain, LayerWithRoom


def _is_beginning(longer: Any, shown: Any) -> bool:
    """Whether `shown` still is the beginning of `longer`; selecting or cropping rows replaces it."""
    return longer is not None and longer.data_ptr() == shown.data_ptr() and longer.shape[0] == shown.shape[0]


def _append(torch: Any, longer: Any, old: Any, new: Any) -> tuple[Any, Any]:
    """A tensor with room, and its beginning, which holds old and new."""
    if old.numel() == 0:
        old = new[..., :0, :]
    length = old.shape[-2] + new.shape[-2]
    if not _is_beginning(longer, old) or longer.shape[-2] < length:
        longer = torch.empty((*new.shape[:-2], length + _ROOM, new.shape[-1]), dtype=new.dtype, device=new.device)
        longer[..., : old.shape[-2], :] = old
    longer[..., old.shape[-2] : length, :] = new
    return longer, longer[..., :length, :]
