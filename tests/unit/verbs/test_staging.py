"""Rows that are checked and scored in one visit, and those that are checked first, end alike."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak
from answerkey.engines import Spread
from answerkey.evaluate import prepare
from answerkey.evaluate.prepare import Prepared

SCORER = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": "{{ sample.choices }}",
}
#: Rows 3, 7, 11, … are wrong.
ROWS = [
    {
        "answer": "E" if n % 4 == 3 else "AB"[n % 2],
        "choices": ["A", "B"],
        "completion": "ABX"[n % 3],
        "unused": "x" * 50,
    }
    for n in range(100)
]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let shards be small, and temporary files lie where they can be seen."""
    monkeypatch.setattr(prepare, "SHARD_ROWS", 7)
    monkeypatch.setattr(prepare, "SHARD_ROWS", 7)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def score(folder: Path, rows: list[dict[str, Any]], out: str, **changes: Any) -> ak.Run:  # noqa: ANN401 - options
    """Run a task over these rows."""
    definition = {"scorers": [SCORER], **changes.pop("definition", {})}
    task = {"key": "quiz", "display_name": "Quiz", "description": "q", "definition": definition}
    (folder / "task.yaml").write_text(json.dumps(task))
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ak.run(folder / "task.yaml", dataset=str(folder / "rows.jsonl"), out=folder / out, **changes)


def refuse(folder: Path, rows: list[dict[str, Any]], out: str, **changes: Any) -> str:  # noqa: ANN401 - options
    """Return all that is wrong with these rows."""
    with pytest.raises(ak.AnswerkeyError) as caught:
        score(folder, rows, out, **changes)
    return str(caught.value)


@pytest.mark.parametrize("spread", ["alone", "threads", "processes"])
def test_wrong_rows_are_told_the_same_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread: str
) -> None:
    """Twenty are shown, the rest is counted; no run folder is there, and no temporary file."""
    monkeypatch.setattr(prepare, "choose_spread", lambda _: spread)
    monkeypatch.setattr(prepare, "WORKER_ROWS", 10 if spread == "processes" else 10_000)
    told = refuse(tmp_path, ROWS, "run")
    assert told.count("error[E204]") == 21
    assert "sample `000004`: ground truth 'E' is not among the choices" in told
    assert "scorer `string_equals_mcqa`: 5 more rows have the same trouble" in told
    assert "--allow-failed 25" in told
    assert told == refuse(tmp_path, ROWS, "run", copy=True)
    assert not (tmp_path / "run").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_rows_that_may_fail_are_the_same_either_way(tmp_path: Path) -> None:
    """Scores and metrics do not depend on when the rows were checked."""
    one = score(tmp_path, ROWS, "one", allow_failed=25)
    two = score(tmp_path, ROWS, "two", allow_failed=25, copy=True)
    assert one.tasks["quiz"].counts == two.tasks["quiz"].counts
    assert one.tasks["quiz"].counts["failed"] == 25
    assert one.metrics == two.metrics
    assert one.tasks["quiz"].scores.equals(two.tasks["quiz"].scores)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_column_that_is_missing_is_told_once(tmp_path: Path) -> None:
    """All columns that there are are named, also those that the task does not read."""
    rows = [{name: value for name, value in row.items() if name != "choices"} for row in ROWS]
    told = refuse(tmp_path, rows, "run")
    assert told.count("error[E206]") == 1
    assert "`unused`" in told
    assert not (tmp_path / "run").exists()


def test_wrong_rows_come_before_what_fails_in_scoring(tmp_path: Path) -> None:
    """An action that cannot be evaluated is told when the rows are in order, and leaves no run either."""
    rule = {
        "key": "odd",
        "action": "exclude_from_metrics",
        "filter": {"op": "greater_than", "expression": "{{ sample.unused }}", "value": 3},
    }
    told = refuse(tmp_path, ROWS, "run", definition={"actions": [rule]})
    assert "E204" in told
    assert "action `odd`" not in told
    good = [row for row in ROWS if row["answer"] != "E"]
    told = refuse(tmp_path, good, "run", definition={"actions": [rule]})
    assert told.startswith("error[E207]: action `odd`")
    assert not (tmp_path / "run").exists()


def test_what_is_read_is_what_is_needed() -> None:
    """A task reads the columns of its templates, its completions and its category; any column if it may."""
    task = {"key": "quiz", "display_name": "Quiz", "description": "q", "definition": {"scorers": [SCORER]}}
    rows = [{**row, "subject": "s"} for row in ROWS[:3]]
    read: list[object] = []

    def note(prepared: Prepared) -> str:
        read.append(prepared.columns)
        return "alone"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "choose_spread", note)
        ak.score(task, rows)
        anything = {**SCORER, "choices": "{{ sample[sample.unused[:0] ~ 'choices'] }}"}
        ak.score({**task, "definition": {"scorers": [anything]}}, rows)
    assert read == [{"answer", "choices", "completion", "subject"}, None]


def test_rows_are_cut_smaller_where_they_are_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard holds a bearable number of bytes, of which completions in another file are a part."""
    monkeypatch.setattr(prepare, "SHARD_ROWS", 100_000)
    monkeypatch.setattr(prepare, "SHARD_BYTES", 40_000_000)
    sizes: list[int] = []
    choose = prepare.choose_shard_rows

    def note(prepared: Prepared, spread: Spread) -> int:
        sizes.append(choose(prepared, spread))
        return sizes[-1]

    monkeypatch.setattr(prepare, "choose_shard_rows", note)
    rows = [{"answer": "A", "choices": ["A", "B"]}] * 2500
    for length in (1, 10_000):
        said = tmp_path / "said.jsonl"
        said.write_text(f'{{"completion": "{"A" * length}"}}\n' * len(rows))
        score(tmp_path, rows, f"run-{length}", completions=str(said))
    assert sizes[0] == 100_000
    assert 2_000 < sizes[1] < 4_000
