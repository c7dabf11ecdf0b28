"""Entries: their texts, ids, prompts and generations, and which are skipped."""

import numpy as np
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
    assert read(path, field="gen", limit=1).texts == ("a", "b")
    assert read([["a", "b"], ["c", "d"]]).ids == ("1", "1", "2", "2")


def test_ids_become_text_and_prompts_may_be_messages():
    samples = read([{"id": 7, "prompt": [{"role": "user", "content": "é"}], "text": "a"}])
    assert (samples.ids, samples.prompts) == (("7",), ('[{"role": "user", "content": "é"}]',))


@pytest.mark.parametrize(
    ("row", "field", "found"),
    [
        ({"id": "a", "prompt": "p", "text": "t"}, "id", (("a",), None, ("p",))),  # a label that is the text is no label
        ({"id": "a", "prompt": "p", "text": "t"}, "prompt", (("p",), ("a",), None)),
        ({"a": {"b": {"c": "deep"}}, "id": 1}, "a.b.c", (("deep",), ("1",), None)),
        ({"a": {"b": "deep"}, "a.b": "flat"}, "a.b", (("flat",), None, None)),
        ({"text": "t", "id": None, "prompt": float("nan")}, None, (("t",), None, None)),
        ({"text": "t", "id": 3, "prompt": 2.5}, None, (("t",), ("3",), ("2.5",))),
        ({"text": "t", "id": "", "prompt": ["é", 1]}, None, (("t",), ("",), ('["é", 1]',))),
        ({"text": np.array("t")}, None, (("t",), None, None)),
        ({"text": np.array(["t", "u"])}, None, (("t", "u"), ("1", "1"), None)),
        ({"text": ("t",)}, None, (("t",), ("1",), None)),
    ],
)
def test_where_texts_ids_and_prompts_are_found(row, field, found):
    samples = read([row], field=field)
    assert (samples.texts, samples.ids, samples.prompts) == found


@pytest.mark.parametrize(
    ("row", "field", "message"),
    [
        ({"a": {"b": 1}}, "a.c", "no field 'a.c'; available fields: 'a'; choose one with `field`"),
        ({"a": "b"}, "a.b", "no field 'a.b'; available fields: 'a'"),
        ({}, None, "no field 'text'; available fields: none"),
        ({"text": np.array([])}, None, "the list of texts is empty"),
        ({"text": ()}, None, "the list of texts is empty"),
        ({"text": bytearray(b"a")}, None, "got bytearray(b'a') (bytearray); decode it first: text.decode()"),
        ({"text": list(range(90))}, None, "the text must be a string; got 0 (int) (generation 1 of 90)"),
        ({"text": dict.fromkeys(range(90))}, None, f"got {repr(dict.fromkeys(range(90)))[:40]} (dict)."),
        ({"text": "t", "id": "\ud800"}, None, "`id`: not valid Unicode: '\\ud800' at character 0 (half of a surrogate"),
        ({"text": "é\udfff"}, None, "not valid Unicode: '\\udfff' at character 1"),
    ],
)
def test_what_is_wrong_with_an_entry(row, field, message, refused):
    refused([row], f"list[0]: {message}" if message[0] != "g" else message, field=field)


@pytest.mark.parametrize("name", ["id", "prompt"])
def test_an_entry_without_the_label_that_the_others_have(name, refused):
    rows = [{name: "1", "text": "a"}, {"text": "b"}]
    refused(
        rows,
        f"list[1]: `{name}` is missing here but present in the entries before it. All entries must have it, or none",
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


def rows_of(*entries):
    """Entries with a text and labels: ("a", "1") has the id 1, ("a", None, "p") the prompt p."""
    return [
        {"text": text} | {name: label for name, label in zip(("id", "prompt"), labels, strict=False) if label}
        for text, *labels in entries
    ]


@pytest.mark.parametrize(
    ("rows", "limit", "texts"),
    [
        (rows_of(("a", "1"), ("b", "1"), ("c", "2"), ("d", "3")), 2, "abc"),
        (rows_of(("a", None, "p"), ("b", None, "p"), ("c", None, "q"), ("d", None, "r")), 2, "abc"),
        (rows_of(("a", "1", "p"), ("b", "2", "p"), ("c", "2", "q")), 1, "a"),  # ids come before prompts
        (rows_of(("a", "1"), ("b", "2"), ("c", "1")), 1, "a"),  # reading ends where the next prompt begins
        (rows_of(("a", "1"), ("b", "2"), ("c", "1")), 2, "abc"),
        (rows_of(("a", None, "p"), ("b", None, "p"), ("c", None, "p")), 2, "ab"),  # one prompt for all: texts count
        (rows_of(("a", None, "p"), ("b", None, "p")), 1, "ab"),
        (rows_of(("a",), ("b",), ("c",)), 2, "ab"),
        ([{"id": "", "text": "a"}, {"id": "", "text": "b"}, {"id": "1", "text": "c"}], 1, "ab"),
        ([{"id": "", "prompt": prompt, "text": prompt} for prompt in "ab"] + rows_of(("c", "1", "c")), 1, "ab"),
        ([["a", "b"], ["c"], ["d", "e"]], 2, "abc"),
        (
            [{"prompt": "p", "text": ["a", "b"]}, {"prompt": "p", "text": ["c"]}, {"prompt": "q", "text": ["d"]}],
            2,
            "abc",
        ),
    ],
)
def test_a_limit_counts_prompts(rows, limit, texts):
    assert "".join(read(rows, limit=limit).texts) == texts


def test_a_limit_counts_valid_prompts_and_stops_at_the_next(refused):
    good = rows_of(("a", "1"), ("b", "1"))
    empty, broken = {"id": "1", "text": ""}, {"id": "1"}
    refused([*good, empty], "list[2]: empty text", limit=1)
    samples = read([{"id": "0", "text": ""}, good[0], empty, broken, good[1], {"id": "2"}], limit=1, skip_bad=True)
    assert (samples.texts, len(samples.skipped)) == (("a", "b"), 3)  # the last entry is beyond the limit
    refused([good[0], broken, good[1]], "list[1]: no field 'text'", limit=1)
    assert read([*good, {"id": "2"}, {"id": "2", "text": ""}], limit=1).texts == ("a", "b")


def test_what_follows_a_prompt_without_a_label_is_not_even_read():
    def rows():
        yield ["a", "b"]
        raise AssertionError

    assert read(rows(), limit=1).texts == ("a", "b")


def test_a_label_that_json_cannot_hold(refused):
    endless = []
    endless.append(endless)
    refused(
        [{"text": "a", "id": {(1, 2): 3}}], "list[0]: `id` must be a text, a number, or something that JSON can hold;"
    )
    refused([{"text": "a", "prompt": endless}], "`prompt` must be a text, a number, or something that JSON can hold;")
    assert read([{"text": "a", "id": endless}, "b"], skip_bad=True).texts == ("b",)
