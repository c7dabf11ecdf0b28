"""A damaged file of a result is refused with the name of the field, or still says what is read: never a crash."""

import copy
import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mallow
from damaged_results import damage
from mallow.errors import InputError


@pytest.fixture(scope="module")
def comparison():
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mallow.EstimateWarning)
        systems = {"near": rng.normal(size=(150, 3)), "far": rng.normal(1, 1, size=(150, 3))}
        return mallow.compare(rng.normal(size=(150, 3)), systems, repeats=2).to_dict()


def refusal(data):
    """The message of the error; None if the data are read, and can then be shown and written again."""
    try:
        read = mallow.Comparison.from_dict(data)
    except InputError as error:
        return str(error)
    with np.errstate(all="ignore"):
        str(read), repr(read), read.table("markdown")
    json.loads(read.to_json())
    return None


@given(data=st.data())
def test_one_changed_value_is_named_or_harmless(comparison, data):
    damaged, place = copy.deepcopy(comparison), []
    damage(damaged, data.draw, place)
    message = refusal(damaged)
    known = (f"the field '{place[0]}", "the content does not make", "its parts do not fit together")
    assert message is None or any(part in message for part in known)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ("scores", "near", "signature", "n"),
            "many",
            r"'scores\.near\.signature\.n' must be a whole number; got 'many'",
        ),
        (("scores", "near", "n"), [1], r"'scores\.near\.n' must be a list of 2 entries; got \[1\]"),
        (
            ("scores", "near", "frontier", "lam"),
            {"dtype": "|O", "shape": [1], "values": [1]},
            r"frontier\.lam' must be an",
        ),
        (("scores", "near"), None, r"'scores\.near' must be an object with named fields; got None"),
        (("caveats",), 5, r"'caveats' must be a list; got 5"),
    ],
)
def test_the_message_names_the_field(comparison, path, value, message):
    damaged = copy.deepcopy(comparison)
    inner = damaged
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InputError, match=message):
        mallow.Comparison.from_json(json.dumps(damaged))
    del inner[path[-1]]
    if path[-1] != "near":  # systems are keys, not fields
        with pytest.raises(InputError, match=r"the field '" + r"\.".join(path) + "' is missing"):
            mallow.Comparison.from_json(json.dumps(damaged))


def test_names_that_do_not_occur_are_told(comparison):
    """What the fuzzer found: a score whose certificate had lost the area was read, and could not be printed."""
    damaged = copy.deepcopy(comparison)
    certified = damaged["scores"]["near"]["certified"]
    certified["mau\x1bve"] = certified.pop("mauve")
    entries = (
        r"`certified` must have the entries mauve, frontier_integral, midpoint; got frontier_integral, midpoint, mau"
    )
    with pytest.raises(InputError, match=r"the field 'scores\.near' is not a valid Score: " + entries):
        mallow.Comparison.from_dict(damaged)
    damaged = copy.deepcopy(comparison)
    damaged["differences"][0]["first"] = "elsewhere"
    with pytest.raises(InputError, match=r"its parts do not fit together: there is no 'elsewhere'\."):
        mallow.Comparison.from_dict(damaged)
    with pytest.raises(InputError, match=r"its parts do not fit together: some are missing\."):
        mallow.Comparison.from_dict(damaged | {"scores": {}})
    damaged = copy.deepcopy(comparison)
    damaged["differences"][0]["adjusted"] = {}
    with pytest.raises(
        InputError, match=r"differences\[0\]' is not a valid Difference: `adjusted` must have an entry mauve"
    ):
        mallow.Comparison.from_dict(damaged)


def test_what_is_no_json_at_all_is_refused(comparison):
    for text, message in (
        ("[" * 100_000, "nested too deeply|must be JSON"),
        (json.dumps(comparison)[:-50], "must be JSON, as Comparison.to_json wrote it"),
        (5, "must be JSON as text; got int"),
        ("[]", "its kind is 'list'"),
    ):
        with pytest.raises(InputError, match=message):
            mallow.Comparison.from_json(text)
