"""Laws of runs: the same in a folder and on object storage."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from answerkey.errors import RunError
from answerkey.runs import (
    RunPlace,
    RunWriter,
    find_place,
    list_runs,
    load_run,
    reopen_run,
    start_run,
)
from answerkey.types import MetricValue

from .test_shapes import ENTRY

if TYPE_CHECKING:
    from tests.unit.conftest import Bucket

MANIFEST: dict[str, Any] = {
    "key": "demo",
    "display_name": "Demo",
    "notices": [],
    "tasks": [{**ENTRY, "key": "mcqa"}, {**ENTRY, "key": "other"}],
}
SOURCES: dict[str, dict[str, Any]] = {"mcqa": {"task": {}}, "other": {"task": {}}}
VALUE = MetricValue(
    "Accuracy", 0.5, 2, {"failed": 1}, (0.1, 0.9), "wilson", type="mean", scorer="s"
)
COUNTS = dict.fromkeys(("scored", "valid", "invalid", "refused", "declined", "failed", "errors"), 0)
EMPTY = ("completion_statuses", "invalid", "failed", "errors", "excluded", "letters", "categories")
TALLY = {"counts": {"samples": 2, **COUNTS}, "category_column": None} | {name: {} for name in EMPTY}
FRAME = pl.DataFrame({"sample_id": ["1", "2"], "trial": [0, 0]})


@pytest.fixture(params=["folder", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> RunPlace:
    """Return where a run may be written; nothing is there."""
    if request.param == "folder":
        return tmp_path / "run"
    bucket: Bucket = request.getfixturevalue("bucket")
    return find_place(f"{bucket.url}/runs/run")


def list_top(place: RunPlace, request: pytest.FixtureRequest) -> set[str]:
    """Return the names of what lies right in a run folder."""
    if isinstance(place, Path):
        return {path.name for path in place.iterdir()}
    bucket: Bucket = request.getfixturevalue("bucket")
    return {key.split("/")[2] for key in bucket.list("runs/run/")}


def write_tasks(run: RunWriter, *keys: str) -> RunWriter:
    """Write tasks of two chunks each."""
    for key in keys or ("mcqa", "other"):
        task = run.task(key)
        task.write_part("scores", 0, FRAME[:1])
        task.write_part("scores", 1, FRAME[1:])
        task.write_metrics([VALUE], TALLY)
    return run


def test_a_finished_run_reads_back_as_written(place: RunPlace) -> None:
    """What was written is what is read: values, tables in chunk order, status; also from memory."""
    for where in (place, None):
        changes = {"mcqa": {"counts": TALLY["counts"]}}
        run = write_tasks(start_run(where, MANIFEST, SOURCES)).finish("complete", changes)
        assert (run.status, run.path) == ("complete", where)
        assert run.tasks["mcqa"].metrics == {"Accuracy": VALUE}
        assert run.tasks["mcqa"].scores["sample_id"].to_list() == ["1", "2"]
        assert run.tasks["mcqa"].manifest["counts"] == {"samples": 2, **COUNTS}
        assert run.tasks["mcqa"].completions.is_empty()
        assert ("started_at" in run.manifest, "files" in run.manifest) == (where is not None,) * 2
        with pytest.raises(RunError, match="2 tasks"):
            _ = run.metrics


def test_a_run_that_stopped_in_the_middle_is_readable(place: RunPlace) -> None:
    """A crash leaves a run with status `running` and the tasks that were finished."""
    writer = write_tasks(start_run(place, MANIFEST, SOURCES), "mcqa")
    writer.task("other").write_part("scores", 0, FRAME)
    run = load_run(place)
    assert (run.status, list(run.tasks)) == ("running", ["mcqa"])
    assert run.metrics["Accuracy"].value == 0.5
    writer.close()


@pytest.mark.parametrize(
    ("status", "left"),
    [("complete", {"run.json", "tasks"}), ("incomplete", {"run.json", "tasks", "calls.sqlite"})],
)
def test_a_run_that_is_being_written_is_locked(
    place: RunPlace, status: str, left: set[str], request: pytest.FixtureRequest
) -> None:
    """Nobody else can go on with it until it is closed.

    One that can be resumed keeps its journal.
    """
    with start_run(place, MANIFEST, SOURCES) as writer:
        writer.journal()
        with pytest.raises(RunError, match=r"E506.*is in use by process"):
            reopen_run(place)
        write_tasks(writer).finish(status, {})
    assert list_top(place, request) == left


def test_a_journal_in_memory_ends_with_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run without a folder may call models, too: it is complete, and nothing is written
    anywhere.
    """
    monkeypatch.chdir(tmp_path)
    with start_run(None, MANIFEST, SOURCES) as writer:
        assert writer.journal().count() == (0, 0)
        assert write_tasks(writer).finish("complete", {}).status == "complete"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), RunError("E502", "no room")])
