"""The kinds of rules: their fields, what they check in a finished run, and the text about gates."""

from __future__ import annotations

import math
import operator
import shlex
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

from answerkey.errors import AnswerkeyError, RunError, SpecError, listing, suggest
from answerkey.evaluate.pairs import choose_tasks, label_runs, pair_samples
from answerkey.metrics import wilson
from answerkey.metrics.intervals import WILSON
from answerkey.metrics.paired import Difference, adjust_by_holm
from answerkey.runs import NOT_COMPLETE, Run, TaskRun, describe_gates, load_run
from answerkey.spec import Task, task_from_source
from answerkey.spec.job import PlannedMetric, find_compared, find_metrics
from answerkey.text import (
    BLANK,
    Lines,
    Role,
    Span,
    describe_reused_calls,
    draw_text,
    format_figure,
    format_number,
    format_p_value,
    shorten_path,
)
from answerkey.types import (
    Gate,
    GateCheck,
    GateStatus,
    MetricValue,
    Notice,
    find_worst_status,
)

Operator = Literal[">", ">=", "=", "<", "<="]
Bound = Literal["value", "lower", "upper"]
Comparison = Callable[[float, float], bool]
Tasks = Sequence[Task]
Errors = Iterator[SpecError]
Checks = list[GateCheck]

PASS = GateStatus.PASS
FAIL = GateStatus.FAIL
NOT_DECIDED = GateStatus.NOT_DECIDED
SKIPPED = GateStatus.SKIPPED
OPERATORS: Mapping[Operator, tuple[Comparison, str]] = {
    ">": (operator.gt, "more than"),
    ">=": (operator.ge, "at least"),
    "=": (operator.eq, "exactly"),
    "<": (operator.lt, "less than"),
    "<=": (operator.le, "at most"),
}
#: The significance level of a loss.
ALPHA = 0.05
#: How a rule without a metric names its value.
MAIN = "the main value"


@dataclass(frozen=True)
class Rule(ABC):
    """A kind of rule, whose fields are those of the YAML."""

    type: ClassVar[str]

    @property
    @abstractmethod
    def need(self) -> str:
        """The requirement in a few words, in the terms of the policy file."""

    @abstractmethod
    def find_errors(self, label: str, tasks: Tasks) -> Errors:
        """Yield an error for everything the rule needs and the tasks lack."""

    @abstractmethod
    def check(self, run: Run, keys: Sequence[str]) -> Checks:
        """Return the checks of the tasks with these keys in a complete run."""

    @abstractmethod
    def explain(self, check: GateCheck) -> str:
        """Return what was measured and what was needed, as a sentence without a full stop."""

    def advise(self, path: str) -> str:
        """Return what to do when the run at this path does not pass."""
        return f"`answerkey show {path}` shows what the value is based on"


class TaskRule(Rule):
    """A rule that checks one task at a time."""

    @abstractmethod
    def check_task(self, task_run: TaskRun) -> Iterator[GateCheck]:
        """Yield the checks of a task."""

    def check(self, run: Run, keys: Sequence[str]) -> Checks:
        """Return the checks of all tasks, and of their repetitions."""
        checks: Checks = []
        for key in keys:
            task_run = run.tasks[key]
            if not task_run.repetitions:
                checks += self.check_task(task_run)
                continue
            repetitions = (task_run, *task_run.repetitions)
            for number, repetition in enumerate(repetitions, start=1):
                for check in self.check_task(repetition):
                    checks.append(replace(check, repetition=number))
        return checks


