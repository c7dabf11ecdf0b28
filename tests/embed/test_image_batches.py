"""Images go through a network in order, in batches that fit into memory; other samples are refused before any work."""

import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow.embed import Preprocess
from mallow.embed._image_batches import checked_images, grown_batches, image_rows
from mallow.errors import InputError

pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")

AS_IS = Preprocess(size=None, layout="hwc")
RAMP = np.arange(256, dtype=np.uint8).reshape(16, 16)


def test_text_instead_of_images_is_refused(photographs, tmp_path):
    with pytest.raises(
        InputError, match=r"sample 1 is the string 'A tale of two.*…', and no such file exists\. Texts need"
    ):
        checked_images([str(photographs / "china.jpg"), "A tale of two cities" * 9])
    with pytest.raises(InputError, match=r"`samples` must be a list of images; got 'folder'\. mallow\.read"):
        checked_images("folder")
    with pytest.raises(InputError, match=r"gone\.png: no such file \(sample 0\)\. Check the path\."):
        checked_images([tmp_path / "gone.png"])
    with pytest.raises(InputError, match=r"sample 0 is 3\.5, of type float\."):
        checked_images([3.5])
    with pytest.raises(InputError, match=r"got shape \(8, 9, 3\), which looks like a single image\. Pass \[image\]\."):
        checked_images(np.zeros((8, 9, 3)))
    assert len(checked_images(np.zeros((5, 8, 9)))) == 5


@given(st.integers(1, 70))
def test_long_names_are_cut_at_sixty_characters(length):
    text = "".join(chr(97 + i % 26) for i in range(length)) + ".png"
    shown = f"'{text}'"
    shown = shown if len(shown) <= 60 else f"'{text[:56]}…'"
    with pytest.raises(InputError, match=f"the string {re.escape(shown)}, and no such file exists"):
        checked_images([text])


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_an_array_that_looks_like_one_image_is_not_taken_for_many(channels):
    one = np.zeros((8, 9, channels))
    if channels in (3, 4):
        with pytest.raises(InputError, match="which looks like a single image"):
            checked_images(one)
    else:
        assert len(checked_images(one)) == 8
    assert len(checked_images(np.zeros((8, 9, channels, 3)))) == 8


def test_axes_of_length_one_are_dropped_from_the_end():
    for shape in ((3, 5), (3, 5, 1), (3, 5, 1, 1), (3, 1, 1)):
        [(places, rows)] = grown_batches(np.ones((3, 2, 2), np.float32), lambda _, shape=shape: np.ones(shape), limit=8)
        assert (places.tolist(), rows.shape) == ([0, 1, 2], shape[:2])
    one_nan = np.ones((3, 5))
    one_nan[1, 2] = np.nan
    with pytest.raises(InputError, match="returns NaN or infinite features"):
        list(grown_batches(np.ones((3, 2, 2), np.float32), lambda _: one_nan, limit=8))


def test_pillow_is_asked_for(monkeypatch):
    for name in ("PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (checked_images, AS_IS):
        with pytest.raises(InputError, match=r"PIL is needed .*: .*pip install '.*\[images\]'"):
            call([RAMP])


class Bounded:
    """A network that runs out of memory above a number of images, and whose row is the image's first value."""

    def __init__(self, most: int, error: Exception) -> None:
        self.most, self.error, self.seen = most, error, []

    def __call__(self, batch):
        self.seen.append(len(batch))
        if len(batch) > self.most:
            raise self.error
        return batch.reshape(len(batch), -1)[:, :1]


class OutOfMemoryError(RuntimeError):
    """Named as in torch."""


FULL = [
    MemoryError(),
    OutOfMemoryError("CUDA"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: not enough memory: you tried to allocate 1 TB"
    ),
    RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    Exception("Failed to allocate memory for requested buffer of size 8"),
]


@given(n=st.integers(0, 90), most=st.integers(1, 40), limit=st.integers(1, 40), error=st.sampled_from(FULL))
def test_every_image_comes_once_in_order_within_memory(n, most, limit, error):
    network = Bounded(most, error)
    parts = list(grown_batches((np.full((1, 1, 1), i, np.float32) for i in range(n)), network, limit=limit))
    assert [place for places, _ in parts for place in places] == list(range(n))
    assert [value for _, rows in parts for value in rows[:, 0]] == list(range(n))
    assert max(network.seen, default=0) <= limit
    failed = [place for place, size in enumerate(network.seen) if size > most]
    assert not failed or max(network.seen[failed[-1] + 1 :]) <= network.seen[failed[-1]] // 2  # and never grows again


def test_batches_grow_to_the_limit():
    network = Bounded(1000, MemoryError())
    list(grown_batches(np.zeros((100, 1, 1, 1), np.float32), network, limit=32))
    assert network.seen == [8, 16, 32, 32, 12]


def test_memory_for_no_image_is_an_error():
    message = r"^Memory ran out on a single image\. Use a smaller model or image size, or `device='cpu'`\.$"
    with pytest.raises(InputError, match=message):
        list(grown_batches(np.zeros((9, 1, 1, 1), np.float32), Bounded(0, MemoryError()), limit=8))


def test_other_errors_of_the_network_stay():
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        list(grown_batches(np.zeros((9, 1, 1, 1), np.float32), Bounded(0, RuntimeError("mat1 and mat2")), limit=8))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (
            lambda batch: batch,
            r"one row of features per image, shape \(8, d\); got \(8, 3, 2, 2\)\. Choose another `output`",
        ),
        (lambda batch: batch[:1, 0, 0], r"shape \(8, d\); got \(1, 2\)"),
        (
            lambda batch: batch[:, 0, 0] * np.nan,
            r"returns NaN or infinite features\. If it runs in float16, pass `dtype='float32'`",
        ),
    ],
    ids=["maps", "rows", "nan"],
)
def test_what_a_network_returns_is_checked(network, message):
    with pytest.raises(InputError, match=message):
        list(grown_batches(np.zeros((9, 3, 2, 2), np.float32), network, limit=8))


def test_images_of_two_sizes_are_refused():
    with pytest.raises(
        InputError, match=r"image 0 has \(3, 4, 4\) and image 1 \(3, 5, 5\)\. Set `size` in Preprocess\."
    ):
        list(image_rows([np.zeros((4, 4)), np.zeros((5, 5))], Preprocess(size=None), lambda batch: batch, limit=8))


def test_decoding_stays_a_bounded_number_of_images_ahead(monkeypatch):
    loaded, most = 0, 0
    original = Preprocess.__call__

    def counted(self, image, *, label):
        nonlocal loaded
        loaded += 1
        return original(self, image, label=label)

    monkeypatch.setattr(Preprocess, "__call__", counted)
    monkeypatch.setattr("mallow.embed._image_batches.cores", lambda: 2)
    done = 0
    for places, rows in image_rows([RAMP] * 200, AS_IS, lambda batch: batch.reshape(len(batch), -1), limit=16):
        done += len(places)
        most = max(most, loaded - done)
        assert rows.shape[1] == 16 * 16 * 3
    assert done == loaded == 200
    assert most <= 2 * 16


def test_a_broken_image_ends_the_stream_with_its_name(photographs, tmp_path):
    images = [photographs / "china.jpg"] * 5 + [tmp_path / "no.png"]
    (tmp_path / "no.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"no\.png: the image cannot be read"):
        list(image_rows(images, Preprocess(size=8), lambda b: b[:, :, 0, 0], limit=8))
    with pytest.raises(InputError, match=r"image 1: an array must be"):
        list(image_rows([RAMP, np.zeros(3)], AS_IS, lambda b: b[:, :, 0, 0], limit=8))
