from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from answerkey.datasets import columns, load_table
from answerkey.errors import AnswerkeyError, DataError

Write = Callable[[str, str | bytes], Path]
pytestmark = pytest.mark.usefixtures("way")


def refuse(path: Path) -> list[tuple[str, str, int | None]]:
    """Return code, message and place of each error."""
    with pytest.raises(AnswerkeyError) as caught:
        load_table(path)
    errors: list[AnswerkeyError] = list(getattr(caught.value, "errors", [caught.value]))
    return [(error.code, error.message, error.where.line if error.where else None) for error in errors]


def test_cells_are_text_as_written(write: Write) -> None:
    """No cell is retyped or trimmed: zeros, spaces and words stay; empty is empty text."""
    samples = load_table(write("a.csv", "id,answer,note\n007, B ,\n1.0,None,true\n")).samples
    assert [dict(row) for row in samples.rows()] == [
        {"id": "007", "answer": " B ", "note": ""},
        {"id": "1.0", "answer": "None", "note": "true"},
    ]


def test_lines_count_line_breaks_inside_cells_and_blank_lines(write: Write) -> None:
    """A row's line is the line of the file on which it starts."""
    samples = load_table(write("a.csv", 'a,b\n"one\ntwo",x\n\n3,"a ""quoted"" word"\n')).samples
    assert samples.lines is not None
    assert samples.lines.to_list() == [2, 5]
    assert samples.values("b") == ["x", 'a "quoted" word']


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_line_ends_are_read(write: Write, end: str) -> None:
    """Unix, Windows and old Mac line ends separate rows."""
    samples = load_table(write("a.csv", end.join(["a,b", "1,2", "3,4", ""]))).samples
    assert samples.values("b") == ["2", "4"]


def test_other_line_separators_stay_in_the_cell(write: Write) -> None:
    """U+2028, U+0085 and form feeds are text, not ends of rows."""
    samples = load_table(write("a.csv", "a,b\nx\u2028y\x0c,z\x85\n")).samples
    assert samples.row(0) == {"a": "x\u2028y\x0c", "b": "z\x85"}


def test_tabs_separate_the_cells_of_tsv(write: Write) -> None:
    """A comma in TSV is text."""
    assert load_table(write("a.tsv", "a\tb\n1,5\t2\n")).samples.row(0) == {"a": "1,5", "b": "2"}


def test_ragged_rows_are_reported_together(write: Write) -> None:
    """A row with more or fewer cells than the header gives E202 with its line."""
    assert refuse(write("a.csv", "a,b\n1,2\n3\n4,5,6\n")) == [
        ("E202", "the row has 1 cell, the header has 2", 3),
        ("E202", "the row has 3 cells, the header has 2", 4),
    ]


def test_many_bad_rows_are_counted(write: Write) -> None:
    """Twenty bad rows are shown and the rest is counted."""
    found = refuse(write("a.csv", "a,b\n" + "1\n" * 25))
    assert len(found) == 21
    assert found[20] == ("E202", "5 more bad rows in this file are not shown", None)


@pytest.mark.parametrize(
    ("text", "code", "message", "line"),
    [
        ("", "E210", "the file is empty", None),
        ("\n\n", "E210", "the file is empty", None),
        ("a,b\n", "E210", "the file has no rows", None),
        ("a,b,a\n1,2,3\n", "E212", "column `a` appears twice, as column 1 and column 3", 1),
        ("\n,b\n1,2\n", "E202", "column 1 has no name", 2),
        ("a, \n1,2\n", "E202", "column 2 has no name", 1),
        ('a,b\n1,2\n3,"4\n5,6\n', "E202", "a double quote opened in this row is never closed", 3),
        ('a,b\n1,"2"x\n', "E202", "misplaced double quote: ',' expected after '\"'", 2),
        (
            "a;b\n1;2\n",
            "E202",
            "the header is one column 'a;b'; the columns seem to be separated by semicolons",
            1,
        ),
        ("a\nx\n\ny\n", "E202", "blank line in a file of one column", 3),
    ],
)
def test_broken_files_are_refused(write: Write, text: str, code: str, message: str, line: int | None) -> None:
    """What is not a table gives an error with its line."""
    assert refuse(write("a.csv", text)) == [(code, message, line)]


def test_commas_under_the_name_of_tsv_are_recognised(write: Write) -> None:
    """A TSV file with commas is refused with what to do."""
    with pytest.raises(DataError) as caught:
        load_table(write("a.tsv", "a,b\n1,2\n"))
    assert caught.value.hint == "separate columns by tabs, or use the ending that fits"


def test_one_column_may_have_a_separator_in_its_name(write: Write) -> None:
    """A single column whose name alone holds a semicolon is a column."""
    assert load_table(write("a.csv", "question; short\nyes\n")).samples.columns == ["question; short"]


def test_blank_lines_at_the_end_of_one_column_are_no_cells(write: Write) -> None:
    """Blank lines after the last row are skipped in every file."""
    assert load_table(write("a.csv", 'completion\nA\n""\n\n')).samples.values("completion") == ["A", ""]


def test_a_huge_cell_is_refused(write: Write) -> None:
    """A cell of more than 16 MiB gives E202: nearly always an unclosed quote."""
    found = refuse(write("a.csv", "a,b\n1,2\n" + "x" * (16 * 2**20 + 1) + ",2\n"))
    assert [(code, line) for code, _, line in found] == [("E202", 3)]


def test_a_long_cell_is_read(write: Write) -> None:
    """A cell of a million characters is no trouble."""
    assert len(str(load_table(write("a.csv", "a,b\n" + "x" * 10**6 + ",2\n")).samples.row(0)["a"])) == 10**6


def test_white_space_around_a_name_is_noticed(write: Write) -> None:
    """Column names stay exact; white space around them is said aloud."""
    table = load_table(write("a.csv", "question, answer\nq,B\n"))
    assert table.samples.columns == ["question", " answer"]
    assert [notice.message for notice in table.notices] == [
        "white space around column names is part of the name: `' answer'`"
    ]


def test_files_longer_than_a_chunk_keep_their_order(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are gathered in pieces; none is lost or moved."""
    monkeypatch.setattr(columns, "CHUNK_ROWS", 7_000)
    count = 50_001
    samples = load_table(write("a.csv", "n,m\n" + "".join(f"{n},x\n" for n in range(count)))).samples
    assert samples.values("n") == [str(n) for n in range(count)]
