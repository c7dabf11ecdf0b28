"""The mathematics, with numpy and scipy only: divergences, masses, frontiers and their summaries.

Three more modules list public names of their own: `mallow.theory.smoothing`, `mallow.theory.bounds` and
`mallow.theory.transport`.
"""

from mallow.theory._arrays import Array
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
from mallow.theory._extrapolate import extrapolated
from mallow.theory._frontier import Frontier, Grid, frontier
from mallow.theory._masses import Masses, Partition
from mallow.theory._range_caveats import range_caveats
from mallow.theory._summaries import area, closed_integral, integral, linear_cost, midpoint

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
    "closed_integral",
    "conjugate",
    "extrapolated",
    "frontier",
    "integral",
    "interpolated",
    "linear_cost",
    "midpoint",
    "range_caveats",
    "skew_js",
]
