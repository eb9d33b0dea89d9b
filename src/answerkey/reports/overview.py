"""A run as its page shows it first: the number, what it rests on, the plots.

    run ──► build_overview ──► Overview ──► page, viewer, Markdown
                                       └──► plots ──► Vega-Lite

The fields of these classes are the keys that the front end reads: null where something is not
known, numbers finite, shares from 0 to 1.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from answerkey.comparison.compare import compare
from answerkey.errors import AnswerkeyError
from answerkey.gates.rules import WORDS
from answerkey.metrics import wilson
from answerkey.metrics.base import ValueCounts
from answerkey.metrics.classification import Calibration
from answerkey.metrics.task_counts import correct_for_chance, measure_recalls, measure_rstd
from answerkey.reports.samples import SampleTable
from answerkey.reports.view import (
    GateView,
    Interval,
    MetricView,
    TaskView,
    count_trials,
    name_scorer,
    pick,
    view_run,
)
from answerkey.run_audit.findings import Tally, TaskAudit, find_format, find_run_findings
from answerkey.run_audit.text import (
    describe_counted,
    describe_whole,
    list_readings,
    say_doubted,
    say_fallbacks,
    say_unfit,
    say_votes,
)
from answerkey.runs import Run, Table, TaskRun, name_answerer
from answerkey.scorers.choice_probabilities import judge_probabilities
from answerkey.text import (
    clean_numbers,
    format_chance,
    format_count,
    format_number,
    format_value,
)
from answerkey.types import GateStatus, MetricValue, ScoreStatus, Validity

COUNTS = ("samples", "scored", "valid", "invalid", "refused", "declined", "failed", "errors")
#: How a gate was decided; one that is skipped or not decided neither passes nor fails.
DECIDED = {GateStatus.PASS: True, GateStatus.FAIL: False}
#: The most letters that can be chosen from in a list.
MAX_LETTERS = 200
#: More categories are not plotted, and no square of more letters could be read.
MAX_CATEGORIES, MAX_SQUARE = 200, 40
INVALID = Validity.INVALID.value
#: The reliability curve reads completions in blocks of this size, and at most so many in all.
BLOCK, MAX_RELIABILITY = 1_024, 20_480
#: A mean times its count is a whole number but for this much.
ROUNDING = 1e-6
#: Latencies and usages are read in chunks of this size.
CHUNK_ROWS = 131_072
#: About as many bars as a histogram has; values beyond the 99th percentile share the last one.
BARS = 20
NEARLY_ALL = 0.99
#: Values up to this many times the width are no outliers: one bar more shows them.
NEAR = 1.25

Letters = Mapping[str, Mapping[str, int]]


# ── the classes, whose fields the front end reads


@dataclass(frozen=True, slots=True)
class Baseline:
    """How a task differs from the same task of the baseline."""

    label: str
    value: float
    difference: float
    interval: Interval | None
    p: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The number that a reader wants first, and a sentence that says all of it.

    No value unless the run is complete. `chance` is what guessing would get and `right` how many
    samples are right, both only where the metric is the share of right answers. `note` is what the
    page says besides the numbers.
    """

    name: str
    value: float | None = None
    interval: Interval | None = None
    n: int
    right: int | None = None
    is_share: bool
    chance: float | None = None
    above_chance: float | None = None
    baseline: Baseline | None = None
    sentence: str
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
    purpose: str
    note: str | None
    is_share: bool


@dataclass(frozen=True, slots=True)
class FindingLine:
    """What stands out in a task, and what to do next."""

    kind: str
    sentence: str
    step: str
    examples: Sequence[str]


