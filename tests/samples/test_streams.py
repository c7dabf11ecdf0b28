"""Files as bytes: byte-order marks, line ends, compression and encodings."""

import gzip
import os

import pytest

from mallow import read
from mallow.samples import Limits


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
