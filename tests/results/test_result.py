"""What every result offers, on real results of every kind: text, tables, JSON and back, frames, notebooks, pictures."""

import json
import types
import warnings
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mallow
import recorded_fields
from damaged_results import damage
from human_votes import simulate
from mallow import human
from mallow.errors import Caveat, InputError, warn_about
from mallow.generate import GenerationPlan, NGram
from mallow.results import (
    FORMS,
    Result,
    TableData,
    at_least,
    at_most,
    from_plain,
    join_names,
    merge_caveats,
    p_number,
    p_text,
    render,
    to_plain,
)

WORDS = ["river", "house", "runs", "slowly", "green", "old", "stone", "light"]


def points(shift, seed, n=150):
    return np.random.default_rng(seed).normal(shift, 1.0, size=(n, 4))


def texts(n, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(6, 14))) + "." for _ in range(n)]


def letters(samples):
    return np.array([[text.count(letter) for letter in "aeiostrn"] for text in samples], dtype=float)


def from_votes(kind):
    truth = {"a": 60.0, "b <i>": 0.0, "c": -40.0}
    votes = human.Votes(
        (*simulate(truth, 200, 0, question="q1"), *simulate(truth, 200, 1, question="<i>q2</i>", ties=0.2))
    )
    if kind == "ranking":
        return human.rank(votes, question="<i>q2</i>", ties="davidson", effects=["left", "length"])
    if kind == "rankings":
        return human.rank_all(votes)
    if kind == "annotators":
        return human.check_annotators(votes)
    if kind == "correlations":
        return human.correlate({"m <i>": {name: (value, 9.0) for name, value in truth.items()}}, human.rank_all(votes))
    people = [replace(vote, annotator="") for vote in votes.of("q1")]
    judges = [replace(vote, annotator="gpt <i>", judge=True) for vote in people]
    return human.rank_with_judges(human.Votes((*people[:80], *judges)))


def make(kind, folder):
    x, a, b = points(0, 0), points(0.2, 1), points(0.9, 2)
    if kind == "score":
        return mallow.score(x, b, repeats=2)
    if kind == "comparison":
        return mallow.compare(x, {"a": a, "b <i>": b}, repeats=2)
    if kind == "track":
        return mallow.track(x, {f"step-{i} <i>": points(0.3 * i, i + 1) for i in range(3)}, repeats=1)
    if kind == "check":
        return mallow.check_regression(x, b, mallow.score(x, a, repeats=2))
    if kind == "plan":
        return mallow.plan_samples(x, a, b, detect=0.4)
    if kind == "diagnosis":
        return mallow.diagnose(texts(150, 1), texts(120, 2) + ["Buy gold watches now."] * 30, embedder=letters)
    if kind == "audit":
        return mallow.audit_embedder(texts(200, 1), letters, repeats=1)
    if kind == "baselines":
        return mallow.baselines.table(x, {"a": a, "b": b}, repeats=1)
    if kind == "memorisation":
        return mallow.memorisation(x, np.r_[a[:140], b[:10]], b, permutations=9)
    if kind == "matched score":
        return mallow.score(x, a, match=(x[:, 0], a[:, 0]), repeats=1)
    if kind == "group scores":
        return mallow.score(x, a, by=(["<i>"] * 80 + ["b"] * 70,) * 2, repeats=1)
    if kind == "gap difference":
        return mallow.compare_gaps({"a <i>": (x, a), "b": (x, b)}, repeats=1)
    if kind == "robust comparison":
        systems = {"a": texts(80, 2), "b <i>": [text * 2 for text in texts(80, 3)]}
        return mallow.compare_embedders(texts(80, 1), systems, [letters, lambda own: letters(own) ** 2], repeats=1)
    if kind in ("passport", "passport check"):
        passport = mallow.make_passport(mallow.score(x, b, repeats=2), x, b)
        return passport if kind == "passport" else mallow.verify_passport(passport)
    if kind == "study":
        prompts = [f"This is the beginning of story number {i}, in which" for i in range(20)]
        samples = [mallow.Samples(texts=texts(20, seed), prompts=prompts) for seed in (1, 2, 3)]
        design = human.StudyDesign(human.AllPairs(5), human.TextWindow(3, 9))
        return human.design_study(samples[0], {"a": samples[1], "b <i>": samples[2]}, design)
    if kind == "likelihoods":
        own, other = (NGram.fit(texts(60, seed), order=2) for seed in (1, 2))
        return mallow.baselines.likelihoods(own, texts(20, 3), texts(20, 4), surrogate=other)
    if kind == "vote plan":
        return human.plan_votes({"a": 60.0, "b <i>": 0.0})
    if kind in ("ranking", "rankings", "annotators", "judged ranking", "correlations"):
        return from_votes(kind)
    model = NGram.fit(texts(100, 1), order=2)
    decoders = ["nucleus:0.5,0.9"]
    plan = GenerationPlan(max_new=4)
    return mallow.sweep(texts(100, 2), model, decoders, folder, plan, tokens=2, embedder=letters, repeats=1)


