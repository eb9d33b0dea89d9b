"""The rows of a run, one per sample and trial, as JSONL, CSV or Parquet, or in a form of `exchange`.

The JSONL object is nested; the columns of CSV and Parquet are the paths into it
(`scores.<key>.values.is_correct`, `sample.question`). Lists and mappings are JSON text in CSV, and texts that
a spreadsheet would compute are guarded (see `spreadsheets`) unless they are wanted raw.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import polars as pl

from answerkey.errors import RunError, SpecError, listing, suggest
from answerkey.reports.json_form import clean_numbers
from answerkey.reports.spreadsheets import guard_column
from answerkey.runs import Run, TaskRun, write_frames, write_output
from answerkey.types import EMPTY_STRUCT_FIELD
from answerkey.verbs import Excerpt, Reopened, reopen

CSV = "csv"
EVERY_EVAL_EVER = "every_eval_ever"


@dataclass(frozen=True)
class Exported:
    """How many rows were written, and how many have nothing that the form can hold."""

    rows: int
    left_out: int = 0


def check_form(form: str) -> None:
    """Refuse a form that is unknown."""
    if form not in FORMS:
        hint = suggest(form, FORMS) or f"forms that there are: {listing(FORMS)}"
        raise SpecError("E119", f"`--to {form}`: there is no such form", hint=hint)


def pick_task(run: Run, task_key: str | None) -> TaskRun:
    """Return the task that is meant: the one named, or the only one."""
    if task_key is None and len(run.tasks) == 1:
        return next(iter(run.tasks.values()))
    if task_key is not None and task_key in run.tasks:
        return run.tasks[task_key]
    if task_key is None:
        raise SpecError(
            "E119", f"the run has {len(run.tasks)} tasks", hint=f"`--task` one of {listing(run.tasks)}"
        )
    hint = suggest(task_key, run.tasks) or f"tasks of this run: {listing(run.tasks)}"
    raise RunError("E504", f"the run has no task `{task_key}`", hint=hint)


def export_rows(
    run: Run, form: str, *, task_key: str | None, file: str | None, stream: TextIO, is_raw: bool = False
) -> Exported:
    """Write the rows of one task to a file, or to the stream when none is named.

    Parquet is not text and needs the file. With `is_raw`, CSV holds every text as it is.
    """
    opened = reopen(run, pick_task(run, task_key).key)
    write = _choose_writer(run, form, is_raw=is_raw)
    if file is None and write is not None:
        return _count(write(opened, stream), opened)
    try:
        return _count(_write_file(opened, write, Path(str(file))), opened)
    except OSError as error:
        reason = error.strerror or error
        raise RunError("E502", f"cannot write `{file}`: {reason}", hint="choose another file") from error


Write = Callable[[Reopened, TextIO], int | None]


def _choose_writer(run: Run, form: str, *, is_raw: bool) -> Write | None:
    """Return what writes a form of text; it returns how many rows it wrote where that is not all."""
    if form == CSV:
        return partial(write_csv, is_raw=is_raw)
    if form != EVERY_EVAL_EVER:
        return TEXT_WRITERS.get(form)
    from answerkey.exchange import write_every_eval_ever

    return partial(write_every_eval_ever, run)


def _count(written: int | None, opened: Reopened) -> Exported:
    rows = len(opened) if written is None else written
    return Exported(rows, len(opened) - rows)


def _write_file(opened: Reopened, write: Write | None, file: Path) -> int | None:
    """Write a file of text, or Parquet where nothing writes text."""
    if write is None:
        write_frames(file, map(flatten, opened.iterate()))
        return None
    written: list[int | None] = []

    def write_text(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as out:
            written.append(write(opened, out))

    write_output(file, write_text)
    return written[0]


def read_rows(opened: Reopened) -> Iterator[dict[str, Any]]:
    """Yield one object per sample and trial; some rows are in memory at a time."""
    encoded = find_encoded(opened.task_run)
    for part in opened.iterate():
        keys = [name for name in part.scores.columns if name not in {"sample_id", "trial"}]
        verdicts = part.scores.iter_rows(named=True)
        replies = part.completions.frame.select("completion", "status").iter_rows()
        rows = zip(verdicts, replies, part.samples.rows(), list_orders(part), strict=True)
        for verdict, (text, status), sample, order in rows:
            yield {
                "sample_id": verdict["sample_id"],
                **order,
                "trial": verdict["trial"],
                "completion": text,
                "completion_status": status,
                "scores": {key: describe_verdict(verdict[key], encoded.get(key, ())) for key in keys},
                "sample": dict(sample),
            }


def list_orders(part: Excerpt) -> list[dict[str, Any]]:
    """Return which sample each row is of, and where in the file its options stand; empty without orders."""
    orders = part.samples.orders
    if orders is None:
        return [{}] * len(part.samples)
    told = orders.select("base_sample_id", pl.col("order").alias("option_order"))
    return list(told.iter_rows(named=True))


def find_encoded(task: TaskRun) -> Mapping[str, Collection[str]]:
    """Return scorer key → the values and metadata that are stored as JSON text."""
    found: Mapping[str, Collection[str]] = task.manifest.get("encoded") or {}
    return found


def describe_verdict(verdict: Mapping[str, Any], encoded: Collection[str] = ()) -> dict[str, Any]:
    """Return one score as JSONL has it; `excluded_by` only where an action keeps it out of the metrics."""
    described = {
        "status": verdict["status"],
        "reason": verdict["reason"],
        "values": _decode(verdict["values"], encoded),
        "metadata": _decode(verdict["metadata"], encoded),
    }
    return described | ({"excluded_by": verdict["excluded_by"]} if verdict.get("excluded_by") else {})


def _decode(group: Mapping[str, Any] | None, encoded: Collection[str]) -> dict[str, Any]:
    return {
        name: json.loads(value) if name in encoded and isinstance(value, str) else value
        for name, value in (group or {}).items()
        if name != EMPTY_STRUCT_FIELD
    }


def write_jsonl(opened: Reopened, out: TextIO) -> None:
    """Write one JSON object per line; no NaN."""
    out.writelines(to_json(row) + "\n" for row in read_rows(opened))


def to_json(content: object) -> str:
    """Return JSON text; numbers that JSON lacks become null, dates and the like their text."""
    try:
        return json.dumps(content, ensure_ascii=False, allow_nan=False, default=str)
    except ValueError:
        return json.dumps(clean_numbers(content), ensure_ascii=False, allow_nan=False, default=str)


def flatten(part: Excerpt) -> pl.DataFrame:
    """Return rows as a flat table whose columns are the paths into the JSONL object."""
    scores, replies = part.scores, part.completions.frame
    columns = [scores["sample_id"], *_flatten_orders(part), scores["trial"], replies["completion"]]
    columns.append(replies["status"].rename("completion_status"))
    for key in scores.columns[2:]:
        columns += _flatten_verdicts(key, scores[key].struct.unnest())
    columns += [series.rename(f"sample.{series.name}") for series in part.samples.frame.iter_columns()]
    return pl.DataFrame(columns)


def _flatten_orders(part: Excerpt) -> list[pl.Series]:
    orders = part.samples.orders
    return [] if orders is None else [orders["base_sample_id"], orders["order"].rename("option_order")]


def _flatten_verdicts(key: str, verdicts: pl.DataFrame) -> Iterator[pl.Series]:
    for name in ("status", "reason", "excluded_by"):
        yield verdicts[name].rename(f"scores.{key}.{name}")
    for group in ("values", "metadata"):
        for series in verdicts[group].struct.unnest():
            if series.name != EMPTY_STRUCT_FIELD:
                yield series.rename(f"scores.{key}.{group}.{series.name}")


def write_csv(opened: Reopened, out: TextIO, *, is_raw: bool = False) -> None:
    """Write CSV with a heading; an empty text is quoted, a null is an empty cell.

    No text is one that a spreadsheet would compute, unless it `is_raw`.
    """
    for number, table in enumerate(map(flatten, opened.iterate())):
        cells = [_write_cells(series) for series in table.iter_columns()]
        shown = pl.DataFrame(cells if is_raw else [guard_column(one) for one in cells])
        out.write("" if number else _write_heading(shown.columns, is_raw=is_raw))
        out.write(shown.write_csv(None, include_header=False))


def _write_heading(names: Sequence[str], *, is_raw: bool) -> str:
    """Return the first line; names of columns are from others, too."""
    cells = pl.Series("name", names, dtype=pl.String)
    return pl.DataFrame([(cells if is_raw else guard_column(cells)).to_list()], orient="row").write_csv(
        None, include_header=False
    )


def _write_cells(series: pl.Series) -> pl.Series:
    if not series.dtype.is_nested():
        return series.fill_nan(None) if series.dtype.is_float() else series
    texts = [None if value is None else to_json(value) for value in series.to_list()]
    return pl.Series(series.name, texts, dtype=pl.String)


#: Form → what writes it.
TEXT_WRITERS: dict[str, Callable[[Reopened, TextIO], None]] = {"jsonl": write_jsonl, CSV: write_csv}
PARQUET = "parquet"
FORMS = (*TEXT_WRITERS, PARQUET, EVERY_EVAL_EVER)
