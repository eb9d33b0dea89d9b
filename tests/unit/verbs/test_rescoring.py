"""Laws of runs whose completions are scored again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak

SCORER = {"type": "string_equals_mcqa", "ground_truth_choice": "{{ sample.answer }}", "choices": ["A", "B"]}
SOLVER = {
    "type": "single_turn_solver",
    "input_builder": {
        "type": "chat_completion",
        "input_messages": [{"role": "user", "content": "{{ sample.question }}"}],
    },
}
ROWS = [
    {"question": "q1", "answer": "A", "second": "B"},
    {"question": "q2", "answer": "B", "second": "B"},
    {"question": "q3", "answer": "A", "second": "A"},
]


def make_task(**changes: object) -> dict[str, Any]:
    """Return the task, with changes to its definition."""
    definition = {"solver": SOLVER, "scorers": [SCORER], **changes}
    return {"key": "quiz", "display_name": "Quiz", "description": "", "definition": definition}


def write_rows(file: Path, rows: list[dict[str, Any]]) -> str:
    """Write rows as JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


@pytest.fixture
def old(tmp_path: Path) -> ak.Run:
    """Return a finished run of a model that always says A."""
    (tmp_path / "task.yaml").write_text(json.dumps(make_task()))
    dataset = write_rows(tmp_path / "rows.jsonl", ROWS)
    return ak.run(
        tmp_path / "task.yaml", dataset=dataset, model="builtin/constant?choice=A", out=tmp_path / "old"
    )


def test_the_same_task_gives_the_same_numbers(old: ak.Run, tmp_path: Path) -> None:
    """Without a new task the old one is used; the new run says which run it comes from."""
    again = ak.rescore(old, out=tmp_path / "new")
    assert again.metrics == old.metrics
    assert again.tasks["quiz"].scores.equals(old.tasks["quiz"].scores)
    assert again.tasks["quiz"].completions.equals(old.tasks["quiz"].completions)
    assert again.manifest["rescored_from"]["path"] == str(tmp_path / "old")
    assert again.tasks["quiz"].manifest["model"] == old.tasks["quiz"].manifest["model"]
    assert again.tasks["quiz"].manifest["dataset"] == old.tasks["quiz"].manifest["dataset"]


def test_a_changed_scorer_changes_the_numbers_only(old: ak.Run, tmp_path: Path) -> None:
    """The completions are those of the old run, which stays as it is."""
    before = (tmp_path / "old" / "run.json").read_bytes()
    changed = make_task(scorers=[{**SCORER, "ground_truth_choice": "{{ sample.second }}"}])
    again = ak.rescore(tmp_path / "old", changed, out=tmp_path / "new")
    assert old.metrics["Accuracy"].value == pytest.approx(2 / 3)
    assert again.metrics["Accuracy"].value == pytest.approx(1 / 3)
    assert again.manifest["notices"] == []
    assert (tmp_path / "old" / "run.json").read_bytes() == before


@pytest.mark.parametrize("kind", ["file", "task", "mapping"])
def test_a_task_comes_in_every_form(old: ak.Run, tmp_path: Path, kind: str) -> None:
    """A task file, a mapping and a Task do the same."""
    mapping = make_task(scorers=[{**SCORER, "key": "other"}])
    file = tmp_path / "new.yaml"
    file.write_text(json.dumps(mapping))
    forms: dict[str, Any] = {"file": file, "task": ak.load_task(file), "mapping": mapping}
    again = ak.rescore(old, forms[kind], out=tmp_path / "new")
    assert [one["key"] for one in again.tasks["quiz"].manifest["scorers"]] == ["other"]


