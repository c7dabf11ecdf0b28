"""Whatever fails in a callback or a logger, the training goes on: the real packages, and samples that cannot be scored."""

import errno
import os
import re
import warnings

import numpy as np
import pytest

import mallow
from mallow import EstimateWarning, InputError, Measure, Monitor, Quantize
from mallow.integrations import log_tensorboard, log_trackio, log_wandb, torch_metric, trainer_callback
from real_packages import run_program

torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")

# What `sample` returns at the evaluations, one after the other.
SAMPLES = """
import json, math
import numpy as np, torch
import mallow
human = np.random.default_rng(0).normal(size=(400, 4))
good = np.random.default_rng(1).normal(size=(100, 4))

def on_a_full_disk():
    with open("/dev/full", "w") as file:
        file.write("samples")

def nothing():
    raise RuntimeError

given = iter([
    lambda: np.where(np.arange(4) == 2, np.nan, good), lambda: good[:0], lambda: good[:, :3],
    on_a_full_disk, nothing, lambda: None, lambda: good,
])

def sample(model):
    return next(given)()

warned = []
import warnings
warnings.showwarning = lambda message, *_: warned.append(str(message))
warnings.simplefilter("always", mallow.EstimateWarning)
"""
TRAINER = """
from transformers import Trainer, TrainingArguments
from mallow.integrations import trainer_callback

class Shift(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.ones(4))
    def forward(self, rows, **_):
        return {"loss": ((rows - self.shift) ** 2).mean()}

rows = [{"rows": row} for row in torch.from_numpy(human.astype(np.float32))]
callback = trainer_callback(mallow.Monitor(human), sample)
arguments = TrainingArguments(
    output_dir=folder + "/trainer", max_steps=7, eval_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=1,
    save_total_limit=1, load_best_model_at_end=True, metric_for_best_model="eval_mallow/mauve", greater_is_better=True,
    per_device_train_batch_size=50, per_device_eval_batch_size=400, report_to=[], use_cpu=True, disable_tqdm=True,
    remove_unused_columns=False, prediction_loss_only=True,
)
made = Trainer(Shift(), arguments, train_dataset=rows, eval_dataset=rows, callbacks=[callback])
made.train()
steps, best = made.state.global_step, made.state.best_metric
seen = [entry["eval_mallow/mauve"] for entry in made.state.log_history if "eval_mallow/alarm" in entry]
"""
LIGHTNING = """
import lightning.pytorch as pl
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from mallow.integrations import lightning_callback

class Shift(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.ones(4))
    def training_step(self, batch, _):
        return ((batch - self.shift) ** 2).mean()
    def validation_step(self, batch, _):
        pass
    def on_validation_end(self):
        if not self.trainer.sanity_checking:
            seen.append(float(self.trainer.callback_metrics["mallow/mauve"]))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.2)

seen = []
batches = torch.utils.data.DataLoader(torch.from_numpy(human.astype(np.float32)), batch_size=200)
callback = lightning_callback(mallow.Monitor(human), sample)
others = [ModelCheckpoint(dirpath=folder, monitor="mallow/mauve", mode="max"),
          EarlyStopping("mallow/mauve", mode="max", patience=20, check_finite=False)]
trainer = pl.Trainer(max_epochs=7, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
                     callbacks=[callback, *others], default_root_dir=folder)
trainer.fit(Shift(), batches, batches)
steps, best = trainer.current_epoch, float(others[0].best_model_score)
"""
REPORT = """
print(json.dumps([
    steps, best, [None if math.isnan(value) else value for value in seen], [score.mauve for score in callback.scores],
    [text.strip().splitlines()[-1] for text in callback.failures],
    [text for text in warned if "callback of mallow" in text],
]))
"""


@pytest.mark.parametrize("loop", ["transformers", "lightning"])
def test_no_failure_ends_a_training(tmp_path, loop):
    code = SAMPLES + (TRAINER if loop == "transformers" else LIGHTNING) + REPORT
    steps, best, seen, scores, failures, warned = run_program(loop, code, tmp_path)
    assert steps == 7
    assert seen == [None] * 6 + [pytest.approx(scores[0], rel=1e-6)]  # Lightning keeps float32
    assert best == seen[-1]  # those who choose a model by the number still find it
    assert len(failures) == 6
    for failure, part in zip(
        failures,
        (
            "InputError: .*NaN|InputError: .*nan",
            "InputError: ",
            "InputError: .*3",
            "OSError: .*No space left",
            "RuntimeError",
            "InputError: ",
        ),
        strict=True,
    ):
        assert re.match(rf"(mallow\.errors\.)?({part})", failure), failure
    [first] = warned  # the others are in `failures`
    assert first.startswith("The callback of mallow failed, and the run goes on without its numbers: InputError: ")
    assert first.endswith(
        "Later failures are not shown: `failures` of the callback holds the traceback of each, and on_error='raise' "
        "ends the run at the first."
    )


