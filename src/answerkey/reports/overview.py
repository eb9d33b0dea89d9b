"""A run as its page shows it first: the number, what it rests on, the plots.

    run ──► view_run ──► RunView ──► build_overview ──► Overview ──► page, viewer

The fields of these classes are the keys that the front end reads: null where something is not
known, numbers finite, shares from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from answerkey.errors import AnswerkeyError
from answerkey.gates.rules import WORDS
from answerkey.metrics.classification import Calibration
from answerkey.metrics.task_counts import correct_for_chance
from answerkey.reports.samples import SampleTable
from answerkey.reports.view import (
    CallsView,
    Categories,
    CategoryRow,
    Interval,
    Json,
    RunView,
    TaskView,
    label_metric,
    list_groups,
    view_run,
)
from answerkey.run_audit.findings import (
    Finding,
    ReadingTally,
    ReasonCounts,
    TaskAudit,
    find_format,
    find_run_findings,
)
from answerkey.run_audit.text import (
    describe_counted,
    describe_doubted,
    describe_fallback_use,
    describe_whole,
)
from answerkey.runs import Run, TaskRun, name_answerer
from answerkey.text import clean_numbers, is_share
from answerkey.types import GateStatus, MetricValue, Validity

#: How a gate was decided; one that is skipped or not decided neither passes nor fails.
DECIDED = {GateStatus.PASS: True, GateStatus.FAIL: False}
#: The most letters and categories that can be chosen from, and that a plot shows.
MAX_LETTERS, MAX_CATEGORIES, MAX_SQUARE = 200, 200, 40
INVALID = Validity.INVALID.value

# ── the classes, whose fields the front end reads


@dataclass(
    frozen=True,
    slots=True,
    kw_only=True,
)
class Headline:
    """The number that a reader wants first; no value unless the run is complete.

    `chance` is what guessing would get and `right` how many samples are right, both only where the
    metric is the share of right answers. `note` is what the page says besides the numbers.
    """

    name: str
    value: float | None = None
    interval: Interval | None = None
    n: int
    right: int | None = None
    is_share: bool
    chance: float | None = None
    above_chance: float | None = None
    note: str | None


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One metric in the table of all."""

    name: str
    scorer: str
    kind: str
    value: float | None
    interval: Interval | None
    n: int
    left_out: Mapping[str, int]
    note: str | None
    is_share: bool


@dataclass(frozen=True, slots=True)
class ReasonBar:
    """How many completions are INVALID for one reason, and how many of them state an answer."""

    reason: str
    count: int
    stated: int | None = None
    right: int | None = None


@dataclass(frozen=True, slots=True)
class RuleReading:
    """What an extraction rule or another harness reads; `drawn` samples stand for all."""

    name: str
    kind: str
    value: float | None
    interval: Interval | None
    invalid_share: float | None
    read: int
    n: int
    drawn: int | None


@dataclass(frozen=True, slots=True)
class LetterSquare:
    """How often each letter was predicted where each was true."""

    true: Sequence[str]
    predicted: Sequence[str]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Reliability:
    """The accuracy by the confidence of the model, and the expected calibration error."""

    bins: Any
    ece: float | None


@dataclass(frozen=True, slots=True)
class Plots:
    """The plots of a task: counts of any run, shares of a complete one; None if there are none."""

    invalid: Sequence[ReasonBar] | None
    letters: LetterSquare | None
    categories: Categories | None = None
    rules: Sequence[RuleReading] | None = None
    reliability: Reliability | None = None


@dataclass(frozen=True, slots=True)
class RowChoices:
    """The filters of the table of samples, and how many of its rows a report holds."""

    count: int
    embedded: int
    sentence: str | None
    categories: Sequence[str]
    reasons: Sequence[str]
    letters: Sequence[str]
    has_flips: bool
    trials: int


@dataclass(frozen=True, slots=True)
class TaskOverview:
    """One task; `audited` completions were read again, and `audit_note` says why not all."""

    key: str
    display_name: str | None
    model: str
    dataset: str
    scorer: str | None
    rule: str | None
    samples: int
    headline: Headline
    counts: Mapping[str, int]
    metrics: Sequence[MetricLine]
    calls: Sequence[CallsView]
    findings: Sequence[Finding]
    audited: int
    audit_note: str | None
    plots: Plots
    rows: RowChoices


