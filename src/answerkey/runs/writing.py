"""Runs written to disk; a crash at any moment leaves what is there readable."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import polars as pl

from answerkey.errors import AnswerkeyError, RunError, hide_secrets
from answerkey.models.cache import CallCache
from answerkey.runs.contents import describe_files
from answerkey.runs.files import list_parts, remove_drafts, unify_parts, write_frame, write_json, write_whole
from answerkey.runs.journal import JOURNAL_NAME, Journal, remove_journal
from answerkey.runs.lock import LOCK_NAME, RunLock
from answerkey.runs.memory import Conclude
from answerkey.runs.parts import FolderParts
from answerkey.runs.places import RunPlace
from answerkey.runs.reading import (
    AGREEMENT,
    FORMAT_VERSION,
    REPEATABILITY,
    REPETITIONS,
    Run,
    load_folder_run,
    put_together,
    read_manifest,
    read_source,
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


class Lock(Protocol):
    """What keeps a run for one process."""

    @property
    def is_held(self) -> bool:
        """Whether the lock has not been released yet."""

    def release(self) -> None:
        """Let the run go; a second call does nothing."""


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
    lock: Lock = field(repr=False)
    #: Records of the journal that were damaged or missing before it was opened, and whether the run goes on.
    lost_records: int = field(default=0, kw_only=True)
    is_resumed: bool = field(default=False, init=False)
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

    @property
    def place(self) -> RunPlace:
        """Where the run is."""
        return self.folder

    def restart(self, changes: Mapping[str, Any]) -> None:
        """Say in `run.json` that the run goes on, with these changes; not if its journal cannot be read."""
        if (self.folder / JOURNAL_NAME).is_file():
            self.journal()
        self.is_resumed = True
        self.manifest |= {**changes, "status": "running"}
        for name in ("ended_at", "stopped", "gates", "files"):
            self.manifest.pop(name, None)
        self.write_manifest()

    def journal(self, cache: CallCache | None = None) -> Journal:
        """Return the journal of the run, opened the first time it is asked for; the cache lies behind it."""
        if self._journal is None:
            self._journal = Journal(self.folder)
        if cache is not None:
            self._journal.cache = cache
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
            if isinstance(error, KeyboardInterrupt) and self.manifest["status"] == "running":
                with suppress(AnswerkeyError, OSError):  # the signal is what is told
                    self.stop({}, error)
            error.add_note(f"answerkey resume {shlex.quote(str(self.place))}")
        self.close()

    def task(self, key: str) -> FolderTask:
        """Return the writer of one task, whichever process or machine it is sent to."""
        return FolderTask((self.folder / "tasks" / key).absolute())

    def read_source(self, key: str) -> dict[str, Any]:
        """Return a task's `task.json`."""
        return read_source(self.folder, key, self.manifest.get("files"))

    def write_manifest(self) -> None:
        """Write `run.json` anew."""
        write_json(self.folder / "run.json", self.manifest)

    def describe_files(self) -> dict[str, dict[str, Any]]:
        """Return the list of the files of the run for `run.json`, from what was written."""
        return describe_files(self.folder)

    def read_again(self) -> Run:
        """Return the run as its files and its manifest say, which need not be written yet."""
        return put_together(self.folder, self.manifest)

    def finish(
        self, status: str, changes: Mapping[str, Mapping[str, Any]], conclude: Conclude | None = None
    ) -> Run:
        """Close the run: add to each task's entry, state the status, and return the run as read from disk.

        `conclude` sees the run as it will be, and says what else stands in `run.json`.
        """
        entries = [{**entry, **changes.get(entry["key"], {})} for entry in self.manifest["tasks"]]
        self.manifest |= {"status": status, "ended_at": now(), "tasks": entries}
        self.manifest["files"] = self.describe_files()
        if conclude is not None:
            self.manifest |= conclude(self.read_again())
        self.write_manifest()
        if status == "complete":
            self._forget_journal()
        self.close()
        return self.load()

    def load(self) -> Run:
        """Return the run as read from where it was written."""
        return load_folder_run(self.folder)

    def stop(self, changes: Mapping[str, Mapping[str, Any]], why: BaseException) -> None:
        """Say in `run.json` that the run stopped before its end, and why; the journal stays."""
        entries = [{**entry, **changes.get(entry["key"], {})} for entry in self.manifest["tasks"]]
        message = hide_secrets(str(getattr(why, "message", "interrupted")))
        stopped = {"code": getattr(why, "code", None), "message": message}
        self.manifest |= {"status": "incomplete", "ended_at": now(), "tasks": entries, "stopped": stopped}
        self.manifest["files"] = self.describe_files()
        self.write_manifest()

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

    def adopt(self, draft: object) -> None:
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

    def clear(self) -> None:
        """Remove the parts of the tables: they are written anew, perhaps with other rows in each."""
        for table in TABLES:
            for part in list_parts(self.folder / table):
                part.unlink()

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
