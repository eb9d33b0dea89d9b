"""CSV, TSV, JSON Lines and JSON: what is read is what was written, and what is broken has its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from answerkey.datasets import formats
from answerkey.datasets.sources import LocalSource
from answerkey.datasets.tables import FileFields, load_table
from answerkey.errors import AnswerkeyError, DataError, Problems

Write = Callable[[str, str | bytes], Path]
pytestmark = pytest.mark.usefixtures("way")
LONG = "x" * 10**6
HUGE = "x" * (16 * 2**20 + 1)


def refuse(path: Path) -> list[tuple[str, str, int | None, int | None]]:
    """Return code, message and place of each error."""
    with pytest.raises(AnswerkeyError) as caught:
        load_table(path)
    errors: list[AnswerkeyError] = list(getattr(caught.value, "errors", [caught.value]))
    return [(one.code, one.message, one.where.line, one.where.column) for one in errors if one.where]


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        # No cell is retyped or trimmed: zeros, spaces and words stay; empty is empty text.
        ("a.csv", "id,a,n\n007, B ,\n1.0,None,true\n", [["007", " B ", ""], ["1.0", "None", "true"]]),
        # Unix, Windows and old Mac line ends separate rows.
        ("a.csv", "a,b\n1,2\n3,4\n", [["1", "2"], ["3", "4"]]),
        ("a.csv", "a,b\r\n1,2\r\n3,4\r\n", [["1", "2"], ["3", "4"]]),
        ("a.csv", "a,b\r1,2\r3,4\r", [["1", "2"], ["3", "4"]]),
        # U+2028, U+0085 and form feeds are text, not ends of rows.
        ("a.csv", "a,b\nx\u2028y\x0c,z\x85\n", [["x\u2028y\x0c", "z\x85"]]),
        ("a.jsonl", '{"a": "x\u2028y\x85"}\n', [["x\u2028y\x85"]]),
        ("a.tsv", "a\tb\n1,5\t2\n", [["1,5", "2"]]),
        ("a.csv", f"a,b\n{LONG},2\n", [[LONG, "2"]]),
        # A single column whose name alone holds a semicolon is a column; blank lines at the end are no cells.
        ("a.csv", "question; short\nyes\n", [["yes"]]),
        ("a.csv", 'completion\nA\n""\n\n', [["A"], [""]]),
        # No digit of a whole number is lost.
        ("a.jsonl", '{"a": 18446744073709551617}\n{"a": -9223372036854775808}\n', [[2**64 + 1], [-(2**63)]]),
        # An escaped pair is one character; an escaped NUL is a character too.
        ("a.jsonl", '{"a": "\\ud83d\\ude00\\u0000"}', [["😀\0"]]),
        # Columns are the keys of all rows in the order they first appear; a missing key is null.
        (
            "a.jsonl",
            '{"b": 1}\n{"a": "x"}\n{"c": 2}\n',
            [[1, None, None], [None, "x", None], [None, None, 2]],
        ),
        # Many lists side by side are no nesting.
        ("a.jsonl", '{"a": [' + "[]," * 200 + "[]]}", [[[[]] * 201]]),
    ],
    ids=range(14),
)
def test_rows_are_read_as_written(write: Write, name: str, text: str, rows: list[list[object]]) -> None:
    """Text stays text, and every value keeps its type."""
    assert [list(row.values()) for row in load_table(write(name, text)).samples.rows()] == rows


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.csv", 'a,b\n"one\ntwo",x\n\n3,"a ""quoted"" word"\n', [2, 5]),
        ("a.jsonl", '\n{"a": 1}\r\n  \n{"a": 2}', [2, 4]),
        ("a.json", '\n[ {"a": 1}, {"a": 2},\n\n{\n"a":\n3}\n, {"a": 4}]\n', [2, 2, 4, 7]),
    ],
)
def test_a_row_knows_the_line_on_which_it_starts(
    write: Write, name: str, text: str, lines: list[int]
) -> None:
    """Blank lines and line breaks inside cells are counted."""
    samples = load_table(write(name, text)).samples
    assert samples.lines is not None
    assert samples.lines.to_list() == lines


def test_values_of_one_shape_are_native(write: Write) -> None:
    """A column whose values share one shape is stored natively; any other reads back exactly."""
    text = '{"n": 1, "x": 0.5, "ok": true, "options": ["a", "b"], "by": {"m1": "A", "m2": null}}\n'
    samples = load_table(write("a.jsonl", text + text.replace("null", '"B"'))).samples
    assert samples.encoded == frozenset()
    assert samples.frame.schema == {
        "n": pl.Int64(),
        "x": pl.Float64(),
        "ok": pl.Boolean(),
        "options": pl.List(pl.String()),
        "by": pl.Struct({"m1": pl.String(), "m2": pl.String()}),
    }
    path = write("a.jsonl", '{"a": 1}\n{"a": "1"}\n{"a": 1.0}\n{"a": [1, null]}\n{"a": null}\n')
    samples = load_table(path).samples
    assert samples.encoded == {"a"}
    assert repr(samples.values("a")) == "[1, '1', 1.0, [1, None], None]"


SEMICOLONS = "the header is one column 'a;b'; the columns seem to be separated by semicolons"
HALF = "half of a surrogate pair (`\\ud800` to `\\udfff`) is not a character"
BROKEN: list[tuple[str, str, str, str, int | None, int | None]] = [
    ("a.csv", "", "E210", "the file is empty", None, None),
    ("a.csv", "\n\n", "E210", "the file is empty", None, None),
    ("a.csv", "a,b\n", "E210", "the file has no rows", None, None),
    ("a.csv", "a,b,a\n1,2,3\n", "E212", "column `a` appears twice, as column 1 and column 3", 1, None),
    ("a.csv", "\n,b\n1,2\n", "E202", "column 1 has no name", 2, None),
    ("a.csv", "a, \n1,2\n", "E202", "column 2 has no name", 1, None),
    ("a.csv", 'a,b\n1,2\n3,"4\n5,6\n', "E202", "a double quote opened in this row is never closed", 3, None),
    ("a.csv", 'a,b\n1,"2"x\n', "E202", "misplaced double quote: ',' expected after '\"'", 2, None),
    ("a.csv", "a;b\n1;2\n", "E202", SEMICOLONS, 1, None),
    ("a.csv", "a\nx\n\ny\n", "E202", "blank line in a file of one column", 3, None),
    ("a.jsonl", "", "E210", "the file has no rows", None, None),
    ("a.jsonl", "{}\n{}\n", "E210", "the rows of the file have no columns", None, None),
    ("a.jsonl", '{"": 1}', "E202", "column 1 has no name", None, None),
    ("a.jsonl", '[{"a": 1}]', "E202", "the file starts with a list, not with an object", 1, None),
    ("a.jsonl", '{"a": ' + "1" * 5000 + "}", "E202", "a number has too many digits", 1, None),
    ("a.json", " \n", "E210", "the file is empty", None, None),
    ("a.json", "[]", "E210", "the file has no rows", None, None),
    ("a.json", "[", "E202", "not valid JSON: expecting value", 1, 2),
    ("a.json", '[{"a": 1}\n', "E202", "not valid JSON: expecting ',' or ']'", 2, 1),
    ("a.json", '[{"a": 1},]', "E202", "not valid JSON: expecting value", 1, 11),
    ("a.json", '[{"a": 1}]\n[]', "E202", "not valid JSON: extra text after the list", 2, 1),
    ("a.json", '\n{"a": [1]}', "E202", "the file is not a JSON list of objects", 2, None),
    ("a.json", '[{"a": 1},\n{"a": 1, "a": 2}]', "E212", "key `a` appears twice in one object", 2, None),
    ("a.json", '[{"a": 1},\n\n {"a": NaN}]', "E202", "`NaN` is not a JSON value", 3, None),
    ("a.json", '[{\n"a": 1\n},\n 7]', "E202", "the row is a number, not an object", 4, None),
]


@pytest.mark.parametrize(("name", "text", "code", "message", "line", "column"), BROKEN)
def test_broken_files_are_refused(
    write: Write, name: str, text: str, code: str, message: str, line: int | None, column: int | None
) -> None:
    """What is no table gives one error with its place."""
    assert refuse(write(name, text)) == [(code, message, line, column)]


@pytest.mark.parametrize("value", ["[" * 200 + "]" * 200, "[" * 100_000, '{"a":' * 100_000], ids=range(3))
@pytest.mark.parametrize(("name", "start", "end"), [("a.jsonl", '{"a": ', "}"), ("a.json", '[{"a": ', "}]")])
def test_deep_nesting_is_refused(write: Write, value: str, name: str, start: str, end: str) -> None:
    """Nesting beyond a hundred levels gives E202 instead of a crash."""
    message = "the row is nested more than 100 levels deep"
    assert refuse(write(name, start + value + end)) == [("E202", message, 1, None)]


def test_ragged_rows_are_reported_together(write: Write) -> None:
    """A row with more or fewer cells than the header gives E202 with its line; twenty are shown."""
    assert refuse(write("a.csv", "a,b\n1,2\n3\n4,5,6\n")) == [
        ("E202", "the row has 1 cell, the header has 2", 3, None),
        ("E202", "the row has 3 cells, the header has 2", 4, None),
    ]
    found = refuse(write("a.csv", "a,b\n" + "1\n" * 25))
    assert len(found) == 21
    assert found[20] == ("E202", "5 more bad rows in this file are not shown", None, None)


def test_bad_lines_are_reported_together(write: Write) -> None:
    """Each bad line of JSON Lines is reported with its place."""
    lines: list[tuple[str, str, str, int | None]] = [
        ('{"a": 1, "a": 2}', "E212", "key `a` appears twice in one object", None),
        ('{"a": {"b": [{"c": 1, "c": 2}]}}', "E212", "key `c` appears twice in one object", None),
        ("[1]", "E202", "the row is a list, not an object", None),
        ("3", "E202", "the row is a number, not an object", None),
        ("null", "E202", "the row is null, not an object", None),
        ('"text"', "E202", "the row is text, not an object", None),
        ("true", "E202", "the row is a boolean, not an object", None),
        ('{"a": NaN}', "E202", "`NaN` is not a JSON value", None),
        ('{"a": -Infinity}', "E202", "`-Infinity` is not a JSON value", None),
        ('{"a": 1e999}', "E202", "the number 1e999 is too large", None),
        ('{"a": "\\ud800"}', "E203", HALF, None),
        ('{"a":', "E202", "not valid JSON: expecting value", 6),
        ('{"a": 1} x', "E202", "not valid JSON: extra data", 10),
        ("{'a': 1}", "E202", "not valid JSON: expecting property name enclosed in double quotes", 2),
        ('{"a": "\t"}', "E202", "not valid JSON: invalid control character at", 8),
    ]
    assert refuse(write("a.jsonl", '{"z": 0}\n' + "\n".join(line for line, *_ in lines))) == [
        (code, message, number, column) for number, (_, code, message, column) in enumerate(lines, 2)
    ]


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("a.tsv", "a,b\n1,2\n", "separate columns by tabs, or use the ending that fits"),
        ("a.json", '{"a": 1}\n{"a": 2}\n', "this looks like one object per line: name it `.jsonl`"),
    ],
)
def test_another_format_under_the_name_is_recognised(write: Write, name: str, text: str, hint: str) -> None:
    """The hint says what to do."""
    with pytest.raises(DataError) as caught:
        load_table(write(name, text))
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("name", "text", "line", "field"),
    [("a.csv", f"a,b\n1,2\n{HUGE},2\n", 3, None), ("a.jsonl", '{"a": 1, "b": ["' + HUGE + '"]}', 1, "b")],
    ids=["csv", "jsonl"],
)
def test_a_huge_cell_is_refused(write: Write, name: str, text: str, line: int, field: str | None) -> None:
    """A cell of more than 16 MiB gives E202: nearly always an unclosed quote; also when it is nested."""
    with pytest.raises(AnswerkeyError) as caught:
        load_table(write(name, text))
    where = caught.value.where
    assert where is not None
    assert (caught.value.code, where.line, where.field) == ("E202", line, field)


def test_white_space_around_a_name_is_noticed(write: Write) -> None:
    """Column names stay exact; white space around them is said aloud."""
    table = load_table(write("a.csv", "question, answer\nq,B\n"))
    assert table.samples.columns == ["question", " answer"]
    assert [notice.message for notice in table.notices] == [
        "white space around column names is part of the name: `' answer'`"
    ]


def test_files_longer_than_a_chunk_keep_their_order(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are handed over in pieces; none is lost or moved."""
    monkeypatch.setattr(formats, "CHUNK_ROWS", 7_000)
    count = 50_001
    samples = load_table(write("a.csv", "n,m\n" + "".join(f"{n},x\n" for n in range(count)))).samples
    assert samples.values("n") == [str(n) for n in range(count)]


