"""The rule `not_worse`: a run held against a baseline on the same samples, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from answerkey.errors import AnswerkeyError, Place, RunError
from answerkey.metrics import Mean
from answerkey.metrics.paired import Difference, adjust_by_holm
from answerkey.runs import Run, load_run
from answerkey.spec import Rule, Task, task_from_source
from answerkey.spec.policies import ALPHA, NotWorse, find_compared
from answerkey.types import GateCheck, GateStatus
from answerkey.verbs.comparing import compare
from answerkey.verbs.gate_rules import check_rule

NO_BASELINE = "no baseline is named"


def find_baseline_error(rule: Rule) -> AnswerkeyError | None:
    """Return why the baseline of a rule cannot be compared with, as far as that is known beforehand."""
    definition = rule.definition
    if not isinstance(definition, NotWorse) or definition.baseline is None:
        return None
    where = rule.place if rule.place.file else Place(file=definition.baseline)
    try:
        baseline = load_run(definition.baseline)
    except RunError as error:
        message = f"the baseline of rule `{rule.key}` cannot be read: {error.message}"
        hint = "name the folder of a run, relative to the file that states it, or give `--baseline RUN`"
        return RunError(error.code, message, where=where, hint=hint)
    if baseline.status != "complete":
        message = f"the baseline of rule `{rule.key}` is {baseline.status}: `{definition.baseline}`"
        hint = f"`answerkey show {definition.baseline}` says what is missing, and how to go on"
        return RunError("E508", message, where=where, hint=hint)
    return None


@check_rule.register
def check_baseline(definition: NotWorse, run: Run, keys: Sequence[str]) -> list[GateCheck]:
    """Return the difference of each task from the same task of the baseline."""
    if definition.baseline is None:
        return [GateCheck(key, "", GateStatus.NOT_DECIDED, note=NO_BASELINE) for key in keys]
    try:
        baseline = load_run(definition.baseline)
    except RunError as error:
        return [GateCheck(key, "", GateStatus.NOT_DECIDED, note=error.message) for key in keys]
    checks, found = [], []
    for key in keys:
        outcome = _compare(definition, run, baseline, key)
        if isinstance(outcome, GateCheck):
            checks.append(outcome)
        elif outcome is not None:
            found.append(outcome)
    adjusted = adjust_by_holm([difference.evidence.p for _, difference in found])
    decided = [_decide(definition, one, p) for one, p in zip(found, adjusted, strict=True)]
    return sorted([*checks, *decided], key=lambda check: keys.index(check.task))


def _compare(
    definition: NotWorse, run: Run, baseline: Run, key: str
) -> tuple[GateCheck, Difference] | GateCheck | None:
    """Return what is compared and how it differs; a check that is not decided where that cannot be told.

    None for a task that does not have the metric.
    """
    task = task_from_source(run.tasks[key].source["task"])
    compared = None if definition.metric is None else find_compared(task, definition.metric)
    if definition.metric is not None and compared is None:
        return None
    scorer, value = compared or (None, None)
    is_only = len(run.tasks) == len(baseline.tasks) == 1
    blank = GateCheck(key, definition.metric or "", GateStatus.NOT_DECIDED)
    try:
        found = compare(run, baseline=baseline, task=None if is_only else key, scorer=scorer, value=value)
    except AnswerkeyError as error:
        return replace(blank, note=error.message)
    one = found.tasks[0].runs[0]
    name = definition.metric or _name_value(task, one.scorer, one.value)
    is_share = all(each.is_share for each in found.tasks[0].runs)
    heard = "; ".join(notice.message for notice in found.notices if "no table by" not in notice.message)
    return replace(blank, name=name, is_share=is_share, note=heard or None), found.pairs[0].difference


def _name_value(task: Task, scorer: str, value: str) -> str:
    """Return the name of the metric that is the mean of a value; without one, the value's own name."""
    steps = [step for step in task.scoring if step.key == scorer]
    means = [one.metric for step in steps for one in step.metrics if isinstance(one.metric, Mean)]
    names = [mean.value_names().names[0] for mean in means if mean.field == value]
    return names[0] if names else value


def _decide(definition: NotWorse, found: tuple[GateCheck, Difference], p: float | None) -> GateCheck:
    blank, difference = found
    evidence = difference.evidence
    status = _find_status(definition, difference, p)
    return replace(
        blank,
        status=status,
        number=difference.value,
        value=difference.first,
        interval=evidence.interval,
        n=difference.n,
        note=evidence.interval_note if status is GateStatus.NOT_DECIDED else blank.note,
        details={
            "baseline": definition.baseline,
            "baseline_value": difference.second,
            "p": evidence.p,
            "p_adjusted": p,
            "p_method": evidence.p_method,
            "flips": None if difference.flips is None else asdict(difference.flips),
        },
    )


def _find_status(definition: NotWorse, difference: Difference, p: float | None) -> GateStatus:
    sign = 1 if definition.better == "higher" else -1
    gain, interval = sign * difference.value, difference.evidence.interval
    if definition.margin is not None:
        if interval is None:
            return GateStatus.NOT_DECIDED
        worst = interval[0] if sign > 0 else -interval[1]
        return GateStatus.PASS if worst >= -definition.margin else GateStatus.FAIL
    if gain >= 0:
        return GateStatus.PASS
    if p is None:
        return GateStatus.NOT_DECIDED
    return GateStatus.FAIL if p < (definition.alpha or ALPHA) else GateStatus.PASS
