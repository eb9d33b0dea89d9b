"""Runs read back from disk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from answerkey.errors import RunError, listing
from answerkey.runs.contents import Listed, find_digest, measure_files, pick_table, require_listed
from answerkey.runs.files import digest_file, read_frame, read_json, require_digest
from answerkey.runs.gates import read_gates
from answerkey.runs.parts import FolderParts, Parts
from answerkey.runs.places import RunPlace
from answerkey.runs.shapes import require_manifest, require_numbers
from answerkey.types import Gate, Groups, GroupValue, MetricValue

FORMAT_VERSION = 2
_FOLDER_NAME = re.compile(r"[^/\\\x00-\x1f]{1,300}")
#: What a task that was run several times has beside the tables of its first repetition.
REPETITIONS, REPEATABILITY, AGREEMENT = "repetitions", "repeatability.json", "agreement.parquet"


@dataclass(frozen=True, repr=False)
class TaskRun:
    """One task of a run: its numbers at hand, its tables read when asked for.

    `manifest` is the task's entry in `run.json`; `source` the task as it was resolved; `tally` the counts
    behind the summary; `stored_scores` and `stored_completions` its tables, to be read in part. A task that
    was run several times has its further `repetitions`, and what all of them say together in `repeatability`;
    its own numbers are those of the first.
    """

    key: str
    manifest: Mapping[str, Any]
    source: Mapping[str, Any]
    metrics: Mapping[str, MetricValue]
    tally: Mapping[str, Any]
    stored_scores: Parts
    stored_completions: Parts
    read_agreement: Callable[[], pl.DataFrame] = pl.DataFrame
    repeatability: Mapping[str, Any] | None = None
    repetitions: tuple[TaskRun, ...] = ()

    def __repr__(self) -> str:
        return f"TaskRun(key={self.key!r}, {self.sum_up()})"

    def sum_up(self) -> str:
        """Return the main metric and how many samples there are, in a few words; no number with errors."""
        counts = self.counts
        main = next((value for value in self.metrics.values() if value.purpose == "score"), None)
        samples = f"samples={counts['samples']}"
        if counts.get("errors"):
            return f"{samples}, errors={counts['errors']}"
        if main is None or main.value is None:
            return samples
        return f"{main.name}={main.value:.4g}, {samples}"

    @property
    def counts(self) -> Mapping[str, int]:
        """Samples, scored, valid, invalid, refused, failed, errors."""
        counts: Mapping[str, int] = self.tally["counts"]
        return counts

    @cached_property
    def scores(self) -> pl.DataFrame:
        """The table of scores: `sample_id`, `trial`, then one struct per scorer."""
        return self.stored_scores.read_all()

    def score_parts(self) -> Iterator[pl.DataFrame]:
        """Yield the table of scores part by part, in dataset order; one part is in memory at a time."""
        return iter(self.stored_scores)

    @cached_property
    def completions(self) -> pl.DataFrame:
        """The table of completions; empty when the run refers to recorded ones."""
        return self.stored_completions.read_all()

    @cached_property
    def agreement(self) -> pl.DataFrame:
        """How far repetitions agree: `sample_id`, then one struct per scorer; empty without repetitions."""
        return self.read_agreement()


@dataclass(frozen=True, repr=False)
class Run:
    """A run: what ran, and its tasks. `path` is None for a run that was never written.

    A run on shared storage has its address there.
    """

    manifest: Mapping[str, Any]
    tasks: Mapping[str, TaskRun]
    path: RunPlace | None = None

    def __repr__(self) -> str:
        tasks = ", ".join(f"{key!r}: {task.sum_up()}" for key, task in self.tasks.items())
        path = None if self.path is None else str(self.path)
        return f"Run(key={self.key!r}, status={self.status!r}, tasks={{{tasks}}}, path={path!r})"

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
        """How the rules of its policies stand, in their order; empty without policies."""
        return read_gates(self.manifest)

    if TYPE_CHECKING:  # put on by the package: `reports`, which draws them, is above

        @property
        def plots(self) -> Mapping[str, dict[str, Any]]:
            """The plots by name, as Vega-Lite specifications; of several tasks by `task/name`."""

    @property
    def metrics(self) -> Mapping[str, MetricValue]:
        """The metrics of the only task; a run of several tasks has them in `tasks[key].metrics`."""
        if len(self.tasks) != 1:
            raise RunError(
                "E504",
                f"the run has {len(self.tasks)} tasks ({listing(self.tasks)}), so `metrics` is ambiguous",
                hint="use `run.tasks[key].metrics`",
            )
        return next(iter(self.tasks.values())).metrics


def find_answerer(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the model of a task's entry in `run.json`: the one asked, or that of recorded completions."""
    name = (entry.get("completions") or {}).get("model")
    return entry.get("model") or ({"name": name} if name else None)


