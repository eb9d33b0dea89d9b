"""One run in the list of runs: what it is, and the main number of each of its tasks."""

from __future__ import annotations

from typing import Any

from answerkey.errors import AnswerkeyError
from answerkey.reports.figures import is_share
from answerkey.reports.json_form import clean_numbers
from answerkey.reports.listing import find_main_metric
from answerkey.reports.pages.overview import name_dataset
from answerkey.reports.scorer_names import label_metric
from answerkey.runs import Run, TaskRun, name_answerer

_NO_NUMBER: dict[str, Any] = {"metric": None, "value": None, "interval": None, "n": None, "is_share": True}


def describe_listed(run_id: str, label: str, run: Run) -> dict[str, Any]:
    """Return a run for the list; a number of a run that is not complete is no number yet."""
    is_complete = run.status == "complete"
    tasks = [_describe_task(task, is_complete=is_complete) for task in run.tasks.values()]
    first = next(iter(run.tasks.values()), None)
    main = tasks[0] if tasks else _NO_NUMBER
    models = dict.fromkeys(name_answerer(one, with_folder=False) for one in run.manifest.get("tasks") or [])
    described: dict[str, Any] = clean_numbers(
        {
            "id": run_id,
            "label": label,
            "key": run.key,
            "model": ", ".join(models) or None,
            "status": run.status,
            "started_at": run.manifest.get("started_at"),
            "samples": None if first is None else sum(one.counts["samples"] for one in run.tasks.values()),
            **{name: main[name] for name in _NO_NUMBER},
            "tasks": tasks,
            "error": None,
        }
    )
    return described


def _describe_task(task: TaskRun, *, is_complete: bool) -> dict[str, Any]:
    metric = find_main_metric(task)
    about = {
        "key": task.key,
        "name": task.manifest.get("display_name"),
        "model": name_answerer(task.manifest, with_folder=False),
        "dataset": name_dataset(task),
        "fingerprint": (task.manifest.get("dataset") or {}).get("fingerprint"),
    }
    if metric is None or not is_complete:
        return {**about, **_NO_NUMBER}
    interval = None if metric.interval is None else list(metric.interval)
    return {
        **about,
        "metric": label_metric(task, metric),
        "value": metric.value,
        "interval": interval,
        "n": metric.n,
        "is_share": is_share(metric),
    }


def describe_unreadable(run_id: str, label: str, error: AnswerkeyError) -> dict[str, Any]:
    """Return a run that cannot be read, for the list, with the reason."""
    return {
        "id": run_id,
        "label": label,
        "key": None,
        "model": None,
        "status": "unreadable",
        "started_at": None,
        "samples": None,
        **_NO_NUMBER,
        "tasks": [],
        "error": error.message,
        "progress": None,
    }