@dataclass(frozen=True)
class Threshold(TaskRule):
    """A metric value, or an end of its interval, is compared with a threshold.

    Without `metric` it is the main value of each task.
    """

    metric: str | None = field(default=None, kw_only=True)
    operator: Operator
    threshold: float
    bound: Bound = "value"

    type: ClassVar[str] = "threshold"

    def __post_init__(self) -> None:
        if not math.isfinite(self.threshold):
            message = f"`threshold` is {self.threshold!r}, not a finite number"
            raise SpecError("E108", message)

    @property
    def need(self) -> str:
        """The requirement in a few words, in the terms of the policy file."""
        name = self.metric or MAIN
        if self.bound != "value":
            name = f"{self.bound} bound of {name}"
        return f"{name} {self.operator} {self.threshold:g}"

    def find_errors(self, label: str, tasks: Tasks) -> Errors:
        """Yield an error for everything the rule needs and the tasks lack."""
        yield from _find_unknown_metric(label, self.metric, tasks)
        metrics = _find_metrics(tasks, self.metric)
        is_share = all(metric.names.is_share for metric in metrics)
        if not (metrics and is_share) or 0 <= self.threshold <= 1:
            return
        first_names = metrics[0].names.names
        name = self.metric or next(iter(first_names), MAIN)
        message = f"{label}: `threshold` is {self.threshold!r}, "
        message += f"but `{name}` is between 0 and 1"
        percent = self.threshold if self.threshold > 1 else 85
        hint = f"write {percent / 100:g} for {percent:g} %"
        yield SpecError("E108", message, hint=hint)

    def check_task(self, task_run: TaskRun) -> Iterator[GateCheck]:
        """Yield a check for each value of the metric."""
        for value in _find_values(task_run, self.metric):
            check = _describe_value(task_run, value)
            number = value.value
            if self.bound != "value" and number is not None:
                if value.interval is None:
                    number = None
                    why = value.interval_note or "its conditions do not hold"
                    check = replace(check, note=f"there is no interval: {why}")
                else:
                    low, high = value.interval
                    number = low if self.bound == "lower" else high
            compare, _ = OPERATORS[self.operator]
            status = FAIL
            if number is not None and compare(number, self.threshold):
                status = PASS
            yield replace(check, number=number, status=status)

    def explain(self, check: GateCheck) -> str:
        """Return what was measured and what was needed."""
        _, words = OPERATORS[self.operator]
        need = _write_figure(check, self.threshold)
        if check.number is None:
            return f"{check.name}: {check.note}; it must be {words} {need}"
        number = _write_figure(check, check.number)
        if need == number and self.threshold != check.number:
            need = str(self.threshold)
            number = str(check.number)
        opening = ", "
        if check.status is not PASS:
            opening = "; needed: "
        ending = f"{opening}{words} {need}"
        if self.bound == "value":
            return f"{check.name} is {number} (n {check.n}){ending}"
        value = _write_figure(check, check.value)
        verb = "begins" if self.bound == "lower" else "ends"
        interval = f"its 95 % interval {verb} at {number}"
        return f"{check.name} is {value} (n {check.n}), {interval}{ending}"


@dataclass(frozen=True)
class Exists(TaskRule):
    """A metric has a value."""

    metric: str

    type: ClassVar[str] = "exists"

    @property
    def need(self) -> str:
        """The requirement in a few words, in the terms of the policy file."""
        return f"{self.metric} has a value"

    def find_errors(self, label: str, tasks: Tasks) -> Errors:
        """Yield an error for everything the rule needs and the tasks lack."""
        return _find_unknown_metric(label, self.metric, tasks)

    def check_task(self, task_run: TaskRun) -> Iterator[GateCheck]:
        """Yield a check for each value of the metric."""
        for value in _find_values(task_run, self.metric):
            yield _describe_value(task_run, value)

    def explain(self, check: GateCheck) -> str:
        """Return the value, or why there is none."""
        if check.value is None:
            return f"{check.name} has no value: {check.note}"
        value = _write_figure(check, check.value)
        return f"{check.name} has a value: {value} (n {check.n})"


