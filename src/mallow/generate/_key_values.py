"""Room for keys and values to come: one more token is written behind the others instead of copying them all."""

from __future__ import annotations

import functools
from typing import Any

from mallow._optional import optional

__all__ = ["with_room"]

_ROOM = 32  # tokens; more would be copied for nothing where rows are selected at every step, as in beam search


def with_room(cache: Any) -> Any:
    """The same cache of transformers, whose plain layers grow in place.

    transformers joins old and new keys into a new tensor for each token: with 250 texts of 150 tokens that took most of the
    time of a step. Layers of other kinds (sliding windows, recurrent states) stay as they are.
    """
    plain, roomy = _layers()
    for layer in getattr(cache, "layers", ()):
        if type(layer) is plain:
            layer.__class__ = roomy
    return cache


@functools.cache
def _layers() -> tuple[type, type]:
    """The layer of transformers, and the one with room: made here, since transformers is an extra."""
    torch = optional("torch", extra="text")
    plain: Any = optional("transformers.cache_utils", extra="text").DynamicLayer

    class Roomy(plain):  # type: ignore[misc]
        """Keys and values (b, heads, t, d) are the beginnings of longer tensors.

        A step writes behind them, into tensors that states before it may share: those are not used again (`NextToken.step`).
        """

        _held: tuple[Any, Any] | None = None
        keys: Any
        values: Any

        def update(self, key_states: Any, value_states: Any, *rest: Any, **more: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            held = self._held or (None, None)
            longer_keys, self.keys = _appended(torch, held[0], self.keys, key_states)
            longer_values, self.values = _appended(torch, held[1], self.values, value_states)
            self._held = (longer_keys, longer_values)
            return self.keys, self.values

        def reorder_cache(self, beam_idx: Any) -> None:
            if self._held is None or not _begins(self._held[0], self.keys):
                super().reorder_cache(beam_idx)
                return
            length = self.get_seq_length()
            self._held = (self._held[0].index_select(0, beam_idx), self._held[1].index_select(0, beam_idx))
            self.keys, self.values = (longer[..., :length, :] for longer in self._held)

    return plain, Roomy


def _begins(longer: Any, shown: Any) -> bool:
    """Whether `shown` still is the beginning of `longer`: whoever selects or crops rows replaces it."""
    return longer is not None and longer.data_ptr() == shown.data_ptr() and longer.shape[0] == shown.shape[0]


def _appended(torch: Any, longer: Any, old: Any, new: Any) -> tuple[Any, Any]:
    """A tensor with room, and its beginning that holds old and new."""
    if old.numel() == 0:
        old = new[..., :0, :]
    length = old.shape[-2] + new.shape[-2]
    if not _begins(longer, old) or longer.shape[-2] < length:
        longer = torch.empty((*new.shape[:-2], length + _ROOM, new.shape[-1]), dtype=new.dtype, device=new.device)
        longer[..., : old.shape[-2], :] = old
    longer[..., old.shape[-2] : length, :] = new
    return longer, longer[..., :length, :]
