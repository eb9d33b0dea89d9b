"""Runs, or variants of a prompt, on the same samples, compared pair by pair.

`describe_comparison` is what `compare --json` prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from statistics import median
from string import ascii_uppercase
from typing import Any

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
from answerkey.metrics import compare_repetitions
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
    join_blocks,
    lay_out,
    line,
)
from answerkey.types import Notice

SHOWN_FLIPS, SHOWN_CATEGORIES = 10, 60


#: A difference is called significant when chance gives one as large in fewer than so many cases.
ALPHA = 0.05


@dataclass(frozen=True)
class PairComparison:
    """First minus second on the samples that both have a value for.

    `left_out` counts the other samples by reason. `p_adjusted` is corrected by Holm for the number
    of comparisons. `first_only` and `second_only` are the ids of the samples that only one of them
    has right; of values other than 0 and 1, those on which it is higher.
    """

    first: str
    second: str
    difference: Difference
    left_out: Mapping[str, int]
    first_only: tuple[str, ...]
    second_only: tuple[str, ...]
    categories: Mapping[str, Difference] = field(default_factory=dict)
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
    """Several runs compared.

    `baseline` is the label of the run that all others are held against.
    """

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
        return [
            pair for pair in self.pairs if pair.is_significant(alpha) and pair.difference.value < 0
        ]


def compare(  # noqa: PLR0913 - each is an option of the command
    *runs: AnyRun,
    baseline: AnyRun | None = None,
    task: str | None = None,
    scorer: str | None = None,
    value: str | None = None,
    by: str | None = None,
    cluster_by: str | None = None,
    is_corrected: bool = True,
    common: bool = False,
) -> Comparison:
    """Compare runs on the same samples: every pair, or each run with the baseline.

    Samples are matched by id, and their truths must be the same; RunError E508 where a comparison
    would mean nothing. `task`, `scorer` and `value` name what is compared, where it is not the main
    one. `by` is the column of the categories, `cluster_by` that of samples that belong together,
    with the correction C/(C-1) unless `is_corrected` is false. With `common`, samples that not all
    runs have are left out.
    """
    labelled = label_runs(runs, baseline)
    notices: list[Notice] = []
    against = None if baseline is None else list(labelled)[-1]
    compared = []
    for key, tasks in choose_tasks(labelled, task, notices).items():
        pairing = pair_samples(
            tasks,
            notices,
            scorer=scorer,
            value=value,
            cluster_by=cluster_by,
            is_corrected=is_corrected,
            common=common,
        )
        compared.append(_compare_pairs(key, pairing, notices, by=by, baseline=against))
    return Comparison(adjust_pairs(compared), against, tuple(dict.fromkeys(notices)))


def adjust_pairs(tasks: Sequence[TaskComparison]) -> tuple[TaskComparison, ...]:
    """Return the comparisons with their p-values corrected for the number of all of them."""
    chances = [pair.difference.evidence.p for task in tasks for pair in task.pairs]
    adjusted = iter(adjust_by_holm(chances))
    return tuple(
        replace(task, pairs=tuple(replace(pair, p_adjusted=next(adjusted)) for pair in task.pairs))
        for task in tasks
    )


def _compare_pairs(
    key: str,
    pairing: Pairing,
    notices: list[Notice],
    *,
    by: str | None = None,
    baseline: str | None = None,
) -> TaskComparison:
    """Return every pair, or those with the baseline.

    Categories are those of the first run's dataset. Where that is gone there are none, unless a
    column was asked for.
    """
    first, table = pairing.outcomes[0], pairing.table
    category = by or first.task_run.manifest["dataset"]["category"]
    try:
        if category is not None:
            labels = label_samples(first, category).rename({"label": "category"})
            table = table.join(labels, on="sample_id", how="left", maintain_order="left")
    except RunError as error:
        if by is not None:
            raise
        notices.append(Notice(f"no table by {category}: {error.message}"))
        category = None
    pairing = replace(pairing, table=table)
    pairs = []
    for one, other in combinations([run.label for run in pairing.runs], 2):
        if baseline not in {None, other}:
            continue
        both = pairing.pair_up(one, other)
        # A sample without a value is counted by the reason of the first run, else of the second.
        reasons = [pl.col(f"reason {label}") + pl.lit(f" in {label}") for label in (one, other)]
        left_out = table.select(pl.coalesce(reasons).alias("reason")).drop_nulls()
        categories = {}
        for part in both.sort("category").partition_by("category") if category else ():
            # One cluster says nothing of how clusters differ.
            is_one = "cluster" in part.columns and part["cluster"].n_unique() == 1
            categories[part["category"][0]] = pairing.measure(
                part.drop("cluster") if is_one else part
            )
        pairs.append(
            PairComparison(
                first=one,
                second=other,
                difference=pairing.measure(both),
                left_out=dict(left_out.group_by("reason").len().sort("reason").iter_rows()),
                first_only=tuple(both.filter(pl.col("first") > pl.col("second"))["sample_id"]),
                second_only=tuple(both.filter(pl.col("first") < pl.col("second"))["sample_id"]),
                categories=categories,
            )
        )
    return TaskComparison(
        key,
        pairing.runs,
        tuple(pairs),
        table.height,
        category,
        pairing.cluster_by,
        pairing.is_corrected,
    )


# As plain values


def describe_comparison(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison with every pair, every flipped sample and every category."""
    return {
        "comparison": {
            "baseline": comparison.baseline,
            "alpha": ALPHA,
            "comparisons": len(comparison.pairs),
            "tasks": [_describe_task(task) for task in comparison.tasks],
        },
        "notices": [str(notice) for notice in comparison.notices],
    }


