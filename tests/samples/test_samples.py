"""Samples in and out: what is written is read again, and whatever is wrong is told with its place."""

import csv
import gzip
import io
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mallow import InputError
from mallow.samples import _samples as module
from mallow.samples._samples import Samples, read, write

TEXT_SUFFIXES = [".jsonl", ".csv", ".parquet", ".txt", ".jsonl.gz", ".csv.gz", ".parquet.gz", ".txt.gz"]

ODD = [
    "\ufeffmark",
    "عربي עברית",
    "😀👩‍👩‍👧",
    "a\u2028b\x85c\x0bd\x1ce",
    'say "so", 1;2',
    " ",
    "\\n",
    "{",
    "[]",
    "null",
    "=1",
    "é" * 70_000,
]
ODD_LINES = ["two\nlines", "\r", "\r\n", "\n", "ends\r"]


def texts_of(suffix):
    kept = "\n\r\0" if suffix.startswith(".txt") else ""  # NUL: what is UTF-16 without a mark is known by it
    return st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters=kept), min_size=1), min_size=1)


@pytest.fixture
def suffix(request):
    """The suffix of a file, where what it needs is installed."""
    if request.param.startswith(".parquet"):
        pytest.importorskip("pyarrow", reason="parquet needs pyarrow: pip install 'mallow[tables]'")
    return request.param


def refused(source, words, **options):
    with pytest.raises(InputError, match=re.escape(words)):
        read(source, **options)


def png(path, width=1, height=1):
    """A small grey image, written without Pillow."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + bytes(width)) * height)
    path.parent.mkdir(parents=True, exist_ok=True)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    return path


class Input:
    """Standard input with these bytes; `peek` as a terminal or pipe has it, or none as under click's runner."""

    def __init__(self, data, peek=True):
        self.buffer = io.BufferedReader(io.BytesIO(data)) if peek else io.BytesIO(data)


# --- what is written is read again


@pytest.mark.parametrize("suffix", TEXT_SUFFIXES, indirect=True)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_texts_come_back(suffix, tmp_path, data):
    texts = data.draw(texts_of(suffix))
    write(read(texts), tmp_path / f"a{suffix}")
    found = read(tmp_path / f"a{suffix}")
    assert found.texts == tuple(texts)
    assert (found.ids, found.prompts, found.skipped) == (None, None, ())


@pytest.mark.parametrize("suffix", TEXT_SUFFIXES, indirect=True)
def test_odd_texts_come_back(suffix, tmp_path):
    texts = ODD if suffix.startswith(".txt") else ODD + ODD_LINES
    for order in (texts, texts[::-1], *([text] for text in texts)):
        write(read(order), tmp_path / f"a{suffix}")
        assert read(tmp_path / f"a{suffix}").texts == tuple(order)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet", ".csv.gz"], indirect=True)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]))] * 3), min_size=1))
@example(rows=[("", "", "")])
def test_ids_and_prompts_come_back(suffix, tmp_path, rows):
    ids, prompts, texts = zip(*rows, strict=True)
    texts = tuple(text or "-" for text in texts)
    write(Samples("text", texts, ids, prompts), tmp_path / f"a{suffix}")
    found = read(tmp_path / f"a{suffix}")
    assert (found.texts, found.ids, found.prompts) == (texts, ids, prompts)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".npy.gz", ".npz.gz"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u1"])
def test_features_come_back(suffix, dtype, tmp_path):
    features = np.arange(12).reshape(4, 3).astype(dtype)
    write(read(features), tmp_path / f"a{suffix}")
    found = read(tmp_path / f"a{suffix}")
    assert found.features.dtype == dtype
    assert np.array_equal(found.features, features)
    assert (found.kind, len(found), found.ids, found.provenance) == ("features", 4, None, None)


def test_ids_and_provenance_of_features_come_back(tmp_path):
    provenance = {"embedder": "glove", "length": 1024, "pooling": "mean·é"}
    write(Samples("features", np.eye(2), ("α", "b/1.png"), provenance=provenance), tmp_path / "a.npz")
    found = read(tmp_path / "a.npz")
    assert (found.ids, found.provenance) == (("α", "b/1.png"), provenance)


