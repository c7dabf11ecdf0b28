"""Logs of lm-evaluation-harness and of Inspect: their answers, ids and prompts.

The records are short, and have the fields that lm-eval 0.4 (--log_samples) and inspect-ai 0.3 (logs of version 2) write.
"""

import json
import sys
import zipfile
import zlib

import pytest

from mallow import InputError, read
from mallow.samples import Limits


def harness(doc_id, answers, filter_name="none", **more):
    return {
        "doc_id": doc_id,
        "doc": {"question": f"question {doc_id}"},
        "target": f"target {doc_id}",
        "arguments": {"gen_args_0": {"arg_0": f"Q: question {doc_id}\nA:", "arg_1": {"until": ["\n"]}}},
        "resps": [answers],
        "filtered_resps": answers[:1],
        "filter": filter_name,
        "metrics": ["exact_match"],
        "doc_hash": "5c",
        "prompt_hash": "6d",
        "target_hash": "7e",
        "exact_match": 0.0,
    } | more


def inspect_sample(id_, epoch, text, **output):
    message = {"content": text, "source": "generate", "role": "assistant"}
    return {
        "id": id_,
        "epoch": epoch,
        "input": f"question {id_}",
        "target": f"target {id_}",
        "messages": [{"role": "user", "content": f"question {id_}"}, message],
        "output": {"model": "mockllm/model", "choices": [{"message": message, "stop_reason": "stop"}], **output},
        "scores": {"match": {"value": "I"}},
    }


def test_answers_of_the_harness(tmp_path):
    path = tmp_path / "samples_gsm8k_2026-01-01T00-00-00.jsonl"
    filters = ("strict-match", "flexible-extract")
    rows = [harness(doc, [f"answer {doc}", f"other {doc}"], name) for doc in (3, 4) for name in filters]
    path.write_text("\n".join(map(json.dumps, rows)))
    samples = read(path)
    assert samples.texts == ("answer 3", "other 3", "answer 4", "other 4")  # once, whatever the filters
    assert samples.ids == ("3", "3", "4", "4")
    assert samples.prompts[0] == "Q: question 3\nA:"
    assert read(f"{path}:target").texts == ("target 3", "target 4")
    assert read(f"{path}:doc.question").texts == ("question 3", "question 4")
    old = harness(1, ["answer"]) | {"arguments": [["an older prompt", {"until": []}]]}
    path.write_text(json.dumps(old))
    assert read(path).prompts == ("an older prompt",)


@pytest.mark.parametrize(
    ("answers", "request_"),
    [
        ([[-3.0, False]], None),  # older versions write numbers as numbers
        ([["-3.0", "False"]], {"arg_0": "prompt", "arg_1": " choice"}),
        (["-123.5"], {"arg_0": "a text that is scored as a whole"}),
    ],
)
def test_likelihoods_are_no_texts(tmp_path, answers, request_):
    path = tmp_path / "samples_hellaswag.jsonl"
    arguments = [] if request_ is None else {"gen_args_0": request_}
    path.write_text(json.dumps(harness(0, answers, arguments=arguments)))
    with pytest.raises(InputError, match=r"jsonl:1: the answers are likelihoods, not texts: only tasks that generate"):
        read(path)


def test_answers_may_look_like_numbers(tmp_path):
    path = tmp_path / "samples_gsm8k.jsonl"
    path.write_text("\n".join(json.dumps(harness(doc, ["42", "True"][doc:])) for doc in (0, 1)))
    assert read(path).texts == ("42", "True", "True")


@pytest.mark.parametrize("form", ["json", "eval"])
def test_answers_of_inspect(tmp_path, form):
    parts = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "from parts"}]
    samples = [
        inspect_sample(2, 1, "two", completion="two"),
        inspect_sample(10, 1, parts),
        inspect_sample(10, 2, "ten again", completion="ten again"),
    ]
    path = tmp_path / f"log.{form}"
    header = {"version": 2, "status": "success", "eval": {"task": "t", "model": "mockllm/model"}}
    if form == "json":
        path.write_text(json.dumps({**header, "samples": samples}))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("_journal/start.json", "{}")
            for one in reversed(samples):
                archive.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
            archive.writestr("header.json", json.dumps(header))
    answers = read(path)
    assert answers.texts == ("two", "from parts", "ten again")
    assert answers.ids == ("2", "10", "10")  # epochs are generations for one prompt
    assert answers.prompts == ("question 2", "question 10", "question 10")
    assert read(f"{path}:target").texts == ("target 2", "target 10", "target 10")


def test_what_is_no_sample_is_refused(tmp_path):
    (tmp_path / "log.json").write_text(json.dumps({"eval": {}, "samples": [{"id": 1}]}))
    with pytest.raises(InputError, match=r"log\.json\[0\]: must be a sample of Inspect, with the fields 'input' and"):
        read(tmp_path / "log.json")


