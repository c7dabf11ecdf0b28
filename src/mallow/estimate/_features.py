"""Arrays of features, one row per sample, checked once, and the protocol of estimators that take them."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mallow.errors import InputError, warn_about
from mallow.theory import Masses

Features = NDArray[np.floating[Any]]

_ROWS = 4096  # chosen: rows scanned at once, so that the check needs little memory


def as_features(name: str, values: Any, *, least: int = 2) -> Features:
    """Values as an array of features (n, d) in float32 or float64, not yet scanned for NaN and infinities.

    For features that are known to be finite; `checked_features` also scans them.

    Parameters
    ----------
    name : str
        The argument that error messages name.
    values : array-like (n, d) or (n,)
        A single axis is read as n samples with one feature each. float16 becomes float32; integers, booleans and
        longer floats become float64.
    least : int
        The smallest number of samples that is accepted.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"`{name}` must be an array of numbers, one row per sample; got dtype {array.dtype}. Texts need an "
            "embedder."
        )
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(
            f"`{name}` must have two axes, samples and features; got shape {array.shape}. "
            "Reshape it to one row per sample: array.reshape(len(array), -1)."
        )
    if len(array) < least:
        bound = "1 sample" if least == 1 else f"{least} samples"
        raise InputError(f"`{name}` must hold at least {bound}; got {len(array)}. Aim for 1,000 or more.")
    if array.dtype.kind != "f":
        return array.astype(np.float64)
    if array.dtype.itemsize < 4:
        return array.astype(np.float32)
    if array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array


def same_width(x: Features, y: Features, *, names: tuple[str, str] = ("reference", "model")) -> None:
    """Raise an InputError if two arrays of features have different widths."""
    if x.shape[1] != y.shape[1]:
        raise InputError(
            f"`{names[0]}` and `{names[1]}` must have features of the same width; got {x.shape[1]} and {y.shape[1]}. "
            "Were they embedded by the same model?"
        )


def checked_features(name: str, values: Any, *, least: int = 2) -> Features:
    """Values as an array of finite features; parameters as in `as_features`."""
    features = as_features(name, values, least=least)
    _refuse_nonfinite(name, features)
    return features


def checked_pair(x: Any, y: Any) -> tuple[Features, Features]:
    """The reference and the model sample as finite features of the same width."""
    reference, model = checked_features("reference", x), checked_features("model", y)
    same_width(reference, model)
    return reference, model


def _refuse_nonfinite(name: str, array: Features) -> None:
    bad: list[int] = []
    entries = 0
    for start in range(0, len(array), _ROWS):
        finite = np.isfinite(array[start : start + _ROWS])
        if not finite.all():
            entries += int((~finite).sum())
            bad += (start + np.flatnonzero(~finite.all(axis=1))).tolist()
    if bad:
        rows = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
        raise InputError(
            f"`{name}` must be finite; got {entries} NaN or infinite entries in {len(bad)} of {len(array)} rows "
            f"(rows {rows}). Embed these samples again, or leave them out on both sides."
        )


class Estimator(Protocol):
    """Turns two samples of features into masses.

    `scale` is the paper's constant c for this estimator. An estimator without randomness may also have an attribute
    ``deterministic = True``: one repeat is then enough.
    """

    scale: ClassVar[float]

    def prepare(self, x: Any, y: Any) -> Any:
        """Everything that needs no randomness, done once for all repeats.

        x (n, d) is the reference and y (m, d) the model. Both are finite float32 or float64 arrays of the same width
        with at least two rows each (see `checked_pair`): the caller must check them, and an implementation need not
        check again.
        """

    def masses(self, prepared: Any, rng: int | np.random.Generator) -> Masses:
        """The masses of one repeat, with their `caveats`. No warnings are raised."""

    def __call__(self, x: Any, y: Any, *, rng: int | np.random.Generator = 0) -> Masses:
        """Check the samples, prepare them and estimate once; caveats are raised as warnings."""


def estimate_masses(estimator: Estimator, x: Any, y: Any, rng: int | np.random.Generator | None) -> Masses:
    """The call of an estimator: check, prepare, estimate once, and warn about the caveats."""
    masses = estimator.masses(estimator.prepare(*checked_pair(x, y)), np.random.default_rng(rng))
    warn_about(masses.caveats, stacklevel=3)
    return masses
