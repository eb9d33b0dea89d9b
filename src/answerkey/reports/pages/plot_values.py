"""What the plots of a task are drawn from; a plot without anything to show is None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from answerkey.metrics import wilson
from answerkey.metrics.classification import measure_recalls, measure_rstd
from answerkey.reports.listing import find_main_metric
from answerkey.reports.pages.audited import Audited
from answerkey.reports.pages.reliability import describe_reliability
from answerkey.reports.pages.timing import describe_timing
from answerkey.runs import TaskRun
from answerkey.types import Validity

#: More categories than these are no plot; more letters no square that anybody could read.
MOST_CATEGORIES, MOST_LETTERS = 200, 40
INVALID = Validity.INVALID.value

Plot = dict[str, Any]


def describe_plots(task: TaskRun, audited: Audited, *, is_complete: bool) -> Plot:
    """Return the plots by name; counts of any run, shares of a complete one."""
    return {
        "categories": describe_categories(task) if is_complete else None,
        "invalid": describe_invalid(task, audited),
        "rules": describe_rules(audited) if is_complete else None,
        "letters": describe_letters(task),
        "recalls": describe_recalls(task) if is_complete else None,
        "reliability": describe_reliability(task) if is_complete else None,
        **describe_timing(task),
    }


def describe_categories(task: TaskRun) -> Plot | None:
    """Return the main metric by group, or the accuracy by category."""
    metric = find_main_metric(task)
    if metric is not None and metric.groups:
        groups = metric.groups[0]
        largest = sorted(groups.values, key=lambda one: -one.n)[:MOST_CATEGORIES]
        rows = [
            {"label": str(one.group), "value": one.value, "interval": one.interval, "n": one.n}
            for one in groups.values
            if one in largest
        ]
        return {"column": groups.column, "rows": rows} if rows else None
    found = list_categories(task)
    has_interval = has_independent_rows(task)
    rows = [_describe_category(label, one, has_interval=has_interval) for label, one in found.items()]
    if all(row["value"] is None for row in rows):
        return None
    return {"column": task.tally["category_column"], "rows": rows}


def has_independent_rows(task: TaskRun) -> bool:
    """Return whether each row is a draw of its own; trials, and orders, of one sample are not."""
    return not (task.tally.get("trials") or task.tally.get("orders"))


def list_categories(task: TaskRun) -> Mapping[str, Mapping[str, int]]:
    """Return the counts by category in the order of their text, those of the most frequent ones."""
    found: Mapping[str, Mapping[str, int]] = task.tally.get("categories") or {}
    largest = sorted(found, key=lambda label: (-found[label]["n"], label))[:MOST_CATEGORIES]
    return {label: found[label] for label in sorted(largest)}


def _describe_category(label: str, one: Mapping[str, int], *, has_interval: bool) -> Plot:
    """Return one category; without a value where answers are right in part, as no count says how much."""
    n, correct = one["n"], one["correct"]
    is_share = n > 0 and not one["partial"]
    interval = list(wilson(correct, n)) if is_share and has_interval else None
    return {"label": label, "value": correct / n if is_share else None, "interval": interval, "n": n}


def describe_invalid(task: TaskRun, audited: Audited) -> list[Plot] | None:
    """Return INVALID completions by reason, the most frequent first; what they state, where all were read."""
    found: Mapping[str, Mapping[str, Any]] = task.tally.get("invalid") or {}
    rows: list[Plot] = []
    for reason, one in sorted(found.items(), key=lambda pair: (-pair[1]["count"], pair[0])):
        read = audited.reasons.get(reason)
        is_same = read is not None and read.count == one["count"]
        stated, right = (read.stated, read.right) if read and is_same else (None, None)
        rows.append({"reason": reason, "count": one["count"], "stated": stated, "right": right})
    return rows or None


def describe_rules(audited: Audited) -> list[Plot] | None:
    """Return the accuracy under each rule and lens, the run's own first."""
    rows = [
        {
            "name": one.name,
            "label": one.label,
            "kind": one.kind,
            "value": one.value,
            "interval": one.interval,
            "invalid_share": one.invalid_share,
            "read": one.read,
            "n": one.n,
            "drawn": one.drawn,
        }
        for one in audited.readings
    ]
    return rows or None


def list_letters(task: TaskRun) -> list[str]:
    """Return all choices that are true or predicted somewhere, in the order of their text."""
    found: Mapping[str, Mapping[str, int]] = task.tally.get("letters") or {}
    return sorted({*found, *(letter for row in found.values() for letter in row)} - {INVALID})


def describe_letters(task: TaskRun) -> Plot | None:
    """Return letters true (rows) against predicted (columns, INVALID last)."""
    found: Mapping[str, Mapping[str, int]] = task.tally.get("letters") or {}
    letters = list_letters(task)
    if not found or len(letters) > MOST_LETTERS:
        return None
    true, predicted = [one for one in letters if one in found], [*letters, INVALID]
    counts = [[found[letter].get(other, 0) for other in predicted] for letter in true]
    return {"true": true, "predicted": predicted, "counts": counts}


def describe_recalls(task: TaskRun) -> Plot | None:
    """Return the share of each letter's samples that were answered with it, and how far they lie apart."""
    found: Mapping[str, Mapping[str, int]] = task.tally.get("letters") or {}
    recalls = measure_recalls(found)
    if not recalls or len(recalls) > MOST_LETTERS:
        return None
    has_interval = has_independent_rows(task)
    rows = [
        _describe_recall(letter, value, found[letter], has_interval=has_interval)
        for letter, value in sorted(recalls.items())
    ]
    return {"rows": rows, "rstd": measure_rstd(list(recalls.values()))}


def _describe_recall(letter: str, value: float, predicted: Mapping[str, int], *, has_interval: bool) -> Plot:
    n = sum(predicted.values())
    interval = list(wilson(predicted.get(letter, 0), n)) if has_interval else None
    return {"letter": letter, "value": value, "interval": interval, "n": n}
