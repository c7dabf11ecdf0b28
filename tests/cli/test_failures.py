"""Every failure is one line with the way out, exit 1 and no half-written file; a traceback comes with --debug only."""

import errno
import os
import re
import resource
import subprocess
import sys

import numpy as np
import pytest

from mallow.cli import explain_failure
from mallow.errors import InputError

EMBED = "-e letters:letters --repeats 1 -q"
SCORE = f"score human.jsonl far.jsonl {EMBED}"
MISTAKES = """
import numpy as np


def raises(texts):
    raise KeyError("no such letter \\x1b[31m\\n second line")


def recurses(texts):
    return recurses(texts)


def fills(texts):
    return np.zeros((1 << 50, 8))


def leaves(texts):
    raise SystemExit("bye")


def broken_disk(texts):
    raise OSError(5, "Input/output error", "weights.bin")


class Panic(BaseException):
    pass


def panics(texts):
    raise Panic("a library written in another language")


class NeedsArguments:
    def __init__(self, name):
        pass


class Half:
    def prepare(self, x, y):
        return 1


def ragged(texts):
    return [[1.0]] * (len(texts) - 1) + [[1.0, 2.0]]
"""


@pytest.fixture
def mistakes(home):
    (home / "mistakes.py").write_text(MISTAKES)
    (home / "raising.py").write_text("1 / 0\n")
    (home / "leaving.py").write_text("import sys\nsys.exit('bye')\n")
    (home / "unreadable.py").write_text("def (\n")
    return home


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "-e mistakes:raises",
            r"mistakes\.py, line 6: KeyError: 'no such letter \\x1b\[31m\\n second line'\. The error is in ",
        ),
        ("-e mistakes:recurses", "something in the input is nested too deeply"),
        ("-e mistakes:fills", r"out of memory: Unable to allocate 64\.0 PiB .*\. Read fewer samples with --limit"),
        ("-e mistakes:broken_disk", r"weights\.bin: Input/output error\. The disk may be damaged: copy the file"),
        ("-e mistakes:panics", r"mistakes\.py, line \d+: Panic: a library written in another language\."),
        ("-e mistakes:ragged", "The embedder must return rows of equal length for human.jsonl"),
        ("-e raising:x", "--embedder must name something that can be imported.*'raising:x' cannot: ZeroDivisionError"),
        ("-e leaving:x", "'leaving:x' cannot: SystemExit: bye"),
        ("-e unreadable:x", "'unreadable:x' cannot: SyntaxError"),
        (
            "-e letters:letters --estimator mistakes:NeedsArguments",
            "cannot: TypeError: .*missing 1 required positional",
        ),
        ("-e ", "--embedder must not be empty"),
    ],
)
def test_code_of_the_user_that_fails(mistakes, mallow, options, message):
    words = ["score", "human.jsonl", "far.jsonl", "-q", *options.split(" ")]
    code, out, err = mallow(*words)
    assert (code, out) == (1, "")
    lines = [line for line in err.splitlines() if ": note: " not in line]
    assert len(lines) == 1
    assert re.match(f"mallow: .*{message}", lines[0])
    assert "Traceback" not in err


def test_an_estimator_of_another_kind_is_wrong_usage(mistakes, refused):
    refused(
        f"score human.jsonl far.jsonl {EMBED} --estimator mistakes:Half", 2, "is of type Half and lacks masses, scale."
    )


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_traceback_on_request(mistakes, mallow, place):
    words = ["score", "human.jsonl", "far.jsonl", "-q", "-e", "mistakes:raises"]
    words = ["--debug", *words] if place == "before" else [*words, "--debug"]
    code, _, err = mallow(*words)
    assert code == 1
    assert "Traceback (most recent call last):" in err
    assert "in raises" in err
    assert "\x1b" not in err
    assert err.splitlines()[-1].startswith("mallow: mistakes.py, line 6: KeyError")


