"""The result of a diagnosis: the regions that the model misses and those that it invents."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mallow._files import make_folder
from mallow.errors import Caveat
from mallow.evaluate import Signature
from mallow.explain._pictures import image_grid
from mallow.explain._region import Region
from mallow.results import Result, TableData, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Diagnosis"]

_TERMS_IN_LABEL = 3  # chosen: labels of a picture stay short


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    """Where the gap between reference and model is.

    Attributes
    ----------
    missed, invented : tuple of Region
        The bins with the largest shares of their side, the largest first.
    gap : dict
        "missed" and "invented": the sum over all bins of that side. Together they are the mid-point summary in these bins.
    sample_kind : "text", "image" or "features"
    n : tuple of int
        The number of samples of the reference and of the model.
    bins : int
    signature : Signature
        Everything that the diagnosis depends on.
    caveats : tuple of Caveat
        Reasons for doubt.
    """

    KIND: ClassVar[str] = "diagnosis"

    missed: tuple[Region, ...]
    invented: tuple[Region, ...]
    gap: dict[str, float]
    sample_kind: Literal["text", "image", "features"]
    n: tuple[int, int]
    bins: int
    signature: Signature
    caveats: tuple[Caveat, ...]

    @property
    def regions(self) -> tuple[Region, ...]:
        """All regions, the missed ones first."""
        return self.missed + self.invented

    def __repr__(self) -> str:
        parts = []
        for side, regions in (("missed", self.missed), ("invented", self.invented)):
            significant = sum(region.significant for region in regions)
            parts.append(f"{side} {self.gap[side]:.4f} ({significant} of {len(regions)} regions significant)")
        return f"Diagnosis({', '.join(parts)}, bins={self.bins}, n={self.n})"

    def __str__(self) -> str:
        blocks = [self._headline()]
        for title, regions in (("MISSED by the model", self.missed), ("INVENTED by the model", self.invented)):
            blocks.append(title if regions else f"{title}: nothing")
            blocks += [f"{place}. {region}" for place, region in enumerate(regions, start=1)]
        return "\n\n".join(blocks + [f"caveat: {line}" for line in self.caveat_lines()])

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
        ax.set_xlabel("share of the gap (pale: not significant at the 5 % level)")
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

    def _headline(self) -> str:
        total = self.gap["missed"] + self.gap["invented"]
        return (
            f"gap {total:.4f} (mid-point): {self.gap['missed']:.4f} missed, {self.gap['invented']:.4f} invented; "
            f"{self.n[0]} reference and {self.n[1]} model samples in {self.bins} bins"
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
                "terms": ", ".join(region.terms),
            }
            for region in self.regions
        ]


def _label(region: Region) -> str:
    return ", ".join(region.terms[:_TERMS_IN_LABEL]) or f"bin {region.bin}"
