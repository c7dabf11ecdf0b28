"""Scores of shards: the same bytes as of one array, however the rows are cut, whatever computes them."""

import functools
import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mallow.estimate._survey as survey
from killed_score import MEASURE, killed_score
from mallow import (
    EstimateWarning,
    InputError,
    Measure,
    Neighbors,
    Quantize,
    Reduce,
    Samples,
    Threads,
    compare,
    read,
    score,
)
from shard_files import FORMATS, write_shards

pytestmark = [
    pytest.mark.filterwarnings("ignore::mallow.EstimateWarning"),
    pytest.mark.all_permutations,
]  # as in killed processes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 12)).astype(np.float32)
Y = (RNG.normal(size=(400, 12)) + 0.2).astype(np.float32)
X[3], Y[5], Y[6] = X[4], X[9], Y[7]  # copies, on one side and on both
Z = (RNG.normal(size=(500, 12)) + 0.4).astype(np.float64)

MEASURES = {
    "default": Measure(),
    "not normalised": Measure(Quantize(bins=20, reduce=Reduce(normalise=False))),
    "not reduced": Measure(Quantize(bins=15, reduce=None)),
    "codebook": Measure(Quantize(codebook=Quantize(bins=20).fit(X))),
    "restarts": Measure(Quantize(bins=30, reduce=Reduce(dimension=3), restarts=2)),
}


@functools.cache
def whole_score(name):
    """The score of both arrays, in memory."""
    return score(X, Y, measure=MEASURES[name], repeats=2)


def published(result):
    """What a score says without held-out evidence."""
    labels = [result.masses.partition.p_labels.tolist(), result.masses.partition.q_labels.tolist()]
    names = ("mauve", "frontier_integral", "midpoint", "std", "interval", "debiased", "self_score", "values", "n")
    signature = replace(result.signature, units="")  # those of the evidence
    return json.dumps([labels, *(str(getattr(result, name)) for name in names), str(signature)])


@given(
    cuts=st.tuples(st.sets(st.integers(1, 499), max_size=4), st.sets(st.integers(1, 399), max_size=4)),
    entries=st.integers(200, 9000),
    threads=st.integers(1, 3),
    name=st.sampled_from(sorted(MEASURES)),
    form=st.sampled_from(FORMATS),
)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_shards_chunks_and_threads_give_the_same_bytes(
    tmp_path_factory, monkeypatch, cuts, entries, threads, name, form
):
    folder = tmp_path_factory.mktemp("rows")
    monkeypatch.setattr(survey, "_ENTRIES", entries)
    x, y = (
        write_shards(folder / side, rows, sorted(own), form) for side, rows, own in zip("xy", (X, Y), cuts, strict=True)
    )
    result = score(x, y, measure=MEASURES[name], repeats=2, engine=Threads(threads))
    assert result.to_json() == whole_score(name).to_json()


@pytest.mark.parametrize("name", ["default", "codebook"])
def test_beyond_the_memory_the_published_score_stays(tmp_path, monkeypatch, name):
    x, y = write_shards(tmp_path / "x", X, [200]), write_shards(tmp_path / "y", Y, [100, 150])
    monkeypatch.setenv("MALLOW_MEMORY", "2MB")
    monkeypatch.setattr(survey, "_ENTRIES", 1000)
    with pytest.warns(EstimateWarning, match="rest on 200 of 900 rows, chosen by a hash"):
        result = score(x, y, measure=MEASURES[name], repeats=2)
    assert published(result) == published(whole_score(name))
    assert result.p_value > whole_score(name).p_value
    assert len(result.evidence.reference_scores) + len(result.evidence.model_scores) == 200


def test_the_subset_does_not_depend_on_the_shards(tmp_path, monkeypatch):
    monkeypatch.setenv("MALLOW_MEMORY", "2MB")
    texts = []
    for place, (order, cuts) in enumerate(
        [(np.arange(500), [200]), (np.random.default_rng(1).permutation(500), [1, 350])]
    ):
        x = write_shards(tmp_path / f"x{place}", X[order], cuts)
        result = score(x, write_shards(tmp_path / f"y{place}", Y, []), repeats=1)
        texts.append((result.certified, result.p_value, result.mauve, result.interval))
    assert texts[0] == texts[1]


