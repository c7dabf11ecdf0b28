"""Hidden states of a language model for one batch of texts, pooled to one vector per text."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from mallow.embed._protocol import Points
from mallow.models import Tokens

Pooling = Literal["last", "mean", "cls"]
"""Which hidden states make the vector of a text."""


def is_causal(torch: Any, model: Any) -> bool:
    """Whether the state of a token is the same whatever follows it, found out by trying.

    If so, texts padded on the right need no mask, and attention takes its fastest path. A model that claims to be causal
    and is not (XLNet) gets masks.
    """
    with torch.inference_mode():
        first = _states(model, torch.tensor([[2, 3], [2, 4]], device=model.device), None)[:, 0].float()
    return bool((first[0] - first[1]).abs().max() <= 1e-3 * first.abs().max())


def find_last_mlp(torch: Any, model: Any) -> Any:
    """The MLP of the last layer, if it can be run for only one token per text, which saves 2/3 of that layer.

    Its output for one token is added to the states of all tokens. That is right at this token, and the others are not
    used. Layers differ between models, so this is tried; None if there is no such part or the result differs.
    """
    stacks = [part for part in model.children() if isinstance(part, torch.nn.ModuleList) and len(part) > 0]
    mlp = getattr(stacks[-1][-1], "mlp", None) if stacks else None
    if mlp is None:
        return None
    ids = torch.tensor([[2, 3, 4], [4, 3, 2]], device=model.device)
    last, every = torch.tensor([2, 1], device=model.device), torch.arange(2)
    with torch.inference_mode():
        plain = _states(model, ids, None)[every, last].float()
        try:
            with only_at_places(mlp) as chosen:
                chosen.places = last
                short = _states(model, ids, None)[every, last].float()
        except (RuntimeError, TypeError, IndexError):
            return None
    return mlp if bool((plain - short).abs().max() <= 1e-2 * plain.abs().max()) else None


@contextlib.contextmanager
def only_at_places(module: Any) -> Iterator[threading.local]:
    """Inside, the module gets one state per text, (batch, 1, width): the one at `places`, which each thread sets for itself.

    Nothing changes if `module` is None.
    """
    chosen = threading.local()

    def shorten(_: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        states, *others = inputs
        return states.gather(1, chosen.places[:, None, None].expand(-1, 1, states.shape[-1])), *others

    handle = None if module is None else module.register_forward_pre_hook(shorten)
    try:
        yield chosen
    finally:
        if handle is not None:
            handle.remove()


def pooled_states(
    torch: Any,
    model: Any,
    texts: Sequence[Tokens],
    pooling: Pooling,
    *,
    causal: bool,
    chosen: threading.local,
    layer: int | None = None,
) -> Points:
    """Features of one batch of texts: padded on the right with any token, masked if the model could see the padding.

    `layer` is the hidden layer, 0 for the input embeddings; None for the last one, after the final norm.
    """
    lengths = np.asarray([len(tokens) for tokens in texts])
    padded = np.full((len(texts), lengths.max()), texts[0][-1], np.int64)
    for row, tokens in zip(padded, texts, strict=True):
        row[: len(tokens)] = tokens
    inside = np.arange(padded.shape[1]) < lengths[:, None]  # (batch, length)
    with torch.inference_mode():
        mask = None if causal or inside.all() else torch.from_numpy(inside.astype(np.int64)).to(model.device)
        last = chosen.places = torch.from_numpy(lengths - 1).to(model.device)
        states = _states(model, torch.from_numpy(padded).to(model.device), mask, layer)  # (batch, length, width)
        if pooling == "cls":
            pooled = states[:, 0].float()
        elif pooling == "last":
            pooled = states[torch.arange(len(texts), device=states.device), last].float()
        elif inside.all():
            pooled = states.mean(1, dtype=torch.float32)
        else:
            kept = torch.from_numpy(inside).to(states.device)[..., None]
            total = torch.where(kept, states, 0).sum(1, dtype=torch.float32)
            pooled = total / torch.from_numpy(lengths[:, None]).to(states.device, torch.float32)
        rows: Points = pooled.cpu().numpy()
    return rows


def _states(model: Any, ids: Any, mask: Any, layer: int | None = None) -> Any:
    options = {} if mask is None else {"attention_mask": mask}
    if getattr(model.config, "use_cache", None) is not None and not model.config.is_encoder_decoder:
        options["use_cache"] = False  # nothing is generated, so keys and values need not be kept
    if layer is None:
        return model(input_ids=ids, **options).last_hidden_state
    return model(input_ids=ids, output_hidden_states=True, **options).hidden_states[layer]
