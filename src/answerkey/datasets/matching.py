"""Which row of a file of completions belongs to which sample.

Where the file has the order of the dataset, which is found by comparing ids part by part, it is read where it
lies. Only when it has another are ids compared, and completions put in order, in memory.
"""

from __future__ import annotations

import polars as pl

from answerkey.datasets.completion_cells import find_completion_column, refuse_column
from answerkey.datasets.dataset import Dataset
from answerkey.datasets.ids import ID_COLUMN
from answerkey.datasets.recorded import FileCompletions
from answerkey.datasets.recorded_trials import match_trials, refuse_trials
from answerkey.datasets.rows import BLOCK_ROWS, HeldRows, Rows, locate_positions
from answerkey.errors import DataError, Place, listing

_SHOWN_IDS = 5


def match_completions(
    table: Rows, dataset: Dataset, *, column: str | None = None, num_trials: int = 1
) -> FileCompletions:
    """Return the completions of a table for the selected samples, in their order.

    Matched by `sample_id` if the table has it, else by position: it then has as many rows as the dataset, as
    its filtered rows, or as the selected head of them. Rows for samples of the dataset that are not selected
    are left aside; rows for unknown samples are an error. Several trials are told apart by the column
    `trial`; those of a sample stand one after the other.
    """
    found = find_completion_column(table, column)
    if found is None:
        raise refuse_column(table, column)
    if num_trials > 1:
        rows = match_trials(table, dataset, num_trials, found.columns)
    else:
        refuse_trials(table)
        by_id = ID_COLUMN in table.columns
        rows = _match_ids(table, dataset, found.columns) if by_id else _match_order(table, dataset)
    found.check(rows)
    return FileCompletions(rows, found, num_trials)


def _match_ids(table: Rows, dataset: Dataset, columns: frozenset[str]) -> Rows:
    """Return for each sample the row of its completion."""
    if len(table) == len(dataset) and _has_same_ids(table, dataset.rows):
        return table
    for whole in (range(len(dataset.table)), dataset.kept):
        if len(whole) == len(table) and _has_same_ids(table, dataset.table.take(whole)):
            return table.take(locate_positions(whole, dataset.chosen))
    positions = _pair_hashes(table, dataset.rows)
    if positions is not None:
        found = HeldRows(table.load(columns).take(positions))
        if _has_same_ids(found, dataset.rows):
            return found
    return HeldRows(table.load(columns).take(_join_ids(table, dataset)))


def _has_same_ids(one: Rows, other: Rows) -> bool:
    return all(
        one.slice(offset, BLOCK_ROWS).ids().equals(other.slice(offset, BLOCK_ROWS).ids(), check_names=False)
        for offset in range(0, len(one), BLOCK_ROWS)
    )


def _pair_hashes(table: Rows, samples: Rows) -> pl.Series | None:
    """Return for each sample the row with its id, as far as hashes tell; None when they tell of a mismatch.

    Hashes take less memory than ids.
    """
    if len(table) != len(samples):
        return None
    ours, theirs = _hash_ids(samples), _hash_ids(table)
    order, other = ours.arg_sort(), theirs.arg_sort()
    ours, theirs = ours.gather(order), theirs.gather(other)
    if not ours.equals(theirs) or (ours == ours.shift()).any():
        return None
    return pl.DataFrame({"sample": order, "row": other}).sort("sample")["row"]


def _hash_ids(rows: Rows) -> pl.Series:
    """Return a hash of each id."""
    parts = [rows.slice(offset, BLOCK_ROWS).ids().hash() for offset in range(0, len(rows), BLOCK_ROWS)]
    return pl.concat(parts).alias("hash")


def _join_ids(table: Rows, dataset: Dataset) -> pl.Series:
    ids = dataset.rows.ids()
    rows = pl.DataFrame({"id": table.ids()}).with_row_index("row")
    wanted = pl.DataFrame({"id": ids})
    positions = wanted.join(rows, on="id", how="left", maintain_order="left")["row"]
    missing = ids.filter(positions.is_null())
    known = pl.DataFrame({"id": dataset.table.ids()})
    unknown = rows.join(known, on="id", how="anti", maintain_order="left")["id"]
    if len(missing) or len(unknown):
        raise _mismatch(table, missing, unknown)
    return positions


def _mismatch(table: Rows, missing: pl.Series, unknown: pl.Series) -> DataError:
    parts = []
    if len(missing):
        parts.append(f"samples without a completion: {len(missing)} ({_show(missing)})")
    if len(unknown):
        parts.append(f"completions without a sample: {len(unknown)} ({_show(unknown)})")
    message = f"the completions do not fit the dataset: {'; '.join(parts)}"
    hint = (
        f"`{ID_COLUMN}` must hold the ids of this dataset; without ids its rows are `000001`, `000002`, ..."
    )
    return DataError("E209", message, where=Place(file=table.file), hint=hint)


def _show(ids: pl.Series) -> str:
    return listing(ids.head(_SHOWN_IDS).to_list()) + (" ..." if len(ids) > _SHOWN_IDS else "")


def _match_order(table: Rows, dataset: Dataset) -> Rows:
    """Return for each sample the row at its position in the dataset, whole or filtered."""
    for whole in (range(len(dataset.table)), dataset.kept):
        places = locate_positions(whole, dataset.chosen)
        if len(whole) == len(table):
            return table.take(places)
        if len(places) == len(table) and _is_head(places):
            return table
    count = len(dataset.table)
    there = f"there {'is' if len(table) == 1 else 'are'} {_count(len(table), 'completion')}"
    message = f"{there} without `{ID_COLUMN}` for {_count(count, 'sample')}"
    if len(dataset) != count:
        message += f", {len(dataset)} of them selected"
    hint = f"add a column `{ID_COLUMN}`, or give exactly one completion per sample, in the dataset's order"
    raise DataError("E209", message, where=Place(file=table.file), hint=hint)


def _is_head(places: range | pl.Series) -> bool:
    if isinstance(places, range):
        return places.start == 0
    return bool(places[-1] == len(places) - 1)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
