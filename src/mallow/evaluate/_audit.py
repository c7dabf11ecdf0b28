"""What an embedder can detect: edited copies of the reference, scored as if they were models."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from mallow.embed import AnyEmbedder, JointEmbedder, embed_samples, embedder_name, find_embedder
from mallow.errors import Caveat, InputError, warn_about
from mallow.evaluate._compare import compare_pairs, embed_pairs
from mallow.evaluate._comparison import Comparison
from mallow.evaluate._run import Settings
from mallow.evidence import LEVEL, MAUVE_STAR, Measure, permutation_test
from mallow.results import Axes, Result, TableData, draw
from mallow.samples import Samples, read

_UNTOUCHED = "untouched"
_FEWEST_TEXTS = 200  # chosen: if the halves have fewer than 100 texts, hardly any edit is significant
_SMALL_FALL = 0.05  # chosen: a drop of the certified value that does not matter
_VERDICTS = {
    "no": f"Not detected: {{}} (the certified value falls by less than {_SMALL_FALL}, or edited texts cannot be told "
    "from the originals)",
    "yes": "Detected: {}",
    "unclear": "Inconclusive: {} (more texts are needed)",
}
_TIMED_TEXTS = 64  # chosen: a batch or two
_LOADING_RATIO = 1.5  # chosen: embedding must take this many times as long as one text, or it may be loading

Pairs = Mapping[str, tuple[Samples, Samples]]  # edit → one half, and the edited other half, both with features
_LOOP = 20  # words that a looping text repeats; chosen: a sentence or two, as in degenerate generations
Words = list[str]


@dataclass(frozen=True)
class Effect:
    """The effect of an edit on the score of real texts.

    Attributes
    ----------
    edit : str
        One of `EDITS`.
    mauve : float
        Published score of one half of the reference against the edited other half.
    certified : float
        The upper bound of their MAUVE, by held-out evidence.
    difference, low, high : float
        The change of the certified value by the edit, with its 95% interval: 0 to 0 if no feature changes, −1 to 1 if
        nothing was learned about either half, so that any change is possible.
    seen : "yes", "no" or "unclear"
        "yes": the certified value falls significantly. "no": it falls by less than 0.05, if at all, or no difference is
        found even between each text and its edited version. "unclear": more texts are needed.
    """

    edit: str
    mauve: float
    certified: float
    difference: float
    low: float
    high: float
    seen: Literal["yes", "no", "unclear"]

    @property
    def learned(self) -> bool:
        """Whether anything was learned about the change; otherwise there is no interval to show."""
        return (self.low, self.high) != (-1.0, 1.0)

    @property
    def change(self) -> str:
        """The change with its interval, as text."""
        if not self.learned:
            return "nothing was learned"
        if self.low == self.high == 0.0:
            return "none: the same features"
        return f"{self.difference:+.4f} ({self.low:+.4f} to {self.high:+.4f})"


@dataclass(frozen=True)
class Audit(Result):
    """What an embedder detects in texts like these.

    Attributes
    ----------
    embedder : str
    n : int
        The number of texts in each half.
    untouched : float
        Published score of one half against the other without edits, about the score of a perfect model.
    untouched_certified : float
        The upper bound of MAUVE of the two halves, by held-out evidence: 1 up to noise.
    effects : tuple of Effect
    rate : float
        Texts embedded per second, without loading.
    caveats : tuple of Caveat
        Reasons for doubt.
    """

    KIND: ClassVar[str] = "audit"
    ALSO = ("verdict",)

    embedder: str
    n: int
    untouched: float
    untouched_certified: float
    effects: tuple[Effect, ...]
    rate: float
    caveats: tuple[Caveat, ...] = ()

    def __str__(self) -> str:
        rate = f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.2g}"
        line = f"{self.embedder}: 2 × {self.n} texts, {rate} texts per second"
        return self._with_caveats([self.verdict, "", self.table(), "", line])

    @property
    def verdict(self) -> str:
        """The edits that the embedder does not detect, that it detects, and that are inconclusive, in words."""
        edits = {seen: ", ".join(effect.edit for effect in self.effects if effect.seen == seen) for seen in _VERDICTS}
        sentences = [words.format(edits[seen]) for seen, words in _VERDICTS.items() if edits[seen]]
        return f"{'. '.join(sentences)}."

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the change of certified MAUVE by each edit, with a 95% interval of the change; returns the axes.

        An edit about which nothing was learned only has a label.
        """
        ax = draw.axes(ax)
        learned = [(height, effect) for height, effect in enumerate(self.effects) if effect.learned]
        differences = np.array([effect.difference for _, effect in learned])
        ends = np.array([(effect.low, effect.high) for _, effect in learned]).reshape(-1, 2)
        reach = np.abs(ends.T - differences)
        ax.errorbar(differences, [height for height, _ in learned], xerr=reach, fmt="ko", markersize=5, capsize=3)
        ax.axvline(0.0, color="0.75", linewidth=1)
        labels = [
            f"{effect.edit} (seen: {effect.seen}{'' if effect.learned else ', nothing was learned'})"
            for effect in self.effects
        ]
        ax.set_yticks(range(len(labels)), labels)
        ax.invert_yaxis()  # the first edit on top
        ax.set_xlabel("change of certified MAUVE by the edit, with its 95% interval")
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def _table(self) -> TableData:
        rows = [[_UNTOUCHED, f"{self.untouched:.4f}", f"{self.untouched_certified:.4f}", "–", ""]]
        for effect in self.effects:
            rows.append([effect.edit, f"{effect.mauve:.4f}", f"{effect.certified:.4f}", effect.change, effect.seen])
        head = ["edit", "published\nMAUVE", "certified\nMAUVE", "change of certified\n(95% interval)", "seen"]
        return TableData(head, rows)

    def _records(self) -> list[dict[str, Any]]:
        return [asdict(effect) for effect in self.effects]


