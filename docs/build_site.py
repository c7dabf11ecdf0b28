"""What MkDocs does beyond its configuration (mkdocs.yml): pages from other folders, notebooks, the reference, pictures of graphs.

- Pages of the root (CONTRIBUTING.md and others) and of experiments/ join the site, and links between all pages are turned into those
  of the site, so that the same files can be read in the repository.
- Tutorials are notebooks; each becomes a page with the outputs that are stored in it (`docs/tutorials.py` stores them).
- `<!-- names: mallow.human -->` becomes the documentation of every name that the package lists in `__all__`, and `<!-- names: mallow -->`
  that of the names which have no place yet.
- A link that is named by its file, such as [results.md](results.md), is named by the title of that page.
- A Mermaid flowchart becomes an SVG picture, because Material would load Mermaid from elsewhere.
"""

from __future__ import annotations

import importlib
import json
import os
import posixpath
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe._internal.docstrings.numpy as numpydoc
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "src")]  # the pages are about these sources
from graph_picture import draw_flowchart  # noqa: E402
from notebook_page import notebook_markdown  # noqa: E402

# Types in docstrings are words, such as "array (n, d)"; as Python they would be shown as calls and tuples.
numpydoc.parse_docstring_annotation = lambda annotation, *_, **__: annotation  # type: ignore[assignment]

ROOT_PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]+)(#[^)\s]*)?\)")
NAMES = re.compile(r"^<!-- names: (mallow(?:\.\w+)*) -->$", re.MULTILINE)
FLOWCHART = re.compile(r"^```mermaid\n(flowchart TD\n.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of other folders, and one page per notebook."""
    outside = [ROOT / name for name in ROOT_PAGES]
    outside += sorted(path for path in (ROOT / "experiments").rglob("*") if path.suffix in (".md", ".png"))
    for path in outside:
        uri = path.relative_to(ROOT).as_posix()
        inclusion = InclusionLevel.UNDEFINED if uri in pages_in_nav(config) else InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, uri, abs_src_path=str(path), inclusion=inclusion))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        text = notebook_markdown(json.loads(notebook.content_string), posixpath.basename(notebook.src_uri))
        files.append(File.generated(config, notebook.src_uri.removesuffix(".ipynb") + ".md", content=text))
    add_to_nav(files, config)
    return files


def add_to_nav(files: Files, config: MkDocsConfig) -> None:
    """Put pages that mkdocs.yml does not name into a section of their own, so that none is lost."""
    pages = [file.src_uri for file in files.documentation_pages() if file.inclusion != InclusionLevel.NOT_IN_NAV]
    if others := sorted(set(pages) - pages_in_nav(config)):
        config.nav = [*(config.nav or []), {"More": others}]


def pages_in_nav(config: MkDocsConfig) -> set[str]:
    """The pages that mkdocs.yml lists."""
    return set(re.findall(r"[\w./-]+\.md", json.dumps(config.nav)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with links of the site, pictures, and the names of the reference."""
    if page.file.src_uri.startswith("experiments/"):
        page.meta["search"] = {"exclude": True}  # raw tables: linked from the pages that quote them
        page.meta["hide"] = ["navigation", "toc"]  # neither has anything here, and the tables are wide
    if page.file.src_uri == "faq.md":
        page.meta["search"] = {"boost": 2}
    markdown = FLOWCHART.sub(lambda match: draw_flowchart(match[1]), markdown)
    markdown = NAMES.sub(lambda match: names_markdown(match[1]), markdown)
    parts = FENCED.split(markdown)  # code stays as it is
    return "".join(part if part.startswith("```") else rewrite_links(escape_star(part), page, files) for part in parts)


def escape_star(text: str) -> str:
    """The text with the star of MAUVE* escaped, which would begin emphasis, except in code."""
    parts = re.split(r"(`[^`\n]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"(?<![*\\])\bMAUVE\*(?!\*)", r"MAUVE\\*", part) for part in parts
    )


def rewrite_links(text: str, page: Page, files: Files) -> str:
    """The text with links that work in the site; a link to a file that is not part of it becomes plain text."""
    uri = page.file.src_uri
    own = uri if uri in ROOT_PAGES or uri.startswith("experiments/") else f"docs/{uri}"

    def rewrite(match: re.Match[str]) -> str:
        start, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target or target.startswith(("mailto:", "data:")):
            return match[0]
        repository = posixpath.normpath(posixpath.join(posixpath.dirname(own), target))
        inside = "index.md" if repository == "README.md" else repository.removeprefix("docs/")
        if inside.endswith(".ipynb") and not start.startswith("[Download"):
            inside = inside.removesuffix(".ipynb") + ".md"
        if files.get_file_from_path(inside) is None:
            return (
                start.lstrip("!").removeprefix("[").removesuffix("](")
                if os.path.exists(ROOT / repository)
                else match[0]
            )
        if start in (f"[{target}](", f"[{posixpath.basename(target)}]("):  # named by its file: here by its title
            start = f"[{page_title(files, inside) or start[1:-2]}]("
        return f"{start}{posixpath.relpath(inside, posixpath.dirname(uri) or '.')}{anchor})"

    return LINK.sub(rewrite, text)


def page_title(files: Files, uri: str) -> str:
    """The first heading of a page; "" where it has none."""
    file = files.get_file_from_path(uri)
    heading = None if file is None else re.search(r"^# (.+)$", file.content_string, re.MULTILINE)
    return heading[1].replace("`", "") if heading else ""


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The page with a name for the search of Material, which a screen reader calls a dialogue without one."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


def names_markdown(package: str) -> str:
    """One directive of mkdocstrings per public name of a package: functions first, then classes and constants.

    Of `mallow` itself, only names that no page of the reference has yet: none is lost, and each should move to the page where it belongs.
    """
    if package == "mallow":
        others = unplaced_names()
        return "\n\n".join(["## More", *others]) if others else ""
    module: Any = importlib.import_module(package)
    names = sorted(module.__all__, key=lambda name: (not name[0].islower(), name.lower()))
    return "\n\n".join(f"::: {package}.{name}" for name in names)


def unplaced_names() -> list[str]:
    """Directives for the public names and packages of mallow that no page of the reference mentions."""
    import mallow

    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    placed = set(re.findall(r"^(?:::: |<!-- names: )mallow\.(\w+)", pages, re.MULTILINE))
    others = sorted(set(mallow.__all__) - placed)
    packages = [name for name in others if isinstance(getattr(mallow, name), ModuleType)]
    return [names_markdown(f"mallow.{name}") if name in packages else f"::: mallow.{name}" for name in others]
