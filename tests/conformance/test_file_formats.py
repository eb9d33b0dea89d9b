"""The same rows in every file format and compression are the same samples."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import zstandard

from answerkey.datasets import tables
from answerkey.datasets.cells import ColumnKind
from answerkey.datasets.dataset import Dataset, Selection, open_dataset
from answerkey.datasets.recorded import match_completions
from answerkey.datasets.sources import LocalSource
from answerkey.datasets.tables import load_rows, load_table
from answerkey.templates import RowFilter

TEXTS = [
    "What is 2 + 2?",
    'He said "no", then left; why?',
    "two\nlines",
    " spaces around ",
    "日本語 — ½ 😀",
    "",
    "007",
    "None",
    "{{ sample.answer }}",
    "tab\there",
]
ROWS: list[dict[str, object]] = [
    {
        "sample_id": f"q-{n:03d}",
        "question": TEXTS[n % len(TEXTS)],
        "choices": ["A", "B", "C", "D"][: 2 + n % 3],
        "answer": "ABCD"[n % 2],
        "index": n - 20,
        "weight": n / 8,
        "is_hard": n % 3 == 0,
        "subject": ["logic", "history", "art"][n % 7 % 3],
        "completion": [f" {'ABCD'[n % 4]}", "B. Paris", ""][n % 3],
    }
    for n in range(60)
]
#: The columns of CSV and TSV whose cells are no plain text.
TYPES: dict[str, ColumnKind]
TYPES = {"choices": "list", "index": "int", "weight": "json", "is_hard": "json"}


def write_delimited(separator: str) -> bytes:
    """Return the rows as CSV or TSV, with lists, numbers and booleans as JSON."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=separator)
    writer.writerow(ROWS[0])
    for row in ROWS:
        cells = [cell if isinstance(cell, str) else json.dumps(cell) for cell in row.values()]
        writer.writerow(cells)
    return buffer.getvalue().encode()


def write_frame(write: Callable[[pl.DataFrame, io.BytesIO], object]) -> bytes:
    """Return the rows in a binary format."""
    buffer = io.BytesIO()
    write(pl.DataFrame(ROWS), buffer)
    return buffer.getvalue()


WRITERS: dict[str, Callable[[], bytes]] = {
    "csv": lambda: write_delimited(","),
    "tsv": lambda: write_delimited("\t"),
    "jsonl": lambda: "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS).encode(),
    "ndjson": lambda: "\r\n".join(json.dumps(row) for row in ROWS).encode(),
    "json": lambda: json.dumps(ROWS, indent=2).encode(),
    "parquet": lambda: write_frame(pl.DataFrame.write_parquet),
    "arrow": lambda: write_frame(pl.DataFrame.write_ipc),
    "ipc": lambda: write_frame(pl.DataFrame.write_ipc_stream),
}
PACK: dict[str, Callable[[bytes], bytes]]
PACK = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


@pytest.fixture(params=[f"{kind}{packing}" for kind in WRITERS for packing in PACK])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the rows in one format and one compression."""
    kind, dot, packing = request.param.partition(".")
    made = tmp_path / f"rows.{request.param}"
    made.write_bytes(PACK[dot + packing](WRITERS[kind]()))
    return made


def open_rows(path: Path, selection: Selection | None = None, *filters: RowFilter) -> Dataset:
    """Return the dataset of a file, typed where its cells are text."""
    columns = TYPES if path.name.startswith(("rows.csv", "rows.tsv")) else {}
    source = LocalSource(file_path=str(path), columns=columns, filters=filters)
    return open_dataset(source, selection=selection, name="rows")


def test_every_format_gives_the_same_samples(path: Path) -> None:
    """Values, their types, the order of columns and rows, and the ids are the same."""
    samples = open_rows(path).samples()
    assert repr([dict(row) for row in samples.rows()]) == repr(ROWS)
    assert samples.ids.to_list() == [row["sample_id"] for row in ROWS]


def test_every_format_gives_the_same_choice(path: Path) -> None:
    """Random and stratified subsampling choose the same samples in every format."""
    chosen = open_rows(path, Selection(5, "random", 11)).samples().ids.to_list()
    assert chosen == ["q-001", "q-014", "q-017", "q-031", "q-050"]
    strata = open_rows(path, Selection(5, "random", 11, "subject")).samples().ids.to_list()
    assert strata == ["q-014", "q-017", "q-037", "q-044", "q-050"]


def test_every_format_gives_the_same_filtered_rows(path: Path) -> None:
    """Filters compare by value, so that they keep the same rows in every format."""
    easy = RowFilter("is_false", "{{ sample.is_hard }}")
    late = RowFilter("greater_than", "{{ sample.index }}", "35")
    chosen = open_rows(path, None, easy, late).samples().ids.to_list()
    assert chosen == ["q-056", "q-058", "q-059"]


def test_every_format_gives_the_same_completions(path: Path) -> None:
    """Recorded completions are the same text in every format, without any typing."""
    samples = load_rows(ROWS[::-1], name="reversed").samples
    dataset = Dataset.of(samples, name="reversed")
    completions = match_completions(load_table(path).rows, dataset).read(samples)
    expected = [row["completion"] for row in ROWS[::-1]]
    assert completions.frame["completion"].to_list() == expected
    assert completions.frame["status"].unique().to_list() == ["OK"]


@pytest.mark.parametrize("selection", [None, Selection(7, "random", 3)], ids=["all", "some"])
def test_every_format_is_the_same_when_it_is_read_from_a_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, selection: Selection | None
) -> None:
    """A file that is too large to be held has the same rows, ids, lines, fingerprint and choice."""
    held = open_rows(path, selection)
    monkeypatch.setattr(tables, "HELD_BYTES", 0)
    streamed = open_rows(path, selection)
    assert streamed.fingerprint == held.fingerprint
    assert list(streamed.samples()) == list(held.samples())
    assert streamed.notices == held.notices
