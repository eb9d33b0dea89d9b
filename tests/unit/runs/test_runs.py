"""Laws of runs and their locks: the same in a folder and on object storage."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from answerkey.datasets import storage
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
from answerkey.runs import lock as locks
from answerkey.runs.lock import FolderLock, ObjectLock
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
    """No other process can continue it until it is closed.

    One that can be resumed keeps its journal.
    """
    with start_run(place, MANIFEST, SOURCES) as writer:
        writer.journal()
        with pytest.raises(RunError, match=r"E506.*is in use by process"):
            reopen_run(place)
        write_tasks(writer).finish(status, {})
    assert list_top(place, request) == left


def test_a_journal_in_memory_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    manifest = load_run(tmp_path / "a run").manifest
    if isinstance(stop, KeyboardInterrupt):  # it says so itself, and does not stay `running`
        stopped = {"code": None, "message": "interrupted"}
        assert (manifest["status"], manifest["stopped"]) == ("incomplete", stopped)


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


def test_unwritable_runs_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert [entry.name for entry in tmp_path.rglob("*")] == ["mine"]
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
    for name, began in (("a", "2026-01-01T00:00:00Z"), ("b", "2026-02-01T00:00:00Z")):
        (tmp_path / name).mkdir()
        begun = {"format_version": 3, "status": "running", "started_at": began}
        manifest = {**MANIFEST, **begun, "key": name}
        (tmp_path / name / "run.json").write_text(json.dumps(manifest))
    assert [run.key for run in list_runs(tmp_path)] == ["b", "a"]


# Locks.

HOLD = (
    "import sys; from pathlib import Path; from answerkey.runs.lock import FolderLock;"
    "lock = FolderLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
)


@contextmanager
def hold(folder: Path) -> Iterator[int]:
    """Yield the number of a process that holds the lock of a folder, and kill it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def test_a_second_process_is_refused_by_number(tmp_path: Path) -> None:
    """E506 names the process that holds the folder.

    A killed one holds nothing, though its file stays.
    """
    with hold(tmp_path) as pid, pytest.raises(RunError, match=f"E506.*is in use by process {pid}"):
        FolderLock(tmp_path)
    assert (tmp_path / "lock").exists()
    with closing(FolderLock(tmp_path)) as lock:
        assert lock.is_held


def test_a_released_lock_leaves_no_file(tmp_path: Path) -> None:
    """The same process is refused as well, until the lock is released.

    Releasing twice does no harm.
    """
    lock = FolderLock(tmp_path)
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    with pytest.raises(RunError, match=f"in use by process {os.getpid()}"):
        FolderLock(tmp_path)
    lock.close()
    lock.close()
    assert (lock.is_held, list(tmp_path.iterdir())) == (False, [])
    FolderLock(tmp_path).close()


def test_a_file_that_is_gone_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock on a file that the last holder has just removed counts for nothing: it is taken
    again.
    """
    flock, tries = fcntl.flock, list[int]()

    def remove_first(handle: int, operation: int) -> None:
        if not tries:
            (tmp_path / "lock").unlink()
        tries.append(handle)
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with closing(FolderLock(tmp_path)):
        assert (len(tries), (tmp_path / "lock").exists()) == (2, True)


def test_a_folder_that_cannot_be_made_cannot_be_locked(tmp_path: Path) -> None:
    """E502 says which."""
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"E502.*cannot lock"):
        FolderLock(tmp_path / "file" / "run")


@pytest.mark.parametrize("has_conditions", [True, False])
def test_one_process_at_a_time_on_object_storage(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_conditions: bool
) -> None:
    """A second one is refused (E506), also where the store cannot write under a condition."""

    def put(url: str, content: bytes, *, in_place_of: str | None) -> str | None:
        del in_place_of
        storage.put_object(url, content)
        stored = storage.find_object(url)
        return stored.mark if stored else None

    if not has_conditions:
        monkeypatch.setattr(locks, "put_new", put)
    url = f"{bucket.url}/runs/one"
    lock = ObjectLock(url, tmp_path / "here")
    for home in ("here", "elsewhere"):
        with pytest.raises(RunError, match=r"E506.*is in use by process"):
            ObjectLock(url, tmp_path / home)
    lock.close()
    lock.close()
    assert (bucket.list(), list(tmp_path.iterdir())) == ([], [])


def test_a_holder_that_is_gone_holds_nothing(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was silent for long, a dead process of this machine, nonsense.

    One taken over stops.
    """
    silent = {"host": "elsewhere", "process": 1, "token": "t", "beat_at": 0}
    dead = {**silent, "token": "ours", "beat_at": time.time()}
    url, home = f"{bucket.url}/runs/one", tmp_path / "home"
    for left in (json.dumps(silent), json.dumps(dead), "nonsense"):
        bucket.put("runs/one/lock", left.encode())
        home.mkdir()
        (home / "holder").write_text("ours")
        ObjectLock(url, home).close()
    bucket.put("runs/one/lock", json.dumps(dead).encode())
    with pytest.raises(RunError, match="E506"):
        ObjectLock(url, home)
    bucket.put("runs/one/lock", b"")
    has_beaten = threading.Event()

    def put(url: str, content: bytes) -> None:
        storage.put_object(url, content)
        has_beaten.set()

    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(locks, "put_object", put)
    held = ObjectLock(url, home)
    assert has_beaten.wait(300)  # it is written again and again while it is held
    held.require_held()
    bucket.put("runs/one/lock", json.dumps(silent).encode())
    held._thread.join(10)
    with pytest.raises(RunError, match="taken over"):
        held.require_held()
    held.close()
    assert bucket.list() == ["runs/one/lock"]
