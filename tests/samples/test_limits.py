"""Sizes: a small file that becomes a large one, a line without an end, pipes and devices. An answer, not a hang."""

import gzip
import io
import json
import os
import struct
import threading
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow import InputError, read
from mallow.samples import Limits

SMALL = Limits(line_mb=0.001, depth=3, wait=0.1)


# --- lines


@pytest.mark.parametrize("suffix", [".jsonl", ".txt", ".jsonl.gz"])
def test_a_long_line_is_refused_or_skipped(tmp_path, refused, suffix):
    entry = (lambda text: json.dumps({"text": text})) if "jsonl" in suffix else str
    lines = "\n".join([entry("a"), entry("b" * 5000), entry("c"), entry("d" * 1001)])
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress(lines.encode()) if suffix.endswith(".gz") else lines.encode())
    message = "the line is longer than 0.001 MB; allow longer ones with `limits=Limits(line_mb=…)`"
    refused(path, f"{path}:2: {message}", limits=SMALL)
    samples = read(path, limits=SMALL, skip_bad=True)
    assert samples.texts == ("a", "c")
    assert samples.skipped == (f"{path}:2: {message}", f"{path}:4: {message}")
    assert len(read(path, limits=Limits(line_mb=0.006))) == 4
    assert len(read(path)) == 4


@given(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=8), longest=st.integers(1, 25))
def test_lines_of_every_length_keep_their_numbers(tmp_path_factory, sizes, longest):
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_text("".join("x" * size + "\n" for size in [1, *sizes]))
    samples = read(path, skip_bad=True, limits=Limits(line_mb=longest / 1e6))
    kept = [size for size in [1, *sizes] if 0 < size <= longest]
    assert [len(text) for text in samples.texts] == kept
    long = [line for line in samples.skipped if "longer than" in line]
    assert long == [
        f"{path}:{number}: the line is longer than {longest / 1e6:g} MB; allow longer ones with "
        "`limits=Limits(line_mb=…)`"
        for number, size in enumerate([1, *sizes], start=1)
        if size > longest
    ]


def test_a_line_that_is_too_long_is_never_in_memory(tmp_path, refused):
    path = tmp_path / "a.txt"
    with path.open("wb") as stream:
        for _ in range(60):
            stream.write(b"a" * 1_000_000)
    tracemalloc.start()
    try:
        refused(path, "a.txt:1: the line is longer than 1 MB", limits=Limits(line_mb=1))
        refused(path, "contains no valid samples", limits=Limits(line_mb=1), skip_bad=True)
        assert tracemalloc.get_traced_memory()[1] < 8e6
    finally:
        tracemalloc.stop()


def test_an_entry_of_a_csv_file_over_many_lines(tmp_path, refused):
    (tmp_path / "a.csv").write_text('text\n"' + "a\n" * 3000 + '"\nshort\n')
    for skip_bad in (False, True):  # where it ends is not known, so that it cannot be skipped
        message = "a.csv:2: the entry is longer than 0.001 MB. Is a quotation mark missing? Or allow longer ones with"
        refused(tmp_path / "a.csv", message, limits=SMALL, skip_bad=skip_bad)
    assert len(read(tmp_path / "a.csv")) == 2


# --- depth


