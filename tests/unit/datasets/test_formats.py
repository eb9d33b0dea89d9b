"""Files of every format: what is read is what was written, and what is broken has its place."""

from __future__ import annotations

import datetime as dt
import io
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from tests.samples import read_cases

from answerkey.datasets.cells import ColumnKind
from answerkey.datasets.sources import LocalSource
from answerkey.datasets.tables import FileFields, load_rows, load_table
from answerkey.errors import AnswerkeyError, DataError, Problems

CASES = read_cases(__file__)

Write = Callable[[str, str | bytes], Path]
pytestmark = pytest.mark.usefixtures("way")
FRAME = pl.DataFrame({"question": ["one", "two", "three"], "n": [1, 2, 3]})


def dump(frame: pl.DataFrame, kind: str) -> bytes:
    """Return the bytes of a frame in a binary format."""
    buffer = io.BytesIO()
    writers: dict[str, Callable[[io.BytesIO], object]] = {
        "parquet": frame.write_parquet,
        "arrow": frame.write_ipc,
        "stream": frame.write_ipc_stream,
    }
    writers[kind](buffer)
    return buffer.getvalue()


LONG = "x" * 10**6


def refuse(path: Path) -> list[str]:
    """Return each error: its line and column, if it has any, its code and its message."""
    with pytest.raises(AnswerkeyError) as caught:
        load_table(path)
    errors: list[AnswerkeyError] = list(getattr(caught.value, "errors", [caught.value]))
    results = []
    for error in errors:
        assert error.where is not None
        place = ":".join(str(n) for n in (error.where.line, error.where.column) if n)
        results.append(f"{place} {error.code} {error.message}".strip())
    return results


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        *CASES["rows"],
        ("a.csv", f"a,b\n{LONG},2\n", [[LONG, "2"]]),
        ("a.jsonl", '{"a": [' + "[]," * 200 + "[]]}", [[[[]] * 201]]),
    ],
    ids=range(18),
)
def test_rows_are_as_written(write: Write, name: str, text: str, rows: list[list[object]]) -> None:
    """Text stays text, and every value keeps its type."""
    assert [list(row.values()) for row in load_table(write(name, text)).samples.rows()] == rows


@pytest.mark.parametrize(("name", "text", "lines"), CASES["lines"])
def test_rows_know_their_first_line(write: Write, name: str, text: str, lines: list[int]) -> None:
    """Blank lines and line breaks inside cells are counted."""
    samples = load_table(write(name, text)).samples
    assert [samples.place(row).line for row in range(len(samples))] == lines


def test_values_of_different_types_stay_as_they_are(write: Write) -> None:
    """No value takes the type of another in its column."""
    path = write("a.jsonl", '{"a": 1}\n{"a": "1"}\n{"a": 1.0}\n{"a": [1, null]}\n{"a": null}\n')
    assert repr(load_table(path).samples.values("a")) == "[1, '1', 1.0, [1, None], None]"


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        *CASES["broken"],
        ("a.jsonl", '{"a": ' + "1" * 5000 + "}", "1 E202 a number has too many digits"),
    ],
)
def test_broken_files_are_refused(write: Write, name: str, text: str, error: str) -> None:
    """What is no table gives one error with its place."""
    assert refuse(write(name, text)) == [error]


@pytest.mark.parametrize(
    "value", ["[" * 200 + "]" * 200, "[" * 100_000, '{"a":' * 100_000], ids=range(3)
)
@pytest.mark.parametrize(
    ("name", "start", "end"), [("a.jsonl", '{"a": ', "}"), ("a.json", '[{"a": ', "}]")]
)
def test_deep_nesting_is_refused(write: Write, value: str, name: str, start: str, end: str) -> None:
    """Nesting beyond a hundred levels gives E202 instead of a crash."""
    message = "1 E202 the row is nested more than 100 levels deep"
    assert refuse(write(name, start + value + end)) == [message]


