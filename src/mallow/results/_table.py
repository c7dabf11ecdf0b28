"""Tables as text, Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mallow._checks import whole
from mallow._visible import visible
from mallow.errors import InputError
from mallow.results._numbers import Cell

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


def group_letters(groups: Sequence[Sequence[str]], name: str) -> str:
    """The letters of the groups that a system belongs to; beyond z numbers.

    Examples
    --------
    >>> group_letters([("large", "medium"), ("medium", "small")], "medium")
    'ab'
    """
    letters = (chr(ord("a") + place) if place < 26 else f"({place + 1})" for place in range(len(groups)))
    return "".join(letter for letter, group in zip(letters, groups, strict=True) if name in group)


@dataclass(frozen=True)
class TableData:
    """A table before it has a form.

    Attributes
    ----------
    head, rows : sequence of str, sequence of such
        Plain text; every row is as long as the head. A heading may have several lines, which only text keeps separate.
    marked : collection of (row, column)
        Cells to highlight: with * in text, in bold otherwise.
    bold : collection of (row, column)
        Cells to highlight in bold where there is bold, and not at all in text.
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
    bold: Collection[tuple[int, int]] = ()


class _Ready(str):
    """A cell that needs no escaping."""


def render(form: str, table: TableData, *, width: int | None = None, digits: int | None = None) -> str:
    """A table in one of `FORMS`. A text table wider than `width` becomes one paragraph per row.

    Cells that keep their numbers (`Cell`) get so many `digits` after the point; None leaves each its own.

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
    if digits is not None:
        whole("digits", digits, least=0)

    # No name in a cell can move the cursor, or begin a new row.
    def shown(cell: str) -> str:
        return _Ready(cell.shown(form, digits)) if isinstance(cell, Cell) else visible(cell, lines=False)

    aligned = _decimal_columns(table, digits) if form == "siunitx" else {}
    rows = [list(map(shown, row)) for row in table.rows]
    marked = [*table.marked, *(table.bold if form != "text" else ())]
    table = replace(table, head=list(map(visible, table.head)), rows=rows, marked=marked)
    text = _latex(table, aligned) if form == "siunitx" else FORMS[form](table)
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
        cells = [cell if isinstance(cell, _Ready) else escape_markdown(cell) for cell in row]
        lines.append([_bold(cell) if (i, j) in table.marked else cell for j, cell in enumerate(cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _bold(markdown: str) -> str:
    return f"**{markdown[:-1]}\\***" if markdown.endswith("*") else f"**{markdown}**"


def _decimal_columns(table: TableData, digits: int | None) -> dict[int, str]:
    """The columns of numbers, and maybe empty cells, with their format for siunitx: sign, and digits on both sides."""
    formats = {}
    for column in range(len(table.head)):
        cells = [row[column] for row in table.rows if row[column]]
        if cells and all(isinstance(cell, Cell) and cell.is_number for cell in cells):
            texts = [cell.shown("siunitx", digits) for cell in cells if isinstance(cell, Cell)]
            sign = "+" if any(text[0] in "+-" for text in texts) else ""
            before, after = zip(*(text.lstrip("+-").partition(".")[::2] for text in texts), strict=True)
            formats[column] = f"S[table-format={sign}{max(map(len, before))}.{max(map(len, after))}]"
    return formats


def _latex(table: TableData, decimal: Mapping[int, str] | None = None) -> str:
    r"""A tabular that needs the package booktabs and, with `decimal` columns, siunitx.

    Bold numbers of siunitx stay aligned with ``\sisetup{detect-weight}``.
    """
    numeric = decimal or {}
    aligns = "".join(numeric.get(j, "l" if j in table.left else "r") for j in range(len(table.head)))
    titles = [_escaped(title) for title in _one_line(table.head)]
    titles = [f"{{{title}}}" if j in numeric else title for j, title in enumerate(titles)]
    lines = [rf"\begin{{tabular}}{{{aligns}}}", r"\toprule", rf"{' & '.join(titles)} \\", r"\midrule"]
    for i, row in enumerate(table.rows):
        lines += [r"\addlinespace"] if i in table.breaks and i else []
        cells = [cell if isinstance(cell, _Ready) else _escaped(cell) for cell in row]
        bold = [rf"\bfseries {cell}" if j in numeric else rf"\textbf{{{cell}}}" for j, cell in enumerate(cells)]
        lines.append(rf"{' & '.join(bold[j] if (i, j) in table.marked else cells[j] for j in range(len(cells)))} \\")
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


FORMS = {"text": _text, "markdown": _markdown, "latex": _latex, "siunitx": _latex, "html": _html}
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
