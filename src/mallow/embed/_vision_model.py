"""Images through a vision model of transformers: one vector per image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mallow._optional import optional
from mallow.embed._image_batches import LoadedNetwork, StreamedImages, batch_limit
from mallow.embed._preprocess import Preprocess, preprocess_from_settings, processor_settings
from mallow.embed._protocol import Points
from mallow.errors import InputError
from mallow.models import Precision, Source, move_network, one_of

Pooling = Literal["cls", "mean", "pooler", "projected"]


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
        The class token; the mean over the patches (without class and register tokens; over all positions for a
        convolutional network); the pooled output of the model itself; or, for CLIP and similar models, the vector of the
        image in the space shared with the texts. A model without a class token or a pooler raises an error.
    preprocess : Preprocess or None
        None uses the model's own preprocessor_config.json.
    dtype : "float32", "float16", "bfloat16" or None
        None is float32 on a CPU; bfloat16 on CUDA, or float16 if the card has no bfloat16; float16 on MPS. Features are
        always returned in float32; in half precision they depend slightly on the batch.
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

    @cached_property
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
        model = self._load_weights()
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
            with torch.inference_mode():
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

    def _load_weights(self) -> Any:
        model, missing = self._source.load_network("AutoModel")
        # Many classifiers come without a pooler. The mask token is used only in training.
        wants_pooler = self.pooling == "pooler"
        missing = [key for key in missing if not key.endswith("mask_token") and (wants_pooler or "pooler" not in key)]
        only_pooler = all("pooler" in key for key in missing)
        way_out = "Use pooling='cls' or 'mean'." if only_pooler else "Use another checkpoint."
        self._source.refuse_missing_weights(missing, way_out)
        # Masked autoencoders hide most patches at random, even in evaluation.
        if hasattr(model.config, "mask_ratio"):
            model.config.mask_ratio = 0.0
        return model


def _pool(output: Any, pooling: Pooling, config: Any, size: Sequence[int]) -> Any:
    """One vector per image from the output of a vision tower."""
    if pooling == "pooler":
        pooled = getattr(output, "pooler_output", None)
        if pooled is None:
            raise InputError("pooling='pooler' needs a model with a pooled output; it has none. Use 'cls' or 'mean'.")
        return pooled
    states = output.last_hidden_state  # (n, tokens, d), or (n, d, height, width)
    patches = _patches(config, size)
    tokens = states.shape[1]
    if states.ndim == 3 and pooling == "cls" and patches is not None and tokens > patches:
        return states[:, 0]
    if pooling == "cls":
        raise InputError(
            "pooling='cls' needs a model with a class token before its patches; it has none, or its config has no "
            "patch_size. Use 'mean' or 'pooler'."
        )
    if states.ndim == 4:
        return states.mean(dim=(2, 3))
    # Class, register and distillation tokens come first; hierarchical models have fewer tokens than patches, and none of these.
    return states[:, tokens - patches :].mean(dim=1) if patches is not None and tokens > patches else states.mean(dim=1)


def _patches(config: Any, size: Sequence[int]) -> int | None:
    """Number of patches in an image of this height and width, if the config states the size of a patch."""
    patch = getattr(config, "patch_size", None)
    if isinstance(patch, int):
        patch = (patch, patch)
    if not (isinstance(patch, (tuple, list)) and len(patch) == 2):
        return None
    return int((size[0] // patch[0]) * (size[1] // patch[1]))
