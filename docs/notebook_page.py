"""A notebook as a page in Markdown, with the outputs that are stored in it."""

from __future__ import annotations

import html
import re
from typing import Any


def notebook_markdown(notebook: dict[str, Any], name: str) -> str:
    """The cells of a notebook, one after the other, and a link to the file after the title."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts.append(f"```python\n{source}\n```")
            parts += [output_markdown(output) for output in cell["outputs"]]
        if len(parts) == 1:
            parts.append(f"[Download this page as a notebook]({name})")
    return "\n\n".join(parts) + "\n"


def output_markdown(output: dict[str, Any]) -> str:
    """One output: a picture, a table in HTML, or text."""
    if output["output_type"] == "stream":
        return block(f"```text\n{''.join(output['text']).rstrip()}\n```")
    data = output["data"]
    if "image/png" in data:
        picture = "".join(data["image/png"]).strip()
        text = html.escape(" ".join("".join(data["text/plain"]).split()))
        return f'<div class="notebook-output"><img alt="{text}" src="data:image/png;base64,{picture}"></div>'
    if "text/html" in data:
        # A blank line would end the HTML for Markdown.
        page = re.sub(r"\n\s*\n", "\n", "".join(data["text/html"]).strip())
        return f'<div class="notebook-output">{page}</div>'
    return block(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")


def block(text: str) -> str:
    """Markdown inside the frame of an output."""
    return f'<div class="notebook-output" markdown="1">\n\n{text}\n\n</div>'
