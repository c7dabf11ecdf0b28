"""Files of continuations: whatever stops a run, the file has complete lines, and the next run completes it."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from mallow.errors import InputError
from mallow.generate import GenerationPlan, NGram, Prompt, Sampling, generate, generate_file, prompts_of
from mallow.samples import read

PLAN = GenerationPlan(n=3, max_new=12, rng=5)


@pytest.fixture(scope="module")
def prompts(texts, model):
    return prompts_of(texts, model, tokens=6)


@pytest.fixture
def whole_file(model, prompts, tmp_path):
    """The bytes that an uninterrupted run writes."""
    path = tmp_path / "whole.jsonl"
    assert generate_file(model, prompts, "nucleus:0.9", path, PLAN, batch=16) == 120
    return path.read_bytes()


class Failing:
    """A model that fails after some steps."""

    def __init__(self, model, steps, error=KeyboardInterrupt):
        self.model, self.left, self.error = model, steps, error

    def __getattr__(self, name):
        return getattr(self.model, name)

    def step(self, state, tokens):
        self.left -= 1
        if self.left < 0:
            raise self.error("stopped")
        return self.model.step(state, tokens)


# --- what is written


def test_lines_are_samples_in_the_order_of_the_prompts(model, prompts, tmp_path, whole_file):
    records = [json.loads(line) for line in whole_file.splitlines()]
    assert [(record["id"], record["n"]) for record in records] == [
        (prompt.id, n) for prompt in prompts for n in range(3)
    ]
    assert all(list(record) == ["id", "prompt", "text", "n", "tokens"] for record in records)
    assert all(1 <= record["tokens"] <= 12 for record in records)
    samples = read(tmp_path / "whole.jsonl")
    assert samples.generations == 3
    assert samples.prompts[::3] == tuple(prompt.text for prompt in prompts)
    assert len(set(samples.texts)) > 80
    facts = json.loads((tmp_path / "whole.jsonl.meta.json").read_text())
    assert facts["model"] == model.name
    assert (facts["decoder"], facts["n"], facts["max_new"], facts["rng"]) == ("nucleus:0.9", 3, 12, 5)


def test_texts_are_what_generate_gives(model, prompts, tmp_path):
    generate_file(model, prompts, "greedy", tmp_path / "out.jsonl", GenerationPlan(max_new=12))
    expected = generate(model, [prompt.tokens for prompt in prompts], "greedy", max_new=12, min_new=1)
    assert list(read(tmp_path / "out.jsonl").texts) == [model.decode(tokens) for tokens in expected]
    generate_file(model, prompts, "greedy", tmp_path / "with.jsonl", GenerationPlan(max_new=12, with_prompt=True))
    whole_texts = [model.decode([*prompt.tokens, *new]) for prompt, new in zip(prompts, expected, strict=True)]
    assert list(read(tmp_path / "with.jsonl").texts) == whole_texts


def test_neither_the_batch_nor_other_prompts_matter(model, prompts, tmp_path, whole_file):
    for batch in (1, 7, 1000):
        path = tmp_path / f"{batch}.jsonl"
        generate_file(model, prompts, "nucleus:0.9", path, PLAN, batch=batch)
        assert path.read_bytes() == whole_file
    generate_file(model, prompts[7:9], "nucleus:0.9", tmp_path / "two.jsonl", PLAN)
    assert (tmp_path / "two.jsonl").read_bytes().splitlines() == whole_file.splitlines()[21:27]
    generate_file(model, prompts, "nucleus:0.9", tmp_path / "other.jsonl", GenerationPlan(n=3, max_new=12, rng=6))
    assert (tmp_path / "other.jsonl").read_bytes() != whole_file


def test_a_continuation_keeps_the_space_that_some_tokenizers_drop(model, tmp_path):
    class Dropping(Failing):
        def decode(self, tokens):
            return self.model.decode(tokens).removeprefix(" ")

    prompt = Prompt("1", "if the", tuple(model.encode("if the")))
    generate_file(Dropping(model, 10**6), [prompt], "greedy", tmp_path / "out.jsonl", GenerationPlan(max_new=3))
    assert read(tmp_path / "out.jsonl").texts[0].startswith(" ")


# --- interrupted runs


@pytest.mark.parametrize("cut", [0, 1, 500, 5000, -1, -30])
def test_a_file_cut_anywhere_becomes_the_same(model, prompts, tmp_path, whole_file, cut):
    path = tmp_path / "whole.jsonl"
    path.write_bytes(whole_file[:cut])
    before = whole_file[:cut].count(b"\n")
    with pytest.raises(KeyboardInterrupt):  # the incomplete line is removed before anything is added
        generate_file(Failing(model, 0), prompts, "nucleus:0.9", path, PLAN, batch=16)
    assert path.read_bytes() == b"".join(whole_file.splitlines(keepends=True)[:before])
    assert generate_file(model, prompts, "nucleus:0.9", path, PLAN, batch=16) == 120 - before
    assert path.read_bytes() == whole_file


def test_nothing_is_generated_twice(model, prompts, tmp_path, whole_file):
    path = tmp_path / "whole.jsonl"
    stamp = path.stat().st_mtime_ns
    assert generate_file(Failing(model, 0), prompts, "nucleus:0.9", path, PLAN, batch=16) == 0
    path.write_bytes(b"".join(whole_file.splitlines(keepends=True)[:64]))
    stopped = Failing(model, 11)  # the steps of one batch
    with pytest.raises(KeyboardInterrupt):
        generate_file(stopped, prompts, "nucleus:0.9", path, PLAN, batch=16)
    assert path.read_bytes() == b"".join(whole_file.splitlines(keepends=True)[:80])
    assert path.stat().st_mtime_ns > stamp


RUN = """
import pydoc_data.topics, sys
from mallow.generate import GenerationPlan, NGram, generate_file, prompts_of
texts = [text for text in pydoc_data.topics.topics.values() if len(text) > 400][:40]
model = NGram.fit(texts, order=3)
generate_file(model, prompts_of(texts, model, tokens=6), "nucleus:0.9", sys.argv[1], GenerationPlan(n=3, max_new=12, rng=5), batch=2)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_and_started_again(tmp_path, whole_file):
    path = tmp_path / "out.jsonl"
    kills = 0
    for lines in (3, 40, 90):
        run = subprocess.Popen([sys.executable, "-c", RUN, str(path)])
        try:
            while run.poll() is None:
                if path.exists() and path.read_bytes().count(b"\n") >= lines:
                    run.send_signal(signal.SIGKILL)
                    break
                time.sleep(0.001)
        finally:
            kills += run.wait() == -signal.SIGKILL
        assert whole_file.startswith(path.read_bytes())
    assert kills == 3
    subprocess.run([sys.executable, "-c", RUN, str(path)], check=True)
    assert path.read_bytes() == whole_file


