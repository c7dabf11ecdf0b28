"""Products and factorisations by SciPy's BLAS and LAPACK: the bits of `scipy.linalg`, while other threads run."""

import ctypes
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from mallow.engine import (
    _lapack,
    add_products,
    cholesky,
    eigenvectors,
    leading_eigenvectors,
    single_threaded_blas,
    solve_lower,
    solve_with_root,
)

PRECISIONS = [np.float32, np.float64]


def definite(size: int, dtype: type, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((size, size + 10)).astype(dtype)
    return rows @ rows.T + np.eye(size, dtype=dtype)


@pytest.fixture(params=["addresses", "scipy.linalg"])
def way(request, monkeypatch):
    """Both ways to LAPACK: by address, and by `scipy.linalg` where there is none."""
    if request.param == "scipy.linalg":
        monkeypatch.setattr(_lapack, "_address", lambda library, name: None)


SIZES = pytest.mark.parametrize("size", [1, 2, 7, 70, 300])


@pytest.mark.parametrize("dtype", PRECISIONS)
@SIZES
def test_the_bits_are_those_of_lapack(size, dtype):
    table, right = definite(size, dtype), np.random.default_rng(1).standard_normal((size, 5)).astype(dtype)
    before, some = table.copy(), -(-size // 3)
    potrf, potrs, trtrs = scipy.linalg.get_lapack_funcs(["potrf", "potrs", "trtrs"], [table])
    with single_threaded_blas():
        if size > 1:  # SciPy 1.13 asks for too small a workspace for one number
            pairs = [
                (eigenvectors(table), scipy.linalg.eigh(table, driver="evd")),
                (leading_eigenvectors(table, some), scipy.linalg.eigh(table, subset_by_index=[size - some, size - 1])),
            ]
            for own, theirs in pairs:
                assert all(np.array_equal(*each) and each[0].dtype == dtype for each in zip(own, theirs, strict=True))
        root = cholesky(table.copy(order="F"))
        assert np.array_equal(root, potrf(table, lower=1, clean=0)[0])
        assert np.array_equal(np.triu(root, 1), np.triu(table, 1))
        assert np.array_equal(solve_with_root(root, right), potrs(root, right, lower=1)[0])
        assert np.array_equal(solve_lower(root, right), trtrs(root, right, lower=1)[0])
    assert np.array_equal(table, before)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", PRECISIONS)
@SIZES
def test_factors_make_the_matrix(size, dtype):
    table, right = definite(size, dtype), np.random.default_rng(1).standard_normal((size, 5)).astype(dtype)
    close = {"rtol": 0, "atol": 50 * size * np.finfo(dtype).eps * float(np.abs(table).max())}
    values, vectors = eigenvectors(table)
    np.testing.assert_allclose((vectors * values) @ vectors.T, table, **close)
    some = -(-size // 3)
    leading, axes = leading_eigenvectors(table, some)
    np.testing.assert_allclose(leading, values[-some:], **close)
    np.testing.assert_allclose(table @ axes, axes * leading, **close)
    root = np.tril(cholesky(table.copy(order="F")))
    np.testing.assert_allclose(root @ root.T, table, **close)
    kept = right.copy()
    np.testing.assert_allclose(table @ solve_with_root(root, right), right, **close)
    np.testing.assert_allclose(root @ solve_lower(root, right), right, **close)
    assert np.array_equal(right, kept)


@pytest.mark.usefixtures("way")
@given(st.integers(1, 40), st.integers(1, 12), st.sampled_from(PRECISIONS), st.booleans())
def test_products_of_integers_add_up_exactly(count, width, dtype, transposed):
    rows = np.random.default_rng(count).integers(-50, 50, size=(count, width)).astype(dtype)
    if transposed:
        rows = np.asfortranarray(rows)
    total = np.asfortranarray(np.arange(width * width, dtype=dtype).reshape(width, width))
    expected = np.tril(total + rows.T @ rows)
    add_products(total, rows)
    assert np.array_equal(np.tril(total), expected)


def test_what_cannot_be_factorised_is_an_error():
    with pytest.raises(np.linalg.LinAlgError, match=r"LAPACK could not factorise a matrix \(info = 2\)"):
        cholesky(np.asfortranarray([[1.0, 2.0], [2.0, 1.0]]))


@pytest.mark.parametrize("change", [cholesky, lambda table: add_products(table, np.ones((3, 2)))])
def test_a_matrix_in_another_order_is_not_changed(change):
    with pytest.raises(AssertionError, match="a matrix that is changed in place must be in Fortran's order"):
        change(np.array([[2.0, 1.0], [0.0, 2.0]]))


def test_integers_of_another_size_are_left_to_scipy(monkeypatch):
    library = SimpleNamespace(__pyx_capi__={"dpotrf": _capsule(b"void (char *, long *, d *, long *, long *)")})
    monkeypatch.setattr(_lapack, "import_module", lambda name: library)
    assert _lapack._address.__wrapped__("cython_lapack", "dpotrf") is None
    assert _lapack._address.__wrapped__("cython_lapack", "missing") is None


def _capsule(name: bytes) -> object:
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    _capsule.kept = name  # a capsule does not copy its name
    return make(("PyCapsule_New", ctypes.pythonapi))(1, name, None)


def test_other_threads_run_meanwhile():
    table, gaps, ended = definite(700, np.float64), [], threading.Event()

    def watch() -> None:
        last = time.perf_counter()
        while not ended.is_set():
            time.sleep(0.0005)
            gaps.append(time.perf_counter() - last)
            last = time.perf_counter()

    with single_threaded_blas():
        watcher = threading.Thread(target=watch)
        watcher.start()
        for _ in range(3):
            eigenvectors(table)
            leading_eigenvectors(table, 100)
        ended.set()
        watcher.join()
    assert (
        len(gaps) > 30
    )  # six decompositions of a twentieth of a second each; with the lock held, about as many as they are
