"""Optimal transport: the cost of moving one sample onto another, and the frontiers made of such costs.

The cost of moving x to y is the squared Euclidean distance ‖x − y‖², so that the optimal transport cost of P and Q
is the squared Wasserstein-2 distance (paper: "Variants based on Optimal Transport"). 0 means equal.

    transport_cost(x, y)          plug-in: the two samples as they are
    quantized_cost(masses)        the two histograms, each bin at its centre
    gaussian_cost(…)              two Gaussians: the Fréchet distance
    entropic_cost(x, y)           plug-in, with a plan that an entropy keeps spread out
    sliced_cost(x, y)             plug-in, along random lines: cheap, without a solver
    linear_frontier(masses)       costs of P and of Q to their mixtures
    barycentric_frontier(masses)  costs of P and of Q to their barycentres on the same bins, as in the paper
    free_barycentric_frontier     … to barycentres anywhere in space
    entropic_linear_frontier, entropic_barycentric_frontier     the same with entropic plans (Sinkhorn)

These raise an `EstimateWarning` if a plan may not be the best. Code that passes such caveats on with its own result calls
the form without warnings, such as ``transport_cost.quiet``: a cost is then a pair (value, caveats), and a frontier has
`caveats` in any case.

MAUVE_OT and MAUVE_OT^bary are the areas of the two frontiers, ``mallow.area(curve, scale=5)``. The paper does not
say which scale c it uses. Its table (table:ot-full) shows it for the linear frontier: all eight printed areas are
e^{−5W}(1 + 5W) to within 0.004, where W is the quantised cost printed beside them.
"""

from mallow.theory._transport_barycentres import (
    barycentric_frontier,
    free_barycentric_frontier,
)
from mallow.theory._transport_costs import (
    entropic_cost,
    gaussian_cost,
    point_masses,
    quantized_cost,
    transport_cost,
)
from mallow.theory._transport_entropic import (
    entropic_barycentric_frontier,
    entropic_linear_frontier,
)
from mallow.theory._transport_frontiers import linear_frontier
from mallow.theory._transport_sliced import sliced_cost

__all__ = [
    "barycentric_frontier",
    "entropic_barycentric_frontier",
    "entropic_cost",
    "entropic_linear_frontier",
    "free_barycentric_frontier",
    "gaussian_cost",
    "linear_frontier",
    "point_masses",
    "quantized_cost",
    "sliced_cost",
    "transport_cost",
]
