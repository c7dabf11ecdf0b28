"""Threads: results in order, bounded memory, and BLAS limits that are always removed."""

import sys
import threading
import time
import types
from functools import partial

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - so that its BLAS is loaded before threads are counted
import threadpoolctl
from threadpoolctl import threadpool_info, threadpool_limits

from mallow.engine import cores, one_core, ordered_map, single_threaded_blas, start, worker_pool


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_tasks(threads):
    def slow_first(task: int) -> int:
        time.sleep(0.002 * (task % 3 == 0))
        return task * task

    assert list(ordered_map(slow_first, range(20), threads)) == [task * task for task in range(20)]


@pytest.mark.parametrize(("threads", "ahead"), [(2, 2), (3, 1)])
def test_few_results_wait_to_be_consumed(threads, ahead):
    started = []
    results = ordered_map(started.append, range(100), threads, ahead=ahead)
    next(results)
    time.sleep(0.05)
    assert len(started) <= ahead * threads + 1
    assert len(list(results)) == 99


def test_tasks_run_side_by_side():
    meeting = threading.Barrier(2, timeout=20)  # it breaks if one task waits for the other to end
    assert sorted(ordered_map(lambda task: meeting.wait(), range(2), 2)) == [0, 1]


def test_errors_of_tasks_reach_the_caller():
    with pytest.raises(ZeroDivisionError):
        list(ordered_map(lambda task: 1 // task, [1, 0, 2], 2))


def test_there_is_at_least_one_core():
    assert cores() >= 1


def test_threads_of_blas_are_restored_after_overlapping_calls():
    points = np.random.default_rng(0).normal(size=(300, 300))
    seen = []

    def work(seconds: float) -> None:
        with single_threaded_blas():
            seen.append(max(blas_threads()))
            time.sleep(seconds)
            points @ points

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        workers = [threading.Thread(target=work, args=(seconds,)) for seconds in (0.02, 0.1, 0.05)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert blas_threads() == before
    assert seen == [1, 1, 1]


def test_a_worker_thread_may_leave_last():
    entered, left = threading.Event(), threading.Event()

    def work() -> None:
        with single_threaded_blas():
            entered.set()
            left.wait(10)
            assert set(blas_threads()) == {1}

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        worker = threading.Thread(target=work)
        with single_threaded_blas():
            worker.start()
            entered.wait(10)
        left.set()
        worker.join()
        assert blas_threads() == before


def test_threads_of_blas_are_restored_after_an_error():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with pytest.raises(KeyError), single_threaded_blas():
            raise KeyError
        assert blas_threads() == before


def test_a_task_of_a_pool_spreads_nothing():
    seen = set()

    def note(_: int) -> None:
        seen.add(threading.get_ident())
        time.sleep(0.002)

    def task() -> int:
        list(ordered_map(note, range(20), 2))
        start(partial(note, 0)).result()
        return cores()

    with worker_pool(3) as pool:
        assert pool.submit(task).result() == 1
    with one_core():
        assert task() == 1
    assert len(seen) == 2  # one for each


def test_a_function_that_was_started_runs_beside_its_caller():
    go = threading.Event()
    future = start(partial(go.wait, 20))
    assert not future.done()  # the caller did not wait for it
    go.set()
    assert future.result() is True


def test_an_error_ends_what_has_not_begun():
    done = []

    def work(task: int) -> None:
        if task == 1:
            raise KeyError(task)
        time.sleep(0.01)
        done.append(task)

    with pytest.raises(KeyError, match="1"):
        list(ordered_map(work, range(50), 2))
    before = len(done)  # all that had begun has ended
    time.sleep(0.05)
    assert len(done) == before < 6


def test_an_error_outside_ends_what_has_not_begun():
    done = []

    def work(task: int) -> None:
        time.sleep(0.01)
        done.append(task)

    def begin_many() -> None:
        with worker_pool(2) as pool:
            for task in range(50):
                pool.submit(work, task)
            raise KeyError

    with pytest.raises(KeyError):
        begin_many()
    assert len(done) < 10


def test_libraries_are_looked_for_again_once_more_modules_are_loaded(monkeypatch):
    """A package that is imported later may bring a BLAS of its own."""
    searches = []

    class Controller(threadpoolctl.ThreadpoolController):
        def __init__(self):
            searches.append(1)
            super().__init__()

    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", Controller)
    for name in ("brought_by_a_test", "brought_by_a_test.too"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        before = len(searches)
        for _ in range(3):
            with single_threaded_blas():
                pass
        assert len(searches) == before + 1
