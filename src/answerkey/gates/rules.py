"""The kinds of rules: the fields of each, what it finds in a finished run, and what it says about
that.
"""

from __future__ import annotations

import math
import operator
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

from answerkey.errors import AnswerkeyError, RunError, SpecError
from answerkey.evaluate.pairs import choose_tasks, label_runs, pair_samples
from answerkey.metrics import Mean, wilson
from answerkey.metrics.intervals import WILSON, Z_95
from answerkey.metrics.paired import Difference, adjust_by_holm
from answerkey.runs import NOT_COMPLETE, Run, TaskRun, describe_gates, load_run
from answerkey.spec import task_from_source
from answerkey.spec.task import find_compared, find_metrics
from answerkey.text import (
    BLANK,
    Line,
    Role,
    Span,
    draw_text,
    format_chance,
    format_count,
    format_figure,
    format_number,
    format_percent,
    line,
    make_visible,
    say_reused,
    shorten_path,
    wrap,
)
from answerkey.types import (
    Gate,
    GateCheck,
    GateStatus,
    GroupValue,
    MetricValue,
    Notice,
    find_worst_status,
)

Operator = Literal[">", ">=", "=", "<", "<="]
Bound = Literal["value", "lower", "upper"]
ShareName = Literal["invalid", "refused", "failed", "error"]

PASS, FAIL, NOT_DECIDED = GateStatus.PASS, GateStatus.FAIL, GateStatus.NOT_DECIDED
OPERATORS: Mapping[Operator, tuple[Callable[[float, float], bool], str]] = {
    ">": (operator.gt, "more than"),
    ">=": (operator.ge, "at least"),
    "=": (operator.eq, "exactly"),
    "<": (operator.lt, "less than"),
    "<=": (operator.le, "at most"),
}
#: Which counts a share is made of, and what to do about too many.
SHARES: Mapping[ShareName, tuple[str, str, str]] = {
    "invalid": (
        "invalid",
        "scored",
        "`answerkey audit {run}` has them by reason, and what other rules would read in them",
    ),
    "refused": ("refused", "scored", "`answerkey explain {run} SAMPLE` shows what the model said"),
    "failed": ("failed", "samples", "`answerkey check FILE` lists the rows that are at fault"),
    "error": ("errors", "samples", "`answerkey resume {run}` repeats the calls that failed"),
}
#: The level at which a loss is significant.
ALPHA = 0.05
#: The counts behind a value that are worth keeping beside a gate.
_KEPT = ("count", "of", "cluster_by")
_MOST_DIGITS = 12
NO_VALUE = "there is no value"
#: What a rule without a metric is about.
MAIN = "the main value"
#: What products of floats may be off by.
_NEAR_ZERO = 1e-9


