"""What is fuzzed: every reader of files, objects and texts from outside. Each target takes whatever hypothesis invents.

A target is a strategy and a function. The function may return, or raise an `InputError` with one printable line. Anything
else is a failure: another exception, another warning, a wrong value where the target can tell. Another interface is one more
entry of `TARGETS`.
"""

import gzip
import io
import json
import os
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
import numpy as np
from hypothesis import strategies as st

import mallow
from fuzz_files import FILES, change_passport
from fuzz_http import send_bytes, visit_page, visits, wire_seeds
from fuzz_people import PEOPLE
from mallow.cli import cli
from mallow.cli._config import _defaults, _read
from mallow.embed import Cache
from mallow.embed._cache import sample_key
from mallow.embed._word_vectors import read_vectors
from mallow.errors import EstimateWarning, InputError, one_line, visible
from mallow.evidence import Signature
from mallow.generate import decoder
from mallow.models._source import gguf_adds_bos, gguf_architecture
from mallow.results import from_plain
from mallow.samples import Limits, read_parts

LIMITS = Limits(line_mb=0.05, expansion=200, depth=20, wait=0.01)
TOKENS = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\",
    b"\n",
    b"\r\n",
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
]
TOKENS += [
    b"null",
    b"NaN",
    b"-1",
    b"1e999",
    b"9" * 50,
    b'"text"',
    b"text",
    b"id",
    b"\x1b[2J",
    b"\\ud800",
    b"PK\x03\x04",
]
TOKENS += [
    b"\x1f\x8b\x08",
    b"GGUF",
    b"\x93NUMPY",
    b"PAR1",
    b"\xff\xff\xff\x7f",
    b"\x00\x00\x00\x80",
    b"[" * 40,
    b"a" * 300,
    b"HTTP/1.1\r\n",
    b"Content-Length: 9\r\n",
]


# --- strategies


@st.composite
def mutated(draw: Any, seeds: Callable[[], list[bytes]]) -> bytes:
    """A good file with a few bytes changed, cut, repeated, exchanged or put in."""
    data = bytearray(draw(st.sampled_from(seeds())))
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        length = draw(st.sampled_from([1, 1, 2, 4, 8, 64, 1000]))
        kind = draw(st.sampled_from(["flip", "set", "cut", "end", "repeat", "token", "swap", "random"]))
        if kind == "flip" and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "set" and data:
            data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x0A]))
        elif kind == "cut":
            del data[at : at + length]
        elif kind == "end":
            del data[at:]
        elif kind == "repeat":
            data[at:at] = data[at : at + length] * draw(st.integers(1, 8))
        elif kind == "token":
            data[at:at] = draw(st.sampled_from(TOKENS))
        elif kind == "swap":
            other = draw(st.integers(0, max(len(data) - 1, 0)))
            data[at : at + length], data[other : other + length] = data[other : other + length], data[at : at + length]
        else:
            data[at:at] = draw(st.binary(max_size=12))
    return bytes(data)


class Strange:
    """An object of which nothing is known."""


def leaves() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(st.characters(codec=None), max_size=8),
        st.binary(max_size=8),
        st.sampled_from(
            [Strange(), Strange, Path("gone.png"), np.float32(1), np.str_("a"), np.array(1.0), 1j, "a.png", ...]
        ),
        st.sampled_from(
            [np.zeros((2, 2)), np.array(["a", None], object), np.zeros((2, 0)), np.zeros(3, [("a", "f4")])]
        ),
    )


def objects() -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=4).map(tuple),
            st.dictionaries(st.sampled_from(["text", "id", "prompt", "x", 5]), inner, max_size=3),
            st.sets(st.integers() | st.text(max_size=2), max_size=3),
            st.lists(inner, max_size=3).map(iter),
        ),
        max_leaves=12,
    )


def plain() -> st.SearchStrategy[Any]:
    """Whatever JSON can hold."""
    simple = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    return st.recursive(
        simple, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    )


# --- good files to begin with


TEXTS = ["One.", 'Two, with "quotes"\nand a line.', "Drei – ünï", "four"]


@lru_cache
def jsonl_seeds() -> list[bytes]:
    rows = [json.dumps({"id": i, "prompt": "p", "text": text, "n": [1, {"a": None}]}) for i, text in enumerate(TEXTS)]
    whole = "\n".join(rows).encode()
    whole += b"\n" + json.dumps(HARNESS).encode()
    lists = b'{"text": ["a", "b"]}\n{"text": ["c"]}\n'
    return [whole, lists, b'\xef\xbb\xbf{"text": "a"}\r\n\r\n{"text": "b"}', gzip.compress(whole, mtime=0), b""]


