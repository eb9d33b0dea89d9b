"""Runs written to disk, or kept in memory; a crash at any moment leaves what is there readable."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self

import polars as pl

from answerkey.errors import AnswerkeyError, RunError
from answerkey.models.cache import CallCache
from answerkey.models.secret import hide_secrets
from answerkey.runs.files import list_parts, remove_drafts, unify_parts, write_frame, write_json, write_whole
from answerkey.runs.journal import Journal, remove_journal
from answerkey.runs.lock import LOCK_NAME, RunLock
from answerkey.runs.parts import FolderParts, HeldParts
from answerkey.runs.reading import (
    AGREEMENT,
    FORMAT_VERSION,
    REPEATABILITY,
    REPETITIONS,
    Run,
    TaskRun,
    load_run,
    put_together,
    read_manifest,
)
from answerkey.types import MetricValue

#: The tables of a task that are in parts.
TABLES = ("scores", "completions")


class TaskWriter(Protocol):
    """Where one task's tables and numbers go."""

    def write_completions(self, index: int, frame: pl.DataFrame) -> None:
        """Take the completions of shard `index`."""

    def write_scores(self, index: int, frame: pl.DataFrame) -> None:
        """Take the scores of shard `index`."""

    def count_scores(self) -> int:
        """Return how many rows the scores have."""

    def write_metrics(self, metrics: Sequence[MetricValue], tally: Mapping[str, Any]) -> None:
        """Take the numbers; the task is finished with that."""


#: What is to be said of a run before it is closed, for its `run.json`.
Conclude = Callable[[Run], Mapping[str, Any]]


def now() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def default_folder(key: str) -> Path:
    """Return a new folder name `runs/<time>-<key>`, numbered when it is taken."""
    stem = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{re.sub(r'[^A-Za-z0-9_-]+', '-', key)}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 1000))]
    return next(path for path in map(Path("runs").joinpath, names) if not path.exists())


@dataclass
class FolderRun:
    """A run that is being written to a folder, which is locked until `close`.

    Leaving its `with` block closes it, whatever happened.
    """

    folder: Path
    manifest: dict[str, Any]
    lock: RunLock = field(repr=False)
    _journal: Journal | None = field(default=None, init=False, repr=False)

    @classmethod
    def create(
        cls, folder: Path, manifest: Mapping[str, Any], tasks: Mapping[str, Mapping[str, Any]]
    ) -> FolderRun:
        """Start a run: an empty folder, each `task.json`, last `run.json` with status `running`.

        What cannot be started leaves nothing behind, as far as it can be removed.
        """
        _require_new(folder)
        is_ours = not folder.exists()
        known = {"format_version": FORMAT_VERSION, **manifest, "status": "running", "started_at": now()}
        lock: RunLock | None = None
        try:
            _make_folder(folder)
            lock = RunLock(folder)
            _require_new(folder)
            _begin(folder, known, tasks)
        except BaseException:
            if lock is not None:
                lock.release()
            with suppress(OSError):  # another's files are in it, or nothing can be removed
                if is_ours:
                    folder.rmdir()
            raise
        return cls(folder, known, lock)

    @classmethod
    def reopen(cls, folder: Path) -> FolderRun:
        """Open a run that stopped; nothing is changed yet. E506 while another process works on it."""
        read_manifest(folder)  # so that nothing is locked that is no run
        lock = RunLock(folder)
        try:
            return cls(folder, read_manifest(folder), lock)
        except BaseException:
            lock.release()
            raise

    def restart(self, changes: Mapping[str, Any]) -> None:
        """Say in `run.json` that the run goes on, with these changes."""
        self.manifest |= {**changes, "status": "running"}
        for name in ("ended_at", "stopped", "gates"):
            self.manifest.pop(name, None)
        write_json(self.folder / "run.json", self.manifest)

    def journal(self, cache: CallCache | None = None) -> Journal:
        """Return the journal of the run, opened the first time it is asked for; the cache lies behind it."""
        if self._journal is None:
            self._journal = Journal(self.folder, cache)
        return self._journal

    def close(self) -> None:
        """Let the journal and the folder go; a second call does nothing."""
        if self._journal is not None:
            self._journal.close()
        self.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.lock.is_held and isinstance(error, KeyboardInterrupt | AnswerkeyError):
            error.add_note(f"answerkey resume {shlex.quote(str(self.folder))}")
        self.close()

    def task(self, key: str) -> FolderTask:
        """Return the writer of one task, whichever process or machine it is sent to."""
        return FolderTask((self.folder / "tasks" / key).absolute())

    def finish(
        self, status: str, changes: Mapping[str, Mapping[str, Any]], conclude: Conclude | None = None
    ) -> Run:
        """Close the run: add to each task's entry, state the status, and return the run as read from disk.

        `conclude` sees the run as it will be, and says what else stands in `run.json`.
        """
        entries = [{**entry, **changes.get(entry["key"], {})} for entry in self.manifest["tasks"]]
        self.manifest |= {"status": status, "ended_at": now(), "tasks": entries}
        if conclude is not None:
            self.manifest |= conclude(put_together(self.folder, self.manifest))
        write_json(self.folder / "run.json", self.manifest)
        if status == "complete":
            self._forget_journal()
        self.close()
        return load_run(self.folder)

    def stop(self, changes: Mapping[str, Mapping[str, Any]], why: BaseException) -> None:
        """Say in `run.json` that the run stopped before its end, and why; the journal stays."""
        entries = [{**entry, **changes.get(entry["key"], {})} for entry in self.manifest["tasks"]]
        message = hide_secrets(str(getattr(why, "message", "interrupted")))
        stopped = {"code": getattr(why, "code", None), "message": message}
        self.manifest |= {"status": "incomplete", "ended_at": now(), "tasks": entries, "stopped": stopped}
        write_json(self.folder / "run.json", self.manifest)

    def _forget_journal(self) -> None:
        """Delete the journal: the tables of a complete run say the same, so it does no harm if it stays."""
        if self._journal is not None:
            self._journal.close()
        with suppress(OSError):
            remove_journal(self.folder)


