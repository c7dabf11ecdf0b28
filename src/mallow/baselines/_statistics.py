"""All text statistics of one system at once, and their gaps to the reference (paper: baseline metrics)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mallow.baselines._corpus import Text, Tokenize, count_ngrams, make_corpus, tokenizer_label
from mallow.baselines._diversity import distinct_share, diversity_product, fit_zipf
from mallow.baselines._repetition import find_repetitions
from mallow.baselines._self_bleu import ORDER, check_two, exact_mean, score_all, short_text_caveats
from mallow.errors import Caveat, InputError, warn_about, warns


@dataclass(frozen=True)
class TextStatistics:
    """The statistics of one system's texts, each with the options of the paper.

    Attributes
    ----------
    zipf_coefficient, repetition, distinct, diversity, self_bleu : float
        As computed by the functions of these names; `distinct` is that of 4-grams.
    texts, tokens : int
        The number of texts and of tokens.
    tokenize : str
        "whitespace", "regex", the name of a callable, or "tokens" if none of the texts was a str.
    caveats : tuple of Caveat
        Reasons to doubt the numbers.
    """

    zipf_coefficient: float
    repetition: float
    distinct: float
    diversity: float
    self_bleu: float
    texts: int
    tokens: int
    tokenize: str
    caveats: tuple[Caveat, ...] = ()

    @property
    def values(self) -> dict[str, float]:
        """The five statistics by name."""
        names = ("zipf_coefficient", "repetition", "distinct", "diversity", "self_bleu")
        return {name: getattr(self, name) for name in names}

    def gap(self, reference: TextStatistics) -> dict[str, float]:
        """|T(Q) − T(P)| of each statistic T, where 0 is best; both sides must have been tokenised in the same way.

        Examples
        --------
        >>> human = text_statistics(["to be or not to be", "not to be or to be"])
        >>> model = text_statistics(["to be or to be or", "to be or to be to"])
        >>> {name: round(value, 3) for name, value in model.gap(human).items()}
        {'zipf_coefficient': 0.123, 'repetition': 0.5, 'distinct': 0.333, 'diversity': 0.188, 'self_bleu': 0.42}
        """
        if self.tokenize != reference.tokenize:
            raise InputError(
                f"`reference` must be tokenised like the model's texts, by {self.tokenize!r}; got {reference.tokenize!r}."
            )
        warn_about(_size_caveats(reference.texts, self.texts))
        return {name: abs(value - reference.values[name]) for name, value in self.values.items()}


@warns
def text_statistics(texts: Sequence[Text], *, tokenize: Tokenize = "whitespace") -> TextStatistics:
    """All statistics of some texts, which are tokenised and counted once.

    At least two texts are needed, and one of them must have at least 4 tokens.

    Examples
    --------
    >>> statistics = text_statistics(["the cat sat on the mat", "the dog sat on the rug", "it ran and ran"])
    >>> statistics.repetition, round(statistics.self_bleu, 3), statistics.tokens
    (0.0, 0.145, 16)
    """
    texts = check_two(texts)
    corpus = make_corpus(texts, tokenize)
    ngrams = count_ngrams(corpus, ORDER)
    return TextStatistics(
        zipf_coefficient=fit_zipf(ngrams[0]),
        repetition=float(find_repetitions(corpus).mean()),
        distinct=distinct_share(ngrams[3]),
        diversity=diversity_product(ngrams),
        self_bleu=exact_mean(score_all(ngrams, corpus.lengths)),
        texts=len(texts),
        tokens=len(corpus.tokens),
        tokenize=tokenizer_label(tokenize) if any(isinstance(text, str) for text in texts) else "tokens",
        caveats=short_text_caveats(corpus),
    )


def gap(statistic: Callable[[Sequence[Text]], float], reference: Sequence[Text], model: Sequence[Text]) -> float:
    """|T(Q) − T(P)| of one statistic T, where 0 is best; to set options, pass a lambda or a `functools.partial`.

    Examples
    --------
    >>> from mallow.baselines import distinct
    >>> gap(lambda texts: distinct(texts, n=2), ["to be or not to be"], ["to be to be to be"])
    0.4
    """
    warn_about(_size_caveats(len(reference), len(model)))
    return abs(statistic(model) - statistic(reference))


def _size_caveats(reference: int, model: int) -> tuple[Caveat, ...]:
    if reference == model:
        return ()
    text = (
        f"the reference has {reference} texts and the model {model}: most text statistics depend on the number of texts. "
        "Compare equal numbers."
    )
    return (Caveat("unequal sizes", text, values={"n": reference, "m": model}),)
