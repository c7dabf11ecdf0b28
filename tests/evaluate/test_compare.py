"""Comparison: scores, differences, ranks, groups, variance; nothing is named inside the noise."""

import json
import re
import warnings
from dataclasses import astuple, replace
from itertools import pairwise

import numpy as np
import pytest
from pytest import approx

from made_results import made_comparison, made_difference
from mallow import Comparison, EstimateWarning, InputError, Measure, compare, score
from mallow.estimate import Quantize
from mallow.evaluate import Difference
from mallow.samples import Samples
from mallow.theory import KL


def sample(n, shift=0.0, seed=0, width=5, noise=0.8):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(6, width))
    return centres[rng.integers(6, size=n)] + noise * rng.normal(size=(n, width)) + shift


def quietly(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return function(*args, **options)


X = sample(1000)
SYSTEMS = {
    "far": sample(1000, 0.8, 2),
    "same": sample(1000, 0.0, 3),
    "same again": sample(1000, 0.0, 4),
    "middle": sample(1000, 0.4, 5),
}
FEWER = {name: rows[:300] for name, rows in SYSTEMS.items()}  # enough where the numbers do not matter


@pytest.fixture(scope="module")
def found():
    return quietly(compare, X, SYSTEMS)


def test_the_score_of_a_system_is_found_by_its_name(found):
    assert found["far"] is found.scores["far"]
    with pytest.raises(InputError, match=r"the systems are .* and far; got 'fer'\. Did you mean far\?"):
        found["fer"]
    with pytest.raises(InputError, match="got 0"):
        found[0]


def test_all_frontiers_are_drawn_in_one_picture_with_their_names(found):
    axes = found.plot_frontiers()
    words = [text.get_text() for text in axes.texts]
    assert words == [f"{name}  {found[name].mauve:.2f}" for name in found.scores]
    colours = {line.get_color() for line in axes.get_lines()}
    assert len(colours) == len(found.scores)
    places = np.array([text.xy for text in axes.texts])
    assert min(np.linalg.norm(one - other) for one, other in pairwise(places)) > 0.05
    certified = found.plot_frontiers(axes.figure.add_subplot(), certified=True)
    assert certified.texts[-1].get_text().endswith(f"{found['far'].certified['mauve'].value:.2f}")


def test_systems_are_ranked_and_those_that_cannot_be_told_apart_are_grouped(found):
    assert list(found.scores)[2:] == ["middle", "far"]
    assert found.ranks["far"] == (4, 4)
    assert found.ranks["middle"] == (3, 3)
    assert found.ranks["same"] == found.ranks["same again"] == (1, 2)
    assert [set(group) for group in found.groups] == [{"same", "same again"}, {"middle"}, {"far"}]
    assert (found.winner, found.last) == (None, "far")
    assert (set(found.best), found.worst) == ({"same", "same again"}, ("far",))


def test_scores_are_those_of_score(found):
    alone = quietly(score, X, SYSTEMS["far"])
    assert found.scores["far"].mauve == alone.mauve
    assert found.scores["far"].interval == alone.interval
    assert found.scores["far"].debiased == alone.debiased
    assert found.scores["far"].self_score == alone.self_score
    assert found.scores["far"].p_value == alone.p_value
    assert found.scores["far"].evidence.test == alone.evidence.test
    for name, one in alone.certified.items():
        assert astuple(found.scores["far"].certified[name]) == approx(astuple(one), rel=1e-9)
    for name, one in alone.shares.items():
        assert astuple(found.scores["far"].shares[name]) == approx(astuple(one), rel=1e-9)


def test_other_systems_do_not_change_the_evidence_about_one():
    """In a space made from all systems, samples of which others have near copies stood out: certified 0.75 without a gap."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 150, 300))
    copies = {f"copy {i}": y + 0.05 * rng.normal(size=y.shape) for i in range(4)}
    found = quietly(compare, x, copies, repeats=1)
    for one in found.scores.values():
        assert one.certified["mauve"].high == 1
    assert found.winner is None
    alone = quietly(score, x, copies["copy 2"], repeats=1)
    assert found.scores["copy 2"].evidence.test == alone.evidence.test
    assert np.array_equal(found.scores["copy 2"].evidence.model_scores, alone.evidence.model_scores)


def test_all_systems_have_one_self_score(found):
    assert len({json.dumps(one.self_score) for one in found.scores.values()}) == 1


def test_differences_of_all_pairs_have_intervals_and_corrected_p_values(found):
    assert len(found.differences) == 6
    for one in found.differences:
        for name in ("mauve", "frontier_integral", "midpoint"):
            low, high = one.interval[name]
            assert low <= one.difference[name] <= high
            assert one.p_value[name] <= one.adjusted[name] <= 1
            assert (one.p_value[name] < 0.05) == (low > 0 or high < 0)
            own = [found.scores[system].certified[name].value for system in (one.first, one.second)]
            assert one.difference[name] == approx(own[0] - own[1], abs=1e-9)


def test_a_baseline_limits_the_comparisons():
    found = quietly(compare, X[:300], FEWER, baseline="same", repeats=1)
    assert [(one.first, one.second) for one in found.differences] == [
        ("far", "same"),
        ("same again", "same"),
        ("middle", "same"),
    ]
    assert found.ranks == {}
    assert (found.winner, found.last) == (None, None)
    for line, one in zip(found.difference_table().splitlines()[2:], found.ordered_differences(), strict=True):
        assert line.startswith(f"{one.first} − same ")  # always minus the baseline
        assert f"{one.difference['mauve']:+.4f}" in line
    assert found.verdict.startswith("Compared with the proven gap of same: ")
    assert "far" in found.verdict


def test_one_codebook_for_all():
    measure = Measure(Quantize(codebook="shared"))
    found = quietly(compare, X[:300], FEWER, measure=measure, repeats=2)
    centres = [one.masses.partition.centres for one in found.scores.values()]
    assert all(np.array_equal(centres[0], other) for other in centres)
    labels = [one.masses.partition.p_labels for one in found.scores.values()]
    assert all(np.array_equal(labels[0], other) for other in labels)
    assert list(found.scores)[-1] == "far"
    assert "codebook=shared" in found.signature.measure


def test_pairing_sharpens_the_difference_of_like_systems():
    rng = np.random.default_rng(0)
    alike = FEWER["middle"] + 0.05 * rng.normal(size=(300, 5))
    shuffled = alike[rng.permutation(300)]
    paired, apart = (
        quietly(compare, X[:300], {"a": FEWER["middle"], "b": other}, paired=True, repeats=1).differences[0]
        for other in (alike, shuffled)
    )

    def width(one):
        low, high = one.interval["frontier_integral"]
        return high - low

    assert width(paired) < 0.9 * width(apart)


def test_samples_with_ids_are_paired_by_id():
    rng = np.random.default_rng(0)
    ids = tuple(f"prompt {i}" for i in range(300))
    order = rng.permutation(300)
    reference = Samples(features=X[:300], ids=ids)
    shuffled = Samples(features=FEWER["middle"][order], ids=tuple(ids[i] for i in order))
    ordered, same = (Samples(features=FEWER[name], ids=ids) for name in ("middle", "same"))
    one, other = (
        quietly(compare, reference, {"a": each, "b": same}, repeats=1).differences[0] for each in (shuffled, ordered)
    )
    torn = quietly(compare, reference, {"a": replace(shuffled, ids=ids), "b": same}, repeats=1).differences[0]
    for name in ("mauve", "frontier_integral", "midpoint"):
        assert one.interval[name] == approx(other.interval[name], rel=1e-9)
        assert one.interval[name] != approx(torn.interval[name], rel=1e-3)
    other = Samples(features=FEWER["same"], ids=(*ids[:-1], "another"))
    unmatched = quietly(compare, reference, {"b": other}, repeats=1)
    told = "b: the id 'another' is not in the reference: only samples whose ids the reference has are paired with it."
    assert told in map(str, unmatched.caveats)
    names = Samples(features=SYSTEMS["same"], ids=tuple(f"{i}.png" for i in range(1000)))
    of_prompts = Samples(features=X, ids=tuple(f"prompt {i}" for i in range(1000)))
    found = compare(of_prompts, {"b": names}, repeats=1)  # file names are labels, not pairs
    assert found.scores["b"].caveats == ()


def test_ids_that_repeat_are_generations_of_a_prompt():
    ids = tuple(f"prompt {i}" for i in range(300))
    generations = np.stack([sample(300, 0.4, seed) for seed in (11, 12)], axis=1)
    order = np.random.default_rng(0).permutation(300)
    flat = Samples(features=generations[order].reshape(600, -1), ids=tuple(ids[i] for i in order for _ in range(2)))
    human = Samples(features=sample(300), ids=ids)
    found, same = (quietly(compare, human, {"two": each}, repeats=1) for each in (flat, generations))
    assert found.signature.generations == 2
    for field in ("mauve", "values", "std", "interval", "debiased", "self_score", "p_value", "n"):
        assert getattr(found.scores["two"], field) == getattr(same.scores["two"], field), field
    one, other = (each.scores["two"].certified["mauve"] for each in (found, same))
    assert (one.value, one.high) == (approx(other.value, rel=1e-9), approx(other.high, rel=1e-9))
    assert len(found.scores["two"].evidence.model_scores) == 600  # evidence uses all generations at once


def test_where_samples_are_missing_nothing_is_paired():
    ids = tuple(f"prompt {i}" for i in range(1000))
    some = Samples(features=SYSTEMS["same"][:900], ids=ids[:900])
    found = quietly(compare, Samples(features=X, ids=ids), {"some": some}, repeats=1)
    assert found.scores["some"].n == (1000, 900)


def test_several_generations_have_a_variance_of_their_own():
    generations = np.stack([sample(300, 0.4, seed) for seed in (11, 12, 13)], axis=1)
    found = quietly(compare, sample(300), {"three": generations, "one": generations[:, 0]}, repeats=2)
    assert set(found.variance["three"]) == {"clustering", "sampling", "generation"}
    assert set(found.variance["one"]) == {"clustering", "sampling"}
    assert "generations=3" in str(found.scores["three"].signature)
    single = [quietly(score, sample(300), generations[:, i], repeats=2) for i in range(3)]
    three = found.scores["three"]
    assert three.mauve == approx(np.mean([one.mauve for one in single]), abs=1e-9)
    assert three.std["mauve"] == approx(np.std(np.mean([one.values["mauve"] for one in single], axis=0), ddof=1))
    assert found.variance["three"]["generation"] == approx(np.var([one.mauve for one in single], ddof=1))
    assert three.frontier.p_to_mix == approx(np.mean([one.frontier.p_to_mix for one in single], axis=0), abs=1e-9)
    assert three.band[0].q_to_mix == approx(np.min([one.band[0].q_to_mix for one in single], axis=0), abs=1e-9)
    assert three.band[1].q_to_mix == approx(np.max([one.band[1].q_to_mix for one in single], axis=0), abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_different_sizes_make_no_winner(seed):
    """Systems of one distribution: with the bins of each size, the larger one won in 19 of 20 trials."""
    systems = {"small": sample(60, 0.3, 10 * seed + 1), "large": sample(400, 0.3, 10 * seed + 2)}
    found = quietly(compare, sample(400, 0.0, 10 * seed), systems, repeats=2)
    assert found.winner is None
    assert set(found.ranks.values()) == {(1, 2)}
    assert len({one.masses.partition.bins for one in found.scores.values()}) == 1
    rows = [line.split()[:5] for line in str(found).splitlines() if line.startswith("self-score")]
    assert [row[:4] for row in rows] == [["self-score,", "m", "=", "400"], ["self-score,", "m", "=", "60"]]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_larger_gap_that_is_harder_to_see_does_not_win(seed):
    """A shift (true MAUVE 0.910) and correlations of pairs of columns (0.778): a witness without products sees 0.995 of those."""
    rng = np.random.default_rng(seed)
    human, shifted, correlated = rng.normal(size=(3, 1000, 20))
    shifted[:, 0] += 0.6
    correlated[:, 1::2] = 0.25 * correlated[:, ::2] + np.sqrt(1 - 0.25**2) * correlated[:, 1::2]
    found = quietly(compare, human, {"shifted": shifted, "correlated": correlated}, repeats=1)
    assert found.winner != "correlated"


def test_equal_systems_do_not_differ():
    x, y = sample(150), sample(150, 0.5, 1)
    found = quietly(compare, x, {"one": y, "other": y.copy()}, repeats=2)
    [one] = found.differences
    for name in ("mauve", "frontier_integral", "midpoint"):
        assert (one.difference[name], one.p_value[name]) == (approx(0, abs=1e-9), approx(1))
    assert found.verdict == (
        "There is no clear winner: no difference was shown between the proven gaps of one and other (5% level, corrected for all pairs)."
    )


def test_a_gap_that_all_published_scores_miss_is_ranked():
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(300, 30)) * (np.arange(30) < 15)  # shared by all, and most of the variance

    def written(shift, seed):
        texts = topics + 0.2 * np.random.default_rng(seed).normal(size=topics.shape)
        texts[:, -1] += shift
        return texts

    found = quietly(compare, written(0.0, 1), {"b": written(0.6, 2), "a": written(0.2, 3)}, repeats=2)
    assert min(one.mauve for one in found.scores.values()) > 0.95
    assert (found.winner, list(found.scores)) == ("a", ["a", "b"])
    for one in found.scores.values():
        assert one.p_value == 1 / 5000  # the smallest, where 4,999 permutations are drawn
        assert one.certified["mauve"].high < 0.95
        assert one.verdict.startswith("The gap is real: with 95% confidence MAUVE is at most 0.")


def test_samples_of_other_sizes_are_not_paired():
    found = quietly(compare, X, {"a": sample(700, 0.1, 1), "b": sample(800, 0.8, 2)}, repeats=1)
    assert found.winner == "a"
    assert "the systems have different numbers of samples, from 700 (a) to 800 (b)" in str(found)
    assert "the sample sizes differ" not in str(found)  # the caveat above says more
    assert [one.kind for one in found.scores["a"].caveats] == ["few samples", "unequal sizes"]  # its own, also in here
    alike = quietly(compare, X, {"a": sample(700, 0.1, 1), "b": sample(700, 0.8, 2)}, repeats=1)
    assert "a and b: the sample sizes differ (1000 and 700)" in str(alike)
    assert {one.system for one in found.scores["b"].caveats} == {"b"}


def test_equal_caveats_of_several_systems_are_shown_once():
    found = quietly(
        compare, X[:300], {name: sample(300, 0.1, seed) for seed, name in enumerate("abc", start=1)}, repeats=1
    )
    assert [line for line in str(found).splitlines() if line.startswith("caveat") and "samples" in line] == [
        "caveat: all three systems: only 300 samples: with fewer than 1000 per side, scores are biased and noisy."
    ]
    assert all("few samples" in [one.kind for one in score.caveats] for score in found.scores.values())


def test_a_joint_embedder_gives_the_score_that_score_gives():
    rng = np.random.default_rng(0)
    words = ["the", "old", "river", "runs", "slowly", "under", "a", "green", "stone", "bridge"]
    texts = [" ".join(rng.choice(words, 12)) for _ in range(240)]
    human, systems = texts[:80], {"a": texts[80:160], "b": [text.replace("river", "road") for text in texts[160:]]}
    found = quietly(compare, human, systems, embedder="ngram", repeats=1)
    for name, model in systems.items():
        alone = quietly(score, human, model, embedder="ngram", repeats=1)
        assert found.scores[name].mauve == alone.mauve
        assert (found.scores[name].p_value, found.scores[name].certified) == (alone.p_value, alone.certified)
    shared = quietly(compare, human, systems, embedder="ngram", measure=Measure(Quantize(codebook="shared")), repeats=1)
    assert len({one.masses.partition.centres.shape for one in shared.scores.values()}) == 1


def test_every_set_is_embedded_once():
    seen = []

    def lengths(texts):
        seen.append(len(texts))
        return np.array([[len(text), text.count("e")] for text in texts], dtype=float)

    texts = [f"Sentence {i} of {'many ' * (i % 7)}words" for i in range(400)]
    quietly(compare, texts[:100], {"a": texts[100:200], "b": texts[200:]}, embedder=lengths, repeats=1)
    assert seen == [100, 100, 200]


def test_json_loses_nothing(found):
    text = found.to_json()
    again = Comparison.from_json(text)
    assert again.to_json() == text
    assert again.differences == found.differences
    assert again.ranks == found.ranks
    assert again.groups == found.groups
    assert repr(again) == repr(found)
    assert str(again) == str(found)
    assert (again.scores["far"].verdict, again.verdict) == (found.scores["far"].verdict, found.verdict)
    assert (json.loads(text)["last"], json.loads(text)["verdict"]) == ("far", found.verdict)
    for name, one in found.scores.items():
        restored = again.scores[name].evidence
        assert np.array_equal(restored.model_scores, one.evidence.model_scores)
        assert restored.certify(KL, one.scale).estimates == one.certified
    with pytest.raises(InputError, match=r"must be what Comparison.to_dict wrote, but its kind is 'mallow score'"):
        Comparison.from_dict(found.scores["far"].to_dict())


def test_the_text_names_first_and_last_and_has_all_numbers(found):
    assert repr(found).endswith("winner: none)")
    lines = str(found).splitlines()
    names = " and ".join(found.best)
    assert lines[0] == (
        f"There is no clear winner: no difference was shown between the proven gaps of {names} (5% level, corrected for all pairs). "
        "Largest proven gap: far."
    )
    assert [line.strip() for line in lines[2:4]] == [
        "certified  95% upper   p-value  published          95% of",
        "MAUVE      bound  (no gap)      MAUVE  repeat samples    rank",
    ]
    for line, (name, one) in zip(lines[4:8], found.scores.items(), strict=True):
        value, limit, p, published, low, _, high, *_rank = re.split(
            r" +", line.removeprefix(name).replace("< ", "<").strip()
        )
        assert float(value) == approx(one.certified["mauve"].value, abs=5.1e-5)
        assert float(value) <= float(limit)
        assert one.certified["mauve"].high <= float(limit) < one.certified["mauve"].high + 1e-4
        assert p in ("<1e-5", f"{one.p_value:.2g}")
        assert float(low) <= float(published) <= float(high)
    assert lines[4].endswith("1 to 2")
    assert (lines[7].split()[0], lines[7].split()[-1]) == ("far", "4")
    assert lines[8] == ""
    assert lines[9].split() == ["self-score", f"{found.scores['far'].self_score['mauve']:.3f}"]
    assert len(lines[9]) == lines[2].index("published") + len("published")  # it is a published score
    assert max(map(len, lines[1:])) <= 80 or found.caveats


def test_differences_can_be_recomputed_from_what_is_printed(found):
    text = str(found)
    certified = {name: float(re.search(rf"^{name} +(\d\.\d{{4}})", text, re.MULTILINE)[1]) for name in found.scores}
    rows = re.findall(
        r"^(.+) − (.+?) +([+-]\d\.\d{4})  ([+-]\d\.\d{4}) to ([+-]\d\.\d{4}) +(\S.*)$", text, re.MULTILINE
    )
    assert len(rows) == len(found.differences) == 6
    places = list(found.scores)
    for first, second, value, low, high, p in rows:
        assert float(value) == approx(certified[first] - certified[second], abs=1.01e-4)
        assert float(low) <= float(value) <= float(high)
        assert places.index(first) < places.index(second)
        [stored] = [one for one in found.differences if one.systems == {first, second}]
        assert p in ("< 1e-5", f"{stored.adjusted['mauve']:.2g}".replace("e-0", "e-"))
    assert "95% interval" in text


def test_of_many_pairs_those_of_neighbours_are_shown(found):
    names = [f"system {i}" for i in range(6)]
    scores = dict(zip(names, [*found.scores.values(), *list(found.scores.values())[:2]], strict=True))
    pairs = [made_difference(a, b, 0.1, 0.5) for i, a in enumerate(names) for b in names[:i]]
    many = replace(found, scores=scores, differences=tuple(pairs), ranks={})
    head, *rows = many.difference_table("markdown").splitlines()
    assert head.startswith("| difference (neighbours, of 15 pairs) | certified MAUVE |")
    assert [row.split(" | ")[0].strip("| ") for row in rows[1:]] == [f"{a} − {b}" for a, b in pairwise(names)]
    assert rows[1].split(" | ")[1] == "-0.1000"  # stored the other way round
    assert replace(found, differences=()).difference_table() == ""


def test_the_picture_names_every_system(found):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = found.plot()
    assert {label.get_text() for label in ax.get_yticklabels()} == set(SYSTEMS)
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {
        "published score",
        "95% of repeat samples of this size",
        "certified value",
        "where the true value may be (95% confidence)",
        "self-score",
    }
    matplotlib.pyplot.close(ax.figure)


def ordered(found, names, apart):
    """A comparison of these systems, best first, in which these pairs differ significantly."""
    made = made_comparison({name: 0.9 - 0.1 * place for place, name in enumerate(names)}, apart)
    scores = dict(zip(names, found.scores.values(), strict=False))
    return replace(found, scores=scores, differences=made.differences, ranks=made.ranks, groups=made.groups)


def with_published(comparison, published, spread=0.01):
    """The comparison with these published scores, whose intervals reach this far."""
    scores = {
        name: replace(one, mauve=value, interval={**one.interval, "mauve": (value - spread, value + spread)})
        for (name, one), value in zip(comparison.scores.items(), published, strict=True)
    }
    return replace(comparison, scores=scores)


def test_one_sentence_explains_why_published_scores_have_another_order(found):
    clear = ordered(found, ["a", "b", "c"], [{"a", "b"}, {"a", "c"}, {"b", "c"}])
    why = ". It counts samples in bins of a few directions, whereas the proven gap uses all directions."
    same = with_published(clear, [0.9, 0.8, 0.7]).verdict
    assert "Published" not in same
    assert with_published(clear, [0.9, 0.608, 0.995]).verdict == (
        f"{same} Published MAUVE puts c (0.995) above b (0.608) (2 pairs of systems are in the opposite order){why}"
    )
    assert (
        with_published(clear, [0.9, 0.8, 0.85], 0.1).verdict
        == f"{same} Published MAUVE puts c (0.850) above b (0.800){why}"
    )
    assert with_published(clear, [0.9, 0.8, 0.8005]).verdict == same  # printed alike
    blurred = ordered(found, ["a", "b"], [])
    assert "Published" not in with_published(blurred, [0.8, 0.85], 0.1).verdict  # by chance
    assert "puts b (0.850) above a (0.800). It" in with_published(blurred, [0.8, 0.85], 0.01).verdict


def test_the_verdict_names_first_and_last(found):
    level = "(5% level, corrected for all pairs)"
    clear = ordered(found, ["a", "b", "c"], [{"a", "b"}, {"a", "c"}, {"b", "c"}])
    assert clear.verdict == (
        f"Smallest proven gap: a. Every other system has a larger one {level}. Largest proven gap: c."
    )
    tied = ordered(found, ["a", "b", "c", "d"], [{"a", "c"}, {"a", "d"}, {"b", "c"}, {"b", "d"}])
    assert tied.verdict == (
        f"There is no clear winner: no difference was shown between the proven gaps of a and b {level}. "
        "Largest proven gaps: c and d, which were not shown to differ."
    )
    assert (tied.best, tied.worst, tied.winner, tied.last) == (("a", "b"), ("c", "d"), None, None)
    first = ordered(found, ["a", "b", "c"], [{"a", "b"}, {"a", "c"}])
    assert first.verdict.endswith("Largest proven gaps: b and c, which were not shown to differ.")
    blurred = ordered(found, ["a", "b", "c"], [{"a", "c"}])
    assert (
        blurred.verdict
        == f"There is no clear winner: no difference was shown between the proven gaps of a and b {level}."
    )
    two = ordered(found, ["a", "b"], [{"a", "b"}])
    assert two.verdict == f"Smallest proven gap: a. Every other system has a larger one {level}."
    untested = replace(two, differences=(), ranks={}, groups=())
    assert untested.verdict == (
        "There is no clear winner: the differences were not tested. a has the highest certified MAUVE."
    )
    alone = replace(two, scores={"a": two.scores["a"]}, differences=(), ranks={"a": (1, 1)})
    assert alone.verdict == f"a was compared with the reference only. {two.scores['a'].verdict}"
    assert (alone.winner, alone.last) == (None, None)


def test_a_difference_can_be_reversed(found):
    one = found.differences[0]
    back = one.reverse()
    assert (back.first, back.second, back.better) == (one.second, one.first, one.better)
    low, high = one.interval["mauve"]
    assert (back.difference["mauve"], back.interval["mauve"]) == (-one.difference["mauve"], (-high, -low))
    assert back.reverse() == one


@pytest.mark.parametrize(
    ("systems", "options", "message"),
    [
        ({}, {}, r"`systems` must map at least one name to samples; got dict"),
        ([X], {}, r"`systems` must map at least one name to samples; got list"),
        ({1: X}, {}, r"`systems` must have names that are strings; got 1"),
        ({"": X}, {}, r"`systems` must have names that are strings"),
        (None, {}, r"`systems` must map at least one name to samples"),
        ({"a": X}, {"baseline": "b"}, r"`baseline` must be one of the systems \(a\); got 'b'"),
        ({"a": X[:, :2]}, {}, r"features of the same width; got 5 and 2"),
        ({"a": X}, {"repeats": 0}, r"`repeats` must be an integer of at least 1; got 0"),
    ],
)
def test_bad_input_is_refused(systems, options, message):
    with pytest.raises(InputError, match=message):
        compare(X, systems, **options)


# --- the parts


@pytest.mark.parametrize("entry", ["difference", "interval", "p_value", "adjusted"])
def test_a_difference_has_an_entry_for_mauve(entry):
    values = {name: {"mauve": 0.5} for name in ("difference", "interval", "p_value", "adjusted")}
    with pytest.raises(InputError, match=f"`{entry}` must have an entry mauve; got midpoint"):
        Difference("a", "b", **(values | {entry: {"midpoint": 1}}))
    with pytest.raises(InputError, match=f"`{entry}` must have an entry mauve; got none"):
        Difference("a", "b", **(values | {entry: {}}))


@pytest.mark.parametrize(("p_value", "significant"), [(0.049, True), (0.05, False)])
def test_a_difference_is_significant_below_five_per_cent_after_correction(p_value, significant):
    one = made_difference("a", "b", -0.1, 0.001, p_value)
    assert one.significant == one.reverse().significant == significant
    assert (one.better, one.reverse().better) == ("b", "b")
    assert (one.reverse().first, one.reverse().difference["mauve"]) == ("b", 0.1)
    assert one.reverse().interval["mauve"] == approx((0.095, 0.11))
    assert one.reverse().reverse() == one
    assert str(made_difference("a", "b", 0.0).reverse().difference["mauve"]) == "0.0"  # no −0
