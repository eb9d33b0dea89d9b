from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from answerkey.datasets import blocks, content, formats, tables
from answerkey.datasets.tables import FileFields, Table, load_table
from answerkey.errors import DataError, SpecError

ROWS: list[dict[str, object]] = [{"q": f"question {n}", " odd": n or "zero", "list": [n]} for n in range(40)]
HOUR = 3600.0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let files of more than a hundred bytes be large, and return the cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(tables.VARIABLE, raising=False)
    monkeypatch.setattr(content, "HELD_BYTES", 100)
    return tmp_path / "cache" / "answerkey" / "tables"


def write_rows(path: Path, rows: list[dict[str, object]] = ROWS) -> Path:
    """Write rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def list_entries(folder: Path) -> list[Path]:
    """Return the files in the cache, by name."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def describe(table: Table) -> object:
    """Return all that is known of a table."""
    samples = table.samples
    lines = None if samples.lines is None else samples.lines.to_list()
    rows = [dict(row) for row in samples.rows()]
    return rows, samples.ids.to_list(), lines, samples.encoded, table.digest, table.notices


def test_a_large_file_is_read_once(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time its rows, lines, notices and digest come from the cache, whatever its name is then."""
    first = load_table(write_rows(tmp_path / "a.jsonl"))
    assert len(list_entries(folder)) == 1
    assert str(first.rows.file).endswith("a.jsonl")
    monkeypatch.setattr(formats, "parse_json", None)
    assert describe(load_table(tmp_path / "a.jsonl")) == describe(first)
    (tmp_path / "a.jsonl").rename(tmp_path / "b.jsonl")
    again = load_table(tmp_path / "b.jsonl")
    assert str(again.notices[0].where) == str(tmp_path / "b.jsonl")
    assert again.samples.frame.equals(first.samples.frame)


def test_the_format_and_the_typing_are_part_of_the_name(tmp_path: Path, folder: Path) -> None:
    """The same bytes read in another way are another table; compression makes no difference."""
    text = "n,m\n" + "".join(f"{n},{n}\n" for n in range(60))
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "a.tsv").write_text(text.replace(",", "\t"))
    assert load_table(tmp_path / "a.csv").samples.values("n")[:2] == ["0", "1"]
    assert load_table(tmp_path / "a.csv.gz").samples.values("n")[:2] == ["0", "1"]
    assert len(list_entries(folder)) == 1
    assert load_table(tmp_path / "a.csv", FileFields(columns={"n": "int"})).samples.values("n")[:2] == [0, 1]
    load_table(tmp_path / "a.tsv")
    assert len(list_entries(folder)) == 3


def test_a_file_that_is_refused_leaves_nothing(tmp_path: Path, folder: Path) -> None:
    """Neither an entry nor a draft stays behind; one that fits is held in memory."""
    load_table(write_rows(tmp_path / "a.jsonl", [{"q": 1}]))
    path = write_rows(tmp_path / "a.jsonl")
    path.write_text(path.read_text() + "{\n")
    with pytest.raises(DataError, match="not valid JSON"):
        load_table(path)
    assert list_entries(folder) == []


def test_a_damaged_entry_is_made_anew(tmp_path: Path, folder: Path) -> None:
    """A changed entry is named, and built again; even one that can be read has other values then."""
    first = load_table(write_rows(tmp_path / "a.jsonl"))
    (entry,) = list_entries(folder)
    raw = entry.read_bytes()
    assert b"question 0" in raw
    for damaged in (b"PAR1 no more", raw.replace(b"question 0", b"question 8"), raw[:-1]):
        entry.write_bytes(damaged)
        again = load_table(tmp_path / "a.jsonl")
        told = f"the table cache was damaged: `{entry}` is built again from `{tmp_path / 'a.jsonl'}`"
        assert again.notices[-1].message == told
        assert describe(replace(again, notices=first.notices)) == describe(first)
        assert entry.read_bytes() == raw
        assert load_table(tmp_path / "a.jsonl").notices == first.notices
    assert folder.stat().st_mode & 0o077 == 0, "rows of a dataset are nobody else's business"


def test_the_cache_can_be_switched_off(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is then a temporary file, and says the same."""
    first = describe(load_table(write_rows(tmp_path / "a.jsonl")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    monkeypatch.setenv(tables.VARIABLE, "off")
    assert describe(load_table(tmp_path / "a.jsonl")) == first
    assert not (tmp_path / "other").exists()
    assert len(list_entries(folder)) == 1


def test_a_setting_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is neither `off` nor a number of gigabytes is E119."""
    for setting in ("big", "-1", "nan"):
        monkeypatch.setenv(tables.VARIABLE, setting)
        with pytest.raises(SpecError, match=r"E119.*ANSWERKEY_TABLE_CACHE"):
            load_table(write_rows(tmp_path / "a.jsonl"))


def test_a_folder_that_cannot_be_used_is_said_aloud(tmp_path: Path, folder: Path) -> None:
    """The rows are read all the same, each time."""
    folder.parent.parent.mkdir()
    folder.parent.write_text("in the way")
    table = load_table(write_rows(tmp_path / "a.jsonl"))
    assert len(table.rows) == 40
    assert table.notices[-1].message.endswith("; large files are read each time")


def test_the_oldest_entries_make_room(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the cache is full, what was not used for longest goes first; what may be in use stays."""
    paths = [write_rows(tmp_path / f"{n}.jsonl", [{"q": n, "i": i} for i in range(30)]) for n in range(4)]
    names: list[Path] = []
    for age, path in zip((5, 9, 0), paths, strict=False):
        load_table(path)
        (entry,) = [one for one in list_entries(folder) if one not in names]
        names.append(entry)
        used = entry.stat().st_mtime - age * HOUR
        os.utime(entry, (used, used))
    (folder / ".draft-old").mkdir()
    os.utime(folder / ".draft-old", (0, 0))
    size = names[0].stat().st_size
    monkeypatch.setenv(tables.VARIABLE, str(3.5 * size / tables.GIGABYTE))
    load_table(paths[3])
    left = list_entries(folder)
    assert [name in left for name in names] == [True, False, True]
    assert len(left) == 3
    monkeypatch.setenv(tables.VARIABLE, str(1 / tables.GIGABYTE))
    load_table(write_rows(tmp_path / "5.jsonl"))
    assert len(list_entries(folder)) == 3, "only what was used within the hour is left"


def test_two_processes_may_read_the_same_file(tmp_path: Path, folder: Path) -> None:
    """Both get the rows, and one entry is left."""
    path = write_rows(tmp_path / "a.jsonl", [{"n": n, "text": "x" * 50} for n in range(2000)])
    script = (
        "import sys; from answerkey.datasets import content, tables; content.HELD_BYTES = 100;"
        "print(len(tables.load_table(sys.argv[1]).samples))"
    )
    command = [sys.executable, "-c", script, str(path)]
    several = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    assert [one.communicate()[0].strip() for one in several] == [b"2000"] * 2
    assert len(list_entries(folder)) == 1


@pytest.mark.parametrize("ending", ["parquet", "parquet.gz", "arrow"])
def test_binary_files_with_foreign_types_are_kept_as_ours(
    tmp_path: Path, folder: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that needs a look at every value is the same whether the file is held or read in blocks."""
    monkeypatch.setattr(formats, "CHUNK_ROWS", 7)
    dates = pl.date_range(pl.date(2026, 1, 1), pl.date(2026, 1, 30), eager=True)
    frame = pl.DataFrame(
        {
            "day": dates,
            "text": [b"text"] * 30,
            "raw": [b"ok"] * 29 + [b"\xff"],
            "large": pl.Series([1] * 29 + [2**64 - 1], dtype=pl.UInt64),
            "none": pl.Series([None] * 30, dtype=pl.Int16),
            "n": range(30),
        }
    )
    path = tmp_path / f"rows.{ending}"
    if ending == "arrow":
        frame.write_ipc(path)
    else:
        frame.write_parquet(path)
    if ending.endswith("gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    streamed = load_table(path)
    assert len(list_entries(folder)) == 1
    monkeypatch.setattr(content, "HELD_BYTES", 10**9)
    held = load_table(path)
    assert describe(streamed) == describe(held)
    assert streamed.samples.frame.schema == held.samples.frame.schema
    assert streamed.samples.row(29)["large"] == 2**64 - 1
    assert [one.message for one in streamed.notices] == [
        "column `raw` holds bytes; templates see them in base64"
    ]


@pytest.mark.parametrize("write", [(pl.LazyFrame, "sink_parquet"), (pl.DataFrame, "write_ipc")])
def test_a_full_disk_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: tuple[type, str]
) -> None:
    """Where no table can be written the rows are held in memory, and that is said aloud."""
    monkeypatch.setattr(formats, "CHUNK_ROWS", 9)  # the chunks are uneven
    path = write_rows(tmp_path / "a.jsonl")
    first = load_table(path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*write, fail)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    table = load_table(path)
    assert table.samples.frame.equals(first.samples.frame)
    assert "is held in memory" in table.notices[-1].message
    assert list_entries(tmp_path / "other" / "answerkey" / "tables") == []


EVEN = [f'{{"n": {n}, "t": "x"}}' for n in range(40)]


@pytest.mark.parametrize(
    "lines",
    [
        EVEN,
        [*EVEN, '{"n": "a", "t": "x"}'],
        [*EVEN, '{"n": 1, "t": "x", "new": 1}'],
        [*EVEN[:30], "", *EVEN[30:]],
        ["", *EVEN[:3], "", *EVEN[3:]],
        [*EVEN, *(f'{{"n": {n}, "t": "{"x" * 900}"}}' for n in range(20))],
        [*EVEN[:20], *(one.replace('"x"', '["x"]') for one in EVEN[20:])],
    ],
    ids=["even", "mixed", "new column", "blank line", "blank lines", "large rows", "lists"],
)
@pytest.mark.parametrize("is_early", [False, True])
def test_chunks_of_all_kinds_are_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], *, is_early: bool
) -> None:
    """Whether rows are held in memory, written as they come, or once all are known; so are the lines."""
    sink = pl.LazyFrame.sink_parquet

    def write(*given: object, metadata: object, **options: object) -> object:
        return sink(*given, metadata=metadata(None) if callable(metadata) else metadata, **options)  # type: ignore[call-overload]  # as it was called

    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    with monkeypatch.context() as patched:
        patched.setattr(content, "HELD_BYTES", 2**20)
        held = describe(load_table(path))
    monkeypatch.setattr(formats, "CHUNK_ROWS", 8)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 90)
    if is_early:  # a writer that asks too early what is known of the table
        monkeypatch.setattr(pl.LazyFrame, "sink_parquet", write)
    assert describe(load_table(path)) == held
    assert describe(load_table(path)) == held