@dataclass(frozen=True, slots=True)
class AuditLine:
    """How many completions were read again; `sentence` says why not all of them."""

    n: int
    of: int
    sentence: str | None
    unfit: str | None


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its interval."""

    label: str
    value: float | None
    interval: Interval | None
    n: int


@dataclass(frozen=True, slots=True)
class CategoryPlot:
    """The main metric, or the accuracy, by category; the best first."""

    column: str
    rows: Sequence[Point]


@dataclass(frozen=True, slots=True)
class ReasonBar:
    """How many completions are INVALID for one reason, and how many of them state an answer."""

    reason: str
    count: int
    stated: int | None
    right: int | None


@dataclass(frozen=True, slots=True)
class RuleReading:
    """What an extraction rule or another harness reads; `drawn` samples stand for all."""

    name: str
    label: str
    kind: str
    value: float | None
    interval: Interval | None
    invalid_share: float
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
class Recall:
    """How often a letter was predicted where it was true."""

    letter: str
    value: float
    interval: Interval | None
    n: int


@dataclass(frozen=True, slots=True)
class Recalls:
    """The recalls of all letters, and how far they spread."""

    rows: Sequence[Recall]
    rstd: float | None


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """How sure the model was, and how often it was right."""

    low: float
    high: float
    confidence: float | None
    accuracy: float | None
    interval: Interval | None
    n: int


@dataclass(frozen=True, slots=True)
class Reliability:
    """The reliability curve, and the expected calibration error."""

    bins: Sequence[ReliabilityBin]
    ece: float | None
    ece_bins: int


@dataclass(frozen=True, slots=True)
class Bar:
    """How many values lie from `low` up to, but without, `high`."""

    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class LatencyPlot:
    """Seconds of calls, without those from the cache."""

    p50: float
    p95: float
    bins: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class TokenPlot:
    """Tokens of all prompts, of all completions, and of each completion."""

    prompt: int
    completion: int
    bins: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Plots:
    """The plots of a task: counts of any run, shares of a complete one; None if there are none."""

    categories: CategoryPlot | None
    invalid: Sequence[ReasonBar] | None
    rules: Sequence[RuleReading] | None
    letters: LetterSquare | None
    recalls: Recalls | None
    reliability: Reliability | None
    latency: LatencyPlot | None
    tokens: TokenPlot | None


@dataclass(frozen=True, slots=True)
class RowChoices:
    """What there is to choose from in the table of samples, and how much of it a report holds."""

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
    """One task."""

    key: str
    display_name: str | None
    model: str
    dataset: str
    scorer: str | None
    rule: str | None
    num_trials: int
    votes: str | None
    samples: int
    headline: Headline
    counts: Mapping[str, int]
    metrics: Sequence[MetricLine]
    findings: Sequence[FindingLine]
    audited: AuditLine
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
    path: str | None
    status: str
    started_at: str | None
    seconds: float | None
    simulated: bool
    notices: Sequence[str]
    gates: Sequence[GateLine]
    tasks: Sequence[TaskOverview]


# ── what is said of the whole run


def describe_overview(run: Run, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - of build_overview
    """Return the overview of a run as the front end reads it; see `build_overview`."""
    return dump(build_overview(run, **options))


def dump(view: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Return a dataclass as plain values; numbers that are not finite become null."""
    plain: dict[str, Any] = clean_numbers(asdict(view))
    return plain


def build_overview(
    run: Run,
    *,
    audits: Mapping[str, Audited] | None = None,
    baseline: Run | None = None,
    run_id: str = "r0",
    label: str | None = None,
    is_brief: bool = False,
) -> Overview:
    """Return the overview of a run; one that is not complete has counts and no shares.

    `audits` come from `audit_task`; with `is_brief` no completion is read again, and what the run
    itself counted has to do. With `baseline`, each task is compared with the same task of that run.
    """
    view = view_run(run)
    differences: Mapping[str, Baseline] = {}
    uncompared: Sequence[str] = ()
    if baseline is not None:
        differences, uncompared = _compare_with(run, baseline)
    if is_brief:
        audits = {key: _count_readings(task) for key, task in run.tasks.items()}
    elif audits is None:
        audits = {key: audit_task(SampleTable(run, task)) for key, task in run.tasks.items()}
    tasks = []
    for task in view.tasks:
        audited, difference = audits[task.key], differences.get(task.key)
        tasks.append(_build_task(task, audited, difference, is_complete=view.is_complete))
    name = run.path.name if run.path else None
    return Overview(
        id=run_id,
        label=label or name or run.key,
        path=name,
        status=run.status,
        started_at=view.started_at,
        seconds=view.seconds,
        simulated=view.is_simulated,
        notices=[*dict.fromkeys(_list_notices(run, audits)), *uncompared],
        gates=list(map(_build_gate, view.gates)),
        tasks=tasks,
    )


