"""Reasons to doubt a score, from confounds to the evidence: all caveats of an evaluation are made here."""

from mallow.caveats._confounds import ALIGNMENTS, REMOVED_BY, align_samples, chosen_alignments, find_confounds
from mallow.caveats._counts import percent
from mallow.caveats._estimates import (
    bin_caveats,
    blindness_caveats,
    check_estimate,
    evidence_caveats,
    refuse_without_answer,
)
from mallow.caveats._samples import check_samples, rename_system, size_caveats, system_size_caveats, unique_caveats
from mallow.caveats._texts import TRAITS, Trait, share_with_prompt

__all__ = ["find_confounds"]
