"""Mean and covariance of a reference, kept by name: in the .npz format of published FID tools."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np

from mallow._files import atomic_file, make_folder
from mallow._optional import did_you_mean
from mallow.baselines._frechet import Moments
from mallow.errors import InputError
from mallow.samples import Limits, check_members

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def save_statistics(moments: Moments, name: str) -> Path:
    """Write moments to a file that other tools read too, and return its path.

    The file is a .npz with the arrays ``mu`` and ``sigma`` (divided by n − 1), as pytorch-fid and clean-fid write and read
    them, and besides with ``n`` and ``embedder``.

    Parameters
    ----------
    moments : Moments
        Those of at least two samples.
    name : str
        A name, under which `load_statistics` and the command line find it again in the user's data folder; or a path that
        ends in .npz.
    """
    path = _path_of(name)
    arrays = {"mu": moments.mean, "sigma": moments.covariance, "n": np.array(moments.n)}
    if moments.embedder is not None:
        arrays["embedder"] = np.array(moments.embedder)
    make_folder(path.parent)
    with atomic_file(path) as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]
    return path


def load_statistics(name: str) -> Moments:
    """The moments that were saved under a name, or that are in a .npz file of a published tool.

    Files of other tools do not tell how many samples there were: `Moments.n` is then one more than there are features, so
    that the covariance is taken to have full rank.
    """
    path = find_statistics(name)
    if path is None:
        known = sorted(file.stem for file in _folder().glob("*.npz")) if _folder().is_dir() else []
        listed = f"those that are saved: {', '.join(known)}" if known else "none are saved"
        raise InputError(f"there are no statistics {name!r}; {listed}.{did_you_mean(name, known)}")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            wanted = [key for key in ("mu", "sigma", "n", "embedder") if key in arrays]
            check_members(arrays.zip, wanted, str(path), Limits())
            mean, covariance = (np.asarray(arrays[key], np.float64) for key in ("mu", "sigma"))
            n = int(arrays["n"]) if "n" in arrays else mean.size + 1
            embedder = str(arrays["embedder"]) if "embedder" in arrays else None
        return Moments(n, mean, covariance * (n - 1), embedder)
    except Exception as error:  # of a damaged file, numpy and zipfile may raise anything
        raise InputError(
            f"{path}: must be a .npz file with the arrays mu and sigma: {str(error).rstrip('.')}."
        ) from error


def find_statistics(name: str) -> Path | None:
    """The file of statistics that a name or path stands for; None if there is none, or if it holds something else."""
    path = Path(name).expanduser() if _is_path(name) else None
    if path is None:
        saved = _folder() / f"{name}.npz"
        return saved if _NAME.fullmatch(name) and saved.is_file() and not Path(name).exists() else None
    if not path.is_file():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            return path if {"mu.npy", "sigma.npy"} <= set(archive.namelist()) else None
    except Exception:  # of a damaged archive, zipfile may raise anything
        return None


def _path_of(name: str) -> Path:
    if _is_path(name):
        if not name.endswith(".npz"):
            raise InputError(f"the statistics must go to a file that ends in .npz, or have a plain name; got {name!r}.")
        return Path(name).expanduser()
    if not _NAME.fullmatch(name):
        raise InputError(f"the name of statistics must consist of letters, digits, dots and hyphens; got {name!r}.")
    return _folder() / f"{name}.npz"


def _is_path(name: str) -> bool:
    return name.endswith(".npz") or "/" in name or "\\" in name


def _folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir("mallow", appauthor=False)) / "statistics"