def _build_gate(view: GateView) -> GateLine:
    status, sentence = view.gate.status, "; ".join(view.sentences)
    if status not in DECIDED:
        sentence = f"{WORDS[status]}: {sentence}"
    return GateLine(view.name, DECIDED.get(status), sentence)


def _list_notices(run: Run, audits: Mapping[str, Audited]) -> Iterator[str]:
    """Yield what of the run is missing and why, its warnings, and what is not shown."""
    if run.status != "complete":
        if reason := (run.manifest.get("stopped") or {}).get("message"):
            yield str(reason)
        for entry in run.manifest["tasks"]:
            if entry["key"] not in run.tasks:
                yield f"task `{entry['key']}` is not finished"
    for notice in run.manifest["notices"]:
        yield _shorten_notice(str(notice))
    for audited in audits.values():
        yield from audited.notices
    for task in view_run(run).tasks:
        if task.reused:
            yield f"{task.key}: {task.reused}" if len(run.tasks) > 1 else task.reused
        yield from _list_task_notices(task.task)


def _shorten_notice(notice: str) -> str:
    """Return a notice without its heading and file: a page travels, files do not."""
    parts = []
    for line in notice.removeprefix("warning: ").split("\n"):
        text = line.strip()
        if text and not text.startswith("--> "):
            parts.append(text.removeprefix("= help: "))
    return "; ".join(parts)


def _list_task_notices(task: TaskRun) -> Iterator[str]:
    if task.repetitions:
        times = len(task.repetitions) + 1
        yield f"`{task.key}` was run {times} times: what is shown is the first run"
    size = len(task.stored_completions)
    is_large = size > MAX_RELIABILITY
    if is_large and not _find_curve(task) and _has_logprobs(task.stored_completions):
        part = f"{MAX_RELIABILITY:,} of {size:,} completions"
        yield f"the reliability curve of `{task.key}` is of {part}, from all over the run"
    count = len(task.totals.get("categories") or {})
    if count > MAX_CATEGORIES:
        column = task.totals["category_column"]
        yield f"`{column}` has {count:,} values: the {MAX_CATEGORIES} most frequent are shown"


def _compare_with(run: Run, baseline: Run) -> tuple[dict[str, Baseline], list[str]]:
    """Return by task key how a run differs from its baseline, and what could not be compared."""
    label = baseline.path.name if baseline.path else baseline.key
    try:
        comparison = compare(run, baseline=baseline)
    except AnswerkeyError as error:
        return {}, [f"not compared with `{label}`: {error.message}"]
    differences = {}
    for task in comparison.tasks:
        pair = task.pairs[0]
        value, interval = pair.difference.value, pair.difference.evidence.interval
        second = pair.difference.second
        differences[task.key] = Baseline(label, second, value, interval, pair.p_adjusted)
    return differences, [notice.message for notice in comparison.notices]


# ── how completions are read by other rules, and what stands out


@dataclass(frozen=True, slots=True)
class Audited:
    """What is known of how completions are read; `sentence` says why not all were read again."""

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
        return _count_readings(task)
    try:
        result = table.audit
    except AnswerkeyError as error:
        reason = error.message
        if error.code == "E505":  # a page travels, so no path is named
            reason = "the dataset or the completions are gone or have changed"
        sentence = f"completions are not read again: {reason}"
        return replace(_count_readings(task), sentence=sentence)
    audit = result.tasks[0]
    is_part = audit.drawn_from is not None and audit.own is not None
    notices = [notice.message for notice in result.notices]
    return Audited(audit, _say_drawn(audit), notices, has_flips=bool(audit.flips) or is_part)


