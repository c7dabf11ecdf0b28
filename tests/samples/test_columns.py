"""Another column of the same samples, aligned with them whatever was skipped, limited or repeated."""

import json

import pytest

from mallow.errors import InputError
from mallow.samples import read, read_column


def write(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_column_has_an_entry_for_each_sample(tmp_path):
    rows = [{"text": ["a", "b"], "tag": {"year": 1914}}, {"text": ["c"], "tag": {"year": 2024}}]
    path = write(tmp_path / "x.jsonl", rows)
    assert read(path).texts == ("a", "b", "c")
    assert read_column(path, "tag.year") == ("1914", "1914", "2024")
    assert read_column(path, "tag.year", limit=1) == ("1914", "1914")


def test_skipped_entries_have_none(tmp_path):
    path = write(tmp_path / "x.jsonl", [{"text": "a", "g": "x"}, {"text": "", "g": "y"}, {"text": "c", "g": "z"}])
    assert read_column(path, "g", skip_bad=True) == ("x", "z")


def test_prompts_limit_samples_as_they_do_without_the_column(tmp_path):
    rows = [{"text": text, "prompt": prompt, "g": group} for text, prompt, group in ("apx", "bpy", "cqz")]
    path = write(tmp_path / "x.jsonl", rows)
    assert len(read(path, limit=1)) == 2
    assert read_column(path, "g", limit=1) == ("x", "y")


def test_csv_and_lists_have_columns(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("text,g,id\na,1,7\nb,2,8\n")
    assert read_column(path, "g") == ("1", "2")
    assert read_column(path, "id") == ("7", "8")
    assert read_column([{"text": "a", "g": 1.5}], "g") == ("1.5",)


def test_a_column_that_is_missing_is_named(tmp_path):
    path = write(tmp_path / "x.jsonl", [{"text": "a", "g": 1}, {"text": "b"}])
    with pytest.raises(InputError, match="no column 'h'"):
        read_column(path, "h")
    with pytest.raises(InputError, match="`g` is missing here but present in the entries before it"):
        read_column(path, "g")
    with pytest.raises(InputError, match="no column 'g'"):
        read_column(read(path).first(1), "g")