@dataclass(frozen=True, slots=True)
class GateLine:
    """A gate; `is_pass` is None if it was not decided."""

    name: str
    is_pass: bool | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Overview:
    """A run."""

    id: str
    label: str
    status: str
    started_at: str | None
    seconds: float | None
    simulated: bool
    notices: Sequence[str]
    gates: Sequence[GateLine]
    tasks: Sequence[TaskOverview]


# ── the whole run


def dump(view: Any) -> Json:  # noqa: ANN401 - any dataclass
    """Return a dataclass as plain values; numbers that are not finite become null."""
    plain: Json = clean_numbers(asdict(view))
    return plain


def build_overview(
    run: Run,
    audits: Mapping[str, Audited],
    *,
    run_id: str,
    label: str,
) -> Overview:
    """Return the overview of a run; one that is not complete has counts and no shares.

    `audits` come from `audit_task`, or from `count_readings` where no completion is to be read
    again.
    """
    view = view_run(run)
    gates = []
    for gate in view.gates:
        sentence = "; ".join(gate.sentences)
        if gate.gate.status not in DECIDED:
            sentence = f"{WORDS[gate.gate.status]}: {sentence}"
        is_pass = DECIDED.get(gate.gate.status)
        gates.append(GateLine(gate.name, is_pass, sentence))
    tasks = []
    for task in view.tasks:
        audited = audits[task.key]
        tasks.append(_build_task(view, task, audited))
    notices = dict.fromkeys(_list_notices(view, audits))
    return Overview(
        id=run_id,
        label=label,
        status=run.status,
        started_at=view.started_at,
        seconds=view.seconds,
        simulated=view.is_simulated,
        notices=list(notices),
        gates=gates,
        tasks=tasks,
    )


def _list_notices(view: RunView, audits: Mapping[str, Audited]) -> Iterator[str]:
    """Yield the missing parts of the run with their causes, its warnings, and what is not shown."""
    if view.stopped:
        yield view.stopped
    for key in view.unfinished:
        yield f"task `{key}` is not finished"
    for notice in view.notices:
        yield _shorten_notice(notice)
    for audited in audits.values():
        yield from audited.notices
    for task in view.tasks:
        if task.reused:
            yield f"`{task.key}`: {task.reused}"
        if task.task.repetitions:
            yield f"`{task.key}` was run several times: the first run is shown"


def _shorten_notice(notice: str) -> str:
    """Return a warning on one line, without its place: the page is shared without the files."""
    parts = []
    for line in notice.removeprefix("warning: ").split("\n"):
        text = line.strip().removeprefix("= help: ")
        if not text.startswith("--> "):
            parts.append(text)
    return "; ".join(parts)


# ── how completions are read by other rules, and what stands out


@dataclass(frozen=True, slots=True)
class Audited:
    """How completions are read; `sentence` says why not all were read again."""

    audit: TaskAudit
    sentence: str | None = None
    notices: Sequence[str] = ()
    has_flips: bool = False


def audit_task(table: SampleTable) -> Audited:
    """Read up to 20,000 completions of a task by every rule, as `answerkey audit` does.

    Without its files, return what the run counted.
    """
    task = table.task_run
    if "task" not in task.source:  # a run that was put together by hand
        return count_readings(task)
    try:
        result = table.audit
    except AnswerkeyError as error:
        reason = error.message
        if error.code == "E505":  # a page travels, so no path is named
            reason = "the dataset or the completions are gone or have changed"
        sentence = f"completions are not read again: {reason}"
        return replace(count_readings(task), sentence=sentence)
    audit = result.tasks[0]
    has_flips = bool(audit.flips or (audit.drawn_from and audit.own))
    return Audited(
        audit=audit,
        sentence=_describe_extent(audit),
        notices=[notice.message for notice in result.notices],
        has_flips=has_flips,
    )


def _describe_extent(audit: TaskAudit) -> str | None:
    if audit.drawn_from is None:
        return None
    extent = f"{audit.n:,} of {audit.drawn_from:,} completions"
    return f"{extent}, drawn at random, were read again; `answerkey audit` reads all"


