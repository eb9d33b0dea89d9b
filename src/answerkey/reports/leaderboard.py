"""Many runs as one table: models by tasks, each number with its interval, and ranks with ties.

A rank is a range such as 1 to 2. It begins after the models that are shown to be better and ends
before those that are shown to be worse, so that models whose paired difference is not shown share
ranks. Shown means p < 0.05 in the paired test, corrected by Holm for the number of comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import polars as pl

from answerkey.comparison.compare import (
    ALPHA,
    PairComparison,
    TaskComparison,
    adjust_pairs,
    compare,
)
from answerkey.errors import AnswerkeyError, RunError
from answerkey.metrics.paired import adjust_by_holm
from answerkey.reports.view import Interval, label_metric
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

#: The tasks that are compared, by the ids of their runs.
Tasks = Mapping[str, TaskRun]
#: The better and the worse of two runs, by their ids.
Order = tuple[str, str]
#: The first and the last rank that a model may have.
Rank = tuple[int, int]
#: Completions are read in chunks of this size to count their tokens.
CHUNK_ROWS = 131_072


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
    metric: str | None
    value: float | None
    interval: Interval | None
    n: int | None
    is_share: bool
    rank: Rank | None


@dataclass(frozen=True, slots=True)
class BoardMean:
    """The plain mean of a model's tasks."""

    value: float
    interval: Interval | None
    rank: Rank | None = None


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One model: its numbers, and what they took."""

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


def compare_tasks(
    runs: Mapping[str, Run], baseline: str | None = None, *, common: bool = False
) -> tuple[list[tuple[TaskComparison, Tasks]], list[str]]:
    """Return each compared task with the tasks of the runs that have it, and notices.

    If not all runs have the same tasks, each task is compared between the runs that have it.
    """
    keys = dict.fromkeys(key for run in runs.values() for key in run.tasks)
    candidates = [run for name, run in runs.items() if name != baseline]
    against = None if baseline is None else runs[baseline]
    try:
        comparison = compare(*candidates, baseline=against, common=common)
    except AnswerkeyError:
        if baseline is not None or len(keys) == 1:
            raise
        return _compare_each(runs, keys, common=common)
    is_whole = len(comparison.tasks) == len(keys)
    if baseline is None and not is_whole and any(len(run.tasks) > 1 for run in runs.values()):
        return _compare_each(runs, keys, common=common)
    compared = [(task, _find_tasks(task.key, runs)) for task in comparison.tasks]
    return compared, [notice.message for notice in comparison.notices]


def _compare_each(
    runs: Mapping[str, Run], keys: Iterable[str], *, common: bool
) -> tuple[list[tuple[TaskComparison, Tasks]], list[str]]:
    """Compare each task between the runs that have it."""
    compared: list[TaskComparison] = []
    tasks: list[Tasks] = []
    notices: list[str] = []
    problem: AnswerkeyError = RunError(
        "E508", "no two runs have a task in common", hint="compare runs of one task"
    )
    for key in keys:
        having = {name: run for name, run in runs.items() if key in run.tasks}
        if len(having) == 1:
            continue
        try:
            comparison = compare(*having.values(), task=key, common=common)
        except AnswerkeyError as error:
            problem = error
            notices.append(f"`{key}` is not compared: {error.message}")
            continue
        for task in comparison.tasks:
            compared.append(task)
            tasks.append(_find_tasks(key, having))
        notices += [notice.message for notice in comparison.notices]
    if not compared:
        raise problem
    adjusted = adjust_pairs(compared)
    return list(zip(adjusted, tasks, strict=True)), list(dict.fromkeys(notices))


def _find_tasks(key: str, runs: Mapping[str, Run]) -> Tasks:
    """Return the task of each run with this key, or its only one."""
    tasks = {}
    for name, run in runs.items():
        tasks[name] = run.tasks.get(key) or next(iter(run.tasks.values()))
    return tasks


def list_columns(
    runs: Mapping[str, Run], compared: Sequence[tuple[TaskComparison, Tasks]], *, is_ranked: bool
) -> list[Column]:
    """Return the tasks of the leaderboard: those that were compared, then all others."""
    columns = []
    listed: set[tuple[str, str]] = set()
    for task, tasks in compared:
        ids = dict(zip((side.label for side in task.runs), tasks, strict=True))
        pairs = {(ids[pair.first], ids[pair.second]): pair for pair in task.pairs}
        columns.append(Column(task.key, tasks, pairs if is_ranked else None))
        listed.update((name, own.key) for name, own in tasks.items())
    uncompared: dict[str, dict[str, TaskRun]] = {}
    for name, run in runs.items():
        for key in run.tasks:
            if (name, key) not in listed:
                uncompared.setdefault(key, {})
    for key in uncompared:
        tasks = {name: run.tasks[key] for name, run in runs.items() if key in run.tasks}
        columns.append(Column(key, tasks, None))
    return columns


# ── the table


def build_leaderboard(
    runs: Mapping[str, Run], labels: Mapping[str, str], columns: Sequence[Column]
) -> Leaderboard:
    """Return a row for each model with a cell for each task, the best first.

    Runs of one model are one row, unless two of them have the same task. With several tasks, all of
    them shares, a row has their plain mean as well.
    """
    ranks = [_rank_column(column) for column in columns]
    rows = []
    for names in _group_runs(runs, columns):
        rows.append(_build_row(names, runs, labels, columns, ranks))
    tasks = []
    for number, column in enumerate(columns):
        cells = [row.cells[number] for row in rows]
        first = next(filter(None, cells), None)
        name = next(iter(column.tasks.values())).manifest.get("display_name")
        metric, as_share = None, False
        if first is not None:
            metric, as_share = first.metric, first.is_share
        tasks.append(BoardTask(column.key, name, metric, as_share, column.pairs is not None))
    if len(columns) > 1 and all(task.is_share for task in tasks):
        rows = _add_means(rows, columns)
    rows.sort(key=_find_value, reverse=True)
    comparisons = sum(len(column.pairs or ()) for column in columns)
    return Leaderboard(tasks, rows, comparisons)


def rank_ties(names: Sequence[str], shown: Iterable[Order]) -> dict[str, Rank]:
    """Return the first and the last rank of each, by the pairs of better and worse."""
    pairs = set(shown)
    ranks = {}
    for name in names:
        better = sum(worse == name for _, worse in pairs)
        worse = sum(winner == name for winner, _ in pairs)
        ranks[name] = 1 + better, len(names) - worse
    return ranks


def _rank_column(column: Column) -> dict[str, Rank]:
    if column.pairs is None:
        return {}
    shown = []
    for (first, second), pair in column.pairs.items():
        if pair.is_significant():
            is_better = pair.difference.value > 0
            shown.append((first, second) if is_better else (second, first))
    return rank_ties(list(column.tasks), shown)


def _group_runs(runs: Mapping[str, Run], columns: Sequence[Column]) -> list[list[str]]:
    """Return the ids of the runs of each row."""
    by_model: dict[str, list[str]] = {}
    for name, run in runs.items():
        models = {name_answerer(task.manifest) for task in run.tasks.values()}
        model = models.pop() if len(models) == 1 else name
        by_model.setdefault(model, []).append(name)
    groups = []
    for names in by_model.values():
        if any(len(set(names) & set(column.tasks)) > 1 for column in columns):
            groups += [[name] for name in names]
        else:
            groups.append(names)
    return groups


def _build_row(
    names: Sequence[str],
    runs: Mapping[str, Run],
    labels: Mapping[str, str],
    columns: Sequence[Column],
    ranks: Sequence[Mapping[str, Rank]],
) -> BoardRow:
    cells = []
    for column, column_ranks in zip(columns, ranks, strict=True):
        name = next((name for name in names if name in column.tasks), None)
        cell = None
        if name is not None:
            cell = _build_cell(name, runs[name], column.tasks[name], column_ranks.get(name))
        cells.append(cell)
    # A model that was called has a name that people know; recorded completions go by their run.
    models = {}
    costs: list[float | None] = []
    prompt = completion = None
    for task in (task for name in names for task in runs[name].tasks.values()):
        if find_answerer(task.manifest):
            models[name_answerer(task.manifest)] = True
        for calls in (task.manifest.get("calls") or {}).values():
            costs.append(calls["cost"])
        if (tokens := _count_tokens(task)) is not None:
            prompt = (prompt or 0) + tokens[0]
            completion = (completion or 0) + tokens[1]
    label = ", ".join(labels[name] for name in names)
    cost = None
    if costs and None not in costs:
        cost = sum(filter(None, costs))
    return BoardRow(
        name=", ".join(models) or label,
        runs=label if models else None,
        cells=cells,
        mean=None,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cost=cost,
    )


def _build_cell(name: str, run: Run, task: TaskRun, rank: Rank | None) -> BoardCell:
    number, metric = list(run.tasks).index(task.key), task.main_metric
    if metric is None:
        return BoardCell(name, number, None, None, None, None, is_share=False, rank=rank)
    value, interval = metric.value, metric.interval
    if run.status != "complete":
        value = interval = None
    label = label_metric(task, metric)
    return BoardCell(name, number, label, value, interval, metric.n, is_share(metric), rank)


def _count_tokens(task: TaskRun) -> tuple[int, int] | None:
    """Return the tokens of prompts and of completions, those from the cache as well."""
    stored, prompt, completion = task.stored_completions, 0, 0
    is_known = False
    for offset in range(0, len(stored), CHUNK_ROWS):
        usage = stored.read(offset, CHUNK_ROWS, ("usage",))["usage"]
        if isinstance(usage.dtype, pl.Struct):
            counts = usage.struct.unnest().select("prompt_tokens", "completion_tokens")
            is_known = is_known or any(counts.count().row(0))
            prompt += int(counts["prompt_tokens"].sum())
            completion += int(counts["completion_tokens"].sum())
    return (prompt, completion) if is_known else None


# ── the mean of several tasks
# Tasks are independent of each other: half-widths, and errors of paired differences, add up as
# squares.


def _add_means(rows: Sequence[BoardRow], columns: Sequence[Column]) -> list[BoardRow]:
    """Return the rows; those that have all tasks with their mean, its interval and its rank."""
    means = [_average(row.cells) for row in rows]
    if None not in means and all(column.pairs is not None for column in columns):
        numbers = [str(number) for number in range(len(rows))]
        ranks = rank_ties(numbers, _order_means(rows, columns))
        means = [
            mean and replace(mean, rank=ranks[number])
            for number, mean in zip(numbers, means, strict=True)
        ]
    return [replace(row, mean=mean) for row, mean in zip(rows, means, strict=True)]


def _average(cells: Sequence[BoardCell | None]) -> BoardMean | None:
    total, squares = 0.0, 0.0
    has_interval = True
    for cell in cells:
        if cell is None or cell.value is None:
            return None
        total += cell.value
        if cell.interval is None:
            has_interval = False
        else:
            low, high = cell.interval
            squares += ((high - low) / 2) ** 2
    value, half = total / len(cells), math.sqrt(squares) / len(cells)
    if not has_interval:
        return BoardMean(value, None)
    return BoardMean(value, (max(0.0, value - half), min(1.0, value + half)))


def _order_means(rows: Sequence[BoardRow], columns: Sequence[Column]) -> list[Order]:
    """Return the pairs of rows, by their numbers, in which one is shown to be better."""
    orders, chances = [], []
    for first, second in combinations(range(len(rows)), 2):
        total, squares = 0.0, 0.0
        for column, cell, rival in zip(columns, rows[first].cells, rows[second].cells, strict=True):
            if cell is not None and rival is not None:
                value, error = _find_difference(column, (cell.run, rival.run))
                total += value
                squares += math.nan if error is None else error**2
        orders.append((str(first), str(second)) if total > 0 else (str(second), str(first)))
        error = math.sqrt(squares)
        chance = None
        if error > 0:  # both tails of the normal distribution
            chance = math.erfc(abs(total) / error / math.sqrt(2))
        chances.append(chance)
    shown = []
    for order, chance in zip(orders, adjust_by_holm(chances), strict=True):
        if chance is not None and chance < ALPHA:
            shown.append(order)
    return shown


def _find_difference(column: Column, ids: Order) -> tuple[float, float | None]:
    """Return first minus second of one task, and its standard error."""
    pairs = column.pairs or {}
    sign = 1 if ids in pairs else -1
    difference = pairs[ids if ids in pairs else ids[::-1]].difference
    return sign * difference.value, difference.evidence.std_error


def _find_value(row: BoardRow) -> float:
    """Return what rows are sorted by: the mean of the tasks, or the first number there is."""
    for cell in (row.mean, *row.cells):
        if cell is not None and cell.value is not None:
            return cell.value
    return -math.inf


# ── on a terminal


def draw_leaderboard(runs: Sequence[Run], width: int) -> list[Line]:
    """Return one table, models by tasks, the best first, in as many blocks as the width allows.

    A run that is not complete shows no number and has no rank.
    """
    named = {str(number): run for number, run in enumerate(runs)}
    complete = {name: run for name, run in named.items() if run.status == "complete"}
    names = {name: name_answerer(run.manifest["tasks"][0]) for name, run in named.items()}
    note, compared = "", list[tuple[TaskComparison, Tasks]]()
    if len(complete) > 1:
        try:
            compared = compare_tasks(complete)[0]
            note = (
                " Models share ranks unless their difference on the same samples is shown"
                " (p < 0.05, corrected)."
            )
        except AnswerkeyError as error:
            note = f" There are no ranks: {error.message}."
    columns = list_columns(complete or named, compared, is_ranked=True)
    board = build_leaderboard(complete, names, columns)
    heads = [task.key for task in board.tasks]
    if not heads:
        heads = list(dict.fromkeys(entry["key"] for run in runs for entry in run.manifest["tasks"]))
    has_means = any(row.mean for row in board.rows)
    if has_means:
        heads.append("mean")
    rows = []
    for row in board.rows:
        cells = [_say_cell(cell, is_share=cell is None or cell.is_share) for cell in row.cells]
        if has_means:
            cells.append(_say_cell(row.mean, is_share=True))
        rows.append([row.name, *cells])
    for name, run in named.items():
        if name not in complete:
            rows.append([names[name], *[run.status] * len(heads)])
    lines = [line(Span("Comparison", "title")), *_draw_blocks(heads, rows, width)]
    metrics = {}
    for task in board.tasks:
        unit = " in %" if task.is_share else ""
        metrics[f"{task.metric or 'value'}{unit}"] = True
    text = f"Each cell: {' or '.join(metrics) or 'value'}, its 95 % interval, rank.{note}"
    return [*lines, BLANK, *draw_text(text, width, role="dim")]


def _draw_blocks(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[Line]:
    """Return the columns in blocks that fit the width, each with the names of the models."""
    widest = max(map(measure_width, heads))
    for row in rows:
        widest = max(widest, *map(measure_width, row[1:]))
    room = width - 4 - max(measure_width(row[0]) for row in rows)
    size = max(1, room // (widest + 2))
    lines: list[Line] = []
    for offset in range(0, len(heads), size):
        header = ["model", *heads[offset : offset + size]]
        block = [[row[0], *row[1 + offset : 1 + offset + size]] for row in rows]
        align = "<" + ">" * (len(header) - 1)
        lines += [BLANK, *lay_out(Table(header, block, align, flexible=0), width)]
    return lines


def _say_cell(cell: BoardCell | BoardMean | None, *, is_share: bool) -> str:
    """Return value, interval and rank of a model in a task."""
    if cell is None:
        return ""
    if cell.value is None:
        return "no value"
    texts = []
    for number in (cell.value, *(cell.interval or ())):
        texts.append(f"{100 * number:.1f}" if is_share else f"{number:.4g}")
    text = texts[0]
    if cell.interval:
        text += f" [{texts[1]}, {texts[2]}]"
    if cell.rank:
        first, last = cell.rank
        text += f" {first}" if first == last else f" {first}-{last}"
    return text
