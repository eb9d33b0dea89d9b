"""Completions that are there already: which column holds them, which row belongs to which sample.

They are read chunk by chunk, in the order of the samples. Where a file of completions has the order
of the dataset, which is found by comparing ids part by part, it is read where it lies. Only when it
has another are ids joined, and completions put in order, in memory.
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
    get_inside,
    iterate_blocks,
    locate_positions,
    split_name,
)
from answerkey.errors import DataError, Place, listing, suggest
from answerkey.models.responses import read_message
from answerkey.reader.markup import THOUGHT_BEGIN, split_thoughts
from answerkey.types import (
    THEIR_SCHEMA,
    Completion,
    Completions,
    CompletionStatus,
    Sample,
    Samples,
)

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
#: The thoughts of a reasoning model, in a table of completions alone: a dataset may have others of
#: that name.
THOUGHTS_COLUMN = "reasoning"
#: Why each completion ended, and verdicts that others gave; they decide nothing.
BESIDE_TYPES: dict[str, pl.DataType] = {
    END_COLUMN: pl.String(),
    THOUGHTS_COLUMN: pl.String(),
    **THEIR_SCHEMA,
}
SOURCE = "recorded"
MESSAGE_KEYS = frozenset(
    {
        "role",
        "content",
        "refusal",
        "tool_calls",
        "function_call",
        "choices",
        "messages",
        "message",
        "output",
    }
)
STATUSES = tuple(status.value for status in CompletionStatus)
#: How many ids are named in an error.
SHOWN_IDS = 5
#: Stands for a field that a value does not have; null is a value.
ABSENT = object()
#: What a text may hold that has thoughts in it, for a first look.
MAYBE_THOUGHTS = "[<\\[\u25c1]|assistantfinal|" + THOUGHT_BEGIN


@dataclass(frozen=True)
class CompletionColumn:
    """Where the completions of a table stand, and which columns beside them belong to them.

    They are the cells of a column, or what the dotted name `inside` reaches in them. `name` is what
    errors call it.
    """

    name: str
    column: str
    inside: str
    beside: frozenset[str]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that are read."""
        return self.beside | {self.column}

    def cells(self, samples: Samples) -> list[object]:
        """Return the cells; a row without the field has a null cell."""
        cells = samples.values(self.column)
        if self.inside:
            cells = [get_inside(cell, self.inside) for cell in cells]
        return cells

    def check(self, rows: Rows) -> None:
        """Raise E209 for all cells of the rows that are no completions."""
        unfit = RowErrors(rows.file)
        statuses = RowErrors(rows.file)
        for offset, block in iterate_blocks(rows, self.columns):
            cells = self.cells(block)
            if offset == 0:
                self._refuse_objects(cells, rows.file)
            for sample, cell in zip(block, cells, strict=True):
                if type(cell) is not str:
                    self._check_cell(sample, cell, unfit)
                if STATUS_COLUMN in self.beside:
                    _check_status(sample, statuses)
        unfit.raise_any()
        statuses.raise_any()

    def _refuse_objects(self, cells: Sequence[object], file: str | None) -> None:
        """Raise one error, not one per row, where all cells are objects that are no messages."""
        objects = [cell for cell in cells if cell is not None]
        for cell in objects:
            if not isinstance(cell, dict) or not MESSAGE_KEYS.isdisjoint(cell):
                return
        if objects and isinstance(objects[0], dict):
            message = f"column `{self.name}` holds objects that are no messages"
            fields = [f"{self.name}.{field}" for field in objects[0]]
            where = Place(file=file, field=self.name)
            raise DataError(
                "E209",
                message,
                where=where,
                hint=f"name a field: {listing(fields)}",
            )

    def _check_cell(
        self,
        sample: Sample,
        cell: object,
        errors: RowErrors,
    ) -> None:
        fault = _find_fault(cell)
        if fault is not None:
            message = f"the completion of sample `{sample.id}` is {fault}"
            hint = "a completion is text, null, or a message with `content`"
            errors.add(
                "E209",
                message,
                where=sample.place(self.name),
                hint=hint,
            )

    def read(self, table: Samples, ids: pl.Series) -> Completions:
        """Return the completions of rows that `check` has found in order, under these ids."""
        completions = self._read_cells(table, ids)
        if not self.beside:
            return completions
        frame = completions.frame
        if LOGPROBS_COLUMN in self.beside:
            texts = [_write_logprobs(cell) for cell in table.values(LOGPROBS_COLUMN)]
            declared = pl.Series(LOGPROBS_COLUMN, texts, dtype=pl.String)
            frame = frame.with_columns(pl.coalesce(declared, LOGPROBS_COLUMN))
        for name, dtype in BESIDE_TYPES.items():
            if name in self.beside:
                frame = _add_beside(
                    frame,
                    name,
                    dtype,
                    table.values(name),
                )
        if STATUS_COLUMN in self.beside:
            frame = _apply_statuses(frame, [_read_status(sample) for sample in table])
        return Completions.from_frame(frame)

    def _read_cells(self, table: Samples, ids: pl.Series) -> Completions:
        cells = self.cells(table)
        kinds = set(map(type, cells))
        if kinds <= {str, int, type(None)}:
            texts = [cell if cell is None else str(cell) for cell in cells]
            return Completions.build_texts(ids, texts, source=SOURCE)
        completions: list[Completion] = [read_message(cell) for cell in cells]
        return Completions.build(ids, completions, source=SOURCE)


