"""Files of texts: long texts, memory, and every bad entry with its place."""

import csv
import gzip
import json
import re
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from mallow import InputError, read, write
from mallow.samples import Limits

BAD_ENTRIES = {
    ".jsonl": [
        (b'{"text": ""}', "empty text"),
        (b'{"text": "b"', "invalid JSON: Expecting ',' delimiter at column 13"),
        (b"[", "invalid JSON: Expecting value at column 2"),
        (b'"b"', 'must be a JSON object such as {"text": "…"}; got "b"'),
        (b"[" * 100_000, "lists and objects must be nested at most 100 deep; allow more with `limits="),
        (b'{"text": ' + b"9" * 5000 + b"}", "invalid JSON: Exceeds the limit"),
        (b'{"text": null}', "the text is missing (null)"),
        (b'{"text": 3.5}', "the text must be a string; got 3.5 (float)"),
        (b'{"text": {"a": 1}}', "the text must be a string; got {'a': 1} (dict)"),
        (b'{"text": []}', "the list of texts is empty"),
        (b'{"text": ["b", ""]}', "empty text (generation 2 of 2)"),
        (b'{"text": "b\\ud800"}', "not valid Unicode: '\\ud800' at character 1"),
        (b'{"txt": "b", "n": 1}', "no field 'text'; available fields: 'txt', 'n'; choose one with `field`"),
        (
            b'{"text": "b", "id": 1}',
            "`id` is present here but missing in the entries before it. All entries must have it, or none",
        ),
        (
            b'{"text": "\xe9"}',
            "not UTF-8: byte 0xe9 at byte offset 24; if the file is Latin-1, re-encode it with iconv -f ISO-8859-1 -t UTF-8",
        ),
    ],
    ".txt": [
        (b"", "empty text"),
        (b"b\xff", "not UTF-8: byte 0xff at byte offset 3"),
    ],
    ".csv": [
        (b'""', "empty text"),
        (b"", "empty text"),
        (b"b,c", "2 columns, but the header has 1"),
        (b'"b"c', "invalid CSV: ',' expected after '\"' (lines 3 to 3)"),
        (b"b\rc", "invalid CSV: new-line character seen in unquoted field"),
    ],
}


GOOD = {".jsonl": b'{"text": "a"}\n', ".txt": b"a\n", ".csv": b"text\na\n"}


@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize(
    ("suffix", "line", "message"), [(suffix, *entry) for suffix, entries in BAD_ENTRIES.items() for entry in entries]
)
def test_a_bad_entry_is_refused_with_its_place_or_skipped_and_listed(suffix, line, message, zipped, tmp_path):
    path = tmp_path / f"a{suffix}{zipped}"
    after = GOOD[suffix].splitlines(keepends=True)[-1]
    data = GOOD[suffix] + line + b"\n" + after
    path.write_bytes(gzip.compress(data, mtime=0) if zipped else data)
    place = f"{path}:{GOOD[suffix].count(10) + 1}: "
    with pytest.raises(InputError, match=re.escape(place + message)) as error:
        read(path)
    assert "`skip_bad=True`" in str(error.value)
    samples = read(path, skip_bad=True)
    assert (samples.texts[0], samples.texts[-1]) == ("a", "a")
    assert len(samples.skipped) == 1
    assert samples.skipped[0].startswith(place + message)


def test_bad_bytes_in_csv(tmp_path, refused):
    path = tmp_path / "a.csv"
    path.write_bytes(b'text,id\n"a\nb\xe9",1\nc,2\n')
    refused(path, f"{path}:3: not UTF-8: byte 0xe9 at byte offset 12")
    samples = read(path, skip_bad=True)
    assert (samples.texts, samples.ids) == (("c",), ("2",))
    assert samples.skipped[0].startswith(f"{path}:2: not valid Unicode: '\\udce9' at character 3")


def test_a_quotation_mark_that_is_never_closed_swallows_nothing_silently(tmp_path, refused):
    path = tmp_path / "a.csv"
    path.write_text('text\na\n"b\nc\nd\n')
    refused(path, f"{path}:3: invalid CSV: unexpected end of data (lines 3 to 5)")
    assert read(path, skip_bad=True).skipped == (f"{path}:3: invalid CSV: unexpected end of data (lines 3 to 5)",)


