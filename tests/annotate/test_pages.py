"""The pages by plain HTTP, without JavaScript: a whole study, corrections, skips, quotas, time-outs, the owner."""

import csv
import io
import json
import re
import time

import numpy as np
import pytest

from annotation_page import hidden, place_of
from mallow import annotate
from mallow.annotate._export import overview
from mallow.human import TEXT_FORM, QualityChecks, Question, read_votes


def test_a_whole_study_without_javascript(serve, study_file):
    served = serve(study_file(per_pair=2, systems=1))
    ann = served.person()
    status, _, text = ann.get("/")
    assert (status, "Your name" in text) == (200, True)
    _, _, text = ann.post("/join", {"name": "  Ann   Example "})
    assert "Example 1" in text and "Example 2" in text  # noqa: PT018
    assert all(question.text in text for question in TEXT_FORM.questions)
    _, _, text = ann.post("/start", {"csrf": hidden(text, "csrf")})
    assert "Judged: 0 of 2" in text
    assert text.count('type="radio"') == 3 * 5 + 4
    _, _, text = ann.answer(text, ["-2", "0", "1"])
    assert "Judged: 1 of 2" in text
    _, _, text = ann.answer(text)
    assert "You have judged <strong>2</strong> pairs" in text
    code = re.search(r'id="code">([A-Z2-9]{10})<', text)[1]
    assert code == served.store.signer.completion_code(served.store.dump()["annotators"][0]["id"])
    votes = annotate.export_votes(served.store)
    assert [vote.answer for vote in votes] == [-2, 0, 1, 1, 1, 1]
    assert [vote.question for vote in votes[:3]] == ["interesting", "sensible", "human-like"]
    assert {frozenset((vote.left, vote.right)) for vote in votes} == {frozenset(("human", "model-a"))}
    assert served.store.dump()["annotators"][0]["name"] == "Ann Example"


def test_the_export_is_read_by_the_statistics(serve, study_file, tmp_path):
    served = serve(study_file(per_pair=3, systems=2))
    for name in ("Ann", "Bob"):
        person = served.person()
        text = person.join(name)
        for _ in range(3):
            _, _, text = person.answer(text, "2")
    path = tmp_path / "votes.jsonl"
    path.write_text(annotate.votes_text(annotate.export_votes(served.store)))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 18
    assert list(rows[0]) == [
        *("left", "right", "answer", "question", "annotator", "prompt", "seconds", "kind", "task", "judge"),
        *("left_length", "right_length", "when"),
    ]
    votes = read_votes(path, min_seconds=0)
    assert len(votes) == 18
    assert votes.questions == ("interesting", "sensible", "human-like")
    assert tuple(votes) == annotate.export_votes(served.store)


def test_systems_and_kinds_are_not_shown(serve, study_file):
    served = serve(study_file(per_pair=6, systems=2, checks=QualityChecks(4, 2, 4)))
    ann = served.person()
    text = ann.join()
    for _ in range(12):
        assert not re.search(r"model-[ab]|shuffled|\bgold\b|repeat", text)
        _, _, text = ann.answer(text)


def test_going_back_and_changing_an_answer(serve, study_file):
    served = serve(study_file(per_pair=3, systems=1))
    ann = served.person()
    text = ann.join()
    assert 'id="back"' not in text
    _, _, text = ann.answer(text, ["-2", "-1", "0"])
    assert 'id="back" href="/pair/1"' in text
    _, _, text = ann.get("/pair/1")
    assert "You have answered this pair before" in text
    assert re.findall(r'name="(q\d)" value="(-?\d)" required checked', text) == [
        ("q0", "-2"),
        ("q1", "-1"),
        ("q2", "0"),
    ]
    _, _, text = ann.answer(text, ["2", "1", "0"])
    assert place_of(text) == "/pair/2"
    votes = annotate.export_votes(served.store)
    assert [vote.answer for vote in votes] == [2, 1, 0]
    assert [row["number"] for row in served.store.dump()["submissions"]] == [1, 2]  # what was said first is kept


def test_the_same_answer_sent_twice_counts_once(serve, study_file):
    served = serve(study_file(per_pair=3, systems=1))
    ann = served.person()
    text = ann.join()
    fields = ann.fields(text, "1")
    places = [place_of(ann.post("/pair/1", fields)[2]) for _ in range(3)]
    assert places == ["/pair/2"] * 3
    assert len(served.store.dump()["submissions"]) == 1
    ann.post("/pair/1", fields | {"q0": "-1"})  # the browser's own back button, and another answer
    assert [row["number"] for row in served.store.dump()["submissions"]] == [1, 2]
    assert [vote.answer for vote in annotate.export_votes(served.store)] == [-1, 1, 1]


