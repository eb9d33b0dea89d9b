"""Which runs there are, and which one is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from answerkey.datasets import is_stored
from answerkey.errors import RunError, suggest
from answerkey.reports.scorer_names import label_metric
from answerkey.runs import Run, RunPlace, TaskRun, find_place, is_run, list_places, load_run, name_answerer
from answerkey.text import (
    Line,
    Role,
    Span,
    format_count,
    format_interval,
    format_value,
    is_share,
    line,
    make_visible,
    wrap,
)
from answerkey.types import MetricValue

RUNS = "runs"
#: What a share of right answers is called in a scorer's values.
RIGHT = "is_correct"


@dataclass(frozen=True)
class RunRow:
    """One line of the list of runs; `metric`, `value` and `interval` are of the first task's main metric."""

    path: str
    status: str
    started_at: str | None = None
    key: str | None = None
    model: str | None = None
    samples: int | None = None
    metric: str | None = None
    value: float | None = None
    text: str = ""


def list_folder(folder: str | Path) -> list[RunRow]:
    """Return the runs right below a folder, newest first; a run folder itself is a list of one."""
    below = find_place(folder)
    places = [below] if is_run(below) else list_places(below)
    rows = [_read_row(place) for place in places]
    return sorted(rows, key=lambda row: (row.started_at or "", row.path), reverse=True)


def _read_row(folder: RunPlace) -> RunRow:
    try:
        run = load_run(folder)
    except RunError as error:
        return RunRow(str(folder), "unreadable", text=error.message)
    first = next(iter(run.tasks.values()), None)
    if first is None:
        return RunRow(str(folder), run.status, run.manifest.get("started_at"), run.key)
    metric = find_main_metric(first)
    return RunRow(
        path=str(folder),
        status=run.status,
        started_at=run.manifest.get("started_at"),
        key=run.key,
        model=", ".join(dict.fromkeys(map(name_model, run.tasks.values()))),
        samples=sum(task.counts["samples"] for task in run.tasks.values()),
        metric=metric.name if metric else None,
        value=metric.value if metric else None,
        text=_sum_up(run, first, metric),
    )


def _sum_up(run: Run, task: TaskRun, metric: MetricValue | None) -> str:
    # A number of an incomplete run is no result: it is not shown in passing.
    if metric is None or run.status != "complete":
        return ""
    interval = format_interval(metric.interval, as_share=is_share(metric))
    others = len(run.tasks) - 1
    start, end = (f"{task.key}: ", f" and {format_count(others, 'more task')}") if others else ("", "")
    return f"{start}{label_metric(task, metric)} {format_value(metric)} {interval}".rstrip() + end


def find_main_metric(task: TaskRun) -> MetricValue | None:
    """Return the first metric that counts for the score, or None when the task has none."""
    return task.main_metric


def name_model(task: TaskRun) -> str:
    """Return who answered: the model's name, marked when simulated, or where completions came from."""
    return name_answerer(task.manifest)


def draw_listing(rows: Sequence[RunRow], width: int) -> list[Line]:
    """Return the list of runs, two lines each: which and when, then who answered and how well."""
    lines: list[Line] = []
    for row in rows:
        role: Role = "good" if row.status == "complete" else "warn"
        started = (row.started_at or "").replace("T", " ").replace("Z", " UTC")
        lines.append(
            line(Span(make_visible(row.path), "strong"), "  ", Span(row.status, role), f"  {started}")
        )
        facts = [
            row.model or "",
            "" if row.samples is None else format_count(row.samples, "sample"),
            row.text,
        ]
        text = "  ".join(make_visible(fact) for fact in facts if fact)
        lines += [line(f"  {part}") for part in wrap(text, width - 2)] if text else []
    return lines


def describe_listing(row: RunRow) -> dict[str, Any]:
    """Return one run of the list as plain values."""
    return {name: value for name, value in asdict(row).items() if name != "text"}


def find_run(name: str) -> Run:
    """Return the run that is meant: a folder, an address, its name below `runs`, or `latest`."""
    if is_stored(name):
        return load_run(name)
    path = Path(name)
    if path.name == "run.json" and path.is_file():
        path = path.parent
    for folder in (path, Path(RUNS) / name):
        if (folder / "run.json").is_file():
            return load_run(folder)
    below = path if path.is_dir() else Path(RUNS)
    known = list_folder(below) if below.is_dir() else []
    if name == "latest" and known:
        return load_run(known[0].path)
    raise RunError("E501", _say_missing(name, path), hint=_find_hint(name, path, known))


def _say_missing(name: str, path: Path) -> str:
    if name == "latest":
        return f"there is no run below `{RUNS}`"
    return f"`{name}` is a folder, but not a run folder" if path.is_dir() else f"there is no run `{name}`"


def _find_hint(name: str, path: Path, known: Sequence[RunRow]) -> str:
    if known and path.is_dir():
        return f"the newest run in it is `{known[0].path}`"
    near = suggest(name, [Path(row.path).name for row in known])
    return near or "`answerkey runs` lists the runs of a folder; `answerkey run FILE` makes one"
