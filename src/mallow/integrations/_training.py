"""A monitor in training loops: callbacks at every evaluation, and a metric of torchmetrics."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from mallow._optional import optional
from mallow.errors import EstimateWarning, warn_about
from mallow.evaluate import Monitor, Score
from mallow.integrations._loggers import OnError, Shield, metrics_of, missing_numbers

Sampler = Callable[[Any], object]
"""From the model in training to some of its samples: texts, or an array of features."""


_REST = (
    "Later failures are not shown: `failures` of the {kind} holds the traceback of each, and on_error='raise' ends the "
    "run at the first."
)


class _Evaluation:
    """The common part of all callbacks: the scores so far, and the failures that did not end the run."""

    def __init__(self, monitor: Monitor, sample: Sampler, prefix: str, on_error: OnError) -> None:
        self._monitor, self._sample, self._prefix = monitor, sample, prefix
        self._shield = Shield("The callback of mallow", on_error, _REST.format(kind="callback"))
        self.scores: list[Score] = []
        self._warned: set[str] = set()  # kinds of caveats: one warning each, since every evaluation has them again

    @property
    def failures(self) -> list[str]:
        """The traceback of each failure."""
        return self._shield.failures

    def numbers(self, model: Any) -> dict[str, float]:
        """The numbers of the model as it is now, each NaN if there is no score.

        Samples of earlier evaluations are forgotten, since the model has changed.
        """
        with self._shield():
            self._monitor.reset()
            training = bool(getattr(model, "training", False))
            if training:
                model.eval()
            try:
                batch = self._sample(model)
            finally:
                if training:
                    model.train()
            self._monitor.update(batch)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EstimateWarning)
                score = self._monitor.compute()
            self.scores.append(score)
            new = [caveat for caveat in score.caveats if caveat.kind not in self._warned]
            self._warned |= {caveat.kind for caveat in new}
            warn_about(new)
            return {**metrics_of(score, self._prefix), f"{self._prefix}/alarm": float(self._monitor.alarm)}
        return missing_numbers(self._prefix)


def trainer_callback(
    monitor: Monitor, sample: Sampler, *, prefix: str = "eval_mallow", on_error: OnError = "warn"
) -> Any:
    """A ``transformers.TrainerCallback`` that scores samples of the model at every evaluation of a ``Trainer``.

    The numbers are added to the metrics of the evaluation, so that ``metric_for_best_model="eval_mallow/mauve"``
    works, and to the log history. `scores` of the callback has all scores. A callback does not know its Trainer:
    ``trainer_callback(…).attach(trainer)`` adds it to the Trainer and logs the numbers through ``Trainer.log``, so that
    they reach TensorBoard, Weights & Biases, MLflow, trackio and the console.

    Parameters
    ----------
    monitor : Monitor
        With the real data.
    sample : callable
        From the model to some of its samples: texts, or an array of features. A few hundred are enough to detect
        that a model drifts.
    prefix : str
        As in `metrics_of`.
    on_error : str
        "warn": a failure in `sample` or in scoring does not end the training. The first failure is a warning, and
        `failures` of the callback has the tracebacks of all. The numbers of that evaluation are NaN, so that
        ``metric_for_best_model`` still finds its metric. "raise": the training ends with the error.
    """
    transformers = optional("transformers", extra="text")

    class MallowCallback(_Evaluation, transformers.TrainerCallback):  # type: ignore[misc,name-defined]
        """Scores samples at every evaluation."""

        trainer: Any = None

        def attach(self, trainer: Any) -> Any:
            """Add the callback to a Trainer, and log through it; returns the Trainer."""
            self.trainer = trainer
            trainer.add_callback(self)
            return trainer

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Score samples of the model; called by the Trainer."""
            if not state.is_world_process_zero:
                return
            numbers = self.numbers(kwargs["model"])
            if kwargs.get("metrics") is not None:
                kwargs["metrics"].update(numbers)
            if self.trainer is None:
                state.log_history.append({**numbers, "step": state.global_step})
            else:
                self.trainer.log(numbers)

    return MallowCallback(monitor, sample, prefix, on_error)


def lightning_callback(monitor: Monitor, sample: Sampler, *, prefix: str = "mallow", on_error: OnError = "warn") -> Any:
    """A Lightning ``Callback`` that scores samples of the module at the end of every validation, and logs the numbers.

    Works with the packages ``lightning`` and ``pytorch_lightning``. The first one that is installed is taken.
    Parameters as in `trainer_callback`; `scores` of the callback has all scores. Lightning's ``EarlyStopping`` ends
    the training if its metric is NaN, unless it has ``check_finite=False``.
    """
    try:
        package = optional("lightning.pytorch", extra="lightning")
    except ValueError:
        package = optional("pytorch_lightning", extra="lightning")

    class MallowCallback(_Evaluation, package.Callback):  # type: ignore[misc,name-defined]
        """Scores samples at the end of every validation."""

        def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            """Score samples of the module; called by the Lightning trainer."""
            if trainer.sanity_checking or not trainer.is_global_zero:
                return
            pl_module.log_dict(self.numbers(pl_module), rank_zero_only=True)

    return MallowCallback(monitor, sample, prefix, on_error)


def torch_metric(monitor: Monitor, *, prefix: str = "mallow", on_error: OnError = "warn", **options: Any) -> Any:
    """A ``torchmetrics.Metric`` that counts batches of a model's samples in the bins of a monitor.

    Its state is the counts of the monitor. The counts of all processes are added up exactly, so that the result has
    the bits of one process with all samples. Every process needs a copy of the same monitor. `compute`
    returns a dict of tensors: the numbers of `metrics_of`, and whether the alarm sounds. The p-value is for one look
    at all samples.

    Parameters
    ----------
    monitor : Monitor
        It is not changed.
    prefix : str
        As in `metrics_of`.
    on_error : str
        "warn": a batch that cannot be counted is left out, and numbers that cannot be computed are NaN. The first
        failure is a warning, and `failures` of the metric has the tracebacks of all. "raise": each is an error.
    **options
        Options of ``torchmetrics.Metric``.

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
            self._shield = Shield("The metric of mallow", on_error, _REST.format(kind="metric"))
            self.add_state("part", default=as_tensor(start.counted()), dist_reduce_fx=None)

        def update(self, batch: Any) -> None:
            """Count a batch: texts, or a tensor of features (n, d)."""
            with self._shield():
                total = start.combine(self._parts())
                total.update(batch.detach().cpu().numpy() if isinstance(batch, torch.Tensor) else batch)
                self.part = as_tensor(total.counted()).to(self.device)

        def compute(self) -> Any:
            """The numbers of the score of all samples, as a dict of tensors."""
            numbers = missing_numbers(prefix)
            with self._shield():
                total = start.combine(self._parts())
                numbers = {**metrics_of(total.compute(), prefix), f"{prefix}/alarm": float(total.alarm)}
            return {name: torch.tensor(value, dtype=torch.float64) for name, value in numbers.items()}

        @property
        def failures(self) -> list[str]:
            """The traceback of each failure."""
            return self._shield.failures

        def _parts(self) -> list[bytes]:
            rows = self.part if self.part.ndim == 2 else self.part[None]  # one row per process once they are gathered
            return [bytes(row.cpu().tolist()) for row in rows]

    return MallowMetric()
