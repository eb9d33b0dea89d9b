"""What a finished run is read from again."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest

import answerkey as ak
from answerkey.evaluate.reopen import DerivedRows, reopen

HEADER = ["name", "question", "A", "B", "answer", "completion"]


@pytest.mark.parametrize("named_by", ["name", ""])
def test_rows_of_a_recognised_file_are_derived_when_they_are_loaded(
    tmp_path: Path, named_by: str
) -> None:
    """Some of them are what they are among all of them, with the ids of the run."""
    file = tmp_path / "rows.csv"
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(HEADER)
        for number in range(20):
            writer.writerow([f"s{number}", f"{number}?", "one", "two", "AB"[number % 2], "A"])
    columns = {"id": named_by} if named_by else {}
    opened = reopen(ak.run(file, columns=columns, out=tmp_path / "run"))
    assert isinstance(opened.dataset.table, DerivedRows)
    whole = next(opened.iterate())
    some = opened.read(pl.Series([3, 11]))
    assert some.samples.ids.to_list() == (["s3", "s11"] if named_by else ["000004", "000012"])
    assert some.scores["sample_id"].to_list() == some.samples.ids.to_list()
    assert some.samples.items == whole.samples.take([3, 11]).items
    assert some.samples.row(0)["options"] == ["one", "two"]
    assert opened.dataset.rows.ids.to_list() == whole.scores["sample_id"].to_list()