@dataclass(frozen=True)
class Threshold:
    """Every value of a name stands right of or left of a threshold: itself, or an end of its
    interval.

    Without `metric` it is the main value of each task. With `group_by` the values of all groups
    must, or with `average: macro` their average.
    """

    metric: str | None = field(default=None, kw_only=True)
    operator: Operator
    threshold: float
    bound: Bound = "value"
    group_by: str | None = None
    average: Literal["macro"] | None = None

    type: ClassVar[str] = "threshold"

    def __post_init__(self) -> None:
        if self.threshold - self.threshold != 0:
            raise SpecError("E108", f"`threshold` is {self.threshold!r}, not a finite number")
        if self.average is not None and self.group_by is None:
            hint = "write `group_by: COLUMN` beside it"
            raise SpecError("E108", "`average` needs to know over which groups", hint=hint)

    @property
    def need(self) -> str:
        """What the rule needs in a few words, in the terms of its file."""
        name = self.metric or MAIN
        what = name if self.bound == "value" else f"{self.bound} bound of {name}"
        by = f" by {self.group_by}" if self.group_by else ""
        average = "macro average of " if self.average else ""
        return f"{average}{what}{by} {self.operator} {self.threshold:g}"

    def check(self, run: Run, keys: Sequence[str]) -> list[GateCheck]:
        """Return the values of a name, or those of their groups, held against the threshold."""
        checks = []
        for blank, value in _find_values(run, keys, self.metric):
            entries: Sequence[MetricValue | GroupValue] = [value]
            if self.group_by is not None:
                groups = [one for one in value.groups if one.column == self.group_by]
                # The value in every group, or the average over the groups.
                is_average = self.average or not (groups and groups[0].values)
                entries = [one.macro for one in groups] if is_average else groups[0].values
            for entry in entries:
                check = _describe_value(blank, value, entry)
                number, note = check.number, check.note
                if number is not None and self.bound != "value":
                    number = entry.interval and entry.interval[0 if self.bound == "lower" else 1]
                    why = entry.interval_note or "its conditions do not hold"
                    note = None if entry.interval else f"there is no interval: {why}"
                is_met = number is not None and OPERATORS[self.operator][0](number, self.threshold)
                check = replace(check, status=PASS if is_met else FAIL, number=number, note=note)
                group = entry.group if isinstance(entry, GroupValue) else None
                kept = {name: value.details[name] for name in _KEPT if name in value.details}
                details = kept if entry is value else {}
                checks.append(replace(check, group=group, details=details))
        return checks

    def explain(self, check: GateCheck) -> str:
        """Return what was measured and needed."""
        number, ending = _write_numbers(self, check)
        if check.number is None:
            return f"{check.name}: {check.note}{ending}"
        is_average = self.average and check.group is None
        name = f"the macro average of {check.name} by {self.group_by}" if is_average else check.name
        if self.bound == "value":
            return f"{name} is {number} (n {check.n}){ending}"
        value = format_figure(check.value, as_share=check.is_share)
        verb = "begins" if self.bound == "lower" else "ends"
        return f"{name} is {value} (n {check.n}), its 95 % interval {verb} at {number}{ending}"

    def advise(self, check: GateCheck, run: str) -> str | None:
        """Return what to do about a check that is not met: how much is missing, or how many
        samples.
        """
        if check.number is None:
            return None if check.value is None else "`bound: value` needs no interval"
        is_above = self.operator in {">", ">="}
        count, of = check.details.get("count"), check.details.get("of")
        if self.bound == "value":
            if isinstance(count, int) and isinstance(of, int) and is_above:
                enough = math.ceil(self.threshold * of - _NEAR_ZERO)
                enough += self.operator == ">" and enough <= self.threshold * of
                if enough <= of:
                    return f"{enough} of {of} would pass, {enough - count} more than there are"
            return f"`answerkey show {run}` says what stands behind the value"
        value = math.nan if check.value is None else check.value
        distance = value - self.threshold if is_above else self.threshold - value
        if not distance > 0 or self.operator == "=":
            return "the value itself is not enough: more samples will not help"
        size = check.n * ((value - check.number) / distance) ** 2
        if of is not None and "cluster_by" not in check.details:
            size = Z_95**2 * self.threshold * (1 - self.threshold) / distance**2
        samples = format_count(math.ceil(size - _NEAR_ZERO), "sample")
        return f"the value is enough, but not sure: about {samples} like these would do"


@dataclass(frozen=True)
class Exists:
    """There is a value of a name."""

    metric: str

    type: ClassVar[str] = "exists"

    @property
    def need(self) -> str:
        """What the rule needs in a few words, in the terms of its file."""
        return f"{self.metric} has a value"

    def check(self, run: Run, keys: Sequence[str]) -> list[GateCheck]:
        """Return the values of a name."""
        found = _find_values(run, keys, self.metric)
        return [_describe_value(blank, value, value) for blank, value in found]

    def explain(self, check: GateCheck) -> str:
        """Return the value, or why there is none."""
        if check.value is None:
            return f"{check.name} has no value: {check.note}"
        value = format_figure(check.value, as_share=check.is_share)
        return f"{check.name} has a value: {value} (n {check.n})"

    def advise(self, check: GateCheck, run: str) -> str:  # noqa: ARG002 - the form of all kinds
        """Return where to look."""
        return f"`answerkey show {run}` says why it has none"


