"""The test that exchanges samples within prompts: changes that cancel over prompts."""

import numpy as np
import pytest

import mallow
from mallow import Measure, Samples
from mallow.evidence import Witness, run_permutations


def answers(seed, *, sizes=(10, 10), shift=0.0, between=1.0, times=1, prompts=25, width=10):
    """Answers to prompts; those of the model are shifted in a direction of each prompt, and these sum to zero."""
    rng = np.random.default_rng(seed)
    centres, directions = between * rng.normal(size=(prompts, width)), rng.normal(size=(prompts, width))
    directions -= directions.mean(axis=0)
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    sides = []
    for side, size in enumerate(sizes):
        unit = np.repeat(np.arange(prompts), size)
        rows = centres[unit] + rng.normal(size=(len(unit), width)) + side * shift * directions[unit]
        names = [f"prompt {number}" for number in np.tile(unit, times)]
        sides.append(Samples(features=np.tile(rows, (times, 1)), prompts=names))
    return sides


def test_changes_that_cancel_are_seen():
    for seed in range(2):
        sides = answers(seed, shift=1.5)
        assert mallow.permutation_test(*sides, permutations=99) < 0.001
        assert mallow.permutation_test(*sides, permutations=99, independent_samples=False) > 0.05


@pytest.mark.parametrize("case", [{}, {"between": 20.0}, {"sizes": (10, 7)}, {"sizes": (4, 4), "times": 2}], ids=str)
def test_no_gap_is_no_gap(case):
    within = [run_permutations(*answers(seed, prompts=8, **case), permutations=49).within for seed in range(25)]
    assert np.mean(np.array(within) < 0.1) <= 0.3
    assert np.mean(np.array(within) > 0.5) >= 0.2


def test_the_p_value_is_twice_the_smaller():
    sides = answers(0, prompts=6, sizes=(3, 4))
    test = run_permutations(*sides, permutations=99)
    first = run_permutations(*sides, permutations=99, independent_samples=False)
    assert first.within is None
    assert test.p_value == min(1.0, 2.0 * min(first.p_value, test.within))
    assert "within units: means, strength 1" in test.statistics


@pytest.mark.parametrize("case", [{"prompts": 4}, {"sizes": (1, 3)}], ids=str)
def test_few_samples_within_prompts_are_not_exchanged(case):
    assert run_permutations(*answers(0, **case), permutations=49).within is None


def test_the_order_of_rows_changes_nothing():
    sides = answers(3, prompts=6, sizes=(3, 4), shift=1.0)
    moved = [side.take(np.random.default_rng(4).permutation(len(side))) for side in sides]
    assert run_permutations(*moved, permutations=99) == run_permutations(*sides, permutations=99)


@pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")
def test_a_score_sees_it_and_can_be_told_not_to():
    sides = answers(1, shift=1.5)
    measure = Measure(witness=Witness(independent_samples=False))
    seen, not_seen = mallow.score(*sides, repeats=1), mallow.score(*sides, repeats=1, measure=measure)
    assert seen.p_value < 0.001
    assert seen.evidence.test.within < 0.001
    assert not_seen.evidence.test.within is None
    assert "independent_samples=False" in str(not_seen.signature)
