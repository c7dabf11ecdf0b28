"""Numbers with intervals, p-values as text, and tables as text, Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from mallow._visible import visible
from mallow.errors import InputError

_LEVEL = 0.05  # the usual level of significance
Row = Sequence[str]
_LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: "\\" + letter for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    "<": r"\textless{}",  # these three are different characters in LaTeX's oldest fonts
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",
    "*": "{*}",
    "-": "-{}",  # before a second hyphen, to get two hyphens instead of a dash
    "χ²": r"$\chi^2$",
    "²": r"$^2$",
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "…": r"\ldots{}",
    "–": "--",
}
# A bracket or star at the beginning of a row would belong to the command that ends the row before.
_LATEX_MARKS = re.compile(
    "|".join(["-(?=-)", "χ²", r"^[\[*]", *(re.escape(mark) for mark in _LATEX if mark not in ("-", "χ²", "[", "*"))])
)
# Every kind of Markdown understands HTML entities, but not backslashes before these characters.
_MARKDOWN = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# Only if they can have a meaning: the start of an entity or a tag, stars that can begin emphasis, underscores that are
# not inside a word. "p < 0.05" and "MAUVE*" do not change.
_MARKDOWN_MARKS = re.compile(
    r"[\\`{}\[\]|#~$>]|&(?=[#A-Za-z])|<(?=[A-Za-z/!?])|\*(?=\S)|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])"
)


@dataclass(frozen=True)
class Estimate:
    """A value and the interval around it. The documentation of the attribute explains the interval.

    Examples
    --------
    >>> print(Estimate(0.71, 0.62, 0.8))
    0.7100 (0.6200 to 0.8000)
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


def p_text(p_value: float) -> str:
    """A p-value in the usual notation.

    Examples
    --------
    >>> p_text(0.0312), p_text(0.00213), p_text(3e-9)
    ('p = 0.031', 'p = 0.0021', 'p < 1e-5')
    """
    number = p_number(p_value)
    return f"p {number}" if number.startswith("<") else f"p = {number}"


def p_number(p_value: float) -> str:
    """A p-value for a column of a table, with enough digits to stay on its side of 0.05.

    Examples
    --------
    >>> p_number(0.0312), p_number(2.34e-5), p_number(3e-9), p_number(0.0496)
    ('0.031', '2.3e-5', '< 1e-5', '0.0496')
    """
    if p_value <= 1e-5:  # the smallest p-value from permutations
        return "< 1e-5"
    for digits in (2, 3, 4):
        text = f"{p_value:.{digits}g}"
        if (float(text) < _LEVEL) == (p_value < _LEVEL):
            break
    return text.replace("e-0", "e-")


def group_letters(groups: Sequence[Sequence[str]], name: str) -> str:
    """The letters of the groups that a system belongs to; beyond z numbers.

    Examples
    --------
    >>> group_letters([("large", "medium"), ("medium", "small")], "medium")
    'ab'
    """
    letters = (chr(ord("a") + place) if place < 26 else f"({place + 1})" for place in range(len(groups)))
    return "".join(letter for letter, group in zip(letters, groups, strict=True) if name in group)


def at_most(value: float, digits: int = 4) -> str:
    """A number rounded up: if the value is at most this, "at most" stays true.

    Examples
    --------
    >>> at_most(0.0312), at_most(0.41201, digits=2)
    ('0.0312', '0.42')
    """
    return str(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING))


def at_least(value: float, digits: int = 4) -> str:
    """A number rounded down: if the value is at least this, "at least" stays true.

    Examples
    --------
    >>> at_least(0.0312), at_least(0.41999, digits=2)
    ('0.0312', '0.41')
    """
    return str(Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR))


@dataclass(frozen=True)
class TableData:
    """A table before it has a form.

    Attributes
    ----------
    head, rows : sequence of str, sequence of such
        Plain text; every row is as long as the head. A heading may have several lines, which only text keeps separate.
    marked : collection of (row, column)
        Cells to highlight: with * in text, in bold otherwise.
    breaks : collection of int
        Rows before which a group begins.
    left : collection of int
        Columns aligned to the left, such as words. The others are aligned to the right.
    """

    head: Row
    rows: Sequence[Row]
    marked: Collection[tuple[int, int]] = ()
    breaks: Collection[int] = ()
    left: Collection[int] = (0,)


