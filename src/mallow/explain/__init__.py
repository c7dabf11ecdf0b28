"""Reasons for a verdict: what tells the model's samples apart, where the gap is, and whether the model copies."""

from mallow.explain._bins import bin_costs, bin_p_values
from mallow.explain._diagnose import diagnose, diagnose_embedded
from mallow.explain._diagnosis import Diagnosis
from mallow.explain._memorisation import Memorisation, NearCopy
from mallow.explain._memorise import memorisation
from mallow.explain._pictures import image_grid
from mallow.explain._reason import LEVEL, Reason
from mallow.explain._reasons import find_reasons
from mallow.explain._region import Example, Region, Telltale
from mallow.explain._terms import marking_terms, terms_of_groups
from mallow.explain._unit_tests import UnitTests, two_sided
from mallow.explain._verdict import verdict_text

__all__ = [
    "LEVEL",
    "Diagnosis",
    "Example",
    "Memorisation",
    "NearCopy",
    "Reason",
    "Region",
    "Telltale",
    "UnitTests",
    "bin_costs",
    "bin_p_values",
    "diagnose",
    "diagnose_embedded",
    "find_reasons",
    "image_grid",
    "marking_terms",
    "memorisation",
    "terms_of_groups",
    "two_sided",
    "verdict_text",
]
