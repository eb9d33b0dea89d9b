"""Runs on the same samples, compared pair by pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypedDict, Unpack

import polars as pl

from answerkey.errors import RunError
from answerkey.metrics.exact import UNIT_BITS, divide, sum_exactly
from answerkey.metrics.paired import Pair, adjust_by_holm, measure_difference
from answerkey.runs import Run, RunPlace, TaskRun, load_run, name_answerer
from answerkey.types import Notice
from answerkey.verbs.aligning import (
    choose_tasks,
    find_category_column,
    find_cluster_column,
    is_same_run,
    label_samples,
    name_runs,
    require_alike,
    require_complete,
    require_several,
)
from answerkey.verbs.comparisons import (
    CategoryDifference,
    ComparedRun,
    Comparison,
    PairComparison,
    TaskComparison,
)
from answerkey.verbs.pairing import Outcomes, read_outcomes

_NEAR = 1e-9


class CompareOptions(TypedDict, total=False):
    """What to compare, and how.

    `task`, `scorer` and `value` name what is compared, where it is not the main one. `by` is the column of
    the categories, `cluster_by` that of samples that belong together, with the correction C/(C-1) unless
    `is_corrected` is false. With `common`, samples that not all runs have are left out.
    """

    task: str | None
    scorer: str | None
    value: str | None
    by: str | None
    cluster_by: str | None
    is_corrected: bool
    common: bool


def compare(
    *runs: Run | str | RunPlace,
    baseline: Run | str | RunPlace | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Compare runs on the same samples: every pair, or each run with the baseline.

    Samples are matched by id, and their truths must be the same; RunError E508 where a comparison would mean
    nothing.
    """
    found = [_open(one) for one in runs]
    if baseline is not None:
        base = _open(baseline)
        found = [*(one for one in found if not is_same_run(one, base)), base]
    require_several(found)
    labelled = dict(zip(name_runs(found), found, strict=True))
    require_complete(labelled)
    notices: list[Notice] = []
    chosen = choose_tasks(labelled, options.get("task"), notices)
    base_label = None if baseline is None else list(labelled)[-1]
    tasks = [
        _compare_task(key, labelled, tasks, base_label, options, notices) for key, tasks in chosen.items()
    ]
    return Comparison(_adjust(tasks), base_label, tuple(dict.fromkeys(notices)))


def compare_task_runs(key: str, tasks: Mapping[str, tuple[Run, TaskRun]]) -> Comparison:
    """Compare tasks that lie anywhere, by their labels: every pair, p-values corrected for their number."""
    runs = {label: run for label, (run, _) in tasks.items()}
    found = {label: task for label, (_, task) in tasks.items()}
    return Comparison(_adjust([_compare_task(key, runs, found, None, {}, [])]))


def _open(run: Run | str | RunPlace) -> Run:
    return run if isinstance(run, Run) else load_run(run)


def _adjust(tasks: Sequence[TaskComparison]) -> tuple[TaskComparison, ...]:
    """Return the comparisons with their p-values corrected for the number of all of them."""
    chances = [pair.difference.evidence.p for task in tasks for pair in task.pairs]
    adjusted = iter(adjust_by_holm(chances))
    return tuple(
        replace(task, pairs=tuple(replace(pair, p_adjusted=next(adjusted)) for pair in task.pairs))
        for task in tasks
    )


def _compare_task(
    key: str,
    runs: Mapping[str, Run],
    tasks: Mapping[str, TaskRun],
    baseline: str | None,
    options: CompareOptions,
    notices: list[Notice],
) -> TaskComparison:
    outcomes = [
        read_outcomes(runs[label], one, label=label, scorer=options.get("scorer"), value=options.get("value"))
        for label, one in tasks.items()
    ]
    require_alike(outcomes, common=options.get("common", False), notices=notices)
    cluster_by = options.get("cluster_by") or find_cluster_column(outcomes)
    category, labels = _read_labels(outcomes[0], options.get("by"), cluster_by, notices)
    table = _join(outcomes, labels)
    is_corrected = options.get("is_corrected", True)
    pairs = [
        _compare_pair(table, first.label, second.label, is_corrected=is_corrected)
        for first, second in combinations(outcomes, 2)
        if baseline in {None, second.label}
    ]
    return TaskComparison(
        key=key,
        runs=tuple(_describe(one, table) for one in outcomes),
        pairs=tuple(pairs),
        samples=table.height,
        category=category,
        cluster_by=cluster_by,
        is_corrected=is_corrected,
    )


