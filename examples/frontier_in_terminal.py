"""The divergence frontier between two texts that every Python carries, drawn in the terminal.

The reference is the language reference behind `help()`; the docstrings of the standard library stand in for
a model's text. Each text becomes a histogram of its words. The other half of the reference itself shows what
the same numbers look like when there is no gap.
"""

import ast
import os
import re
import sys
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

from mallow import Masses, area, frontier, integral, midpoint
from mallow.theory.smoothing import krichevsky_trofimov

SCALE = 5  # the constant c in the coordinates exp(-c KL)
BINS = 1000  # the commonest words; one more bin holds all others


def words(text):
    return re.findall(r"[a-z]+", text.lower())


def language_reference():
    """Two halves of the reference, dealt out by paragraph."""
    paragraphs = [each for name in sorted(topics) for each in topics[name].split("\n\n")]
    return words("\n".join(paragraphs[::2])), words("\n".join(paragraphs[1::2]))


def docstrings():
    """All docstrings in the top-level modules of the standard library."""
    found = []
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        nodes = (each for each in ast.walk(tree) if isinstance(each, (ast.Module, ast.ClassDef, ast.FunctionDef)))
        found += [ast.get_docstring(each) or "" for each in nodes]
    return words("\n".join(found))


def histogram(text, vocabulary):
    counts = Counter(text)
    known = [counts[word] for word in vocabulary]
    return krichevsky_trofimov(np.array([*known, len(text) - sum(known)]))


def drawing(curves, width=64, height=18):
    """Curves through points (x, y) of the unit square, as lines of text: 2 by 4 dots to a character."""
    dots = np.zeros((4 * height, 2 * width), dtype=bool)
    for x, y in curves:
        along = np.linspace(0, len(x) - 1, 200 * len(x))
        column = np.interp(along, np.arange(len(x)), x) * (2 * width - 1)
        row = (1 - np.interp(along, np.arange(len(y)), y)) * (4 * height - 1)
        dots[np.rint(row).astype(int), np.rint(column).astype(int)] = True
    bits = np.array([[1, 8], [2, 16], [4, 32], [64, 128]])[None, :, None, :]  # Unicode's order of Braille dots
    cells = (dots.reshape(height, 4, width, 2) * bits).sum(axis=(1, 3))
    try:
        chr(0x28FF).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return ["".join("*" if cell else " " for cell in line) for line in cells]
    return ["".join(chr(0x2800 + cell) if cell else " " for cell in line) for line in cells]


def curve(masses):
    """The points (exp(-c KL(P|R)), exp(-c KL(Q|R))) as R moves from Q to P, closed towards both axes."""
    found = frontier(masses, grid=200)
    x, y = np.exp(-SCALE * found.p_to_mix), np.exp(-SCALE * found.q_to_mix)
    return np.array([0, *x, 1]), np.array([1, *y, 0])


def main():
    half, other_half = language_reference()
    library = docstrings()
    common = Counter(half + other_half + library).most_common(BINS)
    vocabulary = [word for word, _ in common]
    reference = histogram(half, vocabulary)
    same = Masses.from_histograms(reference, histogram(other_half, vocabulary))
    different = Masses.from_histograms(reference, histogram(library, vocabulary))

    print(f"""\
P  one half of Python's language reference     {len(half):8,} words
Q  its other half (outer curve)                {len(other_half):8,} words
   or the library's docstrings (inner curve)   {len(library):8,} words

Each text is a histogram of the {BINS:,} commonest words. Along a curve, the
mixture R goes from Q (upper left) to P (lower right). A curve near the upper
right corner means that P and Q are close.

exp(-{SCALE} KL(Q|R)): low where Q has what R lacks""")
    for number, line in enumerate(drawing([curve(same), curve(different)])):
        print("1 |" if number == 0 else "  |", line.rstrip(), sep="")
    print("0 +" + "-" * 63 + "1")
    print(f"exp(-{SCALE} KL(P|R)): low where P has what R lacks".rjust(67))

    print(f"\n{'':26}other half  docstrings")
    rows = [
        (f"area (MAUVE, c = {SCALE})", lambda masses: area(masses, scale=SCALE)),
        ("frontier integral", integral),
        ("mid-point", midpoint),
    ]
    for name, summary in rows:
        print(f"{name:26}{summary(same):10.4f}{summary(different):12.4f}")
    print("""
The area under the curve is 1 if P = Q and falls towards 0 as they part.
The frontier integral adds up the costs along the curve: 0 if P = Q, at most 1.
The mid-point is the cost of the even mixture, also known as the Jensen-Shannon
divergence: 0 if P = Q, at most log 2 = 0.6931.""")


if __name__ == "__main__":
    main()
