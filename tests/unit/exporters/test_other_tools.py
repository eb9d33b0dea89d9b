"""Exports for other tools: what their own readers and validators ask for."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import polars as pl
import pytest
from ruamel.yaml import YAML

import answerkey as ak
from answerkey.evaluate.reopen import reopen
from answerkey.exporters import export, forms
from answerkey.runs import Run

SCORER = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": ["A", "B"],
}
TASK = {
    "key": "quiz",
    "display_name": "Quiz",
    "description": "q",
    "definition": {"scorers": [SCORER], "trials": {"num_trials": 2}},
}
ROWS = [{"question": f"{n}?", "answer": "AB"[n % 2], "category": "art"} for n in range(3)]
SAID: list[dict[str, Any]] = [
    {
        "sample_id": f"{1 + n // 2:06}",
        "trial": n % 2,
        "completion": "A",
        "reasoning": "Well." if n else None,
    }
    for n in range(6)
]
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
    return ak.score(TASK, ROWS, SAID).save(tmp_path / "run")


def on_the_hub(run: Run, **fields: str | None) -> Run:
    """Return a run as if its dataset came from the hub."""
    stated = {"type": "huggingface", "path": "org/set", **fields}
    tasks = {
        key: replace(one, source={**one.source, "dataset": stated})
        for key, one in run.tasks.items()
    }
    return replace(run, tasks=tasks)


def test_every_eval_ever_gets_files_that_point_at_each_other(run: Run, tmp_path: Path) -> None:
    """In the folders that its validator wants, under the same name each time.

    Numbers with their doubt.
    """
    (tmp_path / "out").mkdir()
    for _ in range(2):
        assert export(run, "every_eval_ever", tmp_path / "out").rows == 5
    (file,) = (tmp_path / "out").rglob("*.json")
    told = json.loads(file.read_text())
    samples = file.with_name(f"{file.stem}_samples.jsonl")
    assert PLACE.fullmatch(file.relative_to(tmp_path / "out").with_suffix("").as_posix())
    detail = told["detailed_evaluation_results"]
    assert detail["file_path"] == samples.relative_to(tmp_path / "out").as_posix()
    assert detail["checksum"] == hashlib.sha256(samples.read_bytes()).hexdigest()
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert detail["total_rows"] == len(rows) == 5
    assert {(one["evaluation_id"], one["model_id"]) for one in rows} == {
        (told["evaluation_id"], "unknown")
    }
    results = told["evaluation_results"]
    assert results[0]["evaluation_result_id"] == rows[0]["evaluation_result_id"]
    assert {one["evaluation_name"]: one["score_details"]["score"] for one in results} == {
        name: one.value
        for name, one in run.metrics.items()
        if one.type != "frequency" and one.value is not None
    }
    assert results[0]["source_data"]["source_type"] == "other"


def test_every_eval_ever_takes_a_uuid_for_a_name(run: Run, tmp_path: Path) -> None:
    """Another name is refused, since its validator would."""
    with pytest.raises(ak.SpecError, match=r"E119.*wants a UUID for a name"):
        export(run, "every_eval_ever", tmp_path / "numbers.json")
    file = tmp_path / "46bf3ad7-346f-4d5c-99f3-eacdd97cc1ca.json"
    assert export(run, "every_eval_ever", file).rows == 5
    assert file.with_name(f"{file.stem}_samples.jsonl").is_file()


def test_an_inspect_log_imports_with_the_same_verdicts(run: Run, tmp_path: Path) -> None:
    """Epochs are trials, thoughts are apart, failed calls are errors; only `.eval` is a log."""
    with pytest.raises(ak.SpecError, match=r"E119.*ends in \.eval"):
        export(run, "inspect", tmp_path / "log.zip")
    assert export(run, "inspect", tmp_path / "log.eval").rows == 6
    with ZipFile(tmp_path / "log.eval") as archive:
        told = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    header, sample = told["header.json"], told["samples/000001_epoch_2.json"]
    assert (header["status"], header["eval"]["config"]) == (
        "success" if run.status == "complete" else "cancelled",
        {"epochs": 2},
    )
    assert sample["scores"]["string_equals_mcqa"]["value"] == "C"
    assert [one["type"] for one in sample["messages"][-1]["content"]] == ["reasoning", "text"]
    failed = told["samples/000003_epoch_2.json"]
    assert (failed["scores"], failed["error"]["message"]) == ({}, "the call failed")
    assert [one["epoch"] for one in told["summaries.json"]] == [1, 2] * 3
    found = ak.import_log("inspect", tmp_path / "log.eval", out=tmp_path / "again")
    assert (found.samples, found.tasks[0].num_trials) == (3, 2)


def test_ids_that_lead_elsewhere_are_encoded_in_an_inspect_log(tmp_path: Path) -> None:
    """No member has a path of its own choosing, none has the name of another, and every id comes
    back.
    """
    ids = ["../../evil", "..%2F..%2Fevil", "/etc/x", "a/b", "c\\d", "nul\0", "..", "é"]
    ids += ["x" * 300, "x" * 299 + "y"]
    row = {"question": "?", "options": ["1", "2"], "answer": "A", "completion": "A"}
    table = tmp_path / "rows.jsonl"
    table.write_text("".join(f"{json.dumps({'id': name, **row})}\n" for name in ids))
    run = ak.run(table, completion_column="completion", out=tmp_path / "run")
    export(run, "inspect", tmp_path / "log.eval")
    with ZipFile(tmp_path / "log.eval") as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/")]
    assert len(set(names)) == len(ids)
    assert all(Path(name).resolve().is_relative_to(Path("samples").resolve()) for name in names)
    assert not any("\\" in name or "\0" in name or len(name) > 230 for name in names)
    assert names[:4] == [
        "samples/%2E%2E%2F%2E%2E%2Fevil_epoch_1.json",
        "samples/%2E%2E%252F%2E%2E%252Fevil_epoch_1.json",
        "samples/%2Fetc%2Fx_epoch_1.json",
        "samples/a/b_epoch_1.json",
    ]
    found = ak.import_log("inspect", tmp_path / "log.eval", out=tmp_path / "again")
    (rows,) = found.folder.glob("*/dataset.jsonl")
    assert pl.read_ndjson(rows)["sample_id"].to_list() == ids


def test_a_model_page_gets_the_number_in_percent(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dataset, configuration and revision; only for a dataset of the hub."""
    with pytest.raises(ak.RunError, match=r"E504.*not on the Hugging Face hub"):
        export(run, "eval-results")
    opened, out = reopen(run), io.StringIO()
    hub = on_the_hub(run, name="main", revision="abc", split="test")
    monkeypatch.setattr(forms, "reopen", lambda *_: replace(opened, task_run=hub.tasks["quiz"]))
    assert export(hub, "eval-results", stream=out).rows == 1
    export(hub, "eval-results", tmp_path / "set.yaml")
    assert (tmp_path / "set.yaml").read_text() == out.getvalue()
    (told,) = YAML(typ="safe").load(out.getvalue())
    assert told["dataset"] == {"id": "org/set", "task_id": "main", "revision": "abc"}
    first = next(one for one in run.metrics.values() if one.value is not None)
    assert told["value"] == pytest.approx(100 * (first.value or 0), abs=1e-4)
    (tmp_path / "out").mkdir()
    export(hub, "every_eval_ever", tmp_path / "out")
    (file,) = (tmp_path / "out").rglob("*.json")
    data = json.loads(file.read_text())["evaluation_results"][0]["source_data"]
    assert (data["hf_repo"], data["hf_split"], data["samples_number"]) == ("org/set", "test", 3)