def name_answerer(entry: Mapping[str, Any], *, with_folder: bool = True) -> str:
    """Return who answered: a model, marked when simulated; if none is known, the column or the file."""
    if model := find_answerer(entry):
        return f"{model['name']}{' SIMULATED' if model.get('simulated') else ''}"
    source: Mapping[str, Any] = entry.get("completions") or {}
    file = source.get("file")
    file = Path(file).name if file and not with_folder else file
    return str(source.get("column") or file or f"{source.get('source', 'recorded')} completions")


def load_folder_run(folder: Path) -> Run:
    """Return the run in a folder; a run that is still being written shows the tasks finished so far."""
    return put_together(folder, read_manifest(folder))


def put_together(folder: Path, manifest: Mapping[str, Any]) -> Run:
    """Return the run in a folder as a manifest describes it, which may not be written yet."""
    listed = require_run(folder, manifest, sizes := measure_files(folder))

    def load(entry: Mapping[str, Any]) -> TaskRun | None:
        is_finished = f"tasks/{entry['key']}/metrics.json" in sizes
        return _load_task_run(folder, listed, entry) if is_finished else None

    return gather_tasks(folder, manifest, load)


def gather_tasks(
    folder: RunPlace, manifest: Mapping[str, Any], load: Callable[[Mapping[str, Any]], TaskRun | None]
) -> Run:
    """Return a run with the tasks that `load` finds for the entries of its manifest; E503 when it is none."""
    tasks: dict[str, TaskRun] = {}
    with _understanding(folder):
        for entry in manifest.get("tasks", []):
            _read_key(entry)
            if (task := load(entry)) is not None:
                tasks[entry["key"]] = task
        found = Run(manifest, tasks, folder)
        _ = found.key, found.status
    return found


def require_run(folder: RunPlace, manifest: Mapping[str, Any], sizes: Mapping[str, int]) -> Listed | None:
    """Return the list of the files of a run, which has none while it is under way.

    E503 when the manifest is none of ours, or when the files that are there, with their sizes, are others.
    """
    with _understanding(folder):
        require_manifest(manifest)
    listed: Listed | None = manifest.get("files")
    if listed is not None:
        require_listed(folder, listed, sizes)
    return listed


@contextmanager
def _understanding(folder: RunPlace) -> Iterator[None]:
    """Turn what a strange manifest leads to into E503."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        message = f"`{folder}` does not hold what a run does: {type(error).__name__}: {error}"
        raise RunError("E503", message, hint="the run folder is damaged, or none of ours") from error


def _read_key(entry: Mapping[str, Any]) -> str:
    """Return the key of a task, which is the name of a folder and nothing else."""
    key = entry["key"]
    if not isinstance(key, str) or not _FOLDER_NAME.fullmatch(key) or key in {".", ".."}:
        raise ValueError(f"{key!r} cannot be the key of a task")
    return key


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return `run.json`; E501 when there is none, E503 when it cannot be understood."""
    if not (folder / "run.json").is_file():
        raise refuse_no_run(folder)
    return check_manifest(folder, read_json(folder / "run.json"))


def refuse_no_run(folder: RunPlace) -> RunError:
    """Return E501."""
    return RunError(
        "E501", f"`{folder}` is not a run folder", hint="`answerkey runs` lists the runs of a folder"
    )