def audit_embedder(
    reference: object,
    embedder: AnyEmbedder | str | None = None,
    *,
    measure: Measure | str = MAUVE_STAR,
    repeats: int = 5,
    rng: int | np.random.Generator | None = 0,
) -> Audit:
    """What an embedder detects in texts like these: does the score fall when words are shuffled, cut off or repeated?

    The reference is split into two random halves; one half is scored against the other, untouched and after each of
    `EDITS`. An embedder that averages word vectors cannot detect the order of words, and an embedder that lower-cases
    texts cannot detect capital letters. No score can show what its embedder does not detect.

    Parameters
    ----------
    reference : list of texts, path or `Samples`
        At least 200 texts; 2,000 for a verdict on small differences.
    embedder : Embedder, callable, name or None
        As in `mallow.score`.
    measure :
        Estimator, divergence and scale, as in `mallow.score`.
    repeats :
        How many clusterings are averaged, as in `mallow.score`.
    rng :
        The seed of the clusterings, as in `mallow.score`.
    """
    settings = Settings.checked(measure, repeats, rng)
    texts = read(reference).require_texts()
    if len(texts) < _FEWEST_TEXTS:
        raise InputError(f"`reference` must hold at least {_FEWEST_TEXTS} texts to be split in two; got {len(texts)}.")
    chosen = find_embedder(embedder, kind="text") if embedder is None or isinstance(embedder, str) else embedder
    seed = settings.seed
    order = np.random.default_rng(seed).permutation(len(texts))
    half = len(texts) // 2
    first, other = ([texts[i] for i in part] for part in (order[:half], order[half : 2 * half]))
    rate = _embedding_rate(chosen, other)
    versions = {_UNTOUCHED: other, **{edit: edit_texts(other, edit, seed=seed) for edit in EDITS}}
    same = {name: Samples(texts=tuple(edited)).with_row_ids() for name, edited in versions.items()}
    pairs = embed_pairs(first, same, chosen, settings.measure, prompts=None)
    # The caveats of the comparison are left out, since a few samples that are far apart are intended here.
    comparison = compare_pairs(pairs, settings, baseline=_UNTOUCHED)
    caveats = pairs[_UNTOUCHED][0].caveats
    warn_about(caveats)
    untouched = comparison.scores[_UNTOUCHED]
    certified = untouched.certified["mauve"].value
    effects = tuple(_read_effect(comparison, pairs, edit, chosen, seed) for edit in EDITS)
    return Audit(embedder_name(chosen), half, untouched.mauve, certified, effects, rate, caveats)


