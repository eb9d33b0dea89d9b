"""A run in other forms: its rows as JSONL, CSV, Parquet, rows of every_eval_ever or an Inspect log.

The JSONL object is nested; CSV and Parquet have the columns of `run.to_frame()`. Lists and mappings
are JSON text in CSV, and texts that a spreadsheet would compute are guarded (see `guard_column`)
unless wanted raw. The number of a run becomes the YAML that a model page of the Hugging Face hub
shows.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO, Unpack
from urllib.parse import quote
from uuid import UUID
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import polars as pl

from answerkey._version import __version__
from answerkey.datasets.frames import build_column, infer_types
from answerkey.errors import RunError, SpecError, listing, suggest
from answerkey.evaluate.dry_run import build_prompts
from answerkey.evaluate.job import SOLVE, Progress, ignore_progress
from answerkey.evaluate.options import RunOptions
from answerkey.evaluate.pairs import AnyRun
from answerkey.evaluate.reopen import Excerpt, Reopened, reopen
from answerkey.evaluate.run import TaskSource
from answerkey.models.calls import BATCH_SOURCE, PRICED_NAMES, charge
from answerkey.models.config import Price
from answerkey.runs import (
    Run,
    TaskRun,
    find_answerer,
    join_parts,
    load_run,
    write_frames,
    write_output,
)
from answerkey.spec.ready_made import write_yaml
from answerkey.text import clean_numbers
from answerkey.types import (
    EMPTY_STRUCT_FIELD,
    THEIR_SCHEMA,
    USAGE_NAMES,
    Completion,
    CompletionStatus,
    MetricValue,
    Score,
    Scores,
    ScoreStatus,
)

CSV, PARQUET = "csv", "parquet"
EVERY_EVAL_EVER, INSPECT, EVAL_RESULTS = "every_eval_ever", "inspect", "eval-results"
Write = Callable[[bytes | memoryview], object]
FORMS = ("jsonl", CSV, PARQUET, EVERY_EVAL_EVER, INSPECT, EVAL_RESULTS)


@dataclass(frozen=True)
class Exported:
    """How many rows were written, and how many have nothing that the form can hold."""

    rows: int
    left_out: int = 0


def export(
    run: AnyRun,
    to: str = "jsonl",
    path: str | Path | None = None,
    *,
    task: str | None = None,
    is_raw: bool = False,
    stream: TextIO | None = None,
) -> Exported:
    """Write the rows of one task, one for each sample and trial, to a file, or to the stream
    without one.

    `to` is one of `FORMS`. Parquet and Inspect logs need the file. With `is_raw`, CSV holds every
    text as it is. every_eval_ever writes rows, or, for `UUID.json` or a folder, its pair of files.
    """
    if to not in FORMS:
        hint = suggest(to, FORMS) or f"forms that there are: {listing(FORMS)}"
        raise SpecError("E119", f"`--to {to}`: there is no such form", hint=hint)
    run = load_run(run)
    opened = reopen(run, task)
    frames = iterate_frames(opened)
    writers: dict[str, Callable[[Write], int]] = {
        "jsonl": partial(write_jsonl, opened),
        CSV: partial(write_csv, frames, is_raw=is_raw),
        EVERY_EVAL_EVER: partial(write_every_eval_ever, run, opened),
        EVAL_RESULTS: partial(write_result, run, opened),
    }
    if to == INSPECT:
        if path is None or Path(path).suffix != ".eval":
            problem = "an Inspect log needs a file that ends in .eval"
            raise SpecError("E119", problem, hint="add `-o run.eval`")
        _write_path(path, partial(write_inspect, run, opened))
        return Exported(len(opened))
    if (
        to == EVERY_EVAL_EVER
        and path is not None
        and (Path(path).is_dir() or Path(path).suffix == ".json")
    ):
        rows = _write_pair(run, opened, Path(path))
    elif path is None:
        rows = writers[to](_open_bytes(stream or sys.stdout))
    else:
        rows = _write_file(str(path), writers.get(to), frames, len(opened))
    return Exported(rows, 0 if to == EVAL_RESULTS else len(opened) - rows)


def _open_bytes(stream: TextIO) -> Write:
    """Return what writes UTF-8 to a stream; one of bytes is not made text and bytes again."""
    if isinstance(stream, TextIOWrapper) and stream.encoding.lower() in {"utf-8", "utf8"}:
        stream.flush()
        return partial(stream.buffer.write)
    return lambda content: stream.write(str(content, "utf-8"))


def _write_file(
    file: str, write: Callable[[Write], int] | None, frames: Iterable[pl.DataFrame], rows: int
) -> int:
    """Write a file, the whole of it or nothing, and return how many rows.

    As Parquet without a writer.
    """

    def write_bytes(path: Path) -> None:
        nonlocal rows
        with path.open("wb") as out:
            rows = write(out.write) if write else 0

    _write_path(file, write_bytes if write else None, frames)
    return rows


def _write_path(
    file: str | Path, write: Callable[[Path], object] | None, frames: Iterable[pl.DataFrame] = ()
) -> None:
    """Write a file, the whole of it or nothing; E502 when it cannot be written."""
    try:
        write_output(Path(file), write or partial(write_frames, frames=frames))
    except OSError as error:
        reason = error.strerror or error
        raise RunError(
            "E502", f"cannot write `{file}`: {reason}", hint="choose another file"
        ) from error


def export_prompts(
    path: TaskSource,
    out: str | Path,
    *,
    task: str | None = None,
    progress: Progress = ignore_progress,
    **options: Unpack[RunOptions],
) -> int:
    """Write the prompts of a task, one row for each sample and trial.

    Return how many. No model is called. The ending of the file decides between JSONL, CSV and
    Parquet. Some rows are in memory at a time.
    """
    form = Path(out).suffix[1:]
    if form not in FORMS[:3]:
        hint = "name a file that ends in .parquet, .jsonl or .csv"
        raise SpecError("E119", f"`-o {out}`: the ending says no form", hint=hint)
    count, frames = build_prompts(path, task, progress, **options)
    tables = (table for frame in frames for table in frame.iter_slices(_LINES))
    lines = (_join_lines(_write_fields(table), table.height) for table in tables)
    write = (
        partial(write_csv, frames, is_raw=True) if form == CSV else partial(_write_tables, lines)
    )
    return _write_file(str(out), None if form == PARQUET else write, frames, count)


def find_encoded(task: TaskRun) -> Mapping[str, Collection[str]]:
    """Return scorer key → the values and metadata that are stored as JSON text."""
    found: Mapping[str, Collection[str]] = task.manifest.get("encoded") or {}
    return found


def describe_verdict(verdict: Mapping[str, Any], encoded: Collection[str] = ()) -> dict[str, Any]:
    """Return one score as JSONL has it.

    `excluded_by` only where an action keeps it out of the metrics.
    """
    described = {"status": verdict["status"], "reason": verdict["reason"]}
    for group in ("values", "metadata"):
        described[group] = {
            name: json.loads(value) if name in encoded and isinstance(value, str) else value
            for name, value in (verdict[group] or {}).items()
            if name != EMPTY_STRUCT_FIELD
        }
    return described | (
        {"excluded_by": verdict["excluded_by"]} if verdict.get("excluded_by") else {}
    )


#: Separators of JSON without blanks.
COMPACT = (",", ":")


@cache
def _make_encoder(separators: tuple[str, str] | None) -> json.JSONEncoder:
    options: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False, "default": str}
    return json.JSONEncoder(check_circular=False, separators=separators, **options)


def to_json(content: object, separators: tuple[str, str] | None = None) -> str:
    """Return JSON text; numbers that JSON lacks become null, dates and the like their text."""
    encoder = _make_encoder(separators)
    try:
        return encoder.encode(content)
    except ValueError:
        return encoder.encode(clean_numbers(content))


# ── JSON of whole columns

#: Texts that make up each row: the same for all of them, or one for each.
Pieces = list[str | pl.Series]
#: Rows that become text together: more of them need more memory and are no faster.
_LINES = 8_192
#: Of so many texts it is looked whether they are few different ones.
_SOME = 256
#: Other numbers have an exponent, which Polars and Python write differently.
_LEAST, _MOST = 1e-4, 1e16


def write_jsonl(opened: Reopened, write: Write) -> int:
    """Write one object per sample and trial, and return how many."""
    parts = (
        one.slice(at, _LINES)
        for one in opened.iterate()
        for at in range(0, len(one.samples), _LINES)
    )
    return _write_tables((describe_rows(opened.task_run, part) for part in parts), write)


def describe_rows(task_run: TaskRun, part: Excerpt) -> pl.DataFrame:
    """Return the JSON object of each row, as one column."""
    encoded, replies, scores = find_encoded(task_run), describe_replies(task_run, part), part.scores
    plain = [
        scores["sample_id"],
        *describe_orders(part).values(),
        scores["trial"],
        *replies.drop("prompt"),
    ]
    fields = {one.name: write_values(one) for one in plain}
    verdicts = {
        key: _write_verdicts(scores[key], encoded.get(key, ())) for key in scores.columns[2:]
    }
    fields |= {
        "scores": _write_object(verdicts),
        "sample": [pl.Series([to_json(fields) for fields in part.samples.rows()], dtype=pl.String)],
    }
    fields["prompt"] = [replies["prompt"].fill_null("null")]  # JSON already
    return _join_lines(_write_object(fields), scores.height)


def _write_verdicts(series: pl.Series, encoded: Collection[str]) -> Pieces:
    """Return the scores of one scorer as JSON; see `describe_verdict`."""
    verdicts = series.struct.unnest()
    fields = {name: write_values(verdicts[name]) for name in ("status", "reason")}
    for group in ("values", "metadata"):
        if verdicts[group].null_count():
            told = [describe_verdict(one, encoded)[group] for one in series.to_list()]
            fields[group] = [pl.Series(map(to_json, told), dtype=pl.String)]
            continue
        found = (one for one in verdicts[group].struct.unnest() if one.name != EMPTY_STRUCT_FIELD)
        fields[group] = _write_fields(found, encoded)
    pieces, why = _write_object(fields), pl.col("excluded_by")
    if "excluded_by" not in verdicts.columns or verdicts["excluded_by"].is_null().all():
        return pieces
    cause = pl.when(why != "").then(pl.concat_str(pl.lit(', "excluded_by": '), _quote(why)))
    return [*pieces[:-1], verdicts.select(cause.fill_null("")).to_series(), "}"]


def _write_object(fields: Mapping[str, Pieces]) -> Pieces:
    pieces: Pieces = ["{"]
    for number, (name, value) in enumerate(fields.items()):
        pieces += [f"{', ' if number else ''}{to_json(name)}: ", *value]
    return [*pieces, "}"]


def _write_fields(columns: Iterable[pl.Series], encoded: Collection[str] = ()) -> Pieces:
    return _write_object(
        {one.name: write_values(one, is_encoded=one.name in encoded) for one in columns}
    )


def _join_lines(pieces: Pieces, height: int) -> pl.DataFrame:
    return pl.select(pl.int_range(height).alias("row"), _join_pieces(pieces).alias("line")).select(
        "line"
    )


def _join_pieces(pieces: Pieces) -> pl.Expr:
    """Return the texts that the pieces make up."""
    joined: Pieces = []
    for one in pieces:
        if isinstance(one, str) and joined and isinstance(joined[-1], str):
            joined[-1] += one
        else:
            joined.append(one)
    return pl.concat_str(map(pl.lit, joined))


def write_values(values: pl.Series, *, is_encoded: bool = False) -> Pieces:
    """Return each value as the JSON that `to_json` makes of it.

    One that `is_encoded` is JSON text already. Columns of texts, whole numbers, truth values, usual
    floats, structs of them and lists of all but floats become text as a whole, all others value by
    value.
    """
    if values.null_count() == len(values):
        return ["null"]
    if isinstance(values.dtype, pl.Struct) and not values.null_count() and not is_encoded:
        return _write_fields(values.struct.unnest())
    text = None if is_encoded else _write_column(pl.first(), values.dtype)
    if values.dtype.is_float():
        size = values.abs()
        is_usual = ((size == 0) | ((size >= _LEAST) & (size < _MOST))).all()
        text = pl.first().cast(pl.Float64).cast(pl.String).fill_null("null") if is_usual else None
    if text is None:
        told = (
            json.loads(one) if is_encoded and isinstance(one, str) else one
            for one in values.to_list()
        )
        return [pl.Series([to_json(one) for one in told], dtype=pl.String)]
    if not values.dtype.is_float() and values.eq_missing(values.head(1)).all():  # 0.0 equals -0.0
        return values.head(1).to_frame().select(text).to_series().to_list()
    if values.dtype == pl.String and _is_plain(values):
        return ['"', values, '"']
    if (
        values.dtype == pl.List(pl.String)
        and values.list.len().min()
        and _is_plain(values.explode())
    ):
        return ['["', values.list.join('", "'), '"]']
    return [values.to_frame().select(text).to_series()]


def _is_plain(texts: pl.Series) -> bool:
    """Return whether all are texts that JSON writes as they are."""
    return not texts.null_count() and not _holds(texts, r'["\\\x00-\x1f]')


def _holds(texts: pl.Series, pattern: str) -> bool:
    """Return whether one of the texts holds the pattern.

    Of those that are said over and over one is read.
    """
    some = texts.head(_SOME)
    few = texts.unique() if some.n_unique() < _SOME // 8 else texts
    return any(one.str.contains(pattern).any() for one in (some, few))


def _write_column(value: pl.Expr, dtype: pl.DataType) -> pl.Expr | None:
    """Return the JSON of a column with this type; None where only Python knows it."""
    if isinstance(dtype, pl.List):
        inner = _write_column(pl.element(), dtype.inner)  # type: ignore[arg-type]  # an instance here
        if inner is None:
            return None
        joined = value.list.eval(inner).list.join(", ")
        return pl.concat_str(pl.lit("["), joined, pl.lit("]")).fill_null("null")
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
        return _quote(value.cast(pl.String))
    is_known = dtype.is_integer() or dtype == pl.Boolean
    return value.cast(pl.String).fill_null("null") if is_known else None


def _quote(text: pl.Expr) -> pl.Expr:
    made = pl.struct(text.alias("_")).struct.json_encode()
    return made.str.strip_prefix('{"_":').str.strip_suffix("}")


def _write_tables(
    tables: Iterable[pl.DataFrame], write: Write, quotes: Literal["necessary", "never"] = "never"
) -> int:
    """Write rows as CSV, or as they are, and return how many."""
    rows = 0
    slices = (
        one for table in tables for one in table.iter_slices(_LINES // 4)
    )  # buffers that are reused
    for table in slices:
        buffer = BytesIO()
        table.write_csv(buffer, include_header=False, quote_style=quotes)
        write(buffer.getbuffer())
        rows += table.height
    return rows


def build_frame(task_run: TaskRun) -> pl.DataFrame:
    """Return a task as one flat table; see `TaskRun.to_frame`."""
    run = Run({}, {task_run.key: task_run})
    return join_parts(list(iterate_frames(reopen(run))))


def iterate_frames(opened: Reopened) -> Iterator[pl.DataFrame]:
    """Yield the rows of a task as flat tables, whose columns have the same types in all."""
    types = infer_types(opened.dataset.rows)
    for part in opened.iterate():
        yield flatten(opened.task_run, part, types)


def flatten(
    task_run: TaskRun, part: Excerpt, types: Mapping[str, pl.DataType | None]
) -> pl.DataFrame:
    """Return rows as a flat table: the sample, what was said, and what each scorer found.

    `types` are those of the columns of the dataset.
    """
    ours = describe_replies(task_run, part).to_dict()
    for key in part.scores.columns[2:]:
        verdicts = part.scores[key].struct.unnest()
        ours |= {f"{key}.{name}": verdicts[name] for name in ("status", "reason", "excluded_by")}
        for group in ("values", "metadata"):
            for series in verdicts[group].struct.unnest():
                name = f"{key}.{series.name}"
                if series.name != EMPTY_STRUCT_FIELD:
                    ours[f"{key}.{group}.{series.name}" if name in ours else name] = series
    columns = part.scores.select("sample_id", "trial").to_dict()
    columns |= describe_orders(part)
    for column in part.samples.columns:
        if column == "sample_id":
            continue
        name = column
        while name in columns or name in ours:
            name = f"sample.{name}"
        columns[name] = build_column(column, part.samples.values(column), types[column])
    return pl.DataFrame([series.rename(name) for name, series in (columns | ours).items()])


def describe_orders(part: Excerpt) -> dict[str, pl.Series]:
    """Return which sample each row is of, and where in the file its options stand.

    Nothing without orders.
    """
    orders = part.samples.orders
    return {} if orders is None else orders.select("base_sample_id", option_order="order").to_dict()


def describe_replies(task_run: TaskRun, part: Excerpt) -> pl.DataFrame:
    """Return run, task and model, what was said, what it took, and how another tool judged it, row
    for row.

    The columns have the names of `to_frame` and of the keys of JSONL. What is not known is null.
    """
    entry, place = task_run.manifest, task_run.stored_scores.store.place
    said = part.completions.frame
    model = (find_answerer(entry) or {}).get("name")
    about = {"run": place and place.name, "task": task_run.key, "model": model}
    price = ((entry.get("calls") or {}).get(SOLVE) or {}).get("price")
    return said.select(
        *(pl.lit(value, pl.String).alias(name) for name, value in about.items()),
        "completion",
        *(pl.col(name).alias(f"completion_{name}") for name in ("status", "error")),
        *("reasoning", "finish_reason", "prompt"),
        *(pl.col("usage").struct.field(name) for name in USAGE_NAMES),
        "latency",
        pl.Series("cost", charge_rows(said, price and Price(**price)), pl.Float64),
        *(
            pl.col(name) if name in said.columns else pl.lit(None, kind).alias(name)
            for name, kind in THEIR_SCHEMA.items()
        ),
    )


def charge_rows(said: pl.DataFrame, price: Price | None) -> list[float | None]:
    """Return what each reply cost in USD: nothing from the cache, null where price or tokens are
    unknown.
    """
    if price is None:
        return [None] * said.height
    tokens = said.select(pl.col("usage").struct.field(name) for name in PRICED_NAMES).iter_rows()
    return [
        0.0
        if source == "cache"
        else None
        if None in counts[:2]
        else round(charge(price, *counts, is_batch=source == BATCH_SOURCE), 9)
        for source, counts in zip(said["source"], tokens, strict=True)
    ]


def write_csv(frames: Iterable[pl.DataFrame], write: Write, *, is_raw: bool = False) -> int:
    """Write CSV with a heading and return how many rows.

    An empty text is quoted, a null is an empty cell. No text is one that a spreadsheet would
    compute, unless it `is_raw`.
    """
    rows = 0
    for number, frame in enumerate(frames):
        if not number:  # names of columns are from others, too
            names = pl.Series("name", frame.columns, dtype=pl.String)
            heading = [(names if is_raw else guard_column(names)).to_list()]
            _write_tables([pl.DataFrame(heading, orient="row")], write, "necessary")
        for table in frame.iter_slices(_LINES):
            cells = [_write_cells(series) for series in table.iter_columns()]
            shown = pl.DataFrame(cells if is_raw else [guard_column(one) for one in cells])
            rows += _write_tables([shown], write, "necessary")
    return rows


def _write_cells(series: pl.Series) -> pl.Series:
    """Return a column that CSV can hold: lists and mappings are JSON text."""
    if not series.dtype.is_nested():
        return series.fill_nan(None) if series.dtype.is_float() else series
    texts = pl.when(pl.first().is_not_null()).then(_join_pieces(write_values(series)))
    return series.to_frame().select(texts.alias(series.name)).to_series()


# ── text in CSV that no spreadsheet takes for a formula

# Spreadsheets compute a cell that begins with `=`, `+`, `-` or `@`, and what they compute can send
# the other cells away. An apostrophe in front makes it text. Programs that take semicolons, tabs or
# line breaks for the end of a cell, whatever the quotation marks say, find one there, too.

#: What a formula begins with, also in full width; and the part of it that numbers and list marks
#: begin with.
_OPENING = "[=@+\\-＝＠＋－]"  # noqa: RUF001 - meant: spreadsheets take them for the same
_SIGNS = "[+\\-＋－]"  # noqa: RUF001 - same
#: What does not keep a cell from being a formula: blanks, and characters that nobody sees.
_UNSEEN = "\\s\\x00-\\x1f\\x7f-\\x9f\\x{200b}-\\x{200f}\\x{2060}\\x{feff}"
_FIRST = f"^([{_UNSEEN}]*)({_OPENING})"
#: Within a cell a sign with a blank after it stays as it is: it is the mark of a list.
_LATER = f"([;\\t\\r\\n][{_UNSEEN}\"']*)([=@＝＠]|{_SIGNS}+[^\\s+\\-＋－])"  # noqa: RUF001 - same
#: Numbers and lone signs are no formulas.
_HARMLESS = r"^\s*(?:[+\-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+\-]?\d+)?|[+\-])\s*$"
_GUARDED = "${1}'${2}"


def guard_column(texts: pl.Series) -> pl.Series:
    """Return a column of texts in which nothing is a formula.

    One that holds no text stays as it is.
    """
    if texts.dtype != pl.String or texts.null_count() == len(texts):
        return texts
    if not _holds(texts, f"{_FIRST}|{_LATER}"):
        return texts
    guarded = pl.col(texts.name).str.replace_all(_LATER, _GUARDED).str.replace(_FIRST, _GUARDED)
    is_harmless = pl.col(texts.name).str.contains(_HARMLESS)
    kept = pl.when(is_harmless).then(texts.name).otherwise(guarded).alias(texts.name)
    return pl.DataFrame([texts]).select(kept).to_series()


# ── rows of every_eval_ever

SCHEMA_VERSION = "0.3.0"
#: Rows that become Python values together: those are larger than columns.
_TOGETHER = 1_024
#: Columns of a dataset that hold the question or the category, the likeliest first.
_QUESTIONS = ("question", "question_stem", "query", "problem", "prompt", "input", "text")
_CATEGORIES = ("category", "subject", "topic", "domain", "subset", "task")


class Asked(NamedTuple):
    """One row: what was asked and said, and the verdict of each scorer."""

    sample_id: str
    trial: int
    reply: Completion
    sample: Mapping[str, Any]
    choices: Sequence[object] | None
    options: Sequence[object] | None
    truth: object
    verdicts: Mapping[str, Score]

    def find_text(self, columns: Sequence[str]) -> str | None:
        """Return the text of the first of these columns that the sample has, whatever the case."""
        names = {name.lower().strip(): name for name in reversed(list(self.sample))}
        return next((_to_text(self.sample[names[one]]) for one in columns if one in names), None)


def iterate_asked(opened: Reopened) -> Iterator[Asked]:
    """Yield the rows as Python values; some are in memory at a time."""
    told, size = find_encoded(opened.task_run), opened.task.num_trials
    together = max(1, _TOGETHER // size) * size
    for part in opened.iterate():
        for offset in range(0, len(part.samples), together):
            samples = part.samples.slice(offset, together)
            scores = part.scores.slice(offset, together)
            facts, nothing = opened.task.sample_facts(samples), [None] * len(samples)
            keys = scores.columns[2:]
            judged = zip(
                *(
                    Scores(scores[key].struct.unnest(), frozenset(told.get(key, ()))).rows()
                    for key in keys
                ),
                strict=True,
            )
            rows = zip(
                scores["sample_id"].to_list(),
                scores["trial"].to_list(),
                part.completions.slice(offset, together).rows(),
                samples.rows(),
                (facts and facts.choices) or nothing,
                (facts and facts.options) or nothing,
                (facts and facts.truths) or nothing,
                (dict(zip(keys, one, strict=True)) for one in judged),
                strict=True,
            )
            yield from map(Asked._make, rows)


def write_every_eval_ever(run: Run, opened: Reopened, write: Write) -> int:
    """Write a row for each sample and trial that has a score; return how many.

    The schema knows no row without a score, so that what could not be scored is left out.
    """
    entry, step = opened.task_run.manifest, opened.task.main_step.key
    name = _name_evaluation(run, opened)
    categories = (str(entry["dataset"].get("category") or "").lower().strip(), *_CATEGORIES)
    head = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": name,
        "model_id": _name_model(opened),
        "evaluation_name": entry["display_name"] or entry["key"],
        "evaluation_result_id": f"{name}/{step}",
    }
    count = 0
    for row in iterate_asked(opened):
        verdict, reply = row.verdicts[step], row.reply
        score = _find_score(verdict)
        if score is None:
            continue
        prompt = "\n\n".join(str(one.get("content") or "") for one in reply.prompt or ())
        asked = {
            "raw": row.find_text(_QUESTIONS) or prompt,
            "formatted": prompt or None,
            "reference": [] if row.truth is None else [str(row.truth)],
            "choices": [str(one) for one in (row.options or row.choices or ())] or None,
        }
        labels, group = [str(one) for one in row.choices or ()], row.find_text(categories)
        metadata = {"choice_labels": json.dumps(labels, ensure_ascii=False)} if labels else {}
        metadata |= {} if group is None else {"category": group}
        metadata |= {"trial": str(row.trial), "completion_status": reply.status.value}
        named = {**head, "sample_id": row.sample_id}
        content = {**named, **_describe_row(asked, reply, verdict, score, metadata)}
        write(f"{to_json(content)}\n".encode())
        count += 1
    return count


def _name_evaluation(run: Run, opened: Reopened) -> str:
    return f"{run.path.name if run.path is not None else run.key}/{opened.task_run.key}"


def _name_model(opened: Reopened) -> str:
    return str((find_answerer(opened.task_run.manifest) or {}).get("name") or "unknown")


def _write_pair(run: Run, opened: Reopened, out: Path) -> int:
    """Write the samples, and beside them the numbers that point at them, as every_eval_ever files
    them.
    """
    entry, name, model = (
        opened.task_run.manifest,
        _name_evaluation(run, opened),
        _name_model(opened),
    )
    developer, _, short = model.rpartition("/") if model.count("/") < 2 else model.partition("/")  # noqa: PLR2004
    parts = [entry["dataset"]["key"] or entry["key"], developer or "unknown", short]
    folder = "/".join(("data", *(_UNSAFE.sub("_", part).rstrip(". ") or "_" for part in parts)))
    mark = f"{name} {run.manifest.get('started_at')} {entry['dataset']['fingerprint']}"
    file = out
    if out.is_dir():
        file = (
            out
            / folder
            / f"{UUID(bytes=hashlib.sha256(mark.encode()).digest()[:16], version=4)}.json"
        )
        file.parent.mkdir(parents=True, exist_ok=True)
    elif not _UUID.fullmatch(out.stem):
        hint = "name a folder that is there, and the files get their names"
        raise SpecError("E119", f"`-o {out}`: every_eval_ever wants a UUID for a name", hint=hint)
    samples = file.with_name(f"{file.stem}_samples.jsonl")
    rows = _write_file(str(samples), partial(write_every_eval_ever, run, opened), (), 0)
    source = opened.task_run.source["dataset"]
    data: dict[str, Any] = {"dataset_name": parts[0], "source_type": "other"}
    if source["type"] == "huggingface":
        data |= {
            "source_type": "hf_dataset",
            "hf_repo": source["path"],
            "samples_number": len(opened.dataset),
        }
        data |= {"hf_split": source["split"]} if source.get("split") else {}
    step = opened.task.main_step.key
    ran, ended = (_to_seconds(run.manifest.get(f"{when}_at")) for when in ("started", "ended"))
    content = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": name,
        "evaluation_timestamp": ran,
        "retrieved_timestamp": ended,
        "source_metadata": {
            "source_name": "answerkey",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": "answerkey",
            "version": str(run.manifest.get("answerkey_version", __version__)),
        },
        "model_info": {
            "name": model,
            "id": model,
            "developer": developer or "unknown",
            "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
        },
        "evaluation_results": [
            {
                "evaluation_result_id": f"{name}/{step}"
                if not number
                else f"{name}/{step}/{one.name}",
                "evaluation_name": one.name,
                "source_data": data,
                "metric_config": {
                    "metric_name": one.name,
                    "lower_is_better": False,
                    **(
                        {"score_type": "continuous", "min_score": 0, "max_score": 1}
                        if one.is_share
                        else {}
                    ),
                },
                "score_details": {"score": one.value, "uncertainty": _describe_doubt(one)},
            }
            for number, one in enumerate(_list_metrics(opened))
        ],
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": f"{folder}/{samples.name}",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(samples.read_bytes()).hexdigest(),
            "total_rows": rows,
        },
    }
    _write_path(file, lambda path: path.write_text(to_json(content) + "\n", encoding="utf-8"))
    return rows


#: What no name of a file may have everywhere, and how every_eval_ever names its files.
_UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
_UUID = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"
)


def _to_seconds(moment: object) -> str:
    return str(datetime.fromisoformat(str(moment)).timestamp() if moment else time.time())


def _list_metrics(opened: Reopened) -> list[MetricValue]:
    """Return the main scorer's numbers in which more is better."""
    step = opened.task.main_step.key
    found = (one for one in opened.task_run.metrics.values() if one.scorer == step)
    return [one for one in found if one.value is not None and one.type != "frequency"]


