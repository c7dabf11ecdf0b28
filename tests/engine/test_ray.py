"""Ray, with two emulated machines: the same bytes as threads, and tasks that are done again where a worker or a machine dies."""

import json
import os
import re
import socket
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mallow import InputError, Measure, Quantize, Ray, Threads, score
from mallow.engine import _ray, open_engine

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")

STORE = 80_000_000  # bytes, about the least that Ray takes


@pytest.fixture(scope="module")
def cluster():
    """A head and a second machine, which the last test takes away; all of it on the loopback address."""
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    settings |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    settings |= {"RAY_worker_niceness": "0"}  # Ray's 15 stops its workers where other programs keep all processors busy
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from ray import cloudpickle
            from ray.cluster_utils import Cluster

            cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not find this file

            patch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)  # it may have been imported before
            machine = {"num_cpus": 1, "num_gpus": 1, "object_store_memory": STORE, "include_dashboard": False}
            cluster = Cluster(initialize_head=True, head_node_args=machine | {"node_ip_address": "127.0.0.1"})
            cluster.second = cluster.add_node(num_cpus=1, object_store_memory=STORE, node_ip_address="127.0.0.1")
        with open_engine(Ray(address=cluster.address)):
            yield cluster
        cluster.shutdown()


@pytest.fixture
def engine(cluster):
    return Ray(address=cluster.address)


def die_once(task):
    """Kill the worker at the first attempt."""
    marker, value = task
    if value == 2 and not os.path.exists(marker):
        open(marker, "w").close()
        os._exit(1)
    return value


def large(value):
    return np.full(STORE // 3 // 8, float(value))


def slow(value):
    time.sleep(0.1)
    return value


def test_the_same_bytes_as_threads(tmp_path, engine):
    from shard_files import write_shards  # workers import this module, and do not know that one

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 8)), rng.normal(0.2, 1.0, size=(300, 8))
    folders = write_shards(tmp_path / "x", x, [100, 350]), write_shards(tmp_path / "y", y, [7])
    measure = Measure(Quantize(bins=10, sample=200))
    on_ray = score(*folders, measure=measure, repeats=1, engine=engine)
    assert on_ray.to_json() == score(*folders, measure=measure, repeats=1, engine=Threads(1)).to_json()


def test_a_calling_process_that_is_killed_in_kmeans(tmp_path, cluster):
    from killed_score import MEASURE, killed_score
    from shard_files import write_shards

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 8)), rng.normal(0.2, 1.0, size=(300, 8))
    folders = write_shards(tmp_path / "x", x, [100, 350]), write_shards(tmp_path / "y", y, [7])
    done = killed_score(*folders, tmp_path / "kept", "clustering 2", cluster.address)
    assert "clusters-0: taken from the checkpoint" in done.stderr
    assert json.loads(done.stdout) == score(*folders, measure=MEASURE, repeats=1).to_dict()


def test_a_worker_that_dies(tmp_path, engine):
    assert list(engine.map(die_once, [(str(tmp_path / "died"), value) for value in range(4)])) == [0, 1, 2, 3]
    assert (tmp_path / "died").exists()


def test_results_that_do_not_fit_the_store_go_to_the_disk(engine):
    assert [result[0] for result in engine.map(large, range(7))] == list(range(7))


def test_errors_of_tasks_are_raised_as_they_are(engine):
    with pytest.raises(ZeroDivisionError):
        list(engine.map(lambda value: 1 // value, [1, 0]))


def refuse(value):
    raise InputError(f"`value` must be another one; got {value}.")


def test_errors_with_a_way_out_stay_so(engine):
    with pytest.raises(InputError, match=r"^`value` must be another one; got 3.$"):
        list(engine.map(refuse, [3]))


def need(module):
    from mallow._optional import optional

    return optional(module, extra="tables")


def test_a_worker_without_the_extra(engine):
    with pytest.raises(InputError, match=r"pip install '.*\[tables\]'$"):
        list(engine.map(need, ["no_such_package"]))


def import_missing(value):
    import mallow_of_another_machine

    return mallow_of_another_machine


def test_a_worker_without_a_module(engine):
    message = (
        "a worker of the cluster cannot import mallow_of_another_machine. Install the same mallow[ray] on all machines"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        list(engine.map(import_missing, [1]))


def test_gpus_that_are_not_there(cluster):
    with pytest.raises(InputError, match="`gpus` must be at most what the cluster has, 1; got 2"):
        list(Ray(address=cluster.address, gpus=2).map(slow, [1]))


@pytest.mark.parametrize(
    ("options", "at_once"),
    [
        ({}, 2),
        ({"workers": 1}, 1),
        ({"workers": 9}, 2),
        ({"cpus": 0.5}, 4),
        ({"gpus": 1}, 1),
        ({"gpus": 0.25}, 2),
        ({"cpus": 0.1, "gpus": 0.25}, 4),
    ],
)
def test_as_many_tasks_are_sent_as_the_cluster_can_run_and_as_many_wait(cluster, options, at_once):
    """Of two machines with a processor each, and of one with a GPU."""
    taken = []
    results = Ray(address=cluster.address, **options).map(refuse, (taken.append(task) or task for task in range(50)))
    with pytest.raises(InputError):
        next(results)
    assert len(taken) == 2 * at_once


def test_what_answers_is_not_ray(monkeypatch):
    monkeypatch.setattr(_ray, "_WAIT", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"no Ray cluster answers at {address}: what answers there is not Ray"):
            _ray._probe(address)


def test_what_answers_speaks_another_protocol():
    grpc = pytest.importorskip("grpc")
    server = grpc.server(ThreadPoolExecutor(1))  # as Ray would be reached, but without its services
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    began = time.monotonic()
    with pytest.raises(InputError, match=rf"no Ray cluster answers at {address}: what answers there is not Ray"):
        _ray._probe(address)
    server.stop(None)
    assert time.monotonic() - began < 15


def test_a_cluster_that_answers(cluster):
    assert _ray._is_healthy(cluster.address)


def fill_the_disk(value):
    from ray.exceptions import OutOfDiskError

    raise OutOfDiskError  # what Ray raises in a task whose result fits neither its memory nor the disk


def test_a_disk_that_is_full(engine):
    with pytest.raises(InputError, match="the disk of a machine of the cluster is full, so that Ray cannot put aside"):
        list(engine.map(fill_the_disk, [1]))


def test_a_worker_that_dies_each_time(cluster):
    with pytest.raises(InputError, match="tried again and again, and its worker died each time: WorkerCrashedError"):
        list(Ray(address=cluster.address, retries=0).map(lambda value: os._exit(1), [1]))


def test_a_machine_that_dies(cluster, engine):
    values = []
    for value in engine.map(slow, range(12)):
        values.append(value)
        if value == 2:
            cluster.remove_node(cluster.second)
    assert values == list(range(12))
