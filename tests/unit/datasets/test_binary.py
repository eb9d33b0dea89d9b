from __future__ import annotations

import datetime as dt
import io
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from answerkey.datasets.tables import load_rows, load_table
from answerkey.errors import DataError

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
def test_binary_tables_are_read_with_row_numbers_as_lines(write: Write, name: str, kind: str) -> None:
    """Parquet, Arrow files and Arrow streams are read natively; a row's line is its number."""
    samples = load_table(write(name, dump(FRAME, kind))).samples
    assert samples.frame.equals(FRAME)
    assert samples.lines is not None
    assert samples.lines.to_list() == [1, 2, 3]
    assert samples.ids.to_list() == ["000001", "000002", "000003"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pl.Series([1, 2], dtype=pl.Int8), [1, 2]),
        (pl.Series([1, 2**64 - 1], dtype=pl.UInt64), [1, 2**64 - 1]),
        (pl.Series([2**100, None], dtype=pl.Int128), [2**100, None]),
        (pl.Series([0.5, None], dtype=pl.Float32), [0.5, None]),
        (pl.Series([Decimal("1.10"), None], dtype=pl.Decimal(10, 2)), ["1.10", None]),
        (pl.Series([Decimal(3), None], dtype=pl.Decimal(38, 0)), [3, None]),
        (pl.Series([dt.date(2026, 1, 2), None]), ["2026-01-02", None]),
        (pl.Series([dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), None]), ["2026-01-02T03:00:00+00:00", None]),
        (pl.Series([dt.timedelta(seconds=90), None]), ["0:01:30", None]),
        (pl.Series(["a", None], dtype=pl.Categorical), ["a", None]),
        (pl.Series(["a", None], dtype=pl.Enum(["a"])), ["a", None]),
        (pl.Series([None, None], dtype=pl.Null), [None, None]),
        (pl.Series([[], [None]], dtype=pl.List(pl.Null)), [[], [None]]),
        (pl.Series([[1, 2], None], dtype=pl.Array(pl.UInt8, 2)), [[1, 2], None]),
        (pl.Series([["a"], None], dtype=pl.List(pl.Categorical)), [["a"], None]),
        (pl.Series([{"day": dt.date(2026, 1, 2), "n": 1}, None]), [{"day": "2026-01-02", "n": 1}, None]),
        (pl.Series([b"text", None]), ["text", None]),
        (pl.Series([b"\xff", None]), ["/w==", None]),
    ],
)
def test_foreign_types_become_values_of_json(column: pl.Series, expected: list[object]) -> None:
    """Every column type gives values that a template can print and a run folder can hold."""
    samples = load_rows(pl.DataFrame({"x": column}), name="frame").samples
    assert samples.values("x") == expected


def test_a_float_that_is_no_number_stays_one() -> None:
    """NaN in a binary file is kept as a float."""
    value = load_rows(pl.DataFrame({"x": [math.nan, 1.0]}), name="frame").samples.row(0)["x"]
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize("column", [pl.Series([b"\xff"]), pl.Series([{"bytes": b"ab", "path": "p"}])])
def test_bytes_are_said_aloud(write: Write, column: pl.Series) -> None:
    """A column with bytes gives a notice with its name."""
    table = load_table(write("a.parquet", dump(pl.DataFrame({"image": column}), "parquet")))
    assert [notice.message for notice in table.notices] == [
        "column `image` holds bytes; templates see them in base64"
    ]


@pytest.mark.parametrize(
    ("name", "kind"), [("a.parquet", "parquet"), ("a.arrow", "arrow"), ("a.arrow", "stream")]
)
def test_every_cut_is_refused(write: Write, name: str, kind: str) -> None:
    """A file that lost its end gives E202 wherever it was cut, never fewer rows."""
    whole = dump(FRAME, kind)
    for size in {1, 5, 10, len(whole) // 3, len(whole) // 2, len(whole) - 9, len(whole) - 8, len(whole) - 1}:
        with pytest.raises(DataError) as caught:
            load_table(write(name, whole[:size]))
        assert caught.value.code == "E202"


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_file_without_rows_is_refused(write: Write, name: str) -> None:
    """No bytes, and no rows, give E210."""
    for raw in (b"", dump(FRAME.clear(), name.removeprefix("a."))):
        with pytest.raises(DataError) as caught:
            load_table(write(name, raw))
        assert caught.value.code == "E210"


@pytest.mark.parametrize(
    ("name", "raw", "hint"),
    [
        ("a.parquet", b"question,answer\n", "copy or download it again"),
        ("a.parquet", dump(FRAME, "arrow"), "by its first bytes this file is Arrow: name it `.arrow`"),
        ("a.arrow", dump(FRAME, "parquet"), "by its first bytes this file is Parquet: name it `.parquet`"),
        ("a.feather", b"FEA1" + b"\0" * 20, "write it anew as Feather version 2 or as Parquet"),
    ],
)
def test_other_files_are_refused_with_what_they_are(write: Write, name: str, raw: bytes, hint: str) -> None:
    """A file of another format gives E202 and what it seems to be."""
    with pytest.raises(DataError) as caught:
        load_table(write(name, raw))
    assert (caught.value.code, caught.value.hint) == ("E202", hint)


def test_a_column_without_a_name_is_refused() -> None:
    """An empty column name gives E202."""
    with pytest.raises(DataError, match="column 1 has no name"):
        load_rows(pl.DataFrame({"": [1]}), name="frame")


def test_a_huge_cell_is_refused(write: Write) -> None:
    """A text of more than 16 MiB gives E202 with row and column."""
    frame = pl.DataFrame({"a": ["x", "y" * (16 * 2**20 + 1)]})
    with pytest.raises(DataError) as caught:
        len(load_table(write("a.parquet", dump(frame, "parquet"))).samples)
    where = caught.value.where
    assert where is not None
    assert (caught.value.code, where.line, where.field) == ("E202", 2, "a")


@pytest.mark.parametrize("name", ["rows[1].parquet", "rows[.parquet", "rows*.parquet"])
def test_a_name_is_no_pattern(write: Write, name: str) -> None:
    """Brackets and stars in a file name are characters like any other."""
    assert len(load_table(write(name, dump(FRAME, "parquet"))).rows) == 3
