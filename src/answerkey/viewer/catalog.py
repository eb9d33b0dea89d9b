"""The runs of a folder as the viewer serves them: the list, and the content of each run."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from answerkey.errors import AnswerkeyError, RunError
from answerkey.reports.comparison import build_comparison
from answerkey.reports.listing import ListedRun, list_run
from answerkey.reports.overview import audit_task, build_overview, count_readings, dump
from answerkey.reports.samples import SampleTable
from answerkey.reports.view import Json
from answerkey.runs import Run, TaskRun, list_places, load_run, load_summary
from answerkey.runs.lock import LOCK_NAME, is_alive
from answerkey.runs.store import JOURNAL_NAME
from answerkey.viewer.guard import raise_not_found

#: Cache sizes: runs, list entries, overviews, sample tables, comparisons.
CACHED_RUNS = 64
CACHED_LIST_ENTRIES = 6_400
CACHED_OVERVIEWS = 128
CACHED_TABLES = 6
CACHED_COMPARISONS = 16
#: A run whose journal was written to within this time is still running, perhaps on another machine.
FRESH_SECONDS = 60.0

#: A fingerprint of the state of a run's files.
Mark = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run of the folder; `folder` is the name of its parent folder if several runs share one."""

    path: Path
    folder: str = ""

    @property
    def id(self) -> str:
        """An id derived from the name, so that links stay valid without revealing the name."""
        return make_id(self.label)

    @property
    def label(self) -> str:
        """What the run is called in the list."""
        return f"{self.folder}/{self.path.name}" if self.folder else self.path.name

    def read_mark(self) -> Mark:
        """Return a fingerprint of the run's current state; E501 if the run is gone."""
        metrics = self.path.glob("tasks/*/metrics.json")
        files = [self.path / "run.json", *sorted(metrics)]
        marks = []
        try:
            for file in files:
                stat = file.stat()
                marks.append((stat.st_mtime_ns, stat.st_size))
        except OSError as error:
            message = f"the run `{self.path.name}` no longer exists"
            raise RunError("E501", message, hint="see the list of runs") from error
        return tuple(marks)

    def correct_status(self, status: str) -> str:
        """Return the status of the run: a running one whose process is gone is incomplete."""
        if status == "running" and not is_running(self.path):
            return "incomplete"
        return status


def make_id(name: str) -> str:
    """Return the id of a run by its name."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape"))
    return f"r{digest.hexdigest()[:16]}"


def is_running(folder: Path) -> bool:
    """Return whether a process is working on the run in a folder, judging by its files.

    Trying the lock instead could block a process that is just starting.
    """
    lock = folder / LOCK_NAME
    try:
        holder = lock.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    number = holder.strip()
    if number.isdecimal() and is_alive(int(number)):
        return True
    since = time.time() - FRESH_SECONDS
    for path in folder.glob(f"{JOURNAL_NAME}*"):
        if path.exists() and path.stat().st_mtime > since:
            return True
    return False


def _load(entry: RunFolder, mark: Mark) -> Run:  # noqa: ARG001 - part of the cache key
    return load_run(entry.path)


def _list(entry: RunFolder, mark: Mark) -> ListedRun:  # noqa: ARG001 - part of the cache key
    return list_run(load_summary(entry.path), entry.label)


class Catalog:
    """The runs directly below a folder, or the folder itself if it is a run.

    Slow results are cached until the files of their run change.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            hint = "name the folder that holds your runs"
            raise RunError("E501", f"`{folder}` is not a folder", hint=hint)
        self._load = lru_cache(CACHED_RUNS)(_load)
        self._list = lru_cache(CACHED_LIST_ENTRIES)(_list)
        self._overview = lru_cache(CACHED_OVERVIEWS)(self._build_overview)
        self._table = lru_cache(CACHED_TABLES)(self._build_table)
        self._comparison = lru_cache(CACHED_COMPARISONS)(self._build_comparison)

    def list(self) -> list[Json]:
        """Return the entries of the list of runs, newest first."""
        runs = [self._describe_listed(entry) for entry in self._scan().values()]
        runs.sort(key=lambda run: (run["started_at"] or "", run["label"]), reverse=True)
        return runs

    def find(self, run_id: str) -> RunFolder:
        """Return the run with this id; E703 if there is none."""
        return self._scan().get(run_id) or raise_not_found("there is no such run")

    def open(self, entry: RunFolder) -> Run:
        """Return the current state of a run."""
        return self._load(entry, entry.read_mark())

    def describe(
        self,
        run_id: str,
        *,
        is_brief: bool = False,
    ) -> Json:
        """Return the overview of a run; the brief one is fast."""
        entry = self.find(run_id)
        overview = self._overview(entry, entry.read_mark(), is_brief)
        return overview | {"status": entry.correct_status(overview["status"])}

    def _build_overview(
        self,
        entry: RunFolder,
        mark: Mark,
        is_brief: bool,  # noqa: FBT001 - cached
    ) -> Json:
        run = self._load(entry, mark)
        audits = {}
        for key, task in run.tasks.items():
            if is_brief:
                audits[key] = count_readings(task)
            else:
                table = self._table(entry, mark, key)
                audits[key] = audit_task(table)
        overview = build_overview(
            run,
            audits,
            run_id=entry.id,
            label=entry.label,
        )
        return dump(overview)

    def open_task(self, run_id: str, number: int) -> TaskRun:
        """Return the task with this number in a run; E703 if there is none."""
        run = self.open(self.find(run_id))
        if number >= len(run.tasks):
            raise_not_found("there is no such task in this run")
        return list(run.tasks.values())[number]

    def open_table(self, run_id: str, number: int) -> SampleTable:
        """Return the rows of a task."""
        entry = self.find(run_id)
        key = self.open_task(run_id, number).key
        return self._table(entry, entry.read_mark(), key)

    def _build_table(
        self,
        entry: RunFolder,
        mark: Mark,
        key: str,
    ) -> SampleTable:
        run = self._load(entry, mark)
        return SampleTable(run, run.tasks[key])

    def compare(self, run_ids: Sequence[str]) -> Json:
        """Return the comparison of runs, in this order."""
        marked = []
        for entry in map(self.find, run_ids):
            marked.append((entry, entry.read_mark()))
        return self._comparison(*marked)

    def _build_comparison(self, *marked: tuple[RunFolder, Mark]) -> Json:
        runs = {}
        for entry, mark in marked:
            runs[entry.id] = self._load(entry, mark)
        return dump(build_comparison(runs))

    def _scan(self) -> dict[str, RunFolder]:
        """Return the existing runs by their ids."""
        paths = [self.folder]
        if not (self.folder / "run.json").is_file():
            paths = sorted(Path(str(place)) for place in list_places(self.folder))
        entries = {}
        for path in paths:
            folder = path.parent.name if path.parents[1] == self.folder else ""
            entry = RunFolder(path, folder)
            entries[entry.id] = entry
        return entries

    def _describe_listed(self, entry: RunFolder) -> Json:
        """Return the list entry of a run; for a run that cannot be read, the error."""
        try:
            row = self._list(entry, entry.read_mark())
            row = replace(row, status=entry.correct_status(row.status))
        except AnswerkeyError as error:
            row = ListedRun(entry.label, "unreadable", error=error.message)
        return {**dump(row), "id": entry.id, "label": entry.label}