@dataclass(frozen=True)
class ShareLimit:
    """A share of samples: INVALID and REFUSED ones of those scored, FAILED and ERROR ones of
    all.
    """

    of: ShareName
    operator: Operator
    threshold: float

    type: ClassVar[str] = "share"

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            message = f"`threshold` is {self.threshold!r}; a share lies between 0 and 1"
            raise SpecError("E108", message, hint="write 0.05 for 5 %")

    @property
    def need(self) -> str:
        """What the rule needs in a few words, in the terms of its file."""
        return f"{self.of.upper()} share {self.operator} {format_percent(self.threshold)}"

    def check(self, run: Run, keys: Sequence[str]) -> list[GateCheck]:
        """Return the share of samples that came to nothing, of each task."""
        checks = []
        part, whole, _ = SHARES[self.of]
        for blank, task_run in _list_tasks(run, keys):
            count, of = task_run.counts[part], task_run.counts[whole]
            share = count / of if of else None
            is_met = share is not None and OPERATORS[self.operator][0](share, self.threshold)
            checks.append(
                replace(
                    blank,
                    name=f"{self.of.upper()} share",
                    status=PASS if is_met else FAIL,
                    number=share,
                    value=share,
                    n=of,
                    is_share=True,
                    note=None if of else f"no sample is {whole}",
                    details={"count": count, "of": of},
                )
            )
        return checks

    def explain(self, check: GateCheck) -> str:
        """Return what was counted and needed."""
        number, ending = _write_numbers(self, check)
        if check.number is None:
            return f"{check.name}: {check.note}{ending}"
        return (
            f"{check.name} is {number} ({check.details['count']} of {check.details['of']}){ending}"
        )

    def advise(self, check: GateCheck, run: str) -> str:  # noqa: ARG002 - the form of all kinds
        """Return which command shows the samples."""
        return SHARES[self.of][2].format(run=run)


