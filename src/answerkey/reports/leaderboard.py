"""Many runs as one table: models by tasks, each number with its interval, and ranks with ties.

A rank is a range such as 1 to 2. It begins after the models that are shown to be better and ends
before those that are shown to be worse, so that models whose paired difference is not shown share
ranks. Shown means p < 0.05 in the paired test, corrected by Holm for the number of comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from answerkey.comparison.compare import (
    PairComparison,
    TaskComparison,
    adjust_pairs,
    compare,
)
from answerkey.errors import AnswerkeyError, RunError
from answerkey.reports.view import Entry, Interval, label_metric
from answerkey.runs import Run, TaskRun, find_answerer, name_answerer
from answerkey.text import (
    BLANK,
    Lines,
    Span,
    draw_table,
    draw_text,
    is_share,
    measure_width,
)

#: Runs, their labels, and their compared tasks, by the ids of the runs.
Runs = Mapping[str, Run]
Labels = Mapping[str, str]
Tasks = Mapping[str, TaskRun]
#: The better and the worse of two runs, by their ids.
Order = tuple[str, str]
#: The first and the last rank that a model may have.
Rank = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Column:
    """One task: which task of each run it is, and the pairs by the ids of their runs.

    `pairs` is None if not all of these runs were compared with each other: then there are no ranks.
    """

    key: str
    tasks: Tasks
    pairs: Mapping[Order, PairComparison] | None


@dataclass(frozen=True, slots=True)
class BoardTask:
    """The heading of a column."""

    key: str
    name: str | None
    metric: str | None
    is_share: bool
    is_ranked: bool


@dataclass(frozen=True, slots=True)
class BoardCell:
    """The main metric of one model in one task; no value unless the run is complete."""

    run: str
    task: int
    metric: str | None = None
    value: float | None = None
    interval: Interval | None = None
    n: int | None = None
    is_share: bool = False
    rank: Rank | None = None


@dataclass(frozen=True, slots=True)
class BoardMean:
    """The plain mean of a model's tasks."""

    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One model: its numbers, and the tokens and cost of its calls."""

    name: str
    runs: str | None
    cells: Sequence[BoardCell | None]
    mean: BoardMean | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The whole table, the best model first."""

    tasks: Sequence[BoardTask]
    rows: Sequence[BoardRow]
    comparisons: int


# ── which tasks are compared

#: A compared task, and the tasks of the runs that have it.
Compared = tuple[TaskComparison, Tasks]


def compare_tasks(runs: Runs) -> tuple[list[Compared], list[str]]:
    """Return each compared task with the tasks of the runs that have it, and notices.

    If not all runs have the same tasks, each task is compared between the runs that have it.
    """
    keys: dict[str, None] = {}
    for run in runs.values():
        keys |= dict.fromkeys(run.tasks)
    try:
        comparison = compare(*runs.values())
    except AnswerkeyError:
        if len(keys) == 1:
            raise
        return _compare_each(runs, keys)
    is_partial = len(comparison.tasks) < len(keys)
    if is_partial and any(len(run.tasks) > 1 for run in runs.values()):
        return _compare_each(runs, keys)
    compared = []
    for task in comparison.tasks:
        tasks = _find_tasks(task.key, runs)
        compared.append((task, tasks))
    return compared, [notice.message for notice in comparison.notices]


def _compare_each(
    runs: Runs,
    keys: Iterable[str],
) -> tuple[list[Compared], list[str]]:
    """Compare each task between the runs that have it."""
    compared: list[TaskComparison] = []
    tasks: list[Tasks] = []
    notices: dict[str, None] = {}
    hint = "compare runs of one task"
    problem: AnswerkeyError = RunError("E508", "no two runs have a task in common", hint=hint)
    for key in keys:
        sides = {name: run for name, run in runs.items() if key in run.tasks}
        if len(sides) == 1:
            continue
        try:
            comparison = compare(*sides.values(), task=key)
        except AnswerkeyError as error:
            problem = error
            notices[f"`{key}` is not compared: {error.message}"] = None
            continue
        compared += comparison.tasks
        tasks.append(_find_tasks(key, sides))
        for notice in comparison.notices:
            notices[notice.message] = None
    if not compared:
        raise problem
    adjusted = adjust_pairs(compared)
    return list(zip(adjusted, tasks, strict=True)), list(notices)


def _find_tasks(key: str, runs: Runs) -> Tasks:
    """Return the task of each run with this key, or its only one."""
    tasks = {}
    for name, run in runs.items():
        only = next(iter(run.tasks.values()))
        tasks[name] = run.tasks.get(key, only)
    return tasks


