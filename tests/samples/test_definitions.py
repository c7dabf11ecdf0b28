"""What has a definition of its own, and no public call that shows it: compared with that definition."""

import gzip
import io
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow import InputError
from mallow.samples import Limits
from mallow.samples._entries import BadEntryError
from mallow.samples._eval_logs import plain_harness_rows
from mallow.samples._streams import decode_lines, decompress, file_format, is_gzip, is_pipe, seekable
from mallow.samples._value_checks import ALWAYS_ALLOWED, check_expansion, nesting_depth

# --- eval logs


@pytest.mark.parametrize(
    ("row", "read_as"),
    [
        ({"resps": [["a"]], "text": "own"}, {"text": "own"}),  # a field of that name is the text, as everywhere
        ({"filtered_resps": ["a", "b"]}, {"text": ["a", "b"], "id": 7}),
        ({"resps": [["a"]], "filtered_resps": ["b"]}, {"text": "a", "id": 7}),
        ({"resps": [["a"]], "prompt": "own", "arguments": [["p"]]}, {"text": "a", "id": 7, "prompt": "own"}),
        ({"resps": [["a"]], "arguments": {}}, {"text": "a", "id": 7}),
        ({"resps": [["a"]], "arguments": [[], ["p"]]}, {"text": "a", "id": 7}),
        ({"resps": [["a"]], "arguments": {"x": {"y": {"z": "p"}}}}, {"text": "a", "id": 7, "prompt": "p"}),
        ({"resps": [["1.5"]], "arguments": [["p", {"until": []}]]}, {"text": "1.5", "id": 7, "prompt": "p"}),
        ({"resps": [["1.5", "x"]], "arguments": [["p", "c"]]}, {"text": ["1.5", "x"], "id": 7, "prompt": "p"}),
        ({"resps": [["1.5"]], "arguments": 5}, {"text": "1.5", "id": 7}),
        ({"resps": [["1.5"]], "arguments": []}, {"text": "1.5", "id": 7}),
    ],
)
def test_rows_of_the_harness(row, read_as):
    full = {"doc_id": 7, **row}
    assert list(plain_harness_rows([(3, full)])) == [(3, full | read_as)]


def test_rows_of_others_are_as_they_were():
    rows = [(0, {"doc_id": 1}), (1, {"resps": [["a"]]}), (2, "text"), (3, {"id": 1, "filter": "x"})]
    assert list(plain_harness_rows(rows)) == rows
    kept = [
        (place, {"doc_id": place, "resps": ["a"], "filter": name}) for place, name in enumerate(["x", "y", "x", ""])
    ]
    assert [place for place, _ in plain_harness_rows(kept)] == [0, 2]
    assert [place for place, _ in plain_harness_rows([(0, {"doc_id": 1, "resps": ["a"]}), *kept])] == [0, 3]


# --- limits


@given(value=st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_the_depth_of_json(value):
    def depth(one):
        inside = one.values() if isinstance(one, dict) else one if isinstance(one, list) else None
        return 0 if inside is None else 1 + max(map(depth, inside), default=0)

    assert nesting_depth(json.dumps(value, ensure_ascii=False)) == depth(value)


@given(size=st.integers(1, 10**12), stored=st.integers(1, 10**10), expansion=st.floats(1, 1e4))
def test_the_rule_of_expansion(size, stored, expansion):
    limits = Limits(expansion=expansion)
    if size <= ALWAYS_ALLOWED or size <= expansion * stored:
        check_expansion("a", size, stored, limits)
    else:
        with pytest.raises(InputError, match="a: expands to more than"):
            check_expansion("a", size, stored, limits)


# --- streams


@given(
    lines=st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"").replace(b"\0", b"")), max_size=5),
    longest=st.integers(4, 12),
    mark=st.booleans(),
)
def test_every_line_has_its_number_and_every_bad_byte_its_place(lines, longest, mark):
    data = (b"\xef\xbb\xbf" if mark else b"") + b"first\n" + b"".join(line + b"\n" for line in lines)
    found = list(decode_lines(io.BytesIO(data), "a", Limits(line_mb=longest / 1e6)))
    raw = data.split(b"\n")[:-1]
    assert [number for number, _ in found] == list(range(1, len(raw) + 1))
    start = 0
    for number, (line, (_, row)) in enumerate(zip(raw, found, strict=True)):
        content = line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line
        if len(line) > longest:
            assert str(row).startswith(f"the line is longer than {longest / 1e6:g} MB; allow longer ones")
        elif isinstance(row, BadEntryError):
            place = int(str(row).split("byte offset ")[1].split(";")[0])
            assert start <= place < start + len(line)
            assert f"byte 0x{data[place]:02x} " in str(row)
            assert row.line.encode(errors="surrogateescape") == content + b"\n"
            with pytest.raises(UnicodeDecodeError) as error:
                content.decode()
            assert place == start + len(line) - len(content) + error.value.start
        else:
            assert row.encode() == content + b"\n"
        start += len(line) + 1


