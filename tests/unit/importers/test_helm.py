from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.unit.importers.conftest import WHICH

from answerkey.errors import Problems

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk


def state(number: int = 1, text: str = " B", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the state of a question that shows its options; the second reference is right."""
    return {
        "instance": {
            "id": f"id{number}",
            "input": {"text": "Which?"},
            "split": "test",
            "references": [
                {"output": {"text": "one"}, "tags": []},
                {"output": {"text": "two"}, "tags": ["correct"]},
            ],
        },
        "train_trial_index": 0,
        "output_mapping": {"A": "one", "B": "two"},
        "request": {"model": "some/model", "prompt": "Which?\nA. one\nB. two\nAnswer:"},
        "result": {
            "success": True,
            "completions": [{"text": text, "logprob": -1}],
            "request_time": 0.5,
        },
        **fields,
    }


def stats(number: int, value: float, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the statistics of a question."""
    listed = [
        {"name": {"name": "num_references", "split": "test"}, "mean": 2},
        {"name": {"name": "exact_match", "split": "test"}, "count": 1, "sum": value, "mean": value},
    ]
    return {"instance_id": f"id{number}", "train_trial_index": 0, "stats": listed, **fields}


def write_run(
    desk: Desk,
    states: list[Any],
    verdicts: list[Any] | None = None,
    *,
    name: str = "mmlu:subject=maps,model=some_model",
    method: str = "multiple_choice_joint",
    model: str = "some/model",
) -> Path:
    """Write the folder of a run."""
    spec = {"method": method, "model": model}
    desk.json(f"{name}/scenario_state.json", {"adapter_spec": spec, "request_states": states})
    if verdicts is not None:
        desk.json(f"{name}/per_instance_stats.json", verdicts)
    return desk.folder / name


def test_a_state_is_a_question_with_the_verdict_of_its_statistics(desk: Desk) -> None:
    """The truth is the label of the reference that is tagged; statistics come in any order."""
    log = write_run(desk, [state(1), state(2, "A or B")], [stats(2, 0.0), stats(1, 1.0)])
    result = desk.bring(log)
    about = result.tasks[0].description
    assert (result.kind, about.task, about.model) == ("helm", "mmlu:subject=maps", "some/model")
    assert (about.score, result.tasks[0].imported_mean) == ("exact_match", 0.5)
    assert desk.asked()[0] == {
        "sample_id": "id1",
        **WHICH,
        "original": {"id": "id1", "split": "test"},
    }
    columns = ("completion", "imported_score", "imported_answer", "latency")
    assert desk.said(*columns) == [(" B", 1.0, "B", 0.5), ("A or B", 0.0, None, 0.5)]


def test_references_asked_one_by_one_are_ranked(desk: Desk) -> None:
    """The log-probability of each is that of its last tokens, compared for one token."""

    def ask(number: int, place: int, logprob: float) -> dict[str, Any]:
        tokens = [{"text": "Which?", "logprob": -9.0}, {"text": " one", "logprob": logprob}]
        parts = state(
            number, result={"success": True, "completions": [{"text": "", "tokens": tokens}]}
        )
        del parts["output_mapping"]
        return {**parts, "reference_index": place, "request_mode": "original"}

    states = [ask(1, 0, -2.0), ask(1, 1, -1.0), ask(2, 0, -1.0), ask(2, 1, -2.0)]
    desk.bring(write_run(desk, states, method="multiple_choice_separate_original"))
    assert desk.said("completion") == ["B", "A"]
    ranking = desk.said("logprobs")[0]["ranking"]
    assert [entry["continuation"] for entry in ranking] == [" one", " two"]
    assert [entry["logprob"] for entry in ranking] == [-2.0, -1.0]
    assert "choice_probabilities" in desk.text("run.yaml")


def test_several_choices_of_worked_examples_are_trials(desk: Desk) -> None:
    """The verdict of each is its own."""
    states = [state(1), state(1, "A", train_trial_index=1)]
    log = write_run(desk, states, [stats(1, 1.0), stats(1, 0.0, train_trial_index=1)])
    assert desk.bring(log).tasks[0].num_trials == 2
    assert desk.said("imported_score") == [1.0, 0.0]


def test_failed_requests_are_errors_and_altered_questions_are_left_aside(desk: Desk) -> None:
    """With the reason that HELM gives; altered ones would count twice."""
    failed = state(1, result={"success": False, "completions": [], "error": "HTTP 500"})
    altered = state(2)
    altered["instance"]["perturbation"] = {"name": "typos"}
    result = desk.bring(write_run(desk, [failed, state(2), altered], [stats(1, 1.0)]))
    assert desk.said("completion_status", "error") == [("ERROR", "HTTP 500"), ("OK", None)]
    assert "1 questions with altered wording" in result.notices[0].message


def test_runs_of_one_model_are_one_log_and_of_several_are_refused(desk: Desk) -> None:
    """Each is a task."""
    write_run(desk, [state(1)], name="runs/a:model=m")
    write_run(desk, [state(1)], name="runs/b:model=m")
    assert desk.bring(desk.folder / "runs").samples == 2
    assert desk.asked("sample_id", task="a") == desk.asked("sample_id", task="b") == ["id1"]
    write_run(desk, [state(1)], name="runs/c:model=n", model="other")
    desk.refuse("the output of several models: `other`, `some/model`", desk.folder / "runs")


def test_compressed_files_are_read(desk: Desk) -> None:
    """As if they were not compressed."""
    log = write_run(desk, [state(1)], [stats(1, 1.0)])
    states = log / "scenario_state.json"
    (log / "scenario_state.json.gz").write_bytes(gzip.compress(states.read_bytes()))
    states.unlink()
    result = desk.bring(log)
    assert (result.kind, result.tasks[0].imported_mean) == ("helm", 1.0)
    assert result.tasks[0].description.model == "some/model"


def test_states_that_cannot_be_read_are_named(desk: Desk) -> None:
    """By file and place; the rest can be had."""
    log = write_run(desk, [state(1), {"instance": {}}, 3], [])
    error = desk.refuse("the state has no `instance.id`", log)
    assert isinstance(error, Problems)
    assert len(error.errors) == 2
    assert str(error.errors[0].where).endswith("scenario_state.json")
    assert desk.bring(log, allow_failed="2").damaged == 2
