"""A monitor in training loops: callbacks at every evaluation, and a metric of torchmetrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mallow._optional import optional
from mallow.evaluate import Monitor, Score
from mallow.integrations._loggers import metrics_of

Sampler = Callable[[Any], object]
"""From the model in training to some of its samples: texts, or an array of features."""


def _evaluate(monitor: Monitor, sample: Sampler, model: Any, scores: list[Score], prefix: str) -> dict[str, float]:
    """The numbers of the model as it is now; samples of earlier evaluations, by another model, are forgotten."""
    monitor.reset()
    training = bool(getattr(model, "training", False))
    if training:
        model.eval()
    try:
        batch = sample(model)
    finally:
        if training:
            model.train()
    monitor.update(batch)
    scores.append(monitor.compute())
    return {**metrics_of(scores[-1], prefix), f"{prefix}/alarm": float(monitor.alarm)}


def trainer_callback(monitor: Monitor, sample: Sampler, *, prefix: str = "eval_mallow") -> Any:
    """A ``transformers.TrainerCallback`` that scores samples of the model at every evaluation of a ``Trainer``.

    The numbers join the metrics of the evaluation, so that ``metric_for_best_model="eval_mallow/mauve"`` works, and the
    log history; `scores` of the callback has all of them.

    Parameters
    ----------
    monitor : Monitor
        With the real data.
    sample : callable
        From the model to some of its samples: texts, or an array of features. A few hundred are enough to see a model
        drift.
    prefix : str
        As in `metrics_of`.
    """
    transformers = optional("transformers", extra="text")

    class MallowCallback(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
        """Scores samples at every evaluation."""

        def __init__(self) -> None:
            self.scores: list[Score] = []

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Score samples of the model; called by the Trainer."""
            if not state.is_world_process_zero:
                return
            numbers = _evaluate(monitor, sample, kwargs["model"], self.scores, prefix)
            if kwargs.get("metrics") is not None:
                kwargs["metrics"].update(numbers)
            state.log_history.append({**numbers, "step": state.global_step})

    return MallowCallback()


def lightning_callback(monitor: Monitor, sample: Sampler, *, prefix: str = "mallow") -> Any:
    """A Lightning ``Callback`` that scores samples of the module at the end of every validation, and logs the numbers.

    Works with the packages ``lightning`` and ``pytorch_lightning``. The first one that is installed is taken.
    Parameters as in `trainer_callback`; `scores` of the callback has all scores.
    """
    try:
        package = optional("lightning.pytorch", extra="lightning")
    except ValueError:
        package = optional("pytorch_lightning", extra="lightning")

    class MallowCallback(package.Callback):  # type: ignore[misc,name-defined]
        """Scores samples at the end of every validation."""

        def __init__(self) -> None:
            self.scores: list[Score] = []

        def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            """Score samples of the module; called by the Lightning trainer."""
            if trainer.sanity_checking or not trainer.is_global_zero:
                return
            numbers = _evaluate(monitor, sample, pl_module, self.scores, prefix)
            pl_module.log_dict(numbers, rank_zero_only=True)

    return MallowCallback()


def torch_metric(monitor: Monitor, *, prefix: str = "mallow", **options: Any) -> Any:
    """A ``torchmetrics.Metric`` that counts batches of a model's samples in the bins of a monitor.

    Its state is what the monitor has counted. Across processes the parts of all of them are added up, exactly: the
    result has the bits of one process with all samples. Every process needs a copy of the same monitor. `compute`
    returns a dict of tensors: the numbers of `metrics_of`, and whether the alarm sounds. The p-value is that of one
    look at all samples.

    Parameters
    ----------
    monitor : Monitor
        It is not changed.
    prefix : str
        As in `metrics_of`.
    **options
        Those of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from mallow import Measure, Quantize
    >>> rng = np.random.default_rng(0)
    >>> metric = torch_metric(Monitor(rng.normal(size=(2000, 4)), measure=Measure(Quantize(bins=50))))
    >>> metric.update(torch.from_numpy(rng.normal(0.5, 1, size=(1000, 4))))
    >>> sorted(metric.compute())[0], bool(metric.compute()["mallow/alarm"])
    ('mallow/alarm', True)
    """
    torch, torchmetrics = optional("torch", extra="torchmetrics"), optional("torchmetrics", extra="torchmetrics")
    start = monitor.combine([])

    def as_tensor(part: bytes) -> Any:
        return torch.frombuffer(bytearray(part), dtype=torch.uint8)

    def gather(tensor: Any, group: Any = None) -> Any:
        """The parts of all processes, filled up with spaces to one length."""
        parts = torchmetrics.utilities.distributed.gather_all_tensors(tensor, group)
        longest = max(len(part) for part in parts)
        return [torch.nn.functional.pad(part, (0, longest - len(part)), value=ord(" ")) for part in parts]

    class MallowMetric(torchmetrics.Metric):  # type: ignore[misc,name-defined]
        """The score of all samples seen so far."""

        full_state_update = True
        higher_is_better = True
        is_differentiable = False

        def __init__(self) -> None:
            super().__init__(dist_sync_fn=gather, **options)
            self.add_state("part", default=as_tensor(start.counted()), dist_reduce_fx=None)

        def update(self, batch: Any) -> None:
            """Count a batch: texts, or a tensor of features (n, d)."""
            total = start.combine(self._parts())
            total.update(batch.detach().cpu().numpy() if isinstance(batch, torch.Tensor) else batch)
            self.part = as_tensor(total.counted()).to(self.device)

        def compute(self) -> Any:
            """The numbers of the score of all samples, as a dict of tensors."""
            total = start.combine(self._parts())
            numbers = {**metrics_of(total.compute(), prefix), f"{prefix}/alarm": float(total.alarm)}
            return {name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}

        def _parts(self) -> list[bytes]:
            rows = self.part if self.part.ndim == 2 else self.part[None]  # one row per process once they are gathered
            return [bytes(row.cpu().tolist()) for row in rows]

    return MallowMetric()
