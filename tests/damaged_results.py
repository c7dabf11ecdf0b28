"""Files of results with one value changed, lost or renamed."""

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=4),
    st.lists(st.integers(0, 2), max_size=3),
    st.dictionaries(st.sampled_from(["dtype", "shape", "values", "base64", "a"]), st.integers(0, 3), max_size=3),
    st.just({"dtype": "|O", "shape": [1], "values": [1]}),
    st.just({"dtype": "<f8", "shape": [1 << 40], "values": []}),
    st.just({"dtype": "<U999999999", "shape": [1], "values": ["a"]}),
    st.just({"dtype": "<f8", "shape": [1], "base64": "AAAA"}),
)


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every value in a structure of dicts and lists; of lists only the first two entries."""
    entries = data.items() if isinstance(data, dict) else enumerate(data[:2]) if isinstance(data, list) else ()
    for key, value in entries:
        yield (*path, key)
        yield from places(value, (*path, key))


def damage(data: Any, draw: Callable[[st.SearchStrategy[Any]], Any], place: list[Any] | None = None) -> Any:
    """The same structure with one value changed, in place; the path to it is added to `place`."""
    path = draw(st.sampled_from([path for path in places(data) if path[0] != "kind"]))
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    kind = draw(st.sampled_from(["other", "gone", "renamed"])) if isinstance(inner, dict) else "other"
    if kind == "gone":
        del inner[path[-1]]
    elif kind == "renamed":
        inner[f"{path[-1]}_"] = inner.pop(path[-1])
    else:
        inner[path[-1]] = draw(VALUES)
    if place is not None:
        place += path
    return data
