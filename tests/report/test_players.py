"""Recordings in a report: players that need no other file."""

import base64
import re

import numpy as np
import pytest
from pytest import approx

from audio_files import tone, write_wave
from mallow import report
from mallow.samples import decode_audio

pytestmark = pytest.mark.filterwarnings("ignore::mallow.EstimateWarning")


def decoded(address, tmp_path):
    (tmp_path / "played.wav").write_bytes(base64.b64decode(address.partition("base64,")[2]))
    return decode_audio(tmp_path / "played.wav")


def test_examples_have_players(tmp_path):
    for side, pitch in (("real", 400), ("made", 900)):
        (tmp_path / side).mkdir()
        for number in range(40):
            write_wave(tmp_path / side / f"{number}.wav", tone(pitch + number, seconds=0.1))
    report.write(tmp_path / "report.html", tmp_path / "real", {"made": tmp_path / "made"})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    sources = re.findall(r'<audio controls preload="none" src="(data:audio/wav;base64,[^"]+)"', page)
    assert len(sources) >= 6
    values, rate = decoded(sources[0], tmp_path)
    assert rate == 16000
    assert float(np.abs(values).max()) == approx(0.5, abs=0.01)
    assert "media-src data:" in page


def test_a_long_recording_is_cut_and_mixed(tmp_path):
    left = tone(300, seconds=12.0, rate=44100)
    path = write_wave(tmp_path / "long.wav", np.stack([left, 0 * left], axis=1), rate=44100)
    values, rate = decoded(report._sentences.player(str(path)), tmp_path)
    assert values.shape == (5 * 44100 // 3, 1)
    assert rate == 14700
    assert float(np.abs(values).max()) == approx(0.25, abs=0.01)


def test_what_is_no_recording_has_no_player(tmp_path):
    (tmp_path / "broken.wav").write_bytes(b"nothing")
    assert report._sentences.player(str(tmp_path / "broken.wav")) is None
    assert report._sentences.player("picture.png") is None