HARNESS = {"doc_id": 1, "arguments": {"gen_args_0": {"arg_0": "p"}}, "resps": [["a", "b"]], "filter": "none"}
INSPECT = {"id": 1, "input": "p", "output": {"choices": [{"message": {"content": [{"type": "text", "text": "a"}]}}]}}


@lru_cache
def json_seeds() -> list[bytes]:
    """Arrays, objects in lines, logs of lm-evaluation-harness and of Inspect."""
    rows = [{"id": i, "text": text} for i, text in enumerate(TEXTS)]
    seeds = [rows, [HARNESS, HARNESS | {"filter": "other"}], {"eval": {}, "samples": [INSPECT, INSPECT]}, rows[0]]
    lines = "\n".join(map(json.dumps, rows)).encode()
    return [*(json.dumps(seed).encode() for seed in seeds), lines, gzip.compress(lines, mtime=0)]


@lru_cache
def log_seeds() -> list[bytes]:
    seeds = []
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", compression) as archive:
            for name in ("samples/1_epoch_1.json", "samples/10_epoch_1.json", "header.json"):
                archive.writestr(zipfile.ZipInfo(name), json.dumps(INSPECT), compression)
        seeds.append(stream.getvalue())
    return seeds


@lru_cache
def tensor_seeds() -> list[bytes]:
    def safetensors(header: dict[str, Any], data: bytes) -> bytes:
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + data

    shape = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    return [
        safetensors({"features": shape}, bytes(24)),
        safetensors({"features": shape, "__metadata__": {}}, bytes(24)),
    ]


@lru_cache
def settings_seeds() -> list[bytes]:
    """The first letter says which of the two formats."""
    toml = b'tembedder = "minilm"\n[compare]\nsystems = {a = "a.npy", b = "b.npy"}\nrepeats = 2\n[score]\nmax = ["depth=3"]\n'
    yaml = b"yscore:\n  repeats: 1\n  skip-bad: true\ncompare:\n  systems: {a: a.npy}\n  scale: 2.5\nfield: text\n"
    return [toml, yaml, b't[tool.mallow]\nfield = "x"\n', b"ytool: {mallow: {limit: 3}}\n"]


@lru_cache
def csv_seeds() -> list[bytes]:
    return [
        b'id,text\n1,a\n2,"b, ""c""\nd"\n',
        b"text\na\n\nb\n",
        b"\xef\xbb\xbftext;id\na;1\n",
        b"a,b,text\r\n1,2,3\r\n",
    ]


@lru_cache
def txt_seeds() -> list[bytes]:
    return ["\n".join(TEXTS).encode(), b"a\r\nb\r\n", gzip.compress(b"a\nb\n", mtime=0), "a\n".encode("utf-16")]


@lru_cache
def numpy_seeds() -> list[bytes]:
    seeds = []
    for array in (np.arange(12.0).reshape(4, 3), np.zeros((2, 1), np.float16), np.arange(4), np.array(["a", "b"])):
        stream = io.BytesIO()
        np.save(stream, array)
        seeds.append(stream.getvalue())
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        labels = {"ids": np.array(["1", "1", "2", "3"]), "prompts": np.array('["a", "a", "b", "c"]')}
        save(stream, features=np.arange(12.0).reshape(4, 3), provenance=np.array('{"embedder": "x"}'), **labels)
        seeds.append(stream.getvalue())
    return [*seeds, gzip.compress(seeds[0], mtime=0)]


@lru_cache
def parquet_seeds() -> list[bytes]:
    import pyarrow
    import pyarrow.parquet

    seeds = []
    for columns in (
        {"text": TEXTS, "id": [1, 2, 3, 4]},
        {"text": [["a", "b"], ["c"]]},
        {"text": [None, "a"], "x": [1.0, 2.0]},
    ):
        for options in ({}, {"compression": "none", "use_dictionary": False}):
            stream = io.BytesIO()
            pyarrow.parquet.write_table(pyarrow.table(columns), stream, **options)
            seeds.append(stream.getvalue())
    return [*seeds, gzip.compress(seeds[0], mtime=0)]


@lru_cache
def image_seeds() -> list[bytes]:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, (9, 7, 3), dtype=np.uint8)
    seeds = []
    for form in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"):
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, form)
        seeds.append(stream.getvalue())
    return seeds


@lru_cache
def archive_seeds() -> list[bytes]:
    seeds = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
            for name, content in [
                ("a.png", image_seeds()[0]),
                ("a.txt", b"a caption"),
                (f"{'long' * 40}/é.jpg", image_seeds()[1]),
            ]:
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                with suppress(ValueError):  # the oldest format has no room for the long name
                    archive.addfile(entry, io.BytesIO(content))
        seeds.append(stream.getvalue())
    return seeds


