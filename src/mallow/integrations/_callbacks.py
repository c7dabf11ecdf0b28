"""Callbacks of training loops: at every evaluation the model's samples are counted in the bins of a monitor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mallow._optional import optional
from mallow.evaluate import Monitor, Score
from mallow.integrations._loggers import metrics_of

Sampler = Callable[[Any], object]
"""From the model in training to some of its samples: texts, or an array of features."""


def _evaluate(monitor: Monitor, sample: Sampler, model: Any, scores: list[Score], prefix: str) -> dict[str, float]:
    """The numbers of the model as it is now; samples of earlier evaluations came from another model, and are forgotten."""
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

    The numbers join the metrics of the evaluation, so that ``metric_for_best_model="eval_mallow/mauve"`` works, and the log
    history; `scores` of the callback has all of them.

    Parameters
    ----------
    monitor : Monitor
        With the real data.
    sample : callable
        From the model to some of its samples: texts, or an array of features. A few hundred are enough to see a model drift.
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

    Works with the packages ``lightning`` and ``pytorch_lightning``; the first one that is installed is taken. Parameters as
    in `trainer_callback`; `scores` of the callback has all scores.
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
