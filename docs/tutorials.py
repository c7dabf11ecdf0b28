"""Run the notebooks in docs/tutorials and store what they show: `python docs/tutorials.py`.

Jupyter is not needed: cells are plain Python, run one after the other in one namespace and in an empty folder, and what a cell prints,
the value of its last line and its figures are stored as Jupyter would store them.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("tutorials")


def run_notebook(path: Path) -> dict[str, Any]:
    """The notebook with the outputs of a fresh run."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    with _empty_folder(), _figures_in_memory():
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                cell["execution_count"] = count
                cell["outputs"] = run_cell("".join(cell["source"]), names, count)
    return notebook


def run_cell(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """What a cell prints, then its figures or the value of its last line."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"<cell {count}>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"<cell {count}>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    figures = [_picture(figure) for figure in _open_figures()]
    if value is not None and not figures:
        data = {"text/plain": _lines(repr(value) if not hasattr(value, "_repr_html_") else str(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = _lines(value._repr_html_())
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs + figures


def plain_outputs(notebook: dict[str, Any]) -> list[str]:
    """The text of every output but pictures, one string per output."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    texts = [output["text"] if "text" in output else output["data"]["text/plain"] for output in outputs]
    return ["".join(text) for text in texts if not text[0].startswith("<Figure")]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _picture(figure: Any) -> dict[str, Any]:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=80, metadata={"Software": None})
    data = {"image/png": base64.b64encode(stream.getvalue()).decode(), "text/plain": [repr(figure)]}
    return {"data": data, "metadata": {}, "output_type": "display_data"}


def _open_figures() -> Iterator[Any]:
    import matplotlib.pyplot as plt

    for number in plt.get_fignums():
        yield plt.figure(number)
        plt.close(number)


@contextlib.contextmanager
def _figures_in_memory() -> Iterator[None]:
    import matplotlib.pyplot as plt

    before = plt.get_backend()
    plt.switch_backend("agg")
    yield
    plt.switch_backend(before)


@contextlib.contextmanager
def _empty_folder() -> Iterator[None]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        path.write_text(json.dumps(run_notebook(path), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
