"""The rows of a run: as JSON objects, as one flat table, and as CSV safe for spreadsheets."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from answerkey.datasets.rows import build_column, infer_types
from answerkey.errors import RunError
from answerkey.evaluate.reopen import Reopened, RunExcerpt, reopen
from answerkey.models.calls import BATCH_SOURCE, PRICED_NAMES, charge
from answerkey.models.config import Price
from answerkey.runs import Run, TaskRun, find_answerer, join_parts, write_output
from answerkey.spec.job import SOLVE
from answerkey.text import clean_numbers
from answerkey.types import EMPTY_STRUCT_FIELD, IMPORTED_SCHEMA, USAGE_NAMES

Json = dict[str, Any]
Write = Callable[[bytes], object]
#: The separators of JSON without spaces.
COMPACT = (",", ":")
#: The number of CSV rows written at a time.
CHUNK_ROWS = 8_192


# ── JSON


def encoded_values(task: TaskRun) -> Mapping[str, Collection[str]]:
    """Return the names of the values and metadata that are stored as JSON text, by scorer."""
    encoded: Mapping[str, Collection[str]] = task.manifest.get("encoded") or {}
    return encoded


def describe_verdict(verdict: Mapping[str, Any], encoded: Collection[str] = ()) -> Json:
    """Return one score as in JSONL.

    `excluded_by` is present only if an action excludes it from the metrics.
    """
    described = {"status": verdict["status"], "reason": verdict["reason"]}
    for group in ("values", "metadata"):
        values = dict(verdict[group] or {})
        values.pop(EMPTY_STRUCT_FIELD, None)
        for name in encoded:
            if isinstance(values.get(name), str):
                values[name] = json.loads(values[name])
        described[group] = values
    if verdict.get("excluded_by"):
        described["excluded_by"] = verdict["excluded_by"]
    return described


def to_json(content: object, separators: tuple[str, str] | None = None) -> str:
    """Return JSON; NaN and infinities become null, dates and similar values become text."""
    encoder = _make_encoder(separators, allow_nan=False)
    try:
        return encoder.encode(content)
    except ValueError:
        lenient = _make_encoder(separators, allow_nan=True)
        plain = json.loads(lenient.encode(content))
        return encoder.encode(clean_numbers(plain))


@cache
def _make_encoder(
    separators: tuple[str, str] | None,
    *,
    allow_nan: bool,
) -> json.JSONEncoder:
    """Return a cached encoder: making one takes longer than encoding a row."""
    return json.JSONEncoder(
        ensure_ascii=False,
        check_circular=False,
        allow_nan=allow_nan,
        separators=separators,
        default=_encode_value,
    )


def _encode_value(value: object) -> object:
    """Return a dataclass as an object, and anything else, such as a date, as text."""
    if not is_dataclass(value):
        return str(value)
    described = {}
    for field in fields(value):
        described[field.name] = getattr(value, field.name)
    return described


def write_objects(rows: Iterable[Mapping[str, object]], write: Write) -> int:
    """Write a line of JSON for each row and return the number of rows."""
    count = 0
    for row in rows:
        write(f"{to_json(row)}\n".encode())
        count += 1
    return count


def iterate_objects(opened: Reopened) -> Iterator[Json]:
    """Yield one object per sample and trial: the reply, the scores, the sample, the prompt."""
    for part in opened.iterate():
        yield from describe_rows(opened.task_run, part)


def describe_rows(task_run: TaskRun, part: RunExcerpt) -> Iterator[Json]:
    """Yield the object of each row."""
    encoded = encoded_values(task_run)
    names = pl.DataFrame(
        {
            "sample_id": part.scores["sample_id"],
            **describe_orders(part),
            "trial": part.scores["trial"],
        }
    )
    verdicts = part.scores.drop("sample_id", "trial")
    rows = zip(
        names.iter_rows(named=True),
        describe_replies(task_run, part).iter_rows(named=True),
        verdicts.iter_rows(named=True),
        part.samples.rows(),
        strict=True,
    )
    for name, reply, scores, sample in rows:
        prompt = reply.pop("prompt")
        described = {}
        for key, verdict in scores.items():
            described[key] = describe_verdict(verdict, encoded.get(key, ()))
        yield {
            **name,
            **reply,
            "scores": described,
            "sample": dict(sample),
            "prompt": None if prompt is None else json.loads(prompt),
        }


# ── one flat table


def build_frame(task_run: TaskRun) -> pl.DataFrame:
    """Return a task as one flat table; see `TaskRun.to_frame`."""
    run = Run({}, {task_run.key: task_run})
    return join_parts(list(iterate_frames(reopen(run))))


def iterate_frames(opened: Reopened) -> Iterator[pl.DataFrame]:
    """Yield the rows of a task as flat tables with the same column types."""
    types = infer_types(opened.dataset.rows)
    for part in opened.iterate():
        yield flatten(opened.task_run, part, types)


def flatten(
    task_run: TaskRun,
    part: RunExcerpt,
    types: Mapping[str, pl.DataType | None],
) -> pl.DataFrame:
    """Return rows as a flat table: the sample, the reply, and the score of each scorer.

    `types` are the types of the dataset's columns.
    """
    results = describe_replies(task_run, part).to_dict()
    for key in part.scores.columns[2:]:
        verdicts = part.scores[key].struct.unnest()
        _add_verdicts(results, key, verdicts)
    columns = part.scores.select("sample_id", "trial").to_dict()
    columns |= describe_orders(part)
    for column in part.samples.columns:
        name = column
        while name in columns or name in results:
            name = f"sample.{name}"
        if column != "sample_id":
            values = part.samples.values(column)
            columns[name] = build_column(column, values, types[column])
    columns |= results
    return pl.DataFrame(columns)


def _add_verdicts(
    results: dict[str, pl.Series],
    key: str,
    verdicts: pl.DataFrame,
) -> None:
    """Add the columns of a scorer's verdicts."""
    for name in ("status", "reason", "excluded_by"):
        results[f"{key}.{name}"] = verdicts[name]
    for group in ("values", "metadata"):
        for series in verdicts[group].struct.unnest():
            name = f"{key}.{series.name}"
            if name in results:
                name = f"{key}.{group}.{series.name}"
            if series.name != EMPTY_STRUCT_FIELD:
                results[name] = series


