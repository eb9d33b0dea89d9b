"""A run under way, written to a store; a crash at any moment leaves what is there readable.

One process, which has the lock, writes everything. What says that a run is there, and that it is
finished, is written last.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from answerkey.errors import AnswerkeyError, RunError, hide_secrets
from answerkey.runs.lock import RunLock, remove_empty
from answerkey.runs.run import (
    AGREEMENT,
    FORMAT_VERSION,
    REPEATABILITY,
    REPETITIONS,
    Run,
    StoredTable,
    describe_files,
    join_parts,
    read_json,
    read_manifest,
    read_run,
)
from answerkey.runs.store import (
    JOURNAL_NAME,
    OWNER_NAME,
    FolderStore,
    ObjectStore,
    RunPlace,
    RunStore,
    StoredFolder,
    find_place,
    open_store,
)
from answerkey.types import (
    MetricValue,
    Notice,
)

if TYPE_CHECKING:
    from answerkey.models.store import CallStore
    from answerkey.runs.copies import JournalCopies

#: The tables of a task that are in parts.
TABLES = ("scores", "completions")


def now() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class NewFolder:
    """A folder `runs/<time>-<key>` for a new run, which gets its name when it is made."""

    key: str

    def make(self) -> tuple[Path, list[Path]]:
        """Make the folder under a name that no other run has taken.

        Return it, and all folders made.
        """
        runs = Path("runs")
        made = [] if runs.exists() else [runs]
        stem = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{re.sub(r'[^A-Za-z0-9_-]+', '-', self.key)}"
        folder = runs / stem
        number = 1
        try:
            runs.mkdir(exist_ok=True)
            while not _create_folder(folder):
                number += 1
                folder = runs / f"{stem}-{number}"
        except OSError as error:
            message = f"cannot make `{folder}`: {error}"
            raise RunError("E502", message, hint="choose another with `--out`") from error
        return folder, [folder, *made]


def _create_folder(folder: Path) -> bool:
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def choose_place(out: str | RunPlace | None, key: str) -> RunPlace | NewFolder:
    """Return where a new run goes: to `out`, or to a new folder below `runs`.

    Object storage on which something is there already is E502 before any work is done.
    """
    if out is None:
        return NewFolder(key)
    place = find_place(out)
    if isinstance(place, StoredFolder):
        open_store(place).require_new()
    return place


def forget_journal(place: RunPlace | None) -> None:
    """Delete what is left of the journal of a complete run, and its published copy.

    The tables say the same.
    """
    store = open_store(place)
    with suppress(OSError, RunError):  # it does no harm if it stays
        if isinstance(store, ObjectStore):
            store.remove([JOURNAL_NAME])
            (store.home / OWNER_NAME).unlink(missing_ok=True)
        if store.home is not None:
            for path in store.home.glob(f"{JOURNAL_NAME}*"):
                path.unlink(missing_ok=True)


def start_run(
    place: RunPlace | NewFolder | None,
    manifest: Mapping[str, Any],
    tasks: Mapping[str, Mapping[str, Any]],
    samples: Mapping[str, pl.DataFrame] | None = None,
) -> RunWriter:
    """Start a run: each `task.json`, last `run.json` with status `running`; E502 when something is
    there.

    `samples` are those that are in no file, by the key of their task. What cannot be started leaves
    nothing behind, as far as it can be removed. Without a place the run is kept in memory: it has
    no times, and no list of files.
    """
    made: list[Path] = []
    if isinstance(place, NewFolder):
        place, made = place.make()
    elif isinstance(place, Path):
        made = [path for path in (place, *place.parents) if not path.exists()]
    store = open_store(place)
    content = {"format_version": FORMAT_VERSION, **manifest, "status": "running"}
    if place is not None:
        content["started_at"] = now()
    with ExitStack() as undo:
        for path in reversed(made):
            undo.callback(remove_empty, path)
        lock = store.lock()
        undo.callback(lock.close)
        store.require_new()
        if isinstance(store, ObjectStore):
            from answerkey.runs.copies import claim_folder

            claim_folder(store, content["started_at"])
        undo.callback(_remove_files, store)
        for key, source in tasks.items():
            store.write_json(f"tasks/{key}/task.json", source)
            if samples is not None and key in samples:
                store.write_frame(f"tasks/{key}/samples/part-00000.parquet", samples[key])
        store.write_json("run.json", content)
        undo.pop_all()
    return RunWriter(store, content, lock, made=made)


def _remove_files(store: RunStore) -> None:
    with suppress(OSError, RunError):  # without `run.json` the rest is no run
        store.remove(["run.json", *store.list_files("tasks")])
        if isinstance(store, FolderStore):
            shutil.rmtree(store.place / "tasks")


def reopen_run(place: RunPlace) -> RunWriter:
    """Open a run that stopped, with its journal.

    Nothing is changed yet. E506 while another works on it.
    """
    store = open_store(place)
    read_manifest(store)  # so that nothing is locked that is no run
    with ExitStack() as undo:
        lock = store.lock()
        undo.callback(lock.close)
        manifest, lost = read_manifest(store), 0
        if isinstance(store, ObjectStore):
            from answerkey.runs.copies import bring_journal, claim_folder

            claim_folder(store, manifest["started_at"])
            lost = bring_journal(store)
        undo.pop_all()
    return RunWriter(store, manifest, lock, lost_records=lost)


@dataclass
class RunWriter:
    """A run that is being written, and locked until `close`; leaving its `with` block closes it.

    `lost_records` are those of the journal that were damaged or missing before it was opened;
    `made` the folders that were not there before.
    """

    store: RunStore
    manifest: dict[str, Any]
    lock: RunLock = field(repr=False)
    lost_records: int = 0
    made: Sequence[Path] = ()
    is_resumed: bool = field(default=False, init=False)
    _journal: CallStore | None = field(default=None, init=False, repr=False)
    _copies: JournalCopies | None = field(default=None, init=False, repr=False)

    def restart(self, changes: Mapping[str, Any]) -> None:
        """Say in `run.json` that the run goes on, with these changes.

        Not if its journal cannot be read.
        """
        if self.store.home is not None and (self.store.home / JOURNAL_NAME).is_file():
            self.journal()
        self.is_resumed = True
        entries = [{**entry, "counts": None} for entry in self.manifest["tasks"]]
        self.manifest |= {**changes, "status": "running", "tasks": entries}
        for name in ("ended_at", "stopped", "gates", "files"):
            self.manifest.pop(name, None)
        self.write_manifest()

    def journal(self) -> CallStore:
        """Return the journal of the run, opened the first time it is asked for."""
        if self._journal is None:
            from answerkey.models.store import CallStore
            from answerkey.runs.copies import JournalCopies

            home = self.store.home
            self._journal = CallStore(None if home is None else home / JOURNAL_NAME)
            self._journal.mend()
            if isinstance(self.store, ObjectStore):
                self._copies = JournalCopies(self._journal, self.store)
        return self._journal

    def close(self) -> None:
        """Let the journal and the run go; a second call does nothing."""
        if self._copies is not None:
            self._copies.end()
            if self.lock.is_held and self.manifest["status"] != "complete":
                with suppress(
                    AnswerkeyError, OSError
                ):  # what stopped the run is told; the journal is here
                    self._copies.publish()
        if self._journal is not None:
            self._journal.close()
        self.lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.lock.is_held and isinstance(error, KeyboardInterrupt | AnswerkeyError):
            if isinstance(error, KeyboardInterrupt) and self.manifest["status"] == "running":
                with suppress(AnswerkeyError, OSError):  # the signal is what is told
                    self.stop({}, error)
            error.add_note(f"answerkey resume {shlex.quote(str(self.store.place))}")
        self.close()

    def task(self, key: str) -> TaskWriter:
        """Return the writer of one task."""
        return TaskWriter(self.store, f"tasks/{key}")

    def add_notices(self, notices: Iterable[Notice]) -> None:
        """Add notices to `run.json`, each text once."""
        texts = [*self.manifest["notices"], *map(str, notices)]
        self.manifest["notices"] = list(dict.fromkeys(texts))

    def read_source(self, key: str) -> dict[str, Any]:
        """Return a task's `task.json`."""
        name = f"tasks/{key}/task.json"
        file = self.store.find_file(name)
        return read_json(self.store, file, name, self.manifest.get("files"))

    def write_manifest(self) -> None:
        """Publish the journal of a run that is not complete, then write `run.json`; E506 if it is
        lost.
        """
        self.lock.require_held()
        if self._copies is not None and self.manifest["status"] != "complete":
            self._copies.publish()
        self.store.write_json("run.json", self.manifest)

    def _end(self, status: str, changes: Mapping[str, Mapping[str, Any]], **more: object) -> None:
        entries = [{**entry, **changes.get(entry["key"], {})} for entry in self.manifest["tasks"]]
        if self.store.place is not None:
            more = {"ended_at": now(), **more, "files": describe_files(self.store)}
        self.manifest |= {"status": status, "tasks": entries, **more}

    def finish(
        self,
        status: str,
        changes: Mapping[str, Mapping[str, Any]],
        conclude: Callable[[Run], Mapping[str, Any]] | None = None,
    ) -> Run:
        """Close the run: add to each task's entry, state the status, and return the run as it is
        read.

        `conclude` sees the run as it will be, and says what else stands in `run.json`.
        """
        self._end(status, changes)
        if conclude is not None:
            self.manifest |= conclude(read_run(self.store, self.manifest, is_own=True))
        self.write_manifest()
        if status == "complete":
            if self._copies is not None:
                self._copies.end()
            if self._journal is not None:
                self._journal.close()
            forget_journal(self.store.place)
        self.close()
        manifest: dict[str, Any] = json.loads(json.dumps(self.manifest))  # as a reader has it
        return read_run(self.store, manifest, is_own=True)

    def stop(self, changes: Mapping[str, Mapping[str, Any]], why: BaseException) -> None:
        """Say in `run.json` that the run stopped before its end, and why; the journal stays."""
        message = hide_secrets(str(getattr(why, "message", "interrupted")))
        stopped = {"code": getattr(why, "code", None), "message": message}
        self._end("incomplete", changes, stopped=stopped)
        self.write_manifest()

    def discard(self) -> None:
        """Remove all that was written, as if the run had not been started."""
        _remove_files(self.store)
        if isinstance(self.store, ObjectStore):
            forget_journal(self.store.place)
        self.close()
        for path in self.made:
            remove_empty(path)


