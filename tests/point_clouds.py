"""Small samples of points for the tests of transport."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mallow import Masses, Quantize
from mallow.smoothing import empirical

coordinates = st.floats(-100, 100, allow_subnormal=False).map(lambda value: round(value, 3))


@st.composite
def clouds(draw, most=8, widths=(1, 2, 5)):
    """Two small samples of the same width, of different sizes, with ties."""
    d = draw(st.sampled_from(widths))
    sizes = draw(st.integers(1, most)), draw(st.integers(1, most))
    return tuple(draw(hnp.arrays(np.float64, (n, d), elements=coordinates)) for n in sizes)


def uneven_masses(size, seed=0):
    weights = np.random.default_rng(seed).random(size)
    return weights / weights.sum()


def gaussian_points(n, d, *, shift=0.0, spread=1.0, seed=0):
    return shift + spread * np.random.default_rng(seed).normal(size=(n, d))


def quantized_points(d=2, n=300, shift=0.5) -> Masses:
    quantize = Quantize(bins=30, smoothing=empirical, reduce=None)
    return quantize(gaussian_points(n, d), gaussian_points(n, d, shift=shift, seed=1))
