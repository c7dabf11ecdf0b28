"""Files as bytes: byte-order marks, line ends, compression and encodings."""

import gzip
import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow import InputError, read
from mallow.samples import Limits
from mallow.samples._entries import BadEntryError
from mallow.samples._streams import decode_lines, decompress, file_format, is_gzip, is_pipe, seekable


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


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("suffix", [".jsonl", ".txt", ".csv"])
@pytest.mark.parametrize("skip_bad", [False, True])
def test_utf16_is_refused(encoding, suffix, skip_bad, tmp_path, refused):
    (tmp_path / f"a{suffix}").write_bytes('{"text": "a"}\n'.encode(encoding))
    refused(
        tmp_path / f"a{suffix}",
        "must be UTF-8, but it looks like UTF-16 or UTF-32. Re-encode it with iconv -f UTF-16 -t UTF-8.",
        skip_bad=skip_bad,
    )


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path, refused):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "a.txt").chmod(0)
    refused(tmp_path / "a.txt", "cannot be opened: Permission denied. Check its permissions.")


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
    monkeypatch.setattr("mallow.samples._limits.ALWAYS_ALLOWED", 70_000)
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


def test_a_writer_that_has_come_and_gone_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    keep = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        for content in (b"one\ntwo\n", b"x" * 60_000 + b"\n"):
            with (tmp_path / "pipe").open("wb", buffering=0) as writer:
                writer.write(content)
            assert len(read(tmp_path / "pipe", limits=Limits(wait=30))) == content.count(b"\n")
    finally:
        os.close(keep)
