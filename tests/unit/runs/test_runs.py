"""Laws of runs on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from answerkey.errors import RunError
from answerkey.runs import RunWriter, list_runs, load_run, reopen_run, start_run
from answerkey.types import MetricValue

MANIFEST: dict[str, Any] = {"key": "demo", "tasks": [{"key": "mcqa"}, {"key": "other"}]}
SOURCES: dict[str, dict[str, Any]] = {"mcqa": {"task": {}}, "other": {"task": {}}}
VALUE = MetricValue("Accuracy", 0.5, 2, {"failed": 1}, (0.1, 0.9), "wilson", type="mean", scorer="s")
COUNTS = dict.fromkeys(("scored", "valid", "invalid", "refused", "failed", "errors"), 0)
EMPTY = ("completion_statuses", "invalid", "failed", "errors", "excluded", "letters", "categories")
TALLY = {"counts": {"samples": 2, **COUNTS}, "category_column": None} | {name: {} for name in EMPTY}
FRAME = pl.DataFrame({"sample_id": ["1", "2"], "trial": [0, 0]})


def write_task(run: RunWriter, key: str) -> None:
    """Write one task of two shards."""
    task = run.task(key)
    task.write_scores(0, FRAME[:1])
    task.write_scores(1, FRAME[1:])
    task.write_metrics([VALUE], TALLY)


def test_a_finished_run_reads_back_as_written(tmp_path: Path) -> None:
    """What was written is what is read: values, tables in shard order, status."""
    writer = start_run(tmp_path / "run", MANIFEST, SOURCES)
    write_task(writer, "mcqa")
    write_task(writer, "other")
    run = writer.finish("complete", {"mcqa": {"counts": {"samples": 2}}})
    assert run.status == "complete"
    assert run.tasks["mcqa"].metrics == {"Accuracy": VALUE}
    assert run.tasks["mcqa"].scores["sample_id"].to_list() == ["1", "2"]
    assert run.tasks["mcqa"].manifest["counts"] == {"samples": 2}
    assert run.tasks["mcqa"].completions.is_empty()


def test_a_run_that_stopped_in_the_middle_is_readable(tmp_path: Path) -> None:
    """A crash leaves a run with status `running` and the tasks that were finished."""
    writer = start_run(tmp_path / "run", MANIFEST, SOURCES)
    write_task(writer, "mcqa")
    writer.task("other").write_scores(0, FRAME)
    run = load_run(tmp_path / "run")
    assert run.status == "running"
    assert list(run.tasks) == ["mcqa"]


def test_a_run_that_is_being_written_is_locked(tmp_path: Path) -> None:
    """Nobody else can go on with it until it is closed; a finished one has no lock and no journal."""
    with start_run(tmp_path / "run", MANIFEST, SOURCES) as writer:
        writer.journal()
        with pytest.raises(RunError, match="is in use by process") as caught:
            reopen_run(tmp_path / "run")
        assert caught.value.code == "E506"
        write_task(writer, "mcqa")
        write_task(writer, "other")
        writer.finish("complete", {})
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "tasks"}


def test_an_incomplete_run_keeps_its_journal(tmp_path: Path) -> None:
    """It can be resumed, so what was said is kept; the lock is not."""
    with start_run(tmp_path / "run", MANIFEST, SOURCES) as writer:
        writer.journal()
        write_task(writer, "mcqa")
        write_task(writer, "other")
        writer.finish("incomplete", {})
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "tasks", "journal.sqlite"}


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), RunError("E502", "no room")])
def test_a_run_that_is_stopped_says_how_to_go_on(tmp_path: Path, stop: BaseException) -> None:
    """The command to resume it is a note on whatever stopped it, and the folder is free."""
    with pytest.raises(type(stop)) as caught, start_run(tmp_path / "a run", MANIFEST, SOURCES):
        raise stop
    assert caught.value.__notes__ == [f"answerkey resume '{tmp_path / 'a run'}'"]
    reopen_run(tmp_path / "a run").close()


def test_a_run_that_is_interrupted_is_incomplete_wherever_it_was(tmp_path: Path) -> None:
    """It says so itself, and does not stay `running`."""
    with (
        pytest.raises(KeyboardInterrupt),
        start_run(tmp_path / "run", MANIFEST, SOURCES),
    ):
        raise KeyboardInterrupt
    told = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (told["status"], told["stopped"]) == ("incomplete", {"code": None, "message": "interrupted"})


def test_a_run_that_is_reopened_goes_on_under_its_manifest(tmp_path: Path) -> None:
    """Opening changes nothing; `restart` says that it runs again; `finish` ends it."""
    writer = start_run(tmp_path / "run", MANIFEST, SOURCES)
    write_task(writer, "mcqa")
    write_task(writer, "other")
    first = writer.finish("incomplete", {})
    again = reopen_run(tmp_path / "run")
    assert load_run(tmp_path / "run").status == "incomplete"
    again.restart({"python": "3.99"})
    assert load_run(tmp_path / "run").manifest == {
        **{name: value for name, value in first.manifest.items() if name not in {"ended_at", "files"}},
        "status": "running",
        "python": "3.99",
    }
    assert again.finish("complete", {}).status == "complete"


def test_a_folder_that_is_no_run_is_not_locked(tmp_path: Path) -> None:
    """Reopening it leaves no lock file behind."""
    with pytest.raises(RunError) as caught:
        reopen_run(tmp_path)
    assert caught.value.code == "E501"
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_be_started_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command works once there is room; a folder that was there before stays."""

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "mine").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        for name in ("mine", "new"):
            with pytest.raises(RunError, match="No space left on device"):
                start_run(tmp_path / name, MANIFEST, SOURCES)
    assert [one.name for one in tmp_path.rglob("*")] == ["mine"]
    start_run(tmp_path / "mine", MANIFEST, SOURCES).close()


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    """A run never overwrites anything."""
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(RunError, match="not empty") as caught:
        start_run(tmp_path, MANIFEST, SOURCES)
    assert caught.value.code == "E502"