def _find_fault(cell: object) -> str | None:
    """Return what a cell is if it cannot be a completion, else None."""
    if isinstance(cell, bool):
        return f"the boolean {cell}"
    if isinstance(cell, float) and not math.isfinite(cell):
        return f"the number {cell}"
    if isinstance(cell, dict) and MESSAGE_KEYS.isdisjoint(cell):
        return f"an object with the fields {listing(cell)}, no message"
    if isinstance(cell, list) and not all(isinstance(element, dict) for element in cell):
        return "a list"
    return None


def _read_status(sample: Sample) -> str | None:
    """Return the status that a row states; None where it states none."""
    cell = sample.fields[STATUS_COLUMN]
    if cell in (None, ""):
        return None
    return str(cell)


def _check_status(sample: Sample, errors: RowErrors) -> None:
    status = _read_status(sample)
    if status is not None and status not in STATUSES:
        message = f"{status!r} is not a completion status"
        where = sample.place(STATUS_COLUMN)
        errors.add(
            "E209",
            message,
            where=where,
            hint=f"statuses: {listing(STATUSES)}",
        )


def _add_beside(
    frame: pl.DataFrame,
    name: str,
    dtype: pl.DataType,
    cells: Sequence[object],
) -> pl.DataFrame:
    """Return completions with a column that stands beside them; an unfit cell is null."""
    if all(cell is None for cell in cells):
        return frame
    is_number = dtype == pl.Float64
    values: list[object] = []
    for cell in cells:
        fits = isinstance(cell, str | int | float)
        values.append(_read_number(cell) if is_number else str(cell) if fits else None)
    return frame.with_columns(pl.Series(name, values, dtype=dtype))


def _read_number(cell: object) -> float | None:
    if not isinstance(cell, str | int | float):
        return None
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _write_logprobs(cell: object) -> str | None:
    """Return log-probabilities as JSON text; None for a cell that holds none."""
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except ValueError:
            return None
    if not isinstance(cell, dict):
        return None
    return json.dumps(cell, ensure_ascii=False)


def _apply_statuses(frame: pl.DataFrame, statuses: Sequence[str | None]) -> pl.DataFrame:
    """Return completions with the statuses that the file states.

    A text that is no answer goes to `reply`.
    """
    texts: list[str | None] = []
    applied: list[str] = []
    replies: list[str | None] = []
    rows = frame.select("completion", "status", "reply").iter_rows()
    for declared, (text, status, reply) in zip(statuses, rows, strict=True):
        if declared is None or declared == CompletionStatus.OK.value:
            texts.append(text)
            applied.append(status)
            replies.append(reply)
            continue
        texts.append(None)
        applied.append(declared)
        is_moved = text is not None and reply is None
        replies.append(_write_reply(text, declared) if is_moved else reply)
    return frame.with_columns(
        pl.Series("completion", texts, dtype=pl.String),
        pl.Series("status", applied, dtype=pl.String),
        pl.Series("reply", replies, dtype=pl.String),
    )


def _write_reply(text: str, status: str) -> str:
    message: dict[str, object] = {"role": "assistant", "content": text}
    if status == CompletionStatus.REFUSED.value:
        message |= {"content": None, "refusal": text}
    return json.dumps(message, ensure_ascii=False)


