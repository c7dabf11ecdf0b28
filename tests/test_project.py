"""What a newcomer meets first is true: the README's code, the examples, the version."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mallow
from mallow._optional import INSTALL

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [README, *(page.read_text(encoding="utf-8") for page in FILES)]
BLOCKS = [block for page in PAGES for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]


def output_and_promise(block: str) -> tuple[list[str], list[str]]:
    """What the block prints, and what it says that it prints: `print(...)  # this`, one line each."""
    promise = re.findall(r"^print\(.*\)  # (.*)$", block, flags=re.MULTILINE)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    return printed.getvalue().splitlines(), promise


NUMBER = r"\d+\.\d+"  # clustering rounds differently on other processors: decimals may move a little


@pytest.mark.parametrize("block", BLOCKS)
def test_the_code_of_readme_and_docs_prints_what_it_says(block):
    output, promise = output_and_promise(block)
    assert [re.sub(NUMBER, "#", line) for line in output] == [re.sub(NUMBER, "#", line) for line in promise]
    numbers = [[float(found) for line in lines for found in re.findall(NUMBER, line)] for lines in (output, promise)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.03)


def test_readme_has_code_and_the_check_can_fail():
    assert BLOCKS
    assert output_and_promise("print(1 + 1)  # 3\n") == (["2"], ["3"])


EXAMPLES = [
    (path, encoding)
    for path in sorted((ROOT / "examples").glob("*.py"))
    if path.name != "integrations.py"  # tests/integrations runs its parts
    for encoding in ("utf-8", "ascii")
    if encoding == "ascii" or path.name == "frontier_in_terminal.py"  # what any encoding can print, all can
]


@pytest.mark.parametrize(("path", "encoding"), EXAMPLES, ids=lambda value: getattr(value, "name", value))
def test_examples_run_in_any_terminal(path, encoding):
    environment = os.environ | {"PYTHONIOENCODING": encoding, "TERM": "dumb", "NO_COLOR": "1"}
    command = [sys.executable, "-W", "error", str(path)]
    run = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr.decode()
    text = run.stdout.decode(encoding)
    assert text.strip()
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_the_self_score_has_no_second_name():
    old = re.compile("noise[ _-]floor", re.IGNORECASE)
    folders = ("src", "docs", "tests", "examples", "experiments", "benchmarks")
    kinds = (".py", ".pyi", ".md", ".html", ".js", ".json")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in kinds]
    assert len(files) > 300
    assert [str(file) for file in (ROOT / "README.md", *files) if old.search(file.read_text(encoding="utf-8"))] == []


def test_one_line_decides_how_mallow_is_installed():
    """No page names a package that is not published; on a release `INSTALL` changes, and this test lists the rest."""
    command = re.search(r"pip install '(.*)\[", INSTALL)[0]
    for page in ("README.md", "docs/install.md"):
        assert f"{command}minilm,plot]'" in (ROOT / page).read_text(encoding="utf-8")
    sources = [path for path in (ROOT / "src").rglob("*.py") if path.name != "_optional.py"]
    lines = [
        line
        for path in (*FILES, ROOT / "README.md", *sources)
        for line in re.findall(r"pip install '[^']*\[[^']*'", path.read_text(encoding="utf-8"))
    ]
    assert [line for line in lines if not line.startswith(command) and " @ git+" not in line] == []


def test_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {mallow.__version__}\n" in citation
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = changelog.split("\n## ")[1:]
    assert releases[0].startswith(f"{mallow.__version__} ")
    for release in releases:
        assert "\n### Scores changed\n" in release, f"{release.splitlines()[0]} does not say which scores changed"


def test_a_test_that_is_skipped_for_want_of_a_package_fails_the_development_run(tmp_path):
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    for reason, development, code in (("needs torch", "1", 1), ("needs torch", "", 0), ("root may write", "1", 0)):
        test = f"import pytest\n\ndef test_runs(): pass\n\ndef test_skipped(): pytest.skip({reason!r})\n"
        (tmp_path / "test_one.py").write_text(test)
        environment = os.environ | {"MALLOW_DEVELOPMENT": development}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert run.returncode == code, run.stdout
        assert ("although the development environment" in run.stdout) == (code == 1)
