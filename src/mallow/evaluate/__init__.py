"""From samples to verdicts: score, compare, monitor, plan, check, sweep."""

from mallow.evaluate._check import Check, check_regression, read_baseline
from mallow.evaluate._compare import Comparison, Difference, compare
from mallow.evaluate._monitor import Monitor
from mallow.evaluate._plan import SamplePlan, plan_samples
from mallow.evaluate._score import (
    MAUVE_2021,
    MAUVE_STAR,
    SUMMARIES,
    Measure,
    Score,
    all_values,
    collected_doubts,
    described,
    embedded,
    generator,
    permutation_test,
    repeated,
    score,
    signature,
)
from mallow.evaluate._sweep import Sweep, grid, sweep

__all__ = [
    "MAUVE_2021",
    "MAUVE_STAR",
    "SUMMARIES",
    "Check",
    "Comparison",
    "Difference",
    "Measure",
    "Monitor",
    "SamplePlan",
    "Score",
    "Sweep",
    "all_values",
    "check_regression",
    "collected_doubts",
    "compare",
    "described",
    "embedded",
    "generator",
    "grid",
    "permutation_test",
    "plan_samples",
    "read_baseline",
    "repeated",
    "score",
    "signature",
    "sweep",
]
