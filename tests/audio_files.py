"""Small .wav files, written chunk by chunk, and sounds to put into them."""

import struct
from pathlib import Path

import numpy as np

RATE = 16000


def tone(pitch: float, seconds: float = 0.3, rate: int = RATE) -> np.ndarray:
    """A sine of half the full scale."""
    return 0.5 * np.sin(2 * np.pi * pitch * np.arange(int(seconds * rate)) / rate)


def write_wave(
    path: Path, values: np.ndarray, *, rate: int = RATE, code: int = 1, bits: int = 16, extra: bytes = b""
) -> Path:
    """Values in [-1, 1], (frames,) or (frames, channels), in any encoding; `extra` are chunks before the values."""
    channels = 1 if values.ndim == 1 else values.shape[1]
    if code == 3:
        data = values.astype(f"<f{bits // 8}").tobytes()
    elif bits == 8:
        data = np.round(values * 127 + 128).astype(np.uint8).tobytes()
    elif bits == 24:
        data = np.round(values * (2**23 - 1)).astype("<i4").ravel().view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
    else:
        data = np.round(values * (2 ** (bits - 1) - 1)).astype(f"<i{bits // 8}").tobytes()
    described = struct.pack("<HHIIHH", code, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)
    chunks = (
        b"fmt " + struct.pack("<I", len(described)) + described + extra + b"data" + struct.pack("<I", len(data)) + data
    )
    path.write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks)
    return path
