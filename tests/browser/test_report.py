"""The report file, opened from disk in a real browser, offline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .conftest import OpenStage, write_report
from .material import Call, carry_out, make_project
from .stage import Stage

SAMPLES = "#/run/r0/0/samples"
# What stands on a page when a program shows its own values in place of words.
SLIPS = re.compile(r"\b(null|undefined|NaN|false|Infinity)\b|\[object ")


def test_the_first_screen_answers_what_a_reader_asks_first(stage: Stage) -> None:
    """Task, model, number with interval against chance, counts and a finding are in sight at
    once.
    """
    seen = {
        "h1": "Multiple choice questions",
        ".subtitle": "builtin/simulated?accuracy=0.8&style=mixed&seed=0",
        ".headline .value": "70\u00a0%",
        ".headline .reach-text": "[62, 78]",
        ".headline table": "25\u00a0%",
        ".headline .lead": "88 of 125 right, 45 points above chance",
        ".findings li:first-child .sentence": "70.4 % by the first character; 79.2 % by the ",
    }
    for selector, text in seen.items():
        expect(stage.find(selector)).to_contain_text(text)
        expect(stage.find(selector)).to_be_in_viewport()
    # Right, wrong, INVALID and not scored stand in a table whose foot is their sum.
    cells = stage.find(".counts tr td:first-of-type")
    assert cells.all_text_contents() == ["88", "15", "22", "0", "125"]
    expect(cells.last).to_be_in_viewport()


def test_a_figure_leads_to_its_samples(stage: Stage) -> None:
    """A reason in the figure is a link to the samples that have it."""
    stage.find(".panel").get_by_role("link", name="NOT_A_CHOICE").click()
    expect(stage.find(".tally")).to_have_text("11 of 125 samples")


def test_a_filter_by_verdict_shows_those_samples(stage: Stage) -> None:
    """Each of the buttons leaves the samples of its kind, says how many, and tells the address."""
    stage.turn(SAMPLES)
    for word, number in {"Right": 88, "Wrong": 15, "INVALID": 22, "Flipped": 40}.items():
        stage.choose(word)
        expect(stage.find(".tally")).to_have_text(f"{number} of 125 samples")
        assert stage.page.url.endswith(f"{SAMPLES}?show={word.lower()}")
        expect(stage.find("table.rows")).to_have_attribute("aria-rowcount", str(number + 1))


def test_filters_narrow_each_other_until_they_are_cleared(stage: Stage) -> None:
    """INVALID, a category and a reason together leave what has all three; Clear brings all back."""
    stage.turn(SAMPLES)
    stage.choose("INVALID")
    stage.page.get_by_label("Category").select_option("biology")
    stage.expect_rows("7 of 125 samples")
    stage.page.get_by_label("Reason").select_option("NOT_A_CHOICE")
    stage.expect_rows("4 of 125 samples", "000018", "000027", "000077", "000082")
    stage.page.get_by_role("button", name="Clear").click()
    stage.expect_rows("125 samples")


def test_a_cell_of_the_letters_is_a_filter(stage: Stage) -> None:
    """Truth B read as A are six samples."""
    name = re.compile("truth B.*A", re.IGNORECASE)
    stage.find("table").get_by_role("link", name=name).first.click()
    stage.expect_rows("6 of 125 samples")


def test_a_search_finds_ids_questions_and_completions(stage: Stage) -> None:
    """Any part of them, in any case; and where nothing matches, the page says so."""
    stage.turn(SAMPLES)
    results = {"CAPITAL": ["000003", "000028", "000041", "000055", "000076"]}
    results |= {"000077": ["000077"], "the best choice is": ["000025", "000083"]}
    for text, ids in results.items():
        stage.page.get_by_label("Search").fill(text)
        stage.expect_rows(f"{len(ids)} of 125 samples", *ids)
    stage.page.get_by_label("Search").fill("no such words")
    stage.expect_rows("No sample matches; there are 125.")


def test_a_heading_sorts_by_its_column_both_ways(stage: Stage) -> None:
    """The order is told to screen readers as well."""
    stage.turn(SAMPLES)
    heading = stage.find("thead th.col-id")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "descending")
    expect(stage.find("tr[data-index='0'] a")).to_have_text("000125")


def test_one_sample_is_shown_with_its_whole_way(stage: Stage) -> None:
    """Question, choices, prompt, completion with what decided, verdict, why, and how other rules
    read it.
    """
    stage.turn(SAMPLES)
    stage.find("tr[data-index='2']").click()
    stage.settle()
    stage.expect_sample("000003")
    expect(stage.find(".decision")).to_contain_text("wrong")
    expect(stage.find(".choices .is-truth")).to_contain_text("Canberra")
    expect(stage.find(".choices .is-predicted")).to_contain_text("Melbourne")
    expect(stage.find(".completion mark")).to_have_text("A")
    expect(stage.find(".message").last).to_contain_text("What is the capital of Australia?")
    why = "begins with 'A', which is not the ground truth 'D'"
    expect(stage.find(".lead")).to_contain_text(why)
    expect(stage.find(".readings tbody tr").first).to_contain_text("first_character")
    stage.find("details", has_text="The dataset row").locator("summary").click()
    expect(stage.find(".fields")).to_contain_text("category")


def test_an_invalid_completion_says_why_nothing_was_read(stage: Stage) -> None:
    """The reason stands at the top, and nothing is marked where nothing decided.

    The address of the sample is enough to open it.
    """
    stage.go("#/run/r0/0/sample/000018")
    expect(stage.find(".decision")).to_contain_text("INVALID")
    expect(stage.find(".decision .reason")).to_have_text("NOT_A_CHOICE")
    expect(stage.find(".decision")).to_contain_text("read nothing")
    expect(stage.page).to_have_title(re.compile("000018"))


def test_stepping_stays_within_the_selection(stage: Stage) -> None:
    """Next and previous walk through what was filtered, and the way back leads there."""
    stage.turn(f"{SAMPLES}?show=invalid&category=biology")
    stage.find("tr[data-index='0'] a").click()
    expect(stage.find(".pane")).to_contain_text("1 of 7 samples in this selection")
    for button, name in (("Next", "000018"), ("Previous", "000005")):
        stage.page.get_by_role("button", name=button).click()
        stage.expect_sample(name)
    stage.page.get_by_role("button", name="Close").click()
    stage.expect_rows("7 of 125 samples")
    stage.page.go_back()
    stage.expect_sample("000005")


def test_an_address_that_leads_nowhere_says_so(stage: Stage) -> None:
    """A wrong link is no blank page: it says what is missing and leads home."""
    routes = "run/r0/0/sample/999999 run/r9/0 run/r0/7/samples nowhere run/%E0%A4%A/0"
    for route in routes.split():
        stage.turn(f"#/{route}")
        expect(stage.find("h1")).to_have_text("This cannot be shown")
        expect(stage.find("[role=alert]")).not_to_be_empty()
        stage.find("a").click()
        expect(stage.find("h1")).to_have_text("Multiple choice questions")


def test_the_whole_page_prints(stage: Stage) -> None:
    """On paper everything is open, and there is nothing to press."""
    stage.page.emulate_media(media="print")
    for selector in ("header.site .tools", "a.skip"):
        expect(stage.page.locator(selector)).not_to_be_visible()
    stage.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert stage.find("details:not([open], .copy)").count() == 0
    stage.page.evaluate("dispatchEvent(new Event('afterprint'))")
    stage.page.emulate_media(media="screen")
    assert len(stage.page.pdf(print_background=False)) > 10_000


def test_colours_follow_the_system_until_one_chooses(report: str, open_first: OpenStage) -> None:
    """Dark where the system is dark, and as chosen from then on."""
    stage = open_first(report, color_scheme="dark")
    levels = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)"
    assert stage.page.evaluate(f"{levels}.every(level => level < 80)") is True
    stage.page.get_by_label("Theme").select_option("light")
    assert stage.page.evaluate(f"{levels}.every(level => level < 80)") is False


@pytest.mark.parametrize("width", [360, 800])
def test_the_page_fits_narrow_screens(report: str, open_stage: OpenStage, width: int) -> None:
    """Nothing is wider than the screen but tables, which scroll by themselves."""
    stage = open_stage(report, width=width)
    for route in ("#/", SAMPLES, "#/run/r0/0/sample/000003"):
        stage.go(route)
        assert stage.measure_overflow() <= 0, route


def test_no_value_of_the_program_stands_on_a_page(stage: Stage) -> None:
    """Nothing reads `null` or `undefined` where there is nothing to say."""
    for route in ("#/", SAMPLES, "#/run/r0/0/sample/000001", "#/run/r0/0/sample/000018"):
        stage.go(route)
        assert SLIPS.findall(stage.page.locator("body").inner_text()) == [], route


def test_the_policy_stops_what_would_get_in(stage: Stage) -> None:
    """Even if markup came in, no script, handler, style, image or request of it would be carried
    out.
    """
    stage.page.evaluate(
        """async () => {
            const script = document.createElement("script");
            script.textContent = "window.hit = 'script'";
            document.body.append(script);
            const image = document.createElement("div");
            image.innerHTML = "<img src=x onerror=\\"window.hit = 'handler'\\"><img src='https://injected.invalid/'>";
            document.body.append(image);
            const style = document.createElement("style");
            style.textContent = "h1 { display: none }";
            document.head.append(style);
            await fetch("https://injected.invalid/").catch(() => null);
        }"""
    )
    assert stage.page.evaluate("window.hit") is None
    expect(stage.find("h1")).to_be_visible()
    assert len(stage.watch.problems) >= 5
    for problem in stage.watch.problems:
        assert "Content Security Policy" in problem or "request" in problem
    stage.watch.problems.clear()


def test_without_scripts_the_page_says_what_to_do(report: str, open_stage: OpenStage) -> None:
    """A reader who allows no scripts is told, and told of `answerkey show`."""
    stage = open_stage(report, java_script_enabled=False)
    stage.page.goto(stage.address)
    hint = stage.page.locator("noscript code")
    expect(hint).to_be_visible()
    assert hint.inner_html() == "answerkey show RUN"


def test_trials_are_not_called_samples(tmp_path: Path, call: Call, open_first: OpenStage) -> None:
    """Counts of samples say how their trials make one verdict.

    Counts of completions are called so.
    """
    project = make_project(tmp_path / "project")
    with (project / "task.yaml").open("a", encoding="utf-8") as task:
        task.write("  trials: {num_trials: 2}\n")
    carry_out(call, "run", project, "--num-samples", 30, "--out", tmp_path / "run")
    stage = open_first(write_report(call, tmp_path / "page.html", tmp_path / "run"), offline=True)
    expect(stage.find(".counts tfoot")).to_contain_text("30")
    sentence = "A sample counts as the worst of its completions."
    expect(stage.find(".counts")).to_contain_text(sentence)
    letters = stage.find(".panel", has_text="Confusion matrix")
    expect(letters).to_contain_text("Which letter was read, of the completions with each truth.")
    first_row = stage.find(".panel", has_text="By extraction rule").locator("tbody tr").first
    expect(first_row).to_contain_text("first_character")
    expect(first_row).to_contain_text(str(stage.find(".headline .value").text_content()))
