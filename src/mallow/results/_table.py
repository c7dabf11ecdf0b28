"""Numbers as people read them, and tables of them as text, Markdown, LaTeX and HTML.

P-values have enough digits, and bounds stay true when they are rounded. A cell of a table keeps its numbers, because
LaTeX and Markdown write them otherwise than a terminal, in other digits.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from mallow._checks import whole
from mallow.errors import InputError, visible

_LEVEL = 0.05  # the usual level of significance
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_POWER = re.compile(r"(< )?(?:1e|([\d.]+)e)(-\d+)")


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


class Cell(str):
    """The text of a cell as a terminal shows it, with the numbers in it."""

    numbers: tuple[float, ...]  # one number, or the two ends of an interval
    digits: int | None  # how many are shown after the point; None for a p-value, which has two that count
    write: Callable[[float, int], str]  # writes a number with this many digits
    words: str  # before the number, such as "at most "

    @classmethod
    def of(
        cls, numbers: Sequence[float], digits: int | None, write: Callable[[float, int], str], words: str = ""
    ) -> Cell:
        """The cell of a number or an interval."""
        cell = cls(words + " to ".join(write(number, digits or 0) for number in numbers))
        cell.numbers, cell.digits, cell.write, cell.words = tuple(numbers), digits, write, words
        return cell

    @property
    def is_number(self) -> bool:
        """Whether it is one number with digits after the point, rather than an interval or a p-value."""
        return len(self.numbers) == 1 and self.digits is not None and not self.words

    def shown(self, form: str, digits: int | None) -> str:
        """The cell in a form of a table; a p-value is in LaTeX a power of ten."""
        if self.digits is None:
            return _POWER.sub(_POWERS.get(form, lambda match: match[0]), str(self))
        texts = [self.write(number, self.digits if digits is None else digits) for number in self.numbers]
        if form == "siunitx" and not self.is_number:
            texts = [rf"\num{{{text}}}" for text in texts]
        if form == "latex":
            texts = [f"${text}$" if text[0] in "+-" else text for text in texts]
        text = " to ".join(texts) if form == "text" or len(texts) == 1 else f"[{', '.join(texts)}]"
        return self.words + text


def _latex_power(match: re.Match[str]) -> str:
    sign, factor = "<" if match[1] else "", rf"{match[2]}\times" if match[2] else ""
    return f"${sign}{factor}10^{{{match[3]}}}$"


def _siunitx_power(match: re.Match[str]) -> str:
    return f"{'$<$' if match[1] else ''}" + rf"\num{{{match[2] or ''}e{match[3]}}}"


def _plain_power(match: re.Match[str]) -> str:
    factor = f"{match[2]}·" if match[2] else ""
    return f"{match[1] or ''}{factor}10{match[3].translate(_SUPERSCRIPTS)}"


_POWERS = {"latex": _latex_power, "siunitx": _siunitx_power, "markdown": _plain_power, "html": _plain_power}
_WRITERS = {
    "nearest": lambda value, digits: f"{value:.{digits}f}",
    "signed": lambda value, digits: f"{value:+.{digits}f}",
    "up": at_most,
    "down": at_least,
}


def number_cell(value: float, digits: int = 4, *, rounded: str = "nearest", words: str = "") -> Cell:
    """The cell of a number after `words`, `rounded` "nearest", "up", "down", or "signed" (nearest, with + or -).

    Examples
    --------
    >>> number_cell(0.98761, rounded="up"), number_cell(0.98761, rounded="up").shown("latex", 2)
    ('0.9877', '0.99')
    """
    return Cell.of([value], digits, _WRITERS[rounded], words)


def interval_cell(low: float, high: float, digits: int = 4, *, rounded: str = "nearest") -> Cell:
    """The cell of an interval.

    Examples
    --------
    >>> interval_cell(0.98, 0.99, 3), interval_cell(0.98, 0.99, 3).shown("latex", None)
    ('0.980 to 0.990', '[0.980, 0.990]')
    """
    return Cell.of([low, high], digits, _WRITERS[rounded])


def p_cell(p_value: float) -> Cell:
    r"""The cell of a p-value.

    Examples
    --------
    >>> p_cell(1e-9), p_cell(1e-9).shown("latex", None), p_cell(2.3e-5).shown("latex", None)
    ('< 1e-5', '$<10^{-5}$', '$2.3\\times10^{-5}$')
    """
    return Cell.of([p_value], None, lambda value, _: p_number(value))


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
    """A table before it has a form: plain text, with every row as long as the head."""

    head: Row  # a heading may have several lines, which only text keeps separate
    rows: Sequence[Row]
    marked: Collection[tuple[int, int]] = ()  # cells (row, column) with * in text, and in bold otherwise
    breaks: Collection[int] = ()  # rows before which a group begins
    left: Collection[int] = (0,)  # columns aligned to the left, such as words; the others are aligned to the right
    bold: Collection[tuple[int, int]] = ()  # cells (row, column) in bold where there is bold, and unmarked in text


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
