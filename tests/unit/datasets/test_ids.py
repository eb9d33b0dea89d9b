from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from answerkey.datasets.tables import load_rows, load_table
from answerkey.errors import AnswerkeyError

Write = Callable[[str, str | bytes], Path]
pytestmark = pytest.mark.usefixtures("way")


def test_rows_are_numbered_from_one_with_zeros() -> None:
    """Without `sample_id`, ids are row numbers of six digits, and no column is added."""
    samples = load_rows([{"a": "x"}] * 2, name="rows").samples
    assert samples.ids.to_list() == ["000001", "000002"]
    assert samples.columns == ["a"]


@pytest.mark.parametrize(
    ("cells", "ids"),
    [
        (["a", " b "], ["a", " b "]),
        ([7, 8], ["7", "8"]),
        (["7", 8], ["7", "8"]),
        ([2**70, 1], ["1180591620717411303424", "1"]),
    ],
)
def test_the_column_is_the_id_as_text(cells: list[object], ids: list[str]) -> None:
    """Text and whole numbers are ids; the column itself keeps its values."""
    samples = load_rows([{"sample_id": cell} for cell in cells], name="rows").samples
    assert samples.ids.to_list() == ids
    assert samples.values("sample_id") == cells


def test_whole_numbers_of_a_frame_are_ids() -> None:
    """An integer column of any width gives text ids."""
    frame = pl.DataFrame({"sample_id": pl.Series([3, 4], dtype=pl.UInt16)})
    assert load_rows(frame, name="frame").samples.ids.to_list() == ["3", "4"]


def test_bad_ids_are_reported_together(write: Write) -> None:
    """Empty, unsuitable and repeated ids give E208, a repeated one with both lines."""
    rows = ['"x"', "1", "null", '""', "1.5", "true", '"1"', '"x"']
    path = write("a.jsonl", "\n".join(f'{{"sample_id": {row}}}' for row in rows))
    with pytest.raises(AnswerkeyError) as caught:
        load_table(path)
    errors: list[AnswerkeyError] = list(getattr(caught.value, "errors", ()))
    assert {error.code for error in errors} == {"E208"}
    assert [(error.message, error.where and error.where.line) for error in errors] == [
        ("the sample id is empty", 3),
        ("the sample id is empty", 4),
        ("sample id 1.5 is not text or a whole number", 5),
        ("sample id true is not text or a whole number", 6),
        ("sample id `1` is used twice, first on line 2", 7),
        ("sample id `x` is used twice, first on line 1", 8),
    ]


def test_a_column_of_fractions_is_no_id() -> None:
    """A float column gives E208: a missing whole number often turns a column into floats."""
    with pytest.raises(AnswerkeyError, match=r"sample id 1\.0 is not text or a whole number"):
        load_rows(pl.DataFrame({"sample_id": [1.0]}), name="frame")