def test_ragged_rows_are_reported_together(write: Write) -> None:
    """A row with more or fewer cells than the header gives E202 with its line.

    Equal ones are one error.
    """
    assert refuse(write("a.csv", "a,b\n1,2\n3\n4,5,6\n")) == [
        "3 E202 the row has 1 cell, the header has 2",
        "4 E202 the row has 3 cells, the header has 2",
    ]
    message = "2 E202 the row has 1 cell, the header has 2 (and in 24 more rows)"
    assert refuse(write("a.csv", "a,b\n" + "1\n" * 25)) == [message]


def test_bad_lines_are_reported_together(write: Write) -> None:
    """Each bad line of JSON Lines is reported with its place."""
    key = "not valid JSON: expecting property name enclosed in double quotes"
    lines = {
        '{"a": 1, "a": 2}': "1 E212 key `a` appears twice in one object",
        '{"a": {"b": [{"c": 1, "c": 2}]}}': "2 E212 key `c` appears twice in one object",
        "[1]": "3 E202 the row is [1], not an object",
        "3": "4 E202 the row is 3, not an object",
        "null": "5 E202 the row is null, not an object",
        '"text"': '6 E202 the row is "text", not an object',
        "true": "7 E202 the row is true, not an object",
        '{"a": NaN}': "8 E202 `NaN` is not a JSON value",
        '{"a": -Infinity}': "9 E202 `-Infinity` is not a JSON value",
        '{"a": 1e999}': "10 E202 the number 1e999 is too large",
        '{"a": "\\ud800"}': "11 E203 half of a surrogate pair is not a character",
        '{"a":': "12:6 E202 not valid JSON: expecting value",
        '{"a": 1} x': "13:10 E202 not valid JSON: extra data",
        "{'a': 1}": f"14:2 E202 {key}",
        '{"a": "\t"}': "15:8 E202 not valid JSON: invalid control character at",
    }
    assert refuse(write("a.jsonl", "\n".join(lines))) == list(lines.values())


@pytest.mark.parametrize(
    ("name", "text", "part", "place"),
    [
        ("a.jsonl", '{"a": 1}\n{"a": "LONG"}\n{"a": 2}\n', "the line", "a.jsonl:2"),
        ("a.csv", "a,b\n1,2\nLONG,2\n", "the line", "a.csv:3"),
        ("a.csv", 'a,b\n1,2\n"x\nLONG",2\n', "the line", "a.csv:4"),
        ("a.csv", 'a,b\n1,2\n"%s",2\n' % ("x\n" * 550), "the row", "a.csv:3"),
        ("a.json", '[{"a": 1},\n {"a": "LONG"}, {"a": 2}]\n', "the row", "a.json:2"),
    ],
)
def test_a_line_longer_than_the_limit_is_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch, name: str, text: str, part: str, place: str
) -> None:
    """The message says the limit and how to raise it; with another limit the file is read."""
    path = write(name, text.replace("LONG", "x" * 3000))
    message = f"{part} has more than 0.001 MB; if that is meant, set `ANSWERKEY_MAX_LINE=4e-06`"
    with monkeypatch.context() as patch:
        patch.setattr("answerkey.datasets.content.DEFAULT_LINE_BYTES", 1000)
        with pytest.raises(AnswerkeyError, match=f"(?s)E202.*{message}.*{place}"):
            load_table(path)
    assert len(load_table(path).samples) >= 2


def test_a_format_may_be_stated(write: Write) -> None:
    """JSON Lines in a file named `.json` are read as such when the source says so."""
    path = write("valid-v1.3.json", '{"q": 1}\n{"q": 2}\n')
    assert LocalSource(str(path), format="jsonl").read(name="x").samples.values("q") == [1, 2]
    with pytest.raises(DataError):
        LocalSource(str(path)).read(name="x")


def test_names_for_a_file_without_a_header_line(write: Write) -> None:
    """The first line is a row."""
    path = write("law_test.csv", 'why,"x, y",z,A\nhow,1,2,B\n')
    header = ("question", "A", "B", "answer")
    samples = LocalSource(str(path), header=header).read(name="x").samples
    rows = [tuple(row.values()) for row in samples.rows()]
    assert rows == [("why", "x, y", "z", "A"), ("how", "1", "2", "B")]


