"""Tries mutants: small changes of the code that its tests have to notice. A script, not a test.

    python tests/mutate.py all --record tests/mutations.json      # 25 mutants of each area: make mutate
    python tests/mutate.py theory samples --sample 40 --seed 1
    python tests/mutate.py _multiplicity --sample 0               # all mutants of a module
    python tests/mutate.py _identity --only 76,93                 # all mutants of some lines
    python tests/mutate.py all --again --record tests/mutations.json      # recorded survivors without a reason, once more

`mutants.py` says what a mutant is. Each is made in a temporary copy of the tree. The tests of the area run once without a
change, to see which call which function (`mutant_tests.py`; a test that fails then is named, and not used); what was seen is kept in .mutate.json, by the content of the test
file. Then the tests that call the changed function run against each mutant, those of its module and the fastest first and for at
most --budget seconds, until one fails. With --watch the files that are nearest to the changed modules come first, and further
ones are watched only for the mutants that survive these, in at most three rounds. A mutant that
no test notices survives and is printed. A survivor needs a test, or is equivalent: the code does the same with and without the change. Then `mutations.json` gives the reason, which is
kept when the file is written again. The exit code is 1 if fewer than 90% are killed, or a survivor has no reason.

The record of an area says how many of its last sample are killed now, and under "first seen" how many of each sample were when
it was tried for the first time, before anybody could write a test for it: that is the rate to expect of other mutants.
"""
# ruff: noqa: T201

import argparse
import ast
import compileall
import hashlib
import importlib
import importlib.util
import json
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutant_tests import Unshrunk, Watch, choose_tests, function_at, nearest_first
from mutants import Mutant, mutants_of, sample

ROOT = Path(__file__).resolve().parent.parent
SEEN = ROOT / ".mutate.json"
ENOUGH = 0.9  # of the mutants must be killed
ROUNDS = 3  # with a limit of --watch, the survivors of a round meet more tests in the next


