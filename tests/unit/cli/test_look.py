from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def test_show_prints_what_run_printed(call: Call, run_folder: Path) -> None:
    """The summary is made from the run folder alone."""
    shown = call("show", run_folder)
    assert shown.code == 0
    assert "  Accuracy  25.00 %  [4.56, 69.94]  4\n" in shown.out
    assert call("show", run_folder, "--json").json["run"]["status"] == "complete"


@pytest.mark.parametrize("name", ["done", "small/done", "small/done/run.json"])
def test_a_run_is_found_by_folder_or_name(call: Call, run_folder: Path, name: str) -> None:
    """A path, the `run.json` in it, or a name below `runs`."""
    Path("runs").symlink_to(run_folder.parent)
    assert call("show", name, "-q").code == 0


def test_latest_is_the_newest_run_below_runs(call: Call, run_folder: Path) -> None:
    """`latest` needs a folder `runs`; without one it says so."""
    assert "there is no run below `runs`" in call("show", "latest").err
    Path("runs").symlink_to(run_folder.parent)
    assert "run runs/done\n" in call("show", "latest").out


def test_a_folder_of_runs_is_not_a_run(call: Call, run_folder: Path) -> None:
    """The newest run in it is suggested."""
    refused = call("show", run_folder.parent)
    assert refused.code == 2
    assert f"the newest run in it is `{run_folder}`" in refused.err


@pytest.mark.parametrize("sample", ["2", "000002"])
def test_explain_shows_the_whole_way(call: Call, run_folder: Path, sample: str) -> None:
    """Row, completion, verdict and why; a row number stands for the generated id."""
    shown = call("explain", run_folder, sample)
    assert shown.code == 0
    assert shown.out.startswith("Sample 000002 in task small\n  --> ")
    assert "rows.jsonl:2\n" in shown.out
    assert "  question    two\n" in shown.out
    assert "Completion  OK\n  | Answer: B\n" in shown.out
    assert "Score by string_equals_mcqa  SCORED, not correct\n" in shown.out
    assert "  validity_reason      PART_OF_A_WORD\n" in shown.out
    assert "  why  INVALID: 'A' is only the beginning of a longer word or number\n" in shown.out


def test_explain_shows_a_reply_without_text(call: Call, run_folder: Path) -> None:
    """Null is said, not printed as an empty line."""
    assert "Completion  NO_TEXT\n  no text\n" in call("explain", run_folder, "3").out


def test_explain_as_json(call: Call, run_folder: Path) -> None:
    """The same as plain values."""
    (found,) = call("explain", run_folder, "4", "--json").json["samples"]
    assert found["sample_id"] == "000004"
    assert found["completion"] == "\x1b[31mB"
    assert found["scores"]["string_equals_mcqa"]["metadata"]["validity_reason"] == "NOT_A_CHOICE"
    assert found["scores"]["string_equals_mcqa"]["why"].startswith("INVALID")


def test_an_unknown_sample_is_refused_with_near_ids(call: Call, run_folder: Path) -> None:
    """E504 names ids that are near."""
    refused = call("explain", run_folder, "44")
    assert refused.code == 2
    assert "error[E504]: there is no sample `44` in this run\n  = help: near it: `000004`" in refused.err


def test_explain_still_works_when_the_dataset_is_gone(call: Call, project: Path, run_folder: Path) -> None:
    """What the run folder holds is shown, with a warning that the rest is missing."""
    (project / "rows.jsonl").unlink()
    shown = call("explain", run_folder, "2")
    assert shown.code == 0
    assert "warning: the run's dataset cannot be opened again" in shown.out
    assert "  validity_reason      PART_OF_A_WORD\n" in shown.out


def test_a_failed_sample_is_explained_by_its_row(call: Call, project: Path) -> None:
    """Why there is no score: the row's own error."""
    rows = project / "rows.jsonl"
    rows.write_text(
        '{"answer": "A", "completion": "A"}\n{"answer": "E", "completion": "A"}\n', encoding="utf-8"
    )
    words = ("--dataset", rows, "--allow-failed", "1", "--out", "here")
    assert call("score", project / "task.yaml", *words).code == 0
    shown = call("explain", "here", "2").out
    assert "FAILED\n  reason  BAD_TRUTH\n" in shown
    assert "ground truth 'E' is not among the choices" in shown


def test_runs_lists_what_there_is(call: Call, run_folder: Path) -> None:
    """Path, status and time, then who answered, how many samples, and the main metric."""
    shown = call("runs", run_folder.parent)
    assert shown.code == 0
    assert shown.out.startswith(f"{run_folder}  complete  20")
    assert "  dataset completions  4 samples  Accuracy 25.00 % [4.56, 69.94]\n" in shown.out
    (listed,) = call("runs", run_folder.parent, "--json").json["runs"]
    assert listed["metric"] == "Accuracy"
    assert listed["value"] == 0.25