def _say_drawn(audit: TaskAudit) -> str | None:
    if audit.drawn_from is None:
        return None
    extent = f"{audit.n:,} of {audit.drawn_from:,} completions"
    return f"read again are {extent}, drawn at random; `answerkey audit` reads all"


def _count_readings(task: TaskRun) -> Audited:
    """Return what the run itself counted: all completions by its own rule, some by every rule."""
    counted = describe_counted(task)
    if counted is None:
        rows = task.totals.get("orders") or task.totals.get("trials") or task.totals
        scored = int(rows["counts"]["scored"])
        return Audited(TaskAudit(task.key, None, None, 0, {}, 1, 0, drawn_from=scored))
    whole = describe_whole(task, str(counted.rule))
    tally = Tally()
    for status, count in (task.totals.get("completion_statuses") or {}).items():
        tally.counts["status", status] = count
    findings = (*find_run_findings(whole, tally), *find_format(counted))
    has_flips = len({(reader.correct, reader.invalid) for reader in counted.readers}) > 1
    audit = replace(counted, findings=findings)
    return Audited(audit, _say_drawn(counted), has_flips=has_flips)


# ── one task


def _build_task(
    view: TaskView, audited: Audited, baseline: Baseline | None, *, is_complete: bool
) -> TaskOverview:
    task, audit, scorer = view.task, audited.audit, view.task.main_scorer
    chance = describe_whole(task, "").chance or audit.chance
    findings = []
    for finding in audit.findings:
        # Of a run that is not complete, nothing that rests on its accuracy.
        if is_complete or "accuracy" not in finding.numbers:
            line = FindingLine(finding.kind, finding.sentence, finding.step, finding.examples)
            findings.append(line)
    total = audit.drawn_from or audit.n
    unfit = "; ".join(say_unfit(audit)) or None
    return TaskOverview(
        key=task.key,
        display_name=task.manifest.get("display_name"),
        model=name_answerer(task.manifest, with_folder=False),
        dataset=name_dataset(task),
        scorer=None if scorer is None else _name_scorer(task, scorer),
        rule=audit.rule if audit.scorer == scorer else None,
        num_trials=count_trials(task),
        votes=say_votes(task) if is_complete else None,
        samples=task.counts["samples"],
        headline=_build_headline(view, chance, baseline, is_complete=is_complete),
        counts={name: task.counts.get(name, 0) for name in COUNTS},
        metrics=[_build_metric(task, metric, is_complete) for metric in view.metrics],
        findings=findings,
        audited=AuditLine(audit.n, total, audited.sentence, unfit),
        plots=_build_plots(view, audit, is_complete=is_complete),
        rows=_list_choices(task, audited),
    )


def _build_metric(task: TaskRun, view: MetricView, is_complete: bool) -> MetricLine:  # noqa: FBT001 - as of the run
    metric = view.metric
    value, interval, note = metric.value, metric.interval, metric.note or metric.interval_note
    if not is_complete:
        value, interval, note = None, None, "the run is not complete"
    return MetricLine(
        name=view.label,
        scorer=name_scorer(task, metric.scorer),
        kind=metric.type,
        value=value,
        interval=interval,
        n=metric.n,
        left_out={reason: count for reason, count in metric.n_excluded.items() if count},
        purpose=metric.purpose,
        note=note,
        is_share=view.is_share,
    )


def _list_choices(task: TaskRun, audited: Audited) -> RowChoices:
    count, reasons = len(task.stored_scores), set[str]()
    for group in ("invalid", "failed", "errors"):
        reasons.update(task.totals.get(group) or {})
    return RowChoices(
        count=count,
        embedded=count,
        sentence=None,
        categories=sorted(_list_categories(task)),
        reasons=sorted(reasons),
        letters=_list_letters(task)[:MAX_LETTERS],
        has_flips=audited.has_flips,
        trials=count_trials(task),
    )