def test_a_compressed_file_is_the_same_bytes_each_time(tmp_path):
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write(read(["one", "two"]), tmp_path / name)
    first, second = ((tmp_path / name).read_bytes() for name in ("a.jsonl.gz", "b.jsonl.gz"))
    assert first == second
    assert first[3:8] == bytes(5), "neither a name nor a time in the header"


def test_samples_pickle_and_show_themselves_in_one_line():
    found = pickle.loads(pickle.dumps(read(["one", "", "two"], skip_bad=True)))
    assert found.texts == ("one", "two")
    assert repr(found) == "Samples(text, n=2, source='list', skipped=1)"


# --- writing


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.jsonl"
    write(read(["old"]), path)
    with pytest.raises(InputError, match=r"must be valid Unicode; got '.ud800', half of a surrogate pair"):
        write(Samples("text", ("new", "\ud800")), path)
    assert read(path).texts == ("old",)
    assert [each.name for each in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_written_file_has_ordinary_rights_and_a_link_stays_a_link(tmp_path):
    (tmp_path / "plain").touch()
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    write(read(["one"]), tmp_path / "link.txt")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "a.txt").read_bytes() == b"one\n"
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    ("samples", "name", "words"),
    [
        (read(["one", "a\nb"]), "a.txt", "text 1 has a line break. Write .jsonl, .csv or .parquet."),
        (read(["a\rb"]), "a.txt", "text 0 has a line break"),
        (read(["one"]), "a.npz", "text samples are written as jsonl, csv, parquet, txt; got npz"),
        (read(np.eye(2)), "a.csv", "features samples are written as npz, npy; got csv"),
        (Samples("features", np.eye(2), ("a", "b")), "a.npy", "would lose the ids and the provenance"),
        (Samples("features", np.eye(1), ("a\0",)), "a.npz", "must not end in NUL"),
        (Samples("features", np.eye(1), provenance={"a": {1}}), "a.npz", "`provenance` must be what JSON can hold"),
        (Samples("image", (Path("a.png"),)), "a.jsonl", "images are files already"),
        (Samples("text", ()), "a.jsonl", "at least one sample is needed"),
        (["one"], "a.jsonl", "`samples` must be Samples; got list. Pass read(…) of it."),
        (read(["one"]), "a.doc", "the suffix must be one of .jsonl"),
        (read(["one"]), "gone/a.txt", "gone does not exist. Make it first."),
    ],
)
def test_what_cannot_be_written_is_refused(samples, name, words, tmp_path):
    with pytest.raises(InputError, match=re.escape(words)):
        write(samples, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_written_over(tmp_path):
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(InputError, match="is a folder, not a file"):
        write(read(["one"]), tmp_path / "a.txt")


# --- ids, prompts, generations


def test_lists_of_texts_are_generations_of_one_prompt(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"prompt": "p", "gen": ["a", "b"]}\n\n{"prompt": "q", "gen": ["c", "d"]}\n')
    found = read(path, field="gen")
    assert (found.texts, found.ids, found.prompts) == (("a", "b", "c", "d"), ("1", "1", "2", "2"), ("p", "p", "q", "q"))
    assert found.generations == 2
    assert read(path, field="gen", limit=3).generations is None
    assert read([["a", "b"], ["c", "d"]]).ids == ("1", "1", "2", "2")


def test_generations_count_by_id_then_by_prompt():
    assert read(["a", "b"]).generations == 1
    assert Samples("text", ("a", "b"), prompts=("p", "p")).generations == 2
    assert Samples("text", ("a", "b"), ids=("1", "2"), prompts=("p", "p")).generations == 1
    assert Samples("text", ("a", "b", "c"), ids=("1", "2", "1")).generations is None


def test_ids_are_text_and_prompts_may_be_messages():
    found = read([{"id": 7, "prompt": [{"role": "user", "content": "é"}], "text": "a"}])
    assert (found.ids, found.prompts) == (("7",), ('[{"role": "user", "content": "é"}]',))


def test_labels_must_fit_the_samples():
    with pytest.raises(InputError, match="`ids` must have one entry for each of the 2 samples; got 1"):
        Samples("text", ("a", "b"), ids=("1",))


def test_the_kind_is_checked_where_it_matters():
    with pytest.raises(InputError, match="list must hold features samples here; got text samples"):
        _ = read(["a"]).features
    with pytest.raises(InputError, match="must hold image samples here"):
        _ = read(["a"]).paths


# --- files as they come


def test_byte_order_marks_windows_lines_and_a_missing_last_line_end(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree")
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "one"}\r\n\r\n{"text": "two"}')
    (tmp_path / "a.csv").write_bytes('\ufefftext,id\r\none,1\r\n\r\n"two\r\n2",2'.encode())
    assert read(tmp_path / "a.txt").texts == ("one", "two", "three")
    assert read(tmp_path / "a.jsonl").texts == ("one", "two")
    assert read(tmp_path / "a.csv").texts == ("one", "two\r\n2")


def test_only_line_feeds_end_a_line(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a\u2028b\x85c"}\n{"text": "d"}\n', encoding="utf-8")
    assert read(tmp_path / "a.jsonl").texts == ("a\u2028b\x85c", "d")


def test_compression_is_known_by_content(tmp_path):
    (tmp_path / "plain.txt.gz").write_text("one\n")
    (tmp_path / "packed.txt").write_bytes(gzip.compress(b"one\n", mtime=0))
    assert read(tmp_path / "plain.txt.gz").texts == read(str(tmp_path / "packed.txt")).texts == ("one",)


def test_a_text_of_a_million_characters(tmp_path):
    text = "é, \n" * 250_000
    csv.field_size_limit(131_072)
    for suffix in (".jsonl", ".csv"):
        write(read([text, "b"]), tmp_path / f"a{suffix}")
        assert read(tmp_path / f"a{suffix}").texts == (text, "b")
    assert csv.field_size_limit() == 131_072


def test_suffixes_in_capitals_and_home_folders(tmp_path, monkeypatch):
    (tmp_path / "A.TXT").write_text("one")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read("~/A.TXT").texts == ("one",)


def test_the_limit_takes_the_first_and_looks_no_further(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": ""}\n{"text": "b"}\nnonsense\n')
    assert read(path, limit=1).texts == ("a",)
    found = read(path, limit=2, skip_bad=True)
    assert (found.texts, len(found.skipped)) == (("a", "b"), 1)
    assert len(read(np.eye(3), limit=2)) == len(read(read(["a", "b", "c"]), limit=2)) == 2
    assert len(read(["a"], limit=5)) == 1
    refused(["a"], "`limit` must be an integer of at least 1; got 0", limit=0)


def test_memory_holds_the_texts_once(tmp_path):
    path, n, size = tmp_path / "a.jsonl.gz", 2000, 10_000
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.writelines(json.dumps({"text": f"{i:<{size}}"}) + "\n" for i in range(n))
    tracemalloc.start()
    found = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == n
    assert peak < 1.1 * n * size


@pytest.mark.parametrize("peek", [True, False])
@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (b'{"text": "a"}\n{"text": "b"}\n', ("a", "b")),
        (b'\xef\xbb\xbf\n  {"text": "a"}\n', ("a",)),
        (b"a\n{b}\n", ("a", "{b}")),
        (gzip.compress(b"a\nb", mtime=0), ("a", "b")),
    ],
)
def test_standard_input(data, texts, peek, monkeypatch):
    stdin = Input(data, peek)
    monkeypatch.setattr("sys.stdin", stdin)
    found = read("-")
    assert (found.texts, found.source) == (texts, "standard input")
    assert not stdin.buffer.closed


def test_errors_of_standard_input_say_where(monkeypatch):
    monkeypatch.setattr("sys.stdin", Input(b"\na\n"))
    refused("-", "standard input:1: empty text")
    monkeypatch.setattr("sys.stdin", Input(b""))
    refused("-", "standard input: holds no samples")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_without_a_suffix_is_read_like_standard_input(tmp_path):
    os.mkfifo(tmp_path / "63")
    code = "import sys; open(sys.argv[1], 'w').write('one\\ntwo\\n')"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "63")]):
        assert read(tmp_path / "63").texts == ("one", "two")


