"""Evidence about rows in shards beyond the memory: that of the same rows in memory, bit for bit."""

import warnings

import numpy as np
import pytest

import mallow
from mallow.engine import Threads
from mallow.evaluate import Settings
from mallow.evaluate._run import Parts
from mallow.evaluate._shards import stream_systems


@pytest.fixture
def sides():
    rng = np.random.default_rng(3)
    return rng.normal(size=(700, 6)).astype(np.float32), rng.normal(0.3, 1.0, size=(700, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr("mallow.evidence._witness._MANY_ROWS", 1000)
    monkeypatch.setattr("mallow.evidence._witness._MANY_UNITS", 500)
    warnings.simplefilter("ignore", mallow.EstimateWarning)


def write_shards(folder, rows, sizes):
    folder.mkdir()
    for number, part in enumerate(np.split(rows, np.cumsum(sizes))):
        np.save(folder / f"part-{number:03d}.npy", part)
    return str(folder)


def test_evidence_of_all_rows_whatever_the_shards_and_the_engine(tmp_path, monkeypatch, sides):
    expected = mallow.score(*sides, repeats=1)
    shards = [
        write_shards(tmp_path / name, own, sizes)
        for name, own, sizes in (("x", sides[0], [100, 350]), ("y", sides[1], [1, 600]))
    ]
    monkeypatch.setenv("MALLOW_MEMORY", "4MB")  # less than all rows would take, more than what is kept of each
    for engine in (None, Threads(1), Threads(3)):
        found = mallow.score(*shards, repeats=1, engine=engine)
        assert found.certified == expected.certified
        assert found.p_value == expected.p_value
        assert found.mauve == expected.mauve
        assert (found.evidence.reference_scores == expected.evidence.reference_scores).all()
        assert (found.evidence.model_scores == expected.evidence.model_scores).all()
        (caveat,) = [one for one in found.caveats if one.kind == "subset of rows"]
        assert "The scores, the certificate and the p-value use all rows." in str(caveat)


def test_less_memory_than_that_leaves_a_subset(tmp_path, monkeypatch, sides):
    shards = [write_shards(tmp_path / name, own, [300]) for name, own in zip("xy", sides, strict=True)]
    monkeypatch.setenv("MALLOW_MEMORY", "200KB")
    found = mallow.score(*shards, repeats=1)
    assert len(found.evidence.model_scores) < 700
    (caveat,) = [one for one in found.caveats if one.kind == "subset of rows"]
    assert str(caveat).startswith("the certificate, the p-value, the reasons and the checks of the samples rest on")


def test_differences_of_systems_in_shards_use_all_rows(tmp_path, monkeypatch, sides):
    other = np.random.default_rng(5).normal(0.2, 1.0, size=(700, 6)).astype(np.float32)
    systems = {"near": other, "far": sides[1]}
    expected = mallow.compare(sides[0], systems, repeats=1)
    folders = {
        name: write_shards(tmp_path / name, own, [250, 251]) for name, own in {"ref": sides[0], **systems}.items()
    }
    monkeypatch.setenv("MALLOW_MEMORY", "4MB")
    found = mallow.compare(folders["ref"], {name: folders[name] for name in systems}, repeats=1)
    assert [one.kind for one in found.caveats].count("subset of rows") > 0
    assert found.differences == expected.differences
    assert {name: one.certified for name, one in found.scores.items()} == {
        name: one.certified for name, one in expected.scores.items()
    }


def test_systems_beside_change_nothing(sides):
    """Also where all systems have units of their own."""
    rng = np.random.default_rng(6)
    ids = [
        mallow.Samples(features=own, ids=[f"{name}{row}" for row in range(700)])
        for name, own in zip("xy", sides, strict=True)
    ]
    beside = mallow.Samples(
        features=rng.normal(size=(650, 6)).astype(np.float32), ids=[f"z{row}" for row in range(650)]
    )
    alone = mallow.score(*ids, repeats=1)
    together = mallow.compare(ids[0], {"y": ids[1], "z": beside}, repeats=1).scores["y"]
    assert together.certified == alone.certified
    assert together.p_value == alone.p_value


@pytest.fixture
def told():
    """Texts with prompts and features: what tells the sides apart is in the style and the prompts alone."""
    rng = np.random.default_rng(8)
    topics = [" ".join(rng.choice(list("bdfglmnprst"), 12)) for _ in range(700)]
    sets = []
    for side in (0, 1):
        endings = rng.choice(
            ["ing", "ed", "s", "ly"], size=(700, 5), p=[0.25 + 0.02 * side, 0.25 - 0.02 * side, 0.25, 0.25]
        )
        texts = [
            f"{topics[(row + side) % 700]} {' '.join('w' + ending for ending in line)}"
            for row, line in enumerate(endings)
        ]
        sets.append(mallow.Samples(texts=texts, features=rng.normal(size=(700, 6)).astype(np.float32), prompts=topics))
    return sets


def test_chunks_show_what_spaces_in_memory_show(sides, monkeypatch):
    rng = np.random.default_rng(9)
    told = [
        mallow.Samples(features=rows, spaces={"mine": rng.normal(side, 1.0, size=(700, 2)), "more": rows[:, :3] ** 2})
        for side, rows in enumerate(sides)
    ]
    expected = mallow.score(*told, repeats=1)
    assert expected.signature.spaces == "mine, more"
    assert expected.certified["mauve"].high < mallow.score(*sides, repeats=1).certified["mauve"].high - 0.1
    monkeypatch.setenv("MALLOW_MEMORY", "4MB")
    streamed = mallow.score(*told, repeats=1, engine=Threads(2))
    assert streamed.certified == expected.certified
    assert streamed.p_value == expected.p_value
    assert streamed.signature.spaces == expected.signature.spaces
    assert (streamed.evidence.model_scores == expected.evidence.model_scores).all()
    kinds = [caveat.kind for caveat in streamed.caveats]
    assert "subset of rows" in kinds
    assert "features alone" not in kinds


def test_a_subset_of_texts_is_seen_with_their_style_and_prompts(told, monkeypatch):
    monkeypatch.setenv("MALLOW_MEMORY", "200KB")
    some = mallow.score(*told, repeats=1, engine=Threads(1))
    assert len(some.evidence.model_scores) < 700
    assert some.signature.spaces == "style, prompts"
    assert some.p_value < 0.01


# --- systems in shards, without an estimate


@pytest.fixture
def streamed():
    rng = np.random.default_rng(0)
    reference, near, far = (
        mallow.Samples(features=rng.normal(shift, 1.0, size=(n, 3))) for shift, n in ((0, 60), (0, 50), (2, 40))
    )
    pairs = {"near": (reference, near), "far": (reference, far)}
    return stream_systems(Threads(1), pairs, mallow.MAUVE_STAR), pairs


def test_systems_in_memory_are_the_samples_themselves(streamed):
    made, pairs = streamed
    assert made.complete
    assert list(made.sets) == ["", "near", "far"]
    assert list(made.pairs) == list(made.whole) == ["near", "far"]
    for name, (reference, samples) in pairs.items():
        assert made.pairs[name] == made.whole[name] == (reference, samples)
    assert [len(own) for own in made.units.sets] == [60, 50, 40]
    assert {name: [one.kind for one in own] for name, own in made.caveats().items()} == {
        "near": ["few samples", "unequal sizes"],
        "far": ["norm", "few samples", "unequal sizes"],
    }


def test_runs_of_systems_know_their_self_scores(streamed):
    made, pairs = streamed
    settings = Settings(mallow.MAUVE_STAR, repeats=2, seed=7)
    runs = made.runs(settings, {name: [pair] for name, pair in pairs.items()}, Parts())
    assert {name: [len(one.masses) for one in own] for name, own in runs.items()} == {"near": [2], "far": [2]}
    reference = pairs["near"][0]
    for name, m in (("near", 50), ("far", 40)):
        (run,) = runs[name]
        assert run.itself == mallow.evaluate.self_score(mallow.MAUVE_STAR, reference, m, repeats=2, seed=7)
        assert (run.reference, run.model, run.seen) == (*pairs[name], None)
        assert [len(own) for own in run.units.sets] == [60, m]


def test_some_samples_are_seen_where_memory_is_short(streamed, monkeypatch):
    _, pairs = streamed
    monkeypatch.setenv("MALLOW_MEMORY", "1MB")
    monkeypatch.setattr(mallow.evaluate._shards, "_PER_ROW", 1_000_000)
    large = {
        name: (
            pair[0],
            mallow.Samples(features=np.tile(pair[1].features, (6, 1)) + np.arange(6 * len(pair[1]))[:, None]),
        )
        for name, pair in pairs.items()
    }
    made = stream_systems(Threads(1), large, mallow.MAUVE_STAR)
    assert not made.complete
    assert {name: [len(one) for one in pair] for name, pair in made.whole.items()} == {
        "near": [60, 300],
        "far": [60, 240],
    }
    assert sum(len(own) for own in made.seen.samples.values()) == 200
    assert made.caveats()["far"][0].kind == "subset of rows"
    settings = Settings(mallow.MAUVE_STAR, repeats=1, seed=0)
    runs = made.runs(settings, {name: [pair] for name, pair in made.whole.items()}, Parts())
    assert runs["far"][0].seen == made.pairs["far"]
    assert len(runs["far"][0].model) == 240
