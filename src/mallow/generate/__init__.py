"""Samples from language models: decoding rules, search, and models behind one protocol.

    generate(model, prefixes, "nucleus:0.95", max_new=128)

`NextToken` is what a model must offer. `NGram` is one that is fitted in seconds on any text and needs nothing but NumPy.
"""

from mallow.generate.causal import CausalModel
from mallow.generate.files import Plan, generate_file, prompts_of
from mallow.generate.ngram import NGram
from mallow.generate.protocol import NextToken
from mallow.generate.rules import Eta, MinP, Nucleus, Temperature, TopK, Typical
from mallow.generate.search import (
    Adversarial,
    Beam,
    Contrastive,
    Decoder,
    Greedy,
    HiddenStates,
    Sampling,
    decoder,
    generate,
)

__all__ = [
    "Adversarial",
    "Beam",
    "CausalModel",
    "Contrastive",
    "Decoder",
    "Eta",
    "Greedy",
    "HiddenStates",
    "MinP",
    "NGram",
    "NextToken",
    "Nucleus",
    "Plan",
    "Sampling",
    "Temperature",
    "TopK",
    "Typical",
    "decoder",
    "generate",
    "generate_file",
    "prompts_of",
]
