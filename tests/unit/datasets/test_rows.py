from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lazy import datasets
from tests.lazy import pandas as pd

from answerkey.datasets import rows, tables
from answerkey.datasets.rows import Rows, build_column, infer_types
from answerkey.datasets.tables import load_rows, load_table
from answerkey.errors import DataError
from answerkey.types import Row, Sample, Samples

TEXTS, PAIRS = [str(n) for n in range(50)], [[n, n + 1] for n in range(50)]
FRAME = pl.DataFrame({"n": pl.Series(range(50), dtype=pl.Int32), "^a$": TEXTS, "*": PAIRS})


@pytest.fixture(params=["held", "named", "copied", "picked", "lines"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """Return the same fifty rows: in memory, with ids, in a copy, picked out of a hundred in a
    copy, and in JSON Lines.
    """
    frame, path = FRAME, tmp_path / "rows.parquet"
    if request.param in {"copied", "picked", "lines"}:
        monkeypatch.setattr(tables, "HELD_BYTES", 0)
    if request.param == "named":
        frame = frame.with_columns(pl.Series("sample_id", [f"s{n}" for n in range(50)]))
    if request.param == "picked":
        frame = pl.concat([frame, frame]).sort("n")
    frame.write_parquet(path, row_group_size=7)
    if request.param == "lines":
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in FRAME.to_dicts()))
    rows = load_table(path).rows
    return rows.take(pl.Series(range(0, 100, 2))) if request.param == "picked" else rows


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_parts_are_of_a_whole(table: Rows, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices, picks and slices of picks have the rows, ids and lines that they have in the
    whole.
    """
    monkeypatch.setattr(rows, "BLOCK_ROWS", block)
    whole = table.load()
    assert whole.values("n") == list(range(50))
    picks = pl.Series([0, 3, 4, 20, 49])
    for part, places in (
        (table.slice(10, 5), list(range(10, 15))),
        (table.slice(45, 99), list(range(45, 50))),
        (table.take(range(7, 9)), [7, 8]),
        (table.take(picks), picks.to_list()),
        (table.take(picks).slice(1, 2), [3, 4]),
        (table.slice(3, 40).take(pl.Series([0, 17])), [3, 20]),
        (table.take(picks).take(pl.Series([0, 4])), [0, 49]),
        (table.slice(0, 0), []),
    ):
        result = part.load()
        assert len(part) == len(result) == len(places)
        assert list(result) == [whole.items[place] for place in places]
        assert result.ids.to_list() == part.ids.to_list() == whole.ids.gather(places).to_list()


def test_a_part_can_be_sent_to_another_process(table: Rows) -> None:
    """What travels is where to read, and no other rows."""
    part = table.slice(20, 2)
    packed = pickle.dumps(part)
    assert len(packed) < 4000
    again = pickle.loads(packed)  # noqa: S301 - our own bytes
    assert list(again.load()) == list(part.load())


def test_files_changed_in_use_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers over half an old and half a new file would be meaningless: E201."""
    monkeypatch.setattr(tables, "HELD_BYTES", 0)
    path = tmp_path / "rows.jsonl"
    FRAME.write_ndjson(path)
    table = load_table(path).rows
    FRAME.head(9).write_ndjson(path)
    with pytest.raises(DataError, match=r"E201.*has changed while it was being read"):
        table.load()


def test_damage_inside_a_file_is_told(tmp_path: Path) -> None:
    """A page that cannot be read is E202 with the name of the file."""
    path = tmp_path / "rows.parquet"
    FRAME.write_parquet(path, compression="zstd")
    raw = bytearray(path.read_bytes())
    raw[4:200] = bytes(196)
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"E202.*not a valid Parquet file"):
        load_table(path)


ROWS: list[dict[str, object]] = [
    {"question": "Which?", "options": ["x", "y"], "number": 1, "share": 1.5, "answer": "01"},
    {"question": "Wer?", "options": ["u", "v"], "number": 2, "share": 2.0, "answer": ""},
]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}


