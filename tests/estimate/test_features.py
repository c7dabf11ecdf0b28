"""Features at the door: what is accepted, in which type, and what is refused."""

import numpy as np
import pytest

from estimate_truths import eight_clusters
from mallow import InputError
from mallow.estimate import as_features, checked_features, checked_pair, same_width

X, Y = eight_clusters(600), eight_clusters(600, shift=0.3, seed=1)
BAD = X.copy()
BAD[[3, 7], 0] = np.nan
BAD[7, 1] = np.inf


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (BAD, Y, r"`reference` must be finite; got 3 NaN or infinite entries in 2 of 600 rows \(rows 3, 7\)"),
        (X, Y[:, :4], r"features of the same width; got 6 and 4. Were they embedded by the same model\?"),
        (X[:1], Y, r"`reference` must hold at least 2 samples; got 1"),
        (
            X,
            np.array(["a", "b"], dtype=object),
            r"`model` must be an array of numbers, one row per sample; got dtype object. Texts need an embedder",
        ),
        (X, np.zeros((5, 0)), r"`model` must have two axes, samples and features; got shape \(5, 0\)\. Reshape it"),
        (X, np.zeros((2, 2, 2)), r"`model` must have two axes"),
    ],
)
def test_bad_features_are_refused(x, y, message):
    with pytest.raises(InputError, match=message):
        checked_pair(x, y)


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("g", "f8"), ("i4", "f8"), ("u1", "f8"), ("?", "f8")],
)
def test_features_are_single_or_double_precision(dtype, kept):
    assert as_features("x", np.ones((3, 2), dtype)).dtype == np.dtype(kept)


def test_arrays_of_the_right_type_are_not_copied():
    assert as_features("x", X) is X
    assert checked_features("x", X) is X


def test_one_axis_is_one_feature_per_sample():
    assert as_features("x", [1.0, 2.0, 3.0]).shape == (3, 1)


def test_finiteness_is_checked_only_where_it_is_asked_for():
    assert as_features("x", BAD) is BAD
    with pytest.raises(InputError, match="`x` must be finite"):
        checked_features("x", BAD)


def test_many_bad_rows_are_abbreviated():
    with pytest.raises(InputError, match=r"got 18 NaN or infinite entries in 9 of 9 rows \(rows 0, 1, 2, 3, 4, …\)"):
        checked_features("x", np.full((9, 2), np.inf))


def test_the_least_number_of_samples_may_be_one():
    assert checked_features("batch", X[:1], least=1).shape == (1, 6)
    with pytest.raises(InputError, match=r"`batch` must hold at least 1 sample; got 0"):
        checked_features("batch", X[:0], least=1)


def test_widths_are_compared_by_name():
    same_width(X, Y)
    with pytest.raises(InputError, match=r"`a` and `b` must have features of the same width; got 6 and 2\."):
        same_width(X, Y[:, :2], names=("a", "b"))