@dataclass(frozen=True)
class NotWorse(Rule):
    """The run is not significantly worse than a baseline on the same samples.

    With `margin`, the whole interval of the difference must show that it is not worse by more than
    that. `baseline` is the folder of a run; None if none is given.
    """

    baseline: str | None = None
    metric: str | None = None
    margin: float | None = None

    type: ClassVar[str] = "not_worse"

    def __post_init__(self) -> None:
        if self.margin is not None and not 0 <= self.margin < math.inf:
            message = f"`margin` is {self.margin!r}; it must be 0 or more"
            raise SpecError("E108", message)

    @property
    def need(self) -> str:
        """The requirement in a few words, in the terms of the policy file."""
        degree = "significantly"
        if self.margin is not None:
            degree = f"by more than {self.margin:g}"
        baseline = "a baseline"
        if self.baseline is not None:
            baseline = shorten_path(self.baseline)
        return f"{self.metric or MAIN} not {degree} worse than {baseline}"

    def find_errors(self, label: str, tasks: Tasks) -> Errors:
        """Yield an error for everything the rule needs and the tasks lack."""
        unknown = list(_find_unknown_metric(label, self.metric, tasks))
        yield from unknown
        if self.metric is None or unknown:
            return
        if not any(find_compared(task, self.metric) for task in tasks):
            message = f"{label}: `{self.metric}` is not a mean: "
            message += "samples cannot be compared pair by pair"
            hint = "name a `mean` of one of the scorer's values, "
            hint += "or leave `metric` out for the main one"
            yield SpecError("E108", message, hint=hint)

    def check(self, run: Run, keys: Sequence[str]) -> Checks:
        """Return a check of each task's difference from the same task of the baseline.

        Tasks without the metric are left out; tasks that cannot be compared stay undecided.
        """
        if self.baseline is None:
            return _leave_undecided(keys, "no baseline is given")
        try:
            baseline = load_run(self.baseline)
        except RunError as error:
            return _leave_undecided(keys, error.message)
        checks: dict[str, GateCheck] = {}
        differences: dict[str, Difference] = {}
        for key in keys:
            task = task_from_source(run.tasks[key].source["task"])
            compared = None
            if self.metric is not None:
                compared = find_compared(task, self.metric)
                if compared is None:
                    continue
            try:
                check, difference = self._compare(
                    run,
                    baseline,
                    key,
                    task,
                    compared,
                )
            except AnswerkeyError as error:
                check = GateCheck(key, "", NOT_DECIDED, note=error.message)
            else:
                differences[key] = difference
            checks[key] = check
        p_values = [difference.evidence.p for difference in differences.values()]
        adjusted = adjust_by_holm(p_values)
        for key, p in zip(differences, adjusted, strict=True):
            difference = differences[key]
            checks[key] = self._decide(checks[key], difference, p)
        return list(checks.values())

    def _compare(
        self,
        run: Run,
        baseline: Run,
        key: str,
        task: Task,
        compared: tuple[str, str] | None,
    ) -> tuple[GateCheck, Difference]:
        scorer, value = compared or (None, None)
        notices: list[Notice] = []
        labelled = label_runs([run], baseline)
        chosen_key: str | None = key
        if len(run.tasks) == len(baseline.tasks) == 1:
            chosen_key = None
        [tasks] = choose_tasks(labelled, chosen_key, notices).values()
        pairing = pair_samples(
            tasks,
            notices,
            scorer=scorer,
            value=value,
        )
        outcomes, *_ = pairing.runs
        name = self.metric or _find_mean(task, outcomes.scorer, outcomes.value)
        messages = dict.fromkeys(notice.message for notice in notices)
        check = GateCheck(
            key,
            name,
            NOT_DECIDED,
            is_share=all(outcomes.is_share for outcomes in pairing.runs),
            note="; ".join(messages) or None,
        )
        pairs = pairing.pair_up(*labelled)
        return check, pairing.measure(pairs)

    def _decide(
        self,
        check: GateCheck,
        difference: Difference,
        p: float | None,
    ) -> GateCheck:
        evidence = difference.evidence
        status = self._judge(difference, p)
        flips = difference.flips
        return replace(
            check,
            status=status,
            number=difference.value,
            value=difference.first,
            interval=evidence.interval,
            n=difference.n,
            note=evidence.interval_note if status is NOT_DECIDED else check.note,
            details={
                "baseline": self.baseline,
                "baseline_value": difference.second,
                "p": evidence.p,
                "p_adjusted": p,
                "p_method": evidence.p_method,
                "flips": flips and asdict(flips),
            },
        )

    def _judge(self, difference: Difference, p: float | None) -> GateStatus:
        interval = difference.evidence.interval
        if self.margin is not None:
            if interval is None:
                return NOT_DECIDED
            low, _ = interval
            return PASS if -low <= self.margin else FAIL
        if difference.value >= 0:
            return PASS
        if p is None:
            return NOT_DECIDED
        return FAIL if p < ALPHA else PASS

    def explain(self, check: GateCheck) -> str:
        """Return the difference, how certain it is, and the verdict."""
        if check.number is None or check.status is NOT_DECIDED:
            return check.note or "the difference from the baseline is not known"
        baseline_value: Any = check.details["baseline_value"]
        before = _write_figure(check, baseline_value)
        after = _write_figure(check, check.value)
        change = _write_points(check, check.number)
        if check.number > 0:
            change = f"+{change}"
        unit = " points" if check.is_share else ""
        parts = [
            f"{check.name} is {after}, in the baseline {before}",
            f"{change}{unit}",
        ]
        if check.interval is not None:
            low, high = [_write_points(check, end) for end in check.interval]
            parts.append(f"95 % interval [{low}, {high}]")
        p: Any = check.details.get("p_adjusted")
        if p is not None:
            parts.append(f"p {format_p_value(p)}")
        verdict = self._explain_verdict(check, unit)
        if check.note:
            verdict += f"; {check.note}"
        return f"{', '.join(parts)} (n {check.n}): {verdict}"

    def advise(self, path: str) -> str:
        """Return the command that lists the samples behind the difference, or that decides the
        gate.
        """
        if self.baseline is None:
            show = f"`answerkey show {path} --baseline BASELINE`"
            return f"{show} decides it; this run can be the first baseline"
        baseline = shlex.quote(shorten_path(self.baseline))
        compare = f"`answerkey compare {path} --baseline {baseline}`"
        return f"{compare} lists the samples that flipped"

    def _explain_verdict(self, check: GateCheck, unit: str) -> str:
        if self.margin is not None:
            word = "not worse" if check.status is PASS else "it may be worse"
            return f"{word} by more than {_write_points(check, self.margin)}{unit}"
        if check.status is FAIL:
            return f"significantly worse (p below {ALPHA})"
        verdict = "not significantly worse"
        if check.interval is None:
            return verdict
        low, _ = check.interval
        if low < 0:
            # Absence of evidence is not evidence of absence.
            loss = _write_points(check, -low)
            verdict += f", but a loss of up to {loss}{unit} is not ruled out"
        return verdict