KINDS = [
    "score",
    "comparison",
    "track",
    "check",
    "plan",
    "diagnosis",
    "audit",
    "baselines",
    "memorisation",
    "matched score",
    "group scores",
    "gap difference",
    "robust comparison",
    "passport",
    "passport check",
    "likelihoods",
    "study",
    "vote plan",
    "sweep",
    "ranking",
    "rankings",
    "annotators",
    "judged ranking",
    "correlations",
]


@pytest.fixture(scope="module", params=KINDS)
def result(request, tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mallow.EstimateWarning)
        return make(request.param, tmp_path_factory.mktemp("sweep"))


def test_json_loses_nothing(result):
    text = result.to_json()
    again = type(result).from_json(text)
    assert again.to_json() == text
    assert type(again) is type(result)
    assert str(again) == str(result)
    assert json.loads(text)["kind"] == f"mallow {result.KIND}"
    assert {field.name for field in fields(result)} <= set(json.loads(text))


def test_every_field_that_scripts_read_is_there(result):
    """The columns of frames, and the keys of summaries and of files, as recorded: programs depend on their names."""
    assert recorded_fields.field_names(result) == recorded_fields.recorded()[result.KIND]


def test_other_data_are_refused(result):
    name = type(result).__name__
    with pytest.raises(InputError, match=f"`data` must be what {name}.to_dict wrote, but its kind is 'mallow pie'"):
        type(result).from_dict({"kind": "mallow pie"})
    with pytest.raises(
        InputError, match=f"`data` must be what {name}.to_dict wrote, but it is damaged, or was written by"
    ):
        type(result).from_dict({"kind": f"mallow {result.KIND}"})
    with pytest.raises(InputError, match=f"`text` must be JSON, as {name}.to_json wrote it"):
        type(result).from_json("{")


@settings(max_examples=40)
@given(data=st.data())
def test_one_changed_value_is_refused_or_harmless(result, data):
    """A damaged file of any result: one line, or a result that can be shown in every form."""
    damaged = damage(json.loads(result.to_json()), data.draw)
    message, read = "", None
    try:
        read = type(result).from_dict(damaged)
    except InputError as error:
        message = str(error)
    assert message.isprintable()
    if read is None:
        return
    with np.errstate(all="ignore"):
        forms = str(read), repr(read), *(read.table(form) for form in FORMS), read._repr_html_(), read.to_json()
        read.to_frame(), read.caveat_lines(), json.dumps(read.brief())
    assert all(forms)


def test_aliases_of_types_are_seen_through():
    """NumPy 2.5 made NDArray an alias by the `type` statement, and no result with an array could be read again."""
    alias = types.GenericAlias(types.SimpleNamespace(__value__=np.ndarray[tuple[int, ...], np.dtype[Any]]), np.float64)
    array = np.arange(3.0)
    assert from_plain(alias, to_plain(array)).tolist() == array.tolist()
    with pytest.raises(InputError, match="the field 'x' must be an object with named fields; got 5"):
        from_plain(alias, 5, "x")


def test_a_system_that_lost_its_rank_is_told():
    """It could be printed, and not made into a data frame."""
    data = from_votes("rankings").to_dict()
    del data["rankings"]["q1"]["ranks"]["c"]
    with pytest.raises(InputError, match=r"its parts do not fit together: there is no 'c'\."):
        human.Rankings.from_dict(data)


