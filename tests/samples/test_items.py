"""The texts, paths and labels that `Samples` is made from."""

import re
from pathlib import Path

import numpy as np
import pytest

from mallow import InputError, Samples


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"texts": "one"}, "`texts` must be a list; got a single str. Put it into a list."),
        ({"texts": b"one"}, "`texts` must be a list; got a single bytes. Put it into a list."),
        ({"texts": ["one", 3]}, "`texts` must contain strings; got 3 (int) at place 1."),
        ({"texts": [None]}, "`texts` must contain strings; got None (NoneType) at place 0."),
        ({"images": "a.png"}, "`images` must be a list; got a single str. Put it into a list."),
        (
            {"images": Path("a.png")},
            f"`images` must be a list; got a single {type(Path()).__name__}. Put it into a list.",
        ),
        ({"images": ["a.png", 3]}, "`images` must contain paths; got 3 (int) at place 1."),
        ({"texts": ["a", "b"], "ids": "ab"}, "`ids` must be a list; got a single str. Put it into a list."),
        ({"texts": ["a", "b"], "prompts": "pq"}, "`prompts` must be a list; got a single str. Put it into a list."),
        ({"texts": ["a", "b"], "ids": ["1", None]}, "`ids` must not contain missing values; got None at place 1."),
        (
            {"texts": ["a"], "prompts": np.array([np.nan])},
            "`prompts` must not contain missing values; got nan at place 0.",
        ),
    ],
)
def test_bad_items_and_labels_are_refused(values, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Samples(**values)


def test_only_none_and_nan_are_missing():
    assert Samples(texts=["a", "b", "c", "d"], ids=["", 0, 0.0, "nan"]).ids == ("", "0", "0.0", "nan")
    for missing in (None, float("nan"), np.float64("nan")):
        with pytest.raises(InputError, match="must not contain missing values"):
            Samples(texts=["a"], ids=[missing])
