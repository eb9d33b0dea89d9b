"""What an earlier version left with its users still works: runs, journals, trust, and a plug-in.

`keep.py` made `kept/` on 2026-11-16 and is not run again; `kept/expected` is what the commands said then.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.compat import keep
from tests.unit.conftest import Bucket

from answerkey.cli import main


class Called(NamedTuple):
    """What a command printed."""

    stdout: str
    stderr: str


PLUGIN = Path(__file__).with_name("plugin")
FINISHED = ("recorded", "live", "judged", "trials", "repeated", "snippet")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Lay everything out where it was made; one test at a time."""
    with Path(f"{keep.HOME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(keep.HOME, ignore_errors=True)
        shutil.copytree(keep.KEPT, keep.HOME)
        monkeypatch.chdir(keep.HOME)
        monkeypatch.setenv("XDG_CACHE_HOME", str(keep.HOME / "cache"))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(keep.HOME / "config"))
        try:
            yield keep.HOME
        finally:
            shutil.rmtree(keep.HOME)


def carry_out(*words: object) -> Called:
    """Carry out a command in this process; it must succeed."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(word) for word in words])
    assert code == 0, err.getvalue()
    return Called(out.getvalue(), err.getvalue())


def read_metrics(run: str) -> list[tuple[str, Any, Any]]:
    """Return the metric values of a run."""
    told = json.loads(carry_out("show", run, "--json").stdout)
    return [(task["key"], task["counts"], task["metrics"]) for task in told["tasks"]]


def expect(name: str, found: object) -> None:
    """Compare with what was said when the runs were made; it is written when it is not there."""
    file = keep.KEPT / "expected" / f"{name}.json"
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if not file.exists() and os.environ.get("ANSWERKEY_KEEP"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert json.loads(text) == json.loads(file.read_text(encoding="utf-8"))


def expect_rows(name: str, run: str) -> None:
    """Compare exported rows with those of then; they may have more keys now."""
    rows = [json.loads(line) for line in carry_out("export", run, "--to", "jsonl").stdout.splitlines()]
    lines = json.loads((keep.KEPT / "expected" / f"{name}.json").read_text(encoding="utf-8"))
    before = [json.loads(line) for line in lines]
    assert [{key: row[key] for key in then} for row, then in zip(rows, before, strict=True)] == before


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", FINISHED)
def test_finished_runs_are_read_scored_and_exported_as_before(name: str) -> None:
    """`show`, `export`, `rescore` and `compare` give the numbers of then."""
    expect(f"show-{name}", read_metrics(f"runs/{name}"))
    expect_rows(f"export-{name}", f"runs/{name}")
    for form in ("csv", "parquet", "inspect", "every_eval_ever"):
        carry_out("export", f"runs/{name}", "--to", form, "-o", f"rows.{form.replace('inspect', 'eval')}")
    if name == "judged":  # it would ask the judge
        return
    carry_out("rescore", f"runs/{name}", "--out", "runs/again")
    again = json.dumps(read_metrics("runs/again")).replace("again", name)
    expect(f"rescore-{name}", json.loads(again))
    carry_out("compare", f"runs/{name}", "runs/again", "--json")


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", ["incomplete", "killed"])
def test_runs_that_stopped_go_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the journal has is not asked again, and the numbers are those of a run that was never stopped."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(keep.HOME / "empty"))
    with keep.serve("B") as endpoint:
        resumed = carry_out("resume", f"runs/{name}")
    expect(f"known-{name}", [line for line in resumed.stderr.splitlines() if line.startswith("calls:")])
    assert 0 < endpoint.asked < len(keep.ROWS)
    expect("show-live", read_metrics(f"runs/{name}"))


@pytest.mark.usefixtures("kept")
def test_a_recorded_trust_holds() -> None:
    """The same snippet runs without `--trust-code`."""
    words = ("--dataset", "project/rows.jsonl", "--completions", "project/replies.jsonl", "--out", "runs/new")
    carry_out("score", "project/snippet.yaml", *words)
    expect("show-snippet", json.loads(json.dumps(read_metrics("runs/new"))))


def test_a_run_on_object_storage_is_read(kept: Path, bucket: Bucket) -> None:
    """Its objects are where they were."""
    for path in (kept / "stored").rglob("*"):
        if path.is_file():
            bucket.put(f"kept/{path.relative_to(kept / 'stored')}", path.read_bytes())
    expect("show-stored", read_metrics(f"{bucket.url}/kept"))
    expect_rows("export-stored", f"{bucket.url}/kept")


def test_a_plug_in_of_each_kind_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scorer, a metric, a solver, a source, a model and an importer of another package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(PLUGIN))
    scorer = {
        "type": "kept_scorer",
        "factor": 2,
        "metrics": [{"type": "kept_metric"}, {"type": "mean", "field": "points"}],
    }
    task = {
        "key": "plug",
        "display_name": "P",
        "description": "D",
        "definition": {
            "dataset": {"key": "made"},
            "solver": {"type": "kept_solver", "text": "abc"},
            "scorers": [scorer],
        },
    }
    asked = json.loads(json.dumps(task)) | {"key": "asked"}
    asked["definition"]["solver"] = {
        **keep.SOLVER,
        "input_builder": {
            "type": "chat_completion",
            "input_messages": [{"role": "user", "content": "{{ sample.question }}"}],
        },
    }
    plan = {
        "datasets": [{"key": "made", "display_name": "M", "source": {"type": "kept_source", "size": 3}}],
        "tasks": [task, asked],
        "evaluation": {
            "key": "e",
            "display_name": "E",
            "task_specifications": [{"task_key": "plug"}, {"task_key": "asked", "model_key": "kept/hello"}],
        },
    }
    Path("run.yaml").write_text(json.dumps(plan), encoding="utf-8")
    Path("log.kept").write_text('{"id": "1", "q": "Q?", "t": "A", "c": "A"}\n', encoding="utf-8")
    keep.answerkey("run", "run.yaml", "--out", "r")
    values = {(key, one["name"]): one["value"] for key, _, metrics in read_metrics("r") for one in metrics}
    assert values == {
        ("plug", "count"): 3.0,
        ("plug", "points_mean"): 6.0,
        ("asked", "count"): 3.0,
        ("asked", "points_mean"): 10.0,
    }
    told = subprocess.run(
        [sys.executable, "-m", "answerkey", "import", "kept-log", "log.kept", "--out", "i", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    keep.answerkey("run", "i", "--out", "r2")
    assert next(one["value"] for _, _, metrics in read_metrics("r2") for one in metrics) == 1.0
