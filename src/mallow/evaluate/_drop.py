"""How much certified MAUVE dropped from one run to another, and how large the drop may be."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from mallow.evidence import ONE_SIDED, Certificate, Evidence
from mallow.results import Estimate
from mallow.theory import Array, Divergence, Masses, area, frontier

_LUCK = math.sqrt(2.0)  # each run learned a witness of its own, with luck of its own: as in `subtract_certificates`
# A shift of δ between Gaussians gives a mid-point cost of δ²/8, whose certificate has a standard error of √(δ²/8/n) with an
# ideal witness: z = δ/2 in units of √(1/n + 1/n), the standard error of the shift. Up to z = 1 nothing counts as learned, so
# that a certificate of 1 leaves room for shifts up to 2·(1 + 1.645) = 5.3 errors, and any other for 1.645·√2 = 2.3 more than
# its own. A witness that was learned sees less. Chosen in simulations (experiments/power/check.md, means, width 8): with 5.3
# and 2.3 an end misses the drop in up to 10 %, with these in at most 4 %.
_HIDDEN = 7.0
_FARTHER = 2.7
# Means of Gaussians this far apart; at 8 they are as good as disjoint. Areas between them are right to 0.001.
_SHIFTS = np.concatenate([np.linspace(0.0, 3.0, 61), np.linspace(3.5, 8.0, 10)])
_EDGES = np.linspace(-6.0, 6.0, 121)


def estimate_drop(before: Evidence, now: Evidence, divergence: Divergence, scale: float) -> Estimate:
    """Certified MAUVE of one run minus that of another, with a 90 % interval: each end holds with 95 % confidence.

    The errors of both certificates are compared unit by unit, so that what the runs share, such as the reference or the
    prompts, cancels. Near 1 the error of a certificate tends to 0 although a gap may hide below what can be learned. There
    its limits are those of Gaussians: how much farther apart could two of them be and give the same certificate?
    """
    certificates = before.certify(divergence, scale), now.certify(divergence, scale)
    areas = gaussian_areas(divergence, scale)
    down_before, up_before = _arms(certificates[0], before, areas)
    down_now, up_now = _arms(certificates[1], now, areas)
    shared = _shared_error(before, now, certificates)
    drop = certificates[0].estimates["mauve"].value - certificates[1].estimates["mauve"].value
    return Estimate(drop, drop - _join(down_before, up_now, shared), drop + _join(up_before, down_now, shared))


def gaussian_areas(divergence: Divergence, scale: float) -> Array:
    """The area for two Gaussians of variance 1 whose means differ by each of `_SHIFTS`; it falls from 1."""
    half = _SHIFTS[:, None] / 2.0
    sides = (np.diff(ndtr(_EDGES + shift), axis=1) for shift in (half, -half))
    masses = Masses(*(side / side.sum(axis=1, keepdims=True) for side in sides))
    falling: Array = np.minimum.accumulate(np.asarray(area(frontier.quiet(masses, divergence), scale=scale)))
    return falling


def gaussian_slope(value: float, divergence: Divergence, scale: float) -> float:
    """How fast the area falls as the means of two Gaussians move apart, where it has this value."""
    areas = gaussian_areas(divergence, scale)
    slopes = -np.gradient(areas, _SHIFTS)
    return float(np.interp(np.interp(-value, -areas, _SHIFTS), _SHIFTS, slopes))


def _arms(certificate: Certificate, evidence: Evidence, areas: Array) -> tuple[float, float]:
    """How far below and above its value the certificate of another run may be, each with 95 % confidence."""
    value, error = certificate.estimates["mauve"].value, _LUCK * ONE_SIDED * float(certificate.errors[0])
    counts = (len(np.unique(units)) for units in (evidence.reference_units, evidence.model_units))
    noise = math.sqrt(sum(1.0 / count for count in counts))  # the standard error of a shift
    shift = float(np.interp(-value, -areas, _SHIFTS))
    farther = noise * max(shift / noise + _FARTHER, _HIDDEN)
    down = max(error, value - float(np.interp(farther, _SHIFTS, areas)))
    # As in a certificate, the area falls exponentially with the costs: its error is one of its logarithm.
    up = value * math.expm1(min(error / max(value, 1e-300), 700.0))
    return min(down, value), min(up, 1.0 - value)


def _shared_error(before: Evidence, now: Evidence, certificates: tuple[Certificate, Certificate]) -> float:
    """The correlation of the errors of two certificates; units with the same key are the same unit."""
    keys, place = np.unique(np.concatenate([before.keys, now.keys]), return_inverse=True)
    places = np.split(place, [len(before.keys)])
    first, second = (
        np.bincount(own, certificate.influence[:, 0], len(keys))
        for own, certificate in zip(places, certificates, strict=True)
    )
    size = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / size if size > 0 else 0.0


def _join(first: float, second: float, shared: float) -> float:
    """How far a difference reaches, from the arms of both intervals that point the same way and their correlation."""
    return math.sqrt(max(first**2 + second**2 - 2.0 * shared * first * second, 0.0))
