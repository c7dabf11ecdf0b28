"""Monitors inside of training loops: the numbers of all processes add up exactly, and callbacks see each model."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from socket import create_server

import numpy as np
import pytest

import mallow
from mallow import Measure, Monitor, Quantize
from mallow.integrations import torch_metric, trainer_callback
from real_packages import run_program
from training_loops import HUMAN, make_trainer, shifted_sample

torch = pytest.importorskip("torch", reason="needs torch: pip install 'mallow[text]'")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def monitor():
    return Monitor(np.random.default_rng(0).normal(size=(400, 4)), measure=Measure(Quantize(bins=20)))


@pytest.fixture(autouse=True)
def _few_samples():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mallow.EstimateWarning)
        yield


def batches():
    return torch.from_numpy(np.random.default_rng(1).normal(0.4, 1, size=(90, 4))).split(30)


def test_parts_add_up_to_the_bits_of_one(monitor):
    parts = []
    for batch in batches():
        own = monitor.combine([])
        own.update(batch.numpy())
        parts.append(own.counted())
    alone = monitor.combine([])
    alone.update(torch.cat(batches()).numpy())
    for order in (parts, parts[::-1]):
        assert monitor.combine(order).compute().to_json() == alone.compute().to_json()
    assert monitor.n == (300, 0)  # untouched
    other = Monitor(np.random.default_rng(5).normal(size=(400, 4)), measure=Measure(Quantize(bins=20)))
    with pytest.raises(mallow.InputError, match=r"^`parts` must come from copies of this monitor"):
        other.combine(parts)
    with pytest.raises(
        mallow.InputError, match=r"^`parts` must be what `Monitor\.counted` returned; KeyError: 'digest'\.$"
    ):
        monitor.combine([b"{}"])


def test_a_metric_counts_what_the_monitor_counts(monitor):
    pytest.importorskip("torchmetrics", reason="needs torchmetrics: pip install torchmetrics")
    metric = torch_metric(monitor)
    for batch in batches():
        metric.update(batch)
    alone = monitor.combine([])
    alone.update(torch.cat(batches()).numpy())
    values = metric.compute()
    assert float(values["mallow/mauve"]) == alone.compute().mauve
    assert float(values["mallow/p_value"]) == alone.p_value
    metric.reset()
    step = metric(batches()[0])  # forward: the value of this batch, and it counts
    metric.update(batches()[1])
    metric.update(batches()[2])
    assert float(metric.compute()["mallow/mauve"]) == alone.compute().mauve
    first = monitor.combine([])
    first.update(batches()[0].numpy())
    assert float(step["mallow/mauve"]) == first.compute().mauve


OTHER = """
import sys, warnings
import numpy as np
import torch.distributed as dist
warnings.simplefilter("ignore")
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{sys.argv[1]}", rank=1, world_size=2)
from mallow import Measure, Monitor, Quantize
from mallow.integrations import torch_metric
metric = torch_metric(Monitor(np.random.default_rng(0).normal(size=(400, 4)), measure=Measure(Quantize(bins=20))))
print(repr(float(metric.compute()["mallow/mauve"])))  # it has seen nothing itself
dist.destroy_process_group()
"""


def test_two_processes_agree(monitor, monkeypatch):
    """This process and another one, connected by gloo; only this one counts."""
    pytest.importorskip("torchmetrics", reason="needs torchmetrics: pip install torchmetrics")
    import torch.distributed as dist

    with create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    more = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", OTHER, str(port)]
    other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | more)
    try:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=2)
        metric = torch_metric(monitor)
        for batch in batches():
            metric.update(batch)
        mine = float(metric.compute()["mallow/mauve"])
        printed = other.communicate(timeout=120)[0].strip()
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        other.kill()
        other.wait()
    alone = monitor.combine([])
    alone.update(torch.cat(batches()).numpy())
    assert printed == repr(mine) == repr(alone.compute().mauve)


def test_the_example_runs(tmp_path):
    """All of it, with the real packages."""
    code = f"""
import contextlib, io, json, runpy
with contextlib.redirect_stdout(io.StringIO()) as out:
    runpy.run_path({str(ROOT / "examples" / "integrations.py")!r}, run_name="__main__")
