"""Error bounds of the paper, as numbers: how far an estimate from samples can be from the truth.

The bounds hold for a divergence whose generator satisfies the paper's assumption (asmp:fdiv), that is, whose six
constants are finite. `constants` computes the smallest ones numerically; `paper_constants` gives those of the
paper's table. All bounds are on the expected absolute error E|D_f(P̂‖Q̂) − D_f(P‖Q)|.
"""

from mallow.theory._bounds import (
    alpha,
    beta,
    gamma,
    oracle_bound,
    oracle_partition,
    quantization_error,
    statistical_bound,
    suggested_bins,
    suggested_neighbors,
    total_error,
    uniform_bound,
)
from mallow.theory._constants import Constants, constants, paper_constants

__all__ = [
    "Constants",
    "alpha",
    "beta",
    "constants",
    "gamma",
    "oracle_bound",
    "oracle_partition",
    "paper_constants",
    "quantization_error",
    "statistical_bound",
    "suggested_bins",
    "suggested_neighbors",
    "total_error",
    "uniform_bound",
]
