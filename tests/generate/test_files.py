"""Files of continuations: whatever stops a run, the file is whole, and the next run makes it what it should be."""

import errno
import io
import json
import os
import pydoc_data.topics
import signal
import subprocess
import sys
import time

import pytest

from mallow.errors import EstimateWarning, InputError
from mallow.generate import _files as files
from mallow.generate._files import Plan, Prompt, generate_file, prompts_of
from mallow.generate._ngram import NGram
from mallow.generate._search import Sampling, generate
from mallow.samples._samples import Samples, read

PLAN = Plan(n=3, max_new=12, rng=5)


@pytest.fixture(scope="module")
def texts():
    """Real human text that every Python carries."""
    return [text for text in pydoc_data.topics.topics.values() if len(text) > 400][:40]


@pytest.fixture(scope="module")
def model(texts):
    return NGram.fit(texts, order=3)


@pytest.fixture(scope="module")
def prompts(texts, model):
    return prompts_of(texts, model, tokens=6)


@pytest.fixture
def whole_file(model, prompts, tmp_path):
    """The bytes that an undisturbed run writes."""
    path = tmp_path / "whole.jsonl"
    assert generate_file(model, prompts, "nucleus:0.9", path, PLAN, batch=16) == 120
    return path.read_bytes()


class Slow:
    """A model that breaks off after some steps."""

    def __init__(self, model, steps, error=KeyboardInterrupt):
        self.model, self.left, self.error = model, steps, error

    def __getattr__(self, name):
        return getattr(self.model, name)

    def step(self, state, tokens):
        self.left -= 1
        if self.left < 0:
            raise self.error("stopped")
        return self.model.step(state, tokens)


# --- prompts


def test_prompts_are_the_first_tokens(texts, model, prompts):
    assert [prompt.id for prompt in prompts] == [str(i) for i in range(1, 41)]
    for text, prompt in zip(texts, prompts, strict=True):
        assert list(prompt.tokens) == model.encode(text)[:6]
        assert text.startswith(prompt.text)
        assert model.decode(prompt.tokens) == prompt.text
    named = prompts_of(Samples("text", ("one two", "three four"), ("a", "b")), model, tokens=None)
    assert [(each.id, each.text) for each in named] == [("a", "one two"), ("b", "three four")]
    assert all(model.decode(each.tokens) == each.text for each in named)


def test_short_texts_are_refused_or_left_out_with_a_word(texts, model):
    given = Samples("text", (texts[0], "if", texts[1]), ("a", "b", "c"), source="human.jsonl")
    message = (
        r"^`samples` must have at least 6 tokens each to begin from; 1 of 3 in human\.jsonl are shorter, such as 'b' with 1\. "
        r"Ask for fewer tokens, or leave them out with skip_short=True \(--skip-bad\)\.$"
    )
    with pytest.raises(InputError, match=message):
        prompts_of(given, model, tokens=6)
    with pytest.warns(
        EstimateWarning, match=r"^human\.jsonl: 1 of 3 texts are shorter than 6 tokens and were left out\.$"
    ):
        found = prompts_of(given, model, tokens=6, skip_short=True)
    assert [prompt.id for prompt in found] == ["a", "c"]
    with pytest.raises(InputError, match=r"^list: no text has 35 tokens\. Ask for fewer\.$"):
        prompts_of(["if"], model, skip_short=True)


def test_bad_prompts(model):
    with pytest.raises(
        InputError, match=r"^h: each text must have an id of its own to be continued; 'a' is there twice\."
    ):
        prompts_of(Samples("text", ("x y", "y z"), ("a", "a"), source="h"), model, tokens=1)
    with pytest.raises(InputError, match=r"^`tokens` must be an integer of at least 1; got 0\.$"):
        prompts_of(["a"], model, tokens=0)
    with pytest.raises(InputError, match=r"empty text"):
        prompts_of(["a", ""], model, tokens=1)


# --- what is written