# --- bad files


BAD_ENTRIES = {
    ".jsonl": [
        (b'{"text": ""}', "empty text"),
        (b'{"text": "b"', "bad JSON: Expecting ',' delimiter at column 13"),
        (b"[", "bad JSON: Expecting value at column 2 (is the file one JSON array, not one object a line?)"),
        (b'"b"', 'must be a JSON object such as {"text": "…"}; got "b"'),
        (b"[" * 100_000, "bad JSON: "),
        (b'{"text": ' + b"9" * 5000 + b"}", "bad JSON: Exceeds the limit"),
        (b'{"text": null}', "the text is missing (null)"),
        (b'{"text": 3.5}', "the text must be a string; got 3.5 (float)"),
        (b'{"text": {"a": 1}}', "the text must be a string; got {'a': 1} (dict)"),
        (b'{"text": []}', "an empty list of texts"),
        (b'{"text": ["b", ""]}', "empty text (generation 2 of 2)"),
        (b'{"text": "b\\ud800"}', "not valid Unicode: '\\ud800' at character 1"),
        (b'{"txt": "b", "n": 1}', "no field `text`; its fields are `txt`, `n`: choose with field=… (--field)"),
        (b'{"text": "b", "id": 1}', "has an `id`, but the entries before it have none"),
        (
            b'{"text": "\xe9"}',
            "not UTF-8: byte 0xe9 at byte offset 24; if it is Latin-1, re-encode the file with iconv",
        ),
    ],
    ".txt": [
        (b"", "empty text"),
        (b"b\xff", "not UTF-8: byte 0xff at byte offset 3"),
    ],
    ".csv": [
        (b'""', "empty text"),
        (b"", "empty text"),
        (b"b,c", "2 columns, where the header has 1"),
        (b'"b"c', "bad CSV: ',' expected after '\"' (lines 3 to 3)"),
        (b"b\rc", "bad CSV: new-line character seen in unquoted field"),
    ],
}
GOOD = {".jsonl": b'{"text": "a"}\n', ".txt": b"a\n", ".csv": b"text\na\n"}


