"""The runs of a folder as a list, and the run that a name stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from answerkey.datasets.storage import is_stored
from answerkey.errors import RunError, suggest
from answerkey.reports.view import Interval, label_metric, name_dataset
from answerkey.runs import (
    Run,
    RunPlace,
    find_place,
    is_run,
    list_places,
    load_run,
    load_summary,
    name_answerer,
)
from answerkey.text import (
    Cell,
    Cells,
    Lines,
    Role,
    Span,
    draw_table,
    format_count,
    format_figure,
    format_interval,
    is_share,
)

#: The folder of runs, unless another is named.
RUNS = "runs"


@dataclass(frozen=True, slots=True)
class ListedTask:
    """One task of a listed run, with its main metric; no value unless the run is complete."""

    key: str
    name: str | None
    model: str
    dataset: str
    fingerprint: str | None
    metric: str | None = None
    value: float | None = None
    interval: Interval | None = None
    n: int | None = None
    is_share: bool = True


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One run of a list; `error` says why it cannot be read."""

    path: str
    status: str
    started_at: str | None = None
    key: str | None = None
    model: str | None = None
    samples: int | None = None
    tasks: Sequence[ListedTask] = ()
    error: str | None = None


def list_folder(folder: str | Path) -> list[ListedRun]:
    """Return the runs right below a folder, newest first; a run folder itself is a list of one."""
    below = find_place(folder)
    places = [below] if is_run(below) else list_places(below)
    rows = []
    for place in places:
        try:
            run = load_summary(place)
            rows.append(list_run(run, str(place)))
        except RunError as error:
            row = ListedRun(str(place), "unreadable", error=error.message)
            rows.append(row)
    rows.sort(key=_find_age, reverse=True)
    return rows


def _find_age(row: ListedRun) -> tuple[str, str]:
    return row.started_at or "", row.path


def list_run(run: Run, path: str) -> ListedRun:
    """Return a run as lists show it."""
    tasks = []
    samples = None
    for task in run.tasks.values():
        samples = (samples or 0) + task.counts["samples"]
        listed = ListedTask(
            key=task.key,
            name=task.manifest["display_name"],
            model=name_answerer(task.manifest, with_folder=False),
            dataset=name_dataset(task),
            fingerprint=task.manifest["dataset"]["fingerprint"],
        )
        metric = task.main_metric
        if metric is not None and run.status == "complete":
            listed = replace(
                listed,
                metric=label_metric(task, metric),
                value=metric.value,
                interval=metric.interval,
                n=metric.n,
                is_share=is_share(metric),
            )
        tasks.append(listed)
    models = {}
    for entry in run.manifest["tasks"]:
        models[name_answerer(entry, with_folder=False)] = True
    return ListedRun(
        path=path,
        status=run.status,
        started_at=run.manifest.get("started_at"),
        key=run.key,
        model=", ".join(models) or None,
        samples=samples,
        tasks=tasks,
    )


def draw_listing(rows: Sequence[ListedRun], width: int) -> Lines:
    """Return the list of runs as a table: which, when, the model and the number."""
    metrics = set()
    for row in rows:
        for task in row.tasks[:1]:
            metrics.add(task.metric)
    metrics.discard(None)
    title = metrics.pop() if len(metrics) == 1 else None
    cells: list[Cells] = []
    for row in rows:
        result = _format_result(row.tasks, with_metric=title is None)
        cells.append([*_list_cells(row), result])
    header = (
        "run",
        "started (UTC)",
        "status",
        "model",
        "n",
        title or "result",
    )
    return draw_table(header, cells, "<<<~><", width)


def _list_cells(row: ListedRun) -> list[Cell]:
    model = str(row.error or row.model or "")
    if " SIMULATED" in model:  # it must not be what is cut off
        model = f"SIMULATED {model.replace(' SIMULATED', '')}"
    started_at = str(row.started_at or "")
    started = started_at[:16].replace("T", " ")
    role: Role = "good" if row.status == "complete" else "warn"
    return [
        Span(row.path, "strong"),
        started,
        Span(row.status, role),
        model,
        "" if row.samples is None else str(row.samples),
    ]


def _format_result(tasks: Sequence[ListedTask], *, with_metric: bool) -> str:
    """Return the number of the first task, and how many more there are."""
    result = ""
    if tasks and tasks[0].metric is not None:
        task = tasks[0]
        number = format_figure(task.value, as_share=task.is_share)
        interval = format_interval(task.interval, as_share=task.is_share)
        name = f"{task.metric} " if with_metric else ""
        result = f"{name}{number} {interval}".rstrip()
    if len(tasks) > 1:
        more = format_count(len(tasks) - 1, "more task")
        result += f" and {more}"
    return result


def find_runs(names: Iterable[str]) -> list[Run]:
    """Return the runs that names stand for; a folder of runs stands for all of them."""
    runs: list[Run] = []
    for name in names:
        below = _list_below(name) or _list_below(f"{RUNS}/{name}")
        if below:
            runs += map(load_run, below)
        else:
            runs.append(find_run(name))
    return runs


def _list_below(place: str) -> list[RunPlace]:
    """Return the runs below a folder or address; none if it is a run itself, or is not there."""
    is_there = is_stored(place) or Path(place).is_dir()
    if not is_there or is_run(find_place(place)):
        return []
    return list_places(place)


def find_run(name: str) -> Run:
    """Return the run of a name: a folder, an address, a folder below `runs`, or `latest`."""
    if is_stored(name):
        return load_run(name)
    path = Path(name)
    if path.name == "run.json":
        path = path.parent
    for folder in (path, Path(RUNS) / name):
        if (folder / "run.json").is_file():
            return load_run(folder)
    below = path if path.is_dir() else Path(RUNS)
    runs = list_folder(below) if below.is_dir() else []
    if name == "latest" and runs:
        return load_run(runs[0].path)
    is_log = path.is_file() or (path.is_dir() and not runs)
    if is_log:  # perhaps that of another tool
        return load_run(path)
    raise _refuse_name(name, [run.path for run in runs])


def _refuse_name(name: str, runs: Sequence[str]) -> RunError:
    """Return E501 for a name that no run has, with the names that are near."""
    hint = "`answerkey runs` lists the runs of a folder; `answerkey run FILE` makes one"
    if runs:
        names = ["latest", *runs]
        for run in runs:
            names.append(Path(run).name)
        hint = suggest(name, names) or f"the newest run is `{runs[0]}`"
    return RunError("E501", f"there is no run `{name}`", hint=hint)