@dataclass(frozen=True)
class NotWorse:
    """The run is not significantly worse than a baseline on the same samples.

    With `margin`, it is shown not to be worse by more than that: the whole interval of the
    difference lies above. `baseline` is the folder of a run; None when nobody names one.
    """

    baseline: str | None = None
    metric: str | None = None
    alpha: float | None = None
    margin: float | None = None
    better: Literal["higher", "lower"] = "higher"

    type: ClassVar[str] = "not_worse"

    def __post_init__(self) -> None:
        if self.alpha is not None and not 0 < self.alpha < 1:
            message = f"`alpha` is {self.alpha!r}; it must lie between 0 and 1"
            raise SpecError("E108", message, hint=f"leave it out for {ALPHA}")
        if self.margin is not None and not 0 <= self.margin < float("inf"):
            raise SpecError("E108", f"`margin` is {self.margin!r}; it must be 0 or more")
        if self.margin is not None and self.alpha is not None:
            hint = "leave one of them out: a margin is held against the 95 % interval"
            raise SpecError("E108", "`alpha` has no effect beside `margin`", hint=hint)

    @property
    def need(self) -> str:
        """What the rule needs in a few words, in the terms of its file."""
        by = " significantly" if self.margin is None else f" by more than {self.margin:g}"
        baseline = "a baseline" if self.baseline is None else shorten_path(self.baseline)
        return f"{self.metric or MAIN} not{by} worse than {baseline}"

    def check(self, run: Run, keys: Sequence[str]) -> list[GateCheck]:
        """Return the difference of each task from the same task of the baseline.

        It is not decided where the two cannot be compared; a task that does not have the metric is
        passed over.
        """
        try:
            baseline = None if self.baseline is None else load_run(self.baseline)
            note = "no baseline is named"
        except RunError as error:
            baseline, note = None, error.message
        if baseline is None:
            return [GateCheck(key, "", NOT_DECIDED, note=note) for key in keys]
        is_only = len(run.tasks) == len(baseline.tasks) == 1
        checks: dict[str, GateCheck] = {}
        differences: dict[str, Difference] = {}
        for key in keys:
            task = task_from_source(run.tasks[key].source["task"])
            compared = (None, None) if self.metric is None else find_compared(task, self.metric)
            if compared is None:
                continue
            checks[key] = GateCheck(key, self.metric or "", NOT_DECIDED)
            notices: list[Notice] = []
            try:
                labelled = label_runs([run], baseline)
                (tasks,) = choose_tasks(labelled, None if is_only else key, notices).values()
                pairing = pair_samples(tasks, notices, scorer=compared[0], value=compared[1])
                differences[key] = pairing.measure(pairing.pair_up(*labelled))
            except AnswerkeyError as error:
                checks[key] = replace(checks[key], note=error.message)
                continue
            scorer, value = pairing.runs[0].scorer, pairing.runs[0].value
            metrics = (
                one.metric for step in task.scoring if step.key == scorer for one in step.metrics
            )
            means = [one for one in metrics if isinstance(one, Mean) and one.field == value]
            checks[key] = replace(
                checks[key],
                # Named as the metric that is the mean of the value; without one, as the value.
                name=self.metric or (means[0].value_names().names[0] if means else value),
                is_share=all(one.is_share for one in pairing.runs),
                note="; ".join(dict.fromkeys(notice.message for notice in notices)) or None,
            )
        adjusted = adjust_by_holm([one.evidence.p for one in differences.values()])
        for (key, difference), p in zip(differences.items(), adjusted, strict=True):
            checks[key] = self._decide(checks[key], difference, p)
        return list(checks.values())

    def _decide(self, blank: GateCheck, difference: Difference, p: float | None) -> GateCheck:
        evidence, sign = difference.evidence, 1 if self.better == "higher" else -1
        status: GateStatus | None = None
        if self.margin is not None:
            if evidence.interval is not None:
                worst = evidence.interval[0] if sign > 0 else -evidence.interval[1]
                status = PASS if worst >= -self.margin else FAIL
        elif sign * difference.value >= 0:
            status = PASS
        elif p is not None:
            status = FAIL if p < (self.alpha or ALPHA) else PASS
        return replace(
            blank,
            status=status or NOT_DECIDED,
            number=difference.value,
            value=difference.first,
            interval=evidence.interval,
            n=difference.n,
            note=blank.note if status else evidence.interval_note,
            details={
                "baseline": self.baseline,
                "baseline_value": difference.second,
                "p": evidence.p,
                "p_adjusted": p,
                "p_method": evidence.p_method,
                "flips": None if difference.flips is None else asdict(difference.flips),
            },
        )

    def explain(self, check: GateCheck) -> str:
        """Return the difference, how sure it is, and what that comes to."""
        if check.number is None or check.status is NOT_DECIDED:
            return check.note or "the difference from the baseline is not known"

        def write(value: float) -> str:
            return f"{100 * value:.2f}" if check.is_share else format_number(value)

        unit = " points" if check.is_share else ""
        baseline_value: Any = check.details["baseline_value"]
        values = [
            format_figure(one, as_share=check.is_share) for one in (check.value, baseline_value)
        ]
        parts = [f"{check.name} is {values[0]}, in the baseline {values[1]}"]
        parts.append(f"{'+' if check.number > 0 else ''}{write(check.number)}{unit}")
        if check.interval is not None:
            parts.append(f"95 % interval [{write(check.interval[0])}, {write(check.interval[1])}]")
        p: Any = check.details.get("p_adjusted")
        parts += [] if p is None else [f"p {format_chance(p)}"]
        if self.margin is not None:
            word = "not worse" if check.status is PASS else "it may be worse"
            verdict = f"{word} by more than {write(self.margin)}{unit}"
        elif check.status is not PASS:
            verdict = f"significantly worse (p below {self.alpha or ALPHA})"
        else:
            verdict = "not significantly worse"
            # To see no loss is not to show that there is none.
            ends = check.interval or (0.0, 0.0)
            loss = -ends[0] if self.better == "higher" else ends[1]
            verdict += (
                f", but a loss of up to {write(loss)}{unit} is not ruled out" if loss > 0 else ""
            )
        verdict += f"; {check.note}" if check.note else ""
        return f"{', '.join(parts)} (n {check.n}): {verdict}"

    def advise(self, check: GateCheck, run: str) -> str:  # noqa: ARG002 - the form of all kinds
        """Return how to decide the rule, or which command lists the samples that flipped."""
        if self.baseline is None:
            show = f"`answerkey show {run} --baseline BASELINE`"
            return f"{show} decides it; this run may be the first baseline"
        named = shlex.quote(shorten_path(self.baseline))
        return f"`answerkey compare {run} --baseline {named}` lists the samples that flipped"


Definition = Threshold | Exists | ShareLimit | NotWorse
RULES: Mapping[str, type[Definition]] = {
    one.type: one for one in (Threshold, Exists, ShareLimit, NotWorse)
}


def read_definition(stated: Mapping[str, Any]) -> Definition:
    """Return the rule that `run.json` states; fields that a newer release added are passed over."""
    kind = RULES[stated["type"]]
    return kind(**{one.name: stated[one.name] for one in fields(kind) if one.name in stated})


