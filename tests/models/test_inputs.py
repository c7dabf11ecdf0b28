"""What a model reads: its attention from the configuration, and the tokens of texts."""

from types import SimpleNamespace

import pytest

from mallow.errors import InputError
from mallow.models import tokenise
from mallow.models._tokens import attention_of

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")


def config(**entries):
    settings = SimpleNamespace(**{"model_type": "gpt2", **entries})
    settings.get_text_config = lambda: settings
    return settings


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({}, "causal"),
        ({"model_type": "bert"}, "both"),
        ({"model_type": "bert", "is_decoder": True}, "causal"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "encoder"),
        ({"use_bidirectional_attention": True}, "both"),
        ({"is_causal": False}, "both"),
        ({"model_type": "of my own"}, "both"),
    ],
    ids=["gpt2", "bert", "bert-decoder", "t5", "embedding-gemma", "not-causal", "unknown"],
)
def test_which_way_a_model_reads(entries, expected):
    causal = {"gpt2": "GPT2LMHeadModel", "bert": "BertLMHeadModel"}
    assert attention_of(config(**entries), causal, {"bert": "BertForMaskedLM"}) == expected


def test_bos_comes_first_once_if_asked_for(gpt2):
    tokenizer = transformers.AutoTokenizer.from_pretrained(gpt2)
    bos = tokenizer.bos_token_id
    plain = tokenise(tokenizer, ["abc", "<s>abc", ""], 4, add_bos=False)
    asked = tokenise(tokenizer, ["abc", "<s>abc", ""], 4, add_bos=True)
    assert asked[0].tolist() == [bos, *plain[0].tolist()][:4]
    assert asked[1].tolist() == plain[1].tolist()
    assert asked[2].tolist() == [bos]


def test_a_text_without_tokens_is_refused_if_no_special_token_can_stand_for_it(gpt2):
    tokenizer = transformers.AutoTokenizer.from_pretrained(gpt2, bos_token=None, eos_token=None)
    message = (
        r"^`samples` must have at least one token each, but the text at 1 has none, and the tokenizer has no token that begins "
        r"or ends a text\. Leave such texts out\.$"
    )
    with pytest.raises(InputError, match=message):
        tokenise(tokenizer, ["abc", ""], 4, add_bos=False)
