"""From samples to verdicts: score, compare, test, monitor, track, plan, check, sweep."""

from mallow.evaluate._check import Check, check_regression, read_baseline
from mallow.evaluate._compare import compare, compare_pairs, embed_pairs
from mallow.evaluate._comparison import Comparison, Difference
from mallow.evaluate._gaps import GapDifference, compare_gaps
from mallow.evaluate._groups import GroupScores, score_groups
from mallow.evaluate._held_out import HeldOut, evidence_caveats, hold_out
from mallow.evaluate._matched import MatchedScore, score_matched
from mallow.evaluate._measure import MAUVE_2021, MAUVE_KERNEL, MAUVE_STAR, SUMMARIES, Measure
from mallow.evaluate._monitor import Monitor
from mallow.evaluate._no_answer import refuse_without_answer
from mallow.evaluate._passport import Passport, make_passport
from mallow.evaluate._passport_check import PassportCheck, verify_passport
from mallow.evaluate._permutation_test import permutation_test, run_permutations
from mallow.evaluate._plan import SamplePlan, plan_samples
from mallow.evaluate._robust import AgreedDifference, RobustComparison, compare_embedders
from mallow.evaluate._run import generator_for, pair_points, run_repeats, summary_values
from mallow.evaluate._score import Score, score, score_embedded
from mallow.evaluate._self_score import self_score
from mallow.evaluate._signature import Signature, make_signature
from mallow.evaluate._sweep import Sweep, grid, sweep
from mallow.evaluate._track import Change, Track, Trend, track

__all__ = [
    "MAUVE_2021",
    "MAUVE_KERNEL",
    "MAUVE_STAR",
    "SUMMARIES",
    "AgreedDifference",
    "Change",
    "Check",
    "Comparison",
    "Difference",
    "GapDifference",
    "GroupScores",
    "HeldOut",
    "MatchedScore",
    "Measure",
    "Monitor",
    "Passport",
    "PassportCheck",
    "RobustComparison",
    "SamplePlan",
    "Score",
    "Signature",
    "Sweep",
    "Track",
    "Trend",
    "check_regression",
    "compare",
    "compare_embedders",
    "compare_gaps",
    "compare_pairs",
    "embed_pairs",
    "evidence_caveats",
    "generator_for",
    "grid",
    "hold_out",
    "make_passport",
    "make_signature",
    "pair_points",
    "permutation_test",
    "plan_samples",
    "read_baseline",
    "refuse_without_answer",
    "run_permutations",
    "run_repeats",
    "score",
    "score_embedded",
    "score_groups",
    "score_matched",
    "self_score",
    "summary_values",
    "sweep",
    "track",
    "verify_passport",
]
