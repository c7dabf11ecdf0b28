"""rank and correlate on the command line."""

import json

import pytest

from human_votes import simulate
from mallow.human import Votes, write_votes

TRUTH = {"human": 80.0, "large": 20.0, "small": -100.0}


@pytest.fixture
def study(home):
    """votes.jsonl with two questions, one.jsonl with one, battles.csv with a judge, metrics.csv."""
    first = simulate(TRUTH, 400, 0, question="human-like")
    second = simulate(TRUTH, 400, 1, question="sensible", ties=0.3)
    write_votes(home / "votes.jsonl", Votes((*first, *second)))
    write_votes(home / "one.jsonl", first)
    rows = []
    for place, vote in enumerate(simulate(TRUTH, 700, 2)):
        winner = {-1: "a", 0: "tie", 1: "b"}[(vote.answer > 0) - (vote.answer < 0)]
        rows.append(f"{place},{vote.left},{vote.right},{winner if place < 300 else ''},{winner}")
    (home / "battles.csv").write_text("\n".join(["id,first,second,human,gpt", *rows]))
    (home / "metrics.csv").write_text(
        "system,mauve,mauve std,ppl,ppl std\nhuman,,,20,0\nlarge,0.95,0.01,21,0.5\nsmall,0.8,0.02,35,1\nother,0.9,0,30,0\n"
    )
    return home


def test_one_question_is_a_ranking(mallow, study):
    code, out, err = mallow("rank votes.jsonl --question sensible --ties davidson --effect left --out ranking.json")
    assert code == 0
    assert out.startswith(
        "sensible: People prefer human to every other system. 3 of 3 pairs of systems differ significantly."
    )
    assert "is the share of ties between equal systems" in out
    assert "points for standing on the left" in out
    assert "ranking.json: written" in err
    saved = json.loads((study / "ranking.json").read_text())
    assert (saved["kind"], saved["question"], saved["winner"]) == ("mallow ranking", "sensible", "human")


def test_all_questions_are_rankings(mallow, study):
    code, out, _ = mallow("rank votes.jsonl --format json")
    assert code == 0
    assert list(json.loads(out)["rankings"]) == ["human-like", "sensible"]
    assert json.loads(mallow("rank one.jsonl --format json")[1])["kind"] == "mallow ranking"
    assert mallow("rank votes.jsonl --format latex")[1].startswith(r"\begin{tabular}")
    assert mallow("rank votes.jsonl --format markdown")[1].startswith("|  | human-like |")


def test_fast_answers_are_counted(mallow, study):
    out = mallow("rank one.jsonl --min-seconds 60")[1]
    kept = int(out.split("\n")[1].split()[0])
    assert 0 < kept < 400
    assert f"Dropped: {400 - kept} faster than 60 s." in out


def test_annotators_are_shown_and_excluded(mallow, study):
    code, out, _ = mallow("rank votes.jsonl --annotators --question human-like")
    assert code == 0
    assert "40 annotators, " in out
    out = mallow("rank one.jsonl --exclude w1 --exclude w2")[1]
    assert "by 38 annotators" in out
    assert "of excluded annotators" in out
    assert mallow("rank one.jsonl --exclude-flagged --min-seconds 89.9 -q")[0] == 1  # nearly all are fast, and flagged


def test_votes_that_all_came_too_fast_are_kept_by_an_option(mallow, study):
    code, _, err = mallow("rank one.jsonl --min-seconds 1000")
    assert code == 1
    assert "faster than 1000 s). Keep fast answers with --min-seconds 0." in err


def test_judges_stand_beside_people(mallow, study):
    code, out, _ = mallow("rank battles.csv --judges")
    assert code == 0
    assert "300 pairs with votes of people and judges, 400 with only judges" in out
    assert "gpt: the left side wins" in out


def test_pictures_are_drawn(mallow, study):
    for command in ("rank one.jsonl", "rank votes.jsonl", "rank one.jsonl --annotators", "rank battles.csv --judges"):
        code, _, err = mallow(f"{command} --plot made.png -q")
        assert (code, (study / "made.png").read_bytes()[:4]) == (0, b"\x89PNG"), err


def test_metrics_are_compared_with_people(mallow, study):
    (study / "people.csv").write_text("system,human-like\nlarge,20\nsmall,-100\nother,-30\n")
    code, out, err = mallow("correlate metrics.csv people.csv --reference human --plot made.svg")
    assert code == 0
    assert "human-like: " in out
    assert "1.000" in out
    assert "mallow: caveat: no errors are given for human-like (people)" in err
    assert (study / "made.svg").exists()
    found = json.loads(mallow("correlate metrics.csv people.csv --reference human --format json -q")[1])
    assert found["metrics"]["ppl"]["large"][0] == -1  # the distance from the reference
    mallow("rank votes.jsonl --out rankings.json -q")
    (study / "three.csv").write_text("system,mauve\nhuman,1\nlarge,0.9\nsmall,0.5\n")
    code, out, err = mallow("correlate three.csv rankings.json")
    assert (code, "sensible: the rank correlation of mauve is 1.000" in out) == (0, True), err


def test_the_report_shows_people(mallow, study):
    mallow("rank votes.jsonl --out rankings.json -q")
    mallow("compare human.jsonl large=near.jsonl small=far.jsonl -e letters:letters --repeats 1 --out c.json -q")
    code, _, err = mallow("report c.json --ranking rankings.json --out page.html")
    assert code == 0, err
    assert '<h2 id="people">Metrics and people</h2>' in (study / "page.html").read_text()


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("rank none.jsonl", 1, "none.jsonl: cannot be read: No such file or directory"),
        ("rank votes.jsonl --question sensibel", 1, "--question must be one of human-like, sensible; got 'sensibel'."),
        ("rank votes.jsonl --ties coin", 2, "'coin' is not one of"),
        ("rank votes.jsonl --out x.txt", 1, "x.txt: must end in one of .json; got '.txt'"),
        ("rank human.jsonl", 1, "these columns are of no known format of votes: id, text"),
        (
            "rank battles.csv --column model_a",
            2,
            "A column is written NAME=COLUMN, such as model_a=left_bot; got 'model_a'",
        ),
        ("rank votes.jsonl --min-seconds 1000", 1, "none are left (800 faster than 1000 s)"),
        ("correlate metrics.csv none.json", 1, "none.json: cannot be read"),
        ("correlate votes.jsonl metrics.csv", 1, "votes.jsonl: must end in .csv or .json"),
        ("report human.jsonl near.jsonl --ranking none.json", 1, "none.json: is not a ranking:"),
    ],
)
def test_mistakes_are_told(study, refused, command, code, message):
    refused(command, code, message)


def test_other_files_are_no_ranking(mallow, study, refused):
    (study / "score.json").write_text('{"kind": "mallow score"}')
    refused(
        "report c.json --ranking score.json",
        1,
        "score.json: is not a ranking but 'mallow score'. Save one with: mallow rank",
    )


def test_other_columns_can_be_named(mallow, study):
    (study / "odd.csv").write_text("bot1,bot2,won\nx,y,a\nx,y,b\n")
    code, out, _ = mallow("rank odd.csv --column model_a=bot1 --column model_b=bot2 --column winner=won")
    assert code == 0
    assert "No system is significantly better than all others" in out