def _describe_doubt(metric: MetricValue) -> dict[str, Any]:
    doubt: dict[str, Any] = {"num_samples": metric.n}
    if metric.std_error is not None:
        doubt["standard_error"] = {"value": metric.std_error}
    if metric.interval is not None:
        lower, upper = metric.interval
        method = {"method": metric.interval_method} if metric.interval_method else {}
        doubt["confidence_interval"] = {
            "lower": lower,
            "upper": upper,
            "confidence_level": 0.95,
            **method,
        }
    return doubt


def _describe_row(
    asked: Mapping[str, object],
    reply: Completion,
    verdict: Score,
    score: float,
    metadata: Mapping[str, str],
) -> dict[str, object]:
    read = verdict.metadata.get("predicted_choice", verdict.metadata.get("answer_pred"))
    attribution = {
        "turn_idx": 0,
        "source": "output.raw",
        "extracted_value": str(read),
        "extraction_method": str(verdict.metadata.get("extraction_rule") or "exact_match"),
        "is_terminal": True,
    }
    hashed = json.dumps(asked, sort_keys=True, ensure_ascii=True).encode()
    return {
        "sample_hash": hashlib.sha256(hashed).hexdigest(),
        "interaction_type": "single_turn",
        "input": asked,
        "output": {
            "raw": [] if reply.text is None else [reply.text],
            "reasoning_trace": None if reply.reasoning is None else [reply.reasoning],
        },
        "messages": None,
        "answer_attribution": [] if read is None else [attribution],
        "evaluation": {"score": score, "is_correct": score == 1},
        "token_usage": _count_tokens(reply),
        "performance": None if reply.latency is None else {"latency_ms": reply.latency * 1000},
        "error": None,
        "metadata": metadata,
    }


