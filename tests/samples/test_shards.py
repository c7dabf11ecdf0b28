"""Shards: every format gives the rows that were written; what is wrong with one is said with its name."""

import gzip
import json
import os
import re

import fsspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mallow import InputError, read
from mallow.engine import memory_budget
from mallow.samples import Shards, _shard_formats, find_shards
from mallow.samples._shard_files import read_bytes
from mallow.samples._shard_output import read_provenance, read_record
from shard_files import FORMATS, write_shard, write_shards

ROWS = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)


def read_all(source, **options):
    return [chunk.read() for chunk in read(source, **options).shards.chunks(50)]


def refused(source, message, **options):
    with pytest.raises(InputError, match=re.escape(message)):
        read_all(source, **options)


def copy_to_memory(folder, name):
    system = fsspec.filesystem("memory")
    for file in sorted(os.listdir(folder)):
        with open(os.path.join(folder, file), "rb") as stream:
            system.pipe(f"/{name}/{file}", stream.read())
    return f"memory://{name}"


@pytest.mark.parametrize("form", FORMATS)
def test_rows_come_back_from_every_format(tmp_path, form):
    ids = [f"id {place}" for place in range(300)]
    folder = write_shards(tmp_path / "rows", ROWS, [100, 110], form, ids)
    for source in (folder, f"{folder}/*.{form}", copy_to_memory(folder, f"rows-{form}")):
        samples = read(source)
        assert (samples.kind, len(samples), samples.width, samples.features) == ("features", 300, 5, None)
        assert np.array_equal(samples.load().features, ROWS)
        assert samples.load().ids == (tuple(ids) if form in ("npz", "parquet") else None)
        for rows in (40, 1000):
            chunks = list(samples.shards.chunks(rows))
            assert np.array_equal(np.concatenate([chunk.read() for chunk in chunks]), ROWS)
            assert [chunk.start for chunk in chunks] == list(np.cumsum([0, *map(len, chunks)])[:-1])
    assert np.array_equal(samples.first(105).load().features, ROWS[:105])


@given(places=st.lists(st.integers(0, 299), min_size=1, unique=True), rows=st.integers(1, 400))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_some_rows_of_a_chunk(tmp_path_factory, places, rows):
    folder = write_shards(tmp_path_factory.mktemp("some") / "rows", ROWS, [120])
    for chunk in read(folder).shards.chunks(rows):
        own = np.array([place - chunk.start for place in places if chunk.start <= place < chunk.start + len(chunk)])
        if len(own):
            assert np.array_equal(chunk.take(own.astype(np.int64)), ROWS[own + chunk.start])


@pytest.mark.parametrize(
    ("stored", "dtype"), [("<f2", "float32"), (">f4", "float32"), ("<f8", "float64"), ("<i4", "float64")]
)
def test_numbers_are_read_as_float32_or_float64(tmp_path, stored, dtype):
    values = np.arange(12).reshape(4, 3).astype(stored)
    folder = write_shards(tmp_path / "rows", values, [2])
    shards = read(folder).shards
    assert (shards.dtype, shards.read().dtype) == (dtype, dtype)
    assert np.array_equal(shards.read(), values.astype(dtype))


