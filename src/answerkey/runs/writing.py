"""Write a run to a store; after a crash at any moment, the written part is readable.

One process, which has the lock, writes everything. The file that makes a folder a run, and
the status that makes it complete, are written last.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import polars as pl

from answerkey.datasets.storage import find_object, put_object
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
    read_manifest,
    read_run,
    require_file,
)
from answerkey.runs.store import (
    JOURNAL_NAME,
    OWNER_NAME,
    FolderStore,
    Json,
    JsonObject,
    ObjectStore,
    RunPlace,
    RunStore,
    StoredFolder,
    find_place,
    open_store,
    reaching_storage,
)
from answerkey.types import MetricValue, Notice

if TYPE_CHECKING:
    from answerkey.models.store import CallStore

#: Seconds between two published copies of a journal.
PUBLISH_SECONDS = 60.0
#: The tables of a task that are in parts.
TABLES = ("scores", "completions")


def now() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


class NewFolder(NamedTuple):
    """A folder `runs/<time>-<key>` for a new run, which gets its name when it is made."""

    key: str

    def make(self) -> tuple[Path, list[Path]]:
        """Make the folder under a name that no other run has taken.

        Return it, and all folders made.
        """
        runs = Path("runs")
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", self.key)
        stem = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{name}"
        folder = runs / stem
        made = [folder]
        if not runs.exists():
            made.append(runs)
        try:
            runs.mkdir(exist_ok=True)
            for number in itertools.count(2):
                with suppress(FileExistsError):
                    folder.mkdir()
                    break
                folder = runs / f"{stem}-{number}"
        except OSError as error:
            message = f"cannot make `{folder}`: {error}"
            raise RunError("E502", message, hint="choose another with `--out`") from error
        made[0] = folder
        return folder, made


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
    """Delete the journal of a complete run, and its published copy.

    The tables have the same content.
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
    manifest: Json,
    tasks: Mapping[str, Json],
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
        _remove_drafts(store)
        if isinstance(store, ObjectStore):
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


def _remove_drafts(store: RunStore) -> None:
    """Remove the unfinished files of a killed process; the run is locked."""
    if isinstance(store, FolderStore):
        for draft in store.place.rglob(".*.draft"):
            draft.unlink(missing_ok=True)


