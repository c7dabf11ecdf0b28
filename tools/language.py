"""Count wordings that make readers stumble, per 1,000 words: python tools/language.py [-v] [PATH ...]

Without paths it reads README.md and the other pages of the root, the pages of docs/, the help of every command, and the
messages, comments and public docstrings in src/. Code, tables of numbers, quoted output and bracketed defaults do not count. `-v` prints every place.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 3.0
"""Places per 1,000 words that are allowed (tests/test_language.py)."""

THINGS = r"(?:tests?|files?|caveats?|signatures?|commands?|pages?|messages?|tables?|scores?|results?|embedders?|intervals?|errors?|columns?)"
PATTERNS = {
    "a clause used as a noun": r"\bwhat (?:is|was) (?:certain|certified|proven|meant|done)\b|\bwhat gives (?:it|them|the model|a system) away\b",
    "that of, those of": r"\b(?:that|those) of\b(?! course)|\btheirs\b",
    "so many, so much": r"\b(?:at most|at least|of|with|from|in|by|for) so (?:many|few|much|large)\b|\bof what\b",
    "inversion": r"(?:^|[.:;] )(?:Beside|Besides|Of [\d,]+|Among|Below|Above)\b[^.;:]{0,60}\b(?:stands?|lies?|lie|was|were)\b",
    "things that speak": rf"\b{THINGS}(?: itself| also)? (?:says?|tells?|sees?|knows?|names)\b",
    "chained thoughts": r"[^.;:|\n]+[;:] [^.;:|\n]+[;:] [^.;:|\n]+",
    "semicolon": r"; (?=(?:it|they|the|this|these|there|a|an|he|all|each|both|no|nothing|its|others)\b)",
    "where it is meant": r"\bwhere \d+ ?% (?:is|are) meant\b",
    "odd words": r"\balso where\b|\brather use\b|\bfor want of\b|\binside of\b|\bbesides\b|\bof (?:no|little) use\b|\bamounts to\b|\bat leisure\b|\b[Tt]old apart\b(?! with| by| from)|\bthe own\b",
    "alone for only": r"\b(?:\w+) alone\b(?! can)",
    "another for different": r"\banother (?:version|processor|machine|number|embedder|model|encoding|field|column|order|size|width|seed|way|kind|one)\b",
    "space before %": r"\d %",
}  # fmt: skip
COMPILED = {name: re.compile(pattern, re.MULTILINE) for name, pattern in PATTERNS.items()}


def prose(markdown: str) -> str:
    """The sentences of a page: no code, no quoted output, no addresses."""
    text = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ {4,}(?![-*\d] ).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"<!--.*?-->|<[^>]+>", "", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    blocks = re.split(r"\n\s*\n|\n(?=[|#]|\s*[-*] |\s*\d+\. )", text)
    cells = [cell for block in blocks for cell in (block.split("|") if block.startswith("|") else [block])]
    return "\n".join(" ".join(cell.split()) for cell in cells if len(cell.split()) > 2)


def messages(source: str) -> str:
    """The strings of a program that are sentences, with CODE for what is filled in; docstrings are left out."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    bare |= {id(node.body[0]) for node in ast.walk(tree) if isinstance(node, documented) and node.body}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {0}
    found = []
    for node in ast.walk(tree):
        if id(node) in bare:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "CODE" for part in node.values]
            found.append("".join(parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            found.append(node.value)
    sentences = [re.sub(r"`[^`]*`", "CODE", " ".join(text.split())) for text in found]
    return "\n".join(text for text in sentences if len(text.split()) > 3 and re.search(r"[a-z]{3,} [a-z]{2,}", text))


def docstrings(source: str) -> str:
    """The prose of the docstrings of public modules, classes and functions: no formulas, no examples."""
    found = []
    documented = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and not node.name.startswith("_"):
            text = ast.get_docstring(node) or ""
            text = re.sub(r"^(?:>>>|\.\.\.) .*$|^[A-Z]\w+\n-+$", "", text, flags=re.MULTILINE)
            blocks = re.split(r"\n\s*\n|\n(?=\S)|(?<=\n)(?=\w[\w, ]* : )", text)
            blocks = [re.sub(r"``.*?``|`[^`]*`", "CODE", " ".join(block.split())) for block in blocks]
            found += [block for block in blocks if re.search(r"[a-z]{3,} [a-z]{2,}", block)]
    return "\n".join(found)


def comments(source: str) -> str:
    """The comments of a program, with the lines of one comment joined; orders to other programs are left out."""
    found: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = re.sub(r"# *(?:noqa|type:|fmt:|pragma).*", "", token.string).lstrip("# ").strip()
        if token.type != tokenize.COMMENT or not text:
            continue
        line, alone = token.start[0], not token.line[: token.start[1]].strip()
        if alone and last == line - 1:
            found[-1] += f" {text}"
        else:
            found.append(text)
        last = line if alone else 0
    # "seconds; chosen: …", "rows; measured: …" give the unit of a number and where it comes from.
    return "\n".join(re.sub(r"`[^`]*`", "CODE", re.sub(r"; (?:chosen|measured|paper):", ",", text)) for text in found)


def places(text: str) -> Iterator[tuple[str, str]]:
    """Pattern and the words around each place."""
    plain = re.sub(r"\([^()]*\)|\[[^][]*\]", "", text)  # a semicolon in brackets divides a list
    plain = re.sub(
        r"^(?:[-*] |\d+\. )?[*“]*[\w ,'-]{1,50}[*”]*: |; got\b", " ", plain, flags=re.MULTILINE
    )  # a label, a value
    for name, pattern in COMPILED.items():
        chained = name in ("chained thoughts", "semicolon")
        for match in pattern.finditer(plain if chained else text):
            around = match.string[max(0, match.start() - 30) : match.end() + 30]
            yield name, around.replace("\n", " ")


@cache
def sources() -> dict[str, dict[str, str]]:
    """Kind → name → text of everything that a person reads."""
    roots = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "paper/paper.md")]
    pages = [*roots, *sorted((ROOT / "docs").rglob("*.md"))]
    help_page = ROOT / "docs" / "commands.md"
    programs = sorted((ROOT / "src").rglob("*.py"))
    return {
        "docs": {str(page.relative_to(ROOT)): prose(page.read_text("utf-8")) for page in pages if page != help_page},
        "help": {"docs/commands.md": re.sub(r"`[^`]*`|--[\w-]+", "CODE", help_page.read_text("utf-8"))},
        "messages": {str(path.relative_to(ROOT)): messages(path.read_text("utf-8")) for path in programs},
        "comments": {str(path.relative_to(ROOT)): comments(path.read_text("utf-8")) for path in programs},
        "docstrings": {str(path.relative_to(ROOT)): docstrings(path.read_text("utf-8")) for path in programs},
    }


def rate(texts: dict[str, str]) -> tuple[float, int]:
    """Places per 1,000 words, and the number of words."""
    words = sum(len(text.split()) for text in texts.values())
    count = sum(1 for text in texts.values() for _ in places(text))
    return 1000 * count / max(words, 1), words


def main(arguments: list[str]) -> None:
    """Print the counts."""
    lines: list[str] = []
    verbose = "-v" in arguments
    wanted = [name for name in arguments if name != "-v"]
    for kind, texts in sources().items():
        chosen = {name: text for name, text in texts.items() if not wanted or any(part in name for part in wanted)}
        if not chosen:
            continue
        per_thousand, words = rate(chosen)
        lines.append(f"{kind}: {per_thousand:.1f} per 1,000 words in {words:,} words")
        counts: dict[str, int] = {}
        for name, text in chosen.items():
            for pattern, around in places(text):
                counts[pattern] = counts.get(pattern, 0) + 1
                if verbose:
                    lines.append(f"  {name}: {pattern}: …{around}…")
        for pattern, count in sorted(counts.items(), key=lambda item: -item[1]):
            lines.append(f"  {count:4d}  {pattern}")
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main(sys.argv[1:])