@pytest.mark.parametrize(
    "spoil", [{"q1": ""}, {"q1": "3"}, {"q1": "x"}, {"q1": "-3"}, {"page": "forged.token"}, {"page": ""}]
)
def test_an_incomplete_form_is_shown_again_with_what_was_answered(serve, study_file, spoil):
    served = serve(study_file(per_pair=2, systems=1))
    ann = served.person()
    text = ann.join()
    status, _, text = ann.answer(text, "2", **spoil)
    assert status == 422
    if "q1" in spoil:
        assert "Please answer every question. 1 of 3 has no answer yet." in text
        assert text.count(" checked") == 2
    assert served.store.dump()["submissions"] == []


def test_skipping_gives_the_pair_to_others(serve, study_file):
    served = serve(study_file(per_pair=1, systems=1))
    ann, bob = served.person(), served.person()
    text = ann.join("Ann")
    status, _, refused = ann.post("/pair/1/skip", {"csrf": hidden(text, "csrf"), "reason": "because"})
    assert (status, "choose a reason" in refused) == (422, True)
    _, _, after = ann.post(
        "/pair/1/skip",
        {"csrf": hidden(text, "csrf"), "reason": "Offensive or upsetting", "note": "the  <b>end</b>" + "x" * 500},
    )
    assert "Thank you" in after
    assert annotate.export_votes(served.store) == ()
    reason = served.store.dump()["assignments"][0]["reason"]
    assert reason.startswith("Offensive or upsetting: the <b>end</b>xx")
    assert len(reason) < 400
    assert "Judged: 0 of 1" in bob.join("Bob")
    _, _, text = ann.get("/pair/1")  # she may still change her mind, while nobody else has answered
    ann.answer(text)
    assert {row["state"] for row in served.store.dump()["assignments"]} == {"late", "open"}  # Bob has it now


def test_quotas_hold_and_a_time_out_returns_a_task(serve, study_file):
    served = serve(study_file(per_pair=1, systems=1))
    ann, bob, eve = (served.person() for _ in range(3))
    hers = ann.join("Ann")
    assert "with other people at the moment" in bob.join("Bob")
    served.let_time_pass()
    _, _, text = bob.get("/")  # Ann has left
    assert "Judged: 0 of 1" in text
    assert "with other people" in eve.join("Eve")
    bob.answer(text, "2")
    status, _, late = ann.answer(hers, "-2")  # Ann comes back after all
    assert status == 200
    assert "You have judged <strong>1</strong> pair" in late  # her work is acknowledged and kept, and is no vote
    assert [vote.answer for vote in annotate.export_votes(served.store)] == [2, 2, 2]
    kept = {row["state"]: row for row in served.store.dump()["assignments"]}
    assert set(kept) == {"late", "done"}
    assert len(served.store.dump()["submissions"]) == 2


def test_a_late_answer_counts_while_there_is_room(serve, study_file):
    served = serve(study_file(per_pair=1, systems=1))
    ann = served.person()
    text = ann.join()
    served.let_time_pass()
    ann.answer(text, "1")
    assert len(annotate.export_votes(served.store)) == 3


def test_somebody_who_returns_to_a_lost_pair_gets_another(serve, study_file):
    served = serve(study_file(per_pair=3, systems=1))
    ann, bob = served.person(), served.person()
    first = ann.join("Ann")
    served.let_time_pass()
    text = bob.join("Bob")
    _, _, text = bob.answer(text)
    _, _, text = ann.get(place_of(first))
    assert place_of(text) == "/pair/2"
    assert 'id="back"' not in text


def test_several_votes_per_pair_and_a_limit_per_annotator(serve, study_file):
    served = serve(study_file(per_pair=2, systems=1, votes=2, per_annotator=1))
    for number in range(5):
        person = served.person()
        text = person.join(f"Person {number}")
        if number < 4:
            assert "Judged: 0 of 1" in text
            assert "Thank you" in person.answer(text)[2]
        else:
            assert "There are no more pairs for you." in text
    votes = annotate.export_votes(served.store)
    tasks = [vote.task for vote in votes if vote.question == "sensible"]
    assert sorted(tasks) == ["t0001", "t0001", "t0002", "t0002"]


