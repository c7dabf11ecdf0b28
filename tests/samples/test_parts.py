"""A part of a shard at a time: every sample once, in order, and what is skipped is listed once."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from mallow import InputError
from mallow.samples import Limits, read_parts

Image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")


def picture(seed):
    content = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (3, 2, 3), np.uint8)).save(content, "PNG")
    return content.getvalue()


PICTURES = [picture(seed) for seed in range(5)]


def pack(path, *entries):
    """A tar archive of files (name, content), and of links and folders where there is no content."""
    with tarfile.open(path, "w") as archive:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            entry.size, entry.type = (0, tarfile.DIRTYPE) if content is None else (len(content), tarfile.REGTYPE)
            archive.addfile(entry, io.BytesIO(content or b""))
    return str(path)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 9])
def test_texts_come_in_parts(tmp_path, rows):
    path = tmp_path / "a.jsonl"
    lines = [{"id": place, "body": f"text {place}"} for place in range(5)]
    path.write_text("\n".join(map(json.dumps, [*lines, {"id": 5, "body": ""}])))
    with pytest.raises(InputError, match=r"a\.jsonl:6: empty text"):
        list(read_parts(str(path), rows, field="body"))
    parts = list(read_parts(str(path), rows, field="body", skip_bad=True))
    assert [len(part) for part in parts] == [rows] * (5 // rows) + [5 % rows] * bool(5 % rows)
    assert [text for part in parts for text in part.texts] == [line["body"] for line in lines]
    assert [name for part in parts for name in part.ids] == list("01234")
    assert [part.skipped for part in parts] == [(f"{path}:6: empty text",)] + [()] * (len(parts) - 1)
    with pytest.raises(InputError, match=r"a\.jsonl:1: the line is longer than 1e-05 MB"):
        list(read_parts(str(path), rows, limits=Limits(line_mb=1e-5)))


def test_features_are_not_embedded_again(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    with pytest.raises(InputError, match=r"a\.npy: holds features already\. There is nothing to embed\."):
        list(read_parts(str(tmp_path / "a.npy"), 2))


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9])
def test_images_of_an_archive_come_in_parts(tmp_path, rows):
    names = ["a.png", "deep/b.PNG", "c.png", "../d.png", "e.png"]
    entries = list(zip(names, PICTURES, strict=True))
    others = [("a.txt", b"caption"), (".hidden.png", b"x"), ("folder.png", None), ("deep/.b.png", b"x")]
    path = pack(tmp_path / "a.tar", *entries[:2], *others, *entries[2:])
    ids, contents, sizes = [], [], []
    for part in read_parts(path, rows):
        assert (part.source, part.skipped, part.kind) == (path, (), "image")
        assert [image.suffix for image in part.images] == [".png"] * len(part)
        ids += part.ids
        contents += [image.read_bytes() for image in part.images]
        sizes.append(len(part))
        folder = part.images[0].parent
        assert sorted(folder.iterdir()) == sorted(part.images)
    assert not Path(folder).exists()
    assert (ids, contents) == (names, PICTURES)
    assert sizes == [rows] * (5 // rows) + [5 % rows] * bool(5 % rows)


def test_bad_images_of_an_archive_are_listed_with_the_part_in_which_they_were_met(tmp_path):
    entries = [
        ("x.png", b"bad"),
        ("a.png", PICTURES[0]),
        ("b.png", PICTURES[1]),
        ("y.png", b""),
        ("c.png", PICTURES[2]),
    ]
    path = pack(tmp_path / "a.tar", *entries, ("z.png", PICTURES[3][:-30]))
    with pytest.raises(InputError, match=r"a\.tar: x\.png: cannot be opened as an image\. Fix it, or skip bad"):
        list(read_parts(path, 2))
    parts = list(read_parts(path, 2, skip_bad=True))
    assert [part.ids for part in parts] == [("a.png", "b.png"), ("c.png",)]
    first, second = (part.skipped for part in parts)
    assert first == (f"{path}: x.png: cannot be opened as an image",)
    assert second[0] == f"{path}: y.png: the file is empty, not an image"
    assert second[1].startswith(f"{path}: z.png: the image cannot be read (")  # all of it is decoded
    assert len(second) == 2
    only_headers = pack(tmp_path / "b.tar", ("z.png", PICTURES[3][:-30]))
    assert [part.ids for part in read_parts(only_headers, 2)] == [("z.png",)]
    with pytest.raises(InputError, match=r"b\.tar: contains no valid samples \(bad entries skipped: 1\)"):
        list(read_parts(only_headers, 2, skip_bad=True))


def test_damaged_archives_are_named(tmp_path):
    path = pack(tmp_path / "a.tar", ("a.png", PICTURES[0]), ("b.png", PICTURES[1]))
    content = Path(path).read_bytes()
    for damaged, reason in [
        (content[:1034] + b"x" + content[1035:], "bad checksum, at byte 1024"),
        (content[:1600], "b.png is cut short|unexpected end of data"),
        (content[:2048], "empty header, at byte 2048"),
        (content + content, "more follows its end mark, as after joining two archives; unpack both"),
        (content[:-1] + b"x", "more follows its end mark"),
        (content + bytes(3_000_000) + b"x", "more follows its end mark"),
    ]:
        Path(path).write_bytes(damaged)
        with pytest.raises(InputError, match=rf"a\.tar: the archive cannot be read to the end: .*({reason})"):
            list(read_parts(path, 1))
    Path(path).write_bytes(content + bytes(5000))  # zeros fill up the last block of a tape
    assert len(list(read_parts(path, 1))) == 2
    with pytest.raises(
        InputError, match=r"b\.tar: the archive must contain images \(\.bmp \.gif .*\), but it has none\."
    ):
        list(read_parts(pack(tmp_path / "b.tar", ("a.txt", b"a")), 1))
    with pytest.raises(InputError, match=r"gone\.tar: the shard is no longer there"):
        list(read_parts(str(tmp_path / "gone.tar"), 1))
