"""The same samples give the same scores and numbers, however they are stored, chunked or
ordered.
"""

from __future__ import annotations

import csv
import json
import os
import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ruamel.yaml import YAML

import answerkey as ak
from answerkey.datasets import tables
from answerkey.spec import Job, job

SHORT = ["A", "B.", " C", "Answer: D", "", "A or B", "b", "D because", "Ｂ", "B́", "1"]
TASK: dict[str, Any] = YAML(typ="safe").load(Path(__file__).with_name("task.yaml"))
IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))
#: Numbers by their names, and the scores of every sample.
Result = tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]


def build_rows() -> list[dict[str, Any]]:
    """Return 180 rows with every kind of completion, drawn with a fixed seed."""
    draw = random.Random(7)
    return [
        {
            "sample_id": f"s{number:03d}",
            "answer": draw.choice("abcdABCD"),
            "choices": '["A", "B", "C", "D"]',
            "category": draw.choice(["x", "y"]),
            "completion": draw.choice([*SHORT, "A. x\nB. y\nC. z"]),
        }
        for number in range(180)
    ]


ROWS = build_rows()


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], object]] = {
    "rows.csv": write_csv,
    "rows.jsonl": write_jsonl,
    "rows.json": lambda path, rows: path.write_text(json.dumps(rows)),
    "rows.parquet": lambda path, rows: pl.DataFrame(rows).write_parquet(path),
    "rows.arrow": lambda path, rows: pl.DataFrame(rows).write_ipc(path),
}
#: The file, how large it may be to be held in memory, and the rows of a chunk.
WAYS = [(name, tables.HELD_BYTES, job.CHUNK_ROWS) for name in WRITERS]
WAYS += [("rows.parquet", tables.HELD_BYTES, size) for size in (5, 43, 150)]
WAYS += [(name, 100, size) for name in WRITERS for size in ((43, 150) if IS_LONG else (43,))]


def run_rows(
    folder: Path,
    name: str,
    rows: list[dict[str, Any]],
    task: dict[str, Any] = TASK,
    **options: Any,  # noqa: ANN401 - options of `run`
) -> Result:
    """Return the result of a run over these rows in this format."""
    (folder / "task.yaml").write_text(json.dumps(task))
    WRITERS[name](folder / name, rows)
    run = ak.run(folder / "task.yaml", dataset=folder / name, out=folder / "run", **options)
    scores = run.tasks["same"].scores.sort("sample_id").to_dicts()
    return {value.name: asdict(value) for value in run.metrics.values()}, scores


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Return the result of the Parquet file in one chunk."""
    return run_rows(tmp_path_factory.mktemp("expected"), "rows.parquet", ROWS)


def test_the_numbers_are_not_trivial(expected: Result) -> None:
    """The rows hold right and wrong, valid and invalid completions, so that equality means
    something.
    """
    numbers, scores = expected
    assert 0.05 < numbers["MCQA Accuracy"]["value"] < 0.5
    reasons = {row["string_equals_mcqa"]["metadata"]["validity_reason"] for row in scores}
    assert len(reasons) == 6


@pytest.mark.parametrize(("name", "held_bytes", "chunk_rows"), WAYS)
def test_every_file_in_chunks_of_any_size_gives_the_same_numbers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    held_bytes: int,
    chunk_rows: int,
    expected: Result,
) -> None:
    """CSV, JSON Lines, JSON, Parquet and Arrow agree bit for bit: held or streamed, whole or cut
    into chunks.
    """
    monkeypatch.setattr(tables, "HELD_BYTES", held_bytes)
    monkeypatch.setattr(job, "CHUNK_ROWS", chunk_rows)
    assert run_rows(tmp_path, name, ROWS) == expected


@pytest.mark.parametrize("seed", [1, 2, 3] if IS_LONG else [1])
def test_the_order_of_rows_changes_no_number(tmp_path: Path, seed: int, expected: Result) -> None:
    """Shuffled rows, sorted back by sample id, agree bit for bit."""
    shuffled = random.Random(seed).sample(ROWS, len(ROWS))
    assert run_rows(tmp_path, "rows.jsonl", shuffled) == expected


@pytest.mark.usefixtures("quick_workers")
@pytest.mark.parametrize("spread", ["alone", "apart", "processes"])
@pytest.mark.parametrize("has_copy", [False, True])
def test_every_spread_gives_the_same_numbers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spread: str,
    *,
    has_copy: bool,
    expected: Result,
) -> None:
    """One thread, several, and worker processes agree, whether rows are checked on the way or
    before.
    """
    monkeypatch.setattr(job, "CHUNK_ROWS", 43)
    monkeypatch.setattr(job, "choose_spread", lambda _: spread)
    assert run_rows(tmp_path, "rows.parquet", ROWS, copy=has_copy) == expected


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("size", [43, 299])
def test_completions_of_another_file_give_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, step: int, expected: Result
) -> None:
    """Whether the file has the order of the dataset or the opposite."""
    monkeypatch.setattr(job, "CHUNK_ROWS", size)
    replies = [{name: row[name] for name in ("sample_id", "completion")} for row in ROWS]
    questions = [{name: row[name] for name in row if name != "completion"} for row in ROWS]
    write_jsonl(tmp_path / "replies.jsonl", replies[::step])
    result = run_rows(tmp_path, "rows.csv", questions, completions=tmp_path / "replies.jsonl")
    assert result == expected


@pytest.mark.usefixtures("quick_workers")
def test_templates_of_every_plan_give_the_same_numbers_in_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Result
) -> None:
    """A task whose templates are rendered for every row is spread over processes, and says the
    same.
    """
    spreads: list[str] = []
    choose_spread = job.choose_spread

    def choose(prepared: Job) -> str:
        spreads.append(choose_spread(prepared))
        return spreads[-1]

    monkeypatch.setattr(job, "CHUNK_ROWS", 43)
    monkeypatch.setattr(job, "WORKER_ROWS", 10)
    monkeypatch.setattr(job, "choose_spread", choose)
    task = deepcopy(TASK)
    template = "{% set n = sample.sample_id %}{{ sample.answer | upper if n else 'no' }}"
    task["definition"]["scorers"][0]["ground_truth_choice"] = template
    assert run_rows(tmp_path, "rows.parquet", ROWS, task) == expected
    assert spreads == ["processes"]