def make_pandas() -> Any:  # noqa: ANN401 - pandas is not typed
    """Return the rows as pandas has them."""
    return pd.DataFrame(ROWS)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: ROWS, id="list of dicts"),
        pytest.param(lambda: tuple(ROWS), id="tuple of dicts"),
        pytest.param(lambda: (row for row in ROWS), id="generator of dicts"),
        pytest.param(lambda: COLUMNS, id="mapping of columns"),
        pytest.param(lambda: pl.DataFrame(ROWS), id="Polars"),
        pytest.param(lambda: pl.DataFrame(ROWS).lazy(), id="LazyFrame"),
        pytest.param(lambda: pl.DataFrame(ROWS).to_dict(), id="mapping of Polars series"),
        pytest.param(make_pandas, id="pandas"),
        pytest.param(lambda: make_pandas().astype(object), id="pandas objects"),
        pytest.param(lambda: make_pandas().convert_dtypes(), id="pandas nullable"),
        pytest.param(
            lambda: make_pandas().convert_dtypes(dtype_backend="pyarrow"), id="pandas by Arrow"
        ),
        pytest.param(
            lambda: pd.concat([make_pandas(), make_pandas()]).iloc[2:], id="pandas, rows chosen"
        ),
        pytest.param(lambda: make_pandas().set_index("question"), id="pandas with a named index"),
        pytest.param(lambda: make_pandas().to_dict("records"), id="pandas records"),
        pytest.param(lambda: dict(make_pandas().items()), id="mapping of pandas series"),
        pytest.param(
            lambda: {name: np.array(cells) for name, cells in COLUMNS.items()}, id="NumPy columns"
        ),
        pytest.param(lambda: pa.Table.from_pylist(ROWS), id="Arrow table"),
        pytest.param(lambda: pa.RecordBatch.from_pylist(ROWS), id="Arrow batch"),
        pytest.param(lambda: pa.Table.from_pylist(ROWS).to_reader(), id="Arrow reader"),
        pytest.param(
            lambda: dict(zip(COLUMNS, pa.Table.from_pylist(ROWS).columns, strict=True)), id="arrays"
        ),
        pytest.param(lambda: datasets.Dataset.from_list(ROWS), id="datasets"),
        pytest.param(
            lambda: datasets.Dataset.from_list(ROWS[::-1]).select([1, 0]), id="datasets, chosen"
        ),
        pytest.param(
            lambda: datasets.Dataset.from_list(ROWS).to_iterable_dataset(), id="iterable dataset"
        ),
    ],
)
def test_every_library_gives_the_same_rows(make: Callable[[], Any]) -> None:
    """Text stays text, numbers stay what they are, and the digest is that of the rows."""
    table = load_rows(make(), name="samples")
    assert [dict(row) for row in table.samples.rows()] == ROWS
    assert table.digest == load_rows(ROWS, name="samples").digest


def test_what_pandas_has_for_nothing_is_null() -> None:
    """NaN, NaT and NA are null.

    What is mixed stays apart, and no dict gains a key of another one.
    """
    frame = pd.DataFrame(
        {
            "text": ["a", np.nan, None],
            "float": [1.5, np.nan, 2],
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "mixed": [1, 1.5, "x"],
            "dict": [{"a": 1}, {"b": 2}, np.nan],
            "time": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
            "category": pd.Categorical(["u", None, "v"]),
            "list": [np.array(["x"]), np.array([]), None],
        }
    )
    columns = {
        "text": ["a", None, None],
        "float": [1.5, None, 2.0],
        "whole": [1, None, 3],
        "mixed": [1, 1.5, "x"],
        "dict": [{"a": 1}, {"b": 2}, None],
        "time": ["2020-01-01T00:00:00", None, "2020-01-03T00:00:00"],
        "category": ["u", None, "v"],
        "list": [["x"], [], None],
    }
    assert {name: load_rows(frame, name="x").samples.values(name) for name in columns} == columns
    records = load_rows(frame.drop(columns="float").to_dict("records"), name="x").samples
    assert {name: records.values(name) for name in records.columns} == {
        name: cells for name, cells in columns.items() if name != "float"
    }


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: ["B", None], id="list"),
        pytest.param(lambda: (text for text in ["B", None]), id="generator"),
        pytest.param(lambda: pl.Series(["B", None]), id="Polars"),
        pytest.param(lambda: pd.Series(["B", None]), id="pandas"),
        pytest.param(lambda: pd.Series(["B", np.nan], dtype=object), id="pandas objects"),
        pytest.param(lambda: np.array(["B", None], dtype=object), id="NumPy"),
        pytest.param(lambda: pa.array(["B", None]), id="array"),
        pytest.param(lambda: pa.chunked_array([["B"], [None]]), id="chunked array"),
        pytest.param(lambda: [{"completion": "B"}, {"completion": None}], id="rows"),
        pytest.param(lambda: {"completion": ["B", None]}, id="columns"),
        pytest.param(lambda: pd.DataFrame({"completion": ["B", None]}), id="frame"),
        pytest.param(lambda: pa.table({"completion": ["B", None]}), id="table"),
        pytest.param(lambda: datasets.Dataset.from_dict({"completion": ["B", None]}), id="dataset"),
    ],
)
def test_a_column_may_be_given_by_itself(make: Callable[[], Any]) -> None:
    """Where one column will do, texts are taken for it, and a table is a table."""
    samples = load_rows(make(), name="completions", lone="completion").samples
    assert [dict(row) for row in samples.rows()] == [{"completion": "B"}, {"completion": None}]


def make_dataset() -> Any:  # noqa: ANN401 - `datasets` is not typed
    """Return the rows as `datasets` has them."""
    return datasets.Dataset.from_list(ROWS)


TWICE = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
UNION = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1]), pa.array(["b"])])


class Letter(StrEnum):
    """A choice as an enumeration."""

    A = "A"