def _read_effect(comparison: Comparison, pairs: Pairs, edit: str, embedder: AnyEmbedder, seed: int) -> Effect:
    [difference] = [difference for difference in comparison.differences if difference.first == edit]
    change, (low, high) = difference.difference["mauve"], difference.interval["mauve"]
    seen: Literal["yes", "no", "unclear"] = "unclear"
    if np.array_equal(pairs[_UNTOUCHED][1].require_features(), pairs[edit][1].require_features()):
        change = low = high = 0.0
        seen = "no"
    elif difference.significant and change < 0:
        seen = "yes"
    elif low > -_SMALL_FALL or _looks_the_same(pairs, edit, embedder, seed):
        seen = "no"
    score = comparison.scores[edit]
    return Effect(edit, score.mauve, score.certified["mauve"].value, change, low, high, seen)


def _looks_the_same(pairs: Pairs, edit: str, embedder: AnyEmbedder, seed: int) -> bool:
    """Whether no difference is found between the texts and their edited versions, pair by pair.

    This is the most sensitive test.
    """
    untouched, edited = (pairs[name][1] for name in (_UNTOUCHED, edit))
    if isinstance(embedder, JointEmbedder):  # each was embedded only with the other half
        p_value = permutation_test(untouched.texts, edited.texts, embedder=embedder, paired=True, rng=seed)
    else:
        p_value = permutation_test(untouched, edited, rng=seed)
    return p_value > LEVEL


def _embedding_rate(embedder: AnyEmbedder, texts: Sequence[str]) -> float:
    """Texts per second: measured on 64 texts if that takes much longer than loading, otherwise on all."""

    def seconds(part: Sequence[str]) -> float:
        start = time.perf_counter()
        embed_samples(Samples(texts=tuple(part)), embedder, cache=None, progress=False)
        return time.perf_counter() - start

    loading = seconds(texts[:1])
    for part in (texts[:_TIMED_TEXTS], texts):
        spent = seconds(part)
        if spent > _LOADING_RATIO * loading:
            return (len(part) - 1) / (spent - loading)
    return len(texts) / spent  # loading takes most of the time


EDITS: Mapping[str, Callable[[Words, np.random.Generator], Words]] = {
    "words shuffled": lambda words, rng: [words[i] for i in rng.permutation(len(words))],
    "first half": lambda words, rng: words[: max(1, len(words) // 2)],
    "first quarter": lambda words, rng: words[: max(1, len(words) // 4)],
    "looping": lambda words, rng: [words[i % _LOOP] for i in range(len(words))],  # to the length of the text
    "lower case": lambda words, rng: [word.lower() for word in words],
}
"""The edits of the words of a text. Except for the loss of capital letters, each is a defect that models have."""


def edit_texts(texts: Sequence[str], edit: str, *, seed: int = 0) -> list[str]:
    """The texts after one of `EDITS`. The edit of a text depends on its position and the seed, not on the other texts.

    Examples
    --------
    >>> edit_texts(["One two three four"], "first half")
    ['One two']
    """
    change = EDITS[edit]
    changed = [" ".join(change(text.split(), np.random.default_rng([seed, i]))) for i, text in enumerate(texts)]
    return [new or old for new, old in zip(changed, texts, strict=True)]  # a text of white space has no words