def _count_tokens(reply: Completion) -> dict[str, int] | None:
    if reply.prompt_tokens is None or reply.completion_tokens is None:
        return None
    names = ("reasoning_tokens", "input_tokens_cache_read", "input_tokens_cache_write")
    counts = (reply.reasoning_tokens, reply.cached_tokens, reply.cache_write_tokens)
    return {
        "input_tokens": reply.prompt_tokens,
        "output_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        **{name: one for name, one in zip(names, counts, strict=True) if one is not None},
    }


def _find_score(verdict: Score) -> float | None:
    """Return the score: whether it is correct, or the scorer's first number.

    None where there is none.
    """
    if verdict.status is not ScoreStatus.SCORED:
        return None
    numbers = {}
    for name, value in verdict.values.items():
        try:
            number = float(value) if isinstance(value, str | int | float) else math.nan
        except (ValueError, OverflowError):
            continue
        if math.isfinite(number):
            numbers[name] = number
    return numbers.get("is_correct", next(iter(numbers.values()), None))


def _to_text(cell: object) -> str | None:
    """Return a text, or a number as text; None for anything else."""
    if isinstance(cell, str):
        return cell
    return str(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else None


# ── a log of Inspect

#: An id that can stand in a path: no part of it is empty or leads upwards, nothing needs to be
#: encoded.
_PLAIN_ID = re.compile(r"(?!(?:.*/)?\.{0,2}(?:/|$))[^\x00-\x1f\x7f\\%]+")
_LONGEST_ID = 200
_STOPS = {"stop": "stop", "length": "max_tokens", "content_filter": "content_filter"}


def write_inspect(run: Run, opened: Reopened, path: Path) -> None:
    """Write a log that `inspect view` opens: an archive of samples and numbers."""
    entry, model, step = opened.task_run.manifest, _name_model(opened), opened.task.main_step.key
    name, summaries = _name_evaluation(run, opened), list[dict[str, Any]]()
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:

        def add(file: str, content: object) -> None:
            archive.writestr(ZipInfo(file), to_json(content), ZIP_DEFLATED)

        for row in iterate_asked(opened):
            sample = _describe_sample(row, model)
            add(f"samples/{_name_member(row.sample_id)}_epoch_{row.trial + 1}.json", sample)
            kept = (
                "id",
                "epoch",
                "input",
                "choices",
                "target",
                "scores",
                "model_usage",
                "metadata",
            )
            summary = {key: sample[key] for key in kept}
            error = {"error": sample["error"]["message"]} if "error" in sample else {}
            summaries.append({**summary, "completed": True, **error})
        ids = list(dict.fromkeys(one["id"] for one in summaries))
        scored = sum(step in one["scores"] for one in summaries)
        started, ended = (run.manifest.get(f"{when}_at") or "" for when in ("started", "ended"))
        mark = hashlib.sha256(f"{name} {started}".encode()).hexdigest()[:22]
        plan = {"name": "plan", "steps": [], "config": {}}
        about = {
            "eval_id": mark,
            "run_id": mark,
            "task_id": mark,
            "created": started or "1970-01-01T00:00:00Z",
            "task": entry["key"],
            "task_version": 0,
            "task_display_name": entry["display_name"] or entry["key"],
            "dataset": {
                "name": entry["dataset"]["key"],
                "samples": len(ids),
                "sample_ids": ids,
                "shuffled": False,
            },
            "model": model,
            "config": {"epochs": opened.task.num_trials},
            "packages": {"answerkey": __version__},
            "metadata": {"run": name},
        }
        metrics = {
            one.name: {"name": one.name, "value": one.value} for one in _list_metrics(opened)
        }
        score = {
            "name": step,
            "scorer": step,
            "params": {},
            "metrics": metrics,
            "scored_samples": scored,
        }
        results = {
            "total_samples": len(summaries),
            "completed_samples": len(summaries),
            "scores": [score],
        }
        add("summaries.json", summaries)
        add("_journal/start.json", {"version": 2, "eval": about, "plan": plan})
        status = "success" if run.status == "complete" else "cancelled"
        stats: dict[str, Any] = {"started_at": started, "completed_at": ended, "model_usage": {}}
        header = {"version": 2, "status": status, "eval": about, "plan": plan, "results": results}
        add("header.json", {**header, "stats": stats})


def _name_member(sample_id: str) -> str:
    """Return an id as a part of a member's path, percent-encoded where it would lead elsewhere.

    Different ids have different names; a very long one is named by its hash.
    """
    if _PLAIN_ID.fullmatch(sample_id) and len(sample_id.encode()) <= _LONGEST_ID:
        return sample_id
    encoded = quote(sample_id, safe=" ").replace(".", "%2E")
    if len(encoded) <= _LONGEST_ID:
        return encoded
    return f"%{hashlib.sha256(sample_id.encode()).hexdigest()}"


def _describe_sample(row: Asked, model: str) -> dict[str, Any]:
    reply = row.reply
    content: object = reply.text or ""
    if reply.reasoning:
        content = [
            {"type": "reasoning", "reasoning": reply.reasoning},
            {"type": "text", "text": content},
        ]
    said = {"role": "assistant", "content": content, "source": "generate", "model": model}
    prompt = [
        {"role": one.get("role"), "content": one.get("content") or ""} for one in reply.prompt or ()
    ]
    question = row.find_text(_QUESTIONS) or ""
    usage = _count_tokens(reply)
    why = reply.error or "the call failed"
    failure = dict.fromkeys(("message", "traceback", "traceback_ansi"), why)
    choice = {"message": said, "stop_reason": _STOPS.get(reply.finish_reason or "", "unknown")}
    output = {"model": model, "choices": [choice], "completion": reply.text or "", "usage": usage}
    return {
        "id": row.sample_id,
        "epoch": row.trial + 1,
        "input": prompt or question,
        "choices": [str(one) for one in row.options or row.choices or ()] or None,
        "target": "" if row.truth is None else str(row.truth),
        "messages": [*(prompt or [{"role": "user", "content": question}]), said],
        "output": {**output, "time": reply.latency},
        "scores": {
            key: {
                "value": {1.0: "C", 0.0: "I"}.get(score, score)
                if "is_correct" in one.values
                else score,
                "answer": None
                if (read := one.metadata.get("predicted_choice")) is None
                else str(read),
                "explanation": reply.text,
                "metadata": {**one.values, **one.metadata},
            }
            for key, one in row.verdicts.items()
            if (score := _find_score(one)) is not None
        },
        "metadata": dict(row.sample),
        "model_usage": {model: usage} if usage else {},
        **({"error": failure} if reply.status is CompletionStatus.ERROR else {}),
    }


# ── a number on the page of a model


def write_result(run: Run, opened: Reopened, write: Write) -> int:
    """Write the YAML that a file in `.eval_results` of a model on the Hugging Face hub holds."""
    source, metrics = opened.task_run.source["dataset"], _list_metrics(opened)
    if source["type"] != "huggingface" or not metrics:
        problem = (
            "the dataset is not on the Hugging Face hub" if metrics else "the run has no number"
        )
        raise RunError(
            "E504", f"{problem}, so no model page can show it", hint="export another run or task"
        )
    first = metrics[0]
    value = (
        round(100 * first.value, 4) if first.is_share and first.value is not None else first.value
    )
    revision = {"revision": source["revision"]} if source.get("revision") else {}
    entry = {
        "dataset": {"id": source["path"], "task_id": source.get("name") or "default", **revision},
        "value": value,
        **({"date": str(date)} if (date := run.manifest.get("ended_at")) else {}),
        "notes": f"{first.name}, n = {first.n}, answerkey {__version__}",
    }
    write(f"- {textwrap.indent(write_yaml(entry), '  ').lstrip()}".encode())
    return 1
