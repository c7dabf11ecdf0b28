"""What has no answer gets none: an error with the way out, instead of a score of 1."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mallow
from mallow import Measure, Neighbors, Quantize, Reduce
from mallow.caveats import refuse_without_answer
from mallow.errors import InputError

AS_THEY_ARE = Measure(Quantize(reduce=Reduce(normalise=False)))
N = 60


def rays(scale, seed):
    """Rows in one direction, of different lengths."""
    return np.random.default_rng(seed).uniform(1, 2, size=(N, 1)) * scale * np.array([[1.0, -2.0, 0.5]])


CASES = {
    "width 1": (rays(1, 0)[:, :1], rays(5, 1)[:, :1], "the features have width 1, and the measure scales every row"),
    "one axis": (rays(1, 0)[:, 0], rays(5, 1)[:, 0], "the features have width 1, and the measure scales every row"),
    "equal directions": (
        rays(1, 0),
        rays(5, 1),
        "all 120 rows of features point in one direction and differ in length",
    ),
    "single precision": (rays(1, 0).astype(np.float32), rays(4, 0).astype(np.float32), "point in one direction"),
    "constant": (np.full((N, 3), 0.1), np.full((N, 3), 0.1), "all 120 rows of features are the same, so that nothing"),
    "zeros": (np.zeros((N, 3)), np.zeros((N, 3)), "all 120 rows of features are the same"),
    "two constants": (np.full((N, 3), 1.0), np.full((N, 3), 2.0), "point in one direction"),
}


@pytest.mark.parametrize("name", CASES)
def test_there_is_no_score(name):
    x, y, message = CASES[name]
    for call in (mallow.score, lambda x, y: mallow.compare(x, {"a": y}), mallow.diagnose):
        with pytest.raises(InputError, match=message):
            call(x, y)


@pytest.mark.parametrize("name", ["width 1", "equal directions", "two constants"])
def test_the_way_out_gives_one(name):
    x, y, _ = CASES[name]
    with pytest.raises(InputError, match=r"Pass `measure=Measure\(Quantize\(reduce=Reduce\(normalise=False\)\)\)`"):
        mallow.score(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert mallow.score(x, y, measure=AS_THEY_ARE, repeats=1).mauve < 0.2


def test_one_system_that_varies_is_enough_for_a_comparison():
    constant, varying = np.ones((N, 2)), np.random.default_rng(0).normal(size=(N, 2))
    refuse_without_answer(mallow.MAUVE_STAR, [constant, constant, varying])
    with pytest.raises(InputError, match="all 180 rows"):
        refuse_without_answer(mallow.MAUVE_STAR, [constant, constant, constant])


@given(seed=st.integers(0, 1000), power=st.integers(-300, 300), width=st.integers(2, 4))
def test_directions_do_not_depend_on_lengths(seed, power, width):
    rng = np.random.default_rng(seed)
    one = rng.normal(size=(1, width))
    other = one + rng.uniform(0.01, 1.0, size=(1, width)) * np.array([1.0, -1.0, 1.0, -1.0])[:width]
    lengths = 10.0**power * rng.uniform(0.5, 1.0, size=(20, 1))
    with pytest.raises(InputError, match="point in one direction"):
        refuse_without_answer(mallow.MAUVE_STAR, [lengths * one, one])
    refuse_without_answer(Measure(Neighbors()), [lengths * one, one])
    cosine = float(one[0] @ other[0] / np.linalg.norm(one) / np.linalg.norm(other))
    if cosine < 1 - 1e-9:
        refuse_without_answer(mallow.MAUVE_STAR, [lengths * one, other])


def is_refused(*sides):
    try:
        refuse_without_answer(mallow.MAUVE_STAR, list(sides))
    except InputError:
        return True
    return False


def test_opposite_directions_and_rows_of_zeros_are_different():
    one = np.array([[1.0, 2.0]])
    others = one, -one, 0 * one, np.ones((3, 5))  # different widths are an error of their own
    assert [is_refused(one, other) for other in others] == [True, False, False, False]


def test_an_estimator_must_return_masses():
    class Numbers:
        scale = 1.0

        def prepare(self, x, y):
            return None

        def masses(self, prepared, rng):
            return 5

    x = np.random.default_rng(0).normal(size=(N, 3))
    with pytest.raises(InputError, match=r"`estimator` must return Masses; Numbers\.masses returned int"):
        mallow.score(x, x + 1, measure=Measure(Numbers()))


@pytest.mark.parametrize("place", [1, 255, 256, 257, 599])
def test_one_row_that_differs_anywhere_is_an_answer(place):
    same = np.tile([1.0, 2.0], (600, 1))
    other = same.copy()
    other[place] = [2.0, 1.0]
    for sides in ([same, other], [other, same]):
        refuse_without_answer(mallow.MAUVE_STAR, sides)
    other[place] = [2.0, 4.0]  # another length alone
    with pytest.raises(InputError, match="all 1200 rows of features point in one direction and differ in length only"):
        refuse_without_answer(mallow.MAUVE_STAR, [same, other])
    refuse_without_answer(AS_THEY_ARE, [same, other])


def test_the_first_sides_may_have_another_width():
    narrow, wide = np.ones((3, 2)), np.ones((3, 4))
    assert [is_refused(narrow, narrow, last) for last in (narrow, wide)] == [True, False]
    assert not is_refused(wide, narrow, narrow)
