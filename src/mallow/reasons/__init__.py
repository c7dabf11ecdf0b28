"""Reasons for a verdict: what differs between model and reference, goes with the held-out score, and can be read."""

from mallow.reasons._find import find_reasons
from mallow.reasons._reason import LEVEL, Reason
from mallow.reasons._terms import marking_terms, terms_of_groups
from mallow.reasons._unit_tests import UnitTests, two_sided
from mallow.reasons._verdict import verdict_text

__all__ = [
    "LEVEL",
    "Reason",
    "UnitTests",
    "find_reasons",
    "marking_terms",
    "terms_of_groups",
    "two_sided",
    "verdict_text",
]