def test_a_text_of_a_million_characters(tmp_path):
    text = "é, \n" * 250_000
    csv.field_size_limit(131_072)
    for suffix in (".jsonl", ".csv"):
        write(read([text, "b"]), tmp_path / f"a{suffix}")
        assert read(tmp_path / f"a{suffix}").texts == (text, "b")
    assert csv.field_size_limit() == 131_072


@pytest.mark.parametrize("line_mb", [0.001, 2147.0, 9000.0])
def test_entries_of_a_csv_file_are_limited_as_a_whole(tmp_path, line_mb):
    limits, before = Limits(line_mb=line_mb), csv.field_size_limit()
    lines = [f'"{chr(10).join(letter * 400 for letter in "ab")}",{"c" * size}' for size in (197, 195, 195)]
    (tmp_path / "a.csv").write_text("\n".join(["text,id", *lines[1:]]))
    assert len(read(tmp_path / "a.csv", limits=limits)) == 2  # each has 1,000 characters, its line ends included
    (tmp_path / "a.csv").write_text("\n".join(["text,id", *lines[1:], lines[0]]))
    if line_mb > 1:
        assert len(read(tmp_path / "a.csv", limits=limits)) == 3
    else:
        with pytest.raises(InputError, match=r"a\.csv:6: the entry is longer than 0\.001 MB"):
            read(tmp_path / "a.csv", limits=limits)
    assert csv.field_size_limit() == before


def test_several_threads_read_long_cells(tmp_path):
    before, interval = csv.field_size_limit(), sys.getswitchinterval()
    for name in "abcdefgh":
        lines = ["x" * (200_000 if place % 5 == 0 else 10) for place in range(20)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text", *lines]))
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            sizes = list(pool.map(lambda name: len(read(tmp_path / f"{name}.csv")), "abcdefgh" * 3))
    finally:
        sys.setswitchinterval(interval)
    assert set(sizes) == {20}
    assert csv.field_size_limit() == before


def test_texts_are_in_memory_once(tmp_path):
    path, n, size = tmp_path / "a.jsonl.gz", 2000, 10_000
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.writelines(json.dumps({"text": f"{i:<{size}}"}) + "\n" for i in range(n))
    tracemalloc.start()
    samples = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(samples) == n
    assert peak < 1.1 * n * size


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch, refused):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").touch()
    refused(tmp_path / "a.parquet", "[tables]'")
    with pytest.raises(InputError, match=r"pip install '.*\[tables\]'$"):
        write(read(["a"]), tmp_path / "b.parquet")


def test_compressed_parquet_with_and_without_the_suffix(tmp_path, refused):
    """What the fuzzer found: both were exceptions of other kinds."""
    pytest.importorskip("pyarrow", reason="parquet needs pyarrow: pip install 'mallow[tables]'")
    write(read(["one", "two"]), tmp_path / "a.parquet.gz")
    packed = (tmp_path / "a.parquet.gz").read_bytes()
    (tmp_path / "a.parquet").write_bytes(packed)
    assert read(tmp_path / "a.parquet").texts == ("one", "two")
    damaged = packed[:30] + b"xxxxx" + packed[35:]
    for name in ("b.parquet.gz", "b.parquet"):
        for content in (packed[:-20], damaged):
            (tmp_path / name).write_bytes(content)
            refused(tmp_path / name, f"{name}: cannot be read to the end: ")


def test_bad_parquet(tmp_path, refused):
    arrow = pytest.importorskip("pyarrow", reason="parquet needs pyarrow: pip install 'mallow[tables]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nonsense")
    refused(tmp_path / "a.parquet", "a.parquet: not a readable parquet file")
    parquet.write_table(arrow.table({"my.text": [["a", "b"], ["c", None]], "id": [5, 6]}), tmp_path / "b.parquet")
    refused(tmp_path / "b.parquet", "no column 'text'; available columns: 'my.text', 'id'")
    refused(tmp_path / "b.parquet", "b.parquet[1]: the text is missing (null) (generation 2 of 2)", field="my.text")
    assert read(tmp_path / "b.parquet", field="my.text", skip_bad=True).ids == ("5", "5", "6")


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_a_name_that_stands_twice_and_an_id_that_is_true_are_refused(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    for entry, complaint in (
        ('{"text": "a", "text": "b"}', "the key 'text' occurs twice"),
        ('{"text": "a", "id": true}', "`id` must be a text or a number; got True"),
    ):
        path.write_text(entry if suffix == ".jsonl" else f"[{entry}]")
        with pytest.raises(InputError, match=complaint):
            read(path)