def test_a_run_file_has_the_tasks_by_their_keys(tmp_path: Path) -> None:
    """A changed `run.yaml` scores its task specifications again; one that is gone is left out."""
    write_rows(tmp_path / "rows.jsonl", ROWS)
    dataset = {
        "key": "rows",
        "display_name": "Rows",
        "source": {"type": "local", "file_path": "rows.jsonl"},
    }
    wanted = [{"key": key, "task_key": "quiz", "model_key": "builtin/random"} for key in ("one", "two")]
    evaluation: dict[str, Any] = {
        "key": "both",
        "display_name": "Both",
        "description": "",
        "task_specifications": wanted,
    }
    plan: dict[str, Any] = {"tasks": [make_task()], "datasets": [dataset], "evaluation": evaluation}
    (tmp_path / "run.yaml").write_text(json.dumps(plan))
    first = ak.run(tmp_path, out=tmp_path / "old")
    assert list(first.tasks) == ["one", "two"]
    changed = make_task(scorers=[{**SCORER, "ground_truth_choice": "B"}])
    plan |= {"tasks": [changed], "evaluation": {**evaluation, "task_specifications": wanted[1:]}}
    (tmp_path / "run.yaml").write_text(json.dumps(plan))
    again = ak.rescore(first, tmp_path, out=tmp_path / "new")
    assert list(again.tasks) == ["two"]
    said = again.tasks["two"].completions["completion"].to_list()
    assert again.tasks["two"].metrics["Accuracy"].value == pytest.approx(said.count("B") / 3)
    assert "task `one` is left out: it is not among the new tasks" in again.manifest["notices"][0]


def test_config_values_are_taken_over(tmp_path: Path) -> None:
    """A value that nobody gives is the old run's; the caller's wins."""
    task = make_task(scorers=[{**SCORER, "ground_truth_choice": "{{ sample.<< config.column >> }}"}])
    task["config_spec"] = [{"type": "dataset_column", "key": "column", "display_name": "Column"}]
    (tmp_path / "task.yaml").write_text(json.dumps(task))
    dataset = write_rows(tmp_path / "rows.jsonl", ROWS)
    options: dict[str, Any] = {"dataset": dataset, "model": "builtin/constant?choice=A"}
    first = ak.run(tmp_path / "task.yaml", config={"column": "second"}, out=tmp_path / "old", **options)
    assert first.metrics["Accuracy"].value == pytest.approx(1 / 3)
    same = ak.rescore(first, tmp_path / "task.yaml", out=tmp_path / "same")
    assert same.metrics["Accuracy"].value == pytest.approx(1 / 3)
    other = ak.rescore(first, tmp_path / "task.yaml", config={"column": "answer"}, out=tmp_path / "other")
    assert other.metrics["Accuracy"].value == pytest.approx(2 / 3)


def test_a_task_that_would_ask_something_else_is_noted(old: ak.Run, tmp_path: Path) -> None:
    """The completions are answers to the old prompts, and the run says so."""
    builder = {
        "type": "chat_completion",
        "input_messages": [{"role": "user", "content": "Please: {{ sample.question }}"}],
    }
    changed = make_task(solver={**SOLVER, "input_builder": builder})
    again = ak.rescore(old, changed, out=tmp_path / "new")
    assert "task `quiz` would ask something else now" in again.manifest["notices"][0]


def test_recorded_completions_are_still_referred_to(tmp_path: Path) -> None:
    """They are not copied, unless that is asked for; changed ones are E505."""
    (tmp_path / "task.yaml").write_text(json.dumps(make_task()))
    dataset = write_rows(tmp_path / "rows.jsonl", ROWS)
    said = write_rows(tmp_path / "said.jsonl", [{"completion": text} for text in "ABA"])
    first = ak.run(tmp_path / "task.yaml", dataset=dataset, completions=said, out=tmp_path / "old")
    again = ak.rescore(first, out=tmp_path / "new")
    assert again.metrics == first.metrics
    assert again.tasks["quiz"].completions.is_empty()
    assert ak.rescore(again, out=tmp_path / "third", copy=True).tasks["quiz"].completions.height == 3
    write_rows(tmp_path / "said.jsonl", [{"completion": text} for text in "BBB"])
    with pytest.raises(ak.RunError) as caught:
        ak.rescore(first, out=tmp_path / "fourth")
    assert caught.value.code == "E505"


