"""What every result offers: tables, JSON and back, data frames, pictures."""

from mallow.results import _draw as draw
from mallow.results import _json as jsonable
from mallow.results._table import rendered

__all__ = ["draw", "jsonable", "rendered"]
