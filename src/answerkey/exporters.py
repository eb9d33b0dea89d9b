"""The rows of a run, one per sample and trial, as JSONL, CSV, Parquet, or rows of every_eval_ever.

The JSONL object is nested; the columns of CSV and Parquet are the paths into it
(`scores.<key>.values.is_correct`, `sample.question`). Lists and mappings are JSON text in CSV, and texts that
a spreadsheet would compute are guarded (see `guard_column`) unless they are wanted raw.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO, Unpack

import polars as pl

from answerkey.errors import RunError, SpecError, listing, suggest
from answerkey.evaluate.pairs import AnyRun
from answerkey.evaluate.prepare import Progress, RunOptions, stay_silent
from answerkey.evaluate.rerun import Excerpt, Reopened, reopen
from answerkey.evaluate.runner import TaskSource, build_prompts
from answerkey.runs import Run, TaskRun, find_answerer, join_parts, load_run, write_frames, write_output
from answerkey.text import clean_numbers
from answerkey.types import EMPTY_STRUCT_FIELD, Completion, Score, Scores, ScoreStatus

CSV, PARQUET = "csv", "parquet"
FORMS = ("jsonl", CSV, PARQUET, "every_eval_ever")


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
    """Write the rows of one task, one for each sample and trial, to a file, or to the stream without one.

    `to` is jsonl, csv, parquet or every_eval_ever. Parquet is not text and needs the file. With `is_raw`,
    CSV holds every text as it is.
    """
    if to not in FORMS:
        hint = suggest(to, FORMS) or f"forms that there are: {listing(FORMS)}"
        raise SpecError("E119", f"`--to {to}`: there is no such form", hint=hint)
    run = load_run(run)
    opened = reopen(run, task)
    frames = map(flatten, opened.iterate())
    writers: dict[str, Callable[[TextIO], int]] = {
        "jsonl": partial(_write_lines, read_rows(opened)),
        CSV: partial(write_csv, frames, is_raw=is_raw),
        "every_eval_ever": partial(write_every_eval_ever, run, opened),
    }
    if path is None:
        rows = writers[to](stream or sys.stdout)
    else:
        rows = _write_file(str(path), writers.get(to), frames, len(opened))
    return Exported(rows, len(opened) - rows)


def _write_lines(rows: Iterable[Mapping[str, Any]], out: TextIO) -> int:
    return sum(1 for row in rows if out.write(to_json(row) + "\n"))


def _write_file(
    file: str, write: Callable[[TextIO], int] | None, frames: Iterable[pl.DataFrame], rows: int
) -> int:
    """Write a file, the whole of it or nothing, and return how many rows; as Parquet without a writer."""

    def write_text(path: Path) -> None:
        nonlocal rows
        with path.open("w", encoding="utf-8", newline="") as out:
            rows = write(out) if write else 0

    try:
        if write is None:
            write_frames(Path(file), frames)
        else:
            write_output(Path(file), write_text)
    except OSError as error:
        reason = error.strerror or error
        raise RunError("E502", f"cannot write `{file}`: {reason}", hint="choose another file") from error
    return rows


def export_prompts(
    path: TaskSource,
    out: str | Path,
    *,
    task: str | None = None,
    progress: Progress = stay_silent,
    **options: Unpack[RunOptions],
) -> int:
    """Write the prompts of a task, one row for each sample and trial; return how many. No model is called.

    The ending of the file decides between JSONL, CSV and Parquet. Some rows are in memory at a time.
    """
    form = Path(out).suffix[1:]
    if form not in FORMS[:3]:
        hint = "name a file that ends in .parquet, .jsonl or .csv"
        raise SpecError("E119", f"`-o {out}`: the ending says no form", hint=hint)
    count, frames = build_prompts(path, task, progress, **options)
    rows = (row for frame in frames for row in frame.iter_rows(named=True))
    write = partial(write_csv, frames, is_raw=True) if form == CSV else partial(_write_lines, rows)
    return _write_file(str(out), None if form == PARQUET else write, frames, count)


def read_rows(opened: Reopened) -> Iterator[dict[str, Any]]:
    """Yield one object per sample and trial; some rows are in memory at a time."""
    encoded = find_encoded(opened.task_run)
    for part in opened.iterate():
        keys = [name for name in part.scores.columns if name not in {"sample_id", "trial"}]
        verdicts = part.scores.iter_rows(named=True)
        replies = part.completions.frame.select("completion", "status", "reasoning").iter_rows()
        told = part.samples.orders  # which sample each row is of, and where in the file its options stand
        told = told if told is None else told.select("base_sample_id", pl.col("order").alias("option_order"))
        orders = [{}] * len(part.samples) if told is None else told.to_dicts()
        rows = zip(verdicts, replies, part.samples.rows(), orders, strict=True)
        for verdict, (text, status, thoughts), sample, order in rows:
            yield {
                "sample_id": verdict["sample_id"],
                **order,
                "trial": verdict["trial"],
                "completion": text,
                "completion_status": status,
                **({"reasoning": thoughts} if thoughts else {}),
                "scores": {key: describe_verdict(verdict[key], encoded.get(key, ())) for key in keys},
                "sample": dict(sample),
            }


def find_encoded(task: TaskRun) -> Mapping[str, Collection[str]]:
    """Return scorer key → the values and metadata that are stored as JSON text."""
    found: Mapping[str, Collection[str]] = task.manifest.get("encoded") or {}
    return found


def describe_verdict(verdict: Mapping[str, Any], encoded: Collection[str] = ()) -> dict[str, Any]:
    """Return one score as JSONL has it; `excluded_by` only where an action keeps it out of the metrics."""
    described = {"status": verdict["status"], "reason": verdict["reason"]}
    for group in ("values", "metadata"):
        described[group] = {
            name: json.loads(value) if name in encoded and isinstance(value, str) else value
            for name, value in (verdict[group] or {}).items()
            if name != EMPTY_STRUCT_FIELD
        }
    return described | ({"excluded_by": verdict["excluded_by"]} if verdict.get("excluded_by") else {})


def to_json(content: object, separators: tuple[str, str] | None = None) -> str:
    """Return JSON text; numbers that JSON lacks become null, dates and the like their text."""
    write = partial(json.dumps, ensure_ascii=False, separators=separators, allow_nan=False, default=str)
    try:
        return write(content)
    except ValueError:
        return write(clean_numbers(content))


def flatten(part: Excerpt) -> pl.DataFrame:
    """Return rows as a flat table whose columns are the paths into the JSONL object."""
    scores, replies, orders = part.scores, part.completions.frame, part.samples.orders
    columns = [scores["sample_id"]]
    if orders is not None:
        columns += [orders["base_sample_id"], orders["order"].rename("option_order")]
    columns += [scores["trial"], replies["completion"], replies["status"].rename("completion_status")]
    columns.append(replies["reasoning"])
    for key in scores.columns[2:]:
        verdicts = scores[key].struct.unnest()
        for name in ("status", "reason", "excluded_by"):
            columns.append(verdicts[name].rename(f"scores.{key}.{name}"))
        for group in ("values", "metadata"):
            for series in verdicts[group].struct.unnest():
                if series.name != EMPTY_STRUCT_FIELD:
                    columns.append(series.rename(f"scores.{key}.{group}.{series.name}"))
    columns += [series.rename(f"sample.{series.name}") for series in part.samples.frame.iter_columns()]
    return pl.DataFrame(columns)


def build_frame(task_run: TaskRun) -> pl.DataFrame:
    """Return a task as one flat table for people; see `TaskRun.to_frame`."""
    run = Run({}, {task_run.key: task_run})
    return join_parts([_flatten_plainly(part) for part in reopen(run).iterate()])


def _flatten_plainly(part: Excerpt) -> pl.DataFrame:
    replies, usage = part.completions.frame, part.completions.frame["usage"].struct.unnest()
    ours = {"completion": replies["completion"], "completion_status": replies["status"]}
    ours |= {"completion_error": replies["error"], "reasoning": replies["reasoning"]}
    ours["prompt"] = replies["prompt"]
    ours |= {**usage.to_dict(), "latency": replies["latency"]}
    for key in part.scores.columns[2:]:
        verdicts = part.scores[key].struct.unnest()
        ours |= {f"{key}.{name}": verdicts[name] for name in ("status", "reason", "excluded_by")}
        for group in ("values", "metadata"):
            for series in verdicts[group].struct.unnest():
                name = f"{key}.{series.name}"
                if series.name != EMPTY_STRUCT_FIELD:
                    ours[f"{key}.{group}.{series.name}" if name in ours else name] = series
    columns = {"sample_id": part.scores["sample_id"], "trial": part.scores["trial"]}
    orders = part.samples.orders
    columns |= {} if orders is None else {"option_order": orders["order"]}
    for series in part.samples.frame.iter_columns():
        name = series.name
        while name in columns or name in ours:
            name = f"sample.{name}"
        columns |= {name: series} if series.name != "sample_id" else {}
    return pl.DataFrame([series.rename(name) for name, series in (columns | ours).items()])


def write_csv(frames: Iterable[pl.DataFrame], out: TextIO, *, is_raw: bool = False) -> int:
    """Write CSV with a heading and return how many rows; an empty text is quoted, a null is an empty cell.

    No text is one that a spreadsheet would compute, unless it `is_raw`.
    """
    rows = 0
    for number, table in enumerate(frames):
        rows += table.height
        cells = []
        for series in table.iter_columns():
            if series.dtype.is_nested():
                texts = [None if value is None else to_json(value) for value in series.to_list()]
                cells.append(pl.Series(series.name, texts, dtype=pl.String))
            else:
                cells.append(series.fill_nan(None) if series.dtype.is_float() else series)
        shown = pl.DataFrame(cells if is_raw else [guard_column(one) for one in cells])
        if not number:  # names of columns are from others, too
            names = pl.Series("name", shown.columns, dtype=pl.String)
            heading = [(names if is_raw else guard_column(names)).to_list()]
            out.write(pl.DataFrame(heading, orient="row").write_csv(None, include_header=False))
        out.write(shown.write_csv(None, include_header=False))
    return rows


# ── text in CSV that no spreadsheet takes for a formula ─────────────────────────────────────────────────────

# Spreadsheets compute a cell that begins with `=`, `+`, `-` or `@`, and what they compute can send the other
# cells away. An apostrophe in front makes it text. Programs that take semicolons, tabs or line breaks for the
# end of a cell, whatever the quotation marks say, find one there, too.

#: What a formula begins with, also in full width; and the part of it that numbers and list marks begin with.
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
    """Return a column of texts in which nothing is a formula; one that holds no text stays as it is."""
    if texts.dtype != pl.String:
        return texts
    guarded = pl.col(texts.name).str.replace_all(_LATER, _GUARDED).str.replace(_FIRST, _GUARDED)
    is_harmless = pl.col(texts.name).str.contains(_HARMLESS)
    kept = pl.when(is_harmless).then(texts.name).otherwise(guarded).alias(texts.name)
    return pl.DataFrame([texts]).select(kept).to_series()


# ── rows of every_eval_ever ─────────────────────────────────────────────────────────────────────────────────

SCHEMA_VERSION = "0.3.0"
#: Rows that become Python values together: those are larger than columns.
_TOGETHER = 1_024
#: Columns of a dataset that hold the question or the category, the likeliest first.
_QUESTIONS = ("question", "question_stem", "query", "problem", "prompt", "input", "text")
_CATEGORIES = ("category", "subject", "topic", "domain", "subset", "task")


def write_every_eval_ever(run: Run, opened: Reopened, out: TextIO) -> int:
    """Write a row for each sample and trial that has a score; return how many. Some are in memory at a time.

    The schema knows no row without a score, so that what could not be scored is left out.
    """
    entry, step = opened.task_run.manifest, opened.task.main_step.key
    name = f"{run.path.name if run.path is not None else run.key}/{entry['key']}"
    columns = {column.lower().strip(): column for column in reversed(opened.dataset.columns)}
    question = next((columns[one] for one in _QUESTIONS if one in columns), "")
    category = next((columns[one] for one in _CATEGORIES if one in columns), "")
    category = entry["dataset"].get("category") or category
    head = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": name,
        "model_id": (find_answerer(entry) or {}).get("name") or "unknown",
        "evaluation_name": entry["display_name"] or entry["key"],
        "evaluation_result_id": f"{name}/{step}",
    }
    encoded = frozenset(find_encoded(opened.task_run).get(step, ()))
    size = opened.task.num_trials
    together = max(1, _TOGETHER // size) * size
    count = 0
    for part in opened.iterate():
        for offset in range(0, len(part.samples), together):
            samples = part.samples.slice(offset, together)
            scores = part.scores.slice(offset, together)
            facts, nothing = opened.task.sample_facts(samples), [None] * len(samples)
            rows = zip(
                scores["sample_id"].to_list(),
                scores["trial"].to_list(),
                Scores(scores[step].struct.unnest(), encoded).rows(),
                part.completions.slice(offset, together).rows(),
                samples.rows(),
                (facts and facts.choices) or nothing,
                (facts and facts.options) or nothing,
                (facts and facts.truths) or nothing,
                strict=True,
            )
            for sample_id, trial, verdict, reply, sample, choices, options, truth in rows:
                score = _find_score(verdict)
                if score is None:
                    continue
                prompt = "\n\n".join(str(one.get("content") or "") for one in reply.prompt or ())
                asked = {
                    "raw": _to_text(sample.get(question)) or prompt,
                    "formatted": prompt or None,
                    "reference": [] if truth is None else [str(truth)],
                    "choices": [str(one) for one in (options or choices or ())] or None,
                }
                labels, group = [str(one) for one in choices or ()], _to_text(sample.get(category))
                metadata = {"choice_labels": json.dumps(labels, ensure_ascii=False)} if labels else {}
                metadata |= {} if group is None else {"category": group}
                metadata |= {"trial": str(trial), "completion_status": reply.status.value}
                named = {**head, "sample_id": sample_id}
                out.write(to_json({**named, **_describe_row(asked, reply, verdict, score, metadata)}) + "\n")
                count += 1
    return count


def _describe_row(
    asked: Mapping[str, object], reply: Completion, verdict: Score, score: float, metadata: Mapping[str, str]
) -> dict[str, object]:
    read = verdict.metadata.get("predicted_choice", verdict.metadata.get("answer_pred"))
    attribution = {
        "turn_idx": 0,
        "source": "output.raw",
        "extracted_value": str(read),
        "extraction_method": str(verdict.metadata.get("extraction_rule") or "exact_match"),
        "is_terminal": True,
    }
    usage = None
    if reply.prompt_tokens is not None and reply.completion_tokens is not None:
        usage = {
            "input_tokens": reply.prompt_tokens,
            "output_tokens": reply.completion_tokens,
            "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        }
        names = ("reasoning_tokens", "input_tokens_cache_read", "input_tokens_cache_write")
        counts = (reply.reasoning_tokens, reply.cached_tokens, reply.cache_write_tokens)
        usage |= {name: one for name, one in zip(names, counts, strict=True) if one is not None}
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
        "token_usage": usage,
        "performance": None if reply.latency is None else {"latency_ms": reply.latency * 1000},
        "error": None,
        "metadata": metadata,
    }


def _find_score(verdict: Score) -> float | None:
    """Return the score: whether it is correct, or the scorer's first number; None where there is none."""
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