def list_columns(runs: Runs, compared: Sequence[Compared]) -> list[Column]:
    """Return the tasks of the leaderboard: those that were compared, then all others."""
    columns: dict[str, dict[str, TaskRun]] = {}
    pairs: dict[str, dict[Order, PairComparison]] = {}
    listed = set()
    for task, tasks in compared:
        labels = [side.label for side in task.runs]
        ids = dict(zip(labels, tasks, strict=True))
        pairs[task.key] = {}
        for pair in task.pairs:
            order = ids[pair.first], ids[pair.second]
            pairs[task.key][order] = pair
        columns[task.key] = dict(tasks)
        for name, task_run in tasks.items():
            listed.add((name, task_run.key))
    for name, run in runs.items():
        for key, task_run in run.tasks.items():
            if (name, key) not in listed:
                columns.setdefault(key, {})[name] = task_run
    return [Column(key, tasks, pairs.get(key)) for key, tasks in columns.items()]


# ── the table


def build_leaderboard(
    runs: Runs,
    labels: Labels,
    columns: Sequence[Column],
) -> Leaderboard:
    """Return a row for each run with a cell for each task, the best first.

    With several tasks, all of them shares, a row has their plain mean as well.
    """
    ranks = [_rank_column(column) for column in columns]
    rows = []
    for name, run in runs.items():
        row = _build_row(
            name,
            run,
            labels[name],
            columns,
            ranks,
        )
        rows.append(row)
    tasks = []
    for number, column in enumerate(columns):
        cells = [row.cells[number] for row in rows]
        tasks.append(_build_heading(column, cells))
    if len(columns) > 1 and all(task.is_share for task in tasks):
        for number, row in enumerate(rows):
            mean = _average(row.cells)
            rows[number] = replace(row, mean=mean)
    rows.sort(key=_find_value, reverse=True)
    comparisons = 0
    for column in columns:
        comparisons += len(column.pairs or ())
    return Leaderboard(tasks, rows, comparisons)


def _build_heading(column: Column, cells: Iterable[BoardCell | None]) -> BoardTask:
    first = next(filter(None, cells), None)
    task = next(iter(column.tasks.values()))
    return BoardTask(
        key=column.key,
        name=task.manifest.get("display_name"),
        metric=first.metric if first else None,
        is_share=first.is_share if first else False,
        is_ranked=column.pairs is not None,
    )


def rank_ties(names: Sequence[str], shown: Iterable[Order]) -> dict[str, Rank]:
    """Return the first and the last rank of each, by the pairs of better and worse."""
    firsts = dict.fromkeys(names, 1)
    lasts = dict.fromkeys(names, len(names))
    for better, worse in set(shown):
        firsts[worse] += 1
        lasts[better] -= 1
    ranks = {}
    for name in names:
        ranks[name] = (firsts[name], lasts[name])
    return ranks


def _rank_column(column: Column) -> dict[str, Rank]:
    if column.pairs is None:
        return {}
    shown = []
    for (first, second), pair in column.pairs.items():
        if pair.is_significant():
            order = (second, first)
            if pair.difference.value > 0:
                order = (first, second)
            shown.append(order)
    return rank_ties(list(column.tasks), shown)


def _build_row(
    name: str,
    run: Run,
    label: str,
    columns: Sequence[Column],
    ranks: Sequence[Mapping[str, Rank]],
) -> BoardRow:
    cells = []
    for column, column_ranks in zip(columns, ranks, strict=True):
        cell = None
        if name in column.tasks:
            cell = _build_cell(
                name,
                run,
                column.tasks[name],
                column_ranks.get(name),
            )
        cells.append(cell)
    # A model that was called has a name that people know; recorded completions go by their run.
    models = {}
    calls: list[Entry] = []
    for task in run.tasks.values():
        calls += task.manifest.get("calls", {}).values()
        if find_answerer(task.manifest):
            models[name_answerer(task.manifest)] = True
    return BoardRow(
        name=", ".join(models) or label,
        runs=label if models else None,
        cells=cells,
        mean=None,
        prompt_tokens=_add_up(calls, "prompt_tokens"),
        completion_tokens=_add_up(calls, "completion_tokens"),
        cost=_add_up(calls, "cost"),
    )


def _add_up(calls: Sequence[Entry], name: str) -> Any:  # noqa: ANN401 - int or float
    """Return the total of a field of calls; None if it is unknown for some."""
    values = [counts[name] for counts in calls]
    return sum(values) if values and None not in values else None


def _build_cell(
    name: str,
    run: Run,
    task: TaskRun,
    rank: Rank | None,
) -> BoardCell:
    keys = list(run.tasks)
    cell = BoardCell(name, keys.index(task.key), rank=rank)
    metric = task.main_metric
    if metric is None:
        return cell
    cell = replace(
        cell,
        metric=label_metric(task, metric),
        n=metric.n,
        is_share=is_share(metric),
    )
    if run.status != "complete":
        return cell
    return replace(cell, value=metric.value, interval=metric.interval)