def _describe(one: Outcomes, table: pl.DataFrame) -> ComparedRun:
    counts = table.group_by(pl.col(f"value {one.label}").alias("value")).len().drop_nulls().rows()
    total, _ = sum_exactly(counts)
    n = sum(count for _, count in counts)
    return ComparedRun(
        label=one.label,
        path=None if one.run.path is None else str(one.run.path),
        model=name_answerer(one.task_run.manifest),
        scorer=one.scorer,
        value=one.value,
        mean=divide(total, n << UNIT_BITS) if n else None,
        n=n,
        is_share=_is_share([value for value, _ in counts], one.num_trials),
    )


def _is_share(values: Sequence[float], num_trials: int) -> bool:
    """Return whether the values are right or wrong, or could be the mean of so many that are."""
    counts = [value * num_trials for value in values]
    return all(0 <= count <= num_trials and abs(count - round(count)) < _NEAR for count in counts)


def _read_labels(
    outcomes: Outcomes, by: str | None, cluster_by: str | None, notices: list[Notice]
) -> tuple[str | None, pl.DataFrame]:
    """Return the category column, and a table of `sample_id`, `category` and `cluster`, where there are."""
    table = outcomes.table.select("sample_id")
    category = by or find_category_column(outcomes)
    if category is not None:
        try:
            found = label_samples(outcomes, category).rename({"label": "category"})
            table = table.join(found, on="sample_id", how="left", maintain_order="left")
        except RunError as error:
            if by is not None:
                raise
            notices.append(Notice(f"no table by {category}: {error.message}"))
            category = None
    if cluster_by is not None:
        clusters = label_samples(outcomes, cluster_by, as_clusters=True).rename({"label": "cluster"})
        table = table.join(clusters, on="sample_id", how="left", maintain_order="left")
    return category, table


def _join(outcomes: Sequence[Outcomes], labels: pl.DataFrame) -> pl.DataFrame:
    """Return the samples that all runs have, with `value <label>` and `reason <label>` of each."""
    table = labels
    for one in outcomes:
        own = one.table.select(
            "sample_id",
            pl.col("value").alias(f"value {one.label}"),
            pl.col("reason").alias(f"reason {one.label}"),
        )
        table = table.join(own, on="sample_id", how="inner", maintain_order="left")
    return table


def _compare_pair(table: pl.DataFrame, first: str, second: str, *, is_corrected: bool) -> PairComparison:
    columns = {f"value {first}": "first", f"value {second}": "second"}
    both = table.rename(columns).filter(pl.col("first").is_not_null() & pl.col("second").is_not_null())
    clusters = _count_by(both, "cluster") if "cluster" in both.columns else None
    difference = measure_difference(_count(both), clusters, is_corrected=is_corrected)
    if difference is None:
        message = f"`{first}` and `{second}` have no sample that both have a value for"
        raise RunError("E508", message, hint="`answerkey show` says why samples have none")
    return PairComparison(
        first=first,
        second=second,
        difference=difference,
        left_out=_count_left_out(table, first, second),
        first_only=tuple(both.filter(pl.col("first") > pl.col("second"))["sample_id"]),
        second_only=tuple(both.filter(pl.col("first") < pl.col("second"))["sample_id"]),
        categories=_compare_categories(both, is_corrected=is_corrected),
    )


def _count(both: pl.DataFrame) -> list[Pair]:
    return both.group_by("first", "second").len().rows()


def _count_by(both: pl.DataFrame, column: str) -> dict[str, list[Pair]]:
    """Return the pairs by the values of a column, in the order of their text."""
    found: dict[str, list[Pair]] = {}
    for label, one, other, count in both.group_by(column, "first", "second").len().sort(column).iter_rows():
        found.setdefault(label, []).append((one, other, count))
    return found


def _count_left_out(table: pl.DataFrame, first: str, second: str) -> dict[str, int]:
    """Return how many samples a run has no value for, by the reason of the first, else of the second."""
    reasons = [pl.col(f"reason {label}") + pl.lit(f" in {label}") for label in (first, second)]
    groups = table.select(pl.coalesce(reasons).alias("reason")).drop_nulls().group_by("reason").len()
    return dict(groups.sort("reason").iter_rows())


def _compare_categories(both: pl.DataFrame, *, is_corrected: bool) -> tuple[CategoryDifference, ...]:
    if "category" not in both.columns:
        return ()
    found = []
    for label, pairs in _count_by(both, "category").items():
        rows = both.filter(category=label) if "cluster" in both.columns else None
        clusters = None if rows is None or rows["cluster"].n_unique() == 1 else _count_by(rows, "cluster")
        difference = measure_difference(pairs, clusters, is_corrected=is_corrected)
        if difference is not None:
            found.append(CategoryDifference(label, difference))
    return tuple(found)