def test_gold_and_repeated_pairs_are_exported_as_such(serve, study_file):
    served = serve(study_file(per_pair=20, systems=1, checks=QualityChecks(3, 4, 6)))
    ann = served.person()
    text = ann.join()
    for _ in range(20):
        _, _, text = ann.answer(text, "1")
    votes = [vote for vote in annotate.export_votes(served.store) if vote.question == "sensible"]
    kinds = [vote.kind for vote in votes]
    assert kinds.count("gold") == 3
    assert kinds.count("repeat") in (3, 4)
    by_task = {vote.task: vote for vote in votes if vote.kind == "task"}
    for vote in votes:
        if vote.kind == "repeat":
            before = by_task[vote.task]
            assert (vote.left, vote.right) == (before.right, before.left)  # sides exchanged
            assert votes.index(vote) - votes.index(before) > 5
        assert (vote.expected is not None) == (vote.kind == "gold")
    interesting = [vote for vote in annotate.export_votes(served.store) if vote.question == "interesting"]
    assert all(vote.expected is None for vote in interesting)
    shown = re.sub(r"\s+", " ", owner_page(served)[1])
    assert re.search(r"sensible</th> <td>–</td> <td>–</td> <td>0% of \d</td> <td>\d+% of 3</td>", shown)


# --- coming in


def test_personal_links(serve, study_file):
    served = serve(study_file(), open_link=False)
    links = annotate.make_links(served.store, served.base, ["Ann", "Bob"])
    status, _, text = served.person().get("/")
    assert (status, "by invitation" in text) == (403, True)
    assert served.person().post("/join", {"name": "Eve"})[0] == 403
    ann = served.person()
    path = links.personal["Ann"].removeprefix(served.base)
    assert "Example 1" in ann.get(path)[2]
    again = served.person()  # the same link on another device is the same person
    again.get(path)
    served.person().get(links.personal["Bob"].removeprefix(served.base))
    assert [row["name"] for row in served.store.dump()["annotators"]] == ["Ann", "Bob"]
    assert list(csv.reader(io.StringIO(links.to_csv())))[1] == ["Ann", links.personal["Ann"]]
    with pytest.raises(annotate._serve.InputError, match="`people` must be different names"):
        annotate.make_links(served.store, served.base, ["Ann", " Ann"])


def test_expired_and_damaged_links(serve, study_file):
    served = serve(study_file(), open_link=False)
    old = served.store.signer.personal_token("Ann", time.time() - 1)
    status, _, text = served.person().get(f"/join/{old}")
    assert (status, "This link has expired. Please ask for a new one" in text) == (410, True)
    good = served.store.signer.personal_token("Ann", time.time() + 100)
    for bad in (good[:-1], good[1:], "x" + good, good.replace(".", ""), good.split(".")[0] + ".", "é"):
        status, _, text = served.person().ask("GET", f"/join/{bad}" if bad.isascii() else "/join/%C3%A9")
        assert (status, "not complete" in text) == (404, True)
    assert served.store.dump()["annotators"] == []


def test_prolific_and_mturk(serve, study_file):
    platforms = frozenset({"prolific", "mturk"})
    served = serve(study_file(per_pair=1, systems=1), open_link=False, platforms=platforms, completion_code="C0FFEE")
    first = served.person()
    _, _, text = first.get("/?PROLIFIC_PID=5f1&STUDY_ID=s&SESSION_ID=x9")
    _, _, text = first.post("/start", {"csrf": hidden(text, "csrf")})
    _, _, text = first.answer(text)
    assert 'href="https://app.prolific.com/submissions/complete?cc=C0FFEE"' in text
    status, _, text = served.person().get(
        "/?PROLIFIC_PID=5f1&STUDY_ID=s&SESSION_ID=other"
    )  # somebody else who knows the id
    assert (status, "already started with this worker ID" in text) == (409, True)
    assert "Thank you" in served.person().get("/?PROLIFIC_PID=5f1&STUDY_ID=s&SESSION_ID=x9")[2]
    preview = served.person().get("/?hitId=h&assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE")
    assert (preview[0], "This is a preview" in preview[2], 'id="start"' in preview[2]) == (200, True, False)
    worker = served.person()
    worker.get("/?workerId=W1&assignmentId=A1&hitId=h")
    worker.get("/?workerId=W1&assignmentId=A2&hitId=h2")  # the same browser, the next task
    people = served.store.dump()["annotators"]
    assert [(row["source"], row["external"], row["session"]) for row in people] == [
        ("prolific", "5f1", "x9"),
        ("mturk", "W1", "A1"),
    ]