def test_a_run_that_is_stopped_says_how_to_go_on(tmp_path: Path, stop: BaseException) -> None:
    """The command to resume it is a note on whatever stopped it, and the folder is free."""
    with pytest.raises(type(stop)) as caught, start_run(tmp_path / "a run", MANIFEST, SOURCES):
        raise stop
    assert caught.value.__notes__ == [f"answerkey resume '{tmp_path / 'a run'}'"]
    reopen_run(tmp_path / "a run").close()
    told = load_run(tmp_path / "a run").manifest
    if isinstance(stop, KeyboardInterrupt):  # it says so itself, and does not stay `running`
        stopped = {"code": None, "message": "interrupted"}
        assert (told["status"], told["stopped"]) == ("incomplete", stopped)


def test_a_run_that_is_reopened_goes_on_under_its_manifest(place: RunPlace) -> None:
    """Opening changes nothing; `restart` says that it runs again; `finish` ends it."""
    first = write_tasks(start_run(place, MANIFEST, SOURCES)).finish("incomplete", {})
    again = reopen_run(place)
    assert load_run(place).status == "incomplete"
    again.restart({"python": "3.99"})
    expected = {**first.manifest, "status": "running", "python": "3.99"}
    del expected["ended_at"], expected["files"]
    assert load_run(place).manifest == expected
    assert again.finish("complete", {}).status == "complete"


def test_what_is_no_run_is_not_locked(tmp_path: Path) -> None:
    """E501; no lock file is left behind."""
    for read in (reopen_run, load_run):
        with pytest.raises(RunError, match="E501"):
            read(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is E502.

    The same command works once there is room; a folder that was there stays.
    """

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "mine").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        for name in ("mine", "new"):
            with pytest.raises(RunError, match="No space left on device"):
                start_run(tmp_path / name, MANIFEST, SOURCES)
        assert [one.name for one in tmp_path.rglob("*")] == ["mine"]
    with start_run(tmp_path / "mine", MANIFEST, SOURCES) as writer:
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(RunError, match=r"E502.*No space left"):
            writer.task("mcqa").write_metrics([VALUE], TALLY)
    assert {path.name for path in (tmp_path / "mine/tasks/mcqa").iterdir()} == {"task.json"}


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"format_version": 99}', '{"format_version": 1}', "{}"]
)
def test_a_damaged_or_newer_run_is_e503(tmp_path: Path, content: str) -> None:
    """A run that cannot be understood is refused, not guessed at."""
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunError, match="E503"):
        load_run(tmp_path)


def test_numbers_that_json_does_not_know_are_never_written(tmp_path: Path) -> None:
    """NaN never reaches a file."""
    with (
        start_run(tmp_path / "run", MANIFEST, SOURCES) as writer,
        pytest.raises(ValueError, match="JSON compliant"),
    ):
        writer.task("mcqa").write_metrics([MetricValue("x", float("nan"), 1)], TALLY)


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    """The list is ordered by start time, newest first, and other folders are passed over."""
    (tmp_path / "no-run").mkdir()
    for name, time in (("a", "2026-01-01T00:00:00Z"), ("b", "2026-02-01T00:00:00Z")):
        (tmp_path / name).mkdir()
        begun = {"format_version": 3, "status": "running", "started_at": time}
        manifest = {**MANIFEST, **begun, "key": name}
        (tmp_path / name / "run.json").write_text(json.dumps(manifest))
    assert [run.key for run in list_runs(tmp_path)] == ["b", "a"]
