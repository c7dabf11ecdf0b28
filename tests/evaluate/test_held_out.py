"""Held-out evidence: what makes it doubtful, and the samples that are in memory."""

import logging
import warnings
from dataclasses import replace

import numpy as np
import pytest
from pytest import approx

import mallow
from made_results import made_passport
from mallow import MAUVE_STAR, EstimateWarning, Samples
from mallow.caveats import evidence_caveats
from mallow.engine import Threads
from mallow.evaluate import Settings, score_embedded
from mallow.evidence import IdentityTest, _held_out, hold_out

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
EVIDENCE = made_passport().evidence


def evidence(reference, model, *, exact=True, permutations=99):
    units = [np.asarray(own) for own in (reference, model)]
    scores = [np.linspace(-1, 1, len(own)) for own in units]
    keys = np.arange(1 + max(own.max() for own in units), dtype=np.uint64)
    return replace(
        EVIDENCE,
        **dict(zip(("reference_scores", "model_scores"), scores, strict=True)),
        **dict(zip(("reference_units", "model_units"), units, strict=True)),
        keys=keys,
        test=IdentityTest(0.5, permutations, exact, False, {}),
    )


@pytest.mark.parametrize(
    ("reference", "model", "few"),
    [
        (range(20), range(20), None),
        (range(19), range(19), 19),
        (range(10), range(10, 20), None),  # those of both sides together
        (range(10), range(9, 19), 19),
        ([7] * 30, [7] * 30, 1),
    ],
)
def test_twenty_units_are_enough(reference, model, few):
    caveats = evidence_caveats(evidence(reference, model))
    assert [(one.kind, dict(one.values)) for one in caveats] == ([] if few is None else [("few units", {"units": few})])
    if few is not None:
        assert caveats[0].message.startswith(
            f"only {few} independent units (samples that share an id or a prompt count"
        )


def test_a_test_that_is_not_exact_is_told():
    (caveat,) = evidence_caveats(evidence(range(30), range(30), exact=False))
    assert caveat.kind == "groups cut"
    assert caveat.message.endswith("Give both sides the same prompts to use all.")
    assert [one.kind for one in evidence_caveats(evidence(range(3), range(3), exact=False))] == [
        "few units",
        "groups cut",
    ]
    (caveat,) = evidence_caveats(evidence(range(30), range(30), exact=False, permutations=0))
    assert caveat.kind == "no test"
    assert caveat.message.startswith("there is no p-value (it says 1): the samples of a side come in fewer than five")


@pytest.fixture(scope="module")
def held_out():
    rng = np.random.default_rng(0)
    x = Samples(features=rng.normal(size=(60, 3)))
    near, far, other = (Samples(features=rng.normal(shift, 1.0, size=(60, 3))) for shift in (0.0, 1.5, 1.4))
    return hold_out(MAUVE_STAR, {"near": (x, near), "far": (x, far), "other": (x, other)})


def test_each_system_has_evidence_a_certificate_and_its_samples(held_out):
    assert list(held_out.evidence) == list(held_out.certificates) == list(held_out.samples) == ["near", "far", "other"]
    for name, one in held_out.evidence.items():
        assert held_out.evidence_in_memory(name) is one
        assert one.test.permutations in (499, 4_999, 99_999)
        again = one.certify(MAUVE_STAR.divergence, MAUVE_STAR.area_scale)
        assert again.estimates == held_out.certificates[name].estimates
    assert held_out.evidence["far"].test.p_value < 0.01 < held_out.evidence["near"].test.p_value
    pair = held_out.samples["far"]
    alone = score_embedded(*pair, Settings(MAUVE_STAR, repeats=1, seed=3))
    assert alone.certified == held_out.certificates["far"].estimates


def test_evidence_in_memory_is_that_of_the_places(held_out):
    places = np.array([5, 1, 7]), np.array([2, 0])
    some = replace(held_out, places={"far": places}).evidence_in_memory("far")
    whole = held_out.evidence["far"]
    for name, own in zip(("reference", "model"), places, strict=True):
        for kind in ("scores", "units"):
            assert np.array_equal(getattr(some, f"{name}_{kind}"), getattr(whole, f"{name}_{kind}")[own])
    assert some.keys is whole.keys


def test_a_difference_turns_its_sign_with_the_order(held_out):
    for first, second in (("near", "far"), ("far", "other")):
        one, turned = held_out.difference(first, second), held_out.difference(second, first)
        for name in ("mauve", "frontier_integral", "midpoint"):
            values = [held_out.certificates[own].estimates[name].value for own in (first, second)]
            assert one.value[name] == approx(values[0] - values[1], abs=1e-9)
            assert turned.value[name] == approx(-one.value[name], abs=1e-12)
            assert turned.p_value[name] == approx(one.p_value[name], rel=1e-6)
    assert held_out.difference("near", "far").p_value["mauve"] < 0.05


def test_the_time_of_evidence_is_logged(caplog):
    x, y = np.random.default_rng(1).normal(size=(2, 30, 2))
    with caplog.at_level(logging.INFO, "mallow"):
        mallow.score(x, y, repeats=1, engine=Threads(1))
    (line,) = [one.getMessage() for one in caplog.records if one.getMessage().startswith("evidence: ")]
    assert 0.0 <= float(line.removeprefix("evidence: ").removesuffix(" s")) < 100.0
    assert _held_out.PERMUTATIONS == 499


def test_systems_with_one_certificate_come_in_the_order_of_their_scores():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 2))
    systems = {name: rng.normal(size=(40, 2)) for name in "abcd"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        found = mallow.compare(x, systems, repeats=1)
        labels = sorted("abcd" * 40)
        groups = mallow.score(
            np.tile(x, (4, 1)), np.concatenate(list(systems.values())), by=(labels, labels), repeats=1
        )
    order = [(one.certified["mauve"].value, one.mauve) for one in found.scores.values()]
    assert order == sorted(order, reverse=True)
    assert len({value for value, _ in order}) < 4  # at least two have the same certificate
    assert list(found.scores) != sorted(found.scores)
    order = [(one.certified["mauve"].value, one.mauve) for one in groups.scores.values()]
    assert order == sorted(order)
