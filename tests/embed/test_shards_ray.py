"""Embedding on Ray, in processes of this machine: the same bytes; a worker that dies loses its part; what workers lack is said."""

import json
import os
import signal

import pytest

from mallow import InputError, Ray
from mallow._optional import optional
from mallow.embed import embed_shards
from mallow.models import kept_model


@pytest.fixture(scope="module")
def engine():
    """Two workers and a GPU, which Ray counts whether it is there or not; all tests use one session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray = pytest.importorskip("ray", reason="needs Ray: pip install 'mallow[ray]'")
        ray.init(
            address="local",
            num_cpus=2,
            num_gpus=1,
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            logging_level="ERROR",
            log_to_driver=False,
        )
        yield Ray(address="local", gpus=0.5)
        ray.shutdown()


def write_shards(folder, sizes):
    folder.mkdir()
    for number, size in enumerate(sizes):
        texts = [f"The text {place} of shard {number}." for place in range(size)]
        (folder / f"part-{number}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def test_the_same_bytes_as_on_this_machine(tmp_path, engine, monkeypatch):
    write_shards(tmp_path / "in", [5, 7, 1])
    monkeypatch.chdir(tmp_path)  # workers are elsewhere
    there = embed_shards("in", "there", rows=2, engine=engine)
    embed_shards("in", "here", rows=2)
    shards = sorted(path.name for path in (tmp_path / "here").glob("*.npz"))
    assert (len(shards), len(there)) == (8, 13)
    for name in shards:
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()


def test_a_worker_that_dies_costs_the_part_that_it_was_at(tmp_path, engine):
    write_shards(tmp_path / "in", [40] * 16)  # a task for each, so that its parts follow one another
    log, dead = tmp_path / "log", tmp_path / "dead"

    def lengths(texts):
        with log.open("a") as file:
            file.write(texts[0] + "\n")
        if "20 of shard 3" in texts[0] and not dead.exists():
            dead.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [[float(len(text)), 1.0] for text in texts]

    features = embed_shards(tmp_path / "in", tmp_path / "out", embedder=lengths, rows=10, engine=engine)
    assert len(features) == 640
    assert dead.exists()
    begun = log.read_text().splitlines()
    again = {line for line in begun if begun.count(line) > 1}
    # What the dead worker was at, and nothing else: the parts before it were there.
    assert again == {"The text 20 of shard 3."}
    assert len(begun) == 64 + 1


def test_what_a_worker_lacks_is_said_with_the_remedy(tmp_path, engine):
    write_shards(tmp_path / "in", [3, 3])

    class Lacking:
        name, kind = "Lacking()", "text"

        def __call__(self, texts):
            optional("no_such_package", extra="text")

    message = (
        r"in: 2 of 2 shards could not be embedded\. .*part-0\.jsonl: samples 0 to 2: no_such_package is needed for this and is not "
        r"installed: .*pip install '.*\[text\]', on all machines of the cluster; .* lacks it\. Or pass mallow\.Ray\(runtime_env="
    )
    with pytest.raises(InputError, match=message):
        embed_shards(tmp_path / "in", tmp_path / "out", embedder=Lacking(), engine=engine)


def test_a_shard_that_cannot_be_read_is_named(tmp_path, engine):
    write_shards(tmp_path / "in", [3, 3])
    (tmp_path / "in" / "part-1.jsonl").write_text("{")
    with pytest.raises(
        InputError, match=r"1 of 2 shards could not be embedded\. .*part-1\.jsonl:1: .*1 output shards? "
    ):
        embed_shards(tmp_path / "in", tmp_path / "out", embedder=lambda texts: [[1.0]] * len(texts), engine=engine)
    with pytest.raises(InputError, match=r"`gpus` must be at most what the cluster has, 1; got 2\."):
        embed_shards(tmp_path / "in", tmp_path / "gpu", engine=Ray(address="local", gpus=2))


def test_each_worker_has_its_part_of_a_gpu_and_loads_the_model_once(tmp_path, engine):
    write_shards(tmp_path / "in", [4] * 16)
    log = tmp_path / "log"

    class Model:
        name, kind = "Model()", "text"

        def __repr__(self):
            return self.name

        def load(self):
            with log.open("a") as file:
                file.write(f"{os.getpid()} {os.environ['CUDA_VISIBLE_DEVICES']}\n")
            return 1.0

        def __call__(self, texts):
            one = kept_model(lambda: repr(self), self.load)
            return [[one, float(len(text))] for text in texts]

    embed_shards(tmp_path / "in", tmp_path / "out", embedder=Model(), rows=2, engine=engine)
    loads = log.read_text().splitlines()
    assert 1 <= len(loads) <= 2
    assert len(set(loads)) == len(loads)
    assert {line.split()[1] for line in loads} == {"0"}
