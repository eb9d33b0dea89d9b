"""A disk that gets full, turns read-only or fails once, and connections that break, at any
operation.
"""

from __future__ import annotations

import errno
import json
import os
import random
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.projects import (
    SCORER,
    describe_live_task,
    describe_model,
    describe_task,
    write_rows,
    write_run,
)

from answerkey.testing import TestServer, answer_by_hash

from .fault_layer import (
    CHANGING,
    GROWING,
    NETWORK,
    Done,
    Fault,
    FaultyProcess,
    can_build,
    start_process,
)

pytestmark = pytest.mark.skipif(not can_build(), reason="needs Linux and a C compiler")

IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))
SEED = 20_260_301
SAMPLES = 60
CONCURRENT = 2
#: The operations that are tried, each in a run of its own; the short series draws one of each kind.
FIRST = 200
FIRST_RECORDED = 30
FIRST_NETWORK = 120
DRAWN = 1


@dataclass(frozen=True)
class Place:
    """A project, a disk that can fail, with the runs and temporary files, and another one that
    never does.
    """

    folder: Path

    @property
    def disk(self) -> Path:
        """The disk that can fail."""
        return self.folder / "disk"

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.disk / "run"

    @property
    def words(self) -> list[object]:
        """The command line of a run."""
        return ["run", self.folder, "--out", self.run]


def make_place(folder: Path, url: str | None) -> Place:
    """Write a project: with an address its model is asked there, without one its answers are
    recorded.
    """
    place = Place(folder)
    (place.disk / "tmp").mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    for n in range(SAMPLES):
        rows.append({"question": f"q{n}", "answer": "AB"[n % 2], "completion": "ABAA"[n % 4]})
    if url is None:
        write_run(folder, [], task=describe_task(dataset={"key": "rows"}, scorers=[SCORER]))
    else:
        model = describe_model("mine", url)
        model["max_concurrent_requests"] = CONCURRENT
        config = {"cache_policy": "reuse"}
        write_run(folder, [model], task=describe_live_task(), run_config=config)
    write_rows(folder / "rows.jsonl", rows)
    return place


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyProcess]:
    """Return a process in which anything may fail."""
    example = make_place(tmp_path_factory.mktemp("example"), "http://127.0.0.1:9/v1")
    with start_process(tmp_path_factory.mktemp("process"), example.folder / "run.yaml") as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    """Return an endpoint."""
    with TestServer(answer_by_hash(["A", "B", "Answer: A"])) as running:
        yield running


def call(
    process: FaultyProcess,
    place: Place,
    *words: object,
    fault: Fault | None = None,
    cache: str = "disk",
) -> Done:
    """Carry out a command on the failing disk; the call cache is on it, or on the `other` one."""
    return process.call(
        *words,
        folder=place.disk,
        fault=fault,
        TMPDIR=place.disk / "tmp",
        XDG_CACHE_HOME=place.folder / cache / "cache",
    )


def require_clear_stop(done: Done) -> None:
    """Hold that a command did all it should, or said with a code why not.

    Never a bug, never a crash.
    """
    if done.code == 0:
        return
    assert done.code in {2, 3}, done.err
    assert "error[E" in done.err
    assert "E901" not in done.err
    assert "Traceback" not in done.err


def require_whole_files(folder: Path) -> None:
    """Hold that every file under a final name can be read to its end."""
    for path in folder.rglob("*"):
        if path.name.startswith(".") or path.is_dir():
            continue
        if path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".parquet":
            pl.read_parquet(path)
        elif path.suffix == ".sqlite":
            with sqlite3.connect(path) as base:
                assert base.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            base.close()


