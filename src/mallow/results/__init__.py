"""What every result offers: text, tables, JSON and back, data frames, pictures."""

from mallow.results import _draw as draw
from mallow.results._estimate import Estimate
from mallow.results._json import from_plain, to_plain
from mallow.results._result import Result, join_names, merge_caveats
from mallow.results._table import FORMS, TableData, render

__all__ = ["FORMS", "Estimate", "Result", "TableData", "draw", "from_plain", "join_names", "merge_caveats", "render", "to_plain"]