def test_the_instructions_come_first(serve, study_file):
    served = serve(study_file())
    ann = served.person()
    ann.post("/join", {"name": "Ann"})
    for path in ("/", "/done"):
        ann.get(path)
        assert ann.path == "/instructions"
    assert served.store.dump()["assignments"] == []


def test_names_are_checked(serve, study_file):
    served = serve(study_file())
    for name in ("", "   ", "x" * 81):
        status, _, text = served.person().post("/join", {"name": name})
        assert (status, "Please enter a name of at most 80 characters." in text) == (422, True)


# --- the owner


def test_who_only_joined_is_not_counted_as_an_annotator(serve, study_file):
    served = serve(study_file())
    person = served.person()
    person.answer(person.join("Ann"), ["1", "1", "-1"])
    served.person().join("Bob")
    _, text = owner_page(served)
    assert "from 1 annotator; 1 more joined without judging a pair." in text


def owner_page(served):
    owner = served.person()
    return owner, owner.get(served.owner_path)[2]


def test_the_owner_sees_progress_agreement_and_times(serve, study_file):
    served = serve(study_file(per_pair=2, systems=1, votes=2))
    for name, answers in (("Ann", ["1", "1", "-1"]), ("Bob <b>", ["1", "-1", "-1"])):
        person = served.person()
        text = person.join(name)
        _, _, text = person.answer(text, answers)
        person.answer(text, answers, seconds="0.01")
    owner, text = owner_page(served)
    shown = re.sub(r"\s+", " ", text)
    assert "<strong>4</strong> of 4 votes (100%) from 2 annotators." in shown
    assert "Answers in less than 25 s do not count in <code>mallow rank</code>" in shown
    assert "interesting</th> <td>100% of 2</td> <td>1.00</td>" in shown
    assert "sensible</th> <td>0% of 2</td> <td>-0.50</td>" in shown  # α of 1, −1 and 1, −1 by hand: 1 − 1/(2/3)
    assert "Bob &lt;b&gt;" in shown
    assert "Time per pair: median 0 s" in shown
    _, headers, votes = owner.get("/owner/votes.jsonl")
    assert headers["content-disposition"] == 'attachment; filename="votes.jsonl"'
    assert len(votes.splitlines()) == 12
    _, _, people = owner.get("/owner/annotators.csv")
    rows = list(csv.DictReader(io.StringIO(people)))
    assert [(row["name"], row["judged"]) for row in rows] == [("Ann", "2"), ("Bob <b>", "2")]
    assert rows[0]["completion_code"] == served.store.signer.completion_code(rows[0]["id"])
    assert rows[0]["id"] in votes
    assert "Ann" not in votes  # votes can be given away: they hold no names


def test_a_spreadsheet_takes_no_name_for_a_formula(serve, study_file):
    served = serve(study_file())
    served.person().join("=1+1")
    owner, _ = owner_page(served)
    assert "'=1+1" in owner.get("/owner/annotators.csv")[2]


def test_closing_and_opening(serve, study_file):
    served = serve(study_file(per_pair=3, systems=1))
    ann, bob = served.person(), served.person()
    text = ann.join("Ann")
    owner, page = owner_page(served)
    _, _, page = owner.post("/owner", {"csrf": hidden(page, "csrf"), "wanted": "close"})
    assert "The study is closed" in page
    assert "The study is closed: there are no more pairs." in bob.join("Bob")
    _, _, text = ann.answer(text)  # the pair in hand is not lost
    assert "The study is closed" in text
    assert "completion code" in text
    assert len(annotate.export_votes(served.store)) == 3
    owner.post("/owner", {"csrf": hidden(page, "csrf"), "wanted": "open"})
    assert place_of(ann.get("/")[2]) == "/pair/2"


# --- other forms


