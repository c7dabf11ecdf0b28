"""Tiny language models of transformers with random weights, saved like real ones; tests that import this are skipped without torch."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")
transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")
tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers: pip install 'mallow[text]'")

_SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_SIZE_64 = {**_SIZE, "intermediate_size": 64, "max_position_embeddings": 64}
_CONFIGS = {
    "gpt2": ("GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 1}),
    "llama": ("LlamaConfig", {**_SIZE_64, "bos_token_id": 1, "eos_token_id": 1}),
    "opt": ("OPTConfig", {**_SIZE, "ffn_dim": 64, "max_position_embeddings": 64, "word_embed_proj_dim": 32, "pad_token_id": 2}),
    "mistral": ("MistralConfig", {**_SIZE_64, "num_key_value_heads": 2, "sliding_window": 8}),
    "bloom": ("BloomConfig", {"hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mamba": ("MambaConfig", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
    "bert": ("BertConfig", _SIZE_64),
    "roberta": ("RobertaConfig", {**_SIZE_64, "max_position_embeddings": 66, "pad_token_id": 1}),
    "t5": ("T5Config", {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}),
    "xlnet": ("XLNetConfig", {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}),
}  # fmt: skip


def tiny_config(kind: str, *, vocabulary: int, **options):
    """Configuration of a model with two layers of 32 dimensions, by architecture; `options` replace its settings."""
    name, settings = _CONFIGS[kind]
    return getattr(transformers, name)(vocab_size=vocabulary, **(settings | options))


def tiny_tokenizer(texts, *, special=("<s>", "</s>"), min_frequency=1, **options):
    """Byte-level BPE of at most 300 tokens, trained on the texts; `options` are those of PreTrainedTokenizerFast."""
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, vocab_size=300, min_frequency=min_frequency, special_tokens=list(special))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer, eos_token="</s>", model_max_length=64, **options
    )


def save_tiny_model(folder: Path, config, tokenizer, *, auto="AutoModel") -> str:
    """Save a model of random weights with its tokenizer; returns the folder. The same weights every time."""
    torch.manual_seed(0)
    network = getattr(transformers, auto).from_config(config)
    with torch.no_grad():  # the usual small initial weights make all texts and all next tokens nearly equal
        for weights in network.parameters():
            weights.add_(0.1 * torch.randn_like(weights))
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def save_tiny_gguf(path: Path, texts) -> Path:
    """A Llama with random weights in one GGUF file, with a byte-level tokenizer that is trained on the texts."""
    import gguf
    import numpy as np

    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, vocab_size=300, special_tokens=["<s>", "</s>"])
    model = json.loads(trained.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    writer, width, inner = gguf.GGUFWriter(path, "llama"), 32, 64
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_block_count(2)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // 4)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(tokens) - 2))
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    rng = np.random.default_rng(0)
    shapes = {"token_embd": (len(tokens), width), "output": (len(tokens), width), "output_norm": (width,)}
    for block in range(2):
        square = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (width, width))
        wide = {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
        norms = dict.fromkeys(("attn_norm", "ffn_norm"), (width,))
        shapes |= {f"blk.{block}.{name}": shape for name, shape in (square | wide | norms).items()}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", (rng.normal(size=shape) / 5 + (len(shape) == 1)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