@pytest.mark.parametrize(
    ("name", "header", "message"),
    [
        ("q.csv", ("x",), "the row has 2 cells, the header has 1"),
        ("q.csv", ("a", "b"), "the file has a header line with these names"),
        ("q.jsonl", ("a",), "`header` is for CSV and TSV"),
    ],
)
def test_names_that_do_not_fit_are_refused(
    write: Write, name: str, header: tuple[str, ...], message: str
) -> None:
    """Too few of them, those of a header line that is there, and those of a file that is no CSV."""
    with pytest.raises((DataError, Problems), match=message):
        load_table(write(name, "a,b\nc,d\n"), FileFields(header=header))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.parquet", "parquet"),
        ("a.pq", "parquet"),
        ("a.arrow", "arrow"),
        ("a.feather", "arrow"),
        ("a.ipc", "arrow"),
        ("a.arrow", "stream"),
    ],
)
def test_rows_of_binary_tables_have_numbers_as_lines(write: Write, name: str, kind: str) -> None:
    """Parquet, Arrow files and Arrow streams are read natively; a row's line is its number."""
    samples = load_table(write(name, dump(FRAME, kind))).samples
    assert [dict(row) for row in samples.rows()] == FRAME.to_dicts()
    assert [samples.place(row).line for row in range(3)] == [1, 2, 3]
    assert samples.ids.to_list() == ["000001", "000002", "000003"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pl.Series([1, 2], dtype=pl.Int8), [1, 2]),
        (pl.Series([1, 2**64 - 1], dtype=pl.UInt64), [1, 2**64 - 1]),
        (pl.Series([2**100, None], dtype=pl.Int128), [2**100, None]),
        (pl.Series([0.5, None], dtype=pl.Float32), [0.5, None]),
        (pl.Series([Decimal("1.10"), None], dtype=pl.Decimal(10, 2)), ["1.10", None]),
        (pl.Series([dt.date(2026, 1, 2), None]), ["2026-01-02", None]),
        (
            pl.Series([dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), None]),
            ["2026-01-02T03:00:00+00:00", None],
        ),
        (pl.Series(["a", None], dtype=pl.Categorical), ["a", None]),
        (pl.Series(["a", None], dtype=pl.Enum(["a"])), ["a", None]),
        (pl.Series([None, None], dtype=pl.Null), [None, None]),
        (pl.Series([[], [None]], dtype=pl.List(pl.Null)), [[], [None]]),
        (pl.Series([[1, 2], None], dtype=pl.Array(pl.UInt8, 2)), [[1, 2], None]),
        (pl.Series([["a"], None], dtype=pl.List(pl.Categorical)), [["a"], None]),
        (
            pl.Series([{"day": dt.date(2026, 1, 2), "n": 1}, None]),
            [{"day": "2026-01-02", "n": 1}, None],
        ),
        (pl.Series([b"text", None]), ["text", None]),
        (pl.Series([b"\xff", None]), ["/w==", None]),
    ],
)
def test_foreign_types_become_values_of_json(column: pl.Series, expected: list[object]) -> None:
    """Every column type gives values that a template can print and a run folder can hold."""
    assert load_rows(pl.DataFrame({"x": column}), name="frame").samples.values("x") == expected


