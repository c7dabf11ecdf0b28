"""Other yardsticks: what was measured before divergence frontiers, for comparison with them.

perplexity_gap(scorer, reference, model)          a statistic of texts under a scoring model
language_modelling(model, texts, rules)           how likely human text is under a model and decoder
ngram_mauve(reference, model)                     the masses of two fitted n-gram models
"""

from mallow.baselines.language import (
    LanguageModelling,
    SequenceScores,
    language_modelling,
    ngram_mauve,
    perplexity,
    perplexity_gap,
    text_perplexities,
    token_log_probs,
)

__all__ = [
    "LanguageModelling",
    "SequenceScores",
    "language_modelling",
    "ngram_mauve",
    "perplexity",
    "perplexity_gap",
    "text_perplexities",
    "token_log_probs",
]
