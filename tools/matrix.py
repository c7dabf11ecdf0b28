"""Run tests with every supported Python, with the oldest allowed dependencies and with the newest (`make matrix`).

    python tools/matrix.py [--python 3.12] [--versions oldest] [--record docs/security.md] [TESTS ...]

Each pair has a virtual environment in .venv-matrix. A Python that this machine does not have is named at the end as missing;
nothing is downloaded for it. The default extras leave out torch, so that a pair takes minutes: for the oldest versions they are
each direct dependency's oldest one that has a wheel for that Python. With --record the rows of the pairs that ran replace those
in the table of that page.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import datetime
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
VERSIONS = ("oldest", "newest")
SHOWN = ("numpy", "scipy", "scikit-learn", "pyarrow", "onnxruntime", "pillow")
EXTRAS = "minilm,plot,images,tables,frames,transport,kernels,config"
TOOLS = ("hatchling", "editables", "hypothesis", "mpmath", "pytest", "pytest-xdist", "safetensors")
# Packages are compiled when they are imported, and some have escapes that Python no longer likes: 3.11 has another warning.
QUIET = ("-q", "-p", "no:cacheprovider", "-W", "ignore::SyntaxWarning")
QUIET += ("-W", "ignore:invalid escape sequence:DeprecationWarning")
# Old packages use what newer ones, which they bring along, have marked as deprecated.
IGNORED = {"oldest": ("-W", "ignore::DeprecationWarning"), "newest": ()}
TESTS = (
    "tests/theory",
    "tests/estimate",
    "tests/samples",
    "tests/results",
    "tests/report",
    "tests/embed/test_cache.py",
)
# A few minutes less: what depends most on the versions of Python and of packages.
LIGHT = (
    "tests/theory/test_masses.py",
    "tests/theory/test_divergence.py",
    "tests/theory/test_frontier.py",
    "tests/samples",
    "tests/results",
    "tests/embed/test_cache.py",
    "tests/evaluate/test_definitions_of_drops.py",
    "tests/cli/test_config.py",
)


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    """A command in the folder of the project, with its output."""
    return subprocess.run(
        [str(each) for each in command], cwd=ROOT, text=True, capture_output=True, check=False, **options
    )


def last_lines(done: subprocess.CompletedProcess[str], n: int = 1) -> str:
    """What a command said last."""
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return "\n".join(lines[-n:])


def find_python(number: str) -> str | None:
    """A Python of this version, on the path or among those of pyenv; None if there is none that starts."""
    known = [
        shutil.which(f"python{number}"),
        *sorted(Path.home().glob(f".pyenv/versions/{number}.*/bin/python{number}")),
    ]
    for python in filter(None, known):
        done = run(python, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])")
        if done.stdout.strip() == number:  # pyenv puts commands on the path that start nothing
            return str(python)
    return None


def set_up(python: str, versions: str, folder: Path) -> str | None:
    """Fill the environment; the reason why not if it fails."""
    shutil.rmtree(folder, ignore_errors=True)
    own = folder / "bin" / "python"
    steps: list[list[object]] = [[python, "-m", "venv", folder]]
    pip = [own, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-compile"]
    steps.append([*pip, *TOOLS])
    for step in steps:
        if (done := run(*step)).returncode:
            return last_lines(done)
    constraint: list[object] = []
    if versions == "oldest":
        listed = run(own, "tools/oldest.py", EXTRAS)
        if listed.returncode:
            return last_lines(listed)
        (folder / "oldest.txt").write_text(listed.stdout, encoding="utf-8")
        constraint = ["--constraint", folder / "oldest.txt"]
    done = run(*pip, "--no-build-isolation", "--prefer-binary", *constraint, "--editable", f".[{EXTRAS}]")
    return last_lines(done, 3) if done.returncode else None


def versions_in(own: Path) -> dict[str, str]:
    """The exact versions in an environment, of Python and of the packages that matter most."""
    code = "import importlib.metadata as m, json, platform, sys; print(json.dumps({'Python': platform.python_version(), **{n: m.version(n) for n in sys.argv[1:]}}))"
    versions: dict[str, str] = json.loads(run(own, "-c", code, *SHOWN).stdout)
    return versions


def record_row(page: Path, number: str, versions: str, cells: list[str]) -> None:
    """Put the row of a pair into the table between the marks of a page, in the order of the pairs."""
    text = page.read_text(encoding="utf-8")
    (before, mark, rest), end = text.partition("<!-- matrix -->\n"), "<!-- end of matrix -->"
    table, _, after = rest.partition(end)
    rows = dict.fromkeys(f"| {each} | {which} |" for each in PYTHONS for which in VERSIONS)
    for line in table.splitlines():
        rows |= {start: line for start in rows if line.startswith(start)}
    rows[f"| {number} | {versions} |"] = f"| {number} | {versions} | {' | '.join(cells)} |"
    head = f"| Python | dependencies | exact versions: Python, {', '.join(SHOWN)} | tests | result | date |"
    table = "\n".join([head, "|---|---|---|---|---|---|", *filter(None, rows.values())])
    page.write_text(f"{before}{mark}{table}\n{end}{after}", encoding="utf-8")


def main() -> None:
    """Run all pairs, or those that the arguments name, and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", choices=PYTHONS, action="append")
    parser.add_argument("--versions", choices=VERSIONS, action="append")
    parser.add_argument("--record", type=Path, help="a page with the marks of the table")
    parser.add_argument("--light", action="store_true", help="fewer tests: minutes instead of a quarter of an hour")
    parser.add_argument("--keep", action="store_true", help="use environments that are there already")
    parser.add_argument("--jobs", default="auto", help="processes of pytest")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    tests = options.tests or (LIGHT if options.light else TESTS)
    failed, missing = False, []
    for number in options.python or PYTHONS:
        python = find_python(number)
        if python is None:
            missing.append(number)
            continue
        for versions in options.versions or VERSIONS:
            folder = ROOT / ".venv-matrix" / f"{number}-{versions}"
            trouble = None if options.keep and folder.exists() else set_up(python, versions, folder)
            if trouble is None:
                own = folder / "bin" / "python"
                jobs = ("-n", options.jobs)
                done = run(own, "-m", "pytest", *QUIET, *jobs, *IGNORED[versions], *tests)
                failed |= done.returncode != 0
                print(f"Python {number}, {versions}: {last_lines(done)}", flush=True)
                if done.returncode:
                    print("\n".join(line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))))
                if options.record is not None:
                    exact, summary = versions_in(own), re.sub(r" in [\d.]+s.*", "", last_lines(done)).strip("= ")
                    which = "some" if options.tests else "light" if options.light else "all"
                    today = datetime.datetime.now(datetime.UTC).date().isoformat()
                    record_row(options.record, number, versions, [", ".join(exact.values()), which, summary, today])
            else:
                failed = True
                print(f"Python {number}, {versions}: the set-up failed: {trouble}", flush=True)
    if missing:
        print(
            f"Not on this machine, not tried: Python {', '.join(missing)}. Install them, for example with `apt` or `pyenv`."
        )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
