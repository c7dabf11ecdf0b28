"""Results as data: what is written and read back, summaries, merged caveats, letters of groups."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from mallow.errors import Caveat, InputError
from mallow.results import Result, from_plain, group_letters, join_names, merge_caveats, to_plain


@pytest.mark.parametrize("size", [999, 1000, 1001])
def test_up_to_a_thousand_numbers_are_written_as_a_list(size):
    array = np.arange(float(size))
    plain = to_plain(array)
    assert set(plain) == {"dtype", "shape", "values" if size <= 1000 else "base64"}
    for special in (np.nan, np.inf, -np.inf):  # JSON has no such numbers
        array[1] = special
        assert set(to_plain(array)) == {"dtype", "shape", "base64"}
        np.testing.assert_array_equal(from_plain(np.ndarray, to_plain(array)), array)
    square = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert to_plain(square) == {"dtype": "<i2", "shape": [2, 3], "values": [0, 1, 2, 3, 4, 5]}
    assert from_plain(np.ndarray, to_plain(square.T)).tolist() == square.T.tolist()


@pytest.mark.parametrize(
    ("hint", "data", "message"),
    [
        (int, 2.0, "the content must be a whole number; got 2.0."),
        (int, True, "the content must be a whole number; got True."),
        (float, False, "the content must be a number; got False."),
        (bool, 1, "the content must be true or false; got 1."),
        (str, None, "the content must be a text; got None."),
        (tuple[int, ...], {}, "the content must be a list; got {}."),
        (tuple[int, int], [1], "the content must be a list of 2 entries; got [1]."),
        (tuple[int, ...], [1, "x"], "the field '[1]' must be a whole number; got 'x'."),
        (dict[str, int], {"a": "b"}, "the field 'a' must be a whole number; got 'b'."),
        (dict[str, tuple[int, ...]], {"a": [1, 2, "b"]}, "the field 'a[2]' must be a whole number; got 'b'."),
        (str, [0] * 30, f"the content must be a text; got {repr([0] * 30)[:60]}…."),
        (str, [0] * 20, f"the content must be a text; got {[0] * 20}."),
    ],
)
def test_wrong_data_are_named(hint, data, message):
    with pytest.raises(InputError) as refused:
        from_plain(hint, data)
    assert str(refused.value) == message


def test_data_of_every_type_come_back():
    for hint, value in (
        (float, 2),
        (float, 2.5),
        (bool, True),
        (tuple[int, ...], ()),
        (tuple[float, str], (1.5, "a")),
        (int | None, None),
        (int | None, 3),
        (Path, Path("a/b")),
        (dict[str, tuple[int, ...]], {"a": (1, 2)}),
        (Any, {"whatever": [1]}),
        (Literal["x", "y"], "y"),
    ):
        back = from_plain(hint, json.loads(json.dumps(to_plain(value))))
        assert (back, type(back)) == (value, type(value))
    assert np.isnan(from_plain(float, to_plain(np.float64("nan"))))
    assert from_plain(float, np.float32(0.5).item()) == 0.5
    with pytest.raises(InputError, match=r"must be one of 'x', 'y'; got 'z'"):
        from_plain(Literal["x", "y"], "z")


@dataclass(frozen=True)
class Small(Result):
    KIND: ClassVar[str] = "small"
    ALSO: ClassVar[tuple[str, ...]] = ("double",)
    name: str
    value: float
    parts: tuple[int, ...]
    by_system: dict[str, dict[str, float]]
    caveats: tuple[Caveat, ...] = ()
    nothing: None = None

    @property
    def double(self):
        return 2 * self.value

    def __str__(self):
        return self._with_caveats([f"{self.name}: {self.value}", "more"])


def test_a_summary_has_numbers_texts_derived_values_and_kinds_of_caveats():
    doubts = (Caveat("y", "few."), Caveat("x", "short.", "a"), Caveat("y", "old.", "b"))
    small = Small("a <b>", 1.5, (1, 2), {"s": {"p": 1.0}}, doubts)
    brief = small.brief()
    assert brief == {
        "kind": "mallow small",
        "double": 3.0,
        "name": "a <b>",
        "value": 1.5,
        "nothing": None,
        "caveats": ["x", "y"],
    }
    assert json.loads(small.brief_json()) == brief
    assert small.brief_json().split("\n")[:3] == ["{", ' "kind": "mallow small",', ' "double": 3.0,']
    assert str(small).split("\n") == ["a <b>: 1.5", "more", "caveat: few.", "caveat: a: short.", "caveat: b: old."]
    assert small.format() == "a <b>: 1.5\nmore"
    assert (small.format("json"), small.format("markdown")) == (small.to_json(), small.table("markdown"))
    for count in range(4):
        page = replace(small, caveats=doubts[:count])._repr_html_()
        title = [None, "1 caveat", "2 caveats", "3 caveats"][count]
        assert page.startswith("<p>a &lt;b&gt;: 1.5</p>")
        assert (f"<summary>{title}</summary>" in page) == bool(count)
        assert page.count("<li>") == count


def test_a_summary_of_dictionaries_has_a_line_for_each():
    class Nested(Small):
        def brief(self):
            return {"systems": self.by_system, "flat": {"x": 1}, "none": {}}

    nested = Nested("a", 1.0, (), {"s": {"p": 1.0}, "t": {"p": 2.0}})
    lines = [
        "{",
        ' "systems": {',
        '  "s": {"p": 1.0},',
        '  "t": {"p": 2.0}',
        " },",
        ' "flat": {"x": 1},',
        ' "none": {}',
    ]
    assert nested.brief_json().split("\n") == [*lines, "}"]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_more_than_two_messages_that_differ_only_in_numbers_are_one(count):
    caveats = [Caveat("few", f"only {n} samples.", f"s{n}") for n in range(1, count + 1)]
    caveats += [Caveat("other", "only 7 samples.", "s9"), Caveat("few", "old.", "s1")]
    merged = merge_caveats(caveats)
    names = [f"s{n}" for n in range(1, count + 1)]
    if count > 2:
        assert merged[0] == f"{join_names(names)}: only 1 samples. (numbers of s1)"
        assert len(merged) == 3
    else:
        assert merged[:count] == [f"s{n}: only {n} samples." for n in range(1, count + 1)]
    assert merged[-2:] == ["s9: only 7 samples.", "s1: old."]


@pytest.mark.parametrize(("count", "word"), [(3, "three"), (12, "twelve"), (13, "13")])
def test_all_systems_are_counted_in_words_up_to_twelve(count, word):
    names = [f"s{n}" for n in range(count)]
    assert merge_caveats([Caveat("few", "few.", name) for name in names], names) == [f"all {word} systems: few."]
    assert merge_caveats([Caveat("few", "few.", name) for name in names], [*names, "x"]) == [
        f"{join_names(names)}: few."
    ]


def test_letters_of_groups_and_numbers_beyond_z():
    groups = [(f"s{n}", "all") for n in range(28)]
    letters = "abcdefghijklmnopqrstuvwxyz"
    assert group_letters(groups, "all") == letters + "(27)(28)"
    assert [group_letters(groups, f"s{n}") for n in (0, 25, 26, 27)] == ["a", "z", "(27)", "(28)"]
    assert group_letters(groups, "nobody") == ""
