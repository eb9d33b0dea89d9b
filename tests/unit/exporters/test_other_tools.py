"""Exports for other tools: what their own readers and validators ask for."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.projects import make_task

import answerkey as ak
from answerkey.exporters import export
from answerkey.runs import Run

ROWS = [{"question": f"{n}?", "answer": "AB"[n % 2], "category": "art"} for n in range(3)]
SAID: list[dict[str, Any]] = [
    {"sample_id": f"{1 + n // 2:06}", "trial": n % 2, "completion": "A", "reasoning": "Well."}
    for n in range(6)
]
SAID[0]["reasoning"] = None
SAID[5] |= {"completion": None, "completion_status": "ERROR"}
PLACE = re.compile(
    r"data/[^/]+/[^/]+/[^/]+/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
)
long = pytest.mark.skipif(
    not os.environ.get("ANSWERKEY_LONG"), reason="the tools run in the long series"
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a run of three samples in two trials, of which one failed."""
    return ak.score(make_task(trials={"num_trials": 2}), ROWS, SAID).save(tmp_path / "run")


def test_every_eval_ever_gets_files_that_point_at_each_other(run: Run, tmp_path: Path) -> None:
    """In the folders that its validator wants, under the same name each time.

    Numbers with their doubt.
    """
    (tmp_path / "out").mkdir()
    for _ in range(2):
        assert export(run, "every_eval_ever", tmp_path / "out").rows == 5
    (file,) = (tmp_path / "out").rglob("*.json")
    entry = json.loads(file.read_text())
    samples = file.with_name(f"{file.stem}_samples.jsonl")
    assert PLACE.fullmatch(file.relative_to(tmp_path / "out").with_suffix("").as_posix())
    detail = entry["detailed_evaluation_results"]
    assert detail["file_path"] == samples.relative_to(tmp_path / "out").as_posix()
    assert detail["checksum"] == hashlib.sha256(samples.read_bytes()).hexdigest()
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert detail["total_rows"] == len(rows) == 5
    about = {(row["evaluation_id"], row["model_id"]) for row in rows}
    assert about == {(entry["evaluation_id"], "unknown")}
    results = entry["evaluation_results"]
    assert results[0]["evaluation_result_id"] == rows[0]["evaluation_result_id"]
    assert results[0]["source_data"]["source_type"] == "other"
    told_numbers = {row["evaluation_name"]: row["score_details"]["score"] for row in results}
    numbers = {m.name: m.value for m in run.metrics.values() if m.type != "frequency"}
    assert told_numbers == {name: numbers[name] for name in numbers if numbers[name] is not None}


@long
def test_every_eval_ever_reads_ours(run: Run, tmp_path: Path, run_tool: Callable[..., str]) -> None:
    """By its own validator, which wants Python 3.12; without an error."""
    (tmp_path / "out").mkdir()
    export(run, "every_eval_ever", tmp_path / "out")
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    words = "import sys; from every_eval_ever.validate import main; print(main(sys.argv[1:]) == 1)"
    assert run_tool("every_eval_ever", "-c", words, *files).split()[-1] == "False"


#: What the recipes of the documentation use of a run.
STAND_IN = """
import json, os, sys, types
import mlflow, pandas, wandb
os.chdir(sys.argv[1])
class Frame:
    def to_pandas(self): return pandas.read_parquet("rows.parquet")
metrics = {name: types.SimpleNamespace(value=one) for name, one in json.loads(sys.argv[2]).items()}
run = types.SimpleNamespace(metrics=metrics, to_frame=Frame)
mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.set_experiment("evals")
"""
ASKED = """
import pathlib
found = mlflow.search_runs(experiment_names=["evals"])
kept = b"".join(file.read_bytes() for file in pathlib.Path("wandb").glob("offline-run-*/*.wandb"))
print(json.dumps([found["metrics.Accuracy"][0], b"Accuracy" in kept, len(mlflow.load_table("rows.json"))]))
"""  # noqa: E501 - the text as it is written


@long
def test_recipes_log_to_trackers(run: Run, tmp_path: Path, run_tool: Callable[..., str]) -> None:
    """As the documentation has them, with stores in a folder."""
    export(run, "parquet", tmp_path / "rows.parquet")
    page = Path(__file__).parents[3] / "docs" / "reference" / "ecosystem.md"
    chapter = page.read_text(encoding="utf-8").partition("## MLflow")[2]
    recipe = chapter.partition("```python\n")[2].partition("```")[0]
    values = json.dumps({name: value.value for name, value in run.metrics.items()})
    apart = {"HOME": str(tmp_path), "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    printed = run_tool("trackers", "-c", STAND_IN + recipe + ASKED, tmp_path, values, **apart)
    right = run.metrics["Accuracy"].value
    assert json.loads(printed.strip().splitlines()[-1]) == [right, True, 6]
