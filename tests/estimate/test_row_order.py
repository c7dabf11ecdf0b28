"""The canonical order of rows: it depends on the multiset of rows alone, and survives collisions of hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from estimate_truths import clustered_points
from mallow.estimate import _row_order as row_order
from mallow.estimate import canonical_order

Array = npt.NDArray[Any]


@pytest.mark.parametrize(("x_type", "y_type"), [(np.float32, np.float32), (np.float16, np.float64)])
@pytest.mark.parametrize("width", [1, 2, 5, 64])
def test_canonical_order_depends_on_the_multiset_alone(width: int, x_type: type, y_type: type) -> None:
    x, y = clustered_points(1500, width, 0).astype(x_type), clustered_points(1300, width, 1).astype(y_type)
    y[:40] = x[:40]  # float16 is exact in float64
    y[40:43] = 0.0
    x[43:45] = -0.0
    shuffle, shuffled = (np.random.default_rng(2).permutation(size) for size in (1500, 1300))
    first, second = canonical_order(x, y), canonical_order(y[shuffled], x[shuffle])
    pool, swapped = np.vstack([x, y]).astype(float), np.vstack([y[shuffled], x[shuffle]]).astype(float)
    assert np.array_equal(pool[first.order], swapped[second.order])
    assert np.array_equal(first.counts, second.counts)
    assert np.array_equal(pool[first.distinct][first.group], pool)
    assert len(np.unique(pool + 0.0, axis=0)) == len(first.distinct)


def test_canonical_order_survives_collisions(monkeypatch: pytest.MonkeyPatch) -> None:
    def poor(array: Array, *_: object) -> Array:
        return (np.abs(array[:, 0]) > 0.5).astype(np.uint64)

    monkeypatch.setattr(row_order, "hash_rows", poor)
    test_canonical_order_depends_on_the_multiset_alone(5, np.float32, np.float32)


@pytest.mark.parametrize("width", [2, 3, 128])
def test_hash_tells_signs_apart(width: int) -> None:
    signs = np.sign(np.random.default_rng(0).standard_normal((4000, width))).astype(np.float32)
    distinct = len(np.unique(signs, axis=0))
    assert len(set(row_order.hash_rows(signs, np.dtype(np.float32), 1).tolist())) >= distinct - 1