# ── the mean of several tasks
# Tasks are independent of each other: half-widths add up as squares.


def _average(cells: Sequence[BoardCell | None]) -> BoardMean | None:
    total = 0.0
    halves: list[float] = []
    for cell in cells:
        if cell is None or cell.value is None:
            return None
        total += cell.value
        if cell.interval is not None:
            low, high = cell.interval
            halves.append((high - low) / 2)
    value = total / len(cells)
    if len(halves) < len(cells):
        return BoardMean(value, None)
    half = math.hypot(*halves) / len(cells)
    low = max(0.0, value - half)
    high = min(1.0, value + half)
    return BoardMean(value, (low, high))


def _find_value(row: BoardRow) -> float:
    """Return the number by which rows are sorted: the mean of the tasks, or the first one."""
    for cell in (row.mean, *row.cells):
        if cell is not None and cell.value is not None:
            return cell.value
    return -math.inf


# ── on a terminal


def draw_leaderboard(runs: Sequence[Run], width: int) -> Lines:
    """Return one table, runs by tasks, the best first, in as many blocks as the width allows.

    A run that is not complete shows no number and has no rank.
    """
    labels = {}
    complete = {}
    heads: dict[str, None] = {}
    unfinished = []
    for number, run in enumerate(runs):
        entries = run.manifest["tasks"]
        label = name_answerer(entries[0])
        labels[str(number)] = label
        if run.status == "complete":
            complete[str(number)] = run
        else:
            unfinished.append((label, run.status))
            heads |= dict.fromkeys(entry["key"] for entry in entries)
    board, note = _rank_runs(complete, labels)
    if board.rows:
        heads = dict.fromkeys(task.key for task in board.tasks)
    if any(row.mean for row in board.rows):
        heads["mean"] = None
    rows = [_write_row(row) for row in board.rows]
    for label, status in unfinished:
        cells = [status] * len(heads)
        rows.append([label, *cells])
    lines: Lines = [Span("Comparison", "title")]
    lines += _draw_blocks(list(heads), rows, width)
    lines.append(BLANK)
    text = f"Each cell: the main metric (shares in %), its 95 % interval, rank. {note}"
    return lines + draw_text(text.rstrip(), width, role="dim")


def _write_row(row: BoardRow) -> list[str]:
    cells = [row.name]
    for cell in row.cells:
        is_share = cell is not None and cell.is_share
        cells.append(_format_cell(cell, is_share=is_share))
    if row.mean:
        cells.append(_format_cell(row.mean, is_share=True))
    return cells


def _rank_runs(
    runs: Runs,
    labels: Labels,
) -> tuple[Leaderboard, str]:
    """Return the table of runs, and a note about their ranks."""
    note = ""
    compared = list[Compared]()
    if len(runs) > 1:
        note = "Models share ranks unless their paired difference is shown (p < 0.05, corrected)."
        try:
            compared, _ = compare_tasks(runs)
        except AnswerkeyError as error:
            note = f"There are no ranks: {error.message}."
    columns = list_columns(runs, compared)
    return build_leaderboard(runs, labels, columns), note


def _draw_blocks(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
) -> Lines:
    """Return the columns in blocks that fit the width, each with the names of the models."""
    names = [row[0] for row in rows]
    texts = [*heads]
    for row in rows:
        texts += row[1:]
    widest = max(map(measure_width, texts))
    room = width - 4 - max(map(measure_width, names))
    size = max(1, room // (widest + 2))
    lines: Lines = []
    for start in range(0, len(heads), size):
        end = start + size
        header = ["model", *heads[start:end]]
        block = []
        for name, *cells in rows:
            block.append([name, *cells[start:end]])
        align = "~".ljust(len(header), ">")
        lines += [BLANK, *draw_table(header, block, align, width)]
    return lines


def _format_cell(cell: BoardCell | BoardMean | None, *, is_share: bool) -> str:
    """Return value, interval and rank of a model in a task."""
    if cell is None:
        return ""
    if cell.value is None:
        return "no value"
    texts = []
    for number in (cell.value, *(cell.interval or ())):
        text = f"{number:.4g}"
        if is_share:
            text = f"{100 * number:.1f}"
        texts.append(text)
    text = texts[0]
    if cell.interval:
        text += f" [{texts[1]}, {texts[2]}]"
    if isinstance(cell, BoardCell) and cell.rank:
        first, last = cell.rank
        text += f" {first}" if first == last else f" {first}-{last}"
    return text
