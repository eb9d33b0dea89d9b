"""Recorded completions of several trials: which row is which trial of which sample."""

from __future__ import annotations

import polars as pl

from answerkey.datasets.ids import ID_COLUMN, TRIAL_COLUMN
from answerkey.errors import DataError, Place, listing
from answerkey.types import Samples

_SHOWN = 5


def match_trials(table: Samples, ids: pl.Series, all_ids: pl.Series, num_trials: int) -> pl.Series:
    """Return for each sample, and each of its trials, the row of its completion.

    Trials are numbered from 0. Rows for samples of the dataset that are not selected are left aside; a trial
    that is missing, and a row that belongs nowhere, are errors.
    """
    _require_columns(table, num_trials)
    trials = table.frame[TRIAL_COLUMN].cast(pl.Int64, strict=False)
    rows = pl.DataFrame({"id": table.ids, "trial": trials}).with_row_index("row")
    numbers = pl.DataFrame({"trial": pl.int_range(0, num_trials, eager=True)})
    wanted = pl.DataFrame({"id": ids}).join(numbers, how="cross", maintain_order="left_right")
    found = wanted.join(rows, on=["id", "trial"], how="left", maintain_order="left")
    missing = found.filter(pl.col("row").is_null())
    is_known = pl.col("id").is_in(all_ids.to_list()) & pl.col("trial").is_between(0, num_trials - 1)
    unknown = rows.filter(~is_known.fill_null(value=False))
    if missing.height or unknown.height:
        raise _mismatch(table, missing, unknown, num_trials)
    return found["row"]


def refuse_trials(table: Samples) -> None:
    """Raise E209 when a table holds several trials of a sample and one is wanted."""
    if table.ids.n_unique() == len(table):
        return
    most = int(table.ids.value_counts()["count"].max())  # type: ignore[arg-type]  # there are rows
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


def _require_columns(table: Samples, num_trials: int) -> None:
    if TRIAL_COLUMN not in table.columns or ID_COLUMN not in table.columns:
        raise refuse_single(num_trials, table.file)


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