def _list_tasks(run: Run, keys: Sequence[str]) -> Iterator[tuple[GateCheck, TaskRun]]:
    """Yield the tasks with these keys, each repetition of one that was run several times."""
    for key in keys:
        first = run.tasks[key]
        for number, one in enumerate((first, *first.repetitions), 1):
            yield (
                GateCheck(one.key, "", FAIL, repetition=number if first.repetitions else None),
                one,
            )


def _describe_value(
    blank: GateCheck, value: MetricValue, entry: MetricValue | GroupValue
) -> GateCheck:
    return replace(
        blank,
        name=value.name,
        status=FAIL if entry.value is None else PASS,
        number=entry.value,
        value=entry.value,
        interval=entry.interval,
        n=entry.n,
        is_share=value.is_share,
        note=entry.note or NO_VALUE if entry.value is None else None,
    )


def _find_values(
    run: Run, keys: Sequence[str], name: str | None
) -> Iterator[tuple[GateCheck, MetricValue]]:
    """Yield the values of a name.

    Without any, those that only their keys keep apart from a namesake. A label that a `frequency`
    never saw is none of its samples: the share 0. Without a name it is the main value of each task.
    """
    for blank, task_run in _list_tasks(run, keys):
        if name is None:
            yield from [] if task_run.main_metric is None else [(blank, task_run.main_metric)]
            continue
        values = list(task_run.metrics.values())
        namesakes = [task_run.metrics[name]] if name in task_run.metrics else []
        namesakes = namesakes or [
            one
            for one in values
            if one.name in {f"{one.metric}_{name}", f"{one.scorer}_{one.metric}_{name}"}
        ]
        yield from ((blank, one) for one in namesakes)
        siblings = {(one.scorer, one.metric): one for one in values if one.value is not None}
        task = task_from_source(task_run.source["task"]) if not namesakes else None
        for step, metric, _ in find_metrics(task, name) if task else ():
            sibling = siblings.get((step.key, metric.key))
            if sibling is None or metric.metric.type != "frequency":
                continue
            is_plain = sibling.interval_method == WILSON
            unseen = replace(
                sibling,
                name=name,
                value=0.0,
                interval=wilson(0, sibling.n) if is_plain else None,
                interval_note=None if is_plain else "none of the samples has this label",
                details={"count": 0, "of": sibling.n},
                std_error=None,
                groups=(),
            )
            yield blank, unseen


def _write_numbers(rule: Threshold | ShareLimit, check: GateCheck) -> tuple[str, str]:
    """Return the number that counts, and how the sentence ends: `, at least 80.00 %`.

    They have as many digits as it takes to tell number and threshold apart, if they differ.
    """

    def write(number: float, digits: int | None) -> str:
        if digits is None:
            return format_figure(number, as_share=check.is_share)
        return f"{100 * number:.{digits}f} %" if check.is_share else format_number(number, digits)

    word = OPERATORS[rule.operator][1]
    if check.number is None:
        return "", f"; it must be {word} {write(rule.threshold, None)}"
    for digits in (None, *range(3, _MOST_DIGITS)):
        need, number = write(rule.threshold, digits), write(check.number, digits)
        if need != number or rule.threshold == check.number:
            break
    return number, f"{', ' if check.status is PASS else '; needed: '}{word} {need}"


# Gates in words: in the summary of a run and in its JSON, for JUnit and for Markdown
# ------------------------

#: What a status is called, and how it looks.
WORDS = {status: status.value.replace("_", " ") for status in GateStatus}
ROLES: Mapping[GateStatus, Role] = {
    GateStatus.PASS: "good",
    GateStatus.FAIL: "bad",
    GateStatus.NOT_DECIDED: "warn",
    GateStatus.SKIPPED: "dim",
}
#: A gate on many values names so many of those that are to blame.
SHOWN = 5


def judge_run(run: Run) -> GateStatus | None:
    """Return what all gates of a run come to together; None for a run without any."""
    return find_worst_status(gate.status for gate in run.gates)


