"""Text tables: exactly these characters. Examples in docstrings do not show it, since they ignore white space."""

from mallow.results import TableData, render

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
