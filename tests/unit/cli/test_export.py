from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from answerkey.cli import main

Call = Callable[..., Any]


def test_jsonl_has_one_object_per_sample(call: Call, run_folder: Path) -> None:
    """The object is the documented one, the sample's own columns included."""
    printed = call("export", run_folder, "--to", "jsonl")
    assert printed.code == 0
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert len(rows) == 4
    assert rows[1] == {
        "sample_id": "000002",
        "trial": 0,
        "completion": "Answer: B",
        "completion_status": "OK",
        "scores": {
            "string_equals_mcqa": {
                "status": "SCORED",
                "reason": None,
                "values": {"is_correct": 0.0},
                "metadata": {
                    "completion_validity": "INVALID",
                    "validity_reason": "PART_OF_A_WORD",
                    "predicted_choice": None,
                    "ground_truth_choice": "B",
                    "choices": ["A", "B", "C"],
                    "extraction_rule": "first_character",
                },
            }
        },
        "sample": {"question": "two", "answer": "B", "completion": "Answer: B"},
    }


def test_csv_columns_are_the_paths(call: Call, run_folder: Path) -> None:
    """Nested values are JSON text; a null is an empty cell."""
    rows = list(csv.DictReader(call("export", run_folder, "--to", "csv").out.splitlines()))
    assert rows[0]["scores.string_equals_mcqa.values.is_correct"] == "1.0"
    assert rows[0]["scores.string_equals_mcqa.metadata.choices"] == '["A", "B", "C"]'
    assert rows[2]["completion"] == ""
    assert rows[2]["completion_status"] == "NO_TEXT"
    assert rows[3]["sample.question"] == "four"


def test_parquet_keeps_types(call: Call, run_folder: Path, tmp_path: Path) -> None:
    """Numbers stay numbers, lists stay lists."""
    file = tmp_path / "rows.parquet"
    assert call("export", run_folder, "--to", "parquet", "-o", file).err == f"4 rows written to {file}\n"
    table = pl.read_parquet(file)
    assert table["scores.string_equals_mcqa.values.is_correct"].to_list() == [1.0, 0.0, 0.0, 0.0]
    assert table.schema["scores.string_equals_mcqa.metadata.choices"] == pl.List(pl.String)


def test_what_is_not_text_needs_a_file(call: Call, run_folder: Path) -> None:
    """Parquet on stdout, and rows beside the object of `--json`, are refused."""
    assert "the rows need a file: Parquet is not text" in call("export", run_folder, "--to", "parquet").err
    assert call("export", run_folder, "--json").json["error"]["code"] == "E119"


def test_json_tells_what_was_written(call: Call, run_folder: Path) -> None:
    """With a file `--json` names it and counts the rows."""
    told = call("export", run_folder, "-o", "rows.jsonl", "--json").json
    assert told == {"export": {"file": "rows.jsonl", "form": "jsonl", "rows": 4}}


def test_unknown_forms_are_refused(call: Call, run_folder: Path) -> None:
    """With the nearest name as a hint."""
    assert "did you mean `jsonl`?" in call("export", run_folder, "--to", "json").err


def test_a_file_that_cannot_be_written_is_an_error(call: Call, run_folder: Path) -> None:
    """E502 with the reason."""
    assert (
        "error[E502]: cannot write `no/rows.csv`"
        in call("export", run_folder, "--to", "csv", "-o", "no/rows.csv").err
    )


def test_a_changed_dataset_cannot_be_exported(call: Call, project: Path, run_folder: Path) -> None:
    """E505: rows that were not scored are never put beside scores."""
    (project / "rows.jsonl").write_text('{"answer": "A", "completion": "A"}\n' * 4, encoding="utf-8")
    assert "error[E505]" in call("export", run_folder).err


