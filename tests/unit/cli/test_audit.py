from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[..., Any]


def test_audit_prints_readers_and_findings(call: Call, run_folder: Path) -> None:
    """The text has a line for each rule and lens, reasons, letters and findings; the exit code is 0."""
    found = call("audit", run_folder)
    assert found.code == 0
    for word in (
        "first_character (this run)",
        "stated_answer",
        "lm-eval",
        "MMLU-Pro",
        "Invalid because",
        "Findings",
    ):
        assert word in found.out


def test_audit_as_json_is_one_object(call: Call, run_folder: Path) -> None:
    """`--json` has the numbers behind the text."""
    task = call("audit", run_folder, "--json").json["audit"]["tasks"][0]
    assert (task["key"], task["n"], task["extraction"]) == ("small", 4, "first_character")
    assert task["readers"][0]["kind"] == "own"
    assert task["chance"] == 1 / 3
    assert {one["kind"] for one in task["findings"]} == {"INVALID", "NO_TEXT"}


def test_findings_do_not_fail_a_run(call: Call, project: Path) -> None:
    """Whatever is found, the exit code is 0."""
    rows = [{"answer": "A", "completion": "B"}] * 40
    (project / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ("score", project / "task.yaml", "--dataset", project / "rows.jsonl", "--out", project / "bad")
    assert call(*words).code == 0
    found = call("audit", project / "bad", "--json")
    assert found.code == 0
    assert "CHANCE_LEVEL" in found.out


def test_audit_of_what_is_no_run(call: Call, tmp_path: Path) -> None:
    """A folder without a run is refused."""
    assert call("audit", tmp_path, "--json").json["error"]["code"] == "E501"


def test_clean_needs_its_column(call: Call, run_folder: Path) -> None:
    """`--clean` without `--label-quality` says what is missing."""
    found = call("audit", run_folder, "--clean", "ok")
    assert found.code == 2
    assert "name it with `--label-quality COLUMN`" in found.err


def test_metrics_on_clean_rows(call: Call, project: Path) -> None:
    """With a column of label qualities every metric stands there twice."""
    rows = [{"answer": "A", "completion": "A", "q": "ok"}, {"answer": "A", "completion": "B", "q": "bad"}]
    (project / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ("score", project / "task.yaml", "--dataset", project / "rows.jsonl", "--out", project / "two")
    assert call(*words).code == 0
    found = call("audit", project / "two", "--label-quality", "q")
    assert "Clean rows: 1 of 2, where q is ok" in found.out
    clean = call("audit", project / "two", "--label-quality", "q", "--json").json["audit"]["tasks"][0][
        "clean"
    ]
    assert [(one["name"], one["value"], one["n"]) for one in clean["metrics"]] == [("Accuracy", 1.0, 1)]


def test_every_summary_has_the_short_form(call: Call, run_folder: Path) -> None:
    """The summary of a run says what other rules would read, and the chance level."""
    shown = call("show", run_folder)
    assert "first_character (this run)" in shown.out
    assert "chance level 33.33 %" in shown.out
    readings = call("show", run_folder, "--json").json["tasks"][0]["tally"]["readings"]
    assert readings["n"] == 4
    assert readings["rules"]["own"] == {"correct": 1, "invalid": 3}


def test_the_short_form_says_how_many_it_read(call: Call, project: Path) -> None:
    """Of more than 1,000 completions so many stand for all, and the summary says so."""
    rows = [{"answer": "A", "completion": "The answer is A."}] * 2100
    (project / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ("score", project / "task.yaml", "--dataset", project / "rows.jsonl", "--out", project / "many")
    shown = call(*words).out
    assert "on 1000 of 2100 completions, drawn at random; `answerkey audit` reads all" in shown
    assert "0.0 % by the first character; 100.0 % by the answers that the texts state" in shown
