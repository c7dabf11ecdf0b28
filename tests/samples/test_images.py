"""Images: folders and lists of paths, checked by name and header."""

import struct
import threading
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from mallow import EstimateWarning, read


def png(path, width=1, height=1):
    """A small grey image, written without Pillow."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + bytes(width)) * height)
    path.parent.mkdir(parents=True, exist_ok=True)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    return path


def test_a_folder_of_images_in_the_order_of_names(tmp_path):
    for name in ("dog/2.png", "dog/10.PNG", "cat/a b.png", "é.png", ".hidden/x.png", "dog/._2.png"):
        png(tmp_path / name)
    (tmp_path / "labels.txt").write_text("not an image")
    samples = read(tmp_path)
    assert samples.ids == ("cat/a b.png", "dog/10.PNG", "dog/2.png", "é.png")
    assert samples.images == tuple(tmp_path / name for name in samples.ids)
    assert (samples.kind, samples.skipped) == ("image", ())
    assert read(tmp_path, limit=2).ids == samples.ids[:2]


def test_linked_folders_are_followed_but_not_in_circles(tmp_path):
    png(tmp_path / "elsewhere" / "a.png")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "class").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "again").symlink_to(tmp_path / "images")
    assert read(tmp_path / "images").ids == ("class/a.png",)


def test_lists_of_paths_are_images(tmp_path, refused):
    first, second = png(tmp_path / "a.png"), png(tmp_path / "b.png")
    for source in ([second, first], [str(second), str(first)], iter([second, first])):
        assert read(source).images == (second, first)
    assert read(str(first)).images == (first,)
    assert read(["see a.png", "a text"]).kind == "text"
    refused([str(first), "gone.png"], "gone.png: no such file")
    refused(
        [first, tmp_path / "a.txt"], "a.txt: images with the suffix '.txt' are not supported; convert it to png or jpg"
    )
    refused([first, 3], "3: must be the path of an image; got 3")


def test_a_bad_image_is_refused_by_name_or_skipped_and_listed(tmp_path, refused):
    pytest.importorskip("PIL", reason="headers are checked with Pillow: pip install 'mallow[images]'")
    png(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"nonsense")
    (tmp_path / "c.heic").write_bytes(b"a picture")
    refused(
        tmp_path,
        f"{tmp_path / 'b.png'}: cannot be opened as an image. Fix it, or skip bad entries with `skip_bad=True`.",
    )
    samples = read(tmp_path, skip_bad=True)
    assert samples.ids == ("a.png",)
    assert samples.skipped == (
        f"{tmp_path / 'b.png'}: cannot be opened as an image",
        f"{tmp_path / 'c.heic'}: images with the suffix '.heic' are not supported; convert it to png or jpg",
    )


def test_each_image_is_opened_once(tmp_path, monkeypatch):
    pillow = pytest.importorskip("PIL.Image", reason="headers are checked with Pillow: pip install 'mallow[images]'")
    opened = []
    monkeypatch.setattr(pillow, "open", lambda path, open_image=pillow.open: (opened.append(path), open_image(path))[1])
    paths = [png(tmp_path / name) for name in ("a.png", "b.png", "c.png")]
    samples = read(tmp_path)
    assert opened == paths
    read(samples, limit=2)
    assert opened == paths, "samples that were read are not opened again"
    assert len(read(tmp_path, limit=1)) == 1
    assert opened == [*paths, paths[0]], "images beyond the limit are not opened"


def test_large_images_are_accepted_and_absurd_ones_are_not(tmp_path, refused):
    pytest.importorskip("PIL", reason="headers are checked with Pillow: pip install 'mallow[images]'")
    large = png(tmp_path / "a.png")
    for side, message in (
        (9_000, "accepted"),
        (10_000, "the image has 100,000,000 pixels"),
        (60_000, "the image has far more"),
    ):
        data = bytearray(large.read_bytes())
        data[16:24] = struct.pack(">II", side, side)
        data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
        large.write_bytes(data)
        if message == "accepted":
            assert len(read(tmp_path)) == 1
        else:
            refused(tmp_path, f"a.png: {message}")
            refused(tmp_path, "if you trust the file, raise `PIL.Image.MAX_IMAGE_PIXELS`")


def test_without_pillow_names_and_sizes_are_checked(tmp_path, monkeypatch, refused):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (tmp_path / "a.png").write_bytes(b"nonsense")
    assert len(read(tmp_path)) == 1
    (tmp_path / "b.png").touch()
    refused(tmp_path, "b.png: the file is empty, not an image")


def test_a_folder_without_images_says_what_it_contains(tmp_path, refused):
    refused(
        tmp_path,
        "a folder must contain images (.bmp .gif .jpeg .jpg .png .tif .tiff .webp) or recordings (.flac .wav), or texts "
        "(.txt, one text per file), but it contains no files.",
    )
    for name in "abcd":
        (tmp_path / f"{name}.log").touch()
    refused(tmp_path, "it contains a.log, b.log, c.log, …. For other texts or features, pass the path")


def test_two_threads_that_read_images_leave_the_warnings_of_mallow_on(tmp_path, monkeypatch):
    """The filters of warnings belong to the whole process, and the thread that ends last restores what it found."""
    pillow = pytest.importorskip("PIL.Image", reason="headers are checked with Pillow: pip install 'mallow[images]'")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        pillow.new("RGB", (2, 2)).save(tmp_path / name / "a.png")
    events = {name: threading.Event() for name in ("first", "second", "done")}

    def open_in_turn(path, *rest):
        events[path.parent.name].set()
        assert events["done" if path.parent.name == "second" else "second"].wait(20)
        return open_image(path, *rest)

    open_image = pillow.open
    monkeypatch.setattr(pillow, "open", open_in_turn)
    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        first = pool.submit(read, tmp_path / "first")
        assert events["first"].wait(20)
        second = pool.submit(read, tmp_path / "second")
        assert (len(first.result()), events["done"].set(), len(second.result())) == (1, None, 1)
        hiding = [entry for entry in warnings.filters if entry[0] == "ignore" and issubclass(EstimateWarning, entry[2])]
        assert [entry for entry in hiding if entry[1] is None and entry[3] is None] == []
