"""Completions that are there already: which column holds them, which row belongs to which sample.

They are read chunk by chunk, in the order of the samples. A table in the order of the dataset is
read where it lies; one in another order is put in order in memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self, cast

import polars as pl

from answerkey.datasets.content import RowErrors, refuse_file
from answerkey.datasets.dataset import Dataset
from answerkey.datasets.questions import find_columns
from answerkey.datasets.rows import (
    ID_COLUMN,
    TRIAL_COLUMN,
    Positions,
    Rows,
    get_inside,
    iterate_samples,
    repeat_positions,
)
from answerkey.errors import DataError, listing, suggest
from answerkey.models.responses import read_message
from answerkey.reader.markup import split_thoughts
from answerkey.types import (
    IMPORTED_SCHEMA,
    Completion,
    Completions,
    CompletionStatus,
    Sample,
    Samples,
)

COMPLETION_COLUMN = "completion"
#: The others are accepted instead of `completion` when exactly one of them is there.
COLUMN_NAMES = [COMPLETION_COLUMN, "output", "response", "model_output"]
STATUS_COLUMN = "completion_status"
#: Log-probabilities as an endpoint sent them, as an object or its JSON text.
LOGPROBS_COLUMN = "logprobs"
#: Why the model stopped; `length` is a completion that was cut off.
END_COLUMN = "finish_reason"
#: Columns beside the completion that are read where a table has them.
BESIDE = (STATUS_COLUMN, LOGPROBS_COLUMN, END_COLUMN, *IMPORTED_SCHEMA)
#: The thoughts of a reasoning model, in a table of completions alone: a dataset may have others of
#: that name.
THOUGHTS_COLUMN = "reasoning"
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


def _is_completion(cell: object) -> bool:
    if isinstance(cell, list):
        return all(isinstance(element, dict) for element in cell)
    if isinstance(cell, dict):
        return not MESSAGE_KEYS.isdisjoint(cell)
    return not isinstance(cell, bool) and cell not in {math.inf, -math.inf}


def _read_text(cell: object) -> str | None:
    if isinstance(cell, str | int | float):
        return str(cell)
    return None


def _read_number(cell: object) -> float | None:
    try:
        number = float(cell)  # type: ignore[arg-type]  # what is no number is refused
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _read_logprobs(cell: object) -> object:
    """Return log-probabilities, an object or its JSON text; None for a cell that holds none."""
    if isinstance(cell, str):
        with suppress(ValueError):
            cell = json.loads(cell)
    return cell if isinstance(cell, dict) else None


#: How the columns beside a completion are read; the last two are another tool's verdict.
_READERS: dict[str, Callable[[object], object]] = {
    LOGPROBS_COLUMN: _read_logprobs,
    END_COLUMN: _read_text,
    THOUGHTS_COLUMN: _read_text,
    "imported_score": _read_number,
    "imported_answer": _read_text,
}


def _write_reply(text: str, status: str) -> dict[str, object]:
    """Return the message around a text that is no answer."""
    if status == CompletionStatus.REFUSED.value:
        return {"role": "assistant", "content": None, "refusal": text}
    return {"role": "assistant", "content": text}


def find_completion_column(rows: Rows, column: str | None = None) -> RecordedCompletions:
    """Return where the completions stand; E209 if nowhere, or for several that could be meant.

    A name may reach into a column: the exact column first, then the field with the longest matching
    column name, and so on inwards: `completions.org/model-1.5` reaches the field `org/model-1.5` of
    the column `completions`.
    """
    looked_for = [column] if column else COLUMN_NAMES
    names = [name for name in looked_for if name in rows.columns]
    if COMPLETION_COLUMN in names:
        names = [COMPLETION_COLUMN]
    if column and not names and _has_field(rows, column):
        names = [column]
    if len(names) > 1:
        message = f"several columns may hold the completions: {listing(names)}"
        hint = "name one with `--completion-column`"
        raise refuse_file("E209", message, rows.file, hint)
    if names:
        beside = frozenset(rows.columns).intersection(BESIDE)
        return RecordedCompletions(column=names[0], beside=beside)
    message = f"no column holds the completions; looked for {listing(looked_for)}"
    advice = suggest(looked_for[0], rows.columns) or ""
    if column is None:
        advice = "name it with `--completion-column NAME`;"
    hint = f"{advice} columns: {listing(rows.columns)}".strip()
    raise refuse_file("E209", message, rows.file, hint)


def _has_field(rows: Rows, name: str) -> bool:
    """Return whether any row has the field that a dotted name reaches."""
    for sample in iterate_samples(rows):
        if get_inside(sample.fields, name, ABSENT) is not ABSENT:
            return True
    return False


@dataclass(frozen=True, kw_only=True)
class RecordedCompletions:
    """Completions in the order of the samples and of their trials.

    They stand in a `column`, of the `rows` of another table or beside the questions; without a
    column they have no text. Its name may be a dotted one that reaches into its cells. The columns
    `beside` it belong to them. With `splits_thoughts`, thoughts are taken out of their texts, as
    those of live models are; `raw` is then the text as it was.
    """

    column: str = ""
    beside: frozenset[str] = frozenset()
    rows: Rows | None = None
    num_trials: int = 1
    splits_thoughts: bool = False

    def check(self, rows: Rows) -> None:
        """Raise E209 for all cells of the rows that are no completions."""
        if self.column in rows.text_columns and STATUS_COLUMN not in self.beside:
            return
        errors = RowErrors(rows.file)
        for sample in iterate_samples(rows):
            cell = get_inside(sample.fields, self.column)
            if not isinstance(cell, str) and not _is_completion(cell):
                message = f"column `{self.column}` holds what is no completion"
                hint = "a completion is text, null, or a message with `content`"
                if isinstance(cell, dict):
                    fields = [f"{self.column}.{field}" for field in cell]
                    hint += f"; name a field: {listing(fields)}"
                where = sample.place(self.column)
                errors.add(DataError("E209", message, where=where, hint=hint))
            status = sample.fields.get(STATUS_COLUMN)
            if STATUS_COLUMN in self.beside and status not in (None, "", *STATUSES):
                message = f"{status!r} is not a completion status"
                where = sample.place(STATUS_COLUMN)
                hint = f"statuses: {listing(STATUSES)}"
                errors.add(DataError("E209", message, where=where, hint=hint))
        errors.raise_any()

    def take(self, positions: Positions) -> Self:
        """Return those of the samples at these positions."""
        if self.rows is None:
            return self
        rows = self.rows.take(repeat_positions(positions, self.num_trials))
        return replace(self, rows=rows)

    def read(self, samples: Samples) -> Completions:
        """Return the completions under the ids of the samples."""
        completions = self.read_whole(samples)
        if not self.splits_thoughts:
            return completions
        return Completions(list(map(_split_completion, completions)))

    def read_whole(self, samples: Samples) -> Completions:
        """Return the completions with their thoughts; rows without the field have a null cell."""
        if not self.column:
            blank = [Completion(None)] * len(samples)
            return Completions.build(samples.ids, blank, source="dataset")
        table = samples
        if self.rows is not None:
            table = self.rows.load()
        ids = [sample.id for sample in samples.repeat(self.num_trials)]
        if self.column in table.columns:
            cells = table.values(self.column)
        else:
            cells = [get_inside(fields, self.column) for fields in table.rows()]
        are_texts = set(map(type, cells)) <= {str, type(None)}
        if are_texts and not self.beside:
            texts = cast("list[str | None]", cells)
            completions = Completions.build_texts(ids, texts, source=SOURCE)
        else:
            items = list(map(self._read_completion, table, cells))
            completions = Completions.build(ids, items, source=SOURCE)
        if self.num_trials == 1:
            return completions
        return completions.number(range(self.num_trials))

    def _read_completion(
        self,
        sample: Sample,
        cell: object,
    ) -> Completion:
        """Return the completion of a row with what the columns beside it say."""
        completion = read_message(cell)
        fields = {}
        for name in self.beside.intersection(_READERS):
            value = _READERS[name](sample.fields[name])
            if value is not None:
                fields[name] = value
        status = _read_text(sample.fields.get(STATUS_COLUMN))
        if status and status != CompletionStatus.OK.value:
            if completion.text is not None and completion.reply is None:
                fields["reply"] = _write_reply(completion.text, status)
            fields |= {"text": None, "status": CompletionStatus(status)}
        return completion.with_fields(**fields)


def _split_completion(completion: Completion) -> Completion:
    parts = split_thoughts(completion.text or "")
    if parts is None:
        return completion
    thought, answer = parts
    if completion.reasoning:
        thought = f"{completion.reasoning}\n{thought}"
    return completion.with_fields(
        text=answer,
        reasoning=thought,
        raw=completion.text,
    )


def find_own_completions(rows: Rows, *, column: str | None = None) -> RecordedCompletions | None:
    """Return the completions that stand beside the questions, or None if no column holds any.

    A column that is named but not there is an error, and so are cells that are no completions.
    """
    if column is None and not set(COLUMN_NAMES).intersection(rows.columns):
        return None
    recorded = find_completion_column(rows, column)
    recorded.check(rows)
    return recorded


def match_completions(
    table: Rows,
    dataset: Dataset,
    *,
    column: str | None = None,
    num_trials: int = 1,
) -> RecordedCompletions:
    """Return the completions of a table for the selected samples, in their order.

    Matched by `sample_id` if the table has it, or by another column of ids if it names any of the
    dataset's; else by position: it then has as many rows as the dataset, as its filtered rows, or
    as the selected ones of them. Rows for samples of the dataset that are
    not selected are left aside; rows for unknown samples are an error. Several trials are told
    apart by the column `trial`; those of a sample stand one after the other.
    """
    recorded = find_completion_column(table, column)
    beside = recorded.beside
    if THOUGHTS_COLUMN in table.columns:
        beside |= {THOUGHTS_COLUMN}
    id_column = ID_COLUMN
    ids = None
    if ID_COLUMN in table.columns:
        ids = table.ids
    else:
        roles = find_columns(tuple(table.columns), ("id",))
        id_column = roles.columns.get("id", "")
        if id_column:
            ids = _find_ids(table, dataset, id_column)
    if num_trials > 1 and (ids is None or TRIAL_COLUMN not in table.columns):
        raise refuse_single(num_trials, table.file)
    if ids is None:
        rows = _match_order(table, dataset)
    else:
        rows = _match_ids(
            table,
            ids,
            dataset,
            num_trials,
            id_column,
        )
    recorded.check(rows)
    return replace(
        recorded,
        beside=beside,
        rows=rows,
        num_trials=num_trials,
    )


def _find_ids(table: Rows, dataset: Dataset, column: str) -> pl.Series | None:
    """Return the sample of each row where a column names samples, by their ids or by its own cells.

    A cell that names none stays as it is, for the error that it is: with some of them, order is no
    longer what was meant. None where no cell names any.
    """
    names = _read_names(table, column)
    ids = dataset.table.ids
    candidates = [ids]
    if column in dataset.table.columns:
        candidates.append(_read_names(dataset.table, column))
    for candidate in candidates:
        if candidate.is_duplicated().any():
            continue
        samples = pl.DataFrame({"name": candidate, "id": ids})
        rows = pl.DataFrame({"name": names})
        matched = rows.join(
            samples,
            on="name",
            how="left",
            maintain_order="left",
        )
        if matched["id"].count():
            return matched.select(pl.coalesce("id", "name")).to_series()
    return None


def _read_names(rows: Rows, column: str) -> pl.Series:
    """Return the cells of a column as texts."""
    texts = [_read_text(sample.fields[column]) for sample in iterate_samples(rows)]
    return pl.Series(texts, dtype=pl.String)


def _match_ids(
    table: Rows,
    ids: pl.Series,
    dataset: Dataset,
    num_trials: int,
    column: str,
) -> Rows:
    """Return for each sample, and each of its trials, the row of its completion.

    `ids`, from a column, say which sample a row belongs to; trials count from 0. What is missing,
    and a row that belongs nowhere, are errors.
    """
    rows = pl.DataFrame({"id": ids}).with_row_index("row")
    selected = pl.DataFrame({"id": dataset.rows.ids})
    every = pl.DataFrame({"id": dataset.table.ids})
    keys = ["id"]
    if num_trials > 1:
        keys.append("trial")
        rows = rows.with_columns(_read_trials(table))
        numbers = pl.int_range(0, num_trials, eager=True)
        trials = pl.DataFrame({"trial": numbers})
        selected = selected.join(trials, how="cross", maintain_order="left_right")
        every = every.join(trials, how="cross")
    elif ids.is_duplicated().any():
        if TRIAL_COLUMN in table.columns:
            message = "the completions hold several trials of a sample, and the task has one"
            hint = "add `trials: {num_trials: N}` to the task, or keep one trial of each sample"
            raise refuse_file(
                "E209",
                message,
                table.file,
                hint,
                field=TRIAL_COLUMN,
            )
        repeated = ids.filter(ids.is_duplicated()).unique(maintain_order=True)
        shown = listing(repeated, limit=SHOWN_IDS)
        message = f"several completions have the same `{column}`: {shown}"
        hint = f"keep one completion of each sample, or number them in a column `{TRIAL_COLUMN}`"
        raise refuse_file(
            "E208",
            message,
            table.file,
            hint,
            field=column,
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
    if missing.is_empty() and unknown.is_empty():
        return table.take(matched["row"])
    parts = [
        *_list_unmatched("samples without a completion", missing),
        *_list_unmatched("completions without a sample", unknown),
    ]
    message = f"the completions do not fit the dataset: {'; '.join(parts)}"
    hint = f"`{column}` must hold the ids of this dataset; "
    if column == ID_COLUMN:
        hint += "rows without ids are `000001`, `000002`, ..."
    else:
        hint += "without that column, rows are matched by order"
    if num_trials > 1:
        hint += f"; each sample needs the trials 0 to {num_trials - 1} in `{TRIAL_COLUMN}`"
    raise refuse_file("E209", message, table.file, hint)


def _list_unmatched(title: str, rows: pl.DataFrame) -> Iterator[str]:
    """Yield how many samples or completions have no partner, and the first of them."""
    if rows.is_empty():
        return
    names = rows.select(pl.concat_str(pl.exclude("row"), separator=" trial "))
    shown = listing(names.to_series(), limit=SHOWN_IDS)
    yield f"{title}: {rows.height} ({shown})"


def _read_trials(table: Rows) -> pl.Series:
    numbers = [_read_number(sample.fields[TRIAL_COLUMN]) for sample in iterate_samples(table)]
    every_trial = pl.Series("trial", numbers, dtype=pl.Float64)
    # A fraction belongs to no trial.
    return every_trial.set(every_trial % 1 != 0, None).cast(pl.Int64)


def _match_order(table: Rows, dataset: Dataset) -> Rows:
    """Return for each sample the row at its position in the dataset.

    There may also be a row for each selected one, if these are the first that pass the filters.
    """
    if len(table) == len(dataset.table):
        return table.take(dataset.chosen)
    is_head = dataset.chosen[-1] == dataset.kept[len(dataset) - 1]
    if is_head and len(table) == len(dataset):
        return table
    message = f"there is no column `{ID_COLUMN}`, and the numbers differ: "
    message += f"completions {len(table):,}, samples {len(dataset.table):,}, "
    message += f"selected {len(dataset):,}"
    hint = f"add a column `{ID_COLUMN}`, or give exactly one completion per sample, in the "
    hint += "dataset's order"
    raise refuse_file("E209", message, table.file, hint)


def refuse_single(num_trials: int, file: str | None = None) -> DataError:
    """Return the error about a single completion for each sample, where several are needed."""
    message = f"the task has {num_trials} trials of each sample, and there is one completion "
    message += "for each"
    hint = f"name a model, or bring a file with the columns `{ID_COLUMN}` and `{TRIAL_COLUMN}` "
    hint += "(0, 1, …) by `--completions FILE`"
    return refuse_file("E209", message, file, hint)
