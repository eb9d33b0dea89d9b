"""Laws of `run`, `score`, `check`, `resume` and `rescore` where no model is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.projects import write_rows

from answerkey.runs import load_run

from .conftest import TASK, Call

Words = tuple[str, ...]
COUNTS = {
    "samples": 4,
    "scored": 4,
    "valid": 1,
    "invalid": 3,
    "refused": 0,
    "declined": 0,
    "failed": 0,
    "errors": 0,
}


def test_score_prints_the_summary_and_where_the_run_lies(call: Call, words: Words) -> None:
    """The summary is data on stdout, without what a terminal would obey.

    What to try next is on stderr.
    """
    done = call("score", *words, "--out", "here")
    assert done.code == 0
    assert "run here\n" in done.out
    assert "  Accuracy  25.00 %  [4.56, 69.94]  4\n" in done.out
    scored = "  scored = 1 valid + 3 invalid (refused by provider 0, declined 0)\n"
    assert f"  4 samples = 4 scored + 0 failed + 0 errors\n{scored}" in done.out
    assert "\x1b" not in done.out
    assert done.err.startswith("Next\n  answerkey report here ")


def test_json_is_the_documented_object(call: Call, words: Words) -> None:
    """`run --json` has the run, below `runs` without `--out`, the counts and every metric."""
    described = call("run", *words, "--json").json
    assert described["run"]["path"].startswith("runs/")
    assert described["run"]["path"].endswith("-small")
    assert described["run"]["status"] == "complete"
    (task,) = described["tasks"]
    assert (task["key"], task["counts"]) == ("small", COUNTS)
    metric = task["metrics"][0]
    assert (metric["name"], metric["value"], metric["n"]) == ("Accuracy", 0.25, 4)
    assert metric["interval"] == pytest.approx([0.045587, 0.699358], abs=1e-6)


def test_completions_may_come_from_a_file(call: Call, words: Words) -> None:
    """`--completions` wins over the dataset's own column."""
    Path("said.csv").write_text("completion\nA\nB\nC\nC\n", encoding="utf-8")
    done = call("score", *words, "--completions", "said.csv", "--json")
    assert done.json["tasks"][0]["metrics"][0]["value"] == 1.0


def test_wrong_rows_of_the_dataset_stop_the_run(call: Call, project: Path, words: Words) -> None:
    """Without `--allow-failed` nothing is run; with it they are FAILED, listed and explained."""
    rows = project / "rows.jsonl"
    wrong = rows.read_text().replace('"C", "completion": null', '"E", "completion": ""')
    rows.write_text(wrong)
    refused = call("score", *words, "--out", "here")
    assert (refused.code, "error[E204]" in refused.err, Path("here").exists()) == (2, True, False)
    allowed = call("score", *words, "--out", "here", "--allow-failed", "25%")
    assert allowed.code == 0
    assert "4 samples = 3 scored + 1 failed + 0 errors" in allowed.out
    assert "  failed    BAD_TRUTH      1  000003\n" in allowed.out
    shown = call("explain", "here", "3").out
    assert "FAILED\n  reason  BAD_TRUTH\n" in shown
    assert "ground truth 'E' is not among the choices" in shown


def test_an_incomplete_run_exits_with_three(call: Call, project: Path, words: Words) -> None:
    """Calls that failed for good make the run incomplete; no percentage is printed."""
    failed = {"answer": "B", "completion": None, "completion_status": "ERROR"}
    write_rows(project / "rows.jsonl", [{"answer": "A", "completion": "A"}, failed])
    done = call("score", *words, "--out", "here")
    assert (done.code, " %" in done.out) == (3, False)
    assert "INCOMPLETE: 1 of 2 samples got no completion" in done.out
    assert load_run("here").status == "incomplete"


@pytest.mark.parametrize("option", ["--max-cost 1", "--max-calls 0", "--stop-on-nonsense"])
def test_limits_concern_live_models_alone(call: Call, words: Words, option: str) -> None:
    """Where nothing is asked there is nothing to limit."""
    assert call("run", *words, *option.split()).code == 0


@pytest.fixture
def quick(call: Call) -> str:
    """Return the project of `init`, which asks a model."""
    assert call("init", "quick").code == 0
    return "quick"


def test_score_asks_no_model(call: Call, quick: str) -> None:
    """A task with a solver needs completions; its model is not asked in their place."""
    refused = call("score", quick)
    assert refused.code == 2
    assert "error[E119]: task `mcqa` calls a model, and `score` calls none" in refused.err


