"""The certainty of results: units, held-out evidence, tests, differences, intervals, correction for multiple tests."""

from mallow.evidence._betting import Bets, fit_betting, mauve_limit
from mallow.evidence._blocks import Rows as RowSource
from mallow.evidence._certificate import ONE_SIDED, Certificate, certify, standard_errors, unit_influence
from mallow.evidence._evidence import (
    LEVEL,
    NORMAL,
    Evidence,
    difference_between,
    gather_evidence,
    holm,
    is_undecided,
    subtract_certificates,
)
from mallow.evidence._held_out import HeldOut, Pairs, find_limit, hold_out, hold_out_rows
from mallow.evidence._identity import Draws, IdentityTest, compare_means, run_identity_test
from mallow.evidence._learner import Learner, View
from mallow.evidence._measure import (
    MAUVE_2021,
    MAUVE_KERNEL,
    MAUVE_STAR,
    MEASURES,
    SUMMARIES,
    Measure,
    Signature,
    find_measure,
    make_signature,
    measure_for,
)
from mallow.evidence._permutation_test import PermutationTest, permutation_test, run_permutations
from mallow.evidence._published import debiased_estimate, published_interval
from mallow.evidence._sequential import Looks, SequentialTest, fit_sequential_test
from mallow.evidence._shares import bound_shares
from mallow.evidence._space import find_space
from mallow.evidence._systems import (
    Outcome,
    fits_several,
    generator_for,
    pair_columns,
    pair_points,
    pair_spaces,
    run_alone,
    run_systems,
)
from mallow.evidence._units import Units, choose_units, describe_units, find_units, units_of_surveys
from mallow.evidence._within import judge_prompts
from mallow.evidence._witness import Witness, are_many, make_learner, pooled_masses

__all__ = [
    "MAUVE_2021",
    "MAUVE_KERNEL",
    "MAUVE_STAR",
    "Evidence",
    "Measure",
    "Signature",
    "Witness",
    "permutation_test",
]
