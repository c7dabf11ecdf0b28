"""The mathematics, with numpy and scipy only: divergences, masses, frontiers and their summaries.

Three modules have their own public names: `smoothing` (from counts to probabilities), `bounds` (on the error of an
estimate) and `transport` (optimal transport).
"""

from mallow.theory import bounds, smoothing, transport
from mallow.theory._divergence import (
    CHI2,
    CHI2_INTEGRAL,
    DIVERGENCES,
    HELLINGER2,
    JS,
    KL,
    KL_INTEGRAL,
    LE_CAM,
    TV,
    Divergence,
    conjugate,
    interpolated,
    skew_js,
)
from mallow.theory._extrapolate import extrapolated
from mallow.theory._frontier import (
    Frontier,
    Grid,
    area,
    closed_integral,
    frontier,
    integral,
    linear_cost,
    midpoint,
    range_caveats,
)
from mallow.theory._masses import Array, Masses, Partition

__all__ = [
    "CHI2",
    "CHI2_INTEGRAL",
    "HELLINGER2",
    "JS",
    "KL",
    "KL_INTEGRAL",
    "LE_CAM",
    "TV",
    "Divergence",
    "Frontier",
    "Masses",
    "Partition",
    "area",
    "bounds",
    "conjugate",
    "extrapolated",
    "frontier",
    "integral",
    "interpolated",
    "linear_cost",
    "midpoint",
    "skew_js",
    "smoothing",
    "transport",
]
