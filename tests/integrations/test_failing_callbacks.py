"""Whatever fails in a callback or a logger, the training goes on: the real packages, and samples that cannot be scored."""

import errno
import math
import os
import re
import warnings

import numpy as np
import pytest

import mallow
from mallow import EstimateWarning, InputError, Measure, Monitor, Quantize
from mallow.integrations import log_tensorboard, log_trackio, log_wandb, torch_metric, trainer_callback
from real_packages import run_program
from training_loops import HUMAN, failing_sample, make_trainer

torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")

LIGHTNING = """
import json, math, warnings
import lightning.pytorch as pl
import numpy as np, torch
import mallow
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from mallow.integrations import lightning_callback, metrics_of
from training_loops import HUMAN, failing_sample

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

seen, warned = [], []
warnings.showwarning = lambda message, *_: warned.append(str(message))
warnings.simplefilter("always", mallow.EstimateWarning)
batches = torch.utils.data.DataLoader(torch.from_numpy(HUMAN.astype(np.float32)), batch_size=200)
callback = lightning_callback(mallow.Monitor(HUMAN), failing_sample())
others = [ModelCheckpoint(dirpath=folder, monitor="mallow/mauve", mode="max"),
          EarlyStopping("mallow/mauve", mode="max", patience=20, check_finite=False)]
trainer = pl.Trainer(max_epochs=7, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
                     callbacks=[callback, *others], default_root_dir=folder)
trainer.fit(Shift(), batches, batches)
logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
print(json.dumps([
    [trainer.current_epoch, float(others[0].best_model_score), seen, [score.mauve for score in callback.scores],
     callback.failures, warned],
    logged, metrics_of(callback.scores[-1]),
]))
"""


def check_run(steps, best, seen, scores, failures, warned):
    """All steps of a training were made, six of whose evaluations failed."""
    assert steps == 7
    assert all(map(math.isnan, seen[:6]))
    assert seen[6:] == [pytest.approx(scores[0], rel=1e-6)]  # Lightning keeps float32
    assert best == seen[-1]  # those who choose a model by the number still find it
    assert len(failures) == 6
    for failure, part in zip(
        [text.strip().splitlines()[-1] for text in failures],
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
    [first] = [text for text in warned if "callback of mallow" in text]  # the others are in `failures`
    assert first.startswith("The callback of mallow failed, and the run goes on without its numbers: InputError: ")
    assert first.endswith(
        "Later failures are not shown: `failures` of the callback holds the traceback of each, and on_error='raise' "
        "ends the run at the first."
    )


def test_no_failure_ends_a_training_by_transformers(tmp_path):
    pytest.importorskip("accelerate", reason="needs accelerate: pip install 'mallow[train]'")
    pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", EstimateWarning)
        callback = trainer_callback(Monitor(HUMAN), failing_sample())
        every = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
        best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_mallow/mauve", "greater_is_better": True}
        trainer = make_trainer(tmp_path, [callback], max_steps=7, save_total_limit=1, **every, **best)
        trainer.train()
    seen = [entry["eval_mallow/mauve"] for entry in trainer.state.log_history if "eval_mallow/alarm" in entry]
    check_run(
        trainer.state.global_step,
        trainer.state.best_metric,
        seen,
        [score.mauve for score in callback.scores],
        callback.failures,
        [str(note.message) for note in noted],
    )


def test_no_failure_ends_a_training_by_lightning(tmp_path):
    run, logged, expected = run_program("lightning", LIGHTNING, tmp_path)
    check_run(*run)
    assert logged.keys() == expected.keys() | {"mallow/alarm"}  # of the last epoch, which has samples
    assert {name: logged[name] for name in expected} == pytest.approx(expected, rel=1e-6)  # float32


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
