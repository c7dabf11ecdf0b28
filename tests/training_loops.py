"""What tests of callbacks train: a model whose one weight moves to the mean of human rows, and what its samples may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")

HUMAN = np.random.default_rng(0).normal(size=(400, 4))
GOOD = np.random.default_rng(1).normal(size=(100, 4))


class Shift(torch.nn.Module):
    """Its loss is the squared distance from the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.nn.Parameter(torch.full((4,), 3.0))

    def forward(self, labels: torch.Tensor, **_: Any) -> dict[str, torch.Tensor]:
        return {"loss": ((labels - self.shift) ** 2).mean(), "logits": labels}


def make_trainer(folder: Path, callbacks: Sequence[Any], **options: Any) -> Any:
    """A Trainer of transformers for `Shift`."""
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(str(folder), report_to=[], use_cpu=True, disable_tqdm=True, **options)
    rows = [{"labels": row} for row in HUMAN.astype(np.float32)]
    return Trainer(Shift(), arguments, train_dataset=rows, eval_dataset=rows[:20], callbacks=list(callbacks))


def shifted_sample(model: torch.nn.Module) -> np.ndarray:
    """Samples of the model as it is."""
    return GOOD + model.shift.detach().numpy()


def failing_sample() -> Callable[[torch.nn.Module], Any]:
    """A function that cannot sample six times, in six ways, and can the seventh time."""

    def on_a_full_disk() -> None:
        with open("/dev/full", "w") as file:
            file.write("samples")

    def nothing() -> None:
        raise RuntimeError

    given = iter(
        [
            lambda: np.where(np.arange(4) == 2, np.nan, GOOD),
            lambda: GOOD[:0],
            lambda: GOOD[:, :3],
            on_a_full_disk,
            nothing,
            lambda: None,
            lambda: GOOD,
        ]
    )

    def sample(model: torch.nn.Module) -> Any:
        assert not model.training
        return next(given)()

    return sample
