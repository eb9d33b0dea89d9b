"""The report by keyboard alone."""

from __future__ import annotations

import pytest
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


@pytest.fixture
def stage(report: str, open_stage: OpenStage) -> Stage:
    """Return the first page of the report of one run."""
    stage = open_stage(report, offline=True)
    stage.go()
    return stage


def expect_focus(stage: Stage, text: str) -> None:
    """Expect the focus on an element with this text."""
    expect(stage.page.locator(":focus")).to_have_text(text)


def test_the_first_tab_leads_past_the_head_of_the_page(stage: Stage) -> None:
    """The skip link appears when it has the focus, and moves it to the content."""
    stage.page.keyboard.press("Tab")
    expect_focus(stage, "Skip to the content")
    expect(stage.page.locator("a.skip")).to_be_in_viewport()
    stage.photograph("skip-link")
    stage.page.keyboard.press("Enter")
    expect(stage.page.locator("main")).to_be_focused()


def test_every_control_is_reached_by_tab_and_shows_the_focus(stage: Stage) -> None:
    """Going on by Tab passes each control of the table's page once, with an outline or a ring to be seen."""
    stage.turn(SEARCH)
    seen = []
    for _ in range(24):
        stage.page.keyboard.press("Tab")
        tag, is_ringed = stage.page.evaluate(DESCRIBE_FOCUS)
        if tag == "BODY":
            break
        assert is_ringed, tag
        seen.append(tag)
    assert {"search", "show", "category", "reason", "truth", "predicted", "sorter", "list"} <= set(seen)


def test_a_sample_is_found_opened_and_left_without_a_mouse(stage: Stage) -> None:
    """`/` searches, Escape leaves the field, j and k move, Enter opens, Escape goes back to the same row."""
    press = stage.page.keyboard.press
    press("/")
    expect(stage.page.get_by_label("Search")).to_be_focused()
    stage.page.keyboard.type("capital")
    expect(stage.find(".tally")).to_have_text("5 of 125 samples")
    press("Escape")
    press("j")
    press("j")
    expect_focus(stage, "000028")
    press("k")
    expect_focus(stage, "000003")
    press("ArrowDown")
    press("ArrowDown")
    expect_focus(stage, "000041")
    press("Enter")
    expect(stage.find("h1")).to_have_text("000041")
    press("j")
    expect(stage.find("h1")).to_have_text("000055")
    press("ArrowLeft")
    expect(stage.find("h1")).to_have_text("000041")
    press("Escape")
    expect(stage.find(".tally")).to_have_text("5 of 125 samples")
    expect(stage.find("tr.is-active")).to_contain_text("000041")


def test_the_keys_are_listed_on_demand(stage: Stage) -> None:
    """`?` opens the list of keys, Escape closes it and the page takes keys again."""
    stage.page.keyboard.press("?")
    expect(stage.page.get_by_role("dialog")).to_contain_text("search the samples")
    stage.photograph("keys")
    stage.page.keyboard.press("Escape")
    expect(stage.page.get_by_role("dialog")).not_to_be_visible()


def test_home_and_end_reach_both_ends_of_the_table(stage: Stage) -> None:
    """End is the last row, Home the first, and the row in focus is in sight."""
    stage.turn(SEARCH)
    stage.page.keyboard.press("j")
    stage.page.keyboard.press("End")
    expect_focus(stage, "000125")
    expect(stage.find("tr[data-index='124']")).to_be_in_viewport()
    stage.page.keyboard.press("Home")
    expect_focus(stage, "000001")


def test_what_changes_is_announced(stage: Stage) -> None:
    """The count after a filter stands in a live region."""
    stage.turn(SEARCH)
    stage.choose("Wrong")
    live = stage.page.locator("[role=status], [aria-live]").filter(has_text="15 of 125 samples")
    expect(live).to_have_count(1)