def explain_gate(gate: Gate, *, with_tasks: bool) -> list[str]:
    """Return sentences with the numbers behind a gate; `with_tasks` names the task of each."""
    if gate.note is not None:
        return [gate.note]
    rule = read_definition(gate.definition)
    told = [check for check in gate.checks if check.status is gate.status]
    opening, left = "", len(told) - SHOWN
    if gate.status is GateStatus.PASS and left > 0:
        threshold = getattr(rule, "threshold", 0.0)
        told = [min(told, key=lambda check: abs((check.number or 0.0) - threshold))]
        opening, left = f"all {len(gate.checks)} values; closest: ", 0
    lines = []
    for check in told[:SHOWN]:
        place = [check.task] if with_tasks else []
        place += [check.group] if check.group is not None else []
        place += [f"run {check.repetition}"] if check.repetition is not None else []
        lines.append(
            f"{opening}{': '.join([*filter(None, [', '.join(place)]), rule.explain(check)])}"
        )
    return [*lines, *([f"and {left} more"] if left > 0 else [])]


def advise_gate(gate: Gate, run: Run) -> str | None:
    """Return what to do about a gate that does not pass; None where there is nothing to say."""
    if gate.status in {GateStatus.PASS, GateStatus.SKIPPED}:
        return None
    path = "RUN" if run.path is None else shlex.quote(str(run.path))
    if gate.note == NOT_COMPLETE:
        return (
            "a share of the rest says nothing about the whole; finish the run: `answerkey "
            f"resume {path}`"
        )
    if not gate.checks:
        return f"`answerkey show {path}` lists the values that there are"
    check = next(check for check in gate.checks if check.status is gate.status)
    return read_definition(gate.definition).advise(check, path)


def tell_gates(run: Run) -> list[tuple[Gate, str, list[str], str | None]]:
    """Return every gate of a run, what it is called, its sentences, and what to do about it.

    It is called by its name, with its policy where there are several.
    """
    gates, told = run.gates, []
    has_policies = len({gate.policy for gate in gates}) > 1
    for gate in gates:
        name = gate.display_name or gate.rule
        label = name if name == gate.rule else f"{name} ({gate.rule})"
        label = f"{gate.policy}: {label}" if has_policies else label
        sentences = explain_gate(gate, with_tasks=len(run.tasks) > 1)
        tasks = [
            run.tasks[key] for key in {check.task for check in gate.checks} if key in run.tasks
        ]
        if reused := say_reused(
            one for task in tasks for one in (task.manifest.get("calls") or {}).values()
        ):
            sentences.append(reused)
        told.append((gate, label, sentences, advise_gate(gate, run)))
    return told


def count_gates(gates: Sequence[Gate]) -> str:
    """Return how many gates stand how: `2 of 3 passed, 1 failed`."""
    counts = {status: sum(gate.status is status for gate in gates) for status in GateStatus}
    words = {
        GateStatus.FAIL: "failed",
        GateStatus.NOT_DECIDED: "not decided",
        GateStatus.SKIPPED: "skipped",
    }
    rest = [f"{counts[status]} {word}" for status, word in words.items() if counts[status]]
    return ", ".join([f"{counts[GateStatus.PASS]} of {len(gates)} passed", *rest])


def draw_gates(run: Run, width: int) -> list[Line]:
    """Return every gate with what was measured and needed; nothing for a run without policies."""
    found, verdict = tell_gates(run), judge_run(run)
    if verdict is None:
        return []
    counts = count_gates([gate for gate, *_ in found])
    lines = [
        BLANK,
        line(Span("Gates", "title"), "  ", Span(WORDS[verdict], ROLES[verdict]), f"  {counts}"),
    ]
    longest = max(len(WORDS[gate.status]) for gate, *_ in found)
    indent, left = " " * (longest + 4), None
    for gate, name, sentences, advice in found:
        status = Span(WORDS[gate.status].ljust(longest), ROLES[gate.status])
        lines.append(line("  ", status, "  ", Span(name, "strong")))
        if gate.note == NOT_COMPLETE:  # said once: it is the same of all
            left = advice
            continue
        told: list[tuple[str, Role]] = [(text, "plain") for text in sentences]
        told += [(advice, "dim")] if advice else []
        for text, role in told:
            parts = wrap(make_visible(text), max(20, width - len(indent)))
            lines += [line(indent, Span(part, role)) for part in parts]
    return lines + (draw_text(f"{NOT_COMPLETE}: {left}", width) if left else [])


def describe_run_gates(run: Run) -> list[dict[str, Any]]:
    """Return the gates as plain values, with their explanations."""
    pairs = zip(describe_gates(run.gates), tell_gates(run), strict=True)
    return [
        {**described, "explanation": " ".join(f"{text}." for text in sentences), "advice": advice}
        for described, (_, _, sentences, advice) in pairs
    ]
