"""The documentation site: the tutorials run and show what is stored in them, the reference is complete, pages and links are those of the site.

`make site` builds all of it, strictly; here are the parts that take no build.
"""

import importlib
import inspect
import json
import re
import sys
import types
from pathlib import Path

import pytest

import mallow

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((DOCS / "tutorials").glob("*.ipynb"))
NAV = re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2])
# The others depend on Python's own texts and on ONNX, or on a decomposition whose signs another LAPACK may choose otherwise.
SAME_EVERYWHERE = ("images", "study")
NUMBER = re.compile(r"\d+\.\d+(?:e-?\d+)?")

sys.path.insert(0, str(DOCS))
import build_site  # noqa: E402
import tutorials  # noqa: E402
from graph_picture import draw_flowchart, order_layers  # noqa: E402
from notebook_page import notebook_markdown  # noqa: E402

# --- tutorials


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")  # a notebook says itself which warnings it does not want to show
def test_a_tutorial_runs_and_shows_what_is_stored_in_it(path):
    stored = tutorials.plain_outputs(json.loads(path.read_text(encoding="utf-8")))
    fresh = tutorials.plain_outputs(tutorials.run_notebook(path))
    assert len(fresh) == len(stored) >= 3
    if path.stem not in SAME_EVERYWHERE:
        assert "MAUVE" in fresh[1]
        assert any("was shown" in text or "Telltale signs" in text for text in fresh[2:4])
        return
    again = "run `python docs/tutorials.py`"
    for one, other in zip(fresh, stored, strict=True):
        assert NUMBER.sub("#", one) == NUMBER.sub("#", other), again
        numbers = [[float(number) for number in NUMBER.findall(text)] for text in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], abs=0.03), again


def test_a_cell_is_shown_as_a_notebook_shows_it():
    names = {}
    assert tutorials.run_cell("import matplotlib.pyplot as plt\nx = 2\nprint(x)", names, 1) == [
        {"name": "stdout", "output_type": "stream", "text": ["2\n"]}
    ]
    [value] = tutorials.run_cell("x + 1", names, 2)
    assert value["data"] == {"text/plain": ["3"]}
    [picture] = tutorials.run_cell("plt.figure(figsize=(1, 1))", names, 3)
    assert picture["data"]["image/png"].startswith("iVBORw0KGgo")  # the first bytes of a PNG file
    assert tutorials.run_cell("plt.get_fignums()", names, 4)[0]["data"]["text/plain"] == ["[]"]


def test_a_notebook_becomes_a_page():
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Text."]},
        {
            "cell_type": "code",
            "source": ["x"],
            "outputs": [
                {"output_type": "stream", "text": ["printed\n"]},
                {"output_type": "execute_result", "data": {"text/html": ["<p>a</p>\n", "\n", "<p>b</p>"]}},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": ["<Figure size 1x1>"]}},
            ],
        },
    ]
    page = notebook_markdown({"cells": cells}, "one.ipynb")
    assert page.startswith("# Title\nText.\n\n[Download this page as a notebook](one.ipynb)\n\n```python\nx\n```\n")
    assert "```text\nprinted\n```" in page
    assert "<p>a</p>\n<p>b</p>" in page  # a blank line would end the HTML
    assert 'alt="&lt;Figure size 1x1&gt;" src="data:image/png;base64,AAAA"' in page


# --- the reference


