"""How sure a result is: intervals, differences, resampling, correction for multiple tests."""

from mallow.inference import _calibration as lookalikes
from mallow.inference._calibration import AREA, correlation
from mallow.inference._intervals import (
    NORMAL,
    Evidence,
    evidence,
    holm,
    interval,
    pair_difference,
    permutation_p_value,
    resampled,
)

__all__ = [
    "AREA",
    "NORMAL",
    "Evidence",
    "correlation",
    "evidence",
    "holm",
    "interval",
    "lookalikes",
    "pair_difference",
    "permutation_p_value",
    "resampled",
]
