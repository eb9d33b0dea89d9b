"""Compare runs, or variants of a prompt, pair by pair on the same samples.

`describe_comparison` is what `compare --json` prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import combinations
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
    draw_table,
    draw_text,
    format_count,
    format_figure,
    format_number,
    format_p_value,
    join_blocks,
)
from answerkey.types import Notice

SHOWN_FLIPS = 10
#: The significance level of a difference.
ALPHA = 0.05
#: An object that is printed as JSON.
Json = dict[str, Any]
#: The variants of a task by their keys.
Variants = dict[str, TaskRun]


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

    def is_significant(self) -> bool:
        """Whether chance alone would rarely give such a difference, all comparisons considered."""
        return self.p_adjusted is not None and self.p_adjusted < ALPHA


@dataclass(frozen=True)
class TaskComparison:
    """All pairs of one task; `category` and `cluster_by` name the columns used."""

    key: str
    runs: tuple[ComparedRun, ...]
    pairs: tuple[PairComparison, ...]
    samples: int
    category: str | None = None
    cluster_by: str | None = None


@dataclass(frozen=True)
class Comparison(Drawn):
    """Several runs compared.

    `baseline` is the label of the run that all others are compared with.
    """

    tasks: tuple[TaskComparison, ...]
    baseline: str | None = None
    notices: tuple[Notice, ...] = ()

    def draw(self, width: int) -> list[Line]:
        """Return its lines, each at most `width` cells wide."""
        return draw_pairs(self, width)

    @property
    def pairs(self) -> list[PairComparison]:
        """The pairs of all tasks."""
        pairs: list[PairComparison] = []
        for task in self.tasks:
            pairs += task.pairs
        return pairs

    def find_regressions(self) -> list[PairComparison]:
        """Return the pairs whose first run is significantly worse than the second, the baseline."""
        regressions = []
        for pair in self.pairs:
            if pair.is_significant() and pair.difference.value < 0:
                regressions.append(pair)
        return regressions


def compare(
    *runs: AnyRun,
    baseline: AnyRun | None = None,
    task: str | None = None,
    scorer: str | None = None,
    value: str | None = None,
    by: str | None = None,
    cluster_by: str | None = None,
    common: bool = False,
) -> Comparison:
    """Compare runs on the same samples: every pair, or each run with the baseline.

    Samples are matched by id and must have the same ground truth. A comparison that would be
    meaningless raises RunError E508. `task`, `scorer` and `value` select what to compare instead of
    the main value. `by` is the category column, `cluster_by` the column that groups related
    samples. With `common`, samples that are missing from any run are left out.
    """
    labelled = label_runs(runs, baseline)
    notices: list[Notice] = []
    baseline_label = None
    if baseline is not None:
        baseline_label = list(labelled)[-1]
    compared = []
    chosen = choose_tasks(labelled, task, notices)
    for key, tasks in chosen.items():
        pairing = pair_samples(
            tasks,
            notices,
            scorer=scorer,
            value=value,
            cluster_by=cluster_by,
            common=common,
        )
        comparison = _compare_pairs(key, pairing, notices, by, baseline_label)
        compared.append(comparison)
    distinct_notices = tuple(dict.fromkeys(notices))
    return Comparison(adjust_pairs(compared), baseline_label, distinct_notices)


def adjust_pairs(tasks: Sequence[TaskComparison]) -> tuple[TaskComparison, ...]:
    """Return the comparisons with p-values corrected for the total number of comparisons."""
    p_values = []
    for task in tasks:
        for pair in task.pairs:
            p_values.append(pair.difference.evidence.p)
    adjusted = iter(adjust_by_holm(p_values))
    compared = []
    for task in tasks:
        pairs = []
        for pair in task.pairs:
            pairs.append(replace(pair, p_adjusted=next(adjusted)))
        compared.append(replace(task, pairs=tuple(pairs)))
    return tuple(compared)


def _compare_pairs(
    key: str,
    pairing: Pairing,
    notices: list[Notice],
    by: str | None = None,
    baseline: str | None = None,
) -> TaskComparison:
    """Compare every pair of runs, or each run with the baseline.

    Categories come from the first run's dataset. If it cannot be read, they are left out, unless
    the caller asked for them.
    """
    run = pairing.outcomes[0]
    table = pairing.table
    category = by or run.task_run.manifest["dataset"]["category"]
    try:
        if category is not None:
            labels = label_samples(run, category)
            labels = labels.rename({"label": "category"})
            table = table.join(
                labels,
                on="sample_id",
                how="left",
                maintain_order="left",
            )
    except RunError as error:
        if by is not None:
            raise
        notices.append(Notice(f"no table by {category}: {error.message}"))
        category = None
    pairing = replace(pairing, table=table)
    pairs = []
    run_labels = [run.label for run in pairing.runs]
    for first, second in combinations(run_labels, 2):
        if baseline in {None, second}:
            pairs.append(_compare_pair(pairing, first, second))
    return TaskComparison(
        key,
        pairing.runs,
        tuple(pairs),
        table.height,
        category,
        pairing.cluster_by,
    )


def _compare_pair(pairing: Pairing, first: str, second: str) -> PairComparison:
    rows = pairing.pair_up(first, second)
    # A sample without a value is counted under the first run's reason, or else the second's.
    reasons = []
    for label in (first, second):
        reason = pl.col(f"reason {label}")
        reasons.append(reason + pl.lit(f" in {label}"))
    left_out = pairing.table.select(reason=pl.coalesce(reasons))
    groups = left_out.drop_nulls().group_by("reason")
    counts = groups.len().sort("reason")
    categories = {}
    if "category" in rows.columns:
        parts = rows.sort("category").partition_by("category")
        for part in parts:
            category = part["category"][0]
            clusters = part.get_column("cluster", default=None)
            if clusters is not None and clusters.n_unique() == 1:
                part = part.drop("cluster")  # noqa: PLW2901 - one cluster cannot show how clusters differ
            categories[category] = pairing.measure(part)
    is_first_higher = rows["first"] > rows["second"]
    is_second_higher = rows["first"] < rows["second"]
    return PairComparison(
        first=first,
        second=second,
        difference=pairing.measure(rows),
        left_out=dict(counts.iter_rows()),
        first_only=tuple(rows["sample_id"].filter(is_first_higher)),
        second_only=tuple(rows["sample_id"].filter(is_second_higher)),
        categories=categories,
    )


# As JSON


def describe_comparison(comparison: Comparison) -> Json:
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


def _describe_task(task: TaskComparison) -> Json:
    """Return one task's comparison with every pair."""
    return {
        "key": task.key,
        "samples": task.samples,
        "category": task.category,
        "cluster_by": task.cluster_by,
        "runs": [asdict(run) for run in task.runs],
        "pairs": [_describe_pair(pair) for pair in task.pairs],
    }


