"""Samples and results in other packages: tables, and experiment trackers.

Trackers get numbers as metrics, the verdict as text, and the whole result as a file.
"""

from __future__ import annotations

import math
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from mallow._checks import one_of
from mallow._optional import optional
from mallow.errors import EstimateWarning, InputError
from mallow.evaluate import Comparison, Score, Sweep, Track
from mallow.results import Estimate, Result
from mallow.samples import Samples


def to_pandas(value: Samples | Result) -> Any:
    """Samples, one row each, or the numbers of a result, as a pandas DataFrame.

    Examples
    --------
    >>> from mallow import read
    >>> frame = to_pandas(read([{"text": "One.", "id": 1}, {"text": "Two.", "id": 2}]))
    >>> list(frame.columns), read(frame).texts
    (['id', 'text'], ('One.', 'Two.'))
    """
    if isinstance(value, Result):
        return value.to_frame()
    return optional("pandas", extra="frames").DataFrame(_columns(value))


def to_polars(value: Samples | Result) -> Any:
    """Samples, one row each, or the numbers of a result, as a polars DataFrame."""
    polars = optional("polars", extra="polars")
    if isinstance(value, Result):
        records = value.to_frame().to_dict(orient="records")
        return polars.from_dicts(records, infer_schema_length=None)
    return polars.DataFrame(_columns(value))


def to_dataset(samples: Samples) -> Any:
    """Samples, one row each, as a Hugging Face Dataset; features are a column of lists.

    `mallow.read` reads the dataset again, except for the features: ``read(dataset["features"])`` reads them.
    """
    return optional("datasets", extra="datasets").Dataset.from_dict(_columns(samples))


def _columns(samples: object) -> dict[str, list[Any]]:
    if not isinstance(samples, Samples):
        raise InputError(
            f"`samples` must be Samples, or a result; got {type(samples).__name__}. Read it with mallow.read."
        )
    named = {
        "id": samples.ids,
        "prompt": samples.prompts,
        "text": samples.texts,
        "image": None if samples.images is None else [str(path) for path in samples.images],
        "audio": None if samples.audio is None else [str(path) for path in samples.audio],
        "features": None if samples.features is None else samples.features.tolist(),
    }
    return {name: list(values) for name, values in named.items() if values is not None}


def metrics_of(result: Result, prefix: str = "mallow") -> dict[str, float]:
    """The numbers of a result by the names that the loggers use.

    Parameters
    ----------
    result : Score, Comparison, Sweep or Track
    prefix : str
        The beginning of all names. With several systems, the name of the system follows.

    Examples
    --------
    >>> import numpy as np
    >>> from mallow import score
    >>> rng = np.random.default_rng(0)
    >>> numbers = metrics_of(score(rng.normal(size=(1000, 8)), rng.normal(0.1, 1, size=(1000, 8))))
    >>> list(numbers)[:4]
    ['mallow/mauve', 'mallow/mauve_low', 'mallow/mauve_high', 'mallow/certified']
    """
    if isinstance(result, Score):
        return _numbers(result, prefix)
    if isinstance(result, Sweep | Track):
        result = result.comparison
    if isinstance(result, Comparison):
        systems = [_numbers(score, f"{prefix}/{name}") for name, score in result.scores.items()]
        return {name: value for numbers in systems for name, value in numbers.items()}
    raise InputError(f"`result` must be a Score, Comparison, Sweep or Track; got {type(result).__name__}.")


_NOTHING = Estimate(math.nan, math.nan, math.nan)
_NUMBERS: dict[str, Callable[[Score], float]] = {
    "mauve": lambda score: score.mauve,
    "mauve_low": lambda score: score.interval.get("mauve", (math.nan, math.nan))[0],
    "mauve_high": lambda score: score.interval.get("mauve", (math.nan, math.nan))[1],
    "certified": lambda score: score.certified.get("mauve", _NOTHING).value,
    "certified_at_most": lambda score: score.certified.get("mauve", _NOTHING).high,
    "frontier_integral": lambda score: score.frontier_integral,
    "midpoint": lambda score: score.midpoint,
    "self_score": lambda score: score.self_score["mauve"],
    "p_value": lambda score: score.p_value,
}