def test_a_full_disk_leaves_complete_lines(model, prompts, tmp_path, whole_file, monkeypatch):
    path = tmp_path / "out.jsonl"
    room = 3000
    write = os.write

    def full(file, content):
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = write(file, bytes(content)[:room])
        room -= done
        return done

    monkeypatch.setattr("mallow.generate._files.os.write", full)
    message = (
        r"out\.jsonl: cannot be written: No space left on device\. Its \d+ texts are complete; solve the problem and run the "
        r"same command again, which continues from there\.$"
    )
    with pytest.raises(InputError, match=message):
        generate_file(model, prompts, "nucleus:0.9", path, PLAN, batch=16)
    monkeypatch.undo()
    written = path.read_bytes()
    assert written.endswith(b"\n")
    assert 2000 < len(written) <= 3000
    assert whole_file.startswith(written)
    assert len(read(path)) == written.count(b"\n")
    generate_file(model, prompts, "nucleus:0.9", path, PLAN, batch=16)
    assert path.read_bytes() == whole_file


def test_batches_are_halved_if_memory_runs_out(model, prompts, tmp_path, whole_file):
    class Small(Failing):
        largest = 0

        def start(self, prefixes):
            if len(prefixes) > 5:
                raise MemoryError
            self.largest = max(self.largest, len(prefixes))
            return self.model.start(prefixes)

    small = Small(model, 10**6)
    generate_file(small, prompts, "nucleus:0.9", tmp_path / "out.jsonl", PLAN, batch=16)
    assert (tmp_path / "out.jsonl").read_bytes() == whole_file
    assert small.largest == 4
    with pytest.raises(ZeroDivisionError):
        generate_file(Failing(model, 0, ZeroDivisionError), prompts, "greedy", tmp_path / "b.jsonl")
    message = (
        r"^Memory ran out on a single text\. Use a smaller model, shorter prompts or fewer new tokens \(max_new\)\.$"
    )
    with pytest.raises(InputError, match=message):
        generate_file(Failing(model, 0, MemoryError), prompts, "greedy", tmp_path / "c.jsonl")


