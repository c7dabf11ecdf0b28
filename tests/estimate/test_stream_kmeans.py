"""k-means in chunks: the bits of `lloyd`, however points are cut, wherever chunks are, and after an interruption."""

import errno
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mallow.engine._held as held
import mallow.engine._passes as passes_module
import mallow.estimate._kmeans as kmeans
import mallow.estimate._kmeans as seeding
import mallow.estimate._stream_kmeans as chunked
import mallow.estimate._stream_points as stream_points
from mallow import InputError, Threads
from mallow.engine import Passes
from mallow.estimate._kmeans import lloyd
from mallow.estimate._row_order import hash_rows
from mallow.estimate._stream_kmeans import ChunkedPoints
from mallow.estimate._stream_pca import View
from mallow.estimate._stream_points import hold_points
from mallow.samples import Shards


def in_chunks(points, cuts, passes, *, device=None):
    """The points, in chunks that begin at these rows."""
    keys = hash_rows(points, points.dtype, 1)
    view = View(tuple(range(len(cuts) + 1)), points.dtype, keys, None, False)
    shards = [Shards.from_array(part, "x") for part in np.split(points, sorted(cuts))]
    return ChunkedPoints(hold_points(passes, "points", shards, view, None), device)


def cluster(points, cuts, bins, *, seed=0, engine=None, max_iter=40, device=None):
    passes = Passes(engine or Threads(1), "work")
    own = in_chunks(points, cuts, passes, device=device)
    return own.cluster(passes, "clusters-0", bins, rng=np.random.default_rng(seed), max_iter=max_iter)


def assert_same(one, other):
    assert one.centres.dtype == other.centres.dtype
    assert np.array_equal(one.centres, other.centres)
    assert np.array_equal(one.labels, other.labels)
    assert (one.objective, one.iterations) == (other.objective, other.iterations)
    assert one.grid.origin.tobytes() == other.grid.origin.tobytes()
    assert (one.grid.exponent, one.grid.fine) == (other.grid.exponent, other.grid.fine)


def blobs(n, width, dtype=np.float32, *, spread=1.0, copies=0, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(8, width))[rng.integers(8, size=n)] * 5 + spread * rng.normal(size=(n, width))
    points[:copies] = points[-1]
    return points.astype(dtype)


@given(
    n=st.integers(2, 400),
    width=st.integers(1, 9),
    bins=st.integers(1, 40),
    cuts=st.sets(st.integers(1, 399), max_size=4),
    copies=st.integers(0, 30),
    dtype=st.sampled_from([np.float32, np.float64]),
    max_iter=st.sampled_from([1, 2, 40]),
    small=st.sampled_from([0, 2**25]),  # whether the grid is coarse
)
@settings(max_examples=25, deadline=None)
def test_any_chunks_give_the_bits_of_one_array(n, width, bins, cuts, copies, dtype, max_iter, small):
    points = blobs(n, width, dtype, copies=min(copies, n // 2))
    with pytest.MonkeyPatch.context() as patch:
        for module in (chunked, kmeans):
            patch.setattr(module, "SMALL", small)
        patch.setattr(stream_points, "_LEAST", 64)
        whole = lloyd(points, bins, rng=np.random.default_rng(0), max_iter=max_iter)
        assert_same(cluster(points, {cut for cut in cuts if cut < n}, bins, max_iter=max_iter), whole)


def test_tight_clusters_need_the_fine_grid(monkeypatch):
    for module in (chunked, kmeans):
        monkeypatch.setattr(module, "SMALL", 0)
    points = blobs(600, 4, spread=1e-4)
    whole = lloyd(points, 20, rng=np.random.default_rng(0))
    assert whole.grid.fine  # the coarse one was tried first
    assert_same(cluster(points, {100, 350}, 20), whole)


@pytest.mark.parametrize("small", [0, 2**25])
def test_empty_bins_are_filled_alike(monkeypatch, small):
    for module in (chunked, kmeans):
        monkeypatch.setattr(module, "SMALL", small)
    first = seeding.spread_centres

    def crowd(rows, masses, squares, bins, rng, workers):
        return np.repeat(first(rows, masses, squares, bins, rng, workers)[:1], bins, axis=0)

    monkeypatch.setattr(seeding, "spread_centres", crowd)
    monkeypatch.setattr(chunked, "spread_centres", crowd)
    points = blobs(500, 5)
    points[[7, 250, 260, 499]] = 1.5 * np.abs(points).max()  # copies that are farthest: all of them go to one bin
    whole = lloyd(points, 25, rng=np.random.default_rng(0))
    assert np.bincount(whole.labels, minlength=25).all()
    assert_same(cluster(points, {3, 200, 499}, 25), whole)


def test_on_another_device():
    pytest.importorskip("array_api_compat")
    points = blobs(300, 6)
    whole = lloyd(points, 12, rng=np.random.default_rng(0))
    assert_same(cluster(points, {100}, 12, device="torch:cpu"), whole)


# --- beyond the memory


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setenv("MALLOW_MEMORY", "10kB")


def test_points_beyond_the_memory_go_to_the_disk(little_memory, tmp_path, monkeypatch):
    written = []
    write = held._write
    monkeypatch.setattr(held, "_write", lambda *own: written.append(own[2]) or write(*own))
    points = blobs(400, 7)
    engine = Threads(2, checkpoint=str(tmp_path))
    assert_same(cluster(points, {50, 300}, 10, engine=engine), lloyd(points, 10, rng=np.random.default_rng(0)))
    assert written == [400 * 7 * 4, 400 * 8 * 8]  # points, and integers on the fine grid
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []  # files without a name: nothing is left


def test_a_disk_that_is_too_small(little_memory, tmp_path, monkeypatch):
    message = (
        f"{tmp_path}: points to cluster do not fit the memory allowed (1e-05 GB) and take 1.12e-05 GB here instead: only 5e-06 GB "
        "are free. Free some space, name a folder on a larger disk (--checkpoint, or TMPDIR)"
    )
    monkeypatch.setattr(held.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 5000}))
    with pytest.raises(InputError, match=re.escape(message)):
        cluster(blobs(400, 7), {50}, 10, engine=Threads(1, checkpoint=str(tmp_path)))