def test_runs_of_a_run_folder_is_that_run(call: Call, run_folder: Path) -> None:
    """A run folder given by mistake is listed itself."""
    assert call("runs", run_folder).out.startswith(str(run_folder))


def test_an_unreadable_run_does_not_hide_the_others(call: Call, run_folder: Path) -> None:
    """A damaged folder is listed as unreadable, with the reason."""
    broken = run_folder.parent / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{", encoding="utf-8")
    shown = call("runs", run_folder.parent)
    assert shown.code == 0
    assert f"{broken}  unreadable" in shown.out
    assert f"{run_folder}  complete" in shown.out


def test_runs_of_no_folder_is_an_error(call: Call) -> None:
    """A folder that was named must be there."""
    assert call("runs", "nowhere").err.startswith("error[E501]: `nowhere` is not a folder")


SEEN = [
    ("B", "VALID", None),
    ("B.", "VALID", None),
    ("B) Paris", "VALID", None),
    (" B", "VALID", None),
    ("Answer: B", "INVALID", "PART_OF_A_WORD"),
    ("Based on the text, B", "INVALID", "PART_OF_A_WORD"),
    ("A or B", "INVALID", "SEVERAL_CHOICES"),
    ("A good choice is C", "INVALID", "RUNS_INTO_TEXT"),
    ("", "INVALID", "EMPTY"),
    (None, "INVALID", "NO_TEXT"),
    ("E", "INVALID", "NOT_A_CHOICE"),
    ("b", "INVALID", "NOT_A_CHOICE"),
]


def test_explain_shows_verdict_and_reason_of_every_kind(call: Call, project: Path) -> None:
    """What the rule decides, and why, is visible for each completion."""
    rows = "".join(json.dumps({"answer": "B", "completion": text}) + "\n" for text, _, _ in SEEN)
    (project / "rows.jsonl").write_text(rows, encoding="utf-8")
    words = ("--dataset", project / "rows.jsonl", "--out", "here")
    assert call("score", project / "task.yaml", *words).code == 0
    for number, (_, validity, reason) in enumerate(SEEN, start=1):
        shown = call("explain", "here", number).out
        assert f"  completion_validity  {validity}\n" in shown
        assert f"  validity_reason      {reason or 'null'}\n" in shown
        assert f"  why  {validity}: " in shown


def test_a_run_of_several_tasks_is_explained_in_each(call: Call) -> None:
    """A sample that two tasks share is shown in both; `--task` picks one, and an export needs it."""
    call("init", "quick")
    file = Path("quick/run.yaml")
    text = file.read_text(encoding="utf-8")
    again = text[text.index("    - task_key: mcqa") :].replace(
        "task_key: mcqa", "key: again\n      task_key: mcqa"
    )
    file.write_text(text.rstrip("\n") + "\n" + again, encoding="utf-8")
    assert call("run", "quick", "--out", "here", "-q").code == 0
    assert call("explain", "here", "1").out.count("Sample 000001 in task ") == 2
    assert call("explain", "here", "1", "--task", "again").out.count("Sample 000001 in task ") == 1
    assert "error[E504]: the run has no task `agian`" in call("explain", "here", "1", "--task", "agian").err
    assert "error[E119]: the run has 2 tasks" in call("export", "here").err
    assert len(call("export", "here", "--task", "again").out.splitlines()) == 125


def test_the_summary_as_markdown(call: Call, run_folder: Path) -> None:
    """One page on stdout that begins with the name of the run; nothing else is said."""
    shown = call("show", run_folder, "--format", "markdown")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("# Small: complete\n")
    assert "| Accuracy | 25.00 % | [4.56, 69.94] | 4 |" in shown.out


@pytest.mark.parametrize("other", [["--json"], ["--digits", "3"]])
def test_markdown_is_one_form_at_a_time(call: Call, run_folder: Path, other: list[str]) -> None:
    """What excludes each other is refused before anything is read."""
    refused = call("show", run_folder, "--format", "markdown", *other)
    assert refused.code == 2
    assert f"`--format markdown` and `{other[0]}` exclude each other" in refused.err


def test_a_run_of_two_tasks_says_of_which_its_number_is(call: Call, project: Path) -> None:
    """The list has the number of the first task, by its name, and every model that answered."""
    task = (project / "task.yaml").read_text(encoding="utf-8")
    (project / "other.yaml").write_text(task.replace("key: small", "key: other"), encoding="utf-8")
    (project / "run.yaml").write_text(
        "datasets: [{key: rows, display_name: Rows, source: {type: local, file_path: rows.jsonl}}]\n"
        "tasks: [{$ref: task.yaml}, {$ref: other.yaml}]\n"
        "evaluation:\n"
        "  key: both\n"
        "  display_name: Both\n"
        "  task_specifications: [{task_key: small}, {task_key: other}]\n",
        encoding="utf-8",
    )
    assert call("run", project, "--out", "runs/both").code == 0
    shown = call("runs").out
    assert "dataset completions  8 samples  small: Accuracy 25.00 % [4.56, 69.94] and 1 more task\n" in shown
