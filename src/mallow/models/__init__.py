"""Pretrained models for `embed` and `generate`: finding and loading them, tokenizers, batches that fit into memory."""

from mallow.models._batches import halve_on_memory_error, ran_out_of_memory, within_memory
from mallow.models._load_errors import first_line, refuse_foreign_modules
from mallow.models._products import fast_products
from mallow.models._source import Precision, Source, choose_device, keep_model, kept_model, move_network
from mallow.models._tokens import Attention, TokenFile, Tokens, context_length, load_token_file, tokenise, words

__all__ = ["TokenFile", "words"]
