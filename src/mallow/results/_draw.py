"""Drawing on matplotlib axes: frontiers, scores, curves of a hyperparameter, rank ranges.

Systems differ in colour, dash and marker, so pictures remain readable in grey. Results are drawn through the protocol
`Drawable`, since this module must not import them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mallow._optional import optional
from mallow.results._table import Estimate
from mallow.theory import Array, Frontier

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    Axes = Any  # matplotlib is loaded when something is drawn


# Six steps of grey, and apart by at least 20 (CIE 1976) for every kind of colour vision, as tests/test_colours.py
# measures; at least 3 : 1 against white. Black is reserved for everything that is not a system.
COLOURS = ("#5625a1", "#fc6010", "#1b3a07", "#1f5a8e", "#b46780", "#7c6930")
_DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_DASHES += ((0, (9, 3)),)
_PALE = "#cdbde3"  # the first colour, for bars
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_MANY = 6
_NUMBERS = {"nucleus": "p", "top-k": "K", "temperature": "value", "typical": "mass", "eta": "ε", "min-p": "share"}
_ENDS = 0.01  # raw costs are drawn for λ from here to 1 − this: near the ends they may grow without bound
# Inches; chosen: the text width of a paper with one column, so that the usual 10 points keep their size.
SIZE = (5.5, 3.9)


def axes(ax: Axes | None) -> Axes:
    """The given axes, or new ones."""
    if ax is not None:
        return ax
    new: Axes = optional("matplotlib.pyplot", extra="plot").subplots(figsize=SIZE, layout="constrained")[1]
    return new


def line_style(number: int) -> dict[str, Any]:
    """Colour, dash and marker of the system with this number. The first 30 differ in colour or dash."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "marker": _MARKERS[number % len(_MARKERS)],
    }


def exponentiated(
    ax: Axes,
    score: Drawable,
    *,
    label: str,
    number: int = 0,
    shade: float = 0.15,
    certified: bool = False,
    band: str = "",
) -> None:
    """The exponentiated frontier, with the area below it and the band over the repeats, or the certified frontier.

    `band` is the name of the band in the legend; "" for none.
    """
    frontier, edges = (score.certified_frontier, None) if certified else (score.frontier, score.band)
    if frontier is None:
        return
    x, y = exponentiated_points(frontier, score.scale)
    _line(ax, x, y, label, number)
    ax.fill_between(x, y, alpha=shade, color=line_style(number)["color"], linewidth=0)
    if edges is not None:
        low, high = (exponentiated_points(edge, score.scale) for edge in edges)
        _band(ax, low, high, number, band)
    ax.set_xlabel("low where the model misses\n" rf"$\exp(-{score.scale:g}\,D(P\|R_\lambda))$")
    ax.set_ylabel("low where the model invents\n" rf"$\exp(-{score.scale:g}\,D(Q\|R_\lambda))$")
    ax.set(xlim=(0.0, 1.02), ylim=(0.0, 1.02))
    ax.set_aspect("equal")
    _open_frame(ax)


def frontiers(ax: Axes, systems: Mapping[str, Drawable], *, certified: bool = False) -> None:
    """The exponentiated frontiers of several systems, each with its name and its area at the line."""
    for number, (name, score) in enumerate(systems.items()):
        exponentiated(ax, score, label=name, number=number, shade=0.0, certified=certified)
        frontier = score.certified_frontier if certified else score.frontier
        if frontier is None:
            continue
        x, y = exponentiated_points(frontier, score.scale)
        # Names are at different angles from the origin, so that names of nearly equal curves do not overlap.
        angle = np.pi / 2 * (0.85 - 0.7 * (number + 0.5) / len(systems))
        at = int(np.argmin(np.abs(np.arctan2(y, x) - angle)))
        area = score.certified["mauve"].value if certified else score.mauve
        ax.annotate(
            f"{_plain(name)}  {area:.2f}",
            (x[at], y[at]),
            xytext=(-6, -6),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize="small",
            color=line_style(number)["color"],
            bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.5},
        )
    ax.set_title("Certified: at most this area" if certified else "Published: the area is MAUVE", fontsize="medium")


def count_frontiers(ax: Axes) -> int:
    """The number of exponentiated frontiers on the axes, without the dashed lines of certified frontiers."""
    return sum(line.get_marker() in _MARKERS for line in ax.lines)


