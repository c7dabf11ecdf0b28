"""Which tests call which functions, and how long they take: measured once, so that a mutant meets the fastest tests first.

`mutate.py` runs the tests of an area once with `Watch`, a plugin of pytest. A test counts for a function if it calls it, or if
a fixture that it uses does, even where another test had set that fixture up.
"""

import ast
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from hypothesis import Phase, settings

__all__ = ["Unshrunk", "Watch", "choose_tests", "function_at", "nearest_first"]

LONGEST = 30.0  # seconds of processor time: a test that takes more is not used

Calls = set[tuple[str, str]]  # a module below src/mallow, and a function in it


class Unshrunk:
    """hypothesis stops at the first example that fails: nobody reads it."""

    def pytest_collection(self) -> None:  # after conftest.py, before the tests are imported
        settings.register_profile("unshrunk", phases=(Phase.explicit, Phase.generate, Phase.target))
        settings.load_profile("unshrunk")


class TooSlowError(BaseException):
    """A test takes too long to be tried against mutants."""


class Watch:
    """Notes for each test the functions of some modules that it calls, and its seconds of processor time.

    No new file is begun after so many seconds; `complete` are the files that were watched to their end.
    """

    def __init__(self, base: Path, modules: list[str], most: float) -> None:
        self.complete: set[str] = set()
        self._end = time.process_time() + most
        self.files = {str(base / module): module for module in modules}
        self.tests: dict[str, dict[str, Any]] = {}
        self.failed: list[str] = []
        self._calls: Calls = set()
        self._fixtures: dict[str, Calls] = {}
        self._known: dict[CodeType, tuple[str, str] | None] = {}

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code not in self._known:
            module = self.files.get(code.co_filename)
            self._known[code] = None if module is None else (module, code.co_qualname.split(".<")[0])
        if (call := self._known[code]) is not None:
            self._calls.add(call)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before, self._calls = self._calls, set()
        try:
            return (yield)
        finally:
            self._fixtures[fixturedef.argname] = self._fixtures.get(fixturedef.argname, set()) | self._calls
            self._calls |= before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        self._calls, start = set(), time.process_time()
        signal.signal(signal.SIGPROF, _stop)
        signal.setitimer(signal.ITIMER_PROF, LONGEST)
        threading.settrace(self._trace)  # type: ignore[arg-type]
        sys.settrace(self._trace)  # type: ignore[arg-type]
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            signal.setitimer(signal.ITIMER_PROF, 0)
            calls = self._calls.union(*(self._fixtures.get(name, ()) for name in getattr(item, "fixturenames", ())))
            if item.nodeid not in self.failed:
                self.tests[item.nodeid] = {"seconds": time.process_time() - start, "calls": sorted(calls)}
            file = item.nodeid.split("::")[0]
            if nextitem is None or nextitem.nodeid.split("::")[0] != file:
                self.complete.add(file)
                if time.process_time() > self._end:
                    item.session.shouldstop = "the time is up"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:  # such as a test of time or memory, which tracing changes
            self.failed.append(report.nodeid)


def _stop(*_: object) -> None:
    raise TooSlowError(f"the test takes more than {LONGEST:g} seconds")


def nearest_first(tests: list[Path], sources: list[Path]) -> list[Path]:
    """Test files in the order of how near they are to some modules: of the same name, then by how many of its names they use."""
    stems = {source.stem.strip("_") for source in sources}
    names = {
        node.name
        for source in sources
        for node in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }

    def nearness(test: Path) -> tuple[bool, int]:
        stem, words = test.stem.removeprefix("test_"), set(re.findall(r"\w+", test.read_text(encoding="utf-8")))
        return any(stem in each or each in stem for each in stems), len(words & names)

    return sorted(tests, key=nearness, reverse=True)


def function_at(tree: ast.Module, line: int) -> str | None:
    """The name of the function or method around a line, without functions inside it; None outside of all."""

    def search(body: list[ast.stmt], prefix: str) -> str | None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0):
                inner = search(node.body, f"{prefix}{node.name}.") if isinstance(node, ast.ClassDef) else None
                return inner if isinstance(node, ast.ClassDef) else f"{prefix}{node.name}"
        return None

    return search(tree.body, "")


def choose_tests(tests: dict[str, dict[str, Any]], module: str, function: str | None, budget: float) -> list[str]:
    """The tests that call a function, the fastest first, within so many seconds.

    Of a line outside of functions, and of a function that no test is seen to call, since it is compiled or runs in another
    process: the tests that call anything of its module.
    """
    calling = [
        (test["seconds"], name)
        for name, test in tests.items()
        if any(where == module and function in (None, what) for where, what in map(tuple, test["calls"]))
    ]
    if not calling and function is not None:
        return choose_tests(tests, module, None, budget)
    chosen: dict[str, list[str]] = {}
    files: dict[str, float] = {}
    total = 0.0
    for seconds, name in sorted(calling):
        file, total = name.split("::")[0], total + seconds
        if chosen and total > budget:
            break
        chosen.setdefault(file, []).append(name)
        files[file] = files.get(file, 0.0) + seconds
    stem = Path(module).stem.strip("_")
    # File by file, or fixtures of a whole file would be set up many times; those of the module's own tests come first.
    order = sorted(files, key=lambda file: (stem not in Path(file).stem, files[file]))
    return [name for file in order for name in chosen[file]]
