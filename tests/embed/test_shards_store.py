"""Shards in object stores: `memory://`, and an S3 server on the loopback interface, configured as users configure theirs."""

import errno
import gzip
import io
import json
import tarfile
import warnings
from socket import create_server

import fsspec
import numpy as np
import pytest
from PIL import Image

import mallow
from mallow import EstimateWarning, InputError
from mallow.embed import embed_shards
from mallow.samples import _shard_files

WORDS = ["apple", "bear", "cat", "dune", "east", "fig", "gate", "hill"]


@pytest.fixture(scope="module")
def s3():
    """The address of a bucket."""
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        fsspec.filesystem("s3").mkdir("bucket")
        yield "s3://bucket"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture(params=["memory", "s3"])
def store(request, tmp_path):
    """The address of an empty folder."""
    base = "memory://" if request.param == "memory" else request.getfixturevalue("s3")
    return f"{base}/{tmp_path.name}"


def letters(texts):
    return np.array([[text.count(letter) for letter in "abcdefghilnpstu"] for text in texts], np.float32)


def shards_of_texts(seed: int) -> dict[str, bytes]:
    rng = np.random.default_rng(seed)
    texts = [[" ".join(rng.choice(WORDS[seed:], size=rng.integers(5, 20))) for _ in range(60)] for _ in range(3)]
    return {
        f"part-{number}.jsonl.gz": gzip.compress("".join(json.dumps({"text": text}) + "\n" for text in own).encode())
        for number, own in enumerate(texts)
    }


