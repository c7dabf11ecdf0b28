"""Tables in and out with the real packages, and what the loggers send where."""

import json
import warnings

import numpy as np
import pytest

import mallow
from mallow.integrations import log_mlflow, log_tensorboard, log_trackio, log_wandb, metrics_of

from mallow.integrations import to_dataset, to_pandas, to_polars  # isort: skip

HEAVY = "is not part of the development environment: pip install"


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
        metrics_of(mallow.SamplePlan.__new__(mallow.SamplePlan))


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


def test_tensorboard_files(score, tmp_path):
    pytest.importorskip("tensorboard", reason=f"tensorboard {HEAVY} tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        log_tensorboard(score, writer, step=1)
    assert b"mallow/mauve" in next(tmp_path.iterdir()).read_bytes()


def test_wandb_offline(score, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason=f"wandb {HEAVY} wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with pytest.raises(mallow.InputError, match=r"^`run` must be a run of wandb; there is none yet\. Call wandb\.init"):
        log_wandb(score)
    with wandb.init(mode="offline", dir=tmp_path, project="mallow") as run:
        log_wandb(score, step=3)
        run.log({"loss": 1.0}, step=4)  # what belongs to a step is complete when the next one begins
        assert run.summary["mallow/verdict"] == score.verdict
        assert run.summary["mallow/mauve"] == score.mauve
    [log] = tmp_path.rglob("*.wandb")
    assert log.stat().st_size > 0


def test_mlflow_in_a_folder(score, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason=f"mlflow {HEAVY} mlflow-skinny")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    with mlflow.start_run() as run:
        log_mlflow(score, step=3)
    stored = mlflow.get_run(run.info.run_id)
    assert stored.data.metrics["mallow/mauve"] == score.mauve
    assert stored.data.tags["mallow/verdict"] == score.verdict
    [saved] = tmp_path.rglob("score-3.json")
    assert json.loads(saved.read_text())["mauve"] == score.mauve


def test_trackio_on_this_machine(score, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    trackio = pytest.importorskip("trackio", reason=f"trackio {HEAVY} trackio")
    trackio.init(project="mallow")
    log_trackio(score, step=1)
    trackio.finish()
    assert any(b"mallow/mauve" in path.read_bytes() for path in tmp_path.rglob("mallow*"))
