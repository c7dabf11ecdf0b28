"""Pretrained models: finding and loading them, tokenizers, batches within memory. Shared by `embed` and `generate`."""

from mallow.models._batches import ran_out_of_memory, within_memory
from mallow.models._pretrained import (
    Attention,
    Precision,
    Source,
    Tokens,
    chosen_device,
    context,
    first_line,
    moved,
    one_of,
    tokenised,
)
from mallow.models._words import words

__all__ = [
    "Attention",
    "Precision",
    "Source",
    "Tokens",
    "chosen_device",
    "context",
    "first_line",
    "moved",
    "one_of",
    "ran_out_of_memory",
    "tokenised",
    "within_memory",
    "words",
]
