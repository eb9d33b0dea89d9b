from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
ROWS = [
    {"question": "Which city?", "options": ["Sydney", "Canberra"], "answer": "B", "note": "ok"},
    {"question": "Which town?", "options": ["Sydney", "Sydney"], "answer": "C", "note": "bad"},
]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Return a data file."""
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    return path


def test_findings_with_their_lines(call: Call, rows: Path) -> None:
    """The text has the numbers, then each finding with rows that show it; the exit code is 0."""
    found = call("audit-dataset", rows)
    assert found.code == 0
    assert "1 of 2 (50.0 %) rows have a truth that is none of their choices." in found.out
    assert "000002  line 2  'C', choices A, B" in found.out
    assert "chance level           50.00 %" in found.out


def test_as_json(call: Call, rows: Path) -> None:
    """`--json` has every finding with its examples."""
    (dataset,) = call("audit-dataset", rows, "--json").json["datasets"]
    assert [one["kind"] for one in dataset["findings"]] == ["TRUTH_NOT_A_CHOICE", "DUPLICATE_OPTIONS"]
    assert dataset["findings"][0]["examples"] == [
        {"sample": "000002", "file": str(rows), "line": 2, "note": "'C', choices A, B"}
    ]
    assert dataset["all"]["chance"] == 0.5


def test_columns_are_named_by_options(call: Call, tmp_path: Path) -> None:
    """Question, options, labels and truth may be named; a wrong name is an error."""
    path = tmp_path / "other.csv"
    path.write_text("frage,a1,a2,wahr\nWelche?,x,y,1\nWer?,x,y,2\n", encoding="utf-8")
    words = ("--question", "frage", "--options", "a1", "--options", "a2", "--truth", "wahr")
    (dataset,) = call("audit-dataset", path, *words, "--truth-form", "number", "--json").json["datasets"]
    assert dataset["all"]["labels"] == {"A": 1, "B": 1}
    wrong = call("audit-dataset", path, "--question", "frge", "--json").json["error"]
    assert (wrong["code"], wrong["hint"]) == ("E206", "did you mean `frage`?")


def test_a_project_is_looked_at_by_its_task(call: Call, project: Path) -> None:
    """A task file needs a dataset, and its scorer says where the truth is."""
    (dataset,) = call(
        "audit-dataset", project / "task.yaml", "--dataset", project / "rows.jsonl", "--json"
    ).json["datasets"]
    assert (dataset["rows"], dataset["fields"]["truth"], dataset["all"]["n"]) == (4, "answer", 4)


def test_header_clean_rows_and_no_duplicates(call: Call, tmp_path: Path, rows: Path) -> None:
    """A headerless file, a column of label qualities, and leaving out the search for duplicates."""
    path = tmp_path / "plain.csv"
    path.write_text("Which?,x,y,A\nWhich?,x,y,A\n", encoding="utf-8")
    found = call("audit-dataset", path, "--header", "question, A, B, answer", "--no-duplicates")
    assert "nothing stands out" in found.out
    assert "repeat a question" in call("audit-dataset", path, "--header", "question,A,B,answer").out
    split = call("audit-dataset", rows, "--label-quality", "note", "--clean", "ok", "--json").json[
        "datasets"
    ][0]
    assert (split["all"]["n"], split["clean"]["n"]) == (1, 1)
    assert call("audit-dataset", rows, "--clean", "ok").code == 2


def test_what_is_not_there(call: Call, tmp_path: Path) -> None:
    """A file that does not exist is an error, with exit code 2."""
    assert call("audit-dataset", tmp_path / "none.jsonl").code == 2