def describe_orders(part: RunExcerpt) -> dict[str, pl.Series]:
    """Return the sample of each row and the order of its options; empty without orders."""
    orders = part.samples.orders
    if orders is None:
        return {}
    return orders.select("base_sample_id", option_order="order").to_dict()


def describe_replies(task_run: TaskRun, part: RunExcerpt) -> pl.DataFrame:
    """Return run, task and model, the reply, its cost, and the verdict of another tool.

    The columns are named as in `to_frame` and in JSONL. Unknown values are null.
    """
    place = task_run.stored_scores.store.place
    run_name = pl.lit(place and place.name, pl.String)
    answerer = find_answerer(task_run.manifest) or {}
    model_name = pl.lit(answerer.get("name"), pl.String)
    imported = pl.DataFrame(schema=IMPORTED_SCHEMA)
    replies = pl.concat([part.completions.frame, imported], how="diagonal")
    costs = charge_rows(replies, _find_price(task_run))
    return replies.select(
        run_name.alias("run"),
        pl.lit(task_run.key).alias("task"),
        model_name.alias("model"),
        "completion",
        pl.col("status").alias("completion_status"),
        pl.col("error").alias("completion_error"),
        "reasoning",
        "finish_reason",
        "prompt",
        pl.col("usage").struct.field(*USAGE_NAMES),
        "latency",
        pl.Series("cost", costs, pl.Float64),
        *IMPORTED_SCHEMA,
    )


def _find_price(task_run: TaskRun) -> Price | None:
    calls = task_run.manifest.get("calls") or {}
    if SOLVE not in calls:
        return None
    price = calls[SOLVE].get("price")
    return price and Price(**price)


def charge_rows(
    replies: pl.DataFrame,
    price: Price | None,
) -> list[float | None]:
    """Return the cost of each reply in USD: 0 from the cache, null if unknown."""
    if price is None:
        return [None] * replies.height
    usage = replies["usage"].struct.unnest()
    tokens = usage.select(*PRICED_NAMES).iter_rows()
    costs: list[float | None] = []
    for source, counts in zip(replies["source"], tokens, strict=True):
        cost = None
        if source == "cache":
            cost = 0.0
        elif None not in counts[:2]:
            is_batch = source == BATCH_SOURCE
            cost = charge(price, *counts, is_batch=is_batch)
            cost = round(cost, 9)
        costs.append(cost)
    return costs


# ── files