def documented():
    """Dotted names of the reference, one per place where they stand."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "reference").glob("*.md")))
    inner = [
        f"{package}.{name}"
        for package in re.findall(r"^<!-- names: mallow\.(\S+) -->$", text, re.MULTILINE)
        for name in vars(mallow_package(package))["__all__"]
    ]
    return re.findall(r"^::: mallow\.(\S+)$", text, re.MULTILINE) + inner


def mallow_package(name):
    return importlib.import_module(f"mallow.{name}")


def public_names():
    """Dotted name → value: those of `mallow`, and those that its packages list and `mallow` does not."""
    modules = [name for name in mallow.__all__ if isinstance(getattr(mallow, name), types.ModuleType)]
    names = {name: getattr(mallow, name) for name in mallow.__all__ if name not in modules}
    at_the_top = {id(value) for value in names.values()}
    for package in [*modules, *mallow._RARER, "theory.bounds", "theory.transport"]:
        inner = vars(mallow_package(package))
        values = {f"{package}.{name}": inner[name] for name in inner["__all__"]}
        own = {name: one for name, one in values.items() if id(one) not in at_the_top}
        names |= {name: one for name, one in own.items() if not isinstance(one, types.ModuleType)}
    return names


def test_the_top_level_is_small():
    """What most people need; all else has a place in a package."""
    assert len(mallow.__all__) <= 64


def test_every_public_name_is_in_the_reference_once():
    placed = documented()
    unplaced = re.findall(r"::: mallow\.(\S+)", build_site.names_markdown("mallow"))  # at the end of theory.md
    assert len(unplaced) < 40, "give them a place in docs/reference"
    assert sorted([*placed, *unplaced]) == sorted(public_names())


EXAMPLES = ROOT / "tests" / "reference" / "examples.md"
BLOCKS = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("default")
def test_the_page_of_examples_runs():
    namespace = {"__name__": "examples"}
    blocks = BLOCKS.findall(EXAMPLES.read_text(encoding="utf-8"))
    assert len(blocks) > 5
    for block in blocks:
        exec(compile(block, "tests/reference/examples.md", "exec"), namespace)


def test_every_public_name_has_an_example():
    """In its docstring, whose examples the suite runs, or in a block of a page, which it runs too."""
    pages = [ROOT / "README.md", EXAMPLES, *DOCS.rglob("*.md")]
    blocks = "\n".join(block for page in pages for block in BLOCKS.findall(page.read_text(encoding="utf-8")))
    blocks += (ROOT / "examples" / "integrations.py").read_text(encoding="utf-8")  # run by tests/integrations
    names = public_names()
    assert len(names) > 250
    bare = [
        name
        for name, value in names.items()
        if ">>>" not in (inspect.getdoc(value) or "") and not re.search(rf"\b{name.rpartition('.')[2]}\b", blocks)
    ]
    assert bare == [], "add them to tests/reference/examples.md"


def test_names_become_directives_functions_first():
    text = build_site.names_markdown("mallow.compat")
    assert text.split("\n\n") == [
        "::: mallow.compat.compute_mauve",
        "::: mallow.compat.from_histograms",
        "::: mallow.compat.MauveResult",
    ]


# --- pages and links


def test_every_page_of_the_navigation_exists_once():
    assert len(NAV) == len(set(NAV))
    notebooks = {f"tutorials/{path.stem}.md" for path in NOTEBOOKS}
    missing = [
        name for name in NAV if name not in notebooks and not (DOCS / name).exists() and not (ROOT / name).exists()
    ]
    assert missing == []
    assert notebooks <= set(NAV)


class Pages:
    """Just the pages that a test needs, as MkDocs would know them."""

    def __init__(self, *names):
        self.names = names

    def get_file_from_path(self, name):
        return name if name in self.names else None


def page_at(uri):
    return types.SimpleNamespace(file=types.SimpleNamespace(src_uri=uri))


@pytest.mark.parametrize(
    ("uri", "link", "expected"),
    [
        ("how-to/embedder.md", "[t](../../experiments/digits/digits.md)", "[t](../experiments/digits/digits.md)"),
        ("results.md", "[t](evidence.md#units)", "[t](evidence.md#units)"),
        ("experiments/digits/digits.md", "[t](../../docs/evidence.md)", "[t](../../evidence.md)"),
        ("CONTRIBUTING.md", "[t](docs/evidence.md)", "[t](evidence.md)"),
        ("architecture.md", "[t](../README.md)", "[t](index.md)"),
        ("index.md", "[t](tutorials/images.ipynb)", "[t](tutorials/images.md)"),
        ("tutorials/images.md", "[Download](images.ipynb)", "[Download](images.ipynb)"),
        ("scale.md", "[a file](../pyproject.toml)", "a file"),
        ("results.md", "[t](https://example.org/x.md)", "[t](https://example.org/x.md)"),
        ("results.md", "[t](nowhere.md)", "[t](nowhere.md)"),  # MkDocs complains about it
    ],
)
def test_links_of_the_repository_become_links_of_the_site(uri, link, expected):
    pages = Pages(
        "index.md", "evidence.md", "experiments/digits/digits.md", "tutorials/images.md", "tutorials/images.ipynb"
    )
    assert build_site.rewrite_links(f"See {link}.", page_at(uri), pages) == f"See {expected}."


def test_links_that_are_named_by_a_file_get_the_title_of_the_page():
    file = types.SimpleNamespace(content_string="<!-- x -->\n# Why the `claims` hold\n\ntext\n")
    files = types.SimpleNamespace(get_file_from_path=lambda name: file if name == "evidence.md" else None)
    rewrite = lambda link: build_site.rewrite_links(link, page_at("results.md"), files)  # noqa: E731
    assert rewrite("[evidence.md](evidence.md)") == "[Why the claims hold](evidence.md)"
    assert rewrite("[evidence.md](../docs/evidence.md#x)") == "[Why the claims hold](evidence.md#x)"
    assert rewrite("[why](evidence.md)") == "[why](evidence.md)"


def test_a_flowchart_becomes_a_picture():
    picture = draw_flowchart("flowchart TD\n    cli --> report\n    report --> theory\n    cli --> theory\n")
    assert picture.count("<rect") == 3
    assert picture.count("<path") == 3
    assert "cli imports report; report imports theory" in picture
    assert order_layers([("a", "c"), ("b", "c"), ("a", "b")]) == [["a"], ["b"], ["c"]]


def test_nothing_is_loaded_from_elsewhere():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8") + (DOCS / "site.css").read_text(encoding="utf-8")
    assert "  font: false" in text
    assert "://" not in text
    assert "  - offline" in text  # which loads a script from elsewhere, unless there is a polyfill of that name
    assert "    - iframe-worker.js" in text
    assert "://" not in (DOCS / "iframe-worker.js").read_text(encoding="utf-8")


def test_a_worker_answers_in_a_page_that_is_opened_from_a_folder(browser, tmp_path):
    """What the search of the site needs, as Material calls it."""
    (tmp_path / "worker.js").write_text('addEventListener("message", (event) => postMessage(event.data + 1));')
    (tmp_path / "iframe-worker.js").write_bytes((DOCS / "iframe-worker.js").read_bytes())
    page = """<body><p></p><script src="iframe-worker.js"></script><script>
        const worker = new Worker("worker.js");
        worker.addEventListener("message", (event) => { document.querySelector("p").textContent += event.data + " "; });
        worker.postMessage(1); worker.postMessage(2);
    </script></body>"""
    (tmp_path / "page.html").write_text(page)
    tab = browser.new_page()
    tab.goto((tmp_path / "page.html").as_uri())
    tab.get_by_text("2 3").wait_for(timeout=5000)
    tab.close()


def test_every_table_of_results_is_linked():
    page = (DOCS / "experiments.md").read_text(encoding="utf-8")
    tables = {path.relative_to(ROOT).as_posix() for path in (ROOT / "experiments").rglob("*.md")}
    assert tables - set(re.findall(r"\(\.\./(experiments/[\w/.-]+\.md)\)", page)) == set()
