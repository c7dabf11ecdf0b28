"""How values appear on the page."""

from mallow.report._filters import format_number, group_letters, shorten_text


def test_letters_go_on_after_z():
    assert [group_letters(place) for place in (0, 25, 26, 27, 701, 702)] == ["A", "Z", "AA", "AB", "ZZ", "AAA"]


def test_numbers_have_three_decimals_and_a_real_minus():
    assert [format_number(value) for value in (0.12345, -0.5, 1)] == ["0.123", "−0.500", "1.000"]
    assert format_number(-0.12347, 4) == "−0.1235"


def test_long_texts_are_shortened():
    assert shorten_text("x" * 600) == "x" * 600
    assert shorten_text("x" * 700) == "x" * 600 + " … (100 more characters)"
