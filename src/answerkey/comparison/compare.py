"""Runs on the same samples, compared pair by pair; `describe_comparison` is what `compare --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, TypedDict, Unpack

import polars as pl

from answerkey.errors import RunError
from answerkey.evaluate.pairs import (
    AnyRun,
    ComparedRun,
    Pairing,
    choose_tasks,
    label_runs,
    label_samples,
    pair_samples,
)
from answerkey.metrics.paired import Difference, adjust_by_holm
from answerkey.runs import Run, TaskRun
from answerkey.text import Drawn
from answerkey.types import Notice

#: A difference is called significant when chance gives one as large in fewer than so many cases.
ALPHA = 0.05


@dataclass(frozen=True)
class CategoryDifference:
    """The difference of two runs within one category."""

    category: str
    difference: Difference


@dataclass(frozen=True)
class PairComparison:
    """First minus second on the samples that both have a value for.

    `left_out` counts the other samples by reason. `p_adjusted` is corrected by Holm for the number of
    comparisons. `first_only` and `second_only` are the ids of the samples that only one of them has right; of
    values other than 0 and 1, those on which it is higher.
    """

    first: str
    second: str
    difference: Difference
    left_out: Mapping[str, int]
    first_only: tuple[str, ...]
    second_only: tuple[str, ...]
    categories: tuple[CategoryDifference, ...] = ()
    p_adjusted: float | None = None

    def is_significant(self, alpha: float = ALPHA) -> bool:
        """Whether chance alone would rarely give such a difference, all comparisons considered."""
        return self.p_adjusted is not None and self.p_adjusted < alpha


@dataclass(frozen=True)
class TaskComparison:
    """All pairs of one task; `category` and `cluster_by` are the columns in use."""

    key: str
    runs: tuple[ComparedRun, ...]
    pairs: tuple[PairComparison, ...]
    samples: int
    category: str | None = None
    cluster_by: str | None = None
    is_corrected: bool = True


@dataclass(frozen=True)
class Comparison(Drawn):
    """Several runs compared; `baseline` is the label of the run that all others are held against."""

    drawn_by = "answerkey.comparison.text:draw_pairs"

    tasks: tuple[TaskComparison, ...]
    baseline: str | None = None
    notices: tuple[Notice, ...] = ()

    @property
    def pairs(self) -> list[PairComparison]:
        """The pairs of all tasks."""
        return [pair for task in self.tasks for pair in task.pairs]

    def find_regressions(self, alpha: float = ALPHA) -> list[PairComparison]:
        """Return the pairs whose first run is significantly worse than the second, the baseline."""
        return [pair for pair in self.pairs if pair.is_significant(alpha) and pair.difference.value < 0]


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


def compare(*runs: AnyRun, baseline: AnyRun | None = None, **options: Unpack[CompareOptions]) -> Comparison:
    """Compare runs on the same samples: every pair, or each run with the baseline.

    Samples are matched by id, and their truths must be the same; RunError E508 where a comparison would mean
    nothing.
    """
    labelled = label_runs(runs, baseline)
    notices: list[Notice] = []
    chosen = choose_tasks(labelled, options.get("task"), notices)
    against = None if baseline is None else list(labelled)[-1]
    compared = []
    for key, tasks in chosen.items():
        pairing = pair_samples(
            tasks,
            notices,
            scorer=options.get("scorer"),
            value=options.get("value"),
            cluster_by=options.get("cluster_by"),
            is_corrected=options.get("is_corrected", True),
            common=options.get("common", False),
        )
        pairing, category = _add_categories(pairing, options.get("by"), notices)
        compared.append(_compare_pairs(key, pairing, category=category, baseline=against))
    return Comparison(_adjust(*compared), against, tuple(dict.fromkeys(notices)))


def compare_task_runs(key: str, tasks: Mapping[str, tuple[Run, TaskRun]]) -> TaskComparison:
    """Compare tasks that lie anywhere, by their labels: every pair, p-values corrected for their number."""
    pairing, category = _add_categories(pair_samples(tasks, []), None, [])
    return _adjust(_compare_pairs(key, pairing, category=category))[0]


def _adjust(*tasks: TaskComparison) -> tuple[TaskComparison, ...]:
    """Return the comparisons with their p-values corrected for the number of all of them."""
    chances = [pair.difference.evidence.p for task in tasks for pair in task.pairs]
    adjusted = iter(adjust_by_holm(chances))
    return tuple(
        replace(task, pairs=tuple(replace(pair, p_adjusted=next(adjusted)) for pair in task.pairs))
        for task in tasks
    )


def _add_categories(pairing: Pairing, by: str | None, notices: list[Notice]) -> tuple[Pairing, str | None]:
    """Return the samples with a column `category`, and what it is called in the dataset of the first run.

    Without a column that is asked for, samples have none where their dataset is gone.
    """
    first = pairing.outcomes[0]
    category = by or (first.task_run.manifest.get("dataset") or {}).get("category")
    if category is None:
        return pairing, None
    try:
        labels = label_samples(first, category).rename({"label": "category"})
    except RunError as error:
        if by is not None:
            raise
        notices.append(Notice(f"no table by {category}: {error.message}"))
        return pairing, None
    table = pairing.table.join(labels, on="sample_id", how="left", maintain_order="left")
    return replace(pairing, table=table), category


def _compare_pairs(
    key: str, pairing: Pairing, *, category: str | None, baseline: str | None = None
) -> TaskComparison:
    runs = pairing.runs
    pairs = [
        _compare_pair(pairing, first.label, second.label)
        for first, second in combinations(runs, 2)
        if baseline in {None, second.label}
    ]
    return TaskComparison(
        key, runs, tuple(pairs), pairing.table.height, category, pairing.cluster_by, pairing.is_corrected
    )


def _compare_pair(pairing: Pairing, first: str, second: str) -> PairComparison:
    both = pairing.pair_up(first, second)
    # A sample without a value is counted by the reason of the first run, else of the second.
    reasons = [pl.col(f"reason {label}") + pl.lit(f" in {label}") for label in (first, second)]
    left_out = pairing.table.select(pl.coalesce(reasons).alias("reason")).drop_nulls()
    categories = []
    for part in both.sort("category").partition_by("category") if "category" in both.columns else ():
        # One cluster says nothing of how clusters differ.
        is_one = "cluster" in part.columns and part["cluster"].n_unique() == 1
        found = pairing.measure(part.drop("cluster") if is_one else part)
        categories.append(CategoryDifference(part["category"][0], found))
    return PairComparison(
        first=first,
        second=second,
        difference=pairing.measure(both),
        left_out=dict(left_out.group_by("reason").len().sort("reason").iter_rows()),
        first_only=tuple(both.filter(pl.col("first") > pl.col("second"))["sample_id"]),
        second_only=tuple(both.filter(pl.col("first") < pl.col("second"))["sample_id"]),
        categories=tuple(categories),
    )


# As plain values -------------------------------------------------------------------------------------------


def describe_comparison(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison with every pair, every flipped sample and every category."""
    return {
        "comparison": {
            "baseline": comparison.baseline,
            "alpha": ALPHA,
            "comparisons": len(comparison.pairs),
            "tasks": [describe_task_comparison(task) for task in comparison.tasks],
        },
        "notices": [str(notice) for notice in comparison.notices],
    }