def _describe_pair(pair: PairComparison) -> Json:
    categories = []
    for category, difference in pair.categories.items():
        categories.append({"category": category, **_describe_difference(difference)})
    return {
        "first": pair.first,
        "second": pair.second,
        **_describe_difference(pair.difference),
        "p_adjusted": pair.p_adjusted,
        "is_significant": pair.is_significant(),
        "left_out": dict(pair.left_out),
        "first_only": list(pair.first_only),
        "second_only": list(pair.second_only),
        "categories": categories,
    }


def _describe_difference(difference: Difference) -> Json:
    return {
        "n": difference.n,
        "first_value": difference.first,
        "second_value": difference.second,
        "difference": difference.value,
        **asdict(difference.evidence),
        "flips": difference.flips and asdict(difference.flips),
        "p_exact": difference.p_exact,
        "p_mid": difference.p_mid,
    }


# As text


def draw_pairs(
    comparison: Comparison,
    width: int,
    *,
    digits: int | None = None,
    flips: int = SHOWN_FLIPS,
) -> list[Line]:
    """Return the whole comparison.

    `flips` limits how many of the samples that only one run got right are named.
    """
    blocks = []
    for task in comparison.tasks:
        drawing = _Drawing(task, comparison, width, digits)
        block = drawing.draw_runs() + drawing.draw_differences()
        if flips:
            block += drawing.draw_flips(flips)
        if len(task.pairs) == 1:
            block += drawing.draw_categories(task.pairs[0])
        blocks.append(block)
    return join_blocks(blocks)