@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize(
    ("suffix", "line", "words"), [(suffix, *entry) for suffix, entries in BAD_ENTRIES.items() for entry in entries]
)
def test_a_bad_entry_is_refused_with_its_place_or_left_out_and_told(suffix, line, words, zipped, tmp_path):
    path = tmp_path / f"a{suffix}{zipped}"
    after = GOOD[suffix].splitlines(keepends=True)[-1]
    data = GOOD[suffix] + line + b"\n" + after
    path.write_bytes(gzip.compress(data, mtime=0) if zipped else data)
    place = f"{path}:{GOOD[suffix].count(10) + 1}: "
    with pytest.raises(InputError, match=re.escape(place + words)) as error:
        read(path)
    assert "skip_bad=True (--skip-bad)" in str(error.value)
    found = read(path, skip_bad=True)
    assert (found.texts[0], found.texts[-1]) == ("a", "a")
    assert len(found.skipped) == 1
    assert found.skipped[0].startswith(place + words)


@pytest.mark.parametrize("name", ["id", "prompt"])
def test_an_entry_without_the_label_of_the_others(name):
    rows = [{name: "1", "text": "a"}, {"text": "b"}]
    refused(rows, f"list[1]: has no `{name}`, but the entries before it have one: give it to all of them or to none")
    found = read(rows, skip_bad=True)
    assert (found.texts, found.ids or found.prompts) == (("a",), ("1",))


def test_bad_bytes_in_csv(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'text,id\n"a\nb\xe9",1\nc,2\n')
    refused(path, f"{path}:3: not UTF-8: byte 0xe9 at byte offset 12")
    found = read(path, skip_bad=True)
    assert (found.texts, found.ids) == (("c",), ("2",))
    assert found.skipped[0].startswith(f"{path}:2: not valid Unicode: '\\udce9' at character 3")


