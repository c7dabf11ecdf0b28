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

_WIDTH = 7.0  # inches


def frontier_figure(comparison: Scored) -> Figure:
    """The frontiers of all systems in both coordinates: the two costs, and exponentiated with the area shaded.

    Each curve is the mean over the repeats, with a band between whose edges the curves of all repeats lie: the noise of
    clustering, not that of sampling.

    Parameters
    ----------
    comparison : Comparison, Score, or mapping name → Score
    """
    found = as_comparison(comparison)
    figure = _figure(1.5 * _WIDTH, 5.2)
    left, right = figure.subplots(1, 2)
    shade = 0.15 if len(found.scores) == 1 else 0.06  # areas lie on each other
    for place, (name, one) in enumerate(found.scores.items()):
        label = f"{name}: {one.mauve:.3f}"
        draw.costs(left, one, label=label, place=place)
        draw.exponentiated(right, one, label=label, place=place, shade=shade)
    left.set_title("Frontier")
    right.set_title("Exponentiated: its area is MAUVE")
    draw.legend(left)  # away from the axes there is room: the curves bend towards them
    return figure


def score_figure(comparison: Scored) -> Figure:
    """The scores of all systems with spread, 95 % interval and noise floor.

    Parameters
    ----------
    comparison : Comparison, Score, or mapping name → Score
    """
    found = as_comparison(comparison)
    figure = _figure(_WIDTH, 1.6 + 0.35 * len(found.scores))
    draw.scores(figure.subplots(), found.scores)
    return figure


def rank_figure(comparison: Comparison) -> Figure:
    """The range of ranks of each system that the significant differences allow.

    Parameters
    ----------
    comparison : Comparison
        Of all pairs, by a measure with a test of differences.
    """
    found = as_comparison(comparison)
    if not found.ranks:
        raise InputError(
            "`comparison` must have ranks; it has none. Compare all pairs (baseline=None) by a measure with bins, such as "
            "MAUVE_STAR."
        )
    figure = _figure(_WIDTH, 1.2 + 0.35 * len(found.ranks))
    draw.ranks(figure.subplots(), found.ranks)
    return figure


def _figure(width: float, height: float) -> Figure:
    # Without pyplot: no window, no state that grows with every picture.
    made: Figure = optional("matplotlib.figure", extra="plot").Figure(figsize=(width, height), layout="constrained")
    return made
