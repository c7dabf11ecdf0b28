"""Decoding of the family's models by whole batches: the texts of `mallow.generate.generate` in two thirds of the time.

The library asks any model for one row of probabilities per text and chooses row by row. Here all texts have prompts of one length and no text ends
early, so that keys and values lie in one array of their final size and a step is a few products of matrices and a few passes over the batch. Random
numbers, decoding rules and order of choice are those of the library: `tests/generate/test_family.py` compares the tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

from mallow.generate import Adversarial, Beam, Decoder, Greedy, Nucleus, Sampling, TopK, Typical

Tokens = NDArray[np.int64]
END = 0  # the only token that ends a text; it is never chosen
CHUNK = 64  # rows that are chosen together: their probabilities stay in the processor's cache


@dataclass(frozen=True)
class Network:
    """Weights of a model of GPT-2's architecture."""

    weights: dict[str, torch.Tensor]
    layers: int
    heads: int
    positions: int

    @classmethod
    def load(cls, folder: Path, heads: int) -> Network:
        found = {
            name.removeprefix("transformer."): value for name, value in load_file(folder / "model.safetensors").items()
        }
        layers = 1 + max(int(name.split(".")[1]) for name in found if name.startswith("h."))
        return cls(found, layers, heads, len(found["wpe.weight"]))

    @property
    def head_width(self) -> int:
        return self.weights["wte.weight"].shape[1] // self.heads


class Rows:
    """A batch of texts that are continued together: keys and values of all tokens so far."""

    def __init__(self, network: Network, count: int) -> None:
        self.network, self.length = network, 0
        shape = (network.layers, 2, count, network.heads, network.positions, network.head_width)
        self.memory = torch.empty(shape)

    def read(self, tokens: Tokens) -> NDArray[np.float32]:
        """Logits (b, vocabulary) after more tokens (b, t) of every text."""
        net, weights = self.network, self.network.weights
        count, new = tokens.shape
        first, last = self.length, self.length + new
        x = weights["wte.weight"][torch.from_numpy(tokens)] + weights["wpe.weight"][first:last]
        for layer in range(net.layers):
            part = f"h.{layer}."
            joint = self._affine(self._norm(x, part + "ln_1"), part + "attn.c_attn").view(count, new, 3, net.heads, -1)
            query, key, value = joint.permute(2, 0, 3, 1, 4)  # (b, heads, t, d)
            keys, values = self.memory[layer]
            keys[:, :, first:last], values[:, :, first:last] = key, value
            seen = scaled_dot_product_attention(query, keys[:, :, :last], values[:, :, :last], is_causal=new > 1)
            x = x + self._affine(seen.transpose(1, 2).reshape(count, new, -1), part + "attn.c_proj")
            inner = gelu(self._affine(self._norm(x, part + "ln_2"), part + "mlp.c_fc"), approximate="tanh")
            x = x + self._affine(inner, part + "mlp.c_proj")
        self.length = last
        return (self._norm(x[:, -1], "ln_f") @ weights["wte.weight"].T).numpy()

    def reorder(self, rows: Tokens) -> None:
        """The memory of each text becomes that of another one."""
        chosen = torch.from_numpy(rows)
        for part in self.memory.flatten(0, 1):  # one at a time: a copy of everything would not fit into the cache
            part[:, :, : self.length] = part[:, :, : self.length].index_select(0, chosen)

    def _affine(self, x: torch.Tensor, name: str) -> torch.Tensor:
        weights = self.network.weights
        return torch.addmm(weights[name + ".bias"], x.flatten(0, -2), weights[name + ".weight"]).view(*x.shape[:-1], -1)

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        weights = self.network.weights
        return layer_norm(x, x.shape[-1:], weights[name + ".weight"], weights[name + ".bias"])


def generators(keys: Iterable[int]) -> list[np.random.Generator]:
    """The random numbers of each text, those of `mallow.generate.generate` with rng=0 and these keys."""
    return [np.random.default_rng(np.random.SeedSequence(0, spawn_key=(key,))) for key in keys]


def continuations(
    network: Network, prefixes: Tokens, decoder: Decoder, new: int, generators: Sequence[np.random.Generator]
) -> Tokens:
    """So many new tokens (b, new) of each prefix (b, t)."""
    with torch.inference_mode():
        if isinstance(decoder, Beam):
            return _beam(network, prefixes, decoder, new)
        choose = _choice(decoder, len(prefixes), new, generators)
        rows, found = Rows(network, len(prefixes)), np.empty((len(prefixes), new), np.int64)
        logits = rows.read(prefixes)
        for step in range(new):
            for first in range(0, len(found), CHUNK):
                part = slice(first, first + CHUNK)
                found[part, step] = choose(logits[part], part, step)
            if step < new - 1:
                logits = rows.read(found[:, step : step + 1])
        return found


Choice = Callable[[NDArray[np.float32], slice, int], Tokens]


