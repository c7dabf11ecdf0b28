"""A test of copying: is the model nearer to its training data than fresh data are?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mallow._checks import seed_from, whole
from mallow.embed import AnyEmbedder, embed_all
from mallow.engine import settle
from mallow.errors import Caveat, InputError, warn_about
from mallow.estimate import as_features, same_width
from mallow.evidence import LEVEL, NORMAL, Units, compare_means, find_units, permutation_test
from mallow.explain._nearness import (
    Indices,
    Neighbours,
    closest_shares,
    find_neighbours,
    kernel_likelihoods,
    neighbour_counts,
)
from mallow.explain._region import Example
from mallow.explain._regions import make_example
from mallow.results import Axes, Estimate, Result, TableData, at_most, draw, p_text
from mallow.samples import Samples
from mallow.theory import Array

_SHOWN = 5  # chosen: near copies in print
# Chosen on passages of books (experiments/memorisation), confirmed on news.
_NEXT = 4  # the scale of a ratio is the distance to the fourth neighbour after the nearest
# Shares of the model's samples that are tested, closest first.
_CLOSEST_OF_MODEL = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_CLOSEST_OF_BOTH = (0.005, 0.01, 0.02, 0.05)  # of model and reference together
_BANDWIDTH = 0.2  # of the density, in units of the median distance from the nearest sample of the model
_LISTED = 0.01  # share of the reference up to which samples count as near copies
_FEWEST = 100  # with fewer samples of the model or the reference, the shares above are single samples
_COMPARED = 1000  # training samples that are compared with the reference, to check for one distribution
_DIFFERENT = 0.01  # p-value of this comparison below which they differ
_DIGITS = 6


@dataclass(frozen=True)
class NearCopy:
    """A sample of the model that is nearer to a training sample than nearly all fresh samples are.

    Attributes
    ----------
    sample, source : Example
        The sample of the model, and its nearest training sample.
    distance : float
        The distance between their features.
    ratio : float
        The distance divided by the distance to the fifth nearest training sample; 0 for an exact copy.
    rarity : float
        The share of fresh samples that are as near, including itself: (1 + their number) / (1 + n). It is a p-value for
        this single sample.
    """

    sample: Example
    source: Example
    distance: float
    ratio: float
    rarity: float


@dataclass(frozen=True, eq=False, repr=False)
class Memorisation(Result):
    """Whether a model copies its training data.

    Attributes
    ----------
    p_value : float
        The p-value for "the model does not copy", meaning that its samples are no nearer to the training data than to
        the reference, by a test that exchanges training data with the reference. It is valid for any model if both were
        drawn from one distribution.
    nearer_than_fresh : float
        The p-value of a second test, which exchanges samples of the model with the reference, for "very near to
        training data, there are not more model samples than reference samples". It keeps its power with many more
        training data than fresh data. But a model with few kinds of samples that copies nothing may fail it, so by
        itself it does not prove copying.
    exact : bool
        Whether all units could be exchanged in both tests.
    share : Estimate
        The share of near copies among the model's samples minus the share among fresh samples, with a 95% interval.
        Copies that were edited so much that 1% of the fresh samples are as near do not count.
    drawn : Estimate
        The share of the model's samples that are near training data beyond chance, however much they were edited: the
        excess of the first entry of `nearest` over the second, relative to the largest possible excess, with a 95%
        interval. Less precise than `share`.
    near : tuple of float
        The shares of the reference and of the model that are as near to training data as `threshold`.
    threshold : float
        The largest ratio of a listed sample. At most 1% of the reference are as near.
    nearest : tuple of float
        The share of the model's samples whose nearest neighbour, among training data and reference, is a training
        sample, and the share expected by chance.
    likelihood_gap : float
        The mean log density of the model's samples at training data, minus the same at the reference; about 0 for a
        model that generalises.
    copies : tuple of NearCopy
        The listed samples, nearest first.
    reference_ratios : array (n,)
        The ratio of each reference sample; see `NearCopy`.
    model_ratios : array (m,)
        The ratio of each model sample; see `NearCopy`.
    n : tuple of int
        The numbers of samples of the reference, the model and the training data.
    caveats : tuple of Caveat
        Reasons for doubt.
    """

    KIND: ClassVar[str] = "memorisation"
    ALSO = ("verdict", "copying")

    p_value: float
    nearer_than_fresh: float
    exact: bool
    share: Estimate
    drawn: Estimate
    near: tuple[float, float]
    threshold: float
    nearest: tuple[float, float]
    likelihood_gap: float
    copies: tuple[NearCopy, ...]
    reference_ratios: Array
    model_ratios: Array
    n: tuple[int, int, int]
    caveats: tuple[Caveat, ...] = ()

    def __repr__(self) -> str:
        return f"Memorisation({p_text(self.p_value)}, share={self.share.value:.4f}, n={self.n})"

    def __str__(self) -> str:
        lines = [self.verdict, "", self.table(), "", *self.copy_lines()]
        return self._with_caveats(lines)

    @property
    def copying(self) -> bool:
        """Whether copying was found, at the 5% level."""
        return self.p_value < LEVEL

    @property
    def verdict(self) -> str:
        """Whether the model copies, in one or two sentences."""
        low, high = self.share.low, self.share.high
        if self.copying:
            return (
                f"The model copies training data ({p_text(self.p_value)}): {_percent(self.share.value)} of its "
                f"samples are near copies beyond what fresh data show (95% interval: {_percent(low)} to "
                f"{_percent(high)}), and about {_percent(self.drawn.value)} ({_percent(self.drawn.low)} to "
                f"{_percent(self.drawn.high)}) lie at training data beyond chance, edited or not."
            )
        if self.nearer_than_fresh < LEVEL:
            return (
                "The model may copy training data: more of its samples are very near to them than of fresh data "
                f"({p_text(self.nearer_than_fresh)}), but they are not proven to be nearer to training data than to "
                f"fresh ones ({p_text(self.p_value)}). Look at the near copies; more fresh data would decide."
            )
        return (
            f"No copying was found ({p_text(self.p_value)}): the model's samples are about as near to the training "
            f"data as fresh data are. At most {at_most(100 * high, 1)}% of them are nearer than 99% of fresh data "
            "beyond chance (95% confidence)."
        )

    def copy_lines(self, count: int = _SHOWN) -> list[str]:
        """The nearest samples with their sources, one line each."""
        lines = []
        for copy in self.copies[:count]:
            lines.append(f"{copy.ratio:.2f}  model:    {copy.sample}")
            lines.append(f"      training: {copy.source}")
        more = len(self.copies) - count
        return [*lines, *([f"… and {more} more"] if more > 0 else []), ""] if lines else []

    def _table(self) -> TableData:
        share, chance = self.nearest
        model, fresh = (f"{np.median(ratios):.3f}" for ratios in (self.model_ratios, self.reference_ratios))
        nearer = f"{p_text(self.p_value)}, exchanging training and fresh data"
        near = f"ratio at most {self.threshold:.2f}" if self.threshold >= 0 else "too many fresh samples are as near"
        rows = [
            ["near copies", _percent(self.near[1]), _percent(self.near[0]), near],
            ["nearest is training", _percent(share), f"{_percent(chance)} by chance", nearer],
            ["ratio, median", model, fresh, f"{p_text(self.nearer_than_fresh)}, exchanging model and fresh data"],
        ]
        return TableData(["", "model", "fresh data", ""], rows, left=(0, 3))

    def _records(self) -> list[dict[str, Any]]:
        return [
            {
                "place": copy.sample.place,
                "source": copy.source.place,
                "distance": copy.distance,
                "ratio": copy.ratio,
                "rarity": copy.rarity,
                "text": copy.sample.text or copy.sample.path,
                "source_text": copy.source.text or copy.source.path,
            }
            for copy in self.copies
        ]

    def brief(self) -> dict[str, Any]:
        """The main numbers as a small dict, without the list of near copies."""
        shares = {"share": asdict(self.share), "drawn": asdict(self.drawn)}
        return {**super().brief(), **shares, "listed": len(self.copies), "n": list(self.n)}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how many samples of the model and of the reference are nearer than each ratio; returns the axes."""
        ax = draw.axes(ax)
        sides = (("reference (fresh data)", self.reference_ratios), ("model", self.model_ratios))
        for number, (label, ratios) in enumerate(sides):
            style = {key: value for key, value in draw.line_style(number).items() if key != "marker"}
            ordered = np.concatenate([[0.0], np.sort(ratios)])
            ax.step(ordered, np.arange(len(ordered)) / len(ratios), where="post", label=label, **style)
        ax.axvline(self.threshold, color="0.35", linewidth=1, linestyle=":", label="listed up to here")
        ax.set_xlabel("distance from the nearest training sample, as a share of that from the fifth")
        ax.set_ylabel("share of samples that are as near")
        ax.set(xlim=(0.0, 1.02), ylim=(0.0, 1.02))
        ax.spines[["top", "right"]].set_visible(False)
        draw.legend(ax)
        return ax


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def memorisation(
    reference: Any,
    model: Any,
    train: Any,
    *,
    embedder: AnyEmbedder | str | None = None,
    permutations: int = 1999,
    rng: int | np.random.Generator | None = 0,
) -> Memorisation:
    """Test whether the model copies its training data, how many of its samples are copies, and which.

    The reference shows how near fresh data come to training data without copying. Two tests exchange units, so they
    need no model of the data. The first test decides. It exchanges training data with the reference: each model sample
    has its nearest neighbour in one or the other, and the closest samples count several times. It is valid for any
    model. The second exchanges the model's samples with the reference and compares how many are very near to training
    data. (Meehan, Chaudhuri and Dasgupta 2020 compare the same distances by a rank test.) Both detect copies and light
    edits, as far as the embedder does. Neither detects a model that has memorised a region without coming near to
    single samples.

    Parameters
    ----------
    reference : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        Fresh data from the distribution of the training data, but not part of them. With more fresh data, fewer copies
        can be detected.
    model : list of texts, path to a file or folder, table, `Samples`, or array (n, d)
        The model's samples.
    train : the same
        The training data, or a part of them. Reference and training data should come from one distribution, for example
        by a random split, and no sample should be in both.
    embedder :
        As in `score`.
    permutations : int
        The p-value of a test is at least 1/(permutations + 1).
    rng : int, numpy Generator or None
        Seed of the permutations.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> train, fresh, new = rng.normal(size=(3, 300, 16))
    >>> memorisation(fresh, new, train).copying
    False
    >>> copies = np.concatenate([train[:15] + 0.01, new[15:]])
    >>> result = memorisation(fresh, copies, train)
    >>> result.copying, sorted(one.source.place for one in result.copies[:15]) == list(range(15))
    (True, True)
    """
    seed = seed_from(rng)
    whole("permutations", permutations, least=1)
    sides = embed_all({"reference": reference, "model": model, "train": train}, embedder)
    x, y, z = (_points(name, samples) for name, samples in sides.items())
    same_width(x, y)
    same_width(x, z, names=("reference", "train"))
    reference, model, train = sides.values()
    # Copies are the target of the test, so they do not form units.
    units, pool_units = (find_units(*pair, copies=False) for pair in ((reference, model), (train, reference)))
    generators = np.random.default_rng([seed, 19]).spawn(3)

    # Every sample of both sides is compared with training data only, and the samples are exchanged.
    at_x, at_y = (find_neighbours(points, z, _NEXT) for points in (x, y))
    flags = closest_shares(np.concatenate([at_y.ratio, at_x.ratio]), _CLOSEST_OF_BOTH)
    swapped = Units(units.sets[::-1], units.keys)
    fresh_p, fresh_exact = compare_means(
        flags[: len(y)], flags[len(y) :], swapped, permutations=permutations, rng=generators[0]
    )

    # The model's samples are compared with training data and reference together, and their labels are exchanged.
    pool = np.concatenate([z, x])
    unit_of: tuple[Indices, Indices] = (units.sets[1], np.concatenate([np.full(len(z), -1), units.sets[0]]))
    order = generators[2].permutation(len(pool))  # if several are equally near, any may be the nearest
    in_pool = find_neighbours(y, pool[order], _NEXT, units=(unit_of[0], unit_of[1][order]))
    in_pool = replace(in_pool, nearest=order[in_pool.nearest])
    counts = neighbour_counts(in_pool, closest_shares(in_pool.ratio, _CLOSEST_OF_MODEL), len(pool))
    likelihood = _likelihoods(pool, y, unit_of)
    counts = np.concatenate([counts, likelihood[:, None]], axis=1)
    near_p, near_exact = compare_means(
        counts[: len(z)], counts[len(z) :], pool_units, permutations=permutations, rng=generators[1]
    )
    threshold, near = _threshold(at_x.ratio, at_y.ratio)
    sizes = tuple(len(set(own_units.tolist())) for own_units in units.sets)
    result = Memorisation(
        p_value=near_p,
        nearer_than_fresh=fresh_p,
        exact=near_exact and fresh_exact,
        share=settle(_excess(near, (sizes[0], sizes[1])), _DIGITS),
        drawn=settle(_drawn(in_pool.nearest, len(z), len(pool)), _DIGITS),
        near=near,
        threshold=settle(threshold, _DIGITS),
        nearest=(float((in_pool.nearest < len(z)).mean()), len(z) / len(pool)),
        likelihood_gap=settle(float(likelihood[: len(z)].mean() - likelihood[len(z) :].mean()), _DIGITS),
        copies=tuple(_list_copies(model, train, at_y, at_x.ratio, threshold)),
        reference_ratios=settle(at_x.ratio, _DIGITS),
        model_ratios=settle(at_y.ratio, _DIGITS),
        n=(len(x), len(y), len(z)),
        caveats=tuple(_find_doubts(reference, model, train, at_x, seed)),
    )
    warn_about(result.caveats)
    return result


