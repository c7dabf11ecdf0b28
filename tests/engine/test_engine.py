"""Engines: results in the order of the tasks, errors with a way out."""

import os
import re
import sys

import numpy as np
import pytest

import mallow
from mallow import InputError
from mallow.engine import Engine, Threads, _engine, memory_budget, open_engine, resolve_engine


def square(value):
    return value * value


def test_threads_give_results_in_the_order_of_tasks():
    for threads in (1, 2, 3, None):
        assert list(Threads(threads).map(square, range(50))) == [value * value for value in range(50)]


def test_few_results_wait_to_be_consumed():
    taken = []
    tasks = (taken.append(task) or task for task in range(100))
    results = Threads(2).map(square, tasks)
    next(results)
    assert len(taken) <= 6


def test_names_stand_for_engines():
    assert resolve_engine(None) == Threads()
    assert resolve_engine(Threads(1)) == Threads(1)
    assert resolve_engine("ray").address is None
    assert isinstance(resolve_engine("ray"), Engine)


def test_ray_must_be_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in ("ray", "ray://head:10001"):
        with pytest.raises(InputError, match=rf"the engine '{name}' needs ray, which is not installed: .*\[ray\]"):
            resolve_engine(name)
    points = np.random.default_rng(0).normal(size=(4, 8))  # so few rows need no engine
    with pytest.raises(InputError, match="needs ray, which is not installed"):
        mallow.score(points, points, engine="ray")


class OneByOne:
    """What a user may bring."""

    name = "one by one"

    def map(self, function, tasks):
        return map(function, tasks)


def test_an_engine_of_ones_own_is_used_as_it_is():
    with open_engine(OneByOne()) as engine:
        assert list(engine.map(square, [2, 3])) == [4, 9]


@pytest.mark.parametrize("engine", ["spark", 3, np.zeros(2)])
def test_other_engines_are_refused(engine):
    with pytest.raises(InputError, match=re.escape("`engine` must be None, 'ray', ")):
        resolve_engine(engine)


def test_no_cluster_answers():
    from mallow import Ray

    for address in ("ray://127.0.0.1:9", "127.0.0.1:9"):
        with pytest.raises(InputError, match=rf"no Ray cluster answers at {address}: .*Check the address"):
            next(Ray(address=address).map(square, [1]))
    with pytest.raises(
        InputError, match="must be the address of a cluster, such as ray://host:10001; got 'ray://head'"
    ):
        next(resolve_engine("ray://head").map(square, [1]))
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpus": 0}, "`cpus` must be a finite number above 0; got 0"),
        ({"gpus": -1}, "`gpus` must be a finite number above 0; got -1"),
        ({"workers": 0}, "`workers` must be an integer of at least 1; got 0"),
        ({"retries": -1}, "`retries` must be an integer of at least 0; got -1"),
        ({"store": 1000}, "`store` must be an integer of at least 80000000; got 1000"),
    ],
)
def test_options_of_ray_are_checked(options, message):
    from mallow import Ray

    with pytest.raises(InputError, match=re.escape(message)):
        Ray(**options)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4000000000", 4 * 10**9), ("1.5 kb", 1500), ("512MiB", 2**29), (" 3 MiB ", 3 * 2**20), ("0.5K", 500)]
    + [(f"2{unit}", 2 * 1000**power) for power, unit in enumerate(("B", "KB", "MB", "GB", "TB"))]
    + [(f"2{unit}", 2 * 1024**power) for power, unit in enumerate(("", "KiB", "MiB", "GiB", "TiB"))],
)
def test_the_memory_that_data_may_take_in_every_unit(monkeypatch, text, size):
    monkeypatch.setenv("MALLOW_MEMORY", text)
    assert memory_budget() == size


@pytest.mark.parametrize("text", ["0", "0GB", "-1", "4PB", "much", "1e9", "4 G B"])
def test_what_is_no_amount_of_memory_is_refused(monkeypatch, text):
    monkeypatch.setenv("MALLOW_MEMORY", text)
    with pytest.raises(InputError, match=rf"^MALLOW_MEMORY must be a number of bytes, such as .*; got '{text}'\.$"):
        memory_budget()


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ("0::/", {"memory.max": "1000000"}, [10**6]),  # in a container
        ("0::/jobs/one", {"memory.max": "max", "jobs/memory.max": "500", "jobs/one/memory.max": "900"}, [500, 900]),
        ("3:cpu:/x\n5:memory:/docker/1", {"memory/memory.limit_in_bytes": "700", "cpu/x/memory.max": "1"}, [700]),
        ("0::/gone", {}, []),
        (None, {}, []),
    ],
)
def test_the_memory_that_a_control_group_allows(tmp_path, own, limits, expected):
    files = {f"sys/fs/cgroup/{name}": text for name, text in limits.items()}
    for name, text in (files if own is None else files | {"proc/self/cgroup": own}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert sorted(_engine._group_limits(tmp_path)) == expected


def test_without_a_setting_data_may_take_half_of_the_memory(monkeypatch):
    """Of the machine or, if that is less, of the control group; of 8 GB where the system does not say."""
    monkeypatch.setenv("MALLOW_MEMORY", " ")
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limits, size in (([], machine), ([3001, 5000], 3001), ([2 * machine], machine)):
        monkeypatch.setattr(_engine, "_group_limits", lambda root, limits=limits: limits)
        assert memory_budget() == size // 2
    monkeypatch.delattr(os, "sysconf")
    assert memory_budget() == 4 * 10**9
