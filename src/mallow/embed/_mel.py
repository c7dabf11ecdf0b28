"""Recordings without a network: statistics of their spectrum in mel bands, the default for audio."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from mallow._checks import whole
from mallow.embed._protocol import Rows, StreamsFeatures, in_parts
from mallow.engine import cores, ordered_map
from mallow.errors import InputError
from mallow.samples import decode_audio

Recording = tuple[NDArray[np.float32], int]
"""Values (frames, channels) or (frames,) in [-1, 1], and the rate."""

_PART = 32  # recordings per part that `stream` yields; chosen: a second or two of work
_FLOOR = 1e-8  # of the power in a band; chosen: 80 dB below a sine of full scale, below the noise of 16 bits


@dataclass(frozen=True)
class MelStatistics(StreamsFeatures):
    """Features of recordings: mean and spread over time of the logarithmic power in mel bands, and of its change.

    A recording is mixed to one channel, resampled to `rate`, and cut into windows of 25 ms every 10 ms. The power
    spectrum of each is summed in `bands` triangular bands, equally spaced on the mel scale, and its logarithm (base 10)
    is taken. The 4 × `bands` features are, for each band, the mean and the standard deviation over all windows, and the
    mean and the standard deviation of the absolute change from one window to the next.

    They represent loudness, timbre, pitch range, noise, bandwidth and the speed of changes. They miss spoken words
    and the order of longer passages: a melody and its reverse are nearly the same. For these use a network of your
    own (docs/how-to/embedder.md). Only numpy and scipy are needed; .flac files need soundfile (the extra `audio`).

    Parameters
    ----------
    rate : int
        Values per second. Frequencies above half of it are lost.
    bands : int

    Examples
    --------
    >>> time = np.arange(16000) / 16000
    >>> low, high = (np.sin(2 * np.pi * pitch * time).astype(np.float32) for pitch in (200, 3000))
    >>> points = MelStatistics(bands=8)([(low, 16000), (high, 16000)])
    >>> points.shape, points[:, :8].argmax(axis=1).tolist()
    ((2, 32), [0, 5])
    """

    kind: ClassVar[Literal["audio"]] = "audio"

    rate: int = 16000
    bands: int = 64

    def __post_init__(self) -> None:
        whole("rate", self.rate, least=1000)
        whole("bands", self.bands, least=1)

    @property
    def name(self) -> str:
        """The rate and the bands."""
        return f"MelStatistics(rate={self.rate}, bands={self.bands})"

    def stream(self, samples: Sequence[Any], /) -> Iterator[Rows]:
        """Places and features (4 × bands) of recordings (paths, or pairs of values and their rate), in order."""
        numbered = enumerate(checked_recordings(samples))
        return in_parts(ordered_map(self._features, numbered, cores(), ahead=2), _PART)

    def _features(self, numbered: tuple[int, Any]) -> NDArray[np.float32]:
        place, item = numbered
        recording = decode_audio(item) if isinstance(item, str | os.PathLike) else _checked_values(item, place)
        length, hop = self.rate // 40, self.rate // 100
        spectra = power_spectra(mono(recording, self.rate), length, hop)
        bands = spectra @ mel_filters(self.rate, length, self.bands).T
        levels = np.log10(bands + _FLOOR)
        change = np.abs(np.diff(levels, axis=0)) if len(levels) > 1 else np.zeros_like(levels)
        parts = (levels.mean(0), levels.std(0), change.mean(0), change.std(0))
        return np.concatenate(parts).astype(np.float32)


def checked_recordings(samples: Sequence[Any]) -> list[Any]:
    """The samples as a list of paths and of pairs (values, rate); anything else is refused before any work."""
    if isinstance(samples, str | bytes | os.PathLike):
        raise InputError("`samples` must be a list of recordings; got a single path. Put it into a list.")
    for place, item in enumerate(samples):
        if isinstance(item, str | os.PathLike):
            if not Path(item).is_file():
                raise InputError(f"{os.fspath(item)}: no such file (sample {place}). Check the path.")
        elif not (isinstance(item, tuple) and len(item) == 2):
            raise InputError(
                f"`samples` must be recordings: paths, or pairs (values, rate); sample {place} is of type "
                f"{type(item).__name__}."
            )
    return list(samples)


def _checked_values(item: tuple[Any, Any], place: int) -> Recording:
    values = np.asarray(item[0])
    if values.dtype.kind != "f" or values.ndim not in (1, 2) or not values.size or not np.isfinite(values).all():
        raise InputError(
            f"recording {place}: the values must be floating point in [-1, 1], of shape (frames,) or (frames, "
            f"channels), and finite; got shape {values.shape} and dtype {values.dtype}."
        )
    return values.astype(np.float32).reshape(len(values), -1), whole(f"rate of recording {place}", item[1], least=1)


def mono(recording: Recording, rate: int) -> NDArray[np.float64]:
    """One channel at a different rate, by a polyphase filter that removes everything above half of the lower rate."""
    from scipy.signal import resample_poly

    values, stored_rate = recording
    mixed: NDArray[np.float64] = values.astype(np.float64).mean(axis=1)
    if stored_rate == rate:
        return mixed
    common = np.gcd(stored_rate, rate)
    resampled: NDArray[np.float64] = resample_poly(mixed, rate // common, stored_rate // common)
    return resampled


def power_spectra(values: NDArray[np.float64], length: int, hop: int) -> NDArray[np.float64]:
    """Power spectra (windows, length // 2 + 1) of Hann windows; a shorter sound is filled up with silence."""
    values = np.pad(values, (0, max(0, length - len(values))))
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
    frames = np.lib.stride_tricks.sliding_window_view(values, length)[::hop]
    power: NDArray[np.float64] = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    return power / (length**2 / 16)


@cache
def mel_filters(rate: int, length: int, bands: int) -> NDArray[np.float64]:
    """Triangles (bands, length // 2 + 1), equally spaced on the mel scale 2595 log10(1 + f / 700) up to rate / 2."""
    highest = 2595 * np.log10(1 + rate / 2 / 700)
    corners = 700 * (10 ** (np.linspace(0, highest, bands + 2) / 2595) - 1)
    frequencies = np.arange(length // 2 + 1) * rate / length
    low, middle, high = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return np.maximum(0.0, np.minimum(rising, falling))
