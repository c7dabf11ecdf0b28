"""The page in a real browser: a whole study by mouse, by keys, on a phone; two people at once; a restart in between."""

import io
import re
import time

import numpy as np
import pytest

from annotation_page import ARABIC, make_study
from mallow import annotate
from mallow.human import QualityChecks

api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")


@pytest.fixture
def opened(browser):
    """A tab of a new person, and what the browser complains about or asks for."""
    contexts = []

    def open_tab(**options):
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(30_000)
        tab = context.new_page()
        tab.said, tab.asked = [], []
        tab.on("console", lambda message: tab.said.append(message.text))
        tab.on("pageerror", lambda error: tab.said.append(str(error)))
        tab.on("request", lambda request: tab.asked.append(request.url))
        return tab

    yield open_tab
    for context in contexts:
        context.close()


def come_in(tab, base, name="Ann"):
    tab.goto(base)
    tab.get_by_label("Your name").fill(name)
    tab.get_by_role("button", name="Continue").click()
    tab.get_by_role("button", name="Start").click()
    tab.wait_for_url("**/pair/1")


def sensible(served):
    return [vote.answer for vote in annotate.export_votes(served.store) if vote.question == "sensible"]


def test_a_whole_study_by_mouse(serve, study_file, opened):
    served = serve(study_file(per_pair=3, systems=1, checks=QualityChecks(1, 2, 0)))
    tab = opened()
    come_in(tab, served.base)
    for place in range(1, 5):
        tab.wait_for_url(f"**/pair/{place}")
        groups = tab.locator("#answers").get_by_role("group")
        assert groups.count() == 3  # fieldsets, by the name of their question
        for number, label in enumerate(["Definitely A", "Tie", "Slightly B"]):
            groups.nth(number).get_by_role("radio", name=label).check()
        tab.get_by_role("button", name="Save and continue").click()
    api.expect(tab.get_by_role("heading", name="Thank you!")).to_be_visible()
    assert re.fullmatch("[A-Z2-9]{10}", tab.locator("#code").inner_text())
    votes = annotate.export_votes(served.store)
    assert [vote.answer for vote in votes] == [-2, 0, 1] * 4
    assert {vote.kind for vote in votes} == {"task", "gold"}
    assert tab.said == []  # also: no policy was broken, no script of a text ran
    assert all(url.startswith(served.base) for url in tab.asked)
    assert tab.title() == "Thank you"


def test_a_whole_study_by_keys(serve, study_file, opened):
    served = serve(study_file(per_pair=3, systems=1))
    tab = opened()
    come_in(tab, served.base)
    press = tab.keyboard.press
    for key in ("1", "5", "3", "Enter"):
        press(key)
    tab.wait_for_url("**/pair/2")
    press("b")  # back to the first pair, and another answer to its second question
    tab.wait_for_url("**/pair/1")
    assert tab.locator("input:checked").evaluate_all("(all) => all.map((each) => each.value)") == ["-2", "2", "0"]
    for key in ("ArrowUp", "4", "Enter"):
        press(key)
    tab.wait_for_url("**/pair/2")
    press("2")
    press("Enter")  # two questions are open: the browser says so and nothing is sent
    assert tab.evaluate("document.querySelector('form').checkValidity()") is False
    assert tab.url.endswith("/pair/2")
    tab.locator("legend").first.click()
    for key in ("2", "2", "2", "Enter"):
        press(key)
    tab.wait_for_url("**/pair/3")
    tab.keyboard.press("Tab")  # the usual keys work as well
    tab.locator("input").nth(3).focus()
    for name in ("q0", "q1", "q2"):
        tab.locator(f"input[name={name}]").first.focus()
        press("Space")
        press("ArrowRight")
    press("Enter")
    tab.wait_for_url("**/done")
    assert sensible(served) == [1, -1, -1]
    assert tab.said == []


