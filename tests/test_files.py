"""Files are written completely or not at all, are on the disk when that is said, and leave nothing behind."""

import errno
import gzip
import json
import os
import re
import shutil
import stat

import numpy as np
import pytest

from mallow._files import atomic_file, files_below, make_folder, read_text, write_text
from mallow.embed import WordVectors
from mallow.errors import InputError
from mallow.generate import NGram, generate_file, prompts_of
from mallow.models._source import gguf_architecture
from mallow.samples import Samples, write


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def calls(monkeypatch):
    """The calls that put a file on the disk, in their order; each is still made."""
    seen = []
    sync, replace = os.fsync, os.replace

    def spy_sync(handle):
        kind = "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"file of {os.fstat(handle).st_size} bytes"
        seen.append(f"sync {kind}")
        sync(handle)

    def spy_replace(source, target):
        seen.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", spy_sync)
    monkeypatch.setattr(os, "replace", spy_replace)
    return seen


def test_samples_are_on_the_disk_before_they_have_their_name(tmp_path, calls):
    write(Samples(texts=["one", "two"]), tmp_path / "a.txt")
    assert calls == ["sync file of 8 bytes", "rename", "sync folder"]
    calls.clear()
    write(Samples(features=np.zeros((2, 2))), tmp_path / "a.npy")
    assert calls == ["sync file of 160 bytes", "rename", "sync folder"]


def test_texts_are_on_the_disk_before_they_have_their_name(tmp_path, calls):
    write_text(tmp_path / "a.txt", "é")
    assert calls == ["sync file of 2 bytes", "rename", "sync folder"]


def fail(*arguments):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, call):
    target = tmp_path / "a.txt"
    target.write_text("old")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(InputError, match=r"a\.txt: cannot be written: No space left on device"):
        write_text(target, "new")
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def half_written(target):
    with atomic_file(target) as stream:
        stream.write(b"ne")
        raise RuntimeError("in the middle")


def test_an_error_while_writing_leaves_the_old_file_and_no_other(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError, match="in the middle"):
        half_written(target)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_in_the_place_of_the_file_leaves_no_temporary_file(tmp_path):
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(InputError, match=r"a\.txt: cannot be written: Is a directory"):
        write_text(tmp_path / "a.txt", "content")
    assert names(tmp_path) == ["a.txt"]


def test_names_that_are_not_unicode_are_written_as_escapes(tmp_path):
    write_text(tmp_path / "a.json", json.dumps({"name": "f\udcff"}, ensure_ascii=False))
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"name": "f\udcff"}


def test_texts_that_are_read_whole(tmp_path):
    (tmp_path / "a.json").write_text("é", encoding="utf-8")
    assert read_text(tmp_path / "a.json") == "é"
    (tmp_path / "b.json").write_bytes(b"ab\xff")
    with (tmp_path / "large.json").open("wb") as stream:
        stream.truncate(1_500_000_000)  # without taking up space
    os.mkfifo(tmp_path / "pipe.json")
    for name, message in {
        "gone.json": "gone.json: cannot be read: No such file or directory. Check the path.",
        "b.json": "b.json: must be UTF-8 text; byte 2 is not.",
        "large.json": "large.json: has 1.5 GB; at most 1 GB are read.",
        "pipe.json": "pipe.json: must be a file on a disk, but it is a pipe or a device. Save its content to a file first.",
        "": ": is a folder, not a file. Name a file in it.",
    }.items():
        with pytest.raises(InputError) as error:
            read_text(tmp_path / name)
        assert str(error.value).endswith(message)


def test_folders(tmp_path):
    assert make_folder(tmp_path / "a" / "b").is_dir()
    with pytest.raises(InputError, match="the name of a folder must not be empty"):
        make_folder("")
    with pytest.raises(InputError, match="the folder cannot be created: Not a directory"):
        make_folder("/dev/null/a")


def test_new_folders_are_on_the_disk(tmp_path, calls, monkeypatch):
    make_folder(tmp_path / "a" / "b")
    assert calls == ["sync folder"] * 2
    assert make_folder(tmp_path / "a" / "b").is_dir()
    assert len(calls) == 2  # it was there already
    seen = []
    monkeypatch.setattr("mallow._files.sync_folder", seen.append)
    make_folder(tmp_path / "a" / "c" / "d")
    assert sorted(seen) == [tmp_path / "a", tmp_path / "a" / "c"]


def test_disks_that_cannot_synchronise_folders_are_accepted_and_failing_ones_told(tmp_path, monkeypatch):
    synchronise = os.fsync

    def failing(code):
        def fsync(handle):
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                raise OSError(code, os.strerror(code))
            synchronise(handle)

        return fsync

    for code in (errno.EINVAL, errno.ENOTSUP):
        monkeypatch.setattr(os, "fsync", failing(code))
        write_text(tmp_path / "a.txt", os.strerror(code))
        assert read_text(tmp_path / "a.txt") == os.strerror(code)
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(InputError, match=r"b\.txt: cannot be written: Input/output error\."):
        write_text(tmp_path / "b.txt", "x")


def test_compressed_texts_up_to_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("mallow._files._LARGEST_TEXT", 1000)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"x" * 1000))
    assert read_text(path) == "x" * 1000
    path.write_bytes(gzip.compress(b"x" * 1001))
    with pytest.raises(InputError, match=r"a\.txt\.gz: expands to more than 1e-06 GB"):
        read_text(path)


SPECIAL = "is a device or a pipe, not a file on a disk. Name a file."


def test_pipes_and_devices_are_neither_replaced_nor_waited_for(tmp_path):
    """Whoever runs as root and writes to /dev/null must still have one afterwards."""
    pipe, link = tmp_path / "pipe.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    ngram = NGram.fit(["a b c", "a c b"], order=2)
    for path in (pipe, link):
        for use in (
            lambda file: write_text(file, "new"),
            lambda file: write(Samples(texts=["a"]), file),
            lambda file: generate_file(ngram, prompts_of(["a b c"], ngram, tokens=1), "greedy", file),
            gguf_architecture,
            WordVectors,
        ):
            with pytest.raises(InputError, match=rf"(pipe|link)\.jsonl: {re.escape(SPECIAL)}"):
                use(path)
        assert stat.S_ISFIFO(path.stat().st_mode)
    with pytest.raises(InputError, match=f"/dev/null: {re.escape(SPECIAL)}"), atomic_file("/dev/null"):
        pass
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.jsonl", "pipe.jsonl"]


def test_a_folder_that_vanishes_while_it_is_listed_is_refused(tmp_path):
    """Found by fuzzing: reading / ended in a FileNotFoundError, since processes end while /proc is listed."""
    (tmp_path / "inside").mkdir()
    for path in ("a.npy", "inside/b.npy", ".hidden"):
        (tmp_path / path).touch()
    assert {file.name for file in files_below(tmp_path)} == {"a.npy", "b.npy"}
    files = files_below(tmp_path)
    assert next(files).name == "a.npy"
    shutil.rmtree(tmp_path / "inside")
    with pytest.raises(InputError, match=r"inside: the folder cannot be read: No such file .* Check that it is there"):
        next(files)
