"""Recordings: every encoding gives the same values, and what cannot be read is named."""

import struct
import sys
import tracemalloc

import numpy as np
import pytest
from pytest import approx

import mallow
from audio_files import RATE, tone, write_wave
from mallow.errors import InputError
from mallow.samples import Limits, decode_audio, read_audio_header


@pytest.mark.parametrize(("code", "bits"), [(1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64)])
def test_every_encoding_gives_the_same_values(code, bits, tmp_path):
    both = np.stack([tone(440, 0.02), tone(880, 0.02)], axis=1)
    path = write_wave(tmp_path / "a.wav", both, code=code, bits=bits)
    values, rate = decode_audio(path)
    assert (rate, values.dtype, values.shape) == (RATE, np.float32, both.shape)
    assert np.abs(values - both).max() < (0.01 if bits == 8 else 1e-4)
    assert read_audio_header(path) == (RATE, 2, len(both))


def test_scipy_agrees(tmp_path):
    from scipy.io import wavfile

    rng = np.random.default_rng(0)
    for dtype in (np.uint8, np.int16, np.int32, np.float32):
        high = 1.0 if dtype is np.float32 else np.iinfo(dtype).max
        wavfile.write(tmp_path / "a.wav", 8000, (rng.uniform(0.1, 0.9, (50, 2)) * high).astype(dtype))
        values = wavfile.read(tmp_path / "a.wav")[1].astype(float)
        scaled = (values - 128) / 128 if dtype is np.uint8 else values / (high + (0 if dtype is np.float32 else 1))
        assert decode_audio(tmp_path / "a.wav")[0] == approx(scaled, abs=1e-6)


def test_flac_is_lossless(tmp_path):
    soundfile = pytest.importorskip("soundfile", reason="needs soundfile: pip install 'mallow[audio]'")
    values = np.round(tone(300, 0.05) * 32767) / 32768
    soundfile.write(tmp_path / "a.flac", values, RATE)
    assert decode_audio(tmp_path / "a.flac")[0][:, 0] == approx(values, abs=1e-6)
    assert read_audio_header(tmp_path / "a.flac") == (RATE, 1, len(values))


