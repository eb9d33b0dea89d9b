from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from answerkey.datasets import FileFields, LocalSource, load_table
from answerkey.errors import DataError, Problems

Write = Callable[[str, str | bytes], Path]


def test_a_paragraph_is_a_row(write: Write) -> None:
    """Blank lines part them, however many; the line is that on which one begins."""
    path = write("Test.txt", "\nc\nA passage.\nWhy?\n\n\n \t\nb\nOther.\n")
    samples = load_table(path, how=FileFields(format="paragraphs")).samples
    assert samples.frame["lines"].to_list() == [["c", "A passage.", "Why?"], ["b", "Other."]]
    assert samples.lines is not None
    assert samples.lines.to_list() == [2, 8]


def test_nothing_but_blank_lines_has_no_rows(write: Write) -> None:
    """E210, as for any file."""
    with pytest.raises(DataError, match="no rows") as caught:
        load_table(write("a.txt", "\n\n"), how=FileFields(format="paragraphs"))
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


def test_names_that_do_not_fit_are_refused(write: Write) -> None:
    """Too few of them, those of a header line that is there, and those of a file that is no CSV."""
    path = write("q.csv", "a,b\nc,d\n")
    with pytest.raises(Problems, match="the row has 2 cells, the header has 1"):
        load_table(path, how=FileFields(header=("x",)))
    with pytest.raises(DataError, match="the file has a header line with these names"):
        load_table(path, how=FileFields(header=("a", "b")))
    with pytest.raises(DataError, match="`header` and `skip_rows` are for CSV and TSV"):
        load_table(write("q.jsonl", '{"a": 1}\n'), how=FileFields(header=("a",)))
