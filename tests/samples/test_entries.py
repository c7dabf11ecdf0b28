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
    assert read(path, field="gen", limit=1).texts == ("a", "b")
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
    refused([good[0], broken, good[1]], "list[1]: no field `text`", limit=1)
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
