"""A run as one page shows it first: the number, what stands behind it, the plots; as plain values.

    run ──► describe_run ──► headline, counts, metrics, findings, plots ──► report, viewer, notebook

Keys are a contract with the front end: null where something is not known, numbers finite, shares from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from answerkey.gates.text import WORDS, explain_gate, name_gate
from answerkey.reports.breakdown import find_main_scorer
from answerkey.reports.pages.audited import Audited, audit_completions, trust_tally
from answerkey.reports.pages.baselines import Baselines, compare_with
from answerkey.reports.pages.headline import describe_headline
from answerkey.reports.pages.plot_values import (
    MOST_CATEGORIES,
    describe_plots,
    list_categories,
    list_letters,
)
from answerkey.reports.pages.reliability import tell_selection
from answerkey.reports.scorer_names import label_metric, name_scorer
from answerkey.runs import Run, TaskRun, name_answerer
from answerkey.text import clean_numbers, is_share
from answerkey.types import Gate, GateStatus, MetricValue

COUNTS = ("samples", "scored", "valid", "invalid", "refused", "failed", "errors")
NOT_COMPLETE = "the run is not complete"
#: So many letters can be chosen from in a list.
MOST_LETTERS = 200


def describe_run(
    run: Run,
    *,
    baseline: Run | None = None,
    run_id: str = "r0",
    label: str | None = None,
    is_brief: bool = False,
) -> dict[str, Any]:
    """Return the overview of a run; one that is not complete has counts and no shares.

    Up to 20,000 completions of each task are read by every rule, as `answerkey audit` does; with `is_brief`
    none, and what the run itself counted has to do. With `baseline`, each task is held against the same task
    of that run.
    """
    against = Baselines() if baseline is None else compare_with(run, baseline)
    audited = {
        key: trust_tally(task) if is_brief else audit_completions(run, task)
        for key, task in run.tasks.items()
    }
    described: dict[str, Any] = {
        "id": run_id,
        "label": label or (run.path.name if run.path else run.key),
        "path": run.path.name if run.path else None,
        "status": run.status,
        "started_at": run.manifest.get("started_at"),
        "seconds": _measure_seconds(run),
        "simulated": any(map(_is_simulated, run.tasks.values())),
        "notices": [*_list_notices(run, audited), *against.notices],
        "gates": [_describe_gate(gate, run) for gate in run.gates],
        "tasks": [_describe_task(run, task, audited[key], against) for key, task in run.tasks.items()],
    }
    cleaned: dict[str, Any] = clean_numbers(described)
    return cleaned


def _measure_seconds(run: Run) -> float | None:
    times = [run.manifest.get(name) for name in ("started_at", "ended_at")]
    try:
        started, ended = (datetime.fromisoformat(str(one)) for one in times)
    except ValueError:
        return None
    return max(0.0, (ended - started).total_seconds())


def _is_simulated(task: TaskRun) -> bool:
    return bool((task.manifest.get("model") or {}).get("simulated"))


def _list_notices(run: Run, audited: Mapping[str, Audited]) -> list[str]:
    found = _tell_unfinished(run)
    found += [_drop_place(str(one)) for one in run.manifest.get("notices") or []]
    found += [notice for one in audited.values() for notice in one.notices]
    for task in run.tasks.values():
        found += _tell_task(task)
    return list(dict.fromkeys(found))


def _tell_unfinished(run: Run) -> list[str]:
    """Return what of the run is missing, and why."""
    if run.status == "complete":
        return []
    why = (run.manifest.get("stopped") or {}).get("message")
    found = [str(why)] if why else []
    keys = [str(entry["key"]) for entry in run.manifest.get("tasks") or []]
    return found + [f"task `{key}` is not finished" for key in keys if key not in run.tasks]


def _drop_place(notice: str) -> str:
    """Return a notice without its heading, and without the file it is about: a page travels, files do not."""
    lines = [line.strip() for line in notice.removeprefix("warning: ").split("\n")]
    kept = [line.removeprefix("= help: ") for line in lines if not line.startswith("--> ")]
    return "; ".join(line for line in kept if line)


def _tell_task(task: TaskRun) -> list[str]:
    found = []
    if task.repetitions:
        found.append(
            f"`{task.key}` was run {len(task.repetitions) + 1} times: what is shown is the first run"
        )
    if (selected := tell_selection(task)) is not None:
        found.append(selected)
    categories = task.tally.get("categories") or {}
    if len(categories) > MOST_CATEGORIES:
        column = task.tally["category_column"]
        found.append(
            f"`{column}` has {len(categories):,} values: the {MOST_CATEGORIES} most frequent are shown"
        )
    return found


def _describe_gate(gate: Gate, run: Run) -> dict[str, Any]:
    """Return a gate; `is_pass` is null for one that is skipped or not decided."""
    decided = {GateStatus.PASS: True, GateStatus.FAIL: False}
    sentence = "; ".join(explain_gate(gate, with_tasks=len(run.tasks) > 1))
    word = "" if gate.status in decided else f"{WORDS[gate.status]}: "
    return {
        "name": name_gate(gate, run),
        "is_pass": decided.get(gate.status),
        "sentence": f"{word}{sentence}",
    }


def _describe_task(run: Run, task: TaskRun, audited: Audited, against: Baselines) -> dict[str, Any]:
    is_complete = run.status == "complete"
    key = find_main_scorer(task)
    return {
        "key": task.key,
        "display_name": task.manifest.get("display_name"),
        "model": name_answerer(task.manifest, with_folder=False),
        "dataset": name_dataset(task),
        "scorer": None if key is None else _name_scorer(task, key),
        "rule": audited.rule if audited.scorer == key else None,
        "num_trials": count_trials(task),
        "samples": task.counts["samples"],
        "headline": describe_headline(
            task, audited.chance, against.tasks.get(task.key), is_complete=is_complete
        ),
        "counts": {name: task.counts.get(name, 0) for name in COUNTS},
        "metrics": [_describe_metric(task, one, is_complete=is_complete) for one in task.metrics.values()],
        "findings": _list_findings(audited, is_complete=is_complete),
        "audited": {"n": audited.n, "of": audited.of, "sentence": audited.sentence, "unfit": audited.unfit},
        "plots": describe_plots(task, audited, is_complete=is_complete),
        "rows": _describe_rows(task, audited),
    }


def name_dataset(task: TaskRun) -> str:
    """Return what the dataset of a task is called; a file without its folder."""
    dataset: Mapping[str, Any] = task.manifest.get("dataset") or {}
    file = Path(dataset["file"]).name if dataset.get("file") else None
    return str(dataset.get("display_name") or dataset.get("key") or file or "in memory")


def _name_scorer(task: TaskRun, key: str) -> str:
    """Return what a scorer is called, and who judges for it."""
    scorers: Sequence[Mapping[str, Any]] = task.manifest.get("scorers") or []
    judge = next((one["model"]["name"] for one in scorers if one["key"] == key and one.get("model")), None)
    name = name_scorer(task, key)
    return f"{name}, judged by {judge}" if judge else name


def count_trials(task: TaskRun) -> int:
    """Return how often each sample was asked."""
    return int((task.manifest.get("trials") or {}).get("num_trials", 1))


def _describe_metric(task: TaskRun, value: MetricValue, *, is_complete: bool) -> dict[str, Any]:
    note = value.note or value.interval_note
    return {
        "name": label_metric(task, value),
        "scorer": name_scorer(task, value.scorer),
        "kind": value.type,
        "value": value.value if is_complete else None,
        "interval": list(value.interval) if value.interval and is_complete else None,
        "n": value.n,
        "left_out": {reason: count for reason, count in value.n_excluded.items() if count},
        "purpose": value.purpose,
        "note": note if is_complete else NOT_COMPLETE,
        "is_share": is_share(value),
    }


def _list_findings(audited: Audited, *, is_complete: bool) -> list[dict[str, Any]]:
    """Return what stands out; of a run that is not complete nothing that rests on its accuracy."""
    return [
        {"kind": one.kind, "sentence": one.sentence, "step": one.step, "examples": list(one.examples)}
        for one in audited.findings
        if is_complete or "accuracy" not in one.numbers
    ]


def _describe_rows(task: TaskRun, audited: Audited) -> dict[str, Any]:
    """Return what there is to choose from in the table of samples."""
    tally, count = task.tally, len(task.stored_scores)
    reasons = [reason for group in ("invalid", "failed", "errors") for reason in tally.get(group) or {}]
    return {
        "count": count,
        "embedded": count,
        "sentence": None,
        "categories": sorted(list_categories(task)),
        "reasons": sorted(set(reasons)),
        "letters": list_letters(task)[:MOST_LETTERS],
        "has_flips": audited.has_flips,
        "trials": count_trials(task),
    }
