"""The tables below the numbers: invalid completions, failed samples, categories, letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from answerkey.metrics import average_counts, wilson
from answerkey.reports.grouping import list_group_columns
from answerkey.reports.repeats import count_scored
from answerkey.runs import TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    draw_letter_table,
    format_interval,
    format_percent,
    lay_out,
    line,
    make_visible,
    quote,
    shorten,
)
from answerkey.types import ScoreStatus

SHOWN_CATEGORIES = 60
SHOWN_FAILED = 20
READ_TOGETHER = 131_072
SHOWN_ID = 40


def draw_reasons(task: TaskRun, width: int, *, with_shares: bool) -> list[Line]:
    """Return INVALID completions by reason: count, share of the scored ones, and the first example."""
    found: Mapping[str, Any] = task.tally["invalid"]
    if not found:
        return []
    scored = count_scored(task)
    rows: list[Sequence[Cell]] = []
    for reason, one in sorted(found.items(), key=lambda pair: -pair[1]["count"]):
        example = one["example"]
        rows.append(
            (
                reason,
                str(one["count"]),
                format_percent(one["count"] / scored) if with_shares else "",
                shorten(example["sample_id"], SHOWN_ID),
                quote(example["completion"], width),
            )
        )
    header = ("Invalid because", "count", "share", "example", "completion")
    return [BLANK, *lay_out(Table(header, rows, "<>><<", flexible=4), width)]


def draw_failures(task: TaskRun, width: int) -> list[Line]:
    """Return samples without a score: how many for each reason, and which, at most twenty by name."""
    found = [("failed", *pair) for pair in task.tally["failed"].items()]
    found += [("errors", *pair) for pair in task.tally["errors"].items()]
    if not found:
        return []
    names = _name_unscored(task)
    rows = []
    for kind, reason, one in found:
        known = names.get(reason) or [one["example"]["sample_id"]]
        more = f" and {one['count'] - len(known)} more" if one["count"] > len(known) else ""
        rows.append((kind, reason, str(one["count"]), make_visible(", ".join(known)) + more))
    header = ("No score", "reason", "count", "samples")
    return [BLANK, *lay_out(Table(header, rows, "<<><", flexible=3), width)]


def _name_unscored(task: TaskRun) -> dict[str, list[str]]:
    """Return reason → the first sample ids without a score, from the main scorer's column."""
    key = find_main_scorer(task)
    stored = task.stored_scores
    if key is None or key not in stored.read(0, 1).columns:
        return {}
    found: dict[str, dict[str, None]] = {}
    for offset in range(0, len(stored), READ_TOGETHER):
        table = stored.read(offset, READ_TOGETHER, ["sample_id", key]).unnest(key)
        unscored = table.filter(pl.col("status") != ScoreStatus.SCORED.value)
        groups = unscored.group_by(pl.col("reason").fill_null("UNKNOWN")).agg("sample_id")
        for reason, names in groups.iter_rows():
            found.setdefault(reason, {}).update(dict.fromkeys(names))
        found = {reason: dict.fromkeys(list(names)[:SHOWN_FAILED]) for reason, names in found.items()}
    return {reason: list(names) for reason, names in found.items()}


def find_main_scorer(task: TaskRun) -> str | None:
    """Return the key of the scorer that the counts belong to: the first with purpose `score`."""
    return task.main_scorer


def draw_categories(task: TaskRun, width: int, digits: int | None = None) -> list[Line]:
    """Return the accuracy of each category with its count and interval, the largest sixty; then their mean.

    Nothing where a metric is grouped by that column: its own table says the same.
    """
    found: Mapping[str, Mapping[str, int]] = task.tally["categories"]
    if not found or task.tally["category_column"] in list_group_columns(task):
        return []
    shown = sorted(sorted(found, key=lambda name: -found[name]["n"])[:SHOWN_CATEGORIES])
    has_interval = not task.tally.get("trials")  # trials of one sample are no independent draws
    rows: list[Sequence[Cell]] = [
        (make_visible(name), *_measure_category(found[name], digits, has_interval=has_interval))
        for name in shown
    ]
    header = (
        f"By {make_visible(task.tally['category_column'])}",
        "accuracy",
        "95 % interval",
        "correct",
        "n" if has_interval else "trials",
    )
    rows += _average_categories(found, digits) if has_interval and len(found) > 1 else []
    lines = [BLANK, *lay_out(Table(header, rows, "<>>>>", flexible=0), width)]
    left = len(found) - len(shown)
    return [*lines, line(f"  and {left} smaller ones; `--json` has them all")] if left else lines


def _measure_category(
    counts: Mapping[str, int], digits: int | None, *, has_interval: bool
) -> tuple[str, str, str, str]:
    n, correct = counts["n"], counts["correct"]
    if counts["partial"]:  # not a share of right answers: a bare count is all that is certain
        return "", "", str(correct), str(n)
    interval = format_interval(wilson(correct, n), digits=digits) if has_interval else ""
    return format_percent(correct / n, digits), interval, str(correct), str(n)


def _average_categories(found: Mapping[str, Mapping[str, int]], digits: int | None) -> list[Sequence[Cell]]:
    """Return the row of the plain mean over all categories; none where it is no mean of shares."""
    if any(one["partial"] for one in found.values()):
        return []
    value, interval = average_counts([(one["correct"], one["n"]) for one in found.values()])
    cells = ("macro average", format_percent(value, digits), format_interval(interval, digits=digits))
    return [[Span(cell, "dim") for cell in (*cells, "", "")]]


def draw_letters(task: TaskRun, width: int, *, with_shares: bool) -> list[Line]:
    """Return letters true (rows) against letters predicted (columns), with INVALID and the share found."""
    return draw_letter_table(task.tally["letters"], width, with_shares=with_shares)