def _write_figure(check: GateCheck, value: float | None) -> str:
    return format_figure(value, as_share=check.is_share)


def _write_points(check: GateCheck, value: float) -> str:
    if check.is_share:
        return f"{100 * value:.2f}"
    return format_number(value)


def _leave_undecided(keys: Sequence[str], note: str) -> Checks:
    return [GateCheck(key, "", NOT_DECIDED, note=note) for key in keys]


RULES: Mapping[str, type[Rule]] = {
    Threshold.type: Threshold,
    Exists.type: Exists,
    NotWorse.type: NotWorse,
}


def read_definition(stored: Mapping[str, Any]) -> Rule:
    """Return the rule that a policy or `run.json` defines."""
    kind = RULES[stored["type"]]
    values = {}
    for entry in fields(kind):
        if entry.name in stored:
            values[entry.name] = stored[entry.name]
    return kind(**values)


# Metrics and values


def _find_metrics(tasks: Tasks, name: str | None) -> list[PlannedMetric]:
    """Return the metrics with this name, or the main metric of each task if no name is given."""
    metrics: list[PlannedMetric] = []
    for task in tasks:
        main = task.main_step.metrics[:1]
        for metric in find_metrics(task, name):
            if name is not None or metric.metric in main:
                metrics.append(metric)
    return metrics


