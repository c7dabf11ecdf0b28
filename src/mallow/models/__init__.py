"""Pretrained models: finding and loading them, tokenizers, batches that fit into memory. Shared by `embed` and `generate`."""

from mallow.models._batches import within_memory
from mallow.models._inputs import Attention, Tokens, context_length, tokenise
from mallow.models._kept import keep_model, kept_model
from mallow.models._load_errors import first_line
from mallow.models._memory import halve_on_memory_error, ran_out_of_memory
from mallow.models._options import Precision, choose_device, move_network, one_of
from mallow.models._own_code import refuse_foreign_modules
from mallow.models._source import Source
from mallow.models._token_file import TokenFile, load_token_file
from mallow.models._torch_weights import read_torch_weights
from mallow.models._word_tokenizer import words

__all__ = [
    "Attention",
    "Precision",
    "Source",
    "TokenFile",
    "Tokens",
    "choose_device",
    "context_length",
    "first_line",
    "halve_on_memory_error",
    "keep_model",
    "kept_model",
    "load_token_file",
    "move_network",
    "one_of",
    "ran_out_of_memory",
    "read_torch_weights",
    "refuse_foreign_modules",
    "tokenise",
    "within_memory",
    "words",
]
