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
            const headings = [...table.tHead.rows].at(-1).cells;
            const column = [...headings].findIndex((cell) => cell.textContent.trim() === heading);
            return [...table.tBodies[0].rows].map((row) => row.cells[column].textContent.trim());
        }""",
            heading,
        )
    )


def test_it_opens_without_a_complaint_and_asks_for_nothing(opened, page_file):
    tab, said, asked = opened()
    assert tab.title() == "3 systems against the reference"
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
    before = [float(each) for each in column(tab, 0, "Certified MAUVE")]
    assert before == sorted(before, reverse=True)
    heading = tab.locator("table.sortable").first.get_by_role("button", name="Certified MAUVE")
    heading.click()
    assert [float(each) for each in column(tab, 0, "Certified MAUVE")] == sorted(before)
    assert tab.locator("[aria-sort=ascending]").inner_text().startswith("Certified")
    heading.press("Enter")
    assert [float(each) for each in column(tab, 0, "Certified MAUVE")] == before
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
    assert states() == [
        False,
        True,
    ]  # nothing sets the first apart from the reference, so that there is nothing to read
    assert button.inner_text() == "Expand all"
    button.click()
    assert states() == [True, True]
    assert button.inner_text() == "Collapse all"
    button.click()
    assert states() == [False, False]
    assert button.inner_text() == "Expand all"
    button.click()
    systems.first.locator("summary").first.click()
    assert states() == [False, True]
    api.expect(button).to_have_text("Expand all")


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
    tab.locator("details.each > summary").click()
    for name in (".chart > svg", ".overview", ".square"):
        drawn = tab.locator(name).first
        drawn.scroll_into_view_if_needed()
        image = pytest.importorskip("PIL.Image", reason="needs Pillow: pip install 'mallow[images]'")
        with image.open(io.BytesIO(drawn.screenshot())) as shot:
            colours = np.asarray(shot.convert("RGB"), dtype=int).reshape(-1, 3)
        accent = np.abs(colours - [0x56, 0x25, 0xA1]).sum(axis=1) < 30
        assert accent.sum() > 50, name


@pytest.mark.parametrize("scripts", [True, False])
def test_it_fits_every_width_and_nothing_scrolls_inside(opened, scripts):
    tab, _, _ = opened(java_script_enabled=scripts)
    for width in (320, 360, 600, 800, 940, 960, 1000, 1400):
        tab.set_viewport_size({"width": width, "height": 740})
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        # Every column is in sight, and no text is cut.
        hidden = """() => [...document.querySelectorAll("main *")].filter((each) => {
            const style = getComputedStyle(each), box = each.getBoundingClientRect();
            return ["auto", "scroll"].some((kind) => kind === style.overflowX || kind === style.overflowY)
                || (each.matches("tbody :is(th, td)") && box.right > document.documentElement.clientWidth);
        }).map((each) => each.className)"""
        assert tab.evaluate(hidden) == []
    tab.set_viewport_size({"width": 360, "height": 740})
    cell = tab.locator("table.sortable tbody td.n").first
    label = cell.evaluate("(cell) => getComputedStyle(cell, '::before').content")
    assert label == '"Certified MAUVE"'
    assert tab.get_by_role("cell").count() > 50  # tables remain tables for a screen reader, though they look like lists


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
    regions = [region for one in diagnosed.values() for region in (*one.missed, *one.invented)]
    beyond = sum(region.significant for region in regions)
    assert 0 < beyond < len(regions)
    assert tab.locator("details.region[open]").count() == beyond
    for others in tab.locator("details.others").all():  # the rest is gathered in one line of each side
        assert not others.get_attribute("open")
        assert others.locator("details.region").count() == int(
            others.locator("summary").first.text_content().split()[0]
        )
    tab.emulate_media(media="print")
    assert not tab.locator("details.chance").first.is_visible()


def test_no_text_touches_a_line(opened):
    tab, _, _ = opened()
    distances = """() => [...document.querySelectorAll("tbody .starts, thead .starts")].map((cell) => {
        const words = document.createRange();
        words.selectNodeContents(cell.previousElementSibling);
        return cell.getBoundingClientRect().left - words.getBoundingClientRect().right;
    })"""
    assert min(tab.evaluate(distances)) >= 5


def test_the_numbers_of_a_curve_come_into_sight_with_it(opened):
    tab, _, _ = opened()
    tab.set_viewport_size({"width": 1000, "height": 500})
    tab.get_by_role("radio", name="Proven").focus()
    tab.keyboard.press("Tab")
    readout = tab.locator("#certified-curves .readout")
    assert readout.inner_text().startswith(tab.evaluate("document.activeElement.ariaLabel").split(":")[0])
    api.expect(readout).to_be_in_viewport()


def test_all_systems_are_named_at_their_curves(opened, compared):
    tab, _, _ = opened()
    assert tab.locator("svg.overview").count() == 2
    for picture, (kind, other) in (
        ("Proven", ("certified", "published")),
        ("As in papers", ("published", "certified")),
    ):
        tab.get_by_role("radio", name=picture).check()
        assert tab.locator(f"#{kind}-curves").is_visible()
        assert not tab.locator(f"#{other}-curves").is_visible()
        drawing = tab.locator(f"#{kind}-curves svg")
        assert drawing.bounding_box()["width"] > 700
        names = drawing.locator(".label").evaluate_all("(all) => all.map((each) => each.firstChild.textContent)")
        assert sorted(names) == sorted(compared.scores)
        boxes = drawing.locator(".label").evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().top)")
        gaps = np.diff(sorted(boxes))
        assert gaps.min() > 10  # names do not cover each other


def test_all_of_it_is_printed(opened):
    tab, _, _ = opened()
    tab.locator("details.system[open] > summary").click()
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("details:not([open]):not(.chance):not(.more)").count() == 0
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("details.system[open]").count() == 0
    folded = tab.pdf(format="A4")
    assert folded.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", folded)) <= 10
    tab.emulate_media(media="print")
    assert tab.locator("svg.overview").first.is_visible()  # paper has no switch
    assert tab.locator("svg.overview").nth(1).is_visible()


def test_it_reads_without_scripts(opened):
    tab, said, _ = opened(java_script_enabled=False)
    assert tab.locator("h2").count() >= 6
    assert not tab.locator("#toggle").is_visible()
    assert tab.locator("details.system[open] .region").first.is_visible()
    assert not tab.locator(".readout").first.is_visible()
    assert tab.locator("#certified-curves").is_visible()
    assert not tab.locator("#published-curves").is_visible()
    assert said == []


def test_a_curve_is_reached_by_the_tabulator_and_by_the_pointer(opened, compared):
    tab, said, _ = opened()
    curves = tab.locator("#certified-curves .curve")
    tab.get_by_role("radio", name="Proven").focus()
    for place in range(len(compared.scores)):
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.ariaLabel") == curves.nth(place).get_attribute("aria-label")
        assert tab.locator("#certified-curves .readout").inner_text() == curves.nth(place).get_attribute("aria-label")
        faded = curves.evaluate_all("(all) => all.map((each) => getComputedStyle(each).opacity)")
        assert [place for place, opacity in enumerate(faded) if opacity == "1"] == [place]
    tab.keyboard.press("Tab")
    assert curves.evaluate_all("(all) => all.map((each) => getComputedStyle(each).opacity)") == ["1"] * len(
        compared.scores
    )
    curves.nth(1).locator(".around").hover()
    name = curves.nth(1).locator(".label").evaluate("(label) => label.firstChild.textContent")
    score = compared.scores[name]
    assert (
        tab.locator("#certified-curves .readout")
        .inner_text()
        .startswith(f"{name}: certified MAUVE {score.certified['mauve'].value:.4f}, with 95% confidence at most ")
    )
    tab.mouse.move(0, 0)
    assert tab.locator("#certified-curves .readout").inner_text().startswith("Point at a curve")
    assert said == []


def test_a_keyboard_skips_to_the_verdict_and_reaches_every_part(opened):
    tab, _, _ = opened()
    tab.keyboard.press("Tab")
    skip = tab.locator(".skip")
    assert skip.evaluate("(link) => link === document.activeElement")
    assert skip.bounding_box()["y"] >= 0  # in sight once it has the focus
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "content"
    for link in tab.locator("nav a").all():
        assert tab.locator(link.get_attribute("href")).is_visible()
    reached = set()
    for _ in range(150):
        tab.keyboard.press("Tab")
        reached.add(tab.evaluate("document.activeElement.tagName + (document.activeElement.id || '')"))
    assert {"A", "BUTTON", "BUTTONtoggle", "SUMMARY", "INPUT", "g"} <= reached


def test_values_of_a_list_end_at_the_same_place(opened):
    tab, _, _ = opened()
    tab.set_viewport_size({"width": 390, "height": 740})
    ends = """() => [...document.querySelectorAll("tbody :is(th, td)")].map((cell) => {
        const words = document.createRange();
        words.selectNodeContents(cell.lastElementChild ?? cell);
        return [cell.getBoundingClientRect().left, Math.round(words.getBoundingClientRect().right)];
    })"""
    measured = tab.evaluate(ends)
    assert {left for left, _ in measured} == {measured[0][0]}
    rights = sorted(right for _, right in measured)
    assert rights[-1] - rights[0] <= 8  # a tag has a border around its letter
