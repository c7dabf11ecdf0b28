"""Engines: results in the order of the tasks, errors with a way out."""

import os
import re
import sys

import numpy as np
import pytest

import mallow
from mallow import InputError
from mallow.engine import Engine, Threads, memory_budget, open_engine, resolve_engine


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
