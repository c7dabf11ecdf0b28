"""Fuzzes every reader for as long as you like, and records what ran. A script, not a test; the suite runs a short part of it.

    python tests/fuzz.py --minutes 60                    # all targets in turn
    python tests/fuzz.py --minutes 5 --only csv,npz
    python tests/fuzz.py --minutes 60 --record tests/fuzz.json
    python tests/fuzz.py --minutes 60 --guided           # by the code that cases reach: needs `pip install atheris`

Minutes are of processor time, of this process and of all that it starts: a busy machine, or a pause, only makes the run last
longer. Each target of `fuzz_targets.py` runs in processes of its own, for some seconds of processor time each and every time
with another seed, so that even a crash of a library written in another language, or a case that never ends, is noticed and
counted. hypothesis shrinks what fails; the case is printed and kept in `fuzz-failures/`. With --guided, atheris chooses the bytes
from which hypothesis makes a case, and keeps those that reach new lines of mallow, for all rounds of a run; nothing is shrunk.
A failure becomes a test beside those of its reader.
"""
# ruff: noqa: T201

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings

sys.path.insert(0, str(Path(__file__).resolve().parent))
if {"--guided", "--child"} <= set(sys.argv):
    import atheris

    atheris.instrument_imports(include=["mallow"]).__enter__()  # what is imported later, too
from fuzz_targets import TARGETS, run_case

LONGEST = 30.0  # seconds of processor time of one case; more counts as hanging
TICK, TICKS = (
    60.0,
    10,
)  # a case that waits for so many ticks of so many seconds hangs; while a process is paused, at most one is counted
PATIENCE = 6 * 3600.0  # seconds for one process: only what hangs outside of Python takes more, even on a busy machine
MEMORY = 4 << 30  # bytes of one process: a case that needs more fails
KEPT = Path("fuzz-failures")


def fuzz_target(name: str, seconds: float, start: int) -> int:
    """Run one target for this many seconds of processor time; returns the number of cases. Raises what a case raises.

    It ends after five times as many seconds on the clock: a server waits for most of a case.
    """
    count, end, batch = 0, processor_seconds() + seconds, 0
    latest = time.monotonic() + 5 * seconds
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        while processor_seconds() < end and time.monotonic() < latest:

            @seed(start + batch)
            @settings(
                max_examples=200,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                print_blob=False,
            )
            @given(target.values)
            def cases(value: object) -> None:
                nonlocal count
                count += 1
                with time_limits():
                    run_case(target, value, Path(folder))

            cases()
            batch += 1
    return count