def name_dataset(task: TaskRun) -> str:
    """Return what the dataset of a task is called; a file without its folder."""
    dataset: Mapping[str, Any] = task.manifest.get("dataset") or {}
    label = dataset.get("display_name") or dataset.get("key")
    if not label and dataset.get("file"):
        label = Path(dataset["file"]).name
    return str(label or "in memory")


def _name_scorer(task: TaskRun, key: str) -> str:
    """Return what a scorer is called, and which model judges for it."""
    name = name_scorer(task, key)
    for scorer in task.manifest.get("scorers") or []:
        model = scorer.get("model")
        if scorer["key"] == key and model:
            role = "with the fallback" if model.get("role") == "fallback" else "judged by"
            return f"{name}, {role} {model['name']}"
    return name


# ── the headline


def _build_headline(
    view: TaskView, chance: float | None, baseline: Baseline | None, *, is_complete: bool
) -> Headline:
    task, metric = view.task, view.task.main_metric
    if metric is None:
        sentence = "This task has no metric."
        return Headline(name="no metric", n=0, is_share=False, sentence=sentence, note=sentence)
    main = next(entry for entry in view.metrics if entry.metric is metric)
    if not is_complete:
        sentence = (
            f"INCOMPLETE: {view.cause}, so no accuracy is shown: a share of the rest says nothing"
            " about the whole."
        )
        return Headline(
            name=main.label, n=metric.n, is_share=main.is_share, sentence=sentence, note=sentence
        )
    details, is_accuracy = metric.details, task.is_accuracy(metric)
    if not is_accuracy:
        chance = None
    right = above_chance = None
    # Of trials and orders, completions are counted.
    if is_accuracy and "counts" not in details and details.get("of") == task.counts["scored"]:
        right = int(str(details["count"]))
    if metric.value is not None and chance is not None:
        above_chance = correct_for_chance(metric.value, chance)
    sentence, note = _say_value(main, chance)
    if baseline:
        sentence += f". Against {baseline.label}: {_say_difference(baseline, main)}"
    remarks = say_fallbacks(task) + say_doubted(task)
    return Headline(
        name=main.label,
        n=metric.n,
        is_share=main.is_share,
        sentence=" ".join([f"{sentence}.", *remarks]),
        note=" ".join([*note, *remarks]) or None,
        value=metric.value,
        interval=metric.interval,
        right=right,
        chance=chance,
        above_chance=above_chance,
        baseline=baseline,
    )


def _say_value(view: MetricView, chance: float | None) -> tuple[str, list[str]]:
    """Return the number with its interval in words, and what the page does not say otherwise."""
    metric = view.metric
    if metric.value is None:
        text = f"{view.label} has no value: {metric.note or 'nothing to compute it from'}"
        return text, [f"{text}."]
    notes = []
    text = f"{view.label} is {format_value(metric)}"
    if metric.interval is not None:
        interval = _say_interval(metric.interval, as_share=view.is_share)
        if column := metric.details.get("cluster_by"):
            notes.append(f"The interval is clustered by `{column}`.")
            interval += f", clustered by {column}"
        text += f" (95 % interval {interval})"
    is_repeated = metric.details.get("counts") in {"trials", "orders"}
    text += f" on {format_count(metric.n, 'completion' if is_repeated else 'sample')}"
    if chance is not None:
        text += _say_chance(metric.value, metric.interval, chance)
    return text, notes


def _say_chance(value: float, interval: Interval | None, chance: float) -> str:
    level = f"chance level of {100 * chance:.2f} %"
    points = f"{100 * abs(value - chance):.2f} points"
    if interval is None:
        return f"; the {level} is what guessing would get"
    if interval[0] > chance:
        return f", {points} above the {level}"
    if interval[1] < chance:
        return f", {points} below the {level}"
    return f", not told apart from the {level}"


