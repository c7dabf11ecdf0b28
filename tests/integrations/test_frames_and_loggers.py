"""Tables in and out with the real packages, and what the loggers send where."""

import warnings

import numpy as np
import pytest
from pytest import approx

import mallow
from mallow.integrations import log_tensorboard, metrics_of, to_dataset, to_pandas, to_polars
from real_packages import run_program


@pytest.fixture(scope="module")
def score():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mallow.EstimateWarning)
        return mallow.score(rng.normal(size=(300, 4)), rng.normal(0.5, 1, size=(300, 4)), repeats=1)


@pytest.mark.parametrize(
    ("package", "convert"), [("pandas", to_pandas), ("polars", to_polars), ("datasets", to_dataset)]
)
def test_samples_come_back_from_a_table(package, convert):
    pytest.importorskip(package, reason=f"needs {package}: pip install {package}")
    samples = mallow.read([{"text": "One.", "id": 1, "prompt": "p"}, {"text": "Two,\nthree.", "id": 2, "prompt": "q"}])
    again = mallow.read(convert(samples))
    assert (again.texts, again.ids, again.prompts) == (samples.texts, samples.ids, samples.prompts)
    points = mallow.Samples(features=np.arange(6.0).reshape(3, 2))
    assert np.array_equal(mallow.read(list(convert(points)["features"])).features, points.features)
    with pytest.raises(mallow.InputError, match=r"^`samples` must be Samples, or a result; got list\. Read it with"):
        convert(["a"])


def test_results_as_frames(score):
    pytest.importorskip("polars", reason="needs polars: pip install polars")
    assert to_pandas(score).equals(score.to_frame())
    assert to_polars(score)["score"].to_list() == score.to_frame()["score"].tolist()


def test_the_numbers_of_a_result(score):
    numbers = metrics_of(score, "m")
    assert numbers["m/mauve"] == score.mauve
    assert numbers["m/certified_at_most"] == score.certified["mauve"].high
    assert all(isinstance(value, float) for value in numbers.values())
    with pytest.raises(
        mallow.InputError, match=r"^`result` must be a Score, Comparison, Sweep or Track; got SamplePlan"
    ):
        metrics_of(mallow.evaluate.SamplePlan.__new__(mallow.evaluate.SamplePlan))


class Writer:
    """The two methods that a tensorboard writer is asked for."""

    def __init__(self):
        self.scalars, self.texts = {}, {}

    def add_scalar(self, name, value, step):
        self.scalars[name, step] = value

    def add_text(self, name, text, step):
        self.texts[name, step] = text


def test_tensorboard(score):
    writer = Writer()
    log_tensorboard(score, writer, step=7)
    assert writer.scalars["mallow/mauve", 7] == score.mauve
    assert writer.texts == {("mallow/verdict", 7): score.verdict}


# --- the real packages, each in a program of its own that logs the score and says what the package has stored


SCORE = """
import json
from mallow import Score
from mallow.integrations import log_mlflow, log_tensorboard, log_trackio, log_wandb
score = Score.from_json(open(folder + "/score.json").read())
"""


@pytest.fixture
def folder(score, tmp_path):
    (tmp_path / "score.json").write_text(score.to_json())
    return tmp_path


def test_tensorboard_files(score, folder):
    code = """
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter(folder) as writer:
    log_tensorboard(score, writer, step=7)
events = EventAccumulator(folder)
events.Reload()
numbers = {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}
[text] = events.Tensors("mallow/verdict/text_summary")
print(json.dumps([numbers, text.tensor_proto.string_val[0].decode()]))
"""
    numbers, verdict = run_program("tensorboard", SCORE + code, folder)
    expected = {name: [[7, approx(value, rel=1e-6)]] for name, value in metrics_of(score).items()}  # it keeps float32
    assert (numbers, verdict) == (expected, score.verdict)


def test_wandb_offline(score, folder):
    code = """
import wandb
try:
    log_wandb(score, on_error="raise")
except ValueError as error:
    message = str(error)
with wandb.init(mode="offline", dir=folder, project="mallow") as run:
    log_wandb(score, step=3)
    run.log({"loss": 1.0}, step=4)  # what belongs to a step is complete when the next one begins
    summary = {name: run.summary[name] for name in ("mallow/mauve", "mallow/verdict", "mallow/signature")}
print(json.dumps([message, summary]))
"""
    message, summary = run_program("wandb", SCORE + code, folder, WANDB_SILENT="true")
    assert message == "`run` must be a run of wandb, but there is none yet. Call wandb.init() first."
    assert list(summary.values()) == [score.mauve, score.verdict, str(score.signature)]
    [log] = folder.rglob("*.wandb")
    assert f"{score.mauve}".encode() in log.read_bytes()


def test_mlflow_in_a_folder(score, folder):
    code = """
import mlflow
mlflow.set_tracking_uri("file://" + folder + "/mlruns")
with mlflow.start_run() as run:
    log_mlflow(score, step=3)
data = mlflow.get_run(run.info.run_id).data
[point] = mlflow.MlflowClient().get_metric_history(run.info.run_id, "mallow/mauve")
print(json.dumps([data.metrics, data.tags["mallow/verdict"], point.step]))
"""
    numbers, verdict, step = run_program("mlflow", SCORE + code, folder, MLFLOW_ALLOW_FILE_STORE="true")
    assert (numbers, verdict, step) == (metrics_of(score), score.verdict, 3)
    [saved] = folder.rglob("score-3.json")
    assert mallow.Score.from_json(saved.read_text()).to_json() == score.to_json()


def test_trackio_on_this_machine(score, folder):
    code = """
import trackio
from trackio.sqlite_storage import SQLiteStorage
trackio.init(project="mallow", name="run")
log_trackio(score, step=1)
trackio.finish()
print(json.dumps(SQLiteStorage.get_logs("mallow", "run")))
"""
    [row] = run_program("trackio", SCORE + code, folder, TRACKIO_DIR=str(folder / "trackio"))
    del row["timestamp"]
    assert row == metrics_of(score) | {"mallow/verdict": score.verdict, "step": 1}


def test_a_program_that_leaves_this_machine_is_noticed(tmp_path):
    code = """
import socket
try:
    socket.create_connection(("192.0.2.1", 9), 0.1)  # an address that belongs to nobody
except OSError:
    print("{}")
"""
    with pytest.raises(AssertionError, match="network"):
        run_program("json", code, tmp_path)