def certified_line(ax: Axes, score: Drawable, *, name: str = "", number: int = 0) -> None:
    """The certified frontier, exponentiated, as a dashed line, if there is one. It is black for the first system."""
    if score.certified_frontier is None:
        return
    x, y = exponentiated_points(score.certified_frontier, score.scale)
    color = line_style(number)["color"] if number else "k"
    label = _plain(f"{name}certified: {score.certified['mauve'].value:.3f}")
    ax.plot(x, y, color=color, linestyle="--", linewidth=1.5, label=label)


def costs(ax: Axes, score: Drawable, *, label: str, number: int = 0) -> None:
    """The frontier itself, in the two costs, for λ from 0.01 to 0.99, with the band over the repeats."""
    x, y = cost_points(score.frontier)
    _line(ax, x, y, label, number)
    if score.band is not None:
        low, high = (cost_points(edge) for edge in score.band)
        _band(ax, low, high, number, "")
    ax.set_xlabel("what the model misses\n" r"type II cost $D(P\|R_\lambda)$")
    ax.set_ylabel("what the model invents\n" r"type I cost $D(Q\|R_\lambda)$")
    ax.autoscale()  # a second curve may be larger
    ax.set(xlim=(0.0, ax.get_xlim()[1]), ylim=(0.0, ax.get_ylim()[1]))
    _open_frame(ax)


def scores(ax: Axes, systems: Mapping[str, Drawable]) -> None:
    """One row per system: the certified value with the range of the true area above, and the published score below.

    The published score has the interval of repeat samples and the self-score.
    """
    names = list(systems)[::-1]  # the first on top
    wide: dict[str, Any] = {"linewidth": 6, "solid_capstyle": "butt"}
    for row, score in enumerate(systems[name] for name in names):
        above, below = row + 0.17, row - 0.17
        if "mauve" in score.certified:
            sure = score.certified["mauve"]
            may = "where the true value may be (95% confidence)"
            ax.plot([0.0, sure.high], [above, above], color=_PALE, label=may, **wide)
            style: dict[str, Any] = {"color": COLOURS[0], "markerfacecolor": "white", "markersize": 5, "linestyle": ""}
            ax.plot(sure.value, above, marker="D", label="certified value", **style)
        if "mauve" in score.interval:
            ax.plot(
                score.interval["mauve"], [below, below], color="0.7", label="95% of repeat samples of this size", **wide
            )
        if np.isnan(score.mauve):
            continue
        ax.plot(score.self_score["mauve"], below, "k|", markersize=9, markeredgewidth=1.5, label="self-score")
        ax.plot(score.mauve, below, "ko", markersize=4, label="published score")
    _name_rows(ax, names)
    for edge in range(1, len(names)):
        ax.axhspan(edge - 0.5, edge - 0.5, color="0.92", linewidth=0.8, zorder=0)
    ax.set_xlim(left=0.0)
    ax.set_xlabel("MAUVE (1 = indistinguishable from the reference)", loc="right")  # below long names too
    legend(ax, above=True)


def curve(
    ax: Axes, family: str, values: Sequence[float], inside: Sequence[Drawable], outside: Mapping[str, Drawable]
) -> None:
    """Published and certified scores against the number in which systems of a family differ. Others are level lines.

    The band is the range of published scores of repeat samples. It has a gap if that is not known.
    """
    ends = np.array([score.interval.get("mauve", (np.nan, np.nan)) for score in inside])
    style = line_style(0)
    if np.isfinite(ends).any():
        ax.fill_between(
            values, ends[:, 0], ends[:, 1], color=style["color"], alpha=0.25, linewidth=0, label="95% of repeat samples"
        )
    ax.plot(values, [score.mauve for score in inside], label=f"{_plain(family)}, published", **style)
    certified = [
        (value, score.certified["mauve"]) for value, score in zip(values, inside, strict=True) if score.certified
    ]
    if certified:
        places, estimates = zip(*certified, strict=True)
        # As open diamonds, each with a line up to the 95% upper bound of the area.
        reach = [[0.0] * len(places), [estimate.high - estimate.value for estimate in estimates]]
        diamond: dict[str, Any] = {"fmt": "D", "color": "k", "markerfacecolor": "white", "markersize": 6, "capsize": 3}
        heights = [estimate.value for estimate in estimates]
        ax.errorbar(places, heights, yerr=reach, label="certified, with its 95% confidence limit", **diamond)
    low, high = _shown_range(inside, ends)
    for number, (name, score) in enumerate(outside.items(), start=1):
        style = {key: value for key, value in line_style(number).items() if key != "marker"}
        beyond = "" if low <= score.mauve <= high else f": {score.mauve:.2f}, not in this part"
        ax.axhline(score.mauve, label=f"{_plain(name)}, published{beyond}", **style)
    ax.axhline(inside[0].self_score["mauve"], color="k", linewidth=1, linestyle=":", label="self-score")
    if max(values) > 20 * min(values) > 0:
        ax.set_xscale("log")
    ax.set_xlabel(_axis_title(family))
    ax.set_ylabel("MAUVE\n(1 = indistinguishable from the reference)")
    ax.set_ylim(low, high)
    _open_frame(ax)
    legend(ax)


