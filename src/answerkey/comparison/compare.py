"""Runs on the same samples, compared pair by pair; `describe_comparison` is what `compare --json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from string import ascii_uppercase
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
from answerkey.metrics.paired import CLUSTERED_TEST, EXACT_TEST, Difference, adjust_by_holm
from answerkey.runs import Run, TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Drawn,
    Line,
    Span,
    Table,
    draw_text,
    format_chance,
    format_count,
    format_figure,
    format_number,
    lay_out,
    line,
    make_visible,
)
from answerkey.types import Notice

SHOWN_FLIPS = 10
SHOWN_CATEGORIES = 60


def draw_pairs(
    comparison: Comparison, width: int, *, digits: int | None = None, flips: int = SHOWN_FLIPS
) -> list[Line]:
    """Return the whole comparison; `flips` is how many samples are named that only one run has right."""
    lines: list[Line] = []
    for task in comparison.tasks:
        drawing = _Drawing(task, width, digits)
        lines += [*([BLANK] if lines else []), *drawing.draw_head(comparison.baseline), BLANK]
        lines += [*drawing.draw_differences(len(comparison.pairs)), *drawing.draw_verdicts()]
        lines += drawing.draw_notes(len(comparison.pairs))
        for pair in task.pairs if flips else ():
            lines += [BLANK, *drawing.draw_flips(pair, flips)]
        if len(task.pairs) == 1 and task.pairs[0].categories:
            lines += [BLANK, *drawing.draw_categories(task.pairs[0])]
    return lines


def letter_runs(task: TaskComparison) -> Mapping[str, str]:
    """Return what stands for each run: letters, or numbers where there are too many runs."""
    names = ascii_uppercase if len(task.runs) <= len(ascii_uppercase) else map(str, range(len(task.runs)))
    return {run.label: letter for run, letter in zip(task.runs, names, strict=False)}


class _Drawing:
    """One task's comparison, with the letters that stand for its runs."""

    def __init__(self, task: TaskComparison, width: int, digits: int | None) -> None:
        self.task, self.width, self.digits = task, width, digits
        self.letters = letter_runs(task)
        self.names = [f"{self.letters[pair.first]} - {self.letters[pair.second]}" for pair in task.pairs]
        self.as_share = all(run.is_share for run in task.runs)
        self.in_points = self.as_share and digits is None

    def _points(self, value: float, *, is_signed: bool = False) -> str:
        """Return a difference in points of a percentage, or as it is with the digits asked for."""
        text = f"{100 * value:.2f}" if self.in_points else format_number(value, self.digits)
        return f"+{text}" if is_signed and value > 0 else text

    def _interval(self, ends: tuple[float, float] | None) -> str:
        return "" if ends is None else f"[{self._points(ends[0])}, {self._points(ends[1])}]"

    def _figure(self, value: float | None) -> str:
        return format_figure(value, as_share=self.as_share, digits=self.digits)

    def draw_head(self, baseline: str | None) -> list[Line]:
        task = self.task
        count = f"{len(task.runs)} runs on {format_count(task.samples, 'sample')}"
        rows = [
            (
                Span(self.letters[run.label], "strong"),
                make_visible(run.label) + (" (baseline)" if run.label == baseline else ""),
                make_visible(run.model),
                self._figure(run.mean),
                str(run.n),
            )
            for run in task.runs
        ]
        values = " / ".join(dict.fromkeys(run.value for run in task.runs))
        table = Table(("", "run", "model", make_visible(values), "n"), rows, "<<<>>", flexible=2)
        title = line(Span(make_visible(task.key), "title"), f"  {count}")
        return [title, BLANK, *lay_out(table, self.width)]

    def draw_differences(self, tests: int) -> list[Line]:
        rows: list[Sequence[Cell]] = []
        for name, pair in zip(self.names, self.task.pairs, strict=True):
            found, evidence = pair.difference, pair.difference.evidence
            rows.append(
                (
                    Span(name, "strong"),
                    Span(self._points(found.value, is_signed=True), "strong"),
                    self._interval(evidence.interval),
                    "" if evidence.std_error is None else self._points(evidence.std_error),
                    "" if found.flips is None else f"{found.flips.first_only}/{found.flips.second_only}",
                    format_chance(evidence.p),
                    format_chance(found.p_mid) if evidence.p_method == EXACT_TEST else "",
                    format_chance(pair.p_adjusted) if tests > 1 else "",
                )
            )
        unit = "points" if self.in_points else "value"
        header = ("", unit, "95 % interval", "SE", "flips", "p", "mid-p", "p (Holm)")
        return lay_out(Table(header, rows, "<>>>>>>>"), self.width)

    def draw_verdicts(self) -> list[Line]:
        """Return which differences stand, and which may be chance."""
        better, chance = [], []
        for name, pair in zip(self.names, self.task.pairs, strict=True):
            sides = (pair.first, pair.second) if pair.difference.value > 0 else (pair.second, pair.first)
            if pair.is_significant():
                better.append(" than ".join(self.letters[side] for side in sides))
            else:
                chance.append(name)
        texts = [f"better: {', '.join(better)}"] if better else []
        texts += [f"may be chance: {', '.join(chance)}"] if chance else []
        return [part for text in texts for part in draw_text(text, self.width)]

    def draw_notes(self, tests: int) -> list[Line]:
        """Return which tests were made, on which clusters, and what was left out."""
        task, differences = self.task, [pair.difference for pair in self.task.pairs]
        methods = {one.evidence.p_method for one in differences}
        notes = []
        if any(one.flips is not None for one in differences):
            notes.append("flips: samples that only the first / only the second has right")
        if methods == {EXACT_TEST}:
            notes.append("p: McNemar's exact test; mid-p: its mid-p form")
        elif CLUSTERED_TEST in methods:
            notes.append("p: t test over clusters (McNemar's would take samples as independent)")
        elif methods != {None}:
            notes.append("p: paired t test over samples")
        if tests > 1:
            notes.append(f"p (Holm): corrected for {tests} comparisons; it decides, below {ALPHA}")
        if task.cluster_by is not None:
            correction = "corrected by" if task.is_corrected else "without the correction"
            clusters = differences[0].evidence.clusters
            notes.append(f"clustered by {task.cluster_by}: {clusters} clusters, {correction} C/(C-1)")
        for name, pair in zip(self.names, task.pairs, strict=True):
            left_out = ", ".join(f"{reason} {count}" for reason, count in pair.left_out.items())
            notes += [f"{name}: left out: {left_out}"] if left_out else []
            note = pair.difference.evidence.interval_note
            notes += [f"{name}: no interval: {note}"] if note else []
        return [part for note in notes for part in draw_text(note, self.width, "dim")]

    def draw_flips(self, pair: PairComparison, flips: int) -> list[Line]:
        words = ("right", "not") if pair.difference.flips is not None else ("higher", "lower")
        sides = ((pair.first, pair.second, pair.first_only), (pair.second, pair.first, pair.second_only))
        lines: list[Line] = []
        for one, other, ids in sides:
            names = f"{self.letters[one]} {words[0]}, {self.letters[other]} {words[1]}"
            more = f" and {len(ids) - flips} more" if len(ids) > flips else ""
            shown = ", ".join(ids[:flips]) or "none"
            lines += draw_text(f"{names} ({len(ids)}): {shown}{more}", self.width)
        return lines

    def draw_categories(self, pair: PairComparison) -> list[Line]:
        found = pair.categories
        largest = sorted(found, key=lambda one: -one.difference.n)[:SHOWN_CATEGORIES]
        rows = [
            (
                make_visible(one.category),
                str(one.difference.n),
                self._figure(one.difference.first),
                self._figure(one.difference.second),
                self._points(one.difference.value, is_signed=True),
                self._interval(one.difference.evidence.interval),
            )
            for one in found
            if one in largest
        ]
        sides = (self.letters[pair.first], self.letters[pair.second])
        header = (f"By {make_visible(str(self.task.category))}", "n", *sides, " - ".join(sides))
        lines = lay_out(Table((*header, "95 % interval"), rows, "<>>>>>", flexible=0), self.width)
        left = len(found) - len(rows)
        lines += [line(f"  and {left} smaller ones; `--json` has them all")] if left else []
        note = "Intervals of single categories are not corrected for their number."
        return [*lines, line(Span(f"  {note}", "dim"))]


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

    drawn_by = "answerkey.comparison.compare:draw_pairs"

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