def test_a_disk_that_becomes_full(little_memory, tmp_path, monkeypatch):
    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def tell(self):
            return 0

        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(held.tempfile, "TemporaryFile", lambda dir: Full())
    with pytest.raises(InputError, match=r"GB here instead: No space left on device\. Free some space"):
        cluster(blobs(400, 7), {50}, 10, engine=Threads(1, checkpoint=str(tmp_path)))


# --- interruptions


class InterruptedWorkError(Exception):
    pass


@pytest.mark.parametrize("small", [0, 2**25])
@pytest.mark.parametrize("spread", [1.0, 1e-4])
def test_every_round_is_kept_and_continued(tmp_path, monkeypatch, caplog, spread, small):
    """Interrupt in round after round: each call does one more round, and the end is the same."""
    monkeypatch.setattr(passes_module, "_ROUND", -1.0)
    for module in (chunked, kmeans):
        monkeypatch.setattr(module, "SMALL", small)
    points = blobs(500, 4, spread=spread)
    whole = lloyd(points, 20, rng=np.random.default_rng(0))
    engine = Threads(1, checkpoint=str(tmp_path))
    assign = ChunkedPoints._assign
    calls = []

    def fragile(self, rows, centres, before):
        calls.append(rows.grid.fine)
        if len(calls) == 3:
            raise InterruptedWorkError
        return assign(self, rows, centres, before)

    monkeypatch.setattr(ChunkedPoints, "_assign", fragile)
    interruptions = 0
    while True:
        calls.clear()
        try:
            found = cluster(points, {100, 350}, 20, engine=engine)
            break
        except InterruptedWorkError:
            interruptions += 1
            assert interruptions < 40
    assert_same(found, whole)
    assert interruptions >= 2
    rounds = [
        int(one) for one in re.findall(r"clusters-0: continuing from the checkpoint, after round (\d+)", caplog.text)
    ]
    assert len(rounds) == interruptions
    assert rounds == sorted(rounds)
    assert rounds[-1] > 1


def test_an_error_keeps_the_last_round(tmp_path, monkeypatch, caplog):
    assert passes_module._ROUND > 1  # seconds: no round is kept for its time
    points = blobs(500, 4)
    engine = Threads(1, checkpoint=str(tmp_path))
    assign = ChunkedPoints._assign
    calls = []

    def fragile(self, rows, centres, before):
        calls.append(0)
        if len(calls) == 5:
            raise InterruptedWorkError
        return assign(self, rows, centres, before)

    monkeypatch.setattr(ChunkedPoints, "_assign", fragile)
    with pytest.raises(InterruptedWorkError):
        cluster(points, {100}, 20, engine=engine)
    monkeypatch.setattr(ChunkedPoints, "_assign", assign)
    assert_same(cluster(points, {100}, 20, engine=engine), lloyd(points, 20, rng=np.random.default_rng(0)))
    assert "clusters-0: continuing from the checkpoint, after round 4" in caplog.text