@lru_cache
def result_seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = mallow.compare(rng.normal(size=(40, 2)), {"a": rng.normal(size=(40, 2))}, repeats=1)
    return [made.to_json().encode(), next(iter(made.scores.values())).to_json().encode()]


@lru_cache
def vector_seeds() -> list[bytes]:
    text = b"the 0.1 0.2\nof -1 2e3\na b 1 2\n"
    binary = b"2 3\nthe " + np.arange(3, dtype="<f4").tobytes() + b"of " + np.arange(3, dtype="<f4").tobytes()
    return [text, b"3 2\n" + text, binary, gzip.compress(text, mtime=0)]


@lru_cache
def gguf_seeds() -> list[bytes]:
    def entry(key: bytes, kind: int, value: bytes) -> bytes:
        return len(key).to_bytes(8, "little") + key + kind.to_bytes(4, "little") + value

    name = (5).to_bytes(8, "little") + b"llama"
    keys = entry(b"general.architecture", 8, name) + entry(b"tokenizer.ggml.add_bos_token", 7, b"\1")
    return [b"GGUF" + (3).to_bytes(4, "little") + bytes(8) + (2).to_bytes(8, "little") + keys]


# --- what is done with them


def read_file(suffix: str) -> Callable[[bytes, Path], None]:
    def run(data: bytes, folder: Path) -> None:
        path = folder / f"case{suffix}"
        path.write_bytes(data)
        skips = mallow.read(path, skip_bad=True, limits=LIMITS)
        check_samples(skips)
        first = mallow.read(path, skip_bad=True, limits=LIMITS, limit=1)
        assert 1 <= len(first) <= len(skips)
        if skips.texts is not None and suffix in (".jsonl", ".csv"):
            copy = folder / f"copy{suffix}"
            mallow.samples.write(skips, copy)
            again = mallow.read(copy)
            assert again.texts == skips.texts
        assert mallow.read(path, limits=LIMITS).skipped == ()

    return run


def check_samples(samples: Any) -> None:
    """What holds of any samples."""
    assert len(samples) >= 1
    for labels in (samples.ids, samples.prompts):
        assert labels is None or len(labels) == len(samples)
    for text in samples.texts or ():
        assert text
        text.encode()
    if samples.features is not None:
        assert samples.features.ndim == 2
        assert np.isfinite(samples.features).all()
    assert repr(samples).isprintable()


def parse_settings(data: bytes, folder: Path) -> None:
    """Options from a file: what click is to take as defaults, or wrong usage in one line."""
    path = folder / ("case.toml" if data[:1] == b"t" else "case.yaml")
    path.write_bytes(data[1:])
    try:
        defaults = _defaults(cli, _read(str(path)), "case")
    except click.UsageError as error:
        check_message(InputError(one_line(error.message)))
        return
    for values in defaults.values():
        for value in values.values():
            assert isinstance(value, str | int | float) or all(isinstance(one, str | int | float) for one in value)


def read_image(data: bytes, folder: Path) -> None:
    home = folder / "images"
    home.mkdir(exist_ok=True)
    (home / "case.png").write_bytes(data)
    samples = mallow.read(home, skip_bad=True)
    assert (
        mallow.samples.decode_image(samples.images[0], label="image")[0].size[0] > 0
    )  # what is not skipped can be used


def read_archive(data: bytes, folder: Path) -> None:
    path = folder / "case-0.tar"
    path.write_bytes(data)
    for part in read_parts(str(path), 1, skip_bad=True):
        assert len(part) == 1
        assert mallow.samples.decode_image(part.images[0], label="image")[0].size[0] > 0
    assert [path.name for path in folder.iterdir() if "png" in path.name] == []  # names lead nowhere


def read_object(value: Any, folder: Path) -> None:
    check_samples(mallow.read(value))


def score_objects(values: tuple[Any, Any], folder: Path) -> None:
    mallow.score(*values, embedder=lambda samples: np.ones((len(samples), 2)), repeats=1)


def parse_result(data: bytes, folder: Path) -> None:
    text = data.decode("utf-8", "replace")
    for kind in (mallow.Comparison, mallow.Score):
        try:
            made = kind.from_json(text)
        except InputError as error:
            check_message(error)
            continue
        assert kind.from_json(made.to_json()).to_json() == made.to_json()


def parse_signature(values: Any, folder: Path) -> None:
    line = str(from_plain(Signature, values))
    assert visible(line, lines=False) == line


def parse_decoder(text: str, folder: Path) -> None:
    assert decoder(text).name


