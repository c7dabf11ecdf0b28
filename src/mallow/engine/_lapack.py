"""Products and factorisations of symmetric matrices that let other threads run meanwhile.

`scipy.linalg` holds Python's lock while LAPACK works: a tenth of a second for a width of 1,024, in which no other
thread can begin its next product. SciPy publishes the addresses of the same routines for Cython; called through
`ctypes` they do not hold the lock. Where the addresses are not as expected, `scipy.linalg` and `numpy.linalg` do the
work.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.float32, np.float64, np.floating[Any])


def add_products(total: NDArray[Number], rows: NDArray[Number]) -> None:
    """Add ``rows.T @ rows`` to the lower triangle of a matrix in Fortran's order, without a second matrix."""
    _check_order(total)
    routine = _address("cython_blas", _letter(rows) + "syrk")
    if routine is None:
        total += rows.T @ rows
        return
    rows = np.ascontiguousarray(rows)  # to Fortran this is its transpose
    count, width = rows.shape
    one = np.ones(1, rows.dtype)
    _point(routine, [b"L", b"N", width, count, one, rows, max(width, 1), one, total, max(width, 1)])


def eigenvectors(matrix: NDArray[Number]) -> tuple[NDArray[Number], NDArray[Number]]:
    """All eigenvalues of a symmetric matrix, rising, and the eigenvectors as columns, in its precision."""
    table = np.array(matrix, order="F")
    routine = _routine(table, "syevd")
    if routine is None:
        values, vectors = np.linalg.eigh(table)
        return values, vectors
    size = len(table)
    values = np.empty(size, table.dtype)
    _with_workspace(routine, table.dtype, [b"V", b"L", size, table, size, values])
    return values, table


def leading_eigenvectors(matrix: NDArray[Number], count: int) -> tuple[NDArray[Number], NDArray[Number]]:
    """The `count` largest eigenvalues of a symmetric matrix, rising, and their eigenvectors as columns."""
    table = np.array(matrix, order="F")
    routine = _routine(table, "syevr")
    size = len(table)
    if routine is None:
        import scipy.linalg

        values, vectors = scipy.linalg.eigh(
            table, subset_by_index=[size - count, size - 1], overwrite_a=True, check_finite=False
        )
        return values, vectors
    zero = np.zeros(1, table.dtype)
    number = ctypes.c_int()  # of eigenvalues, which is `count`
    values, vectors = np.empty(size, table.dtype), np.empty((size, count), table.dtype, order="F")
    support = np.empty(2 * count, np.intc)
    which: list[Any] = [b"V", b"I", b"L", size, table, size, zero, zero, size - count + 1, size, zero]
    _with_workspace(routine, table.dtype, [*which, number, values, vectors, size, support])
    return values[:count], vectors


def cholesky(table: NDArray[Number]) -> NDArray[Number]:
    """The lower triangular root of a positive definite matrix in Fortran's order, in place of its lower triangle.

    The entries above the diagonal are neither read nor changed.
    """
    _check_order(table)
    routine = _routine(table, "potrf")
    if routine is None:
        import scipy.linalg

        root, _ = scipy.linalg.cho_factor(table.copy(order="F"), lower=True, overwrite_a=True, check_finite=False)
        table[np.tril_indices(len(table))] = root[np.tril_indices(len(table))]
        return table
    _call(routine, [b"L", len(table), table, len(table)])
    return table


def solve_with_root(root: NDArray[Number], right: NDArray[Number]) -> NDArray[Number]:
    """The solution x of (root rootᵀ) x = right, (d, columns), for a root of `cholesky`."""
    routine = _routine(root, "potrs")
    if routine is None:
        import scipy.linalg

        solution: NDArray[Number] = scipy.linalg.cho_solve((root, True), right, check_finite=False)
        return solution
    root, right = np.asfortranarray(root), np.array(right, root.dtype, order="F")
    _call(routine, [b"L", len(root), right.shape[1], root, len(root), right, len(right)])
    return right


def solve_lower(root: NDArray[Number], right: NDArray[Number]) -> NDArray[Number]:
    """The solution x of root x = right, (d, columns), for a root of `cholesky`."""
    routine = _routine(root, "trtrs")
    if routine is None:
        import scipy.linalg

        solution: NDArray[Number] = scipy.linalg.solve_triangular(root, right, lower=True, check_finite=False)
        return solution
    root, right = np.asfortranarray(root), np.array(right, root.dtype, order="F")
    _call(routine, [b"L", b"N", b"N", len(root), right.shape[1], root, len(root), right, len(right)])
    return right


def _routine(table: NDArray[Number], name: str) -> Any:
    """The LAPACK routine of this name for the precision of a matrix; None where it cannot be called."""
    return _address("cython_lapack", _letter(table) + name)


def _check_order(table: NDArray[Number]) -> None:
    """What is changed in place must be as LAPACK has it: another order would be read as other numbers."""
    if not table.flags.f_contiguous:
        raise AssertionError("a matrix that is changed in place must be in Fortran's order")


def _letter(table: NDArray[Number]) -> str:
    return {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}[table.dtype]


@cache
def _address(library: str, name: str) -> Any:
    """A routine of SciPy's BLAS or LAPACK as a function that takes addresses and lets other threads run."""
    capsule = getattr(import_module(f"scipy.linalg.{library}"), "__pyx_capi__", {}).get(name)
    if capsule is None:
        return None
    get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    signature = get_name(capsule)
    arguments = signature.decode().removeprefix("void (").removesuffix(")").split(", ")
    if not all(
        each in ("char *", "int *") or each.endswith((f"{library}_s *", f"{library}_d *")) for each in arguments
    ):
        return None  # integers of another size
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arguments))(get_pointer(capsule, signature))


def _with_workspace(routine: Any, dtype: np.dtype[Any], arguments: list[Any]) -> None:
    """Call a routine whose last arguments are its workspaces, of the size that it asks for."""
    work, whole = np.empty(1, dtype), np.empty(1, np.intc)
    _call(routine, [*arguments, work, -1, whole, -1])
    work, whole = np.empty(int(work[0]), dtype), np.empty(int(whole[0]), np.intc)
    _call(routine, [*arguments, work, len(work), whole, len(whole)])


def _call(routine: Any, arguments: list[Any]) -> None:
    """Call a routine of LAPACK, whose last argument says whether it failed."""
    status = ctypes.c_int()
    _point(routine, [*arguments, status])
    if status.value:
        raise np.linalg.LinAlgError(f"LAPACK could not factorise a matrix (info = {status.value}).")


def _point(routine: Any, arguments: list[Any]) -> None:
    """Call a routine with the addresses of its arguments."""
    kept = [_as_pointed(each) for each in arguments]
    routine(*(each.ctypes.data if isinstance(each, np.ndarray) else ctypes.addressof(each) for each in kept))


def _as_pointed(value: Any) -> Any:
    """A number or letter in memory, where LAPACK finds it; arrays and numbers that are there already stay."""
    if isinstance(value, bytes):
        return ctypes.c_char(value)
    return ctypes.c_int(value) if isinstance(value, int) else value