def _say_difference(baseline: Baseline, view: MetricView) -> str:
    number = baseline.difference
    text = f"{100 * number:+.2f} points"
    if not view.is_share:
        sign = "+" if number > 0 else ""
        text = f"{sign}{format_number(number)}"
    facts = []
    if baseline.interval:
        interval = _say_interval(baseline.interval, as_share=view.is_share)
        facts.append(f"95 % interval {interval}")
    if baseline.p is not None:
        facts.append(f"p {format_chance(baseline.p)}")
    return f"{text} ({', '.join(facts)})" if facts else text


def _say_interval(interval: Interval, *, as_share: bool) -> str:
    low, high = interval
    if as_share:
        return f"{100 * low:.2f} to {100 * high:.2f}"
    return f"{format_number(low)} to {format_number(high)}"


# ── the plots of a task


def _build_plots(view: TaskView, audit: TaskAudit, *, is_complete: bool) -> Plots:
    task = view.task
    # Trials, and orders, of one sample are not independent draws: they have no interval.
    has_interval = not (task.totals.get("trials") or task.totals.get("orders"))
    latency, tokens = _plot_calls(task.stored_completions)
    categories = rules = recalls = reliability = None
    if is_complete:
        categories = _plot_categories(task, has_interval=has_interval)
        rules = [pick(RuleReading, reading) for reading in list_readings(task, audit)] or None
        recalls = _plot_recalls(task, has_interval=has_interval)
        reliability = _plot_reliability(task, has_interval=has_interval)
    return Plots(
        categories=categories,
        invalid=_plot_invalid(view, audit) or None,
        rules=rules,
        letters=_plot_letters(task),
        recalls=recalls,
        reliability=reliability,
        latency=latency,
        tokens=tokens,
    )


def _plot_invalid(view: TaskView, audit: TaskAudit) -> list[ReasonBar]:
    """Return INVALID completions by reason; what they state only where all were read again."""
    stated = {}
    if audit.drawn_from is None:
        stated = {(reason.reason, reason.count): reason for reason in audit.reasons}
    bars = []
    for reason in sorted(view.invalid, key=lambda reason: (-reason.count, reason.name)):
        read = stated.get((reason.name, reason.count))
        bar = ReasonBar(reason.name, reason.count, None, None)
        if read is not None:
            bar = replace(bar, stated=read.stated, right=read.right)
        bars.append(bar)
    return bars


def _get_letters(task: TaskRun) -> Letters:
    letters: Letters = task.totals.get("letters") or {}
    return letters


def _list_letters(task: TaskRun) -> list[str]:
    """Return all choices that are true or predicted somewhere, in the order of their text."""
    letters = set(_get_letters(task))
    for row in _get_letters(task).values():
        letters.update(row)
    return sorted(letters - {INVALID})


def _plot_letters(task: TaskRun) -> LetterSquare | None:
    counted, letters = _get_letters(task), _list_letters(task)
    if not counted or len(letters) > MAX_SQUARE:
        return None
    predicted = [*letters, INVALID]
    true = [letter for letter in letters if letter in counted]
    counts = [[counted[letter].get(answer, 0) for answer in predicted] for letter in true]
    return LetterSquare(true, predicted, counts)


def _plot_recalls(task: TaskRun, *, has_interval: bool) -> Recalls | None:
    counted = _get_letters(task)
    recalls = measure_recalls(counted)
    if not recalls or len(recalls) > MAX_SQUARE:
        return None
    rows = []
    for letter, value in sorted(recalls.items()):
        n, right = sum(counted[letter].values()), counted[letter].get(letter, 0)
        rows.append(Recall(letter, value, wilson(right, n) if has_interval else None, n))
    return Recalls(rows, measure_rstd(list(recalls.values())))


