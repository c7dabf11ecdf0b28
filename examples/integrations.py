"""mallow inside of other packages: what is installed is shown, the others are named.

A Gaussian takes the place of a model, and rows of features that of texts, so that the example runs in seconds. docs/integrations.md
shows the same calls with texts.

    python examples/integrations.py
"""

import importlib.util
import os
import tempfile
import textwrap
import warnings
from pathlib import Path

import numpy as np

import mallow
from mallow.integrations import (
    lightning_callback,
    log_mlflow,
    log_tensorboard,
    log_trackio,
    log_wandb,
    to_dataset,
    to_pandas,
    to_polars,
    torch_metric,
    trainer_callback,
)

RNG = np.random.default_rng(0)
HUMAN, MODEL = RNG.normal(size=(1000, 8)), RNG.normal(0.2, 1.0, size=(1000, 8))


def tables(folder):
    samples = mallow.read([{"text": f"Text {i}.", "id": i} for i in range(5)])
    print("pandas:", to_pandas(samples).shape, "back:", len(mallow.read(to_pandas(samples))))
    if installed("polars"):
        print("polars:", to_polars(samples).shape, "back:", len(mallow.read(to_polars(samples))))
    if installed("datasets"):
        print("datasets:", to_dataset(samples).shape, "back:", len(mallow.read(to_dataset(samples))))


def trackers(folder):
    score = mallow.score(HUMAN, MODEL, repeats=2)
    if installed("tensorboard"):
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(folder / "tensorboard") as writer:
            log_tensorboard(score, writer, step=1)
        print("TensorBoard:", len(list((folder / "tensorboard").iterdir())), "file")
    if installed("wandb"):
        import wandb

        with wandb.init(mode="offline", dir=folder, project="mallow"):
            log_wandb(score, step=1)
        print("wandb, offline:", len(list(folder.rglob("*.wandb"))), "file")
    if installed("mlflow"):
        import mlflow

        mlflow.set_tracking_uri((folder / "mlruns").as_uri())
        with mlflow.start_run() as run:
            log_mlflow(score, step=1)
        print("MLflow:", round(mlflow.get_run(run.info.run_id).data.metrics["mallow/mauve"], 4))
    if installed("trackio"):
        import trackio

        trackio.init(project="mallow")
        log_trackio(score, step=1)
        trackio.finish()
        print("trackio: logged")


def torchmetrics(folder):
    if installed("torchmetrics") and installed("torch"):
        import torch

        metric = torch_metric(mallow.Monitor(HUMAN))
        for batch in torch.from_numpy(MODEL).split(250):
            metric.update(batch)
        print("torchmetrics:", round(float(metric.compute()["mallow/mauve"]), 4))


def trainer(folder):
    if not (installed("transformers") and installed("torch") and installed("accelerate")):
        return
    import torch
    from transformers import PrinterCallback, Trainer, TrainingArguments

    class Shift(torch.nn.Module):
        """A model whose samples are real data, moved by what it has learned."""

        def __init__(self):
            super().__init__()
            self.shift = torch.nn.Parameter(torch.ones(8))

        def forward(self, rows, **_):
            return {"loss": ((rows - self.shift) ** 2).mean()}

    def sample(model):
        with torch.no_grad():
            return (torch.from_numpy(RNG.normal(size=(300, 8))) + model.shift.cpu()).numpy()

    rows = [{"rows": row} for row in torch.from_numpy(HUMAN.astype(np.float32))]
    callback = trainer_callback(mallow.Monitor(HUMAN), sample)
    arguments = TrainingArguments(
        output_dir=folder / "trainer",
        max_steps=20,
        eval_strategy="steps",
        eval_steps=10,
        learning_rate=0.1,
        per_device_train_batch_size=50,
        per_device_eval_batch_size=500,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        remove_unused_columns=False,
        prediction_loss_only=True,
    )
    made = Trainer(Shift(), arguments, train_dataset=rows, eval_dataset=rows[:500], callbacks=[callback])
    made.remove_callback(PrinterCallback)
    made.train()
    print("Trainer:", " -> ".join(f"{score.mauve:.2f}" for score in callback.scores))


def lightning(folder):
    if not (installed("pytorch_lightning") or installed("lightning")):
        return
    import torch

    if installed("lightning"):
        import lightning.pytorch as pl
    else:
        import pytorch_lightning as pl

    class Shift(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.shift = torch.nn.Parameter(torch.ones(8))

        def training_step(self, batch, _):
            return ((batch - self.shift) ** 2).mean()

        def validation_step(self, batch, _):
            pass

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.03)

    def sample(model):
        with torch.no_grad():
            return (torch.from_numpy(RNG.normal(size=(300, 8))) + model.shift.cpu()).numpy()

    batches = torch.utils.data.DataLoader(torch.from_numpy(HUMAN.astype(np.float32)), batch_size=100)
    callback = lightning_callback(mallow.Monitor(HUMAN), sample)
    made = pl.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
        default_root_dir=folder,
    )
    made.fit(Shift(), batches, batches)
    print("Lightning:", " -> ".join(f"{score.mauve:.2f}" for score in callback.scores))


def installed(name):
    return importlib.util.find_spec(name) is not None


if __name__ == "__main__":
    os.environ.setdefault("TRACKIO_DIR", tempfile.mkdtemp())
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # a folder instead of a database
    warnings.simplefilter("ignore")  # few samples, and those of the other packages
    names = [
        "polars",
        "datasets",
        "torchmetrics",
        "transformers",
        "accelerate",
        "lightning",
        "wandb",
        "mlflow",
        "trackio",
        "tensorboard",
    ]
    missing = [name for name in names if not installed(name)]
    print(textwrap.fill(f"not installed: {', '.join(missing) or 'none'}", 80))
    with tempfile.TemporaryDirectory() as folder:
        for part in (tables, trackers, torchmetrics, trainer, lightning):
            part(Path(folder))
