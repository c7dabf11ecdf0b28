"""What a model reads: in which direction, how many tokens at most, and the tokens of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError

Attention = Literal["causal", "both", "encoder"]
"""Only backwards; in both directions; the encoder of an encoder–decoder model."""

Tokens = NDArray[np.int32]

_AT_ONCE = 1024  # texts per call of the tokenizer (chosen: the lists of Python integers stay small)


def attention_of(config: Any, causal: Mapping[str, Any], masked: Mapping[str, Any]) -> Attention:
    """The attention of a model, from its configuration and the tables of transformers."""
    if getattr(config, "is_encoder_decoder", False):
        return "encoder"
    if getattr(config, "is_decoder", False):
        return "causal"
    # Many masked types also have a causal head (BertLMHeadModel), so the masked table decides. Some causal types were
    # trained further to read in both directions (EmbeddingGemma); their configuration says so.
    text = config.get_text_config()
    both_ways = getattr(text, "use_bidirectional_attention", False) or getattr(text, "is_causal", True) is False
    return "causal" if config.model_type in causal and config.model_type not in masked and not both_ways else "both"


def context_length(network: Any, tokenizer: Any) -> int:
    """The maximum number of tokens that the network can read."""
    config = network.config.get_text_config()
    stated = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions", "max_seq_len")]
    lengths = [int(value) for value in stated if value is not None and value > 0]  # -1 means unlimited in some models
    if not lengths:  # relative positions, as in T5: the length it was trained with
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
                        f"`samples` must have at least one token each; the text at {len(tokens)} has none, and the "
                        "tokenizer has no token that begins or ends a text. Leave such texts out."
                    )
                row = np.asarray([for_empty], np.int32)
            tokens.append(row)
    return tokens
