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

from mallow import InputError, Samples, read
from mallow.samples import (
    Shards,
    _shard_formats,
    find_shards,
    holds_shards,
    join,
    list_shards,
    make_shard_folder,
    read_provenance,
    read_record,
    shard_exists,
    shard_suffix,
    stamp_of,
    write_record,
)
from mallow.samples import write_shard as write_samples
from mallow.samples._shard_files import open_shard, read_bytes
from mallow.samples._shard_formats import describe_shard, read_ids, read_rows
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


def safetensors(path, *tensors, metadata=None, cut=0):
    """A file of tensors (name, type, array), one after the other."""
    header, data = {} if metadata is None else {"__metadata__": metadata}, b""
    for name, kind, values in tensors:
        header[name] = {"dtype": kind, "shape": values.shape, "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes((len(text).to_bytes(8, "little") + text + data)[: -cut or None])
    return str(path)


@pytest.mark.parametrize(("kind", "stored"), [("F64", "<f8"), ("F32", "<f4"), ("F16", "<f2")])
def test_tensors_of_every_precision(tmp_path, kind, stored):
    values = ROWS[:6].astype(stored)
    path = tmp_path / "a.safetensors"
    content = describe_shard(safetensors(path, ("x", kind, values), metadata={"embedder": "E"}), None)
    assert (content.rows, content.width, content.dtype, content.field, content.embedder) == (6, 5, stored, "x", "E")
    assert np.array_equal(read_rows(str(path), content, 2, 5), values[2:5])
    describe_shard(safetensors(path, ("x", kind, values)), None)
    with pytest.raises(InputError, match="the shard is cut short: it has "):
        describe_shard(safetensors(path, ("x", kind, values), cut=1), None)
    several = safetensors(path, ("other", kind, values[:2]), ("features", kind, values))
    assert np.array_equal(read(several).load().features, values)
    assert np.array_equal(read(several, field="other").load().features, values[:2])
    refused(several, "no tensor 'x'. It has other, features. Choose one with `field`.", field="x")


def test_tensors_that_are_no_features(tmp_path):
    path = tmp_path / "a.safetensors"
    refused(safetensors(path, ("x", "I64", ROWS[:2])), "features must be of type F64, F32, F16, BF16; got I64.")
    refused(
        safetensors(path, ("x", "F32", ROWS[None])),
        "features must have shape (n, d), one row per sample; got shape (1,",
    )
    refused(safetensors(path, ("x", "F64", ROWS)), "the shard is cut short: ")  # the numbers are too few for their type
    assert read(safetensors(path, ("x", "F32", ROWS[:, 0].copy()))).width == 1
    for content in (b"", b"\0" * 7, (100).to_bytes(8, "little") + b"{}", (200_000_000).to_bytes(8, "little")):
        path.write_bytes(content)
        refused(str(path), f"the shard is cut short: {len(content)} bytes do not hold its header. Write it again.")


def test_arrays_and_columns_are_found_by_name(tmp_path):
    path, ids = tmp_path / "a.npz", np.array(list("abc"))
    provenance = np.array(json.dumps({"embedder": "E"}))
    for arrays, field, rows in [
        ({"x": ROWS[:3]}, None, ROWS[:3]),
        ({"x": ROWS[:3], "ids": ids, "prompts": ids, "provenance": provenance}, None, ROWS[:3]),
        ({"x": ROWS[:2], "features": ROWS[:3]}, None, ROWS[:3]),
        ({"x": ROWS[:2], "features": ROWS[:3]}, "x", ROWS[:2]),
        ({"x": ROWS[:3, 0]}, None, ROWS[:3, :1]),
    ]:
        np.savez(path, **arrays)
        shards = find_shards(str(path), field)
        assert np.array_equal(shards.read(), rows)
        assert (shards.has_ids, shards.ids()) == ((True, ("a", "b", "c")) if "ids" in arrays else (False, None))
        assert shards.embedder == ("E" if "provenance" in arrays else None)
    np.savez(path, x=ROWS, y=ROWS)
    refused(f"{tmp_path}/*.npz", "a.npz: no array 'features'. It has x, y. Choose one with `field`.")


def test_lists_in_columns(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, rows = tmp_path / "a.parquet", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    for kind in (arrow.list_(arrow.float32()), arrow.large_list(arrow.float64()), arrow.list_(arrow.int16(), 2)):
        table = arrow.table({"ids": [7, 8, 9], "name": list("abc"), "x": arrow.array(rows, kind)})
        parquet.write_table(table.replace_schema_metadata({"mallow": '{"embedder": "E"}'}), path, row_group_size=2)
        shards = find_shards(str(path))
        assert (shards.read().tolist(), shards.ids(), shards.embedder) == (rows, ("7", "8", "9"), "E")
        for low in range(3):
            for high in range(low + 1, 4):
                assert read_rows(str(path), shards.shards[0].content, low, high).tolist() == rows[low:high]
                assert read_ids(str(path), shards.shards[0].content, low, high) == ["7", "8", "9"][low:high]
    two = arrow.table({"id": list("abc"), "x": [[1.0]] * 3, "features": rows, "words": [["a"]] * 3})
    parquet.write_table(two, path)
    assert find_shards(str(path)).read().tolist() == rows
    assert find_shards(str(path), "x").read().tolist() == [[1.0]] * 3
    assert find_shards(str(path)).ids() == ("a", "b", "c")
    for field, message in [
        ("words", "the column 'words' must hold lists of numbers, but it holds list<"),
        ("id", "the column 'id' must hold lists of numbers, but it holds string."),
        ("y", "no column 'y'. It has id, x, features, words. Choose one with `field`."),
    ]:
        with pytest.raises(InputError, match=re.escape(f"a.parquet: {message}")):
            find_shards(str(path), field)
    for bad, row in (([[1.0, 2.0], [3.0, 4.0], [5.0]], 2), ([[1.0], None, [3.0]], 0)):
        parquet.write_table(arrow.table({"x": bad}), path)
        with pytest.raises(
            InputError, match=rf"a\.parquet: all rows must be {len(bad[0])} wide; row {row} is not\. Write"
        ):
            find_shards(str(path)).read()
    parquet.write_table(two.slice(0, 0), path)
    with pytest.raises(InputError, match=r"a\.parquet: the shard is empty: shape \(0, 0\)"):
        find_shards(str(path))


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_arrays_by_their_headers(tmp_path, version):
    path = tmp_path / "a.npy"
    for values in (ROWS[:4], ROWS[:4, 0], ROWS[:4].astype(bool), np.asfortranarray(ROWS[:4, 0])):
        with path.open("wb") as file:
            np.lib.format.write_array(file, values, version)
        shards = find_shards(str(path))
        expected = values.reshape(4, -1).astype(np.float64 if values.dtype == bool else np.float32)
        assert np.array_equal(shards.read(), expected)
        assert (len(shards), shards.width, shards.size) == (4, expected.shape[1], expected.nbytes)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(InputError, match=r"the shard is cut short: its header promises shape \(4,\), which takes "):
        find_shards(str(path))
    for values, message in [
        (ROWS[None, :2], r"features must have shape \(n, d\), one row per sample; got shape \(1, 2, 5\)"),
        (np.array(["a"]), r"features must be real numbers; got dtype <U1\."),
        (np.array([1j]), r"features must be real numbers; got dtype complex128\."),
    ]:
        np.save(path, values)
        with pytest.raises(InputError, match=message):
            find_shards(str(path))


def test_a_shard_may_be_in_part(tmp_path):
    for form in FORMATS:
        folder = write_shards(tmp_path / form, ROWS, [4, 5], form, [str(place) for place in range(300)])
        shards = find_shards(folder)
        for count in (1, 4, 5, 6, 300, 1000):
            assert np.array_equal(shards.first(count).read(), ROWS[:count])
            assert len(shards.first(count)) == min(count, 300)
        for rows, sizes in ((3, [3, 1, 1, *[3] * 98, 1]), (295, [4, 1, 295])):
            sizes = [4, 1, 295] if form == "npz" else sizes  # they can only be read as a whole
            assert [len(chunk) for chunk in shards.chunks(rows)] == sizes
    assert len(read(folder, limit=5)) == 5


@pytest.mark.parametrize("remote", [False, True])
def test_some_bytes_of_a_shard(tmp_path, remote):
    (tmp_path / "a.npy").write_bytes(bytes(range(20)))
    name = f"{copy_to_memory(tmp_path, f'bytes-{tmp_path.name}')}/a.npy" if remote else str(tmp_path / "a.npy")
    assert read_bytes(name, 3, 7) == bytes([3, 4, 5, 6])
    assert read_bytes(name, 0, 20) == bytes(range(20))
    assert stamp_of(name)[0] == 20
    with pytest.raises(InputError, match=r"a\.npy: the shard ends too early: 2 of 3 bytes\. Write it again\."):
        read_bytes(name, 18, 21)
    for missing in (read_bytes, lambda name, *_: stamp_of(name)):
        with pytest.raises(InputError, match=r"gone\.npy: the shard is no longer there\. Put it back and start again"):
            missing(name.replace("a.npy", "gone.npy"), 0, 1)


def test_which_files_are_shards(tmp_path, monkeypatch):
    (tmp_path / "_in" / "deep").mkdir(parents=True)
    for name in ("part-2.npy", "part-10.npy", "deep/part-1.npy", "_part-3.npy", ".part-4.npy", "notes.md"):
        np.save(tmp_path / "_in" / "x.npy", ROWS[:1])
        os.rename(tmp_path / "_in" / "x.npy", tmp_path / "_in" / name)
    monkeypatch.chdir(tmp_path / "_in")
    expected = ["deep/part-1.npy", "part-10.npy", "part-2.npy"]
    assert list_shards(str(tmp_path / "_in")) == tuple(str(tmp_path / "_in" / name) for name in expected)
    assert list_shards("*.npy") == ("part-10.npy", "part-2.npy")
    assert list_shards("part-2.npy") == ("part-2.npy",)
    assert list_shards("**/*.npy") == tuple(expected)
    assert holds_shards(tmp_path / "_in")
    (tmp_path / "_in" / "a.PNG").touch()
    assert not holds_shards(tmp_path / "_in")  # a folder of images
    for name in "bcd":
        (tmp_path / f"{name}.md").touch()
    for source, content in ((str(tmp_path / "[bc].md"), "b.md, c.md."), ("../*.md", "b.md, c.md, d.md.")):
        refused(source, f"matches no shards, only {content} Shards end in")
    (tmp_path / "a.md").touch()
    refused("../*.md", "matches no shards, only a.md, b.md, c.md, …. Shards end in")
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "_a.npy").touch()
    assert not holds_shards(tmp_path / "hidden")
    suffixes = {
        name: shard_suffix(name) for name in ("a.NPY", "a.jsonl.gz", "a.jsonl", "a.ndjson.GZ", "a.tar", "a.tgz")
    }
    assert list(suffixes.values()) == [".npy", ".jsonl.gz", ".jsonl", ".ndjson.gz", ".tar", ""]


@pytest.mark.parametrize("column", [2, 4])
def test_the_first_bad_row_of_a_shard_is_named(tmp_path, column):
    rows = ROWS.copy()
    rows[[137, 140], column] = np.inf
    folder = write_shards(tmp_path / "rows", rows, [100])
    refused(folder, f"{folder}/part-001.npy: features must be finite; row 37 has inf in column {column}.")
    kept = read(folder, skip_bad=True)
    assert np.array_equal(kept.features, np.delete(rows, [137, 140], axis=0))
    assert kept.skipped[0] == f"{folder}[137]: features must be finite; got inf in column {column}"


def test_shards_must_agree_about_ids_and_embedders(tmp_path):
    folder = write_shards(tmp_path / "rows", ROWS, [100], "npz", [str(place) for place in range(300)])
    np.savez(f"{folder}/part-002.npz", features=ROWS)
    refused(folder, f"{folder}/part-002.npz: either all shards have ids, or none; {folder}/part-000.npz differs.")
    np.savez(f"{folder}/part-002.npz", features=ROWS, provenance=np.array('{"embedder": "E"}'))
    refused(folder, "all shards must have the same embedder, but this one has E, and ")


def test_texts_of_several_files(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for place in range(3):
        rows = [{"text": f"{place}{i}", "prompt": f"p{place}{i // 2}"} for i in range(4)]
        rows += [{"text": None, "prompt": "p"}] if place == 1 else []
        parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / f"part-{place}.parquet")
        (tmp_path / f"part-{place}.ndjson").write_text("\n".join(map(json.dumps, rows)))
    for form, place in (("parquet", "[4]"), ("ndjson", ":5")):
        source = f"{tmp_path}/*.{form}"
        refused(source, f"{tmp_path}/part-1.{form}{place}: the text is missing (null).")
        samples = read(source, skip_bad=True)
        assert samples.texts == tuple(f"{place}{i}" for place in range(3) for i in range(4))
        assert samples.prompts == tuple(f"p{place}{i // 2}" for place in range(3) for i in range(4))
        assert samples.skipped == (f"{tmp_path}/part-1.{form}{place}: the text is missing (null)",)
        assert read(source, limit=2).texts == ("00", "01", "02", "03")
    write_shard(tmp_path / "deep.npy", ROWS)
    (tmp_path / "a-1.tar").touch()
    refused(f"{tmp_path}/*.tar", "archives of images are read while they are embedded: mallow embed ")


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


@pytest.mark.parametrize("remote", [False, True])
def test_what_is_written_beside_shards_is_read(tmp_path, remote):
    folder = make_shard_folder(f"memory://out-{tmp_path.name}/deep/" if remote else str(tmp_path / "out" / "deep"))
    assert folder == (f"memory://out-{tmp_path.name}/deep" if remote else str(tmp_path / "out" / "deep"))
    name, record = join(folder, "a.npz"), join(folder, "a.json")
    assert (name, record) == (f"{folder}/a.npz", f"{folder}/a.json")
    assert (shard_exists(name), shard_exists(folder), read_record(record), read_provenance(name)) == (
        False,
        False,
        None,
        None,
    )
    samples = Samples(features=ROWS[:4], ids=list("abcd"), prompts=list("ppqq"), provenance={"embedder": "é"})
    write_samples(samples, name)
    write_record(record, {"é": [1, None]})
    assert shard_exists(name)
    assert not shard_exists(folder)
    assert (read_record(record), read_provenance(name)) == ({"é": [1, None]}, {"embedder": "é"})
    shards = find_shards(name)
    assert (shards.ids(), shards.embedder, np.array_equal(shards.read(), ROWS[:4])) == (tuple("abcd"), "é", True)
    with open_shard(record) as stream:
        assert stream.read().decode() == '{\n "é": [\n  1,\n  null\n ]\n}\n'
    write_samples(Samples(features=ROWS[:4]), name)
    assert read_provenance(name) is None


def test_of_a_file_with_rows_one_after_the_other_only_those_that_are_taken_are_read(tmp_path):
    rows = ROWS.copy()
    rows[250] = np.nan
    for form in ("npy", "safetensors"):
        [chunk] = find_shards(write_shards(tmp_path / form, rows, [], form)).chunks(300)
        places = np.array([249, 3, 251, 0])
        assert np.array_equal(chunk.take(places), ROWS[places])
        with pytest.raises(InputError, match=r"features must be finite; row 250 has nan in column 0"):
            chunk.read()
        with pytest.raises(InputError, match=r"features must be finite; row 250 has nan in column 0"):
            chunk.take(np.arange(76))  # more than a quarter: all are read
        assert np.array_equal(chunk.take(np.arange(75)), ROWS[:75])


def test_the_width_is_known_without_reading(tmp_path, monkeypatch):
    samples = read(write_shards(tmp_path / "rows", ROWS, [100]))
    monkeypatch.setenv("MALLOW_MEMORY", "1kB")
    assert (samples.width, len(samples)) == (5, 300)
    assert Samples(features=ROWS[:, :2]).width == 2
    assert Samples(texts=["a"], features=ROWS[:1]).width == 5
    with pytest.raises(InputError, match=r"samples: text samples have no features yet\. Embed them first"):
        Samples(texts=["a"]).width  # noqa: B018


def test_samples_in_shards_are_loaded_where_they_are_needed(tmp_path):
    ids = [str(place // 2) for place in range(300)]
    samples = read(write_shards(tmp_path / "npz", ROWS, [100], "npz", ids))
    assert (samples.kind, len(samples), samples.width, samples.ids) == ("features", 300, 5, None)
    loaded = samples.load()
    assert (loaded.shards, loaded.ids, loaded.load() is loaded) == (None, tuple(ids), True)
    assert np.array_equal(samples.require_features(), ROWS)
    few = samples.first(60)  # prompts
    assert (few.ids, np.array_equal(few.features, ROWS[:120])) == (tuple(ids[:120]), True)
    plain = read(write_shards(tmp_path / "npy", ROWS, [100]))
    assert (plain.first(60).shards is not None, len(plain.first(60)), plain.first(300) is plain) == (True, 60, True)
    assert plain.load().ids is None


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
        f"{folder}/part-002.npy: all shards must have the same width, but this one has 3, and {folder}/part-000.npy has 5. Were they "
        "embedded by the same model?",
    )


def test_a_shard_of_another_dtype(tmp_path):
    folder = write_shards(tmp_path / "rows", ROWS, [100])
    np.save(f"{folder}/part-002.npy", ROWS.astype(np.float64))
    refused(folder, f"{folder}/part-002.npy: all shards must have the same dtype, but this one has <f8, and ")


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
        InputError,
        match=rf"{chunk.shard.name}: the shard has changed since it was described: it had 4,128 bytes and has 6,128\. Do",
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
    refused(
        f"{tmp_path}/*.npy", "part-0.npy: the rows of a shard must follow one another, but these are stored by columns"
    )


@pytest.mark.parametrize("form", ["npz", "parquet", "safetensors"])
def test_a_field_that_is_not_there(tmp_path, form):
    folder = write_shards(tmp_path / "rows", ROWS, [100], form)
    refused(folder, "'other'. It has features", field="other")


def test_shards_beyond_the_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("MALLOW_MEMORY", "1kB")
    samples = read(write_shards(tmp_path / "rows", ROWS, [100]))
    with pytest.raises(
        InputError, match=r"300 rows of 5 features take 6e-06 GB, more than the 1e-06 GB allowed. `score` and"
    ):
        samples.load()


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
    with pytest.raises(InputError, match="each row must have an id, but there are fewer ids than rows"):
        find_shards(str(path), names=[str(path)]).ids()


@pytest.mark.parametrize("form", ["npy", "safetensors"])
def test_only_the_header_is_read_to_describe_a_shard(form, tmp_path, monkeypatch):
    path = tmp_path / f"a.{form}"
    write_shard(path, np.zeros((20_000, 5), np.float32))
    read = []
    monkeypatch.setattr(_shard_formats, "read_bytes", lambda name, *ends: read.append(ends) or read_bytes(name, *ends))
    assert len(find_shards(str(path), names=[str(path)])) == 20_000
    assert sum(end - start for start, end in read) <= 4096