def _list_categories(task: TaskRun) -> dict[str, Mapping[str, int]]:
    """Return the counts of the most frequent categories, in the order of their text."""
    counted: Mapping[str, Mapping[str, int]] = task.totals.get("categories") or {}
    largest = sorted(counted, key=lambda label: (-counted[label]["n"], label))[:MAX_CATEGORIES]
    return {label: counted[label] for label in sorted(largest)}


def _plot_categories(task: TaskRun, *, has_interval: bool) -> CategoryPlot | None:
    """Return the main metric by group, or the accuracy by category."""
    metric, rows = task.main_metric, []
    column = task.totals.get("category_column")
    if metric is not None and metric.groups:
        groups = metric.groups[0]
        column = groups.column
        largest = sorted(groups.values, key=lambda value: -value.n)[:MAX_CATEGORIES]
        for value in groups.values:
            if value in largest:
                rows.append(Point(str(value.group), value.value, value.interval, value.n))
        if not rows:
            return None
    else:
        for label, entry in _list_categories(task).items():
            n, correct = entry["n"], entry["correct"]
            point = Point(label, None, None, n)
            if n and not entry["partial"]:  # answers that are right in part are no share
                interval = wilson(correct, n) if has_interval else None
                point = Point(label, correct / n, interval, n)
            rows.append(point)
        if all(row.value is None for row in rows):
            return None
    rows.sort(key=lambda row: (row.value is None, -(row.value or 0.0)))
    return CategoryPlot(str(column), rows)


# ── reliability: whether a model is right as often as it is sure
# A task that measures calibration has the curve. For others it is made here, where completions came
# with log-probabilities and a scorer knows the choices: by the likeliest choice, as
# `choice_probabilities` does.


def _plot_reliability(task: TaskRun, *, has_interval: bool) -> Reliability | None:
    metric = _find_curve(task) or _measure_curve(task)
    if metric is None:
        return None
    bins: Sequence[Mapping[str, Any]] = metric.details["bins"]  # type: ignore[assignment]  # as the metric wrote it
    rows = []
    for entry in bins:
        n, accuracy = entry["n"], entry["accuracy"]
        right = n * (accuracy or 0.0)
        interval = None
        # Answers that may be right in part have no interval.
        if has_interval and n and abs(right - round(right)) < ROUNDING:
            interval = wilson(round(right), n)
        low, high, confidence = entry["from"], entry["to"], entry["confidence"]
        rows.append(ReliabilityBin(low, high, confidence, accuracy, interval, n))
    return Reliability(rows, metric.value, len(rows))


def _find_curve(task: TaskRun) -> MetricValue | None:
    """Return the calibration that the task itself measures."""
    for metric in task.metrics.values():
        is_curve = metric.type == Calibration.type and "bins" in metric.details
        if is_curve and metric.value is not None:
            return metric
    return None


