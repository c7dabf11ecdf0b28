"""Features are checked once, where they come in."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from mallow import InputError, Samples, read, write
from mallow.samples import _feature_arrays as _features
from mallow.samples import _value_checks as _finite


@pytest.fixture
def scans(monkeypatch):
    """The shapes of the arrays that were tested for being finite, in order."""
    shapes = []

    def count(rows, limit, scan=_finite.finite_rows):
        shapes.append(rows.shape)
        return scan(rows, limit)

    for module in (_finite, _features):
        monkeypatch.setattr(module, "finite_rows", count)
    return shapes


def test_features_are_scanned_exactly_once(scans, tmp_path):
    read(np.eye(3))
    assert scans == [(3, 3)]
    read([[1.0, 2.0]])
    assert scans[1:] == [(1, 2)]
    samples = Samples(features=np.eye(4), ids=list("abcd"))
    assert scans[2:] == [(4, 4)]
    write(samples, tmp_path / "a.npz")
    assert scans[3:] == [], "writing trusts the samples"
    samples = read(tmp_path / "a.npz")
    assert scans[3:] == [(4, 4)]
    read(samples, limit=2)
    samples.take([0, 1]).with_features(np.eye(2), provenance={})
    assert scans[4:] == [], "a set of samples is not checked again"
    np.save(tmp_path / "a.npy", np.eye(5))
    read(tmp_path / "a.npy")
    assert scans[4:] == [(5, 5)]


@given(rows=arrays(float, array_shapes(min_dims=2, max_dims=2), elements=st.sampled_from([0.0, np.nan, np.inf])))
def test_chunks_do_not_change_which_rows_are_finite(rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_finite, "_CHUNK", 3)
        assert np.array_equal(_finite.finite_rows(rows, None), np.isfinite(rows).all(axis=1))


def test_the_scan_ends_with_the_chunk_that_reaches_the_limit(monkeypatch):
    monkeypatch.setattr(_finite, "_CHUNK", 4)
    rows = np.ones((10, 2))
    rows[1] = np.nan
    assert _finite.finite_rows(rows, 2).tolist() == [True, False, True, True]
    assert len(_finite.finite_rows(rows, None)) == 10


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((2, 3, 4)), "`features` must have shape (n, d), one row per sample; got shape (2, 3, 4)."),
        (3.0, "`features` must have shape (n, d), one row per sample; got shape ()."),
        (np.zeros((0, 3)), "`features` must have at least one row and one column; got shape (0, 3)."),
        (np.zeros((3, 0)), "`features` must have at least one row and one column; got shape (3, 0)."),
        ([], "`features` must have at least one row and one column; got shape (0, 1)."),
        (["a"], "`features` must be real numbers; got dtype <U1."),
        (
            [[0, 1], [2, np.inf], [np.nan, 3]],
            "`features` must be finite; 2 of 3 rows contain NaN or infinite entries, the first inf in row 1, column 1. "
            "Remove these rows, or let mallow.read skip them with `skip_bad=True`.",
        ),
    ],
)
def test_what_is_not_features_is_refused(features, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Samples(features=features)


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(InputError, match=r"^`features` must have rows of equal length; setting an array element"):
        Samples(features=[[1.0, 2.0], [3.0]])


def test_masked_entries_are_refused_not_passed_over():
    rows = np.ma.masked_array(np.arange(6.0).reshape(3, 2), mask=[[0, 0], [0, 1], [1, 1]])
    with pytest.raises(InputError, match="features must be complete; 3 entries are masked"):
        read(rows)
    whole = read(np.ma.masked_array(np.eye(2), mask=False)).features
    assert type(whole) is np.ndarray
    assert whole.tolist() == np.eye(2).tolist()
