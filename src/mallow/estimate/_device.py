"""The two hot kernels on other devices, through the array API: the nearest centre of each row, and sums of rows by bin.

Rows and centres are integers, so a device that multiplies them exactly finds the same labels as this processor.
`open_device` first tests this with products at the limits. TF32 and bfloat16, which drop bits, are detected and not
used.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._optional import did_you_mean, install_line, optional
from mallow.engine import DOUBLE, SINGLE
from mallow.errors import InputError

Array = NDArray[Any]
Labels = NDArray[np.int64]

BLOCK = 16384  # chosen: rows of one product; with 1,000 centres it has 64 MB in float32

_PACKAGES = {"torch": "array_api_compat.torch", "cupy": "array_api_compat.cupy", "array_api_strict": "array_api_strict"}
"""Package → its namespace with the names of the array API."""
_OF_TORCH = ("cuda", "mps", "xpu")  # devices of torch when no package is named
_INSTALL = {"cupy": "pip install cupy-cuda12x", "array_api_strict": "pip install array-api-strict"}


@dataclass(frozen=True, eq=False)
class Device:
    """A device that holds arrays, and the precisions in which it multiplies integers exactly.

    Attributes
    ----------
    name : str
        As the user wrote it.
    namespace : module
        With the names of the array API.
    within : object
        The name of the device in the namespace; None is its default.
    exact : frozenset of str
        A subset of "float32" and "float64".
    """

    name: str
    namespace: Any
    within: Any
    exact: frozenset[str]

    def precision(self, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
        """The cheapest precision in which products of rows of this dtype are exact here; None if there is none."""
        enough = ["float32", "float64"] if dtype == np.float32 else ["float64"]
        return next((np.dtype(name) for name in enough if name in self.exact), None)

    def send(self, array: Array) -> Any:
        """An array on the device."""
        return self.namespace.asarray(array, device=self.within)

    def fetch(self, array: Any) -> Array:
        """An array of the device as a numpy array."""
        moved = array.cpu() if hasattr(array, "cpu") else array.get() if hasattr(array, "get") else array
        return moved if isinstance(moved, np.ndarray) else np.array(np.from_dlpack(moved))

    def nearest(self, rows: Any, columns: Any, offset: Any) -> tuple[Labels, Array]:
        """For each row x, the first column c with the largest <x, c> + offset, and this largest value."""
        labels, scores = [], []
        size = rows.shape[0]
        for low in range(0, size, BLOCK):
            # The offset has more bits than rows and columns: it is added, not multiplied by 1.
            products = rows[low : min(low + BLOCK, size), :] @ columns + offset
            labels.append(self.fetch(self.namespace.argmax(products, axis=1)))
            scores.append(self.fetch(self.namespace.max(products, axis=1)))
        return np.concatenate(labels).astype(np.int64), np.concatenate(scores)

    def sums(self, rows: Any, places: Labels, bins: Labels, mass: Array, count: int) -> Array:
        """The sum of mass × row over the rows at these places, for each of `count` bins: (count, d), in float64."""
        xp = self.namespace
        member = xp.astype(self.send(np.arange(count))[:, None] == self.send(bins)[None, :], xp.float64)
        weighted = member * self.send(mass)[None, :]
        return self.fetch(weighted @ xp.astype(xp.take(rows, self.send(places), axis=0), xp.float64))


def check_device_name(name: object) -> None:
    """Raise an InputError if this cannot be the name of a device; `open_device` checks that the device exists."""
    if name is None or (isinstance(name, str) and _split(name)[0] in (*_PACKAGES, "")):
        return
    known = ["cpu", *_OF_TORCH, *(f"{package}:DEVICE" for package in _PACKAGES)]
    hint = (
        did_you_mean(name.lower().partition(":")[0], ["cpu", *_OF_TORCH, *_PACKAGES], cutoff=0.75)
        if isinstance(name, str)
        else ""
    )
    raise InputError(f"`device` must be None or one of {', '.join(known)}; got {name!r}.{hint}")


def open_device(name: str | None) -> Device | None:
    """The device of this name; None means this processor, with numpy.

    Examples
    --------
    >>> device = open_device("torch:cpu")
    >>> sorted(device.exact)
    ['float32', 'float64']
    >>> open_device("cpu") is None
    True
    """
    package, within = _split(name or "")
    if not package:
        return None
    optional("array_api_compat", extra="devices")
    try:
        namespace = importlib.import_module(_PACKAGES[package])
    except ImportError as error:
        way = _INSTALL.get(package, install_line("devices"))
        raise InputError(f"`device`: {package} is needed for {name!r} and is not installed: {way}") from error
    try:
        device = Device(str(name), namespace, _device_within(namespace, package, within), frozenset())
        device.fetch(device.send(np.zeros(1, np.float32)))
    except Exception as error:  # each package has its own errors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"`device` must be one that {package} can use here; got {name!r}: {reason}. Leave it out to use "
            "this processor."
        ) from error
    exact = frozenset(dtype for dtype in ("float32", "float64") if _is_exact(device, dtype))
    if not exact:
        raise InputError(
            f"`device`: {name!r} multiplies integers exactly neither in float32 nor in float64, so that labels would "
            "differ. With torch, call torch.set_float32_matmul_precision('highest') first; or leave out "
            "`device` to use this processor."
        )
    return Device(device.name, namespace, device.within, exact)


def _device_within(namespace: Any, package: str, within: str) -> Any:
    """The name of the device in its package; None is its default."""
    if not within:
        return None
    if package == "torch":
        return within
    return namespace.cuda.Device(int(within)) if package == "cupy" else namespace.Device(within)


def _split(name: str) -> tuple[str, str]:
    """The package and the device in it. There is no package for this processor."""
    if name in ("", "cpu"):
        return "", ""
    if name.partition(":")[0] in _OF_TORCH:
        return "torch", name
    package, _, within = name.partition(":")
    return package, within


def _is_exact(device: Device, dtype: str) -> bool:
    """Whether products of integers with the largest norms allowed are exact, and the first of equals is found."""
    limit = SINGLE if dtype == "float32" else DOUBLE
    norm, width = int(np.sqrt(limit / 4)), 128
    rng = np.random.default_rng(0)
    dense = rng.integers(-norm, norm, (256, width), endpoint=True) // int(np.sqrt(width) + 1)
    single = np.zeros_like(dense)
    single[np.arange(256), np.arange(256) % width] = norm - np.arange(256)  # all bits of one number
    rows = np.concatenate([dense, single, single[:1]])
    half = -np.square(rows).sum(axis=1) / 2  # ends in .5 where the square is odd
    # Up to half a unit below the limit everything is exact in float64 on this processor: the truth.
    truth = rows.astype(np.float64) @ rows.T.astype(np.float64) + half
    try:
        sent = device.send(rows.astype(dtype))
        columns, offset = device.send(np.ascontiguousarray(rows.T.astype(dtype))), device.send(half.astype(dtype))
        labels, scores = device.nearest(sent, columns, offset)
        every = np.arange(len(rows))
        sums = device.sums(sent, every, every % 7, np.ones(len(rows)), 7) if dtype == "float64" else None
    except Exception:  # a precision that the device does not have: each package has its own error
        return False
    right = (
        scores.dtype == dtype
        and np.array_equal(scores, truth.max(axis=1))
        and np.array_equal(labels, truth.argmax(axis=1))
    )
    whole = [rows[every % 7 == bin_].sum(axis=0) for bin_ in range(7)]
    return right and (sums is None or np.array_equal(sums, whole))