def _points(name: str, samples: Samples) -> Array:
    points = as_features(name, samples.load().require_features()).astype(np.float64)
    if len(points) <= _NEXT:
        raise InputError(f"`{name}` must hold at least {_NEXT + 1} samples here; got {len(points)}. Aim for hundreds.")
    return points


def _likelihoods(pool: Array, y: Array, unit_of: tuple[Indices, Indices]) -> Array:
    """The log density of the model's samples at each of the pool. The kernel's width does not depend on the labels."""
    units = (unit_of[1], unit_of[0])
    nearest = find_neighbours(pool, y, 0, units=units).distance
    width = _BANDWIDTH * float(np.median(nearest[np.isfinite(nearest)]))
    return kernel_likelihoods(pool, y, width, units=units) if width > 0 else np.zeros(len(pool))


def _threshold(at_x: Array, at_y: Array) -> tuple[float, tuple[float, float]]:
    """A ratio that at most 1% of the reference reach (one sample if there are fewer than 100), and both shares."""
    ordered = np.sort(at_x)
    threshold = float(ordered[max(0, int(_LISTED * len(at_x)) - 1)])
    if float((at_x <= threshold).mean()) > max(_LISTED, 1.0 / len(at_x)):  # ties, such as the same text many times
        threshold = float(ordered[ordered < threshold].max(initial=-1.0))
    return threshold, (float((at_x <= threshold).mean()), float((at_y <= threshold).mean()))


