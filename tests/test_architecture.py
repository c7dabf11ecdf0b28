"""The architecture, kept: imports go down, `import mallow` is light, names are true and documented."""

import ast
import functools
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "mallow"

# A module imports from its own level and below, never from above, and never in a circle.
# The part of a name that is longest in the table decides: `human.app` is above the rest of `human`.
LEVELS = {
    "errors": 0,
    # the mathematics
    "divergence": 1,
    "masses": 1,
    "smoothing": 1,
    "frontier": 2,
    "debias": 2,
    "bounds": 2,
    "lookalikes": 3,
    "draw": 3,
    "transport": 3,
    # chunks → map → sum: for whatever touches samples or points
    "engine": 3,
    # samples → points → masses, and other yardsticks
    "samples": 4,
    "generate": 4,
    "embed": 4,
    "estimate": 4,
    "baselines": 5,  # its table; its measures are below
    "baselines.features": 4,
    "baselines.language": 4,
    "baselines.text": 4,
    "human": 4,
    # one comparison
    "score": 5,
    "compare": 5,
    "uncertainty": 5,
    "jsonable": 0,
    "tabular": 0,
    "audit": 5,
    "confounds": 5,
    "monitor": 5,
    "sweep": 5,
    "diagnose": 5,
    "compat": 5,
    "plan": 5,
    "check": 5,
    # show
    "report": 6,
    "demo": 6,
    "human.app": 6,
    "cli": 7,
    "__main__": 8,
    "": 9,  # the package itself: it names everything, so nothing below may import from it
}

# `estimate` ends in masses; what is measured on them is none of its business. `estimate.direct` is excepted:
# it estimates a divergence without masses.
NOT_FOR_ESTIMATE = ("divergence", "frontier")

HEAVY = ("scipy.stats", "sklearn", "torch", "matplotlib", "pandas", "transformers", "rich", "jinja2", "click")


# --- imports go down only


def sources(folder: Path) -> dict[str, Path]:
    """Module name inside the package ("" is the package itself) → file."""
    names = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imported(name: str, path: Path, modules: dict[str, Path]) -> Iterator[tuple[str, int]]:
    """Modules of the package that this one imports anywhere, also inside functions, with the line."""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    package = [part for part in package if part]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top, _, rest = alias.name.partition(".")
                if top == "mallow":
                    yield rest, node.lineno
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = package[: len(package) - node.level + 1]
                target = ".".join([*base, *(node.module.split(".") if node.module else [])])
            elif node.module and node.module.split(".")[0] == "mallow":
                target = node.module.partition(".")[2]
            else:
                continue
            for alias in node.names:
                inner = f"{target}.{alias.name}" if target else alias.name
                yield (inner if inner in modules else target), node.lineno


def level(name: str) -> int | None:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        if (found := LEVELS.get(".".join(parts[:end]))) is not None:
            return found
    return None


def violations(folder: Path) -> list[str]:
    """Every import that goes up or round in a circle, and every module without a level."""
    modules = sources(folder)
    found = [
        f"{name}: not in LEVELS of tests/test_architecture.py; add it at the level it belongs to"
        for name in modules
        if level(name) is None
    ]
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        graph[name] = set()
        for target, line in imported(name, path, modules):
            where = f"{name or '__init__'}:{line} imports {target or 'the package itself'}"
            mine, theirs = level(name), level(target)
            if theirs is not None and mine is not None and theirs > mine:
                found.append(f"{where}, which is above it")
            is_estimate = name.split(".")[0] == "estimate" and name != "estimate.direct"
            if is_estimate and target.split(".")[0] in NOT_FOR_ESTIMATE:
                found.append(f"{where}, but estimators know masses only")
            graph[name].add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append("imports in a circle: " + " → ".join(name or "__init__" for name in error.args[1]))
    return found


def test_imports_go_down_only():
    assert sources(SOURCE), "no sources found: the check would pass on nothing"
    assert violations(SOURCE) == []


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"masses.py": "from mallow.frontier import area"}, "masses:1 imports frontier, which is above it"),
        ({"masses.py": "from .frontier import area"}, "masses:1 imports frontier, which is above it"),
        ({"masses.py": "def f():\n    import mallow.score"}, "masses:2 imports score, which is above it"),
        ({"masses.py": "from mallow import frontier"}, "masses:1 imports frontier, which is above it"),
        ({"cli.py": "from mallow import area"}, "cli:1 imports the package itself, which is above it"),
        ({"human/rank.py": "from . import app"}, "human.rank:1 imports human.app, which is above it"),
        ({"human/rank.py": "from ..report import page"}, "human.rank:1 imports report, which is above it"),
        ({"engine/ray.py": "import mallow.samples"}, "engine.ray:1 imports samples, which is above it"),
        ({"estimate/gaussian.py": "from ..divergence import KL"}, "estimators know masses only"),
        ({"estimate/direct.py": "from ..divergence import KL"}, None),
        ({"estimate/gaussian.py": "from ..masses import Masses"}, None),
        ({"human/app.py": "from mallow.report import page"}, None),
        ({"score.py": "import numpy\nfrom mallowtree import x\nfrom mallow.engine import map"}, None),
        ({"score.py": "import mallow.compare", "compare.py": "import mallow.score"}, "in a circle"),
        ({"gadget.py": ""}, "gadget: not in LEVELS"),
    ],
)
def test_the_check_of_imports_can_fail(tmp_path, files, complaint):
    stubs = {"__init__.py": "", "frontier.py": "", "human/__init__.py": "", "human/app.py": ""}
    for name, text in (stubs | files).items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    found = violations(tmp_path)
    if complaint is None:
        assert found == []
    else:
        assert len(found) == 1
        assert complaint in found[0]