def _measure_curve(task: TaskRun) -> MetricValue | None:
    """Return the calibration of a task that does not measure it; None if it cannot be known."""
    if task.main_scorer is None or not _has_logprobs(task.stored_completions):
        return None
    # All blocks, or as many as are allowed, at equal distances all over the run.
    offsets: Sequence[int] = range(0, len(task.stored_completions), BLOCK)
    limit = MAX_RELIABILITY // BLOCK
    if len(offsets) > limit:
        offsets = [offsets[number * len(offsets) // limit] for number in range(limit)]
    pairs: Counter[tuple[float, float]] = Counter()
    for offset in offsets:
        pairs.update(_read_confidences(task, task.main_scorer, offset))
    if not pairs:
        return None
    metric = Calibration(bins=(10,))
    counts = ValueCounts(list(pairs.items()), Counter(), list(metric.fields()))
    return metric.state_values(counts, metric.collect(counts))[0]


def _read_confidences(task: TaskRun, key: str, offset: int) -> Iterator[tuple[float, float]]:
    """Yield confidence and correctness of the likeliest choice, of completions that count."""
    stored = task.stored_scores.read(offset, BLOCK, [key])[key].to_list()
    replies = task.stored_completions.read(offset, BLOCK, ["logprobs"])["logprobs"]
    for verdict, logprobs in zip(stored, replies, strict=True):
        is_counted = verdict["status"] == ScoreStatus.SCORED.value and not verdict["excluded_by"]
        choices = (verdict["metadata"] or {}).get("choices")
        if logprobs is None or not is_counted or not choices:
            continue
        truth = verdict["metadata"].get("ground_truth_choice")
        values = judge_probabilities(json.loads(logprobs), choices, truth).values
        if values.get("confidence") is not None:
            yield float(str(values["confidence"])), float(str(values["is_correct"]))


def _has_logprobs(completions: Table) -> bool:
    """Return whether completions have log-probabilities, as the first and the middle ones tell."""
    if not len(completions):
        return False
    for offset in (0, len(completions) // 2):
        block = completions.read(offset, BLOCK, ["logprobs"])
        if "logprobs" in block.columns and block["logprobs"].count():
            return True
    return False


# ── how long completions took, and how many tokens they have


def _plot_calls(completions: Table) -> tuple[LatencyPlot | None, TokenPlot | None]:
    columns = ("latency", "usage", "source")
    parts = []
    for offset in range(0, len(completions), CHUNK_ROWS):
        part = completions.read(offset, CHUNK_ROWS, columns)
        is_new = pl.col("source") != "cache"
        usage = pl.col("usage").struct
        parts.append(
            part.select(
                pl.when(is_new).then("latency").alias("latency"),
                usage.field("prompt_tokens").alias("prompt"),
                usage.field("completion_tokens").alias("completion"),
            )
        )
    if not parts:
        return None, None
    table = pl.concat(parts)
    seconds = table["latency"].drop_nulls()
    seconds = seconds.filter(seconds.is_finite())
    latency = tokens = None
    if len(seconds):
        p50, p95 = _find_quantile(seconds, 0.5), _find_quantile(seconds, 0.95)
        latency = LatencyPlot(p50, p95, count_bins(seconds))
    prompt, completion = table["prompt"].drop_nulls(), table["completion"].drop_nulls()
    if len(prompt) or len(completion):
        bars = count_bins(completion.cast(pl.Float64), is_whole=True)
        tokens = TokenPlot(int(prompt.sum()), int(completion.sum()), bars)
    return latency, tokens


def _find_quantile(values: pl.Series, share: float) -> float:
    return float(str(values.quantile(share, "linear")))


def count_bins(values: pl.Series, *, is_whole: bool = False) -> list[Bar]:
    """Return bars of equal, round width from the smallest value on.

    Values far beyond the others are in a wider bar of their own, which ends with the largest.
    """
    if not len(values):
        return []
    smallest, largest = float(str(values.min())), float(str(values.max()))
    high = _find_quantile(values, NEARLY_ALL)
    step = choose_step(high - smallest, is_whole=is_whole)
    first, last = math.floor(smallest / step), math.floor(high / step) + 1
    has_outliers = largest > (first + (last - first) * NEAR) * step
    if not has_outliers:
        last = max(last, math.floor(largest / step) + 1)
    places = (values / step).floor().cast(pl.Int64).clip(first, last)
    counts = dict(places.value_counts().iter_rows())
    if not has_outliers:  # the largest value may lie on the end of the last bar
        counts[last - 1] = counts.get(last - 1, 0) + counts.get(last, 0)
    bars = []
    for place in range(first, last):
        bars.append(Bar(place * step, (place + 1) * step, counts.get(place, 0)))
    if has_outliers:
        bars.append(Bar(last * step, largest, counts[last]))
    return bars


def choose_step(width: float, *, is_whole: bool = False) -> float:
    """Return 1, 2 or 5 times a power of ten, so that about twenty steps make the width."""
    if width <= 0:
        return 1.0 if is_whole else 0.1
    power = 10.0 ** math.floor(math.log10(width / BARS))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power * BARS >= width)
    return max(1.0, step) if is_whole else step
