"""Rows checked and scored in one visit; what comes of it enters a run only when all rows are in order.

Where nobody is asked and nothing slow is run, scoring rows that will be refused in the end costs little, and
reading and resolving every row twice costs more.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

from answerkey.datasets import Shard
from answerkey.datasets.storage import list_objects, remove_objects
from answerkey.engines import Engine
from answerkey.errors import AnswerkeyError, DataError
from answerkey.pipeline import Measured, Outcome, Prepared, Progress, merge_shards, require_rows, run_shard
from answerkey.runs import RunPlace, StoredFolder, TaskWriter
from answerkey.runs.store import FolderStore, MemoryStore, ObjectStore
from answerkey.verbs.design_columns import find_missing_design
from answerkey.verbs.row_checks import (
    RowFindings,
    ShardFindings,
    check_rows,
    conclude_findings,
    look_at_shard,
)

#: What is wrong with a shard, and what was measured: nothing, or why not, where it could not be scored.
Visited = tuple[ShardFindings, Measured | AnswerkeyError | None]


@dataclass(frozen=True)
class Staged:
    """A task that has been scored, and whose tables do not belong to a run yet."""

    writer: TaskWriter
    outcome: Outcome

    def deliver(self, writer: TaskWriter) -> Outcome:
        """Hand the tables and numbers over to a run."""
        writer.adopt(self.writer)
        writer.write_metrics(self.outcome.values, self.outcome.tally)
        return self.outcome


class Stage:
    """Where tables wait until it is known that they may enter a run: in memory; a context manager."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of what has waited."""

    def takes(self, prepared: Prepared) -> bool:
        """Return whether a task can be scored while it is checked; another process has its own memory."""
        return prepared.spread == "threads"

    def open_task(self, key: str) -> TaskWriter:
        """Return the writer of one task."""
        return TaskWriter(MemoryStore(), f"tasks/{key}")


class FolderStage(Stage):
    """A stage in a temporary folder, which is made when it is needed; a context manager.

    It is a folder of this machine, or one in `home`, where others can see it.
    """

    def __init__(self, home: Path | None = None) -> None:
        self._home = home
        self._stack = ExitStack()
        self._folder: Path | None = None

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def takes(self, prepared: Prepared) -> bool:
        """Return whether a task can be scored while it is checked."""
        # Completions that are to be kept may be too many for a temporary folder.
        return prepared.spread in ("threads", "processes") and not prepared.keep_completions

    def open_task(self, key: str) -> TaskWriter:
        """Return the writer of one task."""
        if self._folder is None:
            if self._home is not None:
                self._home.mkdir(parents=True, exist_ok=True)
            made = tempfile.TemporaryDirectory(
                prefix=".answerkey-scores-" if self._home else "answerkey-scores-",
                dir=self._home,
                ignore_cleanup_errors=True,
            )
            self._folder = Path(self._stack.enter_context(made))
        return TaskWriter(FolderStore(self._folder, is_draft=True), f"tasks/{key}").make()


class StoredStage(Stage):
    """A stage on shared storage, beside the run that is to be; what waits there is removed in the end."""

    def __init__(self, home: str) -> None:
        self._url = f"{home}/.answerkey-scores-{secrets.token_hex(6)}"
        self._is_used = False

    def __exit__(self, *_: object) -> None:
        if self._is_used:
            with suppress(DataError):
                remove_objects([one.url for one in list_objects(self._url)])

    def takes(self, prepared: Prepared) -> bool:
        """Return whether a task can be scored while it is checked."""
        return prepared.spread in ("threads", "processes") and not prepared.keep_completions

    def open_task(self, key: str) -> TaskWriter:
        """Return the writer of one task."""
        self._is_used = True
        return TaskWriter(ObjectStore(StoredFolder(self._url)), f"tasks/{key}")


def open_stage(place: RunPlace, *, is_far: bool) -> Stage:
    """Return where tables wait for a run: on this machine, or where every node of a cluster can see them."""
    if not is_far:
        return FolderStage()
    return (
        StoredStage(place.parent) if isinstance(place, StoredFolder) else FolderStage(place.absolute().parent)
    )


def visit_rows(
    prepared: Prepared, writer: TaskWriter, progress: Progress, engine: Engine
) -> tuple[RowFindings, Staged | AnswerkeyError | None]:
    """Check and score every row; return what is wrong, and the scores, or why there are none."""
    if find_missing_design(prepared.task, prepared.dataset):  # nothing could be measured
        return check_rows(prepared, progress, engine), None
    findings, measured = RowFindings(len(prepared.dataset)), list[Measured | AnswerkeyError | None]()
    done = 0
    function = partial(visit_shard, prepared.without_rows(), writer)
    for found, one in engine.map(function, prepared.shards(), spread=prepared.spread):
        measured.append(one)
        findings.take(found, done)
        done += found.rows
        progress("score", done, len(prepared.dataset))
    conclude_findings(findings, prepared)
    return findings, _conclude(prepared, writer, measured)


def visit_shard(prepared: Prepared, writer: TaskWriter, shard: Shard) -> Visited:
    """Check and score one shard; a shard that lacks a column is not scored."""
    samples = shard.samples.load(prepared.columns)
    found = look_at_shard(prepared, shard, samples, is_recorded=shard.recorded is not None)
    if found.fatal:
        return found, None
    try:
        return found, run_shard(prepared, writer, replace(shard, failed=tuple(sorted(found.failed))), samples)
    except AnswerkeyError as error:
        return found, error


def _conclude(
    prepared: Prepared, writer: TaskWriter, measured: Sequence[Measured | AnswerkeyError | None]
) -> Staged | AnswerkeyError | None:
    scored: list[Measured] = []
    for one in measured:
        if not isinstance(one, Measured):
            return one
        scored.append(one)
    require_rows(prepared, writer, scored)
    return Staged(writer, merge_shards(prepared.task, scored))
