"""A short part of what tests/fuzz.py does for as long as one likes, and the cases that it has found."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mallow
from fuzz_targets import TARGETS, run_case
from mallow.errors import InputError

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", TARGETS)
def test_smoke(name, tmp_path):
    """Sixty cases of each target, always the same."""
    target = TARGETS[name]

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(target.values)
    def cases(value):
        run_case(target, value, tmp_path)

    cases()


def test_a_target_that_fails_is_noticed(tmp_path):
    class Careless:
        values = st.just(0)

        @staticmethod
        def run(value, folder):
            raise value

    for error in (KeyError("x"), AssertionError("wrong value"), DeprecationWarning("old")):
        with pytest.raises(type(error)):
            run_case(Careless, error, tmp_path)
    with pytest.raises(AssertionError, match="an empty message"):
        run_case(Careless, InputError(""), tmp_path)
    run_case(Careless, InputError("`x` must be larger."), tmp_path)


def test_the_script_runs_and_records(tmp_path):
    options = ["--minutes", "0.001", "--round", "0.5", "--only", "decoders", "--record", "out.json"]
    command = [sys.executable, str(ROOT / "tests" / "fuzz.py"), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    first, second = (run["targets"]["decoders"] for run in json.loads((tmp_path / "out.json").read_text())["runs"])
    for record in (first, second):
        assert record["cases"] > 100
        assert record["failures"] == 0
    assert "decoders" in done.stdout


# --- what it has found


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (None, "`source` must be a path, a list, an array or a table; got NoneType"),
        (np.array(1.0), "must have shape|at least one axis|real numbers"),
        (["0", np.array(1.0)], "the text must be a string; got 1.0"),
        ({"a": 1}, "`source` must be a path, a list, an array or a table; got dict"),
        (b"ab", "`source` must be a path, a list, an array or a table; got bytes"),
        (object(), "`source` must be a path, a list, an array or a table; got object"),
        ([[1.0], [1.0, 2.0]], "rows of equal length"),
        ([[1.0, 2.0], "a"], "rows of equal length|real numbers"),
        ([1.0, 2.0], "got numbers such as 1.0"),
    ],
)
def test_foreign_objects_are_refused(reference, message):
    with pytest.raises(InputError, match=message):
        mallow.score(reference, ["a", "b"], embedder="ngram")
    with pytest.raises(InputError, match=message):
        mallow.read(reference)


def test_objects_without_length_do_not_reach_a_function():
    for thing in (None, np.array(1.0), object(), {"a": 1}):
        with pytest.raises(InputError):
            mallow.score(thing, thing, embedder=lambda samples: np.ones((len(samples), 2)))