def _numbers(score: Score, prefix: str) -> dict[str, float]:
    values = {f"{prefix}/{name}": number(score) for name, number in _NUMBERS.items()}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def missing_numbers(prefix: str) -> dict[str, float]:
    """NaN for every number of a monitor, for programs that expect these numbers although there is no score."""
    return {f"{prefix}/{name}": math.nan for name in (*_NUMBERS, "alarm")}


OnError = Literal["warn", "raise"]


class Shield:
    """Keeps failures from ending a training run. The first is a warning, and `failures` has all of them.

    Attributes
    ----------
    on_error : str
        "warn" or "raise".
    failures : list of str
        The traceback of each.
    """

    def __init__(self, name: str, on_error: OnError, rest: str) -> None:
        one_of("on_error", on_error, ("warn", "raise"))
        self.on_error, self.failures, self._name, self._rest = on_error, list[str](), name, rest

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """A block that may fail. Interruptions still end it."""
        try:
            yield
        except Exception as error:
            if self.on_error == "raise":
                raise
            self.failures.append(traceback.format_exc())
            if len(self.failures) == 1:
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                warnings.warn(
                    f"{self._name} failed, and the run goes on without its numbers: {type(error).__name__}: {reason} "
                    f"{self._rest}",
                    EstimateWarning,
                    stacklevel=4,
                )


def _shield(name: str, on_error: OnError) -> Any:
    return Shield(name, on_error, "Call it with on_error='raise' to see the whole traceback.")()


def _verdict(result: Result) -> str:
    return str(getattr(result, "verdict", ""))


def log_wandb(
    result: Result, run: Any = None, *, step: int | None = None, prefix: str = "mallow", on_error: OnError = "warn"
) -> None:
    """Log a result to Weights & Biases: numbers as metrics, verdict and signature in the summary of the run.

    Parameters
    ----------
    result : Score, Comparison, Sweep or Track
    run : wandb run or None
        None: the current one.
    step : int or None
        As in ``run.log``.
    prefix : str
        As in `metrics_of`.
    on_error : str
        "warn": a failure, such as a full disk, is a warning, and the run continues. "raise": it is an error.
    """
    with _shield("log_wandb", on_error):
        if run is None:
            run = optional("wandb", extra="wandb").run
            if run is None:
                raise InputError("`run` must be a run of wandb, but there is none yet. Call wandb.init() first.")
        run.log(metrics_of(result, prefix), step=step)
        run.summary[f"{prefix}/verdict"] = _verdict(result)
        run.summary[f"{prefix}/signature"] = str(getattr(getattr(result, "comparison", result), "signature", ""))


def log_mlflow(result: Result, *, step: int | None = None, prefix: str = "mallow", on_error: OnError = "warn") -> None:
    """Log a result to the active run of MLflow: numbers as metrics, the verdict as a tag, the whole as an artifact.

    Characters that MLflow does not allow in the name of a metric become underscores. `on_error` as in `log_wandb`.
    """
    with _shield("log_mlflow", on_error):
        mlflow = optional("mlflow", extra="mlflow")
        numbers = {re.sub(r"[^\w\-. :/]", "_", name): value for name, value in metrics_of(result, prefix).items()}
        mlflow.log_metrics(numbers, step=step)
        mlflow.set_tag(f"{prefix}/verdict", _verdict(result)[:5000])
        name = f"{prefix}/{result.KIND}" if step is None else f"{prefix}/{result.KIND}-{step}"
        mlflow.log_text(result.to_json(), f"{name}.json")


def log_tensorboard(
    result: Result, writer: Any, *, step: int | None = None, prefix: str = "mallow", on_error: OnError = "warn"
) -> None:
    """Log scalars and the verdict to a ``torch.utils.tensorboard.SummaryWriter``, or one with the same methods.

    `on_error` as in `log_wandb`.
    """
    with _shield("log_tensorboard", on_error):
        for name, value in metrics_of(result, prefix).items():
            writer.add_scalar(name, value, step)
        writer.add_text(f"{prefix}/verdict", _verdict(result), step)


def log_trackio(
    result: Result, run: Any = None, *, step: int | None = None, prefix: str = "mallow", on_error: OnError = "warn"
) -> None:
    """Log a result to trackio: numbers as metrics, and the verdict as text beside them. `run` None: the current run.

    `on_error` as in `log_wandb`.
    """
    with _shield("log_trackio", on_error):
        target = optional("trackio", extra="trackio") if run is None else run
        target.log({**metrics_of(result, prefix), f"{prefix}/verdict": _verdict(result)}, step=step)
