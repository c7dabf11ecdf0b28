"""How values appear on the page."""

import base64
import io

import pytest

from mallow.report import _sentences as filters
from mallow.report._sentences import format_number, group_letters, shorten_text


def test_letters_go_on_after_z():
    assert [group_letters(place) for place in (0, 25, 26, 27, 701, 702)] == ["A", "Z", "AA", "AB", "ZZ", "AAA"]


def test_numbers_have_three_decimals_and_a_real_minus():
    assert [format_number(value) for value in (0.12345, -0.5, 1)] == ["0.123", "−0.500", "1.000"]
    assert format_number(-0.12347, 4) == "−0.1235"


def test_long_texts_are_shortened():
    assert shorten_text("x" * 600) == "x" * 600
    assert shorten_text("x" * 700) == "x" * 600 + " … (100 more characters)"


def test_small_numbers_are_powers_of_ten_and_names_stay():
    assert filters.typeset("p < 1e-6; 2.3e-05") == "p\u00a0<\u00a010⁻⁶; 2.3·10⁻⁵"
    assert filters.typeset("lr_3e-4 and run1e-5x") == "lr_3e-4 and run1e-5x"


def test_terms_are_marked_as_whole_words_and_everything_is_escaped():
    marked = filters.mark_terms("A <b> cat, concat; a  CAT & co", ["cat", "a cat", "<b>"])
    assert marked == "A &lt;b&gt; <mark>cat</mark>, concat; <mark>a  CAT</mark> &amp; co".replace(
        "&lt;b&gt;", "<mark>&lt;b&gt;</mark>"
    )
    assert filters.mark_terms("<i>", []) == "&lt;i&gt;"
    assert filters.mark_terms("<i>", ["", " "]) == "&lt;i&gt;"


def test_powers_are_typeset_where_they_are_numbers():
    assert filters.typeset("p = 4e-7 and 10e-5, 1.0e-3, 1e-10") == "p\u00a0=\u00a04·10⁻⁷ and 10e-5, 1.0·10⁻³, 10⁻¹⁰"
    assert filters.typeset("12% and x, map < 3") == "12% and x, map < 3"


def test_the_longest_term_is_marked():
    assert str(filters.mark_terms("new york city", ["new", "new york", "city"])) == (
        "<mark>new york</mark> <mark>city</mark>"
    )


def test_small_copies_of_images(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    image.new("L", (400, 100), 77).save(tmp_path / "a.png")
    address = filters.thumbnail(str(tmp_path / "a.png"))
    head, _, content = address.partition(",")
    assert head == "data:image/png;base64"
    with image.open(io.BytesIO(base64.b64decode(content))) as copy:
        assert (copy.format, copy.size, copy.mode, copy.getpixel((0, 0))) == (
            "PNG",
            (192, 48),
            "RGBA",
            (77, 77, 77, 255),
        )
    (tmp_path / "b.png").write_bytes(b"x")
    assert filters.thumbnail(str(tmp_path / "b.png")) is None
    assert filters.thumbnail(str(tmp_path / "gone.png")) is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert filters.thumbnail(str(tmp_path / "a.png")) is None
