"""Reading: which source is read how, up to which limit, and what is refused."""

import gzip
import io
import os
import subprocess
import sys

import numpy as np
import pytest

from mallow import read, write


class Input:
    """Standard input with these bytes; `peek` as a terminal or pipe has it, or none as under click's runner."""

    def __init__(self, data, peek=True):
        self.buffer = io.BufferedReader(io.BytesIO(data)) if peek else io.BytesIO(data)


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
    samples = read("-")
    assert (samples.texts, samples.source) == (texts, "standard input")
    assert not stdin.buffer.closed


def test_errors_in_standard_input_name_the_line(monkeypatch, refused):
    monkeypatch.setattr("sys.stdin", Input(b"\na\n"))
    refused("-", "standard input:1: empty text")
    monkeypatch.setattr("sys.stdin", Input(b""))
    refused("-", "standard input: contains no samples; at least one is needed.")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_without_a_suffix_is_read_like_standard_input(tmp_path):
    os.mkfifo(tmp_path / "63")
    code = "import sys; open(sys.argv[1], 'w').write('one\\ntwo\\n')"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "63")]):
        assert read(tmp_path / "63").texts == ("one", "two")


def test_suffixes_in_capitals_and_home_folders(tmp_path, monkeypatch):
    (tmp_path / "A.TXT").write_text("one")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read("~/A.TXT").texts == ("one",)


def test_the_limit_takes_the_first_samples_and_reads_no_further(tmp_path, refused):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": ""}\n{"text": "b"}\nnonsense\n')
    assert read(path, limit=1).texts == ("a",)
    samples = read(path, limit=2, skip_bad=True)
    assert (samples.texts, len(samples.skipped)) == (("a", "b"), 1)
    assert len(read(np.eye(3), limit=2)) == len(read(read(["a", "b", "c"]), limit=2)) == 2
    assert len(read(["a"], limit=5)) == 1
    refused(["a"], "`limit` must be an integer of at least 1; got 0", limit=0)


def test_lists_arrays_and_iterators():
    for source in (["a", "b"], ("a", "b"), np.array(["a", "b"]), np.array(["a", "b"], object), iter(["a", "b"])):
        assert read(source).texts == ("a", "b")
    assert type(read(np.array(["a"])).texts[0]) is str
    for features in ([[1.0, 2.0]], [np.array([1.0, 2.0])], ((1, 2),), np.array([[1, 2]])):
        assert np.array_equal(read(features).features, [[1, 2]])
    endless = ({"text": str(i)} for i in iter(int, 1))
    assert len(read(endless, limit=3)) == 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "list: contains no samples; at least one is needed."),
        ([None, "a"], "list[0]: the text is missing (null)"),
        (["a", 3], "list[1]: the text must be a string; got 3 (int)"),
        (["a", ""], "list[1]: empty text"),
        ([["a"], []], "list[1]: the list of texts is empty"),
        (["a\udc00"], "list[0]: not valid Unicode"),
        ([{"text": "a"}, {"body": "b"}], "list[1]: no field 'text'; available fields: 'body'"),
        (3, "`source` must be a path, a list, an array or a table; got int."),
        (b"a.txt", "got bytes."),
        ({"train": ["a"]}, "got dict. If it contains several sets, or several splits of a dataset, pass one of them."),
    ],
)
def test_bad_lists(source, message, refused):
    refused(source, message)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b"", "a.jsonl: contains no samples; at least one is needed."),
        ("a.jsonl", b"\n \n", "a.jsonl: contains no samples; at least one is needed."),
        ("a.csv", b"", "a.csv: contains no samples; at least one is needed."),
        ("a.csv", b"text\n", "a.csv: contains no samples; at least one is needed."),
        (
            "a.csv",
            b"id,body\n1,a\n",
            "a.csv: no column 'text'; available columns: 'id', 'body'. Choose one with `field`, or write FILE:FIELD",
        ),
        ("a.csv", b"id;text\n1;a\n", "Columns must be separated by commas."),
        ("a.csv", b"text,text\na,b\n", "two columns are named `text`. Rename one of them."),
        ("a.csv", b'"text"x\na\n', "a.csv:1: invalid CSV in the header"),
        ("a.json", b"[]", "a.json: contains no samples; at least one is needed."),
        (
            "a.json",
            b"17",
            'must be a JSON array, such as [{"text": "…"}, …], but it begins with \'1\'. If it contains one',
        ),
        (
            "a.json",
            b'["a", "b"',
            "a.json[1]: a comma or ] must follow; got 'the end of the file'. Is the file complete?",
        ),
        ("a.json", b'["a" "b"]', "a.json[0]: a comma or ] must follow; got '\"'."),
        ("a.json", b'["a"] 5', "a.json: must be one JSON array; something follows after its end."),
        (
            "a.json",
            b'["a", {"text": }]',
            "a.json[1]: invalid JSON: Expecting value. Fix it; what follows cannot be read.",
        ),
        ("a.json", b'["a\xff"]', "a.json: not UTF-8: invalid start byte. Re-encode it, for example with iconv."),
        (
            "a.json",
            b'{"data": ["a"]}',
            "it is an object with the fields 'data'. Write the list of samples to a file of its",
        ),
        ("a.json", b'{"data": ', "a.json: invalid JSON: Expecting value"),
        ("a.eval", b"nonsense", "a.eval: not a readable .eval file: File is not a zip file. Is it complete?"),
        (
            "a.idx.gz",
            b"",
            "the suffix must be one of .jsonl .ndjson .json .txt .csv .parquet .npy .npz .eval, with or without .gz; got '.idx'",
        ),
        ("ubyte.gz", b"", "got none"),
        (
            "a.txt",
            gzip.compress(b"a\n" * 1000, mtime=0)[:-12],
            "cannot be read to the end: Compressed file ended before",
        ),
        ("a.txt", b"\x1f\x8b nonsense", "cannot be read to the end: "),
        ("a.npy", b"", "a.npy: not a readable npy or npz file: No data left in file. Write it again"),
        ("a.npz", b"PK\x03\x04 nonsense", "not a readable npy or npz file: File is not a zip file"),
        (
            "a.npy",
            b"nonsense",
            "not a readable npy or npz file: it contains something other than plain arrays. Write it again with np.save or np.savez",
        ),
        ("a.png", b"", "a.png: the file is empty, not an image"),
    ],
)
def test_bad_files(name, data, message, tmp_path, refused):
    (tmp_path / name).write_bytes(data)
    refused(tmp_path / name, message)


