"""A passport: the score is recomputed without the data, and no digit can be changed unseen."""

import copy
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

import mallow
from made_results import made_passport
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Classifier, Quantize
from mallow.evaluate._passport import _anonymous, canonical_digest, close
from mallow.evidence import SUMMARIES
from mallow.results import to_plain


def make(key=None, **options):
    rng = np.random.default_rng(0)
    ids = [f"secret id {i}" for i in range(150)]
    x = mallow.Samples(features=rng.normal(size=(150, 4)), ids=ids)
    y = mallow.Samples(features=rng.normal(0.6, 1.0, size=(150, 4)), ids=ids)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        score = mallow.score(x, y, repeats=3, **options)
        return score, mallow.make_passport(score, x, y, key=key, **options), (x, y)


@pytest.fixture(scope="module")
def made():
    return make(key="open sesame")


def test_everything_that_sums_allow_is_recomputed(made):
    score, passport, _ = made
    published, certified = passport.recompute_published(), passport.recompute_certified()
    for name in ("mauve", "frontier_integral", "midpoint"):
        assert published[name] == pytest.approx(getattr(score, name), rel=1e-9)
        assert certified[name] == score.certified[name]
    check = mallow.verify_passport(passport)
    assert check.valid
    assert check.verdict == "The passport is valid: all 10 checks agree."
    assert "- the p-value (it needs the features)" in str(check)


@pytest.mark.parametrize("measure", [mallow.MAUVE_2021, mallow.Measure(divergence=mallow.CHI2, scale=2.0)])
def test_other_measures_have_passports(measure):
    score, passport, _ = make(measure=measure)
    assert passport.recompute_published()["mauve"] == pytest.approx(score.mauve, rel=1e-9)
    assert mallow.verify_passport(passport).valid


def test_the_bins_count_other_samples(made):
    _, passport, (x, _) = made
    assert np.array_equal(passport.codebook.count(x.features), passport.reference_counts[0])


def test_no_id_is_in_the_file(made):
    score, passport, _ = made
    assert "secret" not in passport.to_json()
    assert not set(passport.evidence.keys.tolist()) & set(score.evidence.keys.tolist())


def numbers(data, path=()):
    """The path to every number and text."""
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        if isinstance(value, dict | list):
            yield from numbers(value, (*path, key))
        elif (*path, key) not in (("digest",), ("mac",), ("kind",)):
            yield (*path, key)


def test_any_change_breaks_the_seal(made):
    """The first and the last number or text of every field."""
    whole = made[1].to_dict()
    every = list(numbers(whole))
    ends = {path[0]: path for path in every} | {f"{path[0]}, first": path for path in reversed(every)}
    assert {path[0] for path in ends.values()} == set(whole) - {"digest", "mac", "kind"}
    for path in ends.values():
        data = copy.deepcopy(whole)
        inner = data
        for key in path[:-1]:
            inner = inner[key]
        value = inner[path[-1]]
        changed = not value if isinstance(value, bool) else value + 1 if isinstance(value, int | float) else f"{value}x"
        inner[path[-1]] = changed
        assert canonical_digest(data) != data["digest"], path


def test_a_changed_count_and_a_changed_score_are_named_even_under_a_new_digest(made):
    data = made[1].to_dict()
    data["published"]["mauve"] = 0.99
    data["digest"] = canonical_digest(data)
    check = mallow.verify_passport(data)
    assert not check.valid
    assert check.verdict == "The passport is NOT valid: published mauve does not agree."
    assert mallow.verify_passport(data, key="open sesame").verdict.startswith(
        "The passport is NOT valid: HMAC, published mauve do"
    )


def test_a_key_tells_who_made_it(made):
    passport = made[1]
    assert mallow.verify_passport(passport, key="open sesame").valid
    assert mallow.verify_passport(passport, key=b"open sesame").valid
    assert not mallow.verify_passport(passport, key="open barley").valid
    assert not mallow.verify_passport(passport.seal(), key="open sesame").valid
    with pytest.raises(InputError, match="`key` must not be empty"):
        passport.seal("")


def test_it_comes_back_from_a_file(made, tmp_path):
    path = tmp_path / "passport.json"
    path.write_text(made[1].to_json())
    again = mallow.evaluate.Passport.from_json(path.read_text())
    assert again.to_json() == made[1].to_json()
    path.write_text(
        json.dumps(json.loads(path.read_text()), indent=4, sort_keys=True)
    )  # white space and order are free
    assert mallow.verify_passport(path, key="open sesame").valid
    assert str(again).startswith("Passport of a score of 150 and 150 samples, sealed by SHA-256 and HMAC: ")
    again.plot()
    mallow.verify_passport(path).plot()


