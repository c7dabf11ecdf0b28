"""Cells that keep their numbers: intervals and p-values in every form, and digits that keep bounds true."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow import InputError
from mallow.results import TableData, interval_cell, number_cell, p_cell, render

TABLE = TableData(
    ["system", "value", "bound", "interval", "p"],
    [
        ["near", number_cell(0.98449), number_cell(0.99111, rounded="up"), interval_cell(0.98, 0.999, 3), p_cell(1e-9)],
        ["far", number_cell(0.5), number_cell(0.61, rounded="up"), interval_cell(-0.25, 0.5, 2), p_cell(0.0312)],
        ["mid", number_cell(0.7), number_cell(0.8, rounded="up"), interval_cell(0.6, 0.7, 2), p_cell(2.34e-5)],
    ],
    bold=[(0, 1)],
)


def row(form, number, **options):
    begin = {"text": 1, "markdown": 2, "latex": 4, "siunitx": 4}[form]
    return render(form, TABLE, **options).split("\n")[begin + number].strip()


def test_latex_as_papers_have_it():
    assert row("latex", 0) == r"near & \textbf{0.9845} & 0.9912 & [0.980, 0.999] & $<10^{-5}$ \\"
    assert row("latex", 1) == r"far & 0.5000 & 0.6100 & [$-0.25$, 0.50] & 0.031 \\"
    assert row("latex", 2) == r"mid & 0.7000 & 0.8000 & [0.60, 0.70] & $2.3\times10^{-5}$ \\"


def test_siunitx_aligns_columns_of_numbers():
    lines = render("siunitx", TABLE).split("\n")
    assert lines[0] == r"\begin{tabular}{lS[table-format=1.4]S[table-format=1.4]rr}"
    assert lines[2] == r"system & {value} & {bound} & interval & p \\"
    assert row("siunitx", 0) == r"near & \bfseries 0.9845 & 0.9912 & [\num{0.980}, \num{0.999}] & $<$\num{e-5} \\"


@pytest.mark.parametrize(
    ("values", "rounded", "form"),
    [
        ([0.5, 12.25], "nearest", "2.4"),
        ([0.5, -12.25], "nearest", "+2.4"),  # room for a sign if any number has one
        ([-0.5, -12.25], "nearest", "+2.4"),
        ([0.5, 12.25], "signed", "+2.4"),
    ],
)
def test_siunitx_leaves_room_for_the_longest_number_and_for_a_sign(values, rounded, form):
    table = TableData(["", "x"], [["a", number_cell(value, rounded=rounded)] for value in values])
    assert render("siunitx", table).split("\n")[0] == rf"\begin{{tabular}}{{lS[table-format={form}]}}"
    assert rf"S[table-format={form[:-1]}1]" in render("siunitx", table, digits=1)
    mixed = TableData(["", "x"], [*table.rows, ["b", ""], ["c", "word"]])
    assert render("siunitx", mixed).split("\n")[0] == r"\begin{tabular}{lr}"
    empty = TableData(["", "x"], [*table.rows, ["b", ""]])
    assert render("siunitx", empty).split("\n")[0] == rf"\begin{{tabular}}{{lS[table-format={form}]}}"


def test_markdown_alike():
    assert row("markdown", 0) == "| near | **0.9845** | 0.9912 | [0.980, 0.999] | < 10⁻⁵ |"
    assert row("markdown", 2).endswith("| 2.3·10⁻⁵ |")
    assert "<td><b>0.9845</b></td>" in render("html", TABLE)
    assert "<td>&lt; 10⁻⁵</td>" in render("html", TABLE)


def test_text_stays_as_it_was():
    assert row("text", 0).split() == ["near", "0.9845", "0.9912", "0.980", "to", "0.999", "<", "1e-5"]


def test_digits_are_those_of_the_number_rather_than_of_its_text():
    assert row("latex", 0, digits=3) == r"near & \textbf{0.984} & 0.992 & [0.980, 0.999] & $<10^{-5}$ \\"
    assert row("text", 0, digits=1).split()[1:5] == ["1.0", "1.0", "1.0", "to"]
    with pytest.raises(InputError, match="`digits` must be an integer of at least 0; got -1"):
        render("latex", TABLE, digits=-1)


@given(value=st.floats(0.0, 1.0), digits=st.integers(0, 8))
def test_bounds_stay_true_in_any_number_of_digits(value, digits):
    assert float(number_cell(value, rounded="up").shown("latex", digits)) >= value
    assert float(number_cell(value, rounded="down").shown("latex", digits)) <= value


def test_words_before_a_number():
    cell = number_cell(0.12341, rounded="up", words="at most ")
    assert (cell, cell.shown("siunitx", 2)) == ("at most 0.1235", r"at most \num{0.13}")
