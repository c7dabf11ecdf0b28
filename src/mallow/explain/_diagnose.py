"""Where the gap is: the regions of the data that the model misses and those that it invents, with their samples.

The mid-point summary is a sum over bins of terms that are never negative,

    ½ (r f(p/r) + r f(q/r))     with r = (p + q)/2,

so each bin has its share of the gap. A bin with p > q is one that the model *misses* (type II error), a bin with q > p one
that it *invents* (type I error); the two totals add up to the mid-point. The costs D_f(P‖R) and D_f(Q‖R) are not split
each by itself: f(t) + c(t − 1) has the same divergence for every c and other terms, which with the non-negative generator
of KL are larger for a bin that is invented than for one that is missed. In their sum c cancels, bin by bin.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow._files import make_folder
from mallow._optional import optional
from mallow.embed import AnyEmbedder, Preprocess
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Codebook, Features, Prepared, Quantize, checked_pair
from mallow.evaluate import MAUVE_STAR, Measure, collected_doubts, described, embedded, generator, signature
from mallow.inference import holm
from mallow.models import words
from mallow.results import rendered
from mallow.samples import Samples, read
from mallow.theory import Array, Divergence, Masses, Partition, debiased

__all__ = ["Diagnosis", "Example", "Region", "bin_costs", "bin_p_values", "diagnose", "image_grid", "marking_terms"]

_LEVEL = 0.05
_TERMS = 8  # n-grams shown for a region
_MARKING = 3.0  # standard errors above 0 from which an n-gram is shown
_FEWEST = 3  # texts that must hold an n-gram
_PRIOR = 10.0  # texts that the prior counts as
_SHOWN = 88  # characters of a text in `to_text`


@dataclass(frozen=True)
class Example:
    """One sample of a region.

    Attributes
    ----------
    place : int
        Where it stands among the samples of its side, from 0.
    id : str or None
        Its id, where the samples have ids.
    text, path : str or None
        The text, or the file of the image; features have neither.
    """

    place: int
    id: str | None = None
    text: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class Region:
    """A bin in which one side has more samples than the other.

    Attributes
    ----------
    side : "missed" or "invented"
        "missed": the model has too few samples here; "invented": too many.
    bin : int
        Its number in the partition.
    share : float
        Its part of the gap of its side; the shares of all bins of a side sum to 1.
    reference, model : int
        How many samples of each side fell into it.
    expected : tuple of float
        How many would have, on average, were both sides one distribution.
    p_value : float
        Two-sided, for equal proportions in this bin: `bin_p_values`.
    adjusted : float
        The same after Holm's correction over all bins, shown or not.
    reference_examples, model_examples : tuple of Example
        The samples of each side nearest the centre of the bin, the nearest first, equal texts once.
    terms : tuple of str
        Words and pairs of words that mark the samples of the side in excess: `marking_terms`. Empty where there are no texts.
    lengths : dict
        Median number of words: "region", of the samples of the side in excess here; "elsewhere", of all other samples. Empty
        where there are no texts.
    """

    side: Literal["missed", "invented"]
    bin: int
    share: float
    reference: int
    model: int
    expected: tuple[float, float]
    p_value: float
    adjusted: float
    reference_examples: tuple[Example, ...]
    model_examples: tuple[Example, ...]
    terms: tuple[str, ...]
    lengths: dict[str, float]

    @property
    def significant(self) -> bool:
        """Whether the proportions differ at the 5 % level, after correction."""
        return self.adjusted < _LEVEL

    def to_text(self) -> str:
        """The region in some lines of plain text."""
        doubt = "" if self.significant else ", not significant"
        lines = [
            f"{self.share:.0%} of what is {self.side}: {self.reference} reference and {self.model} model samples where "
            f"{self.expected[0]:.1f} and {self.expected[1]:.1f} were expected; p = {self.adjusted:.2g}{doubt}"
        ]
        if self.terms:
            lines.append(f"  marked by  {', '.join(self.terms)}")
        if self.lengths:
            lines.append(f"  length     {self.lengths['region']:g} words; elsewhere {self.lengths['elsewhere']:g}")
        for name, examples in (("reference", self.reference_examples), ("model", self.model_examples)):
            lines += [f"  {name:<9}  {_shown(example)}" for example in examples]
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Where the gap between reference and model is.

    Attributes
    ----------
    missed, invented : tuple of Region
        The bins with the largest shares of their side, the largest first.
    gap : dict
        "missed" and "invented": the sum over all bins of that side; together they are the mid-point summary of these bins.
    kind : "text", "image" or "features"
    n : tuple of int
        Samples of the reference and of the model.
    bins : int
    signature : str
        Everything that the diagnosis depends on.
    warnings : tuple of str
        What makes it doubtful.
    """

    missed: tuple[Region, ...]
    invented: tuple[Region, ...]
    gap: dict[str, float]
    kind: Literal["text", "image", "features"]
    n: tuple[int, int]
    bins: int
    signature: str
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        parts = []
        for side, found in (("missed", self.missed), ("invented", self.invented)):
            sure = sum(region.significant for region in found)
            parts.append(f"{side} {self.gap[side]:.4f} ({sure} of {len(found)} regions significant)")
        return f"Diagnosis({', '.join(parts)}, bins={self.bins}, n={self.n})"

    def to_text(self) -> str:
        """All of it as plain text, for people."""
        both = self.gap["missed"] + self.gap["invented"]
        blocks = [
            f"gap {both:.4f} (mid-point): {self.gap['missed']:.4f} missed, {self.gap['invented']:.4f} invented; "
            f"{self.n[0]} reference and {self.n[1]} model samples in {self.bins} bins"
        ]
        for title, found in (("MISSED by the model", self.missed), ("INVENTED by the model", self.invented)):
            blocks.append(title if found else f"{title}: nothing")
            blocks += [f"{place}. {region.to_text()}" for place, region in enumerate(found, start=1)]
        return "\n\n".join(blocks + [f"warning: {text}" for text in self.warnings])

    def table(self, form: str = "text") -> str:
        """The regions, a row each, without examples, as "text", "markdown" or "latex"."""
        rows = []
        for one in (*self.missed, *self.invented):
            counts = [f"{one.share:.0%}", str(one.reference), str(one.model), f"{one.adjusted:.2g}"]
            rows.append([one.side, *counts, ", ".join(one.terms)])
        return rendered(form, ["", "share", "reference", "model", "p", "marked by"], rows, breaks=[len(self.missed)])

    def draw_images(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Draw each region of images by `image_grid` into missed-1.png, invented-1.png … of a folder, which is made."""
        home, drawn = make_folder(folder), []
        for some in (self.missed, self.invented):
            for place, region in enumerate(some, start=1):
                drawn.append(home / f"{region.side}-{place}.png")
                image_grid(region, drawn[-1])
        return tuple(drawn)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers, strings, lists and dicts; `from_dict` gives the same diagnosis back."""
        return {
            "kind": "mallow diagnosis",
            "missed": [_plain(region) for region in self.missed],
            "invented": [_plain(region) for region in self.invented],
            "gap": dict(self.gap),
            "samples": self.kind,
            "n": list(self.n),
            "bins": self.bins,
            "signature": self.signature,
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Diagnosis:
        """The diagnosis that `to_dict` wrote."""
        if data.get("kind") != "mallow diagnosis":
            raise InputError(f"`data` must be what Diagnosis.to_dict wrote; its kind is {data.get('kind')!r}.")
        return cls(
            missed=tuple(_unplain(region) for region in data["missed"]),
            invented=tuple(_unplain(region) for region in data["invented"]),
            gap=dict(data["gap"]),
            kind=data["samples"],
            n=tuple(data["n"]),
            bins=data["bins"],
            signature=data["signature"],
            warnings=tuple(data["warnings"]),
        )

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Diagnosis:
        """The diagnosis that `to_json` wrote."""
        return cls.from_dict(json.loads(text))


def diagnose(
    reference: Any,
    model: Any,
    *,
    embedder: AnyEmbedder | str | None = None,
    measure: Measure = MAUVE_STAR,
    regions: int = 5,
    examples: int = 3,
    rng: int = 0,
) -> Diagnosis:
    """Where the gap is: the bins that the model misses and those that it invents, with their samples.

    Parameters
    ----------
    reference, model : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The real data and the model's samples, of one kind.
    embedder : Embedder, callable, name or None
        As in `mallow.score`.
    measure : Measure
        Its estimator must be `Quantize`. With ``bins="auto"`` there are √(n + m) bins here, fewer than for a score: a region
        should be a topic of some dozens of samples, not a piece of one. Any other number, or a codebook, is kept; the gap is
        then the mid-point that ``score(…, repeats=1)`` gives for the same measure and seed. Look for a small defect in many
        samples with more bins.
    regions : int
        How many regions of each kind to show, at most.
    examples : int
        How many samples of each side to show in each region, at most.
    rng : int
        Seed.

    Notes
    -----
    A shift of one region moves all others: where a tenth of the model's samples is on a topic of its own, every other topic
    has a tenth less than in the reference, which the model then misses, a little of each.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human = rng.normal(size=(2000, 4))
    >>> machine = rng.normal(size=(2000, 4))
    >>> machine[:200] = rng.normal((6, 6, 0, 0), 0.5, size=(200, 4))
    >>> found = diagnose(human, machine)
    >>> first = found.invented[0]
    >>> first.significant, first.share > 0.5, all(example.place < 200 for example in first.model_examples)
    (True, True, True)
    """
    whole("regions", regions, least=1)
    whole("examples", examples, least=0)
    whole("rng", rng, least=0)
    quantize = _checked_estimator(measure)
    sides = (read(reference), read(model))
    (x, y), how = embedded({"reference": sides[0], "model": sides[1]}, embedder)
    x, y = checked_pair(x, y)
    if quantize.bins == "auto" and not isinstance(quantize.codebook, Codebook):
        quantize = replace(quantize, bins=_readable_bins(len(x), len(y)))
    measure = replace(measure, estimator=quantize)
    with collected_doubts() as doubts:
        prepared = quantize.prepare(x, y)
        # The first of the clusterings that a score with this seed averages.
        masses = quantize.masses(prepared, generator(rng, "clustering").spawn(1)[0])
        table = _table(masses, measure.divergence)
        _say_doubts(table, sides)
        chosen = table.largest(regions)
        points = _points(quantize, prepared, x, y)
        found = _regions(table, chosen, sides, points, examples)
    for text in doubts:
        warnings.warn(text, EstimateWarning, stacklevel=2)
    return Diagnosis(
        missed=tuple(region for region in found if region.side == "missed"),
        invented=tuple(region for region in found if region.side == "invented"),
        gap=table.gap,
        kind=sides[0].kind,
        n=(len(x), len(y)),
        bins=table.partition.bins,
        signature=signature(measure, described(how, x), (len(x), len(y)), masses, 1, rng),
        warnings=tuple(doubts),
    )


def bin_costs(masses: Masses, divergence: Divergence) -> Array:
    """What each bin adds to the mid-point summary: ½ (r f(p/r) + r f(q/r)) with r = (p + q)/2; never negative.

    Examples
    --------
    >>> from mallow import KL, midpoint
    >>> masses = Masses.from_histograms([0.5, 0.5, 0.0], [0.5, 0.25, 0.25])
    >>> costs = bin_costs(masses, KL)
    >>> costs.round(3), float((costs.sum() - midpoint(masses)).round(12))
    (array([0.   , 0.021, 0.087]), 0.0)
    """
    mix, half = (masses.p + masses.q) / 2.0, (masses.p - masses.q) / 2.0
    costs: Array = (divergence.terms(masses.p, mix, half) + divergence.terms(masses.q, mix, -half)) / 2.0
    return costs


def bin_p_values(p_counts: Any, q_counts: Any) -> Array:
    """The chance, were both sides one distribution, of proportions as unequal as those seen in a bin; exact, two-sided.

    The bins are made from the pooled samples without a look at their sides. So, were both sides drawn independently from
    one distribution, every way to deal the n + m samples out to sides of n and m would be as likely as the one seen, the
    bins staying as they are. The number of reference samples in a bin that holds c is then hypergeometric: n of n + m
    samples are marked, c are drawn. The smaller tail is doubled, since whether a bin is missed or invented is known from
    the same counts. That the samples were clustered, and into how many bins, costs nothing.

    Where the sides do differ, the bins depend a little on how; the p-value of a bin in which they do not is then that of a
    bin given beforehand, a good approximation. Samples must be independent: several generations for one prompt are not.

    Parameters
    ----------
    p_counts, q_counts : array-like (bins,)
        How many samples of each side fell into each bin.

    Examples
    --------
    >>> bin_p_values([10, 0, 90], [10, 9, 81]).round(4)
    array([1.    , 0.0032, 0.107 ])
    """
    p, q = np.asarray(p_counts, dtype=np.int64), np.asarray(q_counts, dtype=np.int64)
    return _hypergeometric(p, p + q, int(p.sum()), int(q.sum()))


def marking_terms(inside: Sequence[str], outside: Sequence[str]) -> tuple[str, ...]:
    """The words and pairs of words that mark some texts against others, the clearest first.

    For each n-gram the odds that a text holds it are compared, inside with outside: the log odds ratio over its standard
    error, with a prior worth ten texts at the rate of all texts together (Monroe, Colaresi and Quinn, Fightin' Words,
    2008, with texts counted in place of words). Counting texts, a text that repeats itself counts once; the prior keeps
    rare n-grams down and the standard error common ones. Shown are those of at least three texts and beyond three
    standard errors that share no word with a clearer one. Case and punctuation are ignored: `mallow.models.words`.

    Examples
    --------
    >>> marking_terms(["A soft cat sat.", "One soft cat."] * 20, ["A dog sat.", "A soft bed."] * 40)
    ('cat', 'one', 'soft')
    """
    return _all_terms([list(inside)], [*inside, *outside])[0]


def image_grid(region: Region, path: str | os.PathLike[str], *, size: int = 128) -> None:
    """Draw the examples of a region of images into a PNG file: the reference's above, the model's below.

    Parameters
    ----------
    region : Region
        Of a diagnosis of images.
    path : path
        Ends in .png.
    size : int
        Pixels of the square that an image is fitted into, with its proportions kept.
    """
    whole("size", size, least=8)
    target = Path(path)
    if target.suffix.lower() != ".png" or not target.parent.is_dir():
        raise InputError(f"`path` must name a .png file in a folder that exists; got {os.fspath(path)!r}.")
    rows = [[each.path for each in part if each.path] for part in (region.reference_examples, region.model_examples)]
    if not any(rows):
        raise InputError("`region` must have examples that are images; it has none. Diagnose images, with examples=3.")
    pillow, ops, draw = (optional(f"PIL.{name}", extra="images") for name in ("Image", "ImageOps", "ImageDraw"))
    margin = 16  # of the captions
    wide = max(size * max(map(len, rows)), 64)
    sheet = pillow.new("RGB", (wide, 2 * (size + margin)), "white")
    for row, (caption, files) in enumerate(zip(("reference", "model"), rows, strict=True)):
        top = row * (size + margin)
        draw.Draw(sheet).text((2, top + 2), caption if files else f"{caption}: none", fill="black")
        for column, file in enumerate(files):
            pixels = np.rint(Preprocess(size=None, scale=(0, 255), layout="hwc")(file)).astype(np.uint8)
            fitted = ops.pad(pillow.fromarray(pixels), (size, size), color="white")
            sheet.paste(fitted, (column * size, top + margin))
    sheet.save(target)


# --- the bins


@dataclass(frozen=True, eq=False)
class _Table:
    """What is known of each bin, (bins,) each."""

    partition: Partition
    costs: Array
    excess: Array  # p − q: above 0 where the model misses
    p_values: Array
    adjusted: Array

    @property
    def gap(self) -> dict[str, float]:
        return {side: float(self.costs[self.of(side)].sum()) for side in ("missed", "invented")}

    def of(self, side: str) -> NDArray[np.bool_]:
        return self.excess > 0 if side == "missed" else self.excess < 0

    def largest(self, regions: int) -> list[tuple[Literal["missed", "invented"], int]]:
        """The sides and numbers of the bins to show: the largest costs first, the lower number first among equals."""
        order = np.argsort(-self.costs, kind="stable")
        missed, invented = (order[self.of(side)[order]][:regions] for side in ("missed", "invented"))
        return [("missed", int(i)) for i in missed] + [("invented", int(i)) for i in invented]


def _checked_estimator(measure: Measure) -> Quantize:
    estimator = measure.estimator
    if not isinstance(estimator, Quantize):
        raise InputError(
            f"`measure` must have bins to tell regions apart; its estimator is {estimator!r}. Use Measure(Quantize())."
        )
    if estimator.smoothing is debiased:
        raise InputError(
            "`measure` must smooth each bin by itself to be split into bins; `debiased` extrapolates from half-samples. "
            "Use Quantize() as it is."
        )
    return estimator


def _readable_bins(n: int, m: int) -> int:
    """How many bins a diagnosis has by default: as many as there are samples in each, on average.

    Fewer bins mix a topic with its neighbours, more split it until no part is significant. With 10 % of 300 web texts
    replaced by documentation, 24 bins named it first and significantly for 8 of 8 seeds, 45 for 5 and 60 for 2.
    """
    return max(2, round(math.sqrt(n + m)))


def _table(masses: Masses, divergence: Divergence) -> _Table:
    partition = masses.partition
    if partition is None:  # for the type checker: Quantize always gives one
        raise InputError("`measure` must keep the bin of every sample; its masses have no partition.")
    costs = bin_costs(masses, divergence)
    if not np.isfinite(costs).all():
        raise InputError(
            f"The mid-point of {divergence} must be finite to be split into shares; empty bins make it infinite. "
            "Smooth the counts, as Quantize() does by itself, or take another divergence."
        )
    p_values = bin_p_values(partition.p_counts, partition.q_counts)
    return _Table(partition, costs, masses.p - masses.q, p_values, np.array(holm(p_values.tolist())))


def _hypergeometric(seen: NDArray[Any], pooled: NDArray[Any], n: int, m: int) -> Array:
    """Two-sided p-values of `seen` reference samples among the `pooled` ones of a bin."""
    from scipy.stats import hypergeom

    marked = hypergeom(n + m, n, pooled)
    found: Array = np.minimum(2.0 * np.minimum(marked.cdf(seen), marked.sf(seen - 1)), 1.0)
    return found


def _say_doubts(table: _Table, sides: tuple[Samples, Samples]) -> None:
    """Warn where no bin could be significant whatever its sides, and where samples are not independent."""
    p_counts, q_counts = table.partition.p_counts, table.partition.q_counts
    n, m, pooled = int(p_counts.sum()), int(q_counts.sum()), p_counts + q_counts
    extremes = [np.minimum(pooled, n), np.maximum(pooled - m, 0)]  # all from the reference; all from the model
    best = np.minimum(*(_hypergeometric(seen, pooled, n, m) for seen in extremes))
    mute = float(np.mean(best * len(best) >= _LEVEL))
    if mute > 0.5:
        warnings.warn(
            f"{mute:.0%} of the {len(best)} bins hold too few samples to be significant, even if all were of one side: "
            "pass fewer bins or more samples.",
            EstimateWarning,
            stacklevel=3,
        )
    for name, samples in zip(("reference", "model"), sides, strict=True):
        if samples.ids is not None and len(set(samples.ids)) < len(samples.ids):
            warnings.warn(
                f"several {name} samples share an id: they are not independent, and the p-values are too small.",
                EstimateWarning,
                stacklevel=3,
            )


def _points(quantize: Quantize, prepared: Prepared, x: Features, y: Features) -> tuple[Features, Features]:
    """Both samples in the space of the centres."""
    if isinstance(quantize.codebook, Codebook):
        return quantize.codebook.reduce(x), quantize.codebook.reduce(y)
    return prepared.points[prepared.group[: len(x)]], prepared.points[prepared.group[len(x) :]]


# --- what is in them


def _regions(
    table: _Table,
    chosen: list[tuple[Literal["missed", "invented"], int]],
    sides: tuple[Samples, Samples],
    points: tuple[Features, Features],
    examples: int,
) -> list[Region]:
    partition, gap = table.partition, table.gap
    n, m = len(partition.p_labels), len(partition.q_labels)
    members = [[np.flatnonzero(labels == i) for labels in (partition.p_labels, partition.q_labels)] for _, i in chosen]
    marks = _all_marks([0 if side == "missed" else 1 for side, _ in chosen], members, sides)
    found = []
    for (side, i), places, (terms, lengths) in zip(chosen, members, marks, strict=True):
        shown = [
            _nearest(samples, part[here], here, partition.centres[i], examples)
            for samples, part, here in zip(sides, points, places, strict=True)
        ]
        a, b = (len(here) for here in places)
        found.append(
            Region(
                side=side,
                bin=i,
                share=float(table.costs[i] / gap[side]),
                reference=a,
                model=b,
                expected=(n * (a + b) / (n + m), m * (a + b) / (n + m)),
                p_value=float(table.p_values[i]),
                adjusted=float(table.adjusted[i]),
                reference_examples=shown[0],
                model_examples=shown[1],
                terms=terms,
                lengths=lengths,
            )
        )
    return found


def _nearest(
    samples: Samples, rows: Features, places: NDArray[np.intp], centre: NDArray[Any], count: int
) -> tuple[Example, ...]:
    """The samples at `places`, whose points are `rows`, that are nearest the centre; equal texts once."""
    distance = ((rows.astype(np.float64) - centre) ** 2).sum(axis=1)
    found: list[Example] = []
    seen: set[str] = set()
    for place in places[np.argsort(distance, kind="stable")]:
        if len(found) == count:
            break
        text = samples.texts[place] if samples.kind == "text" else None
        if text is not None and text in seen:
            continue
        seen.add(text or "")
        path = str(samples.paths[place]) if samples.kind == "image" else None
        found.append(Example(int(place), samples.ids[place] if samples.ids else None, text, path))
    return tuple(found)


def _all_marks(
    excess: list[int], members: list[list[NDArray[np.intp]]], sides: tuple[Samples, Samples]
) -> list[tuple[tuple[str, ...], dict[str, float]]]:
    """The terms and the lengths that mark the samples of the side in excess in each region."""
    if sides[0].kind != "text":
        return [((), {}) for _ in excess]
    texts = [samples.texts for samples in sides]
    lengths = [np.array([len(text.split()) for text in part]) for part in texts]
    groups, medians = [], []
    for side, places in zip(excess, members, strict=True):
        here = places[side]
        groups.append([texts[side][place] for place in here])
        rest = np.concatenate([np.delete(lengths[side], here), lengths[1 - side]])
        medians.append({"region": float(np.median(lengths[side][here])), "elsewhere": float(np.median(rest))})
    terms = _all_terms(groups, [*texts[0], *texts[1]])
    return list(zip(terms, medians, strict=True))


def _all_terms(groups: Sequence[Sequence[str]], every: Sequence[str]) -> list[tuple[str, ...]]:
    """The n-grams that mark each group of texts against the rest of `every`, of which it is a part."""
    inside = [Counter(term for text in group for term in _ngrams(text)) for group in groups]
    # Only n-grams of several texts can mark a region: all n-grams of all texts would take much memory.
    candidates = {term for counts in inside for term, times in counts.items() if times >= _FEWEST}
    pooled = Counter(term for text in every for term in _ngrams(text) & candidates)
    return [_marking(counts, len(group), pooled, len(every)) for counts, group in zip(inside, groups, strict=True)]


def _marking(inside: Counter[str], n: int, pooled: Counter[str], total: int) -> tuple[str, ...]:
    """See `marking_terms`: `inside` and `pooled` say how many of n and of all `total` texts hold each n-gram."""
    # Among equally clear ones the word before the pair that holds it.
    terms = sorted((term for term, times in inside.items() if times >= _FEWEST), key=lambda term: (" " in term, term))
    here, all_over = (np.array([counts[term] for term in terms], dtype=np.float64) for counts in (inside, pooled))
    rate = (all_over + 0.5) / (total + 1.0)
    with_it, without = here + _PRIOR * rate, n - here + _PRIOR * (1.0 - rate)
    with_it_out, without_out = all_over - here + _PRIOR * rate, total - n - all_over + here + _PRIOR * (1.0 - rate)
    error = np.sqrt(1.0 / with_it + 1.0 / without + 1.0 / with_it_out + 1.0 / without_out)
    z = (np.log(with_it / without) - np.log(with_it_out / without_out)) / error
    order = [terms[i] for i in np.argsort(-z, kind="stable") if z[i] > _MARKING]
    return tuple(_with_news(order))[:_TERMS]


def _with_news(terms: Iterable[str]) -> Iterator[str]:
    """Those that share no word with one before them: "new" says little after "new york", and "of york" less."""
    said: set[str] = set()
    for term in terms:
        if said.isdisjoint(parts := term.split()):
            said.update(parts)
            yield term


def _ngrams(text: str) -> set[str]:
    """The words of a text and its pairs of neighbouring words, between which there is no punctuation."""
    tokens = [token if any(map(str.isalnum, token)) else "" for token in words(text)]
    found = {f"{first} {second}" for first, second in pairwise(tokens) if first and second}
    return found | set(filter(None, tokens))


# --- in and out


def _plain(region: Region) -> dict[str, Any]:
    return asdict(region) | {
        "expected": list(region.expected),
        "terms": list(region.terms),
        "reference_examples": [asdict(example) for example in region.reference_examples],
        "model_examples": [asdict(example) for example in region.model_examples],
    }


def _unplain(data: dict[str, Any]) -> Region:
    changed = {
        "expected": tuple(data["expected"]),
        "terms": tuple(data["terms"]),
        "reference_examples": tuple(Example(**each) for each in data["reference_examples"]),
        "model_examples": tuple(Example(**each) for each in data["model_examples"]),
    }
    return Region(**(data | changed))


def _shown(example: Example) -> str:
    """An example in one line, without anything that a terminal would obey."""
    if example.text is None:
        return example.path or f"sample {example.place}" + (f" ({example.id})" if example.id else "")
    line = "".join(each if each.isprintable() else "�" for each in " ".join(example.text.split()))
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
