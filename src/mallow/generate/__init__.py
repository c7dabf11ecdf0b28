"""Samples from language models: decoding rules, search, and models behind one protocol.

    generate(model, prefixes, "nucleus:0.95", max_new=128)

`psi_samples` draws from any generator of two stages, such as a GAN. `NextToken` is what a model must offer. `NGram` is
a model that is fitted in seconds on any text and needs only NumPy.
"""

from mallow.generate._causal import CausalModel
from mallow.generate._decoders import (
    Adversarial,
    Beam,
    Contrastive,
    Decoder,
    Greedy,
    Sampling,
    decoder,
    is_deterministic,
)
from mallow.generate._files import GenerationPlan, Prompt, check_output_path, generate_file, prompts_of
from mallow.generate._log_probs import (
    Text,
    check_normalised,
    check_scores,
    iterate_positions,
    split_prefixes,
    token_log_probs,
)
from mallow.generate._ngram import NGram
from mallow.generate._protocol import HiddenStates, LogProbs, NextToken, SequenceScores, Tokens
from mallow.generate._psi import mean_embedding, psi_samples
from mallow.generate._rules import Chain, Eta, MinP, Nucleus, Rule, Temperature, TopK, Typical, TypicalSum
from mallow.generate._search import generate

__all__ = [
    "Adversarial",
    "Beam",
    "CausalModel",
    "Chain",
    "Contrastive",
    "Decoder",
    "Eta",
    "GenerationPlan",
    "Greedy",
    "HiddenStates",
    "LogProbs",
    "MinP",
    "NGram",
    "NextToken",
    "Nucleus",
    "Prompt",
    "Rule",
    "Sampling",
    "SequenceScores",
    "Temperature",
    "Tokens",
    "TopK",
    "Typical",
    "TypicalSum",
    "decoder",
    "generate",
    "generate_file",
    "mean_embedding",
    "prompts_of",
    "psi_samples",
    "token_log_probs",
]
