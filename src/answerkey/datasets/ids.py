"""Sample ids: the column `sample_id` if there is one, else the row number."""

from __future__ import annotations

import json

import polars as pl

from answerkey.datasets.shapes import Columns
from answerkey.datasets.troubles import Troubles
from answerkey.errors import Place
from answerkey.types import Samples

ID_COLUMN = "sample_id"
TRIAL_COLUMN = "trial"
_WIDTH = 6


def name_samples(columns: Columns, file: str | None, *, by_trial: bool = False) -> Samples:
    """Return the columns with their sample ids, which are text, not empty and all different.

    With `by_trial`, rows of one sample may differ in the column `trial` instead.
    """
    if ID_COLUMN in columns.frame.columns:
        ids = _read_ids(columns, file, by_trial=by_trial and TRIAL_COLUMN in columns.frame.columns)
    else:
        ids = number_rows(columns.frame.height)
    return Samples(columns.frame, ids, file, columns.lines, columns.encoded)


def number_rows(count: int) -> pl.Series:
    """Return row numbers from 1 on, zero-padded."""
    numbers = pl.int_range(1, count + 1, eager=True, dtype=pl.Int64)
    return numbers.cast(pl.String).str.zfill(_WIDTH).alias(ID_COLUMN)


def _read_ids(columns: Columns, file: str | None, *, by_trial: bool) -> pl.Series:
    column = columns.frame[ID_COLUMN]
    troubles = Troubles(file)
    if ID_COLUMN in columns.encoded:
        values = [None if text is None else json.loads(text) for text in column.to_list()]
        texts = [str(value) if type(value) in {str, int} else None for value in values]
        ids = pl.Series(ID_COLUMN, texts, dtype=pl.String)
    elif column.dtype in {pl.String, pl.Int64}:
        ids = column.cast(pl.String)
    else:
        ids = pl.Series(ID_COLUMN, [None] * len(column), dtype=pl.String)
    for position in (ids.is_null() | (ids == "")).arg_true():
        value = column[position]
        is_empty = value is None or ids[position] is not None
        message = "the sample id is empty" if is_empty else f"sample id {value} is not text or a whole number"
        _add(troubles, message, line=columns.lines[position])
    trials = [str(one) for one in columns.frame[TRIAL_COLUMN].to_list()] if by_trial else None
    _find_duplicates(ids, columns, troubles, trials)
    troubles.raise_any()
    return ids


def _find_duplicates(ids: pl.Series, columns: Columns, troubles: Troubles, trials: list[str] | None) -> None:
    if ids.n_unique() == len(ids):
        return
    first: dict[tuple[str, str], int] = {}
    for position, name in enumerate(ids.to_list()):
        if name is None or name == "":
            continue
        trial = trials[position] if trials else ""
        if (name, trial) in first:
            line = columns.lines[first[name, trial]]
            what = f"trial {trial} of sample id `{name}`" if trials else f"sample id `{name}`"
            message = f"{what} is used twice, first on line {line}"
            _add(troubles, message, line=columns.lines[position])
        first.setdefault((name, trial), position)


def _add(troubles: Troubles, message: str, *, line: int) -> None:
    where = Place(file=troubles.file, line=line, field=ID_COLUMN)
    hint = f"give every row its own id, or remove the column `{ID_COLUMN}` to number the rows"
    troubles.add("E208", message, where=where, hint=hint)
