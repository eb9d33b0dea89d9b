"""The runs of a folder, by ids that say nothing of where they lie; what was read of one is kept."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from answerkey.errors import AnswerkeyError, RunError
from answerkey.reports.pages.compared import describe_comparison
from answerkey.reports.pages.overview import describe_run
from answerkey.reports.pages.rows import RowBook, open_rows
from answerkey.runs import Run, TaskRun, load_run
from answerkey.runs.watching import RunWatch, is_under_way
from answerkey.serve.guard import miss
from answerkey.serve.listed import describe_listed, describe_unreadable
from answerkey.serve.progress import describe_progress

#: So many of each are kept: what runs say, their rows, comparisons.
KEPT_RUNS = 64
KEPT_BOOKS = 6
KEPT_COMPARISONS = 16

#: What tells one state of a run's files from another.
Mark = tuple[tuple[int, int], ...]
T = TypeVar("T")


class Kept(Generic[T]):
    """Things that take long to make, the last used ones; of several who ask at once, one makes it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what belongs to a key, made now unless it was."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        try:
            with making:
                return self._find(key, make)
        finally:
            with self._lock:
                self._making.pop(key, None)

    def _find(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return made


@dataclass
class Shelf:
    """One run of the folder: its id, where it lies, and who watches it."""

    id: str
    folder: Path

    @cached_property
    def watch(self) -> RunWatch:
        """Who counts what is done."""
        return RunWatch(self.folder)

    @property
    def label(self) -> str:
        """The name of its folder."""
        return self.folder.name

    def read_mark(self) -> Mark:
        """Return what tells this state of the run from another; E501 when it is gone."""
        files = [self.folder / "run.json", *sorted(self.folder.glob("tasks/*/metrics.json"))]
        try:
            return tuple((stat.st_mtime_ns, stat.st_size) for stat in (file.stat() for file in files))
        except OSError as error:
            message = f"the run `{self.label}` is no longer there"
            raise RunError("E501", message, hint="the list of runs shows what there is") from error


class Catalog:
    """The runs right below a folder, or the one run that a folder is; safe for threads."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            hint = "name the folder that holds your runs"
            raise RunError("E501", f"`{folder}` is not a folder", hint=hint)
        self._shelves: dict[str, Shelf] = {}
        self._lock = threading.Lock()
        #: Held by a search through texts: one at a time has all cores, and one given up never begins.
        self.search = threading.Lock()
        self._runs: Kept[Run] = Kept(KEPT_RUNS)
        self._listed: Kept[dict[str, Any]] = Kept(100 * KEPT_RUNS)
        self._overviews: Kept[dict[str, Any]] = Kept(KEPT_RUNS)
        self._books: Kept[RowBook] = Kept(KEPT_BOOKS)
        self._comparisons: Kept[dict[str, Any]] = Kept(KEPT_COMPARISONS)

    def list(self) -> list[dict[str, Any]]:
        """Return the runs as the list shows them, newest first."""
        found = [self._describe(shelf) for shelf in self._scan().values()]
        return sorted(found, key=lambda one: (one["started_at"] or "", one["label"]), reverse=True)

    def find(self, run_id: str) -> Shelf:
        """Return the run of an id; E703 when there is none."""
        shelf = self._shelves.get(run_id) or self._scan().get(run_id)
        return shelf if shelf is not None else miss("there is no such run")

    def open(self, shelf: Shelf) -> Run:
        """Return a run as it is now."""
        return self._runs.get((shelf.id, shelf.read_mark()), lambda: load_run(shelf.folder))

    def describe(self, run_id: str) -> dict[str, Any]:
        """Return the overview of a run, with how far it is while it is under way."""
        shelf = self.find(run_id)
        run = self.open(shelf)
        made = self._overviews.get(
            (run_id, shelf.read_mark()), lambda: describe_run(run, run_id=run_id, label=shelf.label)
        )
        status = find_status(run, shelf.folder)
        return {**made, "status": status, "progress": self._describe_progress(shelf, run)}

    def open_task(self, run_id: str, number: int) -> tuple[Shelf, TaskRun]:
        """Return a run and its task of a number; E703 when there is none."""
        shelf = self.find(run_id)
        tasks = list(self.open(shelf).tasks.values())
        return (shelf, tasks[number]) if number < len(tasks) else miss("there is no such task in this run")

    def open_rows(self, run_id: str, number: int) -> tuple[Shelf, TaskRun, RowBook]:
        """Return the rows of a task, with the run that they are of."""
        shelf, task = self.open_task(run_id, number)
        key = (run_id, task.key, shelf.read_mark())
        return shelf, task, self._books.get(key, lambda: open_rows(self.open(shelf), task.key))

    def compare(self, run_ids: Sequence[str]) -> dict[str, Any]:
        """Return the comparison of runs, in this order."""
        shelves = [self.find(one) for one in run_ids]
        key = tuple((shelf.id, shelf.read_mark()) for shelf in shelves)
        return self._comparisons.get(key, lambda: self._compare(shelves))

    def _compare(self, shelves: Sequence[Shelf]) -> dict[str, Any]:
        runs = {shelf.id: self.open(shelf) for shelf in shelves}
        books = {
            run_id: {key: self.open_rows(run_id, number)[2] for number, key in enumerate(run.tasks)}
            for run_id, run in runs.items()
        }
        return describe_comparison(runs, books)

    def _scan(self) -> dict[str, Shelf]:
        """Return the runs that are there now; one that was seen before keeps what is known of it."""
        is_run = (self.folder / "run.json").is_file()
        found = [self.folder] if is_run else [path.parent for path in self.folder.glob("*/run.json")]
        named = {make_id(path.name): path for path in sorted(found)}
        with self._lock:
            self._shelves = {
                name: self._shelves.get(name) or Shelf(name, path) for name, path in named.items()
            }
            return dict(self._shelves)

    def _describe(self, shelf: Shelf) -> dict[str, Any]:
        """Return one run of the list; what went wrong stands in the place of one that cannot be read."""
        try:
            key = (shelf.id, shelf.read_mark())
            listed = self._listed.get(key, lambda: self._describe_anew(shelf))
            run = None if listed["status"] == "complete" else self.open(shelf)
        except AnswerkeyError as error:
            return describe_unreadable(shelf.id, shelf.label, error)
        status = listed["status"] if run is None else find_status(run, shelf.folder)
        progress = None if run is None else self._describe_progress(shelf, run)
        return {**listed, "status": status, "progress": progress}

    def _describe_anew(self, shelf: Shelf) -> dict[str, Any]:
        return describe_listed(shelf.id, shelf.label, load_run(shelf.folder))

    def _describe_progress(self, shelf: Shelf, run: Run) -> dict[str, int | None] | None:
        return None if run.status == "complete" else describe_progress(shelf.watch, run.manifest)


def find_status(run: Run, folder: Path) -> str:
    """Return the status of a run; one that nobody works on any more is incomplete, whatever it says."""
    return "incomplete" if run.status == "running" and not is_under_way(folder) else run.status


def make_id(name: str) -> str:
    """Return the id of a run folder: the same for the same name, so that links last, and not its name."""
    return f"r{hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
