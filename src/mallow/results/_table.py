"""Tables as text, Markdown and LaTeX: a head, rows of cells, and places where a group of rows begins."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

__all__ = ["FORMS", "as_latex", "as_markdown", "as_text", "rendered"]

Row = Sequence[str]

FORMS = ("text", "markdown", "latex")
"""What `rendered` can make."""

_LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: "\\" + letter for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "χ²": r"$\chi^2$",
    "²": r"$^2$",
    "±": r"$\pm$",
    "≤": r"$\le$",
    "–": "--",
}


def rendered(
    form: str,
    head: Row,
    rows: Sequence[Row],
    *,
    marked: Collection[tuple[int, int]] = (),
    breaks: Collection[int] = (),
    width: int | None = None,
) -> str:
    """A table in one of `FORMS`.

    Parameters
    ----------
    form : str
    head, rows :
        Plain text; every row as long as the head. The first column is set to the left, the others to the right.
    marked : collection of (row, column)
        Cells to be marked: by * in text, else in bold.
    breaks : collection of int
        Rows before which a group begins.
    width : int or None
        Of the terminal, for text: where the table is wider, each row becomes a paragraph.

    Examples
    --------
    >>> print(rendered("text", ["", "a", "b"], [["x", "1", "20"], ["y", "300", "4"]], marked=[(1, 1)]))
          a   b
    x    1   20
    y  300*   4
    >>> print(rendered("markdown", ["", "a|b"], [["x", "1"]], marked=[(0, 1)]))
    |  | a\\|b |
    | --- | ---: |
    | x | **1** |
    """
    make = {"text": as_text, "markdown": as_markdown, "latex": as_latex}[form]
    found = make(head, rows, marked=marked, breaks=breaks)
    if form != "text" or width is None or max(map(len, found.splitlines())) <= width:
        return found
    return "\n\n".join(as_text([row[0], ""], list(zip(head[1:], row[1:], strict=True))) for row in rows)


def as_text(
    head: Row, rows: Sequence[Row], *, marked: Collection[tuple[int, int]] = (), breaks: Collection[int] = ()
) -> str:
    """The table for a terminal; an empty line before each group."""
    starred = {column for _, column in marked}

    def shown(row: int, column: int, cell: str) -> str:
        if (row, column) in marked:
            return cell + "*"
        return cell + " " if column in starred else cell  # numbers stand in line, marked or not

    cells = [[shown(i, j, cell) for j, cell in enumerate(row)] for i, row in enumerate((head, *rows), start=-1)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(head))]
    lines = []
    for place, row in enumerate(cells, start=-1):
        lines += [""] if place in breaks else []
        rest = "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append(f"{row[0]:<{widths[0]}}{rest}".rstrip())
    return "\n".join(lines)


def as_markdown(
    head: Row, rows: Sequence[Row], *, marked: Collection[tuple[int, int]] = (), breaks: Collection[int] = ()
) -> str:
    """The table for a README; it knows no groups."""
    lines = [["---", *["---:"] * (len(head) - 1)]]
    for i, row in enumerate(rows):
        lines.append([f"**{_piped(cell)}**" if (i, j) in marked else _piped(cell) for j, cell in enumerate(row)])
    return "\n".join(f"| {' | '.join(line)} |" for line in ([_piped(cell) for cell in head], *lines))


def as_latex(
    head: Row, rows: Sequence[Row], *, marked: Collection[tuple[int, int]] = (), breaks: Collection[int] = ()
) -> str:
    """A tabular that needs the package booktabs."""
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\toprule"]
    lines += [rf"{' & '.join(map(_escaped, head))} \\", r"\midrule"]
    for i, row in enumerate(rows):
        lines += [r"\addlinespace"] if i in breaks and i else []
        cells = [rf"\textbf{{{_escaped(cell)}}}" if (i, j) in marked else _escaped(cell) for j, cell in enumerate(row)]
        lines.append(rf"{' & '.join(cells)} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _piped(cell: str) -> str:
    return cell.replace("|", r"\|").replace("\n", " ")


def _escaped(text: str) -> str:
    """Text that LaTeX prints as it is."""
    parts = re.split(f"({'|'.join(map(re.escape, _LATEX))})", text)
    return "".join(_LATEX.get(part, part) for part in parts)
