"""Variants of a task's prompt: how far its numbers depend on the wording, and which differences stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from answerkey.comparison.compare import (
    Comparison,
    TaskComparison,
    compare_task_runs,
    describe_task_comparison,
    draw_pairs,
)
from answerkey.errors import RunError
from answerkey.metrics import compare_repetitions
from answerkey.runs import Run, TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    draw_text,
    format_count,
    format_figure,
    lay_out,
    line,
    make_visible,
)


@dataclass(frozen=True)
class VariedTask:
    """The variants of one task: their numbers, and every pair of them compared on the same samples.

    `tasks` are the specifications by the variant's key. Each of `metrics` has its `values` by that key, and
    their `min`, `median`, `max`, `spread` (max minus min) and `std_dev`; `shares` are the names of those that
    are shares. `note` says why pairs could not be compared.
    """

    key: str
    tasks: Mapping[str, str]
    metrics: tuple[dict[str, Any], ...]
    shares: frozenset[str]
    comparison: TaskComparison | None = None
    note: str | None = None


def compare_variants(run: Run) -> tuple[VariedTask, ...]:
    """Return what the variants of each task of a run say together; only complete runs have such numbers."""
    groups: dict[str, dict[str, TaskRun]] = {}
    for task in run.tasks.values() if run.status == "complete" else ():
        if (variant := task.manifest.get("variant")) is not None:
            groups.setdefault(str(variant["of"]), {})[str(variant["key"])] = task
    found = []
    for key, variants in groups.items():
        # Metrics are compared by name; those of a quality check are not the task's numbers.
        values = [
            [value for value in task.metrics.values() if value.purpose == "score"]
            for task in variants.values()
        ]
        if len(variants) == 1:
            continue
        comparison = note = None
        try:
            comparison = compare_task_runs(key, {name: (run, task) for name, task in variants.items()})
        except RunError as error:
            note = error.message
        tasks = {name: task.key for name, task in variants.items()}
        metrics = tuple(_sum_up(one, list(variants)) for one in compare_repetitions(values))
        shares = frozenset(value.name for one in values for value in one if value.is_share)
        found.append(VariedTask(key, tasks, metrics, shares, comparison, note))
    return tuple(found)


def _sum_up(one: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    values = dict(zip(names, one["values"], strict=True))
    known = [value for value in values.values() if value is not None]
    return {
        "name": one["name"],
        "values": values,
        "min": one["min"],
        "median": median(known) if known else None,
        "max": one["max"],
        "spread": one["max"] - one["min"] if known else None,
        "std_dev": one["std_dev"],
    }


def describe_variants(run: Run) -> list[dict[str, Any]]:
    """Return the variants as plain values, for `--json`."""
    return [
        {
            "task": task.key,
            "variants": [{"key": key, "task": name} for key, name in task.tasks.items()],
            "metrics": list(task.metrics),
            "comparison": task.comparison and describe_task_comparison(task.comparison),
            **({"note": task.note} if task.note else {}),
        }
        for task in compare_variants(run)
    ]


def draw_variants(run: Run, width: int, digits: int | None = None) -> list[Line]:
    """Return the variants of each task beside each other; nothing for a run without any."""
    lines: list[Line] = []
    for task in compare_variants(run):
        title = f"  {format_count(len(task.tasks), 'variant')} of the prompt"
        lines += [BLANK, line(Span(make_visible(task.key), "title"), title), BLANK]
        rows: list[list[Cell]] = []
        for one in task.metrics:
            numbers = [*(one[name] for name in ("min", "median", "max", "spread")), *one["values"].values()]
            as_share = one["name"] in task.shares
            texts = [
                "" if number is None else format_figure(number, as_share=as_share, digits=digits)
                for number in numbers
            ]
            rows.append([Span(make_visible(one["name"]), "strong"), *texts])
        header = ("", "min", "median", "max", "spread", *map(make_visible, task.tasks))
        lines += lay_out(Table(header, rows, "<" + ">" * (len(header) - 1), flexible=0), width)
        if task.comparison is None:
            lines += draw_text(f"pairs are not compared: {task.note}", width, "dim")
        else:
            compared = Comparison((task.comparison,))
            lines += [BLANK, *draw_pairs(compared, width, digits=digits, flips=0)]
    return lines
