"""What a model once said, read from a file and put in the order of the samples."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import polars as pl

from answerkey.datasets.fields import find_field
from answerkey.datasets.ids import ID_COLUMN
from answerkey.datasets.recorded_trials import match_trials, refuse_trials
from answerkey.datasets.troubles import Troubles
from answerkey.errors import DataError, Place, listing, suggest
from answerkey.models import read_message
from answerkey.types import COMPLETION_SCHEMA, Completion, Completions, CompletionStatus, Samples

COMPLETION_COLUMN = "completion"
#: Accepted instead of `completion` when exactly one of them is there.
OTHER_NAMES = ("output", "response", "model_output")
STATUS_COLUMN = "completion_status"
_SHOWN_IDS = 5
SOURCE = "recorded"
_MESSAGE_KEYS = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "choices", "messages", "message", "output"}
)
_STATUSES = tuple(status.value for status in CompletionStatus)


def load_completions(
    table: Samples,
    ids: pl.Series,
    *,
    column: str | None = None,
    all_ids: pl.Series | None = None,
    kept_ids: pl.Series | None = None,
    num_trials: int = 1,
) -> Completions:
    """Return the completions of a file for the samples `ids`, in their order.

    Matched by `sample_id` if the file has it, else by position: the file then has as many rows as the dataset
    (`all_ids`), as its filtered rows (`kept_ids`), or as the selected head of them. Rows for samples of the
    dataset that are not selected are left aside; rows for unknown samples are an error. Several trials are
    told apart by the column `trial`; those of a sample stand one after the other.
    """
    name = _choose_column(table, column)
    if name is None:
        raise _no_column(table, column)
    everything = ids if all_ids is None else all_ids
    if num_trials > 1:
        rows = _reorder(table, match_trials(table, ids, everything, num_trials))
        return _read_column(rows, rows.ids, name).number(range(num_trials))
    refuse_trials(table)
    if ID_COLUMN in table.columns:
        positions = _match_ids(table, ids, everything)
    else:
        positions = _match_order(table, ids, [everything, everything if kept_ids is None else kept_ids])
    return _read_column(_reorder(table, positions), ids, name)


def completions_within(samples: Samples, *, column: str | None = None) -> Completions | None:
    """Return the completions that stand beside the questions, or None if no column holds any.

    A column that is named but not there is an error.
    """
    name = _choose_column(samples, column)
    if name is None and column is not None:
        raise _no_column(samples, column)
    return None if name is None else _read_column(samples, samples.ids, name)


def _choose_column(table: Samples, column: str | None) -> str | None:
    if column is not None:
        return column if find_field(table, column) is not None else None
    if COMPLETION_COLUMN in table.columns:
        return COMPLETION_COLUMN
    found = [name for name in OTHER_NAMES if name in table.columns]
    if len(found) > 1:
        message = f"several columns may hold the completions: {listing(found)}"
        hint = "name one with `--completion-column`"
        raise DataError("E209", message, where=Place(file=table.file), hint=hint)
    return found[0] if found else None


def _no_column(table: Samples, column: str | None) -> DataError:
    names = _name_fields(table)
    columns = f"columns: {listing(names)}"
    if column is None:
        wanted = listing((COMPLETION_COLUMN, *OTHER_NAMES))
        message, hint = f"no column holds completions; looked for {wanted}", columns
    else:
        message = f"there is no completion column `{column}`"
        hint = "; ".join(part for part in (suggest(column, names), columns) if part)
    return DataError("E209", message, where=Place(file=table.file), hint=hint)


def _name_fields(table: Samples) -> list[str]:
    """Return the names a completion column can have: columns, or the fields of those that are structs."""
    names: list[str] = []
    for name, dtype in table.frame.schema.items():
        fields = dtype.fields if isinstance(dtype, pl.Struct) else []
        names += [f"{name}.{one.name}" for one in fields] or [name]
    return names


def _match_ids(table: Samples, ids: pl.Series, all_ids: pl.Series) -> pl.Series:
    """Return for each sample the row of its completion."""
    rows = pl.DataFrame({"id": table.ids}).with_row_index("row")
    wanted = pl.DataFrame({"id": ids})
    positions = wanted.join(rows, on="id", how="left", maintain_order="left")["row"]
    missing = ids.filter(positions.is_null())
    unknown = rows.join(pl.DataFrame({"id": all_ids}), on="id", how="anti", maintain_order="left")["id"]
    if len(missing) or len(unknown):
        raise _mismatch(table, missing, unknown)
    return positions


def _mismatch(table: Samples, missing: pl.Series, unknown: pl.Series) -> DataError:
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


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _match_order(table: Samples, ids: pl.Series, wholes: Sequence[pl.Series]) -> pl.Series:
    """Return for each sample the row at its position in the dataset, whole or filtered."""
    for whole in wholes:
        if len(whole) == len(table):
            rows = pl.DataFrame({"id": whole}).with_row_index("row")
            return pl.DataFrame({"id": ids}).join(rows, on="id", how="left", maintain_order="left")["row"]
        if len(ids) == len(table) and ids.equals(whole.head(len(ids)), check_names=False):
            return pl.int_range(0, len(ids), eager=True, dtype=pl.UInt32)
    there = f"there {'is' if len(table) == 1 else 'are'} {_count(len(table), 'completion')}"
    message = f"{there} without `{ID_COLUMN}` for {_count(len(wholes[0]), 'sample')}"
    if len(ids) != len(wholes[0]):
        message += f", {len(ids)} of them selected"
    hint = f"add a column `{ID_COLUMN}`, or give exactly one completion per sample, in the dataset's order"
    raise DataError("E209", message, where=Place(file=table.file), hint=hint)


def _reorder(table: Samples, positions: pl.Series) -> Samples:
    in_order = pl.int_range(0, len(positions), eager=True, dtype=pl.UInt32)
    if len(positions) == len(table) and positions.equals(in_order, check_names=False):
        return table
    return Samples(
        table.frame[positions],
        table.ids.gather(positions),
        table.file,
        None if table.lines is None else table.lines.gather(positions),
        table.encoded,
    )


def _read_column(table: Samples, ids: pl.Series, name: str) -> Completions:
    cells = find_field(table, name)
    if isinstance(cells, pl.Series) and cells.dtype in {pl.String, pl.Int64}:
        frame = _frame_texts(ids, cells.cast(pl.String))
    else:
        _refuse_struct(cells, table, name)
        values = cells.to_list() if isinstance(cells, pl.Series) else cells or []
        frame = _frame_cells(table, ids, name, values)
    return Completions(_apply_statuses(frame, table))


def _refuse_struct(cells: object, table: Samples, name: str) -> None:
    """Refuse a column of structs that cannot be messages with one error, not one per row."""
    dtype = cells.dtype if isinstance(cells, pl.Series) else None
    fields = [one.name for one in dtype.fields] if isinstance(dtype, pl.Struct) else []
    if fields and _MESSAGE_KEYS.isdisjoint(fields):
        message = f"column `{name}` holds objects that are no messages"
        hint = f"name a field: {listing(f'{name}.{one}' for one in fields)}"
        raise DataError("E209", message, where=Place(file=table.file, field=name), hint=hint)


def _frame_texts(ids: pl.Series, texts: pl.Series) -> pl.DataFrame:
    """Return the table of plain texts without making a Python value per row."""
    nothing = {name: pl.lit(None, dtype=dtype).alias(name) for name, dtype in COMPLETION_SCHEMA.items()}
    usage = pl.struct(
        pl.lit(None, dtype=pl.Int64).alias("prompt_tokens"),
        pl.lit(None, dtype=pl.Int64).alias("completion_tokens"),
    )
    known = {
        "sample_id": pl.col("sample_id"),
        "trial": pl.lit(0, dtype=pl.Int32).alias("trial"),
        "completion": pl.col("completion"),
        "status": pl.when(pl.col("completion").is_null())
        .then(pl.lit(CompletionStatus.NO_TEXT.value))
        .otherwise(pl.lit(CompletionStatus.OK.value))
        .alias("status"),
        "usage": usage.alias("usage"),
        "source": pl.lit(SOURCE).alias("source"),
    }
    frame = pl.DataFrame({"sample_id": ids, "completion": texts})
    return frame.select((nothing | known).values())


def _frame_cells(table: Samples, ids: pl.Series, name: str, cells: Sequence[object]) -> pl.DataFrame:
    """Return the table of cells that are messages, numbers or a mixture; unfit ones are reported together."""
    troubles = Troubles(table.file)
    completions: list[Completion] = []
    for position, cell in enumerate(cells):
        if (reason := _find_fault(cell)) is not None:
            message = f"the completion of sample `{table.ids[position]}` is {reason}"
            hint = "a completion is text, null, or a message with `content`"
            troubles.add("E209", message, where=table.place(position, name), hint=hint)
        completions.append(read_message(cell))
    troubles.raise_any()
    return Completions.build(ids, completions, source=SOURCE).frame


def _find_fault(cell: object) -> str | None:
    """Return what a cell is if it cannot be a completion, else None."""
    if isinstance(cell, bool):
        return f"the boolean {cell}"
    if isinstance(cell, float) and not math.isfinite(cell):
        return f"the number {cell}"
    if isinstance(cell, dict) and _MESSAGE_KEYS.isdisjoint(cell):
        return f"an object with the fields {listing(cell)}, no message"
    if isinstance(cell, list) and not all(isinstance(one, dict) for one in cell):
        return "a list"
    return None


def _apply_statuses(frame: pl.DataFrame, table: Samples) -> pl.DataFrame:
    """Return the table with the statuses that the file gives; a text that is no answer goes to `reply`."""
    if STATUS_COLUMN not in table.columns:
        return frame
    given = _read_statuses(table)
    text, status, reply = pl.col("completion"), pl.col("status"), pl.col("reply")
    is_other = pl.col("given").is_not_null() & (pl.col("given") != CompletionStatus.OK.value)
    changed = frame.with_columns(given.alias("given")).with_columns(
        pl.when(is_other).then(None).otherwise(text).alias("completion"),
        pl.when(is_other).then(pl.col("given")).otherwise(status).alias("status"),
        pl.when(is_other & text.is_not_null() & reply.is_null())
        .then(pl.struct("completion", "given").map_elements(_write_reply, return_dtype=pl.String))
        .otherwise(reply)
        .alias("reply"),
    )
    return changed.drop("given")


def _write_reply(row: dict[str, str]) -> str:
    is_refusal = row["given"] == CompletionStatus.REFUSED.value
    message = {"role": "assistant", "content": None if is_refusal else row["completion"]}
    return json.dumps(message | ({"refusal": row["completion"]} if is_refusal else {}), ensure_ascii=False)


def _read_statuses(table: Samples) -> pl.Series:
    """Return the statuses in the file; null where it leaves them open."""
    column = table.frame[STATUS_COLUMN]
    if column.dtype != pl.String or STATUS_COLUMN in table.encoded:
        column = pl.Series([None if one is None else str(one) for one in table.values(STATUS_COLUMN)])
    column = column.cast(pl.String).replace("", None)
    troubles = Troubles(table.file)
    for position in (column.is_not_null() & ~column.is_in(_STATUSES)).arg_true():
        message = f"{column[position]!r} is not a completion status"
        hint = f"statuses: {listing(_STATUSES)}"
        troubles.add("E209", message, where=table.place(position, STATUS_COLUMN), hint=hint)
    troubles.raise_any()
    return column