@dataclass(frozen=True)
class TaskWriter:
    """Writes the tables and numbers of one task, or of a repetition of it, below a folder of a
    run.
    """

    store: RunStore
    base: str

    def write_chunk(
        self, index: int, scores: pl.DataFrame | None, completions: pl.DataFrame | None
    ) -> None:
        """Write the rows of a chunk."""
        if completions is not None:
            self.write_part("completions", index, completions)
        if scores is not None:
            self.write_part("scores", index, scores)

    def write_part(self, table: str, index: int, frame: pl.DataFrame) -> None:
        """Write the `scores` or `completions` of one chunk."""
        self.store.write_frame(f"{self.base}/{table}/part-{index:05d}.parquet", frame)

    @property
    def scores(self) -> StoredTable:
        """The scores written so far."""
        return StoredTable(self.store, f"{self.base}/scores")

    def write_metrics(self, metrics: Sequence[MetricValue], totals: Mapping[str, Any]) -> None:
        """Take the numbers; the task is finished with that."""
        unify_parts(self.store, f"{self.base}/scores")
        numbers = {"metrics": [asdict(metric) for metric in metrics], "tally": totals}
        self.store.write_json(f"{self.base}/metrics.json", numbers)

    def clear(self) -> None:
        """Remove the parts of the tables; the next ones may have other rows in each."""
        for table in TABLES:
            parts = StoredTable(self.store, f"{self.base}/{table}").parts
            self.store.remove([part.name for part in parts])

    def repetition(self, number: int) -> TaskWriter:
        """Return the writer of a repetition; the first one is the task itself, number 0."""
        base = f"{self.base}/{REPETITIONS}/{number + 1}"
        return replace(self, base=base) if number else self

    def write_repeatability(self, summary: Mapping[str, Any], agreement: pl.DataFrame) -> None:
        """Take what all repetitions say together, and sample by sample."""
        self.store.write_frame(f"{self.base}/{AGREEMENT}", agreement)
        self.store.write_json(f"{self.base}/{REPEATABILITY}", summary)


def unify_parts(store: RunStore, folder: str) -> None:
    """Give all parts of a table the same schema, so that any reader can read them as one.

    They differ when a scorer of the user's own gives numbers for some shards and texts for others,
    or a name for some only. Nothing is written when they do not; a part is replaced whole.
    """
    parts = StoredTable(store, folder).parts
    schemas = store.map(store.read_schema, parts)
    if all(schema == schemas[0] for schema in schemas):
        return
    try:
        common = join_parts([pl.DataFrame(schema=schema) for schema in schemas])
        for part, schema in zip(parts, schemas, strict=True):
            if schema != common.schema:
                frame = store.read_rows(part, range(store.count_rows(part)))
                store.write_frame(part.name, join_parts([common, frame]))
    except pl.exceptions.PolarsError as error:
        message = f"the parts in `{store.show(folder)}` cannot be given one form: {error}"
        raise RunError("E502", message, hint="let the scorer give values of one type") from error