def test_a_whole_study_on_a_phone(serve, study_file, opened):
    served = serve(study_file(per_pair=2, systems=1))
    tab = opened(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    tab.goto(served.base)
    assert tab.evaluate("document.documentElement.scrollWidth") == 360
    come_in(tab, served.base)
    for place in range(1, 3):
        tab.wait_for_url(f"**/pair/{place}")
        assert tab.evaluate("document.documentElement.scrollWidth") == 360
        first, second = (tab.locator(".side").nth(number).bounding_box() for number in (0, 1))
        assert second["y"] >= first["y"] + first["height"]  # one below the other
        option = tab.locator(".options span").first.bounding_box()
        assert option["height"] >= 40  # large enough for a finger
        for number in range(3):
            tab.get_by_role("group").nth(number).get_by_role("radio", name="Slightly A").tap()
        tab.get_by_role("button", name="Save and continue").tap()
    tab.wait_for_url("**/done")
    assert sensible(served) == [-1, -1]


def test_on_a_large_screen_texts_stand_side_by_side(serve, study_file, opened):
    served = serve(study_file())
    tab = opened(viewport={"width": 1280, "height": 900})
    come_in(tab, served.base)
    first, second = (tab.locator(".side").nth(number).bounding_box() for number in (0, 1))
    assert first["y"] == second["y"]
    assert second["x"] >= first["x"] + first["width"]
    size = tab.locator(".side .text").first.evaluate("(text) => parseFloat(getComputedStyle(text).fontSize)")
    assert size >= 18


def test_two_people_at_once_and_a_restart_in_between(serve, study_file, opened):
    path = study_file(per_pair=5, systems=1)
    served = serve(path)
    tabs = [opened(), opened()]
    for tab, name in zip(tabs, ("Ann", "Bob"), strict=True):
        come_in(tab, served.base, name)
    texts = [tab.locator(".side .text").first.inner_text() for tab in tabs]
    prompts = [tab.locator(".context .text").inner_text() for tab in tabs]
    assert (texts[0], prompts[0]) != (texts[1], prompts[1])  # never the same pair
    for key in ("5", "5", "5", "Enter"):
        tabs[0].keyboard.press(key)
    tabs[0].wait_for_url("**/pair/2")
    port = served.port
    served.stop()
    served = serve(path, port=port)
    for tab, place in zip(tabs, (3, 2), strict=True):  # the pages that were open go on
        for key in ("1", "1", "1", "Enter"):
            tab.keyboard.press(key)
        tab.wait_for_url(f"**/pair/{place}")
    for key in ("1", "1", "1", "Enter"):
        tabs[0].keyboard.press(key)
    tabs[0].wait_for_url("**/done")
    assert "with other people at the moment" in tabs[0].inner_text("main")
    for key in ("1", "1", "1", "Enter"):
        tabs[1].keyboard.press(key)
    tabs[1].wait_for_url("**/done")
    assert sorted(sensible(served)) == [-2, -2, -2, -2, 2]


def test_a_pair_is_skipped_with_a_reason(serve, study_file, opened):
    served = serve(study_file(per_pair=2, systems=1))
    tab = opened()
    come_in(tab, served.base)
    tab.get_by_text("Skip this pair").click()
    tab.get_by_label("I do not understand the language").check()
    tab.get_by_label("Anything to add?").fill("12345 b")  # keys of the page do not disturb
    assert tab.locator("#answers input:checked").count() == 0
    tab.get_by_role("button", name="Skip the pair").click()
    tab.wait_for_url("**/pair/2")
    states = [(row["state"], row["reason"]) for row in served.store.dump()["assignments"]]
    assert states == [("skipped", "I do not understand the language: 12345 b"), ("open", None)]


def test_it_works_without_scripts(serve, study_file, opened):
    served = serve(study_file(per_pair=1, systems=1))
    tab = opened(java_script_enabled=False)
    come_in(tab, served.base)
    assert not tab.locator(".keys").is_visible()
    for number in range(3):
        tab.get_by_role("group").nth(number).get_by_role("radio", name="Definitely B").click()
    tab.get_by_role("button", name="Save and continue").click()
    tab.wait_for_url("**/done")
    assert sensible(served) == [2]


def test_time_is_counted_while_the_page_is_visible(serve, study_file, opened):
    served = serve(study_file(per_pair=1, systems=1))
    tab = opened()
    begin = time.monotonic()
    come_in(tab, served.base)
    tab.evaluate(
        """() => {
            Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "hidden" });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    tab.wait_for_timeout(1500)
    tab.evaluate(
        """() => {
            Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "visible" });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    tab.wait_for_timeout(300)
    for key in ("5", "5", "5", "Enter"):
        tab.keyboard.press(key)
    tab.wait_for_url("**/done")
    (seconds,) = {vote.seconds for vote in annotate.export_votes(served.store)}
    assert 0.3 <= seconds <= time.monotonic() - begin - 1.5


def test_texts_from_right_to_left(serve, study_file, opened):
    served = serve(study_file(make_study(per_pair=20, systems=1)))
    tab = opened()
    come_in(tab, served.base)
    tab.evaluate(
        """(text) => { for (const each of document.querySelectorAll(".side .text")) each.textContent = text; }""",
        ARABIC,
    )
    directions = tab.locator(".side .text").evaluate_all("(all) => all.map((each) => getComputedStyle(each).direction)")
    assert directions == ["rtl", "rtl"]
    assert tab.locator(".context .text").evaluate("(each) => getComputedStyle(each).direction") == "ltr"


def test_a_screen_reader_finds_its_way(serve, study_file, opened):
    served = serve(study_file())
    tab = opened()
    come_in(tab, served.base)
    assert tab.locator("html").get_attribute("lang") == "en"
    assert tab.get_by_role("main").count() == 1
    assert tab.get_by_role("heading", level=1).inner_text() == "Pair 1"
    for name in ("Context", "Continuation A", "Continuation B"):
        assert tab.get_by_role("region", name=name).count() == 1
    assert tab.get_by_role("progressbar", name="Judged: 0 of 12").count() == 1
    group = tab.get_by_role("group", name="Which continuation makes more sense, given the context?")
    labels = ["Definitely A", "Slightly A", "Tie", "Slightly B", "Definitely B"]
    assert [group.get_by_role("radio", name=label, exact=True).count() for label in labels] == [1] * 5
    ids = tab.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(set(ids)) == len(ids)


def contrast(tab, selector):
    """The contrast of a text with what is behind it, as the guidelines for accessibility compute it."""
    front, back = tab.locator(selector).first.evaluate(
        """(each) => {
            const colour = getComputedStyle(each).color;
            let node = each;
            while (getComputedStyle(node).backgroundColor === "rgba(0, 0, 0, 0)") node = node.parentElement;
            return [colour, getComputedStyle(node).backgroundColor];
        }"""
    )

    def luminance(colour):
        parts = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255
        linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    high, low = sorted((luminance(front), luminance(back)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_light_and_dark(serve, study_file, opened, scheme):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    served = serve(study_file())
    tab = opened(color_scheme=scheme)
    come_in(tab, served.base)
    tab.keyboard.press("1")
    tab.wait_for_timeout(200)
    for selector in (
        ".side .text",
        ".side h2",
        "legend",
        ".options span",
        "input:checked + span",
        ".main",
        ".top label",
        ".skip summary",
    ):
        assert contrast(tab, selector) >= 4.5, selector
    with image.open(io.BytesIO(tab.screenshot())) as shot:
        brightness = np.median(np.asarray(shot.convert("L"), dtype=float))
    assert brightness > 230 if scheme == "light" else brightness < 50


def test_the_owner_closes_the_study_and_exports(serve, study_file, opened):
    served = serve(study_file(per_pair=2, systems=1))
    tab = opened()
    come_in(tab, served.base)
    for key in ("5", "5", "5", "Enter"):
        tab.keyboard.press(key)
    tab.wait_for_url("**/pair/2")
    owner = opened()
    owner.goto(served.base + served.owner_path)
    assert owner.url == f"{served.base}/owner"
    assert "1 of 2 votes (50%)" in owner.inner_text("main")
    with owner.expect_download() as started:
        owner.get_by_role("link", name="Export votes.jsonl").click()
    assert started.value.path().read_text().count("\n") == 3
    owner.get_by_role("button", name="Close the study").click()
    api.expect(owner.get_by_text("The study is closed")).to_be_visible()
    assert owner.said == []
    for key in ("5", "5", "5", "Enter"):
        tab.keyboard.press(key)
    tab.wait_for_url("**/done")
    assert "The study is closed" in tab.inner_text("main")
