"""Spectra in mel bands: they are what the definition says, and a score sees what differs in sound."""

import warnings

import numpy as np
import pytest
from pytest import approx

import mallow
from audio_files import RATE, tone, write_wave
from mallow.embed import MelStatistics, embed_samples, find_embedder
from mallow.embed._mel import mel_filters, mono
from mallow.errors import InputError


def pair(values: np.ndarray, rate: int = RATE):
    return values.astype(np.float32)[:, None], rate


def test_the_level_of_a_tone_is_in_its_band():
    points = MelStatistics(bands=32)([pair(tone(1000)), pair(tone(1000) / 10)])
    mel = 2595 * np.log10(1 + 1000 / 700) / (2595 * np.log10(1 + 8000 / 700)) * 33  # the band, from 1
    assert abs(points[0, :32].argmax() + 1 - mel) <= 1
    assert points[0, :32].max() == approx(np.log10(0.5**2), abs=0.3)  # a sine of amplitude a has the power a² here
    assert points[0, :32].max() - points[1, :32].max() == approx(2, abs=0.01)  # a tenth is 20 dB less
    assert np.abs(points[0, 32:64]).max() < 0.2  # it does not change
    half = np.concatenate([tone(1000), np.zeros(4800)])
    band = points[0, :32].argmax()
    assert MelStatistics(bands=32)([pair(half)])[0, 32 + band] == approx(8 / 2, abs=0.6)  # between -0.6 and -8
    assert callable(MelStatistics().stream)


def test_the_filters_cover_every_frequency_once():
    filters = mel_filters(16000, 400, 40)
    total = filters.sum(axis=0)
    frequencies = np.arange(201) * 40
    inner = (frequencies > 60) & (frequencies < 7400)
    assert total[inner] == approx(1)  # neighbouring triangles add up to 1


def test_rate_and_channels_do_not_matter():
    mono_low = pair(tone(700))
    stereo = np.stack([tone(700), tone(700)], axis=1).astype(np.float32), RATE
    fast = pair(tone(700, rate=48000), 48000)
    points = MelStatistics()([mono_low, stereo, fast])
    assert points[1] == approx(points[0])
    loud = points[0, :64] > -4
    assert points[2, :64][loud] == approx(points[0, :64][loud], abs=0.05)
    assert len(mono(fast, RATE)) == len(mono_low[0])


def test_a_sound_shorter_than_a_window_is_filled_up():
    assert np.isfinite(MelStatistics()([pair(tone(700, 0.005)), pair(np.zeros(10))])).all()


def test_a_score_sees_noise_and_not_another_draw(tmp_path):
    rng = np.random.default_rng(0)

    def record(folder: str, noise: float, count: int = 60) -> str:
        (tmp_path / folder).mkdir()
        for place in range(count):
            sound = tone(rng.uniform(200, 900), 0.2) + rng.normal(0, 0.002 + noise, int(0.2 * RATE))
            write_wave(tmp_path / folder / f"{place:03d}.wav", sound.clip(-1, 1))
        return str(tmp_path / folder)

    real, same, noisy = record("real", 0), record("same", 0), record("noisy", 0.004)
    with warnings.catch_warnings(action="ignore"):  # few samples
        compared = mallow.compare(real, {"same": same, "noisy": noisy}, repeats=1)
    assert compared.scores["same"].p_value > 0.05
    assert compared.scores["noisy"].p_value < 0.001
    assert "MelStatistics(rate=16000, bands=64)" in str(compared.scores["same"].signature)


def test_differences_of_the_files_are_told(tmp_path):
    for folder, rate in (("real", 16000), ("model", 8000)):
        (tmp_path / folder).mkdir()
        for place in range(30):
            seconds = 0.1 if folder == "real" else 0.05
            write_wave(tmp_path / folder / f"{place}.wav", tone(300 + place, seconds, rate), rate=rate)
    found = {
        caveat.kind: str(caveat) for caveat in mallow.find_confounds(tmp_path / "real", {"model": tmp_path / "model"})
    }
    assert found["rate"].startswith("model: 100.0% of the recordings have 8000 values per second (reference: 0.0%).")
    assert found["duration"].startswith("model: the median duration is 0.05 s (reference: 0.1 s")
    assert "format" not in found
    copies = mallow.find_confounds(tmp_path / "real", {"copy": tmp_path / "real"})
    assert [caveat.kind for caveat in copies] == ["shared"]


def test_the_cache_knows_recordings(tmp_path):
    from mallow.embed import Cache

    path = write_wave(tmp_path / "a.wav", tone(500))
    cache = Cache(tmp_path / "cache")
    first = embed_samples([path], MelStatistics(), cache=cache).features
    assert (embed_samples([path], MelStatistics(), cache=cache).features == first).all()


def test_what_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"`bands` must be an integer of at least 1; got 0"):
        MelStatistics(bands=0)
    with pytest.raises(InputError, match=r"`samples` must be a list of recordings; got a single path"):
        MelStatistics()("a.wav")
    with pytest.raises(InputError, match=r"gone\.wav: no such file \(sample 0\)"):
        MelStatistics()(["gone.wav"])
    with pytest.raises(InputError, match=r"must be recordings: paths, or pairs .*; sample 0 is of type int"):
        MelStatistics()([3])
    with pytest.raises(
        InputError, match=r"recording 0: the values must be floating point .*; got shape \(4,\) and dtype int"
    ):
        MelStatistics()([(np.zeros(4, int), 8000)])
    for bad in (np.nan, np.inf):
        with pytest.raises(InputError, match=r"recording 1: the values must be .*, and finite; got shape \(4,\)"):
            MelStatistics()([pair(tone(700, 0.1)), (np.array([0.1, bad, 0.2, 0.1]), 8000)])
    with pytest.raises(
        InputError, match=r"`embedder` must be mel or package.module:object for audio samples; got 'gpt2'"
    ):
        find_embedder("gpt2", kind="audio")
    with pytest.raises(InputError, match=r"must embed audio samples; minilm embeds text samples. Use for example mel"):
        find_embedder("minilm", kind="audio")
    path = write_wave(tmp_path / "a.wav", tone(500))
    with pytest.raises(InputError, match=r"`embedder` must be mel or package.module:object for audio samples"):
        find_embedder(str(path), kind="audio")


def test_of_two_windows_the_deviation_is_half_their_change():
    """Deviations are those of all windows of a recording: it is not a sample of a longer one."""
    noise = np.random.default_rng(0).normal(0, 0.1, RATE // 40 + RATE // 100)
    mean, deviation, change, spread = MelStatistics(bands=16)([pair(noise)])[0].reshape(4, 16)
    assert change.min() > 0.001
    assert deviation == approx(change / 2, rel=1e-4)
    assert spread.tolist() == [0] * 16
    first, second = (MelStatistics(bands=16)([pair(noise[low : low + RATE // 40])])[0, :16] for low in (0, RATE // 100))
    assert mean == approx((first + second) / 2, abs=1e-5)
    assert change == approx(abs(first - second), abs=1e-5)
