"""Room for future keys and values: those of a new token are written after the others, which need not be copied."""

from __future__ import annotations

import functools
from typing import Any

from mallow._optional import optional

_ROOM = 32  # tokens (chosen: more would be copied in vain if rows are selected at every step, as in beam search)


def add_room(cache: Any) -> Any:
    """The same cache of transformers, but its plain layers grow in place.

    For each token transformers joins old and new keys into a new tensor: with 250 texts of 150 tokens this took most of the
    time of a step. Layers of other kinds (sliding windows, recurrent states) stay as they are.
    """
    plain, with_room = _layers()
    for layer in getattr(cache, "layers", ()):
        if type(layer) is plain:
            layer.__class__ = with_room
    return cache


@functools.cache
def _layers() -> tuple[type, type]:
    """The layer class of transformers, and its subclass with room, which is defined here because transformers is optional."""
    torch = optional("torch", extra="text")
    plain: Any = optional("transformers.cache_utils", extra="text").DynamicLayer

    class LayerWithRoom(plain):  # type: ignore[misc]
        """Keys and values (b, heads, t, d) are the beginnings of longer tensors.

        A step writes after them, into tensors that earlier states may share; these are not used again (`NextToken.step`).
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
