"""The report by keyboard alone."""

from __future__ import annotations

from playwright.sync_api import expect

from .conftest import OpenStage
from .stage import Stage

SEARCH = "#/run/r0/0/samples"
# The ring may be drawn around the label of a control.
DESCRIBE_FOCUS = """() => {
    const one = document.activeElement;
    const around = [one, one.parentElement, one.nextElementSibling].filter(Boolean);
    const parts = around.map(part => getComputedStyle(part));
    const isOutlined = style => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    const isRinged = parts.some(style => isOutlined(style) || style.boxShadow !== "none");
    return [one.id || one.name || one.className || one.tagName, isRinged];
}"""

# Keys that are pressed before the page shows what the first of them asks for.
PRESS_FAST = """keys => {
    for (const key of keys) document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
}"""  # noqa: E501 - the text as it is written


def press(stage: Stage, *keys: str, focus: str | None = None) -> None:
    """Press keys, and expect the focus on an element with this text."""
    for key in keys:
        stage.page.keyboard.press(key)
    if focus:
        expect(stage.page.locator(":focus")).to_have_text(focus)


def test_the_first_tab_leads_past_the_head_of_the_page(stage: Stage) -> None:
    """The skip link appears when it has the focus, and moves it to the content."""
    press(stage, "Tab", focus="Skip to the content")
    expect(stage.page.locator("a.skip")).to_be_in_viewport()
    press(stage, "Enter")
    expect(stage.page.locator("main")).to_be_focused()


def test_every_control_is_reached_by_tab_and_shows_the_focus(stage: Stage) -> None:
    """Going on by Tab passes each control of the table's page once, with an outline or a ring to be
    seen.
    """
    stage.turn(SEARCH)
    seen = []
    for _ in range(24):
        press(stage, "Tab")
        tag, is_ringed = stage.page.evaluate(DESCRIBE_FOCUS)
        if tag == "BODY":
            break
        assert is_ringed, tag
        seen.append(tag)
    controls = "search show category reason truth predicted sorter list"
    assert set(controls.split()) <= set(seen)


def test_a_sample_is_found_opened_and_left_without_a_mouse(stage: Stage) -> None:
    """`/` searches, Escape leaves the field, j and k move, Enter opens, Escape goes back to the
    same row.
    """
    press(stage, "/")
    expect(stage.page.get_by_label("Search")).to_be_focused()
    stage.page.keyboard.type("capital")
    stage.expect_rows("5 of 125 samples")
    press(stage, "Escape", "j", "j", focus="000028")
    press(stage, "k", focus="000003")
    press(stage, "ArrowDown", "ArrowDown", focus="000041")
    for key, name in (("Enter", "000041"), ("j", "000055"), ("ArrowLeft", "000041")):
        press(stage, key)
        stage.expect_sample(name)
    press(stage, "Escape")
    stage.expect_rows("5 of 125 samples")
    expect(stage.find("tr.is-active")).to_contain_text("000041")


def test_the_keys_are_listed_on_demand(stage: Stage) -> None:
    """`?` opens the list of keys, Escape closes it and the page takes keys again."""
    press(stage, "?")
    expect(stage.page.get_by_role("dialog")).to_contain_text("search the samples")
    press(stage, "Escape")
    expect(stage.page.get_by_role("dialog")).not_to_be_visible()


def test_home_and_end_reach_both_ends_of_the_table(stage: Stage) -> None:
    """End is the last row, Home the first, and the row in focus is in sight."""
    stage.turn(SEARCH)
    press(stage, "j", "End", focus="000125")
    expect(stage.find("tr[data-index='124']")).to_be_in_viewport()
    press(stage, "Home", focus="000001")


def test_what_changes_is_announced(stage: Stage) -> None:
    """The count after a filter stands in a live region."""
    stage.turn(SEARCH)
    stage.choose("Wrong")
    live = stage.page.locator("[role=status], [aria-live]").filter(has_text="15 of 125 samples")
    expect(live).to_have_count(1)


