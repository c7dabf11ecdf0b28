"""The engine room: who shares the processors, how often an estimator runs, and the mean of its curves."""

import threading
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from mallow import InputError, Measure, Neighbors, Quantize, Samples
from mallow.engine import cores, one_core, run_now, worker_pool
from mallow.estimate import Product
from mallow.evaluate import run_repeats, summary_values
from mallow.evaluate._run import is_safe_on_threads, mean_frontier, parts_of_a_score, reduction_of
from mallow.evidence import _systems, fits_several, generator_for, pair_points, run_systems
from mallow.theory import Frontier, Masses

SMALL = Samples(features=np.ones((3, 4))), Samples(features=np.ones((5, 4)))  # 32 numbers
several_cores = pytest.mark.skipif(cores() < 2, reason="needs two processors")


def curve(*rows):
    return Frontier(np.array([0.25, 0.5, 0.75]), *(np.array(row, float) for row in rows))


def test_the_mean_of_curves_lies_between_the_least_and_the_greatest():
    first, second = curve([3, 2, 1], [0, 1, 5]), curve([1, 2, 3], [4, 1, 1])
    mean, (low, high) = mean_frontier([first, second])
    assert (mean.p_to_mix.tolist(), mean.q_to_mix.tolist()) == ([2, 2, 2], [2, 1, 3])
    assert (low.p_to_mix.tolist(), low.q_to_mix.tolist()) == ([1, 2, 1], [0, 1, 1])
    assert (high.p_to_mix.tolist(), high.q_to_mix.tolist()) == ([3, 2, 3], [4, 1, 5])
    assert mean_frontier([first]) == (first, None)
    other = Frontier(np.array([0.5]), np.array([1.0]), np.array([1.0]))
    assert mean_frontier([first, second, other]) == (first, None)  # not on one grid


def test_random_numbers_belong_to_a_seed_and_a_purpose():
    draws = [generator_for(seed, purpose).random() for seed in (0, 1) for purpose in ("a", "b")]
    assert len(set(draws)) == 4
    assert generator_for(1, "a").random() == draws[2]


def test_memory_for_several_tasks_is_that_of_the_largest_pair(monkeypatch):
    large = Samples(features=np.ones((7, 4))), SMALL[1]  # 48 numbers
    for most, expected in ((32, True), (31, False)):
        monkeypatch.setattr(_systems, "_AT_ONCE", most)
        assert fits_several([SMALL]) == fits_several([SMALL, SMALL]) == expected
        assert not fits_several([SMALL, large])
    assert _systems._AT_ONCE == 31


def test_features_of_a_pair_have_one_width():
    x, y = pair_points(*SMALL)
    assert (x.shape, y.shape) == ((3, 4), (5, 4))
    with pytest.raises(InputError, match="must have features of the same width"):
        pair_points(SMALL[0], Samples(features=np.ones((5, 3))))
    with pytest.raises(InputError, match="`model` must"):
        pair_points(SMALL[0], Samples(features=np.ones((1, 4))))


class Counted:
    """An estimator whose masses tell which random numbers they got."""

    scale = 5.0

    def __init__(self, deterministic=None):
        self.seen = []
        if deterministic is not None:
            self.deterministic = deterministic

    def masses(self, prepared, rng):
        self.seen.append((prepared, cores(), threading.get_ident()))
        share = rng.random()
        return Masses.from_histograms([share, 1 - share], [0.5, 0.5])


@pytest.mark.parametrize(("deterministic", "runs"), [(None, 3), (False, 3), (True, 1)])
def test_an_estimator_without_randomness_runs_once(deterministic, runs):
    estimator = Counted(deterministic)
    found = run_repeats(Measure(estimator), "prepared", 3, 7)
    assert len(found) == len(estimator.seen) == runs
    assert {one[0] for one in estimator.seen} == {"prepared"}
    expected = [child.random() for child in generator_for(7, "clustering").spawn(runs)]
    assert [one.p[0] for one in found] == expected
    values = summary_values(Measure(estimator), found)
    assert list(values) == ["mauve", "frontier_integral", "midpoint"]
    assert [len(each) for each in values.values()] == [runs] * 3


@several_cores
def test_repeats_that_run_at_once_do_not_spread_their_work():
    estimator = Counted()
    begun = []

    def begin(task):
        begun.append(task)
        return run_now(task)

    run_repeats(Measure(estimator), None, 2, 0, begin=begin)
    assert len(begun) == 2
    run_repeats(Measure(estimator), None, 2, 0)  # one after the other: each may use all processors
    assert [seen[1] for seen in estimator.seen] == [cores()] * 4
    estimator.seen.clear()
    with worker_pool(2) as pool:
        run_repeats(Measure(estimator), None, 2, 0, begin=pool.submit)
    assert [seen[1] for seen in estimator.seen] == [1, 1]


