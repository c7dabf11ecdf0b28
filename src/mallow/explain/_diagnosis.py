"""The result of a diagnosis: the verdict, its reasons, the samples that give the model away, and regions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mallow._files import make_folder
from mallow.errors import Caveat
from mallow.evidence import Signature
from mallow.explain._pictures import image_grid
from mallow.explain._reason import Reason
from mallow.explain._region import Region, Telltale
from mallow.explain._verdict import verdict_text
from mallow.results import Estimate, Result, TableData, draw, p_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_TELLTALES = 3  # of each side in print; chosen
_TERMS_IN_LABEL = 3  # chosen: labels of a picture stay short


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    """Where the gap between reference and model is, and what gives the model away.

    Attributes
    ----------
    missed, invented : tuple of Region
        The bins with the largest shares of their side, the largest first.
    gap : dict
        "missed" and "invented": the sum over all bins of that side. Together they are the mid-point summary in these bins.
    sample_kind : "text", "image", "audio" or "features"
    n : tuple of int
        The number of samples of the reference and of the model.
    bins : int
    signature : Signature
        Everything that the diagnosis depends on.
    caveats : tuple of Caveat
        Reasons for doubt.
    p_value : float
        Of the hypothesis that there is no gap at all, as that of a score.
    certified : dict
        What held-out evidence proves about the distributions, as that of a score. Empty if there was no evidence.
    reasons : tuple of Reason
        What differs between the sides and goes with the held-out score: `find_reasons`.
    giveaways : tuple of Telltale
        The model's samples with the lowest held-out scores, the lowest first: those that look least like the reference.
        Empty where nothing was learned.
    unmatched : tuple of Telltale
        The reference samples with the highest held-out scores, the highest first: those that look least like anything
        that the model produces.
    """

    KIND: ClassVar[str] = "diagnosis"

    missed: tuple[Region, ...]
    invented: tuple[Region, ...]
    gap: dict[str, float]
    sample_kind: Literal["text", "image", "audio", "features"]
    n: tuple[int, int]
    bins: int
    signature: Signature
    caveats: tuple[Caveat, ...]
    p_value: float = 1.0
    certified: dict[str, Estimate] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    giveaways: tuple[Telltale, ...] = ()
    unmatched: tuple[Telltale, ...] = ()

    @property
    def regions(self) -> tuple[Region, ...]:
        """All regions, the missed ones first."""
        return self.missed + self.invented

    @property
    def verdict(self) -> str:
        """Whether the gap is real, how large it is at least, and what gives it away; empty without evidence."""
        return self._verdict(self.reasons)

    def _verdict(self, reasons: Sequence[Reason]) -> str:
        return verdict_text(self.p_value, self.certified["mauve"].high, self.n, reasons) if self.certified else ""

    def __repr__(self) -> str:
        parts = [p_text(self.p_value), f"reasons={len(self.reasons)}"]
        for side, regions in (("missed", self.missed), ("invented", self.invented)):
            significant = sum(region.significant for region in regions)
            parts.append(f"{side} {self.gap[side]:.4f} ({significant} of {len(regions)} regions significant)")
        return f"Diagnosis({', '.join(parts)}, bins={self.bins}, n={self.n})"

    def __str__(self) -> str:
        reasons = [(f"{100 * reason.values['explained']:3.0f} %", reason.text) for reason in self.reasons]
        own, other = ([(f"{one.score:+.2f}", str(one)) for one in some] for some in (self.giveaways, self.unmatched))
        blocks = [
            self._verdict(()),
            _list_lines("What gives it away, and the share of the evidence that each point accounts for", reasons),
            _list_lines("Model samples that give it away: the lowest held-out scores", own[:_TELLTALES]),
            _list_lines(
                "Reference samples that the model hardly produces: the highest held-out scores", other[:_TELLTALES]
            ),
            self._gap_line(),
        ]
        for title, regions in (("MISSED by the model", self.missed), ("INVENTED by the model", self.invented)):
            blocks.append(title if regions else f"{title}: nothing")
            blocks += [f"{place}. {region}" for place, region in enumerate(regions, start=1)]
        blocks += [f"caveat: {line}" for line in self.caveat_lines()]
        return "\n\n".join(filter(None, blocks))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of the whole gap that each region has, labelled by its typical terms; returns the axes.

        Regions that are not significant are pale.
        """
        ax = draw.axes(ax)
        total = sum(self.gap.values())
        for place, region in enumerate(self.regions):
            ax.barh(
                place,
                region.share * self.gap[region.side] / total,
                color=draw.look(0 if region.side == "missed" else 1)["color"],
                alpha=1.0 if region.significant else 0.4,
                label=f"{region.side} by the model",
            )
        ax.set_yticks(range(len(self.regions)), [_label(region) for region in self.regions])
        ax.invert_yaxis()  # the first region on top
        ax.set_xlabel("share of the gap (pale: not significant at the 5 % level)", loc="right")
        ax.spines[["top", "right"]].set_visible(False)
        if self.regions:
            draw.legend(ax, above=True)
        return ax

    def draw_images(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Draw each region of images with `image_grid` into missed-1.png, invented-1.png … in a folder, which is created."""
        home, paths = make_folder(folder), []
        for regions in (self.missed, self.invented):
            for place, region in enumerate(regions, start=1):
                paths.append(home / f"{region.side}-{place}.png")
                image_grid(region, paths[-1])
        return tuple(paths)

    def _also(self) -> dict[str, Any]:
        return {"verdict": self.verdict}

    def _headline(self) -> str:
        return self.verdict or self._gap_line()

    def _gap_line(self) -> str:
        total = self.gap["missed"] + self.gap["invented"]
        return (
            f"Regions: the mid-point gap is {total:.4f} in {self.bins} bins of {self.n[0]} reference and {self.n[1]} model "
            f"samples; {self.gap['missed']:.4f} missed, {self.gap['invented']:.4f} invented"
        )

    def _table(self) -> TableData:
        rows = []
        for region in self.regions:
            numbers = [f"{region.share:.0%}", str(region.reference), str(region.model), f"{region.adjusted:.2g}"]
            rows.append([region.side, *numbers, ", ".join(region.terms)])
        head = ["", "share", "reference", "model", "adjusted p", "typical terms"]
        return TableData(head, rows, breaks=[len(self.missed)])

    def _records(self) -> list[dict[str, Any]]:
        return [
            {
                "side": region.side,
                "bin": region.bin,
                "share": region.share,
                "reference": region.reference,
                "model": region.model,
                "expected_reference": region.expected[0],
                "expected_model": region.expected[1],
                "p_value": region.p_value,
                "adjusted": region.adjusted,
                "score": region.score,
                "terms": ", ".join(region.terms),
            }
            for region in self.regions
        ]


def _list_lines(title: str, lines: Sequence[tuple[str, str]]) -> str:
    """A title and what is below it, each line with its number; empty without lines."""
    return "\n".join([title, *(f"  {number}  {text}" for number, text in lines)]) if lines else ""


def _label(region: Region) -> str:
    return ", ".join(region.terms[:_TERMS_IN_LABEL]) or f"bin {region.bin}"