@dataclass(frozen=True)
class _Drawing:
    """One task of a comparison, drawn table by table; letters stand for the runs."""

    task: TaskComparison
    comparison: Comparison
    width: int
    digits: int | None

    @cached_property
    def letters(self) -> dict[str, str]:
        """The letters of the runs by label; numbers where there are too many runs."""
        labels = [run.label for run in self.task.runs]
        numbers = range(len(ascii_uppercase), len(labels))
        letters = (*ascii_uppercase, *map(str, numbers))
        return dict(zip(labels, letters, strict=False))

    @cached_property
    def is_share(self) -> bool:
        """Whether the values of all runs are shares."""
        return all(run.is_share for run in self.task.runs)

    def name(self, pair: PairComparison) -> str:
        return f"{self.letters[pair.first]} - {self.letters[pair.second]}"

    def figure(self, value: float | None) -> str:
        return format_figure(value, as_share=self.is_share, digits=self.digits)

    def points(self, value: float) -> str:
        """Return a difference in percentage points, or as a number with the requested digits."""
        if self.is_share and self.digits is None:
            return f"{100 * value:.2f}"
        return format_number(value, self.digits)

    def signed(self, value: float) -> str:
        sign = "+" if value > 0 else ""
        return sign + self.points(value)

    def interval(self, difference: Difference) -> str:
        if difference.evidence.interval is None:
            return ""
        low, high = map(self.points, difference.evidence.interval)
        return f"[{low}, {high}]"

    def draw_runs(self) -> list[Line]:
        rows: list[Sequence[Cell]] = []
        for run in self.task.runs:
            label = run.label
            if label == self.comparison.baseline:
                label += " (baseline)"
            letter = Span(self.letters[run.label], "strong")
            mean = self.figure(run.mean)
            rows.append((letter, label, run.model, mean, str(run.n)))
        values = dict.fromkeys(run.value for run in self.task.runs)
        header = ("", "run", "model", " / ".join(values), "n")
        samples = format_count(self.task.samples, "sample")
        runs = f"  {len(rows)} runs on {samples}"
        title = (Span(self.task.key, "title"), runs)
        return [title, BLANK, *draw_table(header, rows, "<<~>>", self.width), BLANK]

    def draw_differences(self) -> list[Line]:
        tests = len(self.comparison.pairs)
        pairs = self.task.pairs
        unit = "points" if self.is_share and self.digits is None else "value"
        header = ("", unit, "95 % interval", "flips", "p", "p (Holm)")
        rows = [self._make_row(pair, tests) for pair in pairs]
        lines = draw_table(header, rows, "<>>>>>", self.width)
        better = []
        inconclusive = []
        for pair in pairs:
            if not pair.is_significant():
                inconclusive.append(self.name(pair))
            elif pair.difference.value < 0:
                better.append(f"{self.letters[pair.second]} than {self.letters[pair.first]}")
            else:
                better.append(f"{self.letters[pair.first]} than {self.letters[pair.second]}")
        if better:
            lines += draw_text(f"better: {', '.join(better)}", self.width)
        if inconclusive:
            lines += draw_text(f"not significant: {', '.join(inconclusive)}", self.width)
        for note in self._list_notes(tests):
            lines += draw_text(note, self.width, "dim")
        return lines

    def _list_notes(self, tests: int) -> Iterator[str]:
        """Yield which tests were made, which samples were left out, and missing intervals."""
        yield from _list_methods(self.task, tests)
        for pair in self.task.pairs:
            name = self.name(pair)
            interval_note = pair.difference.evidence.interval_note
            if pair.left_out:
                reasons = []
                for reason, count in pair.left_out.items():
                    reasons.append(f"{reason} {count}")
                yield f"{name}: left out: {', '.join(reasons)}"
            if interval_note:
                yield f"{name}: no interval: {interval_note}"

    def _make_row(self, pair: PairComparison, tests: int) -> Sequence[Cell]:
        difference = pair.difference
        flips = ""
        holm = ""
        if difference.flips is not None:
            flips = f"{difference.flips.first_only}/{difference.flips.second_only}"
        if tests > 1:
            holm = format_p_value(pair.p_adjusted)
        return (
            Span(self.name(pair), "strong"),
            Span(self.signed(difference.value), "strong"),
            self.interval(difference),
            flips,
            format_p_value(difference.evidence.p),
            holm,
        )

    def draw_flips(self, limit: int) -> list[Line]:
        lines: list[Line] = []
        for pair in self.task.pairs:
            high, low = "right", "not"
            if pair.difference.flips is None:
                high, low = "higher", "lower"
            first = self.letters[pair.first]
            second = self.letters[pair.second]
            sides = {
                f"{first} {high}, {second} {low}": pair.first_only,
                f"{second} {high}, {first} {low}": pair.second_only,
            }
            lines.append(BLANK)
            for title, ids in sides.items():
                shown = ", ".join(ids[:limit]) or "none"
                if len(ids) > limit:
                    shown += f" and {len(ids) - limit} more"
                lines += draw_text(f"{title} ({len(ids)}): {shown}", self.width)
        return lines

    def draw_categories(self, pair: PairComparison) -> list[Line]:
        if not pair.categories:
            return []
        rows: list[Sequence[Cell]] = []
        for category, difference in pair.categories.items():
            row = (
                category,
                str(difference.n),
                self.figure(difference.first),
                self.figure(difference.second),
                self.signed(difference.value),
                self.interval(difference),
            )
            rows.append(row)
        header = (
            f"By {self.task.category}",
            "n",
            self.letters[pair.first],
            self.letters[pair.second],
            self.name(pair),
            "95 % interval",
        )
        note = "  Intervals of single categories are not corrected for their number."
        table = draw_table(header, rows, "~>>>>>", self.width)
        return [BLANK, *table, Span(note, "dim")]


