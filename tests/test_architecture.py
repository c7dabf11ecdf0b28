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

# Packages from the top down: a module imports from its own package and from packages further down, never from above.
# `docs/architecture.md` gives the reasons; the picture in it is drawn from the same imports.
LAYERS = [
    ["__main__"],
    ["cli"],
    ["integrations"],
    ["demo", "annotate"],
    ["report"],
    ["baselines", "human", "compat"],
    ["evaluate"],
    ["explain"],
    ["caveats"],
    ["evidence"],
    ["results"],
    ["estimate", "embed"],
    ["generate"],
    ["models", "smoothing"],
    ["samples", "theory"],
    ["engine"],
    ["_files", "_checks", "_optional", "_plugins"],
    ["errors"],
]
LEVELS = {name: -place for place, names in enumerate(LAYERS) for name in names}

# Small modules of the root that every package shares; any other name with an underscore stays in its package.
SHARED = ("_files", "_checks", "_optional", "_plugins")

# `estimate` ends in masses; what is measured on them is none of its business. `estimate._direct` is excepted:
# it estimates a divergence without masses.
MEASURED_ON_MASSES = {"Divergence", "frontier", "Frontier", "area", "integral", "midpoint", "KL"}

HEAVY = ("scipy.stats", "sklearn", "torch", "matplotlib", "pandas", "transformers", "rich", "jinja2", "click")


# --- imports go down only


def sources(folder: Path) -> dict[str, Path]:
    """Module name inside the package ("" is the package itself) → file."""
    names = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imported(name: str, path: Path, modules: dict[str, Path]) -> Iterator[tuple[str, str, int]]:
    """Modules of the package that this one imports anywhere, also inside functions, with the name taken and the line."""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    package = [part for part in package if part]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top, _, rest = alias.name.partition(".")
                if top == "mallow":
                    yield rest, "", node.lineno
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
                yield (inner, "", node.lineno) if inner in modules else (target, alias.name, node.lineno)


def unit(name: str) -> str:
    """The package, or the module of the root, that a module belongs to."""
    return name.split(".")[0]


def violations(folder: Path) -> list[str]:
    """Every import that goes up or round in a circle, every private name taken, every module without a layer."""
    modules = sources(folder)
    complaints = [
        f"{name}: not in LAYERS of tests/test_architecture.py; add it to the layer it belongs to"
        for name in modules
        if name and unit(name) not in LEVELS
    ]
    inside: dict[str, set[str]] = {}
    between: dict[str, set[str]] = {}
    for name, path in modules.items():
        inside[name] = set()
        for target, taken, line in imported(name, path, modules):
            where = (
                f"{name or '__init__'}:{line} imports {'.'.join(filter(None, [target, taken])) or 'the package itself'}"
            )
            mine, theirs = unit(name), unit(target)
            if mine == theirs:
                inside[name].add(target)
                continue
            between.setdefault(mine, set()).add(theirs)
            if not target or LEVELS.get(theirs, 0) > LEVELS.get(mine, 0):
                complaints.append(f"{where}, which is above it")
            private = [part for part in [*target.split("."), taken] if part.startswith("_") and part != "__all__"]
            if private and target not in SHARED and mine:
                complaints.append(f"{where}: {private[0]} is private to {theirs}")
            if mine == "estimate" and name != "estimate._direct" and taken in MEASURED_ON_MASSES:
                complaints.append(f"{where}, but estimators know masses only")
    for graph in (inside, between):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            complaints.append("imports in a circle: " + " → ".join(name or "__init__" for name in error.args[1]))
    return complaints


