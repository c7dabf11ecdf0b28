"""Reasons for a score: where the gap is, and what the embedder can see."""

from mallow.explain._audit import EDITS, Audit, Effect, audit_embedder, edited
from mallow.explain._diagnose import (
    Diagnosis,
    Example,
    Region,
    bin_costs,
    bin_p_values,
    diagnose,
    image_grid,
    marking_terms,
)

__all__ = [
    "EDITS",
    "Audit",
    "Diagnosis",
    "Effect",
    "Example",
    "Region",
    "audit_embedder",
    "bin_costs",
    "bin_p_values",
    "diagnose",
    "edited",
    "image_grid",
    "marking_terms",
]
