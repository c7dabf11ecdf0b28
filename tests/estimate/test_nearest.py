"""The nearest centre: exactly that of the definition, the lowest of equals, whatever points are beside it."""

import numpy as np
import pytest

from estimate_truths import clustered_points
from mallow.estimate._nearest import nearest_centres


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 63, 64, 65, 1024, 2500])
def test_labels_are_those_of_the_definition(size, dtype):
    points, centres = clustered_points(size, 9, 0, dtype), clustered_points(20, 9, 1, dtype)
    gaps = ((points[:, None].astype(float) - centres.astype(float)) ** 2).sum(axis=2)
    assert np.array_equal(nearest_centres(points, centres), gaps.argmin(axis=1))


def test_the_lowest_of_equally_near_centres_wins():
    centres = np.array([[1.0], [-1.0], [1.0], [-1.0]])  # their mean is exactly 0
    assert nearest_centres(np.array([[0.0], [2.0], [-3.0]]), centres).tolist() == [0, 0, 1]


def test_the_order_of_the_rows_does_not_matter():
    points, centres = clustered_points(1500, 9, 0), clustered_points(40, 9, 1)
    shuffle = np.random.default_rng(0).permutation(1500)
    labels = nearest_centres(points, centres)
    assert np.array_equal(labels[shuffle], nearest_centres(points[shuffle], centres))


def test_a_label_depends_on_no_other_point():
    points, centres = clustered_points(1500, 9, 0), clustered_points(40, 9, 1)
    labels = nearest_centres(points, centres)
    assert [int(nearest_centres(points[[row]], centres)[0]) for row in range(0, 1500, 50)] == labels[::50].tolist()
    far = points[:3] * np.float32(1e12)
    assert np.array_equal(nearest_centres(np.concatenate([points, far]), centres)[:1500], labels)


def test_points_far_beyond_the_grid_have_labels_too():
    centres = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    points = np.array([[-1e15, 1.0], [1e15, 1.0], [3.0, 1e15], [1e300, 0.0], [0.9, 0.0]])
    assert nearest_centres(points, centres).tolist() == [0, 1, 2, 1, 1]
