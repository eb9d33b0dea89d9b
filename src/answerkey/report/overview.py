"""A run as one page shows it first: the number, what stands behind it, the plots; as plain values.

    run ──► describe_overview ──► headline, counts, metrics, findings, plots ──► page, viewer, Markdown

Keys are a contract with the front end: null where something is not known, numbers finite, shares from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from answerkey.comparison.compare import compare
from answerkey.errors import AnswerkeyError
from answerkey.gates.text import WORDS, explain_gate, name_gate
from answerkey.metrics.classification import (
    correct_for_chance,
)
from answerkey.report.explain import count_trials
from answerkey.report.plots import (
    MOST_CATEGORIES,
    Plot,
    describe_plots,
    draw_plots,
    list_categories,
    list_letters,
    say_reliability_part,
)
from answerkey.report.view import count_scored, find_cause, label_metric, name_scorer
from answerkey.run_audit.audit import audit
from answerkey.run_audit.findings import TaskAudit, find_format, find_run_findings
from answerkey.run_audit.text import describe_counted, describe_whole, list_readings, say_unfit
from answerkey.runs import Run, TaskRun, name_answerer
from answerkey.text import clean_numbers, format_chance, format_count, format_number, format_value, is_share
from answerkey.types import GateStatus, MetricValue

COUNTS = ("samples", "scored", "valid", "invalid", "refused", "failed", "errors")
#: What a gate came to; one that is skipped or not decided neither passes nor fails.
DECIDED = {GateStatus.PASS: True, GateStatus.FAIL: False}
#: So many letters can be chosen from in a list.
MOST_LETTERS = 200
#: Of more completions, so many are read again, drawn at random.
MOST_AUDITED = 20_000

Plain = dict[str, Any]


def describe_overview(
    run: Run,
    *,
    baseline: Run | None = None,
    run_id: str = "r0",
    label: str | None = None,
    is_brief: bool = False,
) -> Plain:
    """Return the overview of a run; one that is not complete has counts and no shares.

    Up to 20,000 completions of each task are read by every rule, as `answerkey audit` does; with `is_brief`
    none, and what the run itself counted has to do. With `baseline`, each task is held against the same task
    of that run.
    """
    differences, uncompared = ({}, []) if baseline is None else _compare_with(run, baseline)
    audited = {
        key: _count_readings(task) if is_brief else _audit_task(run, task) for key, task in run.tasks.items()
    }
    try:
        times = [datetime.fromisoformat(str(run.manifest.get(name))) for name in ("started_at", "ended_at")]
    except ValueError:
        times = []
    described: Plain = clean_numbers(
        {
            "id": run_id,
            "label": label or (run.path.name if run.path else run.key),
            "path": run.path.name if run.path else None,
            "status": run.status,
            "started_at": run.manifest.get("started_at"),
            "seconds": max(0.0, (times[1] - times[0]).total_seconds()) if times else None,
            "simulated": any(
                (one.manifest.get("model") or {}).get("simulated") for one in run.tasks.values()
            ),
            "notices": [*dict.fromkeys(_list_notices(run, audited)), *uncompared],
            "gates": [
                {
                    "name": name_gate(gate, run),
                    "is_pass": DECIDED.get(gate.status),
                    "sentence": ("" if gate.status in DECIDED else f"{WORDS[gate.status]}: ")
                    + "; ".join(explain_gate(gate, with_tasks=len(run.tasks) > 1)),
                }
                for gate in run.gates
            ],
            "tasks": [
                _describe_task(task, audited[key], differences.get(key), is_complete=run.status == "complete")
                for key, task in run.tasks.items()
            ],
        }
    )
    return described


def list_plots(run: Run) -> dict[str, Plot]:
    """Return the plots of a run as Vega-Lite specifications, by name; of several tasks by `task/name`."""
    return draw_plots(describe_overview(run)["tasks"])


# ── what is said of the whole run ───────────────────────────────────────────────────────────────────────────


def _list_notices(run: Run, audited: Mapping[str, Audited]) -> list[str]:
    """Return what of the run is missing and why, its warnings, and what of its tasks is not shown."""
    found: list[str] = []
    if run.status != "complete":
        why = (run.manifest.get("stopped") or {}).get("message")
        keys = [str(entry["key"]) for entry in run.manifest.get("tasks") or []]
        found += [str(why)] if why else []
        found += [f"task `{key}` is not finished" for key in keys if key not in run.tasks]
    for notice in run.manifest.get("notices") or []:
        # Without its heading, and without the file it is about: a page travels, files do not.
        lines = [line.strip() for line in str(notice).removeprefix("warning: ").split("\n")]
        kept = [line.removeprefix("= help: ") for line in lines if not line.startswith("--> ")]
        found.append("; ".join(line for line in kept if line))
    found += [notice for one in audited.values() for notice in one.notices]
    for task in run.tasks.values():
        if task.repetitions:
            times = len(task.repetitions) + 1
            found.append(f"`{task.key}` was run {times} times: what is shown is the first run")
        if (part := say_reliability_part(task)) is not None:
            found.append(part)
        count = len(task.totals.get("categories") or {})
        if count > MOST_CATEGORIES:
            column = task.totals["category_column"]
            found.append(f"`{column}` has {count:,} values: the {MOST_CATEGORIES} most frequent are shown")
    return found


def _compare_with(run: Run, baseline: Run) -> tuple[dict[str, Plain], list[str]]:
    """Return by task key how a run differs from its baseline, and what could not be compared."""
    label = baseline.path.name if baseline.path else baseline.key
    try:
        found = compare(run, baseline=baseline)
    except AnswerkeyError as error:
        return {}, [f"not compared with `{label}`: {error.message}"]
    differences = {
        task.key: {
            "label": label,
            "value": task.pairs[0].difference.second,
            "difference": task.pairs[0].difference.value,
            "interval": task.pairs[0].difference.evidence.interval,
            "p": task.pairs[0].p_adjusted,
        }
        for task in found.tasks
    }
    return differences, [notice.message for notice in found.notices]


# ── how completions are read by other rules, and what stands out ────────────────────────────────────────────


class Audited(NamedTuple):
    """What is known of how completions are read; `sentence` says why not all of them were read again."""

    audit: TaskAudit
    sentence: str | None = None
    notices: Sequence[str] = ()
    has_flips: bool = False


def _audit_task(run: Run, task: TaskRun) -> Audited:
    """Return what the audit of a task says; without its files, what the run counted."""
    if "task" not in task.source:  # a run that was put together by hand
        return _count_readings(task)
    try:
        told = audit(run, task=task.key, most=MOST_AUDITED)
    except AnswerkeyError as error:
        # A page travels, so no path is named.
        why = "the dataset or the completions are gone or have changed"
        sentence = f"completions are not read again: {why if error.code == 'E505' else error.message}"
        return _count_readings(task)._replace(sentence=sentence)
    found = told.tasks[0]
    has_flips = bool(found.flips) or (found.drawn_from is not None and found.own is not None)
    return Audited(found, _say_drawn(found), [notice.message for notice in told.notices], has_flips)


def _say_drawn(found: TaskAudit) -> str | None:
    if found.drawn_from is None:
        return None
    extent = f"{found.n:,} of {found.drawn_from:,} completions"
    return f"read again are {extent}, drawn at random; `answerkey audit` reads all"


def _count_readings(task: TaskRun) -> Audited:
    """Return what the run itself counted: some completions by every rule, all of them by its own."""
    found = describe_counted(task)
    if found is None:
        return Audited(TaskAudit(task.key, None, None, 0, {}, 1, 0, drawn_from=count_scored(task)))
    whole = describe_whole(task, str(found.rule))
    nothing: Plain = {"count": 0, "examples": []}
    counts = {
        "prompts": {"n": 0, "placeholders": {}},
        "texts": {},
        "cut_off": {**nothing, "short": 0, "stubs": nothing, "by_limit": 0, "open_thoughts": 0},
        "statuses": task.totals.get("completion_statuses") or {},
    }
    findings = (*find_run_findings(whole, counts), *find_format(found))
    has_flips = len({(one.correct, one.invalid) for one in found.readers}) > 1
    return Audited(replace(found, findings=findings), _say_drawn(found), has_flips=has_flips)


# ── one task ────────────────────────────────────────────────────────────────────────────────────────────────


def _describe_task(task: TaskRun, audited: Audited, baseline: Plain | None, *, is_complete: bool) -> Plain:
    found, key, count = audited.audit, task.main_scorer, len(task.stored_scores)
    reasons = [reason for group in ("invalid", "failed", "errors") for reason in task.totals.get(group) or {}]
    return {
        "key": task.key,
        "display_name": task.manifest.get("display_name"),
        "model": name_answerer(task.manifest, with_folder=False),
        "dataset": name_dataset(task),
        "scorer": None if key is None else _name_scorer(task, key),
        "rule": found.rule if found.scorer == key else None,
        "num_trials": count_trials(task),
        "samples": task.counts["samples"],
        "headline": _describe_headline(
            task, describe_whole(task, "").chance or found.chance, baseline, is_complete=is_complete
        ),
        "counts": {name: task.counts.get(name, 0) for name in COUNTS},
        "metrics": [
            {
                "name": label_metric(task, one),
                "scorer": name_scorer(task, one.scorer),
                "kind": one.type,
                "value": one.value if is_complete else None,
                "interval": one.interval if is_complete else None,
                "n": one.n,
                "left_out": {reason: count for reason, count in one.n_excluded.items() if count},
                "purpose": one.purpose,
                "note": one.note or one.interval_note if is_complete else "the run is not complete",
                "is_share": is_share(one),
            }
            for one in task.metrics.values()
        ],
        # Of a run that is not complete, nothing that rests on its accuracy.
        "findings": [
            {"kind": one.kind, "sentence": one.sentence, "step": one.step, "examples": one.examples}
            for one in found.findings
            if is_complete or "accuracy" not in one.numbers
        ],
        "audited": {
            "n": found.n,
            "of": found.drawn_from or found.n,
            "sentence": audited.sentence,
            "unfit": "; ".join(say_unfit(found)) or None,
        },
        "plots": describe_plots(task, found, list_readings(task, found), is_complete=is_complete),
        # What there is to choose from in the table of samples.
        "rows": {
            "count": count,
            "embedded": count,
            "sentence": None,
            "categories": sorted(list_categories(task)),
            "reasons": sorted(set(reasons)),
            "letters": list_letters(task)[:MOST_LETTERS],
            "has_flips": audited.has_flips,
            "trials": count_trials(task),
        },
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


# ── the number that a reader wants first ────────────────────────────────────────────────────────────────────


def _describe_headline(
    task: TaskRun, chance: float | None, baseline: Plain | None, *, is_complete: bool
) -> Plain:
    """Return the main metric, and a sentence that says all of it; no value unless the run is complete.

    `chance` is what guessing would get; it is told where the metric is a share of right answers.
    """
    metric = task.main_metric
    blank = dict.fromkeys(("value", "interval", "chance", "above_chance", "baseline"))
    if metric is None:
        about = {"name": "no metric", "n": 0, "is_share": False}
        return {**about, **blank, "sentence": "This task has no metric."}
    name = label_metric(task, metric)
    if not is_complete:
        sentence = (
            f"INCOMPLETE: {find_cause(task)}, so no accuracy is shown: a share of the rest says nothing about"
            " the whole."
        )
        return {"name": name, "n": metric.n, "is_share": is_share(metric), **blank, "sentence": sentence}
    chance = chance if task.is_accuracy(metric) else None
    above = None if metric.value is None or chance is None else correct_for_chance(metric.value, chance)
    sentence = _say_value(name, metric, chance)
    return {
        "name": name,
        "value": metric.value,
        "interval": metric.interval,
        "n": metric.n,
        "is_share": is_share(metric),
        "chance": chance,
        "above_chance": above,
        "baseline": baseline,
        "sentence": f"{sentence} {_say_baseline(baseline, metric)}" if baseline else sentence,
    }


def _say_value(name: str, metric: MetricValue, chance: float | None) -> str:
    if metric.value is None:
        return f"{name} has no value: {metric.note or 'nothing to compute it from'}."
    said = f"{name} is {format_value(metric)}"
    if metric.interval is not None:
        column = metric.details.get("cluster_by")
        ends = _write_ends(metric.interval, as_share=is_share(metric))
        said += f" (95 % interval {ends}{f', clustered by {column}' if column else ''})"
    unit = "sample" if metric.details.get("counts") not in {"trials", "orders"} else "completion"
    said += f" on {format_count(metric.n, unit)}"
    if chance is not None:
        level = f"chance level of {100 * chance:.2f} %"
        points = f"{100 * abs(metric.value - chance):.2f} points"
        if metric.interval is None:
            said += f"; the {level} is what guessing would get"
        elif metric.interval[0] > chance:
            said += f", {points} above the {level}"
        elif metric.interval[1] < chance:
            said += f", {points} below the {level}"
        else:
            said += f", not told apart from the {level}"
    return f"{said}."


def _say_baseline(baseline: Plain, metric: MetricValue) -> str:
    as_share, found = is_share(metric), float(baseline["difference"])
    amount = f"{100 * found:+.2f} points" if as_share else f"{'+' if found > 0 else ''}{format_number(found)}"
    interval = baseline["interval"]
    facts = [f"95 % interval {_write_ends(interval, as_share=as_share)}"] if interval else []
    facts += [f"p {format_chance(baseline['p'])}"] if baseline["p"] is not None else []
    how_sure = f" ({', '.join(facts)})" if facts else ""
    return f"Against {baseline['label']}: {amount}{how_sure}."


def _write_ends(ends: Sequence[float], *, as_share: bool) -> str:
    low, high = (f"{100 * one:.2f}" if as_share else format_number(one) for one in ends)
    return f"{low} to {high}"