def test_a_quotation_mark_never_closed_swallows_nothing_in_silence(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text\na\n"b\nc\nd\n')
    refused(path, f"{path}:3: bad CSV: unexpected end of data (lines 3 to 5)")
    assert read(path, skip_bad=True).skipped == (f"{path}:3: bad CSV: unexpected end of data (lines 3 to 5)",)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("suffix", [".jsonl", ".txt", ".csv"])
@pytest.mark.parametrize("skip_bad", [False, True])
def test_utf16_is_refused(encoding, suffix, skip_bad, tmp_path):
    (tmp_path / f"a{suffix}").write_bytes('{"text": "a"}\n'.encode(encoding))
    refused(
        tmp_path / f"a{suffix}", "must be UTF-8; it is UTF-16 or UTF-32. Re-encode it with iconv", skip_bad=skip_bad
    )


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.jsonl", b"", "a.jsonl: holds no samples"),
        ("a.jsonl", b"\n \n", "a.jsonl: holds no samples"),
        ("a.csv", b"", "a.csv: holds no samples"),
        ("a.csv", b"text\n", "a.csv: holds no samples"),
        ("a.csv", b"id,body\n1,a\n", "a.csv: no column `text`; its columns are `id`, `body`: choose with field=…"),
        ("a.csv", b"id;text\n1;a\n", "Only commas separate columns."),
        ("a.csv", b"text,text\na,b\n", "two columns are named `text`. Rename one of them."),
        ("a.csv", b'"text"x\na\n', "a.csv:1: bad CSV in the header"),
        ("a.json", b"[]", "got '.json'. If it holds one JSON object a line, rename it to .jsonl."),
        (
            "a.idx.gz",
            b"",
            "the suffix must be one of .jsonl .ndjson .txt .csv .parquet .npy .npz, with or without .gz; got '.idx'",
        ),
        ("ubyte.gz", b"", "got none"),
        (
            "a.txt",
            gzip.compress(b"a\n" * 1000, mtime=0)[:-12],
            "cannot be read to its end, Compressed file ended before",
        ),
        ("a.txt", b"\x1f\x8b nonsense", "cannot be read to its end"),
        ("a.npy", b"", "a.npy: not a readable npy or npz file, No data left in file. Write it again"),
        ("a.npz", b"PK\x03\x04 nonsense", "not a readable npy or npz file, File is not a zip file"),
        (
            "a.npy",
            b"nonsense",
            "not a readable npy or npz file, it holds something else than numbers. Write it again with np.save",
        ),
        ("a.png", b"", "a.png: an empty file, not an image"),
    ],
)
def test_bad_files(name, data, words, tmp_path):
    (tmp_path / name).write_bytes(data)
    refused(tmp_path / name, words)


def test_a_missing_file_names_its_neighbours(tmp_path):
    (tmp_path / "human.jsonl.gz").touch()
    refused(tmp_path / "human.jsonl", "human.jsonl: no such file. Near it: human.jsonl.gz. To measure texts themselves")
    refused(tmp_path / "x.csv", "x.csv: no such file. To measure texts themselves, pass a list of them.")
    refused(tmp_path / "gone" / "x.csv", f"no such file, and no such folder as {tmp_path / 'gone'}")
    refused("A text. " * 1000, "…: no such file")
    refused("A\0text", "no such file")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "a.txt").chmod(0)
    refused(tmp_path / "a.txt", "cannot be opened, Permission denied. Check who may read it.")


def test_where_nothing_good_is_left_the_first_reason_is_told():
    refused(
        ["", ""], "list: holds no good sample; 2 bad ones were left out, the first: list[0]: empty text", skip_bad=True
    )


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").touch()
    refused(tmp_path / "a.parquet", "pip install 'mallow[tables]'")
    with pytest.raises(InputError, match=re.escape("pip install 'mallow[tables]'")):
        write(read(["a"]), tmp_path / "b.parquet")


def test_bad_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="parquet needs pyarrow: pip install 'mallow[tables]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nonsense")
    refused(tmp_path / "a.parquet", "a.parquet: not a readable parquet file")
    parquet.write_table(arrow.table({"my.text": [["a", "b"], ["c", None]], "id": [5, 6]}), tmp_path / "b.parquet")
    refused(tmp_path / "b.parquet", "no column `text`; its columns are `my.text`, `id`")
    refused(tmp_path / "b.parquet", "b.parquet[1]: the text is missing (null) (generation 2 of 2)", field="my.text")
    assert read(tmp_path / "b.parquet", field="my.text", skip_bad=True).ids == ("5", "5", "6")


# --- features


def test_a_mapped_file_stays_on_the_disk(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(5))
    found = read(tmp_path / "a.npy", limit=3).features
    assert isinstance(found, np.memmap)
    assert np.array_equal(found, np.eye(5)[:3])