def test_progress_says_how_many_texts_are_done(model, prompts, tmp_path, monkeypatch, capsys):
    notes = []

    @contextmanager
    def bar(verb, total, done=0, wanted=None):
        notes.append((verb, total - done))
        yield lambda done, note: notes.append(note)

    monkeypatch.setattr("mallow.generate._files.bar", bar)
    generate_file(model, prompts, "greedy", tmp_path / "out.jsonl", GenerationPlan(max_new=2), batch=10)
    assert notes[0] == ("generating", 40)
    assert notes[-1].startswith("greedy: 40/40 texts, ")
    assert notes[-1].endswith(" tokens/s")
    notes.clear()
    generate_file(model, prompts, "greedy", tmp_path / "out.jsonl", GenerationPlan(max_new=2), batch=10)
    assert notes == [("generating", 0)]
    assert capsys.readouterr() == ("", "")


# --- refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder": "nucleus:0.8"}, r"was started with decoder = 'nucleus:0\.9', not 'nucleus:0\.8'\."),
        ({"plan": GenerationPlan(n=3, max_new=12, rng=6)}, r"was started with rng = 5, not 6\."),
        ({"plan": GenerationPlan(n=2, max_new=12, rng=5)}, r"was started with n = 3, not 2\."),
        ({"plan": GenerationPlan(n=3, max_new=13, rng=5)}, r"was started with max_new = 12, not 13\."),
        ({"prompts": 39}, r"was started with prompts = '[0-9a-f]{12}', not '[0-9a-f]{12}'\."),
        ({"model": 2}, r"was started with model = 'NGram\(order=3.*not 'NGram\(order=2"),
    ],
    ids=["decoder", "rng", "n", "max_new", "prompts", "model"],
)
def test_a_file_that_was_made_differently_is_refused_unless_overwritten(
    texts, model, prompts, tmp_path, whole_file, change, message
):
    path = tmp_path / "whole.jsonl"
    arguments = {"model": model, "prompts": prompts, "decoder": "nucleus:0.9", "out": path, "plan": PLAN} | change
    if "prompts" in change:
        arguments["prompts"] = prompts[:39]
    if "model" in change:
        arguments["model"] = NGram.fit(texts, order=2)
    with pytest.raises(InputError, match=message + r".* Write to another file, or start again with `overwrite=True`"):
        generate_file(**arguments)
    assert path.read_bytes() == whole_file
    generate_file(**arguments, overwrite=True)
    assert path.read_bytes() != whole_file
    assert generate_file(**arguments) == 0


def test_files_that_mallow_did_not_write_are_left_alone(model, prompts, tmp_path, whole_file):
    path = tmp_path / "whole.jsonl"
    path.write_bytes(whole_file.replace(b'"n": 1', b'"n": 7', 1))
    with pytest.raises(InputError, match=r"whole\.jsonl:2: is not a line that mallow wrote\. Write to another file"):
        generate_file(model, prompts, "nucleus:0.9", path, PLAN)
    path.write_bytes(whole_file + whole_file[: whole_file.index(b"\n") + 1])
    with pytest.raises(InputError, match=r"whole\.jsonl:121: is not a line that mallow wrote\."):
        generate_file(model, prompts, "nucleus:0.9", path, PLAN)
    (tmp_path / "mine.jsonl").write_text('{"text": "precious"}\n')
    message = (
        r"mine\.jsonl: exists already, and there is no mine\.jsonl\.meta\.json beside it that records how it was made\. "
        r"Write to another file"
    )
    with pytest.raises(InputError, match=message):
        generate_file(model, prompts, "nucleus:0.9", tmp_path / "mine.jsonl", PLAN)
    assert (tmp_path / "mine.jsonl").read_text() == '{"text": "precious"}\n'


