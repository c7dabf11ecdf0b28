"""Likelihood ratios averaged over one sample alone can leave the range of a divergence: where they do, a caveat says so."""

from __future__ import annotations

import math

from mallow.errors import Caveat
from mallow.theory._masses import Masses
from mallow.theory._summaries import integral, midpoint

_TOO_LARGE = 2.0  # chosen: mean likelihood ratio, which should be 1, above which a few points dominate the estimate
_LARGEST = 1.0 + 1e-9  # of the frontier integral of KL; its mid-point is at most log 2


def range_caveats(masses: Masses, way_out: str) -> tuple[Caveat, ...]:
    """Why masses of likelihood ratios may not be trusted: a mean ratio far above 1, or a summary that is out of range.

    In the published form (``pooled=False``) a cost of P is a mean over the points of Q, whose weights do not sum to 1. Pooled
    masses are two distributions, which have no such doubts.

    Parameters
    ----------
    masses : Masses
        From `Masses.from_log_ratio`.
    way_out : str
        What to do instead, as a sentence.
    """
    if masses.split is None:
        return ()
    split = masses.split
    mean = max(float(masses.p[:split].sum()), float(masses.q[split:].sum()))
    if math.isinf(mean):
        whole = middle = math.inf
    else:
        whole, middle = float(integral(masses)), float(midpoint(masses))
    if mean <= _TOO_LARGE and whole <= _LARGEST and middle <= _LARGEST * math.log(2.0):
        return ()
    message = (
        f"the mean likelihood ratio is {mean:.3g} where it should be 1, and the frontier integral {whole:.3g} where it is at "
        f"most 1: points far from their own sample dominate the estimate. {way_out}"
    )
    values = {"mean_ratio": float(f"{mean:.10g}"), "frontier_integral": float(f"{whole:.10g}")}
    return (Caveat("isolated points", message, values=values),)
