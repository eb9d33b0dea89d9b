"""Completions that are there already: which column holds them, which row belongs to which sample.

They are read shard by shard, in the order of the samples. Where a file of completions has the order of the
dataset, which is found by comparing ids part by part, it is read where it lies. Only when it has another are
ids joined, and completions put in order, in memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import polars as pl

from answerkey.datasets.content import RowErrors
from answerkey.datasets.dataset import Dataset, Recorded
from answerkey.datasets.questions import find_columns
from answerkey.datasets.rows import (
    BLOCK_ROWS,
    ID_COLUMN,
    TRIAL_COLUMN,
    Rows,
    find_inside,
    get_inside,
    iterate_blocks,
    locate_positions,
    read_cells,
    split_name,
)
from answerkey.errors import DataError, Place, listing, suggest
from answerkey.models.responses import read_message
from answerkey.reader.markup import THOUGHT_BEGIN, split_thoughts
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
#: The thoughts of a reasoning model, in a table of completions alone: a dataset may have others of that name.
THOUGHTS_COLUMN = "reasoning"
SOURCE = "recorded"
_MESSAGE_KEYS = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "choices", "messages", "message", "output"}
)
_STATUSES = tuple(status.value for status in CompletionStatus)
#: How many ids are named in an error.
_SHOWN_IDS = 5
#: Made once: `json.dumps` with options makes an encoder for every value.
_write_json = json.JSONEncoder(ensure_ascii=False).encode
#: Stands for a field that a value does not have; null is a value.
_ABSENT = object()


@dataclass(frozen=True)
class CompletionColumn:
    """Where the completions of a table stand, by the name that errors give, and what else it has of them.

    They are the cells of a column, or what the dotted name `inside` reaches in them.
    """

    name: str
    column: str
    inside: str
    beside: frozenset[str]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that are read."""
        return self.beside | {self.column}

    def cells(self, samples: Samples) -> pl.Series | list[object]:
        """Return the cells; a row without the field has a null cell."""
        return read_cells(samples, self.column, self.inside)

    def check(self, rows: Rows) -> None:
        """Raise E209 for all cells of the rows that are no completions; the rows are read part by part."""
        cells = self.cells(rows.slice(0, 0).load(self.columns))
        if _is_text(cells) and STATUS_COLUMN not in self.beside:
            return
        dtype = cells.dtype if isinstance(cells, pl.Series) else None
        fields = [one.name for one in dtype.fields] if isinstance(dtype, pl.Struct) else []
        if fields and _MESSAGE_KEYS.isdisjoint(fields):  # one error, not one per row
            message = f"column `{self.name}` holds objects that are no messages"
            hint = f"name a field: {listing(f'{self.name}.{one}' for one in fields)}"
            raise DataError("E209", message, where=Place(file=rows.file, field=self.name), hint=hint)
        errors = RowErrors(rows.file), RowErrors(rows.file)
        judged = replace(self, beside=self.beside & {STATUS_COLUMN})  # nothing else can be wrong
        for _, block in iterate_blocks(rows, judged.columns):
            judged._read(block, block.ids, *errors)  # noqa: SLF001 - its own class
        for one in errors:
            one.raise_any()

    def read(self, table: Samples, ids: pl.Series) -> Completions:
        """Return the completions of these rows under these ids; all unfit cells are reported together."""
        errors = RowErrors(table.file), RowErrors(table.file)
        found = self._read(table, ids, *errors)
        for one in errors:
            one.raise_any()
        return found

    def _read(self, table: Samples, ids: pl.Series, unfit: RowErrors, statuses: RowErrors) -> Completions:
        cells = self.cells(table)
        if isinstance(cells, pl.Series) and _is_text(cells):
            completions = Completions.build_texts(ids, cells.cast(pl.String), source=SOURCE)
        else:  # messages, numbers or a mixture
            read: list[Completion] = []
            for position, cell in enumerate(cells):
                if (reason := _find_fault(cell)) is not None:
                    message = f"the completion of sample `{table.ids[position]}` is {reason}"
                    hint = "a completion is text, null, or a message with `content`"
                    unfit.add("E209", message, where=table.place(position, self.name), hint=hint)
                read.append(read_message(cell))
            completions = Completions.build(ids, read, source=SOURCE)
        frame = completions.frame
        if LOGPROBS_COLUMN in self.beside:
            own = [_write_logprobs(cell) for cell in table.values(LOGPROBS_COLUMN)]
            given = pl.Series("given", own, dtype=pl.String)
            frame = frame.with_columns(pl.coalesce(given, "logprobs").alias("logprobs"))
        # Why each completion ended, and verdicts that others gave; they decide nothing.
        types = {END_COLUMN: pl.String(), THOUGHTS_COLUMN: pl.String(), **THEIR_SCHEMA}
        for name, dtype in types.items():
            column = table.frame[name] if name in self.beside else pl.Series(dtype=pl.Null)
            if column.dtype == pl.Null:
                continue
            if name in table.encoded or column.dtype.is_nested():  # no text, or no number
                column = pl.Series(name, [None] * len(column))
            found = column.cast(dtype, strict=False)
            frame = frame.with_columns(found.fill_nan(None) if dtype == pl.Float64 else found)
        if STATUS_COLUMN in self.beside:
            given = table.frame[STATUS_COLUMN]
            if given.dtype != pl.String or STATUS_COLUMN in table.encoded:
                texts = [None if one is None else str(one) for one in table.values(STATUS_COLUMN)]
                given = pl.Series(texts, dtype=pl.String)
            given = given.replace("", None)
            for position in (given.is_not_null() & ~given.is_in(_STATUSES)).arg_true():
                message = f"{given[position]!r} is not a completion status"
                where = table.place(position, STATUS_COLUMN)
                statuses.add("E209", message, where=where, hint=f"statuses: {listing(_STATUSES)}")
            frame = _apply_statuses(frame, given)
        return Completions(frame)


