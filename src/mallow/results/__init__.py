"""What every result offers: text, tables, JSON and back, data frames, pictures."""

from mallow.results import _draw as draw
from mallow.results._estimate import Estimate, at_least, at_most, p_number, p_text
from mallow.results._json import from_plain, to_plain
from mallow.results._result import Result, join_names, merge_caveats
from mallow.results._table import FORMS, TableData, escape_markdown, render

__all__ = [
    "FORMS",
    "Estimate",
    "Result",
    "TableData",
    "at_least",
    "at_most",
    "draw",
    "escape_markdown",
    "from_plain",
    "join_names",
    "merge_caveats",
    "p_number",
    "p_text",
    "render",
    "to_plain",
]
