"""A Mermaid flowchart as an SVG picture: layers from the top down, in the colours of the text around it."""

from __future__ import annotations

import re

WIDTH, HEIGHT, GAP_X, GAP_Y = 92, 24, 24, 22


def draw_flowchart(text: str) -> str:
    """The picture of lines `a --> b`, in HTML."""
    edges = re.findall(r"^\s*(\w+) --> (\w+)$", text, re.MULTILINE)
    layers = order_layers(edges)
    widest = max(map(len, layers))
    place = {}
    for row, layer in enumerate(layers):
        left = (widest - len(layer)) * (WIDTH + GAP_X) / 2
        for column, name in enumerate(layer):
            place[name] = (left + column * (WIDTH + GAP_X), row * (HEIGHT + GAP_Y))
    lines = [_line(*place[above], *place[below]) for above, below in edges]
    boxes = [_box(name, *place[name]) for name in place]
    size = f"{widest * (WIDTH + GAP_X):.0f} {len(layers) * (HEIGHT + GAP_Y) - GAP_Y + 4:.0f}"
    words = "; ".join(f"{above} imports {below}" for above, below in edges)
    return (
        f'<svg viewBox="-2 -2 {size}" role="img" style="max-width:{1.3 * widest * (WIDTH + GAP_X):.0f}px;color:inherit" font-size="12" '
        f'text-anchor="middle" fill="none" stroke="currentColor"><title>{words}</title>{"".join(lines + boxes)}</svg>'
    )


def order_layers(edges: list[tuple[str, str]]) -> list[list[str]]:
    """Every name below all that import it; within a layer, near the mean place of those.

    >>> order_layers([("cli", "report"), ("report", "theory"), ("cli", "theory")])
    [['cli'], ['report'], ['theory']]
    """
    names = sorted({name for edge in edges for name in edge})
    above = {name: [first for first, second in edges if second == name] for name in names}
    depth: dict[str, int] = {}

    def find_depth(name: str) -> int:
        if name not in depth:
            depth[name] = max((find_depth(other) + 1 for other in above[name]), default=0)
        return depth[name]

    layers: list[list[str]] = [[] for _ in range(max(map(find_depth, names)) + 1)]
    column: dict[str, float] = {}
    for name in sorted(names, key=lambda name: depth[name]):
        layers[depth[name]].append(name)
    for layer in layers:
        layer.sort(key=lambda name: (sum(column[other] for other in above[name]) / max(len(above[name]), 1), name))
        column |= {name: place - (len(layer) - 1) / 2 for place, name in enumerate(layer)}
    return layers


def _box(name: str, x: float, y: float) -> str:
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="var(--md-default-bg-color, #fff)"/>'
        f'<text x="{x + WIDTH / 2:.0f}" y="{y + 16:.0f}" fill="currentColor" stroke="none">{name}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    start, end = (x1 + WIDTH / 2, y1 + HEIGHT), (x2 + WIDTH / 2, y2)
    middle = (start[1] + end[1]) / 2
    return (
        f'<path opacity=".45" d="M{start[0]:.0f} {start[1]:.0f} C{start[0]:.0f} {middle:.0f} '
        f'{end[0]:.0f} {middle:.0f} {end[0]:.0f} {end[1]:.0f}"/>'
    )
