"""The commands of a study: study, study plan, annotate."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

STUDY = "study human.jsonl near.jsonl far=far.jsonl --per-pair 6 --length 8-20"
ROOT = Path(__file__).resolve().parents[2]


def test_a_study_is_written(mallow, home):
    code, out, err = mallow(STUDY)
    assert code == 0
    assert "18 pairs of texts: 3 systems, 3 pairs of systems, 6 comparisons each" in out
    assert "study.json: written. Show it with: mallow annotate study.json" in err
    data = json.loads((home / "study.json").read_text())
    assert data["systems"] == ["human", "near", "far"]
    assert data["settings"]["window"] == "TextWindow(least=8, most=20, tokenizer='words')"
    table = mallow(f"{STUDY} --format markdown -q")[1]
    assert table.splitlines()[2] == "| human | near | 6 | 3 | 6 |"
    assert mallow(f"{STUDY} -q --plot pairs.png")[0] == 0
    assert (home / "pairs.png").read_bytes().startswith(b"\x89PNG")


def test_the_options_of_a_design(mallow, home):
    (home / "form.json").write_text('{"title": "T", "task": "t", "questions": [{"name": "q", "text": "Which?"}]}')
    (home / "gold.jsonl").write_text('{"left": "good", "right": "bad", "expected": -2}\n')
    (home / "ids.txt").write_text("\n".join(map(str, range(50))))
    options = "--form form.json --gold-file gold.jsonl --prompts ids.txt --votes 2 --per-annotator 9 --rng 5 --reference-name people"
    code, _, _ = mallow(f"{STUDY} {options} --pairs star -o my.json -q")
    assert code == 0
    data = json.loads((home / "my.json").read_text())
    assert (data["votes"], data["per_annotator"], data["systems"][0], data["settings"]["seed"]) == (2, 9, "people", "5")
    assert data["form"]["title"] == "T"
    assert data["gold"][0]["left_item"] == "good"
    assert {int(task["prompt"]) < 50 for task in data["tasks"]} == {True}
    assert {frozenset((task["left"], task["right"])) for task in data["tasks"]} == {
        frozenset(("people", "near")),
        frozenset(("people", "far")),
    }
    budget = "study human.jsonl near.jsonl far.jsonl --length 8-20 --pairs optimal --budget 10 --score far=-100 -q"
    assert mallow(budget)[0] == 0
    assert len(json.loads((home / "study.json").read_text())["tasks"]) == 10


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("study human.jsonl", 2, "Missing argument 'NAME=PATH...'"),
        ("study human.jsonl far.jsonl --per-pair 900", 1, "900 comparisons of 'human' and 'far' need as many prompts"),
        (
            "study human.jsonl far.jsonl --per-pair 900",
            1,
            "Ask for fewer comparisons with --per-pair N, allow shorter texts with --length LEAST-MOST, or take all "
            "prompts with --all-prompts.",
        ),
        (f"{STUDY} --length 8", 2, "--length is written LEAST-MOST, such as 200-256; got '8'"),
        (f"{STUDY} --budget 8", 2, "--budget and --score are for --pairs optimal."),
        ("study human.jsonl far.jsonl --tokenizer words.json", 2, "--tokenizer needs --length, in its tokens"),
        ("study human.jsonl far.jsonl --pairs optimal", 2, "--pairs optimal needs --budget"),
        ("study human.jsonl far.jsonl --pairs optimal --budget 9 --score far", 2, "A score is written NAME=SCORE"),
        (f"{STUDY} --prompts ids.txt --all-prompts", 2, "--prompts and --all-prompts exclude each other."),
        (f"{STUDY} --prompts ids.txt", 1, "ids.txt: cannot be read: No such file or directory."),
        (f"{STUDY} --form no.json", 1, "no.json: cannot be read: No such file or directory."),
        (f"{STUDY} -o study.txt", 1, "study.txt: must end in one of .json; got '.txt'."),
        (f"{STUDY} --tokenizer nowhere", 1, "there is none at 'nowhere'"),
        ("study human.jsonl human=far.jsonl", 1, "--reference-name"),
        ("study plan a=1", 1, "SCORES must map at least two systems"),
        ("study plan a b=1", 2, "A score is written NAME=SCORE, such as small=-20; got 'a'."),
        ("study plan a=1 b=2 --goal ranking --between a b", 2, "--between is for --goal apart."),
        ("study plan no.json", 1, "no.json: is not a ranking: no.json: cannot be read: No such file or directory."),
        (
            "study plan pipe.json",
            1,
            "pipe.json: is not a ranking: pipe.json: must be a file on a disk, but it is a pipe",
        ),
        ("annotate no.json", 1, "no.json: cannot be read: No such file or directory."),
        ("annotate human.jsonl", 1, "human.jsonl: is not a study"),
        ("annotate study.json --export votes.csv", 1, "votes.csv: must end in one of .jsonl"),
        ("annotate study.json --url example.org", 1, "--url must begin with http:// or https://"),
    ],
)
def test_mistakes(refused, home, command, code, message):
    os.mkfifo(home / "pipe.json")
    refused(command, code, message)


def test_how_many_votes(mallow, home):
    code, out, err = mallow("study plan human=60 small=0 --wage 20 --seconds 60")
    assert code == 0
    assert re.match(
        r"Take \d+ votes on each pair of systems, \d+ in all: human, which wins 64.6% against small, is then", out
    )
    assert "at 60 s per pair" in out
    assert "Votes count as independent" in out
    assert err == ""
    assert "right order" in mallow("study plan a=90 b=0 c=45 --goal ranking -q")[1]
    assert "tell c and b apart" in mallow("study plan a=90 b=0 c=45 --between c b -q --format markdown")[1]


def test_a_ranking_is_planned_from_a_pilot(mallow, home):
    import warnings

    from mallow.human import bradley_terry

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranking = bradley_terry([[0, 30, 40], [20, 0, 30], [10, 20, 0]], names=["a", "b", "c"])
    (home / "ranking.json").write_text(ranking.to_json())
    assert re.match(r"Take \d+ votes", mallow("study plan ranking.json -q")[1])


def start(home, *options):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mallow", "annotate", "study.json", "--port", "0", *options]
    return subprocess.Popen(
        command,
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_annotate_prints_links_and_ends_with_ctrl_c(mallow, home):
    mallow(f"{STUDY} -q")
    (home / "names.txt").write_text("Ann\n\nBob, the builder\n")
    run = start(home, "--people", "names.txt", "--invited-only", "--url", "https://study.example.org")
    try:
        lines = [run.stdout.readline() for _ in range(5)]
        assert lines[0] == "study: https://study.example.org/  (by invitation)\n"
        assert re.match(r"owner: https://study.example.org/owner/[\w-]{32}\n", lines[1])
        assert lines[2] == "name,link\n"
        assert re.match(r"Ann,https://study.example.org/join/[\w.-]+\n", lines[3])
        assert lines[4].startswith('"Bob, the builder",https://')
    finally:
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert out == ""
    assert "Traceback" not in err
    assert run.returncode in (0, 130)
    code, _, err = mallow("annotate study.json --export votes.jsonl")
    assert (code, err) == (0, "votes.jsonl: written\n")
    assert (home / "votes.jsonl").read_text() == ""


def test_a_port_in_use_and_an_edited_study(mallow, home, refused):
    mallow(f"{STUDY} -q")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(
            f"annotate study.json --port {port}", 1, f"cannot listen on 127.0.0.1, port {port}: Address already in use."
        )
    text = (home / "study.json").read_text()
    (home / "study.json").write_text(text.replace("Which continuation is better?", "Which one?"))
    refused("annotate study.json", 1, "study.json: the study was edited after it was made: form. Undo the edit")
    refused("annotate study.json --accept-edits --export v.jsonl", 1, "holds the answers of another study")
    missing = "annotate study.json --accept-edits --export v.jsonl --database other.db"
    refused(missing, 1, "other.db: there are no answers yet: no such file. Name the file with --database.")
    assert not (home / "other.db").exists()


def test_a_warning_before_it_opens_to_the_network(mallow, home):
    mallow(f"{STUDY} -q")
    with socket.socket() as taken:  # so that nothing is opened in fact
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = mallow(f"annotate study.json --host 0.0.0.0 --port {port}")
        assert (code, out) == (1, "")
        assert "the network can read the traffic. Put a proxy with https in front of it." in err
        _, _, err = mallow(f"annotate study.json --host 0.0.0.0 --port {port} --url https://study.example.org")
        assert "anyone" not in err
