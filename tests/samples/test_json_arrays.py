"""JSON arrays are read as they are written, whatever the chunks; fields and places are named."""

import gzip
import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mallow.samples._text_files as arrays
from mallow import InputError, read, write
from mallow.samples import Limits, split_field
from mallow.samples._entries import Options

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(entries=st.lists(values, max_size=6), indent=st.sampled_from([None, 0, 3]), chunk=st.integers(1, 40))
def test_entries_come_back_whatever_the_chunks(entries, indent, chunk):
    text = json.dumps(entries, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if b"\xed" in text:  # halves of surrogate pairs are no UTF-8
        text = json.dumps(entries, indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "_CHUNK", chunk)
        rows = list(arrays.array_rows(io.BytesIO(text), "a.json", Options(None, False, None)))
    assert rows == list(enumerate(entries))


def test_a_json_file_is_an_array_or_objects_in_lines(tmp_path):
    rows = [{"id": 7, "body": "One.", "deep": {"er": "Two."}}, {"id": 8, "body": "Three.", "deep": {"er": "Four."}}]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=2))
    (tmp_path / "lines.json").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "one.json").write_text('{"text": "alone"}')
    for name in ("a.json", "lines.json"):
        samples = read(f"{tmp_path / name}:body")
        assert (samples.texts, samples.ids) == (("One.", "Three."), ("7", "8"))
        assert read(tmp_path / name, field="deep.er").texts == ("Two.", "Four.")
    assert read(tmp_path / "one.json").texts == ("alone",)
    (tmp_path / "strings.json").write_text('\ufeff ["a", "b", ["c", "d"]]', encoding="utf-8")
    assert read(tmp_path / "strings.json").texts == ("a", "b", "c", "d")
    with pytest.raises(InputError, match=r"a\.json\[0\]: no field 'text'; available fields: 'id', 'body', 'deep'"):
        read(tmp_path / "a.json")


def test_entries_have_limits(tmp_path):
    (tmp_path / "deep.json").write_text('["a", [[["b"]]]]')
    with pytest.raises(InputError, match=r"deep\.json\[1\]: lists and objects must be nested at most 2 deep"):
        read(tmp_path / "deep.json", limits=Limits(depth=2))
    (tmp_path / "long.json").write_text(json.dumps(["a", "b" * 200_000]))
    with pytest.raises(InputError, match=r"long\.json\[1\]: the entry is longer than 0\.1 MB\. Allow longer ones"):
        read(tmp_path / "long.json", limits=Limits(line_mb=0.1))


def test_what_is_written_is_read(tmp_path):
    samples = read([{"text": "a\nb", "id": 1, "prompt": "p"}, {"text": "é", "id": 2, "prompt": "q"}])
    write(samples, tmp_path / "a.json.gz")
    again = read(tmp_path / "a.json.gz")
    assert (again.texts, again.ids, again.prompts) == (samples.texts, samples.ids, samples.prompts)
    with pytest.raises(InputError, match=r"a\.eval: logs of Inspect are read, not written"):
        write(samples, tmp_path / "a.eval")


def test_a_path_with_a_colon_is_a_path_if_it_exists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd:name.jsonl").write_text('{"text": "odd"}')
    assert split_field("odd:name.jsonl") == ("odd:name.jsonl", None)
    assert read("odd:name.jsonl").texts == ("odd",)
    assert read("odd:name.jsonl:text").texts == ("odd",)
    assert split_field("s3://bucket/x") == ("s3://bucket/x", None)
    assert split_field("s3://bucket/part-*.jsonl.gz:body") == ("s3://bucket/part-*.jsonl.gz", "body")
    assert split_field("human.jsonl") == ("human.jsonl", None)
    assert (split_field("human.jsonl:body"), split_field("-:body")) == (("human.jsonl", "body"), ("-", "body"))
    assert split_field("gone:body") == ("gone:body", None)
    (tmp_path / "there").mkdir()
    assert split_field("there:body") == ("there", "body")
    assert split_field("there:2024/a.jsonl") == ("there:2024/a.jsonl", None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array(["a", None, "b"]), r"^ndarray\[1\]: the text is missing \(null\)\."),
        (np.array([b"a", b"b"]), r"^ndarray\[0\]: the text must be a string; got b'a' \(bytes\); decode it first"),
        (["a", b"b"], r"^list\[1\]: the text must be a string; got b'b' \(bytes\); decode it first: text\.decode\(\)"),
        (["a", "b", None], r"^list\[2\]: the text is missing \(null\)\."),
        (np.array(["a", 5], dtype=object), r"^ndarray\[1\]: the text must be a string; got 5 \(int\)\."),
    ],
)
def test_what_is_no_text_is_named_by_its_position(values, message):
    with pytest.raises(InputError, match=message):
        read(values)
    assert read(np.array(["a", "b"])).texts == ("a", "b")


@pytest.mark.parametrize("content", [b'[{"text": "a"}]', b'{"text": "a"}'])
def test_a_damaged_archive_is_told(tmp_path, content):
    """Also where the damage is at the beginning, which is looked at first."""
    data = bytearray(gzip.compress(content, mtime=0))
    path = tmp_path / "a.json.gz"
    for damaged in (data[:-9], data[:12], bytes([*data[:10], data[10] ^ 0xFF, *data[11:]])):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.json\.gz: cannot be read (to the end|as UTF-8)"):
            read(path)
