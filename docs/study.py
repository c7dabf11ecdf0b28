"""Takes the pictures of docs/study.md from the real page, in Debian's chromium: `python docs/study.py`."""

from __future__ import annotations

import contextlib
import io
import random
import re
import shutil
import sqlite3
import tempfile
import threading
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from mallow import annotate
from mallow.human import AllPairs, QualityChecks, StudyDesign, TextWindow, design_study, write_study
from mallow.samples import Samples

HERE = Path(__file__).resolve().parent
PROMPTS = [
    "The ferry to the island runs twice a day in winter. On the morning of the storm it",
    "My grandmother kept her recipes in a shoe box, in an order that only she understood. When",
    "For most of its history the village had no street names, and nobody missed them until",
    "The museum bought the clock in 1921, together with a letter that says it had never",
    "Nobody in the office knew how to repair the old printer, so every Friday somebody",
    "The first snow fell in October that year, and the children, who had no school that day,",
]
PEOPLE = [
    "did not leave at all. The captain walked along the pier, looked at the sky for a while, and went back to the café, where "
    "the passengers had already ordered a second breakfast.",
    "she died we laid them out on the kitchen table and found that they were sorted by the people she had cooked for, each with "
    "a note of what they had left on the plate.",
    "the new postman arrived. He solved the matter in a week by naming each lane after whatever barked at him there.",
    "been wound. The curators kept to this for sixty years, until a cleaner, who had not read the letter, turned the key.",
    "would write a poem to it and put it into the paper tray. Some of them came out again, printed on both sides.",
    "built a wall across the road, behind which they sold hot tea to the drivers who had to stop.",
]
MACHINE = [
    "was reported that the ferry to the island was running. The ferry runs twice a day and the ferry is a ferry that runs to the "
    "island in the winter, according to a statement of the ferry.",
    "I was a child, I was a child who liked the recipes of my grandmother, and the recipes were the recipes that I liked the "
    "most when I was a child.",
    "the year 2004, when the government of the village announced a new plan for the names of the streets, which were named in "
    "the plan of the government.",
    "been sold before. The clock is one of the most important clocks in the history of clocks, and it is one of the first clocks.",
    "has to be the one to do it. It is a great way to get started, and it is a great way to get started with the printer.",
    "were in the snow. The snow was white and the children were in the snow and it was a good day for the snow.",
]
LARGE = [
    "was cancelled at seven. Most of the passengers waited in the café until noon, and the rest went home and called the office "
    "to ask about the boat on the next day.",
    "she moved to the city she gave the box to my aunt, who kept it in a cupboard and never opened it, because she did not like "
    "to cook.",
    "a tourist asked for the way to the church. The council met in the same week and decided that the main street should have "
    "a name.",
    "been repaired. The museum has kept it in the same room since then, and visitors often ask why it does not show the time.",
    "called the company that had sold it. A man came, looked at the printer for an hour, and said that a new one was cheaper.",
    "went to the hill behind the school with their sledges. In the evening their parents had to call them home for dinner.",
]
WIDTHS = {"pair": 760, "phone": 300, "owner": 760}


def save(name: str, shot: bytes) -> None:
    """A small picture: at most as wide as the page of the documentation, with few colours."""
    with Image.open(io.BytesIO(shot)) as image:
        height = round(image.height * WIDTHS[name] / image.width)
        small = image.convert("RGB").resize((WIDTHS[name], height), Image.Resampling.LANCZOS)
    small.quantize(128).save(HERE / f"study-{name}.png", optimize=True)


def come_in(tab: Page, base: str, name: str) -> None:
    tab.goto(base)
    tab.fill("#name", name)
    tab.click("button")
    tab.click("#start")
    tab.wait_for_url("**/pair/1")


def judge(tab: Page, count: int, rng: random.Random) -> None:
    """People prefer texts of people, most of the time."""
    for _ in range(count):
        if not re.search(r"/pair/\d+$", tab.url):
            return
        left_is_human = tab.locator(".side .text").first.inner_text() in PEOPLE
        for question in range(3):
            sure = rng.random() < 0.8
            key = rng.choice("12") if left_is_human == sure else rng.choice("45")
            tab.keyboard.press(key if question else rng.choice("1245"))
        before = tab.url
        tab.keyboard.press("Enter")
        tab.wait_for_url(lambda url, before=before: url != before and not url.endswith("/"))


def slow_down(database: Path, rng: random.Random) -> None:
    """Give every answer the time that a person takes; here a program answers at once."""
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        for (row,) in connection.execute("SELECT rowid FROM submissions").fetchall():
            connection.execute("UPDATE submissions SET seconds = ? WHERE rowid = ?", (rng.uniform(28.0, 75.0), row))


def main() -> None:
    chromium = shutil.which("chromium")
    samples = {
        name: Samples(texts=texts, prompts=PROMPTS, ids=list("abcdef"))
        for name, texts in (("human", PEOPLE), ("small", MACHINE), ("large", LARGE))
    }
    human = samples.pop("human")
    checks = QualityChecks(gold=3, gold_every=4, repeat_every=7)
    study = design_study(human, samples, StudyDesign(AllPairs(6), TextWindow(10, 60), checks=checks, votes=2))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        path = Path(folder) / "study.json"
        write_study(study, path)
        database = Path(folder) / "votes.db"
        store = annotate.open_study(path, str(database))
        ready, state = threading.Event(), {}

        def on_ready(base: str, _port: int, stop: object) -> None:
            state.update(base=base, stop=stop)
            ready.set()

        settings = annotate.Settings(limits=annotate.Limits(rate=1000.0, burst=1000.0))
        server = threading.Thread(
            target=annotate.serve, args=(store, path, annotate.Address(port=0), settings), kwargs={"ready": on_ready}
        )
        server.start()
        ready.wait(20)
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            tab = browser.new_context(viewport={"width": 1180, "height": 900}).new_page()
            come_in(tab, state["base"], "Ann")
            judge(tab, 2, random.Random(0))
            tab.keyboard.press("1")
            tab.keyboard.press("2")
            time.sleep(0.3)
            save("pair", tab.screenshot(full_page=True))
            phone = browser.new_context(
                viewport={"width": 390, "height": 844}, device_scale_factor=1.5, color_scheme="dark"
            ).new_page()
            come_in(phone, state["base"], "Bob")
            phone.mouse.wheel(0, 480)
            time.sleep(0.3)
            save("phone", phone.screenshot())
            tab.keyboard.press("1")
            tab.keyboard.press("Enter")
            tab.wait_for_url("**/pair/4")
            judge(tab, 9, random.Random(1))
            judge(phone, 14, random.Random(2))
            slow_down(database, random.Random(3))
            owner = browser.new_context(viewport={"width": 1180, "height": 900}).new_page()
            owner.goto(annotate.make_links(store, state["base"]).owner)
            save("owner", owner.screenshot(full_page=True))
        finally:
            browser.close()
            state["stop"]()
            server.join(20)
            store.close()


if __name__ == "__main__":
    main()
