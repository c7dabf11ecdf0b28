"""The site builds strictly without a network, and its own search finds the answer to every question of the FAQ first."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FAQ = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
QUESTIONS = {  # as people type them: the places that answer
    "why is my score 1.0?": ("faq.html#why-is-my-score-10",),
    "why is the published score high and the bound low?": ("faq.html#why-is-the-published-score-high-and-the-bound-low",),
    "what does at most 0.06 mean?": ("faq.html#what-does-at-most-006-mean",),
    "how many samples do I need?": ("faq.html#how-many-samples-do-i-need", "choosing.html#how-many-samples"),
    "is 0.9 good?": ("faq.html#is-09-good", "explanation/meaning.html#is-09-good"),
    "which embedder should I use?": ("faq.html#which-embedder-should-i-use", "choosing.html#which-embedder"),
    "how do I install it on a GPU machine?": ("faq.html#how-do-i-install-it-on-a-gpu-machine", "install.html"),
    "how do I cite it?": ("faq.html#how-do-i-cite-it", "reproducibility.html#cite"),
    "how fast is it?": ("faq.html#how-fast-is-it", "benchmarks.html"),
    "p-value 1e-16": ("faq.html#why-is-the-p-value-never-1e-16",),
}  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return folder


def test_the_search_finds_the_answer_to_every_question_first(site):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: apt-get install nodejs")
    run = subprocess.run(
        [node, str(ROOT / "tests" / "search_site.js"), str(site)],
        input="\n".join(QUESTIONS),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(run.stdout)
    first = {question: places[0] for question, places in found.items()}
    assert {question: place for question, place in first.items() if place not in QUESTIONS[question]} == {}


def test_raw_tables_are_not_in_the_search(site):
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    pages = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert "faq.html" in pages
    assert [page for page in pages if page.startswith("experiments/")] == []
    assert (site / "experiments" / "honesty" / "decoders.html").exists()


def test_wide_tables_get_the_room_of_the_side_columns(site):
    hidden = {
        name: re.findall(r'md-sidebar--(\w+)"[^>]*\bhidden\b', (site / name).read_text(encoding="utf-8"))
        for name in ("experiments/honesty/decoders.html", "faq.html")
    }
    assert hidden == {"experiments/honesty/decoders.html": ["primary", "secondary"], "faq.html": []}


def test_code_and_stars_are_shown_as_they_are(site):
    """An unescaped `MAUVE*` would turn the text up to the next star italic."""
    for page in site.rglob("*.html"):
        text = re.sub(r"<(pre|code|script|style)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        long = [part for part in re.findall(r"<em>(.*?)</em>", text, flags=re.DOTALL) if len(part) > 400]
        assert long == [], page.name
        assert "MAUVE<em>" not in text, page.name


def test_the_faq_has_ten_questions_and_the_menu_is_short():
    assert len(re.findall(r"^## .*\?$", FAQ, re.MULTILINE)) == len(QUESTIONS) == 10
    pages = re.findall(r"^ +- (.*\.md)$", NAV, re.MULTILINE)
    assert len(pages) <= 35
    assert [page for page in pages if ":" in page] == []  # no title of its own: the menu shows the heading