def test_lines_are_samples_in_the_order_of_the_prompts(model, prompts, tmp_path, whole_file):
    records = [json.loads(line) for line in whole_file.splitlines()]
    assert [(each["id"], each["n"]) for each in records] == [(prompt.id, n) for prompt in prompts for n in range(3)]
    assert all(list(each) == ["id", "prompt", "text", "n", "tokens"] for each in records)
    assert all(1 <= each["tokens"] <= 12 for each in records)
    found = read(tmp_path / "whole.jsonl")
    assert found.generations == 3
    assert found.prompts[::3] == tuple(prompt.text for prompt in prompts)
    assert len(set(found.texts)) > 80
    facts = json.loads((tmp_path / "whole.jsonl.meta.json").read_text())
    assert facts["model"] == model.name
    assert (facts["decoder"], facts["n"], facts["max_new"], facts["rng"]) == ("nucleus:0.9", 3, 12, 5)


def test_texts_are_what_generate_gives(model, prompts, tmp_path):
    generate_file(model, prompts, "greedy", tmp_path / "out.jsonl", Plan(max_new=12))
    expected = generate(model, [prompt.tokens for prompt in prompts], "greedy", max_new=12, min_new=1)
    assert list(read(tmp_path / "out.jsonl").texts) == [model.decode(tokens) for tokens in expected]
    generate_file(model, prompts, "greedy", tmp_path / "with.jsonl", Plan(max_new=12, with_prompt=True))
    whole_texts = [model.decode([*each.tokens, *new]) for each, new in zip(prompts, expected, strict=True)]
    assert list(read(tmp_path / "with.jsonl").texts) == whole_texts


def test_neither_batch_nor_company_matters(model, prompts, tmp_path, whole_file):
    for batch in (1, 7, 1000):
        path = tmp_path / f"{batch}.jsonl"
        generate_file(model, prompts, "nucleus:0.9", path, PLAN, batch=batch)
        assert path.read_bytes() == whole_file
    generate_file(model, prompts[7:9], "nucleus:0.9", tmp_path / "two.jsonl", PLAN)
    assert (tmp_path / "two.jsonl").read_bytes().splitlines() == whole_file.splitlines()[21:27]
    generate_file(model, prompts, "nucleus:0.9", tmp_path / "other.jsonl", Plan(n=3, max_new=12, rng=6))
    assert (tmp_path / "other.jsonl").read_bytes() != whole_file


def test_a_continuation_keeps_the_space_that_some_tokenizers_drop(model, tmp_path):
    class Dropping(Slow):
        def decode(self, tokens):
            return self.model.decode(tokens).removeprefix(" ")

    prompt = Prompt("1", "if the", tuple(model.encode("if the")))
    generate_file(Dropping(model, 10**6), [prompt], "greedy", tmp_path / "out.jsonl", Plan(max_new=3))
    assert read(tmp_path / "out.jsonl").texts[0].startswith(" ")


# --- going on


@pytest.mark.parametrize("cut", [0, 1, 500, 5000, -1, -30])
def test_a_file_cut_anywhere_becomes_the_same(model, prompts, tmp_path, whole_file, cut):
    path = tmp_path / "whole.jsonl"
    path.write_bytes(whole_file[:cut])
    before = whole_file[:cut].count(b"\n")
    with pytest.raises(KeyboardInterrupt):  # what was cut in two is gone before anything is added
        generate_file(Slow(model, 0), prompts, "nucleus:0.9", path, PLAN, batch=16)
    assert path.read_bytes() == b"".join(whole_file.splitlines(keepends=True)[:before])
    assert generate_file(model, prompts, "nucleus:0.9", path, PLAN, batch=16) == 120 - before
    assert path.read_bytes() == whole_file


def test_nothing_is_done_twice(model, prompts, tmp_path, whole_file):
    path = tmp_path / "whole.jsonl"
    stamp = path.stat().st_mtime_ns
    assert generate_file(Slow(model, 0), prompts, "nucleus:0.9", path, PLAN, batch=16) == 0
    path.write_bytes(b"".join(whole_file.splitlines(keepends=True)[:64]))
    stopped = Slow(model, 11)  # the steps of one batch
    with pytest.raises(KeyboardInterrupt):
        generate_file(stopped, prompts, "nucleus:0.9", path, PLAN, batch=16)
    assert path.read_bytes() == b"".join(whole_file.splitlines(keepends=True)[:80])
    assert path.stat().st_mtime_ns > stamp


