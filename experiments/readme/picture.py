"""Draw docs/decoders.svg, the picture of the README, from experiments/honesty/decoders.json.

    python experiments/readme/picture.py      no time

It is an SVG file with colours for light and dark pages. tests/test_figures.py checks that it shows the committed results.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / "honesty" / "decoders.json"
PICTURE = ROOT / "docs" / "decoders.svg"
DECODERS = {"nucleus": "nucleus", "topk": "top-k", "contrastive": "contrastive search", "greedy": "greedy"}
LEFT, SCALE, ROW = 150, 480, 54  # of the bars, in pixels
STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1f2328}.page{fill:#fff}.published{fill:#8c959f}.bound{fill:#7c3aed}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}.published{fill:#6e7681}.bound{fill:#a78bfa}}"
)


def picture() -> str:
    """The picture as SVG: two bars for each decoder."""
    scores = json.loads(RESULTS.read_text(encoding="utf-8"))["One generation for each prompt"]["scores"]
    height = 64 + ROW * len(DECODERS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" width="720" height="{height}" role="img">',
        "<title>Published MAUVE and the 95% upper bound for four decoders of GPT-2 large</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="720" height="{height}" rx="8"/>',
        *legend(LEFT, "published", "published MAUVE"),
        *legend(LEFT + 190, "bound", "95% upper bound from held-out samples"),
    ]
    for place, (name, shown) in enumerate(DECODERS.items()):
        top = 52 + ROW * place
        published, bound = scores[name]["MAUVE*"], math.ceil(100 * scores[name]["certified"][1]) / 100
        parts.append(f'<text x="{LEFT - 12}" y="{top + 24}" text-anchor="end">{shown}</text>')
        parts += bar(top, "published", published)
        parts += bar(top + 20, "bound", bound)
    return "\n".join([*parts, "</svg>", ""])


def legend(x: int, kind: str, text: str) -> list[str]:
    """A coloured square and its meaning."""
    return [
        f'<rect class="{kind}" x="{x}" y="18" width="14" height="14" rx="3"/>',
        f'<text x="{x + 20}" y="30">{text}</text>',
    ]


def bar(y: int, kind: str, value: float) -> list[str]:
    """A bar from 0, and its value at the end."""
    return [
        f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{SCALE * value:.0f}" height="16" rx="3"/>',
        f'<text x="{LEFT + SCALE * value + 8:.0f}" y="{y + 13}">{value:.2f}</text>',
    ]


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
