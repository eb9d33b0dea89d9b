"""Samples that are asked several times: one row per sample from the rows of its trials or orders of options.

A table of trials has `num_trials` rows for each sample, one after the other, in dataset order. A table of
orders has one for each order and trial, one after the other; samples may have different numbers of them.
Below: the same task run several times, how far its numbers, and the score of each sample, stay the same.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Literal

import polars as pl

from answerkey.metrics.base import is_finite, read_column
from answerkey.metrics.exact import UNIT_BITS, divide, divide_and_root, sum_exactly
from answerkey.types import EMPTY_STRUCT_FIELD, MetricValue, Samples, Scores, ScoreStatus

AggregatorName = Literal["mean", "min", "max", "pass@k", "pass^k", "pass@k_plugin", "pass^k_plugin", "maj@k"]

#: The functions that need `k`; among them those of values that are 0 or 1, which draw k of the trials without
#: putting them back; and among those the unbiased forms of the plug-in ones.
WITH_K = frozenset({"pass@k", "pass^k", "pass@k_plugin", "pass^k_plugin", "maj@k"})
DRAWING = frozenset({"pass@k", "pass^k", "maj@k"})
UNBIASED = frozenset({"pass@k", "pass^k"})
#: What a trial votes for, the first that a scorer has; null is no vote.
VOTES = ("predicted_choice", "answer_pred")

#: A sample counts as its worst row.
SEVERITY = {ScoreStatus.ERROR.value: 4, ScoreStatus.FAILED.value: 3}

#: Columns of these types and of numbers can be compared row by row.
_COMPARED = (pl.String, pl.Boolean, pl.List(pl.String))
_TEXTS = (pl.String, pl.Null)


@dataclass(frozen=True)
class Aggregator:
    """A function of a sample's trials; `k` is for those of `WITH_K` only."""

    function: AggregatorName
    k: int | None = None

    @property
    def label(self) -> str:
        """The name with `k` filled in: `mean`, `pass@3`, `pass^3_plugin`."""
        return self.function if self.k is None else self.function.replace("k", str(self.k), 1)

    def apply(self, values: Sequence[object], votes: Sequence[object] = ()) -> float | None:
        """Return the aggregate of one sample, in whatever order its trials are given; rounded once.

        None when a value is missing or no number, or when it is not what the function is about; NaN when one
        is not finite. `votes` are what the trials answered, for `maj@k`.
        """
        numbers = [value for value in values if isinstance(value, int | float)]
        if not values or len(numbers) < len(values):
            return None
        if not all(is_finite(number) for number in numbers):
            return math.nan
        found = self._compute([Fraction(number) for number in numbers], votes)
        return None if found is None else float(found)

    def _compute(self, values: Sequence[Fraction], votes: Sequence[object]) -> Fraction | None:
        n, k, total = len(values), self.k or 1, sum(values, Fraction())
        share = total / n
        if self.function in DRAWING and (k > n or any(value not in {0, 1} for value in values)):
            return None
        if self.function in WITH_K - UNBIASED and not 0 <= share <= 1:
            return None
        match self.function:
            case "mean":
                return share
            case "min":
                return min(values)
            case "max":
                return max(values)
            case "pass@k":  # the chance that k trials, drawn without putting back, hold a success
                return 1 - Fraction(math.comb(n - int(total), k), math.comb(n, k))
            case "pass^k":  # the chance that they are all successes
                return Fraction(math.comb(int(total), k), math.comb(n, k))
            case "pass@k_plugin":  # 1 - (1-p)^k with the mean as p
                return 1 - (1 - share) ** k
            case "pass^k_plugin":
                return share**k
            case "maj@k":
                return _count_votes(values, votes, k)


def _count_votes(values: Sequence[Fraction], votes: Sequence[object], k: int) -> Fraction | None:
    """Return the chance that most of k trials, drawn without putting back, give a right answer.

    Of n tied answers each counts 1/n. A trial without an answer has no vote; without any vote nothing is
    right. None where votes are missing, or where one answer is both right and wrong.
    """
    if len(votes) < len(values):
        return None
    cast = [(str(vote), value == 1) for value, vote in zip(values, votes, strict=True) if vote is not None]
    counts, right = Counter(vote for vote, _ in cast), {vote for vote, is_right in cast if is_right}
    if right & {vote for vote, is_right in cast if not is_right}:
        return None
    blanks, found = len(votes) - len(cast), Fraction()
    for answer in right:
        others = (counts - Counter({answer: counts[answer]})).values()
        found += _expect_win(counts[answer], tuple(sorted(others)), blanks, k)
    return found