RUN = """
import pydoc_data.topics, sys
from mallow.generate import Plan, generate_file, prompts_of
from mallow.generate import NGram
texts = [text for text in pydoc_data.topics.topics.values() if len(text) > 400][:40]
model = NGram.fit(texts, order=3)
generate_file(model, prompts_of(texts, model, tokens=6), "nucleus:0.9", sys.argv[1], Plan(n=3, max_new=12, rng=5), batch=2)
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


def test_a_full_disk_leaves_whole_lines(model, prompts, tmp_path, whole_file, monkeypatch):
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

    monkeypatch.setattr(files.os, "write", full)
    message = (
        r"out\.jsonl: cannot be written: No space left on device\. The \d+ texts in it are whole; run the same again when it "
        r"can, and it goes on from there\.$"
    )
    with pytest.raises(InputError, match=message):
        generate_file(model, prompts, "nucleus:0.9", path, PLAN, batch=16)
    monkeypatch.undo()
    found = path.read_bytes()
    assert found.endswith(b"\n")
    assert 2000 < len(found) <= 3000
    assert whole_file.startswith(found)
    assert len(read(path)) == found.count(b"\n")
    generate_file(model, prompts, "nucleus:0.9", path, PLAN, batch=16)
    assert path.read_bytes() == whole_file


def test_memory_that_does_not_suffice_halves_the_batch(model, prompts, tmp_path, whole_file):
    class Small(Slow):
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
        generate_file(Slow(model, 0, ZeroDivisionError), prompts, "greedy", tmp_path / "b.jsonl")


def test_a_bar_on_a_terminal_and_nowhere_else(model, prompts, tmp_path, monkeypatch, capsys):
    generate_file(model, prompts, "greedy", tmp_path / "silent.jsonl", Plan(max_new=2))
    assert capsys.readouterr() == ("", "")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    generate_file(model, prompts, "greedy", tmp_path / "out.jsonl", Plan(max_new=2), batch=10)
    shown = sys.stderr.getvalue()
    assert "generating" in shown
    assert "40/40 texts, " in shown
    assert "tokens/s" in shown
    sys.stderr.truncate(0)
    generate_file(model, prompts, "greedy", tmp_path / "out.jsonl", Plan(max_new=2), batch=10)
    assert "generating" not in sys.stderr.getvalue()  # nothing was to be done


# --- refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder": "nucleus:0.8"}, r"was begun with decoder = 'nucleus:0\.9', not 'nucleus:0\.8'\."),
        ({"plan": Plan(n=3, max_new=12, rng=6)}, r"was begun with rng = 5, not 6\."),
        ({"plan": Plan(n=2, max_new=12, rng=5)}, r"was begun with n = 3, not 2\."),
        ({"plan": Plan(n=3, max_new=13, rng=5)}, r"was begun with max_new = 12, not 13\."),
        ({"prompts": 39}, r"was begun with prompts = '[0-9a-f]{12}', not '[0-9a-f]{12}'\."),
        ({"model": 2}, r"was begun with model = 'NGram\(order=3.*not 'NGram\(order=2"),
    ],
    ids=["decoder", "rng", "n", "max_new", "prompts", "model"],
)
def test_a_file_of_another_origin_is_refused_until_told(texts, model, prompts, tmp_path, whole_file, change, message):
    path = tmp_path / "whole.jsonl"
    given = {"model": model, "prompts": prompts, "decoder": "nucleus:0.9", "out": path, "plan": PLAN} | change
    if "prompts" in change:
        given["prompts"] = prompts[:39]
    if "model" in change:
        given["model"] = NGram.fit(texts, order=2)
    with pytest.raises(InputError, match=message + r".* Write to another file, or begin again with overwrite=True"):
        generate_file(**given)
    assert path.read_bytes() == whole_file
    generate_file(**given, overwrite=True)
    assert path.read_bytes() != whole_file
    assert generate_file(**given) == 0


def test_files_that_mallow_did_not_write_are_left_alone(model, prompts, tmp_path, whole_file):
    path = tmp_path / "whole.jsonl"
    path.write_bytes(whole_file.replace(b'"n": 1', b'"n": 7', 1))
    with pytest.raises(InputError, match=r"whole\.jsonl:2: is no line that mallow wrote there\. Write to another file"):
        generate_file(model, prompts, "nucleus:0.9", path, PLAN)
    path.write_bytes(whole_file + whole_file[: whole_file.index(b"\n") + 1])
    with pytest.raises(InputError, match=r"whole\.jsonl:121: is no line that mallow wrote there\."):
        generate_file(model, prompts, "nucleus:0.9", path, PLAN)
    (tmp_path / "mine.jsonl").write_text('{"text": "precious"}\n')
    message = r"mine\.jsonl: is there already, and mine\.jsonl\.meta\.json beside it does not say how it came about\."
    with pytest.raises(InputError, match=message):
        generate_file(model, prompts, "nucleus:0.9", tmp_path / "mine.jsonl", PLAN)
    assert (tmp_path / "mine.jsonl").read_text() == '{"text": "precious"}\n'


def test_two_processes_do_not_write_one_file(model, prompts, tmp_path):
    fcntl = pytest.importorskip("fcntl", reason="needs locks of files")
    path = tmp_path / "out.jsonl"
    with path.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(InputError, match=r"out\.jsonl: another process is writing it\. Wait for it, or write"):
            generate_file(model, prompts, "greedy", path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"out": "out.txt"},
            r"^out\.txt: the suffix must be \.jsonl, since lines are added to the file; got '\.txt'\.$",
        ),
        ({"out": "no/out.jsonl"}, r"^no/out\.jsonl: the folder no does not exist\. Make it first\.$"),
        ({"out": "folder.jsonl"}, r"^folder\.jsonl: is a folder, not a file\. Name a file in it\.$"),
        ({"decoder": "greedy"}, r"^`n` must be 1 for greedy, which has one text for each prompt; got 3\.$"),
        ({"decoder": "nuclear:0.9"}, r"^`decoder` must be one of .* Did you mean nucleus\?$"),
        ({"decoder": 5}, r"^`decoder` must be a decoder or a name such as 'nucleus:0\.95'; got 5\.$"),
        ({"batch": 0}, r"^`batch` must be an integer of at least 1; got 0\.$"),
        ({"prompts": []}, r"^`prompts` must hold at least one prompt; got none\.$"),
        ({"prompts": [Prompt("a", "", ())]}, r"^`prompts` must each have at least one token; that of 'a' is empty\.$"),
        (
            {"prompts": [Prompt("a", "x", (1,))] * 2},
            r"^`prompts` must each have an id of their own; some have the same\.$",
        ),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, dict) else "",
)
def test_mistakes(model, prompts, tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.jsonl").mkdir()
    given = {"prompts": prompts, "decoder": Sampling(), "out": "out.jsonl", "plan": PLAN} | change
    with pytest.raises(InputError, match=message):
        generate_file(model, **given)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.jsonl"]


def test_prompts_longer_than_the_context(model, tmp_path):
    class Short(Slow):
        context = 20

    prompts = [Prompt("a", "x", (1,) * 5), Prompt("b", "x", (1,) * 15)]
    message = (
        r"^`prompts` must leave room for 12 new tokens in the model's context of 20; that of 'b' has 15 tokens\. "
        r"Use max_new=5, or shorter prompts\.$"
    )
    with pytest.raises(InputError, match=message):
        generate_file(Short(model, 0), prompts, "greedy", tmp_path / "out.jsonl", Plan(max_new=12))
    with pytest.raises(InputError, match=r"that of 'c' has 20 tokens\. Use shorter prompts\.$"):
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
        Plan(**options)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(model, prompts, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match=r"out\.jsonl: cannot be written: Permission denied\.$"):
        generate_file(model, prompts, "greedy", tmp_path / "out.jsonl")
