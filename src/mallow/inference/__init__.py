"""How sure a result is: intervals, differences, resampling, correction for multiple tests."""

from mallow.inference._calibration import (
    AREA,
    BinPopulation,
    Calibrated,
    Influence,
    calibrate,
    correlate_errors,
    find_influence,
    fit_population,
)
from mallow.inference._intervals import (
    NORMAL,
    BinEvidence,
    PairDifference,
    collect_evidence,
    join_arms,
    pair_difference,
    score_interval,
)
from mallow.inference._multiplicity import holm
from mallow.inference._resampling import permutation_p_value, resample_counts, resample_summaries

__all__ = [
    "AREA",
    "NORMAL",
    "BinEvidence",
    "BinPopulation",
    "Calibrated",
    "Influence",
    "PairDifference",
    "calibrate",
    "collect_evidence",
    "correlate_errors",
    "find_influence",
    "fit_population",
    "holm",
    "join_arms",
    "pair_difference",
    "permutation_p_value",
    "resample_counts",
    "resample_summaries",
    "score_interval",
]