def test_ids_say_what_belongs_together(tmp_path, monkeypatch):
    ids = [f"prompt {place % 300}" for place in range(500)], [f"prompt {place}" for place in range(400)]
    whole = score(Samples(features=X, ids=ids[0]), Samples(features=Y, ids=ids[1]), repeats=1)
    assert whole.interval != score(X, Y, repeats=1).interval
    on_threads = score(Samples(features=X, ids=ids[0]), Samples(features=Y, ids=ids[1]), repeats=1, engine=Threads(2))
    assert on_threads.to_json() == whole.to_json()
    x = write_shards(tmp_path / "x", X, [200], "npz", ids[0])
    y = write_shards(tmp_path / "y", Y, [150], "parquet", ids[1])
    assert score(x, y, repeats=1, engine=Threads()).to_json() == whole.to_json()
    monkeypatch.setenv("MALLOW_MEMORY", "2MB")
    assert published(score(x, y, repeats=1)) == published(whole)


def test_repeated_rows_are_one_unit(monkeypatch, tmp_path):
    x, y = np.tile(X[:200], (2, 1)), np.tile(Y[:200], (2, 1))
    whole = score(x, y, repeats=1)
    monkeypatch.setenv("MALLOW_MEMORY", "2MB")
    result = score(write_shards(tmp_path / "x", x, [100]), write_shards(tmp_path / "y", y, [300]), repeats=1)
    assert published(result) == published(whole)


def test_two_precisions(tmp_path):
    whole = score(X, Z, repeats=1)
    shards = score(
        write_shards(tmp_path / "x", X, [7]), write_shards(tmp_path / "z", Z, [400]), repeats=1, engine=Threads(2)
    )
    assert shards.to_json() == whole.to_json()


def test_few_rows_are_clustered_and_all_are_counted(tmp_path, monkeypatch):
    measure = Measure(Quantize(bins=10, sample=300))
    whole = score(X, Y, measure=measure, repeats=2)  # an array, more of it than is clustered
    assert whole.masses.partition.p_counts.sum() == 500
    assert whole.masses.partition.q_counts.sum() == 400
    assert abs(whole.mauve - score(X, Y, measure=Measure(Quantize(bins=10)), repeats=2).mauve) < 0.1
    monkeypatch.setattr(survey, "_ENTRIES", 700)
    x, y = write_shards(tmp_path / "x", X, [200]), write_shards(tmp_path / "y", Y, [100, 150])
    assert score(x, y, measure=measure, repeats=2, engine=Threads(2)).to_json() == whole.to_json()
    shuffled = score(X[::-1], Y, measure=measure, repeats=2)
    assert (shuffled.mauve, shuffled.interval, shuffled.self_score) == (whole.mauve, whole.interval, whole.self_score)


def test_comparisons_are_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(survey, "_ENTRIES", 2000)
    measure = Measure(Quantize(bins=20))
    whole = compare(X, {"y": Y, "z": Z}, measure=measure, repeats=1)
    x, y = write_shards(tmp_path / "x", X, [7]), write_shards(tmp_path / "y", Y, [100])
    z = write_shards(tmp_path / "z", Z, [200])
    assert compare(x, {"y": y, "z": z}, measure=measure, repeats=1, engine=Threads(2)).to_json() == whole.to_json()
    monkeypatch.setenv("MALLOW_MEMORY", "3MB")
    beyond = compare(x, {"y": y, "z": z}, measure=measure, repeats=1)
    assert {name: published(one) for name, one in beyond.scores.items()} == {
        name: published(one) for name, one in whole.scores.items()
    }
    assert "rest on" in str(beyond.scores["y"])


def test_generations_on_an_engine():
    several = np.stack([Z[:200], Z[200:400]], axis=1)
    whole = compare(X[:200], {"z": several}, repeats=1)
    assert compare(X[:200], {"z": several}, repeats=1, engine=Threads(2)).to_json() == whole.to_json()


# --- what is done stays done