def test_the_table_shows_what_was_said_and_what_decided(stage: Stage) -> None:
    """A line has the verdict, truth and choice read, the completion with the deciding part, the
    question.
    """
    stage.turn(SEARCH)
    row = stage.find("tr[data-index='2']")
    expect(row.locator(".col-verdict")).to_have_text("✗wrong")
    expect(row.locator(".col-pair")).to_have_text("D → A")
    expect(row.locator(".col-said")).to_have_text("A. Melbourne")
    expect(row.locator(".col-said mark")).to_have_text("A")
    expect(row.locator(".col-question")).to_contain_text("What is the capital of Australia?")


def test_a_sample_opens_beside_the_table(report: str, open_stage: OpenStage) -> None:
    """On a wide screen both are in sight.

    On a phone the sample covers the table until it is closed.
    """
    for width, is_beside in ((1440, True), (390, False)):
        stage = open_stage(report, width=width, offline=True)
        stage.go(SEARCH)
        stage.find("tr[data-index='2'] a").click()
        stage.expect_sample("000003")
        expect(stage.find(".list")).to_be_visible(visible=is_beside)
        stage.page.evaluate(PRESS_FAST, "jjjkk")
        stage.expect_sample("000004")
        press(stage, "Escape", focus="000004")
        expect(stage.find(".pane")).not_to_be_visible()
        expect(stage.find("tr.is-active")).to_contain_text("000004")


def test_filters_and_the_open_sample_are_in_the_address(stage: Stage) -> None:
    """A reload, and a link that is sent, show the same rows and the same sample in them.

    Back closes it.
    """
    stage.turn(SEARCH)
    stage.choose("Wrong")
    stage.find("tr[data-index='1'] a").click()
    expect(stage.find(".pane")).to_contain_text("2 of 15 samples in this selection")
    name = stage.find(".pane h2").inner_text()
    stage.reload()
    stage.expect_sample(name)
    expect(stage.find(".pane")).to_contain_text("2 of 15 samples in this selection")
    stage.expect_rows("15 of 125 samples")
    press(stage, "j")
    expect(stage.find(".pane")).to_contain_text("3 of 15")
    press(stage, "k")
    stage.expect_sample(name)
    stage.page.go_back()
    expect(stage.find(".pane")).not_to_be_visible()
    stage.expect_rows("15 of 125 samples")


def test_another_filter_shows_the_first_sample_of_it(stage: Stage) -> None:
    """The open sample gives way; where nothing matches, nothing is open."""
    stage.turn(f"{SEARCH}?show=wrong")
    stage.find("tr[data-index='1'] a").click()
    expect(stage.find(".pane")).to_contain_text("2 of 15")
    stage.choose("INVALID")
    expect(stage.find(".pane")).to_contain_text("1 of 22 samples in this selection")
    stage.expect_sample("000005")
    stage.page.get_by_label("Search").fill("no such words")
    stage.expect_rows("No sample matches; there are 125.")
    expect(stage.find(".pane")).not_to_be_visible()


def test_a_sample_outside_the_selection_says_so(stage: Stage) -> None:
    """A link to it shows it all the same, and the next one is the first of the selection."""
    stage.turn("#/run/r0/0/sample/000001?show=wrong")
    expect(stage.find(".pane")).to_contain_text("not in this selection")
    press(stage, "j")
    expect(stage.find(".pane")).to_contain_text("1 of 15")


def test_columns_are_chosen_and_kept(stage: Stage) -> None:
    """Category is a column when it is chosen, also when the page is opened again."""
    stage.turn(SEARCH)
    expect(stage.find("td.col-category").first).not_to_be_visible()
    stage.page.get_by_text("Columns", exact=True).click()
    stage.find(".menu").get_by_role("checkbox", name="category").check()
    stage.find(".menu").get_by_role("checkbox", name="question").uncheck()
    press(stage, "Escape")
    expect(stage.find(".menu > div")).not_to_be_visible()
    expect(stage.find("h1")).to_have_text("Samples")
    stage.reload()
    expect(stage.find("td.col-category").first).to_be_visible()
    expect(stage.find("td.col-question").first).not_to_be_visible()
