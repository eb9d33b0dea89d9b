"""A run as people see it: `RunView`, a tree of plain values from which every report is drawn.

Run ──► view_run ──► RunView ──► terminal, Markdown, JUnit
    │                       └──► overview ──► page, viewer
    └─► describe_run ──► what `run --json` and `show --json` print
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from answerkey.metrics import MODEL_CALL_FAILED, STOPPED_EARLY, average_counts, wilson
from answerkey.runs import (
    Run,
    TaskRun,
    name_answerer,
)
from answerkey.text import (
    clean_numbers,
    describe_metric,
    describe_reused_calls,
    format_count,
    is_share,
    shorten,
)
from answerkey.types import Gate, Groups, MetricValue

#: Metrics about the order of the options, which have a table of their own.
ORDER_TYPES = {"choice_order", "pride"}
#: The most reasons of a scorer that are listed, and how much of an id stands in a table.
MAX_NAMED, MAX_ID = 20, 40

Interval = tuple[float, float]
Entry = Mapping[str, Any]
Json = dict[str, Any]


class MetricView(NamedTuple):
    """A metric with its label.

    `is_share`: it is best read as a percentage. `is_about_order`: it belongs to the table about the
    order of the options.
    """

    metric: MetricValue
    label: str
    is_share: bool
    is_about_order: bool


@dataclass(frozen=True, slots=True)
class ReasonView:
    """How often something happened for one reason; `example` is the first sample, as stored."""

    name: str
    count: int
    example: Entry

    @property
    def cells(self) -> tuple[str, str, str]:
        """The reason, its count and the first sample, as tables show them."""
        sample = shorten(self.example["sample_id"], MAX_ID)
        return self.name, str(self.count), sample


@dataclass(frozen=True, slots=True)
class CategoryRow:
    """The accuracy of one category; no value where answers are right in part."""

    label: str
    correct: int | None
    n: int
    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Categories:
    """The accuracy by category, and the plain mean of the categories."""

    column: str
    unit: str
    rows: Sequence[CategoryRow]
    macro: tuple[float, Interval | None] | None


@dataclass(frozen=True, slots=True)
class CallsView:
    """The calls for one purpose: `solve`, or `judge:KEY`."""

    purpose: str
    calls: int
    asked: int
    cached: int
    failed: int
    retries: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    latency: Mapping[str, float] | None
    errors: Sequence[ReasonView]
    retried: Sequence[ReasonView]
    reasoning_tokens: int = 0
    cached_tokens: int = 0


class TaskView(NamedTuple):
    """One task of a run: what was evaluated, the counts that add up, every metric.

    `task` is the task itself, which the features that draw their own part are given. `row_counts`
    are the counts of completions where a sample has several. `helpers` are the models that scorers
    ask, each after its role. `failures` says by scorer why it could not score samples. `cause` and
    `advice` are of a run that is not complete.
    """

    task: TaskRun
    key: str
    display_name: str
    model: str | None
    is_simulated: bool
    answerer: str
    dataset: str
    trials: int
    helpers: Sequence[tuple[str, str]]
    reused: str | None
    counts: Mapping[str, int]
    row_counts: Mapping[str, int] | None
    metrics: Sequence[MetricView]
    scorer_names: Mapping[str, str]
    invalid: Sequence[ReasonView]
    failed: Sequence[ReasonView]
    errors: Sequence[ReasonView]
    failures: Mapping[str, Sequence[ReasonView]]
    categories: Categories | None
    calls: Sequence[CallsView]
    cause: str
    advice: str | None

    @property
    def incomplete(self) -> str:
        """The sentence that replaces the numbers of a run that is not complete."""
        what = "so no accuracy is shown: a share of the rest says nothing about the whole"
        return f"INCOMPLETE: {self.cause}, {what}."


class GateView(NamedTuple):
    """A gate with its name, what was measured, and what to do about it."""

    gate: Gate
    name: str
    sentences: Sequence[str]
    advice: str | None


class RunView(NamedTuple):
    """A run: what ran, how far it came, its tasks, gates and notices.

    Shares are shown only if it `is_complete`: every call was answered and every sample scored.
    `unfinished` are the calls of tasks that have no result yet.
    """

    run: Run
    title: str
    status: str
    is_complete: bool
    path: str | None
    started_at: str | None
    stopped: str | None
    can_resume: bool
    tasks: Sequence[TaskView]
    unfinished: Mapping[str, Sequence[CallsView]]
    gates: Sequence[GateView]
    notices: Sequence[str]

    @property
    def seconds(self) -> float | None:
        """How long the run took; None if its times are unknown."""
        ended_at = self.run.manifest.get("ended_at")
        try:
            started = datetime.fromisoformat(str(self.started_at))
            ended = datetime.fromisoformat(str(ended_at))
        except ValueError:
            return None
        duration = ended - started
        return max(0.0, duration.total_seconds())

    @property
    def is_simulated(self) -> bool:
        """Whether the answers of a task were made from the key."""
        return any(task.is_simulated for task in self.tasks)


# ── from a run to its view


def view_run(run: Run) -> RunView:
    """Return the view of a run; numbers are unchanged, including infinite ones."""
    manifest = run.manifest
    status = run.status
    is_complete = status == "complete"
    unfinished = {}
    for entry in manifest["tasks"]:
        if entry["key"] not in run.tasks:
            unfinished[str(entry["key"])] = _view_calls(entry)
    gates = []
    if run.gates:
        from answerkey.gates.rules import explain_gates  # a feature is imported where a run uses it

        gates = [GateView(*gate) for gate in explain_gates(run)]
    tasks = []
    for task in run.tasks.values():
        tasks.append(view_task(task, is_complete=is_complete))
    stopped = manifest.get("stopped") or {}
    return RunView(
        run=run,
        title=str(manifest.get("display_name") or run.key),
        status=status,
        is_complete=is_complete,
        path=None if run.path is None else str(run.path),
        started_at=manifest.get("started_at"),
        stopped=stopped.get("message"),
        can_resume=not is_complete and _can_resume(run),
        tasks=tasks,
        unfinished=unfinished,
        gates=gates,
        notices=list(map(str, manifest["notices"])),
    )


def view_task(task: TaskRun, *, is_complete: bool) -> TaskView:
    """Return the view of one task."""
    manifest = task.manifest
    totals = task.totals
    model: Entry = manifest["model"] or {}
    calls = manifest.get("calls") or {}
    rows = totals.get("orders") or totals.get("trials")
    metrics = []
    for value in task.metrics.values():
        view = MetricView(
            value,
            label_metric(task, value),
            is_share(value),
            value.type in ORDER_TYPES,
        )
        metrics.append(view)
    scorer_names = {}
    for scorer in manifest["scorers"]:
        if name := scorer.get("display_name"):
            scorer_names[scorer["key"]] = name
    failures = {}
    for key, counted in totals["failures"].items():
        failures[key] = list_reasons(counted)[:MAX_NAMED]
    cause, advice = "", None
    if not is_complete:
        cause = find_cause(task)
        advice = _find_advice(task)
    return TaskView(
        task=task,
        key=task.key,
        display_name=manifest["display_name"] or "",
        model=model.get("name"),
        is_simulated=model.get("simulated", False),
        answerer=name_answerer(manifest),
        dataset=name_dataset(task),
        trials=count_trials(task),
        helpers=list_helpers(manifest),
        reused=describe_reused_calls(calls.values()),
        counts=task.counts,
        row_counts=rows and rows["counts"],
        metrics=metrics,
        scorer_names=scorer_names,
        invalid=list_reasons(totals["invalid"]),
        failed=list_reasons(totals["failed"]),
        errors=list_reasons(totals["errors"]),
        failures=failures,
        categories=_view_categories(task),
        calls=_view_calls(manifest),
        cause=cause,
        advice=advice,
    )


def list_reasons(counted: Entry) -> list[ReasonView]:
    """Return reasons, the most frequent first."""
    reasons = []
    for name, entry in counted.items():
        reason = ReasonView(name, entry["count"], entry["example"])
        reasons.append(reason)
    return sorted(reasons, key=lambda reason: -reason.count)


def _view_categories(task: TaskRun) -> Categories | None:
    """Return the accuracy of each category, and their plain mean.

    None where a metric is grouped by that column, since its own table shows the same. Trials and
    orders of one sample are not independent draws, so they have no interval.
    """
    column = task.totals["category_column"]
    for metric in task.metrics.values():
        if any(groups.column == column for groups in metric.groups):
            return None
    is_repeated = "trials" in task.totals or "orders" in task.totals
    rows = []
    for label, entry in task.totals["categories"].items():
        correct = entry["correct"]
        n = entry["n"]
        row = CategoryRow(
            label,
            correct,
            n,
            correct / n,
            wilson(correct, n),
        )
        if entry["partial"]:  # only the count is certain
            row = replace(row, value=None, interval=None)
        elif is_repeated:
            row = replace(row, interval=None)
        rows.append(row)
    if not rows:
        return None
    macro = None
    counts = []
    for row in rows:
        if row.interval:
            counts.append((row.correct or 0, row.n))
    if 1 < len(rows) == len(counts):
        macro = average_counts(counts)
    unit = "rows" if is_repeated else "n"
    return Categories(column, unit, rows, macro)


def list_groups(groups: Groups) -> list[CategoryRow]:
    """Return the values of a metric by group."""
    rows = []
    for group in groups.values:
        row = CategoryRow(
            str(group.group),
            None,
            group.n,
            group.value,
            group.interval,
        )
        rows.append(row)
    return rows


def _view_calls(entry: Entry) -> list[CallsView]:
    views = []
    calls = entry.get("calls", {})
    for purpose, counted in calls.items():
        values = {}
        for field in fields(CallsView):
            if field.name in counted:
                values[field.name] = counted[field.name]
        for group in ("errors", "retried"):
            values[group] = []
            for reason in counted.get(group) or ():
                view = ReasonView(
                    reason["reason"],
                    reason["count"],
                    reason["example"],
                )
                values[group].append(view)
        views.append(CallsView(purpose, **values))
    return views


# ── why a run is not complete


def find_cause(task: TaskRun) -> str:
    """Return why a task is not complete: missing completions or scores, or judges that failed."""
    counts = task.counts
    unscored = task.totals["unscored"]
    samples = format_count(counts["samples"], "sample")
    calls = _count_failed_calls(task)
    lacks_completions = "ERROR" in task.totals["completion_statuses"] or not calls
    if counts["errors"] and lacks_completions:
        return f"{counts['errors']} of {samples} got no completion"
    if calls:
        return f"{format_count(calls, 'call')} to a judge or fallback failed"
    if not unscored:
        return "the rest of the run is not complete"
    reasons = []
    for key, counted in task.totals["failures"].items():
        for reason, entry in counted.items():
            if reason != STOPPED_EARLY:
                where = f"scorer `{key}`: {reason}"
                reasons.append((entry["count"], where))
    _, where = max(reasons)
    return f"{unscored} of {samples} could not be scored (most often {where})"


def _count_failed_calls(task: TaskRun) -> int:
    """Return how many calls to judges and fallbacks failed permanently."""
    count = 0
    for reasons in task.totals["failures"].values():
        for reason in MODEL_CALL_FAILED & reasons.keys():
            count += reasons[reason]["count"]
    return count


def _find_advice(task: TaskRun) -> str | None:
    """Return what to do about samples that could not be scored."""
    unscored = task.totals["unscored"]
    if not unscored or _lacks_calls(task):
        return None
    return (
        "Fix the scorer and use `answerkey rescore` with the changed task file, or allow that many"
        f" samples without a score with `--allow-failed {unscored}`."
    )


def _lacks_calls(task: TaskRun) -> bool:
    """Return whether a call of the task has failed, to its model or to a judge."""
    return bool(task.counts["errors"] or _count_failed_calls(task))


def _can_resume(run: Run) -> bool:
    """Return whether `resume` has something left to do on a run that is not complete.

    Recorded completions stay as they are, and so do samples that a scorer cannot score once all
    calls are answered.
    """
    if run.path is None:
        return False
    entries: Sequence[Entry] = run.manifest["tasks"]
    has_helpers = any(map(list_helpers, entries))
    if "rescored_from" in run.manifest and not has_helpers:
        return False
    if run.status == "running" or "stopped" in run.manifest:
        return True
    has_calls = any(entry.get("calls") for entry in entries)
    lacks_calls = any(map(_lacks_calls, run.tasks.values()))
    return has_calls and lacks_calls


# ── names and single facts


def list_helpers(entry: Entry) -> list[tuple[str, str]]:
    """Return the models that scorers ask, each after its role: `judge` or `fallback`."""
    helpers = {}
    for scorer in entry["scorers"]:
        if model := scorer.get("model"):
            role = model.get("role", "judge")
            helpers[role, model["name"]] = True
    return list(helpers)


def label_metric(task: TaskRun, value: MetricValue) -> str:
    """Return a metric's name, with the scorer's display name in place of its key."""
    if value.name.startswith(f"{value.scorer}_{value.metric}_"):
        for scorer in task.manifest["scorers"]:
            name = scorer.get("display_name")
            if name and scorer["key"] == value.scorer:
                return f"{name}: {value.name.removeprefix(f'{value.scorer}_')}"
    return value.name


def name_dataset(task: TaskRun) -> str:
    """Return what the dataset of a task is called; a file without its folder."""
    dataset: Entry = task.manifest["dataset"]
    label = dataset["display_name"] or dataset["key"]
    file = Path(dataset["file"] or "")
    return label or file.name or "in memory"


def count_trials(task: TaskRun) -> int:
    """Return how often each sample was asked."""
    trials = task.manifest.get("trials") or {}
    return int(trials.get("num_trials", 1))


def read_ids(task: TaskRun, offset: int, length: int) -> pl.Series:
    """Return the ids of some rows of a task."""
    rows = task.stored_scores.read(offset, length, ["sample_id"])
    return rows["sample_id"].cast(pl.String)


# ── as JSON


def describe_run(run: Run) -> Json:
    """Return the run as `--json` prints it; numbers that are not finite become null."""
    about: Json = {
        "path": None if run.path is None else str(run.path),
        "status": run.status,
    }
    for name in ("key", "display_name", "answerkey_version", "started_at", "ended_at"):
        about[name] = run.manifest.get(name)
    if "stopped" in run.manifest:
        about["stopped"] = run.manifest["stopped"]
    tasks = [_describe_task(task) for task in run.tasks.values()]
    described = {"run": about, "tasks": tasks}
    if run.gates:
        from answerkey.gates.rules import describe_run_gates

        described["gates"] = describe_run_gates(run)
    if any("variant" in task.manifest for task in run.tasks.values()):
        from answerkey.comparison.compare import describe_variants

        described["variants"] = describe_variants(run)
    described["notices"] = list(run.manifest["notices"])
    clean: Json = clean_numbers(described)
    return clean


def _describe_task(task: TaskRun) -> Json:
    """Return one task: what was evaluated, the counts, every metric, and what was counted."""
    manifest = task.manifest
    described: Json = {"key": task.key}
    for name in ("display_name", "model", "dataset", "completions"):
        described[name] = manifest.get(name)
    described["counts"] = dict(task.counts)
    described["calls"] = manifest.get("calls")
    described["metrics"] = []
    for metric in task.metrics.values():
        described["metrics"].append(describe_metric(metric))
    described["tally"] = {**task.totals}
    del described["tally"]["counts"]
    for name in ("trials", "choice_order", "variant"):
        if manifest.get(name):
            described[name] = manifest[name]
    if task.repeatability:
        described["repeatability"] = task.repeatability
    calls = manifest.get("calls") or {}
    if reused := describe_reused_calls(calls.values()):
        described["reused"] = reused
    if task.totals.get("fallback"):
        from answerkey.run_audit.text import describe_fallbacks

        described["fallback"] = describe_fallbacks(task)
    return described


# ── samples and runs worth a look


def find_example(run: Run) -> tuple[str, str] | None:
    """Return a sample worth a look and what it is: the first INVALID or failed one, else any."""
    for task in run.tasks.values():
        for entry in task.totals["invalid"].values():
            return str(entry["example"]["sample_id"]), "a sample that is INVALID"
        for entry in task.totals["failed"].values():
            return str(entry["example"]["sample_id"]), "a sample that is failed"
        for sample_id in read_ids(task, 0, 1):
            return sample_id, "the first sample"
    return None