def render(form: str, table: TableData, *, width: int | None = None) -> str:
    """A table in one of `FORMS`. A text table wider than `width` becomes one paragraph per row.

    Examples
    --------
    >>> print(render("text", TableData(["", "a", "b"], [["x", "1", "20"], ["y", "300", "4"]], marked=[(1, 1)])))
          a   b
    x    1   20
    y  300*   4
    >>> print(render("markdown", TableData(["", "a|b"], [["x", "1"]], marked=[(0, 1)])))
    |  | a\\|b |
    | --- | ---: |
    | x | **1** |
    """
    if form not in FORMS:
        raise InputError(f"`form` must be one of {', '.join(FORMS)}; got {form!r}.")
    # No name in a cell can move the cursor, or begin a new row.
    rows = [[visible(cell, lines=False) for cell in row] for row in table.rows]
    table = replace(table, head=list(map(visible, table.head)), rows=rows)
    text = FORMS[form](table)
    if form != "text" or width is None or max(map(len, text.splitlines())) <= width:
        return text
    head = _one_line(table.head)
    pairs = ([*zip(head[1:], row[1:], strict=True)] for row in table.rows)
    return "\n\n".join(_text(TableData([row[0], ""], pair)) for row, pair in zip(table.rows, pairs, strict=True))


def _text(table: TableData) -> str:
    """For a terminal. An empty line before each group."""
    starred = {column for _, column in table.marked}

    def cell_text(row: int, column: int, cell: str) -> str:
        if (row, column) in table.marked:
            return cell + "*"
        return cell + " " if column in starred else cell  # numbers stay aligned, marked or not

    titles = [title.split("\n") for title in table.head]
    height = max(map(len, titles))
    head = list(zip(*([""] * (height - len(title)) + title for title in titles), strict=True))
    every = enumerate((*head, *table.rows), start=-height)
    cells = [[cell_text(i, j, cell) for j, cell in enumerate(row)] for i, row in every]
    widths = [max(len(row[index]) for row in cells) for index in range(len(table.head))]
    aligns = ["<" if index in table.left else ">" for index in range(len(table.head))]
    lines = []
    for index, row in enumerate(cells, start=-height):
        lines += [""] if index in table.breaks else []
        shown = (f"{cell:{align}{width}}" for cell, align, width in zip(row, aligns, widths, strict=True))
        lines.append("  ".join(shown).rstrip())
    return "\n".join(lines)


def _markdown(table: TableData) -> str:
    """For a README; Markdown has no groups of rows."""
    aligns = ["---" if column in table.left else "---:" for column in range(len(table.head))]
    lines = [[escape_markdown(cell) for cell in table.head], aligns]
    for i, row in enumerate(table.rows):
        lines.append(
            [
                _bold(escape_markdown(cell)) if (i, j) in table.marked else escape_markdown(cell)
                for j, cell in enumerate(row)
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _bold(markdown: str) -> str:
    return f"**{markdown[:-1]}\\***" if markdown.endswith("*") else f"**{markdown}**"


def _latex(table: TableData) -> str:
    """A tabular that needs the package booktabs."""
    aligns = "".join("l" if column in table.left else "r" for column in range(len(table.head)))
    lines = [rf"\begin{{tabular}}{{{aligns}}}", r"\toprule"]
    lines += [rf"{' & '.join(map(_escaped, _one_line(table.head)))} \\", r"\midrule"]
    for i, row in enumerate(table.rows):
        lines += [r"\addlinespace"] if i in table.breaks and i else []
        cells = [rf"\textbf{{{_escaped(c)}}}" if (i, j) in table.marked else _escaped(c) for j, c in enumerate(row)]
        lines.append(rf"{' & '.join(cells)} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _html(table: TableData) -> str:
    """For a notebook."""

    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"

    rows = []
    for i, row in enumerate(table.rows):
        cells = [html.escape(cell) for cell in row]
        rows.append(line([f"<b>{cell}</b>" if (i, j) in table.marked else cell for j, cell in enumerate(cells)], "td"))
    head = line([html.escape(cell) for cell in _one_line(table.head)], "th")
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


FORMS = {"text": _text, "markdown": _markdown, "latex": _latex, "html": _html}
"""The forms of a table, by name."""


def _one_line(head: Row) -> list[str]:
    return [title.replace("\n", " ") for title in head]


def escape_markdown(text: str) -> str:
    r"""Text without markup for Markdown and HTML, for a cell of a table or a separate line.

    Examples
    --------
    >>> print(escape_markdown(r"a\|b <i> top_p *"))
    a\\\|b &lt;i&gt; top_p *
    """
    return _MARKDOWN_MARKS.sub(lambda mark: _MARKDOWN.get(mark[0], f"\\{mark[0]}"), " ".join(text.split("\n")))


def _escaped(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return _LATEX_MARKS.sub(lambda mark: _LATEX[mark[0]], text)
