from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from tests.processes import run_python

from answerkey.datasets import tables
from answerkey.datasets.tables import load_rows, load_table
from answerkey.errors import DataError, Problems

Write = Callable[[str, str | bytes], Path]
pytestmark = pytest.mark.usefixtures("way")


@pytest.mark.parametrize("name", ["a", "a.txt", "a.xlsx", "a.csv.zip", "a.gz", "csv"])
def test_an_unknown_ending_is_refused(write: Write, name: str) -> None:
    """A name whose ending names no format gives E201 with the endings there are."""
    with pytest.raises(DataError, match=r"(?s)E201.*endings: `\.csv`, `\.tsv`, `\.jsonl`"):
        load_table(write(name, gzip.compress(b"a\n1\n", mtime=0) if name == "a.gz" else "a\n1\n"))


def test_endings_may_be_upper_case_and_names_may_hold_dots(write: Write) -> None:
    """Only the last endings of a name count, in any case."""
    assert len(load_table(write("mmlu.v1.2.CSV", "a\n1\n")).samples) == 1


def test_rows_in_memory_are_samples() -> None:
    """Lists of mappings become samples like the rows of a JSON file."""
    samples = load_rows([{"a": 1, "b": ("x",)}, {"a": 2}], name="rows").samples
    assert [dict(row) for row in samples.rows()] == [{"a": 1, "b": ["x"]}, {"a": 2, "b": None}]
    assert str(samples.place(1, "b")) == "rows:2, column `b`"


def test_the_digest_of_a_file_is_that_of_its_content(write: Write) -> None:
    """Files with the same bytes have the same digest, whatever their names."""
    first = load_table(write("a.csv", "a,b\n1,2\n")).digest
    assert first == load_table(write("b.csv", "a,b\n1,2\n")).digest
    assert first != load_table(write("c.csv", "a,b\n1,3\n")).digest


def test_the_digest_of_rows_tells_values_apart() -> None:
    """Rows in memory that differ in a value, a type or a name have other digests.

    Equal ones the same.
    """
    cells: list[object] = ["1", 1, 1.0, None, [1]]
    rows: list[list[dict[str, object]]] = [[{"a": cell}] for cell in cells]
    rows += [[{"b": 1}], [{"a": 1}, {"a": "1"}], [{"a": "1"}, {"a": '"1"'}]]
    digests = [load_rows(row, name="rows").digest for row in rows]
    assert len(set(digests)) == len(rows)
    assert load_rows(pl.DataFrame({"a": [1]}), name="other").digest == digests[1]


@pytest.mark.parametrize(
    ("rows", "ids"),
    [
        ([{"sample_id": "a"}, {"sample_id": " b "}], ["a", " b "]),
        ([{"sample_id": 7}, {"sample_id": 8}], ["7", "8"]),
        ([{"sample_id": "7"}, {"sample_id": 8}], ["7", "8"]),
        ([{"sample_id": 2**70}, {"sample_id": 1}], ["1180591620717411303424", "1"]),
        (pl.DataFrame({"sample_id": pl.Series([3, 4], dtype=pl.UInt16)}), ["3", "4"]),
    ],
)
def test_columns_become_ids(rows: pl.DataFrame | list[dict[str, object]], ids: list[str]) -> None:
    """Text and whole numbers of any width are ids; the column itself keeps its values."""
    samples = load_rows(rows, name="rows").samples
    assert samples.ids.to_list() == ids
    records = rows.to_dicts() if isinstance(rows, pl.DataFrame) else rows
    assert samples.values("sample_id") == [record["sample_id"] for record in records]


def test_bad_ids_are_reported_together(write: Write) -> None:
    """Empty, unsuitable and repeated ids give E208, a repeated one with both lines."""
    rows = ['"x"', "1", "null", '""', "1.5", "true", '"1"', '"x"']
    path = write("a.jsonl", "\n".join(f'{{"sample_id": {row}}}' for row in rows))
    with pytest.raises(Problems) as caught:
        load_table(path)
    assert {error.code for error in caught.value.errors} == {"E208"}
    assert [(error.message, error.where and error.where.line) for error in caught.value.errors] == [
        ("sample id null is not text or a whole number", 3),
        ('sample id "" is not text or a whole number', 4),
        ("sample id 1.5 is not text or a whole number", 5),
        ("sample id true is not text or a whole number", 6),
        ("sample id `1` is used twice, first on line 2", 7),
        ("sample id `x` is used twice, first on line 1", 8),
    ]


def test_a_large_file_is_kept_in_a_temporary_file_until_the_end(tmp_path: Path) -> None:
    """CSV is written once as JSON Lines; its rows are those of the file, and nothing is left."""
    (tmp_path / "rows.csv").write_text("q,n\n" + "".join(f"q {n},{n}\n" for n in range(500)))
    script = (
        "import glob, tempfile; from answerkey.datasets import tables; tables.HELD_BYTES = 99;"
        "rows = tables.load_table('rows.csv').rows; sample = rows.slice(450, 1).load().items[0];"
        "print(sample.fields['n'], sample.line, len(glob.glob(tempfile.gettempdir() + '/*')))"
    )
    folder = tmp_path / "temporary"
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = run_python("-c", script, check=True, cwd=tmp_path, env=environment)
    assert done.stdout.split() == ["450", "452", "1"]
    assert list(folder.iterdir()) == []


def test_a_full_disk_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E201 names the folder of temporary files, and how to choose another."""
    (tmp_path / "rows.csv").write_text("q,n\n" + "a,b\n" * 50)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tables, "HELD_BYTES", 9)
    monkeypatch.setattr(tempfile, "mkstemp", fail)
    with pytest.raises(DataError, match=r"(?s)E201.*No space left on device.*TMPDIR=FOLDER"):
        load_table(tmp_path / "rows.csv")
