"""A passport: the score is recomputed without the data, and no digit can be changed unseen."""

import copy
import hashlib
import hmac
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

import mallow
from made_results import made_passport
from mallow.errors import EstimateWarning, InputError
from mallow.estimate import Classifier, Codebook, Quantize
from mallow.evaluate._passport import _anonymous, _canonical, canonical_digest
from mallow.evaluate._passport_check import close
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
    assert check.consistent
    assert not check.valid
    assert check.verdict == (
        "The passport is consistent: all 16 checks agree; signature present, not checked, so that anyone may have made it."
    )
    assert check.signature == "not checked"
    assert "HMAC" in check.table()
    assert "- the p-value (it needs the features)" in str(check)


@pytest.mark.parametrize("measure", [mallow.MAUVE_2021, mallow.Measure(divergence=mallow.CHI2, scale=2.0)])
def test_other_measures_have_passports(measure):
    score, passport, _ = make(measure=measure)
    assert passport.recompute_published()["mauve"] == pytest.approx(score.mauve, rel=1e-9)
    check = mallow.verify_passport(passport)
    assert check.consistent
    assert check.verdict.endswith("; no signature, so that anyone may have made it.")


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
        elif (*path, key) not in (("digest",), ("mac",), ("ed25519",), ("kind",)):
            yield (*path, key)


def test_any_change_breaks_the_seal(made):
    """The first and the last number or text of every field."""
    whole = made[1].to_dict()
    every = list(numbers(whole))
    ends = {path[0]: path for path in every} | {f"{path[0]}, first": path for path in reversed(every)}
    assert {path[0] for path in ends.values()} == set(whole) - {"digest", "mac", "ed25519", "kind"}
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
    assert not check.consistent
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
    with pytest.raises(InputError, match="`score` must be the score of these samples"):
        mallow.make_passport(score, y, x.take(range(149)))
    path = tmp_path / "x.json"
    for text, message in (
        ("{", "`passport` must be a JSON file"),
        ("[]", "`passport` must be the JSON file of a passport; got list"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            mallow.verify_passport(path)
    with pytest.raises(
        InputError, match=r"`data` must be what Passport\.to_dict wrote, but its kind is 'mallow score'"
    ):
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


# --- forged with a new digest


def forge(made, **changes):
    """A passport with other content, whose numbers are computed again from it, under a digest that fits."""
    passport = replace(made[1], **changes)
    again = replace(passport, published=passport.recompute_published(), certified=passport.recompute_certified())
    return mallow.verify_passport(again.seal())


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        (lambda passport: {"scale": 1.0}, ["measure"]),
        (lambda passport: {"divergence": "TV"}, ["measure"]),
        (lambda passport: {"smoothing": "laplace"}, ["measure"]),
        (
            lambda passport: {
                "reference_counts": passport.reference_counts[:1],
                "model_counts": passport.model_counts[:1],
            },
            ["repeats"],
        ),
        (
            lambda passport: {
                "reference_counts": tuple(np.append(counts, 0) for counts in passport.reference_counts),
                "model_counts": tuple(np.append(counts, 0) for counts in passport.model_counts),
            },
            ["bins"],
        ),
        (
            lambda passport: {
                "p_value": 1e-9,
                "evidence": replace(passport.evidence, test=replace(passport.evidence.test, p_value=1e-9)),
            },
            ["p-value"],
        ),
        (
            lambda passport: {
                "evidence": replace(passport.evidence, test=replace(passport.evidence.test, statistics={"means": 0.0}))
            },
            ["p-value"],
        ),
    ],
)
def test_what_does_not_fit_the_signature_is_named_under_a_new_digest(changes, wrong, made):
    check = forge(made, **changes(made[1]))
    assert [finding.what for finding in check.findings if finding.agrees is False] == wrong
    assert not check.consistent


def test_what_is_possible_but_suspicious_is_a_caveat(made):
    passport = made[1]
    kinds = {caveat.kind for caveat in mallow.verify_passport(passport).caveats}
    assert not kinds & {"recorded p-value", "copied counts"}
    test = replace(passport.evidence.test, p_value=1.0)
    none = forge(made, p_value=1.0, evidence=replace(passport.evidence, test=test))
    assert none.consistent
    (caveat,) = [caveat for caveat in none.caveats if caveat.kind == "recorded p-value"]
    assert caveat.values["high"] == pytest.approx(passport.certified["mauve"].high)
    both = forge(made, model_counts=passport.reference_counts)
    assert [caveat.kind for caveat in both.caveats if "one side may be a copy" in caveat.message] == ["copied counts"]
    first = {
        "reference_counts": passport.reference_counts[:1] * 3,
        "model_counts": passport.model_counts[:1] * 3,
    }
    (caveat,) = [caveat for caveat in forge(made, **first).caveats if caveat.kind == "copied counts"]
    assert caveat.message.startswith("only 1 of the 3 repeats have different counts")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_counts": ()}, "both sides must have counts of every repeat; got 2 and 0"),
        ({"reference_counts": (), "model_counts": ()}, "both sides must have counts of every repeat; got 0 and 0"),
        ({"model_counts": (np.array([1, 4]), np.array([1, 2, 2]))}, "the same bins in every repeat"),
        ({"model_counts": (np.array([-1, 3, 3]), np.array([1, 2, 2]))}, "whole numbers from 0, one per bin"),
        ({"model_counts": (np.array([1.5, 0.5, 3]), np.array([1, 2, 2]))}, "whole numbers from 0, one per bin"),
        ({"model_counts": (np.array([[1, 1, 3]]), np.array([1, 2, 2]))}, "whole numbers from 0, one per bin"),
        ({"codebook": Codebook(np.zeros(3))}, "the centres of bins must be a table"),
    ],
)
def test_counts_that_are_none_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        replace(made_passport(), **changes)


