from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from answerkey.datasets import load_table
from answerkey.errors import AnswerkeyError, DataError

Write = Callable[[str, str | bytes], Path]
pytestmark = pytest.mark.usefixtures("way")


def refuse(path: Path) -> list[tuple[str, str, int | None, int | None]]:
    """Return code, message and place of each error."""
    with pytest.raises(AnswerkeyError) as caught:
        load_table(path)
    errors: list[AnswerkeyError] = list(getattr(caught.value, "errors", [caught.value]))
    return [
        (error.code, error.message, error.where.line, error.where.column) for error in errors if error.where
    ]


def test_values_keep_their_types(write: Write) -> None:
    """A column whose values share one shape is stored natively."""
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
    assert samples.row(0)["by"] == {"m1": "A", "m2": None}


def test_mixed_values_stay_exact(write: Write) -> None:
    """A column without a common type is kept as JSON text and read back exactly."""
    samples = load_table(
        write("a.jsonl", '{"a": 1}\n{"a": "1"}\n{"a": 1.0}\n{"a": [1, null]}\n{"a": null}\n')
    ).samples
    assert samples.encoded == {"a"}
    assert repr(samples.values("a")) == "[1, '1', 1.0, [1, None], None]"


def test_whole_numbers_beyond_64_bits_stay_exact(write: Write) -> None:
    """No digit of a whole number is lost."""
    samples = load_table(
        write("a.jsonl", '{"a": 18446744073709551617}\n{"a": -9223372036854775808}\n')
    ).samples
    assert samples.values("a") == [18446744073709551617, -9223372036854775808]


def test_a_missing_key_is_a_null_cell(write: Write) -> None:
    """Columns are the keys of all rows in the order they first appear; a missing key is null."""
    samples = load_table(write("a.jsonl", '{"b": 1}\n{"a": "x", "b": 2}\n{"c": true}\n')).samples
    assert samples.columns == ["b", "a", "c"]
    assert [dict(row) for row in samples.rows()] == [
        {"b": 1, "a": None, "c": None},
        {"b": 2, "a": "x", "c": None},
        {"b": None, "a": None, "c": True},
    ]


def test_blank_lines_count_as_lines(write: Write) -> None:
    """Blank lines of JSON Lines are skipped and line numbers stay right."""
    samples = load_table(write("a.jsonl", '\n{"a": 1}\r\n  \n{"a": 2}')).samples
    assert samples.lines is not None
    assert samples.lines.to_list() == [2, 4]


def test_other_line_separators_do_not_end_a_line(write: Write) -> None:
    """U+2028 and U+0085 inside a text belong to it."""
    assert load_table(write("a.jsonl", '{"a": "x\u2028y\x85"}\n')).samples.row(0) == {"a": "x\u2028y\x85"}


def test_bad_lines_are_reported_together(write: Write) -> None:
    """Each bad line of JSON Lines is reported with its place."""
    lines = [
        '{"a": 1, "a": 2}',
        '{"a": {"b": [{"c": 1, "c": 2}]}}',
        "[1]",
        "3",
        "null",
        '"text"',
        "true",
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        '{"a":',
        '{"a": 1} x',
        "{'a': 1}",
        '{"a": "\t"}',
    ]
    assert refuse(write("a.jsonl", '{"z": 0}\n' + "\n".join(lines))) == [
        ("E212", "key `a` appears twice in one object", 2, None),
        ("E212", "key `c` appears twice in one object", 3, None),
        ("E202", "the row is a list, not an object", 4, None),
        ("E202", "the row is a number, not an object", 5, None),
        ("E202", "the row is null, not an object", 6, None),
        ("E202", "the row is text, not an object", 7, None),
        ("E202", "the row is a boolean, not an object", 8, None),
        ("E202", "`NaN` is not a JSON value", 9, None),
        ("E202", "`-Infinity` is not a JSON value", 10, None),
        ("E202", "the number 1e999 is too large", 11, None),
        ("E203", "half of a surrogate pair (`\\ud800` to `\\udfff`) is not a character", 12, None),
        ("E202", "not valid JSON: expecting value", 13, 6),
        ("E202", "not valid JSON: extra data", 14, 10),
        ("E202", "not valid JSON: expecting property name enclosed in double quotes", 15, 2),
        ("E202", "not valid JSON: invalid control character at", 16, 8),
    ]


