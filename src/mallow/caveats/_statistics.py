"""When a difference is reported: it must be beyond the noise of sampling, and large enough to matter."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mallow.samples import Samples

# All chosen. 4 standard errors are far beyond the usual 2, because many things are checked, for many systems, and an
# alarm that is often false is soon ignored: halves of real texts and images give none (tests/caveats).
STANDARD_ERRORS = 4.0  # of a difference between two shares
_STANDARD_ERRORS_EACH = (
    3.0  # of a quantile, on each side: two intervals that do not overlap are as sure as 4 of a difference
)
MIN_SHARE_DIFFERENCE = 0.1  # a difference between two shares that matters
MIN_SHARE_OF_COPIES = 0.01  # copies and leftover markers matter sooner
_MIN_RATIO = 1.1  # a ratio of lengths that matters
QUANTILES = (0.1, 0.5, 0.9)

Numbers = NDArray[np.float64]


def shares_differ(a: float, b: float, n_a: int, n_b: int, least: float = MIN_SHARE_DIFFERENCE) -> bool:
    """Whether two shares, of n_a and n_b independent samples, differ beyond their noise and by more than `least`."""
    pooled = (a * n_a + b * n_b) / (n_a + n_b)
    noise = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n_a + 1.0 / n_b))
    return abs(a - b) > max(least, STANDARD_ERRORS * noise)


def quantiles_differ(a: Numbers, b: Numbers, n_a: int, n_b: int, ratio: float = _MIN_RATIO) -> bool:
    """Whether one of `QUANTILES` of two sorted samples differs beyond its noise and by more than the ratio."""
    for level in QUANTILES:
        bounds = _quantile_bounds(a, level, n_a), _quantile_bounds(b, level, n_b)
        smaller, larger = sorted(bounds, key=lambda bound: bound[1])
        if smaller[2] < larger[0] and larger[1] > ratio * smaller[1]:
            return True
    return False


def _quantile_bounds(ordered: Numbers, level: float, independent: int) -> tuple[float, float, float]:
    """A quantile between two order statistics that enclose it for any distribution; infinite where there are none."""
    reach = _STANDARD_ERRORS_EACH * math.sqrt(level * (1.0 - level) / independent)
    n = len(ordered)
    low, high = math.floor(n * (level - reach)) - 1, math.ceil(n * (level + reach))
    return (
        float(ordered[low]) if low >= 0 else -math.inf,
        float(np.quantile(ordered, level)),
        float(ordered[high]) if high < n else math.inf,
    )


def count_independent(samples: Samples) -> int:
    """The number of independent samples: several generations for one prompt are alike, and count as one."""
    groups = samples.unit_names
    return len(samples) if groups is None else len(set(groups))


def percent(share: float) -> str:
    """A share for a message.

    Examples
    --------
    >>> percent(0.024)
    '2.4 %'
    """
    return f"{100 * share:.1f} %"
