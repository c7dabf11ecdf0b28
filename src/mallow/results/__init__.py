"""The common parts of all results: text, tables, JSON and back, data frames, pictures."""

from mallow.results import _draw as draw
from mallow.results._draw import Axes
from mallow.results._result import Result, from_plain, join_names, merge_caveats, to_plain
from mallow.results._table import (
    FORMS,
    Estimate,
    TableData,
    at_least,
    at_most,
    escape_markdown,
    group_letters,
    interval_cell,
    number_cell,
    p_cell,
    p_number,
    p_text,
    render,
)

__all__ = ["Estimate", "Result"]
