"""Approximate distances stay within their error bound."""

import numpy as np

from mallow.baselines._precision_recall import approximate_distances, exact_distances, make_cloud


def test_approximate_distances_are_within_the_bound():
    x = np.random.default_rng(0).standard_t(2, size=(200, 300)) * np.logspace(-25, 0, 200)[:, None]
    x[::2] *= -1
    cloud = make_cloud(x, np.zeros(300))
    exact = exact_distances(cloud, np.repeat(np.arange(200), 200), cloud, np.tile(np.arange(200), 200))
    for dtype in (np.float32, np.float64):
        slack = cloud.slack(dtype).astype(float)
        about = approximate_distances(cloud, slice(0, 200), cloud, dtype)
        assert about.dtype == dtype
        assert (np.abs(about - exact.reshape(200, 200)) <= slack[:, None] + slack).all()
