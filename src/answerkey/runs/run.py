"""Read a run: its numbers at once, its tables on demand, wherever its files are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import polars as pl

from answerkey import features
from answerkey._version import __version__
from answerkey.datasets.rows import Positions, join_positions, repeat_positions
from answerkey.datasets.storage import list_objects
from answerkey.errors import RunError, listing
from answerkey.runs.store import (
    PART,
    FolderFile,
    Json,
    JsonObject,
    RunPlace,
    RunStore,
    StoredFolder,
    describe_damage,
    find_place,
    open_store,
    reaching_storage,
    refuse_changed,
    require_digest,
)
from answerkey.text import Drawn, Line
from answerkey.types import Completions, Gate, GateStatus, MetricValue, Samples

FORMAT_VERSION = 3
#: `bytes` and `sha256` of each file by its path below the run folder.
Listed = Mapping[str, Json]
#: Metric values by the folder of their task, or of a repetition of it.
Values = Mapping[str, Sequence[MetricValue]]
NOT_COMPLETE = "the run is not complete"
#: The value of a scorer that says whether an answer is right.
RIGHT = "is_correct"
#: The additional files of a task that was run several times.
REPETITIONS, REPEATABILITY, AGREEMENT = "repetitions", "repeatability.json", "agreement.parquet"


@dataclass(frozen=True)
class StoredTable:
    """A table of a run in parts, of which any range of rows can be read.

    `files` are those of the run as they were when it was opened; without them the parts are those
    that are there when the table is first read. Damaged parts are E503.
    """

    store: RunStore
    base: str
    files: Mapping[str, FolderFile] | None = None

    @cached_property
    def parts(self) -> tuple[FolderFile, ...]:
        """The parts in their order."""
        files = self.files
        if files is None:
            files = self.store.list_files(self.base)
        parts = []
        for name, file in files.items():
            if name.startswith(f"{self.base}/") and PART.fullmatch(name):
                parts.append(file)
        return tuple(parts)

    @cached_property
    def _lengths(self) -> list[int]:
        return self.store.map(self.store.count_rows, self.parts)

    def __len__(self) -> int:
        return sum(self._lengths)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Yield part by part; one is in memory at a time."""
        return map(self.store.read_rows, self.parts)

    def read(
        self,
        offset: int,
        length: int,
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """Return at most `length` rows from `offset` on, with all columns or with some."""
        frames = []
        start = 0
        for part, count in zip(self.parts, self._lengths, strict=True):
            first = max(offset - start, 0)
            end = min(offset + length - start, count)
            rows = range(first, end)
            if rows:
                frames.append(self.store.read_rows(part, rows, columns))
            start += count
        return join_parts(frames)

    def take(self, positions: Positions, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows at these positions, which ascend, with all columns or with some."""
        if not len(positions):
            return self.read(0, 0, columns)
        first = positions[0]
        table = self.read(first, positions[-1] + 1 - first, columns)
        if isinstance(positions, range):
            return table
        return table[positions - first]

    def read_all(self) -> pl.DataFrame:
        """Return the whole table; a frame without columns when there are no parts."""
        try:
            return join_parts(list(self))
        except pl.exceptions.PolarsError as error:
            raise describe_damage(self.store.show(self.base), error) from error


def join_parts(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return parts as one frame.

    A field that some parts lack is null there; differing types become text.
    """
    if not parts:
        return pl.DataFrame()
    return pl.concat(parts, how="vertical_relaxed")


class KeptCompletions(NamedTuple):
    """The completions that a run keeps, `num_trials` for each of its samples."""

    parts: StoredTable
    num_trials: int
    positions: Positions | None = None

    def take(self, positions: Positions) -> Self:
        """Return those of the samples at these positions."""
        if self.positions is not None:
            positions = join_positions(self.positions, positions)
        return self._replace(positions=positions)

    def read(self, samples: Samples) -> Completions:
        """Return the completions of the samples."""
        positions = range(len(samples)) if self.positions is None else self.positions
        rows = repeat_positions(positions, self.num_trials)
        return Completions.from_frame(self.parts.take(rows))


@dataclass(frozen=True, repr=False)
class TaskRun:
    """One task of a run: its numbers are in memory, its tables are read on demand.

    `manifest` is the task's entry in `run.json`; `source` the task as it was resolved; `totals` the
    counts behind the summary. `stored_scores` and `stored_completions` are its tables, to be read
    in part, and `stored_samples` the rows of its dataset, if that was in memory. A task that was
    run several times has its further `repetitions`, and the comparison of all in
    `repeatability`; its own numbers are those of the first.
    """

    key: str
    manifest: Json
    source: Json
    metrics: Mapping[str, MetricValue]
    totals: Json
    stored_scores: StoredTable
    stored_completions: StoredTable
    stored_samples: StoredTable
    repeatability: Json | None = None
    repetitions: tuple[TaskRun, ...] = ()

    def __repr__(self) -> str:
        return f"TaskRun(key={self.key!r}, {self.sum_up()})"

    def sum_up(self) -> str:
        """Return the main metric and the number of samples; no metric when there are errors."""
        main = self.main_metric
        errors = self.counts.get("errors")
        samples = f"samples={self.counts['samples']}"
        if errors:
            return f"{samples}, errors={errors}"
        if main is None or main.value is None:
            return samples
        return f"{main.name}={main.value:.4g}, {samples}"

    @property
    def main_metric(self) -> MetricValue | None:
        """The first metric that counts for the score, or None when the task has none."""
        for value in self.metrics.values():
            if value.purpose == "score":
                return value
        return None

    @property
    def main_scorer(self) -> str | None:
        """The key of the scorer that the counts belong to: the first with purpose `score`."""
        keys = []
        for scorer in self.manifest["scorers"]:
            keys.append(str(scorer["key"]))
            if scorer.get("purpose", "score") == "score":
                return keys[-1]
        return keys[0] if keys else None

    def is_accuracy(self, metric: MetricValue) -> bool:
        """Return whether a metric is the share of right answers, some of which may be guesses.

        With trials it is one only where their mean stands for the sample.
        """
        if metric.type != "mean" or metric.scorer != self.main_scorer:
            return False
        field = self._find_field(metric)
        trials = self.manifest.get("trials")
        if not trials:
            return field == RIGHT
        name, _, function = field.partition(".")
        usual = "mean"
        for aggregator in trials["score_aggregators"]:
            if aggregator["score_name"] == RIGHT:
                usual = aggregator["aggregator"]["function"]
                break
        return name == RIGHT and (function or usual) == "mean"

    def _find_field(self, metric: MetricValue) -> str:
        task = self.source.get("task", {})
        definition = task.get("definition", {})
        for scorer in definition.get("scorers") or ():
            if scorer["key"] != metric.scorer:
                continue
            for entry in scorer["metrics"]:
                if entry["key"] == metric.metric:
                    return str(entry.get("field"))
        return ""

    @property
    def counts(self) -> Mapping[str, int]:
        """Samples, scored, valid, invalid, refused, declined, failed, errors."""
        counts: Mapping[str, int] = self.totals["counts"]
        return counts

    @cached_property
    def scores(self) -> pl.DataFrame:
        """The table of scores: `sample_id`, `trial`, then one struct per scorer."""
        return self.stored_scores.read_all()

    @cached_property
    def completions(self) -> pl.DataFrame:
        """The table of completions; empty when the run refers to recorded ones."""
        return self.stored_completions.read_all()

    def to_frame(self) -> pl.DataFrame:
        """Return one flat table, a row for each sample and trial: the dataset's columns,
        completion, scores.

        The results of a scorer are `<scorer>.<name>`; a column of the dataset with a name that we
        use is `sample.<name>`. `prompt` and columns of mixed types are JSON text. The dataset must
        be there (E505). `export` writes the same columns as CSV and Parquet. `run` is the name of
        the run's folder.
        """
        frame: pl.DataFrame = features.load_exporters().build_frame(self)
        return frame

    @cached_property
    def agreement(self) -> pl.DataFrame:
        """How far repetitions agree: `sample_id`, then one struct per scorer; else empty."""
        file = (self.stored_scores.files or {}).get(f"tasks/{self.key}/{AGREEMENT}")
        if file is None:
            return pl.DataFrame()
        return self.stored_scores.store.read_rows(file)


@dataclass(frozen=True, repr=False)
class Run(Drawn):
    """A run: what ran, and its tasks. `path` is None for a run that was never written.

    A run on object storage has its address there.
    """

    manifest: Json
    tasks: Mapping[str, TaskRun]
    path: RunPlace | None = None

    def __repr__(self) -> str:
        summaries = [f"{key!r}: {task.sum_up()}" for key, task in self.tasks.items()]
        tasks = ", ".join(summaries)
        path = self.path and str(self.path)
        return f"Run(key={self.key!r}, status={self.status!r}, tasks={{{tasks}}}, path={path!r})"

    def draw(self, width: int) -> list[Line]:
        """Return its summary, in lines of at most `width` cells."""
        lines: list[Line] = features.load_terminal().draw_summary(self, width)
        return lines

    @property
    def key(self) -> str:
        """The key of the evaluation or task that ran."""
        return str(self.manifest["key"])

    @property
    def status(self) -> str:
        """`running`, `complete` or `incomplete`."""
        return str(self.manifest["status"])

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The status of each rule of its policies, in order; empty without policies.

        No rule is decided in a run that never finished.
        """
        if "gates" in self.manifest:
            from answerkey.runs.manifest import restore_gates

            return restore_gates(self.manifest["gates"])
        gates = []
        for policy in self.manifest.get("policies") or ():
            for rule in policy["rules"]:
                gates.append(make_undecided_gate(policy["key"], rule, NOT_COMPLETE))
        return tuple(gates)

    @property
    def metrics(self) -> Mapping[str, MetricValue]:
        """The metrics of the only task; a run of several tasks has them in `tasks[key].metrics`."""
        return self._find_only("metrics").metrics

    def to_frame(self) -> pl.DataFrame:
        """Return the only task as one flat table; see `TaskRun.to_frame`."""
        return self._find_only("to_frame").to_frame()

    def _find_only(self, name: str) -> TaskRun:
        if len(self.tasks) != 1:
            tasks = f"{len(self.tasks)} tasks ({listing(self.tasks)})"
            message = f"the run has {tasks}, so `{name}` is ambiguous"
            raise RunError("E504", message, hint=f"use `run.tasks[key].{name}`")
        return next(iter(self.tasks.values()))

    def save(self, path: str | RunPlace) -> Run:
        """Write the run into a new folder, or to an address, and return it as it is there."""
        if self.status == "running" or not self.tasks:
            message = "a run that has not ended cannot be saved"
            raise RunError("E507", message, hint="finish it first")
        first_task = next(iter(self.tasks.values()))
        source = first_task.stored_scores.store
        place = find_place(path)
        copy = open_store(place)
        copy.require_new()
        for name, file in source.list_files("tasks").items():
            copy.write_bytes(name, source.read_bytes(file))
        manifest = dict(self.manifest)
        if self.path is None:
            time = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            times = {"started_at": time, "ended_at": time}
            manifest |= {**times, "files": describe_files(copy)}
        copy.write_json("run.json", manifest)
        return load_run(place)


def find_answerer(entry: Json) -> Json | None:
    """Return the model of a task's entry in `run.json`: the one called, or that of recorded
    completions.
    """
    model: Json | None = entry.get("model")
    if model:
        return model
    completions = entry.get("completions") or {}
    name = completions.get("model")
    return {"name": name} if name else None


def name_answerer(entry: Json, *, with_folder: bool = True) -> str:
    """Return the name of what answered: a model, marked if simulated, else the column or file."""
    model = find_answerer(entry)
    if model:
        mark = " SIMULATED" if model.get("simulated") else ""
        return f"{model['name']}{mark}"
    completions: Json = entry.get("completions") or {}
    file = completions.get("file") or ""
    if not with_folder:
        file = Path(file).name
    source = completions.get("source", "recorded")
    return str(completions.get("column") or file or f"{source} completions")


# ── runs in folders


def load_run(path: Run | str | Path | StoredFolder) -> Run:
    """Return the run in a folder.

    A run that is still being written shows the tasks finished so far. The folder may be on object
    storage: `s3://bucket/runs/name`. A run is returned as it is. The log of another tool, as a file
    or a folder, is read as the run that its import gives.
    """
    if isinstance(path, Run):
        return path
    place = find_place(path)
    if isinstance(place, Path) and place.exists() and not is_run(place):
        imported: Run | None = features.load_importers().open_log(place)
        if imported is not None:
            return imported
    store = open_store(place)
    return read_run(store, read_manifest(store))


def load_summary(place: RunPlace) -> Run:
    """Return a run for a list of runs: its tables, which may be large, are not hashed."""
    store = open_store(place)
    return read_run(store, read_manifest(store), is_compared=False)


def load_manifest(place: RunPlace) -> JsonObject:
    """Return `run.json`; E501 when there is none, E503 when it cannot be understood."""
    return read_manifest(open_store(place))


def list_runs(folder: str | Path) -> list[Run]:
    """Return the runs below a folder, newest first; folders without a run are skipped."""
    runs = [load_run(place) for place in list_places(folder)]
    runs.sort(key=lambda run: str(run.path), reverse=True)
    runs.sort(key=lambda run: str(run.manifest.get("started_at")), reverse=True)
    return runs


def is_run(place: RunPlace) -> bool:
    """Return whether a place is a run, rather than a folder of runs."""
    return open_store(place).find_file("run.json") is not None


def list_places(folder: str | RunPlace) -> list[RunPlace]:
    """Return the places of the runs below a folder, ordered by name; E501 if it is no folder.

    They are directly below it, or below a folder in it that is not a run itself, like those of
    several models.
    """
    below = find_place(folder)
    if isinstance(below, StoredFolder):
        with reaching_storage():
            objects = list_objects(below.url)
        paths = [stored.url.removeprefix(f"{below.url}/") for stored in objects]
    elif not below.is_dir():
        hint = "name the folder that holds your runs"
        raise RunError("E501", f"`{below}` is not a folder", hint=hint)
    else:
        paths = []
        for pattern in ("*/run.json", "*/*/run.json"):
            for file in below.glob(pattern):
                paths.append(file.relative_to(below).as_posix())
    names = set()
    for path in paths:
        match = re.fullmatch(r"([^/]+(?:/[^/]+)?)/run\.json", path)
        if match:
            names.add(match[1])
    outermost = []
    for name in names:
        folder_name, slash, _ = name.partition("/")
        if not slash or folder_name not in names:
            outermost.append(name)
    outermost.sort(key=_sort_key)
    return [below / name for name in outermost]


def _sort_key(path: str) -> list[tuple[int, str]]:
    """Order paths by the numbers that their names begin with, then by the names."""
    key = []
    for name in path.split("/"):
        number = re.findall(r"^(\d{1,6})-", name) or ["0"]
        key.append((int(number[0]), name))
    return key


# ── reading


def read_manifest(store: RunStore) -> JsonObject:
    """Return `run.json`; E501 when there is none, E503 when it cannot be understood."""
    file = store.find_file("run.json")
    if file is None:
        hint = "`answerkey runs` lists the runs of a folder"
        raise RunError("E501", f"`{store.place}` is not a run folder", hint=hint)
    manifest = store.read_json(file)
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        writer = manifest.get("answerkey_version", "another version")
        message = f"`{store.place}` was written by answerkey {writer}, in run format {version!r}"
        hint = f"this is answerkey {__version__}, which reads format {FORMAT_VERSION}: run it again"
        raise RunError("E503", message, hint=hint)
    from answerkey.runs.manifest import Manifest, require_shape  # a run that is new needs no model

    require_shape(Manifest, manifest, store.show("run.json"))
    return manifest


def read_run(
    store: RunStore,
    manifest: Json,
    *,
    values: Values | None = None,
    is_compared: bool = True,
) -> Run:
    """Return a run from its files and a manifest, which may not be written yet.

    With `values` it was written by this process just now, and is not checked. Unless it
    `is_compared`, tables may have changed since the run ended. E503 for a run that is damaged.
    """
    files = store.list_files("tasks")
    listed: Listed | None = manifest.get("files") if values is None else None
    if listed is not None:
        files = require_listed(store, listed, files)
        if is_compared:
            tables = []
            for name, file in files.items():
                if name.endswith(".parquet"):
                    tables.append(file)
            digests = store.map(store.digest, tables)
            for file, digest in zip(tables, digests, strict=True):
                require_digest(store.show(file.name), digest, file.sha256)
    reader = _TaskReader(store, files, values or {})
    finished = []
    for entry in manifest["tasks"]:
        if f"tasks/{entry['key']}/metrics.json" in files:
            finished.append(entry)
    tasks = store.map(reader.read, finished)
    by_key = {task.key: task for task in tasks}
    return Run(manifest, by_key, store.place)


class _TaskReader(NamedTuple):
    """Reads the tasks of a run; `values` are those that were just written."""

    store: RunStore
    files: Mapping[str, FolderFile]
    values: Values

    def read(self, entry: Json) -> TaskRun:
        """Return a task with its finished repetitions."""
        base = f"tasks/{entry['key']}"
        task = self._read_folder(entry, base, base)
        if entry.get("counts") is not None:
            self._require_counts(entry, task.counts)
        repetitions: list[TaskRun] = []
        folder = f"{base}/{REPETITIONS}/2"  # the first one is the task itself
        while f"{folder}/metrics.json" in self.files:
            repetitions.append(self._read_folder(entry, folder, base))
            folder = f"{base}/{REPETITIONS}/{len(repetitions) + 2}"
        if not repetitions:
            return task
        repeatability = None
        if f"{base}/{REPEATABILITY}" in self.files:
            repeatability = self._read_json(f"{base}/{REPEATABILITY}")
        return replace(task, repetitions=tuple(repetitions), repeatability=repeatability)

    def _read_folder(self, entry: Json, folder: str, base: str) -> TaskRun:
        name = f"{folder}/metrics.json"
        stored = self._read_json(name)
        metrics = self.values.get(folder)
        if metrics is None:
            from answerkey.runs.manifest import Metrics, require_shape

            metrics = require_shape(Metrics, stored, self.store.show(name)).metrics
        return TaskRun(
            key=entry["key"],
            manifest=entry,
            source=self._read_json(f"{base}/task.json"),
            metrics={metric.name: metric for metric in metrics},
            totals=stored["tally"],
            stored_scores=StoredTable(self.store, f"{folder}/scores", self.files),
            stored_completions=StoredTable(self.store, f"{folder}/completions", self.files),
            stored_samples=StoredTable(self.store, f"{base}/samples", self.files),
        )

    def _read_json(self, name: str) -> JsonObject:
        return self.store.read_json(require_file(self.store, self.files, name))

    def _require_counts(self, entry: Json, counts: Mapping[str, int]) -> None:
        """Raise E503 unless the counts in `run.json` are those of `metrics.json`."""
        samples = entry["dataset"]["samples"]
        if entry["counts"] != counts or samples != counts["samples"]:
            why = f"its counts of `{entry['key']}` are not those of `metrics.json`"
            raise refuse_changed(self.store.show("run.json"), why)


# ── the list of files in `run.json`


def describe_files(store: RunStore) -> dict[str, JsonObject]:
    """Return the list of the files of a run for `run.json`, from what was written."""
    files = store.list_files("tasks")
    digests = store.map(store.digest, files.values())
    listed = {}
    for file, digest in zip(files.values(), digests, strict=True):
        listed[file.name] = {"bytes": file.size, "sha256": digest}
    return listed


def require_listed(
    store: RunStore, listed: Listed, files: Mapping[str, FolderFile]
) -> dict[str, FolderFile]:
    """Return the files of the list; E503 for one that is missing or has another size."""
    chosen = {}
    for name, entry in listed.items():
        file = require_file(store, files, name)
        if file.size != entry["bytes"]:
            why = f"it has {file.size:,} bytes, `run.json` says {entry['bytes']:,}"
            raise refuse_changed(store.show(name), why)
        chosen[name] = file._replace(sha256=entry["sha256"])
    return chosen


def require_file(
    store: RunStore,
    files: Mapping[str, FolderFile],
    name: str,
) -> FolderFile:
    """Return a file; E503 when it is not there."""
    if name not in files:
        hint = "copy the run folder again from an intact copy, or run again"
        raise RunError("E503", f"`{store.show(name)}` is missing", hint=hint)
    return files[name]


# ── gates


def describe_gates(gates: Sequence[Gate]) -> list[JsonObject]:
    """Return gates as plain values, without the unknown ones."""
    described = []
    for gate in gates:
        fields = asdict(gate, dict_factory=_drop_unknown)
        described.append({**fields, "checks": list(fields["checks"])})
    return described


def _drop_unknown(fields: Iterable[tuple[str, Any]]) -> JsonObject:
    return {name: value for name, value in fields if value is not None and value != {}}


def make_undecided_gate(policy: str, rule: Json, note: str) -> Gate:
    """Return the gate of a rule, as the files state it, that is not decided."""
    return Gate(
        policy=policy,
        rule=rule["key"],
        status=GateStatus.NOT_DECIDED,
        definition=rule["definition"],
        display_name=rule["display_name"],
        description=rule.get("description"),
        note=note,
    )
