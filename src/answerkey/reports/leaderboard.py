"""Many runs as one table: models by tasks, each number with its interval, and ranks that respect
ties.

    runs, paired comparisons of their tasks ──► describe_leaderboard ──► report, viewer

A rank is a range such as 1 to 2. It begins after the models that are shown to be better and ends
before those that are shown to be worse, so that models whose paired difference is not shown share
ranks. Shown means p < 0.05 in the paired test, corrected by Holm for the number of comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from answerkey.comparison.compare import (
    ALPHA,
    Comparison,
    PairComparison,
    TaskComparison,
    adjust_pairs,
    compare,
)
from answerkey.errors import AnswerkeyError, RunError
from answerkey.metrics.paired import adjust_by_holm
from answerkey.reports.view import label_metric
from answerkey.runs import Run, TaskRun, find_answerer, name_answerer
from answerkey.text import (
    BLANK,
    Line,
    Span,
    Table,
    draw_text,
    is_share,
    lay_out,
    line,
    measure_width,
)

Plain = dict[str, Any]
Tasks = Mapping[str, TaskRun]
#: Better and worse of two runs, by their ids.
Order = tuple[str, str]
#: So many completions are read together to count their tokens.
READ_TOGETHER = 131_072


class Column(NamedTuple):
    """One task: its name, which task of each run it is, and the pairs by the ids of their runs.

    `pairs` is None where not all of these runs were compared with each other: such a task has no
    ranks.
    """

    key: str
    tasks: Mapping[str, TaskRun]
    pairs: Mapping[Order, PairComparison] | None


def compare_tasks(
    runs: Mapping[str, Run], baseline: str | None = None, *, common: bool = False
) -> tuple[list[tuple[TaskComparison, Tasks]], list[str]]:
    """Return each compared task with the tasks of the runs that have it, by the ids of the runs,
    and notices.

    Where not all runs have the same tasks, each task is compared between the runs that have it.
    """
    keys = dict.fromkeys(key for run in runs.values() for key in run.tasks)
    against = None if baseline is None else runs[baseline]
    others = {name: run for name, run in runs.items() if name != baseline}
    try:
        found = compare(*others.values(), baseline=against, common=common)
        known = [(task, _find_tasks(task.key, runs)) for task in found.tasks]
        if (
            baseline is not None
            or len(known) == len(keys)
            or all(len(run.tasks) == 1 for run in runs.values())
        ):
            return known, [notice.message for notice in found.notices]
    except AnswerkeyError:
        if baseline is not None or len(keys) == 1:
            raise
    each, notices = [], []
    problem: AnswerkeyError | None = None
    for key in keys:
        some = {name: run for name, run in runs.items() if key in run.tasks}
        try:
            found = (
                compare(*some.values(), task=key, common=common)
                if len(some) > 1
                else Comparison(())
            )
        except AnswerkeyError as error:
            problem = error
            notices.append(f"`{key}` is not compared: {error.message}")
        else:
            each += [(task, _find_tasks(key, some)) for task in found.tasks]
            notices += [notice.message for notice in found.notices]
    if not each:
        raise problem or RunError(
            "E508", "no two runs have a task in common", hint="compare runs of one task"
        )
    adjusted = adjust_pairs([task for task, _ in each])
    known = [(task, tasks) for task, (_, tasks) in zip(adjusted, each, strict=True)]
    return known, list(dict.fromkeys(notices))


def _find_tasks(key: str, runs: Mapping[str, Run]) -> Tasks:
    """Return which task of each run is meant: the one of that name, or its only one."""
    return {
        name: run.tasks[key] if key in run.tasks else next(iter(run.tasks.values()))
        for name, run in runs.items()
    }


def list_columns(
    runs: Mapping[str, Run], compared: Sequence[tuple[TaskComparison, Tasks]], *, is_ranked: bool
) -> list[Column]:
    """Return the tasks of the leaderboard: those that were compared, then all others."""
    columns = []
    for task, tasks in compared:
        ids = {one.label: name for one, name in zip(task.runs, tasks, strict=True)}
        pairs = {(ids[pair.first], ids[pair.second]): pair for pair in task.pairs}
        columns.append(Column(task.key, tasks, pairs if is_ranked else None))
    known = {(name, task.key) for column in columns for name, task in column.tasks.items()}
    left = dict.fromkeys(
        key for name, run in runs.items() for key in run.tasks if (name, key) not in known
    )
    columns += [
        Column(key, {name: run.tasks[key] for name, run in runs.items() if key in run.tasks}, None)
        for key in left
    ]
    return columns


def describe_leaderboard(
    runs: Mapping[str, Run], labels: Mapping[str, str], columns: Sequence[Column]
) -> Plain:
    """Return a row for each model with a cell for each task, the best first.

    Runs of one model are one row, unless two of them have the same task. With several tasks, all of
    them shares, a row has their plain mean as well.
    """
    rows = [_describe_row(names, runs, labels, columns) for names in _group_runs(runs, columns)]
    tasks = []
    for number, column in enumerate(columns):
        cells = {
            row["cells"][number]["run"]: row["cells"][number]
            for row in rows
            if row["cells"][number]
        }
        known = next(iter(cells.values()), None)
        if column.pairs is not None:
            shown = {
                ids if pair.difference.value > 0 else ids[::-1]
                for ids, pair in column.pairs.items()
                if pair.is_significant()
            }
            for run, rank in rank_ties(list(column.tasks), shown).items():
                cells[run]["rank"] = rank
        tasks.append(
            {
                "key": column.key,
                "name": next(iter(column.tasks.values())).manifest.get("display_name"),
                "metric": known and known["metric"],
                "is_share": bool(known and known["is_share"]),
                "is_ranked": column.pairs is not None,
            }
        )
    if len(columns) > 1 and all(task["is_share"] for task in tasks):
        _add_means(rows, columns)
    rows.sort(key=_find_value, reverse=True)
    return {
        "tasks": tasks,
        "rows": rows,
        "comparisons": sum(len(one.pairs or ()) for one in columns),
    }


def rank_ties(names: Sequence[str], shown: Iterable[Order]) -> dict[str, tuple[int, int]]:
    """Return the first and the last rank of each, by the pairs in which one is shown to be
    better.
    """
    pairs = set(shown)
    return {
        name: (
            1 + sum(worse == name for _, worse in pairs),
            len(names) - sum(better == name for better, _ in pairs),
        )
        for name in names
    }


def _group_runs(runs: Mapping[str, Run], columns: Sequence[Column]) -> list[list[str]]:
    """Return the ids of the runs of each row."""
    by_model: dict[str, list[str]] = {}
    for name, run in runs.items():
        models = {name_answerer(task.manifest) for task in run.tasks.values()}
        by_model.setdefault(models.pop() if len(models) == 1 else name, []).append(name)
    groups = []
    for names in by_model.values():
        is_apart = all(sum(name in column.tasks for name in names) <= 1 for column in columns)
        groups += [names] if is_apart else [[name] for name in names]
    return groups


def _describe_row(
    names: Sequence[str],
    runs: Mapping[str, Run],
    labels: Mapping[str, str],
    columns: Sequence[Column],
) -> Plain:
    tasks = [task for name in names for task in runs[name].tasks.values()]
    # A model that was called has a name that people know; recorded completions are known by their
    # run.
    known = dict.fromkeys(
        name_answerer(task.manifest) for task in tasks if find_answerer(task.manifest)
    )
    label = ", ".join(labels[name] for name in names)
    cells = []
    for column in columns:
        found = next((name for name in names if name in column.tasks), None)
        cells.append(
            None if found is None else _describe_cell(found, runs[found], column.tasks[found])
        )
    calls = [one for task in tasks for one in (task.manifest.get("calls") or {}).values()]
    costs = [one["cost"] for one in calls]
    tokens = [counted for task in tasks if (counted := _count_tokens(task)) is not None]
    return {
        "name": ", ".join(known) or label,
        "runs": label if known else None,
        "cells": cells,
        "mean": None,
        "prompt_tokens": sum(one for one, _ in tokens) if tokens else None,
        "completion_tokens": sum(one for _, one in tokens) if tokens else None,
        "cost": None if not costs or None in costs else sum(costs),
    }


def _describe_cell(name: str, run: Run, task: TaskRun) -> Plain:
    """Return the main metric of a task; a run that is not complete has no value."""
    metric = task.main_metric
    is_known = metric is not None and run.status == "complete"
    return {
        "run": name,
        "task": list(run.tasks).index(task.key),
        "metric": None if metric is None else label_metric(task, metric),
        "value": metric.value if metric is not None and is_known else None,
        "interval": metric.interval if metric is not None and is_known else None,
        "n": None if metric is None else metric.n,
        "is_share": metric is not None and is_share(metric),
        "rank": None,
    }


def _count_tokens(task: TaskRun) -> tuple[int, int] | None:
    """Return the tokens of prompts and of completions, those from the cache as well.

    None where unknown.
    """
    kept, sums = task.stored_completions, [0, 0]
    is_known = False
    for offset in range(0, len(kept), READ_TOGETHER):
        usage = kept.read(offset, READ_TOGETHER, ("usage",))["usage"]
        if not isinstance(usage.dtype, pl.Struct):
            continue
        for place, name in enumerate(("prompt_tokens", "completion_tokens")):
            values = usage.struct.field(name).drop_nulls()
            is_known = is_known or len(values) > 0
            sums[place] += int(values.sum())
    return (sums[0], sums[1]) if is_known else None


def _add_means(rows: Sequence[Plain], columns: Sequence[Column]) -> None:
    """Give each row that has all tasks the plain mean of its shares, with interval and rank.

    Tasks are independent of each other: half-widths, and errors of paired differences, add up as
    squares.
    """
    size = len(columns)
    whole = [
        row for row in rows if all(cell and cell["value"] is not None for cell in row["cells"])
    ]
    for row in whole:
        value, interval = sum(cell["value"] for cell in row["cells"]) / size, None
        ends = [cell["interval"] for cell in row["cells"]]
        if None not in ends:
            half = math.hypot(*((high - low) / 2 for low, high in ends)) / size
            interval = (max(0.0, value - half), min(1.0, value + half))
        row["mean"] = {"value": value, "interval": interval, "rank": None}
    if len(whole) < len(rows) or any(column.pairs is None for column in columns):
        return
    orders, chances = [], []
    for place, first in enumerate(rows):
        for second in rows[place + 1 :]:
            differences = [
                _find_difference(column, (one["run"], other["run"]))
                for column, one, other in zip(columns, first["cells"], second["cells"], strict=True)
            ]
            errors = [error for _, error in differences]
            value = sum(value for value, _ in differences) / size
            orders.append((first, second) if value > 0 else (second, first))
            error = None if None in errors else math.hypot(*(one or 0.0 for one in errors)) / size
            # The normal tail on both sides.
            chances.append(math.erfc(abs(value) / error / math.sqrt(2)) if error else None)
    names = {id(row): str(number) for number, row in enumerate(rows)}
    shown = [
        (names[id(better)], names[id(worse)])
        for (better, worse), chance in zip(orders, adjust_by_holm(chances), strict=True)
        if chance is not None and chance < ALPHA
    ]
    ranks = rank_ties(list(names.values()), shown)
    for row in rows:
        row["mean"]["rank"] = ranks[names[id(row)]]


def _find_difference(column: Column, ids: Order) -> tuple[float, float | None]:
    """Return first minus second of one task, and its standard error."""
    pairs = column.pairs or {}
    if ids in pairs:
        found = pairs[ids].difference
        return found.value, found.evidence.std_error
    found = pairs[ids[1], ids[0]].difference
    return -found.value, found.evidence.std_error


def _find_value(row: Plain) -> float:
    """Return what rows are ordered by: the mean of the tasks, or the first number there is."""
    known = [row["mean"], *row["cells"]]
    values = [one["value"] for one in known if one and one["value"] is not None]
    return values[0] if values else -math.inf


# The same on a terminal.


def draw_leaderboard(runs: Sequence[Run], width: int) -> list[Line]:
    """Return one table, models by tasks, the best first, in as many blocks as the width asks for.

    A run that is not complete shows no number and has no rank.
    """
    known = {str(number): run for number, run in enumerate(runs)}
    complete = {name: run for name, run in known.items() if run.status == "complete"}
    names = {name: name_answerer(next(iter(run.manifest["tasks"]))) for name, run in known.items()}
    told, compared = "", list[tuple[TaskComparison, Tasks]]()
    try:
        compared = compare_tasks(complete)[0] if len(complete) > 1 else []
    except AnswerkeyError as error:
        told = f" There are no ranks: {error.message}."
    board = describe_leaderboard(
        complete, names, list_columns(complete or known, compared, is_ranked=True)
    )
    stated = dict.fromkeys(entry["key"] for run in runs for entry in run.manifest["tasks"])
    heads, rows = [task["key"] for task in board["tasks"]] or list(stated), list[list[str]]()
    heads += ["mean"] if any(row["mean"] for row in board["rows"]) else []
    for row in board["rows"]:
        cells = [*row["cells"], row["mean"] and {**row["mean"], "is_share": True}]
        rows.append([row["name"], *map(_say_cell, cells[: len(heads)])])
    for name in [one for one in known if one not in complete]:
        rows.append([names[name], *[known[name].status] * len(heads)])
    widest = max(measure_width(text) for _, *cells in [heads, *rows] for text in cells)
    size = max(1, (width - 4 - max(measure_width(row[0]) for row in rows)) // (widest + 2))
    lines: list[Line] = [line(Span("Comparison", "title"))]
    for at in range(0, len(heads), size):
        block = [[row[0], *row[1 + at : 1 + at + size]] for row in rows]
        header = ["model", *heads[at : at + size]]
        lines += [
            BLANK,
            *lay_out(Table(header, block, "<" + ">" * (len(header) - 1), flexible=0), width),
        ]
    if compared:
        told = (
            " Models share ranks unless their difference on the same samples is shown (p < "
            "0.05, corrected)."
        )
    metrics = (f"{one['metric'] or 'value'}{' in %' * one['is_share']}" for one in board["tasks"])
    told = (
        f"Each cell: {' or '.join(dict.fromkeys(metrics)) or 'value'}, its 95 % interval, "
        f"rank.{told}"
    )
    return [*lines, BLANK, *draw_text(told, width, role="dim")]


def _say_cell(cell: Plain | None) -> str:
    """Return value, interval and rank of a model in a task."""
    if cell is None or cell["value"] is None:
        return "" if cell is None else "no value"
    numbers = [
        100 * one if cell["is_share"] else one for one in (cell["value"], *(cell["interval"] or ()))
    ]
    value, *ends = [f"{one:.1f}" if cell["is_share"] else f"{one:.4g}" for one in numbers]
    first, last = cell["rank"] or ("", "")
    rank = f" {first}" if first == last else f" {first}-{last}"
    interval = f" [{', '.join(ends)}]" if ends else ""
    return f"{value}{interval}{rank}".rstrip()
