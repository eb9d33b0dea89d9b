"""What a metric sees of a shard, group by group and cluster by cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl

from answerkey.metrics.observed import Observed, name_left_out, read_column, read_values
from answerkey.types import Scores

Labels = tuple[str, ...]


def split_observed(
    scores: Scores, fields: Sequence[str], labels: Sequence[pl.Series]
) -> dict[Labels, Observed]:
    """Return what is observed for each combination of labels; those without any counted row included."""
    names = [f"label {index}" for index in range(len(labels))]
    marks = pl.DataFrame([series.rename(name) for name, series in zip(names, labels, strict=True)])
    rows = marks.hstack(_read_fields(scores, fields)).filter(scores.counted())
    counted: dict[Labels, list[tuple[tuple[object, ...], int]]] = {}
    for label, values, count in _count(rows, scores, fields, names):
        counted.setdefault(label, []).append((values, count))
    left_out = _count_left_out(scores, marks, names)
    known = [*scores.value_names, *scores.metadata_names]
    return {
        label: Observed(counted.get(label, []), left_out.get(label, Counter()), known)
        for label in dict.fromkeys([*counted, *left_out])
    }


def _read_fields(scores: Scores, fields: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame([read_column(scores, name).alias(str(index)) for index, name in enumerate(fields)])


def _count(
    rows: pl.DataFrame, scores: Scores, fields: Sequence[str], names: Sequence[str]
) -> list[tuple[Labels, tuple[object, ...], int]]:
    groups = rows.group_by(pl.all()).len()
    values = [
        read_values(groups[str(index)], is_encoded=name in scores.encoded)
        for index, name in enumerate(fields)
    ]
    labels = groups.select(names).rows()
    return list(zip(labels, zip(*values, strict=True), groups["len"].to_list(), strict=True))


def _count_left_out(scores: Scores, marks: pl.DataFrame, names: Sequence[str]) -> dict[Labels, Counter[str]]:
    """Return label → reason → count; a label of which no row is left out is not among them."""
    reasons = scores.frame.select(name_left_out()).to_series()
    groups = marks.with_columns(reasons).drop_nulls("reason").group_by(*names, "reason").len()
    found: dict[Labels, Counter[str]] = {}
    for *label, reason, count in groups.iter_rows():
        found.setdefault(tuple(label), Counter())[reason] += count
    return found


def count_alike(scores: Scores, fields: Sequence[str], size: int) -> list[tuple[Observed, int]]:
    """Return what is observed of each `size` rows, one sample's trials; how often, where it is the same."""
    columns = [str(index) for index in range(len(fields))]
    table = _read_fields(scores, fields).with_row_index("row").filter(scores.counted())
    kinds = table.group_by(columns).agg("row").with_row_index("kind")
    values = [
        read_values(kinds[str(index)], is_encoded=name in scores.encoded) for index, name in enumerate(fields)
    ]
    combinations = list(zip(*values, strict=True))
    coded = kinds.select("kind", "row").explode("row")
    spelled = coded.group_by(pl.col("row") // size).agg(pl.col("kind").sort().cast(pl.String))
    signatures = spelled.select(pl.col("kind").list.join(" ")).group_by("kind").len()
    known = [*scores.value_names, *scores.metadata_names]
    found = []
    for signature, count in signatures.iter_rows():
        counts = [(combinations[int(kind)], times) for kind, times in Counter(signature.split(" ")).items()]
        found.append((Observed(counts, Counter(), known), count))
    return found