def test_arrays_of_an_npz_file_are_chosen_by_name(tmp_path):
    np.savez(tmp_path / "one.npz", x=np.eye(2), ids=[3, 4])
    np.savez(tmp_path / "two.npz", x=np.eye(2), y=np.eye(3))
    np.savez(tmp_path / "both.npz", x=np.eye(2), features=np.eye(3))
    np.savez(tmp_path / "ids.npz", x=np.eye(2), ids=["a"])
    np.savez(tmp_path / "made.npz", x=np.eye(2), provenance="[1]")
    np.savez(tmp_path / "torn.npz", x=np.eye(2), provenance="{")
    assert read(tmp_path / "one.npz").ids == ("3", "4")
    assert len(read(tmp_path / "two.npz", field="y")) == len(read(tmp_path / "both.npz")) == 3
    refused(
        tmp_path / "two.npz", "two.npz: no array `features`; its arrays are `x`, `y`: choose with field=… (--field)."
    )
    refused(tmp_path / "both.npz", "no array `z`", field="z")
    refused(tmp_path / "ids.npz", "`ids` must have one entry for each of the 2 rows; got shape (1,)")
    refused(tmp_path / "made.npz", "`provenance` must be a JSON object as text; got '[1]'")
    refused(tmp_path / "torn.npz", "`provenance` must be a JSON object as text; Expecting property name")


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", features=np.array([{"a": 1}], dtype=object))
    refused(
        tmp_path / "a.npy",
        "it holds something else than numbers. Write it again with np.save; pickles are never loaded.",
    )
    refused(tmp_path / "a.npz", "it holds something else than numbers")


@pytest.mark.parametrize("chunk", [1, 6, 1 << 22])
def test_rows_that_are_not_finite(chunk, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", chunk)
    features = np.arange(15.0).reshape(5, 3)
    features[1, 2], features[3, 0] = np.nan, -np.inf
    np.savez(tmp_path / "a.npz", features=features, ids=list("abcde"))
    path = tmp_path / "a.npz"
    refused(path, f"{path}[1]: features must be finite; got nan in column 2")
    assert len(read(path, limit=1)) == 1
    found = read(path, skip_bad=True)
    assert np.array_equal(found.features, features[[0, 2, 4]])
    assert (found.ids, len(found.skipped)) == (("a", "c", "e"), 2)
    some = read(path, skip_bad=True, limit=2)
    assert (some.ids, len(some.skipped)) == (("a", "c"), 1)
    refused(np.full((2, 2), np.nan), "ndarray: holds no good sample; 2 bad ones were left out", skip_bad=True)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (np.zeros(3), "features must have shape (n, d), a row for each sample; got shape (3,)"),
        (np.zeros((2, 3, 4)), "got shape (2, 3, 4)"),
        (np.zeros((0, 3)), "holds no samples; got shape (0, 3)"),
        (np.zeros((2, 2), complex), "features must be real numbers; got dtype complex128"),
        ([[1.0, 2.0], [3.0]], "list: features must have rows of one length"),
        ([1, 2], "list: must hold texts, paths to images or rows of features; got numbers such as 1."),
    ],
)
def test_bad_features(source, words):
    refused(source, words)


# --- lists and tables


def test_lists_arrays_and_iterators():
    for source in (["a", "b"], ("a", "b"), np.array(["a", "b"]), np.array(["a", "b"], object), iter(["a", "b"])):
        assert read(source).texts == ("a", "b")
    assert type(read(np.array(["a"])).texts[0]) is str
    for features in ([[1.0, 2.0]], [np.array([1.0, 2.0])], ((1, 2),), np.array([[1, 2]])):
        assert np.array_equal(read(features).features, [[1, 2]])
    endless = ({"text": str(i)} for i in iter(int, 1))
    assert len(read(endless, limit=3)) == 3


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ([], "list: holds no samples. At least one is needed."),
        ([None, "a"], "list[0]: the text is missing (null)"),
        (["a", 3], "list[1]: the text must be a string; got 3 (int)"),
        (["a", ""], "list[1]: empty text"),
        ([["a"], []], "list[1]: an empty list of texts"),
        (["a\udc00"], "list[0]: not valid Unicode"),
        ([{"text": "a"}, {"body": "b"}], "list[1]: no field `text`; its fields are `body`"),
        (3, "`source` must be a path, a list, an array or a table; got int."),
        (b"a.txt", "got bytes."),
        ({"train": ["a"]}, "got dict. Of several sets, or several splits of a dataset, pass one."),
    ],
)
def test_bad_lists(source, words):
    refused(source, words)