def test_imports_go_down_only():
    assert sources(SOURCE), "no sources found: the check would pass on nothing"
    assert violations(SOURCE) == []


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        (
            {"theory/a.py": "from mallow.estimate import Quantize"},
            "theory.a:1 imports estimate.Quantize, which is above it",
        ),
        ({"theory/a.py": "from ..estimate import Quantize"}, "theory.a:1 imports estimate.Quantize, which is above it"),
        ({"theory/a.py": "def f():\n    import mallow.report"}, "theory.a:2 imports report, which is above it"),
        ({"theory/a.py": "from mallow import report"}, "theory.a:1 imports report, which is above it"),
        ({"cli/a.py": "from mallow import area"}, "cli.a:1 imports area, which is above it"),
        ({"human/rank.py": "from ..annotate import x"}, "human.rank:1 imports annotate.x, which is above it"),
        ({"engine/ray.py": "import mallow.samples"}, "engine.ray:1 imports samples, which is above it"),
        ({"estimate/_gaussian.py": "from ..theory import KL"}, "estimators know masses only"),
        ({"estimate/_direct.py": "from ..theory import KL"}, None),
        ({"estimate/_gaussian.py": "from ..theory import Masses"}, None),
        ({"cli/a.py": "from mallow.theory._masses import Masses"}, "_masses is private to theory"),
        ({"cli/a.py": "from mallow.theory import _masses"}, "_masses is private to theory"),
        ({"cli/a.py": "from mallow.theory import _helper"}, "_helper is private to theory"),
        ({"cli/a.py": "from mallow._files import digest"}, None),
        ({"theory/b.py": "from mallow.theory._masses import Masses"}, None),
        ({"annotate/app.py": "from mallow.report import page"}, None),
        ({"report/a.py": "import numpy\nfrom mallowtree import x\nfrom mallow.engine import map"}, None),
        ({"theory/a.py": "import mallow.theory.b", "theory/b.py": "import mallow.theory.a"}, "in a circle"),
        ({"gadget/a.py": ""}, "gadget.a: not in LAYERS"),
    ],
)
def test_the_check_of_imports_can_fail(tmp_path, files, complaint):
    stubs = [
        "__init__.py",
        "_files.py",
        "theory/_masses.py",
        "estimate/x.py",
        "report/x.py",
        "annotate/x.py",
        "samples/x.py",
    ]
    for name, text in (dict.fromkeys(stubs, "") | files).items():
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


def test_a_score_loads_only_what_it_needs():
    score = "import mallow, numpy, warnings\nwarnings.simplefilter('ignore')\n"
    score += "mallow.score(*numpy.random.default_rng(0).normal(size=(2, 60, 3)), repeats=1)"
    others = ("generate", "human", "annotate", "cli", "report", "baselines", "compat", "demo", "integrations")
    assert loaded_after(score, tuple(f"mallow.{name}" for name in others)) == []


def test_the_command_line_opens_without_numpy():
    assert loaded_after("import mallow.cli", ("numpy", "scipy", "rich")) == []


@pytest.mark.parametrize("first", ["import mallow.evaluate", "from mallow.theory import frontier", "import mallow.cli"])
def test_public_names_are_functions_whatever_was_imported_first(first):
    code = f"{first}\nimport mallow\nprint(mallow.score.__name__, mallow.compare.__name__, mallow.frontier.__name__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["score", "compare", "frontier"]


def test_rarer_names_are_loaded_at_their_first_use_too():
    code = "import mallow\nprint(*[getattr(mallow, name).__all__[0] for name in mallow._RARER], mallow.theory.bounds.alpha)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split()[:2] == ["Classifier", "Audit"]
    assert set(load("")._RARER).isdisjoint(load("").__all__)


def test_no_package_has_the_name_of_a_public_function():
    """Otherwise importing the package would hide the function."""
    package = load("")
    assert {name.split(".")[0] for name in sources(SOURCE)} & set(package._PACKAGES) == set()


def test_type_checkers_see_the_public_names():
    """`__init__.pyi` imports each name from where `__init__.py` loads it."""
    package = load("")
    stub = ast.parse((SOURCE / "__init__.pyi").read_text(encoding="utf-8"))
    seen = {a.name: n.module for n in stub.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert seen == {name: f"mallow.{package._PACKAGES[name]}" for name in package._PACKAGES} | dict.fromkeys(
        package._MODULES, "mallow"
    )
    assert set(package.__all__) == set(ast.literal_eval(stub.body[-1].value))


def test_dir_shows_public_names_only():
    assert dir(load("")) == sorted([*load("").__all__, "__version__"])


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


def is_private(name: str) -> bool:
    return name.rpartition(".")[2].startswith("_")


def offered(module: ModuleType) -> list[str]:
    """What a package lists, or what a private module defines without an underscore."""
    if not is_private(module.__name__):
        return module.__all__
    return [
        each
        for each, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__ and each[0] != "_"
    ]


@pytest.mark.parametrize("name", [name for name in MODULES if not is_private(name)], ids=lambda name: name or "mallow")
def test_names_in_all_exist_once(name):
    module = load(name)
    assert hasattr(module, "__all__"), f"{module.__name__} does not say what is public: define __all__"
    assert [each for each in module.__all__ if not hasattr(module, each)] == []
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize("name", MODULES, ids=lambda name: name or "mallow")
def test_public_names_are_documented(name):
    module = load(name)
    assert (module.__doc__ or "").strip(), f"{module.__name__} has no docstring"
    assert [gap for each in offered(module) for gap in undocumented(getattr(module, each), each)] == []


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
