"""Smoothing of histograms: the public names of `mallow.theory.smoothing`."""

from mallow.theory.smoothing import (
    absolute_discounting,
    add_constant,
    braess_sauer,
    empirical,
    good_turing,
    krichevsky_trofimov,
    laplace,
)

__all__ = [
    "absolute_discounting",
    "add_constant",
    "braess_sauer",
    "empirical",
    "good_turing",
    "krichevsky_trofimov",
    "laplace",
]