# --- `import mallow` is light


def loaded_after(statement: str, names: tuple[str, ...] = HEAVY) -> list[str]:
    """Which of these modules a fresh interpreter has loaded after the statement."""
    code = f"import sys\n{statement}\nprint(*[name for name in {names!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_import_mallow_loads_nothing_heavy():
    assert loaded_after("import mallow") == []
    assert loaded_after("from mallow import *") == []  # every public name


def test_the_command_line_opens_without_numpy():
    assert loaded_after("import mallow.cli", ("numpy", "scipy", "rich")) == []


@pytest.mark.parametrize("first", ["import mallow.score", "from mallow.compare import Comparison", "import mallow.cli"])
def test_a_public_name_is_not_hidden_by_the_module_of_that_name(first):
    code = f"{first}\nimport mallow, mallow.plan\nfrom mallow import frontier\n"
    code += "print(mallow.score.__name__, mallow.compare.__name__, mallow.plan.__name__, frontier.__name__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["score", "compare", "plan", "frontier"]


def test_type_checkers_see_the_public_names():
    """`__init__.pyi` imports each name from where `__init__.py` loads it."""
    package = load("")
    stub = ast.parse((SOURCE / "__init__.pyi").read_text(encoding="utf-8"))
    seen = {a.name: n.module for n in stub.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert seen == {name: f"mallow.{package._WHERE[name]}" for name in package._WHERE} | dict.fromkeys(
        package._MODULES, "mallow"
    )
    assert set(package.__all__) == set(ast.literal_eval(stub.body[-1].value))
    assert set(package.__all__) <= set(dir(package))


def test_an_unknown_name_says_so():
    with pytest.raises(AttributeError, match="module 'mallow' has no attribute 'scor'"):
        load("").scor  # noqa: B018


@pytest.mark.parametrize("module", ["scipy.stats", "click", "jinja2"])
def test_the_check_of_a_light_import_can_fail(module):
    assert loaded_after(f"import mallow, {module}") == [module]


# --- names are true and documented

MODULES = [name for name in sources(SOURCE) if name != "__main__"]


def load(name: str) -> ModuleType:
    return importlib.import_module(f"mallow.{name}" if name else "mallow")


def undocumented(value: object, name: str) -> Iterator[str]:
    """The name, and the public methods and properties of a class, where they lack a docstring."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return  # constants are documented by their type and module
    doc = value.__doc__ or ""
    # A dataclass without a docstring is given its signature as one.
    if not doc.strip() or (inspect.isclass(value) and doc.startswith(f"{value.__name__}(")):
        yield name
    if inspect.isclass(value):
        for member, raw in vars(value).items():
            described = isinstance(raw, property | functools.cached_property | classmethod | staticmethod)
            if member.startswith("_") or not (described or inspect.isfunction(raw)):
                continue
            if not inspect.getdoc(getattr(value, member)):
                yield f"{name}.{member}"


@pytest.mark.parametrize("name", MODULES, ids=lambda name: name or "mallow")
def test_names_in_all_exist_once(name):
    module = load(name)
    assert hasattr(module, "__all__"), f"{module.__name__} does not say what is public: define __all__"
    assert [each for each in module.__all__ if not hasattr(module, each)] == []
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize("name", MODULES, ids=lambda name: name or "mallow")
def test_public_names_are_documented(name):
    module = load(name)
    assert (module.__doc__ or "").strip(), f"{module.__name__} has no docstring"
    assert [gap for each in module.__all__ for gap in undocumented(getattr(module, each), each)] == []


def test_the_check_of_documentation_can_fail():
    class Bare:
        @property
        def size(self): ...

        def swap(self): ...

        @classmethod
        def read(cls): ...

        def _inner(self): ...

    assert list(undocumented(Bare, "Bare")) == ["Bare", "Bare.size", "Bare.swap", "Bare.read"]
    assert list(undocumented(lambda: None, "f")) == ["f"]
    assert list(undocumented(5, "FIVE")) == []