def describe_task_comparison(task: TaskComparison) -> dict[str, Any]:
    """Return one task's comparison with every pair."""
    return {
        "key": task.key,
        "samples": task.samples,
        "category": task.category,
        "cluster_by": task.cluster_by,
        "cluster_correction": task.is_corrected if task.cluster_by else None,
        "runs": [asdict(run) for run in task.runs],
        "pairs": [
            {
                "first": pair.first,
                "second": pair.second,
                **_describe_difference(pair.difference),
                "p_adjusted": pair.p_adjusted,
                "is_significant": pair.is_significant(),
                "left_out": dict(pair.left_out),
                "first_only": list(pair.first_only),
                "second_only": list(pair.second_only),
                "categories": [
                    {"category": one.category, **_describe_difference(one.difference)}
                    for one in pair.categories
                ],
            }
            for pair in task.pairs
        ],
    }


def _describe_difference(found: Difference) -> dict[str, Any]:
    evidence = found.evidence
    described: dict[str, Any] = {
        "n": found.n,
        "first_value": found.first,
        "second_value": found.second,
        "difference": found.value,
        "std_error": evidence.std_error,
        "interval": evidence.interval,
        "interval_method": evidence.interval_method,
        "flips": None if found.flips is None else asdict(found.flips),
        "p": evidence.p,
        "p_method": evidence.p_method,
        "p_exact": found.p_exact,
        "p_mid": found.p_mid,
    }
    described |= {"interval_note": evidence.interval_note} if evidence.interval_note else {}
    return described | ({} if evidence.clusters is None else {"clusters": evidence.clusters})
