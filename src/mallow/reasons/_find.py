"""What gives the model away."""

from __future__ import annotations

from mallow.inference import Evidence
from mallow.reasons._reason import Reason
from mallow.samples import Samples

__all__ = ["find_reasons"]


def find_reasons(reference: Samples, model: Samples, evidence: Evidence) -> tuple[Reason, ...]:
    """What gives the model away, the clearest first."""
    return ()