def test_debug_is_quiet_where_nothing_fails(mallow):
    code, _, err = mallow(f"{SCORE} --debug")
    assert (code, "Traceback" in err) == (0, False)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a.npz"), "a.npz: No space left on device. Free some space"),
        (
            OSError(errno.EACCES, "Permission denied", "a\x1b.npz"),
            "a\\x1b.npz: Permission denied. Check its permissions.",
        ),
        (
            OSError(errno.ELOOP, "Too many levels", "a", None, "b"),
            "a → b: Too many levels. It is a link that leads back",
        ),
        (OSError("no number"), "unexpected error: OSError: no number. Run the command again with --debug"),
        (MemoryError(), "out of memory. Read fewer samples"),
        (ValueError(), "unexpected error: ValueError. Run the command again with --debug"),
        (InputError("a\nb"), "a b"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "unexpected error: UnicodeDecodeError: 'utf-8' codec"),
    ],
)
def test_any_error_has_a_line(error, message):
    line = explain_failure(error)
    assert line.startswith(message)
    assert line.isprintable()


# --- standard output and standard error


def variables(home):
    """The environment, with modules of the working folder besides those of this process."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")])}


def run(home, *words, prefix="", **environment):
    words = [sys.executable, "-m", "mallow", *words]
    script = " ".join(f"'{word}'" for word in words) + f" {prefix}"
    return subprocess.run(["bash", "-c", script], cwd=home, capture_output=True, env=variables(home) | environment)


@pytest.mark.parametrize(
    ("prefix", "code", "message"),
    [
        (
            ">/dev/full",
            1,
            b"mallow: standard output cannot be written: No space left on device. What was computed is lost",
        ),
        (">&-", 1, b"mallow: standard output is closed, so that no result can be printed. Redirect it to a file.\n"),
        ("2>/dev/full", 0, b""),
        ("2>&-", 0, b""),
    ],
)
def test_streams_that_are_closed_or_full(home, prefix, code, message):
    done = run(home, *SCORE.split(), prefix=prefix)
    assert done.returncode == code
    assert done.stderr.startswith(message)
    assert done.stderr.count(b"\n") == (1 if message else 0)
    assert (b"The gap is real" in done.stdout) == (code == 0)


def test_help_on_a_full_disk(home):
    done = run(home, "score", "--help", prefix=">/dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith(b"mallow: a file or stream: No space left on device. Free some space")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_gets_the_whole_result(home, encoding):
    words = f"compare human.jsonl a\x1b[31m=near.jsonl é→=far.jsonl {EMBED}".split()
    done = run(home, *words, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(encoding)
    assert "\x1b" not in text
    name = {"ascii": "e->", "latin-1": "é->", "utf-8": "é→"}[encoding]
    minus = "−" if encoding == "utf-8" else "-"
    assert f"a\\x1b[31m {minus} {name}" in text  # the sign of a difference is never lost
    assert text.splitlines()[-1].startswith("mallow ")


def test_names_that_are_not_unicode(home):
    os.rename(home / "far.jsonl", os.fsencode(home) + b"/f\xff\x9b31m.jsonl")
    command = [sys.executable, "-m", "mallow", "compare", "human.jsonl", b"f\xff\x9b31m.jsonl", *EMBED.split()]
    done = subprocess.run(command, cwd=home, capture_output=True, env=variables(home))
    assert done.returncode == 0
    assert b"\\udcff\\udc9b31m" in done.stdout
    assert b"\x9b" not in done.stdout + done.stderr


# --- files that cannot be written


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("embed human.jsonl -e letters:letters -o out.npz", "out.npz"),
        (f"{SCORE} --plot out.png", "out.png"),
        (f"compare human.jsonl far.jsonl {EMBED} -o out.json", "out.json"),
        (f"report human.jsonl far.jsonl {EMBED} -o out.html", "out.html"),
    ],
)
def test_a_disk_that_fills_leaves_no_part_of_a_file(home, command, target):
    """No file may grow beyond 4 kB: what a full disk is to a writer, for one process alone."""
    done = subprocess.run(
        [sys.executable, "-m", "mallow", *command.split(" ")],
        cwd=home,
        capture_output=True,
        text=True,
        env=variables(home) | {"MALLOW_CACHE": "off", "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if ": caveat: " not in line and ": note: " not in line]
    assert re.fullmatch(rf"mallow: .*{re.escape(target)}: cannot be written: File too large\..*", lines[-1])
    assert "Traceback" not in done.stderr
    assert [path.name for path in home.iterdir() if "out" in path.name or path.name.endswith(".tmp")] == []
    if command.startswith(("score", "compare")):  # what was computed is printed all the same
        assert "MAUVE" in done.stdout or "certified" in done.stdout


def test_grids_on_a_full_disk(home, mallow, monkeypatch):
    pillow = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    rng = np.random.default_rng(0)
    for side, low in (("real", 0), ("made", 128)):
        (home / side).mkdir()
        for i in range(40):
            pixels = rng.integers(low, low + 120, (12, 12, 3), dtype=np.uint8)
            pillow.fromarray(pixels).save(home / side / f"{i}.png")
    (home / "greys.py").write_text(
        "import numpy as np\nfrom PIL import Image\n\n\n"
        "def greys(paths):\n    return np.array([np.asarray(Image.open(p), float).mean((0, 1)) for p in paths])\n"
    )
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, former[1]))
    try:
        code, _, err = mallow("diagnose real made -e greys:greys --grids grids -q")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
    assert code == 1
    assert re.search(r"mallow: .*\.png: cannot be written: File too large\.$", err.rstrip())
    assert list((home / "grids").iterdir()) == []


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["score", "", "far.jsonl"], "`source` must not be an empty path."),
        (["score", "human.jsonl", "far.jsonl", "--plot", ""], "the name of the file to write must not be empty."),
        (["score", "human.jsonl", "far.jsonl", "--plot", "~nobody-at-all/a.png"], "does not exist. Create it first."),
        (["demo", "--out", ""], "the name of a folder must not be empty."),
        (["embed", "human.jsonl", "-o", "a.jsonl"], "a.jsonl: must end in .npz or .npz.gz"),
        (
            ["check", "human.jsonl", "far.jsonl", "--baseline", "/dev/zero"],
            "it is a pipe or a device. Save its content to",
        ),
        (["check", "human.jsonl", "far.jsonl", "--baseline", "deep.json"], "deep.json is not JSON."),
        (["report", "deep.json"], "it is nested too deeply."),
        (["report", "pipe.json"], "it is a pipe or a device. Save its content to a file first."),
        (["report", "latin.json"], "must be UTF-8 text; byte 0 is not."),
        (["score", "loop.jsonl", "far.jsonl"], "is a link that leads to no file, or back to itself."),
        (["score", "/dev/zero", "far.jsonl"], "/dev/zero: is a device, not a file of samples."),
        (["score", "pipe.json", "far.jsonl", "--max", "wait=0.1"], "no program writes to this pipe; waited for 0.1 s."),
    ],
)
def test_paths_that_lead_nowhere_are_answered(home, mallow, command, message):
    (home / "deep.json").write_text("[" * 100_000)
    (home / "latin.json").write_bytes(b"\xff\xfe")
    (home / "loop.jsonl").symlink_to("loop.jsonl")
    os.mkfifo(home / "pipe.json")
    code, out, err = mallow(*command, "-q")
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_wrong_usage_shows_no_control_characters(mallow):
    bell = "\x07\x9b31m"
    for words in ([f"score{bell}"], ["score", "a", "b", f"--{bell}"], ["compare", "a", f"x={bell}", "x=b"]):
        code, _, err = mallow(*words)
        assert code == 2
        assert "\\x07\\x9b31m" in err
        assert "\x07" not in err
        assert "\x9b" not in err