def test_half_precision_of_google(tmp_path):
    halves = (ROWS[:10].view(np.uint32) >> 16).astype(np.uint16)  # bfloat16: the upper half of a float32
    header = json.dumps({"features": {"dtype": "BF16", "shape": [10, 5], "data_offsets": [0, 100]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + halves.tobytes())
    expected = (ROWS[:10].view(np.uint32) & 0xFFFF0000).view(np.float32)
    assert np.array_equal(read(tmp_path / "a.safetensors").load().features, expected)


def test_texts_in_shards(tmp_path):
    for place in range(3):
        with gzip.open(tmp_path / f"part-{place}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps({"id": place * 2 + i, "text": f"text {place} {i}"}) + "\n" for i in range(2))
    samples = read(tmp_path)
    assert samples.texts == tuple(f"text {place} {i}" for place in range(3) for i in range(2))
    assert samples.ids == ("0", "1", "2", "3", "4", "5")
    assert len(read(tmp_path, limit=3)) == 3


# --- bad input: which shard, what is wrong, what to do


@pytest.mark.parametrize("form", FORMATS)
def test_a_truncated_shard(tmp_path, form):
    folder = write_shards(tmp_path / "rows", ROWS, [100], form)
    name = f"{folder}/part-001.{form}"
    with open(name, "r+b") as file:
        file.truncate(os.path.getsize(name) // 2)
    refused(folder, f"{name}: ")
    with pytest.raises(InputError, match="Write it again"):
        read(folder)


def test_a_shard_that_expands_too_far(tmp_path, monkeypatch):
    monkeypatch.setattr("mallow.samples._shard_formats.ALWAYS_ALLOWED", 100_000)
    folder = tmp_path / "rows"
    folder.mkdir()
    for number in range(2):
        np.savez_compressed(folder / f"part-{number}.npz", features=np.zeros((5000, 10)))
    with pytest.raises(InputError, match=r"part-0\.npz: expands to more than 100 times its size, 0 MB from 0\.00 MB"):
        read(folder)
    np.savez(folder / "part-0.npz", features=np.zeros((5000, 10)))
    np.savez(folder / "part-1.npz", features=np.zeros((5000, 10)))
    assert len(read(folder)) == 10_000


def test_a_damaged_record_counts_as_none(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "other.json").write_text("[1]")
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04" + bytes(40))
    assert read_record(str(tmp_path / "deep.json")) is None
    assert read_record(str(tmp_path / "other.json")) is None
    assert read_provenance(str(tmp_path / "a.npz")) is None


def test_a_file_without_a_byte(tmp_path):
    folder = write_shards(tmp_path / "rows", ROWS, [100])
    (tmp_path / "rows" / "part-002.npy").touch()
    refused(folder, f"{folder}/part-002.npy: ")


@pytest.mark.parametrize("form", ["npy", "safetensors"])
def test_a_shard_that_is_cut_short_while_it_is_read(tmp_path, form):
    shards = read(write_shards(tmp_path / "rows", ROWS, [100], form)).shards
    chunk = list(shards.chunks(50))[-1]
    with open(chunk.shard.name, "r+b") as file:
        file.truncate(chunk.shard.content.offset + 170 * 5 * 4 + 3)
    for read_some in (chunk.read, lambda: chunk.take(np.array([30]))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(chunk), "_check_unchanged", lambda self: None)  # it was cut after this
            with pytest.raises(
                InputError, match=rf"^{chunk.shard.name}: the shard ends too early, in row 1[78]0\. Write"
            ):
                read_some()


def test_a_shard_of_another_width(tmp_path):
    folder = write_shards(tmp_path / "rows", ROWS, [100])
    np.save(f"{folder}/part-002.npy", ROWS[:, :3])
    refused(
        folder,
        f"{folder}/part-002.npy: all shards must have the same width; this one has 3, and {folder}/part-000.npy has 5. Were they "
        "embedded by the same model?",
    )


def test_a_shard_of_another_dtype(tmp_path):
    folder = write_shards(tmp_path / "rows", ROWS, [100])
    np.save(f"{folder}/part-002.npy", ROWS.astype(np.float64))
    refused(folder, f"{folder}/part-002.npy: all shards must have the same dtype; this one has <f8, and ")


def test_an_empty_shard(tmp_path):
    folder = write_shards(tmp_path / "rows", ROWS, [100])
    np.save(f"{folder}/part-002.npy", ROWS[:0])
    refused(folder, f"{folder}/part-002.npy: the shard is empty: shape (0, 5). Remove it, or write it again.")


def test_a_shard_that_vanishes(tmp_path):
    shards = read(write_shards(tmp_path / "rows", ROWS, [100])).shards
    chunk = list(shards.chunks(50))[-1]
    os.remove(chunk.shard.name)
    with pytest.raises(
        InputError, match=rf"{chunk.shard.name}: the shard is no longer there. Put it back and start again"
    ):
        chunk.read()


def test_a_shard_that_changes(tmp_path):
    shards = read(write_shards(tmp_path / "rows", ROWS, [100])).shards
    chunk = list(shards.chunks(50))[-1]
    np.save(chunk.shard.name, ROWS)
    with pytest.raises(
        InputError, match=rf"{chunk.shard.name}: the shard has changed since it was described: it had 4,128 bytes"
    ):
        chunk.read()


def test_entries_that_are_not_finite(tmp_path):
    rows = ROWS.copy()
    rows[150, 2] = np.nan
    folder = write_shards(tmp_path / "rows", rows, [100])
    refused(folder, f"{folder}/part-001.npy: features must be finite; row 50 has nan in column 2.")
    assert len(read(folder, skip_bad=True)) == 299


def test_a_pattern_without_match(tmp_path):
    refused(f"{tmp_path}/*.npy", f"{tmp_path}/*.npy: matches no file. Shards end in .npy .npz .parquet")
    (tmp_path / "notes.md").touch()
    refused(f"{tmp_path}/*", "matches no shards, only notes.md. Shards end in ")
    refused("memory://nothing/here", "memory://nothing/here: matches no file.")


def test_unknown_stores(tmp_path):
    refused("nowhere://bucket/rows", "nowhere://bucket/rows: cannot be read: ")


def test_two_sets_in_one_folder(tmp_path):
    folder = write_shards(tmp_path / "rows", ROWS, [100])
    np.save(f"{folder}/human.npy", ROWS)
    refused(folder, "the shards of a folder must be named alike but for numbers, as part-0001.npy is; got ")
    write_shard(tmp_path / "rows" / "part-007.npz", ROWS)
    refused(folder, f"{folder}: all shards must be of one format; got .npy and .npz. Choose some: {folder}/*.npy")
    assert len(read(f"{folder}/part-*.npy")) == 300


def test_columns_that_do_not_follow_one_another(tmp_path):
    np.save(tmp_path / "part-0.npy", np.asfortranarray(ROWS))
    refused(f"{tmp_path}/*.npy", "part-0.npy: the rows of a shard must follow one another; these are stored by columns")


@pytest.mark.parametrize("form", ["npz", "parquet", "safetensors"])
def test_a_field_that_is_not_there(tmp_path, form):
    folder = write_shards(tmp_path / "rows", ROWS, [100], form)
    refused(folder, "`other`; it has features", field="other")


def test_shards_beyond_the_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("MALLOW_MEMORY", "1kB")
    samples = read(write_shards(tmp_path / "rows", ROWS, [100]))
    with pytest.raises(
        InputError, match=r"300 rows of 5 features take 6e-06 GB, more than the 1e-06 GB allowed. `score` and"
    ):
        samples.load()


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * 10**9), ("512 MiB", 2**29), ("1000", 1000), ("1.5g", 15 * 10**8)]
)
def test_the_memory_that_may_be_used(monkeypatch, text, size):
    monkeypatch.setenv("MALLOW_MEMORY", text)
    assert memory_budget() == size


@pytest.mark.parametrize("text", ["much", "0", "-1GB"])
def test_other_memories_are_refused(monkeypatch, text):
    monkeypatch.setenv("MALLOW_MEMORY", text)
    with pytest.raises(
        InputError,
        match=re.escape(f"MALLOW_MEMORY must be a number of bytes, such as 4000000000, 4GB or 512MiB; got {text!r}"),
    ):
        memory_budget()


def test_an_array_in_memory_is_a_shard():
    shards = Shards.from_array(ROWS)
    assert np.array_equal(np.concatenate([chunk.read() for chunk in shards.chunks(7)]), ROWS)
    assert all(chunk.shard.values.shape == (len(chunk), 5) for chunk in shards.chunks(7))


def test_find_shards_is_what_read_uses(tmp_path):
    folder = write_shards(tmp_path / "rows", ROWS, [100])
    assert [shard.rows for shard in find_shards(folder).shards] == [100, 200]


@pytest.mark.parametrize("form", ["npz", "parquet"])
def test_ids_that_cannot_be_read_are_refused(form, tmp_path):
    path = tmp_path / f"a.{form}"
    ids = [f"name {i}" for i in range(len(ROWS))]
    write_shard(path, ROWS, ids)
    assert find_shards(str(path), names=[str(path)]).ids() == tuple(ids)
    whole, faults = path.read_bytes(), 0
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes(8) + whole[place + 8 :])
        try:
            read_back = find_shards(str(path), names=[str(path)]).ids()
            assert read_back is None or len(read_back) == len(ROWS)
        except InputError as error:
            faults += "the ids cannot be read" in str(error)
    assert faults > 0


def test_each_row_needs_an_id(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, features=ROWS, ids=np.array(["a", "b"]))
    with pytest.raises(InputError, match="each row must have an id; there are fewer ids than rows"):
        find_shards(str(path), names=[str(path)]).ids()


@pytest.mark.parametrize("form", ["npy", "safetensors"])
def test_only_the_header_is_read_to_describe_a_shard(form, tmp_path, monkeypatch):
    path = tmp_path / f"a.{form}"
    write_shard(path, np.zeros((20_000, 5), np.float32))
    read = []
    monkeypatch.setattr(_shard_formats, "read_bytes", lambda name, *ends: read.append(ends) or read_bytes(name, *ends))
    assert len(find_shards(str(path), names=[str(path)])) == 20_000
    assert sum(end - start for start, end in read) <= 4096