@pytest.mark.parametrize(
    ("start", "bad"),
    [
        (b"a", False),
        (b"ab", False),
        (b"a\0", True),
        (b"\0a", True),
        (b"a\0b", True),
        (b"a\0b\0", True),
        (b"a\0bc", False),
        (b"ab\0\0", False),
        (b"\0\0\0\0", False),
        (b"\0a\0b", True),
        (b"\0ab", False),
        (b"\0a\0\0", False),
        (b"a\0\0\0", False),
        (b"a\0\0b", False),
        (b"\xff\xfe", True),
        (b"\xfe\xff\0\0", True),
        (b"\xfe", False),
    ],
)
def test_what_looks_like_utf16(start, bad):
    if bad:
        with pytest.raises(InputError, match=r"^a: must be UTF-8, but it looks like UTF-16 or UTF-32"):
            list(decode_lines(io.BytesIO(start), "a", Limits()))
    else:
        assert len(list(decode_lines(io.BytesIO(b"x\n" + start), "a", Limits()))) == 2
        assert len(list(decode_lines(io.BytesIO(start), "a", Limits()))) == 1


def test_formats_by_suffix():
    known = ["jsonl", "ndjson", "json", "txt", "csv", "parquet", "npy", "npz", "eval"]
    for suffix in known:
        form = "jsonl" if suffix == "ndjson" else suffix
        assert file_format(Path(f"a.{suffix}"), "a") == (form, False)
        assert file_format(Path(f"b.x.{suffix.upper()}.GZ"), "a") == (form, True)
    for name, got in (("a", "none"), ("a.gz", "none"), ("a.zip", "'.zip'"), ("a.doc.gz", "'.doc'")):
        with pytest.raises(
            InputError, match=rf"^here: the suffix must be one of {' '.join(f'.{one}' for one in known)}, with or"
        ):
            file_format(Path(name), "here")
        with pytest.raises(InputError, match=rf"got {got}\.$"):
            file_format(Path(name), "here")


def test_what_is_compressed_is_expanded_as_far_as_allowed(monkeypatch):
    data = bytes(range(256)) * 1000
    packed = io.BufferedReader(io.BytesIO(gzip.compress(data)))
    assert is_gzip(packed)
    assert not is_gzip(io.BufferedReader(io.BytesIO(b"\x1f")))
    stream = decompress(packed, "a", Limits())
    assert not stream.seekable()
    assert seekable(stream, "a").read() == data
    plain = io.BufferedReader(io.BytesIO(data))
    assert decompress(plain, "a", Limits()) is plain
    assert seekable(plain, "a") is plain
    monkeypatch.setattr("mallow.samples._value_checks.ALWAYS_ALLOWED", 70_000)
    with pytest.raises(InputError, match=r"^a: expands to more than 20 times its size, 0 MB or more from 0\.00 MB"):
        decompress(io.BufferedReader(io.BytesIO(gzip.compress(data))), "a", Limits(expansion=20)).read()
    short = io.BufferedReader(io.BytesIO(gzip.compress(data)[:-5]))
    with pytest.raises(InputError, match=r"^a: cannot be read to the end: .*Is the file complete\?$"):
        seekable(decompress(short, "a", Limits(expansion=1000)), "a")


def test_what_is_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    assert (is_pipe(tmp_path / "pipe", "a"), is_pipe(tmp_path / "file", "a")) == (True, False)
    with pytest.raises(InputError, match=r"^a: is a device, not a file of samples"):
        is_pipe(Path("/dev/null"), "a")
    with pytest.raises(InputError, match=r"^a: is neither a file nor a folder nor a pipe"):
        is_pipe(tmp_path, "a")
