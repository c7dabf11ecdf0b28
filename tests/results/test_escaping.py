"""Names with control characters and markup: what a terminal, Markdown, LaTeX and HTML get to see of them."""

import html
import json
import re
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mallow
from mallow.errors import Caveat, InputError, one_line, visible
from mallow.results import FORMS, Result, TableData, escape_markdown, merge_caveats, render

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202eevil\u2066\udc9b\rback\x08"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
ANY = st.text(st.characters(codec=None), max_size=30) | st.text(st.sampled_from("\x1b[0m\n\r\t\x9b|\\*_~<>&`$#-{}[]ab"))


@given(text=ANY)
def test_visible_text_has_no_controls_and_keeps_the_rest(text):
    assert not RAW.search(visible(text))
    assert not re.search("[\t\n]", visible(text, lines=False))
    assert not re.search("[\t\n]", one_line(text))
    assert visible(visible(text)) == visible(text)
    if text.isprintable():
        assert visible(text) == text


@given(text=ANY)
def test_messages_are_one_safe_line(text):
    for line in (
        str(InputError(f"{text}: no such file.")),
        str(Caveat("x", text, text)),
        *merge_caveats([Caveat("x", text)]),
    ):
        assert not RAW.search(line)
        assert "\n" not in line
    assert InputError("a\nb").args == ("a\nb",)  # nothing is lost


def test_a_message_keeps_its_words():
    assert str(InputError("a.txt: bad\n   thing \x1b[1m.")) == "a.txt: bad thing \\x1b[1m."


@pytest.mark.parametrize("form", FORMS)
@given(name=ANY)
def test_no_name_breaks_a_table(form, name):
    table = TableData(["system", "score"], [[name, "1"], ["b", "2"]], marked=[(0, 0)])
    text = render(form, table)
    assert not RAW.search(text)
    lines = {"text": 3, "markdown": 4, "latex": 8, "siunitx": 8, "html": 1}[form]
    assert len(text.split("\n")) == lines


@given(name=ANY)
def test_a_markdown_cell_is_one_cell(name):
    """By the rule of GitHub's tables: a bar ends a cell unless a backslash that is not itself escaped stands before it."""
    row = render("markdown", TableData(["a", "b"], [[name, "1"]])).split("\n")[2]
    unescaped = re.sub(r"\\.", " ", row)
    assert unescaped.count("|") == 3
    assert not re.search(r"<[A-Za-z/!?]|&[#A-Za-z](?!mp;|t;)|[`~$\[\]{}]", unescaped)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        (r"a\|b", r"a\\\|b"),
        ("p < 0.05", "p < 0.05"),
        ("MAUVE*", "MAUVE*"),
        ("*a*", r"\*a*"),
        ("top_p _x_", r"top_p \_x\_"),
        ("<img src=x>", "&lt;img src=x&gt;"),
        ("&lt; A & B", "&amp;lt; A & B"),
        ("~~gone~~ [a](b) `c` #1 $x$", r"\~\~gone\~\~ \[a\](b) \`c\` \#1 \$x\$"),
        ("two\nlines", "two lines"),
    ],
)
def test_markdown_is_escaped_where_it_means_something(text, markdown):
    assert escape_markdown(text) == markdown


def test_a_marked_cell_that_ends_in_a_star_stays_bold():
    assert r"| **a\*** |" in render("markdown", TableData(["x"], [["a*"]], marked=[(0, 0)]))


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("~", r"\textasciitilde{}"),
        ("^", r"\textasciicircum{}"),
        ("\\", r"\textbackslash{}"),
        ("50% & $5 #1 a_b {c}", r"50\% \& \$5 \#1 a\_b \{c\}"),
        ("a|b <c> `d`", r"a\textbar{}b \textless{}c\textgreater{} \textasciigrave{}d\textasciigrave{}"),
        ("[1em] [x]", "{[}1em] [x]"),  # \\ [1em] would be a distance
        ("* a*", "{*} a*"),
        ("a---b", "a-{}-{}-b"),
        ("χ² ≤ −1 ± 2² – …", r"$\chi^2$ $\le$ $-$1 $\pm$ 2$^2$ -- \ldots{}"),
        ("\x1b[0m", r"\textbackslash{}x1b[0m"),
        ("a\nb", r"a\textbackslash{}nb"),
    ],
)
def test_latex_prints_every_character(text, latex):
    assert rf"{latex} & 1 \\" in render("latex", TableData(["", ""], [[text, "1"]])).split("\n")


@given(name=ANY)
def test_html_is_escaped(name):
    text = render("html", TableData(["a"], [[name]]))
    assert f"<td>{html.escape(visible(name, lines=False))}</td>" in text


@dataclass(frozen=True)
class Named(Result):
    """A result like any other, which knows nothing of escapes."""

    KIND: ClassVar[str] = "named"
    name: str
    caveats: tuple[Caveat, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} is closest\nand wins"


def test_every_result_is_safe_without_doing_anything():
    result = Named(HOSTILE, (Caveat("x", HOSTILE, HOSTILE),))
    forms = [str(result), f"{result}", repr(result), result.to_json(), result._repr_html_(), *result.caveat_lines()]
    forms += [result.table(form) for form in FORMS]
    for text in forms:
        assert not RAW.search(text)
    assert str(result).endswith(" is closest\nand wins")
    assert Named.from_json(result.to_json()).name == HOSTILE
    assert json.loads(result.to_json())["name"] == HOSTILE


def test_a_comparison_with_a_hostile_name_prints_safely():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings(record=True) as held:
        warnings.simplefilter("always")
        systems = {HOSTILE: rng.normal(size=(120, 3)), "b": rng.normal(size=(120, 3))}
        made = mallow.compare(rng.normal(size=(120, 3)), systems, repeats=1)
    for text in (str(made), made.table("text"), *(str(one.message) for one in held), str(made.signature)):
        assert not RAW.search(text)
    assert HOSTILE in made.scores