def _list_methods(task: TaskComparison, tests: int) -> Iterator[str]:
    """Yield which tests were made, and on which clusters."""
    differences = [pair.difference for pair in task.pairs]
    methods = {difference.evidence.p_method for difference in differences}
    if any(difference.flips is not None for difference in differences):
        yield "flips: samples that only the first / only the second has right"
    if methods == {EXACT_TEST}:
        yield "p: McNemar's exact test"
    elif CLUSTERED_TEST in methods:
        yield "p: t test over clusters (McNemar's test would treat samples as independent)"
    elif methods != {None}:
        yield "p: paired t test over samples"
    if tests > 1:
        yield f"p (Holm): corrected for {tests} comparisons; significant below {ALPHA}"
    if task.cluster_by is not None:
        clusters = differences[0].evidence.clusters
        yield f"clustered by {task.cluster_by}: {clusters} clusters"


# Variants of a prompt: how much the numbers of a task depend on the wording.


def describe_variants(run: Run) -> list[Json]:
    """Return a summary of the variants of each task, as `--json` prints it.

    An incomplete run has none. Each of `metrics` has its `values` by the variant's key, and their
    `min`, `max`, `spread` (max minus min) and `std_dev`. `comparison` holds every pair, with
    p-values corrected for the number of pairs; if it is missing, `note` says why pairs could not be
    compared.
    """
    described = []
    for key, variants in _group_variants(run).items():
        tasks = []
        for name, task in variants.items():
            tasks.append({"key": name, "task": task.key})
        description: Json = {
            "task": key,
            "variants": tasks,
            "metrics": _measure_variants(variants),
            "comparison": None,
            "note": None,
        }
        comparison = _compare_variants(run, key, variants)
        if isinstance(comparison, str):
            description["note"] = comparison
        else:
            description["comparison"] = _describe_task(comparison)
        described.append(description)
    return described


def _group_variants(run: Run) -> dict[str, Variants]:
    """Return each task's variants by key; an incomplete run has none."""
    groups: dict[str, Variants] = {}
    if run.status != "complete":
        return groups
    for task in run.tasks.values():
        variant = task.manifest.get("variant")
        if variant is not None:
            group = groups.setdefault(str(variant["of"]), {})
            group[str(variant["key"])] = task
    return {key: variants for key, variants in groups.items() if len(variants) > 1}


def _measure_variants(variants: Variants) -> list[Json]:
    # Metrics of quality checks are not results of the task.
    values = []
    shares: set[str] = set()
    for task in variants.values():
        column = []
        for value in task.metrics.values():
            if value.purpose == "score":
                column.append(value)
            if value.is_share:
                shares.add(value.name)
        values.append(column)
    metrics = []
    for metric in compare_repetitions(values):
        spread = None
        if metric["min"] is not None:
            spread = metric["max"] - metric["min"]
        description = {
            **metric,
            "values": dict(zip(variants, metric["values"], strict=True)),
            "spread": spread,
            "is_share": metric["name"] in shares,
        }
        metrics.append(description)
    return metrics


def _compare_variants(run: Run, key: str, variants: Variants) -> TaskComparison | str:
    """Return all pairs of variants, or why they cannot be compared."""
    tasks = {name: (run, task) for name, task in variants.items()}
    try:
        pairing = pair_samples(tasks, [])
        comparison = _compare_pairs(key, pairing, [])
    except RunError as error:
        return error.message
    return adjust_pairs([comparison])[0]


def draw_variants(run: Run, width: int, digits: int | None = None) -> list[Line]:
    """Return each task's variants side by side; nothing for a run without variants."""
    lines: list[Line] = []
    for key, variants in _group_variants(run).items():
        count = format_count(len(variants), "variant")
        title = (Span(key, "title"), f"  {count} of the prompt")
        lines += [BLANK, title, BLANK]
        rows: list[Sequence[Cell]] = []
        for metric in _measure_variants(variants):
            cells: list[Cell] = [Span(metric["name"], "strong")]
            ends = (metric["min"], metric["max"], metric["spread"])
            for number in (*ends, *metric["values"].values()):
                figure = ""
                if number is not None:
                    figure = format_figure(number, as_share=metric["is_share"], digits=digits)
                cells.append(figure)
            rows.append(cells)
        header = ("", "min", "max", "spread", *variants)
        lines += draw_table(header, rows, "~".ljust(len(header), ">"), width)
        comparison = _compare_variants(run, key, variants)
        if isinstance(comparison, str):
            lines += draw_text(f"pairs are not compared: {comparison}", width, "dim")
        else:
            pairs = draw_pairs(Comparison((comparison,)), width, digits=digits, flips=0)
            lines += [BLANK, *pairs]
    return lines
