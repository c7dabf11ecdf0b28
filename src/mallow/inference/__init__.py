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
from mallow.inference._certificate import ONE_SIDED, Certificate, certify
from mallow.inference._evidence import (
    NORMAL,
    Evidence,
    EvidenceDifference,
    difference_between,
    gather_evidence,
    subtract_certificates,
)
from mallow.inference._fold_views import View
from mallow.inference._identity import IdentityTest, run_identity_test
from mallow.inference._intervals import (
    BinEvidence,
    PairDifference,
    collect_evidence,
    join_arms,
    pair_difference,
    score_interval,
)
from mallow.inference._multiplicity import holm
from mallow.inference._published import debiased_estimate, published_interval
from mallow.inference._resampling import permutation_p_value, resample_counts, resample_summaries
from mallow.inference._sequential import (
    Looks,
    MeanTest,
    SequentialTest,
    crossing_probability,
    fit_mean_test,
    fit_sequential_test,
)
from mallow.inference._space import Space, find_space
from mallow.inference._units import Units, find_units
from mallow.inference._witness import Learner, Witness, pooled_masses

__all__ = [
    "AREA",
    "NORMAL",
    "ONE_SIDED",
    "BinEvidence",
    "BinPopulation",
    "Calibrated",
    "Certificate",
    "Evidence",
    "EvidenceDifference",
    "IdentityTest",
    "Influence",
    "Learner",
    "Looks",
    "MeanTest",
    "PairDifference",
    "SequentialTest",
    "Space",
    "Units",
    "View",
    "Witness",
    "calibrate",
    "certify",
    "collect_evidence",
    "correlate_errors",
    "crossing_probability",
    "debiased_estimate",
    "difference_between",
    "find_influence",
    "find_space",
    "find_units",
    "fit_mean_test",
    "fit_population",
    "fit_sequential_test",
    "gather_evidence",
    "holm",
    "join_arms",
    "pair_difference",
    "permutation_p_value",
    "pooled_masses",
    "published_interval",
    "resample_counts",
    "resample_summaries",
    "run_identity_test",
    "score_interval",
    "subtract_certificates",
]
