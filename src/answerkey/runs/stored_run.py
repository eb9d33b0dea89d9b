"""Runs written to shared storage: every file an object, whole or not there at all, in the order of a folder.

Parts are put where they belong by whoever worked on them, on any machine. What says that a run is there, and
that it is finished, is put by the process that has the lock, last. A store has no room for a journal: see
`stored_journal`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import polars as pl

from answerkey.datasets.storage import copy_object, list_objects, put_object, remove_objects
from answerkey.errors import AnswerkeyError, DataError, RunError
from answerkey.models.cache import CallCache
from answerkey.runs.contents import Listed, find_digest
from answerkey.runs.files import list_parts
from answerkey.runs.journal import Journal
from answerkey.runs.lock import LOCK_NAME, RunLock
from answerkey.runs.places import StoredFolder, reaching_storage
from answerkey.runs.reading import AGREEMENT, FORMAT_VERSION, REPEATABILITY, REPETITIONS, Run
from answerkey.runs.stored_journal import JournalCopies, bring_journal, claim_home, remove_copy
from answerkey.runs.stored_lock import StoredLock
from answerkey.runs.stored_parts import TOGETHER, StoredParts, list_stored_parts, put_frame, put_json
from answerkey.runs.stored_reading import (
    describe_objects,
    load_stored_run,
    put_stored_together,
    read_stored_json,
    read_stored_manifest,
)
from answerkey.runs.writing import TABLES, FolderRun, FolderTask, now
from answerkey.types import MetricValue


class BothLocks:
    """The lock of a run on shared storage, and that of its folder on this machine, which is told at once."""

    def __init__(self, place: StoredFolder) -> None:
        self._stack = ExitStack()
        try:
            place.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            message = f"cannot make `{place.home}`, where the journal of the run is kept: {error}"
            raise RunError("E502", message, hint="make room, or set `XDG_CACHE_HOME`") from error
        with ExitStack() as stack:
            stack.callback(_remove_empty, place)
            stack.enter_context(RunLock(place.home))
            self.stored = StoredLock(place.url)
            stack.callback(self.stored.release)
            self._stack = stack.pop_all()

    @property
    def is_held(self) -> bool:
        """Whether the lock has not been released yet."""
        return self.stored.is_held

    def release(self) -> None:
        """Let the run go; a second call does nothing."""
        self._stack.close()


def _remove_empty(place: StoredFolder) -> None:
    """Remove the folder of this machine, unless it has the journal of a run that is not complete."""
    with suppress(OSError):
        place.home.rmdir()


@dataclass
class StoredRun(FolderRun):
    """A run that is being written to shared storage; `folder` is where its journal is on this machine."""

    lock: BothLocks = field(repr=False)
    stored: StoredFolder = field(kw_only=True)
    _copies: JournalCopies | None = field(default=None, init=False, repr=False)

    @classmethod
    def start(
        cls, stored: StoredFolder, manifest: Mapping[str, Any], tasks: Mapping[str, Mapping[str, Any]]
    ) -> Self:
        """Start a run: nothing is there, each `task.json`, last `run.json` with status `running`."""
        require_new(stored)
        known = {"format_version": FORMAT_VERSION, **manifest, "status": "running", "started_at": now()}
        lock = BothLocks(stored)
        try:
            require_new(stored)
            claim_home(stored, known["started_at"], is_new=True)
            _begin(stored, known, tasks)
        except BaseException:
            lock.release()
            raise
        return cls(stored.home, known, lock, stored=stored)

    @classmethod
    def take_up(cls, stored: StoredFolder) -> Self:
        """Open a run that stopped, with its journal; E506 while another process works on it."""
        read_stored_manifest(stored)  # so that nothing is locked that is no run
        lock = BothLocks(stored)
        try:
            manifest = read_stored_manifest(stored)
            claim_home(stored, str(manifest.get("started_at")), is_new=False)
            lost = bring_journal(stored)
        except BaseException:
            lock.release()
            raise
        return cls(stored.home, manifest, lock, stored=stored, lost_records=lost)

    @property
    def place(self) -> StoredFolder:
        """Where the run is."""
        return self.stored

    def journal(self, cache: CallCache | None = None) -> Journal:
        """Return the journal of the run, of which copies are published while it is worked on."""
        found = super().journal(cache)
        if self._copies is None:
            self._copies = JournalCopies(self.stored)
        return found

    def task(self, key: str) -> StoredTask:  # type: ignore[override]  # the same verbs, elsewhere
        """Return the writer of one task, whichever process or machine it is sent to."""
        return StoredTask(f"{self.stored.url}/tasks/{key}")

    def read_source(self, key: str) -> dict[str, Any]:
        """Return a task's `task.json`."""
        return read_stored_source(self.stored, key, self.manifest.get("files"))

    def describe_files(self) -> dict[str, dict[str, Any]]:
        """Return the list of the objects of the run for `run.json`, from what the store has.

        They are read for that, so the journal, which says what was paid for, is published first.
        """
        self._publish()
        return describe_objects(self.stored)

    def write_manifest(self) -> None:
        """Publish the journal of a run that is not complete, then `run.json`; E506 if it is another's."""
        self._publish()
        put_json(f"{self.stored.url}/run.json", self.manifest)

    def _publish(self) -> None:
        self.lock.stored.require_held()
        if self._copies is not None and self.manifest["status"] != "complete":
            self._copies.publish()

    def read_again(self) -> Run:
        """Return the run as its objects and its manifest say, which need not be written yet."""
        return put_stored_together(self.stored, self.manifest)

    def load(self) -> Run:
        """Return the run as read from where it was written."""
        return load_stored_run(self.stored)

    def close(self) -> None:
        """Let the journal and the run go; a second call does nothing."""
        if self._copies is not None:
            self._copies.end()
            if self.lock.is_held and self.manifest["status"] != "complete":
                with suppress(AnswerkeyError, OSError):  # what stopped the run is told; the journal is here
                    self._copies.publish()
        super().close()

    def _forget_journal(self) -> None:
        """Delete the journal: the tables of a complete run say the same, so it does no harm if it stays."""
        if self._copies is not None:
            self._copies.end()
        if self._journal is not None:
            self._journal.close()
        with suppress(RunError):
            remove_copy(self.stored)


