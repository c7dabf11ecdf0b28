"""Texture: every group of features is what its definition says, and which pixels are measured."""

import numpy as np
import pytest
from pytest import approx

from mallow.embed import texture

RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (13, 11, 3), dtype=np.uint8)
SPECTRUM, COLOURS, SIZES = slice(0, 17), slice(17, 41), slice(65, 70)
LUMA = np.array([0.299, 0.587, 0.114])


def features(image):
    return texture([image])[0].astype(np.float64)


def parts(image):
    """The luma, and each inner pixel minus the mean of its four neighbours."""
    values = image / 255.0
    height, width, _ = image.shape
    residual = np.empty((height - 2, width - 2, 3))
    for row in range(1, height - 1):
        for column in range(1, width - 1):
            four = [values[row - 1, column], values[row + 1, column], values[row, column - 1], values[row, column + 1]]
            residual[row - 1, column - 1] = values[row, column] - np.mean(four, axis=0)
    return values @ LUMA, residual


def test_only_the_centre_of_a_large_image_is_measured():
    large = RNG.integers(0, 256, (300, 270, 3), dtype=np.uint8)
    centre = large[22 : 22 + 256, 7 : 7 + 256]
    assert features(large).tolist() == features(centre).tolist()
    assert features(large[:200]).tolist() == features(large[:200, 7 : 7 + 256]).tolist()  # one side is small
    border = large.copy()
    border[:22], border[278:], border[:, :7], border[:, 263:] = 0, 0, 255, 255
    assert features(border).tolist() == features(centre).tolist()


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 4), (2, 7)])
def test_a_tiny_image_is_continued_at_its_edges(shape):
    tiny = NOISE[: shape[0], : shape[1]]
    wide = np.pad(tiny, [(0, max(0, 4 - shape[0])), (0, max(0, 4 - shape[1])), (0, 0)], mode="edge")
    assert features(tiny).tolist() == features(wide).tolist()
    assert features(wide[:4]).tolist() == features(wide).tolist()


def test_colours_are_counted_in_eight_steps_of_each_channel():
    shares = [np.bincount(NOISE[..., channel].ravel() // 32, minlength=8) / (13 * 11) for channel in range(3)]
    # The three channels share one sum.
    assert features(NOISE)[COLOURS] == approx(2 * np.sqrt(np.concatenate(shares) / 3), abs=1e-5)
    white = features(np.full((6, 6, 3), 255, np.uint8))[COLOURS].reshape(3, 8)
    assert white[:, 7] == approx(2 * np.sqrt(1 / 3), abs=1e-5)
    assert not white[:, :7].any()


def test_sizes_of_differences_and_residuals_by_definition():
    luma, residual = parts(NOISE)
    across, down = luma[:, 1:] - luma[:, :-1], luma[1:] - luma[:-1]
    powers = [np.mean(across**2), np.mean(down**2), *(np.mean(residual[..., channel] ** 2) for channel in range(3))]
    assert features(NOISE)[SIZES] == approx(np.log10(powers), abs=1e-4)
    flat = features(np.full((9, 9, 3), 77, np.uint8))
    assert flat[SIZES] == approx([-6] * 5)  # nothing differs: the floor
    assert flat[70:] == approx([0] * 8)  # and nothing agrees


def test_histograms_of_differences_by_definition():
    luma, residual = parts(NOISE)
    edges = [0, *(np.array([0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5]) / 255), 2]
    for place, values in enumerate((np.diff(luma, axis=1), np.diff(luma, axis=0), residual @ LUMA)):
        counts = np.histogram(np.abs(values), edges)[0]
        found = features(NOISE)[41 + 8 * place : 49 + 8 * place]
        assert found == approx(2 * np.sqrt(counts / counts.sum()), abs=1e-5), place


def test_agreement_of_channels_and_neighbours_by_definition():
    values, (_, residual) = NOISE / 255.0, parts(NOISE)
    grey = residual @ LUMA
    pairs = [(x[..., i], x[..., j]) for x in (values, residual) for i, j in ((0, 1), (0, 2), (1, 2))]
    pairs += [(grey[:, 1:], grey[:, :-1]), (grey[1:], grey[:-1])]
    assert features(NOISE)[70:] == approx([np.corrcoef(x.ravel(), y.ravel())[0, 1] for x, y in pairs], abs=1e-4)


@pytest.mark.parametrize("cycles", [3, 12, 20, 30])
def test_a_grating_is_in_the_ring_of_its_frequency(cycles):
    places = np.arange(64)
    wave = (127.5 + 100 * np.sin(2 * np.pi * cycles * places / 64)).round().astype(np.uint8)
    upright = np.repeat(np.tile(wave, (64, 1))[..., None], 3, axis=2)
    ring = int(cycles / 64 * 2 * 16)
    for image in (upright, upright.transpose(1, 0, 2)):
        spectrum = features(image)[SPECTRUM]
        assert spectrum.argmax() == ring
        brighter = features((image * 0.5).round().astype(np.uint8))[SPECTRUM]
        assert spectrum[ring] - brighter[ring] == approx(np.log10(4), abs=0.02)  # half the amplitude
    checks = np.indices((64, 64)).sum(axis=0) % 2 * 200
    assert features(np.repeat(checks[..., None], 3, axis=2).astype(np.uint8))[SPECTRUM].argmax() == 16  # the corner