class Wrapped:
    """A number in the manner of array libraries."""

    def item(self) -> int:
        """Return the plain number."""
        return 7


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Letter.A, "A"),
        ((1, [Letter.A]), [1, ["A"]]),
        (dt.time(1, 2), "01:02:00"),
        (dt.timedelta(days=1, seconds=3), "1 day, 0:00:03"),
        (Decimal("1.10"), "1.10"),
        (Decimal(12), 12),
        (Decimal("1E+2"), "100"),
        (Wrapped(), 7),
    ],
)
def test_values_become_what_json_knows(value: object, expected: object) -> None:
    """Foreign values take the form they would have in a JSON file."""
    (cell,) = load_rows([{"x": value}], name="rows").samples.values("x")
    assert cell == expected
    assert type(cell) is type(expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: 3, "E202.*`samples` is a value of type int, not a list"),
        (lambda: None, "E202.*`samples` is a value of type NoneType, not a list"),
        (lambda: "questions", "E202.*`samples` is a value of type str, not a list"),
        (lambda: ["a", "b"], "E202.*`samples`: row 1 is a value of type str, not a mapping"),
        (lambda: [{"a": 1}, [1]], "E202.*row 2 is a value of type list, not a mapping"),
        (lambda: {"q": "Which?"}, "E202.*`samples.q` is a value of type str, not a list"),
        (lambda: {"a": np.array(3)}, "E202.*`samples.a` is a value of type ndarray, not a list"),
        (lambda: {"a": {1, 2}}, "E202.*`samples.a` is a value of type set, not a list"),
        (lambda: make_pandas().to_dict(), "E202.*question` is a value of type dict, not a list"),
        (lambda: {"a": [1], "b": [1, 2]}, "E202.*the columns differ in their number of cells"),
        (lambda: pd.DataFrame([[1]]), "E202.*a mapping whose key 0 is not text"),
        (lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]), "E212.*column `a` appears twice"),
        (lambda: TWICE, r"E212.*more than once; names must be unique: \[.a.\]"),
        (lambda: pd.DataFrame({"": [1]}), "E202.*column 1 has no name"),
        (lambda: pd.DataFrame({"a": pd.interval_range(0, 2)}), "E202.*row 1 holds .* Interval"),
        (lambda: [{"a": object()}], "E202.*row 1 holds a value of type object"),
        (lambda: [{"a": {1, 2}}], "E202.*row 1 holds a value of type set"),
        (lambda: [{"a": 1j}], "E202.*row 1 holds a value of type complex"),
        (lambda: pa.table({"a": UNION}), "E202.*`samples` cannot be read as a table: .*Union"),
        (lambda: datasets.DatasetDict({"test": make_dataset()}), "E202.*`samples.test` is a value"),
        (list, "E210.*there are no rows"),
        (dict, "E210.*there are no rows"),
        (lambda: pd.DataFrame({"a": []}), "E210.*there are no rows"),
        (lambda: [{}], "E210.*there are no rows"),
        (lambda: [{"a": "\ud800"}], "E203.*holds half of a surrogate pair"),
        (lambda: [{"sample_id": 1.0}], r"E208.*sample id 1\.0 is not text or a whole number"),
    ],
)
def test_what_is_no_table_is_told(make: Callable[[], Any], message: str) -> None:
    """What it is, which part of it is meant, and, where it is not plain, what to give instead."""
    with pytest.raises(DataError, match=message):
        load_rows(make(), name="samples")


def test_columns_may_be_called_like_methods() -> None:
    """A frame whose columns have the names that tables are told by is a frame like any other."""
    names = "type dtype filters read column_names with_format num_rows tolist *".split()  # noqa: SIM905 - shorter
    frame = pd.DataFrame({name: ["A"] for name in names})
    assert [dict(row) for row in load_rows(frame, name="x").samples.rows()] == [
        dict.fromkeys(names, "A")
    ]


finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), finite, st.text())
keys = st.sampled_from("abc")
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


def infer_type(cells: list[object]) -> pl.DataType | None:
    """Return the type of a column with these cells."""
    return infer_types(Samples([Sample("x", Row(x=cell)) for cell in cells], ["x"]))["x"]


def read_back(cells: list[object]) -> tuple[list[object], bool]:
    """Return the cells after storing them, and whether they were stored as JSON text."""
    dtype = infer_type(cells)
    stored: list[object] = build_column("x", cells, dtype).to_list()
    if dtype is None:
        stored = [None if cell is None else json.loads(str(cell)) for cell in stored]
    return stored, dtype is None


@given(st.lists(values, min_size=1, max_size=6))
def test_any_column_reads_back_exactly(cells: list[object]) -> None:
    """Whatever JSON holds comes back the same, type for type and key for key."""
    assert json.dumps(read_back(cells)[0]) == json.dumps(cells)


@pytest.mark.parametrize(
    ("cells", "dtype"),
    [
        ([None, None], pl.String()),
        ([1, None], pl.Int64()),
        ([1, 1.5], None),
        ([1, True], None),
        ([1, 2**63], None),
        (["a", 1], None),
        ([[], None], pl.List(pl.String())),
        ([[], [1]], pl.List(pl.Int64())),
        ([[], [[1]]], None),
        ([[1], ["a"]], None),
        ([{"a": 1}, {"a": None}], None),
        ([1, [1]], None),
    ],
)
def test_a_type_that_all_share_is_native(cells: list[object], dtype: pl.DataType | None) -> None:
    """Values that differ in type, mappings and lists of lists have no native type."""
    assert infer_type(cells) == dtype
