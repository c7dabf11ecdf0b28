"""The pages that describe the code are true: the picture of the imports, and every file and name that they mention."""

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

import mallow

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
]


def drawn():
    spec = importlib.util.spec_from_file_location("architecture", ROOT / "docs" / "architecture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_of_the_imports_is_that_of_the_code():
    module = drawn()
    assert module.BLOCK.search(PAGE)[0] == module.picture(), "run `make docs`"


def test_the_picture_can_be_wrong():
    module = drawn()
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert module.reduced(graph) == {"a": {"b"}, "b": {"c"}, "c": set()}


def test_every_file_that_the_architecture_names_exists():
    files = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|md|json))?|[a-z_]+\.py)`", PAGE))
    assert len(files) > 40
    missing = [name for name in files if not any((base / name).exists() for base in (ROOT / "src/mallow", ROOT))]
    assert missing == []


def test_every_package_is_in_the_table_of_folders():
    packages = {path.parent.name for path in (ROOT / "src" / "mallow").glob("*/__init__.py")}
    assert packages == set(re.findall(r"^\| `([a-z]+)/` \|", PAGE, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    path = ROOT / page
    targets = re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (path.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_names_of_the_library_resolve(page):
    """`mallow.name.name` in running text or code is something that exists."""
    text = (ROOT / page).read_text(encoding="utf-8")
    groups = {".embedders", ".estimators", ".metrics"}  # of entry points: names of what other packages offer
    for dotted in set(re.findall(r"\bmallow((?:\.[A-Za-z_]\w*)+)", text)) - groups:
        value = mallow
        for part in dotted.strip(".").split("."):
            try:
                value = getattr(value, part)
            except AttributeError:
                value = importlib.import_module(f"{value.__name__}.{part}")
        assert value is not None


def test_the_readme_is_a_front_door():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 100
    for step in ("git clone", "make demo", "make test", "mallow score human.jsonl model.jsonl"):
        assert step in text


def missing_tests(text: str) -> list[str]:
    """The tests that a page names, alone or with their file, and that do not exist there."""
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")
    }
    named = re.findall(r"`(?:(tests/[\w/]+\.py)::)?(test_[a-z0-9_]+)`", text)
    everything = "\n".join(sources.values())
    return [name for file, name in named if f"def {name}(" not in (sources.get(file, "") if file else everything)]


def test_every_promise_of_security_has_a_test_that_exists():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert missing_tests(page) == []
    lost = "`tests/test_docs.py::test_every_promise_of_security_has_a_test_that_exists` `tests/test_files.py::test_lost` `test_lost`"
    assert missing_tests(lost) == ["test_lost", "test_lost"]
    for line in page.partition("## Inside other people's programs")[2].splitlines():
        assert not line.startswith("| ") or line.startswith("| promise |") or "test_" in line, line
