"""Reasons for a verdict: what differs between model and reference, goes with the held-out score, and can be read."""

from mallow.reasons._find import find_reasons
from mallow.reasons._reason import Reason

__all__ = ["Reason", "find_reasons"]
