"""Entries: their texts, ids, prompts and generations, and which are skipped."""

import pytest

from mallow import read


def test_lists_of_texts_are_generations_of_one_prompt(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"prompt": "p", "gen": ["a", "b"]}\n\n{"prompt": "q", "gen": ["c", "d"]}\n')
    samples = read(path, field="gen")
    assert (samples.texts, samples.ids, samples.prompts) == (
        ("a", "b", "c", "d"),
        ("1", "1", "2", "2"),
        ("p", "p", "q", "q"),
    )
    assert samples.generations == 2
    assert read(path, field="gen", limit=3).generations is None
    assert read([["a", "b"], ["c", "d"]]).ids == ("1", "1", "2", "2")


def test_ids_become_text_and_prompts_may_be_messages():
    samples = read([{"id": 7, "prompt": [{"role": "user", "content": "é"}], "text": "a"}])
    assert (samples.ids, samples.prompts) == (("7",), ('[{"role": "user", "content": "é"}]',))


@pytest.mark.parametrize("name", ["id", "prompt"])
def test_an_entry_without_the_label_that_the_others_have(name, refused):
    rows = [{name: "1", "text": "a"}, {"text": "b"}]
    refused(
        rows,
        f"list[1]: `{name}` is missing here but present in the entries before it; all entries must have it, or none",
    )
    samples = read(rows, skip_bad=True)
    assert (samples.texts, samples.ids or samples.prompts) == (("a",), ("1",))


def test_a_source_without_valid_samples_gives_the_first_reason(refused):
    refused(
        ["", ""],
        "list: contains no valid samples (bad entries skipped: 2). The first: list[0]: empty text.",
        skip_bad=True,
    )


def test_a_skipped_entry_keeps_its_number():
    assert read([["", ""], "a", ["b", ""]], skip_bad=True).ids == ("2", "3")
