"""Laws of images in the page and the viewer: shown from the files of the dataset while these are
the same.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ruamel.yaml import YAML

from answerkey.models.images import write_content
from answerkey.reports import html, sample_view
from answerkey.reports.overview import dump
from answerkey.runs import Run, load_run

from .conftest import open_table, write_lines

ROOT = Path(__file__).parents[4]
CIRCLE = "[image: image/png, 351 bytes, sha256 2189284913ea]"
SQUARE = "[image: image/png, 213 bytes, sha256 68539193ca52]"
ADDRESS = "https://images.example/<b>cat.png"


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
    found = [
        pair for part in source.read() for pair in sample_view.view_samples(source, part, room)
    ]
    return [dump(sample).get("images") for _, sample in found]


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
    assert [[one["data"] is None for one in row] for row in find_images(run)] == [[True], [False]]
    (project / "questions.jsonl").unlink()
    assert find_images(run)[0] == [{"name": CIRCLE, "data": None}]


def test_a_page_has_room_for_small_images_alone(
    make: Callable[[], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has at most a hundredth of the room, which is shared by all."""
    run = make()
    monkeypatch.setattr(html, "MIN_PACKED", 1_000_000)
    assert [[one["data"] is None for one in row] for row in find_images(run, 35_000)] == [
        [True],
        [False],
    ]
    assert [[one["data"] is None for one in row] for row in find_images(run, 21_300)] == [
        [True],
        [False],
    ]
    source = open_table(run).source
    for room, is_shown in ((20_000_000, True), (100, False)):
        _, [block] = html.embed_samples(source, range(2), room=room)
        assert ("data:image/png" in block) is is_shown


def test_room_is_used_up(make: Callable[[], Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """What no longer fits is told in words."""
    run = make()
    monkeypatch.setattr(sample_view, "IMAGE_PART", 1)
    assert [[one["data"] is None for one in row] for row in find_images(run, 400)] == [
        [False],
        [True],
    ]


def test_an_address_stays_text(make: Callable[[], Run], project: Path) -> None:
    """Nothing is fetched for a page."""
    rows = [json.loads(line) for line in (project / "questions.jsonl").read_text().splitlines()]
    write_lines(project / "questions.jsonl", [{**row, "picture": ADDRESS} for row in rows])
    assert find_images(make())[0] == [{"name": f"[image: {ADDRESS}]", "data": None}]


def test_images_of_examples_are_shown_before_that_of_the_question(
    make: Callable[[], Run], project: Path
) -> None:
    """They lie beside their own dataset; where it is gone, nothing is shown."""
    yaml = YAML()
    task = yaml.load(project / "task.yaml")
    solver = task["definition"]["solver"]
    solver["examples"] = {"dataset": "shown", "num_examples": 1}
    content = [{"type": "image", "image": "{{ example.picture }}"}]
    example = {"role": "user", "content": content, "for_each": "examples"}
    solver["input_builder"]["input_messages"].insert(0, example)
    yaml.dump(task, project / "task.yaml")
    run = yaml.load(project / "run.yaml")
    row = {"picture": "pictures/square.png", "question": "?", "options": [], "answer": "A"}
    source = {"type": "local", "file_path": "shown.jsonl"}
    write_lines(project / "shown.jsonl", [row])
    run["datasets"].append({"key": "shown", "display_name": "Shown", "source": source})
    yaml.dump(run, project / "run.yaml")
    made = make()
    assert [one["name"] for one in find_images(made)[0]] == [SQUARE, CIRCLE]
    assert None not in [one["data"] for one in find_images(made)[0]]
    assert open_table(made).describe(0)["prompt"][0]["text"] == SQUARE
    (project / "shown.jsonl").unlink()
    assert [one["data"] for one in find_images(made)[0]] == [None, None]


def test_bytes_in_a_row_are_told_in_words(
    make: Callable[[], Run], project: Path, tmp_path: Path, call: Callable[..., Any]
) -> None:
    """Columns of bytes do not fill the page, nor the terminal."""
    raw = (project / "pictures/circle.png").read_bytes()
    rows = [json.loads(line) for line in (project / "questions.jsonl").read_text().splitlines()]
    frame = pl.DataFrame([{**row, "picture": {"bytes": raw, "path": None}} for row in rows])
    frame.write_parquet(project / "questions.parquet")
    text = (project / "run.yaml").read_text().replace("questions.jsonl", "questions.parquet")
    (project / "run.yaml").write_text(text)
    made = make()
    fields = {one["name"]: one["text"] for one in open_table(made).describe(0)["fields"]}
    assert fields["picture"] == '{"bytes": "[image in base64: about 351 bytes]", "path": null}'
    assert find_images(made)[0][0]["data"] is not None
    shown = call("explain", tmp_path / "run", "shape").out
    assert '  picture    {"bytes": "[image in base64: about 351 bytes]", "path": null}' in shown


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("A", None),
        ([{"type": "text", "text": "A"}], None),
        (["A", {"type": "image"}], "A\n[image: None, None bytes, sha256 None]"),
        (
            [{"type": "image", "url": "javascript:1"}, {"type": "audio"}],
            "[image: javascript:1]\nNone",
        ),
    ],
)
def test_stored_parts_of_any_shape_are_written(content: object, text: str | None) -> None:
    """A run folder may come from anywhere."""
    assert write_content(content) == text
