"""Gates in sentences: what was measured, what was needed, and what to do about it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from answerkey.metrics.intervals import Z_95
from answerkey.runs import NOT_COMPLETE, Run
from answerkey.spec.policies import ALPHA
from answerkey.text import (
    format_chance,
    format_count,
    format_figure,
    format_number,
    format_percent,
    shorten_path,
)
from answerkey.types import Gate, GateCheck, GateStatus

NEEDS: Mapping[str, str] = {
    ">": "more than",
    ">=": "at least",
    "=": "exactly",
    "<": "less than",
    "<=": "at most",
}
#: A gate on many values names so many of those that are to blame.
SHOWN = 5
MOST_DIGITS = 12
#: What products of floats may be off by.
NEAR_ZERO = 1e-9
Definition = Mapping[str, Any]


def explain_gate(gate: Gate, *, with_tasks: bool) -> list[str]:
    """Return sentences with the numbers behind a gate; `with_tasks` names the task of each."""
    if gate.note is not None:
        return [gate.note]
    if gate.status is GateStatus.PASS and len(gate.checks) > SHOWN:
        closest = min(gate.checks, key=lambda check: _measure_room(gate.definition, check))
        return [f"all {len(gate.checks)} values; closest: {_explain(gate.definition, closest, with_tasks)}"]
    told = [check for check in gate.checks if check.status is gate.status]
    lines = [_explain(gate.definition, check, with_tasks) for check in told[:SHOWN]]
    return [*lines, *([f"and {len(told) - SHOWN} more"] if len(told) > SHOWN else [])]


def _measure_room(definition: Definition, check: GateCheck) -> float:
    return abs((check.number or 0.0) - float(definition.get("threshold", 0.0)))


def _explain(definition: Definition, check: GateCheck, with_tasks: bool) -> str:  # noqa: FBT001 - inner
    place = [check.task] if with_tasks else []
    place += [check.group] if check.group is not None else []
    place += [f"run {check.repetition}"] if check.repetition is not None else []
    sentence = _SENTENCES[definition["type"]](definition, check)
    return f"{', '.join(place)}: {sentence}" if place else sentence


def _say_threshold(definition: Definition, check: GateCheck) -> str:
    need, number = _write_apart(float(definition["threshold"]), check)
    wanted = f"{NEEDS[definition['operator']]} {need}"
    if check.number is None:
        return f"{check.name}: {check.note}; it must be {wanted}"
    bound = definition.get("bound", "value")
    counted = f"(n {check.n})"
    if bound == "value":
        found = f"{_say_name(definition, check)} is {number} {counted}"
    else:
        value = format_figure(check.value, as_share=check.is_share)
        verb = "begins" if bound == "lower" else "ends"
        found = f"{_say_name(definition, check)} is {value} {counted}, its 95 % interval {verb} at {number}"
    return f"{found}, {wanted}" if check.status is GateStatus.PASS else f"{found}; needed: {wanted}"


def _say_name(definition: Definition, check: GateCheck) -> str:
    is_average = definition.get("average") and check.group is None
    return f"the macro average of {check.name} by {definition['group_by']}" if is_average else check.name


def _write_apart(threshold: float, check: GateCheck) -> tuple[str, str]:
    """Return threshold and number with as many digits as it takes to tell them apart, if they differ."""
    if check.number is None:
        return _write(threshold, None, is_share=check.is_share), ""
    for digits in (None, *range(3, MOST_DIGITS)):
        need = _write(threshold, digits, is_share=check.is_share)
        number = _write(check.number, digits, is_share=check.is_share)
        if need != number or threshold == check.number:
            break
    return need, number


def _write(number: float, digits: int | None, *, is_share: bool) -> str:
    if digits is None:
        return format_figure(number, as_share=is_share)
    return f"{100 * number:.{digits}f} %" if is_share else format_number(number, digits)


def _say_existence(definition: Definition, check: GateCheck) -> str:  # noqa: ARG001 - the form of all
    if check.value is None:
        return f"{check.name} has no value: {check.note}"
    return f"{check.name} has a value: {format_figure(check.value, as_share=check.is_share)} (n {check.n})"


def _say_share(definition: Definition, check: GateCheck) -> str:
    need, number = _write_apart(float(definition["threshold"]), check)
    wanted = f"{NEEDS[definition['operator']]} {need}"
    if check.number is None:
        return f"{check.name}: {check.note}; it must be {wanted}"
    found = f"{check.name} is {number} ({check.details['count']} of {check.details['of']})"
    return f"{found}, {wanted}" if check.status is GateStatus.PASS else f"{found}; needed: {wanted}"


def _say_difference(definition: Definition, check: GateCheck) -> str:
    if check.number is None or check.status is GateStatus.NOT_DECIDED:
        return check.note or "the difference from the baseline cannot be told"
    details, as_share = check.details, check.is_share
    values = [
        format_figure(one, as_share=as_share) for one in (check.value, _number(details["baseline_value"]))
    ]
    parts = [
        f"{check.name} is {values[0]}, in the baseline {values[1]}",
        f"{_points(check.number, as_share=as_share)}{' points' if as_share else ''}",
        _say_interval(check),
        f"p {format_chance(_number(details.get('p_adjusted')))}"
        if details.get("p_adjusted") is not None
        else "",
    ]
    verdict = "; ".join(filter(None, [_say_verdict(definition, check), check.note]))
    return f"{', '.join(filter(None, parts))} (n {check.n}): {verdict}"


def _say_verdict(definition: Definition, check: GateCheck) -> str:
    is_passed = check.status is GateStatus.PASS
    if "margin" in definition:
        margin = _points(float(definition["margin"]), as_share=check.is_share).lstrip("+")
        unit = " points" if check.is_share else ""
        return f"{'not worse' if is_passed else 'it may be worse'} by more than {margin}{unit}"
    if not is_passed:
        return f"significantly worse (p below {definition.get('alpha', ALPHA)})"
    return f"not significantly worse{_say_possible_loss(definition, check)}"


def _say_possible_loss(definition: Definition, check: GateCheck) -> str:
    """Return how much worse a run may be that is not shown to be: to see nothing is not to show nothing."""
    if check.interval is None:
        return ""
    loss = -check.interval[0] if definition.get("better") != "lower" else check.interval[1]
    unit = " points" if check.is_share else ""
    amount = _points(loss, as_share=check.is_share).lstrip("+")
    return f", but a loss of up to {amount}{unit} is not ruled out" if loss > 0 else ""


def _say_interval(check: GateCheck) -> str:
    if check.interval is None:
        return ""
    low, high = (_points(one, as_share=check.is_share).lstrip("+") for one in check.interval)
    return f"95 % interval [{low}, {high}]"


def _points(value: float, *, as_share: bool) -> str:
    text = f"{100 * value:.2f}" if as_share else format_number(value)
    return f"+{text}" if value > 0 else text


def _number(value: object) -> float:
    return float(str(value))


_SENTENCES: Mapping[str, Callable[[Definition, GateCheck], str]] = {
    "threshold": _say_threshold,
    "exists": _say_existence,
    "share": _say_share,
    "not_worse": _say_difference,
}


def advise_gate(gate: Gate, run: Run) -> str | None:
    """Return what to do about a gate that does not pass; None where there is nothing to say."""
    if gate.status in {GateStatus.PASS, GateStatus.SKIPPED}:
        return None
    path = "RUN" if run.path is None else shlex.quote(str(run.path))
    if gate.note == NOT_COMPLETE:
        return f"a share of the rest says nothing about the whole; finish the run: `answerkey resume {path}`"
    if not gate.checks:
        return f"`answerkey show {path}` lists the values that there are"
    check = next(check for check in gate.checks if check.status is gate.status)
    return _ADVICE[str(gate.definition["type"])](gate.definition, check, path)


def _advise_threshold(definition: Definition, check: GateCheck, path: str) -> str | None:
    if check.number is None:
        return None if check.value is None else "`bound: value` needs no interval"
    if definition.get("bound", "value") == "value":
        return (
            _count_missing(definition, check) or f"`answerkey show {path}` says what stands behind the value"
        )
    return _count_needed(definition, check)


def _count_missing(definition: Definition, check: GateCheck) -> str | None:
    """Return how many more samples would have had to count for the value to be enough."""
    count, of = check.details.get("count"), check.details.get("of")
    if not isinstance(count, int) or not isinstance(of, int) or definition["operator"] not in {">", ">="}:
        return None
    enough = math.ceil(float(definition["threshold"]) * of - NEAR_ZERO)
    enough += definition["operator"] == ">" and enough <= float(definition["threshold"]) * of
    return f"{enough} of {of} would pass, {enough - count} more than there are" if enough <= of else None


def _count_needed(definition: Definition, check: GateCheck) -> str:
    """Return whether more samples would help, and about how many that takes."""
    threshold, value, number = float(definition["threshold"]), check.value, check.number
    is_above = definition["operator"] in {">", ">="}
    distance = 0.0 if value is None else (value - threshold if is_above else threshold - value)
    if value is None or number is None or distance <= 0 or definition["operator"] == "=":
        return "the value itself is not enough: more samples will not help"
    if "of" in check.details and "cluster_by" not in check.details:
        size = Z_95**2 * threshold * (1 - threshold) / distance**2
    else:
        size = check.n * ((value - number) / distance) ** 2
    samples = format_count(math.ceil(size - NEAR_ZERO), "sample")
    return f"the value is enough, but not sure: about {samples} like these would do"


def _advise_existence(definition: Definition, check: GateCheck, path: str) -> str | None:  # noqa: ARG001 - as above
    return f"`answerkey show {path}` says why it has none"


def _advise_share(definition: Definition, check: GateCheck, path: str) -> str:  # noqa: ARG001 - as above
    return {
        "invalid": f"`answerkey audit {path}` has them by reason, and what other rules would read in them",
        "refused": f"`answerkey explain {path} SAMPLE` shows what the model said",
        "failed": "`answerkey check FILE` lists the rows that are at fault",
        "error": f"`answerkey resume {path}` asks again where calls failed",
    }[definition["of"]]


def _advise_baseline(definition: Definition, check: GateCheck, path: str) -> str:  # noqa: ARG001 - as above
    baseline = definition.get("baseline")
    if baseline is None:
        return f"`answerkey show {path} --baseline BASELINE` decides it; this run may be the first baseline"
    named = shlex.quote(shorten_path(str(baseline)))
    return f"`answerkey compare {path} --baseline {named}` lists the samples that flipped"


_ADVICE: Mapping[str, Callable[[Definition, GateCheck, str], str | None]] = {
    "threshold": _advise_threshold,
    "exists": _advise_existence,
    "share": _advise_share,
    "not_worse": _advise_baseline,
}


def say_need(definition: Definition) -> str:
    """Return what a rule needs in a few words, in the terms of its file."""
    return _NEEDS[definition["type"]](definition)


def _need_threshold(definition: Definition) -> str:
    bound = definition.get("bound", "value")
    what = definition["metric"] if bound == "value" else f"{bound} bound of {definition['metric']}"
    by = f" by {definition['group_by']}" if definition.get("group_by") else ""
    average = "macro average of " if definition.get("average") else ""
    return f"{average}{what}{by} {definition['operator']} {definition['threshold']:g}"


def _need_baseline(definition: Definition) -> str:
    by = f" by more than {definition['margin']:g}" if "margin" in definition else " significantly"
    baseline = shorten_path(str(definition["baseline"])) if "baseline" in definition else "a baseline"
    return f"{definition.get('metric') or 'the main value'} not{by} worse than {baseline}"


_NEEDS: Mapping[str, Callable[[Definition], str]] = {
    "threshold": _need_threshold,
    "exists": lambda definition: f"{definition['metric']} has a value",
    "share": lambda one: f"{one['of'].upper()} share {one['operator']} {format_percent(one['threshold'])}",
    "not_worse": _need_baseline,
}
