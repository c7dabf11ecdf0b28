"""Files and bytes besides samples that come from elsewhere, as targets of the fuzzer: recordings, shards of features, saved
statistics, passports, baselines, what a monitor has counted, checkpoints, vocabularies, settings of image processors."""

import copy
import io
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

import mallow
from audio_files import tone, write_wave
from mallow.baselines import Moments, load_statistics, save_statistics
from mallow.embed._onnx_text import load_tokenizer
from mallow.embed._preprocess import preprocess_from_settings, processor_settings
from mallow.engine import Passes, Threads
from mallow.errors import InputError, visible
from mallow.estimate import Quantize
from mallow.evaluate import read_baseline
from mallow.evaluate._monitor_parts import _part_digest
from mallow.evaluate._passport import canonical_digest
from mallow.models import Source
from mallow.samples import decode_audio, find_shards, read_audio_header

ROWS = np.arange(12.0, dtype=np.float32).reshape(4, 3)


def as_bytes(write: Callable[[Path], object], name: str) -> bytes:
    """What is in the file that this function writes."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, name))
        return Path(folder, name).read_bytes()


# --- good files to begin with


@lru_cache
def wave_seeds() -> list[bytes]:
    stereo = np.stack([tone(440, 0.002), tone(220, 0.002)], axis=1)
    kinds = [(1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64)]
    seeds = [
        as_bytes(lambda path, kind=kind: write_wave(path, stereo, code=kind[0], bits=kind[1]), "a.wav")
        for kind in kinds
    ]
    return [*seeds, as_bytes(lambda path: write_wave(path, stereo[:, 0], extra=b"LIST\x03\0\0\0abc\0"), "a.wav")]


@lru_cache
def flac_seeds() -> list[bytes]:
    import soundfile

    values = np.stack([tone(440, 0.01), tone(220, 0.01)], axis=1)
    return [
        as_bytes(lambda path, sound=sound: soundfile.write(path, sound, 16000), "a.flac")
        for sound in (values, values[:, 0])
    ]


@lru_cache
def shard_seeds() -> list[bytes]:
    """The first letter says which format."""
    import pyarrow
    import pyarrow.parquet

    seeds = []
    for rows in (ROWS, ROWS.astype(np.float16), ROWS.astype(">f8")):
        stream = io.BytesIO()
        np.save(stream, rows)
        seeds.append(b"y" + stream.getvalue())
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, features=ROWS, ids=np.array(list("abcd")), provenance=np.array('{"embedder": "x"}'))
        seeds.append(b"z" + stream.getvalue())
    for kind in (pyarrow.list_(pyarrow.float32()), pyarrow.list_(pyarrow.float64(), 3)):
        stream = io.BytesIO()
        table = pyarrow.table({"features": pyarrow.array(ROWS.tolist(), kind), "id": list("abcd")})
        pyarrow.parquet.write_table(table, stream)
        seeds.append(b"p" + stream.getvalue())
    for kind, size in (("F32", 4), ("BF16", 2)):
        header = json.dumps({"features": {"dtype": kind, "shape": [4, 3], "data_offsets": [0, 12 * size]}}).encode()
        seeds.append(b"s" + len(header).to_bytes(8, "little") + header + bytes(12 * size))
    return seeds


@lru_cache
def statistics_seeds() -> list[bytes]:
    seeds = [as_bytes(lambda path: save_statistics(Moments.of(ROWS), str(path)), "a.npz")]
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, mu=np.zeros(3), sigma=np.eye(3))
        seeds.append(stream.getvalue())
    return seeds


@lru_cache
def score_seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        score = mallow.score(x, y, repeats=1)
        return [score.to_json().encode(), mallow.make_passport(score, x, y, key="k").to_json().encode()]


@lru_cache
def passport() -> dict[str, Any]:
    return json.loads(score_seeds()[1])


@lru_cache
def monitor() -> mallow.Monitor:
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = mallow.Monitor(rng.normal(size=(40, 2)), measure=mallow.Measure(Quantize(bins=4)))
        made.update(rng.normal(size=(20, 2)))
    return made


@lru_cache
def part_seeds() -> list[bytes]:
    return [monitor().counted()]


@lru_cache
def checkpoint_seeds() -> list[bytes]:
    stream = io.BytesIO()
    np.savez(stream, done=np.int64(1), state=ROWS)
    return [stream.getvalue()]


@lru_cache
def vocabulary_seeds() -> list[bytes]:
    """The first letter says which of the two formats."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "one", "two", "##s", "é"]
    from tokenizers.implementations import BertWordPieceTokenizer

    made = BertWordPieceTokenizer({piece: number for number, piece in enumerate(pieces)})
    return [b"t" + "\n".join(pieces).encode(), b"t" + "\r\n".join(pieces).encode(), b"j" + made.to_str().encode()]


@lru_cache
def processor_seeds() -> list[bytes]:
    square = {
        "do_resize": True,
        "size": {"height": 8, "width": 8},
        "resample": 3,
        "rescale_factor": 0.00392,
        "do_normalize": True,
    }
    clip = {"crop_size": {"height": 8, "width": 8}, "do_center_crop": True, "size": {"shortest_edge": 9}, "resample": 2}
    convnext = {"crop_pct": 0.875, "size": 16, "image_processor_type": "ConvNextImageProcessor", "do_rescale": False}
    means = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "do_flip_channel_order": True}
    return [json.dumps(settings | means).encode() for settings in (square, clip, convnext)]


