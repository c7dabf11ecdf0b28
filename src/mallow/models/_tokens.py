"""Texts as tokens of a model, of a vocabulary file, or as words, and the number of tokens that a model can read."""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mallow._files import digest, file_stamp
from mallow._optional import optional
from mallow.errors import InputError

Attention = Literal["causal", "both", "encoder"]
"""Only backwards; in both directions. The encoder of an encoder–decoder model."""

Tokens = NDArray[np.int32]

_AT_ONCE = 1024  # texts per call of the tokenizer (chosen: the lists of Python integers stay small)


def attention_of(config: Any, causal: Mapping[str, Any], masked: Mapping[str, Any]) -> Attention:
    """The attention of a model, from its configuration and the tables of transformers."""
    if getattr(config, "is_encoder_decoder", False):
        return "encoder"
    if getattr(config, "is_decoder", False):
        return "causal"
    # Many masked types also have a causal head (BertLMHeadModel), so the masked table decides. Some causal types were
    # trained further to read in both directions (EmbeddingGemma), according to their configuration.
    text = config.get_text_config()
    both_ways = getattr(text, "use_bidirectional_attention", False) or getattr(text, "is_causal", True) is False
    return "causal" if config.model_type in causal and config.model_type not in masked and not both_ways else "both"


def context_length(network: Any, tokenizer: Any) -> int:
    """The maximum number of tokens that the network can read."""
    config = network.config.get_text_config()
    stated = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions", "max_seq_len")]
    lengths = [int(value) for value in stated if value is not None and value > 0]  # -1 means unlimited in some models
    if not lengths:  # relative positions, as in T5, so the training length is used
        lengths = [int(tokenizer.model_max_length)]
    # RoBERTa and its relatives count positions from the padding token on: 514 positions are 512 tokens.
    lengths += [
        module.num_embeddings - module.padding_idx - 1
        for name, module in network.named_modules()
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None
    ]
    return min(lengths)


