"""Pictures of several systems with matplotlib, readable in grey; `Figure.savefig` writes them as PNG, SVG or PDF."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mallow._optional import optional
from mallow.errors import InputError
from mallow.evaluate import Comparison
from mallow.report._comparison import Scored, as_comparison
from mallow.results import draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_WIDTH = 7.0  # inches; chosen: the text width of most papers


def frontier_figure(comparison: Scored) -> Figure:
    """The frontiers of all systems: published, in their two costs and exponentiated, and certified.

    Each published curve is the mean over the repeats. The curves of all repeats lie in the band around it, which shows
    the noise of clustering, not of sampling. The true curves lie below the certified ones, up to the noise of sampling.

    Parameters
    ----------
    comparison : Comparison, Score, or mapping name → Score
    """
    shown = as_comparison(comparison)
    certified = all(score.certified_frontier is not None for score in shown.scores.values())
    columns = 1 if len(shown.scores) == 1 else 2
    shade = 0.15 if len(shown.scores) == 1 else 0.06  # the areas overlap
    with _figure(2.9 + 0.17 * -(-len(shown.scores) // columns)) as figure:
        left, middle, *more = figure.subplots(1, 3 if certified else 2)
        for number, (name, score) in enumerate(shown.scores.items()):
            label = f"{name}: published {score.mauve:.3f}"
            label += f", certified {score.certified['mauve'].value:.3f}" if certified else ""
            draw.costs(left, score, label=label, number=number)
            draw.exponentiated(middle, score, label=label, number=number, shade=shade)
            for right in more:
                draw.exponentiated(right, score, label=label, number=number, shade=shade, certified=True)
        left.set_title("Published, in costs")
        middle.set_title("Published: the area is MAUVE")
        for right in more:
            right.set_title("Certified: at most this area")
        left.set_box_aspect(1)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=3.2, edgecolor="none")
    return figure


def score_figure(comparison: Scored) -> Figure:
    """The published scores of all systems with the interval of repeat samples, the certified value, and the self-score.

    Parameters
    ----------
    comparison : Comparison, Score, or mapping name → Score
    """
    shown = as_comparison(comparison)
    with _figure(1.3 + 0.4 * len(shown.scores)) as figure:
        draw.scores(figure.subplots(), shown.scores)
    return figure


def rank_figure(comparison: Comparison) -> Figure:
    """The range of ranks of each system that the significant differences allow.

    Parameters
    ----------
    comparison : Comparison
        A comparison of all pairs.
    """
    shown = as_comparison(comparison)
    if not shown.ranks:
        raise InputError(
            "`comparison` must have ranks, but it has none. Compare all pairs: mallow.compare with baseline=None."
        )
    with _figure(0.8 + 0.28 * len(shown.ranks)) as figure:
        draw.ranks(figure.subplots(), shown.ranks)
    return figure


@contextmanager
def _figure(height: float) -> Iterator[Figure]:
    """A figure as wide as a page, with text of the size of a caption while it is drawn.

    It does not use pyplot, so there is no window, and no state that grows with every picture.
    """
    figures = optional("matplotlib.figure", extra="plot")
    style = {"font.size": 8.0, "axes.titlesize": 8.5, "lines.linewidth": 1.3}
    with optional("matplotlib", extra="plot").rc_context(style):
        yield figures.Figure(figsize=(_WIDTH, height), layout="constrained")
