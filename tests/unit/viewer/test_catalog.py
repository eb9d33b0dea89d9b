"""Laws of the catalog: which runs there are, and what is read how often."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from answerkey.errors import RunError, ServeError
from answerkey.runs.store import JOURNAL_NAME
from answerkey.viewer import catalog as catalog_module
from answerkey.viewer.catalog import Catalog, is_running, make_id

#: No process has this number.
GONE = 4194305


def change_status(run: Path, status: str) -> None:
    """Let a run say that it has another status."""
    manifest = json.loads((run / "run.json").read_text(encoding="utf-8"))
    (run / "run.json").write_text(json.dumps(manifest | {"status": status}), encoding="utf-8")


def test_ids_are_lasting_and_tell_nothing() -> None:
    """The same name has the same id at every start; the name is not in it."""
    assert make_id("first") == "ra7937b64b8caa58f"
    assert make_id("first") != make_id("First")


def test_a_catalog_is_of_a_folder(runs: Path, tmp_path: Path) -> None:
    """A run folder is one of one; what is no folder is E501 before anything is served."""
    assert [run["label"] for run in Catalog(runs / "first").list()] == ["first"]
    with pytest.raises(RunError, match=r"^error\[E501\]"):
        Catalog(tmp_path / "nowhere")


def test_new_runs_appear_and_gone_ones_go(catalog: Catalog, runs: Path) -> None:
    """The folder is looked at anew each time."""
    shutil.copytree(runs / "first", runs / "third")
    assert {run["label"] for run in catalog.list()} == {"first", "second", "third"}
    shutil.rmtree(runs / "third")
    assert {run["label"] for run in catalog.list()} == {"first", "second"}
    with pytest.raises(ServeError):
        catalog.find(make_id("third"))
    entry = catalog.find(make_id("first"))
    shutil.rmtree(runs / "first")  # between the list and the click
    with pytest.raises(RunError, match=r"^error\[E501\]"):
        catalog.open(entry)


def test_overviews_read_no_completion(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has all that the table of samples needs, as the whole overview says it."""
    whole = catalog.describe(make_id("first"))["tasks"][0]
    monkeypatch.setattr(catalog_module, "audit_task", None)
    brief = catalog.describe(make_id("first"), is_brief=True)["tasks"][0]
    for name in ("key", "display_name", "model", "counts", "rows"):
        assert brief[name] == whole[name]


def test_an_incomplete_run_shows_no_number(catalog: Catalog, runs: Path) -> None:
    """It is not shown in passing."""
    change_status(runs / "first", "incomplete")
    listed = {run["label"]: run for run in catalog.list()}["first"]
    numbers = [listed["tasks"][0][name] for name in ("value", "interval", "metric")]
    assert (listed["status"], numbers) == ("incomplete", [None, None, None])


@pytest.mark.parametrize(
    ("pid", "status"),
    [(os.getpid(), "running"), (GONE, "incomplete")],
    ids=["its process lives", "its process is gone"],
)
def test_runs_live_with_their_process(catalog: Catalog, runs: Path, pid: int, status: str) -> None:
    """Whatever its `run.json` says; a lock that a killed process left behind changes nothing."""
    change_status(runs / "first", "running")
    (runs / "first" / "lock").write_text(f"{pid}\n", encoding="ascii")
    assert not (runs / "first" / JOURNAL_NAME).exists()
    assert {run["label"]: run["status"] for run in catalog.list()}["first"] == status
    assert catalog.describe(make_id("first"))["status"] == status


def test_a_journal_that_grows_is_worked_on_wherever_that_is(tmp_path: Path) -> None:
    """The process may be one of another machine; an old journal says nothing."""
    (tmp_path / "lock").write_text(f"{GONE}\n", encoding="ascii")
    (tmp_path / "calls.sqlite").write_bytes(b"")
    assert is_running(tmp_path)
    os.utime(tmp_path / "calls.sqlite", (0, 0))
    assert not is_running(tmp_path)
