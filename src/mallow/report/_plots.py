"""Pictures of several systems with matplotlib, readable in grey; `Figure.savefig` writes them as PNG, SVG or PDF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mallow._optional import optional
from mallow.errors import InputError
from mallow.evaluate import Comparison
from mallow.report._comparison import Scored, as_comparison
from mallow.results import draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["frontier_figure", "rank_figure", "score_figure"]

_WIDTH = 7.0  # inches; chosen: the text width of most papers


def frontier_figure(comparison: Scored) -> Figure:
    """The frontiers of all systems, in their two costs and exponentiated, with the area shaded.

    Each curve is the mean over the repeats. The curves of all repeats lie in the band around it, which shows the noise of
    clustering, not that of sampling.

    Parameters
    ----------
    comparison : Comparison, Score, or mapping name → Score
    """
    shown = as_comparison(comparison)
    figure = _figure(1.5 * _WIDTH, 5.2)
    left, right = figure.subplots(1, 2)
    shade = 0.15 if len(shown.scores) == 1 else 0.06  # the areas overlap
    for place, (name, score) in enumerate(shown.scores.items()):
        label = f"{name}: {score.mauve:.3f}"
        draw.costs(left, score, label=label, place=place)
        draw.exponentiated(right, score, label=label, place=place, shade=shade)
    left.set_title("Frontier")
    right.set_title("Exponentiated: its area is MAUVE")
    draw.legend(left)  # there is room away from the axes, towards which the curves bend
    return figure


def score_figure(comparison: Scored) -> Figure:
    """The scores of all systems with their spread, the 95 % interval of the bias-corrected value, and the noise floor.

    Parameters
    ----------
    comparison : Comparison, Score, or mapping name → Score
    """
    shown = as_comparison(comparison)
    figure = _figure(_WIDTH, 1.6 + 0.35 * len(shown.scores))
    draw.scores(figure.subplots(), shown.scores)
    return figure


def rank_figure(comparison: Comparison) -> Figure:
    """The range of ranks of each system that the significant differences allow.

    Parameters
    ----------
    comparison : Comparison
        Of all pairs, by a measure whose differences are tested.
    """
    shown = as_comparison(comparison)
    if not shown.ranks:
        raise InputError(
            "`comparison` must have ranks; it has none. Compare all pairs (baseline=None) by a measure with bins, such as "
            "MAUVE_STAR."
        )
    figure = _figure(_WIDTH, 1.2 + 0.35 * len(shown.ranks))
    draw.ranks(figure.subplots(), shown.ranks)
    return figure


def _figure(width: float, height: float) -> Figure:
    # Without pyplot: no window, and no state that grows with every picture.
    figure: Figure = optional("matplotlib.figure", extra="plot").Figure(figsize=(width, height), layout="constrained")
    return figure