def test_a_row_that_was_not_asked_is_an_error_once_it_is_in_order(tmp_path: Path) -> None:
    """The old run left out a row with a bad truth; with a truth it has no completion, and no score."""
    (tmp_path / "task.yaml").write_text(json.dumps(make_task()))
    dataset = write_rows(tmp_path / "rows.jsonl", [*ROWS, {"question": "q4", "answer": "Z", "second": "A"}])
    first = ak.run(
        tmp_path / "task.yaml",
        dataset=dataset,
        model="builtin/constant?choice=A",
        out=tmp_path / "old",
        allow_failed=1,
    )
    assert first.tasks["quiz"].counts["failed"] == 1
    same = ak.rescore(first, out=tmp_path / "same")
    assert same.status == "complete"
    assert same.tasks["quiz"].counts == first.tasks["quiz"].counts
    changed = make_task(scorers=[{**SCORER, "ground_truth_choice": "{{ sample.second }}"}])
    again = ak.rescore(first, changed, out=tmp_path / "new")
    assert again.status == "incomplete"
    counts = again.tasks["quiz"].counts
    assert (counts["scored"], counts["failed"], counts["errors"]) == (3, 0, 1)


def test_trials_and_repetitions_are_scored_again(tmp_path: Path) -> None:
    """Each trial and each repetition keeps its completions; another number of trials is E507."""
    write_rows(tmp_path / "rows.jsonl", ROWS)
    dataset = {"key": "rows", "display_name": "Rows", "source": {"type": "local", "file_path": "rows.jsonl"}}
    wanted = {"task_key": "quiz", "model_key": "builtin/random", "repeatability": {"num_runs": 2}}
    plan: dict[str, Any] = {
        "tasks": [make_task(trials={"num_trials": 3})],
        "datasets": [dataset],
        "evaluation": {"key": "e", "display_name": "E", "description": "", "task_specifications": [wanted]},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(plan))
    first = ak.run(tmp_path, out=tmp_path / "old")
    assert first.tasks["quiz"].completions.height == 9
    again = ak.rescore(first, out=tmp_path / "new")
    assert again.metrics == first.metrics
    assert again.tasks["quiz"].completions.equals(first.tasks["quiz"].completions)
    repeated = zip(again.tasks["quiz"].repetitions, first.tasks["quiz"].repetitions, strict=True)
    assert all(new.scores.equals(old.scores) for new, old in repeated)
    with pytest.raises(ak.RunError, match="has 1 trials; the old run asked each sample 3 times") as caught:
        ak.rescore(first, make_task(), out=tmp_path / "other")
    assert caught.value.code == "E507"


def test_a_run_that_is_not_finished_is_resumed_first(old: ak.Run, tmp_path: Path) -> None:
    """E507 says so."""
    manifest = json.loads((tmp_path / "old" / "run.json").read_text())
    (tmp_path / "old" / "run.json").write_text(json.dumps({**manifest, "status": "running"}))
    with pytest.raises(ak.RunError, match="not finished") as caught:
        ak.rescore(old.path or "", out=tmp_path / "new")
    assert caught.value.code == "E507"


def test_a_task_of_another_key_is_only_for_the_only_task(old: ak.Run, tmp_path: Path) -> None:
    """In a run of one task the new one may have any key."""
    other = {**make_task(), "key": "renamed"}
    assert list(ak.rescore(old, other, out=tmp_path / "new").tasks) == ["quiz"]


def test_samples_and_completions_cannot_be_chosen(old: ak.Run, tmp_path: Path) -> None:
    """They are those of the old run."""
    with pytest.raises(ak.SpecError, match="`num_samples` cannot be chosen") as caught:
        ak.rescore(old, out=tmp_path / "new", num_samples=2)
    assert caught.value.code == "E119"


def test_a_damaged_task_file_is_shown_with_all_its_errors(old: ak.Run, tmp_path: Path) -> None:
    """Nothing is written for a task that cannot be used."""
    (tmp_path / "task.yaml").write_text(json.dumps(make_task(scorers=[{"type": "nonsense"}])))
    with pytest.raises(ak.SpecError) as caught:
        ak.rescore(old, tmp_path / "task.yaml", out=tmp_path / "new")
    assert caught.value.code == "E109"
    assert not (tmp_path / "new").exists()
