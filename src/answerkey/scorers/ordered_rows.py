"""Scores of samples whose options stand in another order than in the file.

The truth is read from the row as it is written, and moves with its option. Each score says which sample it is
of, in which order the options were shown, and what the completion and the truth are called in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from answerkey.scorers.mcqa_rows import Pair, ResolvedRows, resolve_rows
from answerkey.templates import Template
from answerkey.types import PRIOR_SCHEMA, Samples, Scores

#: What a score says of the order: all labels are those that the options have in the file.
ORDER_FIELDS: dict[str, pl.DataType] = {
    "base_sample_id": pl.String(),
    "option_order": pl.List(pl.String),
    "predicted_option": pl.String(),
    "ground_truth_option": pl.String(),
    "left_in_place": pl.String(),
}


def resolve_ordered(templates: Mapping[str, Template], samples: Samples) -> ResolvedRows:
    """Return choices and truth of every row, the truth at the place to which its option was moved.

    Rows are resolved once, for checking and for scoring them.
    """
    key = "resolved", *((name, repr(template.source)) for name, template in sorted(templates.items()))
    if key not in samples.memo:
        samples.memo[key] = _resolve(templates, samples)
    found: ResolvedRows = samples.memo[key]
    return found


def _resolve(templates: Mapping[str, Template], samples: Samples) -> ResolvedRows:
    if samples.orders is None:
        return resolve_rows(templates, samples)
    rows = resolve_rows(templates, samples.as_written())
    return _move_truths(rows, samples.orders["order"].to_list())


def _move_truths(rows: ResolvedRows, orders: Sequence[Sequence[int]]) -> ResolvedRows:
    pairs: dict[tuple[int, str | None], tuple[int, Pair]] = {}
    codes = []
    for code, order in zip(rows.codes.to_list(), orders, strict=True):
        pair = rows.pairs[code]
        truth = move_label(pair.truth, pair.choices, order)
        known = pairs.setdefault((code, truth), (len(pairs), replace(pair, truth=truth)))
        codes.append(known[0])
    cells = {name: series for name, series in rows.cells.items() if name != "ground_truth_choice"}
    moved = [pair for _, pair in pairs.values()]
    return ResolvedRows(moved, pl.Series(codes, dtype=pl.UInt32), rows.options, cells)


def move_label(label: str | None, choices: Sequence[str] | None, order: Sequence[int]) -> str | None:
    """Return what the option with this label in the file is called in this order."""
    if label is None or choices is None or label not in choices or len(order) != len(choices):
        return label
    return choices[list(order).index(choices.index(label))]


def restore_label(label: str | None, choices: Sequence[str] | None, order: Sequence[int]) -> str | None:
    """Return what the option with this label in this order is called in the file."""
    if label is None or choices is None or label not in choices or len(order) != len(choices):
        return label
    return choices[order[choices.index(label)]]


def note_orders(scores: Scores, samples: Samples) -> Scores:
    """Return scores with what they say of the order, whatever their status; without orders, as they are."""
    if samples.orders is None:
        return scores
    orders = samples.orders["order"].to_list()
    blank = [None] * len(scores)
    choices, predicted, truth = (
        blank if column is None else column.to_list()
        for column in map(scores.column, ("choices", "predicted_choice", "ground_truth_choice"))
    )
    shown = [
        None if names is None or len(order) != len(names) else [names[place] for place in order]
        for names, order in zip(choices, orders, strict=True)
    ]
    columns: dict[str, pl.Series | Sequence[object]] = {
        "base_sample_id": samples.orders["base_sample_id"],
        "option_order": shown,
        "predicted_option": list(map(restore_label, predicted, choices, orders)),
        "ground_truth_option": list(map(restore_label, truth, choices, orders)),
        "left_in_place": samples.orders["left_in_place"],
    }
    added = [pl.Series(name, columns[name], dtype=dtype) for name, dtype in ORDER_FIELDS.items()]
    added += [samples.orders[name] for name in PRIOR_SCHEMA if name in samples.orders.columns]
    metadata = scores.frame["metadata"].struct.unnest().with_columns(added).to_struct("metadata")
    return Scores(scores.frame.with_columns(metadata), scores.encoded)
