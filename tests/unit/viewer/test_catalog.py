"""Laws of the catalog: which runs there are, and what is read how often."""

from __future__ import annotations

import json
import os
import shutil
import threading
from functools import partial
from pathlib import Path

import pytest

from answerkey.errors import RunError, ServeError
from answerkey.reports import overview
from answerkey.runs import Run, load_run
from answerkey.runs.store import JOURNAL_NAME
from answerkey.viewer import catalog as module
from answerkey.viewer.catalog import Cache, Catalog, make_id


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
    assert [one["label"] for one in Catalog(runs / "first").list()] == ["first"]
    with pytest.raises(RunError) as caught:
        Catalog(tmp_path / "nowhere")
    assert caught.value.code == "E501"


def test_new_runs_appear_and_gone_ones_go(catalog: Catalog, runs: Path) -> None:
    """The folder is looked at anew each time."""
    shutil.copytree(runs / "first", runs / "third")
    assert {one["label"] for one in catalog.list()} == {"first", "second", "third"}
    shutil.rmtree(runs / "third")
    assert {one["label"] for one in catalog.list()} == {"first", "second"}
    with pytest.raises(ServeError):
        catalog.find(make_id("third"))


def test_runs_of_several_models_are_listed_with_their_folder(catalog: Catalog, runs: Path) -> None:
    """They lie one folder deeper; in that folder itself they are known by their own names."""
    shutil.copytree(runs / "first", runs / "several" / "1-first")
    assert {one["label"] for one in catalog.list()} == {"first", "second", "several/1-first"}
    assert [one["label"] for one in Catalog(runs / "several").list()] == ["1-first"]


def test_a_run_that_is_gone_is_said_to_be_gone(catalog: Catalog, runs: Path) -> None:
    """Between the list and the click it may vanish."""
    entry = catalog.find(make_id("first"))
    shutil.rmtree(runs / "first")
    with pytest.raises(RunError) as caught:
        catalog.open(entry)
    assert caught.value.code == "E501"


def test_a_run_that_cannot_be_read_is_listed_with_the_reason(catalog: Catalog, runs: Path) -> None:
    """One damaged run does not hide the others."""
    (runs / "first" / "run.json").write_text("{", encoding="utf-8")
    listed = {one["label"]: one for one in catalog.list()}
    assert (listed["first"]["status"], listed["second"]["status"]) == ("unreadable", "complete")
    assert "run.json" in listed["first"]["error"]


def test_what_did_not_change_is_not_read_again(
    catalog: Catalog, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of runs that is asked for again looks at file times alone.

    A changed run is read anew.
    """
    catalog.list()
    read: list[Path] = []

    def load(path: Path) -> Run:
        read.append(path)
        return load_run(path)

    monkeypatch.setattr(module, "load_summary", load)
    catalog.list()
    assert read == []
    manifest = runs / "first" / "run.json"
    os.utime(manifest, ns=(1, 1))
    catalog.list()
    assert read == [runs / "first"]


def test_the_brief_overview_reads_no_completion_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has all that the table of samples needs, as the whole overview says it."""
    whole = catalog.describe(make_id("first"))["tasks"][0]
    monkeypatch.setattr(overview, "audit_task", None)
    brief = catalog.describe(make_id("first"), is_brief=True)["tasks"][0]
    for name in ("key", "display_name", "model", "counts", "rows"):
        assert brief[name] == whole[name]


def test_a_number_of_a_run_that_is_not_complete_is_no_number(catalog: Catalog, runs: Path) -> None:
    """It is not shown in passing."""
    change_status(runs / "first", "incomplete")
    listed = {one["label"]: one for one in catalog.list()}["first"]
    numbers = [listed["tasks"][0][name] for name in ("value", "interval", "metric")]
    assert (listed["status"], numbers) == ("incomplete", [None, None, None])


def test_a_run_under_way_says_how_far_it_is(catalog: Catalog, runs: Path) -> None:
    """It is running while its process lives; what is done is counted from outside."""
    change_status(runs / "first", "running")
    (runs / "first" / "lock").write_text(f"{os.getpid()}\n", encoding="ascii")
    listed = {one["label"]: one for one in catalog.list()}["first"]
    assert listed["status"] == "running"
    assert listed["progress"] == {"done": 4, "total": 4, "calls": 0, "failed": 0}
    assert catalog.describe(make_id("first"))["progress"] == listed["progress"]


def test_a_run_whose_process_is_gone_is_incomplete(catalog: Catalog, runs: Path) -> None:
    """Whatever its `run.json` says; a lock that a killed process left behind changes nothing."""
    change_status(runs / "first", "running")
    (runs / "first" / "lock").write_text("4194305\n", encoding="ascii")
    assert not (runs / "first" / JOURNAL_NAME).exists()
    assert {one["label"]: one["status"] for one in catalog.list()}["first"] == "incomplete"
    assert catalog.describe(make_id("first"))["status"] == "incomplete"


def test_of_several_who_ask_at_once_one_makes_it() -> None:
    """The others wait, and are given the same."""
    kept: Cache[object] = Cache(2)
    barrier, made = threading.Barrier(4), []

    def make() -> object:
        made.append(object())
        return made[0]

    found: list[object] = []

    def get() -> None:
        barrier.wait()
        found.append(kept.get("key", make))

    threads = [threading.Thread(target=get) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), found) == (1, [made[0]] * 4)


def test_the_last_used_are_kept() -> None:
    """What nobody asked for the longest time is made anew."""
    kept: Cache[int] = Cache(2)
    made: list[str] = []

    def count(key: str) -> int:
        made.append(key)
        return len(made)

    for key in ("a", "b", "a", "c", "a", "b"):
        kept.get(key, partial(count, key))
    assert made == ["a", "b", "c", "b"]


def test_what_cannot_be_made_is_tried_again() -> None:
    """An error is no value."""
    kept: Cache[int] = Cache(2)
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 // 0)
    assert kept.get("a", lambda: 1) == 1
