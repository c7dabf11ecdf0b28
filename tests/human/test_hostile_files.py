"""Files of studies that are damaged, huge or hostile: one line for each, whatever reads them."""

import csv
import gzip
import os

import pytest

from mallow import _files
from mallow.errors import InputError
from mallow.human import correlate, read_form, read_gold, read_study, read_votes

DEEP = b"[" * 100_000 + b"]" * 100_000
READERS = {
    "votes.jsonl": read_votes,
    "votes.json": read_votes,
    "study.json": read_study,
    "form.json": read_form,
    "gold.jsonl": read_gold,
    "values.json": lambda path: correlate(path, path),
}


@pytest.fixture(params=READERS)
def refuses(request, tmp_path):
    """Writes a file and checks that it is refused in one line that names it."""

    def check(content: bytes | None, message: str) -> None:
        path = tmp_path / request.param
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError, match=message) as caught:
            READERS[request.param](path)
        assert str(caught.value).startswith(str(path))
        assert str(caught.value).isprintable()

    return check


def test_deep_json(refuses):
    refuses(DEEP, r"nested too deeply")


def test_bytes_that_are_no_text(refuses):
    refuses(b"\xff\xfe\x00", r"must be UTF-8 text; byte 0 is not")


def test_a_file_that_is_not_there(refuses):
    refuses(None, r"cannot be read: No such file or directory")


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_without_a_writer_and_a_device_do_not_hang(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="must be a file on a disk, but it is a pipe or a device"):
        READERS[name](tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(InputError, match="must be a file on a disk, but it is a pipe or a device"):
        READERS[name](tmp_path / name)


def test_compressed_votes_that_are_damaged_or_expand(tmp_path, monkeypatch):
    good = gzip.compress(b'{"left": "a", "right": "b", "answer": 1}\n')
    path = tmp_path / "votes.jsonl.gz"
    path.write_bytes(good)
    assert len(read_votes(path)) == 1
    for content in (good[:-9], good[:15] + b"\xff\xff\xff" + good[18:]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"votes.jsonl.gz: cannot be read to the end: .* Is the file complete\?"):
            read_votes(path)
    path.write_bytes(b"plain")
    with pytest.raises(InputError, match=r"votes.jsonl.gz: cannot be read: Not a gzipped file"):
        read_votes(path)
    monkeypatch.setattr(_files, "_LARGEST_TEXT", 1_000_000)
    path.write_bytes(gzip.compress(b" " * 1_000_001))
    with pytest.raises(InputError, match=r"expands to more than 0.001 GB, which is the most that is read"):
        read_votes(path)


TABLES = [("votes.csv", read_votes), ("values.csv", READERS["values.json"])]


@pytest.mark.parametrize(("name", "reader"), TABLES)
def test_a_quotation_mark_that_is_never_closed_swallows_nothing(name, reader, tmp_path):
    rows = "".join(f"a,b,b,line {place}\n" for place in range(5))
    (tmp_path / name).write_text(f'model_a,model_b,winner,prompt\na,b,a,"line\n{rows}')
    with pytest.raises(InputError, match=rf"{name}.*: is not csv: unexpected end of data"):
        reader(tmp_path / name)


@pytest.mark.parametrize(("name", "reader"), TABLES)
def test_a_cell_without_an_end(name, reader, tmp_path):
    (tmp_path / name).write_text('model_a,model_b,winner\na,b,"' + "x" * (csv.field_size_limit() + 1))
    with pytest.raises(InputError, match=rf"{name}.*: is not csv: field larger than field limit"):
        reader(tmp_path / name)
