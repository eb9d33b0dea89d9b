"""Runs written to disk, or kept in memory; a crash at any moment leaves what is there readable."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from answerkey.errors import RunError
from answerkey.runs.files import join_parts, write_frame, write_json
from answerkey.runs.reading import FORMAT_VERSION, Run, TaskRun, load_run
from answerkey.types import MetricValue


class TaskWriter(Protocol):
    """Where one task's tables and numbers go."""

    def write_completions(self, index: int, frame: pl.DataFrame) -> None:
        """Take the completions of shard `index`."""

    def write_scores(self, index: int, frame: pl.DataFrame) -> None:
        """Take the scores of shard `index`."""

    def write_metrics(self, metrics: Sequence[MetricValue], tally: Mapping[str, Any]) -> None:
        """Take the numbers; the task is finished with that."""


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
    """A run that is being written to a folder."""

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def create(
        cls, folder: Path, manifest: Mapping[str, Any], tasks: Mapping[str, Mapping[str, Any]]
    ) -> FolderRun:
        """Start a run: an empty folder, each `task.json`, last `run.json` with status `running`."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(
                "E502", f"`{folder}` is there already and not empty", hint="choose a new folder with `--out`"
            )
        try:
            for key in tasks:
                for table in ("scores", "completions"):
                    (folder / "tasks" / key / table).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(
                "E502", f"cannot make `{folder}`: {error}", hint="choose another with `--out`"
            ) from error
        for key, source in tasks.items():
            write_json(folder / "tasks" / key / "task.json", source)
        run = cls(
            folder, {"format_version": FORMAT_VERSION, **manifest, "status": "running", "started_at": now()}
        )
        write_json(folder / "run.json", run.manifest)
        return run

    def task(self, key: str) -> FolderTask:
        """Return the writer of one task."""
        return FolderTask(self.folder / "tasks" / key)

    def finish(self, status: str, changes: Mapping[str, Mapping[str, Any]]) -> Run:
        """Close the run: add to each task's entry, state the status, and return the run as read from disk."""
        entries = [{**entry, **changes.get(entry["key"], {})} for entry in self.manifest["tasks"]]
        self.manifest |= {"status": status, "ended_at": now(), "tasks": entries}
        write_json(self.folder / "run.json", self.manifest)
        return load_run(self.folder)


@dataclass(frozen=True)
class FolderTask:
    """The folder of one task."""

    folder: Path

    def write_completions(self, index: int, frame: pl.DataFrame) -> None:
        """Take the completions of shard `index`."""
        write_frame(self.folder / "completions" / f"part-{index:05d}.parquet", frame)

    def write_scores(self, index: int, frame: pl.DataFrame) -> None:
        """Take the scores of shard `index`."""
        write_frame(self.folder / "scores" / f"part-{index:05d}.parquet", frame)

    def write_metrics(self, metrics: Sequence[MetricValue], tally: Mapping[str, Any]) -> None:
        """Take the numbers; the task is finished with that."""
        write_json(
            self.folder / "metrics.json", {"metrics": [asdict(one) for one in metrics], "tally": tally}
        )


@dataclass
class MemoryRun:
    """A run that is kept in memory, with the same verbs as `FolderRun`."""

    manifest: dict[str, Any]
    sources: Mapping[str, Mapping[str, Any]]
    tasks: dict[str, MemoryTask] = field(default_factory=dict)

    def task(self, key: str) -> MemoryTask:
        """Return the writer of one task."""
        return self.tasks.setdefault(key, MemoryTask())

    def finish(self, status: str, changes: Mapping[str, Mapping[str, Any]]) -> Run:
        """Close the run and return it."""
        entries = [{**entry, **changes.get(entry["key"], {})} for entry in self.manifest["tasks"]]
        manifest = {"format_version": FORMAT_VERSION, **self.manifest, "status": status, "tasks": entries}
        finished = {entry["key"]: self.tasks[entry["key"]].finish(entry, self.sources) for entry in entries}
        return Run(manifest, finished, None)


@dataclass
class MemoryTask:
    """The tables and numbers of one task, kept in memory."""

    scores: list[pl.DataFrame] = field(default_factory=list)
    completions: list[pl.DataFrame] = field(default_factory=list)
    metrics: Sequence[MetricValue] = ()
    tally: Mapping[str, Any] = field(default_factory=dict)

    def write_completions(self, index: int, frame: pl.DataFrame) -> None:
        """Take the completions of shard `index`; shards come in order."""
        self.completions.insert(index, frame)

    def write_scores(self, index: int, frame: pl.DataFrame) -> None:
        """Take the scores of shard `index`; shards come in order."""
        self.scores.insert(index, frame)

    def write_metrics(self, metrics: Sequence[MetricValue], tally: Mapping[str, Any]) -> None:
        """Take the numbers; the task is finished with that."""
        self.metrics, self.tally = metrics, tally

    def finish(self, entry: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]]) -> TaskRun:
        """Return the task as a finished one."""
        return TaskRun(
            key=entry["key"],
            manifest=entry,
            source=sources[entry["key"]],
            metrics={value.name: value for value in self.metrics},
            tally=self.tally,
            read_scores=lambda: join_parts(self.scores),
            read_completions=lambda: join_parts(self.completions),
        )
