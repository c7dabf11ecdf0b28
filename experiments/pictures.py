"""Pictures of the experiments: panels of lines, side by side, as small PNG files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MARKERS = "osv^DPX<>*hd"
MANY = 8  # lines that a legend inside a panel has room for


@dataclass(frozen=True)
class Panel:
    """Lines over a common axis: name → (x, y) or (x, y, bars)."""

    title: str
    across: str
    lines: Mapping[str, Sequence[Sequence[float]]]
    log: bool = False
    logy: bool = False
    level: Mapping[str, float] = field(default_factory=dict)
    ticks: Sequence[str] | None = None


def draw(path: Path, panels: Sequence[Panel], *, width: float = 4.2, height: float = 3.6, columns: int = 4) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False
    )
    common = len(panels[0].lines) > MANY and len({tuple(panel.lines) for panel in panels}) == 1
    for axis, panel in zip(axes.flat, panels, strict=False):
        if common:
            axis.set_prop_cycle(color=plt.get_cmap("tab20").colors[: len(panel.lines)])
        for place, (name, (x, y, *bars)) in enumerate(panel.lines.items()):
            axis.errorbar(
                x, y, *bars, marker=MARKERS[place % len(MARKERS)], markersize=4, capsize=2, linewidth=1.2, label=name
            )
        for name, value in panel.level.items():
            axis.axhline(value, color="k", linestyle=":", linewidth=1, label=name)
        if panel.log:
            places = sorted({float(at) for x, *_ in panel.lines.values() for at in x})
            axis.set_xscale("log")
            axis.set_xticks(places, [f"{at:g}" for at in places])
            axis.minorticks_off()
        if panel.logy:
            axis.set_yscale("log")
        if panel.ticks is not None:
            axis.set_xticks(range(len(panel.ticks)), panel.ticks, rotation=45, ha="right", fontsize=7)
        axis.set_title(panel.title, fontsize=9)
        axis.set_xlabel(panel.across, fontsize=8)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
        if not common:
            axis.legend(fontsize=6.5)
    if common:  # one legend beside the panels, which would hide the lines
        entries = dict(pair[::-1] for axis in axes.flat for pair in zip(*axis.get_legend_handles_labels(), strict=True))
        figure.legend(entries.values(), entries.keys(), loc="outside right center", fontsize=7)
    for axis in list(axes.flat)[len(panels) :]:
        axis.axis("off")
    figure.savefig(path, dpi=100)
    plt.close(figure)