def find_completion_column(
    rows: Rows,
    column: str | None = None,
    *,
    is_needed: bool = False,
) -> CompletionColumn | None:
    """Return where the completions stand, None if nowhere; E209 for several that could be meant.

    A column that is named, or needed, and not there is E209, too. A name may reach into a column:
    the exact column first, then the field with the longest matching column name, and so on inwards:
    `completions.org/model-1.5` reaches the field `org/model-1.5` of the column `completions`.
    """
    beside = frozenset(rows.columns).intersection(BESIDE)
    names = [name for name in (column or COMPLETION_COLUMN,) if name in rows.columns]
    if not names and column is None:
        names = [name for name in OTHER_NAMES if name in rows.columns]
    if len(names) > 1:
        message = f"several columns may hold the completions: {listing(names)}"
        hint = "name one with `--completion-column`"
        raise DataError(
            "E209",
            message,
            where=Place(file=rows.file),
            hint=hint,
        )
    if names:
        return CompletionColumn(
            names[0],
            names[0],
            "",
            beside,
        )
    for name, inside in split_name(column or "", rows.columns):
        if _has_field(rows, name, inside):
            return CompletionColumn(
                column or "",
                name,
                inside,
                beside,
            )
    if column is None and not is_needed:
        return None
    raise _refuse_missing(rows, column)


def _refuse_missing(rows: Rows, column: str | None) -> DataError:
    """Return the error about completions that no column holds."""
    names = _list_paths(rows)
    hint = f"columns: {listing(names)}"
    if column is None:
        looked_for = listing((COMPLETION_COLUMN, *OTHER_NAMES))
        message = f"no column holds completions; looked for {looked_for}"
    else:
        message = f"there is no completion column `{column}`"
        suggestion = suggest(column, names)
        if suggestion:
            hint = f"{suggestion} {hint}"
    return DataError(
        "E209",
        message,
        where=Place(file=rows.file),
        hint=hint,
    )


def _list_paths(rows: Rows) -> list[str]:
    """Return the columns, or the fields of those that hold objects."""
    names: list[str] = []
    first = rows.slice(0, 1).load()
    for name in rows.columns:
        cell = first.row(0).get(name)
        if isinstance(cell, dict) and cell:
            names += [f"{name}.{field}" for field in cell]
        else:
            names.append(name)
    return names


def _has_field(
    rows: Rows,
    column: str,
    inside: str,
) -> bool:
    """Return whether any row has the field."""
    for _, block in iterate_blocks(rows, [column]):
        for cell in block.values(column):
            if get_inside(cell, inside, ABSENT) is not ABSENT:
                return True
    return False


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
        rows = self.rows.slice(offset * self.num_trials, length * self.num_trials)
        return replace(self, rows=rows)

    def read(self, samples: Samples) -> Completions:
        """Return what the column says, under the ids of the samples."""
        table = samples if self.rows is None else self.rows.load(self.column.columns)
        completions = self.column.read(table, samples.repeat(self.num_trials).ids)
        if self.num_trials == 1:
            return completions
        return completions.number(range(self.num_trials))


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
        columns = {name: frame[name].to_list() for name in ("completion", "reasoning", "raw")}
        texts = frame["completion"]
        for row in texts.str.contains(MAYBE_THOUGHTS).fill_null(value=False).arg_true():
            parts = split_thoughts(texts[row])
            if parts is None:
                continue
            thought, answer = parts
            declared = columns["reasoning"][row]
            columns["reasoning"][row] = f"{declared}\n{thought}" if declared else thought
            columns["raw"][row] = texts[row]
            columns["completion"][row] = answer
        series = [pl.Series(name, cells, dtype=pl.String) for name, cells in columns.items()]
        return Completions.from_frame(frame.with_columns(series))


def find_own_completions(rows: Rows, *, column: str | None = None) -> TableCompletions | None:
    """Return the completions that stand beside the questions, or None if no column holds any.

    A column that is named but not there is an error, and so are cells that are no completions.
    """
    completion_column = find_completion_column(rows, column)
    if completion_column is None:
        return None
    completion_column.check(rows)
    return TableCompletions(completion_column)