def test_a_missing_file_suggests_a_similar_name(tmp_path, refused):
    (tmp_path / "human.jsonl.gz").touch()
    refused(
        tmp_path / "human.jsonl",
        "human.jsonl: no such file. Did you mean human.jsonl.gz? To pass texts themselves, put them into a list.",
    )
    refused(tmp_path / "x.csv", "x.csv: no such file. To pass texts themselves, put them into a list.")
    refused(tmp_path / "gone" / "x.csv", f"no such file. The folder {tmp_path / 'gone'} does not exist. To pass texts")
    refused("A text. " * 1000, "…: no such file")
    refused("A\0text", "no such file")


# --- real files


def test_real_generations(shared, refused):
    folder = shared / "data" / "webtext-gpt2-large"
    refused(folder / "human.jsonl.gz", "human.jsonl.gz:1: no field 'text'; available fields: 'prefix', 'gen'")
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
    refused(folder, "must be named alike but for numbers, as part-0001.npy is; got beam.jsonl.gz and ")


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
    samples = read(shared / "data" / name, field=field)
    assert (len(samples), samples.skipped) == (n, ())
    some = read(samples, limit=300)  # Reuters and the books hold \r\n
    for suffix in (".jsonl", ".csv"):
        write(some, tmp_path / f"a{suffix}")
        assert read(tmp_path / f"a{suffix}").texts == some.texts == samples.texts[:300]


def test_other_real_files(shared, refused):
    merges = read(shared / "data" / "gpt2-bpe" / "merges.txt")
    assert merges.texts[0] == "#version: 0.2"
    refused(
        shared / "data" / "gpt2-bpe" / "vocab.json",
        "must be a JSON array, one JSON object per line, or a log of Inspect, but it is an object with the fields ",
    )
    refused(shared / "data" / "mnist" / "t10k-images-idx3-ubyte.gz", "the suffix must be one of .jsonl")
    refused(shared / "data" / "reuters" / "reuters.jsonl.gz", "Did you mean reuters_c50.jsonl.gz?")
