"""experiments/family/decode.py writes the tokens that `mallow.generate.generate` writes, for every decoder of the study."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from mallow.generate import CausalModel, decoder, generate
from tiny_models import save_tiny_model, tiny_config, tiny_tokenizer

PATH = Path(__file__).resolve().parents[2] / "experiments" / "family" / "decode.py"
COUNT, BEFORE, NEW = 80, 5, 24


@pytest.fixture(scope="module")
def decode():
    spec = importlib.util.spec_from_file_location("family_decode", PATH)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look it up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tokenizer = tiny_tokenizer(["abc abd"], min_frequency=9, special=("</s>",), bos_token="</s>")
    config = tiny_config("gpt2", vocabulary=len(tokenizer), bos_token_id=0, eos_token_id=0)
    return save_tiny_model(tmp_path_factory.mktemp("gpt2"), config, tokenizer, auto="AutoModelForCausalLM")


@pytest.fixture(scope="module")
def prefixes():
    return np.random.default_rng(0).integers(1, 257, (COUNT, BEFORE))


NAMES = (
    "ancestral",
    "greedy",
    "nucleus:0.5",
    "nucleus:0.95",
    "top-k:5",
    "top-k:50",
    "typical:0.2",
    "typical:0.95",
    "adversarial:60.0",
    "beam:4",
    "beam:4:no-repeat=2",
)


@pytest.mark.parametrize("name", NAMES)
def test_the_tokens_are_those_of_the_library(decode, folder, prefixes, name):
    model = CausalModel(folder, dtype="float32", device="cpu").load()
    rows = prefixes[:12] if "beam" in name else prefixes  # more than a chunk of rows
    expected = generate(model, rows.tolist(), name, max_new=NEW, min_new=NEW, batch=COUNT)
    network = decode.Network.load(Path(folder), heads=4)
    found = decode.continuations(network, rows, decoder(name), NEW, decode.generators(range(len(rows))))
    assert len(np.unique(found)) > 20
    different = (found != np.array(expected)).any(axis=1).sum()
    assert different <= 1  # the last bits of a probability can decide a token at the edge of a set


def test_another_decoder_is_refused(decode, folder, prefixes):
    network = decode.Network.load(Path(folder), heads=4)
    for name in ("contrastive:4:0.6", "min-p:0.1", "temperature:0.7+top-k:5"):
        with pytest.raises(NotImplementedError):
            decode.continuations(network, prefixes, decoder(name), NEW, decode.generators(range(COUNT)))
