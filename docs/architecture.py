"""Draws the imports between packages into docs/architecture.md, from the code: `python docs/architecture.py`.

A test keeps the picture equal to what this prints.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "mallow"
PAGE = ROOT / "docs" / "architecture.md"
BLOCK = re.compile(r"(?<=<!-- imports -->\n```mermaid\n).*?(?=```\n<!-- end of imports -->)", re.DOTALL)

# Small modules of the root that everything uses would only add lines to the picture.
LEFT_OUT = {
    "",
    "__main__",
    "_checks",
    "_files",
    "_optional",
    "_plugins",
    "errors",
    "smoothing",
}


def imports() -> dict[str, set[str]]:
    """Package → the packages that it imports, anywhere in its modules."""
    graph: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        package = "" if package == "__init__" else package
        targets = graph.setdefault(package, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module == "mallow":
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mallow."):
                names = [(node.module or "").split(".")[1]]
            targets.update(name for name in names if name != package)
    kept = {name for name in graph if name not in LEFT_OUT}
    return {name: targets & kept for name, targets in graph.items() if name in kept}


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Without imports that a longer way implies."""

    def reach(name: str) -> set[str]:
        return set().union(*({target} | reach(target) for target in graph[name])) if graph[name] else set()

    return {
        name: {target for target in targets if all(target not in reach(other) for other in targets - {target})}
        for name, targets in graph.items()
    }


def picture() -> str:
    """The graph as a Mermaid flowchart, from the command line down."""
    lines = ["flowchart TD"]
    for name, targets in sorted(reduced(imports()).items()):
        lines += [f"    {name} --> {target}" for target in sorted(targets)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda _: picture(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