def test_no_caveat_reaches_a_terminal_raw(result):
    """Whatever a caveat holds, such as the name of a system or of a file."""
    hostile = "\x1b]0;owned\x07\x9b31m\x7f\u202e\udc9b\rback"
    caveats = (
        (Caveat("x", f"seen in {hostile}.", hostile),) if "caveats" in {field.name for field in fields(result)} else ()
    )
    shown = replace(result, caveats=caveats) if caveats else result
    texts = [str(shown), repr(shown), shown.to_json(), shown._repr_html_(), *shown.caveat_lines()]
    for text in (*texts, *(shown.table(form) for form in FORMS)):
        assert set(text).isdisjoint("\x1b\x07\x9b\x7f\u202e\udc9b\r")


@pytest.mark.parametrize("form", FORMS)
def test_tables_have_the_same_rows_in_every_form(result, form):
    table = result._table()
    text = result.table(form)
    assert len(table.rows) > 0
    assert {len(row) for row in table.rows} == {len(table.head)}
    begin = {
        "text": "",
        "markdown": "| ",
        "latex": r"\begin{tabular}",
        "siunitx": r"\begin{tabular}",
        "html": "<table>",
    }[form]
    assert text.startswith(begin)
    lines = text.count("<tr>") - 1 if form == "html" else None
    assert lines in (None, len(table.rows))


def test_an_unknown_form_is_refused(result):
    with pytest.raises(InputError, match="`form` must be one of text, markdown, latex, siunitx, html; got 'pdf'"):
        result.table("pdf")


def test_a_frame_has_the_numbers_unrounded(result):
    pandas = pytest.importorskip("pandas")
    frame = result.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == len(result._records()) > 0


def test_people_read_a_few_lines(result):
    text = str(result)
    assert text.strip() == text
    assert max(map(len, text.splitlines()[:1])) < 250
    assert "\n" not in repr(result)
    assert repr(result).startswith(f"{type(result).__name__}(")


def test_notebooks_show_a_table_and_escape_names(result):
    page = result._repr_html_()
    assert page.count("<table>") == len([table for table in result._tables("html") if table]) >= 1
    assert "<i>" not in page


def test_results_draw_themselves(result):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = result.plot()
    assert ax.get_xlabel() or ax.get_title()
    again = result.plot(ax=ax)
    assert again is ax
    matplotlib.pyplot.close(ax.figure)


def test_caveats_are_values(result):
    if result.KIND != "audit":
        assert all(isinstance(caveat, Caveat) for caveat in result.caveats)


def test_a_score_formats_as_a_number():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        score = make("score", None)
    assert f"{score:.3f}" == f"{score.mauve:.3f}"
    assert f"{score}" == str(score)


def test_the_comparison_of_a_frame_names_systems_and_ranks():
    pytest.importorskip("pandas")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        comparison = make("comparison", None)
    frame = comparison.to_frame()
    assert list(frame["system"]) == list(comparison.scores)
    assert list(frame["mauve"]) == [score.mauve for score in comparison.scores.values()]
    assert list(frame["best_rank"]) == [best for best, _ in comparison.ranks.values()]
    for column, field in (("certified", "value"), ("certified_high", "high"), ("certified_low", "low")):
        assert list(frame[column]) == [getattr(score.certified["mauve"], field) for score in comparison.scores.values()]
    assert list(frame["p_value"]) == [score.p_value for score in comparison.scores.values()]


# --- the parts


def test_plain_data_keep_types():
    value = {"a": (1, 2.5), "b": np.arange(3), "c": None}
    assert to_plain(value) == {"a": [1, 2.5], "b": {"dtype": "<i8", "shape": [3], "values": [0, 1, 2]}, "c": None}
    back = from_plain(dict[str, tuple[float, float] | None], {"x": [1, 2], "y": None})
    assert back == {"x": (1, 2), "y": None}
    array = from_plain(np.ndarray, to_plain(np.array([1.0, np.inf, np.nan])))
    np.testing.assert_array_equal(array, [1.0, np.inf, np.nan])


def test_large_arrays_are_packed():
    array = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)
    plain = to_plain(array)
    assert "base64" in plain
    back = from_plain(np.ndarray, json.loads(json.dumps(plain)))
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, array)


