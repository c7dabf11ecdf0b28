"""Samples of features for the tests of feature metrics, and the definitions of two metrics by brute force."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pytest import approx
from scipy.spatial.distance import cdist

from mallow.baselines import PrecisionRecall


def normal(n, d, *, mean=0.0, scale=1.0, seed=0):
    """Points (n, d) of a Gaussian with independent coordinates."""
    return np.random.default_rng(seed).normal(mean, scale, size=(n, d))


@st.composite
def clouds(draw, elements=None, least=8, most=20):
    """Two samples of the same width; small integers by default, so that duplicates and tied distances are common."""
    width = draw(st.integers(1, 4))
    elements = st.integers(-2, 2).map(float) if elements is None else elements
    shapes = (draw(st.integers(least, most)), width), (draw(st.integers(least, most)), width)
    return tuple(draw(hnp.arrays(np.float64, shape, elements=elements)) for shape in shapes)


ordinary = st.floats(-100, 100, width=32)


def kernel_by_all_pairs(x, y):
    """The kernel distance by its definition."""

    def kernel(a, b):
        return (a @ b.T / a.shape[1] + 1) ** 3

    def off_diagonal(a):
        gram = kernel(a, a)
        return (gram.sum() - np.trace(gram)) / (len(a) * (len(a) - 1))

    return off_diagonal(x) + off_diagonal(y) - 2 * kernel(x, y).mean()


def precision_recall_by_definition(x, y, k):
    """With ≤, from all distances."""

    def radius(side):
        return np.sort(cdist(side, side, "sqeuclidean"), axis=1)[:, k]  # [:, 0] is the point itself

    between = cdist(x, y, "sqeuclidean")
    by_x, by_y = between <= radius(x)[:, None], between <= radius(y)
    return PrecisionRecall(
        precision=by_x.any(axis=0).mean(),
        recall=by_y.any(axis=1).mean(),
        density=by_x.sum(axis=0).mean() / k,
        coverage=by_x.any(axis=1).mean(),
        neighbors=k,
    )


def same(a, b):
    """Whether two results agree in all shares up to rounding."""
    return vars(a) == approx(vars(b), rel=1e-12)
