"""Units of rows in shards: the same as those of the same rows in arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mallow import InputError, Samples
from mallow.engine import Threads
from mallow.evaluate._score_shards import survey_sets
from mallow.evaluate._shard_units import choose_units, units_of_surveys
from mallow.inference import Units, find_units


@st.composite
def samples(draw, rng):
    """Features with few or many copies, with ids, some of them shared, or without."""
    size, kind = draw(st.sampled_from([2, 3, 40, 50])), draw(st.sampled_from(["free", "copies", "ids", "unique ids"]))
    rows = rng.normal(size=(size, 2))
    if kind == "copies":
        rows = np.tile(rows[: size // 2], (2, 1))
    ids = {"ids": rng.integers(size, size=size), "unique ids": rng.permutation(2 * size)[:size]}.get(kind)
    return Samples(features=rows, ids=None if ids is None else [str(one) for one in ids])


@given(data=st.data(), seed=st.integers(0, 10_000))
@settings(max_examples=60)
def test_units_in_shards_are_those_of_arrays(data, seed):
    rng = np.random.default_rng(seed)
    sets = {name: data.draw(samples(rng)) for name in ("", "a", "b")[: data.draw(st.integers(1, 3))]}
    surveyed, _ = survey_sets(Threads(), sets)
    found, expected = units_of_surveys([one.survey for one in surveyed.values()]), find_units(*sets.values())
    assert found.count == expected.count
    # Numbers may differ; which rows are together, and what identifies them, may not.
    assert np.sort(found.keys).tolist() == np.sort(expected.keys).tolist()
    for own, other in zip(found.sets, expected.sets, strict=True):
        assert found.keys[own].tolist() == expected.keys[other].tolist()


@given(seed=st.integers(0, 10_000), count=st.integers(1, 30), most=st.integers(0, 80))
def test_whole_units_are_chosen_as_long_as_they_fit(seed, count, most):
    rng = np.random.default_rng(seed)
    units = Units(tuple(rng.integers(count, size=n) for n in (30, 20)), rng.permutation(count).astype(np.uint64))
    sizes = units.sizes(0) + units.sizes(1)
    chosen = choose_units(units, most)
    assert sizes[chosen].sum() <= most
    assert chosen.all() == (most >= 50)
    fewer = choose_units(units, most // 2)
    assert (chosen | ~fewer).all()  # what fits a smaller number fits a larger one
    if not chosen.all():
        assert sizes[chosen].sum() + sizes.max() > most  # the next unit does not fit


def test_sets_are_called_by_their_names():
    good = Samples(features=np.zeros((5, 2)))
    bad = Samples(features=np.zeros((1, 2)))
    with pytest.raises(InputError, match="`reference` must"):
        survey_sets(Threads(), {"": bad, "model": good})
    with pytest.raises(InputError, match="`model` must"):
        survey_sets(Threads(), {"": good, "model": bad})
    wide = Samples(features=np.zeros((5, 3)))
    with pytest.raises(InputError, match="`reference` and `model` must have features of the same width; got 2 and 3"):
        survey_sets(Threads(), {"": good, "model": wide})
