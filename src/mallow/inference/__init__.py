"""How sure a result is: units, held-out evidence, tests, differences, intervals, correction for multiple tests."""

from mallow.inference._certificate import ONE_SIDED, Certificate, certify
from mallow.inference._evidence import (
    NORMAL,
    Evidence,
    EvidenceDifference,
    difference_between,
    gather_evidence,
    is_undecided,
    subtract_certificates,
)
from mallow.inference._exchange_test import compare_means
from mallow.inference._fold_views import View
from mallow.inference._identity import IdentityTest, run_identity_test
from mallow.inference._multiplicity import holm
from mallow.inference._published import debiased_estimate, published_interval
from mallow.inference._rows import Rows as RowSource
from mallow.inference._sequential import Looks, SequentialTest, fit_sequential_test
from mallow.inference._space import find_space
from mallow.inference._units import Units, find_units
from mallow.inference._witness import AnyLearner, Witness, are_many, make_learner, pooled_masses

__all__ = [
    "NORMAL",
    "ONE_SIDED",
    "AnyLearner",
    "Certificate",
    "Evidence",
    "EvidenceDifference",
    "IdentityTest",
    "Looks",
    "RowSource",
    "SequentialTest",
    "Units",
    "View",
    "Witness",
    "are_many",
    "certify",
    "compare_means",
    "debiased_estimate",
    "difference_between",
    "find_space",
    "find_units",
    "fit_sequential_test",
    "gather_evidence",
    "holm",
    "is_undecided",
    "make_learner",
    "pooled_masses",
    "published_interval",
    "run_identity_test",
    "subtract_certificates",
]
