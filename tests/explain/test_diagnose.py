"""Diagnosis: shares and examples on planted points, then a topic planted in real texts."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from explain.made import evidence_of
from explain.planted import TEXTS, TWELVE_BINS, TWO_BINS, X, Y, lengths_as_features, with_loops
from mallow import MAUVE_STAR, EstimateWarning, InputError, Measure, Neighbors, Quantize, Samples, score
from mallow.embed import NGramKernel
from mallow.errors import Caveat
from mallow.evaluate import Settings, score_embedded
from mallow.evidence import hold_out
from mallow.explain import Diagnosis, Example, Region, diagnose, diagnose_embedded
from mallow.explain import _diagnosis as _diagnose
from mallow.theory import extrapolated

# --- shares of the gap


@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
def test_the_gap_is_the_midpoint_of_a_score_with_one_repeat():
    gap = diagnose(X, Y, measure=TWELVE_BINS, rng=3).gap
    assert gap["missed"] + gap["invented"] == approx(score(X, Y, measure=TWELVE_BINS, repeats=1, rng=3).midpoint)
    assert gap["invented"] > gap["missed"] > 0


def test_shares_of_all_bins_sum_to_one_and_fall():
    diagnosis = diagnose(X, Y, measure=TWELVE_BINS, regions=12)
    assert len(diagnosis.regions) == diagnosis.bins == 12
    for side, regions in (("missed", diagnosis.missed), ("invented", diagnosis.invented)):
        shares = [region.share for region in regions]
        assert sum(shares) == approx(1)
        assert shares == sorted(shares, reverse=True)
        assert {region.side for region in regions} == {side}
    assert sum(region.reference for region in diagnosis.regions) == 400
    assert all(region.reference > region.model for region in diagnosis.missed)
    assert all(region.reference < region.model for region in diagnosis.invented)
    assert diagnose(X, Y, measure=TWELVE_BINS, regions=2).missed == diagnosis.missed[:2]


def test_exchanging_the_sides_exchanges_missed_and_invented():
    there, back = diagnose(X, Y), diagnose(Y, X)
    assert there.gap == approx({"missed": back.gap["invented"], "invented": back.gap["missed"]})
    for one, other in zip(there.invented, back.missed, strict=True):
        assert (one.bin, one.reference, one.model) == (other.bin, other.model, other.reference)
        assert (one.share, one.p_value, one.adjusted) == approx((other.share, other.p_value, other.adjusted))
        assert one.model_examples == other.reference_examples


def test_equal_samples_have_no_regions():
    diagnosis = diagnose(X, X)
    assert (diagnosis.missed, diagnosis.invented, diagnosis.gap) == ((), (), {"missed": 0.0, "invented": 0.0})
    assert "MISSED by the model: nothing" in str(diagnosis)


def test_bins_are_few_unless_a_number_is_passed():
    diagnosis = diagnose(X, Y)
    assert diagnosis.bins == diagnosis.signature.bins == 28  # √800
    assert "bins=28" in diagnosis.signature.measure
    assert diagnose(X, Y, measure=Measure(Quantize(bins=7))).bins == 7
    codebook = Quantize(bins=9).fit(X, Y)
    diagnosis = diagnose(X, Y, measure=Measure(Quantize(codebook=codebook)))
    assert diagnosis.bins == 9
    assert diagnosis.invented[0].significant
    assert all(example.place >= 360 for example in diagnosis.invented[0].model_examples)


def test_a_planted_cluster_is_named_first_with_the_right_numbers():
    diagnosis = diagnose(X, Y, measure=Measure(Quantize(bins=8, reduce=None)), examples=100, paired=True)
    first = diagnosis.invented[0]
    assert first.significant
    assert first.share > 0.5
    assert (first.reference, first.model) == (0, 40)
    assert first.expected == (20, 20)
    assert first.adjusted >= first.p_value == approx(2 * 0.5**40)  # none of 40 pairs of rows has its reference here
    alone = diagnose(X, Y[1:], measure=Measure(Quantize(bins=8, reduce=None)), examples=0).invented[0]
    assert alone.p_value == approx(2 * math.comb(399, 40) / math.comb(799, 40))
    assert {example.place for example in first.model_examples} == set(range(360, 400))
    assert diagnosis.sample_kind == "features"
    assert (first.terms, first.lengths) == ((), {})


def test_expected_counts_follow_the_sizes():
    region = diagnose(X, Y[:100], measure=Measure(Quantize(bins=4))).missed[0]
    assert sum(region.expected) == region.reference + region.model
    assert region.expected[0] == approx(4 * region.expected[1])


def test_a_seed_a_generator_or_nothing():
    assert diagnose(X, Y, rng=5) == diagnose(X, Y, rng=5)
    drawn, again = (diagnose(X, Y, rng=np.random.default_rng(1)) for _ in range(2))
    assert drawn == again == diagnose(X, Y, rng=drawn.signature.rng)
    assert diagnose(X, Y, rng=None).signature.rng != diagnose(X, Y, rng=None).signature.rng


# --- examples, terms and lengths


@settings(max_examples=20)
@given(seed=st.integers(0, 100))
def test_examples_are_the_nearest_to_the_centre(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 60, 2))
    codebook = Quantize(bins=3, reduce=None).fit(x, y)
    sides, nothing = [Samples(features=side) for side in (x, y)], evidence_of(np.zeros(60), np.zeros(60))
    measure = Measure(Quantize(codebook=codebook))
    diagnosis = diagnose_embedded(*sides, measure=measure, examples=4, seed=0, evidence=nothing)
    for region in diagnosis.regions:
        for rows, examples in ((x, region.reference_examples), (y, region.model_examples)):
            inside = np.flatnonzero(codebook.labels(rows) == region.bin)
            away = np.linalg.norm(rows - codebook.centres[region.bin], axis=1)
            assert [example.place for example in examples] == sorted(inside, key=lambda i: away[i])[:4]


def test_equal_texts_are_shown_once_and_lengths_tell():
    diagnosis = diagnose(Samples(texts=TEXTS), with_loops(30), embedder=lengths_as_features, measure=TWO_BINS)
    first = diagnosis.invented[0]
    assert [(example.place, example.text) for example in first.model_examples] == [(20, with_loops(30)[20])]
    assert first.reference_examples == ()
    assert first.model == 30
    assert first.lengths == {"region": 10, "elsewhere": 6}
    assert diagnosis.missed[0].lengths == {"region": 6, "elsewhere": 10}
    assert first.terms == ("loop",)
    assert diagnosis.sample_kind == "text"


def test_ids_go_with_the_examples():
    samples = Samples(texts=TEXTS, ids=[f"id-{i}" for i in range(50)])
    missed = diagnose(samples, with_loops(20), embedder=lengths_as_features, measure=TWO_BINS).missed[0]
    examples = missed.reference_examples
    assert [example.place for example in examples] == [0, 1, 2]  # all are equally near
    assert all(example.id == f"id-{example.place}" for example in examples)
    assert all(example.text == TEXTS[example.place] for example in examples)
    assert missed.model_examples[0].id is None


def test_samples_with_features_are_not_embedded_again():
    calls = []

    def embedder(texts):
        calls.append(len(texts))
        return lengths_as_features(texts)

    direct = diagnose(TEXTS, with_loops(20), embedder=embedder, measure=TWO_BINS)
    assert calls == [50, 50]
    sides = [Samples(texts=texts, features=lengths_as_features(texts)) for texts in (TEXTS, with_loops(20))]
    embedded = diagnose(*sides, measure=TWO_BINS)
    assert (embedded.regions, embedded.gap, embedded.sample_kind) == (direct.regions, direct.gap, "text")


def test_a_joint_embedder_works_too():
    cats = [f"the soft cat sat on mat number {i}" for i in range(60)]
    dogs = [f"some big dog ran round tree number {i}" for i in range(60)]
    model = cats[30:] + dogs[30:40]
    first = diagnose(cats[:30] + dogs[:30], model, embedder=NGramKernel(n=1), measure=TWO_BINS).missed[0]
    assert (first.reference, first.model) == (30, 10)
    assert "dog" in " ".join(first.terms)


# --- errors and caveats


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regions": 0}, r"`regions` must be an integer of at least 1; got 0\."),
        ({"examples": -1}, r"`examples` must be an integer of at least 0; got -1\."),
        ({"rng": -1}, r"`rng` must be an integer of at least 0, a numpy Generator or None; got -1\."),
        (
            {"measure": Measure(Neighbors())},
            r"`measure` must have bins to tell regions apart, but its estimator is Neighbors\(.*\)\. Use Measure\(Quantize\(\)\)\.",
        ),
        (
            {"measure": Measure(Quantize(smoothing=extrapolated))},
            r"`measure` must smooth each bin separately, so that the gap can be split into bins; `extrapolated` looks at "
            r"half-samples\. Use the default smoothing of Quantize\(\)\.",
        ),
    ],
)
def test_refused(options, message):
    with pytest.raises(InputError, match=message):
        diagnose(X, Y, **options)


def test_sides_of_two_kinds_are_refused():
    with pytest.raises(InputError, match=r"All samples must be of one kind; got reference: text, model: features\."):
        diagnose(TEXTS, X)


def test_caveats_are_kept_and_raised_as_warnings_once():
    with pytest.warns(EstimateWarning, match="% of the 100 bins hold too few samples to be significant") as caught:
        diagnosis = diagnose(X, Y, measure=Measure(Quantize(bins=100)))
    assert [str(warning.message) for warning in caught] == [str(caveat) for caveat in diagnosis.caveats]
    assert [caveat.kind for caveat in diagnosis.caveats] == ["small bins"]
    assert f"caveat: {diagnosis.caveats[0].message}" in str(diagnosis)


def test_embedded_samples_are_diagnosed_without_warnings():
    measure = Measure(Quantize(bins=100))
    diagnosis = diagnose_embedded(Samples(features=X), Samples(features=Y), measure=measure, seed=3)
    assert [caveat.kind for caveat in diagnosis.caveats] == ["small bins"]
    with pytest.warns(EstimateWarning):
        assert diagnosis == diagnose(X, Y, measure=measure, rng=3)


def test_samples_that_share_an_id_count_as_one():
    features, measure = np.concatenate([X[:100], Y[-40:]]), Measure(Quantize(bins=6, reduce=None))
    apart = diagnose(X[:150], features, measure=measure).invented[0]
    sides = Samples(features=X[:150]), Samples(features=features, ids=[str(i // 10) for i in range(140)])
    with pytest.warns(EstimateWarning, match="differ in size"):
        together = diagnose(*sides, measure=measure)
    assert [caveat.kind for caveat in together.caveats] == ["groups cut"]
    together = together.invented[0]
    assert (together.reference, together.model) == (apart.reference, apart.model) == (0, 40)
    assert apart.p_value < 1e-9 < 0.01 < together.p_value


# --- what gives the model away


@pytest.fixture(scope="module")
def of_features() -> Diagnosis:
    return diagnose(X, Y, measure=TWELVE_BINS)


def test_a_diagnosis_has_the_evidence_of_a_score(of_features):
    of_score = score_embedded(Samples(features=X), Samples(features=Y), Settings(TWELVE_BINS, repeats=1, seed=0))
    assert of_features.p_value == of_score.p_value == 1 / 5000
    assert of_features.certified == of_score.certified
    assert of_features.reasons == of_score.reasons
    assert of_features.verdict == of_score.verdict
    assert of_features.verdict.startswith("The gap is real: with 95% confidence MAUVE is at most 0.9")
    assert of_score.evidence is not None
    lowest = np.argsort(of_score.evidence.model_scores, kind="stable")[:10]
    assert [one.place for one in of_features.giveaways] == lowest.tolist()
    assert [one.score for one in of_features.giveaways] == of_score.evidence.model_scores[lowest].tolist()
    highest = np.argsort(-of_score.evidence.reference_scores, kind="stable")[:10]
    assert [one.place for one in of_features.unmatched] == highest.tolist()
    assert [one.rank for one in of_features.unmatched] == list(range(1, 11))


def test_planted_samples_give_the_model_away(of_features):
    assert len(of_features.giveaways) == 10
    assert all(one.place >= 360 and one.score < 0 for one in of_features.giveaways)
    assert all(one.score > 0 for one in of_features.unmatched)
    first = of_features.invented[0]
    assert first.score < -1
    assert any("columns 0 and 1" in reason.text or "columns 1 and 0" in reason.text for reason in of_features.reasons)


def test_the_score_of_a_region_is_the_mean_of_the_side_in_excess():
    rng = np.random.default_rng(0)
    evidence = evidence_of(rng.normal(size=400), rng.normal(size=400))
    sides = Samples(features=X), Samples(features=Y)
    diagnosis = diagnose_embedded(*sides, measure=TWELVE_BINS, seed=0, evidence=evidence, examples=400)
    for region in diagnosis.regions:
        examples = region.reference_examples if region.side == "missed" else region.model_examples
        scores = evidence.reference_scores if region.side == "missed" else evidence.model_scores
        assert region.score == approx(scores[[example.place for example in examples]].mean())


def test_evidence_is_not_gathered_twice(monkeypatch):
    sides = Samples(features=X), Samples(features=Y)
    evidence = hold_out(TWELVE_BINS, {"model": sides}).evidence["model"]
    expected = diagnose(X, Y, measure=TWELVE_BINS, rng=4)
    monkeypatch.setattr(_diagnose, "hold_out", None)
    assert diagnose_embedded(*sides, measure=TWELVE_BINS, seed=4, evidence=evidence) == expected


def test_equal_texts_give_the_model_away_once():
    sides = [
        Samples(texts=texts, features=lengths_as_features(texts), ids=range(50)) for texts in (TEXTS, with_loops(20))
    ]
    scores = np.linspace(1, 0.1, 50), np.linspace(0.5, -1, 50)
    diagnosis = diagnose_embedded(*sides, measure=TWO_BINS, seed=0, evidence=evidence_of(*scores))
    loop, *others = diagnosis.giveaways
    assert (loop.text, loop.id, loop.place, loop.rank, loop.score) == (with_loops(20)[-1], "49", 49, 1, -1.0)
    assert all(one.text != loop.text and one.score < 0 for one in others)
    assert [one.text for one in diagnosis.unmatched] == TEXTS[:10]


def test_without_a_gap_nothing_gives_the_model_away():
    sides = Samples(features=X), Samples(features=X[::-1].copy())
    evidence = evidence_of(np.ones(400), -np.ones(400), p_value=0.05)
    diagnosis = diagnose_embedded(*sides, measure=TWELVE_BINS, seed=0, evidence=evidence)
    assert (diagnosis.giveaways, diagnosis.unmatched, diagnosis.reasons) == ((), (), ())


def test_caveats_of_the_embedder_and_of_the_estimator_are_passed_on():
    class Embedder:
        name = "lengths"

        def __call__(self, texts):
            return np.array(lengths_as_features(texts))

        def caveats(self, texts):
            return [Caveat("cut", f"{len(texts)} texts were cut.")]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        diagnosis = diagnose(TEXTS, with_loops(20), embedder=Embedder(), measure=Measure(Quantize(bins=9, reduce=None)))
    sides, estimator = diagnosis.caveats[:2], diagnosis.caveats[2]
    assert [(caveat.kind, caveat.system) for caveat in sides] == [("cut", "reference"), ("cut", "model")]
    assert "distinct" in estimator.message


# --- a story: a topic in real texts

TYPICAL = {"object", "method", "class", "function", "attribute", "python", "expression", "statement", "module", "type"}
SEEDS = range(25)  # a single clustering may split the topic, and differs between processors


def join(*parts: Samples) -> Samples:
    texts = [text for part in parts for text in part.require_texts()]
    return Samples(texts=texts, features=np.concatenate([part.require_features() for part in parts]))


def diagnose_with_seeds(sides: tuple[Samples, Samples]) -> list[Diagnosis]:
    """Diagnoses with other clusterings; the evidence is gathered once."""
    evidence = hold_out(MAUVE_STAR, {"model": sides}).evidence["model"]
    options = {"measure": MAUVE_STAR, "examples": 100, "evidence": evidence}
    return [diagnose_embedded(*sides, **options, seed=seed) for seed in SEEDS]


def check_that_documentation_is_named(
    regions: list[tuple[Region, tuple[Example, ...]]], documentation: Samples, others: list[tuple[Region, ...]]
) -> None:
    """The first region of nearly every clustering is the documentation, and of most it is significant and nearly pure."""
    planted = [[example.text in documentation.texts for example in examples] for _, examples in regions]
    assert np.mean([all(hits[:3]) for hits in planted]) >= 0.8
    assert np.median([np.mean(hits) for hits in planted]) >= 0.8
    assert np.median([sum(hits) for hits in planted]) >= 0.5 * len(documentation)
    assert np.mean([region.significant for region, _ in regions]) >= 0.6
    assert np.mean([bool(set(" ".join(region.terms).split()) & TYPICAL) for region, _ in regions]) >= 0.8
    assert np.mean([any(region.significant for region in side) for side in others]) <= 0.2


def test_a_topic_that_only_the_model_has_is_the_first_invented(web_and_documentation):
    web, documentation = web_and_documentation
    sides = web.take(range(300)), join(web.take(range(300, 570)), documentation)
    diagnoses = diagnose_with_seeds(sides)
    assert {diagnosis.sample_kind for diagnosis in diagnoses} == {"text"}
    assert diagnoses[0].p_value < 0.01
    planted = [one.text in documentation.texts for one in diagnoses[0].giveaways]
    assert np.mean(planted) > 0.5
    first = [(diagnosis.invented[0], diagnosis.invented[0].model_examples) for diagnosis in diagnoses]
    check_that_documentation_is_named(first, documentation, [diagnosis.missed for diagnosis in diagnoses])


def test_a_topic_that_the_model_lacks_is_the_first_missed(web_and_documentation):
    web, documentation = web_and_documentation
    mixed = web.take(np.random.default_rng(1).permutation(len(web)))
    sides = join(mixed.take(range(270)), documentation), mixed.take(range(270, 570))
    diagnoses = diagnose_with_seeds(sides)
    planted = [one.text in documentation.texts for one in diagnoses[0].unmatched]
    assert np.mean(planted) > 0.5
    first = [(diagnosis.missed[0], diagnosis.missed[0].reference_examples) for diagnosis in diagnoses]
    check_that_documentation_is_named(first, documentation, [diagnosis.invented for diagnosis in diagnoses])
