"""Reasons: both tests must agree, what says the same is said once, and nothing is said without a gap."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx

from explain.made import evidence_of, make_texts, with_features
from mallow import InputError, Samples
from mallow.evidence import Witness, find_units, gather_evidence, make_learner
from mallow.explain import Reason, find_reasons
from mallow.results import from_plain, to_plain

RNG = np.random.default_rng(7)


def planted(n=200, share=0.5, noise=0.5, seed=3):
    """Texts of which a share of the model's begins with a phrase, and scores that are lower for these."""
    rng = np.random.default_rng(seed)
    human, machine = make_texts(n, seed), make_texts(n, seed + 100)
    has = rng.random(n) < share
    machine = [f"maybe since after {text}" if own else text for text, own in zip(machine, has, strict=True)]
    scores = 0.5 + noise * rng.normal(size=n), -2.0 * has + 0.5 + noise * rng.normal(size=n)
    return (with_features(human), with_features(machine, 1)), evidence_of(*scores)


def test_a_phrase_that_gives_the_model_away_is_the_first_reason():
    sides, evidence = planted()
    first = find_reasons(*sides, evidence)[0]
    assert first.kind == "words"
    assert first.text.startswith("“after”, “maybe” and “since” more often (“after” in ")
    assert first.terms == ("after", "maybe", "since")
    assert first.text.endswith("% of the texts, reference 0%)")
    assert first.p_value <= first.adjusted < 1e-6
    assert first.values["explained"] == approx(1, abs=0.2)


def test_what_differs_but_does_not_go_with_the_score_is_no_reason():
    sides, evidence = planted()
    rng = np.random.default_rng(1)
    shuffled = replace(evidence, model_scores=rng.permutation(evidence.model_scores))
    assert find_reasons(*sides, shuffled) == ()


def test_what_goes_with_the_score_the_wrong_way_is_no_reason():
    sides, evidence = planted()
    scores = evidence.model_scores
    backwards = replace(evidence, model_scores=2 * scores.mean() - scores)  # the phrase now makes a text look human
    assert find_reasons(*sides, backwards) == ()


def test_what_goes_with_the_score_on_both_sides_alike_is_no_reason():
    rng = np.random.default_rng(2)
    human, machine = make_texts(300, 1), make_texts(300, 2)
    has = rng.random(600) < 0.5
    texts = [f"maybe since after {text}" if own else text for text, own in zip([*human, *machine], has, strict=True)]
    scores = np.repeat([1.0, -1.0], 300) - 2.0 * has + rng.normal(size=600) / 2
    sides = with_features(texts[:300]), with_features(texts[300:], 1)
    assert find_reasons(*sides, evidence_of(scores[:300], scores[300:])) == ()


def test_without_a_gap_there_are_no_reasons():
    sides, evidence = planted()
    assert find_reasons(*sides, replace(evidence, test=replace(evidence.test, p_value=0.05))) == ()
    assert find_reasons(*sides, replace(evidence, test=replace(evidence.test, p_value=0.049))) != ()
    nothing = np.zeros(200)
    assert find_reasons(*sides, replace(evidence, reference_scores=nothing, model_scores=nothing)) == ()
    assert find_reasons(*sides, replace(evidence, reference_scores=nothing - 3)) == ()  # nothing was learned that holds


def test_what_says_the_same_is_said_once():
    """The model repeats itself: fewer different words, repeated phrases, missing words, all at once."""
    rng = np.random.default_rng(5)
    human = make_texts(200, 1, (30, 31))
    loops = rng.random(200) < 0.7
    machine = [
        " ".join(text.split()[:5] * 6) + "." if own else text
        for text, own in zip(make_texts(200, 2, (30, 31)), loops, strict=True)
    ]
    scores = 1.0 + rng.normal(size=200) / 2, 1.0 - 3.0 * loops + rng.normal(size=200) / 2
    (reason,) = find_reasons(with_features(human), with_features(machine, 1), evidence_of(*scores))
    assert reason.kind == "trait"
    assert "repeated phrases" in reason.text or "different words" in reason.text
    assert reason.values["explained"] > 0.8


def test_two_defects_are_two_reasons_the_larger_first():
    rng = np.random.default_rng(6)
    before, after = rng.random((2, 300)) < 0.6
    machine = [
        " " * one + text + " " * other
        for text, one, other in zip(make_texts(300, 2), before.tolist(), after.tolist(), strict=True)
    ]
    scores = 1.0 + rng.normal(size=300) / 3, 1.0 - before - 3.0 * after + rng.normal(size=300) / 3
    sides = with_features(make_texts(300, 1)), with_features(machine, 1)
    first, second = find_reasons(*sides, evidence_of(*scores))
    assert first.text == "58% of the texts end with white space (reference 0%)"
    assert second.text == "58% of the texts begin with white space (reference 0%)"
    assert first.values["explained"] == approx(0.75, abs=0.1)
    assert second.values["explained"] == approx(0.25, abs=0.1)


def test_texts_that_are_cut_are_shorter():
    """Their length varies more, too, but that is said less well."""
    rng = np.random.default_rng(6)
    cut = rng.random(300) < 0.6
    human, whole = ([text.rstrip(".") for text in make_texts(300, seed, (30, 40))] for seed in (1, 2))
    machine = [" ".join(text.split()[: 15 if own else 40]) for text, own in zip(whole, cut, strict=True)]
    scores = 1.0 + rng.normal(size=300) / 3, 1.0 - 3.0 * cut + rng.normal(size=300) / 3
    first, *others = find_reasons(with_features(human), with_features(machine, 1), evidence_of(*scores))
    assert first.text == "shorter texts (median 15 words, reference 34)"
    assert all(reason.kind != "length" for reason in others)