def _describe_task(task: TaskComparison) -> dict[str, Any]:
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
                    {"category": category, **_describe_difference(found)}
                    for category, found in pair.categories.items()
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
        **{name: getattr(evidence, name) for name in ("std_error", "interval", "interval_method")},
        "flips": None if found.flips is None else asdict(found.flips),
        "p": evidence.p,
        "p_method": evidence.p_method,
        "p_exact": found.p_exact,
        "p_mid": found.p_mid,
    }
    described |= {"interval_note": evidence.interval_note} if evidence.interval_note else {}
    return described | ({} if evidence.clusters is None else {"clusters": evidence.clusters})


# For people


def draw_pairs(
    comparison: Comparison, width: int, *, digits: int | None = None, flips: int = SHOWN_FLIPS
) -> list[Line]:
    """Return the whole comparison.

    `flips` is how many samples are named that only one run has right.
    """
    tasks = comparison.tasks
    return join_blocks(
        _draw_task(one, comparison, width, digits=digits, flips=flips) for one in tasks
    )


def _draw_task(
    task: TaskComparison, comparison: Comparison, width: int, *, digits: int | None, flips: int
) -> list[Line]:
    # Letters stand for the runs, or numbers where there are too many runs.
    names = (
        ascii_uppercase
        if len(task.runs) <= len(ascii_uppercase)
        else map(str, range(len(task.runs)))
    )
    letters = {run.label: letter for run, letter in zip(task.runs, names, strict=False)}
    pairs = {f"{letters[pair.first]} - {letters[pair.second]}": pair for pair in task.pairs}
    as_share, tests = all(run.is_share for run in task.runs), len(comparison.pairs)
    in_points = as_share and digits is None

    def figure(value: float | None) -> str:
        return format_figure(value, as_share=as_share, digits=digits)

    def points(value: float, *, is_signed: bool = False) -> str:
        """Return a difference in points of a percentage, or as it is with the digits asked for."""
        text = f"{100 * value:.2f}" if in_points else format_number(value, digits)
        return f"+{text}" if is_signed and value > 0 else text

    def interval(found: Difference) -> str:
        ends = found.evidence.interval
        return "" if ends is None else f"[{points(ends[0])}, {points(ends[1])}]"

    rows: list[Sequence[Cell]] = [
        (
            Span(letters[run.label], "strong"),
            run.label + (" (baseline)" if run.label == comparison.baseline else ""),
            run.model,
            figure(run.mean),
            str(run.n),
        )
        for run in task.runs
    ]
    values = " / ".join(dict.fromkeys(run.value for run in task.runs))
    count = f"{len(task.runs)} runs on {format_count(task.samples, 'sample')}"
    lines = [line(Span(task.key, "title"), f"  {count}"), BLANK]
    lines += [
        *lay_out(Table(("", "run", "model", values, "n"), rows, "<<<>>", flexible=2), width),
        BLANK,
    ]
    rows, better, chance, notes = [], [], [], []
    for name, pair in pairs.items():
        found, evidence = pair.difference, pair.difference.evidence
        rows.append(
            (
                Span(name, "strong"),
                Span(points(found.value, is_signed=True), "strong"),
                interval(found),
                "" if evidence.std_error is None else points(evidence.std_error),
                ""
                if found.flips is None
                else f"{found.flips.first_only}/{found.flips.second_only}",
                format_chance(evidence.p),
                format_chance(found.p_mid) if evidence.p_method == EXACT_TEST else "",
                format_chance(pair.p_adjusted) if tests > 1 else "",
            )
        )
        sides = (pair.first, pair.second) if found.value > 0 else (pair.second, pair.first)
        if pair.is_significant():
            better.append(" than ".join(letters[side] for side in sides))
        else:
            chance.append(name)
        left_out = ", ".join(f"{reason} {count}" for reason, count in pair.left_out.items())
        notes += [f"{name}: left out: {left_out}"] if left_out else []
        notes += (
            [f"{name}: no interval: {evidence.interval_note}"] if evidence.interval_note else []
        )
    unit = "points" if in_points else "value"
    header: Sequence[str] = ("", unit, "95 % interval", "SE", "flips", "p", "mid-p", "p (Holm)")
    lines += lay_out(Table(header, rows, "<>>>>>>>"), width)
    for verdict, which in (("better", better), ("may be chance", chance)):
        lines += draw_text(f"{verdict}: {', '.join(which)}", width) if which else []
    for note in (*_list_methods(task, tests), *notes):
        lines += draw_text(note, width, "dim")
    for pair in task.pairs if flips else ():
        lines.append(BLANK)
        words = ("right", "not") if pair.difference.flips is not None else ("higher", "lower")
        for one, other, ids in (
            (pair.first, pair.second, pair.first_only),
            (pair.second, pair.first, pair.second_only),
        ):
            title = f"{letters[one]} {words[0]}, {letters[other]} {words[1]} ({len(ids)})"
            more = f" and {len(ids) - flips} more" if len(ids) > flips else ""
            lines += draw_text(f"{title}: {', '.join(ids[:flips]) or 'none'}{more}", width)
    if len(pairs) == 1 and (categories := task.pairs[0].categories):
        largest = sorted(categories, key=lambda one: -categories[one].n)[:SHOWN_CATEGORIES]
        rows = [
            (
                category,
                str(found.n),
                figure(found.first),
                figure(found.second),
                points(found.value, is_signed=True),
                interval(found),
            )
            for category, found in categories.items()
            if category in largest
        ]
        header = (f"By {task.category}", "n", *list(letters.values())[:2], *pairs, "95 % interval")
        lines += [BLANK, *lay_out(Table(header, rows, "<>>>>>", flexible=0), width)]
        left = len(categories) - len(rows)
        lines += [line(f"  and {left} smaller ones; `--json` has them all")] if left else []
        note = "Intervals of single categories are not corrected for their number."
        lines.append(line(Span(f"  {note}", "dim")))
    return lines