@pytest.mark.parametrize(
    ("name", "kind"), [("a.parquet", "parquet"), ("a.arrow", "arrow"), ("a.arrow", "stream")]
)
def test_every_cut_is_refused(write: Write, name: str, kind: str) -> None:
    """A file that lost its end gives E202 wherever it was cut, never fewer rows."""
    whole = dump(FRAME, kind)
    end = len(whole)
    for size in (1, 5, 10, end // 3, end // 2, end - 9, end - 8, end - 1):
        with pytest.raises(DataError, match="E202"):
            load_table(write(name, whole[:size]))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_file_without_rows_is_refused(write: Write, name: str) -> None:
    """No bytes, and no rows, give E210."""
    for raw in (b"", dump(FRAME.clear(), name.removeprefix("a."))):
        with pytest.raises(DataError, match="E210"):
            load_table(write(name, raw))


@pytest.mark.parametrize(
    ("name", "raw", "hint"),
    [
        ("a.parquet", b"question,answer\n", "copy or download it again"),
        (
            "a.parquet",
            dump(FRAME, "arrow"),
            "by its first bytes this file is Arrow: name it `.arrow`",
        ),
        (
            "a.arrow",
            dump(FRAME, "parquet"),
            "by its first bytes this file is Parquet: name it `.parquet`",
        ),
    ],
)
def test_refusals_say_what_a_file_is(write: Write, name: str, raw: bytes, hint: str) -> None:
    """A file of another format gives E202 and what it seems to be."""
    with pytest.raises(DataError, match=f"(?s)E202.*= help: {re.escape(hint)}$"):
        load_table(write(name, raw))


@pytest.mark.parametrize("name", ["rows[1].parquet", "rows[.parquet", "rows*.parquet"])
def test_a_name_is_no_pattern(write: Write, name: str) -> None:
    """Brackets and stars in a file name are characters like any other."""
    assert len(load_table(write(name, dump(FRAME, "parquet"))).rows) == 3


def type_cell(write: Write, cell: str, kind: ColumnKind) -> object:
    """Return a CSV cell after typing."""
    quoted = cell.replace('"', '""')
    path = write("a.csv", f'x,y\n"{quoted}",1\n')
    return load_table(path, FileFields(columns={"x": kind})).samples.row(0)["x"]


@pytest.mark.parametrize(("cell", "kind", "expected"), CASES["cells"])
def test_cells_take_their_type(write: Write, cell: str, kind: ColumnKind, expected: object) -> None:
    """Text cells become values; an empty cell is null."""
    result = type_cell(write, cell, kind)
    assert result == expected
    assert type(result) is type(expected)


WORDS: dict[ColumnKind, str] = {"int": "a whole number", "list": "a list", "json": "JSON"}


@pytest.mark.parametrize(("kind", "cell", "why"), CASES["unfit_cells"])
def test_unfit_cells_are_refused(write: Write, kind: ColumnKind, cell: str, why: str) -> None:
    """A cell without the type asked for gives E211 with line and column."""
    message = re.escape(f"{cell!r} is not {WORDS[kind]}{why}")
    with pytest.raises(DataError, match=rf"E211\]: {message}\n  --> .*a\.csv:2, column `x`$"):
        type_cell(write, cell, kind)


@pytest.mark.parametrize(
    "cell", ["[" * 500 + "]" * 500, "-" * 50_000 + "1", "[" + "1," * 60_000 + "x]", "\\" * 9]
)
def test_hostile_literals_are_refused(write: Write, cell: str) -> None:
    """Deep, long and senseless literals give E211, never a crash."""
    with pytest.raises(DataError, match="E211"):
        type_cell(write, f"({cell}", "list")


def test_unfit_cells_of_all_columns_are_reported_together(write: Write) -> None:
    """Every bad cell has its own error."""
    file = write("a.csv", "n,ok\n1,true\nx,false\n3,?\n")
    places = r"(?s)a\.csv:3, column `n`\n.*a\.csv:4, column `ok`$"
    with pytest.raises(Problems, match=places) as caught:
        load_table(file, FileFields(columns={"n": "int", "ok": "json"}))
    assert len(caught.value.errors) == 2


def test_an_unknown_column_is_refused(write: Write) -> None:
    """Typing a column that is not there gives E206 with the nearest name."""
    with pytest.raises(DataError, match=r"(?s)E206.*did you mean `choices`\?$"):
        load_table(write("a.csv", "choices,b\n[],1\n"), FileFields(columns={"choice": "list"}))


def test_cells_that_have_the_type_stay(write: Write) -> None:
    """In JSON, cells of the type asked for stay, and only text is parsed."""
    text = '{"a": ["x"], "b": 1}\n{"a": "[\\"y\\"]", "b": "2"}\n'
    how = FileFields(columns={"a": "list", "b": "int"})
    samples = load_table(write("a.jsonl", text), how).samples
    assert [dict(row) for row in samples.rows()] == [{"a": ["x"], "b": 1}, {"a": ["y"], "b": 2}]


def test_cells_of_another_type_are_refused(write: Write) -> None:
    """A value that is no text is not converted to another type."""
    with pytest.raises(DataError, match=r"1\.5 is not a whole number"):
        load_table(write("a.jsonl", '{"a": 1.5}\n'), FileFields(columns={"a": "int"}))
