"""Sums that do not depend on their order, and numbers without the digits in which processors differ."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pytest import approx

from mallow.engine import bits_for_squares, round_to, settle, unit_rows

ROWS = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.floats(-1e300, 1e300))


@given(st.integers(1, 2**50))
@example(1)
@example(2)
@example(3)
def test_squares_of_that_many_bits_have_an_exact_sum_and_of_one_more_do_not(count):
    bits = bits_for_squares(count)
    assert count * 4**bits < 2**53 <= count * 4 ** (bits + 1)
    assert bits_for_squares(0) == bits_for_squares(1)


@given(st.floats(-1e6, 1e6), st.integers(-20, 10))
def test_numbers_are_rounded_to_multiples_of_a_power_of_two(value, exponent):
    [whole] = round_to(np.array([value]), exponent)
    assert whole == int(whole)
    assert abs(whole * 2.0**exponent - value) <= 2.0 ** (exponent - 1)


@given(ROWS, st.integers(-30, 30))
def test_rows_of_length_one_depend_on_nothing_but_their_direction(rows, power):
    units = unit_rows(rows)
    for row, unit in zip(rows, units, strict=True):
        scaled = row / (np.abs(row).max() or 1.0)
        length = np.sqrt((scaled**2).sum())
        assert unit == approx(scaled / (length or 1.0), abs=1e-6)
        assert (unit**2).sum() == approx(1.0 if row.any() else 0.0, abs=1e-12)
        assert unit_rows(row[None])[0].tolist() == unit.tolist()  # whatever stands beside it
        assert unit_rows(row[None, ::-1])[0].tolist() == unit[::-1].tolist()  # in whatever order
    quiet = np.where(np.abs(rows) < 1e-200, 0.0, rows) * 1e-9
    assert unit_rows(quiet * 2.0**power).tolist() == unit_rows(quiet).tolist()


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-300, 1.0, 1e300, 1.7e308])
def test_the_smallest_and_the_largest_numbers_have_a_direction(scale):
    assert unit_rows(np.array([[scale, 0.0], [-scale, -scale], [0.0, 0.0]])) == approx(
        np.array([[1, 0], [-(0.5**0.5), -(0.5**0.5)], [0, 0]])
    )
    assert unit_rows(np.zeros((2, 0))).shape == (2, 0)


@dataclass(frozen=True)
class Pair:
    first: float
    second: object


def test_numbers_are_settled_wherever_they_stand():
    third = 1 / 3
    value = Pair(third, {"a": (third, [2 * third, 7, True, "x", None]), "b": np.array([[third], [1e-12]])})
    made = settle(value, 3, least=1e-9)
    assert made.first == 0.333
    assert made.second["a"] == (0.333, [0.667, 7, True, "x", None])
    assert isinstance(made.second["a"], tuple)
    assert made.second["b"].tolist() == [[0.333], [0.0]]
    assert made.second["a"][1][2] is True
    whole = np.array([123456, 7])
    assert settle(whole, 2) is whole
    assert settle(Pair, 2) is Pair  # a class is no value
    assert (settle(1e-9, least=1e-9), settle(-1e-10, least=1e-9), settle(-2.0, least=1e-9)) == (1e-9, 0.0, -2.0)
    assert settle(0.12345678901234) == 0.123456789  # ten digits: 0.1234567890
    assert settle(1e-300) == 1e-300
