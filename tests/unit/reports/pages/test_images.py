"""Laws of images in the page and the viewer: shown from the files of the dataset while these are
the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from answerkey.reports import html, sample_view
from answerkey.runs import Run, load_run

from .conftest import open_table

ROOT = Path(__file__).parents[4]
CIRCLE = "[image: image/png, 351 bytes, sha256 2189284913ea]"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of the example."""
    return Path(shutil.copytree(ROOT / "examples/images", tmp_path / "project"))


@pytest.fixture
def make(project: Path, tmp_path: Path, call: Callable[..., Any]) -> Callable[[], Run]:
    """Return a function that runs the project."""

    def run() -> Run:
        done = call("run", project, "--out", tmp_path / "run")
        assert done.code == 0, done.err
        return load_run(tmp_path / "run")

    return run


def find_images(run: Run, room: int = sample_view.ROOM) -> list[Any]:
    """Return the images of each row."""
    source = open_table(run).source
    (part,) = source.read()
    return [sample["images"] for _, sample in sample_view.view_samples(source, part, room)]


def test_an_image_is_shown_with_its_sample(make: Callable[[], Run]) -> None:
    """It stands in the sample as a data URI; the prompt tells of it in a line."""
    run = make()
    [first, second] = find_images(run)
    [circle] = first
    assert circle["name"] == CIRCLE
    assert circle["data"].startswith("data:image/png;base64,iVBORw0KGgo")
    assert second[0]["data"] != circle["data"]
    prompt = open_table(run).describe(0)["prompt"]
    assert prompt[0]["text"].startswith(f"{CIRCLE}\nWhich shape is this?\nA. circle")


def test_an_image_that_is_gone_or_another_one_is_told_in_words(
    make: Callable[[], Run], project: Path
) -> None:
    """What is shown is what was sent, or nothing."""
    run = make()
    (project / "pictures/circle.png").write_bytes((project / "pictures/square.png").read_bytes())
    [[circle], [square]] = find_images(run)
    assert (circle["data"], square["data"] is None) == (None, False)
    (project / "questions.jsonl").unlink()
    assert find_images(run)[0] == [{"name": CIRCLE, "data": None}]


def test_a_page_has_room_for_small_images_alone(
    make: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has at most a hundredth of the room, which is shared by all."""
    run = make()
    monkeypatch.setattr(html, "MIN_PACKED", 1_000_000)
    for room in (35_000, 21_300):
        [[circle], [square]] = find_images(run, room)
        assert (circle["data"], square["data"] is None) == (None, False)
    source = open_table(run).source
    for room, is_shown in ((20_000_000, True), (100, False)):
        _, [block] = html.embed_samples(source, range(2), room=room)
        assert ("data:image/png" in block) is is_shown
