"""What templates and filters see beside the sample, as tables: `solver_output` and `scores`."""

from __future__ import annotations

import json
from collections.abc import Mapping

import polars as pl

from answerkey.templates import Template
from answerkey.types import LATER_NAMES, Completions, Samples, Scores


def view_completions(completions: Completions, template: Template) -> Samples:
    """Return the `solver_output` of every row: just what `Completion.solver_output` gives, as columns.

    Replies and prompts are JSON text of any shape, and so are the columns wherever a table has any of them.
    The names of the later era are JSON text too; those that the template does not read are null.
    """
    table = _view_output(completions)
    paths = template.paths_from("solver_output")
    read = {path[0] for path in paths if path} if () not in paths else set(LATER_NAMES)
    later = [name for name in LATER_NAMES if name in read]
    rows = [one.solver_output() for one in completions.rows()] if later else []
    columns = {name: [json.dumps(row[name], ensure_ascii=False) for row in rows] for name in later}
    frame = table.frame.with_columns(pl.lit(None, pl.String).alias(name) for name in LATER_NAMES)
    frame = frame.with_columns(pl.Series(name, texts, pl.String) for name, texts in columns.items())
    return Samples(frame, table.ids, encoded=table.encoded | {*LATER_NAMES})


def _view_output(completions: Completions) -> Samples:
    frame = completions.frame
    is_bare = all(frame[name].null_count() == frame.height for name in ("reply", "prompt"))
    usage = frame["usage"].struct.unnest().select("prompt_tokens", "completion_tokens").to_struct("usage")
    table = frame.select(
        pl.lit("assistant").alias("role"),
        pl.col("completion").alias("content"),
        "finish_reason",
        usage,
        "reply",
        "prompt",
    )
    ids = frame["sample_id"]
    if is_bare:
        return Samples(table.select(_OUTPUT, _MESSAGES), ids)
    texts = table.with_columns(_MESSAGE_TEXT).select(_OUTPUT_TEXT, _MESSAGES_TEXT)
    return Samples(texts, ids, encoded=frozenset(texts.columns))


_MESSAGE = pl.struct("role", "content").alias("message")
_OUTPUT = pl.struct(pl.concat_list(pl.struct(_MESSAGE, "finish_reason")).alias("choices"), "usage").alias(
    "output"
)
_MESSAGES = pl.concat_list(_MESSAGE).alias("messages")

# A reply without anything in it is none; a prompt is a list that the message is added to.
_HAS_REPLY = pl.col("reply").is_not_null() & ~pl.col("reply").is_in(["{}", "null"])
_MESSAGE_TEXT = (
    pl.when(_HAS_REPLY).then("reply").otherwise(pl.struct("role", "content").struct.json_encode())
).alias("message")
_OUTPUT_TEXT = pl.concat_str(
    pl.lit('{"choices":[{"message":'),
    "message",
    pl.lit(',"finish_reason":'),
    pl.struct("finish_reason").struct.json_encode().str.slice(len('{"finish_reason":')),
    pl.lit('],"usage":'),
    pl.col("usage").struct.json_encode(),
    pl.lit("}"),
).alias("output")
_ASKED = pl.col("prompt").str.strip_chars_end().str.head(-1).str.strip_chars_end().fill_null("[")
_MESSAGES_TEXT = pl.concat_str(
    _ASKED, pl.when(_ASKED != "[").then(pl.lit(",")).otherwise(pl.lit("")), "message", pl.lit("]")
).alias("messages")


def view_scores(scores: Mapping[str, Scores]) -> Samples:
    """Return the `scores` of every row: for each scorer its metadata and values by name."""
    columns = {key: _join_fields(one) for key, one in scores.items()}
    encoded = frozenset(key for key, one in columns.items() if one.dtype == pl.String)
    frame = pl.DataFrame([column.alias(key) for key, column in columns.items()])
    return Samples(frame, pl.Series(range(frame.height)), encoded=encoded)


def _join_fields(scores: Scores) -> pl.Series:
    """Return a struct per row; JSON text when values have no common type, or when there are none."""
    names = [*scores.metadata_names, *scores.value_names]
    if scores.encoded or not names:
        rows = ({**score.metadata, **score.values} for score in scores.rows())
        return pl.Series([json.dumps(row) for row in rows], dtype=pl.String)
    return pl.DataFrame({name: scores.column(name) for name in names}).to_struct()