def _excess(near: tuple[float, float], units: tuple[int, int]) -> Estimate:
    """The model's share minus the reference's, with Newcombe's 95% interval; every unit counts once."""
    (low_x, high_x), (low_y, high_y) = (_wilson(share, count) for share, count in zip(near, units, strict=True))
    value = near[1] - near[0]
    low = value - math.hypot(near[1] - low_y, high_x - near[0])
    high = value + math.hypot(high_y - near[1], near[0] - low_x)
    return Estimate(max(value, 0.0), max(low, 0.0), min(max(high, 0.0), 1.0))


def _drawn(nearest: Indices, train: int, size: int) -> Estimate:
    """The share of samples beyond chance with the nearest neighbour in the training data, with a 95% interval.

    The error comes from exchanging training data and reference, where samples with the same neighbour stay together.
    """
    counts = np.bincount(nearest, minlength=size)
    chance, share = train / size, float((nearest < train).mean())
    spread = float(np.square(counts - counts.mean()).sum()) * train * (size - train) / (size * (size - 1.0))
    value, reach = (share - chance) / (1.0 - chance), NORMAL * math.sqrt(spread) / len(nearest) / (1.0 - chance)
    return Estimate(*(min(1.0, max(0.0, end)) for end in (value, value - reach, value + reach)))