class Frame:
    """The part of a pandas or polars frame that is used."""

    def __init__(self, **columns):
        self.columns = list(columns)
        self._columns = columns

    def __getitem__(self, name):
        return self._columns[name]


class Dataset(Frame):
    """The part of a Hugging Face dataset that is used."""

    column_names = property(lambda self: self.columns)


@pytest.mark.parametrize("table", [Frame, Dataset])
def test_tables_by_their_columns(table):
    found = read(table(id=[1, 2], n=[0, 0], text=["a", "b"], prompt=["p", "q"]))
    assert (found.texts, found.ids, found.prompts) == (("a", "b"), ("1", "2"), ("p", "q"))
    refused(table(body=["a"], n=[1]), f"{table.__name__}: no column `text`; its columns are `body`, `n`")
    refused(table(text=["a", float("nan")]), f"{table.__name__}[1]: the text is missing (null)")


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames_and_series(package):
    library = pytest.importorskip(package, reason=f"{package} is not installed; stand-ins are tested above")
    frame = library.DataFrame({"id": [1, 2], "text": ["a", "b"], "gen": [["a", "b"], ["c", "d"]], "gap": ["a", None]})
    assert (read(frame).texts, read(frame).ids) == (("a", "b"), ("1", "2"))
    assert read(frame, field="gen").ids == ("1", "1", "2", "2")
    assert read(frame["text"]).texts == ("a", "b")
    refused(frame, "DataFrame[1]: the text is missing (null)", field="gap")
    refused(frame["gap"], "Series[1]: the text is missing (null)")
    refused(frame, "no column `x`", field="x")
    refused(library.DataFrame({"a": [1.0]}), "Features are passed as an array: its .to_numpy().")
    if package == "polars":
        refused(frame.lazy(), "got a LazyFrame. Call its .collect() first.")


def test_arrow_tables():
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed; stand-ins are tested above")
    assert read(arrow.table({"text": ["a", "b"]})).texts == read(arrow.array(["a", "b"])).texts == ("a", "b")


def test_hugging_face_datasets():
    library = pytest.importorskip("datasets", reason="datasets is not installed; stand-ins are tested above")
    data = library.Dataset.from_dict({"text": ["a", "b"], "id": [1, 2]})
    for source in (data, data.to_iterable_dataset()):
        assert (read(source).texts, read(source).ids) == (("a", "b"), ("1", "2"))
    assert read(data["text"]).texts == ("a", "b")
    refused(library.DatasetDict({"train": data}), "got DatasetDict. Of several sets, or several splits")


# --- images


def test_a_folder_of_images_in_the_order_of_names(tmp_path):
    for name in ("dog/2.png", "dog/10.PNG", "cat/a b.png", "é.png", ".hidden/x.png", "dog/._2.png"):
        png(tmp_path / name)
    (tmp_path / "labels.txt").write_text("not an image")
    found = read(tmp_path)
    assert found.ids == ("cat/a b.png", "dog/10.PNG", "dog/2.png", "é.png")
    assert found.paths == tuple(tmp_path / name for name in found.ids)
    assert (found.kind, found.skipped) == ("image", ())
    assert read(tmp_path, limit=2).ids == found.ids[:2]


def test_linked_folders_are_followed_but_not_in_circles(tmp_path):
    png(tmp_path / "elsewhere" / "a.png")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "class").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "again").symlink_to(tmp_path / "images")
    assert read(tmp_path / "images").ids == ("class/a.png",)


def test_lists_of_paths_are_images(tmp_path):
    first, second = png(tmp_path / "a.png"), png(tmp_path / "b.png")
    for source in ([second, first], [str(second), str(first)], iter([second, first])):
        assert read(source).paths == (second, first)
    assert read(str(first)).paths == (first,)
    assert read(["see a.png", "a text"]).kind == "text"
    refused([str(first), "gone.png"], "gone.png: no such file")
    refused([first, tmp_path / "a.txt"], "a.txt: not an image that is read, by its suffix '.txt'")
    refused([first, 3], "3: must be the path to an image; got 3")


