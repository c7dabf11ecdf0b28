"""Copying told from generalising: no false alarms, copies found with their sources, doubts said."""

import warnings

import numpy as np
import pytest

import mallow
from mallow.errors import EstimateWarning, InputError
from mallow.evidence import Units, compare_means
from mallow.explain._memorisation import _excess, _threshold
from mallow.explain._nearness import find_neighbours, kernel_likelihoods


def normal(seed, n=200, width=8, sets=3):
    return np.random.default_rng(seed).normal(size=(sets, n, width))


def quietly(*sets, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        return mallow.memorisation(*sets, **options)


@pytest.fixture(scope="module")
def copying():
    train, fresh, model = normal(1, 300)
    model[:20] = train[40:60] + 0.001
    return quietly(fresh, model, train)


def test_copies_are_found_with_their_sources(copying):
    assert copying.copying
    assert copying.p_value <= 0.002
    assert copying.nearer_than_fresh <= 0.002
    assert copying.share.low < 20 / 300 < copying.share.high
    assert {(one.sample.place, one.source.place) for one in copying.copies[:20]} == {(i, i + 40) for i in range(20)}
    assert all(one.rarity == pytest.approx(1 / 301, rel=1e-4) for one in copying.copies[:20])
    assert copying.likelihood_gap > 0.2
    assert copying.verdict.startswith("The model copies training data (p = 0.00")
    assert "95% interval" in copying.verdict


def test_edited_copies_are_counted_where_they_are_not_near():
    train, fresh, model = normal(13, 300, width=30)
    noise = np.random.default_rng(0).normal(0, 0.55, size=(150, 30))
    model[:150] = train[:150] + noise
    result = quietly(fresh, model, train, permutations=199)
    assert result.copying
    assert result.share.value < 0.5
    assert result.drawn.low < 0.5 < result.drawn.high
    assert "lie at training data beyond chance, edited or not." in result.verdict


def test_a_model_that_generalises_is_not_accused():
    results = [quietly(*normal(seed, 100), permutations=99) for seed in range(24)]
    assert sum(one.copying for one in results) <= 4  # 5% of 24; five have a probability of 0.6%
    assert results[0].verdict.startswith("No copying was found (p = ")
    assert sum(one.drawn.low > 0 for one in results) <= 4
    assert abs(np.mean([one.likelihood_gap for one in results])) < 2


def test_a_model_of_few_kinds_is_not_accused_by_the_exchange_with_training_data():
    """It lies where data are dense, and so is nearer to training data than fresh data are: nearer to all data."""
    p_values = []
    for seed in range(20):
        train, fresh, model = normal(seed, 150)
        p_values.append(quietly(fresh, 0.2 * model, train, permutations=99).p_value)
    assert sum(p < 0.05 for p in p_values) <= 4


def test_more_training_data_leave_the_power_of_the_second_test():
    train, fresh, model = (normal(seed, n, sets=1)[0] for seed, n in ((1, 3000), (2, 200), (3, 200)))
    model[:12] = train[:12]
    result = quietly(fresh, model, train)
    assert not result.copying
    assert result.nearer_than_fresh < 0.005 < 0.05 < result.p_value
    assert result.verdict.startswith("The model may copy training data: more of its samples are very near to them")
    assert result.nearest[1] == 3000 / 3200


def test_the_order_of_samples_does_not_matter():
    train, fresh, model = normal(5, 120)
    train, fresh = train[:110], fresh[:100]
    order = np.random.default_rng(0).permutation(len(model))
    first, second = quietly(fresh, model, train, permutations=99), quietly(fresh, model[order], train, permutations=99)
    assert (first.p_value, first.share, first.threshold) == (second.p_value, second.share, second.threshold)


def test_a_prompt_that_the_reference_shares_is_no_neighbour():
    train, fresh, _ = normal(7, 200)
    near = [mallow.Samples(features=rows, ids=range(200)) for rows in (fresh, fresh + 0.001)]
    alone = quietly(*near, train, permutations=99)
    assert alone.nearest[0] == pytest.approx(0.5, abs=0.12)
    assert not alone.copying


def test_doubts_are_said():
    train, fresh, model = normal(9, 60)
    with pytest.warns(EstimateWarning, match="only 60 samples of the model or the reference"):
        mallow.memorisation(fresh, model, train, permutations=9)
    fresh[:3] = train[:3]
    kinds = {caveat.kind: caveat for caveat in quietly(fresh, model, train + 0.0, permutations=9).caveats}
    assert "3 of 60 reference samples are in the training data too" in kinds["reference in training data"].message
    kinds = {caveat.kind: caveat for caveat in quietly(fresh + 1.5, model, train, permutations=9).caveats}
    assert "training data and reference differ (p = " in kinds["reference unlike training data"].message
    named = [
        mallow.Samples(features=rows, ids=[f"{name}{i}" for i in range(60)])
        for name, rows in (("a", fresh), ("b", model), ("b", train))
    ]
    kinds = {caveat.kind: caveat for caveat in quietly(*named, permutations=9).caveats}
    assert kinds["prompts in training data"].message.startswith("60 ids or prompts of the model's samples")


def test_too_few_samples_are_refused():
    train, fresh, model = normal(0, 20)
    with pytest.raises(InputError, match="`train` must hold at least 5 samples here; got 4"):
        mallow.memorisation(fresh, model, train[:4])
    with pytest.raises(InputError, match="`reference` and `train` must have features of the same width; got 8 and 7"):
        mallow.memorisation(fresh, model, train[:, :7])
    with pytest.raises(InputError, match="`permutations` must be an integer of at least 1; got 0"):
        mallow.memorisation(fresh, model, train, permutations=0)


def test_identical_features_everywhere_are_survived():
    ones = np.ones((30, 3))
    result = quietly(ones, ones, ones, permutations=9)
    assert 0.0 < result.p_value <= 1.0
    assert result.share.value == 0.0


def test_texts_that_are_in_both_sets_count_for_both():
    train, _, model = normal(11, 200)
    model = np.concatenate([train[:100], model[:80]])
    result = quietly(train[np.random.default_rng(0).permutation(200)][:190], model, train, permutations=99)
    assert result.nearest[0] == pytest.approx(0.5, abs=0.12)
    assert not result.copying


def test_the_result_comes_back_and_is_drawn(copying):
    again = mallow.explain.Memorisation.from_json(copying.to_json())
    assert str(again) == str(copying)
    assert again.copies == copying.copies
    assert copying.brief()["listed"] == len(copying.copies)
    assert "near copies" in copying.table("markdown")
    assert len(copying.to_frame()) == len(copying.copies)
    axes = copying.plot()
    assert "fifth" in axes.get_xlabel()
    assert "… and " in str(copying)
    assert repr(copying).startswith("Memorisation(p = 0.00")


# --- its parts


def test_neighbours_are_the_nearest_and_not_of_the_own_unit():
    points, pool, _ = normal(3, 70)
    far = np.sqrt(((points[:, None] - pool) ** 2).sum(axis=2))
    found = find_neighbours(points, pool, 4)
    assert np.array_equal(found.nearest, far.argmin(axis=1))
    assert found.ratio == pytest.approx(np.sort(far, axis=1)[:, 0] / np.sort(far, axis=1)[:, 4])
    units = found.nearest.copy(), np.arange(70)
    assert np.array_equal(find_neighbours(points, pool, 4, units=units).nearest, far.argsort(axis=1)[:, 1])


def test_a_density_of_samples_is_the_mean_of_its_kernels():
    points, samples, _ = normal(4, 30, width=2)
    far = ((points[:, None] - samples) ** 2).sum(axis=2)
    expected = np.log(np.exp(-far / (2 * 0.7**2)).mean(axis=1))
    assert kernel_likelihoods(points, samples, 0.7) == pytest.approx(expected)


def test_a_threshold_is_reached_by_at_most_one_in_a_hundred():
    ratios = np.linspace(0.5, 1.0, 400)
    assert _threshold(ratios, ratios)[1][0] == 0.01
    assert _threshold(np.r_[np.zeros(50), ratios], ratios)[1] == (0.0, 0.0)  # many are equally near: none is listed


def test_the_excess_lies_in_its_interval():
    for near in ((0.0, 0.0), (0.01, 0.0), (0.0, 1.0), (0.01, 0.3)):
        one = _excess(near, (100, 80))
        assert 0.0 <= one.low <= one.value <= one.high <= 1.0


def test_the_exchange_of_means_is_exact():
    """Ranks of p-values are uniform where both sides are one distribution, with pairs, groups and singles."""
    rng, rejected = np.random.default_rng(0), 0
    for _ in range(400):
        prompt = rng.normal(size=(20, 1)).repeat(2, axis=0)
        first, second = (prompt + rng.normal(size=(40, 1)) for _ in range(2))
        unit = np.arange(20).repeat(2)
        units = Units((unit, unit), np.arange(20, dtype=np.uint64))
        p_value, exact = compare_means(first, second, units, permutations=39, rng=rng)
        assert exact
        rejected += p_value <= 0.05
    assert 6 <= rejected <= 35  # 20 are expected, with a standard deviation of 4.4


def test_no_limit_is_printed_where_no_ratio_is_small_enough():
    rng = np.random.default_rng(0)
    train = rng.normal(size=(60, 4))
    fresh = np.concatenate([train[:20], rng.normal(size=(20, 4))])  # half of it is training data
    table = quietly(fresh, rng.normal(size=(40, 4)), train).table()
    assert "too many fresh samples are as near" in table
    assert "-1.00" not in table


def test_features_may_be_so_wide_that_a_block_holds_less_than_one_sample():
    narrow = normal(5, 8, 4, sets=2)
    wide = np.zeros((2, 8, 150_000))
    wide[:, :, :4] = narrow
    expected, result = find_neighbours(*narrow, 3), find_neighbours(*wide, 3)
    assert result.nearest.tolist() == expected.nearest.tolist()
    assert result.ratio == pytest.approx(expected.ratio)


def wilson(share, n):
    z = 1.959963984540054
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return middle - reach, middle + reach


@pytest.mark.parametrize(("n", "m", "k"), [(60, 90, 150), (150, 40, 70), (250, 120, 100)])
def test_every_number_of_the_result_is_that_of_its_definition(n, m, k):
    rng = np.random.default_rng(n)
    fresh, model, train = (rng.normal(size=(size, 3)) for size in (n, m, k))
    model[: m // 4] = train[: m // 4] + rng.normal(0, 0.03, size=(m // 4, 3))
    result = quietly(fresh, model, train, permutations=9)

    def far(a, b):
        return np.sqrt(((a[:, None] - b) ** 2).sum(axis=2))

    assert result.n == (n, m, k)
    ratios = {}
    for name, points in (("fresh", fresh), ("model", model)):
        ordered = np.sort(far(points, train), axis=1)
        ratios[name] = ordered[:, 0] / ordered[:, 4]
    assert result.reference_ratios == pytest.approx(ratios["fresh"], rel=1e-5)
    assert result.model_ratios == pytest.approx(ratios["model"], rel=1e-5)
    limit = np.sort(ratios["fresh"])[max(1, n // 100) - 1]  # one in a hundred, or one
    assert result.threshold == pytest.approx(limit, rel=1e-5)
    near = tuple(float((ratios[name] <= limit).mean()) for name in ("fresh", "model"))
    assert result.near == near
    value = near[1] - near[0]
    (low_x, high_x), (low_y, high_y) = wilson(near[0], n), wilson(near[1], m)
    assert result.share.value == pytest.approx(max(value, 0), rel=1e-5)
    assert result.share.low == pytest.approx(max(value - np.hypot(near[1] - low_y, high_x - near[0]), 0), rel=1e-5)
    assert result.share.high == pytest.approx(value + np.hypot(high_y - near[1], near[0] - low_x), rel=1e-5)
    pool = np.concatenate([train, fresh])
    nearest = far(model, pool).argmin(axis=1)
    share, chance = float((nearest < k).mean()), k / (n + k)
    assert result.nearest == (share, chance)
    counts = np.bincount(nearest, minlength=n + k)
    spread = np.sqrt(counts.var(ddof=1) * n * k / (n + k))  # of the sum over k of the pool, drawn without replacement
    reach = 1.959963984540054 * spread / m / (1 - chance)
    drawn = (share - chance) / (1 - chance)
    expected = [min(1.0, max(0.0, end)) for end in (drawn, drawn - reach, drawn + reach)]
    assert [result.drawn.value, result.drawn.low, result.drawn.high] == pytest.approx(expected, rel=1e-5)
    width = 0.2 * np.median(far(pool, model).min(axis=1))
    density = np.log(np.exp(-(far(pool, model) ** 2) / (2 * width**2)).mean(axis=1) + np.exp(-700.0))
    assert result.likelihood_gap == pytest.approx(density[:k].mean() - density[k:].mean(), rel=1e-4)
    listed = sorted(np.flatnonzero(ratios["model"] <= limit), key=lambda row: ratios["model"][row])
    assert [one.sample.place for one in result.copies] == listed
    for one in result.copies:
        row = one.sample.place
        assert one.source.place == far(model, train)[row].argmin()
        assert one.distance == pytest.approx(far(model, train)[row].min(), rel=1e-5)
        assert one.ratio == pytest.approx(ratios["model"][row], rel=1e-5)
        assert one.rarity == pytest.approx((1 + (ratios["fresh"] <= ratios["model"][row]).sum()) / (1 + n), rel=1e-5)
    table = {row[0]: row[1:] for row in result._table().rows}
    assert table["near copies"][:2] == [f"{100 * near[1]:.1f}%", f"{100 * near[0]:.1f}%"]
    assert table["nearest is training"][:2] == [f"{100 * share:.1f}%", f"{100 * chance:.1f}% by chance"]
    assert table["ratio, median"][:2] == [
        f"{np.median(result.model_ratios):.3f}",
        f"{np.median(result.reference_ratios):.3f}",
    ]
    lines = result.copy_lines(2)
    assert len(lines) == 4 + 2
    assert lines[-2:] == [f"… and {len(listed) - 2} more", ""]
    assert len(result.copy_lines(len(listed))) == 2 * len(listed) + 1


@pytest.mark.parametrize(("n", "few"), [(99, True), (100, False)])
def test_with_fewer_than_a_hundred_samples_there_is_a_doubt(n, few):
    train, fresh, model = normal(2, 100)
    for sides in ((fresh[:n], model), (fresh, model[:n])):
        kinds = {caveat.kind for caveat in quietly(*sides, train, permutations=9).caveats}
        assert kinds == ({"few samples"} if few else set())
    assert quietly(fresh[:5], model[:5], train[:5], permutations=1).n == (5, 5, 5)