def test_any_questions_and_texts_without_context(serve, study_file):
    from dataclasses import replace

    from mallow.human import AllPairs, StudyDesign, TextWindow, design_study
    from mallow.samples import Samples

    form = replace(
        TEXT_FORM, title="Ein <Titel>", questions=(Question("besser", "Was ist besser?"),), examples=(), language="de"
    )
    design = StudyDesign(AllPairs(3), TextWindow(1, 9), checks=QualityChecks(0, 0, 0), form=form)
    with pytest.warns(UserWarning, match="paired by place"):
        study = design_study(Samples(texts=["a b", "c d", "e f"]), {"m": Samples(texts=["g h", "i j", "k l"])}, design)
    served = serve(study_file(study))
    ann = served.person()
    text = ann.join()
    assert '<html lang="de">' in text
    assert "Text A</h2>" in text
    assert "Context" not in text
    ann.answer(text, "2")
    assert [vote.question for vote in annotate.export_votes(served.store)] == ["besser"]


def test_pictures_are_shown_to_those_who_have_the_pair(serve, study_file, tmp_path):
    from PIL import Image

    from mallow.human import AllPairs, StudyDesign, design_study

    for name, colour in (("real", "red"), ("fake", "blue")):
        (tmp_path / name).mkdir()
        for number in range(2):
            Image.new("RGB", (8, 8 + number), colour).save(tmp_path / name / f"{number}.png")
    with pytest.warns(UserWarning, match="pictures need gold pairs of your own"):
        study = design_study(tmp_path / "real", {"fake": tmp_path / "fake"}, StudyDesign(AllPairs(2)))
    served = serve(study_file(study))
    names = {path.name for path in (tmp_path / "study-pictures").iterdir()}
    assert len(names) == 4
    ann = served.person()
    text = ann.join()
    assert 'src="/pair/1/a" alt="Picture A"' in text
    assert not any(word in text for word in ("real/", "fake", *names))
    task = served.store.study.tasks[0]
    for side, item in (("a", task.left_item), ("b", task.right_item)):
        status, headers, content = ann.get(f"/pair/1/{side}")
        assert (status, headers["content-type"]) == (200, "image/png")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert content == (tmp_path / "study-pictures" / item).read_bytes().decode(errors="replace")
    for path in ("/pair/1/c", "/pair/2/a", "/pair/99/a"):
        assert ann.get(path)[0] == 404
    stranger = served.person()
    assert stranger.get("/pair/1/a")[0] == 403
    (tmp_path / "study-pictures" / task.left_item).write_text("<script>alert(1)</script>")  # since the page began
    status, headers, content = ann.get("/pair/1/a")
    assert (status, "<script>" in content) == (404, False)
    (tmp_path / "study-pictures" / task.left_item).unlink()
    assert ann.get("/pair/1/a")[0] == 404
    ann.answer(text, "1")
    assert {vote.question for vote in annotate.export_votes(served.store)} == {"real", "appealing"}


def test_time_is_what_the_page_measured_but_never_more_than_passed(serve, study_file):
    served = serve(study_file(per_pair=5, systems=1))
    ann = served.person()
    text = ann.join()
    for seconds in ("0.05", "1e9", "-4", "nan", ""):
        time.sleep(0.1)
        _, _, text = ann.answer(text, "1", seconds=seconds)
    kept = [row["seconds"] for row in served.store.dump()["submissions"]]
    assert kept[0] == 0.05
    assert kept[2] == 0.0
    assert all(0.1 <= kept[place] < 60.0 for place in (1, 3, 4))
    quartiles = np.quantile(kept, [0.25, 0.5, 0.75], method="weibull")
    assert overview(served.store).seconds == pytest.approx(tuple(quartiles), abs=0.01)  # times of votes are rounded
    _, _, text = ann.get("/pair/1")
    time.sleep(0.05)
    ann.answer(text, "-1", seconds="0.02")  # a second visit adds its time
    again = [vote.seconds for vote in annotate.export_votes(served.store) if vote.task == "t0001"]
    assert again == [pytest.approx(0.07)] * 3


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_clock_that_jumps_changes_no_time_and_takes_no_pair_away(serve, study_file, monkeypatch, jump):
    served = serve(study_file(), lease=600.0)
    ann = served.person()
    text = ann.join("Ann")
    time.sleep(0.3)
    clock = time.time
    monkeypatch.setattr("time.time", lambda: clock() + jump)
    served.person().join("Bob")
    ann.answer(text, "1", seconds="1e9")
    (row,) = served.store.dump()["submissions"]
    assert 0.3 <= row["seconds"] < 60
    given = [(row["task"], row["state"]) for row in served.store.dump()["assignments"]]
    assert len(set(given)) == len(given) == 3  # Bob was not given Ann's pair, which was still hers