@cache
def _expect_win(own: int, others: tuple[int, ...], blanks: int, k: int) -> Fraction:
    """Return the chance that an answer has most votes of k trials, a tie divided by the answers in it.

    It has `own` votes of all trials, other answers have theirs, and `blanks` have none.
    """
    found = Fraction()
    for votes in range(1, min(own, k) + 1):
        ways = Counter({(0, 0): math.comb(own, votes)})  # by trials drawn of others, and answers with as many
        for count in others:
            more: Counter[tuple[int, int]] = Counter()
            for (drawn, tied), way in ways.items():
                for each in range(min(count, votes, k - votes - drawn) + 1):
                    more[drawn + each, tied + (each == votes)] += way * math.comb(count, each)
            ways = more
        for (drawn, tied), way in ways.items():
            found += Fraction(way * math.comb(blanks, k - votes - drawn), tied + 1)
    return found / math.comb(own + sum(others) + blanks, k)


#: What stands for a score that no aggregator is given for.
DEFAULT = Aggregator("mean")


@dataclass(frozen=True)
class ScoreAggregator:
    """How the trials' values of one name become the sample's."""

    score_name: str
    aggregator: Aggregator


@dataclass(frozen=True)
class Trials:
    """How often each sample is asked, and how its values are put together."""

    num_trials: int
    score_aggregators: tuple[ScoreAggregator, ...] = ()

    def aggregators_of(self, name: str) -> list[Aggregator]:
        """Return the aggregators of a value; the first one is what its bare name means."""
        return [one.aggregator for one in self.score_aggregators if one.score_name == name] or [DEFAULT]

    def names_of(self, name: str) -> list[str]:
        """Return what the aggregates of a value are called: its own name, then one for each aggregator."""
        return [name, *(f"{name}.{one.label}" for one in self.aggregators_of(name))]


# Which rows belong together --------------------------------------------------------------------------------


def find_owners(samples: Samples) -> pl.Series:
    """Return the id of the sample that each row is of; its own where options stand as in the file."""
    return samples.ids if samples.orders is None else samples.orders["base_sample_id"]


def number_samples(samples: Samples, num_trials: int) -> pl.Series:
    """Return a number for each row, the same for all rows of a sample."""
    if samples.orders is not None:
        return find_owners(samples).rle_id()
    return pl.int_range(len(samples), eager=True) // num_trials


def find_own_rows(samples: Samples) -> pl.Series | None:
    """Return which rows count: all but those that are there to estimate a prior; None where all do."""
    if samples.orders is None or "is_extra" not in samples.orders.columns:
        return None
    is_extra = samples.orders["is_extra"]
    return ~is_extra if is_extra.any() else None


def find_first_rows(owners: pl.Series) -> pl.Series:
    """Return the positions of the first row of each sample."""
    return (owners != owners.shift()).fill_null(value=True).arg_true()


def find_worst_rows(severity: pl.Series, owners: pl.Series) -> pl.Series:
    """Return for each sample its row with the highest severity, the first of equals."""
    rows = pl.DataFrame([severity.alias("severity"), owners.alias("owner")]).with_row_index("row")
    groups = rows.group_by("owner", maintain_order=True).agg(pl.col("row").get(pl.col("severity").arg_max()))
    return groups["row"]


# One row per sample ----------------------------------------------------------------------------------------


def aggregate_scores(scores: Scores, trials: Trials, listed: Collection[str] | None = None) -> Scores:
    """Return one row per sample from a table of trials.

    A sample is SCORED when all its trials are; otherwise it has the status and reason of its worst trial.
    Values become their aggregates; a value that is no number, and all metadata, become the list of what the
    trials say. With `listed`, metadata of other names stays null: nobody is going to look at it.
    """

    def name_aggregates(name: str) -> dict[str, Aggregator]:
        found = trials.aggregators_of(name)
        return {f"{name}.{one.label}": one for one in found} | {name: found[0]}

    owners = pl.int_range(len(scores), eager=True) // trials.num_trials
    return _combine_rows(scores, owners, name_aggregates, listed)


def average_orders(scores: Scores, owners: pl.Series, listed: Collection[str] | None = None) -> Scores:
    """Return one row per sample with the mean of each value over its orders; else as `aggregate_scores`."""
    return _combine_rows(scores, owners, lambda name: {name: DEFAULT}, listed)