def put(folder: str, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        with fsspec.open(f"{folder}/{name}", "wb") as file:
            file.write(content)


def test_embedded_and_scored_from_urls_as_from_files(store, tmp_path):
    for seed, side in enumerate(("reference", "model")):
        put(f"{store}/{side}", shards_of_texts(seed))
        (tmp_path / side).mkdir()
        for name, content in shards_of_texts(seed).items():
            (tmp_path / side / name).write_bytes(content)
        there = embed_shards(f"{store}/{side}", f"{store}/{side}-features", embedder=letters, rows=25)
        here = embed_shards(tmp_path / side, tmp_path / f"{side}-features", embedder=letters, rows=25)
        assert len(there) == len(here) == 180
        assert [shard.name.rpartition("/")[2] for shard in there.shards.shards] == [
            shard.name.rpartition("/")[2] for shard in here.shards.shards
        ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)
        from_urls = mallow.score(f"{store}/reference-features", f"{store}/model-features/*.npz", repeats=1)
        from_files = mallow.score(str(tmp_path / "reference-features"), str(tmp_path / "model-features"), repeats=1)
    assert from_urls.to_json() == from_files.to_json()


def test_what_exists_in_a_store_is_not_embedded_again(store):
    put(f"{store}/in", shards_of_texts(0))
    seen = []

    def counting(texts):
        seen.extend(texts)
        return letters(texts)

    for _ in range(2):
        embed_shards(f"{store}/in/*.jsonl.gz", f"{store}/out", embedder=counting, rows=50)
        assert len(seen) == 180
    put(f"{store}/in", {"part-1.jsonl.gz": shards_of_texts(0)["part-1.jsonl.gz"][:-20]})
    with pytest.raises(
        InputError,
        match=r"1 of 3 shards could not be embedded\. (s3|memory)://.*part-1\.jsonl\.gz: cannot be read to the end",
    ):
        embed_shards(f"{store}/in", f"{store}/new", embedder=letters)
    with pytest.raises(InputError, match=r"nothing-\*: matches no file"):
        embed_shards(f"{store}/in/nothing-*", f"{store}/new", embedder=letters)


def test_archives_of_images_in_a_store(store):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for place in range(3):
            picture = io.BytesIO()
            Image.new("RGB", (4, 4), (place, 0, 0)).save(picture, "PNG")
            entry = tarfile.TarInfo(f"{place}.png")
            entry.size = picture.tell()
            picture.seek(0)
            archive.addfile(entry, picture)
    put(store, {"images-0.tar": content.getvalue()})
    features = embed_shards(
        f"{store}/images-0.tar",
        f"{store}/out",
        embedder=lambda paths: [[Image.open(path).getpixel((0, 0))[0]] for path in paths],
    )
    assert features.require_features().tolist() == [[0], [1], [2]]


def test_a_store_that_does_not_take_the_shard_is_named(s3):
    put(f"{s3}/texts", {"part-0.jsonl": b'{"text": "One."}'})
    with pytest.raises(
        InputError, match=r"s3://no-bucket/out/part-0-00000\.npz: cannot be written: .*Check the address and"
    ):
        embed_shards(f"{s3}/texts", "s3://no-bucket/out", embedder=letters)


class Unreliable:
    """A call of an object store that fails some times before it answers."""

    def __init__(self, call, failures):
        self.call, self.failures, self.asked = call, list(failures), 0

    def __call__(self, *arguments, **options):
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return self.call(*arguments, **options)


class EndpointConnectionError(Exception):
    """As botocore calls it: no OSError."""


BUSY = OSError(errno.EBUSY, "Please reduce your request rate.")  # what s3fs makes of SlowDown
DENIED = PermissionError(errno.EACCES, "Access Denied")


@pytest.fixture
def no_pauses(monkeypatch):
    """The pauses that would have been made."""
    pauses = []
    monkeypatch.setattr(_shard_files.time, "sleep", pauses.append)
    return pauses


@pytest.mark.parametrize("call", ["info", "find", "_open", "pipe_file"])
def test_what_is_transient_is_tried_again(store, monkeypatch, no_pauses, call):
    put(f"{store}/in", shards_of_texts(0))
    system = fsspec.core.url_to_fs(store)[0]
    before = embed_shards(f"{store}/in", f"{store}/out", embedder=letters, rows=25).load().features
    failing = Unreliable(
        getattr(system, call), [TimeoutError("read timed out"), EndpointConnectionError("refused"), BUSY]
    )
    monkeypatch.setattr(system, call, failing)
    after = embed_shards(f"{store}/in", f"{store}/again", embedder=letters, rows=25).load().features
    np.testing.assert_array_equal(after, before)
    assert no_pauses == [0.2, 0.8, 3.2]


@pytest.mark.parametrize(
    ("failures", "pauses"), [([BUSY] * 4, [0.2, 0.8, 3.2]), ([DENIED], []), ([RuntimeError("first\n  second")], [])]
)
def test_what_does_not_pass_is_one_line_with_the_name_of_the_object(store, monkeypatch, no_pauses, failures, pauses):
    put(f"{store}/in", shards_of_texts(0))
    system = fsspec.core.url_to_fs(store)[0]
    failing = Unreliable(system.info, failures)
    monkeypatch.setattr(system, "info", failing)
    with pytest.raises(InputError, match=r"(s3|memory)://.*: cannot be read: .*Check the address and your") as caught:
        _shard_files.stamp_of(f"{store}/in/part-0.jsonl.gz")
    assert "\n" not in str(caught.value)
    assert no_pauses == pauses


def test_a_read_in_the_middle_of_an_object_is_tried_again(s3, monkeypatch, no_pauses):
    content = bytes(range(256)) * 100
    put(f"{s3}/bytes", {"part.npy": content})
    with _shard_files.open_shard(f"{s3}/bytes/part.npy") as stream:
        first = stream.read(100)
        fetch = Unreliable(stream.cache._fetch, [BUSY, TimeoutError()])
        monkeypatch.setattr(stream.cache, "_fetch", fetch)
        assert first + stream.read() == content
    assert no_pauses == [0.2, 0.8]
    system = fsspec.core.url_to_fs(s3)[0]
    monkeypatch.setattr(system, "cat_file", Unreliable(system.cat_file, [ConnectionResetError()]))
    assert _shard_files.read_bytes(f"{s3}/bytes/part.npy", 10, 20) == content[10:20]
    assert no_pauses == [0.2, 0.8, 0.2]


def test_a_store_that_is_away_or_forbids_is_one_line(s3, monkeypatch, no_pauses):
    import s3fs

    with create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        with pytest.raises(
            InputError, match=r"^s3://bucket/gone/\*\.npy: cannot be read: .*Check the address"
        ) as caught:
            mallow.score("s3://bucket/gone/*.npy", "s3://bucket/gone/*.npy")
        assert "\n" not in str(caught.value)
        assert no_pauses == [0.2, 0.8, 3.2]
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