def _list_methods(task: TaskComparison, tests: int) -> Iterator[str]:
    """Yield which tests were made, and on which clusters."""
    differences = [pair.difference for pair in task.pairs]
    methods = {one.evidence.p_method for one in differences}
    if any(one.flips is not None for one in differences):
        yield "flips: samples that only the first / only the second has right"
    if methods == {EXACT_TEST}:
        yield "p: McNemar's exact test; mid-p: its mid-p form"
    elif CLUSTERED_TEST in methods:
        yield "p: t test over clusters (McNemar's would take samples as independent)"
    elif methods != {None}:
        yield "p: paired t test over samples"
    if tests > 1:
        yield f"p (Holm): corrected for {tests} comparisons; it decides, below {ALPHA}"
    if task.cluster_by is not None:
        correction = "corrected by" if task.is_corrected else "without the correction"
        clusters = differences[0].evidence.clusters
        yield f"clustered by {task.cluster_by}: {clusters} clusters, {correction} C/(C-1)"


# Variants of a prompt: how far the numbers of a task depend on the wording
# ---------------------------------


def compare_variants(run: Run) -> list[dict[str, Any]]:
    """Return what the variants of each task of a run say together.

    Only complete runs have such numbers. Each of `metrics` has its `values` by the variant's key,
    and their `min`, `median`, `max`, `spread` (max minus min) and `std_dev`; `shares` are the names
    of those that are shares. `comparison` has every pair, p-values corrected for their number;
    without it, `note` says why pairs could not be compared.
    """
    groups: dict[str, dict[str, TaskRun]] = {}
    for task in run.tasks.values() if run.status == "complete" else ():
        if (variant := task.manifest.get("variant")) is not None:
            groups.setdefault(str(variant["of"]), {})[str(variant["key"])] = task
    found = []
    for key, variants in groups.items():
        if len(variants) == 1:
            continue
        about: dict[str, Any] = {"task": key}
        about["variants"] = [{"key": name, "task": task.key} for name, task in variants.items()]
        # Metrics are compared by name; those of a quality check are not the task's numbers.
        values = [
            [value for value in task.metrics.values() if value.purpose == "score"]
            for task in variants.values()
        ]
        about["metrics"] = metrics = []
        for one in compare_repetitions(values):
            known = [value for value in one["values"] if value is not None]
            metrics.append(
                {
                    "name": one["name"],
                    "values": dict(zip(variants, one["values"], strict=True)),
                    "min": one["min"],
                    "median": median(known) if known else None,
                    "max": one["max"],
                    "spread": one["max"] - one["min"] if known else None,
                    "std_dev": one["std_dev"],
                }
            )
        about["shares"] = {value.name for each in values for value in each if value.is_share}
        try:
            pairing = pair_samples({name: (run, task) for name, task in variants.items()}, [])
            (about["comparison"],) = adjust_pairs([_compare_pairs(key, pairing, [])])
        except RunError as error:
            about |= {"comparison": None, "note": error.message}
        found.append(about)
    return found