@long
def test_inspect_reads_our_log(run: Run, tmp_path: Path, run_tool: Callable[..., str]) -> None:
    """By its own reader, with samples, scores and numbers."""
    export(run, "inspect", tmp_path / "log.eval")
    words = "import sys; from inspect_ai.log import read_eval_log as r; l = r(sys.argv[1]);"
    words += "print(len(l.samples), l.eval.task, l.samples[0].scores['string_equals_mcqa'].value)"
    assert run_tool("inspect", "-c", words, tmp_path / "log.eval").split() == ["6", "quiz", "C"]


@long
def test_the_hub_parses_our_yaml(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_tool: Callable[..., str]
) -> None:
    """By the parser of `huggingface_hub`."""
    opened, hub = reopen(run), on_the_hub(run, name="main")
    monkeypatch.setattr(forms, "reopen", lambda *_: replace(opened, task_run=hub.tasks["quiz"]))
    export(hub, "eval-results", tmp_path / "set.yaml")
    words = "import sys, yaml, huggingface_hub as h; told = yaml.safe_load(open(sys.argv[1]));"
    words += (
        "one, = h.parse_eval_result_entries(told); print(one.dataset_id, one.task_id, "
        "one.value > 1)"
    )
    assert run_tool("hub", "-c", words, tmp_path / "set.yaml").split() == [
        "org/set",
        "main",
        "True",
    ]


@long
def test_every_eval_ever_validates_our_files(
    run: Run, tmp_path: Path, run_tool: Callable[..., str]
) -> None:
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
def test_the_recipes_log_to_mlflow_and_to_wandb(
    run: Run, tmp_path: Path, run_tool: Callable[..., str]
) -> None:
    """As the documentation has them, with stores in a folder."""
    export(run, "parquet", tmp_path / "rows.parquet")
    page = (Path(__file__).parents[3] / "docs" / "reference" / "ecosystem.md").read_text(
        encoding="utf-8"
    )
    recipe = page.partition("## MLflow")[2].partition("```python\n")[2].partition("```")[0]
    values = json.dumps({name: one.value for name, one in run.metrics.items()})
    apart = {"HOME": str(tmp_path), "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    said = run_tool("trackers", "-c", STAND_IN + recipe + ASKED, tmp_path, values, **apart)
    right = run.metrics["Accuracy"].value
    assert json.loads(said.strip().splitlines()[-1]) == [right, True, 6]
