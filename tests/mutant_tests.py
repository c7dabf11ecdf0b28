"""Which tests call which functions, and how long they take: measured once, so that a mutant meets the fastest tests first.

`mutate.py` runs the tests of an area once with `Watch`, a plugin of pytest. A test counts for a function if it calls it, or if
a fixture that it uses does, even where another test had set that fixture up.
"""

import ast
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

__all__ = ["Watch", "choose_tests", "function_at"]

Calls = set[tuple[str, str]]  # a module below src/mallow, and a function in it


class Watch:
    """Notes for each test the functions of some modules that it calls, and its seconds of processor time."""

    def __init__(self, base: Path, modules: list[str]) -> None:
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
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._calls, start = set(), time.process_time()
        threading.settrace(self._trace)  # type: ignore[arg-type]
        sys.settrace(self._trace)  # type: ignore[arg-type]
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            calls = self._calls.union(*(self._fixtures.get(name, ()) for name in getattr(item, "fixturenames", ())))
            if item.nodeid not in self.failed:
                self.tests[item.nodeid] = {"seconds": time.process_time() - start, "calls": sorted(calls)}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:  # such as a test of time or memory, which tracing changes
            self.failed.append(report.nodeid)


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
    """The tests that call a function, the fastest first, within so many seconds; of a line outside of functions: of its module."""
    calling = [
        (test["seconds"], name)
        for name, test in tests.items()
        if any(where == module and function in (None, what) for where, what in map(tuple, test["calls"]))
    ]
    chosen: dict[str, list[str]] = {}
    files: dict[str, float] = {}
    total = 0.0
    for seconds, name in sorted(calling):
        file, total = name.split("::")[0], total + seconds
        if chosen and total > budget:
            break
        chosen.setdefault(file, []).append(name)
        files[file] = files.get(file, 0.0) + seconds
    # File by file, or fixtures of a whole file would be set up many times.
    return [name for file in sorted(files, key=files.__getitem__) for name in chosen[file]]