def _require_new(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(one.name != LOCK_NAME for one in folder.iterdir())):
        raise RunError(
            "E502", f"`{folder}` is there already and not empty", hint="choose a new folder with `--out`"
        )


def _begin(folder: Path, manifest: Mapping[str, Any], tasks: Mapping[str, Mapping[str, Any]]) -> None:
    """Write what a run begins with, all of it or nothing."""
    try:
        for key, source in tasks.items():
            FolderTask(folder / "tasks" / key).make()
            write_json(folder / "tasks" / key / "task.json", source)
        write_json(folder / "run.json", manifest)
    except BaseException:
        with suppress(OSError):  # without `run.json` the rest is no run
            (folder / "run.json").unlink(missing_ok=True)
            shutil.rmtree(folder / "tasks")
        raise


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            "E502", f"cannot make `{folder}`: {error}", hint="choose another with `--out`"
        ) from error


@dataclass(frozen=True)
class FolderTask:
    """The folder of one task; what is written to a draft need not outlive a power failure."""

    folder: Path
    is_draft: bool = False

    def make(self) -> Self:
        """Make the folder, and those of its tables."""
        for table in TABLES:
            _make_folder(self.folder / table)
        return self

    def adopt(self, draft: FolderTask | MemoryTask) -> None:
        """Take over the tables of a draft."""
        for table in TABLES:
            for part in list_parts(draft.folder / table) if isinstance(draft, FolderTask) else ():
                write_whole(self.folder / table / part.name, partial(shutil.copyfile, part))

    def write_completions(self, index: int, frame: pl.DataFrame) -> None:
        """Take the completions of shard `index`."""
        path = self.folder / "completions" / f"part-{index:05d}.parquet"
        write_frame(path, frame, is_draft=self.is_draft, is_shared=True)

    def write_scores(self, index: int, frame: pl.DataFrame) -> None:
        """Take the scores of shard `index`."""
        path = self.folder / "scores" / f"part-{index:05d}.parquet"
        write_frame(path, frame, is_draft=self.is_draft, is_shared=True)

    def count_scores(self) -> int:
        """Return how many rows the scores have, as the files say."""
        return len(FolderParts(self.folder / "scores"))

    def write_metrics(self, metrics: Sequence[MetricValue], tally: Mapping[str, Any]) -> None:
        """Take the numbers; the task is finished with that."""
        for table in TABLES:
            remove_drafts(self.folder / table)
        unify_parts(self.folder / "scores")
        write_json(
            self.folder / "metrics.json", {"metrics": [asdict(one) for one in metrics], "tally": tally}
        )

    def repetition(self, number: int) -> FolderTask:
        """Return the writer of a repetition; the first one is the task itself, number 0."""
        if number == 0:
            return self
        folder = self.folder / REPETITIONS / str(number + 1)
        return FolderTask(folder).make()

    def read_scores(self) -> pl.DataFrame:
        """Return the scores written so far."""
        return FolderParts(self.folder / "scores").read_all()

    def write_repeatability(self, summary: Mapping[str, Any], agreement: pl.DataFrame) -> None:
        """Take what all repetitions say together, and sample by sample."""
        write_frame(self.folder / AGREEMENT, agreement)
        write_json(self.folder / REPEATABILITY, summary)