def _combine_rows(
    scores: Scores,
    owners: pl.Series,
    name_aggregates: Callable[[str], dict[str, Aggregator]],
    listed: Collection[str] | None,
) -> Scores:
    severity = scores.frame["status"].replace_strict(SEVERITY, default=0)
    worst = scores.frame[find_worst_rows(severity, owners)].select("status", "reason", "excluded_by")
    values: dict[str, pl.Series] = {}
    lists: list[str] = []
    for name in scores.value_names:
        rows, codes = _read_distinct(scores, name, owners)
        if holds_other(scores, name):
            values[name] = _write_lists(rows).gather(codes)
            lists.append(name)
        else:
            for label, aggregator in name_aggregates(name).items():
                found = codes
                if aggregator.function == "maj@k" and (vote := find_vote(scores)):
                    answers, votes = _read_distinct(scores, vote, owners)
                    both = codes.cast(pl.Int64) * len(answers) + votes
                    kinds = both.unique().sort()
                    found, pairs = kinds.search_sorted(both), [divmod(one, len(answers)) for one in kinds]
                    numbers = [aggregator.apply(rows[value], answers[vote]) for value, vote in pairs]
                else:
                    numbers = [aggregator.apply(row) for row in rows]
                values[label] = pl.Series(numbers, dtype=pl.Float64).gather(found)
    metadata = {
        name: pl.repeat(None, worst.height, dtype=pl.String, eager=True) for name in scores.metadata_names
    }
    for name in metadata if listed is None else metadata.keys() & set(listed):
        rows, codes = _read_distinct(scores, name, owners)
        metadata[name] = _write_lists(rows).gather(codes)
    is_scored = worst["status"] == ScoreStatus.SCORED.value
    for field, columns in (("values", values), ("metadata", metadata)):
        blank = pl.repeat(None, worst.height, dtype=pl.Boolean, eager=True)
        table = pl.DataFrame(columns or {EMPTY_STRUCT_FIELD: blank})
        scored = table.select(pl.when(is_scored).then(pl.col(one)).alias(one) for one in table.columns)
        worst = worst.with_columns(scored.to_struct(field))
    return Scores(worst, frozenset({*lists, *metadata}))


def find_vote(scores: Scores) -> str | None:
    """Return the field that says, as text, what a trial answered; None where a scorer has none."""
    columns = {name: scores.column(name) for name in VOTES if name in scores.metadata_names}
    return next((name for name, one in columns.items() if one is not None and one.dtype in _TEXTS), None)


def count_votes(scores: Scores, num_trials: int) -> dict[str, int]:
    """Return how far the trials of a sample agree, of samples that count: nothing where they have no answers.

    `agreeing` are the trials that give the most frequent answer of their sample, `tied` the samples that have
    several of those, `no_vote` the samples without an answer.
    """
    if (name := find_vote(scores)) is None:
        return {}
    sample, votes = pl.int_range(pl.len()) // num_trials, read_column(scores, name).cast(pl.String)
    rows = pl.DataFrame({"vote": votes, "is_counted": scores.counted()}).with_columns(sample=sample)
    kept = rows.filter(pl.col("is_counted").all().over("sample"))
    cast = kept.drop_nulls("vote").group_by("sample", "vote").len("count")
    most = cast.group_by("sample").agg(
        pl.col("count").max(), (pl.col("count") == pl.col("count").max()).sum().alias("answers")
    )
    samples = kept.height // num_trials
    return {
        "samples": samples,
        "agreeing": int(most["count"].sum()),
        "tied": int((most["answers"] > 1).sum()),
        "no_vote": samples - most.height,
    }


def _read_distinct(
    scores: Scores, name: str, owners: pl.Series
) -> tuple[list[tuple[object, ...]], pl.Series]:
    """Return what the rows of a sample say, each distinct list once, and which of them each sample has.

    Values come before metadata of the same name. -0.0, which is printed apart, is not 0.0.
    """
    column, starts = read_column(scores, name), find_first_rows(owners).cast(pl.Int64)
    sizes = (starts.shift(-1, fill_value=len(owners)) - starts).alias("size")
    places = range(int(str(sizes.max() or 0)))
    rows_at = [pl.select(pl.when(sizes > place).then(starts + place)).to_series() for place in places]
    table = pl.DataFrame([*(column.gather(rows).alias(str(n)) for n, rows in enumerate(rows_at)), sizes])
    first = pl.int_range(table.height, dtype=pl.UInt32, eager=True)
    if column.dtype.is_numeric() or column.dtype in _COMPARED:
        floats = [str(place) for place in places] if column.dtype.is_float() else []
        signs = [((pl.col(one) == 0) & (1 / pl.col(one) < 0)).alias(f"sign {one}") for one in floats]
        keys = table.with_columns(signs)
        first = keys.with_row_index("row").select(pl.col("row").min().over(keys.columns)).to_series()
    leaders = first.unique().sort()
    rows = [row[: row[-1]] for row in table[leaders].rows()]
    if name in scores.encoded:
        rows = [tuple(None if text is None else json.loads(text) for text in row) for row in rows]
    return rows, leaders.search_sorted(first).cast(pl.UInt32)


