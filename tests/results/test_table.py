"""Text tables: exactly these characters. Examples in docstrings do not show it, since they ignore white space."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mallow import InputError
from mallow.results import TableData, p_number, render

TABLE = TableData(
    ["", "a\nvery long", "b"],
    [["x", "1", "20"], ["a longer name", "300", "4"], ["y", "-2", "word"]],
    marked=[(1, 1)],
    breaks=[2],
    left=(0, 2),
)


def test_columns_are_as_wide_as_their_widest_cell_and_aligned():
    assert render("text", TABLE).split("\n") == [
        "                       a",
        "               very long   b",
        "x                      1   20",
        "a longer name        300*  4",
        "",
        "y                     -2   word",
    ]


def test_a_table_that_is_too_wide_becomes_paragraphs():
    assert render("text", TABLE, width=31) == render("text", TABLE)
    assert render("text", TABLE, width=30).split("\n")[:4] == [
        "x",
        "a very long   1",
        "b            20",
        "",
    ]


def test_groups_in_latex_and_heads_of_several_lines():
    lines = render("latex", TABLE).split("\n")
    assert lines[0] == r"\begin{tabular}{lrl}"
    assert lines[2] == r" & a very long & b \\"
    assert lines[5:7] == [r"a longer name & \textbf{300} & 4 \\", r"\addlinespace"]
    assert "<th>a very long</th>" in render("html", TABLE)
    assert "<td><b>300</b></td>" in render("html", TABLE)


def test_every_form_by_its_characters():
    table = TableData(["", "p\nq"], [["a", "1"], ["b", "2"], ["c", "3"]], marked=[(0, 1), (2, 0)], breaks=[0, 1])
    assert render("text", table).split("\n") == ["    p", "    q", "", "a   1*", "", "b   2", "c*  3"]
    assert render("markdown", table).split("\n") == [
        "|  | p q |",
        "| --- | ---: |",
        "| a | **1** |",
        "| b | 2 |",
        "| **c** | 3 |",
    ]
    assert render("latex", table).split("\n")[2:-2] == [
        r" & p q \\",
        r"\midrule",
        r"a & \textbf{1} \\",
        r"\addlinespace",
        r"b & 2 \\",
        r"\textbf{c} & 3 \\",
    ]
    assert render("html", table) == (
        "<table><thead><tr><th></th><th>p q</th></tr></thead><tbody><tr><td>a</td><td><b>1</b></td></tr>"
        "<tr><td>b</td><td>2</td></tr><tr><td><b>c</b></td><td>3</td></tr></tbody></table>"
    )
    for form in ("markdown", "latex", "html"):
        assert render(form, table, width=3) == render(form, table)  # only text is broken into paragraphs
    assert render("text", table, width=5).split("\n") == ["a", "p q  1", "", "b", "p q  2", "", "c", "p q  3"]


def test_other_forms_are_refused():
    with pytest.raises(InputError, match=r"`form` must be one of text, markdown, latex, siunitx, html; got 'pdf'\."):
        render("pdf", TABLE)


@given(st.floats(1.1e-5, 1.0) | st.floats(0.049, 0.051))
@example(0.04963)
@example(0.049963)
@example(0.05)
def test_a_p_value_has_as_few_digits_as_keep_it_on_its_side_of_five_per_cent(p_value):
    rounded = [f"{p_value:.{digits}g}" for digits in (2, 3, 4)]
    enough = [text for text in rounded if (float(text) < 0.05) == (p_value < 0.05)]
    assert p_number(p_value) == (enough[0] if enough else rounded[-1]).replace("e-0", "e-")