def _wilson(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    square = NORMAL**2 / count
    middle = (share + square / 2.0) / (1.0 + square)
    reach = NORMAL * math.sqrt(share * (1.0 - share) / count + square / (4.0 * count)) / (1.0 + square)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def _list_copies(
    model: Samples, train: Samples, at_y: Neighbours, reference: Array, threshold: float
) -> Iterator[NearCopy]:
    ordered = np.sort(reference)
    rows = np.flatnonzero(at_y.ratio <= threshold)
    for row in rows[np.lexsort((rows, at_y.distance[rows], at_y.ratio[rows]))].tolist():
        ratio = float(at_y.ratio[row])
        as_near = int(np.searchsorted(ordered, ratio, side="right"))
        yield NearCopy(
            make_example(model, row),
            make_example(train, int(at_y.nearest[row])),
            distance=settle(float(at_y.distance[row]), _DIGITS),
            ratio=settle(ratio, _DIGITS),
            rarity=settle((1 + as_near) / (1 + len(ordered)), _DIGITS),
        )


def _find_doubts(reference: Samples, model: Samples, train: Samples, at_x: Neighbours, seed: int) -> Iterator[Caveat]:
    yield from reference.caveats
    fewest = min(len(reference), len(model))
    if fewest < _FEWEST:
        few = f"only {fewest} samples of the model or the reference"
        text = f"{few}: a few copies cannot be told from chance. Use hundreds."
        yield Caveat("few samples", text, values={"samples": fewest})
    leaked = int((at_x.distance == 0).sum())
    if leaked:
        text = (
            f"{leaked} of {len(reference)} reference samples are in the training data too, or have the same features: "
            "they are not fresh, and hide copies. Leave them out of the reference."
        )
        yield Caveat("reference in training data", text, values={"samples": leaked, "n": len(reference)})
    shared = set(model.unit_names or ()) & set(train.unit_names or ())
    if shared:
        text = (
            f"{len(shared)} ids or prompts of the model's samples are in the training data too: such samples are near "
            "to training data because they share a prompt. Use prompts that were not trained on, and ids that differ "
            "where prompts do."
        )
        yield Caveat("prompts in training data", text, values={"prompts": len(shared)})
    some = np.random.default_rng([seed, 20]).permutation(len(train))[:_COMPARED]
    p_value = permutation_test(train.take(np.sort(some)).bare(), reference.bare(), permutations=199, rng=seed)
    if p_value < _DIFFERENT:
        text = (
            f"training data and reference differ (p = {p_value:.2g}), so that nearness to training data may be due to "
            "that. Draw both from one source, such as a random split."
        )
        yield Caveat("reference unlike training data", text, values={"p_value": p_value})