def test_p_values_are_corrected_for_both_families_and_both_tests():
    """The columns are corrected by their number, means and spreads; then for two families and for two tests."""
    rng = np.random.default_rng(15)
    x, y = rng.normal(size=(2, 300, 20))
    y[:, 3] += 0.4
    scores = -2.0 * x[:, 3] + rng.normal(size=300), -2.0 * y[:, 3] + rng.normal(size=300)
    (reason,) = find_reasons(Samples(features=x), Samples(features=y), evidence_of(*scores))
    assert reason.p_value > 1e-16
    assert reason.adjusted == approx(2 * 2 * (2 * 20) * reason.p_value)


def test_there_are_five_reasons_at_most():
    rng = np.random.default_rng(8)
    human = make_texts(400, 1)
    parts = [" (so)", ' "well"', " 42", "\nyes", " A B C", ", then,", " extraordinarily"]
    has = rng.random((400, len(parts))) < 0.5
    machine = [
        text + "".join(part for part, own in zip(parts, row, strict=True) if own)
        for text, row in zip(make_texts(400, 2), has, strict=True)
    ]
    scores = 2.0 + rng.normal(size=400) / 4, 2.0 - has.sum(axis=1) + rng.normal(size=400) / 4
    reasons = find_reasons(with_features(human), with_features(machine, 1), evidence_of(*scores))
    assert len(reasons) == 5
    assert [reason.values["explained"] for reason in reasons] == sorted(
        (reason.values["explained"] for reason in reasons), reverse=True
    )


def test_reasons_of_features_are_columns_and_distances():
    x, y = RNG.normal(size=(2, 300, 20))
    y[:, 3] += 1.5
    sides = Samples(features=x), Samples(features=y)
    evidence = gather(sides)
    (reason,) = find_reasons(*sides, evidence)
    assert reason.text.startswith("larger values in column 3 (mean 1.6, reference 0.0)")
    assert reason.kind == "trait"
    narrow = Samples(features=x), Samples(features=RNG.normal(0, 0.7, size=(300, 20)))
    assert find_reasons(*narrow, gather(narrow))[0].text.startswith("features that vary less (mean squared distance")


def gather(sides):
    units = find_units(*sides)
    learner = make_learner(Witness(assignments=2), [side.require_features() for side in sides], units)
    return gather_evidence(learner, 1, permutations=199, seed=0)


def test_a_single_feature_will_do():
    x, y = RNG.normal(size=200), RNG.normal(2.0, 1.0, size=200)
    sides = Samples(features=x), Samples(features=y)
    assert "column 0" in find_reasons(*sides, evidence_of(-x, -y))[0].text


def test_the_order_of_samples_does_not_matter():
    sides, evidence = planted()
    order = np.random.default_rng(0).permutation(200)
    moved = replace(evidence, model_scores=evidence.model_scores[order], model_units=evidence.model_units[order])
    assert find_reasons(sides[0], sides[1].take(order), moved) == find_reasons(*sides, evidence)


def test_several_samples_for_a_prompt_count_as_one():
    """Forty copies of four texts are four: nothing is significant."""
    sides, evidence = planted(n=8, share=0.99)
    copies = np.repeat(np.arange(8), 40)
    many = evidence_of(evidence.reference_scores[copies], evidence.model_scores[copies], copies, copies)
    apart = evidence_of(many.reference_scores, many.model_scores)
    sides = [side.take(copies) for side in sides]
    assert find_reasons(*sides, apart) != ()
    assert find_reasons(*sides, many) == ()


def test_evidence_about_other_samples_is_refused():
    sides, evidence = planted()
    message = r"`evidence` must be about these samples, but it has 200 scores for the 100 samples of `model`\. Gather it again\."
    with pytest.raises(InputError, match=message):
        find_reasons(sides[0], sides[1].take(range(100)), evidence)


def test_a_reason_survives_json():
    sides, evidence = planted()
    reasons = find_reasons(*sides, evidence)
    assert from_plain(tuple[Reason, ...], json.loads(json.dumps(to_plain(reasons)))) == reasons


# --- real texts


def texts_of(shared, name, count):
    with gzip.open(shared / "data" / "webtext-gpt2-large" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(next(lines))["gen"][0] for _ in range(count)]


def hashed(texts):
    """The square roots of counts of words, in 64 columns."""
    counts = np.zeros((len(texts), 64))
    for row, text in enumerate(texts):
        for word in text.lower().split():
            counts[row, sum(map(ord, word)) % 64] += 1
    return np.sqrt(counts)


def test_greedy_text_repeats_itself(shared):
    sides = [
        Samples(texts=own, features=hashed(own))
        for own in (texts_of(shared, name, 300) for name in ("human", "greedy"))
    ]
    first = find_reasons(*sides, gather(sides))[0]
    assert first.text.startswith("fewer different words (")
    assert first.adjusted < 1e-6


def test_halves_of_human_text_have_no_reasons(shared):
    texts = texts_of(shared, "human", 600)
    features = hashed(texts)
    everything = Samples(texts=texts, features=features)
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(600)
        sides = everything.take(order[:300]), everything.take(order[300:])
        axis = features[order] @ np.random.default_rng(100 + seed).normal(
            size=64
        )  # a score that sees some of the words
        scores = (axis - axis.mean()) / axis.std() + np.repeat([0.5, -0.5], 300)
        assert find_reasons(*sides, evidence_of(scores[:300], scores[300:])) == ()
