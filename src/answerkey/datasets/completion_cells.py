"""Which column of a table holds completions, and its cells read as Completions."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from answerkey.datasets.fields import Field, find_field
from answerkey.datasets.rows import Rows, iterate_blocks
from answerkey.datasets.troubles import Troubles
from answerkey.errors import DataError, Place, listing, suggest
from answerkey.models import read_message
from answerkey.types import THEIR_SCHEMA, Completion, Completions, CompletionStatus, Samples

COMPLETION_COLUMN = "completion"
#: Accepted instead of `completion` when exactly one of them is there.
OTHER_NAMES = ("output", "response", "model_output")
STATUS_COLUMN = "completion_status"
#: Log-probabilities as an endpoint sent them, as an object or its JSON text.
LOGPROBS_COLUMN = "logprobs"
#: Why the model stopped; `length` is a completion that was cut off.
END_COLUMN = "finish_reason"
#: Columns beside the completion that are read where a table has them.
BESIDE = (STATUS_COLUMN, LOGPROBS_COLUMN, END_COLUMN, *THEIR_SCHEMA)
SOURCE = "recorded"
_MESSAGE_KEYS = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "choices", "messages", "message", "output"}
)
_STATUSES = tuple(status.value for status in CompletionStatus)


@dataclass(frozen=True)
class CompletionColumn:
    """Where the completions of a table stand, by the name that errors give, and what else it has of them."""

    name: str
    field: Field
    beside: frozenset[str] = frozenset()

    @property
    def columns(self) -> frozenset[str]:
        """The columns that are read."""
        return self.beside | {self.field.column}

    @property
    def has_status(self) -> bool:
        """Whether the table says what became of each question."""
        return STATUS_COLUMN in self.beside

    def read(self, table: Samples, ids: pl.Series) -> Completions:
        """Return the completions of these rows under these ids; all unfit cells are reported together."""
        cells, statuses = Troubles(table.file), Troubles(table.file)
        found = self._read(table, ids, cells, statuses)
        cells.raise_any()
        statuses.raise_any()
        return found

    def check(self, rows: Rows) -> None:
        """Raise E209 for all cells of the rows that are no completions; the rows are read part by part."""
        empty = rows.slice(0, 0).load(self.columns)
        self._refuse_struct(empty)
        if _is_text(self.field.read(empty)) and not self.has_status:
            return
        cells, statuses = Troubles(rows.file), Troubles(rows.file)
        for _, block in iterate_blocks(rows, self.columns):
            self._read(block, block.ids, cells, statuses)
        cells.raise_any()
        statuses.raise_any()

    def _refuse_struct(self, table: Samples) -> None:
        """Refuse a column of structs that cannot be messages with one error, not one per row."""
        cells = self.field.read(table)
        dtype = cells.dtype if isinstance(cells, pl.Series) else None
        fields = [one.name for one in dtype.fields] if isinstance(dtype, pl.Struct) else []
        if fields and _MESSAGE_KEYS.isdisjoint(fields):
            message = f"column `{self.name}` holds objects that are no messages"
            hint = f"name a field: {listing(f'{self.name}.{one}' for one in fields)}"
            raise DataError("E209", message, where=Place(file=table.file, field=self.name), hint=hint)

    def _read(self, table: Samples, ids: pl.Series, cells: Troubles, statuses: Troubles) -> Completions:
        found = self.field.read(table)
        if isinstance(found, pl.Series) and _is_text(found):
            completions = Completions.build_texts(ids, found.cast(pl.String), source=SOURCE)
        else:
            values = found.to_list() if isinstance(found, pl.Series) else found
            completions = self._read_cells(table, ids, values, cells)
        if LOGPROBS_COLUMN in self.beside:
            completions = _add_logprobs(completions, table)
        completions = _add_told(completions, table, self.beside)
        return _apply_statuses(completions, table, statuses) if self.has_status else completions

    def _read_cells(
        self, table: Samples, ids: pl.Series, cells: Sequence[object], troubles: Troubles
    ) -> Completions:
        """Return cells that are messages, numbers or a mixture as completions."""
        completions: list[Completion] = []
        for position, cell in enumerate(cells):
            if (reason := _find_fault(cell)) is not None:
                message = f"the completion of sample `{table.ids[position]}` is {reason}"
                hint = "a completion is text, null, or a message with `content`"
                troubles.add("E209", message, where=table.place(position, self.name), hint=hint)
            completions.append(read_message(cell))
        return Completions.build(ids, completions, source=SOURCE)


def find_completion_column(rows: Rows, column: str | None = None) -> CompletionColumn | None:
    """Return where the completions stand, None if nowhere; several that could be meant are E209."""
    beside = frozenset(rows.columns).intersection(BESIDE)
    if column is not None:
        found = find_field(rows, column)
        return None if found is None else CompletionColumn(column, found, beside)
    if COMPLETION_COLUMN in rows.columns:
        return CompletionColumn(COMPLETION_COLUMN, Field(COMPLETION_COLUMN), beside)
    names = [name for name in OTHER_NAMES if name in rows.columns]
    if len(names) > 1:
        message = f"several columns may hold the completions: {listing(names)}"
        hint = "name one with `--completion-column`"
        raise DataError("E209", message, where=Place(file=rows.file), hint=hint)
    return CompletionColumn(names[0], Field(names[0]), beside) if names else None


def refuse_column(rows: Rows, column: str | None) -> DataError:
    """Return the error about a table without the completion column."""
    names = _name_fields(rows)
    columns = f"columns: {listing(names)}"
    if column is None:
        wanted = listing((COMPLETION_COLUMN, *OTHER_NAMES))
        message, hint = f"no column holds completions; looked for {wanted}", columns
    else:
        message = f"there is no completion column `{column}`"
        hint = "; ".join(part for part in (suggest(column, names), columns) if part)
    return DataError("E209", message, where=Place(file=rows.file), hint=hint)


def _name_fields(rows: Rows) -> list[str]:
    """Return the names a completion column can have: columns, or the fields of those that are structs."""
    names: list[str] = []
    for name, dtype in rows.slice(0, 0).load().frame.schema.items():
        fields = dtype.fields if isinstance(dtype, pl.Struct) else []
        names += [f"{name}.{one.name}" for one in fields] or [name]
    return names


def _is_text(cells: pl.Series | Sequence[object]) -> bool:
    """Return whether cells need no look one by one: texts, and whole numbers, which are read as text."""
    return isinstance(cells, pl.Series) and cells.dtype in {pl.String, pl.Int64}


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


def _add_logprobs(completions: Completions, table: Samples) -> Completions:
    """Return the table with the log-probabilities that the file gives; what is none is left out."""
    found = [_write_logprobs(cell) for cell in table.values(LOGPROBS_COLUMN)]
    own = pl.Series("given", found, dtype=pl.String)
    return Completions(completions.frame.with_columns(pl.coalesce(own, "logprobs").alias("logprobs")))


def _add_told(completions: Completions, table: Samples, beside: frozenset[str]) -> Completions:
    """Return the table with why each completion ended, and with verdicts that others gave.

    What is no text, or no number, is left out: these are told by others, and decide nothing.
    """
    types = {END_COLUMN: pl.String(), **THEIR_SCHEMA}
    found = [
        _read_told(table, name, dtype)
        for name, dtype in types.items()
        if name in beside and table.frame[name].dtype != pl.Null
    ]
    return Completions(completions.frame.with_columns(found)) if found else completions


def _read_told(table: Samples, name: str, dtype: pl.DataType) -> pl.Series:
    column = table.frame[name]
    if name in table.encoded or column.dtype.is_nested():
        return pl.Series(name, [None] * len(column), dtype=dtype)
    found = column.cast(dtype, strict=False)
    return found.fill_nan(None) if dtype == pl.Float64 else found


def _write_logprobs(cell: object) -> str | None:
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except ValueError:
            return None
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, dict) else None


def _apply_statuses(completions: Completions, table: Samples, troubles: Troubles) -> Completions:
    """Return the table with the statuses that the file gives; a text that is no answer goes to `reply`."""
    given = _read_statuses(table, troubles)
    text, status, reply = pl.col("completion"), pl.col("status"), pl.col("reply")
    is_other = pl.col("given").is_not_null() & (pl.col("given") != CompletionStatus.OK.value)
    changed = completions.frame.with_columns(given.alias("given")).with_columns(
        pl.when(is_other).then(None).otherwise(text).alias("completion"),
        pl.when(is_other).then(pl.col("given")).otherwise(status).alias("status"),
        pl.when(is_other & text.is_not_null() & reply.is_null())
        .then(pl.struct("completion", "given").map_elements(_write_reply, return_dtype=pl.String))
        .otherwise(reply)
        .alias("reply"),
    )
    return Completions(changed.drop("given"))


def _write_reply(row: dict[str, str]) -> str:
    is_refusal = row["given"] == CompletionStatus.REFUSED.value
    message = {"role": "assistant", "content": None if is_refusal else row["completion"]}
    return json.dumps(message | ({"refusal": row["completion"]} if is_refusal else {}), ensure_ascii=False)


def _read_statuses(table: Samples, troubles: Troubles) -> pl.Series:
    """Return the statuses in the file; null where it leaves them open."""
    column = table.frame[STATUS_COLUMN]
    if column.dtype != pl.String or STATUS_COLUMN in table.encoded:
        texts = [None if one is None else str(one) for one in table.values(STATUS_COLUMN)]
        column = pl.Series(texts, dtype=pl.String)
    column = column.replace("", None)
    for position in (column.is_not_null() & ~column.is_in(_STATUSES)).arg_true():
        message = f"{column[position]!r} is not a completion status"
        hint = f"statuses: {listing(_STATUSES)}"
        troubles.add("E209", message, where=table.place(position, STATUS_COLUMN), hint=hint)
    return column