def parse_vectors(data: bytes, folder: Path) -> None:
    path = folder / "vectors.txt"
    path.write_bytes(data)
    read_vectors(path, {b"the", b"of", b"a b"})


def parse_gguf(data: bytes, folder: Path) -> None:
    path = folder / "model.gguf"
    path.write_bytes(data)
    gguf_architecture(str(path))
    gguf_adds_bos(str(path))


def load_cache(edits: list[tuple[int, int]], folder: Path) -> None:
    """Whatever happens to the file, a row is the one that was stored, or it is missing."""
    cache = Cache(folder / f"cache-{os.getpid()}")
    cache.clear()
    keys, rows = [sample_key(str(i)) for i in range(5)], np.arange(15, dtype=np.float32).reshape(5, 3)
    cache.store("x", keys, rows)
    for file in (path for path in cache.folder.rglob("*") if path.is_file() and not path.name.endswith(".json")):
        data = bytearray(file.read_bytes())
        for at, value in edits:
            data[at % len(data)] ^= value
        file.write_bytes(data)
    for key, row in cache.load("x", keys).items():
        assert row.tolist() == rows[keys.index(key)].tolist()


def signatures() -> st.SearchStrategy[Any]:
    texts = st.text(st.characters(codec=None), max_size=20)
    good = {"version": texts, "measure": texts, "embedder": texts, "width": st.integers(), "n": st.integers()}
    good |= {"m": st.integers(), "bins": st.none() | st.integers(), "repeats": st.integers(), "rng": st.integers()}
    return st.fixed_dictionaries({name: value | plain() for name, value in good.items()}) | plain()


@dataclass(frozen=True)
class Target:
    """One interface: what is invented for it, and what is done with it."""

    values: st.SearchStrategy[Any]
    run: Callable[[Any, Path], None]


def passport_edits() -> st.SearchStrategy[Any]:
    """Which values of a passport become what, and whether the digest is made to agree."""
    values = st.integers(-3, 200) | st.floats(-1, 2) | plain()
    return st.tuples(st.lists(st.tuples(st.integers(0, 10**6), values), max_size=3), st.booleans())


def decoders() -> st.SearchStrategy[str]:
    parts = [
        "greedy",
        "beam",
        "nucleus",
        "top-k",
        "typical",
        "min-p",
        "eta",
        "contrastive",
        "temperature",
        ":",
        "+",
        ",",
    ]
    parts += ["0.5", "-1", "1e999", "nan", "5", "", " ", "٣", "\x1b", "0x10", "1_0"]
    return st.lists(st.sampled_from(parts), max_size=6).map("".join) | st.text(max_size=12)


TARGETS = {
    "jsonl": Target(mutated(jsonl_seeds), read_file(".jsonl")),
    "txt": Target(mutated(txt_seeds), read_file(".txt")),
    "csv": Target(mutated(csv_seeds), read_file(".csv")),
    "npy": Target(mutated(numpy_seeds), read_file(".npy")),
    "npz": Target(mutated(numpy_seeds), read_file(".npz.gz")),
    "parquet": Target(mutated(parquet_seeds), read_file(".parquet")),
    "json": Target(mutated(json_seeds), read_file(".json")),
    "logs": Target(mutated(log_seeds), read_file(".eval")),
    "tensors": Target(mutated(tensor_seeds), read_file(".safetensors")),
    "settings": Target(mutated(settings_seeds), parse_settings),
    "images": Target(mutated(image_seeds), read_image),
    "archives": Target(mutated(archive_seeds), read_archive),
    "objects": Target(objects(), read_object),
    "scores": Target(st.tuples(objects(), objects()), score_objects),
    "results": Target(mutated(result_seeds), parse_result),
    "signature": Target(signatures(), parse_signature),
    "decoders": Target(decoders(), parse_decoder),
    "vectors": Target(mutated(vector_seeds), parse_vectors),
    "gguf": Target(mutated(gguf_seeds), parse_gguf),
    "cache": Target(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=6), load_cache),
    "http": Target(visits(), visit_page),
    "wire": Target(mutated(wire_seeds), send_bytes),
    "passports": Target(passport_edits(), change_passport),
    **{name: Target(mutated(seeds), run) for name, (seeds, run) in (PEOPLE | FILES).items()},
}


def check_message(error: InputError) -> None:
    """An error of the user is one printable line."""
    text = str(error)
    assert text.strip(), "an empty message"
    assert visible(text, lines=False) == text, ascii(text)


def run_case(target: Target, value: Any, folder: Path) -> None:
    """One case: it passes, or is refused in one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", EstimateWarning)
        try:
            target.run(value, folder)
        except InputError as error:
            check_message(error)