def test_whole_surrogate_pairs_are_characters(write: Write) -> None:
    """An escaped pair is one character; an escaped NUL is a character too."""
    assert load_table(write("a.jsonl", '{"a": "\\ud83d\\ude00\\u0000"}')).samples.row(0) == {"a": "😀\0"}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.jsonl", "", ("E210", "the file has no rows", None, None)),
        ("a.jsonl", "{}\n{}\n", ("E210", "the rows of the file have no columns", None, None)),
        ("a.jsonl", '{"": 1}', ("E202", "column 1 has no name", None, None)),
        ("a.jsonl", '[{"a": 1}]', ("E202", "the file starts with a list, not with an object", 1, None)),
        ("a.json", " \n", ("E210", "the file is empty", None, None)),
        ("a.json", "[]", ("E210", "the file has no rows", None, None)),
        ("a.json", "[", ("E202", "not valid JSON: expecting value", 1, 2)),
        ("a.json", '[{"a": 1}\n', ("E202", "not valid JSON: expecting ',' or ']'", 2, 1)),
        ("a.json", '[{"a": 1},]', ("E202", "not valid JSON: expecting value", 1, 11)),
        ("a.json", '[{"a": 1}]\n[]', ("E202", "not valid JSON: extra text after the list", 2, 1)),
        ("a.json", '\n{"a": [1]}', ("E202", "the file is not a JSON list of objects", 2, None)),
        ("a.json", '[{"a": 1},\n{"a": 1, "a": 2}]', ("E212", "key `a` appears twice in one object", 2, None)),
        ("a.json", '[{"a": 1},\n\n {"a": NaN}]', ("E202", "`NaN` is not a JSON value", 3, None)),
        ("a.json", '[{\n"a": 1\n},\n 7]', ("E202", "the row is a number, not an object", 4, None)),
    ],
)
def test_broken_files_are_refused(
    write: Write, name: str, text: str, expected: tuple[str, str, int | None, int | None]
) -> None:
    """What is not a table of objects gives one error with its place."""
    assert refuse(write(name, text)) == [expected]


@pytest.mark.parametrize("value", ["[" * 200 + "]" * 200, "[" * 100_000, '{"a":' * 100_000])
@pytest.mark.parametrize(("name", "start", "end"), [("a.jsonl", '{"a": ', "}"), ("a.json", '[{"a": ', "}]")])
def test_deep_nesting_is_refused(write: Write, value: str, name: str, start: str, end: str) -> None:
    """Nesting beyond a hundred levels gives E202 instead of a crash."""
    message = "the row is nested more than 100 levels deep"
    assert refuse(write(name, start + value + end)) == [("E202", message, 1, None)]


def test_wide_rows_are_not_deep(write: Write) -> None:
    """Many lists side by side are no nesting."""
    assert len(str(load_table(write("a.jsonl", '{"a": [' + "[]," * 200 + "[]]}")).samples.row(0))) > 200


def test_a_number_of_thousands_of_digits_is_refused(write: Write) -> None:
    """A number that Python does not read gives E202."""
    assert refuse(write("a.jsonl", '{"a": ' + "1" * 5000 + "}")) == [
        ("E202", "a number has too many digits", 1, None)
    ]


def test_a_huge_cell_is_refused(write: Write) -> None:
    """A cell of more than 16 MiB gives E202 with its column, also when it is nested."""
    with pytest.raises(DataError) as caught:
        load_table(write("a.jsonl", '{"a": 1, "b": ["' + "x" * 16 * 2**20 + '"]}'))
    assert (caught.value.code, caught.value.where and caught.value.where.field) == ("E202", "b")


def test_json_rows_know_their_lines(write: Write) -> None:
    """The line of a row of a JSON list is the line on which its object starts."""
    samples = load_table(write("a.json", '\n[ {"a": 1}, {"a": 2},\n\n{\n"a":\n3}\n, {"a": 4}]\n')).samples
    assert samples.lines is not None
    assert samples.lines.to_list() == [2, 2, 4, 7]
    assert samples.values("a") == [1, 2, 3, 4]


def test_json_lines_under_the_name_of_json_are_recognised(write: Write) -> None:
    """A `.json` file with an object per line is refused with the ending that fits."""
    with pytest.raises(DataError) as caught:
        load_table(write("a.json", '{"a": 1}\n{"a": 2}\n'))
    assert caught.value.hint == "this looks like one object per line: name it `.jsonl`"