def test_a_shard_that_is_missing_costs_only_what_is_left(tmp_path, caplog):
    folder = write_shards(tmp_path / "x", X, [100, 200, 300, 400])
    engine = Threads(1, checkpoint=str(tmp_path / "kept"))
    samples, lost = read(folder), tmp_path / "x" / "part-003.npy"
    content = lost.read_bytes()
    stamp = lost.stat()
    lost.unlink()
    with pytest.raises(InputError, match=rf"{lost}: the shard is no longer there"):
        score(samples, Y, repeats=1, engine=engine)
    lost.write_bytes(content)
    os.utime(lost, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with caplog.at_level("WARNING", "mallow"):
        result = score(samples, Y, repeats=1, engine=engine)
    assert "survey-0: continuing from the checkpoint, 3 of 5 tasks are done" in caplog.text
    assert result.to_json() == score(samples, Y, repeats=1).to_json()
    assert not list((tmp_path / "kept").iterdir())


def test_a_killed_process_is_continued(tmp_path):
    x, y = write_shards(tmp_path / "x", X, range(50, 500, 50)), write_shards(tmp_path / "y", Y, [100])
    done = killed_score(x, y, tmp_path / "kept", "chunk 200")  # the fifth of the last pass
    assert re.search(r"labels-0: continuing from the checkpoint, [34] of 10 tasks are done", done.stderr)
    assert "clusters-0: taken from the checkpoint" in done.stderr
    assert json.loads(done.stdout) == score(x, y, measure=MEASURE, repeats=1).to_dict()


def test_a_process_that_is_killed_in_kmeans(tmp_path):
    x, y = write_shards(tmp_path / "x", X, [50]), write_shards(tmp_path / "y", Y, [100])
    done = killed_score(x, y, tmp_path / "kept", "clustering 2")
    assert "survey-0: continuing from the checkpoint, 2 of 2 tasks are done" in done.stderr
    assert "clusters-0: taken from the checkpoint" in done.stderr
    assert json.loads(done.stdout) == score(x, y, measure=MEASURE, repeats=1).to_dict()


def test_clusters_stay_until_all_is_done(tmp_path, monkeypatch, caplog):
    """A shard that is missed by the evidence, the last step, costs no clustering."""
    import mallow.evaluate._shards as sharded

    x, y = write_shards(tmp_path / "x", X, [50]), write_shards(tmp_path / "y", Y, [100])
    monkeypatch.setenv("MALLOW_MEMORY", "2MB")
    engine = Threads(1, checkpoint=str(tmp_path / "kept"))

    def miss(*_):
        raise InputError("part-000.npy: the shard is no longer there.")

    with monkeypatch.context() as patch:
        patch.setattr(sharded.StreamedSystems, "hold_out", miss)
        with pytest.raises(InputError, match="no longer there"):
            score(x, y, repeats=1, engine=engine)
    result = score(x, y, repeats=1, engine=engine)
    assert "clusters-0: taken from the checkpoint" in caplog.text
    assert result.to_json() == score(x, y, repeats=1).to_json()
    assert not list((tmp_path / "kept").iterdir())


@pytest.mark.parametrize("far", [0, 1100, 2300])
@pytest.mark.parametrize("side", [0, 1])
def test_the_farthest_row_counts_wherever_it_is(tmp_path, far, side):
    """Rows are rounded relative to the farthest one: in any block of a chunk, and on either side."""
    sets = [np.random.default_rng(place).normal(size=(2400, 3)) for place in range(2)]
    sets[side][far] *= 1000.0
    measure = Measure(Quantize(bins=6, reduce=Reduce(normalise=False, variance=1.0), max_iter=3))
    kept = [write_shards(tmp_path / name, rows, []) for name, rows in zip("xy", sets, strict=True)]
    streamed = score(*kept, measure=measure, repeats=1, engine=Threads(1))
    assert published(streamed) == published(score(*sets, measure=measure, repeats=1))


def test_every_run_of_kmeans_has_a_checkpoint_of_its_own(tmp_path):
    x, y = write_shards(tmp_path / "x", X, [50]), write_shards(tmp_path / "y", Y, [100])
    for restarts in (1, 4):
        measure = Measure(Quantize(bins=8, restarts=restarts, max_iter=1))  # hardly two runs end alike
        kept = Threads(1, checkpoint=str(tmp_path / f"kept {restarts}"))
        assert score(x, y, measure=measure, repeats=1, engine=kept).to_json() == (
            score(X, Y, measure=measure, repeats=1).to_json()
        )


def test_systems_that_are_done_stay_done(tmp_path, monkeypatch, caplog):
    import mallow.estimate._stream as stream

    folders = [write_shards(tmp_path / name, rows, [50]) for name, rows in (("x", X), ("y", Y), ("z", Z))]
    systems = dict(zip("yz", folders[1:], strict=True))
    measure, engine = Measure(Quantize(bins=10)), Threads(1, checkpoint=str(tmp_path / "kept"))
    cluster, calls = stream.lloyd, []

    def fragile(*arguments, **options):
        calls.append(0)
        if len(calls) == 4:  # the reference and `y`, the reference alone; the same for `z`
            raise InputError("the machine has gone.")
        return cluster(*arguments, **options)

    monkeypatch.setattr(stream, "lloyd", fragile)
    with pytest.raises(InputError, match="has gone"):
        compare(folders[0], systems, measure=measure, repeats=1, engine=engine)
    result = compare(folders[0], systems, measure=measure, repeats=1, engine=engine)
    assert len(calls) == 5
    assert caplog.text.count("clusters-0: taken from the checkpoint") == 3
    assert result.to_json() == compare(X, {"y": Y, "z": Z}, measure=measure, repeats=1).to_json()
    assert not list((tmp_path / "kept").iterdir())


# --- errors


def test_widths_must_agree(tmp_path):
    x = write_shards(tmp_path / "x", X, [100])
    y = write_shards(tmp_path / "y", Y[:, :5], [100])
    with pytest.raises(InputError, match="`reference` and `model` must have features of the same width; got 12 and 5"):
        score(x, y, engine=Threads())


def test_more_bins_than_anyone_can_wait_for(monkeypatch):
    import mallow.estimate._stream as stream

    monkeypatch.setattr(stream, "_MOST_WORK", 1e5)
    with pytest.raises(
        InputError, match=r"`bins` must be fewer for this many samples: 40 bins for 900 rows of \d+ columns take"
    ):
        score(X, Y, engine=Threads())


def test_more_rows_to_cluster_than_fit_the_memory(monkeypatch):
    """900 rows of 12 columns, three times in memory: 129,600 bytes; the message names a sample that fits."""
    unreduced = Quantize(reduce=None, bins=10)
    monkeypatch.setenv("MALLOW_MEMORY", str(900 * 12 * 3 * 4 - 1))
    with pytest.raises(
        InputError,
        match=r"`sample` must be smaller: to cluster 900 rows of 12 columns takes about 0\.00013 GB, more than the "
        r"memory allows \(0\.00013 GB\)\. Pass Quantize\(sample=899\)",
    ):
        score(X, Y, measure=Measure(unreduced), engine=Threads())
    for fine in (Quantize(bins=10), replace(unreduced, sample=899)):  # reduced to fewer columns; fewer rows
        score(X, Y, measure=Measure(fine), repeats=1, engine=Threads())
    monkeypatch.setenv("MALLOW_MEMORY", str(900 * 12 * 3 * 4))
    score(X, Y, measure=Measure(unreduced), repeats=1, engine=Threads())


def test_estimators_that_need_all_rows(tmp_path, monkeypatch):
    x, y = write_shards(tmp_path / "x", X, [100]), write_shards(tmp_path / "y", Y, [100])
    measure = Measure(Neighbors())
    assert score(x, y, measure=measure, repeats=1).mauve == score(X, Y, measure=measure, repeats=1).mauve
    monkeypatch.setenv("MALLOW_MEMORY", "10kB")
    with pytest.raises(InputError, match="more than the 1e-05 GB allowed"):
        score(x, y, measure=measure)


def test_a_damaged_checkpoint(tmp_path):
    samples, lost = read(write_shards(tmp_path / "x", X, [100])), tmp_path / "x" / "part-001.npy"
    lost.unlink()
    engine = Threads(1, checkpoint=str(tmp_path / "kept"))
    with pytest.raises(InputError, match="the shard is no longer there"):
        score(samples, Y, engine=engine)
    (kept,) = tmp_path.glob("kept/*/survey-0.npz")
    kept.write_bytes(b"not an archive")
    with pytest.raises(InputError, match=r"survey-0.npz: the checkpoint is damaged: .* Remove it and start again"):
        score(samples, Y, engine=engine)


def test_automatic_bins_of_many_rows_are_the_same_in_memory_in_chunks_and_in_any_order():
    x, y = np.random.default_rng(0).normal(size=(2, 16_000, 5)).astype(np.float32)
    plain = score(x, y, repeats=1)
    assert plain.signature.bins == 737  # places the centres on 29,480 of the 32,000 rows
    for other in (score(x[::-1], y[::-1], repeats=1), score(x, y, repeats=1, engine=Threads())):
        assert (other.mauve, other.self_score) == (plain.mauve, plain.self_score)