def read_stored_source(stored: StoredFolder, key: str, listed: Listed | None) -> dict[str, Any]:
    """Return a task's `task.json`."""
    with reaching_storage():
        found = [one for one in list_objects(f"{stored.url}/tasks/{key}") if one.name == "task.json"]
        if not found:
            raise RunError("E503", f"`{stored}/tasks/{key}` has no `task.json`", hint="the run is damaged")
        return read_stored_json(found[0], find_digest(listed, f"tasks/{key}/task.json"))


def require_new(stored: StoredFolder) -> None:
    """Raise E502 when there is something under an address already, E509 when that cannot be known."""
    with reaching_storage():
        there = [one.url for one in list_objects(stored.url)]
    if any(url != f"{stored.url}/{LOCK_NAME}" for url in there):
        hint = "choose a new address with `--out`"
        raise RunError("E502", f"`{stored}` is there already and not empty", hint=hint)


def _begin(stored: StoredFolder, manifest: Mapping[str, Any], tasks: Mapping[str, Mapping[str, Any]]) -> None:
    """Write what a run begins with, all of it or nothing."""
    urls = [f"{stored.url}/run.json", *(f"{stored.url}/tasks/{key}/task.json" for key in tasks)]
    try:
        for url, source in zip(urls[1:], tasks.values(), strict=True):
            put_json(url, source)
        put_json(urls[0], manifest)
    except BaseException:
        with suppress(DataError):  # without `run.json` the rest is no run
            remove_objects(urls)
        raise


@dataclass(frozen=True)
class StoredTask:
    """One task of a run on shared storage, or a draft of it."""

    url: str

    def make(self) -> Self:
        """Return the same: a store needs no folders."""
        return self

    def adopt(self, draft: object) -> None:
        """Take over the tables of a draft."""
        for table in TABLES:
            url = f"{self.url}/{table}"
            with reaching_storage(), ThreadPoolExecutor(TOGETHER) as pool:
                if isinstance(draft, StoredTask):
                    parts = list_stored_parts(f"{draft.url}/{table}")
                    list(pool.map(lambda part: copy_object(part.url, f"{url}/{part.name}"), parts))  # noqa: B023 - done here
                if isinstance(draft, FolderTask):
                    files = list_parts(draft.folder / table)
                    list(pool.map(lambda file: put_object(f"{url}/{file.name}", file), files))  # noqa: B023 - done here

    def write_completions(self, index: int, frame: pl.DataFrame) -> None:
        """Take the completions of shard `index`."""
        put_frame(f"{self.url}/completions/part-{index:05d}.parquet", frame)

    def write_scores(self, index: int, frame: pl.DataFrame) -> None:
        """Take the scores of shard `index`."""
        put_frame(f"{self.url}/scores/part-{index:05d}.parquet", frame)

    def count_scores(self) -> int:
        """Return how many rows the scores have, as the objects say."""
        return len(StoredParts(f"{self.url}/scores"))

    def write_metrics(self, metrics: Sequence[MetricValue], tally: Mapping[str, Any]) -> None:
        """Take the numbers; the task is finished with that."""
        StoredParts(f"{self.url}/scores").unify()
        put_json(f"{self.url}/metrics.json", {"metrics": [asdict(one) for one in metrics], "tally": tally})

    def clear(self) -> None:
        """Remove the parts of the tables: they are written anew, perhaps with other rows in each."""
        with reaching_storage():
            remove_objects([one.url for table in TABLES for one in list_stored_parts(f"{self.url}/{table}")])

    def repetition(self, number: int) -> StoredTask:
        """Return the writer of a repetition; the first one is the task itself, number 0."""
        return StoredTask(f"{self.url}/{REPETITIONS}/{number + 1}") if number else self

    def read_scores(self) -> pl.DataFrame:
        """Return the scores written so far."""
        return StoredParts(f"{self.url}/scores").read_all()

    def write_repeatability(self, summary: Mapping[str, Any], agreement: pl.DataFrame) -> None:
        """Take what all repetitions say together, and sample by sample."""
        put_frame(f"{self.url}/{AGREEMENT}", agreement)
        put_json(f"{self.url}/{REPEATABILITY}", summary)