def match_completions(
    table: Rows,
    dataset: Dataset,
    *,
    column: str | None = None,
    num_trials: int = 1,
) -> TableCompletions:
    """Return the completions of a table for the selected samples, in their order.

    Matched by `sample_id` if the table has it, or by another column of ids if all of them are the
    dataset's and stand in another order; else by position: it then has as many rows as the dataset,
    as its filtered rows, or as the selected ones of them. Rows for samples of the dataset that are
    not selected are left aside; rows for unknown samples are an error. Several trials are told
    apart by the column `trial`; those of a sample stand one after the other.
    """
    completion_column = find_completion_column(table, column, is_needed=True)
    assert completion_column is not None  # noqa: S101 - it is needed
    if THOUGHTS_COLUMN in table.columns:
        beside = completion_column.beside | {THOUGHTS_COLUMN}
        completion_column = replace(completion_column, beside=beside)
    has_ids = ID_COLUMN in table.columns
    if not has_ids:
        renamed = _name_rows(table, dataset)
        if renamed is not None:
            table = renamed
            has_ids = True
    has_trials = TRIAL_COLUMN in table.columns
    if num_trials > 1 and not (has_ids and has_trials):
        raise refuse_single(num_trials, table.file)
    if num_trials == 1 and has_ids and has_trials:
        _refuse_trials(table)
    if has_ids:
        rows = _match_ids(
            table,
            dataset,
            num_trials,
            completion_column.columns,
        )
    else:
        rows = _match_order(table, dataset)
    completion_column.check(rows)
    return TableCompletions(completion_column, rows, num_trials)


def _refuse_trials(table: Rows) -> None:
    """Raise E209 where a sample has several completions."""
    hashes: list[pl.Series] = []  # they take less memory than ids
    for offset in range(0, len(table), BLOCK_ROWS):
        hashes.append(table.slice(offset, BLOCK_ROWS).ids.hash())
    count = int(pl.concat(hashes).value_counts()["count"].max())  # type: ignore[arg-type]  # there are rows
    if count > 1:
        message = (
            f"the completions hold up to {count} trials of a sample, "
            "and the task has one trial of each sample"
        )
        hint = (
            f"add `trials: {{num_trials: {count}}}` to the task, or keep one trial of each sample"
        )
        where = Place(file=table.file, field=TRIAL_COLUMN)
        raise DataError(
            "E209",
            message,
            where=where,
            hint=hint,
        )


def _name_rows(table: Rows, dataset: Dataset) -> Rows | None:
    """Return the rows under their samples' ids, if a column like `id` says which these are.

    It does where each sample has one of its values, here or as its own id, and the order is
    another.
    """
    column = find_columns(tuple(table.columns), ("id",)).columns.get("id")
    if column is None or len(table) > len(dataset.table):
        return None
    names = _read_names(table, column)
    if names is None:
        return None
    ids = dataset.table.ids.to_list()
    candidates: list[list[str] | None] = [ids]
    if column in dataset.table.columns:
        candidates.append(_read_names(dataset.table, column))
    for candidate in candidates:
        if candidate is None or not set(names) <= set(candidate):
            continue
        if names == candidate[: len(names)]:
            return None
        id_by_name = dict(zip(candidate, ids, strict=True))
        samples = table.load()
        items: list[Sample] = []
        for sample, name in zip(samples, names, strict=True):
            items.append(replace(sample, id=id_by_name[name]))
        return replace(samples, items=items)
    return None


def _read_names(rows: Rows, column: str) -> list[str] | None:
    """Return the cells of a column as texts; None if they do not name each row once."""
    names: list[str] = []
    for _, block in iterate_blocks(rows, [column]):
        for cell in block.values(column):
            if cell is None or isinstance(cell, list | dict):
                return None
            names.append(str(cell))
    if len(set(names)) < len(names):
        return None
    return names


def _match_ids(
    table: Rows,
    dataset: Dataset,
    num_trials: int,
    columns: frozenset[str],
) -> Rows:
    """Return for each sample, and each of its trials, the row of its completion.

    Trials count from 0. Rows for samples of the dataset that are not selected are left aside; what
    is missing, and a row that belongs nowhere, are errors.
    """
    if len(table) == len(dataset) * num_trials and _is_in_order(table, dataset.rows, num_trials):
        return table
    wholes = (range(len(dataset.table)), dataset.kept) if num_trials == 1 else ()
    for whole in wholes:
        if len(whole) == len(table) and _is_in_order(table, dataset.table.take(whole), 1):
            return table.take(locate_positions(whole, dataset.chosen))
    completions = table.load(columns | {TRIAL_COLUMN})
    rows = pl.DataFrame({"id": completions.ids}).with_row_index("row")
    selected = pl.DataFrame({"id": dataset.rows.ids})
    every = pl.DataFrame({"id": dataset.table.ids})
    keys = ["id"]
    if num_trials > 1:
        keys.append("trial")
        rows = rows.with_columns(_read_trials(completions))
        trials = pl.DataFrame({"trial": pl.int_range(0, num_trials, eager=True)})
        selected = selected.join(
            trials,
            how="cross",
            maintain_order="left_right",
        )
        every = every.join(
            trials,
            how="cross",
            maintain_order="left_right",
        )
    matched = selected.join(
        rows,
        on=keys,
        how="left",
        maintain_order="left",
    )
    missing = matched.filter(pl.col("row").is_null())
    unknown = rows.join(
        every,
        on=keys,
        how="anti",
        maintain_order="left",
    )
    if missing.height or unknown.height:
        raise _refuse_unmatched(
            missing,
            unknown,
            num_trials,
            table.file,
        )
    return completions.take(matched["row"])