def test_deep_json_is_refused_or_skipped(tmp_path, refused):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "x": [[1]]}\n{"text": "b", "x": [[[1]]]}\n{"text": "[[[[[[", "x": "\\"[[["}\n')
    refused(
        path,
        "a.jsonl:2: lists and objects must be nested at most 3 deep; allow more with `limits=Limits(",
        limits=SMALL,
    )
    assert read(path, limits=SMALL, skip_bad=True).texts == ("a", "[[[[[[")
    assert len(read(path)) == 3
    path.write_text('{"text": "a", "x": ' + "[" * 300_000 + "]" * 300_000 + "}")  # more than any Python reads
    refused(path, "nested at most 100 deep")
    refused(path, "invalid JSON: ", limits=Limits(depth=1_000_000))


# --- expansion


def bomb_npz(path, megabytes=100):
    np.savez_compressed(path, features=np.zeros((megabytes, 125_000)))


def test_a_compressed_array_that_becomes_a_thousand_times_larger(tmp_path, refused):
    bomb_npz(tmp_path / "a.npz")
    tracemalloc.start()
    try:
        refused(
            tmp_path / "a.npz", "a.npz: expands to more than 100 times its size, 100 MB or more from 0.10 MB. If you"
        )
        assert tracemalloc.get_traced_memory()[1] < 8e6
    finally:
        tracemalloc.stop()
    assert read(tmp_path / "a.npz", limits=Limits(expansion=2000)).features.shape == (100, 125_000)


def test_compressed_texts_that_become_a_thousand_times_larger(tmp_path, refused):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress((b"a" * 999 + b"\n") * 80_000))
    refused(tmp_path / "a.txt.gz", "a.txt.gz: expands to more than 100 times its size, 64 MB or more from 0.")
    refused(tmp_path / "a.txt.gz", "`limits=Limits(expansion=…)`", skip_bad=True)
    assert len(read(tmp_path / "a.txt.gz", limits=Limits(expansion=2000))) == 80_000
    assert len(read(tmp_path / "a.txt.gz", limit=5)) == 5  # nothing after the limit is read


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_parquet_file_that_stores_one_text_for_many_rows(tmp_path, refused, dictionary):
    arrow = pytest.importorskip("pyarrow", reason="parquet needs pyarrow: pip install 'mallow[tables]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    column = arrow.DictionaryArray.from_arrays(arrow.array(np.zeros(500, np.int32)), arrow.array(["a" * 200_000]))
    table = arrow.table({"text": column if dictionary else column.cast(arrow.string())})
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd")
    refused(tmp_path / "a.parquet", "a.parquet: expands to more than 100 times its size, 64 MB or more from 0.")


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".txt.gz", ".eval"])
def test_what_a_file_expands_to_is_counted_to_the_byte(tmp_path, monkeypatch, refused, suffix):
    """Against the bytes of the file or, in an archive, of its members."""
    monkeypatch.setattr("mallow.samples._value_checks.ALWAYS_ALLOWED", 10)
    path, text = tmp_path / f"a{suffix}", "a" * 4999
    if suffix == ".parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"text": [text, text], "id": [1, 2]}), path, compression="zstd")
        size, stored = 2 * len(text) + 16, path.stat().st_size  # a number counts as eight bytes
    elif suffix == ".txt.gz":
        path.write_bytes(gzip.compress(text.encode() + b"\n"))
        size, stored = len(text) + 1, path.stat().st_size
    else:
        if suffix == ".npz":
            np.savez_compressed(path, features=np.zeros((50, 9)), ids=np.full(50, "b"), unused=np.zeros(9999))
        else:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for number in range(3):
                    archive.writestr(f"samples/{number}.json", json.dumps({"output": {"completion": text}}))
        with zipfile.ZipFile(path) as archive:
            used = [one for one in archive.infolist() if one.filename != "unused.npy"]
            size, stored = sum(one.file_size for one in used), sum(one.compress_size for one in used)
    assert size > stored > 1
    refused(path, "expands to more than", limits=Limits(expansion=(size - 0.5) / stored))
    assert len(read(path, limits=Limits(expansion=size / stored + 1e-9))) >= 1


def header(shape, dtype="<f8"):
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize("suffix", [".npy", ".npy.gz", ".npz"])
@pytest.mark.parametrize("shape", ["(1099511627776, 8)", "(4611686018427387904, 8)", "(100, 3)"])
def test_a_header_that_promises_more_than_there_is(tmp_path, refused, suffix, shape):
    content = header(shape) + bytes(800)
    if suffix == ".npz":
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("features.npy", content)
        content = packed.getvalue()
    (tmp_path / f"a{suffix}").write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    reason = (
        "" if suffix == ".npy" else "its header promises shape ("
    )  # a mapped file is compared with its size by numpy
    refused(tmp_path / f"a{suffix}", f"a{suffix}: not a readable npy or npz file: {reason}")


@pytest.mark.parametrize("dtype", ["|O", "<U9", "<c16"])
def test_other_arrays_are_refused(tmp_path, refused, dtype):
    (tmp_path / "a.npy").write_bytes(header("(1, 1)", dtype) + bytes(200))
    (tmp_path / "a.npy.gz").write_bytes(gzip.compress(header("(1, 1)", dtype) + bytes(200)))
    for name in ("a.npy", "a.npy.gz"):
        with pytest.raises(InputError, match=r"plain arrays|must be real numbers"):
            read(tmp_path / name)


# --- pipes, devices, links


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path, refused):
    os.mkfifo(tmp_path / "pipe")
    refused(
        tmp_path / "pipe", "no program writes to this pipe; waited for 0.1 s. Start the program first", limits=SMALL
    )


def test_a_pipe_with_a_slow_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    ready = threading.Event()

    def work():
        with open(tmp_path / "pipe", "wb", buffering=0) as stream:
            stream.write(b"one\n")
            ready.wait(0.3)  # longer than the patience for a writer
            stream.write(b"two\n" * 50_000)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        assert len(read(tmp_path / "pipe", limits=SMALL)) == 50_001
    finally:
        ready.set()
        writer.join()


def test_devices_and_links_in_a_circle(tmp_path, refused):
    (tmp_path / "a.jsonl").symlink_to("b.jsonl")
    (tmp_path / "b.jsonl").symlink_to("a.jsonl")
    refused(tmp_path / "a.jsonl", "is a link that leads to no file, or back to itself. Check where it points.")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    for path in ("/dev/zero", tmp_path / "zero.jsonl", "/dev/null"):
        refused(path, "is a device, not a file of samples. Pass a file, a folder, a pipe or -.")
    refused("", "`source` must not be an empty path.")
    refused("a\0b", "no such file")


# --- what is skipped


def test_images_that_cannot_be_decoded_are_skipped(tmp_path, refused):
    pillow = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    rng = np.random.default_rng(0)
    for name in "abc":
        pillow.fromarray(rng.integers(0, 255, (30, 30, 3), dtype=np.uint8)).save(tmp_path / f"{name}.png")
    whole = (tmp_path / "b.png").read_bytes()
    (tmp_path / "b.png").write_bytes(whole[: len(whole) // 2])
    pillow.fromarray(np.full((4, 4), 70_000, np.int32)).save(tmp_path / "d.tiff")
    assert len(read(tmp_path)) == 4  # headers alone are fine
    samples = read(tmp_path, skip_bad=True)
    assert samples.ids == ("a.png", "c.png")
    assert "b.png: the image cannot be read (image file is truncated" in samples.skipped[0]
    assert "d.tiff: integers must lie in 0 … 65535" in samples.skipped[1]


# --- the limits themselves


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"line_mb": 0}, "`line_mb` must be a finite number above 0; got 0."),
        ({"expansion": float("nan")}, "`expansion` must be a finite number above 0"),
        ({"wait": -1}, "`wait` must be a finite number above 0"),
        ({"depth": 0}, "`depth` must be an integer of at least 1; got 0."),
    ],
)
def test_limits_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        Limits(**options)
    with pytest.raises(InputError, match=r"`limits` must be Limits\(…\); got int"):
        read(["a"], limits=5)


def test_damaged_compression_is_refused(tmp_path, refused):
    packed = bytearray(gzip.compress(zlib.compress(os.urandom(5000))))
    packed[300] ^= 0xFF
    (tmp_path / "a.txt.gz").write_bytes(packed)
    refused(tmp_path / "a.txt.gz", "cannot be read to the end", skip_bad=True)
