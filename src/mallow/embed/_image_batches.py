"""Images go through a network: checked, decoded on threads, in batches as large as memory allows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow._optional import optional
from mallow.embed._preprocess import FidPreprocess, Image, Preprocess
from mallow.embed._protocol import Points, Rows, StreamsFeatures
from mallow.engine import cores, ordered_map
from mallow.errors import InputError
from mallow.models import halve_on_memory_error, kept_model

Network = Callable[[NDArray[np.float32]], Points]
"""Features (b, d) of b images; further axes of length 1 are dropped."""

# The largest batches, chosen: a larger one is no faster on a CPU, where too much memory ends the process instead of
# raising an error; on an accelerator it is halved until it fits.
_CPU_BATCH = 16
_ACCELERATOR_BATCH = 256
_FIRST_BATCH = 8  # images; chosen: small enough to run wherever the weights fit
_THREADS = 8  # chosen: this many decode faster than any network runs; more only take memory


class LoadedNetwork(NamedTuple):
    """A network in memory, with the settings to run it on images."""

    run: Network
    preprocess: Preprocess | FidPreprocess
    limit: int  # images in the largest batch


class StreamedImages(StreamsFeatures):
    """The methods that all image embedders share. Each of them only loads its network."""

    kind: ClassVar[Literal["image"]] = "image"

    def stream(self, samples: Sequence[Any], /) -> Iterator[Rows]:
        """Places and float32 features of images (paths, arrays or Pillow images), in order, as they are ready."""
        items = checked_images(samples)  # before anything is loaded
        network = kept_model(lambda: f"{self!r} {self.name}", self._load)
        yield from image_rows(items, network.preprocess, network.run, limit=network.limit)

    if TYPE_CHECKING:  # each embedder has its own

        @property
        def name(self) -> str: ...

        def _load(self) -> LoadedNetwork: ...


def batch_limit(device: str) -> int:
    """Images in the largest batch on this device."""
    return _CPU_BATCH if device.startswith("cpu") else _ACCELERATOR_BATCH


def exact_providers(runtime: Any) -> list[str]:
    """The providers of onnxruntime to use. Others, such as CoreML, may compute in half precision without notice."""
    available = runtime.get_available_providers()
    return [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in available]


def checked_file(path: str | os.PathLike[str], preprocess: object) -> str:
    """The path of a network in a file, if the file exists and `preprocess` is a `Preprocess`."""
    if not Path(path).is_file():
        raise InputError(f"`path` must be a file, but there is no file {os.fspath(path)}. Check the path.")
    if not isinstance(preprocess, Preprocess | FidPreprocess):
        raise InputError(f"`preprocess` must be a Preprocess(size=…, …); got {preprocess!r}.")
    return os.fspath(path)


def checked_images(samples: Sequence[Any]) -> list[Any]:
    """The samples as a list of paths, arrays and Pillow images; texts and missing files are refused before any work."""
    pillow = optional("PIL.Image", extra="images")
    if isinstance(samples, (str, bytes, os.PathLike)):
        raise InputError(
            f"`samples` must be a list of images; got {_shortened(samples)}. mallow.read(folder).paths lists a folder."
        )
    if isinstance(samples, np.ndarray) and samples.ndim == 3 and samples.shape[2] in (3, 4):
        raise InputError(
            f"`samples` must be a list of images or an array (n, height, width, channels); got shape {samples.shape}, "
            "which looks like a single image. Pass [image]."
        )
    items = list(samples)
    for place, item in enumerate(items):
        if isinstance(item, str) and not Path(item).is_file():
            raise InputError(
                f"`samples` must be images: paths, arrays or Pillow images; sample {place} is the string "
                f"{_shortened(item)}, and no such file exists. Texts need a text embedder."
            )
        if isinstance(item, os.PathLike) and not Path(item).is_file():
            raise InputError(f"{os.fspath(item)}: no such file (sample {place}). Check the path.")
        if not (isinstance(item, (str, os.PathLike, pillow.Image)) or hasattr(item, "__array__")):
            raise InputError(
                f"`samples` must be images: paths, arrays or Pillow images; sample {place} is {_shortened(item)}, "
                f"of type {type(item).__name__}."
            )
    return items


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…" + text[-1]


def image_rows(
    samples: Sequence[Any], preprocess: Preprocess | FidPreprocess, network: Network, *, limit: int
) -> Iterator[Rows]:
    """Places and features of all images, in order; images are decoded on threads while the network runs.

    At most two batches of `limit` images are in memory. `samples` are as `checked_images` returns them.
    """
    optional("PIL.Image", extra="images").init()  # loads the plugins, before threads compete for them

    def load(numbered: tuple[int, Any]) -> Image:
        place, image = numbered
        return preprocess(image, label=f"image {place}")

    threads = min(_THREADS, cores())
    images = ordered_map(load, enumerate(samples), threads, ahead=max(2, -(-limit // threads)))
    yield from grown_batches(images, network, limit=limit)


def grown_batches(images: Iterable[Image], network: Network, *, limit: int) -> Iterator[Rows]:
    """Places and features, in batches as large as memory allows.

    The first batch has 8 images, and each later one twice as many as the one before, up to `limit`. A batch that runs
    out of memory is halved, down to single images, and no later batch is larger than the one that fitted. Time has
    no influence: the batches of two runs differ only if their memory does. The rows of `network` must not depend on
    their batch.
    """
    size = min(_FIRST_BATCH, whole("limit", limit, least=1))
    source = iter(images)
    waiting: list[Image] = []
    place = 0
    while True:
        waiting += islice(source, max(0, size - len(waiting)))
        if not waiting:
            return
        batch = waiting[:size]
        count, rows = halve_on_memory_error(
            partial(_features, network, place),
            batch,
            item="image",
            advice="Use a smaller model or image size, or `device='cpu'`.",
        )
        if count < len(batch):
            limit = count
        yield np.arange(place, place + count, dtype=np.int64), rows
        place += count
        del waiting[:count]
        size = min(2 * size, limit)


def _features(network: Network, place: int, images: list[Image]) -> Points:
    """Features of one batch, whose first image is the sample at `place`."""
    for offset, image in enumerate(images):
        if image.shape != images[0].shape:
            raise InputError(
                f"All images must have the same shape; image {place} has {images[0].shape} and image {place + offset} "
                f"{image.shape}. Set `size` in Preprocess."
            )
    rows = network(np.stack(images))
    while rows.ndim > 2 and rows.shape[-1] == 1:
        rows = rows[..., 0]
    if rows.ndim != 2 or len(rows) != len(images):
        raise InputError(
            f"The network must return one row of features per image, shape ({len(images)}, d); got {rows.shape}. "
            "Choose another `output`, or wrap the network so that it pools."
        )
    if not np.isfinite(rows).all():
        raise InputError("The network returns NaN or infinite features. If it runs in float16, pass `dtype='float32'`.")
    return rows