def find_completion_column(
    rows: Rows, column: str | None = None, *, is_needed: bool = False
) -> CompletionColumn | None:
    """Return where the completions stand, None if nowhere; E209 for several that could be meant.

    A column that is named, or needed, and not there is E209, too. A name may reach into a column: the exact
    column first, then the field with the longest matching column name, and so on inwards:
    `completions.org/model-1.5` reaches the field `org/model-1.5` of the column `completions`.
    """
    beside = frozenset(rows.columns).intersection(BESIDE)
    known = (column,) if column is not None else (COMPLETION_COLUMN,)
    names = [name for name in known if name in rows.columns]
    names = names or [name for name in OTHER_NAMES if column is None and name in rows.columns]
    if len(names) > 1:
        message = f"several columns may hold the completions: {listing(names)}"
        hint = "name one with `--completion-column`"
        raise DataError("E209", message, where=Place(file=rows.file), hint=hint)
    if names:
        return CompletionColumn(names[0], names[0], "", beside)
    for name, inside in split_name(column or "", rows.columns):
        if _has_field(rows, name, inside):
            return CompletionColumn(column or "", name, inside, beside)
    if column is None and not is_needed:
        return None
    there: list[str] = []  # columns, or the fields of those that are structs
    for name, dtype in rows.slice(0, 0).load().frame.schema.items():
        fields = dtype.fields if isinstance(dtype, pl.Struct) else []
        there += [f"{name}.{one.name}" for one in fields] or [name]
    hint = f"columns: {listing(there)}"
    message = f"no column holds completions; looked for {listing((COMPLETION_COLUMN, *OTHER_NAMES))}"
    if column is not None:
        message = f"there is no completion column `{column}`"
        near = suggest(column, there)
        hint = f"{near} {hint}" if near else hint
    raise DataError("E209", message, where=Place(file=rows.file), hint=hint)


def _has_field(rows: Rows, column: str, inside: str) -> bool:
    """Return whether any row has the field."""
    if column not in rows.encoded:
        empty = rows.slice(0, 0).load([column])
        return find_inside(empty.frame[column], inside) is not None
    return any(
        get_inside(value, inside, _ABSENT) is not _ABSENT
        for _, block in iterate_blocks(rows, [column])
        for value in block.values(column)
    )


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


