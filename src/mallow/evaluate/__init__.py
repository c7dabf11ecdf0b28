"""From samples to verdicts: score, compare, test, monitor, track, plan, check, sweep."""

from mallow.evaluate._audit import EDITS, Audit, Effect, audit_embedder, edit_texts
from mallow.evaluate._check import Check, check_regression, read_baseline
from mallow.evaluate._compare import compare, compare_pairs, embed_pairs
from mallow.evaluate._comparison import Comparison, Difference
from mallow.evaluate._door import score
from mallow.evaluate._gaps import GapDifference, compare_gaps
from mallow.evaluate._items import ItemComparison, ItemDifference, compare_items
from mallow.evaluate._monitor import Monitor
from mallow.evaluate._order import OrderedSystems, SystemPair, rank_systems
from mallow.evaluate._passport import Passport, make_passport
from mallow.evaluate._passport_check import PassportCheck, verify_passport
from mallow.evaluate._plan import SamplePlan, plan_samples
from mallow.evaluate._robust import AgreedDifference, RobustComparison, compare_embedders
from mallow.evaluate._run import Settings, run_repeats, self_score, summary_values
from mallow.evaluate._same import SameModel, same_model
from mallow.evaluate._score import Score, score_embedded
from mallow.evaluate._share import estimate_share
from mallow.evaluate._subsets import GroupScores, MatchedScore
from mallow.evaluate._sweep import Sweep, grid, sweep
from mallow.evaluate._track import Change, Track, Trend, track

__all__ = [
    "Audit",
    "Check",
    "Comparison",
    "Difference",
    "GapDifference",
    "GroupScores",
    "ItemComparison",
    "ItemDifference",
    "MatchedScore",
    "Monitor",
    "Passport",
    "PassportCheck",
    "RobustComparison",
    "SameModel",
    "SamplePlan",
    "Score",
    "Sweep",
    "Track",
    "audit_embedder",
    "check_regression",
    "compare",
    "compare_embedders",
    "compare_gaps",
    "compare_items",
    "estimate_share",
    "make_passport",
    "plan_samples",
    "same_model",
    "score",
    "sweep",
    "track",
    "verify_passport",
]
