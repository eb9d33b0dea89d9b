"""Which runs there are, and which one is meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from answerkey.datasets.storage import is_stored
from answerkey.errors import RunError, suggest
from answerkey.reports.view import label_metric
from answerkey.runs import Run, RunPlace, find_place, is_run, list_places, load_run, name_answerer
from answerkey.text import (
    Line,
    Span,
    draw_text,
    format_count,
    format_interval,
    format_value,
    is_share,
    line,
)

RUNS = "runs"


def list_folder(folder: str | Path) -> list[dict[str, Any]]:
    """Return the runs right below a folder, newest first; a run folder itself is a list of one.

    `metric`, `value` and `text` are of the first task's main metric.
    """
    below = find_place(folder)
    rows = [_read_row(place) for place in ([below] if is_run(below) else list_places(below))]
    return sorted(rows, key=lambda row: (row["started_at"] or "", row["path"]), reverse=True)


def _read_row(folder: RunPlace) -> dict[str, Any]:
    names = ("path", "status", "started_at", "key", "model", "samples", "metric", "value")
    row: dict[str, Any] = dict.fromkeys(names) | {"path": str(folder), "text": ""}
    try:
        run = load_run(folder)
    except RunError as error:
        return row | {"status": "unreadable", "text": error.message}
    row |= {"status": run.status, "started_at": run.manifest.get("started_at"), "key": run.key}
    tasks = list(run.tasks.values())
    if not tasks:
        return row
    metric, others = tasks[0].main_metric, len(tasks) - 1
    row["model"] = ", ".join(dict.fromkeys(name_answerer(task.manifest) for task in tasks))
    row["samples"] = sum(task.counts["samples"] for task in tasks)
    if metric is None:
        return row
    row |= {"metric": metric.name, "value": metric.value}
    if run.status == "complete":  # a number of an incomplete run is no result: it is not shown in passing
        interval = format_interval(metric.interval, as_share=is_share(metric))
        text = f"{label_metric(tasks[0], metric)} {format_value(metric)} {interval}".rstrip()
        more = f" and {format_count(others, 'more task')}"
        row["text"] = f"{tasks[0].key}: {text}{more}" if others else text
    return row


def describe_listing(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one run of the list as `--json` prints it."""
    return {name: value for name, value in row.items() if name != "text"}


def draw_listing(rows: Sequence[Mapping[str, Any]], width: int) -> list[Line]:
    """Return the list of runs, two lines each: which and when, then who answered and how well."""
    lines: list[Line] = []
    for row in rows:
        status = Span(row["status"], "good" if row["status"] == "complete" else "warn")
        started = (row["started_at"] or "").replace("T", " ").replace("Z", " UTC")
        lines.append(line(Span(row["path"], "strong"), "  ", status, f"  {started}"))
        samples = "" if row["samples"] is None else format_count(row["samples"], "sample")
        text = "  ".join(fact for fact in (row["model"], samples, row["text"]) if fact)
        lines += draw_text(text, width) if text else []
    return lines


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
    known = [row["path"] for row in list_folder(below)] if below.is_dir() else []
    if name == "latest" and known:
        return load_run(known[0])
    message = f"`{name}` is a folder, but not a run folder" if path.is_dir() else f"there is no run `{name}`"
    message = f"there is no run below `{RUNS}`" if name == "latest" else message
    hint = suggest(name, [Path(one).name for one in known])
    hint = f"the newest run in it is `{known[0]}`" if known and path.is_dir() else hint
    usual = "`answerkey runs` lists the runs of a folder; `answerkey run FILE` makes one"
    raise RunError("E501", message, hint=hint or usual)
