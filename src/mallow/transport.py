"""Optimal transport: the public names of `mallow.theory.transport`."""

from mallow.theory.transport import (
    barycentric_frontier,
    entropic_cost,
    gaussian_cost,
    linear_frontier,
    point_masses,
    quantized_cost,
    transport_cost,
)

__all__ = [
    "barycentric_frontier",
    "entropic_cost",
    "gaussian_cost",
    "linear_frontier",
    "point_masses",
    "quantized_cost",
    "transport_cost",
]
