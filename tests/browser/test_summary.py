"""What the first pages show: counts, precision, axes, two runs, many runs, figures to take
along.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from .conftest import OpenStage, write_report
from .material import Call
from .stage import Stage

#: The decimals of a value: its interval, its number of samples, and what the page then writes.
PRECISIONS: list[tuple[float, list[float] | None, int, str]] = [
    (0.704, [0.6189, 0.7770], 125, "70\u00a0% [62, 78]"),
    (0.850435, [0.844435, 0.856244], 14_014, "85.0\u00a0% [84.4, 85.6]"),
    (0.5, [0.4995, 0.5005], 4_000_000, "50.00\u00a0% [49.95, 50.05]"),
    (0.704, None, 125, "70\u00a0% "),
    (0.850435, None, 14_014, "85.0\u00a0% "),
    (1.0, [0.9637, 1.0], 102, "100\u00a0% [96, 100]"),
]


@pytest.fixture(scope="session")
def pair(plain_runs: Path, call: Call) -> str:
    """Return the address of a report file of two runs."""
    runs = [plain_runs / name for name in ("first", "second")]
    return write_report(call, plain_runs.parent / "two.html", *runs)


@pytest.fixture
def two(pair: str, open_first: OpenStage) -> Stage:
    """Return the first page of the report of two runs."""
    return open_first(pair, offline=True)


@pytest.fixture
def many(comparison: str, open_first: OpenStage) -> Stage:
    """Return the first page of the report of three runs."""
    return open_first(comparison, offline=True)


# ── numbers and axes


def test_numbers_have_no_more_digits_than_the_interval_supports(stage: Stage) -> None:
    """The last decimal is the first digit of the half-width.

    Without an interval, of the largest one.
    """
    write = """([value, reach, n]) => {
        const digits = ak.core.precision(reach, n);
        return `${ak.core.figure(value, true, digits)} ${ak.core.interval(reach, true, digits)}`;
    }"""
    texts = [stage.page.evaluate(write, [value, reach, n]) for value, reach, n, _ in PRECISIONS]
    assert texts == [text for *_, text in PRECISIONS]


def test_an_interval_that_excludes_zero_does_not_read_as_if_it_held_it(stage: Stage) -> None:
    """As many decimals are added as the end needs; a rounded zero has no sign."""
    write = """reach => ak.core.interval(reach, true, ak.core.precision(reach, 100))"""
    assert stage.page.evaluate(write, [0.0001, 0.0794]) == "[0.01, 7.94]"
    assert stage.page.evaluate(write, [-0.0001, 0.0794]) == "[0, 8]"
    assert stage.page.evaluate("ak.core.difference(-0.0001, true, 0)") == "0 points"


def test_an_axis_fits_its_data(stage: Stage) -> None:
    """It ends at round numbers around the values; a difference has zero in the middle."""
    span = "([rows, settings]) => ak.charts.span(rows, settings)"
    rows = [{"value": 0.85, "interval": [0.844, 0.856]}, {"value": 0.78, "interval": [0.77, 0.79]}]
    low, high = stage.page.evaluate(span, [rows, {"isShare": True}])
    assert 0.7 <= low <= 0.77
    assert 0.856 <= high <= 0.9
    best = {"value": 0.99, "interval": [0.9, 1]}
    assert stage.page.evaluate(span, [[best], {"isShare": True}])[1] == 1
    difference = {"value": 0.1, "interval": [-0.05, 0.2]}
    settings = {"isShare": True, "isDifference": True}
    low, high = stage.page.evaluate(span, [[difference], settings])
    assert (low, high) == (-high, pytest.approx(0.216))


def test_long_tables_show_both_ends(stage: Stage) -> None:
    """The rows between wait behind a button, and are on paper."""
    stage.page.evaluate(
        """() => {
            const rows = Array.from({length: 30}, (_, i) => ({label: `row ${i}`, value: i / 30, n: 10}));
            document.querySelector("main .page").replaceChildren(ak.charts.forest({rows, first: "row"}));
        }"""  # noqa: E501 - the text as it is written
    )
    rows = stage.find("tbody tr:not(.divider):visible")
    expect(rows).to_have_count(20)
    expect(rows.last).to_contain_text("row 29")
    stage.page.emulate_media(media="print")
    expect(rows).to_have_count(30)
    stage.page.emulate_media(media="screen")
    stage.find("button", has_text="Show the 10 rows between").click()
    expect(rows).to_have_count(30)


def test_categories_are_sorted_by_value(stage: Stage) -> None:
    """The best comes first."""
    rows = stage.find(".panel", has_text="By category").locator("tbody tr")
    assert rows.locator("th").all_inner_texts()[:2] == ["history of science", "astronomy"]
    texts = rows.locator("td.number:not(.dim)").all_inner_texts()
    values = [int(text.split()[0]) for text in texts]
    assert values == sorted(values, reverse=True)


def test_harnesses_that_read_less_than_half_are_folded(stage: Stage) -> None:
    """The others stand in the table; what comes to the same numbers is one row."""
    panel = stage.find(".panel", has_text="By extraction rule")
    for row in panel.locator("> table tbody tr").all_inner_texts():
        assert "other harness" not in row or int(row.split()[-1]) >= 63
    folded = panel.locator("details:not(.copy)")
    summary = "4 other harnesses that read less than half of the completions"
    expect(folded.locator("summary")).to_have_text(summary)
    expect(folded.locator("tbody tr")).to_have_count(3)
    expect(folded.locator("table")).to_be_hidden()
    folded.locator("summary").click()
    expect(folded.locator("table")).to_contain_text("Inspect, simple-evals")


def test_valid_is_not_painted_like_a_success(stage: Stage) -> None:
    """What is right has a colour of its own; each part leads to its samples."""
    kinds = [segment.get_attribute("class") for segment in stage.find(".counts .segment").all()]
    assert kinds == ["segment is-right", "segment is-wrong", "segment is-invalid"]
    stage.find(".counts").get_by_role("link", name="wrong").click()
    stage.expect_rows("15 of 125 samples")


# ── two runs


def test_two_runs_open_with_the_verdict(two: Stage) -> None:
    """Verdict, difference around zero and both means are in sight at once.

    Each number is there once.
    """
    expect(two.find("h1")).to_have_text("first is better than second")
    for selector in (".headline .value", ".headline .alone .zero", ".headline .means"):
        expect(two.find(selector)).to_be_in_viewport()
    expect(two.find(".headline .value")).to_have_text("+16 points")
    expect(two.find(".headline .lead")).to_have_text("p = 0.010 by McNemar's exact test")
    assert two.find(".headline").inner_text().count("+16") == 1
    assert re.findall(r"\d\.\d\d", two.page.locator("main").inner_text().replace("0.010", "")) == []


def test_categories_whose_interval_excludes_zero_are_marked(two: Stage) -> None:
    """They are sorted by difference, the marked ones bold and with another shape."""
    rows = two.find(".panel", has_text="By category").locator("tbody tr")
    assert rows.locator("th").all_inner_texts()[:2] == ["astronomy", "history of science"]
    marked = [row.get_attribute("class") == "is-own" for row in rows.all()]
    texts = rows.locator("td.reach-cell").all_inner_texts()
    ends = [re.findall(r"[\u2212\d]+", text) for text in texts]
    assert marked == [("\u2212" in low) == ("\u2212" in high) for low, high in ends]
    assert marked == [True, True, False, False, False]


def test_changed_samples_stand_side_by_side(two: Stage) -> None:
    """They come after the categories, and both completions of the first are open."""
    panel = two.find(".flips")
    expect(panel.locator("h2")).to_have_text("Changed samples")
    expect(panel.locator(".tally")).to_have_text("56 samples")
    expect(panel.locator(".two .completion")).to_have_count(2)


# ── many runs


def test_a_leaderboard_ranks_models_with_ties(many: Stage) -> None:
    """Rank, model, number with interval; tokens where an endpoint counted them."""
    expect(many.find("h1")).to_have_text("Leaderboard")
    rows = many.find(".leaderboard tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("accuracy=0.8")
    expect(rows.first.locator(".main")).to_have_text("70\u00a0%")
    ranks = rows.locator("td.rank").all_inner_texts()
    assert ranks == sorted(ranks)
    assert all(re.fullmatch(r"[1-3](–[1-3])?", rank) for rank in ranks)
    row = many.find(".leaderboard tbody tr", has_text="small-model")
    assert int(row.locator("td.number").nth(-2).inner_text().replace(",", "")) > 125


def test_a_leaderboard_is_sorted_and_filtered_and_the_address_says_so(many: Stage) -> None:
    """A heading sorts both ways, words filter, and the address brings the same back."""
    names = many.find(".leaderboard tbody th")
    first = str(names.first.text_content())
    many.find(".leaderboard").get_by_role("button", name="Accuracy").click()
    expect(names.last).to_have_text(first)
    expect(many.find(".leaderboard th[aria-sort='ascending']")).to_contain_text("Accuracy")
    many.page.get_by_label("Filter").fill("SMALL")
    expect(names).to_have_count(1)
    expect(many.find(".filters .tally")).to_have_text("1 of 3 models")
    many.go(many.page.evaluate("location.hash"))
    expect(names).to_have_count(1)
    expect(many.find(".leaderboard th[aria-sort='ascending']")).to_contain_text("Accuracy")


def test_a_pair_of_the_leaderboard_opens_its_comparison(many: Stage) -> None:
    """It says for how many comparisons its test is corrected, and leads back."""
    many.find(".pairs tbody a").first.click()
    expect(many.find(".headline .lead")).to_contain_text("corrected for 3 comparisons")
    expect(many.find(".flips tr[data-index]").first).to_be_visible()
    many.find("header.title a").click()
    expect(many.find("h1")).to_have_text("Leaderboard")


def test_the_viewer_ranks_the_runs_that_are_selected(
    plain_runs: Path, view: Callable[[Path], str], open_first: OpenStage
) -> None:
    """All complete runs at one press, then the same table as in a report."""
    stage = open_first(view(plain_runs))
    stage.page.get_by_role("button", name="Select 3 runs").click()
    stage.page.get_by_role("link", name="Leaderboard of 3 runs").click()
    expect(stage.find("h1")).to_have_text("Leaderboard")
    expect(stage.find(".leaderboard tbody tr")).to_have_count(3)


# ── figures to take along, phones, paper


def test_a_figure_is_copied_as_markdown(report: str, open_first: OpenStage) -> None:
    """The clipboard holds its title and its table, without what is only drawn."""
    stage = open_first(report, permissions=["clipboard-read", "clipboard-write"])
    panel = stage.find(".panel", has_text="By category")
    panel.locator(".copy summary").click()
    panel.get_by_role("button", name="as Markdown").click()
    expect(panel.locator(".copy summary[data-told='Copied']")).to_be_visible()
    lines = stage.page.evaluate("navigator.clipboard.readText()").splitlines()
    heading = "| category | MCQA Accuracy | 95 % interval | n |"
    assert lines[:4] == ["**By category**", "", heading, "| --- | ---: | ---: | ---: |"]
    assert (lines[4], len(lines)) == ("| history of science | 80 % | [61, 91] | 25 |", 9)


def test_each_figure_becomes_drawing_and_picture(comparison: str, open_stage: OpenStage) -> None:
    """The SVG is well formed, holds the texts and loads nothing; the PNG is one."""
    stage = open_stage(comparison, offline=True)
    for route in ("#/", "#/run/r2/0", "#/compare/r0,r1"):
        stage.go(route)
        figures: list[dict[str, Any]] = stage.page.evaluate(
            """async () => {
                const found = [];
                for (const panel of document.querySelectorAll(".panel:has(.copy)")) {
                    const text = ak.copy.toSvg(panel);
                    const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
                    const png = new Uint8Array(await (await ak.copy.toPng(panel)).arrayBuffer());
                    const title = panel.querySelector("h2").textContent;
                    found.push({
                        title, isWhole: !parsed.querySelector("parsererror"),
                        texts: parsed.documentElement.textContent,
                        size: png.length, start: [...png.slice(1, 4)], links: /href|url\\(/.test(text),
                    });
                }
                return found;
            }"""  # noqa: E501 - the text as it is written
        )
        assert figures, route
        for figure in figures:
            assert (figure["isWhole"], figure["links"]) == (True, False), figure["title"]
            assert bytes(figure["start"]) == b"PNG"
            assert figure["title"] in figure["texts"]
            assert figure["size"] > 2_000


def test_without_a_clipboard_a_figure_is_saved(stage: Stage) -> None:
    """The browser downloads it as a file."""
    stage.page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: null})")
    panel = stage.find(".panel", has_text="INVALID by reason")
    panel.locator(".copy summary").click()
    with stage.page.expect_download() as download:
        panel.get_by_role("button", name="as SVG").click()
    assert download.value.suggested_filename == "figure.svg"
    assert download.value.path().read_text(encoding="utf-8").startswith("<svg ")


def test_on_a_phone_the_number_is_on_the_first_screen(
    report: str, pair: str, comparison: str, open_stage: OpenStage
) -> None:
    """Of one run, of two and of many, without scrolling in either direction."""
    number = ".headline .value"
    for address, selector in ((report, number), (pair, number), (comparison, ".main")):
        stage = open_stage(address, width=390)
        stage.page.set_viewport_size({"width": 390, "height": 700})
        stage.go()
        expect(stage.find(selector).first).to_be_in_viewport(ratio=1)
        assert stage.measure_overflow() <= 0


def test_a_table_that_is_too_wide_shows_that_it_scrolls(report: str, open_stage: OpenStage) -> None:
    """Its edge fades and a line says so; where it fits there is neither."""
    for width, is_cut in ((390, True), (1440, False)):
        stage = open_stage(report, width=width)
        stage.go()
        metrics = stage.find(".metrics")
        expect(metrics.locator(".sideways.has-right")).to_have_count(int(is_cut))
        expect(metrics.locator(".scroll-hint:visible")).to_have_count(int(is_cut))


def test_the_page_has_an_icon_of_its_own(stage: Stage) -> None:
    """It stands in the page, so that nothing is asked for."""
    icon = stage.page.locator("link[rel=icon]").get_attribute("href")
    assert icon is not None
    assert icon.startswith("data:image/svg+xml,")
