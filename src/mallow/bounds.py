"""The paper's bounds: the public names of `mallow.theory.bounds`."""

from mallow.theory.bounds import (
    Constants,
    alpha,
    beta,
    constants,
    gamma,
    oracle_bound,
    oracle_partition,
    paper_constants,
    quantization_error,
    statistical_bound,
    suggested_bins,
    total_error,
)

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
    "total_error",
]
