"""Images of prompts, in the report and in the viewer: shown from their bytes, and nothing is
fetched.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.projects import write_rows

from .conftest import OpenStage, write_report
from .material import ROOT, Call, carry_out
from .stage import Stage

ADDRESS = "https://injected.invalid/x.png"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    """Return a folder with a run of the example, of which one more sample has an address."""
    folder = tmp_path_factory.mktemp("images")
    project = Path(shutil.copytree(ROOT / "examples" / "images", folder / "project"))
    file = project / "questions.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows.append({**rows[0], "sample_id": "far", "picture": ADDRESS})
    write_rows(file, rows)
    carry_out(call, "run", project, "--out", folder / "runs" / "pictures")
    return folder / "runs"


def look(stage: Stage, base: str) -> None:
    """Look at a sample with an image and at one with an address, on a wide and on a narrow
    screen.
    """
    stage.turn(f"{base}/sample/shape")
    image = stage.find(".picture")
    expect(image).to_be_visible()
    expect(image).to_have_attribute("alt", "[image: image/png, 351 bytes, sha256 2189284913ea]")
    assert image.evaluate("one => [one.complete, one.naturalWidth]") == [True, 96]
    for width in (1440, 390):
        stage.page.set_viewport_size({"width": width, "height": 900})
        box = image.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width
    assert stage.list_foreign_markup() == []
    stage.turn(f"{base}/sample/far")
    expect(stage.find(".station", has_text="Question").first).to_contain_text(f"[image: {ADDRESS}]")
    expect(image).to_have_count(0)


def test_the_report_shows_images_of_prompts(runs: Path, open_first: OpenStage, call: Call) -> None:
    """They are in the file; an address stays text."""
    address = write_report(call, runs.parent / "images.html", runs / "pictures")
    look(open_first(address, offline=True), "#/run/r0/0")


def test_the_viewer_shows_the_images_of_prompts(
    runs: Path, view: Callable[[Path], str], open_first: OpenStage
) -> None:
    """They come with the sample; nothing else is asked for."""
    stage = open_first(view(runs))
    stage.find("a", has_text="pictures").first.click()
    stage.settle()
    look(stage, "#" + stage.page.url.partition("#")[2].rpartition("/")[0] + "/0")


def test_only_image_bytes_can_be_a_source(runs: Path, open_stage: OpenStage, call: Call) -> None:
    """The page refuses any other `src`, whatever a run says."""
    address = write_report(call, runs.parent / "images.html", runs / "pictures")
    stage = open_stage(address, offline=True)
    stage.go()
    tried = ["https://injected.invalid/", "data:image/svg+xml;base64,PHN2Zz4="]
    tried += ["data:text/html,x", "javascript:1"]
    script = """values => values.map(value => {
        try { ak.core.el("img", { src: value }); return "made"; } catch (error) { return error.message; }
    })"""  # noqa: E501 - the text as it is written
    refused = "the attribute src is not set here"
    assert stage.page.evaluate(script, tried) == [refused] * 4
    assert stage.page.evaluate(script, ["data:image/gif;base64,R0lGODlh"]) == ["made"]