def _write_lists(rows: Sequence[tuple[object, ...]]) -> pl.Series:
    texts = [json.dumps(row, ensure_ascii=False, default=str) for row in rows]
    return pl.Series(texts, dtype=pl.String)


def holds_other(scores: Scores, name: str) -> bool:
    """Whether a field has no aggregate: metadata, or a value that is no number in some row."""
    if name not in scores.value_names:
        return name in scores.metadata_names
    column = scores.frame["values"].struct.field(name)
    if name not in scores.encoded:
        is_number = column.dtype.is_numeric() or column.dtype == pl.Boolean
        return not is_number and column.null_count() < len(column)
    values = [json.loads(text) for text in column.drop_nulls().unique()]
    return any(value is not None and not isinstance(value, int | float) for value in values)


def holds_shares(scores: Scores, name: str) -> bool:
    """Whether all trials of a value, or of the value that an aggregate's name begins with, are 0 or 1."""
    base = name if name in scores.value_names else name.rpartition(".")[0]
    if base not in scores.value_names:
        return False
    column = scores.frame["values"].struct.field(base).drop_nulls().unique()
    values = [json.loads(text) for text in column] if base in scores.encoded else column.to_list()
    return all(value in (0, 1) for value in values)


# Repetitions of a whole task -------------------------------------------------------------------------------


def compare_repetitions(runs: Sequence[Sequence[MetricValue]]) -> list[dict[str, Any]]:
    """Return for each metric its value in every run, their mean and their sample standard deviation.

    A run without a value is left out, and `runs` says how many there are; a label of `frequency` that a run
    never saw has the share 0 there. Metrics are in the order in which they first occur.
    """
    tables = [{value.name: value for value in run} for run in runs]
    first = {name: value for table in reversed(tables) for name, value in table.items()}
    compared = []
    for name in dict.fromkeys(name for table in tables for name in table):
        about = first[name]
        values = [_read_value(about, table) for table in tables]
        known = [value for value in values if value is not None]
        n = len(known)
        total, squares = sum_exactly((value, 1) for value in known)
        spread = n * squares - total**2
        compared.append(
            {
                **{key: getattr(about, key) for key in ("name", "type", "metric", "scorer", "purpose")},
                "mean": divide(total, n << UNIT_BITS) if n else None,
                "std_dev": divide_and_root(spread, n * (n - 1) << 2 * UNIT_BITS) if n > 1 else None,
                "min": min(known, default=None),
                "max": max(known, default=None),
                "runs": n,
                "values": values,
            }
        )
    return compared


def _read_value(value: MetricValue, table: dict[str, MetricValue]) -> float | None:
    if value.name in table:
        return table[value.name].value
    siblings = [one for one in table.values() if (one.scorer, one.metric) == (value.scorer, value.metric)]
    is_unseen = value.type == "frequency" and any(one.value is not None for one in siblings)
    return 0.0 if is_unseen else None


def measure_agreement(runs: Sequence[pl.Series]) -> pl.DataFrame:
    """Return for each sample its modal `score`, the `share` of the runs that have it, and how many `runs` do.

    Each series holds the scores of one run, row by row the same samples; null is a run without a score, which
    is left out. Of equally frequent scores the smallest is the modal one.
    """
    rows = pl.int_range(0, len(runs[0]), eager=True).alias("row")
    cells = pl.concat([pl.DataFrame([rows, run.alias("score")]) for run in runs], how="vertical_relaxed")
    counts = cells.drop_nulls("score").group_by("row", "score").len("count")
    modal = (
        counts.sort("row", "count", "score", descending=[False, True, False])
        .group_by("row", maintain_order=True)
        .agg(pl.col("score").first(), pl.col("count").first(), pl.col("count").sum().alias("runs"))
    )
    joined = pl.DataFrame([rows]).join(modal, on="row", how="left", maintain_order="left")
    return joined.select(
        "score",
        (pl.col("count") / pl.col("runs")).alias("share"),
        pl.col("runs").fill_null(0).cast(pl.Int32),
    )
