"""Laws of exported rows: JSON that is valid, CSV for spreadsheets, the same however much is read at
once.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.projects import write_task

import answerkey as ak
from answerkey.evaluate import reopen
from answerkey.exporters import FORMS, describe_verdict, export, to_json
from answerkey.exporters.rows import guard_column
from answerkey.reports import samples
from answerkey.runs import Run
from answerkey.spec import job

ROWS = [
    {"sample_id": f"s{n}", "answer": "E" if n % 9 == 8 else "AB"[n % 2], "completion": "ABX"[n % 3]}
    for n in range(50)
]


def test_values_stored_as_json_text_are_decoded() -> None:
    """Only fields named as encoded are; the placeholder of an empty struct is not shown.

    `excluded_by` is there only when it says something.
    """
    about = {"status": "SCORED", "reason": None}
    stored = {**about, "values": {"size": '"big"', "length": 2.0}, "metadata": {"_": None}}
    decoded = {**about, "values": {"size": "big", "length": 2.0}, "metadata": {}}
    assert describe_verdict({**stored, "excluded_by": None}, {"size"}) == decoded
    excluded = describe_verdict({**stored, "excluded_by": "drop"}, {"size"})
    assert excluded == decoded | {"excluded_by": "drop"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"a": float("nan"), "b": [float("inf")]}, '{"a": null, "b": [null]}'),
        ({"day": date(2026, 1, 2)}, '{"day": "2026-01-02"}'),
        ({"é": "答"}, '{"é": "答"}'),
    ],
)
def test_json_is_always_valid(content: object, text: str) -> None:
    """Numbers that JSON lacks become null, dates their text, every script stays."""
    assert to_json(content) == text


# ── CSV that people open in a spreadsheet


#: Formulas, with a mark where the apostrophe comes to stand.
FORMULAS = [
    "‸=1+1",
    "‸@SUM(A1)",
    "‸+cmd|' /C calc'!A0",
    "‸-2+3+cmd|' /C calc'!A0",
    "\t‸=1",
    "\r‸=1",
]
FORMULAS += ["\n‸=1", " ‸=1", "‸＝1", "‸- item", "a;‸=HYPERLINK(1)", 'a;"‸=1"', "a\n‸=1\n‸@b"]
FORMULAS += ["‸=1+1", "a\t‸--cmd|x"]
#: Numbers, lone signs, lists within a text and everything else are as they were.
HARMLESS = ["B", "", "a=b", "a - b", "x@y.z", "5", "-5", "+1.5e-3", "-.5", "-", "+", "1-2"]
HARMLESS += ["Options:\n- one\n- two", "a, b; c"]


@pytest.mark.parametrize("marked", [*FORMULAS, *HARMLESS])
def test_what_would_be_computed_is_text(marked: str) -> None:
    """An apostrophe stands before whatever begins like a formula, where a cell begins or may
    begin.
    """
    column = pl.Series("text", [marked.replace("‸", ""), None])
    assert guard_column(column).to_list() == [marked.replace("‸", "'"), None]


@given(st.lists(st.text(), min_size=1))
def test_no_cell_begins_a_formula(texts: list[str]) -> None:
    """Whatever the text, its first sign is none that is computed, unless all of it is a number or a
    sign.

    Columns that hold no text are left alone.
    """
    for shown in guard_column(pl.Series("text", texts)):
        if shown.lstrip()[:1] in {"=", "@", "+", "-"} and shown.strip() not in {"+", "-"}:
            float(shown)
    assert guard_column(pl.Series("n", [-1.0, 2.0])).to_list() == [-1.0, 2.0]


@pytest.mark.parametrize(
    "unseen", ["\x1c", "\x00", "\x7f", "\x85", "\ufeff", "\u200b", "\u200e", "\u2060"]
)
def test_what_nobody_sees_hides_no_formula(unseen: str) -> None:
    """In front of a cell, and after what other programs take for the end of one."""
    column = pl.Series("x", [f"{unseen}=1+1", f"x;{unseen}@SUM(1)", f"{unseen}x"])
    guarded = [f"{unseen}'=1+1", f"x;{unseen}'@SUM(1)", f"{unseen}x"]
    assert guard_column(column).to_list() == guarded


# ── what is read part by part says the same as what is read at once
# ───────────────────────────────────────


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a run in chunks of seven rows."""
    monkeypatch.setattr(job, "CHUNK_ROWS", 7)
    task, dataset = write_task(tmp_path / "task.yaml"), tmp_path / "rows.parquet"
    pl.DataFrame(ROWS).write_parquet(dataset)
    return ak.run(task, dataset=dataset, out=tmp_path / "run", allow_failed=5)


@pytest.mark.parametrize("form", FORMS)
def test_an_export_does_not_depend_on_how_much_is_read_at_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """JSON Lines, CSV and Parquet have the same rows in the same order."""
    written: list[object] = []
    for count in (1000, 4):
        monkeypatch.setattr(reopen, "READ_ROWS", count)
        file = tmp_path / f"{count}.{form}"
        result = export(run, form, file)
        assert result.rows + result.left_out == 50
        written.append(pl.read_parquet(file).to_dicts() if form == "parquet" else file.read_text())
    assert written[0] == written[1]


def test_a_sample_is_found_in_any_part(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain` reads the part that has the sample, and shows its own row, completion and
    verdict.
    """
    monkeypatch.setattr(samples, "READ_IDS", 5)
    for place in (0, 6, 7, 23, 49):
        (sample,) = ak.explain(run, f"s{place}").samples
        assert sample["sample"]["sample_id"] == f"s{place}"
        assert sample["completion"] == "ABX"[place % 3]
        (score,) = sample["scores"].values()
        assert score["metadata"]["ground_truth_choice"] == "AB"[place % 2]
    with pytest.raises(ak.RunError, match="there is no sample `s50`"):
        ak.explain(run, "s50")
