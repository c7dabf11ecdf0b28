"""The cache: what is stored can be loaded, by any process, and nothing half-written ever is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mallow.embed._cache import Cache, default_cache, sample_key
from mallow.errors import EstimateWarning, InputError

NAME = "Embedder(one)"


def keys(*texts: str) -> list[bytes]:
    return [sample_key(text) for text in texts]


def rows(n: int, width: int = 3) -> np.ndarray:
    return np.arange(n * width, dtype=np.float32).reshape(n, width)


@given(texts=st.lists(st.text(min_size=1), min_size=1, max_size=20, unique=True), parts=st.integers(1, 4))
def test_what_is_stored_can_be_loaded(tmp_path_factory, texts, parts):
    cache, stored = Cache(tmp_path_factory.mktemp("cache")), rows(len(texts))
    for part in range(parts):
        cache.store(NAME, keys(*texts[part::parts]), stored[part::parts])
    loaded = cache.load(NAME, keys(*texts, "\0 not there"))
    assert set(loaded) == set(keys(*texts))
    for key, row in zip(keys(*texts), stored, strict=True):
        np.testing.assert_array_equal(loaded[key], row)


def test_embedders_do_not_share_rows(tmp_path):
    cache = Cache(tmp_path)
    cache.store(NAME, keys("a"), rows(1))
    assert cache.load("Embedder(two)", keys("a")) == {}


def test_a_text_and_an_image_of_the_same_bytes_differ(tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(b"same")
    assert sample_key("same") != sample_key(path)
    other = tmp_path / "moved.png"
    other.write_bytes(b"same")
    assert sample_key(path) == sample_key(other)
    with pytest.raises(InputError, match=r"gone\.png: cannot be read: No such file"):
        sample_key(tmp_path / "gone.png")


def test_a_damaged_file_is_removed_with_a_warning(tmp_path):
    cache = Cache(tmp_path)
    cache.store(NAME, keys("a", "b"), rows(2))
    (file,) = tmp_path.glob("features/*/*.npy")
    whole = file.read_bytes()
    for damaged in (whole[:-5], whole[:20], b"", b"no array"):
        file.write_bytes(damaged)
        with pytest.warns(
            EstimateWarning, match=r"\.npy was damaged, so it was removed\. Its samples are embedded again\.$"
        ):
            assert cache.load(NAME, keys("a")) == {}
        assert not file.exists()


WRITER = """
import sys
from pathlib import Path
import numpy as np
from mallow.embed._cache import Cache, sample_key
cache, who = Cache(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
for i in range(10**6):
    texts = [f"{who} {i} {j}" for j in range(20)]
    cache.store("Embedder(one)", [sample_key(text) for text in texts], np.full((20, 50_000), i, np.float32))
    print(i, flush=True)
    if sys.argv[3] == str(i):
        break
"""


def writer(folder: Path, who: str, last: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), who, str(last)], stdout=subprocess.PIPE, text=True
    )


def test_two_processes_at_once_lose_nothing(tmp_path):
    both = [writer(tmp_path, who, 5) for who in "ab"]
    assert [process.wait(60) for process in both] == [0, 0]
    for process in both:
        process.stdout.close()
    wanted = [sample_key(f"{who} {i} {j}") for who in "ab" for i in range(6) for j in range(20)]
    loaded = Cache(tmp_path).load(NAME, wanted)
    assert len(loaded) == len(wanted)
    assert (loaded[sample_key("b 5 19")] == 5).all()


def test_a_kill_in_the_middle_of_a_write_leaves_only_whole_rows(tmp_path):
    process = writer(tmp_path, "a", -1)
    lines = [process.stdout.readline() for _ in range(6)]
    # Kill it while a file is half written, that is, while there is a hidden file.
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob("features/*/.*.tmp")) and time.monotonic() < deadline:
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    done = int(lines[-1])
    cache = Cache(tmp_path)
    loaded = cache.load(NAME, [sample_key(f"a {i} {j}") for i in range(done + 1) for j in range(20)])
    assert len(loaded) == 20 * (done + 1)
    assert all((loaded[sample_key(f"a {i} 7")] == i).all() for i in range(done + 1))
    # What it left is removed by the next pruning, once it is old enough to be abandoned.
    for file in tmp_path.glob("features/*/.*.tmp"):
        os.utime(file, (0, 0))
    cache.prune()
    assert list(tmp_path.glob("features/*/.*.tmp")) == []
    assert len(cache.load(NAME, [sample_key("a 0 0")])) == 1


def test_pruning_removes_what_is_not_read(tmp_path):
    cache = Cache(tmp_path)
    for i, name in enumerate("abc"):
        cache.store(name, keys("text"), rows(1))
        (file,) = cache._files(cache._home(name))
        os.utime(file, (time.time() - 86400 * (10 - i),) * 2)  # a is the oldest
    cache.load("a", keys("text"))  # and was just read
    size = file.stat().st_size
    assert [entry.name for entry in cache.entries()] == ["a", "b", "c"]
    assert cache.prune(keep_bytes=2 * size) == size
    assert {entry.name for entry in cache.entries()} == {"a", "c"}
    assert cache.prune(unused_days=1) == size
    assert {(entry.name, entry.rows) for entry in cache.entries()} == {("a", 1)}
    other = tmp_path / "mine.txt"
    other.write_text("not of the cache")
    assert cache.clear() == size
    assert cache.entries() == []
    assert other.exists()


def test_the_folder_is_the_choice_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("MALLOW_CACHE", str(tmp_path / "mine"))
    assert default_cache() == Cache(tmp_path / "mine")
    monkeypatch.setenv("MALLOW_CACHE", "off")
    assert default_cache() is None
    monkeypatch.delenv("MALLOW_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    cache = default_cache()
    assert cache is not None
    assert "mallow" in cache.folder.name


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "features").write_text("a file where a folder should be")
    with pytest.raises(InputError, match=r"cannot be written: .* Set MALLOW_CACHE to another folder, or to off\.$"):
        Cache(tmp_path).store(NAME, keys("a"), rows(1))
