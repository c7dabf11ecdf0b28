"""Samples out: what is written is read back, and what cannot be written leaves no file."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mallow import InputError, Samples, read, write

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
    banned = "\n\r\0" if suffix.startswith(".txt") else ""  # NUL: it tells UTF-16 without a byte-order mark
    return st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters=banned), min_size=1), min_size=1
    )


@pytest.mark.parametrize("suffix", TEXT_SUFFIXES, indirect=True)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_texts_come_back(suffix, tmp_path, data):
    texts = data.draw(texts_of(suffix))
    write(read(texts), tmp_path / f"a{suffix}")
    samples = read(tmp_path / f"a{suffix}")
    assert samples.texts == tuple(texts)
    assert (samples.ids, samples.prompts, samples.skipped) == (None, None, ())


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
    write(Samples(texts=texts, ids=ids, prompts=prompts), tmp_path / f"a{suffix}")
    samples = read(tmp_path / f"a{suffix}")
    assert (samples.texts, samples.ids, samples.prompts) == (texts, ids, prompts)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".npy.gz", ".npz.gz"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u1"])
def test_features_come_back(suffix, dtype, tmp_path):
    features = np.arange(12).reshape(4, 3).astype(dtype)
    write(read(features), tmp_path / f"a{suffix}")
    samples = read(tmp_path / f"a{suffix}")
    assert samples.features.dtype == dtype
    assert np.array_equal(samples.features, features)
    assert (samples.kind, len(samples), samples.ids, samples.provenance) == ("features", 4, None, None)


ODD_LABELS = ["α", "b/1.png", "", "two\nlines", "NUL\0inside", "\ud800", "7"]


@pytest.mark.parametrize("suffix", [".npz", ".npz.gz"])
@pytest.mark.parametrize("kind", ["texts", "images", "features"])
def test_ids_prompts_and_provenance_of_features_come_back(kind, suffix, tmp_path):
    n = len(ODD_LABELS)
    values = {"features": np.arange(2.0 * n).reshape(n, 2)} | ({} if kind == "features" else {kind: ["a"] * n})
    provenance = {"embedder": "glove", "length": 1024, "pooling": "mean·é"}
    prompts = [f"{label}\0" for label in ODD_LABELS]  # an array of strings would lose the last character
    samples = Samples(**values, ids=ODD_LABELS, prompts=prompts, provenance=provenance)
    write(samples, tmp_path / f"a{suffix}")
    back = read(tmp_path / f"a{suffix}")
    assert (back.kind, back.ids, back.prompts) == ("features", samples.ids, samples.prompts)
    assert (back.provenance, back.embedder) == (provenance, "glove")
    assert np.array_equal(back.features, samples.features)
    assert read(tmp_path / f"a{suffix}", limit=2).prompts == samples.prompts[:2]


def test_long_prompts_take_no_more_room_than_they_have_characters(tmp_path):
    prompts = ["x" * 100_000, *(["y"] * 999)]
    write(Samples(features=np.zeros(1000), prompts=prompts), tmp_path / "a.npz")
    assert (tmp_path / "a.npz").stat().st_size < 1_000_000  # an array of strings takes 400 MB
    assert read(tmp_path / "a.npz").prompts == tuple(prompts)


def test_embedded_texts_are_written_as_texts_or_as_features(tmp_path):
    samples = read(["one", "two"]).with_features(np.eye(2), provenance={"embedder": "e"})
    write(samples, tmp_path / "a.jsonl")
    write(samples, tmp_path / "a.npz")
    assert read(tmp_path / "a.jsonl").texts == ("one", "two")
    assert np.array_equal(read(tmp_path / "a.npz").features, np.eye(2))


@pytest.mark.parametrize("suffix", [".parquet", ".json", ".csv"], indirect=True)
@pytest.mark.parametrize("count", [1, 1024, 2050])
def test_many_texts_come_back(suffix, count, tmp_path):
    samples = Samples(texts=[f"text {place}" for place in range(count)], ids=range(count))
    write(samples, tmp_path / f"a{suffix}")
    back = read(tmp_path / f"a{suffix}")
    assert (back.texts, back.ids, back.prompts) == (samples.texts, samples.ids, None)
    assert read(tmp_path / f"a{suffix}", limit=100).texts == samples.texts[:100]


def test_files_by_their_bytes(tmp_path):
    samples = Samples(texts=["é", "b"], ids=["1", "2"], prompts=["p", "q"])
    for suffix, content in [
        (".jsonl", '{"id": "1", "prompt": "p", "text": "é"}\n{"id": "2", "prompt": "q", "text": "b"}\n'),
        (".json", '[\n{"id": "1", "prompt": "p", "text": "é"},\n{"id": "2", "prompt": "q", "text": "b"}\n]\n'),
        (".csv", "id,prompt,text\r\n1,p,é\r\n2,q,b\r\n"),
        (".txt", "é\nb\n"),
    ]:
        write(samples, tmp_path / f"a{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes().decode() == content


def test_a_compressed_file_is_the_same_bytes_each_time(tmp_path):
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write(read(["one", "two"]), tmp_path / name)
    first, second = ((tmp_path / name).read_bytes() for name in ("a.jsonl.gz", "b.jsonl.gz"))
    assert first == second
    assert first[3:8] == bytes(5), "neither a name nor a time in the header"


def test_a_file_appears_completely_or_not_at_all(tmp_path):
    path = tmp_path / "a.jsonl"
    write(read(["old"]), path)
    with pytest.raises(
        InputError, match=r"must be valid Unicode; got '.ud800', half of a surrogate pair\. Fix the text\.$"
    ):
        write(Samples(texts=["new", "\ud800"]), path)
    assert read(path).texts == ("old",)
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_written_file_has_ordinary_permissions_and_a_link_stays_a_link(tmp_path):
    (tmp_path / "plain").touch()
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    write(read(["one"]), tmp_path / "link.txt")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "a.txt").read_bytes() == b"one\n"
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    ("samples", "name", "message"),
    [
        (
            read(["one", "a\nb"]),
            "a.txt",
            "txt files hold one text per line; text 1 contains a line break. Write .jsonl, .csv or .parquet.",
        ),
        (read(["a\rb"]), "a.txt", "text 0 contains a line break"),
        (
            read(["one"]),
            "a.npz",
            "npz files hold features, and these text samples have none. Embed them first with "
            "`mallow.embed.embed_samples` or the command `mallow embed`, or write the texts as jsonl, json, csv, parquet, txt.",
        ),
        (
            Samples(images=["a.png"]),
            "a.npy",
            "npy files hold features, and these image samples have none. Embed them first with "
            "`mallow.embed.embed_samples` or the command `mallow embed`.",
        ),
        (
            read(np.eye(2)),
            "a.csv",
            "csv files hold texts, and these features samples have none. Write the features as npz or npy.",
        ),
        (
            Samples(images=["a.png"]),
            "a.jsonl",
            "jsonl files hold texts, and these image samples have none. Images are files already: copy them, or embed "
            "them and write .npz.",
        ),
        (
            Samples(images=["a.png"], features=np.eye(1)),
            "a.txt",
            "these image samples have none. Write the features as npz or npy.",
        ),
        (
            Samples(features=np.eye(2), ids=["a", "b"]),
            "a.npy",
            "npy files hold only features and would lose: ids. Write .npz.",
        ),
        (
            Samples(texts=["a"], features=np.eye(1), prompts=["p"], provenance={"embedder": "e"}),
            "a.npy",
            "npy files hold only features and would lose: prompts, provenance. Write .npz.",
        ),
        (
            Samples(features=np.eye(1), ids=["a\0"]),
            "a.npz",
            "`ids` must not end in NUL, which arrays of strings cannot store; got 'a\\x00'.",
        ),
        (
            Samples(features=np.eye(1), provenance={"a": {1}}),
            "a.npz",
            "`provenance` must contain only values that JSON can store; Object of type set is not JSON serializable.",
        ),
        (read(["one"]).take([]), "a.jsonl", "a.jsonl: at least one sample is needed; got none."),
        (["one"], "a.jsonl", "`samples` must be Samples; got list. Convert it with mallow.read first."),
        (read(["one"]), "a.doc", "the suffix must be one of .jsonl"),
        (read(["one"]), "gone/a.txt", "gone does not exist. Create it first."),
    ],
)
def test_what_cannot_be_written_is_refused(samples, name, message, tmp_path):
    with pytest.raises(InputError, match=re.escape(message)):
        write(samples, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_written_over(tmp_path):
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(InputError, match=r"a\.txt: is a folder\. Pass the path of a file in it\.$"):
        write(read(["one"]), tmp_path / "a.txt")
