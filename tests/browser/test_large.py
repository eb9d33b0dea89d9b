"""A report as large as a large benchmark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .conftest import OpenStage, write_report
from .material import Call, make_large_run

NUM_SAMPLES = 14_042
MOST_AROUND = 2_000_000  # bytes of everything that is not of the run
# In milliseconds since the page was asked for: document parsed, all loaded, first text painted, and now.
MARKS = """() => {
    const [page] = performance.getEntriesByType("navigation");
    const paint = performance.getEntriesByType("paint").find(one => one.name === "first-contentful-paint");
    const kept = performance.memory ? performance.memory.usedJSHeapSize : null;
    return {parsed: page.domInteractive, loaded: page.loadEventEnd, painted: paint && paint.startTime,
        shown: performance.now(), heap: kept};
}"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    """Return a report file of 14,042 samples."""
    folder = tmp_path_factory.mktemp("large")
    run = make_large_run(folder, call, NUM_SAMPLES)
    write_report(call, folder / "large.html", run)
    return folder / "large.html"


def measure_around(page: bytes) -> int:
    """Return how many bytes of a page are not in a block of the run's own texts and numbers."""
    blocks = page.split(b'<script type="application/json"')[1:]
    assert len(blocks) > NUM_SAMPLES / 200
    return len(page) - sum(len(block.partition(b"</script>")[0]) for block in blocks)


@contextmanager
def clock(times: dict[str, float], name: str) -> Iterator[None]:
    """Note how many milliseconds something takes, as seen from here."""
    start = time.perf_counter()
    yield
    times[name] = 1000 * (time.perf_counter() - start)


def test_fourteen_thousand_samples_stay_fluid(large: Path, open_stage: OpenStage) -> None:
    """The page around them takes at most 2 MB, and it opens, filters, sorts and searches.

    How long each takes is noted beside the pictures, and not judged.
    """
    assert measure_around(large.read_bytes()) <= MOST_AROUND
    stage = open_stage(large.as_uri(), offline=True)
    stage.go()
    times = {"bytes": large.stat().st_size, **stage.page.evaluate(MARKS)}
    stage.photograph("overview")
    totals = stage.find(".tally")
    with clock(times, "table"):
        stage.turn("#/run/r0/0/samples")
    expect(totals).to_have_text("14,042 samples")
    with clock(times, "filter"):
        stage.choose("Wrong")
        expect(totals).to_contain_text(" of 14,042 samples")
    with clock(times, "sort"):
        stage.find("th.col-id button").click()
        expect(stage.find("thead th.col-id")).to_have_attribute("aria-sort", "ascending")
    stage.choose("All")
    with clock(times, "search"):
        stage.page.get_by_label("Search").fill("question 14000:")
        expect(totals).to_have_text("1 of 14,042 samples")
    with clock(times, "sample"):
        stage.find("tr[data-index='0'] a").click()
        expect(stage.find("h1")).to_have_text("014001")
    stage.photograph("sample")
    (stage.folder / "times.json").write_text(json.dumps(times, indent=2), encoding="utf-8")
