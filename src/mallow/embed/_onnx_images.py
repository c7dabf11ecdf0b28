"""Images through a network saved as ONNX, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallow._files import digest
from mallow._optional import optional
from mallow.embed._image_batches import LoadedNetwork, StreamedImages, batch_limit, checked_file
from mallow.embed._preprocess import Preprocess
from mallow.embed._protocol import Points
from mallow.errors import InputError
from mallow.models import first_line

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
