"""The end of Parquet files, read to know what to fetch; and what is fetched by it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from answerkey.datasets import load_table, parquet, storage
from answerkey.datasets.parquet import TAIL, Footer, lay_out, load_footer, merge_spans, read_footer
from answerkey.datasets.storage import StoredObject, look_up, put_object
from answerkey.errors import DataError

ROWS = 700
FRAME = pl.DataFrame(
    {
        "number": pl.int_range(ROWS, eager=True),
        "word": [None if row % 5 == 0 else f"word {row % 7}" for row in range(ROWS)],
        "list": [[f"{row}"] * (row % 4) for row in range(ROWS)],
        "deep": [{"a": row, "b": [{"c": row % 3 == 0}]} for row in range(ROWS)],
        "empty": pl.Series([None] * ROWS, dtype=pl.String),
        "long": [f"{row * 7919}" * 50 for row in range(ROWS)],
    }
)


class _MemoryStore(storage.Store):
    scheme = "memory"
    library = "fsspec"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return an address in memory, which is known as a store in this test only."""
    monkeypatch.setitem(storage.STORES, "memory", _MemoryStore)
    return f"memory://footer/{id(monkeypatch)}"


def load(raw: bytes) -> Footer:
    """Return the footer of a whole file."""
    length = int.from_bytes(raw[-TAIL:-4], "little") + TAIL
    return read_footer(raw[-length:], len(raw) - length)


@pytest.mark.parametrize(
    "how",
    [
        {"row_group_size": 100, "compression": "zstd"},
        {"row_group_size": 64, "compression": "uncompressed", "statistics": False},
        {"data_page_size": 512, "compression": "snappy"},
        {"row_group_size": 1000, "compression": "lz4", "statistics": "full"},
    ],
)
def test_any_part_of_a_file_is_read_as_if_it_were_here(
    how: dict[str, Any], memory: str, tmp_path: Path
) -> None:
    """For every span of rows and choice of columns, what is fetched is enough, and is right."""
    file = tmp_path / "rows.parquet"
    FRAME.write_parquet(file, **how)
    put_object(f"{memory}/rows.parquet", file)
    stored = look_up(f"{memory}/rows.parquet")
    assert load(file.read_bytes()).rows == ROWS
    draws = random.Random(7)
    for _ in range(12):
        start = draws.randrange(ROWS)
        length = draws.randrange(1, ROWS - start + 1)
        names = draws.sample(FRAME.columns, draws.randrange(1, len(FRAME.columns) + 1))
        with lay_out(stored, range(start, start + length), names) as path:
            found = pl.scan_parquet(path, glob=False).slice(start, length).select(names).collect()
        assert found.equals(FRAME.slice(start, length).select(names))


def test_spans_are_those_of_the_rows_and_columns_that_are_wanted(tmp_path: Path) -> None:
    """Groups without a wanted row are left out, and so are other columns."""
    FRAME.write_parquet(tmp_path / "rows.parquet", row_group_size=100)
    footer = load((tmp_path / "rows.parquet").read_bytes())
    assert len(footer.groups) == 7
    assert footer.columns == set(FRAME.columns)
    assert len(footer.list_spans(range(150, 250), {"number"})) == 2
    assert len(footer.list_spans(range(100, 200), {"number", "word"})) == 2
    assert footer.list_spans(range(100, 200), set()) == []
    assert footer.list_spans(range(0), set(FRAME.columns)) == []
    assert list(merge_spans([(0, 4), (4, 6), (5, 9), (11, 12)])) == [(0, 9), (11, 12)]


def test_the_same_rows_are_fetched_once(memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two shards of one group share it; room is given back when there is too much."""
    FRAME.write_parquet(tmp_path / "rows.parquet", compression="uncompressed")
    put_object(f"{memory}/once.parquet", tmp_path / "rows.parquet")
    stored = look_up(f"{memory}/once.parquet")
    fetched: list[int] = []
    read = StoredObject.read

    def note(one: StoredObject, start: int, stop: int) -> bytes:
        fetched.append(stop - start)
        return read(one, start, stop)

    monkeypatch.setattr(StoredObject, "read", note)
    for rows in (range(10), range(300, 310)):
        with lay_out(stored, rows, ["long"]):
            pass
    assert sum(fetched) < 1.2 * sum(FRAME["long"].str.len_bytes()) + 70_000
    monkeypatch.setattr(parquet, "MOST_BYTES", 0)
    before = len(fetched)
    with lay_out(stored, range(500, 510), ["long"]):
        assert len(fetched) == before
    with lay_out(stored, range(10), ["long"]) as path, lay_out(stored, range(10), ["number"]) as other:
        assert path != other
    assert len(fetched) > before


def test_a_damaged_footer_is_an_error_whatever_its_bytes(memory: str, tmp_path: Path) -> None:
    """Bytes that are changed, cut or drawn at random end in ValueError, or in a footer; in no other way."""
    FRAME.head(50).write_parquet(tmp_path / "rows.parquet", row_group_size=10)
    raw = (tmp_path / "rows.parquet").read_bytes()
    length = int.from_bytes(raw[-TAIL:-4], "little") + TAIL
    footer, start = raw[-length:], len(raw) - length
    draws = random.Random(11)
    refused = 0
    for _ in range(600):
        changed = bytearray(footer)
        for _ in range(draws.randrange(1, 6)):
            changed[draws.randrange(len(changed) - TAIL)] = draws.randrange(256)
        damaged = bytes(changed[draws.choice([0, 0, 0, 7]) :])
        try:
            read_footer(damaged, start)
        except ValueError:
            refused += 1
    assert refused > 100
    for nonsense in (
        b"",
        b"PAR1",
        b"\x00" * 8,
        b"\x1c" * 5000 + b"PAR1\x00\x00\x00\x00",
        b"\x19\xfc" + b"\xff" * 40,
    ):
        with pytest.raises(ValueError, match="its footer is damaged"):
            read_footer(nonsense + b"\x00" * TAIL, 100)
    put_object(f"{memory}/nonsense.parquet", b"12345678")
    with pytest.raises(DataError, match="the mark at its end is missing"):
        load_footer(look_up(f"{memory}/nonsense.parquet"))


def test_a_disk_that_is_full_is_told_from_a_damaged_file(
    memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E214 names the folder for temporary files; the object is not blamed."""
    FRAME.write_parquet(tmp_path / "rows.parquet")
    put_object(f"{memory}/full.parquet", tmp_path / "rows.parquet")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    monkeypatch.setattr("tempfile.mkstemp", fail)
    with pytest.raises(DataError, match="has no room in") as caught:
        load_table(f"{memory}/full.parquet")
    assert caught.value.code == "E214"
    assert "TMPDIR" in str(caught.value.hint)
