"""Copying told from generalising: is the model nearer to its training data than fresh data are?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mallow.errors import Caveat
from mallow.explain._region import Example
from mallow.results import Estimate, Result, TableData, at_most, draw, p_text
from mallow.theory import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_LEVEL = 0.05  # the usual level of significance
_SHOWN = 5  # chosen: near copies in print


@dataclass(frozen=True)
class NearCopy:
    """A sample of the model that is nearer to a training sample than nearly all fresh samples are.

    Attributes
    ----------
    sample, source : Example
        The sample of the model, and the training sample that it is nearest to.
    distance : float
        Between their features.
    ratio : float
        The distance as a share of that from the fifth nearest training sample: 0 for an exact copy.
    rarity : float
        The share of fresh samples that are as near, itself included: (1 + how many) / (1 + n). A p-value of this sample alone.
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
        Of the hypothesis that the model does not copy, by a test that exchanges training data with the reference: the
        model's samples lie no nearer to the one than to the other. Valid whatever the model is, if both were drawn alike.
    nearer_than_fresh : float
        The p-value of a second test, which exchanges samples of the model with the reference: very near to training data,
        there are not more of the model than of the reference. It keeps its power where there are many more training data
        than fresh ones, but a model of few kinds of samples that copies nothing may fail it: by itself it proves no copying.
    exact : bool
        Whether all units could be exchanged in both tests.
    share : Estimate
        The share of near copies among the model's samples, less what fresh samples show by chance, with a 95 % interval.
        Copies that were edited so much that 1 % of the fresh samples are as near are not among them.
    drawn : Estimate
        The share of the model's samples that lie at training data beyond chance, however far they were edited: what the first
        entry of `nearest` has beyond the second, as a share of what it could have, with a 95 % interval. Less precise than `share`.
    near : tuple of float
        The shares of the reference and of the model that are as near to training data as `threshold`.
    threshold : float
        The ratio up to which a sample is listed: at most 1 % of the reference are as near.
    nearest : tuple of float
        The share of the model's samples whose nearest neighbour, among training data and reference, is a training
        sample; and what it would be by chance.
    likelihood_gap : float
        The mean logarithm of the density that the model's samples make, at training data minus at the reference: about 0
        for a model that generalises.
    copies : tuple of NearCopy
        The listed samples, nearest first.
    reference_ratios, model_ratios : array (n,), (m,)
        The ratio of each sample; see `NearCopy`.
    n : tuple of int
        Samples of the reference, the model and the training data.
    caveats : tuple of Caveat
        Reasons for doubt.
    """

    KIND: ClassVar[str] = "memorisation"

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
        return "\n".join([*lines, *(f"caveat: {line}" for line in self.caveat_lines())]).rstrip()

    @property
    def copying(self) -> bool:
        """Whether copying was found, at the 5 % level."""
        return self.p_value < _LEVEL

    @property
    def verdict(self) -> str:
        """Whether the model copies, in one or two sentences."""
        low, high = self.share.low, self.share.high
        if self.copying:
            return (
                f"The model copies training data ({p_text(self.p_value)}): {_percent(self.share.value)} of its samples are near "
                f"copies beyond what fresh data show (95 % interval: {_percent(low)} to {_percent(high)}), and about "
                f"{_percent(self.drawn.value)} ({_percent(self.drawn.low)} to {_percent(self.drawn.high)}) lie at training data beyond "
                "chance, edited or not."
            )
        if self.nearer_than_fresh < _LEVEL:
            return (
                f"The model may copy training data: more of its samples are very near to them than of fresh data "
                f"({p_text(self.nearer_than_fresh)}), but they are not proven to be nearer to training data than to fresh ones "
                f"({p_text(self.p_value)}). Look at the near copies; more fresh data would decide."
            )
        return (
            f"No copying was found ({p_text(self.p_value)}): the model's samples are about as near to the training data as fresh "
            f"data are. At most {at_most(100 * high, 1)} % of them are nearer than 99 % of fresh data beyond chance (95 % confidence)."
        )

    def copy_lines(self, count: int = _SHOWN) -> list[str]:
        """The nearest samples with their sources, one line each."""
        lines = []
        for one in self.copies[:count]:
            lines.append(f"{one.ratio:.2f}  model:    {one.sample}")
            lines.append(f"      training: {one.source}")
        more = len(self.copies) - count
        return [*lines, *([f"… and {more} more"] if more > 0 else []), ""] if lines else []

    def _table(self) -> TableData:
        share, chance = self.nearest
        model, fresh = (f"{np.median(ratios):.3f}" for ratios in (self.model_ratios, self.reference_ratios))
        nearer = f"{p_text(self.p_value)}, exchanging training and fresh data"
        rows = [
            ["near copies", _percent(self.near[1]), _percent(self.near[0]), f"ratio at most {self.threshold:.2f}"],
            ["nearest is training", _percent(share), f"{_percent(chance)} by chance", nearer],
            ["ratio, median", model, fresh, f"{p_text(self.nearer_than_fresh)}, exchanging model and fresh data"],
        ]
        return TableData(["", "model", "fresh data", ""], rows, left=(0, 3))

    def _records(self) -> list[dict[str, Any]]:
        return [
            {
                "place": one.sample.place,
                "source": one.source.place,
                "distance": one.distance,
                "ratio": one.ratio,
                "rarity": one.rarity,
                "text": one.sample.text or one.sample.path,
                "source_text": one.source.text or one.source.path,
            }
            for one in self.copies
        ]

    def _also(self) -> dict[str, Any]:
        return {"verdict": self.verdict, "copying": self.copying}

    def brief(self) -> dict[str, Any]:
        """The main numbers as a small dict, without the list of near copies."""
        each = {"share": self.share, "drawn": self.drawn}
        shares = {name: {"value": one.value, "low": one.low, "high": one.high} for name, one in each.items()}
        return {**super().brief(), **shares, "listed": len(self.copies), "n": list(self.n)}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how many samples of the model and of the reference are nearer than each ratio; returns the axes."""
        ax = draw.axes(ax)
        sides = (("reference (fresh data)", self.reference_ratios), ("model", self.model_ratios))
        for place, (label, ratios) in enumerate(sides):
            style = {key: value for key, value in draw.look(place).items() if key != "marker"}
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
    return f"{100 * share:.1f} %"