def describe_variants(run: Run) -> list[dict[str, Any]]:
    """Return the variants as plain values, for `--json`."""
    return [
        {name: value for name, value in one.items() if name != "shares"}
        | {"comparison": one["comparison"] and _describe_task(one["comparison"])}
        for one in compare_variants(run)
    ]


def draw_variants(run: Run, width: int, digits: int | None = None) -> list[Line]:
    """Return the variants of each task beside each other; nothing for a run without any."""
    lines: list[Line] = []
    for task in compare_variants(run):
        title = f"  {format_count(len(task['variants']), 'variant')} of the prompt"
        lines += [BLANK, line(Span(task["task"], "title"), title), BLANK]
        rows: list[list[Cell]] = []
        for one in task["metrics"]:
            numbers = [
                *(one[name] for name in ("min", "median", "max", "spread")),
                *one["values"].values(),
            ]
            as_share = one["name"] in task["shares"]
            texts = [
                "" if number is None else format_figure(number, as_share=as_share, digits=digits)
                for number in numbers
            ]
            rows.append([Span(one["name"], "strong"), *texts])
        header = ("", "min", "median", "max", "spread", *(one["key"] for one in task["variants"]))
        lines += lay_out(Table(header, rows, "<" + ">" * (len(header) - 1), flexible=0), width)
        if task["comparison"] is None:
            lines += draw_text(f"pairs are not compared: {task['note']}", width, "dim")
        else:
            compared = Comparison((task["comparison"],))
            lines += [BLANK, *draw_pairs(compared, width, digits=digits, flips=0)]
    return lines