def test_a_flac_file_that_promises_more_than_it_holds(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    path = tmp_path / "a.flac"
    soundfile.write(path, tone(440), RATE)
    data = bytearray(path.read_bytes())
    data[21] |= 0x0F  # the upper bits of the number of values: 16 GB of them
    path.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"a\.flac: the recording cannot be read"):
        decode_audio(path)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def test_silence_does_not_expand_without_bounds(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.flac", np.zeros((9_000_000, 2)), RATE)
    with pytest.raises(
        InputError, match=r"a\.flac: .* expands to more than 100 times its size; if you trust it, save it as wav"
    ):
        decode_audio(tmp_path / "a.flac")


def test_a_short_silence_is_a_recording_however_small_its_file(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    path = tmp_path / "a.flac"
    soundfile.write(path, np.zeros(2_000_000), RATE)
    assert 100 * path.stat().st_size < 4 * 2_000_000
    values, rate = decode_audio(path)
    assert (values.shape, rate, np.abs(values).max()) == ((2_000_000, 1), RATE, 0.0)


def test_a_good_header_before_values_that_cannot_be_used(tmp_path):
    values = np.full(100, 0.5)
    write_wave(tmp_path / "a.wav", values, code=3, bits=32)
    values[7] = np.nan
    write_wave(tmp_path / "b.wav", values, code=3, bits=32)
    assert len(mallow.read(tmp_path)) == 2  # values are looked at when they are used
    samples = mallow.read(tmp_path, skip_bad=True)
    assert len(samples) == 1
    assert "values that are not finite" in str(samples.skipped[0])


def test_flac_without_soundfile(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    (tmp_path / "a.flac").write_bytes(b"fLaC")
    with pytest.raises(
        InputError, match=r"soundfile is needed for this and is not installed: .*pip install '.*\[audio\]'"
    ):
        decode_audio(tmp_path / "a.flac")


def test_without_soundfile_only_the_names_of_flac_files_are_checked(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (tmp_path / "a.flac").write_bytes(b"nonsense")
    assert len(mallow.read(tmp_path)) == 1
    (tmp_path / "b.wav").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"b\.wav: the recording cannot be read: it does not begin like a wav file"):
        mallow.read(tmp_path)


def test_other_chunks_and_unknown_lengths_are_no_obstacle(tmp_path):
    extra = b"LIST" + struct.pack("<I", 3) + b"abc\0"  # an odd length is filled up
    path = write_wave(tmp_path / "a.wav", tone(440, 0.01), extra=extra)
    assert len(decode_audio(path)[0]) == 160
    content = path.read_bytes()
    for unknown in (0x7FFFF000, 0xFFFFFFFF):  # of programs that write to a pipe
        path.write_bytes(content.replace(b"data" + struct.pack("<I", 320), b"data" + struct.pack("<I", unknown)))
        assert len(decode_audio(path)[0]) == read_audio_header(path).frames == 160


@pytest.mark.parametrize("lost", [1, 100, 288])
def test_a_recording_that_is_cut_short_is_refused(tmp_path, lost):
    path = write_wave(tmp_path / "a.wav", tone(440, 0.01))
    path.write_bytes(path.read_bytes()[:-lost])
    there = (320 - lost) // 2
    for read_file in (decode_audio, read_audio_header, mallow.read):
        with pytest.raises(InputError, match=f"it is cut short: {there} of 160 values are there"):
            read_file(path)


def wave(*chunks: bytes) -> bytes:
    """A file of chunks, each with its name and its length, filled up to an even one."""
    each = [chunk[:4] + struct.pack("<I", len(chunk) - 4) + chunk[4:] + b"\0" * (len(chunk) % 2) for chunk in chunks]
    return b"RIFF" + struct.pack("<I", 4 + sum(map(len, each))) + b"WAVE" + b"".join(each)


def described(code: int, channels: int, bits: int, more: bytes = b"") -> bytes:
    return b"fmt " + struct.pack("<HHIIHH", code, channels, 8000, 0, 0, bits) + more


@pytest.mark.parametrize(
    ("code", "bits", "data", "values"),
    [
        (1, 8, bytes([0, 64, 128, 192, 255]), [-1.0, -0.5, 0.0, 0.5, 127 / 128]),
        (1, 16, struct.pack("<4h", -(2**15), 2**14, 0, -1), [-1.0, 0.5, 0.0, -(2.0**-15)]),
        (1, 24, b"\0\0\x80" + b"\0\0\x40" + b"\1\0\0" + b"\xff\xff\xff", [-1.0, 0.5, 2.0**-23, -(2.0**-23)]),
        (1, 32, struct.pack("<3i", -(2**31), 2**30, 256), [-1.0, 0.5, 2.0**-23]),
        (3, 32, struct.pack("<3f", -1.0, 0.25, 3.5), [-1.0, 0.25, 3.5]),
        (3, 64, struct.pack("<3d", -1.0, 0.25, 3.5), [-1.0, 0.25, 3.5]),
    ],
)
def test_values_by_their_bytes(code, bits, data, values, tmp_path):
    path = tmp_path / "A.WAV"
    path.write_bytes(wave(described(code, 1, bits), b"data" + data))
    assert decode_audio(path)[0][:, 0].tolist() == values
    assert read_audio_header(path) == (8000, 1, len(values))
    assert read_audio_header(path).seconds == len(values) / 8000
    # The long form of the description, whose own code says that the true one follows.
    more = struct.pack("<HHI", 22, bits, 0) + struct.pack("<H", code) + bytes(14)
    path.write_bytes(wave(b"JUNK" + bytes(5), described(0xFFFE, 1, bits, more), b"odd " + bytes(3), b"data" + data))
    assert decode_audio(path)[0][:, 0].tolist() == values
    path.write_bytes(wave(described(0xFFFE, 1, bits, more[:9]), b"data" + data))
    with pytest.raises(InputError, match=rf"encoding 65534 with {bits} bits is not supported"):
        decode_audio(path)
    # Two channels take turns; half a frame at the end does not count.
    path.write_bytes(wave(described(code, 2, bits), b"data" + data))
    assert decode_audio(path)[0].tolist() == [values[place : place + 2] for place in range(0, len(values) - 1, 2)]
    assert read_audio_header(path).frames == len(values) // 2


@pytest.mark.parametrize("start", [b"RIFF\0\0\0\0WAV", b"RIFX\0\0\0\0WAVE", b"RIFF\0\0\0\0AVI "])
def test_what_does_not_begin_like_a_wav_file(start, tmp_path):
    (tmp_path / "a.wav").write_bytes(start + wave(described(1, 1, 8), b"data" + bytes(4))[12:])
    for read_it in (decode_audio, read_audio_header):
        with pytest.raises(
            InputError, match=r"a\.wav: the recording cannot be read: it does not begin like a wav file\."
        ):
            read_it(tmp_path / "a.wav")


def test_flac_is_read_in_blocks(tmp_path, monkeypatch):
    soundfile = pytest.importorskip("soundfile")
    values = np.round(np.stack([tone(300, 0.02), tone(500, 0.02)], axis=1) * 32767) / 32768
    soundfile.write(tmp_path / "a.FLAC", values, RATE, format="FLAC")
    monkeypatch.setattr("mallow.samples._media._BLOCK", 7)
    decoded, rate = decode_audio(tmp_path / "a.FLAC")
    assert (rate, decoded.tolist()) == (RATE, values.astype(np.float32).tolist())
    assert read_audio_header(tmp_path / "a.FLAC") == (RATE, 2, len(values))
    monkeypatch.setattr("mallow.samples._media.ALWAYS_ALLOWED", 8 * len(values))
    monkeypatch.setattr("mallow.samples._media.DEFAULT_LIMITS", Limits(expansion=1e-9))
    assert len(decode_audio(tmp_path / "a.FLAC")[0]) == len(values)  # exactly as many bytes as are allowed
    monkeypatch.setattr("mallow.samples._media.ALWAYS_ALLOWED", 8 * len(values) - 1)
    with pytest.raises(InputError, match=r"a\.FLAC: .* expands to more than 1e-09 times its size"):
        decode_audio(tmp_path / "a.FLAC")
    monkeypatch.setattr("mallow.samples._media.DEFAULT_LIMITS", Limits(expansion=1e3))
    assert len(decode_audio(tmp_path / "a.FLAC")[0]) == len(values)  # by the size of its file


def test_a_folder_of_recordings(tmp_path):
    for name in ("b.wav", "deep/a.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_wave(tmp_path / name, tone(440))
    (tmp_path / "notes.txt").write_text("ignored")
    samples = mallow.read(tmp_path)
    assert (samples.kind, samples.ids) == ("audio", ("b.wav", "deep/a.wav"))
    assert samples.require_audio() == samples.audio == (tmp_path / "b.wav", tmp_path / "deep/a.wav")
    assert mallow.read([str(path) for path in samples.audio]).audio == samples.audio
    assert mallow.read(tmp_path / "b.wav").audio == (tmp_path / "b.wav",)
    assert mallow.Samples(audio=[tmp_path / "b.wav"]).take([0]).audio == (tmp_path / "b.wav",)
    with pytest.raises(InputError, match="image samples are needed here; got audio samples"):
        samples.require_images()
    with pytest.raises(InputError, match="audio samples are needed here; got text samples"):
        mallow.read(["text"]).require_audio()


def test_one_folder_holds_one_kind(tmp_path):
    write_wave(tmp_path / "a.wav", tone(440))
    (tmp_path / "b.png").write_bytes(b"")
    with pytest.raises(InputError, match="must contain samples of one kind, but it contains 1 images and 1 recordings"):
        mallow.read(tmp_path)
    with pytest.raises(InputError, match="`Samples` takes `images` or `audio`, not both"):
        mallow.Samples(images=["b.png"], audio=["a.wav"])


def bad(content: bytes, reason: str):
    return pytest.param(content, reason, id=reason)


def header(code=1, channels=1, rate=8000, bits=16, length=16) -> bytes:
    return b"fmt " + struct.pack("<IHHIIHH", length, code, channels, rate, 0, 0, bits)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        bad(b"", "the file is empty, not a recording"),
        bad(b"ID3\x04" + b"\0" * 20, "it does not begin like a wav file"),
        bad(b"RIFF\0\0\0\0WAVE", "it has no values"),
        bad(b"RIFF\0\0\0\0WAVE" + b"data\2\0\0\0\0\0", "its values come before their description"),
        bad(b"RIFF\0\0\0\0WAVE" + b"fmt \2\0\0\0\1\0", "its header is cut short"),
        bad(b"RIFF\0\0\0\0WAVE" + header(code=85), "encoding 85 with 16 bits is not supported; save it with 16 bits"),
        bad(b"RIFF\0\0\0\0WAVE" + header(channels=0), "its header promises 0 channels and 8000 values per second"),
        bad(b"RIFF\0\0\0\0WAVE" + header() + b"data\0\0\0\0", "it has no values"),
    ],
)
def test_what_is_wrong_with_a_recording_is_said(content, reason, tmp_path):
    (tmp_path / "bad.wav").write_bytes(content)
    write_wave(tmp_path / "good.wav", tone(440))
    with pytest.raises(InputError, match=rf"bad\.wav: .*{reason}"):
        mallow.read(tmp_path)
    samples = mallow.read(tmp_path, skip_bad=True)
    assert samples.ids == ("good.wav",)
    assert reason in samples.skipped[0]


def test_values_that_are_no_sound(tmp_path):
    write_wave(tmp_path / "a.wav", np.array([0.1, np.nan]), code=3, bits=32)
    with pytest.raises(
        InputError, match=r"a\.wav: the recording cannot be read: it contains values that are not finite"
    ):
        decode_audio(tmp_path / "a.wav")
    (tmp_path / "b.mp3").write_bytes(b"x")
    with pytest.raises(
        InputError, match=r"b\.mp3: recordings with the suffix '\.mp3' are not supported; convert it to wav"
    ):
        mallow.read(tmp_path)
    with pytest.raises(InputError, match=r"gone\.wav: no such file"):
        mallow.read([tmp_path / "gone.wav"])
    with pytest.raises(InputError, match=r"5: must be the path of a recording; got 5\."):
        mallow.read([tmp_path / "a.wav", 5])


def test_a_recording_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.wav").write_bytes(wave(described(1, 1, 8), b"data"))
    with pytest.raises(
        InputError,
        match=rf"^{tmp_path}/a\.wav: the recording cannot be read: it has no values; leave it out\. Open it in a player",
    ):
        decode_audio(tmp_path / "a.wav")
    for read_file in (decode_audio, read_audio_header):
        with pytest.raises(InputError, match=rf"^{tmp_path}/b\.wav: the recording cannot be read: .*No such file"):
            read_file(tmp_path / "b.wav")