@dataclass
class MemoryRun:
    """A run that is kept in memory, with the same verbs as `FolderRun`."""

    manifest: dict[str, Any]
    sources: Mapping[str, Mapping[str, Any]]
    tasks: dict[str, MemoryTask] = field(default_factory=dict)
    _journal: Journal | None = field(default=None, init=False, repr=False)

    def journal(self, cache: CallCache | None = None) -> Journal:
        """Return the journal of the run, which is kept in memory; the cache lies behind it."""
        if self._journal is None:
            self._journal = Journal(None, cache)
        return self._journal

    def task(self, key: str) -> MemoryTask:
        """Return the writer of one task."""
        return self.tasks.setdefault(key, MemoryTask())

    def stop(self, changes: Mapping[str, Mapping[str, Any]], why: BaseException) -> None:
        """Do nothing: what is in memory ends with what stopped it."""

    def finish(
        self, status: str, changes: Mapping[str, Mapping[str, Any]], conclude: Conclude | None = None
    ) -> Run:
        """Close the run and return it, with what `conclude` says of it."""
        entries = [{**entry, **changes.get(entry["key"], {})} for entry in self.manifest["tasks"]]
        manifest = {"format_version": FORMAT_VERSION, **self.manifest, "status": status, "tasks": entries}
        finished = {entry["key"]: self.tasks[entry["key"]].finish(entry, self.sources) for entry in entries}
        run = Run(manifest, finished, None)
        return run if conclude is None else replace(run, manifest={**manifest, **conclude(run)})


@dataclass
class MemoryTask:
    """The tables and numbers of one task, kept in memory."""

    scores: dict[int, pl.DataFrame] = field(default_factory=dict)
    completions: dict[int, pl.DataFrame] = field(default_factory=dict)
    metrics: Sequence[MetricValue] = ()
    tally: Mapping[str, Any] = field(default_factory=dict)
    repetitions: dict[int, MemoryTask] = field(default_factory=dict)
    repeatability: Mapping[str, Any] | None = None
    agreement: pl.DataFrame = field(default_factory=pl.DataFrame)

    def adopt(self, draft: FolderTask | MemoryTask) -> None:
        """Take over the tables of a draft."""
        if isinstance(draft, MemoryTask):
            self.scores, self.completions = draft.scores, draft.completions

    def write_completions(self, index: int, frame: pl.DataFrame) -> None:
        """Take the completions of shard `index`."""
        self.completions[index] = frame

    def write_scores(self, index: int, frame: pl.DataFrame) -> None:
        """Take the scores of shard `index`."""
        self.scores[index] = frame

    def count_scores(self) -> int:
        """Return how many rows the scores have."""
        return sum(len(one) for one in self.scores.values())

    def write_metrics(self, metrics: Sequence[MetricValue], tally: Mapping[str, Any]) -> None:
        """Take the numbers; the task is finished with that."""
        self.metrics, self.tally = metrics, tally

    def __reduce__(self) -> NoReturn:
        """Refuse to be sent elsewhere: what another process wrote would be lost."""
        raise TypeError("tables in memory belong to one process")

    def repetition(self, number: int) -> MemoryTask:
        """Return the writer of a repetition; the first one is the task itself, number 0."""
        return self.repetitions.setdefault(number, MemoryTask()) if number else self

    def read_scores(self) -> pl.DataFrame:
        """Return the scores written so far."""
        return _put_in_order(self.scores).read_all()

    def write_repeatability(self, summary: Mapping[str, Any], agreement: pl.DataFrame) -> None:
        """Take what all repetitions say together, and sample by sample."""
        self.repeatability, self.agreement = summary, agreement

    def finish(self, entry: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]]) -> TaskRun:
        """Return the task as a finished one."""
        return TaskRun(
            key=entry["key"],
            manifest=entry,
            source=sources[entry["key"]],
            metrics={value.name: value for value in self.metrics},
            tally=self.tally,
            stored_scores=_put_in_order(self.scores),
            stored_completions=_put_in_order(self.completions),
            read_agreement=lambda: self.agreement,
            repeatability=self.repeatability,
            repetitions=tuple(one.finish(entry, sources) for one in self.repetitions.values()),
        )


def _put_in_order(parts: Mapping[int, pl.DataFrame]) -> HeldParts:
    return HeldParts([parts[index] for index in sorted(parts)])