def test_a_paragraph_is_a_row(write: Write) -> None:
    """Blank lines part the original files of LogiQA; the line is that on which a paragraph begins."""
    how = FileFields(format="paragraphs")
    samples = load_table(write("Test.txt", "\nc\nA passage.\nWhy?\n\n\n \t\nb\nOther.\n"), how).samples
    assert samples.frame["lines"].to_list() == [["c", "A passage.", "Why?"], ["b", "Other."]]
    assert samples.lines is not None
    assert samples.lines.to_list() == [2, 8]
    with pytest.raises(DataError, match="no rows") as caught:
        load_table(write("a.txt", "\n\n"), how)
    assert caught.value.code == "E210"


def test_a_format_may_be_stated(write: Write) -> None:
    """JSON Lines in a file named `.json` are read as such when the source says so."""
    path = write("valid-v1.3.json", '{"q": 1}\n{"q": 2}\n')
    assert LocalSource(str(path), format="jsonl").read(name="x").samples.frame["q"].to_list() == [1, 2]
    with pytest.raises(DataError):
        LocalSource(str(path)).read(name="x")


def test_names_for_a_file_without_a_header_line(write: Write) -> None:
    """The first line is a row; `skip_rows` passes over a header that is of no use."""
    path = write("law_test.csv", 'why,"x, y",z,A\nhow,1,2,B\n')
    frame = LocalSource(str(path), header=("question", "A", "B", "answer")).read(name="x").samples.frame
    assert frame.rows() == [("why", "x, y", "z", "A"), ("how", "1", "2", "B")]
    path = write("agronomy.csv", ",Question,Answer\n0,why,A\n")
    samples = LocalSource(str(path), header=("n", "q", "a"), skip_rows=1).read(name="x").samples
    assert samples.row(0) == {"n": "0", "q": "why", "a": "A"}
    assert str(samples.place(0)).endswith("agronomy.csv:2")


@pytest.mark.parametrize(
    ("name", "header", "message"),
    [
        ("q.csv", ("x",), "the row has 2 cells, the header has 1"),
        ("q.csv", ("a", "b"), "the file has a header line with these names"),
        ("q.jsonl", ("a",), "`header` and `skip_rows` are for CSV and TSV"),
    ],
)
def test_names_that_do_not_fit_are_refused(
    write: Write, name: str, header: tuple[str, ...], message: str
) -> None:
    """Too few of them, those of a header line that is there, and those of a file that is no CSV."""
    with pytest.raises((DataError, Problems), match=message):
        load_table(write(name, "a,b\nc,d\n"), FileFields(header=header))