def check_manifest(folder: RunPlace, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what `run.json` says; E503 for a format that is not known."""
    version = manifest.get("format_version")
    if version == 1:
        message = (
            f"`{folder}` has run format 1, which was never published; this release reads {FORMAT_VERSION}"
        )
        raise RunError("E503", message, hint="run it again")
    if version != FORMAT_VERSION:
        raise RunError(
            "E503",
            f"`{folder}` has run format {version!r}; this release reads {FORMAT_VERSION}",
            hint="read it with the release that wrote it, or a newer one",
        )
    return manifest


def _load_task_run(run: Path, listed: Listed | None, entry: Mapping[str, Any]) -> TaskRun:
    """Return a task with its repetitions, as far as they are finished."""
    base = f"tasks/{entry['key']}"
    folder = run / base
    found = _load_numbers(run, base, listed, entry, read_source(run, entry["key"], listed))
    paths = sorted((folder / REPETITIONS).glob("*/metrics.json"), key=lambda path: int(path.parent.name))
    if not paths:
        return found
    told, digest = folder / REPEATABILITY, find_digest(listed, f"{base}/{REPEATABILITY}")
    places = [f"{base}/{REPETITIONS}/{path.parent.name}" for path in paths]
    return replace(
        found,
        repetitions=tuple(_load_numbers(run, place, listed, entry, found.source) for place in places),
        repeatability=read_json(told, digest) if told.is_file() else None,
        read_agreement=lambda: _read_agreement(
            folder / AGREEMENT, find_digest(listed, f"{base}/{AGREEMENT}")
        ),
    )


def _read_agreement(path: Path, digest: str | None) -> pl.DataFrame:
    if digest is not None:
        require_digest(path, digest_file(path), digest)
    return read_frame(path)


def _load_numbers(
    run: Path, base: str, listed: Listed | None, entry: Mapping[str, Any], source: Mapping[str, Any]
) -> TaskRun:
    stored = read_json(run / base / "metrics.json", find_digest(listed, f"{base}/metrics.json"))
    tables = [
        FolderParts(run / base / table, pick_table(listed, f"{base}/{table}"))
        for table in ("scores", "completions")
    ]
    return build_numbers(entry, source, stored, *tables)


def build_numbers(
    entry: Mapping[str, Any],
    source: Mapping[str, Any],
    stored: Mapping[str, Any],
    scores: Parts,
    completions: Parts,
) -> TaskRun:
    """Return a task from its `metrics.json` and its tables."""
    require_numbers(stored)
    values = [read_metric_value(one) for one in stored["metrics"]]
    return TaskRun(
        key=entry["key"],
        manifest=entry,
        source=source,
        metrics={value.name: value for value in values},
        tally=stored["tally"],
        stored_scores=scores,
        stored_completions=completions,
    )


def read_source(folder: Path, key: str, listed: Listed | None) -> dict[str, Any]:
    """Return a task's `task.json`."""
    name = f"tasks/{key}/task.json"
    return read_json(folder / name, find_digest(listed, name))


def read_metric_value(stored: Mapping[str, Any]) -> MetricValue:
    """Return a metric value from its stored form; fields that a newer release added are passed over."""
    known = {one.name for one in fields(MetricValue)}
    values = {name: value for name, value in stored.items() if name in known}
    values["interval"] = _read_interval(values.get("interval"))
    values["groups"] = tuple(map(_read_groups, values.get("groups") or ()))
    return MetricValue(**values)


def _read_groups(stored: Mapping[str, Any]) -> Groups:
    listed = tuple(map(_read_group_value, stored["values"]))
    return Groups(stored["column"], listed, _read_group_value(stored["macro"]))


def _read_group_value(stored: Mapping[str, Any]) -> GroupValue:
    known = {one.name for one in fields(GroupValue)}
    values = {name: value for name, value in stored.items() if name in known}
    return GroupValue(**values | {"interval": _read_interval(values.get("interval"))})


def _read_interval(stored: Sequence[float] | None) -> tuple[float, float] | None:
    return None if stored is None else (stored[0], stored[1])