def guide_target(name: str, seconds: float, start: int, corpus: Path) -> None:
    """The same by atheris, which never returns: the process prints the number of cases, and ends."""
    count, began, target, folder = 0, processor_seconds(), TARGETS[name], tempfile.mkdtemp()

    @settings(max_examples=1, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(target.values)
    def case(value: object) -> None:
        nonlocal count
        count += 1
        with time_limits():
            run_case(target, value, Path(folder))

    def try_bytes(data: bytes) -> None:
        if (used := processor_seconds() - began) >= seconds:
            print(json.dumps({"cases": count, "seconds": used}), flush=True)
            shutil.rmtree(folder)
            os._exit(0)
        case.hypothesis.fuzz_one_input(data)

    case()  # the first one imports packages; on a busy machine libFuzzer would take it for one that hangs
    corpus.mkdir(parents=True, exist_ok=True)
    limits = [
        "-timeout=0",
        "-rss_limit_mb=0",
        "-max_len=20000",
        f"-seed={start % 2**31}",
        f"-artifact_prefix={folder}/",
    ]
    atheris.Setup([__file__, *limits, str(corpus)], try_bytes)
    atheris.Fuzz()


def child(name: str, seconds: float, start: int, corpus: Path | None) -> None:
    """What each process does: fuzz, and print how many cases there were."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if corpus is not None:
        guide_target(name, seconds, start, corpus / name)
    began = processor_seconds()
    print(json.dumps({"cases": fuzz_target(name, seconds, start), "seconds": processor_seconds() - began}))


class HangingError(BaseException):
    """A case takes too long: no reader of files takes this for damage of its file."""


@contextmanager
def time_limits() -> Iterator[None]:
    """A TimeoutError inside if the case computes, or waits, for too long."""
    ticks = 0

    def compute_too_long(*_: object) -> None:
        raise HangingError(f"a case takes more than {LONGEST:g} seconds of processor time")

    def wait(*_: object) -> None:
        nonlocal ticks
        ticks += 1
        if ticks >= TICKS:
            raise HangingError(f"a case does not end within {TICK * TICKS:g} seconds")

    signal.signal(signal.SIGPROF, compute_too_long)
    signal.signal(signal.SIGALRM, wait)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    try:
        yield
    except HangingError as error:
        raise TimeoutError(str(error)) from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def run_round(name: str, start: int, seconds: float, corpus: Path | None) -> tuple[dict[str, float], str | None]:
    """One process: the number of cases and the seconds that they took, and the end of its report if it failed."""
    command = [sys.executable, __file__, "--child", name, "--seed", str(start), "--round", str(seconds)]
    command += [] if corpus is None else ["--guided", "--corpus", str(corpus)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, errors="replace")
    except subprocess.TimeoutExpired:
        return {}, f"{name}, seed {start}: a case does not end"
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1]), None
    # The traceback is in the middle, between those of the fuzzer and the case, which may be long.
    lines = [line if len(line) <= 2000 else f"{line[:1000]} … {line[-1000:]}" for line in done.stderr.splitlines()]
    return {}, f"{name}, seed {start}, exit code {done.returncode}:\n" + "\n".join(lines[-200:])


def processor_seconds() -> float:
    """The processor time so far of this process and of all that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(own.ru_utime + own.ru_stime for own in used)


def main() -> int:
    """Fuzz for the time that was asked for; exit 1 if anything failed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=60.0, help="of processor time, of all processes together")
    options.add_argument("--only", default=",".join(TARGETS), help="targets, separated by commas")
    options.add_argument("--seed", type=int, default=None, help="of the first round; a random one if left out")
    options.add_argument("--record", type=Path, help="add what ran to this JSON file")
    options.add_argument("--round", type=float, default=20.0, help="seconds of processor time of one process")
    options.add_argument("--guided", action="store_true", help="choose cases by the code that they reach, with atheris")
    options.add_argument("--corpus", type=Path, help="keep what reached new code in this folder, for later runs")
    options.add_argument("--child", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.child:
        child(chosen.child, chosen.round, chosen.seed or 0, chosen.corpus)
        return 0
    corpus = chosen.corpus or Path(tempfile.mkdtemp(prefix="fuzz-")) if chosen.guided else None
    names = chosen.only.split(",")
    start = random.SystemRandom().randrange(1 << 40) if chosen.seed is None else chosen.seed
    start_time, used_before = time.monotonic(), processor_seconds()
    totals = {name: {"cases": 0, "seconds": 0.0, "failures": 0} for name in names}
    rounds = 0
    former = json.loads(chosen.record.read_text(encoding="utf-8")) if chosen.record and chosen.record.exists() else {}
    while processor_seconds() - used_before < 60 * chosen.minutes:
        name = names[rounds % len(names)]
        passed, failure = run_round(name, start + 1000 * rounds, chosen.round, corpus)
        for key, value in passed.items():
            totals[name][key] = round(totals[name][key] + value, 1)
        if failure is not None:
            totals[name]["failures"] += 1
            KEPT.mkdir(exist_ok=True)
            (KEPT / f"{name}-{start + 1000 * rounds}.txt").write_text(failure, encoding="utf-8")
            print(failure, flush=True)
        rounds += 1
        if chosen.record is not None:
            minutes, used = time.monotonic() - start_time, processor_seconds() - used_before
            run = {"first seed": start, "minutes": round(minutes / 60, 1), "processor minutes": round(used / 60, 1)}
            run |= {"guided by coverage": chosen.guided}
            run |= {"cases": sum(int(total["cases"]) for total in totals.values()), "targets": totals}
            record = {**former, "runs": [*former.get("runs", ()), run]}
            chosen.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for name, total in totals.items():
        print(f"{name:10} {total['cases']:>9.0f} cases {total['seconds']:>8.0f} s {total['failures']:>4} failures")
    return int(any(total["failures"] for total in totals.values()))


if __name__ == "__main__":
    sys.exit(main())