def _axis_title(family: str) -> str:
    """The name of the numbers on the axis, for a family of decoders such as "nucleus:…"."""
    name, colon, rest = family.partition(":…")
    if colon and not rest:
        return f"{_NUMBERS.get(name, 'value')} of {_plain(name)}"
    return f"value of … in {_plain(family)}" if "…" in family else _plain(family)


def _shown_range(inside: Sequence[Drawable], ends: Array) -> tuple[float, float]:
    """The part of the axis with the curve, its band and the self-score; other systems may lie below it."""
    published = np.array([score.mauve for score in inside])
    shown = [*published, *ends[np.isfinite(ends)], *(score.self_score["mauve"] for score in inside)]
    certified = [score.certified["mauve"] for score in inside if score.certified]
    shown += [end for estimate in certified for end in (estimate.value, estimate.high)]
    low, high = min(shown), max(shown)
    gap = max(0.05, high - low)
    return max(0.0, low - 0.08 * gap), min(1.02, high + 0.08 * gap)


def marks(ax: Axes, positions: Sequence[float], label: str) -> None:
    """Dashed upright lines at these positions, and the legend again."""
    for x in positions:
        ax.axvline(x, color="0.35", linewidth=1, linestyle=(0, (4, 3)), label=label)
    legend(ax)


