"""Take the pictures of a report in docs/read-your-result.md from a real report, in chromium: `python docs/report_pictures.py`.

Three n-gram decoders continue passages of Python's documentation, as in `mallow demo`, and votes of a small simulated study
stand beside them. It takes a minute or two. With the path of axe-core's `axe.min.js` (from npm) as an argument, the page is
also checked for accessibility in light, in dark and on a phone, and the findings are printed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from mallow import EstimateWarning, demo, human, report

FOLDER = Path(__file__).parent / "how-to"
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
SYSTEMS = ("5-grams", "nucleus 5-grams", "greedy 5-grams")
VIEWS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1000, "height": 1060}},
    "dark": {"viewport": {"width": 1000, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
}


def write_report(path: Path) -> None:
    """The report of three systems."""
    reference, _, train = demo.passages(0)
    texts = demo.write_with_models(reference, train, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # shown in the report
        compared = report.compare_and_diagnose(reference, {name: texts[name] for name in SYSTEMS}, rng=0)
    comparison, diagnoses = compared
    votes = np.array([[0, 22, 14], [38, 0, 25], [46, 35, 0]])
    ranking = human.bradley_terry(votes, names=list(SYSTEMS))
    title = "Three n-gram decoders against Python's documentation"
    report.write(path, comparison, diagnoses=diagnoses, ranking=ranking, title=title)


def take_pictures(page: Path) -> None:
    """The verdict and the table, the frontiers, a cluster in dark colours, a phone, and all sheets of paper."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        wide = browser.new_page(**VIEWS["light"])
        wide.goto(page.as_uri())
        wide.screenshot(path=FOLDER / "report-verdict.png", clip={"x": 0, "y": 0, "width": 1000, "height": 1060})
        wide.evaluate("document.getElementById('frontiers').scrollIntoView()")
        wide.get_by_role("radio", name="As in papers").check()
        wide.locator("#published-curves .around").first.hover()
        wide.screenshot(path=FOLDER / "report-frontiers.png", clip={"x": 0, "y": 0, "width": 1000, "height": 780})
        dark = browser.new_page(**VIEWS["dark"])
        dark.goto(page.as_uri())
        dark.locator("details.region[open]").first.screenshot(path=FOLDER / "report-cluster.png")
        phone = browser.new_page(**VIEWS["phone"])
        phone.goto(page.as_uri())
        phone.evaluate("document.getElementById('ranking').scrollIntoView()")
        phone.screenshot(path=FOLDER / "report-phone.png")
        wide.pdf(path=page.with_suffix(".pdf"), format="A4")
        browser.close()
    draw_sheets(page.with_suffix(".pdf"))
    for path in FOLDER.glob("report-*.png"):  # a third of the size, and no difference to see
        with Image.open(path) as picture:
            small = picture.convert("RGB").quantize(64)
        small.save(path, optimize=True)


def draw_sheets(pdf: Path) -> None:
    """All sheets in one picture, by Debian's poppler-utils; the picture stays as it is where that is missing."""
    if shutil.which("pdftoppm") is None:
        print("report-print.png: not taken, since pdftoppm is missing: apt-get install poppler-utils")
        return
    subprocess.run(["pdftoppm", "-r", "45", "-png", pdf, pdf.with_suffix("")], check=True)
    sheets = [Image.open(path) for path in sorted(pdf.parent.glob(f"{pdf.stem}-*.png"))]
    print(f"printed on {len(sheets)} sheets of A4")
    width, height = sheets[0].size
    columns = -(-len(sheets) // 2)
    whole = Image.new("RGB", ((width + 6) * columns, (height + 6) * 2), "#999")
    for place, sheet in enumerate(sheets):
        whole.paste(sheet, ((place % columns) * (width + 6) + 3, place // columns * (height + 6) + 3))
    whole.save(FOLDER / "report-print.png")


def check_accessibility(page: Path, axe: str) -> None:
    """Print what axe-core finds in every view; it is run inside of the page, without a network."""
    source = Path(axe).read_text(encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, options in VIEWS.items():
            tab = browser.new_page(**options)
            tab.goto(page.as_uri())
            tab.evaluate(f"{source}; 0")
            found = tab.evaluate("axe.run(document)")["violations"]
            print(f"{name}: {len(found)} violations", *(f"{one['id']}: {len(one['nodes'])}" for one in found))
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        write_report(page)
        take_pictures(page)
        for axe in sys.argv[1:]:
            check_accessibility(page, axe)
