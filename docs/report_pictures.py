"""Take the pictures of docs/how-to/report.md from a real report, in chromium: `python docs/report_pictures.py`.

Three n-gram decoders continue passages of Python's documentation, as in `mallow demo`. It takes about a minute.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from mallow import EstimateWarning, demo, report

FOLDER = Path(__file__).parent / "how-to"
CHROMIUM = "/usr/bin/chromium"
SYSTEMS = ("5-grams", "nucleus 5-grams", "greedy 5-grams")


def write_report(path: Path) -> None:
    """The report of three systems."""
    reference, _, train = demo.passages(0)
    texts = demo.write_with_models(reference, train, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimateWarning)  # shown in the report
        compared = report.compare_and_diagnose(reference, {name: texts[name] for name in SYSTEMS}, rng=0)
    comparison, diagnoses = compared
    report.write(path, comparison, diagnoses=diagnoses, title="Three n-gram decoders against Python's documentation")


def take_pictures(page: Path) -> None:
    """The frontiers on a screen, a cluster in dark colours, and the table on a phone."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        wide = browser.new_page(viewport={"width": 960, "height": 620})
        wide.goto(page.as_uri())
        wide.evaluate("document.getElementById('frontiers').scrollIntoView()")
        wide.screenshot(path=FOLDER / "report-frontiers.png", clip={"x": 0, "y": 0, "width": 960, "height": 470})
        dark = browser.new_page(viewport={"width": 960, "height": 700}, color_scheme="dark")
        dark.goto(page.as_uri())
        dark.click("#toggle")
        dark.locator("details.region[open]").first.screenshot(path=FOLDER / "report-cluster.png")
        phone = browser.new_page(viewport={"width": 390, "height": 844})
        phone.goto(page.as_uri())
        phone.evaluate("document.getElementById('ranking').scrollIntoView()")
        phone.screenshot(path=FOLDER / "report-phone.png")
        browser.close()
    for path in FOLDER.glob("report-*.png"):  # a third of the size, and no difference to see
        with Image.open(path) as picture:
            small = picture.convert("RGB").quantize(64)
        small.save(path, optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        write_report(page)
        take_pictures(page)