# --- what is done with them


def read_recording(suffix: str) -> Callable[[bytes, Path], None]:
    def run(data: bytes, folder: Path) -> None:
        home = folder / f"sounds{suffix}"
        home.mkdir(exist_ok=True)
        path = home / f"case{suffix}"
        path.write_bytes(data)
        samples = mallow.read(home, skip_bad=True)  # what is not skipped can be used
        values, rate = decode_audio(path)
        header = read_audio_header(path)
        assert len(samples) == 1
        assert (header.channels, header.rate) == (values.shape[1], rate)
        assert np.isfinite(values).all()

    return run


def read_shard(data: bytes, folder: Path) -> None:
    kinds = {b"y": ".npy", b"z": ".npz", b"p": ".parquet", b"s": ".safetensors"}
    path = folder / f"case{kinds.get(data[:1], '.npy')}"
    path.write_bytes(data[1:])
    shards = find_shards(str(path), names=[str(path)])
    rows = shards.read()
    assert rows.shape == (len(shards), shards.width)
    assert np.isfinite(rows).all()
    one = next(iter(shards.chunks(1)))
    assert one.read().tobytes() == rows[: len(one)].tobytes()
    assert one.take(np.array([0])).tobytes() == rows[:1].tobytes()
    if (ids := shards.ids()) is not None:
        assert len(ids) == len(rows)


def read_statistics(data: bytes, folder: Path) -> None:
    path = folder / "case.npz"
    path.write_bytes(data)
    moments = load_statistics(str(path))
    distance = mallow.baselines.frechet_distance(moments, moments)
    assert abs(distance) < 1e-3 * max(1.0, float(np.abs(moments.covariance).max()))


def read_scores(data: bytes, folder: Path) -> None:
    """As a baseline and as a passport: one of the two refuses always."""
    path, messages = folder / "case.json", []
    path.write_bytes(data)
    for reader in (read_baseline, lambda path: mallow.verify_passport(path, key="k")):
        try:
            str(reader(path))
        except InputError as error:
            messages.append(str(error))
    for message in messages:
        assert visible(message, lines=False) == message.strip() != "", ascii(message)


def leaves_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values in what JSON holds."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not inside:
        yield path
    for key, part in inside:
        yield from leaves_of(part, (*path, key))


def change_passport(case: tuple[list[tuple[int, Any]], bool], folder: Path) -> None:
    """Some values are others, and the digest may be mended: the key's holder did not sign that."""
    edits, mended = case
    data = copy.deepcopy(passport())
    for number, value in edits:
        paths = list(leaves_of(data))
        *path, last = paths[number % len(paths)]
        reduce(getitem, path, data)[last] = value
    if mended:
        data["digest"] = canonical_digest(data)
    for key in ("k", None):
        check = mallow.verify_passport(data, key=key)
        assert not check.valid or (key, canonical_digest(data)) == ("k", passport()["digest"])
        assert visible(str(check)) == str(check)


def combine_part(data: bytes, folder: Path) -> None:
    before = monitor().counts.tolist()
    with suppress(ValueError, TypeError, AttributeError, RecursionError):  # a part that somebody has made by hand
        part = json.loads(data)
        part.pop("digest", None)
        data = json.dumps(part | {"digest": _part_digest(part)}).encode()
    both = monitor().combine([monitor().counted(), data])
    assert both.counts.shape == monitor().counts.shape
    assert 0 <= both.p_value <= 1
    assert monitor().counts.tolist() == before


def load_checkpoint(data: bytes, folder: Path) -> None:
    passes = Passes(Threads(checkpoint=str(folder / "checkpoint")), "work")
    (next((folder / "checkpoint").iterdir()) / "pass.npz").write_bytes(data)
    passes.run("pass", lambda task: task, [1, 2], {"state": np.zeros_like(ROWS)}, lambda state, task, result: None)


def read_vocabulary(data: bytes, folder: Path) -> None:
    path = folder / ("vocab.json" if data[:1] == b"j" else "vocab.txt")
    path.write_bytes(data[1:])
    load_tokenizer(path, 16).encode("One twos, é.")


def read_processor(data: bytes, folder: Path) -> None:
    home = folder / "model"
    home.mkdir(exist_ok=True)
    (home / "config.json").write_text("{}")
    (home / "preprocessor_config.json").write_bytes(data)
    preprocess_from_settings("model", processor_settings(Source(str(home), extra="vision")))


FILES = {
    "wave": (wave_seeds, read_recording(".wav")),
    "flac": (flac_seeds, read_recording(".flac")),
    "shards": (shard_seeds, read_shard),
    "statistics": (statistics_seeds, read_statistics),
    "baselines": (score_seeds, read_scores),
    "parts": (part_seeds, combine_part),
    "checkpoints": (checkpoint_seeds, load_checkpoint),
    "vocabularies": (vocabulary_seeds, read_vocabulary),
    "processors": (processor_seeds, read_processor),
}