@pytest.fixture
def monitor():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return Monitor(np.random.default_rng(0).normal(size=(400, 4)), measure=Measure(Quantize(bins=20)))


def fail():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_who_wants_errors_gets_them(monitor):
    pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")
    from transformers.trainer_callback import CallbackHandler, TrainerControl, TrainerState

    model = torch.nn.Linear(4, 4).train()
    callback = trainer_callback(monitor, lambda model: fail(), on_error="raise")
    handler = CallbackHandler([callback], model, None, None, None)
    with pytest.raises(OSError, match="No space left on device"):
        handler.on_evaluate(None, TrainerState(), TrainerControl(), {})
    assert model.training  # as it was
    with pytest.raises(InputError, match=r"^`on_error` must be one of .*warn.*raise.*; got 'ignore'"):
        trainer_callback(monitor, lambda model: None, on_error="ignore")


def test_ctrl_c_still_ends_a_run(monitor):
    pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")

    def interrupt(model):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer_callback(monitor, interrupt).numbers(torch.nn.Linear(2, 2))


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_a_metric_leaves_out_what_it_cannot_count(monitor):
    pytest.importorskip("torchmetrics", reason="needs torchmetrics: pip install torchmetrics")
    good = torch.from_numpy(np.random.default_rng(1).normal(size=(90, 4)))
    metric, alone = torch_metric(monitor), torch_metric(monitor, on_error="raise")
    with pytest.warns(
        EstimateWarning, match=r"^The metric of mallow failed, and the run goes on .*`failures` of the metric"
    ):
        assert all(value.isnan() for value in metric.compute().values())  # there are no samples
    for batch in (good * torch.nan, good[:, :3], None, good):
        metric.update(batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        alone.update(good)
        assert float(metric.compute()["mallow/mauve"]) == float(alone.compute()["mallow/mauve"])
    assert len(metric.failures) == 4
    for batch in (good * torch.nan, good[:, :3]):
        with pytest.raises(InputError):
            alone.update(batch)


@pytest.fixture
def score():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return mallow.score(rng.normal(size=(300, 4)), rng.normal(0.5, 1, size=(300, 4)), repeats=1)


class FullDisk:
    """A run, or a writer, whose disk is full."""

    def log(self, *arguments, **options):
        fail()

    add_scalar = log


@pytest.mark.parametrize("log", [log_wandb, log_trackio, log_tensorboard])
def test_a_logger_that_fails_is_a_warning(score, log):
    with pytest.warns(
        EstimateWarning, match=rf"^{log.__name__} failed, and the run goes on .*No space left.*on_error='raise'"
    ):
        assert log(score, FullDisk()) is None
    with pytest.raises(OSError, match="No space left"):
        log(score, FullDisk(), on_error="raise")


def test_the_real_trackers_fail_without_ending_a_run(score, tmp_path):
    (tmp_path / "score.json").write_text(score.to_json())
    code = """
import json, warnings
import mallow
from mallow.integrations import log_mlflow, log_trackio, log_wandb
score = mallow.Score.from_json(open(folder + "/score.json").read())
warnings.simplefilter("always", mallow.EstimateWarning)
with warnings.catch_warnings(record=True) as noted:
    log_wandb(score)  # nobody has called init
    log_trackio(score)
    open(folder + "/file", "w").close()
    import mlflow
    mlflow.set_tracking_uri("file://" + folder + "/file/runs")
    log_mlflow(score)
print(json.dumps([str(note.message) for note in noted if issubclass(note.category, mallow.EstimateWarning)]))
"""
    noted = run_program("mlflow", code, tmp_path, WANDB_SILENT="true", MLFLOW_ALLOW_FILE_STORE="true")
    assert [text.split(" ")[0] for text in noted] == ["log_wandb", "log_trackio", "log_mlflow"]
