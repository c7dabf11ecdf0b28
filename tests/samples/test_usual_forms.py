"""Texts as people have them: folders of .txt, arrays in .jsonl, the usual names of fields, chats."""

import json

import pytest

from mallow import InputError, read

TEXTS = ["First text.", "A second one.", "Ünd ein dritter."]


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_folder_of_txt_files_is_one_text_per_file_sorted_by_name(tmp_path, refused):
    for name, text in zip(("b/2.txt", "c.TXT", "a.txt"), TEXTS, strict=True):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text.encode() + b"\r\n")
    (tmp_path / ".hidden").write_text("not a text")
    samples = read(tmp_path)
    assert samples.texts == ("Ünd ein dritter.", "First text.", "A second one.")
    assert samples.ids is None  # 1.txt of one folder has nothing to do with 1.txt of another
    (tmp_path / "a.txt").write_text("Two\nlines.\n")
    assert read(tmp_path, limit=1).texts == ("Two\nlines.",)
    (tmp_path / "b" / "2.txt").write_bytes(b"\xe9")
    refused(tmp_path, "/b/2.txt: not UTF-8: byte 0xe9 at byte offset 0")
    (tmp_path / "b" / "2.txt").write_bytes(b"")
    refused(tmp_path, "/b/2.txt: empty text")
    assert len(read(tmp_path, skip_bad=True)) == 2
    (tmp_path / "notes.md").touch()
    refused(tmp_path, "or texts (.txt, one text per file), but it contains a.txt, b/2.txt, c.TXT, …")


@pytest.mark.parametrize("beginning", ["", "\ufeff", " \n"])
def test_an_array_in_a_jsonl_file_is_read_as_an_array(tmp_path, beginning):
    path = tmp_path / "a.jsonl"
    path.write_text(beginning + json.dumps([{"text": text, "prompt": "p"} for text in TEXTS], indent=1))
    assert (read(path).texts, read(path).prompts) == (tuple(TEXTS), ("p",) * 3)


@pytest.mark.parametrize("field", ["output", "response", "completion", "generated_text"])
def test_the_only_usual_field_is_the_text(tmp_path, field, refused):
    rows = [{"id": i, field: text, "score": 1} for i, text in enumerate(TEXTS)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    table = tmp_path / "a.csv"
    table.write_text(f"score,{field}\n" + "".join(f"1,{text}\n" for text in TEXTS))
    for source in (path, rows, table):
        assert read(source).texts == tuple(TEXTS)
    assert read(write_rows(path, [row | {"text": "This one."} for row in rows])).texts == ("This one.",) * 3
    refused(
        write_rows(path, [row | {"output": "a", "response": "b"} for row in rows]), ":1: no field 'text'; available"
    )
    # The first row decides, so that no file mixes two fields.
    refused(
        write_rows(path, [{"output": "a"}, {"response": "b"}]), ":2: no field 'output'; available fields: 'response'"
    )
    write_rows(path, [{"output": "a", "response": "b"}])
    assert read(f"{path}:response").texts == ("b",)


def test_the_last_answer_of_a_chat_is_the_text_and_what_comes_before_is_its_prompt(tmp_path, refused):
    asked = {"role": "user", "content": "Why?"}
    parts = [{"type": "text", "text": "Be"}, {"type": "image_url"}, {"type": "text", "text": "cause."}]
    simple = {"messages": [asked, {"role": "assistant", "content": "Because."}]}
    longer = {"messages": [{"role": "system", "content": "Hi"}, *simple["messages"], asked]}
    longer["messages"] += [{"role": "assistant", "content": parts}, {"role": "user", "content": "Thanks."}]
    samples = read(write_rows(tmp_path / "a.jsonl", [simple, longer]))
    assert samples.texts == ("Because.", "Because.")
    assert samples.prompts == ("Why?", "system: Hi\nuser: Why?\nassistant: Because.\nuser: Why?")
    assert read([simple | {"prompt": "Mine."}]).prompts == ("Mine.",)
    for wrong in ([asked], ["Why?", "Because."], [3]):
        refused([{"messages": wrong}], r"list[0]: `messages` must be messages such as")
    with pytest.raises(InputError, match="the text is missing"):
        read([{"messages": [asked, {"role": "assistant", "content": None}]}])
