"""The nearest centre: exactly that of the definition, the lowest of equals, in any batch where this is asked for."""

import numpy as np
import pytest

from estimate_truths import clustered_points
from mallow.estimate._nearest import nearest_centres


@pytest.mark.parametrize("any_batch", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 63, 64, 65, 1024, 2500])
def test_labels_are_those_of_the_definition(size, dtype, any_batch):
    points, centres = clustered_points(size, 9, 0, dtype), clustered_points(20, 9, 1, dtype)
    gaps = ((points[:, None].astype(float) - centres.astype(float)) ** 2).sum(axis=2)
    assert np.array_equal(nearest_centres(points, centres, any_batch=any_batch), gaps.argmin(axis=1))


@pytest.mark.parametrize("any_batch", [False, True])
def test_the_lowest_of_equally_near_centres_wins(any_batch):
    centres = np.array([[1.0], [-1.0], [1.0], [-1.0]])  # their mean is exactly 0
    assert nearest_centres(np.array([[0.0], [2.0], [-3.0]]), centres, any_batch=any_batch).tolist() == [0, 0, 1]


@pytest.mark.parametrize("any_batch", [False, True])
def test_the_order_of_the_rows_does_not_matter(any_batch):
    points, centres = clustered_points(1500, 9, 0), clustered_points(40, 9, 1)
    shuffle = np.random.default_rng(0).permutation(1500)
    labels = nearest_centres(points, centres, any_batch=any_batch)
    assert np.array_equal(labels[shuffle], nearest_centres(points[shuffle], centres, any_batch=any_batch))