@dataclass(frozen=True)
class Exporter(ABC):
    """Writes one task of a run in one form; `is_raw` leaves texts that look like formulas
    unguarded.
    """

    run: Run
    opened: Reopened
    is_raw: bool = False

    form: ClassVar[str]

    @abstractmethod
    def write(self, write: Write) -> int:
        """Write the rows that the form can hold, and return their number."""

    def save(self, path: Path) -> int:
        """Write them to a file, or to files in a folder if the form has several."""
        return write_file(path, self.write)


def write_file(file: str | Path, write: Callable[[Write], int]) -> int:
    """Write a file completely or not at all, and return the number of rows."""
    rows = 0

    def write_bytes(path: Path) -> None:
        nonlocal rows
        with path.open("wb") as out:
            rows = write(out.write)

    write_whole(file, write_bytes)
    return rows


def write_whole(file: str | Path, write: Callable[[Path], object]) -> None:
    """Write a file completely or not at all; E502 if it cannot be written."""
    try:
        write_output(Path(file), write)
    except OSError as error:
        message = f"cannot write `{file}`: {error.strerror or error}"
        raise RunError("E502", message, hint="choose another file") from error


# ── CSV


def write_csv(
    frames: Iterable[pl.DataFrame],
    write: Write,
    *,
    is_raw: bool = False,
) -> int:
    """Write CSV with a header line and return the number of rows.

    An empty text is quoted, a null is an empty cell. Unless `is_raw`, no text is a formula that a
    spreadsheet would compute.
    """
    rows = 0
    for number, frame in enumerate(frames):
        tables = list(frame.iter_slices(CHUNK_ROWS))
        if not number:  # column names come from the data, too
            heading = pl.DataFrame([frame.columns], orient="row")
            tables.insert(0, heading)
            rows -= 1
        for table in tables:
            cells = [_write_cells(series) for series in table.iter_columns()]
            if not is_raw:
                cells = [guard_column(series) for series in cells]
            buffer = BytesIO()
            pl.DataFrame(cells).write_csv(buffer, include_header=False)
            write(buffer.getvalue())
            rows += table.height
    return rows


def _write_cells(series: pl.Series) -> pl.Series:
    """Return a column that CSV can hold: lists and mappings become JSON text."""
    if series.dtype.is_float():
        return series.fill_nan(None)
    if not series.dtype.is_nested():
        return series
    texts: list[str | None] = []
    for value in series.to_list():
        texts.append(None if value is None else to_json(value))
    return pl.Series(series.name, texts, dtype=pl.String)


# Spreadsheets compute a cell that begins with `=`, `+`, `-` or `@`, and a formula can send other
# cells to a server. An apostrophe in front makes it text. Some programs end a cell at semicolons,
# tabs or line breaks even inside quotes, so what follows these is guarded, too.

#: Characters that begin a formula, also in full width; and those of them that also begin numbers
#: and list items.
_OPENING = "[=@+\\-＝＠＋－]"  # noqa: RUF001 - intended: spreadsheets treat them alike
_SIGNS = "[+\\-＋－]"  # noqa: RUF001 - same
#: What may come before a formula: spaces, and invisible characters.
_UNSEEN = "\\s\\x00-\\x1f\\x7f-\\x9f\\x{200b}-\\x{200f}\\x{2060}\\x{feff}"
_FIRST = f"^([{_UNSEEN}]*)({_OPENING})"
#: Within a cell a sign with a space after it is not guarded: it marks a list item.
_LATER = f"([;\\t\\r\\n][{_UNSEEN}\"']*)([=@＝＠]|{_SIGNS}+[^\\s+\\-＋－])"  # noqa: RUF001 - same
#: Numbers and lone signs are not formulas.
_HARMLESS = r"^\s*(?:[+\-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+\-]?\d+)?|[+\-])\s*$"
_GUARDED = "${1}'${2}"


def guard_column(texts: pl.Series) -> pl.Series:
    """Return a column in which no text is a formula; other columns are returned unchanged."""
    if texts.dtype != pl.String:
        return texts
    column = pl.col(texts.name)
    guarded = column.str.replace_all(_LATER, _GUARDED)
    guarded = guarded.str.replace(_FIRST, _GUARDED)
    is_harmless = column.str.contains(_HARMLESS)
    kept = pl.when(is_harmless).then(column).otherwise(guarded)
    table = texts.to_frame().select(kept.alias(texts.name))
    return table.to_series()
