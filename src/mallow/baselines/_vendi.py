"""The Vendi score: how many different samples there are, in effect."""

from __future__ import annotations

from typing import Any

import numpy as np

from mallow.baselines._points import check_sample
from mallow.engine import single_threaded_blas
from mallow.errors import InputError


def vendi_score(points: Any) -> float:
    """The effective number of different samples: exp of the entropy of the eigenvalues of K/n (Friedman and Dieng 2023).

    K holds the cosines of all pairs of samples. 1 = all samples point in one direction, n = all are orthogonal; at most n and
    at most the number of features. It needs no reference, and is not better when it is higher: noise is diverse. Compare it
    with that of real data of the same size.

    Parameters
    ----------
    points : array (n, d)
        At least 2 samples; none may be zero, which has no direction.

    Examples
    --------
    >>> vendi_score([[1, 0], [2, 0], [0, 1], [0, 5]])
    2.0
    """
    array = check_sample("points", points).astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", array, array))
    if not lengths.all():
        raise InputError(
            f"`points` must not contain rows of zeros, which have no direction; row {int(np.argmin(lengths))} is one."
        )
    array /= lengths[:, None]
    with single_threaded_blas():
        # Both products have the same eigenvalues, apart from zeros; the smaller one is cheaper.
        product = array @ array.T if len(array) < array.shape[1] else array.T @ array
        values = np.linalg.eigvalsh(product / len(array))
    values = values[values > 0]
    return float(np.exp(-(values * np.log(values)).sum()))
