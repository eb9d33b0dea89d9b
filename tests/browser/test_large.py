"""A report as large as a large benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from .conftest import OpenStage, write_report
from .material import Call, make_large_run

NUM_SAMPLES = 14_042
MOST_AROUND = 2_000_000  # bytes of everything that is not of the run


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


def test_fourteen_thousand_samples_stay_fluid(large: Path, open_stage: OpenStage) -> None:
    """The page around them takes at most 2 MB, and it opens, filters, sorts and searches."""
    assert measure_around(large.read_bytes()) <= MOST_AROUND
    stage = open_stage(large.as_uri(), offline=True)
    stage.go()
    stage.photograph("overview")
    totals = stage.find(".tally")
    stage.turn("#/run/r0/0/samples")
    expect(totals).to_have_text("14,042 samples")
    stage.choose("Wrong")
    expect(totals).to_contain_text(" of 14,042 samples")
    stage.find("th.col-id button").click()
    expect(stage.find("thead th.col-id")).to_have_attribute("aria-sort", "ascending")
    stage.choose("All")
    stage.page.get_by_label("Search").fill("question 14000:")
    expect(totals).to_have_text("1 of 14,042 samples")
    stage.find("tr[data-index='0'] a").click()
    expect(stage.find(".pane h2")).to_have_text("014001")
    stage.photograph("sample")
