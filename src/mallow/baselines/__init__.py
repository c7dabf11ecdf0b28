"""Baselines: the measures that were used before divergence frontiers, for comparison with them.

    table(reference, {"name": samples})               all of them side by side, with MAUVE*, FI and Mid

    text_statistics(texts)                            Zipf coefficient, repetition, distinct-4, diversity, self-BLEU
    frechet_distance(x, y), kernel_distance(x, y)     of features; also precision_recall, discriminator_accuracy
    frechet_limit(x, y), gaussian_kernel_distance     FD∞, which does not depend on the sample size; CMMD
    clipped_shares(x, y)                              clipped density and clipped coverage
    vendi_score(x)                                    the effective number of different samples
    save_statistics(moments, name), load_statistics   the mean and covariance of a reference, as FID tools keep them
    tuned_discriminator_accuracy(reference, model, …) of texts: a language model, fine-tuned to tell them apart
    perplexity_gap(scorer, reference, model)          difference in perplexity under a scoring model
    language_modelling(model, texts, rules)           how likely human text is under a model and its decoder
    likelihoods(model, reference, generated)          all these likelihoods and the directly estimated frontier
    ngram_mauve(reference, model)                     masses from n-gram models of both sides

Optimal transport is in `mallow.theory.transport`.

**Feature metrics** take the features of the reference (n, d) and of the model (m, d), one row per sample, as
`mallow.embed` produces them. With the features of an Inception network, the Fréchet and the kernel distance are the FID
and the KID of the literature on images.

**Text statistics** are not better when they are higher or lower: greedy text repeats itself, and pure noise is as
diverse as possible. They are meaningful only in comparison with their value T(P) for human text: the gap |T(Q) − T(P)|,
where 0 is best, by `gap` for one statistic and by `TextStatistics.gap` for all. All of them except repetition depend on
the amount of text: compare equal numbers of texts of equal length.

A text is a str or a sequence of hashable tokens, such as a model's token ids. `tokenize` determines how a str is split
into tokens, and values for different choices cannot be compared:

    "whitespace"   ``text.split()``: "cat" and "cat." differ. Used with contrastive search. The default
    "regex"        words in lower case and single punctuation marks: `mallow.models.words`
    a callable     from a text to a list of tokens, such as the ``encode`` of a model. The paper uses GPT-2's tokens:
                   ``mallow.models.TokenFile(folder)`` with its vocab.json and merges.txt (command line: --tokenizer)

An end-of-text token counts like any other token: remove it first. An empty text is a text without n-grams.
"""

from mallow.baselines._clipped import ClippedShares, clipped_shares
from mallow.baselines._discriminator import TunedDiscriminator, discriminator_accuracy, tuned_discriminator_accuracy
from mallow.baselines._frechet import (
    Moments,
    find_statistics,
    frechet_distance,
    frechet_limit,
    load_statistics,
    save_statistics,
)
from mallow.baselines._kernel_distance import (
    KernelDistances,
    gaussian_kernel_distance,
    kernel_distance,
    kernel_distances,
    vendi_score,
)
from mallow.baselines._likelihoods import (
    LanguageModelling,
    Likelihoods,
    language_modelling,
    likelihoods,
    perplexity,
    perplexity_gap,
    text_perplexities,
)
from mallow.baselines._ngram_mauve import ngram_mauve
from mallow.baselines._precision_recall import PrecisionRecall, precision_recall
from mallow.baselines._statistics import (
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
from mallow.baselines._table import Row, Table, table

__all__ = [
    "ClippedShares",
    "KernelDistances",
    "LanguageModelling",
    "Likelihoods",
    "Moments",
    "PrecisionRecall",
    "Row",
    "Table",
    "TextStatistics",
    "TunedDiscriminator",
    "clipped_shares",
    "discriminator_accuracy",
    "distinct",
    "diversity",
    "frechet_distance",
    "frechet_limit",
    "gap",
    "gaussian_kernel_distance",
    "kernel_distance",
    "kernel_distances",
    "language_modelling",
    "likelihoods",
    "load_statistics",
    "ngram_mauve",
    "perplexity",
    "perplexity_gap",
    "precision_recall",
    "repetition",
    "save_statistics",
    "self_bleu",
    "table",
    "text_perplexities",
    "text_statistics",
    "tuned_discriminator_accuracy",
    "vendi_score",
    "zipf_coefficient",
]
