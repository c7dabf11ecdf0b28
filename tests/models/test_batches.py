"""Batches: every sample once, longest first, little padding; half as many samples when memory runs out."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow.errors import InputError
from mallow.models import within_memory

LENGTHS = st.lists(st.integers(1, 60), min_size=0, max_size=80)
BUDGETS = st.integers(1, 300)
WASTES = st.floats(0, 0.5)


class OutOfMemoryError(RuntimeError):
    """Named like the error of torch, which may not be installed."""


def batches_of(lengths, budget, **options):
    """The places of each batch, if memory never runs out."""
    return [places for places, _ in within_memory(lengths, budget, len, **options)]


@given(lengths=LENGTHS, budget=BUDGETS, waste=WASTES, overhead=st.sampled_from([0, 10]))
def test_every_sample_once_longest_first_within_budget_and_waste(lengths, budget, waste, overhead):
    batches = batches_of(lengths, budget, waste=waste, overhead=overhead)
    places = [int(place) for batch in batches for place in batch]
    assert sorted(places) == list(range(len(lengths)))
    assert [lengths[place] for place in places] == sorted(lengths, reverse=True)
    for batch in batches:
        sizes = [lengths[place] for place in batch]
        cells = max(sizes) * len(sizes)
        assert len(batch) == 1 or cells <= budget
        assert cells - sum(sizes) <= max(waste * cells, overhead) + 1e-9


@given(lengths=LENGTHS, budget=BUDGETS, overhead=st.sampled_from([0, 10]))
def test_a_batch_ends_only_for_a_reason(lengths, budget, overhead):
    """Greedy: the next sample would have broken the budget or the share of padding."""
    batches = batches_of(lengths, budget, waste=0.1, overhead=overhead)
    for batch, after in itertools.pairwise(batches):
        sizes = [lengths[place] for place in [*batch, after[0]]]
        cells = sizes[0] * len(sizes)
        assert cells > budget or cells - sum(sizes) > max(0.1 * cells, overhead)


def test_equal_lengths_fill_the_budget():
    assert [len(batch) for batch in batches_of([10] * 25, 100, waste=0)] == [10, 10, 5]


@given(lengths=LENGTHS, budget=BUDGETS, memory=st.integers(60, 300))
def test_memory_that_runs_out_halves_the_batch_and_loses_nothing(lengths, budget, memory):
    attempts = []

    def compute(places):
        cells = len(places) * max(lengths[place] for place in places)
        attempts.append(cells)
        if cells > memory:
            raise OutOfMemoryError("CUDA out of memory")
        return places * 2

    doubled = dict(zip(*_flatten(within_memory(lengths, budget, compute)), strict=True))
    assert doubled == {place: 2 * place for place in range(len(lengths))}
    failed = [cells for cells in attempts if cells > memory]
    assert failed == sorted(failed, reverse=True)  # the smaller budget is kept
    assert len(failed) <= max(1, budget).bit_length()


def _flatten(parts):
    places, values = [], []
    for batch, result in parts:
        places += batch.tolist()
        values += result.tolist()
    return places, values


def test_memory_is_released_before_the_next_attempt():
    log = []

    def compute(places):
        log.append(len(places))
        if len(places) > 2:
            raise MemoryError
        return None

    assert len(list(within_memory([5] * 8, 40, compute, release=lambda: log.append("release")))) == 4
    assert log == [8, "release", 4, "release", 2, 2, 2, 2]


def test_one_sample_that_does_not_fit_is_an_error_with_the_way_out():
    def compute(places):
        raise MemoryError

    with pytest.raises(
        InputError, match=r"^Memory ran out on a single sample of length 7 \(sample 1\)\. Use a smaller model\.$"
    ):
        list(within_memory([3, 7], 100, compute, advice="Use a smaller model."))


def test_other_errors_pass_through():
    def compute(places):
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        list(within_memory([3, 7], 100, compute))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([3], 0, 0.1), r"`budget` must be an integer of at least 1; got 0\."),
        (([3, 0], 5, 0.1), r"`lengths` must be at least 1; got 0 at 1\."),
        (([3], 5, 1.0), r"`waste` must be at least 0 and below 1; got 1\.0\."),
    ],
    ids=["budget", "lengths", "waste"],
)
def test_errors(arguments, message):
    lengths, budget, waste = arguments
    with pytest.raises(InputError, match=message):
        list(within_memory(lengths, budget, np.asarray, waste=waste))


def test_overhead_is_checked():
    with pytest.raises(InputError, match=r"`overhead` must be an integer of at least 0; got -1\."):
        list(within_memory([3], 5, np.asarray, overhead=-1))


def test_needs_no_torch():
    code = (
        "import sys; import mallow.models._batches; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=25),
    budget=st.integers(1, 90),
    memory=st.integers(30, 90),
    workers=st.integers(1, 4),
)
def test_several_batches_at_a_time_give_the_same_in_the_same_order(lengths, budget, memory, workers):
    def compute(places):
        if max(lengths[place] for place in places) * len(places) > memory:
            raise MemoryError
        return [lengths[place] ** 2 for place in places]

    def flatten(parts):
        return [(int(place), value) for places, values in parts for place, value in zip(places, values, strict=True)]

    alone = flatten(within_memory(lengths, budget, compute))
    assert flatten(within_memory(lengths, budget, compute, workers=workers)) == alone


def test_each_thread_is_prepared_and_batches_run_one_at_a_time_after_memory_ran_out():
    sizes, prepared = [], []

    def compute(places):
        sizes.append(len(places))
        if len(places) > 2:
            raise MemoryError
        return places

    parts = within_memory([5] * 16, 20, compute, workers=2, prepare=lambda: prepared.append(True))
    assert [len(places) for places, _ in parts] == [2] * 8
    assert len(prepared) == 2
    with pytest.raises(InputError, match="`workers` must be an integer of at least 1; got 0"):
        list(within_memory([5], 20, compute, workers=0))