def test_what_is_not_masses_is_refused():
    class Wrong(Counted):
        def masses(self, prepared, rng):
            return 1.5

    with pytest.raises(InputError, match=r"`estimator` must return Masses; Wrong\.masses returned float\."):
        run_repeats(Measure(Wrong()), None, 1, 0)


def test_only_the_own_quantiser_is_known_to_be_safe_on_threads():
    assert is_safe_on_threads(Measure())
    assert not is_safe_on_threads(Measure(Neighbors()))
    assert not is_safe_on_threads(Measure(Quantize(method=Product())))


@several_cores
def test_parts_of_a_score_share_the_processors_where_there_is_memory(monkeypatch):
    here = threading.get_ident()

    def look():
        return threading.get_ident(), cores()

    with parts_of_a_score(Measure(), SMALL) as begin:
        assert begin.own == begin.estimate == begin.repeat
        assert begin.own is not run_now
        assert {begin.own(look).result()[1] for _ in range(3)} == {1}
    with parts_of_a_score(Measure(Neighbors()), SMALL) as begin:  # it may not be safe on threads
        assert begin.own not in (run_now, begin.estimate)
        assert begin.estimate(look).result() == begin.repeat(look).result() == (here, 1)
    monkeypatch.setattr(_systems, "_AT_ONCE", 31)
    for parts in (parts_of_a_score(Measure(), SMALL), parts_of_a_score(Measure(Neighbors()), SMALL)):
        with parts as begin:
            assert (begin.own, begin.estimate, begin.repeat) == (run_now,) * 3
    monkeypatch.undo()
    with one_core(), parts_of_a_score(Measure(), SMALL) as begin:
        assert (begin.own, begin.estimate, begin.repeat) == (run_now,) * 3


def test_the_axes_are_kept_without_points():
    x, y = np.random.default_rng(0).normal(size=(2, 40, 5))
    prepared = Quantize().prepare(x, y)
    kept = reduction_of(prepared)
    assert kept.points.size == 0 < prepared.reduction.points.size
    assert np.array_equal(kept.axes, prepared.reduction.axes)
    assert reduction_of(SimpleNamespace(reduction="x")) is None
    assert reduction_of(None) is None


@several_cores
@pytest.mark.parametrize("options", [{}, {"alone": True}])
@pytest.mark.parametrize("count", [1, cores(), 2 * cores() + 1])
def test_systems_run_at_once_and_come_in_their_order(count, options):
    here = threading.get_ident()

    def task(place):
        return place, cores(), threading.get_ident() == here

    places, shared, at_home = zip(
        *run_systems([partial(task, place) for place in range(count)], [SMALL], **options), strict=True
    )
    assert places == tuple(range(count))
    assert shared == ((cores() if options or count == 1 else 1),) * count  # several at once do not spread their work
    if "alone" in options or count == 1:
        assert all(at_home)


def test_systems_run_one_by_one_where_memory_is_short(monkeypatch):
    monkeypatch.setattr(_systems, "_AT_ONCE", 31)
    here = threading.get_ident()
    assert run_systems([threading.get_ident] * 3, [SMALL]) == [here] * 3


def test_a_bar_names_each_system_that_is_done(monkeypatch):
    notes = []

    @contextmanager
    def bar(verb, total):
        notes.append((verb, total))
        yield lambda done, note: notes.append((done, note.split(",")[0]))

    monkeypatch.setattr(_systems, "bar", bar)
    run_systems([int, int], [SMALL], progress=("scoring", ["a", "b"]))
    assert notes == [("scoring", 2), (1, "a: 1/2 systems"), (2, "b: 2/2 systems")]
    notes.clear()
    run_systems([int], [SMALL])
    assert notes == [("", 0)]


def test_the_bar_says_how_many_systems_a_minute(monkeypatch):
    notes = []

    @contextmanager
    def bar(verb, total):
        yield lambda done, note: notes.append(note)

    seconds = iter([100.0, 103.0, 106.0])
    monkeypatch.setattr(_systems, "bar", bar)
    monkeypatch.setattr(_systems, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    run_systems([int, int], [SMALL], alone=True, progress=("scoring", ["a", "b"]))
    assert notes == ["a: 1/2 systems, 20/min", "b: 2/2 systems, 20/min"]
