"""Memory that runs out: the error is recognised on every device, and the next attempt has half as many items."""

import gc
import itertools
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow.errors import InputError
from mallow.models import halve_on_memory_error, ran_out_of_memory


class OutOfMemoryError(RuntimeError):
    """Named like the error of torch, which may not be installed."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (OutOfMemoryError("anything"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: not enough memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 400 bytes."), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"), True),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("size mismatch"), False),
        (ValueError("out of memory"), False),
        (type("Fail", (Exception,), {})("Failed to allocate memory for requested buffer"), True),
    ],
    ids=["memory", "class", "cpu", "cpu-older", "mps", "cublas", "other", "value", "onnxruntime"],
)
def test_which_errors_mean_memory(error, expected):
    assert ran_out_of_memory(error) is expected


@given(size=st.integers(1, 100), room=st.integers(1, 100), kind=st.sampled_from([list, tuple, np.array]))
def test_the_first_items_that_fit_are_computed_after_halving(size, room, kind):
    attempts = []

    def compute(items):
        attempts.append(len(items))
        if len(items) > room:
            raise MemoryError
        return list(items)

    count, result = halve_on_memory_error(compute, kind(range(size)))
    assert result == list(range(count))
    assert count == attempts[-1] <= room
    assert attempts[0] == size
    assert all(after == before // 2 for before, after in itertools.pairwise(attempts))


def test_what_the_failed_attempt_held_is_gone_before_the_next():
    class Tensor:
        pass

    held, log = [], []

    def compute(items):
        assert all(reference() is None for reference in held)
        tensor = Tensor()
        held.append(weakref.ref(tensor))
        log.append(len(items))
        if len(items) > 2:
            raise MemoryError(tensor)
        return "done"

    gc.disable()  # reference counts alone must do it
    try:
        assert halve_on_memory_error(compute, [0] * 8, release=lambda: log.append("release")) == (2, "done")
    finally:
        gc.enable()
    assert log == [8, "release", 4, "release", 2]


def test_a_single_item_that_does_not_fit_is_an_error_with_the_way_out():
    def compute(items):
        raise OutOfMemoryError("CUDA out of memory")

    with pytest.raises(InputError, match=r"^Memory ran out on a single image\. Use a smaller one\.$") as caught:
        halve_on_memory_error(compute, [1, 2, 3], item="image", advice="Use a smaller one.")
    assert isinstance(caught.value.__cause__, OutOfMemoryError)


def test_other_errors_pass_through():
    def compute(items):
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match=r"^shapes do not match$"):
        halve_on_memory_error(compute, [1, 2])
