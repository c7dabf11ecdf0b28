"""Results to show: one self-contained HTML page, and pictures."""

from mallow.report._comparison import collect_caveats, compare_and_diagnose
from mallow.report._page import html, write
from mallow.report._plots import frontier_figure, rank_figure, score_figure

__all__ = ["compare_and_diagnose", "frontier_figure", "html", "rank_figure", "score_figure", "write"]
