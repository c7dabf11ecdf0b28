"""mallow in other packages: training loops, experiment trackers, tables and datasets. docs/integrations.md.

Each package is imported only when one of its functions is called, so no package is required.
"""

from mallow.integrations._loggers import (
    log_mlflow,
    log_tensorboard,
    log_trackio,
    log_wandb,
    metrics_of,
    to_dataset,
    to_pandas,
    to_polars,
)
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
