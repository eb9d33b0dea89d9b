"""Sample ids: the column `sample_id` if there is one, else the row number."""

from __future__ import annotations

import json
from collections.abc import Sequence

import polars as pl

from answerkey.datasets.rows import Rows, iterate_blocks
from answerkey.datasets.shapes import Columns
from answerkey.datasets.troubles import Troubles
from answerkey.errors import Place
from answerkey.types import Samples

ID_COLUMN = "sample_id"
TRIAL_COLUMN = "trial"
#: In which order the options stood when a sample was asked.
ORDER_COLUMN = "option_order"
_WIDTH = 6


def name_samples(columns: Columns, file: str | None) -> Samples:
    """Return the columns with their sample ids; null where the column has no suitable one."""
    if ID_COLUMN in columns.frame.columns:
        ids = read_ids(columns.frame[ID_COLUMN], is_encoded=ID_COLUMN in columns.encoded)
    else:
        ids = number_rows(1, columns.frame.height)
    return Samples(columns.frame, ids, file, columns.lines, columns.encoded)


def number_rows(first: int, count: int) -> pl.Series:
    """Return row numbers from `first` on, zero-padded."""
    whole = 10**_WIDTH
    if first < whole < first + count:  # some need zeros, some do not
        return pl.concat([number_rows(first, whole - first), number_rows(whole, first + count - whole)])
    start = first + whole if first < whole else first
    texts = pl.int_range(start, start + count, eager=True, dtype=pl.Int64).cast(pl.String)
    return (texts.str.slice(1) if first < whole else texts).alias(ID_COLUMN)


def read_ids(column: pl.Series, *, is_encoded: bool) -> pl.Series:
    """Return the ids of a column: text, or whole numbers as text; null for anything else."""
    if is_encoded:
        values = [None if text is None else json.loads(text) for text in column.to_list()]
        texts = [str(value) if type(value) in {str, int} else None for value in values]
        return pl.Series(ID_COLUMN, texts, dtype=pl.String)
    if column.dtype in {pl.String, pl.Int64}:
        return column.cast(pl.String).alias(ID_COLUMN)
    return pl.Series(ID_COLUMN, [None] * len(column), dtype=pl.String)


def check_ids(rows: Rows, *, by_trial: bool = False) -> None:
    """Raise E208 for ids that are empty, unsuitable or used twice.

    With `by_trial`, rows of one sample may differ in the columns `trial` and `option_order` instead. Of each
    row only a hash of its id is kept; where two are the same the ids themselves are compared.
    """
    if ID_COLUMN not in rows.columns:
        return
    marks = [name for name in (TRIAL_COLUMN, ORDER_COLUMN) if by_trial and name in rows.columns]
    bad, hashes = Troubles(rows.file), list[pl.Series]()
    for _, block in iterate_blocks(rows, [ID_COLUMN, *marks]):
        _find_unsuitable(block, bad)
        hashes.append(_hash_ids(block, marks).drop_nulls())
    bad.extend(_find_duplicates(rows, marks, pl.concat(hashes)))
    bad.raise_any()


def _find_unsuitable(block: Samples, troubles: Troubles) -> None:
    ids, column = block.ids, block.frame[ID_COLUMN]
    for position in (ids.is_null() | (ids == "")).arg_true():
        value = column[position]
        is_empty = value is None or ids[position] is not None
        message = "the sample id is empty" if is_empty else f"sample id {value} is not text or a whole number"
        place = block.place(position)
        _add(troubles, message, file=place.file, line=place.line)


def _hash_ids(block: Samples, marks: Sequence[str]) -> pl.Series:
    """Return a hash of each id, together with its trial; null for one that is empty."""
    table = _lay_out(block, marks).select("id", "trial")
    hashes = table.hash_rows() if marks else table["id"].hash()
    is_there = (block.ids != "").fill_null(value=False)
    return hashes if is_there.all() else pl.select(pl.when(is_there).then(hashes)).to_series()


def _lay_out(block: Samples, marks: Sequence[str]) -> pl.DataFrame:
    told = zip(*(map(str, block.values(name)) for name in marks), strict=True)
    trials = pl.Series([" ".join(one) for one in told], dtype=pl.String)
    return pl.select(
        block.ids.alias("id"),
        trials.alias("trial") if marks else pl.lit("").alias("trial"),
        pl.lit(None, pl.Int64).alias("line") if block.lines is None else block.lines.alias("line"),
        pl.lit(block.file, pl.String).alias("file") if block.files is None else block.files.alias("file"),
    )


def _find_duplicates(rows: Rows, marks: Sequence[str], hashes: pl.Series) -> Troubles:
    troubles = Troubles(rows.file)
    ordered = hashes.sort()
    again = ordered.filter(ordered == ordered.shift()).unique()
    if again.is_empty():
        return troubles
    found = [
        _lay_out(block, marks).filter(_hash_ids(block, marks).is_in(again.implode()).fill_null(value=False))
        for _, block in iterate_blocks(rows, [ID_COLUMN, *marks])
    ]
    both = ["id", "trial"]
    table = pl.concat(found).with_columns(
        pl.col("line").first().over(both).alias("first"),
        pl.col("file").first().over(both).alias("first file"),
        pl.int_range(pl.len()).over(both).alias("number"),
    )
    again_rows = table.filter(pl.col("number") > 0).drop("number")
    for name, which, line, file, first, first_file in again_rows.iter_rows():
        what = f"trial {which} of sample id `{name}`" if marks else f"sample id `{name}`"
        there = f"on line {first}" if first_file == file else f"in `{first_file}` on line {first}"
        _add(troubles, f"{what} is used twice, first {there}", file=file, line=line)
    return troubles


def _add(troubles: Troubles, message: str, *, file: str | None, line: int | None) -> None:
    where = Place(file=file, line=line, field=ID_COLUMN)
    hint = f"give every row its own id, or remove the column `{ID_COLUMN}` to number the rows"
    troubles.add("E208", message, where=where, hint=hint)
