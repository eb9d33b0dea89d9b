from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from answerkey.datasets.columns import ColumnKind
from answerkey.datasets.tables import FileFields, load_table
from answerkey.errors import AnswerkeyError, DataError

Write = Callable[[str, str | bytes], Path]
pytestmark = pytest.mark.usefixtures("way")


def type_cell(write: Write, cell: str, kind: ColumnKind) -> object:
    """Return a CSV cell after typing."""
    quoted = cell.replace('"', '""')
    path = write("a.csv", f'x,y\n"{quoted}",1\n')
    return load_table(path, FileFields(columns={"x": kind})).samples.row(0)["x"]


@pytest.mark.parametrize(
    ("cell", "kind", "expected"),
    [
        ("007", "text", "007"),
        ("", "text", ""),
        ("007", "int", 7),
        (" -3 ", "int", -3),
        ("9" * 30, "int", int("9" * 30)),
        ("", "int", None),
        ("  ", "float", None),
        ("1.50", "float", 1.5),
        ("3", "float", 3.0),
        ("-.5e-2", "float", -0.005),
        ("Yes", "bool", True),
        ("1", "bool", True),
        ("FALSE", "bool", False),
        ("", "list", None),
        ('["A", "B"]', "list", ["A", "B"]),
        ("['A', 'B']", "list", ["A", "B"]),
        ("('A', 'B')", "list", ["A", "B"]),
        (
            "['it\\'s', \"x\", None, True, {'k': (1, 2.5)}]",
            "list",
            ["it's", "x", None, True, {"k": [1, 2.5]}],
        ),
        ("['a\\d']", "list", ["a\\d"]),
        ("[]", "list", []),
        ('{"a": [1, null]}', "json", {"a": [1, None]}),
        ("3", "json", 3),
        ("", "json", None),
    ],
)
def test_cells_take_the_type_asked_for(write: Write, cell: str, kind: ColumnKind, expected: object) -> None:
    """Text cells become values; an empty cell is null, but empty text for `text`."""
    found = type_cell(write, cell, kind)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("cell", "kind", "message"),
    [
        ("1.0", "int", "'1.0' is not a whole number"),
        ("1_000", "int", "'1_000' is not a whole number"),
        ("１", "int", "'１' is not a whole number"),
        ("1,5", "float", "'1,5' is not a number"),
        ("nan", "float", "'nan' is not a number"),
        ("1e999", "float", "'1e999' is not a number"),
        ("maybe", "bool", "'maybe' is not true or false"),
        ("A, B", "list", "'A, B' is not a list: neither JSON nor a Python literal"),
        ("'AB'", "list", "\"'AB'\" is not a list"),
        ("{'a': 1}", "list", "\"{'a': 1}\" is not a list"),
        ("[x]", "list", "'[x]' is not a list: neither JSON nor a Python literal"),
        ("[f()]", "list", "'[f()]' is not a list: neither JSON nor a Python literal"),
        (
            "['A' 'B']",
            "list",
            "\"['A' 'B']\" is not a list: two texts follow each other without a comma between them",
        ),
        ("[{'a': 1, 'a': 2}]", "list", "\"[{'a': 1, 'a': 2}]\" is not a list: a key appears twice"),
        (
            '[{"a": 1, "a": 2}]',
            "list",
            '\'[{"a": 1, "a": 2}]\' is not a list: key `a` appears twice in one object',
        ),
        ("[b'x']", "list", "\"[b'x']\" is not a list: b'x' has no form in JSON"),
        ("['x', 1e999]", "list", "\"['x', 1e999]\" is not a list: inf has no form in JSON"),
        (
            '["\\ud800"]',
            "list",
            "'[\"\\\\ud800\"]' is not a list: half of a surrogate pair is not a character",
        ),
        ("{", "json", "'{' is not JSON: expecting property name enclosed in double quotes at character 2"),
        ("NaN", "json", "'NaN' is not JSON: `NaN` is not a JSON value"),
    ],
)
def test_unfit_cells_are_refused(write: Write, cell: str, kind: ColumnKind, message: str) -> None:
    """A cell without the type asked for gives E211 with line and column."""
    with pytest.raises(DataError) as caught:
        type_cell(write, cell, kind)
    assert (caught.value.code, caught.value.message) == ("E211", message)
    assert caught.value.where is not None
    assert (caught.value.where.line, caught.value.where.field) == (2, "x")


@pytest.mark.parametrize(
    "cell", ["[" * 500 + "]" * 500, "-" * 50_000 + "1", "[" + "1," * 60_000 + "x]", "\\" * 9]
)
def test_hostile_literals_are_refused(write: Write, cell: str) -> None:
    """Deep, long and senseless literals give E211, never a crash."""
    with pytest.raises(DataError) as caught:
        type_cell(write, f"({cell}", "list")
    assert caught.value.code == "E211"


def test_unfit_cells_of_all_columns_are_reported_together(write: Write) -> None:
    """Every bad cell has its own error."""
    with pytest.raises(AnswerkeyError) as caught:
        load_table(write("a.csv", "n,ok\n1,yes\nx,no\n3,?\n"), FileFields(columns={"n": "int", "ok": "bool"}))
    errors: list[AnswerkeyError] = list(getattr(caught.value, "errors", ()))
    assert [error.where and (error.where.line, error.where.field) for error in errors] == [
        (3, "n"),
        (4, "ok"),
    ]


def test_an_unknown_column_is_refused(write: Write) -> None:
    """Typing a column that is not there gives E206 with the nearest name."""
    with pytest.raises(DataError) as caught:
        load_table(write("a.csv", "choices,b\n[],1\n"), FileFields(columns={"choice": "list"}))
    assert (caught.value.code, caught.value.hint) == ("E206", "did you mean `choices`?")


def test_cells_that_have_the_type_stay(write: Write) -> None:
    """In JSON, cells of the type asked for stay, and only text is parsed; whole numbers may become text."""
    text = '{"a": ["x"], "b": 1, "c": 1}\n{"a": "[\\"y\\"]", "b": "2", "c": "x"}\n'
    how = FileFields(columns={"a": "list", "b": "float", "c": "text"})
    samples = load_table(write("a.jsonl", text), how).samples
    assert samples.encoded == frozenset()
    assert [dict(row) for row in samples.rows()] == [
        {"a": ["x"], "b": 1.0, "c": "1"},
        {"a": ["y"], "b": 2.0, "c": "x"},
    ]


def test_cells_of_another_type_are_refused(write: Write) -> None:
    """A value that is no text is not converted to another type."""
    with pytest.raises(DataError, match=r"1\.5 is not a whole number"):
        load_table(write("a.jsonl", '{"a": 1.5}\n'), FileFields(columns={"a": "int"}))