def test_caveats_merge_over_systems():
    few = [Caveat("few samples", "only 300 samples.", name) for name in "abcd"]
    own = Caveat("length", "texts are longer.", "b")
    assert merge_caveats([*few, own], list("abcd")) == ["all four systems: only 300 samples.", "b: texts are longer."]
    assert merge_caveats([few[0], few[0], few[2]], list("abcd")) == ["a and c: only 300 samples."]
    # Digits of a name are no number, and a system is named once.
    shared = [Caveat("shared", f"{n} texts occur in `run-{k}`.", system="b") for k, n in ((0, 10), (1, 20), (2, 30))]
    assert merge_caveats(shared) == [f"b: {n} texts occur in `run-{k}`." for k, n in ((0, 10), (1, 20), (2, 30))]
    twice = [Caveat("few samples", f"only {n} samples.", system=name) for n, name in ((1, "a"), (2, "b"), (3, "b"))]
    assert merge_caveats(twice) == ["a and b: only 1 samples. (numbers of a)"]
    assert merge_caveats([replace(own, system=None)], list("abcd")) == ["texts are longer."]
    assert merge_caveats([few[0], few[1]], ["a", "b"]) == ["a and b: only 300 samples."]
    many = [Caveat("few samples", "few.", f"s{i}") for i in range(14)]
    assert merge_caveats(many, [f"s{i}" for i in range(14)]) == ["all 14 systems: few."]


def test_names_are_joined_as_a_phrase():
    assert [join_names(list(names)) for names in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]


def test_warnings_are_raised_once_and_at_the_caller():
    def door():
        warn_about([Caveat("x", "doubtful."), Caveat("x", "doubtful."), Caveat("x", "doubtful.", "a")])

    with pytest.warns(mallow.EstimateWarning) as caught:
        door()
    assert [str(one.message) for one in caught] == ["doubtful.", "a: doubtful."]
    body = door.__code__.co_firstlineno + 1
    assert {one.filename for one in caught} == {__file__}
    assert {one.lineno for one in caught} == {body + 3}  # the call of the door, not what is inside


def test_a_table_wider_than_the_terminal_becomes_paragraphs():
    table = TableData(["", "first", "second"], [["x", "1" * 30, "2" * 30], ["y", "3", "4"]])
    narrow = render("text", table, width=40)
    assert max(map(len, narrow.splitlines())) <= 40
    assert narrow.split("\n\n")[1].splitlines()[0] == "y"


def test_headings_of_several_lines_and_columns_of_words():
    table = TableData(
        ["", "two\nlines", "words"], [["x", "1", "one"], ["long", "2.50", "three"]], left=(0, 2), breaks=[1]
    )
    assert render("text", table).splitlines() == [
        "        two",
        "      lines  words",
        "x         1  one",
        "",
        "long   2.50  three",
    ]
    assert render("markdown", table).splitlines()[:2] == ["|  | two lines | words |", "| --- | ---: | --- |"]
    assert render("latex", table).splitlines()[:3] == [r"\begin{tabular}{lrl}", r"\toprule", r" & two lines & words \\"]
    assert "<th>two lines</th>" in render("html", table)
    assert render("text", table, width=10).splitlines()[1:3] == ["two lines    1", "words      one"]


@given(st.floats(0, 2), st.integers(2, 6))
def test_limits_are_rounded_to_the_safe_side(value, digits):
    above, below = float(at_most(value, digits)), float(at_least(value, digits))
    assert below <= value <= above
    assert above - below <= 1.01 * 10.0**-digits
    assert len(at_most(value, digits)) == digits + 2
    assert at_most(float(at_most(value, digits)), digits) == at_most(value, digits)  # what is round stays


def test_p_values_are_written_as_people_write_them():
    values = (1.0, 0.5, 0.0312, 0.00213, 2.34e-5, 1.1e-5, 1e-5, 1e-300)
    numbers = ["1", "0.5", "0.031", "0.0021", "2.3e-5", "1.1e-5", "< 1e-5", "< 1e-5"]
    assert [p_number(value) for value in values] == numbers
    assert [p_text(value) for value in (0.5, 1e-9)] == ["p = 0.5", "p < 1e-5"]
    near = [0.05, 0.0496, 0.04996, 0.0504]  # on its side of the level, as the verdict beside it
    assert [p_number(value) for value in near] == ["0.05", "0.0496", "0.04996", "0.05"]


def test_a_result_without_a_layout_shows_its_plain_fields():
    @dataclass(frozen=True)
    class Plain(Result):
        KIND: ClassVar[str] = "plain"
        name: str
        value: float
        parts: tuple[int, ...]

    plain = Plain("a", 0.5, (1, 2))
    assert plain.table("markdown").splitlines()[-1] == "| a | 0.5000 |"
    assert Plain.from_json(plain.to_json()) == plain
