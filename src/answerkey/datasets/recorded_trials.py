"""Recorded completions of several trials: which row is which trial of which sample."""

from __future__ import annotations

import polars as pl

from answerkey.datasets.dataset import Dataset
from answerkey.datasets.ids import ID_COLUMN, TRIAL_COLUMN
from answerkey.datasets.recorded import repeat_ids
from answerkey.datasets.rows import BLOCK_ROWS, HeldRows, Rows
from answerkey.errors import DataError, Place, listing
from answerkey.types import Samples

_SHOWN = 5


def match_trials(table: Rows, dataset: Dataset, num_trials: int, columns: frozenset[str]) -> Rows:
    """Return for each sample, and each of its trials, the row of its completion.

    Trials are numbered from 0. Rows for samples of the dataset that are not selected are left aside; a trial
    that is missing, and a row that belongs nowhere, are errors.
    """
    if TRIAL_COLUMN not in table.columns or ID_COLUMN not in table.columns:
        raise refuse_single(num_trials, table.file)
    if len(table) == len(dataset) * num_trials and _is_in_order(table, dataset.rows, num_trials):
        return table
    found = table.load(columns | {TRIAL_COLUMN})
    return HeldRows(found.take(_join_trials(found, dataset, num_trials)))


def _is_in_order(table: Rows, samples: Rows, num_trials: int) -> bool:
    """Return whether the trials of each sample stand one after the other, in the order of the samples."""
    step = max(1, BLOCK_ROWS // num_trials)
    for offset in range(0, len(samples), step):
        ids = samples.slice(offset, step).ids()
        block = table.slice(offset * num_trials, len(ids) * num_trials).load([TRIAL_COLUMN])
        expected = pl.int_range(len(block), dtype=pl.Int64, eager=True) % num_trials
        if not block.ids.equals(repeat_ids(ids, num_trials), check_names=False):
            return False
        if not _read_trials(block).equals(expected, check_names=False):
            return False
    return True


def _read_trials(table: Samples) -> pl.Series:
    return table.frame[TRIAL_COLUMN].cast(pl.Int64, strict=False)


def _join_trials(table: Samples, dataset: Dataset, num_trials: int) -> pl.Series:
    rows = pl.DataFrame({"id": table.ids, "trial": _read_trials(table)}).with_row_index("row")
    numbers = pl.DataFrame({"trial": pl.int_range(0, num_trials, eager=True)})
    ids = pl.DataFrame({"id": dataset.rows.ids()})
    wanted = ids.join(numbers, how="cross", maintain_order="left_right")
    found = wanted.join(rows, on=["id", "trial"], how="left", maintain_order="left")
    missing = found.filter(pl.col("row").is_null())
    is_known = pl.col("id").is_in(dataset.table.ids().implode())
    is_known &= pl.col("trial").is_between(0, num_trials - 1)
    unknown = rows.filter(~is_known.fill_null(value=False))
    if missing.height or unknown.height:
        raise _mismatch(table, missing, unknown, num_trials)
    return found["row"]


def refuse_trials(table: Rows) -> None:
    """Raise E209 when a table holds several trials of a sample and one is wanted."""
    if TRIAL_COLUMN not in table.columns or ID_COLUMN not in table.columns:
        return
    blocks = (table.slice(offset, BLOCK_ROWS).ids().hash() for offset in range(0, len(table), BLOCK_ROWS))
    hashes = pl.concat(list(blocks))
    if hashes.n_unique() == len(hashes):
        return
    most = int(hashes.value_counts()["count"].max())  # type: ignore[arg-type]  # there are rows
    raise DataError(
        "E209",
        f"the completions hold up to {most} trials of a sample, and the task asks each sample once",
        where=Place(file=table.file, field=TRIAL_COLUMN),
        hint=f"add `trials: {{num_trials: {most}}}` to the task, or keep one trial of each sample",
    )


def refuse_single(num_trials: int, file: str | None = None) -> DataError:
    """Return the error about completions of which there is one for each sample, where several are wanted."""
    return DataError(
        "E209",
        f"the task asks each sample {num_trials} times, and there is one completion for each",
        where=Place(file=file),
        hint=f"ask a model, or bring a file with the columns `{ID_COLUMN}` and `{TRIAL_COLUMN}` (0, 1, …) by"
        " `--completions FILE`",
    )


def _mismatch(table: Samples, missing: pl.DataFrame, unknown: pl.DataFrame, num_trials: int) -> DataError:
    parts = []
    if missing.height:
        parts.append(f"trials without a completion: {missing.height} ({_show(missing)})")
    if unknown.height:
        parts.append(f"completions that belong nowhere: {unknown.height} ({_show(unknown)})")
    hint = f"each sample needs the trials 0 to {num_trials - 1} in the column `{TRIAL_COLUMN}`"
    message = f"the completions do not fit the dataset: {'; '.join(parts)}"
    return DataError("E209", message, where=Place(file=table.file), hint=hint)


def _show(rows: pl.DataFrame) -> str:
    names = [f"{name} trial {trial}" for name, trial in rows.select("id", "trial").head(_SHOWN).iter_rows()]
    return listing(names) + (" ..." if rows.height > _SHOWN else "")
