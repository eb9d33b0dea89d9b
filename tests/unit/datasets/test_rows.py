from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from answerkey.datasets import rows, tables
from answerkey.datasets.rows import Rows
from answerkey.datasets.tables import load_table
from answerkey.errors import DataError

Write = Callable[[str, str | bytes], Path]
FRAME = pl.DataFrame(
    {
        "n": pl.Series(range(50), dtype=pl.Int32),
        "^a$": [str(n) for n in range(50)],
        "*": [[n, n + 1] for n in range(50)],
    }
)


@pytest.fixture(params=["stored", "copied", "named", "held", "picked", "lines"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """Return the same fifty rows: as columns, in a copy, with ids, in memory, picked out of a
    hundred, and in JSON Lines.
    """
    frame, path = FRAME, tmp_path / "rows.parquet"
    if request.param == "lines":
        lines = tmp_path / "rows.jsonl"
        lines.write_text("\n".join(json.dumps(row) for row in FRAME.to_dicts()))
        monkeypatch.setattr(tables, "HELD_BYTES", 0)
        return load_table(lines).rows
    if request.param == "named":
        frame = frame.with_columns(pl.Series("sample_id", [f"s{n}" for n in range(50)]))
    if request.param == "picked":
        frame = pl.concat([frame, frame]).sort("n")
    frame.write_parquet(path, row_group_size=7)
    if request.param == "copied":
        monkeypatch.setattr(tables, "HELD_BYTES", 0)
    stored = load_table(path).rows
    if request.param == "picked":
        return stored.take(pl.Series(range(0, 100, 2)))
    return stored.load() if request.param == "held" else stored


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_any_part_is_that_part_of_the_whole(
    table: Rows, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_file_that_changes_while_it_is_in_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers over half an old and half a new file would be nobody's: E201."""
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
