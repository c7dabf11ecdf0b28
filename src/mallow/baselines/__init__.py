"""Other yardsticks: what was measured before divergence frontiers, for comparison with them.

table(reference, {"name": samples})               all of them side by side, with MAUVE* and its relatives

text_statistics(texts)                            Zipf coefficient, repetition, distinct-4, diversity, self-BLEU
frechet_distance(x, y), kernel_distance(x, y)     of features; also precision_recall, discriminator_accuracy
perplexity_gap(scorer, reference, model)          a statistic of texts under a scoring model
language_modelling(model, texts, rules)           how likely human text is under a model and decoder
ngram_mauve(reference, model)                     the masses of two fitted n-gram models

Optimal transport is in `mallow.theory.transport`.
"""

from typing import TYPE_CHECKING, Any

from mallow.baselines._features import (
    KernelDistances,
    Moments,
    PrecisionRecall,
    discriminator_accuracy,
    frechet_distance,
    kernel_distance,
    kernel_distances,
    precision_recall,
)
from mallow.baselines._language import (
    LanguageModelling,
    SequenceScores,
    language_modelling,
    ngram_mauve,
    perplexity,
    perplexity_gap,
    text_perplexities,
    token_log_probs,
)
from mallow.baselines._text import (
    TextStatistics,
    distinct,
    diversity,
    gap,
    repetition,
    self_bleu,
    text_repetitions,
    text_self_bleus,
    text_statistics,
    zipf_coefficient,
)

if TYPE_CHECKING:
    from mallow.baselines._table import Table, table

__all__ = [
    "KernelDistances",
    "LanguageModelling",
    "Moments",
    "PrecisionRecall",
    "SequenceScores",
    "Table",
    "TextStatistics",
    "discriminator_accuracy",
    "distinct",
    "diversity",
    "frechet_distance",
    "gap",
    "kernel_distance",
    "kernel_distances",
    "language_modelling",
    "ngram_mauve",
    "perplexity",
    "perplexity_gap",
    "precision_recall",
    "repetition",
    "self_bleu",
    "table",
    "text_perplexities",
    "text_repetitions",
    "text_self_bleus",
    "text_statistics",
    "token_log_probs",
    "zipf_coefficient",
]


def __getattr__(name: str) -> Any:
    """`table` stands above `mallow.score`, which stands above the rest of this package: it is loaded when asked for."""
    if name in ("Table", "table"):
        from mallow.baselines import _table as side_by_side

        return getattr(side_by_side, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
