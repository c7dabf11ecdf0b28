"""The cache: what is stored can be loaded, by any process, and nothing half-written or damaged ever is."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mallow
from mallow.embed import Cache, default_cache
from mallow.embed import _cache as _cache_file
from mallow.embed._cache import Damage, Verification, sample_key
from mallow.errors import EstimateWarning, InputError

NAME = "Embedder(one)"


def keys(*texts: str) -> list[bytes]:
    return [sample_key(text) for text in texts]


def rows(n: int, width: int = 3) -> np.ndarray:
    return np.arange(n * width, dtype=np.float32).reshape(n, width)


@settings(max_examples=30)  # each waits for the disk
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


def flip(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


@settings(max_examples=50)
@given(place=st.floats(0, 1, exclude_max=True), dtype=st.sampled_from(["<f4", "<f8", "<i8", "<f2"]))
def test_no_flipped_bit_changes_a_row(tmp_path_factory, place, dtype):
    cache, texts = Cache(tmp_path_factory.mktemp("cache")), [str(i) for i in range(8)]
    stored = dict(zip(keys(*texts), rows(8).astype(dtype), strict=True))
    cache.store(NAME, list(stored), np.stack(list(stored.values())))
    (file,) = cache.folder.glob("features/*/*.rows")
    flip(file, int(place * 8 * file.stat().st_size))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        loaded = cache.load(NAME, list(stored))
    assert all((row == stored[key]).all() and row.dtype == dtype for key, row in loaded.items())
    assert len(loaded) < 8  # the row with the bit, or all of them
    # A changed key makes another sample's row of it, which nobody asks for; all else is told of, and gone afterwards.
    assert len(told) <= 1
    assert told == [] or cache.verify().damaged == ()
    cache.verify(repair=True)
    assert cache.verify().damaged == ()
    cache.store(NAME, list(stored), np.stack(list(stored.values())))
    assert {key: row.tolist() for key, row in cache.load(NAME, list(stored)).items()} == {
        key: row.tolist() for key, row in stored.items()
    }


def test_damage_is_told_once_and_only_the_damaged_rows_are_lost(tmp_path):
    cache = Cache(tmp_path)
    for part in ("abcd", "efgh", "ijkl"):
        cache.store(NAME, keys(*part), rows(4))
    files = sorted(tmp_path.glob("features/*/*.rows"))
    flip(files[0], 8 * files[0].stat().st_size - 1)  # in the last row
    flip(files[1], 8 * 20)  # in the first line: nothing of the file can be read
    with pytest.warns(EstimateWarning) as told:
        loaded = cache.load(NAME, keys(*"abcdefghijkl"))
    assert set(loaded) == set(keys(*"abcijkl"))
    (message,) = [str(warning.message) for warning in told]
    assert re.fullmatch(
        r"2 cache files were damaged, the first of them .*\.rows: a row has another digest\. What was damaged is embedded "
        r"again; intact rows are kept\.",
        message,
    )
    assert not files[0].exists()
    assert not files[1].exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(cache.load(NAME, keys(*"abcdefghijkl"))) == set(loaded)  # and it is told once only


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[:-5], lambda whole: whole + b"0", lambda _: b"", lambda _: b"x" * 999]
)
def test_a_file_of_another_size_or_kind_is_removed(tmp_path, damage):
    cache = Cache(tmp_path)
    cache.store(NAME, keys("a", "b"), rows(2))
    (file,) = tmp_path.glob("features/*/*.rows")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.warns(
        EstimateWarning, match=r"^The cache file .*\.rows was damaged: it(s first line)? has .*\. What was"
    ):
        assert cache.load(NAME, keys("a")) == {}
    assert not file.exists()


@pytest.mark.filterwarnings("ignore::mallow.errors.EstimateWarning")  # few samples
def test_a_flipped_bit_does_not_change_a_score(tmp_path, monkeypatch):
    """One bit in the exponent of one feature: the score must be that of the undamaged cache."""
    monkeypatch.setenv("MALLOW_CACHE", str(tmp_path))
    calls: list[int] = []

    class Letters:
        name = "Letters(one)"

        def __call__(self, texts):
            calls.append(len(texts))
            return np.array([[text.count(letter) for letter in "abcdef"] for text in texts], np.float32)

    rng = np.random.default_rng(0)
    human, machine = (["".join(rng.choice(list(letters), 40)) for _ in range(100)] for letters in ("abcdef", "abcdee"))
    before = mallow.score(human, machine, embedder=Letters(), repeats=1)
    file = sorted(tmp_path.glob("features/*/*.rows"))[0]
    flip(file, 8 * (file.stat().st_size - 24) + 30)  # the first feature of the last row
    with pytest.warns(EstimateWarning, match="a row has another digest"):
        after = mallow.score(human, machine, embedder=Letters(), repeats=1)
    assert after.mauve == before.mauve
    assert calls == [100, 100, 1]  # only the damaged row was embedded again


def test_files_of_earlier_versions_are_not_read(tmp_path):
    cache = Cache(tmp_path)
    cache.store(NAME, keys("a"), rows(1))
    old = cache._home(NAME) / "00000000000000000001-00000000.npy"
    for remove in (cache.prune, cache.clear):
        np.save(old, rows(1))
        assert set(cache.load(NAME, keys("a", "b"))) == set(keys("a"))
        remove()
        assert not old.exists()


def test_clearing_removes_what_killed_processes_left(tmp_path):
    cache = Cache(tmp_path)
    cache.store(NAME, keys("a"), rows(1))
    left = cache._home(NAME) / ".00000000000000000001-00000000.rows.12345678.tmp"
    left.write_bytes(b"half")
    cache.prune()
    assert left.exists()  # another process may be writing it
    cache.clear()
    assert not left.exists()


def test_a_damaged_name_is_repaired_and_hides_nothing(tmp_path):
    cache = Cache(tmp_path)
    for content in ("", "[" * 100_000, '{"name": "Embedder(two)"}', "[1]", "\xff"):
        cache.store(NAME, keys("a"), rows(1))
        about = cache._home(NAME) / "embedder.json"
        about.write_text(content, encoding="latin-1")
        (entry,) = cache.entries()
        assert entry.name == f"unknown: {about.parent.name}/embedder.json is damaged"
        assert [damage.path for damage in cache.verify().damaged] == [about]
        assert set(cache.load(NAME, keys("a"))) == set(keys("a"))
    cache.store(NAME, keys("b"), rows(1))
    assert [entry.name for entry in cache.entries()] == [NAME]
    assert cache.verify().damaged == ()
    about.unlink()
    assert cache.clear() > 0
    assert list((tmp_path / "features").iterdir()) == []


def test_a_cache_that_cannot_be_repaired_still_answers(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    cache = Cache(tmp_path)
    cache.store(NAME, keys("a", "b"), rows(2))
    (file,) = tmp_path.glob("features/*/*.rows")
    flip(file, 8 * file.stat().st_size - 1)
    file.parent.chmod(0o500)
    try:
        for _ in range(2):  # it is told of again: the file is still there
            with pytest.warns(EstimateWarning, match="a row has another digest"):
                assert set(cache.load(NAME, keys("a", "b"))) == set(keys("a"))
    finally:
        file.parent.chmod(0o700)


def test_rows_larger_than_what_is_read_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(_cache_file, "_BLOCK", 8)
    cache = Cache(tmp_path)
    cache.store(NAME, keys("a", "b", "c"), rows(3))
    assert cache.verify().rows == 3
    assert {key: row.tolist() for key, row in cache.load(NAME, keys("a", "c")).items()} == dict(
        zip(keys("a", "c"), rows(3)[[0, 2]].tolist(), strict=True)
    )


def test_verification_counts_and_changes_nothing(tmp_path):
    cache = Cache(tmp_path)
    assert cache.verify() == Verification(0, 0, 0, ())
    (tmp_path / "features" / "0").mkdir(parents=True)  # what kill -9 leaves at the very beginning is no damage
    assert cache.verify() == Verification(0, 0, 0, ())
    (tmp_path / "features" / "0").rmdir()
    cache.store(NAME, keys("a", "b"), rows(2))
    cache.store("Embedder(two)", keys("a", "b", "c"), rows(3))
    files = sorted(tmp_path.glob("features/*/*.rows"), key=lambda file: file.stat().st_size)
    size = sum(file.stat().st_size for file in files)
    assert cache.verify() == Verification(2, 5, size, ())
    flip(files[1], 8 * files[1].stat().st_size - 1)
    damaged = (Damage(files[1], "1 of 3 rows have another digest"),)
    assert cache.verify() == cache.verify() == Verification(2, 5, size, damaged)
    assert cache.verify(repair=True).damaged == damaged
    assert (cache.verify().rows, cache.verify().damaged) == (4, ())


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


def test_an_entry_is_as_recent_as_its_newest_file(tmp_path):
    cache = Cache(tmp_path)
    for place, text in enumerate(("one", "two")):
        cache.store("a", keys(text), rows(1))
        newest = max(cache._home("a").glob("*.rows"), key=lambda file: file.stat().st_mtime)
        os.utime(newest, (1e9 + 1000 * place,) * 2)
    files = list(cache._home("a").glob("*.rows"))
    (entry,) = cache.entries()
    assert len(files) == 2
    assert entry.used == max(file.stat().st_mtime for file in files) > min(file.stat().st_mtime for file in files)
    assert (entry.rows, entry.size) == (2, sum(file.stat().st_size for file in files))


def test_pruning_removes_what_is_not_read(tmp_path):
    cache = Cache(tmp_path)
    for i, name in enumerate("abc"):
        cache.store(name, keys("text"), rows(1))
        (file,) = cache._home(name).glob("*.rows")
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


def test_the_largest_entry_comes_first_and_equal_ones_by_name(tmp_path):
    cache = Cache(tmp_path)
    for name, count in (("b", 1), ("a", 1), ("d", 3), ("c", 2)):
        cache.store(name, keys(*"xyz"[:count]), rows(count))
    assert [(entry.name, entry.rows) for entry in cache.entries()] == [("d", 3), ("c", 2), ("a", 1), ("b", 1)]
    cache.store("e", [], rows(0))
    assert len(cache.entries()) == 4
    assert not cache._home("e").exists()


def test_pruning_ends_where_enough_is_gone(tmp_path):
    cache = Cache(tmp_path)
    for place in range(3):
        cache.store("a", keys(f"text {place}"), rows(1))
        newest = max(cache._home("a").glob("*.rows"))
        os.utime(newest, (time.time() - 1000 + place,) * 2)
    size = newest.stat().st_size
    assert cache.prune() == 0  # nothing was asked for
    assert cache.prune(keep_bytes=3 * size) == 0
    assert cache.prune(keep_bytes=3 * size - 1) == size
    assert list(cache.load("a", keys("text 0", "text 1", "text 2"))) == keys("text 1", "text 2")
    assert cache.prune(unused_days=1.0) == 0
    assert cache.prune(unused_days=1.0, keep_bytes=0) == 2 * size
    assert list((tmp_path / "features").iterdir()) == []


@pytest.mark.parametrize("seconds", [3500, 3700])
def test_a_hidden_file_is_abandoned_after_an_hour(tmp_path, seconds):
    cache = Cache(tmp_path)
    cache.store("a", keys("text"), rows(1))
    hidden = cache._home("a") / ".1.rows.abcd.tmp"
    hidden.write_bytes(bytes(77))
    os.utime(hidden, (time.time() - seconds,) * 2)
    assert cache.prune() == (77 if seconds > 3600 else 0)
    assert hidden.exists() == (seconds < 3600)


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


class Counting:
    """An embedder with a name that counts what it embeds."""

    name = "Counting(test)"

    def __init__(self):
        self.seen = 0

    def __call__(self, batch):
        self.seen += len(batch)
        return np.array([[len(text), 1.0] for text in batch], np.float32)


def embed_twice(cache):
    """What is embedded with the cache, twice; how many texts the embedder has seen; and the warnings."""
    counting = Counting()
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        for _ in range(2):
            features = mallow.embed.embed_samples(["one", "three"], counting, cache=cache).features
            np.testing.assert_array_equal(features, [[3, 1], [5, 1]])
    return counting.seen, [str(note.message) for note in noted]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "features").write_text("a file where a folder should be")
    seen, noted = embed_twice(Cache(tmp_path))
    assert (seen, len(noted)) == (4, 2)
    assert re.search(r"cannot be written: .* Set MALLOW_CACHE to another folder, or to off\.$", noted[0])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_or_read_only_disk_is_a_warning_and_the_work_goes_on(tmp_path, monkeypatch, number):
    def fail(handle):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        seen, noted = embed_twice(Cache(tmp_path))
    assert (seen, len(noted)) == (4, 2)
    assert noted[0].startswith(
        f"The cache {tmp_path} cannot be written: {os.strerror(number)}. What is embedded is used"
    )
    assert list(tmp_path.rglob("*.rows")) == []  # nothing half-written either
    assert embed_twice(Cache(tmp_path)) == (2, [])


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
@pytest.mark.parametrize("folder", [".", "features", "home"])
def test_the_folder_of_another_user_is_not_used(tmp_path, monkeypatch, folder):
    cache = Cache(tmp_path)
    cache.store(Counting.name, keys("one"), np.array([[9, 9]], np.float32))  # what the other user claims
    [home] = tmp_path.glob("features/*")
    foreign = home if folder == "home" else tmp_path / folder
    if os.geteuid() == 0:
        os.chown(foreign, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        foreign = tmp_path
    before = sorted(tmp_path.rglob("*"))
    seen, noted = embed_twice(cache)
    assert seen == 4
    assert set(noted) == {
        f"The cache {tmp_path} is not used: {foreign} belongs to another user. Set MALLOW_CACHE to a folder of your own, or to off."
    }
    assert sorted(tmp_path.rglob("*")) == before


def test_clearing_removes_what_killed_processes_left_behind(tmp_path):
    cache = Cache(tmp_path)
    cache.store("x", [sample_key("a")], rows(1))
    (home,) = (tmp_path / "features").iterdir()
    (home / ".123.rows.abcd.tmp").write_bytes(bytes(1000))
    assert cache.clear() > 1000
    assert list((tmp_path / "features").iterdir()) == []
