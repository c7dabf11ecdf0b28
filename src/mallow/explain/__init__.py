"""Explanations of a verdict: telltale signs of the model, the regions of the gap, and copies of training data."""

from mallow.explain._candidates import compare_answers, numbers_apart
from mallow.explain._diagnosis import Diagnosis, diagnose, diagnose_embedded
from mallow.explain._memorisation import Memorisation, NearCopy, memorisation
from mallow.explain._reasons import Reason, find_reasons, verdict_text
from mallow.explain._region import Example, Region, Telltale, image_grid, in_one_line
from mallow.explain._regions import bin_costs
from mallow.explain._unit_tests import UnitTests, two_sided
from mallow.explain._words import terms_of_groups

__all__ = [
    "Diagnosis",
    "Memorisation",
    "Reason",
    "diagnose",
    "memorisation",
]