def test_several_models_are_compared(call: Call, quick: str) -> None:
    """One run each, in folders below `--out`, then a table; JSON has them under `runs`."""
    names = ["builtin/longest", "builtin/constant?choice=A"]
    models = [word for name in names for word in ("--model", name)]
    done = call("run", quick, *models, "--out", "both")
    assert done.code == 0
    assert {path.name for path in Path("both").iterdir()} == {
        "1-builtin-longest",
        "2-builtin-constant-choice-A",
    }
    table = done.out.split("Comparison\n")[1]
    assert "Each cell: the main metric (shares in %), its 95 % interval, rank." in table
    assert [line.split()[0] for line in table.splitlines()[2:4]] == names
    assert "  answerkey compare both  " in done.err
    printed = call("run", quick, *models, "--json").json
    assert [run["tasks"][0]["model"]["name"] for run in printed["runs"]] == names


@pytest.mark.parametrize("name", ["builtin/longst", "openai/gpt-4.1-nano", "my-modle"])
def test_a_model_that_cannot_be_asked_is_found_first(call: Call, quick: str, name: str) -> None:
    """With several models all names are looked at first."""
    refused = call("run", quick, "--model", "builtin/longest", "--model", name, "--out", "both")
    assert (refused.code, f"`{name}`" in refused.err, Path("both").exists()) == (2, True, False)


def test_a_dry_run_writes_nothing(call: Call, quick: str) -> None:
    """It shows calls, tokens and the first prompt."""
    shown = call("run", quick, "--dry-run")
    assert shown.code == 0
    assert "  calls          125\n" in shown.out
    assert "  | What is three quarters as a percentage?\n" in shown.out
    assert not Path("runs").exists()
    assert call("run", quick, "--dry-run", "--json").json["dry_run"]["tasks"][0]["calls"] == 125


def test_a_project_without_mistakes_passes(call: Call, words: Words) -> None:
    """Exit code 0 and one line; or one object, with the plan."""
    checked = call("check", *words)
    assert checked.code == 0
    assert checked.out == "passed: 0 errors, 0 warnings; 1 task, 4 rows checked\n"
    result = call("check", *words, "--json").json["check"]
    assert (result["good"], result["tasks"][0]["rows"]) == (True, 4)


def test_every_mistake_is_found_at_once(call: Call, project: Path, words: Words) -> None:
    """Exit code 2; each error has its place."""
    spoiled = TASK.replace("description", "descripion")
    spoiled = spoiled.replace("    - type: string_equals_mcqa\n", "    - key: x\n")
    (project / "task.yaml").write_text(spoiled, encoding="utf-8")
    checked = call("check", *words)
    assert checked.code == 2
    assert "error[E107]: unknown key `descripion`" in checked.out
    assert "error[E108]: `type` is missing" in checked.out
    assert "`description` is missing" not in checked.out  # it is misspelt, which is said
    assert "task.yaml:3:1" in checked.out
    (project / "task.yaml").write_text(TASK, encoding="utf-8")
    write_rows(project / "rows.jsonl", [{"answer": "E", "completion": "A"}])
    bad = call("check", *words, "--json")
    assert (bad.code, [error["code"] for error in bad.json["errors"]]) == (2, ["E204"])


@pytest.fixture
def stopped(run_folder: Path) -> Path:
    """Return a run that is there but for its end."""
    manifest = json.loads((run_folder / "run.json").read_text())
    (run_folder / "run.json").write_text(json.dumps({**manifest, "status": "running"}))
    return run_folder


def test_resume_finishes_a_run_and_prints_its_summary(call: Call, stopped: Path) -> None:
    """The summary is that of `run`; a complete run is shown, and that is no failure."""
    done = call("resume", stopped)
    assert (done.code, "  Accuracy  25.00 %  [4.56, 69.94]  4\n" in done.out) == (0, True)
    again = call("resume", stopped)
    assert again.code == 0
    assert again.err.startswith("the run is complete: nothing is left to do\n")
    assert "25.00 %" in again.out


def test_resume_finds_runs_by_name(call: Call, stopped: Path) -> None:
    """A name below `runs` and `latest` will do."""
    Path("runs").mkdir()
    stopped.rename("runs/half")
    run = call("resume", "half", "--json").json["run"]
    assert (run["path"], run["status"]) == ("runs/half", "complete")
    assert call("resume", "latest").code == 0