def count_readings(task: TaskRun) -> Audited:
    """Return what the run itself counted: all completions by its own rule, some by every rule."""
    counted = describe_counted(task)
    if counted is None:
        return Audited(TaskAudit(task.key))
    tally = ReadingTally()
    for status, count in task.totals["completion_statuses"].items():
        tally.counts["status", status] = count
    whole = describe_whole(task, str(counted.rule))
    findings = (*find_run_findings(whole, tally), *find_format(counted))
    readings = {(reader.correct, reader.invalid) for reader in counted.readers}
    return Audited(
        audit=replace(counted, findings=findings),
        sentence=_describe_extent(counted),
        has_flips=len(readings) > 1,
    )


# ── one task


def _build_task(run: RunView, view: TaskView, audited: Audited) -> TaskOverview:
    task = view.task
    audit = audited.audit
    plots = Plots(
        invalid=_plot_invalid(view, audit) or None,
        letters=_plot_letters(task),
    )
    findings = []
    for finding in audit.findings:
        # Of a run that is not complete, nothing that rests on its accuracy.
        if run.is_complete or "accuracy" not in finding.numbers:
            findings.append(finding)
    if run.is_complete:
        plots = replace(
            plots,
            categories=_plot_categories(view),
            rules=_plot_rules(audit) or None,
            reliability=_find_curve(task),
        )
    return TaskOverview(
        key=task.key,
        display_name=task.manifest.get("display_name"),
        model=name_answerer(task.manifest, with_folder=False),
        dataset=view.dataset,
        scorer=_name_scorer(view),
        rule=audit.rule if audit.scorer == task.main_scorer else None,
        samples=task.counts["samples"],
        headline=_build_headline(view, audit, is_complete=run.is_complete),
        counts=task.counts,
        metrics=_list_metrics(view, is_complete=run.is_complete),
        calls=view.calls,
        findings=findings,
        audited=audit.n,
        audit_note=audited.sentence,
        plots=plots,
        rows=_list_choices(view, has_flips=audited.has_flips),
    )


def _list_metrics(view: TaskView, *, is_complete: bool) -> list[MetricLine]:
    lines = []
    for entry in view.metrics:
        metric = entry.metric
        if not is_complete:
            metric = replace(
                metric,
                value=None,
                interval=None,
                note="the run is not complete",
            )
        line = MetricLine(
            name=entry.label,
            scorer=view.scorer_names.get(metric.scorer, metric.scorer),
            kind=metric.type,
            value=metric.value,
            interval=metric.interval,
            n=metric.n,
            left_out=metric.n_excluded,
            note=metric.note or metric.interval_note,
            is_share=entry.is_share,
        )
        lines.append(line)
    return lines


def _list_choices(view: TaskView, *, has_flips: bool) -> RowChoices:
    task = view.task
    count = len(task.stored_scores)
    reasons = set[str]()
    for group in ("invalid", "failed", "errors"):
        reasons.update(task.totals[group])
    sizes = {}
    for label, counted in task.totals["categories"].items():
        sizes[label] = counted["n"]
    by_size = sorted(sizes, key=sizes.__getitem__, reverse=True)
    return RowChoices(
        count=count,
        embedded=count,
        sentence=None,
        categories=sorted(by_size[:MAX_CATEGORIES]),
        reasons=sorted(reasons),
        letters=_list_letters(task)[:MAX_LETTERS],
        has_flips=has_flips,
        trials=view.trials,
    )


def _name_scorer(view: TaskView) -> str | None:
    """Return the name of the main scorer, and of the model that judges for it."""
    key = view.task.main_scorer
    for scorer in view.task.manifest["scorers"]:
        if scorer["key"] == key:
            name = str(view.scorer_names.get(scorer["key"], scorer["key"]))
            if model := scorer.get("model"):
                name += f", {model.get('role', 'judge')} {model['name']}"
            return name
    return key