def finish(process: FaultyProcess, place: Place, cache: str) -> None:
    """Go on with a run when all is well again.

    One that had not begun is started anew, in the same folder.
    """
    has_begun = (place.run / "run.json").exists()
    done = call(process, place, "resume", place.run, cache=cache)
    if done.code and not has_begun:
        done = call(process, place, *place.words, cache=cache)
        if "already exists and is not empty" in done.err:  # it could not be removed
            words = ("run", place.folder, "--out", place.disk / "again")
            done = call(process, place, *words, cache=cache)
            (place.disk / "again").rename(place.run.with_name("whole"))
    assert done.code == 0, done.err


def read_numbers(place: Place) -> object:
    """Return the numbers of the run."""
    folder = place.run.with_name("whole") if place.run.with_name("whole").exists() else place.run
    assert json.loads((folder / "run.json").read_text())["status"] == "complete"
    return json.loads((folder / "tasks" / "quiz" / "metrics.json").read_text())


KINDS = {
    "full disk": (GROWING, errno.ENOSPC, True),
    "read-only": (CHANGING, errno.EROFS, True),
    "one failure": (CHANGING, errno.EIO, False),
}


def list_cases() -> list[tuple[str, str, int]]:
    """Return source, kind of fault and number: all of them in the long series, else some."""
    cases = []
    for source, last in (("live", FIRST), ("recorded", FIRST_RECORDED)):
        for kind in KINDS:
            draws = random.Random(f"{SEED} {source} {kind}")
            count = last if IS_LONG else DRAWN
            drawn = draws.sample(range(1, last + 1), count)
            cases += [(source, kind, number) for number in sorted(drawn)]
    return cases


@pytest.fixture(scope="module")
def expected(
    process: FaultyProcess, server: TestServer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, object]:
    """Return the numbers of runs in which nothing fails, by where their answers come from."""
    results: dict[str, object] = {}
    for source, url, least in (("live", server.url, FIRST), ("recorded", None, FIRST_RECORDED)):
        place = make_place(tmp_path_factory.mktemp(source), url)
        done = call(process, place, *place.words, fault=Fault(GROWING))
        assert done.code == 0, done.err
        assert (done.operations or 0) >= least, done.operations
        results[source] = read_numbers(place)
    return results


@pytest.mark.parametrize(("source", "kind", "number"), list_cases())
def test_a_disk_that_fails_at_any_operation_costs_nothing_twice(
    process: FaultyProcess,
    server: TestServer,
    expected: dict[str, object],
    tmp_path: Path,
    source: str,
    kind: str,
    number: int,
) -> None:
    """The command says why it stops, no file is half there, and going on asks only what was never
    answered.

    With the call cache on another disk nothing is asked twice; else what was under way is lost, no
    more.
    """
    kinds, error, lasts = KINDS[kind]
    calls = SAMPLES if source == "live" else 0
    cache = "other" if number % 2 else "disk"
    place = make_place(tmp_path, server.url if calls else None)
    server.forget()
    fault = Fault(kinds, number, error, lasts)
    require_clear_stop(call(process, place, *place.words, fault=fault, cache=cache))
    require_whole_files(place.run)
    finish(process, place, cache)
    assert read_numbers(place) == expected[source]
    lost = CONCURRENT if lasts and cache == "disk" else 0
    assert calls <= server.asked.total <= calls + lost


@pytest.mark.parametrize(
    "number",
    range(1, FIRST_NETWORK + 1)
    if IS_LONG
    else random.Random(SEED).sample(range(1, FIRST_NETWORK), DRAWN),
)
def test_a_connection_that_breaks_at_any_operation_changes_no_number(
    process: FaultyProcess,
    server: TestServer,
    expected: dict[str, object],
    tmp_path: Path,
    number: int,
) -> None:
    """A request or reply that is lost is asked for again, and nothing else is."""
    place = make_place(tmp_path, server.url)
    server.forget()
    done = call(process, place, *place.words, fault=Fault(NETWORK, number, errno.ECONNRESET))
    assert done.code == 0, done.err
    assert read_numbers(place) == expected["live"]
    assert SAMPLES <= server.asked.total <= SAMPLES + 1
