"""The same samples give the same scores and numbers, however they are stored, chunked or
ordered.
"""

from __future__ import annotations

import csv
import json
import os
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ruamel.yaml import YAML

import answerkey as ak
from answerkey.datasets import tables
from answerkey.spec import Job, job

TEXTS = [
    "A",
    "B.",
    " C",
    "Answer: D",
    "",
    "A or B",
    "b",
    "D because",
    "A. x\nB. y\nC. z",
    "Ｂ",
    "B́",
    "1",
]
CHOICES = ["A", "B", "C", "D"]
TASK: dict[str, Any] = YAML(typ="safe").load(Path(__file__).with_name("task.yaml"))


def build_rows() -> list[dict[str, Any]]:
    """Return 180 rows with every kind of completion, drawn with a fixed seed."""
    draw = random.Random(7)
    return [
        {
            "sample_id": f"s{number:03d}",
            "answer": draw.choice("abcdABCD"),
            "choices": json.dumps(CHOICES),
            "category": draw.choice(["x", "y"]),
            "completion": draw.choice(TEXTS),
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


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], object]] = {
    "rows.csv": write_csv,
    "rows.jsonl": lambda path, rows: path.write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    ),
    "rows.json": lambda path, rows: path.write_text(json.dumps(rows)),
    "rows.parquet": lambda path, rows: pl.DataFrame(rows).write_parquet(path),
    "rows.arrow": lambda path, rows: pl.DataFrame(rows).write_ipc(path),
}


def run_rows(
    folder: Path,
    name: str,
    rows: list[dict[str, Any]],
    task: dict[str, Any] = TASK,
    **options: Any,  # noqa: ANN401 - options of `run`
) -> tuple[Any, list[dict[str, Any]]]:
    """Return the numbers and the per-sample rows of a run over these rows in this format."""
    (folder / "task.yaml").write_text(json.dumps(task))
    WRITERS[name](folder / name, rows)
    dataset, out = str(folder / name), folder / f"run-{name}"
    run = ak.run(folder / "task.yaml", dataset=dataset, out=out, **options)
    scores = run.tasks["same"].scores.sort("sample_id").to_dicts()
    return {value.name: asdict(value) for value in run.metrics.values()}, scores


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[dict[str, Any]]]:
    """Return the numbers of the Parquet file in one chunk."""
    return run_rows(tmp_path_factory.mktemp("expected"), "rows.parquet", ROWS)


def test_the_numbers_are_not_trivial(expected: tuple[Any, list[dict[str, Any]]]) -> None:
    """The rows hold right and wrong, valid and invalid completions, so that equality means
    something.
    """
    numbers, scores = expected
    assert 0.05 < numbers["MCQA Accuracy"]["value"] < 0.5
    reasons = {row["string_equals_mcqa"]["metadata"]["validity_reason"] for row in scores}
    assert len(reasons) == 6


@pytest.mark.parametrize("name", list(WRITERS))
def test_every_file_format_gives_the_same_numbers(
    tmp_path: Path, name: str, expected: tuple[Any, list[dict[str, Any]]]
) -> None:
    """CSV, JSON Lines, JSON, Parquet and Arrow agree bit for bit."""
    assert run_rows(tmp_path, name, ROWS) == expected


@pytest.mark.parametrize("size", [5, 43, 150])
def test_every_chunk_size_gives_the_same_numbers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    expected: tuple[Any, list[dict[str, Any]]],
) -> None:
    """36, 5 and 2 chunks agree with one, bit for bit."""
    monkeypatch.setattr(job, "CHUNK_ROWS", size)
    assert run_rows(tmp_path, "rows.parquet", ROWS) == expected


@pytest.mark.parametrize("seed", [1, 2, 3] if os.environ.get("ANSWERKEY_LONG") else [1])
def test_the_order_of_rows_changes_no_number(
    tmp_path: Path, seed: int, expected: tuple[Any, list[dict[str, Any]]]
) -> None:
    """Shuffled rows, sorted back by sample id, agree bit for bit."""
    shuffled = random.Random(seed).sample(ROWS, len(ROWS))
    assert run_rows(tmp_path, "rows.jsonl", shuffled) == expected


@pytest.mark.parametrize("name", list(WRITERS))
@pytest.mark.parametrize("size", [43, 150] if os.environ.get("ANSWERKEY_LONG") else [43])
def test_streamed_files_in_chunks_give_the_same_numbers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    size: int,
    expected: tuple[Any, list[dict[str, Any]]],
) -> None:
    """A file that is too large to be held gives the same numbers."""
    monkeypatch.setattr(tables, "HELD_BYTES", 100)
    monkeypatch.setattr(job, "CHUNK_ROWS", size)
    assert run_rows(tmp_path, name, ROWS) == expected


@pytest.mark.usefixtures("quick_workers")
@pytest.mark.parametrize("spread", ["alone", "apart", "processes"])
@pytest.mark.parametrize("with_copy", [False, True])
def test_every_spread_gives_the_same_numbers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spread: str,
    *,
    with_copy: bool,
    expected: tuple[Any, list[dict[str, Any]]],
) -> None:
    """One thread, several, and worker processes agree, whether rows are checked on the way or
    before.
    """
    monkeypatch.setattr(job, "CHUNK_ROWS", 43)
    monkeypatch.setattr(job, "choose_spread", lambda _: spread)
    assert run_rows(tmp_path, "rows.parquet", ROWS, copy=with_copy) == expected


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("size", [43, 299])
def test_completions_of_another_file_give_the_same_numbers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    *,
    turned: bool,
    expected: tuple[Any, list[dict[str, Any]]],
) -> None:
    """Whether the file has the order of the dataset or another."""
    monkeypatch.setattr(job, "CHUNK_ROWS", size)
    recorded = [{name: row[name] for name in ("sample_id", "completion")} for row in ROWS]
    WRITERS["rows.jsonl"](tmp_path / "said.jsonl", recorded[::-1] if turned else recorded)
    questions = [
        {name: value for name, value in row.items() if name != "completion"} for row in ROWS
    ]
    result = run_rows(tmp_path, "rows.csv", questions, completions=str(tmp_path / "said.jsonl"))
    assert result == expected


@pytest.mark.usefixtures("quick_workers")
def test_templates_of_every_plan_give_the_same_numbers_in_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: tuple[Any, list[dict[str, Any]]]
) -> None:
    """A task whose templates are rendered for every row is spread over processes, and says the
    same.
    """
    monkeypatch.setattr(job, "CHUNK_ROWS", 43)
    monkeypatch.setattr(job, "WORKER_ROWS", 10)
    task = json.loads(json.dumps(TASK))
    scorer = task["definition"]["scorers"][0]
    scorer["ground_truth_choice"] = (
        "{% set n = sample.sample_id %}{{ sample.answer | upper if n else 'no' }}"
    )
    chosen: list[str] = []
    choose_spread = job.choose_spread

    def choose(prepared: Job) -> str:
        chosen.append(choose_spread(prepared))
        return chosen[-1]

    monkeypatch.setattr(job, "choose_spread", choose)
    assert run_rows(tmp_path, "rows.parquet", ROWS, task) == expected
    assert chosen == ["processes"]