def _write_logprobs(cell: object) -> str | None:
    """Return log-probabilities as JSON text; what is none is left out."""
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except ValueError:
            return None
    return _write_json(cell) if isinstance(cell, dict) else None


def _apply_statuses(frame: pl.DataFrame, given: pl.Series) -> pl.DataFrame:
    """Return completions with the statuses that the file gives; a text that is no answer goes to `reply`."""
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


@dataclass(frozen=True)
class BlankCompletions:
    """Completions without text, for samples that are evaluated without any."""

    columns: frozenset[str] = frozenset()
    num_trials: int = 1

    def slice(self, offset: int, length: int) -> Self:  # noqa: ARG002 - there is nothing to cut
        """Return the same."""
        return self

    def read(self, samples: Samples) -> Completions:
        """Return a completion without text for each sample."""
        return Completions.build_blank(samples.ids)


@dataclass(frozen=True)
class TableCompletions:
    """Completions in the order of the samples and of their trials.

    `rows` are those of another table; without any the completions stand beside the questions.
    """

    column: CompletionColumn
    rows: Rows | None = None
    num_trials: int = 1

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the dataset that are read."""
        return self.column.columns if self.rows is None else frozenset()

    def slice(self, offset: int, length: int) -> Self:
        """Return those of `length` samples from `offset` on."""
        if self.rows is None:
            return self
        return replace(self, rows=self.rows.slice(offset * self.num_trials, length * self.num_trials))

    def read(self, samples: Samples) -> Completions:
        """Return what the column says, under the ids of the samples."""
        table = samples if self.rows is None else self.rows.load(self.column.columns)
        found = self.column.read(table, _repeat_ids(samples.ids, self.num_trials))
        return found if self.num_trials == 1 else found.number(range(self.num_trials))


#: What a text may hold that has thoughts in it, for a first look.
_MAYBE_THOUGHTS = "[<\\[\u25c1]|assistantfinal|" + THOUGHT_BEGIN


@dataclass(frozen=True)
class SplitCompletions:
    """Completions whose thoughts are taken out of their texts, as those of live models are."""

    recorded: Recorded

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the dataset that are read."""
        return self.recorded.columns

    @property
    def num_trials(self) -> int:
        """How many there are for each sample."""
        return self.recorded.num_trials

    def slice(self, offset: int, length: int) -> Self:
        """Return those of `length` samples from `offset` on."""
        return replace(self, recorded=self.recorded.slice(offset, length))

    def read(self, samples: Samples) -> Completions:
        """Return the completions with their thoughts apart; `raw` is the text as it was."""
        completions = self.recorded.read(samples)
        frame = completions.frame
        rows = frame["completion"].str.contains(_MAYBE_THOUGHTS).fill_null(value=False).arg_true()
        found = {row: split_thoughts(frame["completion"][row]) for row in rows}
        split = [(row, *both) for row, both in found.items() if both is not None]
        if not split:
            return completions
        schema = {"row": pl.UInt32, "thought": pl.String, "said": pl.String}
        table = pl.DataFrame(split, schema=schema, orient="row")
        joined = frame.with_row_index("row").join(table, on="row", how="left", maintain_order="left")
        is_split, apart = pl.col("said").is_not_null(), pl.concat_str("reasoning", "thought", separator="\n")
        own = pl.when(pl.col("reasoning").fill_null("") == "").then("thought").otherwise(apart)
        joined = joined.with_columns(
            pl.when(is_split).then("completion").otherwise("raw").alias("raw"),
            pl.when(is_split).then("said").otherwise("completion").alias("completion"),
            pl.when(is_split).then(own).otherwise("reasoning").alias("reasoning"),
        )
        return Completions(joined.select(frame.columns))


def find_own_completions(rows: Rows, *, column: str | None = None) -> TableCompletions | None:
    """Return the completions that stand beside the questions, or None if no column holds any.

    A column that is named but not there is an error, and so are cells that are no completions.
    """
    found = find_completion_column(rows, column)
    if found is None:
        return None
    found.check(rows)
    return TableCompletions(found)