def test_numbers_that_json_lacks_become_null(call: Call, project: Path) -> None:
    """A NaN in a Parquet dataset is null in every form."""
    table = pl.DataFrame({"answer": ["A"], "completion": ["A"], "weight": [float("nan")]})
    table.write_parquet(project / "rows.parquet")
    words = ("--dataset", project / "rows.parquet", "--out", "here")
    assert call("score", project / "task.yaml", *words).code == 0
    assert json.loads(call("export", "here").out)["sample"]["weight"] is None
    assert "NaN" not in call("export", "here", "--to", "csv").out


FORMULAS = """\
{"question": "=1+1", "answer": "A", "completion": "=HYPERLINK(\\"http://x\\")", "a;=b": 1}
{"question": "-5", "answer": "B", "completion": "- B"}
"""


@pytest.fixture
def formulas(project: Path, call: Call) -> Path:
    """Return a run whose texts a spreadsheet would compute."""
    (project / "formulas.jsonl").write_text(FORMULAS, encoding="utf-8")
    words = ("score", project / "task.yaml", "--dataset", project / "formulas.jsonl", "--out", project / "f")
    assert call(*words).code == 0
    return project / "f"


def test_csv_holds_no_formula_unless_raw(call: Call, formulas: Path) -> None:
    """A text that begins like a formula has an apostrophe in front; numbers do not; `--raw` has all as is."""
    rows = list(csv.DictReader(call("export", formulas, "--to", "csv").out.splitlines()))
    assert [row["completion"] for row in rows] == ['\'=HYPERLINK("http://x")', "'- B"]
    assert [row["sample.question"] for row in rows] == ["'=1+1", "-5"]
    raw = list(csv.DictReader(call("export", formulas, "--to", "csv", "--raw").out.splitlines()))
    assert [row["completion"] for row in raw] == ['=HYPERLINK("http://x")', "- B"]
    assert ("sample.a;'=b" in rows[0], "sample.a;=b" in raw[0]) == (True, True)


def test_a_file_is_guarded_too(call: Call, formulas: Path, tmp_path: Path) -> None:
    """`-o` writes the same as stdout."""
    printed = call("export", formulas, "--to", "csv").out
    call("export", formulas, "--to", "csv", "-o", tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text() == printed


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_other_forms_are_always_raw(call: Call, formulas: Path, form: str, tmp_path: Path) -> None:
    """`--raw` says nothing where nothing is guarded, and is refused."""
    refused = call("export", formulas, "--to", form, "--raw", "-o", tmp_path / "rows")
    assert refused.code == 2
    assert "`--raw` is for CSV" in refused.err
    assert call("export", formulas, "--to", form, "-o", tmp_path / "rows").code == 0


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.mark.parametrize(("form", "shown"), [("csv", "\\x1b[31mB"), ("jsonl", "\\u001b[31mB")])
def test_a_terminal_is_not_commanded_by_rows(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, form: str, shown: str
) -> None:
    """On a terminal hidden characters are written out; a pipe gets them as they are."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    assert main(["export", str(run_folder), "--to", form]) == 0
    assert shown in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_a_table_may_have_thousands_of_columns(call: Call, project: Path, form: str) -> None:
    """2,500 columns are read from any format, and written as CSV with all their cells."""
    names = [f"c{number}" for number in range(2500)]
    rows = [
        {"question": f"q{row}", "answer": "A", "completion": "A"} | {name: f"={row}{name}" for name in names}
        for row in range(2)
    ]
    table, file = pl.DataFrame(rows), project / f"wide.{form}"
    writer = {"jsonl": "ndjson", "arrow": "ipc"}.get(form, form)
    getattr(table, f"write_{writer}")(file)
    assert call("score", project / "task.yaml", "--dataset", file, "--out", project / "wide").code == 0
    done = call("export", project / "wide", "--to", "csv", "-o", project / "out.csv")
    assert done.code == 0, done.err
    told = pl.read_csv(project / "out.csv", infer_schema=False)
    assert told.select(f"sample.{name}" for name in names).rows() == [
        tuple(f"'={row}{name}" for name in names) for row in range(2)
    ]