def test_a_second_block_of_numbers_is_refused(made, tmp_path):
    """Which of two values a program reads is up to it: a person may be shown the first, and the check sees the last."""
    path = tmp_path / "passport.json"
    text = made[1].to_json()
    path.write_text(text.replace("{", '{\n "published": {"mauve": 0.99},', 1))
    for key in (None, "open sesame"):
        with pytest.raises(InputError, match="the key 'published' occurs twice"):
            mallow.verify_passport(path, key=key)
    for read in (mallow.evaluate.Passport.from_json, mallow.Score.from_json):
        with pytest.raises(InputError, match="the key 'published' occurs twice"):
            read(path.read_text())
    path.write_text(made[0].to_json().replace('"signature": {', '"signature": {"n": 9,', 1))
    with pytest.raises(InputError, match="`baseline` must be the JSON file of a score"):
        mallow.check_regression(*made[2], path)


# --- keys of Ed25519


def ed25519_keys():
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives import serialization as forms

    private = ed25519.Ed25519PrivateKey.generate()
    secret = private.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    public = private.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo)
    return secret, public


def test_a_public_key_checks_and_does_not_sign():
    secret, public = ed25519_keys()
    passport = made_passport(secret)
    assert passport.mac == ""
    assert len(passport.ed25519) == 128
    assert "sealed by SHA-256 and Ed25519" in str(passport)
    for key in (secret, public, public.decode()):
        check = mallow.verify_passport(passport, key=key)
        assert check.valid
        assert check.verdict.startswith("The passport is valid: it was signed with this key, and all ")
    assert mallow.verify_passport(passport).signature == "not checked"
    assert mallow.verify_passport(passport, key=ed25519_keys()[1]).signature == "wrong"
    changed = replace(passport, published={**passport.published, "mauve": 0.5})
    assert "Ed25519" in mallow.verify_passport(changed, key=public).verdict
    with pytest.raises(InputError, match="this is a public one, which only checks"):
        passport.seal(public)
    # Whoever knows the public key cannot use it as a secret for the other kind of seal.
    mac = hmac.new(public, _canonical(passport.to_dict()), hashlib.sha256).hexdigest()
    forged = replace(made_passport(), mac=mac)
    assert not mallow.verify_passport(forged, key=public).consistent
    # Nor does a seal of the other kind count for a key.
    assert mallow.verify_passport(passport, key="secret").signature == "wrong"


def test_other_keys_are_refused():
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric import ec

    other = ec.generate_private_key(ec.SECP256R1())
    pem = other.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    locked = other.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.BestAvailableEncryption(b"x"))
    for key, message in (
        (pem, "must be a key of Ed25519; got"),
        (locked, "in PEM form, without a password"),
        (b"-----BEGIN PUBLIC KEY-----\nnothing\n-----END PUBLIC KEY-----\n", "in PEM form"),
    ):
        with pytest.raises(InputError, match=message):
            made_passport(key)
        with pytest.raises(InputError, match=message):
            mallow.verify_passport(made_passport(), key=key)


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
        ({"scale": 2.0}, ["measure", "published mauve", "certified mauve"]),
        ({"scale": 50.0}, ["measure", "published mauve", "certified mauve"]),
        ({"signature": replace(passport.signature, repeats=5)}, ["repeats"]),
        ({"signature": replace(passport.signature, bins=4)}, ["bins"]),
        ({"signature": replace(passport.signature, tolerance=0.5)}, ["tolerance"]),
        ({"signature": replace(passport.signature, units="40 ids with 5 samples each side")}, ["units"]),
        ({"signature": replace(passport.signature, units="")}, ["units"]),
        ({"evidence": replace(passport.evidence, keys=np.arange(1, 5, dtype=np.uint64))}, ["units"]),
        ({"codebook": Codebook(np.zeros((3, 2)))}, []),
        ({"codebook": Codebook(np.zeros((4, 2)))}, ["bins"]),
        ({"codebook": Codebook(np.zeros((3, 5)))}, ["width of features"]),
        ({"signature": replace(passport.signature, n=6)}, ["samples", "held-out scores"]),
        ({"signature": replace(passport.signature, m=6)}, ["samples", "held-out scores"]),
        ({"p_value": 0.5}, ["p-value"]),
        ({"evidence": replace(passport.evidence, test=replace(passport.evidence.test, permutations=-1))}, ["p-value"]),
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
        assert check.consistent == (not wrong)


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
    with pytest.raises(InputError, match=r"`score` must have held-out evidence\. The score of a Monitor has none"):
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