GOOD = inspect_sample(2, 1, "good")


@pytest.mark.parametrize(
    "output",
    [
        {"choices": {"a": 1}},
        {"choices": ["a"]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": None}}]},
        {"choices": [{"message": {"content": [{"type": "text", "text": 5}]}}]},
        {"choices": []},
        {"completion": 5},
        {"completion": ["a"]},
        "words",
    ],
)
def test_an_answer_of_another_form_is_one_bad_entry(tmp_path, output):
    bad = GOOD | {"output": output}
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        for number, one in enumerate((bad, GOOD)):
            archive.writestr(f"samples/{number}_epoch_1.json", json.dumps(one))
    (tmp_path / "log.json").write_text(json.dumps({"eval": {}, "samples": [bad, GOOD]}))
    for name in ("log.eval", "log.json"):
        samples = read(tmp_path / name, skip_bad=True)
        assert samples.texts[-1:] == ("good",)
        if output != {"completion": ["a"]}:  # several answers to one question
            assert samples.texts == ("good",)
            with pytest.raises(InputError, match=rf"{name}\[0\]: .*(empty text|must be a string|missing)"):
                read(tmp_path / name)


def write_log(path, *contents, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression=compression) as archive:
        for name, content in contents:
            archive.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"output": ' + b"[" * 200, "lists and objects must be nested at most 100 deep; allow more"),
        (b'{"output": ', r"invalid JSON: Expecting value"),
        (b"\xff{}", "not UTF-8: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_sample_that_cannot_be_read_is_one_bad_entry(tmp_path, content, message):
    path = write_log(tmp_path / "log.eval", ("samples/1_epoch_1.json", content), ("samples/2_epoch_1.json", GOOD))
    with pytest.raises(InputError, match=rf"log.eval\[0\]: {message}"):
        read(path)
    assert read(path, skip_bad=True).texts == ("good",)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_log_is_refused(tmp_path, compression):
    path = write_log(tmp_path / "log.eval", ("samples/1.json", GOOD), compression=compression)
    data = path.read_bytes()
    for place in range(40, 140, 9):
        path.write_bytes(data[:place] + bytes(byte ^ 0x5A for byte in data[place : place + 20]) + data[place + 20 :])
        with pytest.raises(InputError, match=r"not a readable .eval file|contains no (valid )?samples|log.eval\[0\]"):
            read(path)
    locked = bytearray(data)
    locked[6] |= 1
    locked[data.rfind(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(locked)
    with pytest.raises(InputError, match="is encrypted"):
        read(path)


def write_zstandard(path, content):
    """A log with one sample as Inspect compresses it by default: zipfile cannot write that before Python 3.14."""
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'mallow[tables]'")
    expanded = json.dumps(content).encode()
    stored = pyarrow.compress(expanded, codec="zstd", asbytes=True)
    data = bytearray(write_log(path, ("samples/1.json", stored), compression=zipfile.ZIP_STORED).read_bytes())
    checksum, size = zlib.crc32(expanded).to_bytes(4, "little"), len(expanded).to_bytes(4, "little")
    for start in (data.find(b"PK\x03\x04") + 8, data.rfind(b"PK\x01\x02") + 10):  # before the sample, and in the list
        data[start : start + 2] = (93).to_bytes(2, "little")
        data[start + 6 : start + 10], data[start + 14 : start + 18] = checksum, size
    path.write_bytes(data)
    return path


def test_zstandard_is_read_by_what_there_is(tmp_path, monkeypatch):
    path = write_zstandard(tmp_path / "log.eval", GOOD)
    assert read(path).texts == ("good",)
    damaged = bytearray(path.read_bytes())
    damaged[14] ^= 1  # the checksum, here and in the list
    damaged[damaged.rfind(b"PK\x01\x02") + 16] ^= 1
    (tmp_path / "damaged.eval").write_bytes(damaged)
    with pytest.raises(InputError, match=r"damaged\.eval: not a readable \.eval file: Bad CRC-32 for file"):
        read(tmp_path / "damaged.eval")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    if sys.version_info < (3, 14):
        message = r"log\.eval: is compressed with zstandard, .* or .*pip install '.*\[tables\]'$"
        with pytest.raises(InputError, match=message):
            read(path)


def test_names_of_samples_may_have_any_digits(tmp_path):
    names = [f"samples/{number}_epoch_1.json" for number in ("10", "2", "²", "9" * 5000)]
    path = write_log(tmp_path / "log.eval", *((name, inspect_sample(name[:20], 1, name[8:12])) for name in names))
    assert read(path).texts == ("²_ep", "2_ep", "10_e", "9999")


def test_json_is_not_nested_without_end(tmp_path):
    (tmp_path / "log.json").write_text('{"text": "a", "x": ' + "[" * 200 + "]" * 200 + "}")
    with pytest.raises(InputError, match=r"log.json: lists and objects must be nested at most 100 deep"):
        read(tmp_path / "log.json")
    (tmp_path / "log.json").write_text('{"text": "a"}\n{"text": "b", "x": ' + "[" * 200 + "]" * 200 + "}")
    with pytest.raises(InputError, match=r"log.json\[1\]: lists and objects must be nested at most 100 deep"):
        read(tmp_path / "log.json")


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({"a": 1}, "'a'"),
        (dict.fromkeys("abcdefgh", 1), "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'"),
        (dict.fromkeys("abcdefghij", 1), "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 2 more"),
        ({"samples": []}, "'samples'"),
        ({"eval": {}, "samples": {}}, "'eval', 'samples'"),
        ({"text": 5}, "'text'"),
        ({}, "none"),
    ],
)
def test_an_object_that_is_no_log_is_refused_by_its_fields(tmp_path, value, fields):
    (tmp_path / "log.json").write_text(json.dumps(value))
    with pytest.raises(
        InputError, match=f"or a log of Inspect, but it is an object with the fields {fields}\\. Write the list"
    ):
        read(tmp_path / "log.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "a"', r"log\.json: invalid JSON: Expecting ',' delimiter.*\. Is the file complete\?"),
        (b'{"text": "\xff"}', r"log\.json: cannot be read as UTF-8: 'utf-8' codec can't decode byte 0xff"),
        (b'{"text": "a"}\n\n{"text": \n', r"log\.json\[2\]: invalid JSON in line 3: Expecting value"),
    ],
)
def test_damaged_objects_are_told_where(tmp_path, content, message):
    (tmp_path / "log.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "log.json")


def test_a_sample_of_inspect_has_an_id_only_if_it_is_one(tmp_path):
    rows = [{**GOOD, "id": None}, {**GOOD, "id": None}]
    (tmp_path / "log.json").write_text(json.dumps({"eval": {}, "samples": rows}))
    assert (read(tmp_path / "log.json").ids, len(read(tmp_path / "log.json"))) == (None, 2)
    parts = [{"type": "text", "text": "one "}, {"type": "image"}, {"type": "text", "text": "two"}]
    (tmp_path / "log.json").write_text(json.dumps({"eval": {}, "samples": [inspect_sample(1, 1, parts)]}))
    assert read(tmp_path / "log.json").texts == ("one two",)


def test_only_samples_of_an_archive_are_read(tmp_path):
    others = (
        ("summaries.json", [1]),
        ("samples/notes.txt", b"x"),
        ("old/samples/1.json", GOOD),
        ("samples/2.json", GOOD),
    )
    assert read(write_log(tmp_path / "log.eval", *others)).texts == ("good",)
    with pytest.raises(InputError, match=r"log\.eval: contains no samples; at least one is needed"):
        read(write_log(tmp_path / "log.eval", *others[:3]))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_sample_that_is_there_twice_is_not_counted_twice(tmp_path):
    path = write_log(tmp_path / "log.eval", ("samples/1.json", GOOD), ("samples/1.json", GOOD))
    with pytest.raises(InputError, match=r"log\.eval: .*: two of its members are called 'samples/1\.json'"):
        read(path)


def test_a_log_may_not_expand_too_far(tmp_path, monkeypatch):
    monkeypatch.setattr("mallow.samples._value_checks.ALWAYS_ALLOWED", 5000)
    long = {**GOOD, "notes": "x" * 20_000}
    path = write_log(tmp_path / "log.eval", ("samples/1.json", long), ("samples/2.json", GOOD))
    with pytest.raises(InputError, match=r"log\.eval: expands to more than 10 times its size"):
        read(path, limits=Limits(expansion=10))
    assert len(read(path)) == 2
    path = write_log(tmp_path / "log.eval", *((f"samples/{n}.json", GOOD) for n in range(20)))
    with pytest.raises(
        InputError, match=r"log\.eval: expands to more than 1\.1 times its size"
    ):  # all of them together
        read(path, limits=Limits(expansion=1.1))


def test_a_large_object_is_refused(tmp_path, monkeypatch):
    (tmp_path / "log.json").write_text(json.dumps({"text": "a" * 88}))
    monkeypatch.setattr("mallow.samples._eval_logs._LARGEST", 100)
    assert len(read(tmp_path / "log.json")) == 1  # exactly so many bytes
    (tmp_path / "log.json").write_text(json.dumps({"text": "a" * 89}))
    with pytest.raises(InputError, match="is one JSON object is read as a whole, and must have at most 1e-07 GB"):
        read(tmp_path / "log.json")
