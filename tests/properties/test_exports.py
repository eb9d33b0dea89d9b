"""Laws of exports: a row is the JSON of its parts, and CSV says what its values say."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.samples import samples_from_frame

from answerkey.evaluate.reopen import RunExcerpt
from answerkey.exporters.rows import (
    describe_replies,
    describe_rows,
    describe_verdict,
    guard_column,
    to_json,
    write_csv,
)
from answerkey.runs import TaskRun
from answerkey.text import clean_numbers
from answerkey.types import Completion, Completions, CompletionStatus

TEXTS = st.text() | st.sampled_from(
    ["", '"', "\\", '","', 'x",', "\x7f\u2028\ufeff", "null", "=1", "\x1f\t\n"]
)
FLOATS = st.floats() | st.sampled_from(
    [0.0, -0.0, 1e-4, 9.999e-5, 1e16, 9.99e15, 1e22, 5e-324, 0.1, 1e15 + 0.3]
)
WHOLE = st.integers(-(2**63), 2**63 - 1)
#: Types of columns with what they hold.
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    pl.String(): TEXTS,
    pl.Int64(): WHOLE,
    pl.UInt64(): st.integers(0, 2**64 - 1),
    pl.Boolean(): st.booleans(),
    pl.Float64(): FLOATS,
    pl.Float32(): st.floats(width=32),
    pl.Categorical(): TEXTS,
    pl.Date(): st.dates(date(1, 1, 1)),
    pl.Decimal(20, 3): st.decimals(-1000, 1000, places=3),
    pl.Binary(): st.binary(max_size=4),
    pl.Null(): st.none(),
}


def nest(
    dtype: pl.DataType, values: st.SearchStrategy[Any]
) -> list[tuple[Any, st.SearchStrategy[Any]]]:
    """Return a column of these, of lists of them, of lists of lists, and of structs."""
    some = st.none() | values
    lists = st.none() | st.lists(some, max_size=4)
    twice = st.none() | st.lists(lists, max_size=3)
    struct = pl.Struct({"a": dtype, 'b"\\é': pl.List(dtype)})
    structs = st.fixed_dictionaries({"a": some, 'b"\\é': lists})
    full = st.lists(values, min_size=1, max_size=4)
    return [
        (dtype, some),
        (dtype, values),
        (pl.List(dtype), lists),
        (pl.List(dtype), full),
        (pl.List(pl.List(dtype)), twice),
        (struct, structs),
        (struct, st.none() | structs),
        (pl.List(struct), st.none() | st.lists(structs, max_size=2)),
    ]


COLUMNS = [(dtype, cell) for plain, values in PLAIN.items() for dtype, cell in nest(plain, values)]


@st.composite
def columns(draw: st.DrawFn) -> pl.Series:
    """Return a column of any type, of different values or of one over and over."""
    dtype, values = draw(st.sampled_from(COLUMNS))
    cells = draw(st.lists(values, min_size=1, max_size=6) | values.map(lambda cell: [cell] * 3))
    return pl.Series("x", cells, dtype=dtype, strict=False)


REPLIES = st.builds(
    Completion,
    text=st.none() | TEXTS,
    status=st.sampled_from(CompletionStatus),
    prompt=st.none() | TEXTS.map(lambda text: [{"role": "user", "content": text}]),
    finish_reason=st.sampled_from([None, "stop"]),
    prompt_tokens=st.none() | st.integers(0, 9),
    completion_tokens=st.none() | st.integers(0, 9),
    reasoning=st.none() | TEXTS,
    error=st.none() | TEXTS,
    latency=st.none() | st.floats(0, 100),
)
GROUPS = st.fixed_dictionaries(
    {"is_correct": st.none() | FLOATS, "mixed": st.none() | TEXTS.map(to_json)}
)
VERDICTS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["SCORED", "FAILED"]),
        "reason": st.none() | TEXTS,
        "values": st.none() | GROUPS,
        "metadata": st.just({"_": None}),
        "excluded_by": st.sampled_from([None, "", "rule"]),
    }
)
SHAPE = {
    **dict.fromkeys(("status", "reason", "excluded_by"), pl.String()),
    "values": pl.Struct({"is_correct": pl.Float64(), "mixed": pl.String()}),
    "metadata": pl.Struct({"_": pl.Null()}),
}
ROWS = st.lists(
    st.tuples(REPLIES, VERDICTS, TEXTS, st.lists(TEXTS, max_size=3), FLOATS), min_size=1, max_size=5
)
PRICE = {"prompt": 1e-6, "completion": 2e-6, "cached": None, "written": None}


def write_slowly(
    reply: dict[str, Any], verdict: dict[str, Any], sample: dict[str, Any], name: str
) -> str:
    """Return the JSON of one row, put together from Python values."""
    prompt = reply.pop("prompt")
    row = {"sample_id": name, "trial": 0, **reply}
    row |= {"scores": {"k": describe_verdict(verdict, {"mixed"})}, "sample": sample}
    row["prompt"] = None if prompt is None else json.loads(prompt)
    return to_json(row)


@given(ROWS, st.sampled_from([None, PRICE]))
def test_a_row_is_the_json_of_its_parts(rows: list[Any], price: dict[str, Any] | None) -> None:
    """Reply, scores and sample in one object, with all keys in each row but `excluded_by`."""
    replies, verdicts, texts, lists, numbers = map(list, zip(*rows, strict=True))
    ids = pl.Series("sample_id", [f"s{number}" for number in range(len(rows))])
    completions = Completions.build(ids, replies, source="live")
    frame = pl.DataFrame(
        {
            "text": texts,
            "list": lists,
            "n": numbers,
            "mixed": [to_json(number) for number in numbers],
        },
        {"text": pl.String, "list": pl.List(pl.String), "n": pl.Float64, "mixed": pl.String},
    )
    samples = samples_from_frame(frame, ids, encoded=frozenset({"mixed"}))
    result = pl.Series("k", verdicts, pl.Struct({name: SHAPE[name] for name in verdicts[0]}))
    scores = pl.DataFrame([ids, completions.frame["trial"], result])
    entry = {"key": "t", "encoded": {"k": ["mixed"]}, "calls": {"solve": {"price": price}}}
    stored: Any = SimpleNamespace(store=SimpleNamespace(place=None))
    task = TaskRun("t", entry, {}, {}, {}, stored, stored, stored)
    part = RunExcerpt(samples, completions, scores)
    lines = [to_json(row) for row in describe_rows(task, part)]
    fields = describe_replies(task, part).to_dicts()
    parts = zip(fields, result.to_list(), map(dict, samples.rows()), ids, strict=True)
    assert lines == [write_slowly(*part) for part in parts]
    for line in lines:
        json.loads(line, parse_constant=pytest.fail)
        assert "\n" not in line


@given(columns(), st.booleans())
def test_csv_says_what_its_values_say(values: pl.Series, is_raw: bool) -> None:  # noqa: FBT001 - drawn
    """Lists and structs are JSON, null an empty cell, whatever stands beside it."""
    written: list[bytes] = []
    assume(values.dtype != pl.Binary)  # which no dataset has
    frame = values.to_frame().with_columns(n=1)
    assert write_csv([frame], lambda chunk: written.append(bytes(chunk)), is_raw=is_raw) == len(
        values
    )
    _, *cells = csv.reader(io.StringIO(b"".join(written).decode(), newline=""), strict=True)
    if values.dtype.is_nested():
        as_json = [None if value is None else to_json(value) for value in values.to_list()]
        texts = pl.Series(as_json, dtype=pl.String)
        shown = texts if is_raw else guard_column(texts)
        assert [cell[0] for cell in cells] == [text or "" for text in shown]
    elif values.dtype == pl.String:
        shown = values if is_raw else guard_column(values)
        assert [cell[0] for cell in cells] == [text or "" for text in shown]
    elif values.dtype == pl.Float64:
        assert [float(text) if text else None for (text, *_) in cells] == clean_numbers(
            values.to_list()
        )