print(json.dumps(out.getvalue()))
"""
    out = run_program("lightning", code, tmp_path, WANDB_SILENT="true", TRACKIO_DIR=str(tmp_path / "trackio"))
    assert out.startswith("not installed: none\n")
    for line in (
        "pandas: (5, 2) back: 5",
        "polars: (5, 2) back: 5",
        "datasets: (5, 2) back: 5",
        "TensorBoard: 1 file",
        "wandb, offline: 1 file",
        "trackio: logged",
    ):
        assert f"{line}\n" in out
    logged, counted = (re.search(rf"{name}: (\S+)", out)[1] for name in ("MLflow", "torchmetrics"))
    assert 0 < float(logged) < 1
    assert 0 < float(counted) < 1
    for name in ("Trainer", "Lightning"):
        first, last = map(float, re.search(rf"{name}: (\S+) -> (\S+)", out).groups())
        assert first < last


def test_a_callback_scores_each_model_by_itself(monitor):
    """The callbacks of transformers are called as the Trainer calls them; examples/integrations.py trains with one."""
    pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")
    from transformers.trainer_callback import CallbackHandler, TrainerControl, TrainerState

    model = torch.nn.Linear(4, 4)
    seen = []

    def sample(own):
        assert not own.training
        seen.append(own)
        return np.random.default_rng(2).normal(0.5, 1, size=(60, 4))

    callback = trainer_callback(monitor.combine([]), sample)
    handler = CallbackHandler([callback], model, None, None, None)
    state, metrics = TrainerState(global_step=5), {"eval_loss": 1.0}
    model.train()
    for _ in range(2):
        handler.on_evaluate(None, state, TrainerControl(), metrics)
    assert (seen, model.training) == ([model, model], True)
    assert [score.n for score in callback.scores] == [(300, 60), (300, 60)]
    assert metrics["eval_mallow/mauve"] == callback.scores[-1].mauve
    assert metrics["eval_mallow/alarm"] == 1.0
    assert state.log_history[-1]["step"] == 5


def test_a_callback_warns_of_each_kind_of_caveat_once(monitor):
    pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")
    from transformers.trainer_callback import TrainerControl, TrainerState

    rng = np.random.default_rng(3)
    callback = trainer_callback(monitor.combine([]), lambda model: rng.normal(1.0, 1, size=(60, 4)))
    with warnings.catch_warnings(record=True) as held:
        warnings.simplefilter("always")
        for _ in range(3):
            callback.on_evaluate(None, TrainerState(), TrainerControl(), model=torch.nn.Linear(4, 4))
    kinds = {caveat.kind for score in callback.scores for caveat in score.caveats}
    assert len(callback.scores) == 3
    assert len(held) == len(kinds) > 0


def test_the_module_of_evaluate_has_both_sides_the_right_way_round(tmp_path, monkeypatch):
    pytest.importorskip("datasets", reason="needs datasets: pip install datasets")
    evaluate = pytest.importorskip("evaluate", reason="needs evaluate: pip install evaluate")
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path))
    module = evaluate.load(str(ROOT / "examples" / "evaluate_module" / "mallow"), cache_dir=str(tmp_path))
    rng = np.random.default_rng(0)
    model, human = rng.normal(0.5, 0.5, size=(150, 4)), rng.normal(size=(250, 4))
    human, model = human.astype(np.float32), model.astype(np.float32)
    with pytest.raises(ValueError, match="Mismatch in the number of"):
        module.compute(predictions=model.tolist(), references=human.tolist(), repeats=1)
    values = module.compute(predictions=model.tolist(), references=human[:150].tolist(), repeats=1)
    expected = mallow.score(human[:150].tolist(), model.tolist(), repeats=1)
    assert values["mauve"] == expected.mauve
    assert values["signature"] == str(expected.signature)
    assert (
        values["self_score"] == expected.self_score["mauve"]
    )  # of the reference, which differs if the sides are swapped
    assert values["self_score"] != mallow.score(model.tolist(), human[:150].tolist(), repeats=1).self_score["mauve"]


def test_an_attached_callback_logs_through_its_trainer(tmp_path):
    """All that listens to the log of a Trainer hears the numbers, once per evaluation."""
    pytest.importorskip("accelerate", reason="needs accelerate: pip install 'mallow[train]'")
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'mallow[text]'")

    heard_logs = []

    class Heard(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):
            heard_logs.append(dict(logs))

    callback = trainer_callback(Monitor(HUMAN, measure=Measure(Quantize(bins=20))), shifted_sample)
    trainer = make_trainer(tmp_path, [Heard()], num_train_epochs=2, eval_strategy="epoch", save_strategy="no")
    assert callback.attach(trainer) is trainer
    trainer.train()
    numbers = [logs for logs in heard_logs if "eval_mallow/mauve" in logs]
    assert [logs["eval_mallow/mauve"] for logs in numbers] == [score.mauve for score in callback.scores]
    assert len(numbers) == 2
    assert numbers[0]["eval_mallow/certified_at_most"] == callback.scores[0].certified["mauve"].high < 0.5
    assert numbers[0]["eval_mallow/p_value"] < 0.05
    steps = [logs["step"] for logs in trainer.state.log_history if "eval_mallow/mauve" in logs]
    assert steps == sorted(set(steps))
