"""Units of rows in shards: the same as those of the same rows in arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mallow import MAUVE_STAR, InputError, Measure, Neighbors, Quantize, Samples
from mallow.embed import read_all
from mallow.engine import Passes, Threads
from mallow.estimate import Product
from mallow.evaluate import Settings, _shards
from mallow.evaluate._evaluation import must_stream
from mallow.evaluate._shards import (
    ShardRows,
    _describe,
    check_in_memory,
    fits_memory,
    load_some,
    run_sharded,
    streams_evidence,
    survey_sets,
)
from mallow.evidence import Units, choose_units, find_units, units_of_surveys
from mallow.samples import Shards


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
    same_units({name: data.draw(samples(rng)) for name in ("", "a", "b")[: data.draw(st.integers(1, 3))]})


def test_copies_in_shards_are_one_unit():
    rows = np.random.default_rng(0).normal(size=(40, 2))
    ids = [str(number) for number in range(40)]
    for reference in (Samples(features=rows, ids=ids), Samples(features=rows)):
        same_units({"": reference, "a": Samples(features=np.tile(rows[:20], (2, 1))), "b": Samples(features=rows[5:])})


def same_units(sets):
    """Of the same samples, in shards and in arrays."""
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


def test_which_units_are_chosen_is_recorded():
    """A subset of another choice would have another certificate, on every machine."""
    units = Units((np.arange(12),), np.arange(12, dtype=np.uint64) * np.uint64(2**40 + 1))
    assert np.flatnonzero(choose_units(units, 5)).tolist() == [0, 7, 8, 9, 10]


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


# --- how much fits the memory, and what is looked at


def surveyed(**sets):
    return survey_sets(Threads(), {name.strip("_"): Samples(features=rows) for name, rows in sets.items()})


@pytest.mark.parametrize(("rows", "fits"), [(10, True), (11, False)])
def test_rows_fit_up_to_the_last_byte(rows, fits, monkeypatch):
    monkeypatch.setenv("MALLOW_MEMORY", str(10 * (8_000 + 40 * 3)))
    assert fits_memory(rows, 3) == fits
    assert not fits_memory(10, 4)


@pytest.mark.parametrize(("fit", "most"), [(100, 200), (500, 250), (900, 900)])
def test_a_subset_takes_half_of_the_memory_and_at_least_two_hundred_rows(fit, most, monkeypatch):
    monkeypatch.setenv("MALLOW_MEMORY", str(fit * (8_000 + 40 * 2)))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(500, 2)), rng.normal(size=(400, 2)).astype(np.float32)
    sets, passes = surveyed(_=x, model=y)
    units = units_of_surveys([one.survey for one in sets.values()])
    seen = load_some(passes, sets, units)
    assert sum(map(len, seen.samples.values())) == most
    assert seen.complete == (most == 900)
    if seen.complete:
        assert seen.places == {}
        assert seen.samples["model"] is sets["model"].samples
        return
    for name, rows in (("", x), ("model", y)):
        assert np.array_equal(seen.samples[name].features, rows[seen.places[name]])
        assert seen.samples[name].features.dtype == rows.dtype
        assert len(set(seen.samples[name].ids)) == len(seen.samples[name])
    (caveat,) = seen.caveats
    assert (caveat.kind, caveat.values) == ("subset of rows", {"rows": most, "n": 900})
    assert f"rest on {most} of 900 rows, chosen by a hash" in caveat.message
    assert "The published score uses all rows." in caveat.message
    (other,) = load_some(passes, sets, units, evidence=False).caveats
    assert "The scores, the certificate and the p-value use all rows." in other.message


def test_a_subset_is_not_larger_than_can_be_waited_for(monkeypatch):
    monkeypatch.setattr(_shards, "_MOST_ROWS", 300)
    monkeypatch.setenv("MALLOW_MEMORY", str(899 * (8_000 + 40 * 2)))
    sets, passes = surveyed(
        _=np.random.default_rng(0).normal(size=(500, 2)), model=np.random.default_rng(1).normal(size=(400, 2))
    )
    units = units_of_surveys([one.survey for one in sets.values()])
    seen = load_some(passes, sets, units)
    assert sum(map(len, seen.samples.values())) == 300


def test_sizes_that_are_told_are_those_of_all_rows(monkeypatch):
    sets, passes = surveyed(
        _=np.random.default_rng(0).normal(size=(1400, 2)), model=np.random.default_rng(1).normal(size=(1100, 2))
    )
    units = units_of_surveys([one.survey for one in sets.values()])
    every = load_some(passes, sets, units)
    assert [one.kind for one in check_in_memory(every, sets)["model"]] == ["unequal sizes"]
    monkeypatch.setenv("MALLOW_MEMORY", "3MB")
    some = load_some(passes, sets, units)
    assert not some.complete
    (caveat,) = check_in_memory(some, sets)["model"]
    assert (caveat.kind, caveat.values) == ("unequal sizes", {"n": 1400, "m": 1100})
    assert "the certificate" in load_some(passes, sets, units, evidence=True).caveats[0].message.split(" rest on ")[0]
    assert (
        "the certificate" not in load_some(passes, sets, units, evidence=False).caveats[0].message.split(" rest on ")[0]
    )


def test_evidence_is_streamed_where_rows_are_many_and_their_numbers_fit(monkeypatch):
    import mallow.evidence._witness as witness

    units = Units((np.arange(60), np.arange(40)), np.arange(60, dtype=np.uint64))
    assert not streams_evidence(MAUVE_STAR, units)
    monkeypatch.setattr(witness, "_MANY_ROWS", 50)
    monkeypatch.setattr(witness, "_MANY_UNITS", 50)
    assert streams_evidence(MAUVE_STAR, units)
    for memory, expected in ((100 * 150, True), (100 * 150 - 1, False)):
        monkeypatch.setenv("MALLOW_MEMORY", str(memory))
        assert streams_evidence(MAUVE_STAR, units) == expected


@pytest.mark.parametrize(("width", "sizes"), [(1, [2500]), (2, [2048, 452]), (8, [1024, 1024, 452])])
def test_rows_of_shards_are_scanned_in_order_with_what_belongs_to_them(width, sizes, monkeypatch):
    """At least 1,024 rows at a time, and as many as have so many numbers."""
    monkeypatch.setattr(_shards, "_NUMBERS", 4096)
    rows = np.broadcast_to(np.arange(2500.0)[:, None], (2500, width))
    shards = Shards.from_array(rows)
    own = ShardRows(Passes(Threads(1), ""), shards)
    assert (len(own), own.width) == (2500, width)
    along = np.arange(5000).reshape(2, 2500)
    parts = list(own.scan(lambda block, extra: (len(block), block[0, 0], extra.copy()), along))
    assert [found[0] for _, found in parts] == sizes
    for at, (size, first, extra) in parts:
        assert at.stop - at.start == size
        assert first == at.start
        assert np.array_equal(extra, along[:, at])
    places = np.array([7, 2000, 30])
    assert np.array_equal(own.take(places)[:, 0], places)


# --- who is evaluated chunk by chunk


def test_what_must_be_streamed(monkeypatch, tmp_path):
    few, many = (Samples(features=np.zeros((n, 5))) for n in (4, 5))
    assert not must_stream(MAUVE_STAR, [many, many], None)
    assert must_stream(MAUVE_STAR, [many, many], Threads())
    assert not must_stream(MAUVE_STAR, [many, few], Threads())  # fewer rows than columns
    assert not must_stream(MAUVE_STAR, [few, many], Threads())
    assert not must_stream(Measure(Neighbors()), [many, many], Threads())
    assert not must_stream(Measure(Quantize(method=Product())), [many, many], Threads())
    # More than is clustered, of the reference and the largest system.
    for sample, expected in ((11, False), (10, True), (9, True)):
        sets = [many, Samples(features=np.zeros((6, 5))), many]
        assert must_stream(Measure(Quantize(sample=sample)), sets, None) == expected
    np.save(tmp_path / "part-0.npy", np.zeros((5, 5)))
    np.save(tmp_path / "part-1.npy", np.zeros((5, 5)))
    lazy = read_all({"x": str(tmp_path)}, lazy=True)["x"]
    assert lazy.shards is not None
    assert not must_stream(MAUVE_STAR, [lazy, many], None)
    for rows, expected in ((15, False), (14, True)):
        monkeypatch.setenv("MALLOW_MEMORY", str(rows * (8_000 + 40 * 5)))
        assert must_stream(MAUVE_STAR, [lazy, many], None) == expected
        assert must_stream(MAUVE_STAR, [many, lazy], None) == expected
    assert not must_stream(MAUVE_STAR, [many, many, many], None)  # they are in memory already


def test_a_checkpoint_is_described_by_all_that_it_depends_on(tmp_path):
    rows = np.arange(12.0).reshape(4, 3)
    engine = Threads(1, checkpoint=str(tmp_path))
    shards = Shards.from_array(rows)
    assert _describe(Threads(1), [shards]) == ""
    texts = {
        _describe(engine, [shards]),
        _describe(engine, [shards, shards]),
        _describe(engine, [shards], "measure"),
        _describe(engine, [Shards.from_array(rows + 1)]),
        _describe(engine, [Shards.from_array(rows.astype(np.float32))]),
        _describe(engine, [Shards.from_array(rows, "other")]),
        _describe(engine, [Shards.from_array(rows[:3])]),
    }
    assert len(texts) == 7
    assert _describe(engine, [Shards.from_array(rows.T.copy().T)]) in texts  # the same numbers


def test_two_rows_in_shards_are_enough(tmp_path):
    for rows, fine in ((2, True), (1, False)):
        folder = tmp_path / str(rows)
        folder.mkdir()
        np.save(folder / "part-0.npy", np.zeros((rows, 2)))
        own = read_all({"x": str(folder)}, lazy=True)["x"]
        assert own.shards is not None
        if fine:
            assert len(survey_sets(Threads(), {"": own})[0][""].shards) == 2
        else:
            with pytest.raises(
                InputError, match=r"`reference` must hold at least 2 samples; got 1\. Aim for 1,000 or more"
            ):
                survey_sets(Threads(), {"": own})


def test_shards_need_bins():
    sets, passes = surveyed(
        _=np.random.default_rng(0).normal(size=(6, 2)), model=np.random.default_rng(1).normal(size=(6, 2))
    )
    with pytest.raises(
        InputError, match="Shards beyond the memory need an estimator with bins, Quantize, but this one is Neigh"
    ):
        run_sharded(passes, Settings(Measure(Neighbors()), 1, 0), sets[""], sets["model"], None)