def _build_headline(
    view: TaskView,
    audit: TaskAudit,
    *,
    is_complete: bool,
) -> Headline:
    task = view.task
    metric = view.task.main_metric
    if metric is None:
        return Headline(
            name="no metric",
            n=0,
            is_share=False,
            note="This task has no metric.",
        )
    headline = Headline(
        name=label_metric(task, metric),
        n=metric.n,
        is_share=is_share(metric),
        note=view.incomplete,
    )
    if not is_complete:
        return headline
    chance = right = above_chance = None
    if task.is_accuracy(metric):
        chance = describe_whole(task, "").chance or audit.chance
        right = _count_right(task, metric)
    if metric.value is not None and chance is not None:
        above_chance = correct_for_chance(metric.value, chance)
    notes = describe_fallback_use(task) + describe_doubted(task)
    clusters = metric.details.get("cluster_by")
    if metric.value is None:
        notes.insert(0, f"There is no value: {metric.note or 'nothing to compute it from'}.")
    elif clusters:
        notes.insert(0, f"The interval is clustered by `{clusters}`.")
    return replace(
        headline,
        value=metric.value,
        interval=metric.interval,
        right=right,
        chance=chance,
        above_chance=above_chance,
        note=" ".join(notes) or None,
    )


def _count_right(task: TaskRun, metric: MetricValue) -> int | None:
    """Return how many samples are right; None for trials and orders, which count completions."""
    details = metric.details
    scored = task.counts["scored"]
    if "counts" in details or details.get("of") != scored:
        return None
    return int(str(details["count"]))


# ── the plots of a task


def _plot_invalid(view: TaskView, audit: TaskAudit) -> list[ReasonBar]:
    """Return INVALID completions by reason; what they state only where all were read again."""
    reread: dict[tuple[str, int], ReasonCounts] = {}
    if audit.drawn_from is None:
        for reason in audit.reasons:
            reread[reason.reason, reason.count] = reason
    bars = []
    for counted in view.invalid:
        bar = ReasonBar(counted.name, counted.count)
        if read := reread.get((bar.reason, bar.count)):
            bar = replace(bar, stated=read.stated, right=read.right)
        bars.append(bar)
    return sorted(bars, key=lambda bar: (-bar.count, bar.reason))


def _plot_rules(audit: TaskAudit) -> list[RuleReading]:
    readings = []
    for reader in audit.readers:
        reading = RuleReading(
            name=reader.name,
            kind=reader.kind,
            value=reader.accuracy,
            interval=reader.interval,
            invalid_share=reader.invalid_share,
            read=reader.read,
            n=reader.n,
            drawn=None if audit.drawn_from is None else audit.samples,
        )
        if reader.n:
            readings.append(reading)
    return readings


def _list_letters(task: TaskRun) -> list[str]:
    """Return all choices that are true or predicted somewhere, in the order of their text."""
    counted = task.totals["letters"]
    letters = set(counted)
    letters.update(*counted.values())
    return sorted(letters - {INVALID})


def _plot_letters(task: TaskRun) -> LetterSquare | None:
    counted = task.totals["letters"]
    letters = _list_letters(task)
    if not counted or len(letters) > MAX_SQUARE:
        return None
    predicted = [*letters, INVALID]
    true = sorted(counted)
    counts = []
    for letter in true:
        row = counted[letter]
        counts.append([row.get(answer, 0) for answer in predicted])
    return LetterSquare(true, predicted, counts)


def _plot_categories(view: TaskView) -> Categories | None:
    """Return the main metric by group, or the accuracy by category; the best first."""
    metric = view.task.main_metric
    categories = view.categories
    if metric is not None and metric.groups:
        groups = metric.groups[0]
        categories = Categories(groups.column, "n", list_groups(groups), None)
    if categories is None or all(row.value is None for row in categories.rows):
        return None
    by_size = sorted(categories.rows, key=lambda row: -row.n)
    rows = sorted(by_size[:MAX_CATEGORIES], key=_rank_category)
    return replace(categories, rows=rows)


def _rank_category(row: CategoryRow) -> tuple[float, str]:
    if row.value is None:
        return math.inf, row.label
    return -row.value, row.label


def _find_curve(task: TaskRun) -> Reliability | None:
    """Return the reliability curve of a task that measures calibration."""
    for metric in task.metrics.values():
        if metric.type == Calibration.type and "bins" in metric.details:
            return Reliability(metric.details["bins"], metric.value)
    return None
