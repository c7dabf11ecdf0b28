"""What an embedder sees: the reference against an edited half of itself."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mallow._checks import whole
from mallow.embed import AnyEmbedder, JointEmbedder, features, name_of, named
from mallow.errors import EstimateWarning, InputError
from mallow.evaluate import MAUVE_STAR, Comparison, Measure, compare
from mallow.samples import Samples, read

__all__ = ["EDITS", "Audit", "Effect", "audit_embedder", "edited"]

UNTOUCHED = "untouched"
_LOOP = 20  # words that a looping text repeats
_TIMED = 64  # texts whose embedding is timed
_LOADING = 1.5  # times that of one text: enough to tell embedding from loading
_FEWEST = 200
_SMALL = 0.05  # a fall of the score that does not matter


def shuffled(words: list[str], rng: np.random.Generator) -> list[str]:
    """The same words in another order."""
    return [words[i] for i in rng.permutation(len(words))]


def first_half(words: list[str], rng: np.random.Generator) -> list[str]:
    """The first half of the words."""
    return words[: max(1, len(words) // 2)]


def first_quarter(words: list[str], rng: np.random.Generator) -> list[str]:
    """The first quarter of the words."""
    return words[: max(1, len(words) // 4)]


def looping(words: list[str], rng: np.random.Generator) -> list[str]:
    """The first twenty words again and again, to the length of the text."""
    return [words[i % _LOOP] for i in range(len(words))]


def lower_case(words: list[str], rng: np.random.Generator) -> list[str]:
    """The text without capitals."""
    return [word.lower() for word in words]


EDITS: Mapping[str, Callable[[list[str], np.random.Generator], list[str]]] = {
    "words shuffled": shuffled,
    "first half": first_half,
    "first quarter": first_quarter,
    "looping": looping,
    "lower case": lower_case,
}
"""What is done to the words of a text; capitals aside, each is a defect that models have."""


@dataclass(frozen=True)
class Effect:
    """What an edit does to the score of texts that are otherwise real.

    Attributes
    ----------
    edit : str
    mauve : float
        Score of one half of the reference against the edited other half.
    difference, low, high : float
        How much the edit changes the score, freed of most of the bias, with a 95 % interval.
    seen : "yes", "no" or "unclear"
        "yes": the score falls significantly. "no": if it falls, then by less than 0.05. "unclear": more texts are needed.
    """

    edit: str
    mauve: float
    difference: float
    low: float
    high: float
    seen: Literal["yes", "no", "unclear"]


@dataclass(frozen=True)
class Audit:
    """What an embedder sees in texts like these.

    Attributes
    ----------
    embedder : str
    n : int
        Texts in each half.
    floor : float
        Score of one half against the other, untouched: the most that a perfect model could get.
    effects : tuple of Effect
    rate : float
        Texts embedded in a second, loading left out.
    """

    embedder: str
    n: int
    floor: float
    effects: tuple[Effect, ...]
    rate: float

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers, strings, lists and dicts."""
        return {
            "kind": "mallow audit",
            "embedder": self.embedder,
            "n": self.n,
            "floor": self.floor,
            "effects": [dict(vars(effect)) for effect in self.effects],
            "rate": self.rate,
        }


def audit_embedder(
    reference: object,
    embedder: AnyEmbedder | str | None = None,
    *,
    measure: Measure = MAUVE_STAR,
    repeats: int = 5,
    rng: int = 0,
) -> Audit:
    """What an embedder sees in texts like these: does the score fall when words are shuffled, cut off or repeated?

    The reference is split in two at random; one half is scored against the other, untouched and after each of `EDITS`. An
    embedder that averages words cannot see their order, and one that lower-cases cannot see capitals: what it does not see,
    no score with it will tell.

    Parameters
    ----------
    reference : list of texts, path or `Samples`
        At least 200 texts; 2,000 for a verdict on fine differences.
    embedder : Embedder, callable, name or None
        As in `mallow.score`.
    measure, repeats, rng :
        As in `mallow.score`.
    """
    texts = read(reference).texts
    if len(texts) < _FEWEST:
        raise InputError(f"`reference` must hold at least {_FEWEST} texts to be split in two; got {len(texts)}.")
    embed = named(embedder, kind="text") if embedder is None or isinstance(embedder, str) else embedder
    order = np.random.default_rng(whole("rng", rng, least=0)).permutation(len(texts))
    half = len(texts) // 2
    one, other = ([texts[i] for i in part] for part in (order[:half], order[half : 2 * half]))
    rate = _rate(embed, other)
    systems = {UNTOUCHED: other, **{name: edited(other, name, rng=rng) for name in EDITS}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # few samples and far apart is what is tried here
        found = compare(one, systems, measure=measure, embedder=embed, repeats=repeats, rng=rng, baseline=UNTOUCHED)
    return Audit(name_of(embed), half, found.scores[UNTOUCHED].mauve, _effects(found), rate)


def edited(texts: list[str], edit: str, *, rng: int = 0) -> list[str]:
    """The texts after an edit; text i is treated the same whatever the others are.

    Examples
    --------
    >>> edited(["One two three four"], "first half")
    ['One two']
    """
    change = EDITS[edit]
    changed = [" ".join(change(text.split(), np.random.default_rng([rng, i]))) for i, text in enumerate(texts)]
    return [new or old for new, old in zip(changed, texts, strict=True)]  # white space alone has no words


def _effects(found: Comparison) -> tuple[Effect, ...]:
    effects = []
    by_name = {difference.first: difference for difference in found.differences}
    for edit in EDITS:
        one = by_name[edit]
        low, high = one.interval["mauve"]
        fell = one.significant and one.difference["mauve"] < 0
        seen: Literal["yes", "no", "unclear"] = "yes" if fell else "no" if low > -_SMALL else "unclear"
        effects.append(Effect(edit, found.scores[edit].mauve, one.difference["mauve"], low, high, seen))
    return tuple(effects)


def _rate(embed: AnyEmbedder, texts: list[str]) -> float:
    """Texts in a second: of 64 where that takes long enough beside loading, of all otherwise."""

    def seconds(some: list[str]) -> float:
        start = time.perf_counter()
        if isinstance(embed, JointEmbedder):
            embed.points(some)
        else:
            features(Samples("text", tuple(some)), embed, cache=None, progress=False)
        return time.perf_counter() - start

    loading = seconds(texts[:1])
    for some in (texts[:_TIMED], texts):
        spent = seconds(some)
        if spent > _LOADING * loading:
            return (len(some) - 1) / (spent - loading)
    return len(some) / spent  # loading is most of it
