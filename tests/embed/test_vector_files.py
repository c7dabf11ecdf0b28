"""Files of word vectors: every format gives the same vectors, and broken files are refused with the line."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from mallow.embed import WordVectors
from mallow.errors import InputError

TABLE = {"good": [1.0, 0.0, -2.5], "day": [0.0, 2.0, 0.5], "é": [3.0, 3.0, 3.0], ".": [0.25, 0.0, 0.0]}


def lines(table=TABLE, end="\n"):
    return "".join(f"{word} {' '.join(map(str, vector))}{end}" for word, vector in table.items())


def written(folder: Path, content: str | bytes, name="vectors.txt"):
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def binary(table=TABLE, newline=b"\n"):
    body = b"".join(w.encode() + b" " + struct.pack("<3f", *v) + newline for w, v in table.items())
    return f"{len(table)} 3\n".encode() + body


@pytest.mark.parametrize(
    "content",
    [
        lines().encode(),
        lines(end=" \r\n").encode(),
        f"{len(TABLE)} 3\n{lines()}".encode(),
        gzip.compress(lines().encode()),
        gzip.compress(f"{len(TABLE)} 3\n{lines()}".encode()),
        binary(),
        binary(newline=b""),
        gzip.compress(binary()),
        lines().replace("day ", "good 9 9 9\nday ").encode(),
        binary().replace(b"4 3\n", b"5 3\n").replace(b"day ", b"good 123412341234\nday "),
        (lines() + ". . . 9 9 9\nat a@b.c 1 2 3\n").encode(),
    ],
    ids=[
        "glove",
        "crlf",
        "header",
        "gz",
        "gz-header",
        "binary",
        "binary-joined",
        "gz-binary",
        "twice",
        "binary-twice",
        "spaces",
    ],
)
def test_every_format_gives_the_same(tmp_path, content):
    texts = ["good day é .", "good", "day é é"]
    plain = written(tmp_path, lines(), "plain.txt")
    assert (WordVectors(written(tmp_path, content))(texts) == WordVectors(plain)(texts)).all()


def test_a_large_binary_file_is_read_in_blocks(tmp_path):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(15_000, 100)).astype("<f4")  # 6 MB: more than a block
    body = b"".join(b"w%d " % i + vector.tobytes() + b"\n" for i, vector in enumerate(vectors))
    file = written(tmp_path, b"15000 100\n" + body, "vectors.bin")
    places = [0, 1, 9_999, 10_400, 10_500, 14_999]
    assert (WordVectors(file)([f"w{i}" for i in places]) == vectors[places]).all()


def test_only_words_of_the_texts_are_parsed(tmp_path):
    file = written(tmp_path, lines() + "other not a number\n")
    assert WordVectors(file)(["good"]).shape == (1, 3)
    with pytest.raises(InputError, match=r"line 5: a word must be followed by numbers; could not convert"):
        WordVectors(file)(["other"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("good 1 2\nday 1\n", r"line 2: must have 2 numbers after the word, as line 1 has; got 1"),
        ("good 1 2\nday 1 2 3\n", r"line 2: must have 2 numbers after the word, as line 1 has; got 3"),
        ("good 1 2\n\nday 1 2\n", r"line 2: must have 2 numbers .*; got 0"),
        ("2 2\ngood 1 2\nday 1\n", r"line 3: must have 2 numbers after the word"),
        ("3 2\ngood 1 2\nday 1 2\n", r"the first line announces 3 words; got 2\. The file may be incomplete: download it again"),
        ("good\n", r"line 1: must be a word and its numbers, or the number of words .* Check that it is a file of word vectors"),
        ("", r"line 1: must be a word and its numbers"),
        ("3 0\ngood 0.1 t.2\nof -1 2e3\na b 1 2\n", r"line 1: must be a word and its numbers, or the number of words and the dimension"),
        ("3 0\ngood 1 2\nof 1 2\nday 1 2\n", r"line 1: must be a word and its numbers, or the number of words and the dimension"),
        ("good nan 1\n", r"line 1: the numbers must be finite"),
        ("of 1 2 3\ngood 1 2 3\nday inf 2 3\n", r"line 3: the numbers must be finite"),  # wherever it is in its line
        (binary({"good": [1, 2, 3], "day": [float("nan"), 2, 3]}), r"the numbers of the word 'day' must be finite"),
        (binary()[:-9], r"the first line announces 4 words; got 3"),
        ("3 99999999999999999999\ngood 0.1 0.2\nof -1 2\nday 1 2\n", r"announces vectors of 99999999999999999999 numbers, more than"),
        (b"3 3333333333\nhe \x00\x00\x80?of", r"announces vectors of 3333333333 numbers, more than the file can hold"),
        (binary({"good": [1, float("inf"), 0]}), r"the numbers of the word 'good' must be finite"),
        (b"1 3\ngood \x00\x00\x00\x00\x01\x00\x80\x7f\x00\x00\x00@", r"the numbers of the word 'good' must be finite"),
        (gzip.compress(lines().encode())[:-12], r"is a damaged \.gz file: .* Download it again"),
        (b"PK\x03\x04rest", r"is a \.zip archive, .* Unzip it"),
    ],
    ids=[
        "short", "long", "blank", "header", "cut-off", "no-vector", "empty", "width-0-binary", "width-0", "nan", "inf-later", "nan-binary", "cut-binary", "wide-text", "wide", "inf", "signalling-nan", "cut-gz", "zip",
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_the_line(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        WordVectors(written(tmp_path, content))(["good day"])


def test_a_first_line_of_many_digits_is_a_word(tmp_path):
    path = written(tmp_path, "9" * 5000 + " 3\ngood 2\n")  # Python reads no number of so many digits
    assert WordVectors(path)(["good"]).tolist() == [[2.0]]


def test_a_folder_has_one_matrix_and_one_list(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'mallow[glove]'")
    import pyarrow as pa

    with pytest.raises(InputError, match=r"or a folder with one \.parquet file, but there are 0 in"):
        WordVectors(tmp_path)(["good"])
    parquet.write_table(pa.table({"index": [*TABLE, "good"]}), tmp_path / "words.parquet")
    np.save(tmp_path / "vectors.npy", np.array([*TABLE.values(), [9, 9, 9]]))
    assert WordVectors(tmp_path)(["good", "day é"]).tolist() == [[1.0, 0.0, -2.5], [1.5, 2.5, 1.75]]
    assert WordVectors(tmp_path).name.startswith("WordVectors(vectors.npy@")


@pytest.mark.parametrize(
    ("words", "table", "message"),
    [
        (
            ["good"],
            np.ones((2, 3)),
            r"vectors\.npy: must have one row of numbers for each of the 1 words; got shape \(2, 3\) of float64",
        ),
        (["good"], np.ones((1, 0)), r"got shape \(1, 0\) of float64"),
        (["good"], np.array([["a", "b"]]), r"got shape \(1, 2\) of <U1"),
        (["good"], np.ones(1), r"got shape \(1,\) of float64"),
        ([1], np.ones((1, 3)), r"words\.parquet: the first column must be the words, as texts"),
        (["a", None], np.ones((2, 3)), r"words\.parquet: the first column must be the words, as texts"),
        ([], np.ones((0, 3)), r"words\.parquet: the first column must be the words, as texts"),
    ],
    ids=["rows", "width-0", "texts", "vector", "numbers", "missing", "no-words"],
)
def test_a_folder_whose_files_do_not_fit_is_refused(tmp_path, words, table, message):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'mallow[glove]'")
    import pyarrow as pa

    parquet.write_table(pa.table({"index": words}), tmp_path / "words.parquet")
    np.save(tmp_path / "vectors.npy", table)
    with pytest.raises(InputError, match=message):
        WordVectors(tmp_path)(["good"])


@pytest.mark.parametrize("damaged", ["words.parquet", "vectors.npy"])
def test_a_damaged_file_of_a_folder_is_refused(tmp_path, damaged):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'mallow[glove]'")
    import pyarrow as pa

    parquet.write_table(pa.table({"index": ["good"]}), tmp_path / "words.parquet")
    np.save(tmp_path / "vectors.npy", np.ones((1, 3)))
    content = (tmp_path / damaged).read_bytes()
    for size in (0, 7, len(content) // 2):
        (tmp_path / damaged).write_bytes(content[:size])
        with pytest.raises(InputError, match=r"has a damaged file: .*\. Download it again\."):
            WordVectors(tmp_path)(["good"])
