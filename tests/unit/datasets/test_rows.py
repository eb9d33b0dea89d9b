from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from random import Random

import polars as pl
import pytest

from answerkey.datasets import rows
from answerkey.datasets.rows import Rows, iterate_blocks, join_positions, locate_positions
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


@pytest.fixture(params=["stored", "named", "held", "picked", "large"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """Return the same fifty rows: in a file without and with ids, in memory, and picked out of a hundred.

    Once the dictionaries of some columns are large.
    """
    frame, path = FRAME, tmp_path / "rows.parquet"
    if request.param == "large":
        monkeypatch.setattr(rows, "LARGE_DICTIONARY", 0)
    if request.param == "named":
        frame = frame.with_columns(pl.Series("sample_id", [f"s{n}" for n in range(50)]))
    if request.param == "picked":
        frame = pl.concat([frame, frame]).sort("n")
    frame.write_parquet(path, row_group_size=7)
    stored = load_table(path).rows
    if request.param == "picked":
        return stored.take(pl.Series(range(0, 100, 2)))
    return stored.load() if request.param == "held" else stored


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_any_part_is_that_part_of_the_whole(table: Rows, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices, picks and slices of picks have the rows, ids and lines that they have in the whole."""
    monkeypatch.setattr(rows, "BLOCK_ROWS", block)
    whole = table.load()
    assert whole.frame["n"].to_list() == list(range(50))
    assert whole.frame.schema["n"] == pl.Int64()
    assert whole.lines is not None
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
        found = part.load()
        assert len(part) == len(found) == len(places)
        assert found.frame.equals(whole.frame[places])
        assert found.ids.to_list() == part.ids.to_list() == whole.ids.gather(places).to_list()
        assert found.lines is not None
        assert found.lines.to_list() == whole.lines.gather(places).to_list()


def test_only_what_is_asked_for_is_loaded(table: Rows) -> None:
    """Columns come in the order of the table, whatever their names look like; ids come with them."""
    assert table.load(["*", "n"]).columns == ["n", "*"]
    assert table.load(["^a$", "unknown"]).columns == ["^a$"]
    nothing = table.load([])
    assert (len(nothing.columns), len(nothing)) == (1, 50)
    assert table.load(["n"]).ids.equals(table.load().ids)


def test_blocks_are_the_whole(table: Rows) -> None:
    """Blocks follow each other and leave nothing out."""
    found = list(iterate_blocks(table, ["n"], size=20))
    assert [(offset, len(block)) for offset, block in found] == [(0, 20), (20, 20), (40, 10)]
    assert pl.concat([block.frame["n"] for _, block in found]).to_list() == list(range(50))


def test_a_part_can_be_sent_to_another_process(table: Rows) -> None:
    """What travels says where to read, and is small."""
    part = table.slice(20, 2)
    packed = pickle.dumps(part)
    assert len(packed) < 4000
    again = pickle.loads(packed)  # noqa: S301 - our own bytes
    assert again.load().frame.equals(part.load().frame)


def test_a_file_that_changes_while_it_is_in_use_is_refused(tmp_path: Path) -> None:
    """Numbers over half an old and half a new file would be nobody's: E201."""
    path = tmp_path / "rows.parquet"
    FRAME.write_parquet(path)
    table = load_table(path).rows
    FRAME.head(9).write_parquet(path)
    with pytest.raises(DataError, match=r"E201.*has changed while it was being read"):
        table.load()


def test_damage_inside_a_file_is_told_when_it_is_met(tmp_path: Path) -> None:
    """A page that cannot be read is E202 with the name of the file."""
    path = tmp_path / "rows.parquet"
    FRAME.write_parquet(path, compression="zstd")
    raw = bytearray(path.read_bytes())
    raw[4:200] = bytes(196)
    path.write_bytes(raw)
    table = load_table(path).rows
    with pytest.raises(DataError, match=r"E202.*not a valid Parquet file"):
        table.load()


@pytest.mark.parametrize("outer", [range(3, 13), pl.Series([1, 2, 5, 8, 13, 21])])
@pytest.mark.parametrize("inner", [range(1, 4), pl.Series([0, 2, 5])])
def test_positions_are_joined_and_found_again(outer: range | pl.Series, inner: range | pl.Series) -> None:
    """Where chosen rows stand among all, and where they stand among the chosen, are the same thing."""
    joined = join_positions(outer, inner)
    assert list(joined) == [list(outer)[place] for place in inner]
    assert list(locate_positions(outer, joined)) == list(inner)


def test_a_row_group_with_a_large_dictionary_is_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts are cut out of it, one after the other; a whole group is read for itself and not kept."""
    path = tmp_path / "rows.parquet"
    frame = pl.DataFrame({"text": ["a", "b"] * 50, "list": [["x"]] * 100, "n": range(100)})
    frame.write_parquet(path, row_group_size=40)
    monkeypatch.setattr(rows, "LARGE_DICTIONARY", 0)
    monkeypatch.setattr(rows, "_decoded", {})
    read: list[tuple[object, ...]] = []
    collect = rows._collect

    def note(scan: pl.LazyFrame, names: list[str], places: range) -> pl.DataFrame:
        read.append((*names, places))
        return collect(scan, names, places)

    monkeypatch.setattr(rows, "_collect", note)
    table = load_table(path).rows
    for start in range(0, 100, 15):
        part = table.slice(start, 15).load(["text"]).frame
        assert part["text"].to_list() == frame["text"][start : start + 15].to_list()
    assert read == [("text", range(40)), ("text", range(40, 80)), ("text", range(80, 100))]
    assert table.slice(35, 50).load().frame.equals(frame[35:85])
    both = [("text", "n", places) for places in (range(40), range(40, 80), range(80, 100))]
    assert read[3:] == [*both, ("list", range(35, 85))]
    assert [str(key)[-15:-1] for key in rows._decoded] == ["range(80, 100)"]  # a part was asked for last
    table.slice(90, 10).load()
    assert rows._decoded == {}  # nothing stays behind the last part of a group


def test_a_footer_that_says_nothing_of_dictionaries_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is too long to look through, cut off or nonsense has no groups, and ends nothing."""
    path = tmp_path / "rows.parquet"
    FRAME.write_parquet(path)
    monkeypatch.setattr(rows, "LARGE_DICTIONARY", 0)
    whole = path.read_bytes()
    assert rows._find_groups(path, 0)[0] == [range(50)]
    monkeypatch.setattr(rows, "_LONGEST_FOOTER", 10)
    assert rows._find_groups(path, 1) == ([], frozenset())
    monkeypatch.undo()
    random = Random(3)
    contents = [b"", b"PAR1", whole[:-9] + whole[-8:], whole[:-8] + b"\xff" * 8]
    contents += [whole[:-8] + random.randbytes(size) + whole[-8:] for size in range(1, 300, 12)]
    contents += [
        random.randbytes(size) + (size - 8).to_bytes(4, "little") + b"PAR1" for size in range(8, 300, 6)
    ]
    for number, content in enumerate(contents):
        path.write_bytes(content)
        groups, large = rows._find_groups(path, number + 2)
        assert len(groups) <= len(content)
        assert len(large) <= len(content)