def test_a_bad_image_is_refused_by_name_or_left_out_and_told(tmp_path):
    pytest.importorskip("PIL", reason="headers are checked with Pillow: pip install 'mallow[images]'")
    png(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"nonsense")
    (tmp_path / "c.heic").write_bytes(b"a picture")
    refused(tmp_path, f"{tmp_path / 'b.png'}: not an image that can be opened. Mend it, or leave")
    found = read(tmp_path, skip_bad=True)
    assert found.ids == ("a.png",)
    assert found.skipped == (
        f"{tmp_path / 'b.png'}: not an image that can be opened",
        f"{tmp_path / 'c.heic'}: not an image that is read, by its suffix '.heic': convert it to png or jpg",
    )


def test_large_images_are_legal_and_absurd_ones_are_told(tmp_path):
    pytest.importorskip("PIL", reason="headers are checked with Pillow: pip install 'mallow[images]'")
    large = png(tmp_path / "a.png")
    for side, legal in ((10_000, True), (60_000, False)):
        data = bytearray(large.read_bytes())
        data[16:24] = struct.pack(">II", side, side)
        data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
        large.write_bytes(data)
        if legal:
            assert len(read(tmp_path)) == 1
        else:
            refused(tmp_path, "a.png: not an image that can be opened: Image size")


def test_without_pillow_names_and_sizes_are_checked(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (tmp_path / "a.png").write_bytes(b"nonsense")
    assert len(read(tmp_path)) == 1
    (tmp_path / "b.png").touch()
    refused(tmp_path, "b.png: an empty file, not an image")


def test_a_folder_without_images_says_what_it_holds(tmp_path):
    refused(tmp_path, "a folder must hold images (.bmp .gif .jpeg .jpg .png .tif .tiff .webp); it holds no files.")
    for name in "abcd":
        (tmp_path / f"{name}.jsonl").touch()
    refused(tmp_path, "it holds a.jsonl, b.jsonl, c.jsonl, …. Of text and feature files, pass one.")


# --- real files


def test_real_generations(shared):
    folder = shared / "data" / "webtext-gpt2-large"
    refused(folder / "human.jsonl.gz", "human.jsonl.gz:1: no field `text`; its fields are `prefix`, `gen`")
    human = read(folder / "human.jsonl.gz", field="gen")
    assert (len(human), human.generations, human.skipped) == (1000, 1, ())
    # Beam search ended at once for four prompts, nucleus sampling for one of its three thousand.
    refused(folder / "beam.jsonl.gz", "empty text (generation 1 of 1)", field="gen")
    beam = read(folder / "beam.jsonl.gz", field="gen", skip_bad=True)
    assert (len(beam), len(beam.skipped)) == (996, 4)
    nucleus = read(folder / "nucleus.jsonl.gz", field="gen", skip_bad=True)
    assert (len(nucleus), len(nucleus.skipped), nucleus.generations) == (2999, 1, None)
    assert set(nucleus.ids) == set(human.ids)
    assert set(beam.ids) < set(human.ids)
    refused(folder, "it holds README.md, beam.jsonl.gz")


@pytest.mark.parametrize(
    ("name", "field", "n"),
    [
        ("webtext-gpt2-small/webtext.human.jsonl.gz", None, 999),
        ("reuters/reuters_c50.jsonl.gz", None, 5000),
        ("classic-books/classic_books_chunks.jsonl.gz", None, 8000),
        ("human-eval/human_vs_model_720.jsonl.gz", "Input.completionb", 720),
    ],
)
def test_real_texts(shared, tmp_path, name, field, n):
    found = read(shared / "data" / name, field=field)
    assert (len(found), found.skipped) == (n, ())
    some = read(found, limit=300)  # Reuters and the books hold \r\n
    for suffix in (".jsonl", ".csv"):
        write(some, tmp_path / f"a{suffix}")
        assert read(tmp_path / f"a{suffix}").texts == some.texts == found.texts[:300]


def test_other_real_files(shared):
    merges = read(shared / "data" / "gpt2-bpe" / "merges.txt")
    assert merges.texts[0] == "#version: 0.2"
    refused(shared / "data" / "gpt2-bpe" / "vocab.json", "got '.json'. If it holds one JSON object a line")
    refused(shared / "data" / "mnist" / "t10k-images-idx3-ubyte.gz", "the suffix must be one of .jsonl")
    refused(shared / "data" / "reuters" / "reuters.jsonl.gz", "Near it: reuters_c50.jsonl.gz")