@dataclass(frozen=True)
class Area:
    """Modules, as patterns below src/mallow, and the tests that must notice, as patterns below tests."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


PAPER = ("paper/test_divergences.py", "paper/test_errata.py", "paper/test_frontier.py", "paper/test_rates.py")
RECORDED = "reference/test_calls.py"  # numbers to the last bit
FIELDS = "results/test_result.py"  # names in frames, summaries and files of every kind of result
AREAS = {
    "escaping": Area(
        ("errors.py", "results/_table.py", "report/_sentences.py", "report/_svg.py"),
        (
            "results/test_escaping.py",
            "results/test_table.py",
            "results/test_result.py",
            "report/test_filters.py",
            "report/test_svg.py",
            "report/test_page.py",
        ),
    ),
    "cache": Area(("embed/_cache*.py", "_files.py"), ("embed/test_cache.py", "test_files.py")),
    "embed": Area(("embed/_[!c]*.py",), ("embed/test_[!c]*.py",)),
    "samples": Area(("samples/*.py",), ("samples/test_*.py", "embed/test_decode.py")),
    "results": Area(
        ("results/*.py",),
        ("results/test_*.py", "report/test_plots.py", "evaluate/test_shown.py", "evaluate/test_sweep.py"),
    ),
    "report": Area(("report/*.py",), ("report/test_[!b]*.py",)),  # those of the browser see what these see, later
    "engine": Area(("engine/_[!r]*.py",), ("engine/test_[!r]*.py",)),
    "ray": Area(("engine/_ray.py",), ("engine/test_ray.py", "engine/test_engine.py")),  # Ray takes its time to start
    "generate": Area(("generate/*.py",), ("generate/test_*.py",)),
    "estimate": Area(
        ("estimate/*.py",),
        ("estimate/test_*.py", "test_same_bits.py", "evaluate/test_shards.py", "paper/test_rates.py", RECORDED),
    ),
    "baselines": Area(("baselines/*.py",), ("baselines/test_*.py", RECORDED, FIELDS)),
    "human": Area(("human/*.py",), ("human/test_*.py", "report/test_people.py", RECORDED, FIELDS)),
    "annotate": Area(("annotate/*.py",), ("annotate/test_*.py",)),
    "explain": Area(("explain/*.py",), ("explain/test_*.py", RECORDED, FIELDS)),
    "theory": Area(("theory/*.py",), ("theory/test_*.py", *PAPER, RECORDED)),
    "evaluate": Area(("evaluate/*.py",), ("evaluate/test_*.py", RECORDED, FIELDS)),
    "caveats": Area(("caveats/*.py",), ("caveats/test_*.py", RECORDED)),
    "evidence": Area(("evidence/*.py",), ("evidence/test_*.py", RECORDED)),
}
# Imported once; each mutant is tested in a fork, which imports no more than the library itself.
PRELOADED = ("hypothesis.extra.numpy", "scipy.stats", "scipy.sparse.csgraph", "scipy.optimize", "sklearn.cluster")
PRELOADED += ("sklearn.linear_model", "jinja2", "PIL.Image", "pyarrow.parquet", "rich.progress", "click")


class Copy:
    """A temporary copy of the sources and the tests in which one module at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("src", "tests", "docs"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        # What tests read elsewhere: without it they would be skipped, and the mutants that they notice would survive.
        links = {folder / "experiments": ROOT / "experiments", folder.parent / "shared": ROOT.parent / "shared"}
        for link, target in links.items():
            if target.is_dir() and not link.exists():
                link.symlink_to(target.resolve())
        compileall.compile_dir(folder / "src", quiet=1)

    def path(self, module: str) -> Path:
        """The file of a module."""
        return self.folder / "src" / "mallow" / module

    def start(self, trial: "Trial", watch: Watch | None = None) -> int:
        """Begin to test a module whose source is this; the number of the process."""
        path = self.path(trial.module)
        path.write_text(trial.source, encoding="utf-8")
        # Compiled files are known by size and second alone, which a mutant may share with its original.
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
        sys.stdout.flush()
        process = os.fork()
        if process:
            return process
        code = 1
        try:
            os.setpgid(0, 0)
            seconds = int(trial.limit)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            os.chdir(self.folder)
            sys.path.insert(0, str(self.folder / "src"))
            os.environ["PYTHONPATH"] = str(self.folder / "src")  # for what tests start
            for stream in (1, 2):
                os.dup2(os.open(self.folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
            options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
            if watch is None:
                code = int(pytest.main([*options, "-x", "--tb=no", *trial.tests], plugins=[Unshrunk()]))
            else:
                code = int(pytest.main([*options, *trial.tests], plugins=[watch, Unshrunk()]))
                seen = {"tests": watch.tests, "files": sorted(watch.complete)}
                (self.folder / "seen.json").write_text(json.dumps(seen), encoding="utf-8")
            sys.stdout.flush()
        except BaseException:
            code = 1
        finally:
            os._exit(code)


@dataclass(frozen=True)
class Trial:
    """A source of a module to be tested, by these tests, within so many seconds of processor time."""

    module: str
    source: str
    tests: list[str]
    limit: float


def try_all(trials: list[Trial], copies: list[Copy]) -> list[str]:
    """What becomes of each trial (survived, killed, too slow), as many at a time as there are copies."""
    free, running, ends, following = list(copies), {}, {}, iter(enumerate(trials))
    originals = {trial.module: copies[0].path(trial.module).read_text(encoding="utf-8") for trial in trials}
    while len(ends) < len(trials):
        while free and (todo := next(following, None)):
            own, (number, trial) = free.pop(), todo
            if not trial.tests:  # nothing calls it
                ends[number] = "survived"
                free.append(own)
                continue
            # The limit is on the processor time; a busy machine may take much longer, and a deadlock uses none.
            running[own.start(trial)] = own, number, time.monotonic() + 10 * trial.limit
        time.sleep(0.05)
        for process, (own, number, end) in list(running.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if not ended:
                if time.monotonic() < end:
                    continue
                os.killpg(process, signal.SIGKILL)
                os.waitpid(process, 0)
            module = trials[number].module
            code = os.waitstatus_to_exitcode(status) if ended else -signal.SIGKILL
            slow = code in (-signal.SIGXCPU, -signal.SIGKILL)
            ends[number] = "survived" if code == 0 else "too slow" if slow else "killed"
            own.path(module).write_text(originals[module], encoding="utf-8")
            Path(importlib.util.cache_from_source(str(own.path(module)))).unlink(missing_ok=True)
            del running[process]
            free.append(own)
    return [ends[number] for number in range(len(trials))]


def watch_tests(name: str, chosen: list[Mutant], copy: Copy, most: float, more: bool) -> dict[str, dict[str, Any]]:
    """Which functions each test of an area calls, and how long it takes; what .mutate.json knows is not run again.

    The files that are nearest to the changed modules come first, and no new file begins after so many seconds. Where tests of
    so many seconds are known, none is watched, unless `more` are asked for.
    """
    modules = sorted({one.path for one in chosen})
    files = [file for pattern in AREAS[name].tests for file in sorted((copy.folder / "tests").glob(pattern))]
    sources = [copy.path(module) for module in modules]
    files = nearest_first(files, sources) + sources
    digests = {
        file.relative_to(copy.folder).as_posix(): hashlib.blake2b(file.read_bytes(), digest_size=8).hexdigest()
        for file in files
    }
    known = json.loads(SEEN.read_text(encoding="utf-8")) if SEEN.exists() else {}
    missing = [file for file, digest in digests.items() if known.get(file, {}).get("digest") != digest]
    seconds = [test["seconds"] for file in {*digests} - {*missing} for test in known[file]["tests"].values()]
    if missing and (more or sum(seconds) < most):
        base = copy.folder / "src" / "mallow"
        watch = Watch(base, [path.relative_to(base).as_posix() for path in base.rglob("*.py")], most)
        source = copy.path(modules[0]).read_text(encoding="utf-8")
        process = copy.start(Trial(modules[0], source, missing, 7200.0), watch)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        output = (copy.folder / "output.txt").read_text()
        if code:  # they are no witnesses
            print("\n".join(line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))))
        if code not in (0, 1, 2, 5):  # 2: the time was up; 5: a file has no tests
            raise SystemExit(f"{name}: the tests cannot be run: {output[-2000:]}")
        seen = json.loads((copy.folder / "seen.json").read_text(encoding="utf-8"))
        for file in seen["files"]:
            tests = {test: value for test, value in seen["tests"].items() if test.split("::")[0] == file}
            known[file] = {"digest": digests[file], "tests": tests}
        SEEN.write_text(json.dumps(known), encoding="utf-8")
    current = [known[file] for file, digest in digests.items() if known.get(file, {}).get("digest") == digest]
    return {test: value for file in current for test, value in file["tests"].items()}


def try_area(
    name: str, modules: list[str], copies: list[Copy], options: argparse.Namespace
) -> tuple[list[Mutant], list[Mutant]]:
    """The mutants of some modules of an area that were tried, and those that survived."""
    sources = {module: copies[0].path(module).read_text(encoding="utf-8") for module in modules}
    trees = {module: ast.parse(source) for module, source in sources.items()}
    mutants = [one for module, tree in trees.items() for one in mutants_of(module, tree)]
    if options.again is not None:
        chosen = [one for one in mutants if tuple(described(one).values()) in options.again]
    elif options.only:
        chosen = [one for one in mutants if one.line in options.only]
    else:
        chosen = sample(mutants, options.sample, options.seed)
    if not chosen:
        return [], []
    start, slow, survivors = time.monotonic(), 0, chosen
    met: dict[Mutant, set[str]] = {one: set() for one in chosen}
    for number in range(1 if options.watch == math.inf else ROUNDS):
        known = watch_tests(name, survivors, copies[0], options.watch, more=number > 0)
        if not number:
            calling = ((one.path, choose_tests(known, one.path, None, 0.0)) for one in chosen)
            module, tests = next((path, tests) for path, tests in calling if tests)
            if try_all([Trial(module, "raise RuntimeError\n", tests, 60.0)], copies[:1]) != ["killed"]:
                raise SystemExit(f"{name}: the tests do not import the copy.")
        trials = []
        for one in survivors:
            tree, seen = trees[one.path], {test: value for test, value in known.items() if test not in met[one]}
            tests = choose_tests(seen, one.path, function_at(tree, one.line), options.budget)
            met[one] |= set(tests)
            limit = 3 * sum(seen[test]["seconds"] for test in tests) + 10
            trials.append(Trial(one.path, one.source(tree), tests, limit))
        ends = try_all(trials, copies)
        slow += ends.count("too slow")
        survivors = [one for one, end in zip(survivors, ends, strict=True) if end == "survived"]
        if not survivors:
            break
    killed, seconds = len(chosen) - len(survivors), time.monotonic() - start
    print(
        f"{name:10} {len(mutants):5} mutants, {len(chosen):3} tried, {killed:3} killed ({slow} of them too slow), {seconds:5.0f} s"
    )
    for one in survivors:
        print(f"    {one.path}:{one.line}  {one.kind}: {one.before}  →  {one.after}")
    sys.stdout.flush()
    return chosen, survivors


def described(mutant: Mutant) -> dict[str, Any]:
    """A survivor as it is recorded, without its reason."""
    change = {"change": mutant.kind, "before": mutant.before, "after": mutant.after}
    return {"module": mutant.path, "statement": mutant.statement, **change}


def reasons_in(record: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The reasons of a record, by what survived; lines may have moved."""
    for area in record.get("areas", {}).values():
        for survivor in (*area["survivors"], *area.get("survivors of earlier samples", ())):
            known = {key: value for key, value in survivor.items() if key not in ("reason", "line")}
            yield tuple(known.values()), survivor.get("reason", "")


def keep_survivors(area: dict[str, Any], listed: list[dict[str, Any]]) -> dict[str, Any]:
    """An area of a record once its survivors without a reason were tried again, and these survived."""
    kept = [one for one in area["survivors"] if one["reason"]] + listed
    return {**area, "killed": area["tried"] - len(kept), "survivors": kept}


def new_area(
    before: dict[str, Any] | None, options: argparse.Namespace, tried: int, listed: list[Any]
) -> dict[str, Any]:
    """An area of a record after a sample was tried; of samples before it, the first rate and the reasons stay."""
    counts = {"sample": options.sample, "seed": options.seed, "tried": tried, "killed": tried - len(listed)}
    name = f"{options.sample} of seed {options.seed}"
    first = dict(before.get("first seen", {})) if before else {}
    first.setdefault(name, f"{counts['killed']} of {tried} killed")
    current = [{key: value for key, value in one.items() if key not in ("reason", "line")} for one in listed]
    earlier = [
        one
        for one in ((*before["survivors"], *before.get("survivors of earlier samples", ())) if before else ())
        if one["reason"] and {key: value for key, value in one.items() if key not in ("reason", "line")} not in current
    ]
    return {**counts, "first seen": first, "survivors": listed, "survivors of earlier samples": earlier}


def find_modules(names: list[str]) -> dict[str, list[str]]:
    """The modules to change, by area; `all`, areas and names of modules are understood."""
    wanted: dict[str, list[str]] = {}
    for name in sorted(AREAS, key=lambda name: names.index(name) if name in names else 0):
        area = AREAS[name]
        base = ROOT / "src" / "mallow"
        files = [file for pattern in area.modules for file in sorted(base.glob(pattern)) if file.stem != "__init__"]
        modules = [file.relative_to(base).as_posix() for file in files]
        own = modules if {"all", name} & set(names) else [module for module in modules if Path(module).stem in names]
        if own:
            wanted[name] = own
    known = {"all", *AREAS, *(Path(module).stem for modules in wanted.values() for module in modules)}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"unknown: {', '.join(unknown)}. Areas are {', '.join(AREAS)}; or name a module of one.")
    return wanted


def main() -> int:
    """Try mutants, print a line for each area and one for each survivor."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", help=f"all, areas ({', '.join(AREAS)}) or modules of them")
    parser.add_argument("--sample", type=int, default=25, help="mutants of each area; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=lambda text: [int(line) for line in text.split(",")], help="lines: 76,93")
    parser.add_argument("--again", action="store_true", help="the survivors in --record that have no reason, once more")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tests against one mutant")
    parser.add_argument(
        "--watch",
        type=float,
        default=math.inf,
        help="seconds after which no more test files of an area are watched; the nearest come first",
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--record", type=Path, help="write what was tried, and the survivors, into this file")
    options = parser.parse_args()
    wanted = find_modules(options.names)
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for name in PRELOADED:
        importlib.import_module(name)
    record: dict[str, Any] = {"areas": {}}
    if options.record and options.record.exists():
        record = json.loads(options.record.read_text(encoding="utf-8"))
    reasons, tried, survived, unexplained = dict(reasons_in(record)), 0, 0, 0
    options.again = {key for key, reason in reasons.items() if not reason} if options.again else None
    with tempfile.TemporaryDirectory() as folder:
        copies = [Copy(Path(folder) / str(number)) for number in range(options.jobs)]
        for name, modules in wanted.items():
            chosen, survivors = try_area(name, modules, copies, options)
            tried, survived = tried + len(chosen), survived + len(survivors)
            listed = []
            for one in survivors:
                reason = reasons.get(tuple(described(one).values()), "")
                unexplained += not reason
                listed.append({**described(one), "line": one.line, "reason": reason})
            if options.again is not None:
                record["areas"][name] = keep_survivors(record["areas"][name], listed)
            else:
                record["areas"][name] = new_area(record["areas"].get(name), options, len(chosen), listed)
            if options.record:
                options.record.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if not tried:
        raise SystemExit("There is nothing to try.")
    share = 1 - survived / tried
    print(
        f"{'all':10} {tried} tried, {tried - survived} killed ({share:.0%}), {unexplained} survivors without a reason"
    )
    return int(unexplained > 0 or (share < ENOUGH and options.again is None))


if __name__ == "__main__":
    sys.exit(main())
