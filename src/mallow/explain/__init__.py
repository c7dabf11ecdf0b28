"""Reasons for a score: where the gap is, whether the model copies, and what the embedder can see."""

from mallow.explain._audit import Audit, Effect, audit_embedder
from mallow.explain._bins import bin_costs, bin_p_values
from mallow.explain._diagnose import diagnose, diagnose_embedded
from mallow.explain._diagnosis import Diagnosis
from mallow.explain._edits import EDITS, edit_texts
from mallow.explain._memorisation import Memorisation, NearCopy
from mallow.explain._memorise import memorisation
from mallow.explain._pictures import image_grid
from mallow.explain._region import Example, Region, Telltale
from mallow.reasons import marking_terms

__all__ = [
    "EDITS",
    "Audit",
    "Diagnosis",
    "Effect",
    "Example",
    "Memorisation",
    "NearCopy",
    "Region",
    "Telltale",
    "audit_embedder",
    "bin_costs",
    "bin_p_values",
    "diagnose",
    "diagnose_embedded",
    "edit_texts",
    "image_grid",
    "marking_terms",
    "memorisation",
]
