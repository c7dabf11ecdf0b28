"""Other devices: exactly the labels of this processor, or a message that says why not."""

import sys
import warnings

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mallow
from mallow import InputError, Measure, Monitor, Quantize
from mallow.estimate import _kmeans, lloyd
from mallow.estimate._device import Device, _is_exact, open_device
from mallow.estimate._nearest import nearest_centres

NAMES = ["torch:cpu", "array_api_strict"]
DEVICES = {name: open_device(name) for name in NAMES}
# Devices without float64 (Apple's) or without exact float32 (TF32 by default).
HALVES = [Device("half", array_api_strict, None, frozenset({dtype})) for dtype in ("float32", "float64")]


class Bfloat16:
    """A namespace that keeps 8 bits of a float32, as some devices do in products."""

    def __getattr__(self, name):
        return getattr(array_api_strict, name)

    def asarray(self, array, device=None):
        if array.dtype == np.float32:
            array = (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        return array_api_strict.asarray(array)


def clouds(draw):
    """Few different coordinates: many equal points, and many points half-way between two centres."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size, width, most = draw(st.integers(2, 60)), draw(st.integers(1, 5)), draw(st.sampled_from([1, 3, 50, 10**6]))
    return rng.integers(-most, most, (size, width), endpoint=True).astype(
        draw(st.sampled_from([np.float32, np.float64]))
    )


@settings(max_examples=25)
@given(st.data())
def test_every_device_finds_the_same_nearest_centres(data):
    points, centres = clouds(data.draw), clouds(data.draw)
    centres = np.resize(centres, (len(centres), points.shape[1]))
    if data.draw(st.booleans()):
        points[0] *= points.dtype.type(1e20)  # so far that it has a grid of its own
    labels = nearest_centres(points, centres)
    for device in (*DEVICES.values(), *HALVES):
        assert np.array_equal(nearest_centres(points, centres, device=device), labels)


@pytest.mark.parametrize("small", [0, _kmeans.SMALL], ids=["float32", "float64"])
@settings(max_examples=25)
@given(st.data())
def test_every_device_clusters_alike(small, data):
    points, bins = clouds(data.draw), data.draw(st.integers(1, 40))
    weights = np.random.default_rng(bins).integers(1, 4, len(points)) if data.draw(st.booleans()) else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_kmeans, "SMALL", small)
        runs = [
            lloyd(points, bins, rng=np.random.default_rng(0), weights=weights, device=device)
            for device in (None, *DEVICES.values(), *HALVES)
        ]
    for run in runs[1:]:
        assert np.array_equal(run.labels, runs[0].labels)
        assert run.centres.tobytes() == runs[0].centres.tobytes()
        assert (run.objective, run.iterations) == (runs[0].objective, runs[0].iterations)


@pytest.mark.parametrize("name", NAMES)
def test_a_score_has_the_same_bytes_and_the_same_signature(name):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 20)), rng.normal(0.3, 1.0, size=(300, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mallow.EstimateWarning)  # few samples
        plain = mallow.score(x, y, measure=Measure(Quantize(bins=20)), repeats=1)
        there = mallow.score(x, y, measure=Measure(Quantize(bins=20, device=name)), repeats=1)
    assert there.to_json() == plain.to_json()
    assert Quantize(device=name) == Quantize()
    book = Quantize(bins=20, device=name).fit(x)
    assert np.array_equal(book.labels(y, device=name), book.labels(y))
    assert np.array_equal(Quantize(codebook=book, device=name)(x, y).p, Quantize(codebook=book)(x, y).p)
    here, elsewhere = (Monitor(x, measure=Measure(Quantize(bins=10, device=device))) for device in (None, name))
    elsewhere.update(y)
    here.merge(elsewhere)  # it takes what was counted on another device
    assert here.counts.sum() == 300


@pytest.mark.parametrize(("name", "rows"), [(name, rows) for name in NAMES for rows in (1, 1024, 20_000)])
def test_blocks_do_not_matter(name, rows):
    rng = np.random.default_rng(rows)
    points, centres = rng.normal(size=(rows, 8)).astype(np.float32), rng.normal(size=(30, 8)).astype(np.float32)
    assert np.array_equal(nearest_centres(points, centres, device=DEVICES[name]), nearest_centres(points, centres))


def test_a_precision_that_drops_bits_is_noticed():
    rounding = Device("bfloat16", Bfloat16(), None, frozenset())
    assert [_is_exact(rounding, dtype) for dtype in ("float32", "float64")] == [False, True]
    assert [_is_exact(DEVICES["torch:cpu"], dtype) for dtype in ("float32", "float64")] == [True, True]


def test_a_device_without_exact_products_is_refused(monkeypatch):
    monkeypatch.setattr("mallow.estimate._device._is_exact", lambda *_: False)
    with pytest.raises(
        InputError, match=r"'torch:cpu' multiplies integers exactly neither .* leave out `device` to use this"
    ):
        open_device("torch:cpu")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", r"`device` must be None or one of cpu, cuda, mps, xpu, torch:DEVICE, .*; got 'gpu'\.$"),
        ("torhc:cpu", r"got 'torhc:cpu'\. Did you mean torch\?$"),
        (0, r"`device` must be None or one of .*; got 0\.$"),
    ],
)
def test_unknown_names_are_refused_at_once(name, message):
    with pytest.raises(InputError, match=message):
        Quantize(device=name)


@pytest.mark.parametrize("name", ["torch:nowhere", "array_api_strict:nowhere"])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(
        InputError,
        match=r"`device` must be one that (torch|array_api_strict) can use here; got .*nowhere.*Leave it out to use",
    ):
        Quantize(bins=2, device=name)(np.eye(5), np.eye(5))


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "array_api_compat.cupy", None)
    with pytest.raises(InputError, match=r"cupy is needed for 'cupy:0' and is not installed: pip install cupy-cuda12x"):
        open_device("cupy:0")
    monkeypatch.setitem(sys.modules, "array_api_compat.torch", None)
    with pytest.raises(InputError, match=r"torch is needed for 'cuda' and .*: .*pip install '.*\[devices\]'"):
        open_device("cuda")
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(InputError, match=r"array_api_compat is needed .*: .*pip install '.*\[devices\]'"):
        open_device("cuda")