def reopen_run(place: RunPlace) -> RunWriter:
    """Open a run that stopped, with its journal.

    Nothing of it is changed yet. E506 while another works on it.
    """
    store = open_store(place)
    read_manifest(store)  # so that nothing is locked that is no run
    with ExitStack() as undo:
        lock = store.lock()
        undo.callback(lock.close)
        manifest = read_manifest(store)
        _remove_drafts(store)
        lost = 0
        if isinstance(store, ObjectStore):
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
    manifest: JsonObject
    lock: RunLock = field(repr=False)
    lost_records: int = 0
    made: Sequence[Path] = ()
    is_resumed: bool = False
    _values: dict[str, Sequence[MetricValue]] = field(default_factory=dict)
    _journal: CallStore | None = None
    _copies: JournalCopies | None = None

    def restart(self, changes: Json) -> None:
        """Record in `run.json` that the run continues, with these changes.

        Not if its journal cannot be read.
        """
        home = self.store.home
        if home is not None and (home / JOURNAL_NAME).is_file():
            self.journal()
        self.is_resumed = True
        self.manifest |= changes
        self.manifest["status"] = "running"
        for entry in self.manifest["tasks"]:
            entry["counts"] = None
        for name in ("ended_at", "stopped", "gates", "files"):
            self.manifest.pop(name, None)
        self.write_manifest()

    def journal(self) -> CallStore:
        """Return the journal of the run, opened the first time it is asked for."""
        if self._journal is None:
            from answerkey.models.store import CallStore

            home = self.store.home
            self._journal = CallStore(home and home / JOURNAL_NAME)
            self._journal.mend()
            if isinstance(self.store, ObjectStore):
                self._copies = JournalCopies(self._journal, self.store)
        return self._journal

    def close(self) -> None:
        """Close the journal and release the run; a second call does nothing."""
        if self._copies is not None:
            self._copies.end()
            is_complete = self.manifest["status"] == "complete"
            if self.lock.is_held and not is_complete:
                # The error that stopped the run matters more, and the journal is on this machine.
                with suppress(AnswerkeyError, OSError):
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
            is_running = self.manifest["status"] == "running"
            if is_running and isinstance(error, KeyboardInterrupt):
                with suppress(AnswerkeyError, OSError):  # the signal is reported instead
                    self.stop({}, error)
            place = shlex.quote(str(self.store.place))
            error.add_note(f"answerkey resume {place}")
        self.close()

    def task(self, key: str) -> TaskWriter:
        """Return the writer of one task."""
        return TaskWriter(self.store, f"tasks/{key}", self._values)

    def add_notices(self, notices: Iterable[Notice]) -> None:
        """Add notices to `run.json`, each text once."""
        texts = dict.fromkeys(self.manifest["notices"])
        texts |= dict.fromkeys(map(str, notices))
        self.manifest["notices"] = list(texts)

    def read_source(self, key: str) -> JsonObject:
        """Return a task's `task.json`."""
        files = self.store.list_files(f"tasks/{key}")
        file = require_file(self.store, files, f"tasks/{key}/task.json")
        listed = self.manifest.get("files") or {}
        if file.name in listed:
            file = file._replace(sha256=listed[file.name]["sha256"])
        return self.store.read_json(file)

    def write_manifest(self) -> None:
        """Publish the journal of a run that is not complete, then write `run.json`; E506 if it is
        lost.
        """
        self.lock.require_held()
        is_complete = self.manifest["status"] == "complete"
        if self._copies is not None and not is_complete:
            self._copies.publish()
        self.store.write_json("run.json", self.manifest)

    def _end(self, status: str, changes: Mapping[str, Json]) -> None:
        self.manifest["status"] = status
        entries = []
        for entry in self.manifest["tasks"]:
            change = changes.get(entry["key"], {})
            entries.append({**entry, **change})
        self.manifest["tasks"] = entries
        if self.store.place is not None:
            self.manifest["ended_at"] = now()
            self.manifest["files"] = describe_files(self.store)

    def finish(
        self,
        status: str,
        changes: Mapping[str, Json],
        conclude: Callable[[Run], Json] | None = None,
    ) -> Run:
        """Finish the run: complete each task's entry, set the status, and return the run as read.

        `conclude` sees the finished run, and returns further entries of `run.json`.
        """
        self._end(status, changes)
        self.manifest = json.loads(json.dumps(self.manifest))  # as a reader has it
        run = read_run(self.store, self.manifest, values=self._values)
        if conclude is not None:
            self.manifest |= json.loads(json.dumps(conclude(run)))
        self.write_manifest()
        if status == "complete":
            if self._copies is not None:
                self._copies.end()
            if self._journal is not None:
                self._journal.close()
            forget_journal(self.store.place)
        self.close()
        return run

    def stop(self, changes: Mapping[str, Json], why: BaseException) -> None:
        """Record in `run.json` that the run stopped early, and why; the journal stays."""
        message = str(getattr(why, "message", "interrupted"))
        code = getattr(why, "code", None)
        self._end("incomplete", changes)
        self.manifest["stopped"] = {"code": code, "message": hide_secrets(message)}
        self.write_manifest()

    def discard(self) -> None:
        """Remove everything that was written, as if the run had not been started."""
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

    `values` are the metric values that were written, by folder.
    """

    store: RunStore
    base: str
    values: dict[str, Sequence[MetricValue]] = field(default_factory=dict)

    def write_part(
        self,
        table: str,
        index: int,
        frame: pl.DataFrame | None,
    ) -> None:
        """Write the `scores` or `completions` of one chunk, if there are any."""
        if frame is not None:
            self.store.write_frame(f"{self.base}/{table}/part-{index:05d}.parquet", frame)

    @property
    def scores(self) -> StoredTable:
        """The scores written so far."""
        return StoredTable(self.store, f"{self.base}/scores")

    def write_metrics(self, metrics: Sequence[MetricValue], totals: Json) -> None:
        """Write the numbers, which finishes the task."""
        described = [asdict(metric) for metric in metrics]
        self.store.write_json(f"{self.base}/metrics.json", {"metrics": described, "tally": totals})
        self.values[self.base] = metrics

    def clear(self) -> None:
        """Remove the parts of the tables; the next parts may be divided differently."""
        for table in TABLES:
            parts = StoredTable(self.store, f"{self.base}/{table}").parts
            self.store.remove([part.name for part in parts])

    def repetition(self, number: int) -> TaskWriter:
        """Return the writer of a repetition; the first one is the task itself, number 0."""
        if number == 0:
            return self
        base = f"{self.base}/{REPETITIONS}/{number + 1}"
        return TaskWriter(self.store, base, self.values)

    def write_repeatability(self, summary: Json, agreement: pl.DataFrame) -> None:
        """Write the comparison of all repetitions, as a whole and by sample."""
        self.store.write_frame(f"{self.base}/{AGREEMENT}", agreement)
        self.store.write_json(f"{self.base}/{REPEATABILITY}", summary)


def unify_parts(store: RunStore, folder: str) -> None:
    """Give all parts of a table the same schema, so that any reader can read them as one.

    They differ when a scorer of the user's own gives numbers for some chunks and texts for others,
    or a name for some only. Nothing is written when they do not; a part is replaced whole.
    """
    parts = StoredTable(store, folder).parts
    if len(parts) == 1:
        return
    schemas = store.map(store.read_schema, parts)
    if all(schema == schemas[0] for schema in schemas):
        return
    try:
        empty_parts = [pl.DataFrame(schema=schema) for schema in schemas]
        common = join_parts(empty_parts)
        for part, schema in zip(parts, schemas, strict=True):
            if schema != common.schema:
                frame = join_parts([common, store.read_rows(part)])
                store.write_frame(part.name, frame)
    except pl.exceptions.PolarsError as error:
        message = f"the parts in `{store.show(folder)}` cannot be given the same schema: {error}"
        raise RunError("E502", message, hint="let the scorer give values of one type") from error


# The journal of a run on object storage
#
# SQLite needs a file system, and a call counts as finished when it is on disk. So the journal of
# such a run lies in the user's cache folder. A copy is published now and then, and when the run
# stops. Where the run is resumed, the copy and what this machine has of it become one.


class JournalCopies:
    """Publishes copies of the journal of a run on object storage, on a thread of its own."""

    def __init__(self, journal: CallStore, store: ObjectStore) -> None:
        self._journal = journal
        self._url = store.show(JOURNAL_NAME)
        self._end = threading.Event()
        self._turn = threading.Lock()
        self._published: int | None = None
        self._thread = threading.Thread(
            target=self._go_on,
            name="answerkey-journal",
            daemon=True,
        )
        self._thread.start()

    def publish(self) -> None:
        """Publish a copy of the journal unless it has not changed.

        E509 if that fails.
        """
        with self._turn, tempfile.TemporaryDirectory(prefix="answerkey-journal-") as folder:
            changes = self._journal.changes
            if changes == self._published:
                return
            copy = Path(folder) / JOURNAL_NAME
            self._journal.copy_to(copy)
            with reaching_storage():
                put_object(self._url, copy)
            self._published = changes

    def end(self) -> None:
        """Stop publishing; a second call does nothing."""
        self._end.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._end.wait(PUBLISH_SECONDS):
            with suppress(RunError, OSError):  # the next copy, or the end of the run, reports it
                self.publish()


def claim_folder(store: ObjectStore, started_at: str) -> None:
    """Claim the folder of this machine for a run; files of another run are removed."""
    owner = store.home / OWNER_NAME
    with suppress(OSError):
        if owner.read_text(encoding="utf-8") == started_at:
            return
    from answerkey.models.store import remove_store

    remove_store(store.home / JOURNAL_NAME)
    owner.write_text(started_at, encoding="utf-8")


def bring_journal(store: ObjectStore) -> int:
    """Fetch the published copy of a journal and merge it with the one on this machine, if any.

    Return how many records were lost in merging; losses of a sole copy are reported when it is
    opened. E503 if it is damaged, E509 if it cannot be fetched.
    """
    from answerkey.models.store import CallStore

    local = store.home / JOURNAL_NAME
    with tempfile.TemporaryDirectory(dir=store.home, prefix=".journal-") as folder:
        copy = Path(folder) / JOURNAL_NAME
        with reaching_storage():
            published = find_object(store.show(JOURNAL_NAME))
            if published is None:
                return 0
            with copy.open("wb") as file:
                for block in published.iterate():
                    file.write(block)
        if not local.is_file():
            copy.replace(local)
            return 0
        try:
            with closing(CallStore(local)) as journal, closing(CallStore(copy)) as additions:
                journal.mend()
                additions.mend()
                journal.merge(additions)
                return journal.lost + additions.lost
        except RunError as error:
            if error.code != "E503":
                raise
            message = (
                f"the journal `{published.url}`, or the one of this machine, `{local}`, is "
                f"damaged: {error.__cause__}"
            )
            hint = "delete the damaged one and resume: calls in the other are not repeated"
            raise RunError("E503", message, hint=hint) from error