def test_what_is_no_passport_is_refused(made, tmp_path):
    score, _, (x, y) = made
    with pytest.raises(InputError, match="`measure` must have bins, and a smoothing and a divergence that have names"):
        mallow.make_passport(score, x, y, measure=mallow.Measure(Classifier()))
    with pytest.raises(InputError, match="`score` must be that of these samples"):
        mallow.make_passport(score, y, x.take(range(149)))
    path = tmp_path / "x.json"
    for text, message in (
        ("{", "`passport` must be a JSON file"),
        ("[]", "`passport` must be the JSON file of a passport; got list"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            mallow.verify_passport(path)
    with pytest.raises(InputError, match=r"`data` must be what Passport\.to_dict wrote; its kind is 'mallow score'"):
        mallow.verify_passport(score.to_dict())
    wrong = made[1].to_dict() | {"smoothing": "__builtins__"}
    with pytest.raises(InputError, match="a smoothing '__builtins__' or a divergence 'KL' is not known here"):
        mallow.verify_passport(wrong)


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("model_units", [7] * 149 + [150], "must be whole numbers below 150, their number"),
        ("reference_units", [7] * 149 + [-1], "must be whole numbers below 150, their number"),
        ("model_units", [7] * 149, r"each sample must have a score and a unit; got \(150,\) and \(149,\)"),
        ("reference_scores", [float("nan")] * 150, "held-out scores must be finite"),
    ],
)
def test_evidence_that_does_not_fit_is_named(part, values, message, made):
    score, passport, _ = made
    for whole, read in ((passport, mallow.verify_passport), (score, mallow.Score.from_dict)):
        data = copy.deepcopy(whole.to_dict())
        kind = np.float64 if "scores" in part else np.int64
        data["evidence"][part] = to_plain(np.array(values, kind))
        with pytest.raises(InputError, match=f"the field 'evidence' is not a valid Evidence: .*{message}"):
            read(data)


# --- the parts


def finding(data, what, key=None):
    (one,) = [each for each in mallow.verify_passport(data, key=key).findings if each.what == what]
    return one.agrees


@pytest.mark.parametrize("name", ["mauve", "frontier_integral", "midpoint"])
@pytest.mark.parametrize("part", ["value", "low", "high"])
def test_every_certified_number_is_checked(name, part):
    data = made_passport().to_dict()
    assert finding(data, f"certified {name}")
    data["certified"][name][part] += 1e-6
    others = [one.what for one in mallow.verify_passport(data).findings if not one.agrees]
    assert others == ["digest", f"certified {name}"]


def test_sizes_and_p_values_must_agree_within_the_file():
    passport = made_passport()
    for changes, wrong in (
        ({"signature": replace(passport.signature, n=6)}, ["samples", "held-out scores"]),
        ({"signature": replace(passport.signature, m=6)}, ["samples", "held-out scores"]),
        ({"p_value": 0.5}, ["p-value"]),
        (
            {"model_counts": (np.array([1, 1, 3]), np.array([1, 2, 3]))},
            ["samples", *(f"published {name}" for name in SUMMARIES)],
        ),
        (
            {"reference_counts": (np.array([3, 1, 2]), np.array([2, 2, 1]))},
            ["samples", *(f"published {name}" for name in SUMMARIES)],
        ),
    ):
        check = mallow.verify_passport(replace(passport, **changes).seal())
        assert [one.what for one in check.findings if not one.agrees] == wrong
        assert not check.valid


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [(1.0, 1.0 + 5e-9, True), (1.0, 1.0 + 2e-8, False), (0.0, 5e-13, True), (0.0, 2e-12, False)],
)
def test_numbers_are_the_same_up_to_rounding(first, second, same):
    assert close(first, second) == close(second, first) == same


def test_units_get_numbers_of_their_own():
    evidence = made_passport().evidence
    named = replace(
        evidence,
        reference_units=np.array([7, 7, 2, 5, 9]),
        model_units=np.array([7, 2, 2, 5, 9]),
        keys=np.arange(100, 110, dtype=np.uint64),
    )
    found = _anonymous(named)
    assert found.reference_units.tolist() == [2, 2, 0, 1, 3]
    assert found.model_units.tolist() == [2, 0, 0, 1, 3]
    assert found.keys.tolist() == [0, 1, 2, 3]
    assert found.certify(mallow.KL, 5.0).estimates == named.certify(mallow.KL, 5.0).estimates


def test_bins_are_in_the_file_only_where_they_were_placed_for_it():
    score, passport, (x, y) = make()
    assert passport.codebook is not None
    assert passport.mac == ""
    assert [one.kind for one in passport.caveats] == sorted({one.kind for one in score.caveats})
    book = Quantize(bins=8).fit(x.features, y.features)
    _, fixed, _ = make(measure=mallow.Measure(Quantize(codebook=book)))
    assert fixed.codebook is None
    assert len(fixed.reference_counts) == 3
    _, plain, _ = make(measure=mallow.Measure(Quantize(bins=8, reduce=None)))
    assert plain.codebook.projection is None
    with pytest.raises(InputError, match="`score` must have held-out evidence; that of a Monitor has none"):
        mallow.make_passport(replace(score, evidence=None), x, y)
    with pytest.raises(InputError, match="`measure` must have bins, and a smoothing and a divergence that have names"):
        mallow.make_passport(score, x, y, measure=mallow.Measure(divergence=mallow.interpolated(mallow.KL, 0.5)))
    with pytest.raises(InputError, match="`measure` must have bins, and a smoothing and a divergence that have names"):
        mallow.make_passport(
            score, x, y, measure=mallow.Measure(Quantize(smoothing=lambda counts: counts / counts.sum()))
        )


@pytest.mark.parametrize("changes", [{"smoothing": "Array"}, {"smoothing": "none"}, {"divergence": "L2"}])
def test_a_passport_of_unknown_methods_is_refused(changes):
    with pytest.raises(InputError, match="is not known here"):
        replace(made_passport(), **changes).recompute_published()
