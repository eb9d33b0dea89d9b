"""Runs that are kept in memory, with the verbs of those that are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import polars as pl

from answerkey.models.cache import CallCache
from answerkey.runs.journal import Journal
from answerkey.runs.parts import HeldParts
from answerkey.runs.reading import FORMAT_VERSION, Run, TaskRun
from answerkey.types import MetricValue

#: What is to be said of a run before it is closed, for its `run.json`.
Conclude = Callable[[Run], Mapping[str, Any]]


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

    def adopt(self, draft: object) -> None:
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