def _find_unknown_metric(
    label: str,
    name: str | None,
    tasks: Tasks,
) -> Errors:
    """Yield an error for a metric that no task has."""
    if name is None or _find_metrics(tasks, name):
        return
    names: list[str] = []
    for task in tasks:
        for metric in find_metrics(task):
            names += metric.names.names
    message = f"{label} names the metric `{name}`, which no task in its scope has"
    hint = suggest(name, names)
    if hint is None:
        hint = f"metrics: {listing(dict.fromkeys(names))}"
    yield SpecError("E113", message, hint=hint)


def _find_mean(task: Task, scorer: str, value: str) -> str:
    """Return the name of the metric that is the mean of a value, or else the value's own name."""
    for metric in find_metrics(task):
        for name in metric.names.names:
            if find_compared(task, name) == (scorer, value):
                return name
    return value


def _describe_value(task_run: TaskRun, value: MetricValue) -> GateCheck:
    """Return a check that there is a value."""
    details = {}
    for name in ("cluster_by", "count", "of"):
        if name in value.details:
            details[name] = value.details[name]
    check = GateCheck(
        task_run.key,
        value.name,
        PASS,
        number=value.value,
        value=value.value,
        interval=value.interval,
        n=value.n,
        is_share=value.is_share,
        details=details,
    )
    if value.value is None:
        note = value.note or "there is no value"
        check = replace(check, status=FAIL, note=note)
    return check


def _find_values(task_run: TaskRun, name: str | None) -> list[MetricValue]:
    """Return the values of a metric, or the main value if no name is given.

    A name that several metrics share is stored with the key of each metric before it.
    """
    if name is None:
        main = task_run.main_metric
        return [main] if main else []
    if name in task_run.metrics:
        return [task_run.metrics[name]]
    values = []
    for value in task_run.metrics.values():
        key = f"{value.metric}_{name}"
        if value.name in {key, f"{value.scorer}_{key}"}:
            values.append(value)
    return values or list(_find_unseen_labels(task_run, name))


def _find_unseen_labels(task_run: TaskRun, name: str) -> Iterator[MetricValue]:
    """Yield a share of 0 for each `frequency` that would have the name if it had seen the label."""
    siblings = {}
    for value in task_run.metrics.values():
        if value.value is not None:
            metric_key = (value.scorer, value.metric)
            siblings[metric_key] = value
    task = task_from_source(task_run.source["task"])
    for step, metric, _ in find_metrics(task, name):
        sibling = siblings.get((step.key, metric.key))
        if sibling is None or metric.metric.type != "frequency":
            continue
        unseen = replace(
            sibling,
            name=name,
            value=0.0,
            interval=None,
            interval_note="none of the samples has this label",
            details={"count": 0, "of": sibling.n},
            std_error=None,
            groups=(),
        )
        if sibling.interval_method == WILSON:
            interval = wilson(0, sibling.n)
            unseen = replace(unseen, interval=interval, interval_note=None)
        yield unseen


# Gates as text and JSON: in the summary of a run, and for JUnit and Markdown

WORDS = {status: status.value.replace("_", " ") for status in GateStatus}
ROLES: Mapping[GateStatus, Role] = {
    PASS: "good",
    FAIL: "bad",
    NOT_DECIDED: "warn",
    SKIPPED: "dim",
}
#: The maximum number of values explained per gate.
MAX_EXPLAINED = 5


def judge_run(run: Run) -> GateStatus | None:
    """Return the status of all gates together; None for a run without gates."""
    return find_worst_status(gate.status for gate in run.gates)