def tokenise(tokenizer: Any, texts: Sequence[str], limit: int, *, add_bos: bool) -> list[Tokens]:
    """Tokens of each text, at least one and at most `limit`; `add_bos` puts <bos> first if the tokenizer does not."""
    bos = tokenizer.bos_token_id
    special = (bos, tokenizer.eos_token_id, tokenizer.sep_token_id)
    for_empty = next((token for token in special if token is not None), None)
    tokens: list[Tokens] = []
    for start in range(0, len(texts), _AT_ONCE):
        encoded = tokenizer(
            list(texts[start : start + _AT_ONCE]),
            truncation=True,
            max_length=limit,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        for ids in encoded:
            row = np.asarray(ids, np.int32)
            if add_bos and bos is not None and not (row.size and row[0] == bos):
                row = np.concatenate([np.asarray([bos], np.int32), row])[:limit]
            if not row.size:
                if for_empty is None:
                    raise InputError(
                        f"`samples` must have at least one token each, but the text at {len(tokens)} has none, and the "
                        "tokenizer has no token that begins or ends a text. Leave such texts out."
                    )
                row = np.asarray([for_empty], np.int32)
            tokens.append(row)
    return tokens


@dataclass(frozen=True)
class TokenFile:
    """Splits texts into the tokens of a file such as GPT-2's: `text_statistics(texts, tokenize=TokenFile("gpt2-bpe"))`.

    Attributes
    ----------
    path : str
        A tokenizer.json, or a folder with one, or with GPT-2's vocab.json and merges.txt.
    """

    path: str

    @property
    def name(self) -> str:
        """The name of this tokenizer in results, with digests of its files: many are called tokenizer.json."""
        return f"tokens of {Path(self.path).expanduser().name}@{'+'.join(map(digest, _find_token_files(self.path)))}"

    def __call__(self, text: str) -> list[int]:
        """The token ids of a text, without special tokens."""
        ids: list[int] = load_token_file(self.path).encode(text, add_special_tokens=False).ids
        return ids


def load_token_file(path: str) -> Any:
    """The tokenizer of a file or folder, without truncation and padding. A changed file is read again."""
    files = _find_token_files(path)
    return _load_token_files(files, tuple(map(file_stamp, files)))


def _find_token_files(path: str) -> tuple[Path, ...]:
    """The tokenizer.json, or the vocabulary and the merges."""
    place = Path(path).expanduser().absolute()
    for files in ((place,), (place / "tokenizer.json",), (place / "vocab.json", place / "merges.txt")):
        if all(file.is_file() for file in files):
            return files
    raise InputError(
        '`tokenizer` must be "words", a tokenizer.json, or a folder with one or with '
        f"GPT-2's vocab.json and merges.txt, but there is none at {path!r}."
    )


@functools.lru_cache(maxsize=4)
def _load_token_files(files: tuple[Path, ...], _stamps: tuple[tuple[int, ...], ...]) -> Any:
    tokenizers = optional("tokenizers", extra="human")
    load = tokenizers.Tokenizer.from_file if len(files) == 1 else tokenizers.ByteLevelBPETokenizer
    try:
        tokenizer = load(*map(str, files))
    except Exception as error:  # tokenizers raises plain Exceptions
        raise InputError(
            f"`tokenizer` must be a tokenizer.json or GPT-2's files; {files[0]} cannot be read: {error}."
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


# Latin letters and the usual punctuation: no marks, joiners, emoji or scripts without spaces, and nothing invisible.
# The short pattern finds the same tokens in such texts, four times as fast.
_PLAIN = re.compile("[\x00-\u00ac\u00ae-\u02ff\u2010-\u2027\u2030-\u205e\u20a0-\u20bf]*")
_PLAIN_WORDS = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_ASCII_WORDS = re.compile(r"\w+(?:'\w+)*|[^\w\s\x1c-\x1f]", re.ASCII)  # the same, faster


def words(text: str) -> list[str]:
    """Words in lower case, and single punctuation marks and symbols, in the order of the text.

    Words keep their apostrophes (don't) and their combining marks (as in Devanagari or pointed Hebrew); underscores and
    digits belong to words. An emoji with its modifiers is one token, and so is a flag. Each Chinese or Japanese
    character is a token, because no spaces separate the words. In Thai, Lao, Khmer and Burmese everything between two
    spaces is one token, so pass a different `tokenize` for these languages. White space and invisible directional marks
    are dropped. Composed and decomposed letters are equal (NFC).

    Examples
    --------
    >>> words("Don't panic: 42 👍🏽!")
    ["don't", 'panic', ':', '42', '👍🏽', '!']
    """
    if text.isascii():
        return _ASCII_WORDS.findall(text.lower())
    text = unicodedata.normalize("NFC", text.lower())
    return (_PLAIN_WORDS if _PLAIN.fullmatch(text) else _pattern()).findall(text)


@functools.cache
def _pattern() -> re.Pattern[str]:
    # \w does not match combining marks, and `re` has no class for them, so Hindi words would be cut into pieces without
    # this. Built at the first use, because going through the characters takes a few milliseconds.
    letters = map(chr, (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)))  # there are no marks elsewhere
    others = (letter for letter in letters if letter.isprintable() and not letter.isalnum())  # few: categories are slow
    marks = _ranges([ord(letter) for letter in others if unicodedata.category(letter)[0] == "M"])
    alone = "\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
    invisible = "\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    skin, flag = "\U0001f3fb-\U0001f3ff", "[\U0001f1e6-\U0001f1ff]"
    word = rf"[^\W{alone}](?:[^\W{alone}]|[{marks}])*"
    symbol = rf"[^\w\s{invisible}][{marks}{skin}\U000e0020-\U000e007f]*"
    # Zero-width joiners occur inside words of Persian and of the scripts of India, and inside emoji.
    return re.compile(rf"{word}(?:['’\u200c\u200d]{word})*|{flag}{{2}}|[{alone}][{marks}]*|{symbol}(?:\u200d{symbol})*")


def _ranges(codes: list[int]) -> str:
    """Sorted character codes as the ranges of a regular expression."""
    first = [code for before, code in zip([-1, *codes], codes, strict=False) if code != before + 1]
    last = [code for code, after in zip(codes, [*codes[1:], sys.maxunicode + 2], strict=True) if after != code + 1]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(first, last, strict=True))
