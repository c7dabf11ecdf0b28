"""The page in a real browser, from disk and without a network."""

import io
import re

import numpy as np
import pytest

api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")


@pytest.fixture
def opened(browser, page_file):
    """The page opened with some options, and what the browser complains about or asks for."""
    contexts = []

    def open_page(**options):
        context = browser.new_context(**options)
        contexts.append(context)
        tab = context.new_page()
        said, asked = [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(page_file.as_uri())
        return tab, said, asked

    yield open_page
    for context in contexts:
        context.close()


def column(tab, place, heading):
    """The texts of a column of the table at a place, from top to bottom."""
    return (
        tab.locator("table.sortable")
        .nth(place)
        .evaluate(
            """(table, heading) => {
            const column = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent.trim() === heading);
            return [...table.tBodies[0].rows].map((row) => row.cells[column].textContent.trim());
        }""",
            heading,
        )
    )


def test_it_opens_without_a_complaint_and_asks_for_nothing(opened, page_file):
    tab, said, asked = opened()
    assert tab.title() == "3 systems against the reference"
    tab.click("#toggle")
    assert tab.get_by_text("document.title = 'owned'").count() >= 1
    assert tab.get_by_text("document.title = 'owned'").first.is_visible()
    assert tab.title() == "3 systems against the reference"
    assert said == []
    assert asked == [page_file.as_uri()]


def test_the_policy_stops_what_is_not_ours(opened):
    tab, said, _ = opened()
    tab.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "document.title = 'owned'";
            document.body.append(script);
        }"""
    )
    assert tab.title() == "3 systems against the reference"
    assert any("Content Security Policy" in each for each in said)


def test_tables_sort_by_click_and_by_key(opened):
    tab, said, _ = opened()
    before = [float(each) for each in column(tab, 0, "Certified")]
    assert before == sorted(before, reverse=True)
    heading = tab.locator("table.sortable").first.get_by_role("button", name="Certified")
    heading.click()
    assert [float(each) for each in column(tab, 0, "Certified")] == sorted(before)
    assert tab.locator("[aria-sort=ascending]").inner_text().startswith("Certified")
    heading.press("Enter")
    assert [float(each) for each in column(tab, 0, "Certified")] == before
    assert tab.locator("[aria-sort=descending]").count() == 1
    tab.locator("table.sortable").first.get_by_role("button", name="System").click()
    assert column(tab, 0, "System") == ["far <b>", "near", "twin"]
    assert tab.locator("[aria-sort]").count() == 1
    tab.locator("table.sortable").nth(1).get_by_role("button", name="Difference").click()
    found = [float(each.replace("−", "-")) for each in column(tab, 1, "Difference")]
    assert found == sorted(found)
    assert said == []


def test_details_open_and_close(opened):
    tab, _, _ = opened()
    button, systems = tab.locator("#toggle"), tab.locator("details.system")
    states = lambda: systems.evaluate_all("(all) => all.map((each) => each.open)")  # noqa: E731
    assert states() == [False, False]
    assert button.inner_text() == "Expand all"
    button.click()
    assert states() == [True, True]
    assert button.inner_text() == "Collapse all"
    systems.first.locator("summary").first.click()
    assert states() == [False, True]
    api.expect(button).to_have_text("Expand all")
    button.click()
    button.click()
    assert states() == [False, False]


def picture(tab):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
    with image.open(io.BytesIO(tab.screenshot())) as shot:
        return np.asarray(shot.convert("L"), dtype=float)


def test_it_is_drawn_in_light_and_in_dark(opened):
    light, dark = (picture(opened(color_scheme=scheme)[0]) for scheme in ("light", "dark"))
    assert light.std() > 15
    assert dark.std() > 15
    assert np.median(light) > 240
    assert np.median(dark) < 40


def test_drawings_have_ink(opened):
    tab, _, _ = opened()
    for name in (".chart > svg", ".square"):
        drawn = tab.locator(name).first
        drawn.scroll_into_view_if_needed()
        image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
        with image.open(io.BytesIO(drawn.screenshot())) as shot:
            colours = np.asarray(shot.convert("RGB"), dtype=int).reshape(-1, 3)
        accent = np.abs(colours - [0x7B, 0x3F, 0x98]).sum(axis=1) < 30
        assert accent.sum() > 50, name


def test_it_fits_a_telephone(opened):
    tab, _, _ = opened(viewport={"width": 360, "height": 740})
    tab.click("#toggle")
    assert tab.evaluate("document.documentElement.scrollWidth") == 360
    # Nothing has to be scrolled inside the page: every column is in sight, and no text is cut.
    hidden = """() => [...document.querySelectorAll("main *")].filter((each) => {
        const style = getComputedStyle(each);
        return (style.overflowX === "auto" && each.scrollWidth > each.clientWidth + 1)
            || (style.overflowY === "auto" && each.scrollHeight > each.clientHeight + 1);
    }).map((each) => each.className)"""
    assert tab.evaluate(hidden) == []
    cell = tab.locator("table.sortable tbody td.n").first
    label = cell.evaluate("(cell) => getComputedStyle(cell, '::before').content")
    assert label == '"Certified"'


def test_methods_and_references_can_be_copied(opened):
    tab, said, _ = opened(permissions=["clipboard-read", "clipboard-write"])
    tab.get_by_role("button", name="Copy the references").click()
    tab.get_by_role("button", name="Copied").wait_for()
    assert tab.evaluate("navigator.clipboard.readText()").startswith("@article{pillutla2023mauve")
    tab.get_by_role("button", name="Copy the paragraph").click()
    tab.get_by_role("button", name="Copied").nth(1).wait_for()
    paragraph = tab.evaluate("navigator.clipboard.readText()")
    assert paragraph.startswith("Scores were computed with mallow")
    assert "\n" not in paragraph
    assert said == []


def test_only_clusters_beyond_chance_are_open_and_printed(opened, diagnosed):
    tab, _, _ = opened()
    tab.click("#toggle")
    regions = [region for one in diagnosed.values() for region in (*one.missed, *one.invented)]
    beyond = sum(region.significant for region in regions)
    assert 0 < beyond < len(regions)
    assert tab.locator("details.region[open]").count() == beyond
    tab.emulate_media(media="print")
    assert not tab.locator("details.chance").first.is_visible()


def test_all_systems_are_named_at_their_curves(opened, compared):
    tab, _, _ = opened()
    assert tab.locator("svg.overview").count() == 2
    for drawing in tab.locator("svg.overview").all():
        assert sorted(drawing.locator(".label").all_text_contents()) == sorted(compared.scores)
        boxes = drawing.locator(".label").evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().top)")
        gaps = np.diff(sorted(boxes))
        assert gaps.min() > 10  # names do not cover each other


def test_all_of_it_is_printed(opened):
    tab, _, _ = opened()
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("details:not([open]):not(.chance)").count() == 0
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("details.system[open]").count() == 0
    folded = tab.pdf(format="A4")
    assert folded.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", folded)) <= 10


def test_it_reads_without_scripts(opened):
    tab, said, _ = opened(java_script_enabled=False)
    assert tab.locator("h2").count() >= 6
    assert not tab.locator("#toggle").is_visible()
    tab.locator("details.system summary").first.click()
    assert tab.locator("details.system .region").first.is_visible()
    assert said == []
