"""The mathematics, in numpy and scipy alone: divergences, masses, frontiers, smoothing, bounds, optimal transport."""

from mallow.theory._debias import debiased
from mallow.theory._divergence import (
    CHI2,
    CHI2_INTEGRAL,
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
from mallow.theory._frontier import Frontier, Grid, area, frontier, integral, linear_cost, midpoint
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
    "Array",
    "Divergence",
    "Frontier",
    "Grid",
    "Masses",
    "Partition",
    "area",
    "conjugate",
    "debiased",
    "frontier",
    "integral",
    "interpolated",
    "linear_cost",
    "midpoint",
    "skew_js",
]