def _refuse_unmatched(
    missing: pl.DataFrame,
    unknown: pl.DataFrame,
    num_trials: int,
    file: str | None,
) -> DataError:
    """Return the error that shows which samples and completions have no partner."""
    missing_title = "samples without a completion"
    unknown_title = "completions without a sample"
    hint = (
        f"`{ID_COLUMN}` must hold the ids of this dataset; without ids its rows are "
        "`000001`, `000002`, ..."
    )
    if num_trials > 1:
        missing_title = "trials without a completion"
        unknown_title = "completions that belong nowhere"
        hint = f"each sample needs the trials 0 to {num_trials - 1} in the column `{TRIAL_COLUMN}`"
    parts: list[str] = []
    for title, rows in ((missing_title, missing), (unknown_title, unknown)):
        if rows.height:
            names = _list_names(rows.head(SHOWN_IDS))
            dots = " ..." if rows.height > SHOWN_IDS else ""
            parts.append(f"{title}: {rows.height} ({listing(names)}{dots})")
    message = f"the completions do not fit the dataset: {'; '.join(parts)}"
    return DataError(
        "E209",
        message,
        where=Place(file=file),
        hint=hint,
    )


def _list_names(rows: pl.DataFrame) -> list[str]:
    if "trial" not in rows.columns:
        return rows["id"].to_list()
    return [f"{name} trial {trial}" for name, trial in rows.select("id", "trial").iter_rows()]


def _is_in_order(
    table: Rows,
    samples: Rows,
    num_trials: int,
) -> bool:
    """Return whether the trials of each sample stand one after the other, in the samples' order."""
    step = max(1, BLOCK_ROWS // num_trials)
    for offset in range(0, len(samples), step):
        ids: list[str] = []
        for sample_id in samples.slice(offset, step).ids:
            ids += [sample_id] * num_trials
        part = table.slice(offset * num_trials, len(ids))
        if part.ids.to_list() != ids:
            return False
        if num_trials > 1:
            trials = _read_trials(part.load([TRIAL_COLUMN])).to_list()
            if trials != [number % num_trials for number in range(len(trials))]:
                return False
    return True


def _read_trials(table: Samples) -> pl.Series:
    trials: list[int | None] = []
    for cell in table.values(TRIAL_COLUMN):
        number = _read_number(cell)
        is_whole = number is not None and number.is_integer()
        trials.append(int(number) if is_whole else None)  # type: ignore[arg-type]
    return pl.Series("trial", trials, dtype=pl.Int64)


def _match_order(table: Rows, dataset: Dataset) -> Rows:
    """Return for each sample the row at its position in the dataset, whole or filtered."""
    for whole in (range(len(dataset.table)), dataset.kept):
        positions = locate_positions(whole, dataset.chosen)
        if len(whole) == len(table):
            return table.take(positions)
        are_first_rows = positions[-1] == len(positions) - 1
        if len(positions) == len(table) and are_first_rows:
            return table
    count = len(dataset.table)
    completions = "there is 1 completion"
    if len(table) != 1:
        completions = f"there are {len(table)} completions"
    samples = "1 sample" if count == 1 else f"{count} samples"
    message = f"{completions} without `{ID_COLUMN}` for {samples}"
    if len(dataset) != count:
        message += f", {len(dataset)} of them selected"
    hint = (
        f"add a column `{ID_COLUMN}`, or give exactly one completion per sample, in the "
        "dataset's order"
    )
    raise DataError(
        "E209",
        message,
        where=Place(file=table.file),
        hint=hint,
    )


def refuse_single(num_trials: int, file: str | None = None) -> DataError:
    """Return the error about a single completion for each sample, where several are needed."""
    message = (
        f"the task has {num_trials} trials of each sample, and there is one completion for each"
    )
    hint = (
        f"name a model, or bring a file with the columns `{ID_COLUMN}` and `{TRIAL_COLUMN}` "
        "(0, 1, …) by `--completions FILE`"
    )
    return DataError(
        "E209",
        message,
        where=Place(file=file),
        hint=hint,
    )
