from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from answerkey.datasets.tables import load_rows, load_table
from answerkey.errors import DataError

Write = Callable[[str, str | bytes], Path]
pytestmark = pytest.mark.usefixtures("way")


@pytest.mark.parametrize("name", ["a", "a.txt", "a.xlsx", "a.csv.zip", "a.gz", "csv"])
def test_an_unknown_ending_is_refused(write: Write, name: str) -> None:
    """A name whose ending names no format gives E201 with the endings there are."""
    with pytest.raises(DataError) as caught:
        load_table(write(name, gzip.compress(b"a\n1\n", mtime=0) if name == "a.gz" else "a\n1\n"))
    assert caught.value.code == "E201"
    assert str(caught.value.hint).startswith("endings: `.csv`, `.tsv`, `.jsonl`")


def test_endings_may_be_upper_case_and_names_may_hold_dots(write: Write) -> None:
    """Only the last endings of a name count, in any case."""
    assert len(load_table(write("mmlu.v1.2.CSV", "a\n1\n")).samples) == 1


def test_rows_in_memory_are_samples() -> None:
    """Lists of mappings become samples like the rows of a JSON file."""
    samples = load_rows([{"a": 1, "b": ("x",)}, {"a": 2}], name="rows").samples
    assert [dict(row) for row in samples.rows()] == [{"a": 1, "b": ["x"]}, {"a": 2, "b": None}]
    assert str(samples.place(1, "b")) == "rows:2, column `b`"


@pytest.mark.parametrize(
    ("rows", "code", "message"),
    [
        ([], "E210", "`rows` has no rows"),
        ([{}], "E210", "`rows` has no rows"),
        ([{1: 2}], "E202", "the column name 1 is not text"),
        ([{"a": {1, 2}}], "E202", "the column holds a value of type set"),
        ([{"a": "\ud800"}], "E203", "half of a surrogate pair"),
        (pl.DataFrame({"a": []}), "E210", "`rows` has no rows"),
    ],
)
def test_unsuitable_rows_in_memory_are_refused(
    rows: list[dict[str, object]], code: str, message: str
) -> None:
    """What no file could hold is refused in memory too."""
    with pytest.raises(DataError, match=message) as caught:
        load_rows(rows, name="rows")
    assert caught.value.code == code


def test_the_digest_of_a_file_is_that_of_its_content(write: Write) -> None:
    """Files with the same bytes have the same digest, whatever their names."""
    first = load_table(write("a.csv", "a,b\n1,2\n")).digest
    assert first == load_table(write("b.csv", "a,b\n1,2\n")).digest
    assert first != load_table(write("c.csv", "a,b\n1,3\n")).digest


def test_the_digest_of_rows_tells_values_apart() -> None:
    """Rows in memory that differ in a value, a type or a name have other digests; equal ones the same."""
    rows: list[list[dict[str, object]]] = [
        [{"a": "1"}],
        [{"a": 1}],
        [{"a": 1.0}],
        [{"b": 1}],
        [{"a": None}],
        [{"a": float("nan")}],
        [{"a": [1]}],
        [{"a": 1}, {"a": "1"}],
        [{"a": "1"}, {"a": '"1"'}],
    ]
    digests = [load_rows(one, name="rows").digest for one in rows]
    assert len(set(digests)) == len(rows)
    assert load_rows(pl.DataFrame({"a": [1]}), name="other").digest == digests[1]
