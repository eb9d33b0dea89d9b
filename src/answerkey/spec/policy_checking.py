"""Rules held against the tasks that they are about, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch

from answerkey.errors import listing, suggest
from answerkey.metrics import KeyedMetric, Mean, ValueNames, foresee_names
from answerkey.spec.findings import Findings
from answerkey.spec.policies import Definition, Exists, NotWorse, Policy, Rule, Threshold, list_rules
from answerkey.spec.tasks import ScoringStep, Task


@dataclass(frozen=True)
class Foreseen:
    """A metric of a task, and what its values will be called."""

    step: ScoringStep
    metric: KeyedMetric
    names: ValueNames

    @property
    def openings(self) -> tuple[str, str, str]:
        """What a value's name begins with: nothing, or the keys that keep it apart from a namesake."""
        key = self.metric.key
        return "", f"{key}_", f"{self.step.key}_{key}_"

    def allow(self, name: str) -> bool:
        """Return whether a value of the metric may be called so, alone or among namesakes."""
        return any(name.startswith(one) and self.names.allow(name[len(one) :]) for one in self.openings)


def foresee_metrics(task: Task, name: str | None = None) -> list[Foreseen]:
    """Return the metrics of a task, or those that may have a value of a name."""
    found = [
        Foreseen(step, metric, foresee_names(metric.metric))
        for step in task.scoring
        for metric in step.metrics
    ]
    return found if name is None else [one for one in found if one.allow(name)]


def find_compared(task: Task, name: str) -> tuple[str, str] | None:
    """Return the scorer and the value whose mean a metric is; None when it is no plain mean of a value."""
    for one in foresee_metrics(task, name):
        metric = one.metric.metric
        if isinstance(metric, Mean) and _is_plain(metric.field, task):
            return one.step.key, metric.field.partition(".")[0]
    return None


def _is_plain(field: str, task: Task) -> bool:
    """Return whether a field holds one value per sample, or the mean of its trials."""
    base, _, label = field.partition(".")
    if task.trials is None:
        return not label
    return (label or task.trials.aggregators_of(base)[0].label) == "mean"


def check_policies(
    policies: Sequence[Policy], tasks: Mapping[str, Task], evaluation: str, findings: Findings
) -> None:
    """Report what rules name and the tasks do not have; `tasks` are those of the run by specification key."""
    for policy, rule in list_rules(policies):
        label = f"rule `{rule.key}` of policy `{policy.key}`"
        keys = _choose_tasks(rule, label, list(tasks), evaluation, findings)
        if keys:
            _check(rule.definition, _Case(rule, label, [tasks[key] for key in keys], findings))


def _choose_tasks(rule: Rule, label: str, keys: list[str], evaluation: str, findings: Findings) -> list[str]:
    """Return the task specifications that a rule is about; report keys that name none."""
    scope = rule.scope
    if not scope.covers(evaluation):
        named = listing(scope.evaluation_keys or ())
        message = f"{label} is for the evaluation {named}, and this is `{evaluation}`: it is skipped"
        findings.notice(message, rule.place)
        return []
    wanted = scope.task_specification_keys or ()
    unknown = [key for key in wanted if key not in keys]
    is_shared = len(scope.evaluation_keys or ()) > 1  # the others may have these task specifications
    for key in unknown if not is_shared else ():
        hint = suggest(key, keys) or f"task specifications: {listing(keys)}"
        message = f"{label} names the task specification `{key}`, which is not defined"
        findings.add("E113", message, rule.place, hint)
    chosen = scope.pick(keys)
    if not chosen and is_shared:
        message = f"{label} is for task specifications of other evaluations: it is skipped"
        findings.notice(message, rule.place)
    return chosen


@dataclass(frozen=True)
class _Case:
    """A rule, what it is called, the tasks it is about, and where mistakes go."""

    rule: Rule
    label: str
    tasks: Sequence[Task]
    findings: Findings

    def find(self, name: str) -> list[Foreseen]:
        """Return the metrics that may have a value of a name; report when there are none."""
        found = [one for task in self.tasks for one in foresee_metrics(task, name)]
        if not found:
            known = list(dict.fromkeys(self._list_names()))
            hint = suggest(name, known) or f"metrics: {listing(known)}"
            message = f"{self.label} names the metric `{name}`, which no task in its scope has"
            self.findings.add("E113", message, self.rule.place, hint)
        return found

    def report(self, message: str, hint: str) -> None:
        """Report a mistake in the definition."""
        self.findings.add("E108", f"{self.label}: {message}", self.rule.place, hint)

    def _list_names(self) -> Iterator[str]:
        for task in self.tasks:
            for one in foresee_metrics(task):
                yield from one.names.names
                yield from (
                    f"{opening}…{ending}" for opening, ending in one.names.patterns if opening + ending
                )


@singledispatch
def _check(definition: Definition, case: _Case) -> None:
    """Report what a definition names and the tasks do not have; a share of samples names nothing."""


@_check.register
def _check_exists(definition: Exists, case: _Case) -> None:
    case.find(definition.metric)


@_check.register
def _check_threshold(definition: Threshold, case: _Case) -> None:
    found = case.find(definition.metric)
    is_outside = not 0 <= definition.threshold <= 1
    if found and is_outside and all(one.names.is_share for one in found):
        message = f"`threshold` is {definition.threshold!r}, and `{definition.metric}` lies between 0 and 1"
        case.report(message, "write 0.85 for 85 %")
    column = definition.group_by
    if found and column is not None and not any(column in one.metric.design.group_by for one in found):
        columns = list(dict.fromkeys(name for one in found for name in one.metric.design.group_by))
        near = suggest(column, columns)
        hint = near or f"add `group_by: {column}` to the metric or to the `definition` of its task"
        case.report(f"`{definition.metric}` is not measured by `{column}`", hint)


@_check.register
def _check_baseline(definition: NotWorse, case: _Case) -> None:
    name = definition.metric
    if name is None or not case.find(name):
        return
    if not any(find_compared(task, name) for task in case.tasks):
        hint = "name a `mean` of one of the scorer's values, or leave `metric` out for the main one"
        case.report(f"`{name}` is no mean: samples cannot be compared pair by pair", hint)
