"""Texts that try to be more than text, in every place of a run that holds text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from answerkey.text import make_visible

from .conftest import OpenStage, write_report
from .injections import INJECTIONS
from .material import NAMES, Call, list_hostile_rows
from .stage import Stage

IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))
ROWS = list(list_hostile_rows(0))
#: Each text is an option of one of the rows of the short series, and a column of all.
SHOWN = ROWS if IS_LONG else ROWS[::4]
PARTS = {
    "id": ".pane h2",
    "question": ".station:has(.choices) > .text",
    "options": ".choices .option",
    "completion": ".completion",
    "columns": ".fields dt",
}


def write_lines(text: str) -> str:
    """Return a text as a block on a page shows it: hidden characters written out, lines and tabs
    kept.
    """
    return re.sub(r"[^\t\n]+", lambda match: make_visible(match[0]), text)


def address_sample(task: str, row: dict[str, object]) -> str:
    """Return the route of a sample."""
    return f"{task}/sample/{quote(str(row['sample_id']), safe='')}"


def describe_page(row: dict[str, object]) -> dict[str, list[str]]:
    """Return what the page of a row has to show, to the letter."""
    options = row["options"]
    assert isinstance(options, list)
    return {
        "id": [make_visible(str(row["sample_id"]))],
        "question": [write_lines(str(row["question"]))],
        "options": [make_visible(option) for option in options],
        "completion": [write_lines(str(row["completion"]))],
        "columns": [make_visible(name) for name in row],
        "foreign": [],
    }


@pytest.fixture(scope="session")
def texts(hostile_runs: Path, call: Call) -> str:
    """Return the address of a report of both runs of hostile texts."""
    runs = sorted(hostile_runs.glob("texts-*"))
    return write_report(call, hostile_runs.parent / "texts.html", *runs)


@pytest.fixture(scope="session")
def names(hostile_runs: Path, call: Call) -> str:
    """Return the address of a report of the run of hostile names."""
    return write_report(call, hostile_runs.parent / "names.html", hostile_runs / "names")


@pytest.fixture
def stage(texts: str, open_first: OpenStage) -> Stage:
    """Return the first page of the report of hostile texts."""
    return open_first(texts, offline=True)


@pytest.fixture
def viewer(hostile_runs: Path, view: Callable[[Path], str], open_first: OpenStage) -> Stage:
    """Return the list of the hostile runs."""
    return open_first(view(hostile_runs))


def test_there_are_enough_of_them() -> None:
    """The corpus has at least 60 different texts."""
    assert len(set(INJECTIONS)) == len(INJECTIONS) >= 60


def test_names_of_tasks_and_models_stay_text(names: str, open_first: OpenStage) -> None:
    """Each of them is shown to the letter as a task's name and as a model's among the others, and
    alone.
    """
    stage = open_first(names, offline=True)
    assert stage.find("tbody th a").all_text_contents() == [make_visible(name) for name in NAMES]
    assert stage.list_foreign_markup() == []
    shown = [make_visible(name) for name in NAMES]
    routes = [f"#/run/r0/{number}" for number in range(len(NAMES))]
    seen = stage.walk(routes, {"task": "h1", "model": ".subtitle bdi:first-child"})
    assert seen == [{"task": [name], "model": [name], "foreign": []} for name in shown]
    turned = next(number for number, name in enumerate(NAMES) if "\u202e" in name)
    stage.turn(f"#/run/r0/{turned}")
    assert stage.page.title() == f"{shown[turned]}, {shown[turned]} · answerkey"


def test_questions_options_completions_and_columns_stay_text(stage: Stage) -> None:
    """Each is shown to the letter in the page of its sample, whose id may be one of them, too."""
    seen = stage.walk([address_sample("#/run/r0/0", row) for row in SHOWN], PARTS)
    for row, page in zip(SHOWN, seen, strict=True):
        assert page == describe_page(row)


def test_the_table_and_its_filters_stay_text(stage: Stage) -> None:
    """Ids, categories and questions in the table; categories also as values of a filter."""
    stage.turn("#/run/r0/0/samples")
    select = stage.page.get_by_label("Category")
    for text in INJECTIONS[:7]:
        select.select_option(text)
        number = sum(row["category"] == text for row in ROWS)
        expect(stage.find(".tally")).to_have_text(f"{number} of {len(ROWS)} samples")
    select.select_option("")
    stage.find("tr[data-index='0'] a").focus()
    for _ in range(12):
        stage.page.keyboard.press("PageDown")
    expect(stage.find(f"tr[data-index='{len(ROWS) - 1}']")).to_be_in_viewport()
    assert stage.list_foreign_markup() == []


def test_what_is_searched_for_stays_text(stage: Stage) -> None:
    """It is found, stands in the address, and comes back from there when the page is opened
    anew.
    """
    for text in (INJECTIONS[0], INJECTIONS[39], INJECTIONS[47], INJECTIONS[65]):
        stage.turn("#/run/r0/0/samples")
        stage.page.get_by_label("Search").fill(text)
        stage.expect_rows(f"1 of {len(ROWS)} samples")
        stage.reload()
        expect(stage.page.get_by_label("Search")).to_have_value(text)
        stage.expect_rows(f"1 of {len(ROWS)} samples")
        assert stage.list_foreign_markup() == []


def test_routes_stay_routes(stage: Stage) -> None:
    """Any text after `#` shows a page of the report or says that the link leads nowhere."""
    forms = ["{}", "#/run/{}/0", "#/run/r0/0/sample/{}", "#/run/r0/0/samples?category={}"]
    forms.append("#/compare/r0,{}")
    # Each text in one form, each form with many texts; in the long series all of them.
    routes = []
    for number, text in enumerate(INJECTIONS):
        chosen = forms if IS_LONG else [forms[number % 5]]
        routes += [form.replace("{}", text) for form in chosen]
    seen = stage.walk(routes, {"title": "h1"})
    assert [page["foreign"] for page in seen if page["foreign"]] == []
    assert all(len(page["title"]) == 1 for page in seen)


def test_a_comparison_stays_text(stage: Stage) -> None:
    """Labels, models, categories and flips of a comparison."""
    stage.turn("#/compare/r0,r1")
    links = stage.find(".flips tr[data-index] a")
    expect(links.first).to_be_visible()
    routes = links.evaluate_all("all => all.map(one => one.hash)")
    seen = stage.walk(routes, {"texts": ".flips .choices .option"})
    assert [page["foreign"] for page in seen if page["foreign"]] == []
    assert {len(page["texts"]) for page in seen} == {4}


def test_the_file_keeps_its_texts_in_its_blocks(texts: str, names: str) -> None:
    """In the file itself no `<` of a text stands as such: every element is one that answerkey
    wrote.
    """
    for address in (texts, names):
        page = Path(address.removeprefix("file://")).read_text(encoding="utf-8")
        head, *blocks = page.split('<script type="application/json"')
        for block in blocks:
            assert "<" not in block.partition(">")[2].partition("</script>")[0]
        assert not [text for text in INJECTIONS if "<" in text and text in head]
        assert page.count("</script>") == len(blocks) + 1


def test_the_viewer_shows_texts_as_texts(viewer: Stage) -> None:
    """The list, overviews, the table and samples in the viewer."""
    assert viewer.list_foreign_markup() == []
    viewer.find("table.runs tbody th a", has_text="texts-0").click()
    viewer.settle()
    route = viewer.page.evaluate("location.hash")
    rows = ROWS if IS_LONG else ROWS[::12]
    seen = viewer.walk([address_sample(route, row) for row in rows], PARTS)
    for row, page in zip(rows, seen, strict=True):
        assert page == describe_page(row)
    viewer.turn("#/")
    viewer.find("table.runs tbody th a", has_text="names").click()
    viewer.settle()
    route = viewer.page.evaluate("location.hash").rpartition("/")[0]
    # The table of each task, which costs the server little; the report above has their overviews.
    numbers = range(0, len(NAMES), 1 if IS_LONG else 3)
    routes = [f"{route}/{number}/samples" for number in numbers]
    shown = [make_visible(name) for name in NAMES]
    for number, page in zip(numbers, viewer.walk(routes, {"names": "header .dim"}), strict=True):
        assert page == {"names": [f"{shown[number]} · {shown[number]}"], "foreign": []}
    seen = viewer.walk([f"{route}/{number}" for number in (0, len(NAMES) - 1)], {"task": "h1"})
    assert seen == [{"task": [name], "foreign": []} for name in (shown[0], shown[-1])]