def match_completions(
    table: Rows, dataset: Dataset, *, column: str | None = None, num_trials: int = 1
) -> TableCompletions:
    """Return the completions of a table for the selected samples, in their order.

    Matched by `sample_id` if the table has it, or by another column of ids if all of them are the dataset's
    and stand in another order; else by position: it then has as many rows as the dataset, as its filtered
    rows, or as the selected ones of them. Rows for samples of the dataset that are not selected
    are left aside; rows for unknown samples are an error. Several trials are told apart by the column
    `trial`; those of a sample stand one after the other.
    """
    found = find_completion_column(table, column, is_needed=True)
    assert found is not None  # noqa: S101 - it is needed
    if THOUGHTS_COLUMN in table.columns:
        found = replace(found, beside=found.beside | {THOUGHTS_COLUMN})
    named = None if ID_COLUMN in table.columns else _name_rows(table, dataset)
    table = table if named is None else named
    has_ids, has_trials = named is not None or ID_COLUMN in table.columns, TRIAL_COLUMN in table.columns
    if num_trials > 1 and not (has_ids and has_trials):
        raise refuse_single(num_trials, table.file)
    if num_trials == 1 and has_ids and has_trials:
        blocks = (table.slice(offset, BLOCK_ROWS) for offset in range(0, len(table), BLOCK_ROWS))
        hashes = pl.concat([one.ids.hash() for one in blocks])  # they take less memory than ids
        most = int(hashes.value_counts()["count"].max())  # type: ignore[arg-type]  # there are rows
        if most > 1:
            held = f"the completions hold up to {most} trials of a sample"
            message = f"{held}, and the task has one trial of each sample"
            hint = f"add `trials: {{num_trials: {most}}}` to the task, or keep one trial of each sample"
            raise DataError("E209", message, where=Place(file=table.file, field=TRIAL_COLUMN), hint=hint)
    rows = _match_ids(table, dataset, num_trials, found.columns) if has_ids else _match_order(table, dataset)
    found.check(rows)
    return TableCompletions(found, rows, num_trials)


def _name_rows(table: Rows, dataset: Dataset) -> Rows | None:
    """Return the rows under their samples' ids, if a column like `id` says which these are; else None.

    It does where each sample has one of its values, here or as its own id, and the order is another.
    """
    column = find_columns(tuple(table.columns), ("id",)).columns.get("id")
    if column is None or column in table.encoded or len(table) > len(dataset.table):
        return None
    own = dataset.table.ids
    known = [own]
    if column in dataset.table.columns and column not in dataset.table.encoded:
        known.append(dataset.table.load({column}).frame[column])
    said = table.load({column}).frame[column].cast(pl.String, strict=False)
    for each in [] if said.is_duplicated().any() else known:
        names = each.cast(pl.String, strict=False)
        if names.has_nulls() or names.is_duplicated().any() or not said.is_in(names.implode()).all():
            continue
        if said.equals(names.head(len(said))):
            return None
        rows = table.load()
        named, told = pl.DataFrame({"said": names, "id": own}), pl.DataFrame({"said": said})
        return replace(rows, ids=told.join(named, on="said", how="left", maintain_order="left")["id"])
    return None


