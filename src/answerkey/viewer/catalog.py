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
from answerkey.report.compared import describe_comparison
from answerkey.report.overview import describe_overview, name_dataset
from answerkey.report.samples import SampleTable
from answerkey.report.view import label_metric
from answerkey.runs import Run, TaskRun, load_run, name_answerer
from answerkey.runs.watching import RunWatch, is_under_way
from answerkey.text import clean_numbers, is_share
from answerkey.viewer.guard import miss

#: So many of each are kept: runs and what they say, their rows, comparisons.
KEPT_RUNS = 64
KEPT_ROWS = 6
KEPT_COMPARISONS = 16

Plain = dict[str, Any]
#: What tells one state of a run's files from another.
Mark = tuple[tuple[int, int], ...]
T = TypeVar("T")


class Cache(Generic[T]):
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
        finally:
            with self._lock:
                self._making.pop(key, None)


@dataclass
class RunEntry:
    """One run of the folder: its id and where it lies."""

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

    def describe_state(self, run: Run) -> Plain:
        """Return the status, and what is done of how much, with calls and tokens, until the run is complete.

        A run that nobody works on any more is incomplete, whatever it says. How many questions there are is
        None where that depends on rows that are not read yet.
        """
        if run.status == "complete":
            return {"status": run.status, "progress": None}
        seen, tasks = self.watch.look(), run.manifest.get("tasks") or ()
        total = 0
        for entry in tasks:
            trials = (entry.get("trials") or {}).get("num_trials", 1)
            times = (entry.get("repeatability") or {}).get("num_runs", 1)
            total += int(entry["dataset"]["samples"]) * int(trials) * int(times)
        progress = {
            "done": seen.done,
            "total": None if any(entry.get("choice_order") for entry in tasks) else max(total, seen.done),
            "calls": seen.calls,
            "failed": seen.failed,
            "tokens": seen.prompt_tokens + seen.completion_tokens,
        }
        is_stale = run.status == "running" and not is_under_way(self.folder)
        return {"status": "incomplete" if is_stale else run.status, "progress": progress}