def explain_gate(gate: Gate, *, with_tasks: bool) -> list[str]:
    """Return sentences with the numbers behind a gate; `with_tasks` names the task of each."""
    if gate.note is not None:
        return [gate.note]
    rule = read_definition(gate.definition)
    checks = [check for check in gate.checks if check.status is gate.status]
    lines = []
    for check in checks[:MAX_EXPLAINED]:
        parts = []
        if with_tasks:
            parts.append(check.task)
        if check.repetition is not None:
            parts.append(f"run {check.repetition}")
        sentence = rule.explain(check)
        if parts:
            sentence = f"{', '.join(parts)}: {sentence}"
        lines.append(sentence)
    if len(checks) > MAX_EXPLAINED:
        lines.append(f"and {len(checks) - MAX_EXPLAINED} more")
    return lines


def advise_gate(gate: Gate, run: Run) -> str | None:
    """Return what to do about a gate that does not pass; None if there is nothing to say."""
    if gate.status in {PASS, SKIPPED}:
        return None
    path = "RUN"
    if run.path is not None:
        path = shlex.quote(str(run.path))
    if gate.note == NOT_COMPLETE:
        resume = f"`answerkey resume {path}`"
        return f"the numbers of an incomplete run say nothing about the whole; finish it: {resume}"
    return read_definition(gate.definition).advise(path)


#: A gate with its name, its sentences, and what to do about it.
Explanation = tuple[Gate, str, list[str], str | None]


def explain_gates(run: Run) -> list[Explanation]:
    """Return every gate of a run with its name, its sentences, and what to do about it."""
    entries = []
    for gate in run.gates:
        label = gate.rule
        if gate.display_name not in {"", gate.rule}:
            label = f"{gate.display_name} ({gate.rule})"
        sentences = explain_gate(gate, with_tasks=len(run.tasks) > 1)
        checked = {check.task for check in gate.checks}
        calls: list[Mapping[str, Any]] = []
        for key, task_run in run.tasks.items():
            if key in checked:
                task_calls = task_run.manifest.get("calls") or {}
                calls += task_calls.values()
        reused = describe_reused_calls(calls)
        if reused:
            sentences.append(reused)
        advice = advise_gate(gate, run)
        entries.append((gate, label, sentences, advice))
    return entries


def count_gates(gates: Sequence[Gate]) -> str:
    """Return how many gates have which status: `2 of 3 passed, 1 failed`."""
    statuses = Counter(gate.status for gate in gates)
    parts = [f"{statuses[PASS]} of {len(gates)} passed"]
    if statuses[FAIL]:
        parts.append(f"{statuses[FAIL]} failed")
    if statuses[NOT_DECIDED]:
        parts.append(f"{statuses[NOT_DECIDED]} not decided")
    if statuses[SKIPPED]:
        parts.append(f"{statuses[SKIPPED]} skipped")
    return ", ".join(parts)


def draw_gates(run: Run, width: int) -> Lines:
    """Return every gate with what was measured and needed; nothing for a run without policies."""
    verdict = judge_run(run)
    if verdict is None:
        return []
    status = Span(WORDS[verdict], ROLES[verdict])
    title = Span("Gates", "title")
    lines: Lines = [BLANK, (title, "  ", status, f"  {count_gates(run.gates)}")]
    words = [WORDS[gate.status] for gate in run.gates]
    longest = max(map(len, words))
    indent = " " * (longest + 4)
    for gate, name, sentences, advice in explain_gates(run):
        word = WORDS[gate.status].ljust(longest)
        status = Span(word, ROLES[gate.status])
        lines.append(("  ", status, "  ", Span(name, "strong")))
        for sentence in sentences:
            lines += draw_text(sentence, width, indent=indent)
        if advice:
            lines += draw_text(advice, width, "dim", indent=indent)
    return lines


def describe_run_gates(run: Run) -> list[dict[str, Any]]:
    """Return the gates as plain values, with their explanations."""
    described = describe_gates(run.gates)
    explanations = explain_gates(run)
    for entry, explanation in zip(described, explanations, strict=True):
        _, _, sentences, advice = explanation
        entry["explanation"] = " ".join(f"{sentence}." for sentence in sentences)
        entry["advice"] = advice
    return described