def _repeat_ids(ids: pl.Series, times: int) -> pl.Series:
    """Return each id `times` times, one after the other."""
    if times == 1:
        return ids
    return ids.gather(pl.int_range(len(ids) * times, dtype=pl.UInt32, eager=True) // times)


def _match_ids(table: Rows, dataset: Dataset, num_trials: int, columns: frozenset[str]) -> Rows:
    """Return for each sample, and each of its trials, the row of its completion; trials count from 0.

    Rows for samples of the dataset that are not selected are left aside; what is missing, and a row that
    belongs nowhere, are errors.
    """
    if len(table) == len(dataset) * num_trials and _is_in_order(table, dataset.rows, num_trials):
        return table
    wholes = (range(len(dataset.table)), dataset.kept) if num_trials == 1 else ()
    for whole in wholes:
        if len(whole) == len(table) and _is_in_order(table, dataset.table.take(whole), 1):
            return table.take(locate_positions(whole, dataset.chosen))
    found = table.load(columns | {TRIAL_COLUMN} if num_trials > 1 else columns)
    rows = pl.DataFrame({"id": found.ids}).with_row_index("row")
    wanted, known = (pl.DataFrame({"id": one.ids}) for one in (dataset.rows, dataset.table))
    keys, name = ["id"], pl.col("id")
    lacking, belonging_nowhere = "samples without a completion", "completions without a sample"
    hint = (
        f"`{ID_COLUMN}` must hold the ids of this dataset; without ids its rows are `000001`, `000002`, ..."
    )
    if num_trials > 1:
        rows = rows.with_columns(_read_trials(found).alias("trial"))
        numbers = pl.DataFrame({"trial": pl.int_range(0, num_trials, eager=True)})
        wanted, known = (
            one.join(numbers, how="cross", maintain_order="left_right") for one in (wanted, known)
        )
        keys.append("trial")
        name = pl.format("{} trial {}", *(pl.col(one).cast(pl.String).fill_null("None") for one in keys))
        lacking, belonging_nowhere = "trials without a completion", "completions that belong nowhere"
        hint = f"each sample needs the trials 0 to {num_trials - 1} in the column `{TRIAL_COLUMN}`"
    matched = wanted.join(rows, on=keys, how="left", maintain_order="left")
    missing = matched.filter(pl.col("row").is_null()).select(name).to_series()
    unknown = rows.join(known, on=keys, how="anti", maintain_order="left").select(name).to_series()
    if len(missing) or len(unknown):
        parts = [
            f"{what}: {len(names)} ({listing(names.head(_SHOWN_IDS).to_list())}"
            f"{' ...' if len(names) > _SHOWN_IDS else ''})"
            for what, names in ((lacking, missing), (belonging_nowhere, unknown))
            if len(names)
        ]
        message = f"the completions do not fit the dataset: {'; '.join(parts)}"
        raise DataError("E209", message, where=Place(file=table.file), hint=hint)
    return found.take(matched["row"])


def _is_in_order(table: Rows, samples: Rows, num_trials: int) -> bool:
    """Return whether the trials of each sample stand one after the other, in the order of the samples."""
    step = max(1, BLOCK_ROWS // num_trials)
    for offset in range(0, len(samples), step):
        ids = _repeat_ids(samples.slice(offset, step).ids, num_trials)
        part = table.slice(offset * num_trials, len(ids))
        if num_trials > 1:
            part = part.load([TRIAL_COLUMN])
            expected = pl.int_range(len(part), dtype=pl.Int64, eager=True) % num_trials
            if not _read_trials(part).equals(expected, check_names=False):
                return False
        if not part.ids.equals(ids, check_names=False):
            return False
    return True


def _read_trials(table: Samples) -> pl.Series:
    return table.frame[TRIAL_COLUMN].cast(pl.Int64, strict=False)


def _match_order(table: Rows, dataset: Dataset) -> Rows:
    """Return for each sample the row at its position in the dataset, whole or filtered."""
    for whole in (range(len(dataset.table)), dataset.kept):
        places = locate_positions(whole, dataset.chosen)
        if len(whole) == len(table):
            return table.take(places)
        if len(places) == len(table) and places[-1] == len(places) - 1:  # they are the first ones
            return table
    count = len(dataset.table)
    there = "there is 1 completion" if len(table) == 1 else f"there are {len(table)} completions"
    message = f"{there} without `{ID_COLUMN}` for {count} sample{'' if count == 1 else 's'}"
    if len(dataset) != count:
        message += f", {len(dataset)} of them selected"
    hint = f"add a column `{ID_COLUMN}`, or give exactly one completion per sample, in the dataset's order"
    raise DataError("E209", message, where=Place(file=table.file), hint=hint)


def refuse_single(num_trials: int, file: str | None = None) -> DataError:
    """Return the error about completions of which there is one for each sample, where several are wanted."""
    message = f"the task has {num_trials} trials of each sample, and there is one completion for each"
    hint = f"name a model, or bring a file with the columns `{ID_COLUMN}` and `{TRIAL_COLUMN}` (0, 1, …) by"
    return DataError("E209", message, where=Place(file=file), hint=f"{hint} `--completions FILE`")
