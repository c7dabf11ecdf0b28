"""Scripts of benchmarks, experiments, examples, docs and tools: what they import of mallow exists; benchmarks print their help.

They run for minutes or hours, so that no test runs them: without this, a name that moves would break them unnoticed.
"""

import ast
import contextlib
import importlib
import runpy
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("benchmarks", "experiments", "examples", "docs", "tools")
SCRIPTS = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))
QUICK = {"mallow", "numpy", "scipy"}  # packages that are imported anyway


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports_of(source: str) -> list[tuple[str, str | None]]:
    """Module and name of each import, at the top of a script or inside its functions; no name for `import module`."""
    imports: list[tuple[str, str | None]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imports += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            imports += [(str(node.module), alias.name) for alias in node.names]
    return imports


def is_there(module: str, name: str | None) -> bool:
    """Whether a module exists and has a name, which may be that of a module in it."""
    try:
        loaded = importlib.import_module(module)
        return name is None or hasattr(loaded, name) or bool(importlib.import_module(f"{module}.{name}"))
    except ImportError:
        return False


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_what_a_script_imports_of_mallow_exists(path):
    imports = [entry for entry in imports_of(path.read_text(encoding="utf-8")) if entry[0].split(".")[0] == "mallow"]
    assert [f"{module}: {name}" for module, name in imports if not is_there(module, name)] == []


def test_a_name_that_moved_is_noticed():
    old = imports_of("from mallow.evidence import hold_out, moved\nimport mallow.inference\n")
    assert [is_there(*entry) for entry in old] == [True, False, False]


@pytest.mark.parametrize("path", BENCHMARKS, ids=name_of)
def test_a_benchmark_prints_its_help(path, monkeypatch, capsys):
    local = {script.stem for script in BENCHMARKS}
    for module, _ in imports_of(path.read_text(encoding="utf-8")):
        package = module.split(".")[0]
        if package not in QUICK | local | sys.stdlib_module_names:  # other libraries are not needed for help
            monkeypatch.setitem(sys.modules, package, MagicMock())
            monkeypatch.setitem(sys.modules, module, MagicMock())
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with contextlib.suppress(SystemExit):  # argparse exits
        runpy.run_path(str(path), run_name="__main__")
    about = str(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))).splitlines()[0]
    shown = capsys.readouterr().out
    assert shown.startswith((f"usage: {path.name}", about))


def test_the_profile_watches_functions_that_exist(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    steps = runpy.run_path(str(ROOT / "benchmarks" / "profile.py"))["STEPS"]
    assert [name for owner, name, _ in steps if not hasattr(owner, name)] == []