def ranks(
    ax: Axes,
    ranges: Mapping[str, tuple[int, int]],
    label: str = "ranks by proven gap that the significant differences allow (1 = smallest)",
) -> None:
    """The possible ranks of each system, one row per system, in the given order."""
    names = list(ranges)[::-1]  # the first on top
    for row, (best, worst) in enumerate(ranges[name] for name in names):
        ax.plot([best, worst], [row, row], color="0.3", linewidth=4, marker="o", markersize=9)
    _name_rows(ax, names)
    step = -(-len(ranges) // 12)
    ax.set_xticks(range(1, len(ranges) + 1, step))
    ax.set_xlim(0.5, len(ranges) + 0.5)
    ax.set_xlabel(label, loc="right")


def intervals(ax: Axes, rows: Mapping[str, tuple[float, float, float]], label: str) -> None:
    """Values with the low and high end of their interval, one row each, in the given order."""
    names = list(rows)[::-1]  # the first on top
    for row, (value, low, high) in enumerate(rows[name] for name in names):
        ax.plot([low, high], [row, row], color="0.75", linewidth=7, solid_capstyle="butt")
        ax.plot(value, row, "ko", markersize=5)
    ax.axvline(0.0, color="0.6", linewidth=1)
    _name_rows(ax, names)
    ax.set_xlabel(label, loc="right")


def power(
    ax: Axes, sizes: Sequence[float] | Array, powers: Sequence[float], plan: tuple[float, float], detect: float
) -> None:
    """Power against the number of samples per side, with the planned point marked."""
    ax.plot(sizes, powers, color=line_style(0)["color"])
    ax.plot(*plan, "ko", label=f"plan: {plan[0]:,} samples, power {plan[1]:g}")
    ax.set_xscale("log")
    ax.set(ylim=(0.0, 1.02))
    ax.set_xlabel("samples per side")
    ax.set_ylabel(f"power against a difference of {detect:g}")
    _open_frame(ax)
    legend(ax)


def rank_map(ax: Axes, systems: Sequence[str], ranks: Mapping[str, Mapping[str, int]]) -> None:
    """The rank of every system (a column) by every measure (a row), the best darkest and missing ranks white.

    `ranks` maps each measure to the ranks of the systems.
    """
    grid = np.array([[by_system.get(system, np.nan) for system in systems] for by_system in ranks.values()])
    ax.imshow(grid, cmap="Purples_r", aspect="auto", vmin=1, vmax=len(systems) + 1)  # the worst is not quite white
    for (row, column), rank in np.ndenumerate(grid):
        if np.isfinite(rank):
            colour = "white" if rank <= (len(systems) + 1) / 2 else "black"
            ax.text(column, row, f"{rank:.0f}", ha="center", va="center", fontsize=6, color=colour)
    ax.set_xticks(
        range(len(systems)), [_plain(system) for system in systems], rotation=90 if len(systems) > _MANY else 0
    )
    ax.set_yticks(range(len(ranks)), [_plain(measure) for measure in ranks], fontsize=6)
    ax.set_title("rank by distance from the reference (1 = closest)", fontsize="medium")


def legend(ax: Axes, *, above: bool = False) -> None:
    """A legend with each label once, above the axes on request, and beside them if there are many."""
    handles, labels = ax.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    if above:
        # From the right edge to the left, where there is room above the names of the rows.
        position: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": 2}
        position |= {"columnspacing": 1.0, "fontsize": "small", "borderaxespad": 0.2}
    elif len(once) > _MANY:
        position = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    else:
        position = {}
    # If a curve passes below, both can be read.
    ax.legend(once.values(), once.keys(), handlelength=2.8, framealpha=0.8, edgecolor="none", **position)


def _name_rows(ax: Axes, names: Sequence[str]) -> None:
    """One row per name, from the bottom up, with a light grid."""
    ax.set_yticks(range(len(names)), [_plain(name) for name in names])
    ax.set_ylim(-0.5, len(names) - 0.5)
    ax.grid(axis="x", color="0.92")
    ax.set_axisbelow(True)
    _open_frame(ax)


def _line(ax: Axes, x: Array, y: Array, label: str, number: int) -> None:
    """A curve with a few markers, at other points for each system."""
    marks = (0.1 + 0.03 * (number % 7), 0.25)  # the first marker and their distance, as shares of the diagonal
    ax.plot(x, y, label=_plain(label), markersize=5, markevery=marks, **line_style(number))


def _band(ax: Axes, low: tuple[Array, Array], high: tuple[Array, Array], number: int, name: str) -> None:
    ax.fill(*band_outline(low, high), color=line_style(number)["color"], alpha=0.3, linewidth=0, label=name or None)


def _open_frame(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def _plain(name: str) -> str:
    """A name as plain text, so that dollars, line breaks and a leading underscore have no special effect."""
    shown = " ".join(name.split()).replace("$", r"\$")
    return f"\u200b{shown}" if shown.startswith("_") else shown


class Drawable(Protocol):
    """The parts of a score for drawing."""

    @property
    def mauve(self) -> float:
        """Area summary."""

    @property
    def interval(self) -> dict[str, tuple[float, float]]:
        """The range of each summary for repeat samples; empty if not known."""

    @property
    def certified(self) -> dict[str, Estimate]:
        """The certified bound of each summary; empty if nothing was certified."""

    @property
    def self_score(self) -> dict[str, float]:
        """The score of the reference against itself."""

    @property
    def frontier(self) -> Frontier:
        """Mean curve."""

    @property
    def certified_frontier(self) -> Frontier | None:
        """The certified curve."""

    @property
    def band(self) -> tuple[Frontier, Frontier] | None:
        """Smallest and largest costs over the repeats."""

    @property
    def scale(self) -> float:
        """The constant c."""


def exponentiated_points(frontier: Frontier, scale: float) -> tuple[Array, Array]:
    """exp(−c·cost) of both costs, from (0, 1) to (1, 0)."""
    x = np.concatenate([[0.0], np.exp(-scale * frontier.p_to_mix), [1.0]])
    y = np.concatenate([[1.0], np.exp(-scale * frontier.q_to_mix), [0.0]])
    return x, y


def cost_points(frontier: Frontier) -> tuple[Array, Array]:
    """Both costs, for λ from 0.01 to 0.99."""
    inner = (frontier.lam >= _ENDS) & (frontier.lam <= 1.0 - _ENDS)
    return frontier.p_to_mix[inner], frontier.q_to_mix[inner]


def band_outline(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """The outline of the area between two curves: along the first, and back along the second."""
    return np.concatenate([first[0], second[0][::-1]]), np.concatenate([first[1], second[1][::-1]])
