from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from answerkey.runs import load_run

Call = Callable[..., Any]
COUNTS = {"samples": 4, "scored": 4, "valid": 1, "invalid": 3, "refused": 0, "failed": 0, "errors": 0}


def words(project: Path, *more: str) -> tuple[str, ...]:
    """Return the arguments that score the small project."""
    return (str(project / "task.yaml"), "--dataset", str(project / "rows.jsonl"), *more)


def test_score_prints_the_summary_and_where_the_run_lies(call: Call, project: Path) -> None:
    """The summary is data on stdout; what to try next is talk on stderr."""
    done = call("score", *words(project, "--out", "here"))
    assert done.code == 0
    assert "run here\n" in done.out
    assert "  Accuracy  25.00 %  [4.56, 69.94]  4\n" in done.out
    assert (
        "  4 samples = 4 scored + 0 failed + 0 errors; scored = 1 valid + 3 invalid (refused 0)\n" in done.out
    )
    assert done.err.startswith("Next\n  answerkey explain here 000002")


def test_the_default_folder_is_below_runs(call: Call, project: Path) -> None:
    """Without `--out` the run lies in `runs/<time>-<key>`."""
    path = call("score", *words(project, "--json")).json["run"]["path"]
    assert path.startswith("runs/")
    assert path.endswith("-small")


def test_json_is_the_documented_object(call: Call, project: Path) -> None:
    """`run --json` has the run, the counts and every metric."""
    described = call("run", *words(project, "--out", "here", "--json")).json
    assert described["run"]["path"] == "here"
    assert described["run"]["status"] == "complete"
    assert described["tasks"][0]["key"] == "small"
    assert described["tasks"][0]["counts"] == COUNTS
    metric = described["tasks"][0]["metrics"][0]
    assert metric["name"] == "Accuracy"
    assert metric["value"] == 0.25
    assert metric["n"] == 4
    assert metric["interval"] == pytest.approx([0.045587, 0.699358], abs=1e-6)


def test_control_characters_of_a_completion_are_written_out(call: Call, project: Path) -> None:
    """A completion cannot colour the terminal."""
    printed = call("score", *words(project)).out
    assert "\x1b" not in printed


def test_completions_may_come_from_a_file(call: Call, project: Path) -> None:
    """`--completions` wins over the dataset's own column."""
    (project / "said.csv").write_text("completion\nA\nB\nC\nC\n", encoding="utf-8")
    done = call("score", *words(project, "--completions", str(project / "said.csv"), "--json"))
    assert done.json["tasks"][0]["metrics"][0]["value"] == 1.0


def test_an_existing_folder_is_not_overwritten(call: Call, project: Path, run_folder: Path) -> None:
    """`--out` names a new or empty folder."""
    assert call("score", *words(project, "--out", str(run_folder))).err.startswith("error[E502]")


def test_score_asks_no_model(call: Call) -> None:
    """A task with a solver needs completions; its model is not asked in their place."""
    call("init", "quick")
    refused = call("score", "quick")
    assert refused.code == 2
    assert "error[E119]: task `mcqa` asks a model, and `score` asks none" in refused.err


def test_rows_that_the_dataset_got_wrong_stop_the_run(call: Call, project: Path) -> None:
    """Without `--allow-failed` nothing is run; with it they are FAILED and listed."""
    rows = project / "rows.jsonl"
    rows.write_text(
        rows.read_text(encoding="utf-8").replace('"C", "completion": null', '"E", "completion": null')
    )
    refused = call("score", *words(project, "--out", "here"))
    assert refused.code == 2
    assert "error[E204]" in refused.err
    assert not Path("here").exists()
    allowed = call("score", *words(project, "--out", "here", "--allow-failed", "25%"))
    assert allowed.code == 0
    assert "4 samples = 3 scored + 1 failed + 0 errors" in allowed.out
    assert "  failed    BAD_TRUTH      1  000003\n" in allowed.out


def test_several_models_are_compared(call: Call) -> None:
    """One run each, in folders below `--out`, then a table; JSON has them under `runs`."""
    call("init", "quick")
    models = ("--model", "builtin/longest", "--model", "builtin/constant?choice=A")
    done = call("run", "quick", *models, "--out", "both")
    assert done.code == 0
    assert sorted(path.name for path in Path("both").iterdir()) == [
        "1-builtin-longest",
        "2-builtin-constant-choice-A",
    ]
    table = done.out.split("Comparison\n")[1]
    assert "  mcqa: MCQA Accuracy\n" in table
    assert "  builtin/longest " in table
    told = call("run", "quick", *models, "--json").json
    assert [one["tasks"][0]["model"]["name"] for one in told["runs"]] == [
        "builtin/longest",
        "builtin/constant?choice=A",
    ]


@pytest.mark.parametrize("name", ["builtin/longst", "openai/gpt-4.1-nano", "my-modle"])
def test_a_model_that_cannot_be_asked_is_found_before_any_is(call: Call, name: str) -> None:
    """With several models all names are looked at first."""
    call("init", "quick")
    refused = call("run", "quick", "--model", "builtin/longest", "--model", name, "--out", "both")
    assert refused.code == 2
    assert f"`{name}`" in refused.err
    assert not Path("both").exists()


def test_a_dry_run_writes_nothing(call: Call) -> None:
    """It shows calls, tokens and the first prompt."""
    call("init", "quick")
    shown = call("run", "quick", "--dry-run")
    assert shown.code == 0
    assert "  calls          125\n" in shown.out
    assert "  | What is three quarters as a percentage?\n" in shown.out
    assert not Path("runs").exists()
    assert call("run", "quick", "--dry-run", "--json").json["dry_run"]["tasks"][0]["calls"] == 125


def test_an_incomplete_run_exits_with_three(call: Call, project: Path) -> None:
    """Calls that failed for good make the run incomplete; no percentage is printed."""
    rows = (
        '{"answer": "A", "completion": "A"}\n'
        '{"answer": "B", "completion": null, "completion_status": "ERROR"}\n'
    )
    (project / "rows.jsonl").write_text(rows, encoding="utf-8")
    done = call("score", *words(project, "--out", "here"))
    assert done.code == 3
    assert "INCOMPLETE: 1 of 2 samples got no completion" in done.out
    assert " %" not in done.out
    assert load_run("here").status == "incomplete"


@pytest.mark.parametrize("option", [("--max-cost", "1"), ("--max-calls", "0"), ("--stop-on-nonsense",)])
def test_limits_concern_live_models_alone(call: Call, project: Path, option: tuple[str, ...]) -> None:
    """Where nothing is asked there is nothing to limit."""
    assert call("run", *words(project, *option)).code == 0


def test_the_engine_ray_is_refused_where_it_is_not_installed(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E601 says what to install."""
    monkeypatch.setattr("answerkey.engines.ray_engine.find_spec", lambda _: None)
    found = call("run", *words(project, "--engine", "ray")).err
    assert "error[E601]" in found
    assert "pip install ray==" in found
