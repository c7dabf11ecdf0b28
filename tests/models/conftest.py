"""A tiny model that several test files load."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory) -> Path:
    """Folder of a tiny GPT-2 with random weights and its tokenizer; not to be changed."""
    from tiny_models import save_tiny_model, tiny_config, tiny_tokenizer

    tokenizer = tiny_tokenizer(["abc abd"], min_frequency=9, bos_token="<s>")
    folder = tmp_path_factory.mktemp("models") / "gpt2"
    config = tiny_config("gpt2", vocabulary=300)
    return Path(save_tiny_model(folder, config, tokenizer, auto="AutoModelForCausalLM"))
