"""Samples from language models: decoding rules, search, and models behind one protocol.

    generate(model, prefixes, "nucleus:0.95", max_new=128)

`NextToken` is what a model must offer. `NGram` is one that is fitted in seconds on any text and needs nothing but NumPy.
"""

from mallow.generate._causal import CausalModel
from mallow.generate._files import Plan, check_out, generate_file, is_fixed, prompts_of
from mallow.generate._log_probs import (
    SequenceScores,
    Text,
    checked_scores,
    opened_texts,
    refuse_unnormalised,
    steps_through,
    token_log_probs,
)
from mallow.generate._ngram import NGram
from mallow.generate._protocol import LogProbs, NextToken, Tokens
from mallow.generate._rules import Chain, Eta, MinP, Nucleus, Rule, Temperature, TopK, Typical
from mallow.generate._search import (
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
    "Chain",
    "Contrastive",
    "Decoder",
    "Eta",
    "Greedy",
    "HiddenStates",
    "LogProbs",
    "MinP",
    "NGram",
    "NextToken",
    "Nucleus",
    "Plan",
    "Rule",
    "Sampling",
    "SequenceScores",
    "Temperature",
    "Text",
    "Tokens",
    "TopK",
    "Typical",
    "check_out",
    "checked_scores",
    "decoder",
    "generate",
    "generate_file",
    "is_fixed",
    "opened_texts",
    "prompts_of",
    "refuse_unnormalised",
    "steps_through",
    "token_log_probs",
]
