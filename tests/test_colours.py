"""Colours of plots and of the report: apart in grey and for colour-blind eyes, and dark enough to be read."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from mallow.results import draw

STYLE = (Path(draw.__file__).parent.parent / "report" / "templates" / "style.css").read_text(encoding="utf-8")
# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
BLINDNESS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])


def linear(colour):
    """Linear RGB of "#rrggbb" or "#rgb"."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    encoded = np.array([int(digits[place : place + 2], 16) for place in (0, 2, 4)]) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b* (D65) of linear RGB."""
    ratio = XYZ @ np.clip(rgb, 0, 1) / [0.95047, 1.0, 1.08883]
    f = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(first, second):
    """The ratio of WCAG 2."""
    light, dark = sorted((XYZ[1] @ linear(colour) for colour in (first, second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def variables(part):
    """The colours of one part of the style sheet by name."""
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,8})\b", part))


PRINT = STYLE.index("@media print")
DARK = STYLE.index("@media (prefers-color-scheme: dark)")
THEMES = {
    "light": variables(STYLE[:DARK]),
    "dark": variables(STYLE[DARK : STYLE.index("* { box-sizing")]),
    "print": variables(STYLE[:DARK]) | variables(STYLE[PRINT:]),
}
HUES = [f"hue-{letter}" for letter in "abcdef"]


def test_the_ratio_of_black_and_white_is_21():
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert lab(linear("#ff0000")) == pytest.approx([53.24, 80.09, 67.20], abs=0.05)


def test_the_page_has_the_colours_of_the_plots():
    for theme in ("light", "print"):
        assert tuple(THEMES[theme][hue] for hue in HUES) == draw.COLOURS


@pytest.mark.parametrize("theme", THEMES)
def test_systems_remain_apart_in_grey_and_for_every_kind_of_colour_vision(theme):
    colours = [linear(THEMES[theme][hue]) for hue in HUES]
    assert min(abs(lab(a)[0] - lab(b)[0]) for a, b in combinations(colours, 2)) > 6.5  # lightness, all that grey keeps
    assert min(np.linalg.norm(lab(a) - lab(b)) for a, b in combinations(colours, 2)) > 30
    for name, matrix in BLINDNESS.items():
        seen = [lab(np.array(matrix) @ colour) for colour in colours]
        assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 20, name


@pytest.mark.parametrize("theme", THEMES)
def test_text_and_lines_are_dark_enough(theme):
    colours = THEMES[theme]
    for text in ("ink", "soft", "accent"):
        for ground in ("ground", "raised"):
            assert contrast(colours[text], colours[ground]) > 4.5, (text, ground)  # AA for text
    assert contrast(colours["ink"], colours["mark"]) > 4.5
    for line in (*HUES, "bar", "other", "focus"):
        assert contrast(colours[line], colours["ground"]) > 2.99, line  # AA for what is no text
