"""Hypothesis strategies: pairs of distributions, easy and hard, and divergences."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mallow import CHI2, HELLINGER2, JS, KL, LE_CAM, TV, Masses, interpolated, skew_js
from mallow.theory import KL_INTEGRAL

BUILT = [skew_js(0.3), interpolated(KL, 0.2), interpolated(CHI2, 0.7)]
SMOOTH = [KL, CHI2, HELLINGER2, JS, LE_CAM, KL_INTEGRAL, *BUILT]
NAMED = [*SMOOTH, TV]

divergences = st.sampled_from(NAMED)
strictly_convex = st.sampled_from(SMOOTH)
mixing = st.floats(0.01, 0.99)
scales = st.sampled_from([0.5, 1.0, 2.5, 5.0, 10.0])


@st.composite
def simplex(draw, size, least=0.0):
    """A distribution on `size` atoms: with zeros, with masses down to 1e-12, or from small counts."""
    kind = draw(st.sampled_from(["counts", "logs", "plain"]))
    if kind == "counts":
        weights = draw(hnp.arrays(np.int64, size, elements=st.integers(0, 5))).astype(float)
    elif kind == "logs":
        weights = 10.0 ** draw(hnp.arrays(np.float64, size, elements=st.floats(-12, 0)))
    else:
        weights = draw(hnp.arrays(np.float64, size, elements=st.just(0.0) | st.floats(1e-12, 1)))
    weights = np.maximum(weights, least)
    if weights.sum() <= 1e-3:
        weights = np.ones(size)
    return weights / weights.sum()


@st.composite
def simplex_pairs(draw, most=8, least=0.0):
    """Two distributions on the same few atoms."""
    size = draw(st.integers(1, most))
    return draw(simplex(size, least)), draw(simplex(size, least))


@st.composite
def masses(draw, **options):
    """`Masses` of a pair."""
    return Masses.from_histograms(*draw(simplex_pairs(**options)))
