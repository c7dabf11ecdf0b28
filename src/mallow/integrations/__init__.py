"""mallow where people work: training loops, trackers of experiments, tables and datasets. docs/integrations.md.

The other package is imported when a function is called, so that none of them is needed for the rest.
"""

from mallow.integrations._frames import to_dataset, to_pandas, to_polars
from mallow.integrations._loggers import log_mlflow, log_tensorboard, log_trackio, log_wandb, metrics_of
from mallow.integrations._training import lightning_callback, torch_metric, trainer_callback

__all__ = [
    "lightning_callback",
    "log_mlflow",
    "log_tensorboard",
    "log_trackio",
    "log_wandb",
    "metrics_of",
    "to_dataset",
    "to_pandas",
    "to_polars",
    "torch_metric",
    "trainer_callback",
]