def test_a_write_that_fails_leaves_no_file_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is E502, and the final name does not appear."""
    writer = start_run(tmp_path / "run", MANIFEST, SOURCES)

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RunError, match="No space left") as caught:
        writer.task("mcqa").write_metrics([VALUE], TALLY)
    assert caught.value.code == "E502"
    names = {path.name for path in (tmp_path / "run" / "tasks" / "mcqa").iterdir()}
    assert names == {"scores", "completions", "task.json"}


@pytest.mark.parametrize(
    ("content", "code"),
    [("{", "E503"), ("[]", "E503"), ('{"format_version": 99}', "E503"), ("{}", "E503")],
)
def test_a_damaged_or_newer_run_is_e503(tmp_path: Path, content: str, code: str) -> None:
    """A run that cannot be understood is refused, not guessed at."""
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunError) as caught:
        load_run(tmp_path)
    assert caught.value.code == code


def test_a_folder_without_run_json_is_e501(tmp_path: Path) -> None:
    """Only a folder with `run.json` is a run."""
    with pytest.raises(RunError) as caught:
        load_run(tmp_path)
    assert caught.value.code == "E501"


def test_numbers_that_json_does_not_know_are_never_written(tmp_path: Path) -> None:
    """NaN never reaches a file."""
    writer = start_run(tmp_path / "run", MANIFEST, SOURCES)
    with pytest.raises(ValueError, match="JSON compliant"):
        writer.task("mcqa").write_metrics([MetricValue("x", float("nan"), 1)], TALLY)


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    """The list is ordered by start time, newest first, and other folders are passed over."""
    (tmp_path / "no-run").mkdir()
    for name, time in (("a", "2026-01-01T00:00:00Z"), ("b", "2026-02-01T00:00:00Z")):
        (tmp_path / name).mkdir()
        manifest = {"format_version": 2, "key": name, "status": "running", "started_at": time, "tasks": []}
        (tmp_path / name / "run.json").write_text(json.dumps(manifest))
    assert [run.key for run in list_runs(tmp_path)] == ["b", "a"]


def test_metrics_of_a_run_with_several_tasks_need_the_task(tmp_path: Path) -> None:
    """`run.metrics` is for runs of one task; with two it says where to look."""
    writer = start_run(tmp_path / "run", MANIFEST, SOURCES)
    write_task(writer, "mcqa")
    assert load_run(tmp_path / "run").metrics["Accuracy"].value == 0.5
    write_task(writer, "other")
    with pytest.raises(RunError, match="2 tasks"):
        _ = load_run(tmp_path / "run").metrics


def test_a_run_in_memory_has_the_same_shape() -> None:
    """A run without a place is the same run without a folder."""
    writer = start_run(None, {**MANIFEST, "tasks": [{"key": "mcqa"}]}, SOURCES)
    write_task(writer, "mcqa")
    run = writer.finish("complete", {})
    assert run.path is None
    assert run.metrics["Accuracy"] == VALUE
    assert run.tasks["mcqa"].scores.height == 2