def test_two_processes_do_not_write_one_file(model, prompts, tmp_path):
    fcntl = pytest.importorskip("fcntl", reason="needs file locks")
    path = tmp_path / "out.jsonl"
    with path.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(
            InputError, match=r"out\.jsonl: another process is writing to it\. Wait until it has finished, or write"
        ):
            generate_file(model, prompts, "greedy", path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"out": "out.txt"},
            r"^out\.txt: the suffix must be \.jsonl, because lines are appended to the file; got '\.txt'\.$",
        ),
        ({"out": "no/out.jsonl"}, r"^no/out\.jsonl: the folder no does not exist\. Create it first\.$"),
        ({"out": "folder.jsonl"}, r"^folder\.jsonl: is a folder, not a file\. Name a file in it\.$"),
        ({"decoder": "greedy"}, r"^`n` must be 1 for greedy, which has one text per prompt; got 3\.$"),
        ({"decoder": "nuclear:0.9"}, r"^`decoder` must be one of .* Did you mean nucleus\?$"),
        (
            {"decoder": 5},
            r"^`decoder` must be a decoder such as Sampling\(\) or a name such as 'nucleus:0\.95'; got 5\.$",
        ),
        ({"batch": 0}, r"^`batch` must be an integer of at least 1; got 0\.$"),
        ({"prompts": []}, r"^`prompts` must hold at least one prompt; got none\.$"),
        (
            {"prompts": [Prompt("a", "", ())]},
            r"^`prompts` must have at least one token each, but the prompt of 'a' is empty\.$",
        ),
        (
            {"prompts": [Prompt("a", "x", (1,))] * 2},
            r"^`prompts` must have unique ids; some share one\.$",
        ),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, dict) else "",
)
def test_mistakes(model, prompts, tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.jsonl").mkdir()
    arguments = {"prompts": prompts, "decoder": Sampling(), "out": "out.jsonl", "plan": PLAN} | change
    with pytest.raises(InputError, match=message):
        generate_file(model, **arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.jsonl"]


def test_prompts_longer_than_the_context(model, tmp_path):
    class Short(Failing):
        context = 20

    prompts = [Prompt("a", "x", (1,) * 5), Prompt("b", "x", (1,) * 15)]
    message = (
        r"^`prompts` must leave room for 12 new tokens in the model's context of 20, but the prompt of 'b' has 15 tokens\. "
        r"Use `max_new=5`, or shorter prompts\.$"
    )
    with pytest.raises(InputError, match=message):
        generate_file(Short(model, 0), prompts, "greedy", tmp_path / "out.jsonl", GenerationPlan(max_new=12))
    with pytest.raises(InputError, match=r"the prompt of 'c' has 20 tokens\. Use shorter prompts\.$"):
        generate_file(Short(model, 0), [Prompt("c", "x", (1,) * 20)], "greedy", tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, r"^`n` must be an integer of at least 1; got 0\.$"),
        ({"max_new": 0}, r"^`max_new` must be an integer of at least 1; got 0\.$"),
        ({"max_new": 3, "min_new": 4}, r"^`min_new` must be at most max_new = 3; got 4\.$"),
        ({"rng": -1}, r"^`rng` must be an integer of at least 0; got -1\.$"),
    ],
    ids=["n", "max_new", "min_new", "rng"],
)
def test_bad_plans(options, message):
    with pytest.raises(InputError, match=message):
        GenerationPlan(**options)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(model, prompts, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match=r"out\.jsonl: cannot be written: Permission denied\.$"):
        generate_file(model, prompts, "greedy", tmp_path / "out.jsonl")


def test_a_disk_that_is_full_at_once_leaves_no_file(model, prompts, tmp_path, monkeypatch):
    def fail(*_):
        raise InputError("out.jsonl.meta.json: cannot be written: No space left on device.")

    monkeypatch.setattr("mallow.generate._files.write_text", fail)
    with pytest.raises(InputError, match="No space left on device"):
        generate_file(model, prompts, "greedy", tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []
