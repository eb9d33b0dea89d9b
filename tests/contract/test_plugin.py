"""A third-party package that adds one kind of everything, found through entry points."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Forked

PLUGIN = Path(__file__).with_name("plugin")


def carry_out(*words: str) -> dict[str, Any]:
    """Return what a command prints as JSON, in a process that finds the package."""
    find = f"import sys; sys.path.insert(0, {str(PLUGIN)!r})"
    pipe = subprocess.PIPE
    with Forked([*words, "--json"], first=find, stdout=pipe, stderr=pipe, text=True) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    printed: dict[str, Any] = json.loads(out)
    return printed


def test_a_plug_in_of_each_kind_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scorer, a metric, a solver, a source, a model and an importer of another package."""
    monkeypatch.chdir(tmp_path)
    Path("log.kept").write_text('{"id": "1", "q": "Q?", "t": "A", "c": "A"}\n', encoding="utf-8")
    values = {
        (task["key"], metric["name"]): metric["value"]
        for task in carry_out("run", str(PLUGIN / "run.yaml"), "--out", "r")["tasks"]
        for metric in task["metrics"]
    }
    assert values == {
        ("plug", "count"): 3.0,
        ("plug", "points_mean"): 6.0,
        ("asked", "count"): 3.0,
        ("asked", "points_mean"): 10.0,
    }
    carry_out("import", "kept-log", "log.kept", "--out", "i")
    assert carry_out("run", "i", "--out", "r2")["tasks"][0]["metrics"][0]["value"] == 1.0