def _choice(decoder: Decoder, count: int, new: int, generators: Sequence[np.random.Generator]) -> Choice:
    """The next tokens from logits, the places of these rows in the batch, and the step."""
    if isinstance(decoder, Greedy):
        return lambda logits, _part, _step: 1 + logits[:, 1:].argmax(axis=1)
    if isinstance(decoder, Adversarial):
        return _steered(decoder, count, new, generators)
    if not isinstance(decoder, Sampling) or len(decoder.rules) > 1:
        raise NotImplementedError(decoder.name)
    uniform = np.array([generator.random(new) for generator in generators])
    [rule] = decoder.rules or (None,)

    def drawn(logits: NDArray[np.float32], part: slice, step: int) -> Tokens:
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights[:, END] = 0
        if rule is not None:
            weights *= _kept(rule, weights)
        reached = _cumulative(weights)
        return (reached <= uniform[part, step, None] * reached[:, -1:]).sum(axis=1)

    return drawn


def _kept(rule: object, weights: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which tokens a rule keeps, by weights that need not sum to 1; of equal weights at the cut, all."""
    if isinstance(rule, TopK):
        return weights >= np.partition(weights, -rule.k, axis=1)[:, -rule.k, None]
    if isinstance(rule, Nucleus):
        ranked = np.sort(weights, axis=1)
        below = _cumulative(ranked)  # all tokens up to this one
        total = below[:, -1:]
        # The tokens above this one have less than the mass, so that it is needed too.
        place = (total - below >= rule.mass * total).sum(axis=1, keepdims=True)
        return weights >= np.take_along_axis(ranked, place, axis=1)
    if isinstance(rule, Typical):
        shares = weights / weights.sum(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
        logs = np.log(np.maximum(shares, np.float32(1e-38)))
        distance = np.abs(logs - (shares * logs).sum(axis=1, keepdims=True, dtype=np.float64).astype(np.float32))
        distance[:, END] = np.inf
        order = np.argsort(distance, axis=1)
        reached = _cumulative(np.take_along_axis(shares, order, axis=1))
        place = np.minimum((reached < rule.mass).sum(axis=1, keepdims=True), shares.shape[1] - 2)
        return distance <= np.take_along_axis(distance, np.take_along_axis(order, place, axis=1), axis=1)
    raise NotImplementedError(rule)


def _cumulative(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    return torch.from_numpy(rows).cumsum(1, dtype=torch.float64).numpy()  # several times as fast as NumPy's


def _steered(decoder: Adversarial, count: int, new: int, generators: Sequence[np.random.Generator]) -> Choice:
    """The adversary: uniform tokens first, then whichever brings the mean surprisal nearest to its target."""
    first, target = math.ceil(decoder.uniform_share * new), math.log(decoder.perplexity)
    uniform, surprisal = np.array([generator.random(first) for generator in generators]), np.zeros(count)

    def steered(logits: NDArray[np.float32], part: slice, step: int) -> Tokens:
        rows = _log_probs(logits)
        if step < first:
            tokens = 1 + (uniform[part, step] * (rows.shape[1] - 1)).astype(np.int64)
        else:
            wanted = target * (step + 1) - surprisal[part]
            tokens = 1 + np.abs(rows[:, 1:] + wanted[:, None]).argmin(axis=1)
        surprisal[part] -= rows[np.arange(len(rows)), tokens]
        return tokens

    return steered


def _log_probs(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    return torch.log_softmax(torch.from_numpy(logits), dim=1).numpy()


def _beam(network: Network, prefixes: Tokens, decoder: Beam, new: int) -> Tokens:
    """Beam search among texts of one length, whose order is that of their log-probability."""
    count, width = len(prefixes), decoder.width
    rows = Rows(network, count * width)
    history = np.repeat(prefixes, width, axis=0)  # (b · width, t)
    scores = np.where(np.arange(width) == 0, 0.0, -np.inf)[None].repeat(count, axis=0)
    logits = rows.read(history)
    for step in range(new):
        log_probs = _log_probs(logits).astype(np.float64)
        log_probs[:, END] = -np.inf
        if decoder.no_repeat is not None:
            _forbid_repeats(log_probs, history, decoder.no_repeat)
        joint = (scores[:, :, None] + log_probs.reshape(count, width, -1)).reshape(count, -1)
        best = np.argpartition(joint, -width, axis=1)[:, -width:]
        best = np.take_along_axis(best, np.argsort(-np.take_along_axis(joint, best, axis=1), axis=1), axis=1)
        scores = np.take_along_axis(joint, best, axis=1)
        parents, tokens = np.divmod(best, log_probs.shape[1])
        owner = (np.arange(count)[:, None] * width + parents).ravel()
        history = np.column_stack([history[owner], tokens.ravel()])
        if step < new - 1:
            rows.reorder(owner)
            logits = rows.read(history[:, -1:])
    return history[::width, -new:]


def _forbid_repeats(log_probs: NDArray[np.float64], history: Tokens, size: int) -> None:
    """−∞ for tokens that would complete an n-gram of this size for a second time."""
    length = history.shape[1]
    same = np.ones((len(history), length - size + 1), bool)  # the n-gram that begins here starts as the text ends
    for place in range(size - 1):
        same &= history[:, place : place + same.shape[1]] == history[:, length - size + 1 + place, None]
    text, start = np.nonzero(same)
    log_probs[text, history[text, start + size - 1]] = -np.inf
