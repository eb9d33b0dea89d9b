"""A report as large as a large benchmark."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Route, expect

from .conftest import OpenStage, write_report
from .material import Call, make_large_run
from .stage import Stage

#: The viewer takes more than 10,000 for large; the long series has as many as a large benchmark.
IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))
NUM_SAMPLES, NUM_REPORTED = (14_042, 14_042) if IS_LONG else (10_042, 4_042)
MOST_AROUND = 2_000_000  # bytes of everything that is not of the run
MOST_ASKED = 100  # rows of one request


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    """Return a report file of many samples."""
    folder = tmp_path_factory.mktemp("report")
    write_report(call, folder / "large.html", make_large_run(folder, call, NUM_REPORTED))
    return folder / "large.html"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    """Return a folder with the run of all samples."""
    return make_large_run(tmp_path_factory.mktemp("large"), call, NUM_SAMPLES).parent


def list_asked(requests: list[str]) -> list[tuple[int, int]]:
    """Return where each request for rows begins, and how many it asks for."""
    addresses = [urlsplit(request) for request in requests]
    queries = [parse_qs(address.query) for address in addresses if address.path.endswith("/rows")]
    return [(int(query["offset"][0]), int(query["limit"][0])) for query in queries]


def search(stage: Stage, total: str, number: int) -> None:
    """Look at wrong samples, then for a question, and open it."""
    stage.choose("Wrong")
    expect(stage.find(".tally")).to_contain_text(f" of {total}")
    stage.choose("All")
    stage.page.get_by_label("Search").fill(f"question {number}:")
    stage.expect_rows(f"1 of {total}")
    stage.find("tr[data-index='0'] a").click()
    stage.expect_sample(f"{number + 1:06}")


def measure_around(page: bytes) -> int:
    """Return how many bytes of a page are not in a block of the run's own texts and numbers."""
    blocks = page.split(b'<script type="application/json"')[1:]
    assert len(blocks) > NUM_REPORTED / 200
    return len(page) - sum(len(block.partition(b"</script>")[0]) for block in blocks)


def test_many_samples_stay_fluid(large: Path, open_first: OpenStage) -> None:
    """The page around them takes at most 2 MB, and it opens, filters, sorts and searches."""
    assert measure_around(large.read_bytes()) <= MOST_AROUND
    total, number = f"{NUM_REPORTED:,} samples", NUM_REPORTED - 42
    stage = open_first(large.as_uri(), offline=True)
    stage.turn("#/run/r0/0/samples")
    stage.expect_rows(total)
    stage.find("th.col-id button").click()
    expect(stage.find("thead th.col-id")).to_have_attribute("aria-sort", "ascending")
    search(stage, total, number)


def test_a_large_run_is_shown_before_its_audit_is_made(
    runs: Path, view: Callable[[Path], str], open_stage: OpenStage
) -> None:
    """What the run itself counted stands there at once.

    What the audit finds takes its place later.
    """
    stage = open_stage(view(runs))
    held: list[Route] = []
    stage.page.route(re.compile(r"/api/runs/r\w+$"), lambda route: held.append(route))  # noqa: PLW0108 - no builtin
    stage.go()
    stage.find("table.runs tbody th a").click()
    findings = stage.find(".findings")
    reread = f"1,000 of {NUM_SAMPLES:,} completions, drawn at random, were read again"
    expect(findings).to_contain_text(reread)
    stage.page.evaluate("scrollTo(0, 300)")
    assert len(held) == 1
    held[0].continue_()
    expect(findings).not_to_contain_text("were read again")
    assert stage.page.evaluate("scrollY") == 300


def test_the_viewer_reads_the_rows_in_sight_alone(
    runs: Path, view: Callable[[Path], str], open_stage: OpenStage
) -> None:
    """Opening, the last row, a filter, a search and an open sample ask for a page of rows each."""
    stage = open_stage(view(runs))
    total, number = f"{NUM_SAMPLES:,} samples", NUM_SAMPLES - 42
    stage.go()
    stage.find("table.runs tbody th a").click()
    stage.page.locator("main .headline").wait_for()
    stage.turn(stage.page.evaluate("location.hash") + "/samples")
    stage.page.keyboard.press("j")
    stage.page.keyboard.press("End")
    expect(stage.page.locator(":focus")).to_have_text(f"{NUM_SAMPLES:06}")
    search(stage, total, number)
    requests = list_asked(stage.watch.requests)
    assert max(limit for _, limit in requests) <= MOST_ASKED
    assert max(offset for offset, _ in requests) == NUM_SAMPLES // MOST_ASKED * MOST_ASKED
    assert sum(limit for _, limit in requests) <= 10 * MOST_ASKED
