"""Reading votes: every format, what is dropped and counted, and what a damaged file says."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from human_votes import vote
from mallow import InputError
from mallow.human import Vote, Votes, read_votes, write_votes

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)


@st.composite
def any_vote(draw):
    left, right = draw(st.lists(TEXT, min_size=2, max_size=2, unique=True))
    kind = draw(st.sampled_from(["task", "gold", "repeat"]))
    return Vote(
        left,
        right,
        draw(st.integers(-2, 2)),
        draw(TEXT),
        draw(st.just("") | TEXT),
        draw(st.just("") | TEXT),
        draw(st.none() | st.floats(0, 1000)),
        kind=kind,
        task=draw(st.just("") | TEXT),
        judge=draw(st.booleans()),
        expected=draw(st.integers(-2, 2)) if kind == "gold" else None,
        left_length=draw(st.none() | st.floats(1, 500)),
        when=draw(st.sampled_from(["", "2026-01-02T03:04:05Z"])),
    )


@settings(max_examples=40)
@given(st.lists(any_vote(), min_size=1, max_size=4, unique=True))
def test_what_is_written_is_read(tmp_path_factory, votes):
    path = tmp_path_factory.mktemp("votes") / "votes.jsonl"
    write_votes(path, Votes(tuple(votes)))
    again = read_votes(path, min_seconds=0)
    assert again.votes == tuple(votes)
    assert again.dropped == {}


@given(any_vote())
def test_a_vote_has_one_winner_or_none(one):
    assert (one.winner is None) == (one.answer == 0)
    assert one.points == {one.left: 1.0, one.right: 0.0, None: 0.5}[one.winner]
    assert set(one.pair) == {one.left, one.right}


def write(path, content):
    path.write_text(content if isinstance(content, str) else "\n".join(map(json.dumps, content)), encoding="utf-8")
    return path


def test_the_published_annotations(shared):
    votes = read_votes(shared / "data/human-eval/human_vs_model_720.jsonl.gz")
    assert votes.questions == ("interesting", "sensible", "human-like")
    assert len(votes) == 3 * 366
    assert votes.dropped == {"faster than 25 s": 3 * 354}
    assert votes.of("sensible").dropped == {"faster than 25 s": 354}
    assert len(votes.systems) == 9
    assert "gpt2-xl p0.95" in votes.systems
    first = votes.votes[0]
    assert 100 < first.left_length < 300  # in words, without markup
    everything = read_votes(shared / "data/human-eval/human_vs_model_720.jsonl.gz", min_seconds=0)
    assert len(everything) == 2160
    assert len(everything.annotators) == 155
    answers = [one.answer for one in everything.of("interesting")]
    assert [answers.count(answer) for answer in (-2, -1, 0, 1, 2)] == [151, 241, 0, 199, 129]


def test_mechanical_turk_csv(tmp_path):
    head = "HITId,WorkerId,AssignmentStatus,Input.model_a,Input.model_b,Input.idx,Answer.better,Answer.te\n"
    rows = "h1,w1,Approved,a,b,7,2a,31\nh2,w1,Rejected,a,b,8,1b,40\nh3,w2,Submitted,b,a,9,tie,12\n"
    votes = read_votes(write(tmp_path / "batch.csv", head + rows))
    assert votes.votes == (Vote("a", "b", -2, "better", "w1", "7", 31.0, task="h1"),)
    assert votes.dropped == {"rejected assignment": 1, "faster than 25 s": 1}


def test_arena_battles(tmp_path):
    rows = [
        {"model_a": "x", "model_b": "y", "winner": winner, "judge": "u1", "question_id": number}
        for number, winner in enumerate(["model_a", "model_b", "tie", "tie (bothbad)"])
    ]
    votes = read_votes(write(tmp_path / "battles.jsonl", rows))
    assert [one.answer for one in votes] == [-1, 1, 0, 0]
    assert {one.annotator for one in votes} == {"u1"}
    assert [one.prompt for one in votes] == ["0", "1", "2", "3"]


def test_arena_battles_with_judges(tmp_path):
    content = "id,first,second,human,gpt4\n1,x,y,a,b\n2,y,x,both bad,\n"
    votes = read_votes(write(tmp_path / "battles.csv", content))
    assert [(one.task, one.judge, one.annotator, one.answer) for one in votes] == [
        ("1", False, "", -1),
        ("1", True, "gpt4", 1),
        ("2", False, "", 0),
    ]
    assert votes.judges == ("gpt4",)
    assert votes.people().dropped == {"by a judge, not a person": 1}


def test_label_studio_exports(tmp_path):
    pairwise = {"type": "pairwise", "from_name": "better", "value": {"selected": "left"}}
    choices = {"type": "choices", "from_name": "human-like", "value": {"choices": ["Slightly right"]}}
    tasks = [
        {
            "id": 5,
            "data": {"prompt": "Once", "model_a": "x", "model_b": "y", "text1": "…", "text2": "…"},
            "annotations": [
                {"completed_by": {"email": "ann@x.org"}, "lead_time": 33.5, "result": [pairwise, choices]},
                {"completed_by": 7, "lead_time": 50, "was_cancelled": True, "result": [pairwise]},
                {"completed_by": 8, "lead_time": 50, "result": [{"type": "textarea", "value": {"text": ["hm"]}}]},
            ],
        }
    ]
    votes = read_votes(write(tmp_path / "export.json", json.dumps(tasks)))
    assert votes.votes == (
        Vote("x", "y", -1, "better", "ann@x.org", "Once", 33.5, task="5"),
        Vote("x", "y", 1, "human-like", "ann@x.org", "Once", 33.5, task="5"),
    )
    tasks[0]["data"] = {"bot1": "x", "bot2": "y"}
    other = write(tmp_path / "other.json", json.dumps(tasks))
    with pytest.raises(
        InputError, match="each task's data must name the systems as model_a and model_b, but it has bot1, bot2"
    ):
        read_votes(other)
    assert read_votes(other, columns={"model_a": "bot1", "model_b": "bot2"}).systems == ("x", "y")


def test_other_columns_can_be_named(tmp_path):
    path = write(tmp_path / "x.csv", "bot1,bot2,who_won\nx,y,a\n")
    message = "these columns are of no known format of votes: bot1, bot2, who_won. Known: left, right, answer"
    with pytest.raises(InputError, match=message):
        read_votes(path)
    votes = read_votes(path, columns={"model_a": "bot1", "model_b": "bot2", "winner": "who_won"})
    assert votes.votes[0].winner == "x"
    with pytest.raises(InputError, match="`columns` must name columns of the file; 'bot9' is not among bot1, bot2"):
        read_votes(path, columns={"model_a": "bot9"})


def test_the_same_answer_sent_twice_counts_once(tmp_path):
    row = {"left": "a", "right": "b", "answer": 1, "question": "q", "annotator": "w", "task": "t", "seconds": 30}
    votes = read_votes(write(tmp_path / "votes.jsonl", [row, row, row | {"question": "r"}]))
    assert len(votes) == 2
    assert votes.dropped == {"sent twice": 1}
    unknown = read_votes(write(tmp_path / "votes.jsonl", [row | {"annotator": ""}] * 2))
    assert len(unknown) == 2  # two people may have said the same


def test_compressed_files_and_byte_order_marks(tmp_path):
    content = "\ufeffmodel_a,model_b,winner\nx,y,a\n"
    with gzip.open(tmp_path / "x.csv.gz", "wt", encoding="utf-8") as stream:
        stream.write(content)
    assert len(read_votes(tmp_path / "x.csv.gz")) == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "model_a,model_b,winner\nx,y,model_c\n", r"x.csv:2: winner must be one of model_a, .*; got 'model_c'"),
        ("x.csv", "model_a,model_b,winner\nx,x,a\n", "x.csv:2: `left` and `right` must be two systems, but both are 'x'"),
        ("x.csv", "model_a,model_b,winner\nx,y\n", "x.csv:2: has 2 cells, and the heading has 3"),
        ("x.csv", "Input.model_a,Input.model_b,Answer.q1\nx,y,3c\n", "Answer.q1 must be one of 2a, 1a, tie, 0, 1b, 2b; got '3c'"),
        ("x.csv", "Input.model_a,Input.model_b,Answer.q1,Answer.te\nx,y,1a,soon\n", "`Answer.te` must be a number of at least 0; got 'soon'"),
        ("x.jsonl", '{"left": "a", "right": "b", "answer": 3}', "x.jsonl:1: `answer` must be −2 .*; got 3"),
        ("x.jsonl", '{"left": "a", "right": "b", "answer": "x"}', "`answer` must be a whole number from −2 to 2; got 'x'"),
        ("x.jsonl", '{"left": "a", "right": "b", "answer": 1, "kind": "odd"}', "`kind` must be one of task, gold, repeat; got 'odd'"),
        ("x.jsonl", '{"left": "a", "right": "b", "answer": 1}\n{"left": "a"}', "x.jsonl:2: `right` is missing"),
        ("x.jsonl", "{nonsense", "x.jsonl:1: is not JSON"),
        ("x.jsonl", "[1]", "x.jsonl:1: must be an object; got list"),
        ("x.jsonl", "\n", "x.jsonl: holds no votes"),
        ("x.json", "{}", "must be a list of tasks, as Label Studio exports it; got dict"),
        ("x.json", "[1]", "must be an object; got int"),
        ("x.txt", "hello", r"must end in .jsonl, .json or .csv, each also with .gz; got 'x.txt'"),
    ],
)  # fmt: skip
def test_damaged_files_are_told(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        read_votes(write(tmp_path / name, content))


def test_files_that_cannot_be_read_are_told(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        read_votes(tmp_path / "none.csv")
    (tmp_path / "bad.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"bad\.csv: must be UTF-8 text; byte 0 is not"):
        read_votes(tmp_path / "bad.csv")
    (tmp_path / "bad.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(InputError, match="cannot be read"):
        read_votes(tmp_path / "bad.csv.gz")
    with pytest.raises(InputError, match="`min_seconds` must be at least 0; got -1"):
        read_votes(tmp_path / "bad.csv", min_seconds=-1)


def test_votes_can_be_chosen():
    votes = Votes(
        (vote("a", "b", 1, "q"), vote("a", "b", -1, "r", "bob"), vote("a", "b", 0, "q", kind="gold", expected=1))
    )
    with pytest.raises(InputError, match="`question` must name one of the questions of the votes: q, r"):
        votes.of(None)
    with pytest.raises(InputError, match=r"`question` must be one of q, r; got 'qq'. Did you mean q\?"):
        votes.of("qq")
    assert votes.without(["bob"]).dropped == {"of excluded annotators": 1}
    with pytest.raises(InputError, match="`annotators` must have voted; 'eve' did not"):
        votes.without(["eve"])
    assert votes.of("q").people().dropped == {"on gold pairs": 1}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"left": "a", "right": "b", "answer": true}', "`answer` must be a whole number from −2 to 2; got True"),
        ('{"left": "a", "right": "b", "answer": "0_1"}', "`answer` must be a whole number from −2 to 2; got '0_1'"),
        ('{"left": "a", "right": "b", "answer": 1, "seconds": "3_0"}', "`seconds` must be a number of at least 0"),
        ('{"left": "a", "right": "b", "answer": NaN}', "`answer` must be a whole number from −2 to 2; got nan"),
        ('{"left": "a", "right": "b", "answer": 1, "answer": -1}', "the key 'answer' occurs twice"),
        ('{"left": "a", "right": "b", "answer": 1, "seconds": true}', "`seconds` must be a number of at least 0"),
        ('{"left": "a", "right": true, "answer": 1}', "`right` must be a text; got True"),
        ('{"left": "a", "right": "b", "answer": 1, "judge": "perhaps"}', "`judge` must be true or false"),
    ],
)
def test_answers_that_are_no_numbers_are_refused(tmp_path, line, complaint):
    path = tmp_path / "votes.jsonl"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(InputError, match=complaint):
        read_votes(path)


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner,winner\na,b,model_a,model_b\n")
    with pytest.raises(InputError, match="two columns have one name"):
        read_votes(path)


MISSING = [None, float("nan")]


@pytest.mark.parametrize("none", MISSING)
def test_missing_names_are_not_one_person_or_prompt(tmp_path, none):
    row = {"model_a": "x", "model_b": "y", "winner": "a", "judge": none, "question_id": none, "prompt": "p", "id": none}
    [one] = read_votes(write(tmp_path / "battles.jsonl", [row]))
    assert (one.annotator, one.prompt, one.task) == ("", "p", "")
    row = {"Input.model_a": "x", "Input.model_b": "y", "Answer.q": "1a", "WorkerId": none, "HITId": none}
    [one] = read_votes(write(tmp_path / "batch.jsonl", [row]))
    assert (one.annotator, one.task) == ("", "")
    result = {"type": "pairwise", "from_name": none, "value": {"selected": "left"}}
    for who in (none, {"email": none}):
        annotation = {"completed_by": who, "result": [result]}
        row = {"id": none, "data": {"model_a": "x", "model_b": "y", "prompt": none}, "annotations": [annotation]}
        [one] = read_votes(write(tmp_path / "export.json", json.dumps([row])))
        assert (one.annotator, one.prompt, one.task, one.question) == ("", "", "", "")


PAIRWISE = [{"result": [{"type": "pairwise", "value": {"selected": "left"}}]}]


@pytest.mark.parametrize("system", [*MISSING, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda system: {"model_a": system, "model_b": "y", "winner": "a"},
        lambda system: {"first": system, "second": "y", "human": "a"},
        lambda system: {"Input.model_a": "y", "Input.model_b": system, "Answer.q": "1a"},
        lambda system: {"data": {"left": system, "right": "y"}, "annotations": PAIRWISE},
    ],
    ids=["arena", "judges", "mturk", "label studio"],
)
def test_what_names_no_system_is_refused(tmp_path, system, make):
    with pytest.raises(InputError, match=r"must be a text; got (None|nan|True)"):
        read_votes(write(tmp_path / "votes.jsonl", [make(system)]))


def test_true_is_no_person(tmp_path):
    row = {"model_a": "x", "model_b": "y", "winner": "a", "judge": True}
    with pytest.raises(InputError, match="`judge` must be a text; got True"):
        read_votes(write(tmp_path / "battles.jsonl", [row]))


@pytest.mark.parametrize("name", ["answer", "expected"])
def test_true_is_no_answer(name):
    values = {"answer": 1, name: True}
    with pytest.raises(InputError, match=f"`{name}` must be −2 .*; got True"):
        Vote("a", "b", question="q", annotator="", prompt="", seconds=None, **values)