class Catalog:
    """The runs right below a folder, or the one run that a folder is; safe for threads."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            hint = "name the folder that holds your runs"
            raise RunError("E501", f"`{folder}` is not a folder", hint=hint)
        self._entries: dict[str, RunEntry] = {}
        self._lock = threading.Lock()
        #: Held by a search through texts: one at a time has all cores, and one given up never begins.
        self.search = threading.Lock()
        self._runs: Cache[Run] = Cache(KEPT_RUNS)
        self._listed: Cache[Plain] = Cache(100 * KEPT_RUNS)
        self._overviews: Cache[Plain] = Cache(KEPT_RUNS)
        self._tables: Cache[SampleTable] = Cache(KEPT_ROWS)
        self._comparisons: Cache[Plain] = Cache(KEPT_COMPARISONS)

    def list(self) -> list[Plain]:
        """Return the runs as the list shows them, newest first."""
        found = [self._describe_listed(entry) for entry in self._scan().values()]
        return sorted(found, key=lambda one: (one["started_at"] or "", one["label"]), reverse=True)

    def find(self, run_id: str) -> RunEntry:
        """Return the run of an id; E703 when there is none."""
        entry = self._entries.get(run_id) or self._scan().get(run_id)
        return entry if entry is not None else miss("there is no such run")

    def open(self, entry: RunEntry) -> Run:
        """Return a run as it is now."""
        return self._runs.get((entry.id, entry.read_mark()), lambda: load_run(entry.folder))

    def describe(self, run_id: str) -> Plain:
        """Return the overview of a run, with how far it is while it is under way."""
        entry = self.find(run_id)
        run = self.open(entry)
        made = self._overviews.get(
            (run_id, entry.read_mark()), lambda: describe_overview(run, run_id=run_id, label=entry.label)
        )
        return {**made, **entry.describe_state(run)}

    def open_task(self, run_id: str, number: int) -> TaskRun:
        """Return the task of a number in a run; E703 when there is none."""
        tasks = list(self.open(self.find(run_id)).tasks.values())
        return tasks[number] if number < len(tasks) else miss("there is no such task in this run")

    def open_table(self, run_id: str, number: int) -> SampleTable:
        """Return the rows of a task."""
        entry, task = self.find(run_id), self.open_task(run_id, number)
        key = (run_id, task.key, entry.read_mark())
        return self._tables.get(key, lambda: SampleTable(self.open(entry), task))

    def compare(self, run_ids: Sequence[str]) -> Plain:
        """Return the comparison of runs, in this order."""
        entries = [self.find(one) for one in run_ids]

        def compare() -> Plain:
            runs = {entry.id: self.open(entry) for entry in entries}
            tables = {
                run_id: {key: self.open_table(run_id, number) for number, key in enumerate(run.tasks)}
                for run_id, run in runs.items()
            }
            return describe_comparison(runs, tables)

        return self._comparisons.get(tuple((entry.id, entry.read_mark()) for entry in entries), compare)

    def _scan(self) -> dict[str, RunEntry]:
        """Return the runs that are there now; one that was seen before keeps what is known of it."""
        is_run = (self.folder / "run.json").is_file()
        found = [self.folder] if is_run else [path.parent for path in self.folder.glob("*/run.json")]
        named = {make_id(path.name): path for path in sorted(found)}
        with self._lock:
            self._entries = {
                name: self._entries.get(name) or RunEntry(name, path) for name, path in named.items()
            }
            return dict(self._entries)

    def _describe_listed(self, entry: RunEntry) -> Plain:
        """Return one run of the list; what went wrong stands in the place of one that cannot be read."""
        about = {"id": entry.id, "label": entry.label}
        try:
            key = (entry.id, entry.read_mark())
            listed = self._listed.get(key, lambda: {**about, **describe_listed(load_run(entry.folder))})
            if listed["status"] == "complete":
                return {**listed, "progress": None}
            return {**listed, **entry.describe_state(self.open(entry))}
        except AnswerkeyError as error:
            names = ("key", "model", "status", "started_at", "samples")
            blank = {**dict.fromkeys(names), "status": "unreadable", **_NO_NUMBER}
            return {**about, **blank, "tasks": [], "error": error.message, "progress": None}


def make_id(name: str) -> str:
    """Return the id of a run folder: the same for the same name, so that links last, and not its name."""
    return f"r{hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"


_NO_NUMBER: Plain = {"metric": None, "value": None, "interval": None, "n": None, "is_share": True}


def describe_listed(run: Run) -> Plain:
    """Return a run for the list; a number of a run that is not complete is no number yet."""
    tasks = []
    for task in run.tasks.values():
        metric = task.main_metric if run.status == "complete" else None
        number = _NO_NUMBER
        if metric is not None:
            number = {
                "metric": label_metric(task, metric),
                "value": metric.value,
                "interval": metric.interval,
                "n": metric.n,
                "is_share": is_share(metric),
            }
        tasks.append(
            {
                "key": task.key,
                "name": task.manifest.get("display_name"),
                "model": name_answerer(task.manifest, with_folder=False),
                "dataset": name_dataset(task),
                "fingerprint": (task.manifest.get("dataset") or {}).get("fingerprint"),
                **number,
            }
        )
    models = dict.fromkeys(name_answerer(one, with_folder=False) for one in run.manifest.get("tasks") or [])
    samples = [task.counts["samples"] for task in run.tasks.values()]
    main = tasks[0] if tasks else _NO_NUMBER
    described: Plain = clean_numbers(
        {
            "key": run.key,
            "model": ", ".join(models) or None,
            "status": run.status,
            "started_at": run.manifest.get("started_at"),
            "samples": sum(samples) if samples else None,
            **{name: main[name] for name in _NO_NUMBER},
            "tasks": tasks,
            "error": None,
        }
    )
    return described
