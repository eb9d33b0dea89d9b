"""Laws of the public verbs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import answerkey as ak
from answerkey.evaluate import Options, plan_calls, reopen

TASK: dict[str, Any] = {
    "key": "quiz",
    "display_name": "Quiz",
    "description": "Two questions.",
    "definition": {
        "dataset": {"key": "rows"},
        "scorers": [
            {
                "type": "string_equals_mcqa",
                "ground_truth_choice": "{{ sample.answer }}",
                "choices": "{{ sample.choices }}",
            }
        ],
    },
}
SOLVER = {
    "type": "single_turn_solver",
    "input_builder": {
        "type": "chat_completion",
        "input_messages": [{"role": "user", "content": "{{ sample.question }}"}],
    },
}
ROWS = [
    {"question": "q1", "answer": "B", "choices": ["A", "B"]},
    {"question": "q2", "answer": "A", "choices": ["A", "B"]},
    {"question": "q3", "answer": "A", "choices": ["A", "B"]},
]


def solved_task(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any part of a definition
    """Return the task with a solver, and with other changes to its definition."""
    return {**TASK, "definition": {**TASK["definition"], "solver": SOLVER, **changes}}


def write_project(folder: Path, task: dict[str, Any], rows: list[dict[str, Any]] = ROWS) -> tuple[Path, str]:
    """Write a task file and its rows; return both paths. JSON is YAML, too."""
    (folder / "task.yaml").write_text(json.dumps(task))
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "task.yaml", str(folder / "rows.jsonl")


def test_scoring_in_memory_takes_texts_rows_frames_and_files(tmp_path: Path) -> None:
    """The same completions give the same numbers in every form that `score` takes."""
    texts = ["B", "A", "Answer: A"]
    rows = [{"completion": text} for text in texts]
    file = tmp_path / "completions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    beside = [{**row, "completion": text} for row, text in zip(ROWS, texts, strict=True)]
    runs = [
        ak.score(TASK, ROWS, texts),
        ak.score(TASK, ROWS, rows),
        ak.score(TASK, pl.DataFrame(ROWS), pl.DataFrame(rows)),
        ak.score(TASK, ROWS, file),
        ak.score(TASK, beside),
    ]
    for run in runs:
        assert run.metrics["Accuracy"].value == 2 / 3
        assert run.tasks["quiz"].counts["invalid"] == 1


def test_scoring_in_memory_needs_completions_from_somewhere() -> None:
    """Without completions, a column or a model there is nothing to score, and it says so."""
    with pytest.raises(ak.DataError, match="needs completions") as caught:
        ak.score(TASK, ROWS)
    assert caught.value.code == "E209"
    with pytest.raises(ak.SpecError, match="neither completions nor a model"):
        ak.score(solved_task(), ROWS)
    assert ak.score(solved_task(), ROWS, model="builtin/constant?choice=A").metrics["Accuracy"].value == 2 / 3


def test_a_row_that_is_wrong_stops_the_run_unless_allowed(tmp_path: Path) -> None:
    """A truth outside the choices is the dataset's fault: no run, or FAILED and left out of every metric."""
    bad = [*ROWS, {"question": "q4", "answer": "E", "choices": ["A", "B"]}]
    scorers = [
        *TASK["definition"]["scorers"],
        {"type": "string_equals", "ground_truth": "{{ sample.answer }}"},
    ]
    task, rows = write_project(tmp_path, solved_task(scorers=scorers), bad)
    with pytest.raises(ak.DataError, match="'E' is not among the choices") as caught:
        ak.run(task, dataset=rows, model="builtin/random", out=tmp_path / "refused")
    assert caught.value.code == "E204"
    assert "--allow-failed 1" in str(caught.value.hint)
    assert not (tmp_path / "refused").exists()
    run = ak.run(task, dataset=rows, model="builtin/random", out=tmp_path / "run", allow_failed="25%")
    counts = run.tasks["quiz"].counts
    assert (counts["samples"], counts["scored"], counts["failed"], counts["errors"]) == (4, 3, 1, 0)
    assert all(value.n_excluded == {"failed": 1} for value in run.metrics.values())
    statuses = run.tasks["quiz"].scores["string_equals"].struct.field("status").to_list()
    assert statuses == ["SCORED", "SCORED", "SCORED", "FAILED"]


def test_more_than_twenty_bad_rows_are_counted_not_listed(tmp_path: Path) -> None:
    """The first 20 rows of one kind are shown, the rest as a number."""
    bad = [{"question": "q", "answer": "E", "choices": ["A", "B"]}] * 25
    task, rows = write_project(tmp_path, TASK, bad)
    found = ak.check(task, dataset=rows).errors
    shown = [error for error in found if error.code == "E204"]
    assert len(shown) == 21
    assert shown[-1].message == "scorer `string_equals_mcqa`: 5 more rows have the same trouble"
    assert "--allow-failed" not in str(shown[0].hint)  # all rows are like that: nothing would be left


def test_the_scorer_is_named_when_a_task_has_several() -> None:
    """Two scorers that find fault with the same row are told apart."""
    scorers = [{**TASK["definition"]["scorers"][0], "key": key} for key in ("one", "two")]
    bad = [*ROWS, {"question": "q4", "answer": "E", "choices": ["A", "B"]}]
    with pytest.raises(ak.Problems) as caught:
        ak.score({**TASK, "definition": {**TASK["definition"], "scorers": scorers}}, bad, ["A"] * 4)
    assert [error.message.rpartition(" (")[2] for error in caught.value.errors] == [
        "scorer `one`)",
        "scorer `two`)",
    ]


def test_too_few_examples_are_told_once(tmp_path: Path) -> None:
    """What the task asks for is at fault, not each of the rows: one error, where the task asks for it."""
    solver = {**SOLVER, "examples": {"dataset": "shots", "num_examples": 20}}
    source = {"type": "local", "file_path": "rows.jsonl"}
    write_project(tmp_path, solved_task(solver=solver))
    plan = {
        "datasets": [{"key": key, "display_name": key, "source": source} for key in ("rows", "shots")],
        "tasks": [{"$ref": "task.yaml"}],
        "evaluation": {
            "key": "few",
            "display_name": "Few",
            "description": "Too few.",
            "task_specifications": [{"task_key": "quiz", "model_key": "builtin/random"}],
        },
    }
    (tmp_path / "run.yaml").write_text(json.dumps(plan))
    (error,) = ak.check(tmp_path).errors
    assert (error.code, error.message, error.hint) == (
        "E302",
        "20 examples are asked for, and dataset `shots` has 2 that are not the sample itself",
        "lower `num_examples`",
    )
    assert "task.yaml:1:" in str(error.where)
    with pytest.raises(ak.DataError, match="20 examples are asked for"):
        ak.run(tmp_path, out=tmp_path / "out")


def test_an_allowance_that_is_no_number_is_refused() -> None:
    """`allow_failed` is a count or a share."""
    assert Options(allow_failed="2%").failed_limit(1000) == 20
    assert Options(allow_failed=3).failed_limit(10) == 3
    for wrong in ("x", "1.5", "-1", "5 rows", "101%"):
        with pytest.raises(ak.SpecError) as caught:
            Options(allow_failed=wrong).failed_limit(10)
        assert caught.value.code == "E119"


def test_a_check_needs_no_model_and_a_run_does(tmp_path: Path) -> None:
    """`check` never asks for a model; `run` refuses to start without one."""
    task, rows = write_project(tmp_path, solved_task())
    assert ak.check(task, dataset=rows).errors == ()
    with pytest.raises(ak.SpecError, match="asks a model, and none is named") as caught:
        ak.run(task, dataset=rows, out=tmp_path / "run")
    assert caught.value.code == "E119"


def test_a_config_value_that_names_no_column_is_found(tmp_path: Path) -> None:
    """A `dataset_column` parameter is checked against the dataset before anything runs."""
    spec = [{"type": "dataset_column", "key": "truth", "display_name": "T", "default_value": "anser"}]
    scorer = {**TASK["definition"]["scorers"][0], "ground_truth_choice": "{{ sample.<< config.truth >> }}"}
    definition = {**TASK["definition"], "scorers": [scorer]}
    task, rows = write_project(tmp_path, {**TASK, "config_spec": spec, "definition": definition})
    codes = [(error.code, error.hint) for error in ak.check(task, dataset=rows).errors]
    assert ("E206", "did you mean `answer`?") in codes


def test_a_dry_run_counts_calls_and_shows_the_first_prompt(tmp_path: Path) -> None:
    """The plan says how many calls, and asks nothing; recorded completions need none."""
    task, rows = write_project(tmp_path, solved_task())
    planned = plan_calls(task, dataset=rows, model="builtin/random").tasks[0]
    assert (planned.calls, planned.samples, planned.prompt_tokens) == (3, 3, 2)
    assert planned.first_prompt == [{"role": "user", "content": "q1"}]
    recorded = tmp_path / "completions.csv"
    recorded.write_text("completion\nA\nB\nA\n")
    assert plan_calls(task, dataset=rows, completions=str(recorded)).tasks[0].calls == 0


@pytest.mark.parametrize("how", ["recorded", "dataset", "builtin", "copy"])
def test_a_run_opens_again_with_its_samples_and_completions(tmp_path: Path, how: str) -> None:
    """Whatever gave the completions, a finished run gives them back in the order of its scores."""
    beside = [{**row, "completion": text} for row, text in zip(ROWS, "BBA", strict=True)]
    task, rows = write_project(tmp_path, solved_task() if how == "builtin" else TASK, beside)
    (tmp_path / "completions.csv").write_text("completion\nB\nB\nA\n")
    choices: dict[str, dict[str, Any]] = {
        "recorded": {"completions": str(tmp_path / "completions.csv")},
        "copy": {"completions": str(tmp_path / "completions.csv"), "copy": True},
        "dataset": {},
        "builtin": {"model": "builtin/constant?choice=B"},
    }
    run = ak.run(task, dataset=rows, out=tmp_path / "run", **choices[how])
    again = reopen(ak.load_run(tmp_path / "run"))
    whole = again.read(0, len(again))
    texts = whole.completions.frame["completion"].to_list()
    assert texts == (["B", "B", "B"] if how == "builtin" else ["B", "B", "A"])
    assert whole.samples.ids.to_list() == run.tasks["quiz"].scores["sample_id"].to_list()
    assert whole.scores.equals(run.tasks["quiz"].scores)
    assert again.task.fingerprint == run.tasks["quiz"].manifest["task"]["fingerprint"]


def test_a_run_whose_files_changed_is_not_opened_again(tmp_path: Path) -> None:
    """A dataset or a completions file that is not what it was is E505, never silently other numbers."""
    task, rows = write_project(tmp_path, TASK)
    completions = tmp_path / "completions.csv"
    completions.write_text("completion\nB\nB\nA\n")
    ak.run(task, dataset=rows, completions=str(completions), out=tmp_path / "run")
    completions.write_text("completion\nA\nB\nA\n")
    with pytest.raises(ak.RunError, match="content has changed") as caught:
        reopen(ak.load_run(tmp_path / "run"))
    assert caught.value.code == "E505"
    completions.unlink()
    with pytest.raises(ak.RunError, match="not there any more"):
        reopen(ak.load_run(tmp_path / "run"))
    Path(rows).write_text('{"question": "other", "answer": "A", "choices": ["A"]}\n')
    with pytest.raises(ak.RunError, match="the run's dataset"):
        reopen(ak.load_run(tmp_path / "run"))


def test_actions_keep_samples_out_of_every_metric() -> None:
    """A rule over the scores excludes samples, and the metric counts them under the rule's key."""
    rule = {
        "key": "only_valid",
        "action": "exclude_from_metrics",
        "filter": {
            "op": "equals",
            "expression": "{{ scores.string_equals_mcqa.completion_validity }}",
            "value": "INVALID",
        },
    }
    task = {**TASK, "definition": {**TASK["definition"], "actions": [rule]}}
    run = ak.score(task, ROWS, ["B", "A", "Answer: A"])
    value = run.metrics["Accuracy"]
    assert (value.value, value.n, value.n_excluded) == (1.0, 2, {"excluded:only_valid": 1})


def test_an_unknown_engine_leaves_no_folder(tmp_path: Path) -> None:
    """The engine is opened before the run folder is made."""
    task, rows = write_project(tmp_path, TASK)
    (tmp_path / "c.csv").write_text("completion\nB\nB\nA\n")
    with pytest.raises(ak.EngineError) as caught:
        ak.run(task, dataset=rows, completions=str(tmp_path / "c.csv"), engine="rya", out=tmp_path / "run")
    assert caught.value.code == "E601"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        (ak.score, (TASK, ROWS, ["A"] * 3)),
        (ak.run, ("task.yaml",)),
        (ak.check, ("task.yaml",)),
        (ak.plan_calls, ("task.yaml",)),
    ],
)
def test_an_option_that_does_not_exist_is_told_with_the_nearest(verb: Any, arguments: Any) -> None:  # noqa: ANN401 - any verb
    """As for any function, an unknown keyword is a TypeError; it names the verb and the nearest option."""
    with pytest.raises(TypeError) as caught:
        verb(*arguments, complections="x.jsonl")
    assert str(caught.value) == (
        f"`{verb.__name__}` has no option `complections`; did you mean `completions`?"
    )
    with pytest.raises(TypeError, match="has no option `bogus`; options: `config`, `model`, "):
        verb(*arguments, bogus=1)


def test_a_failing_python_scorer_beside_the_main_one_is_counted() -> None:
    """The counts are the main scorer's; what failed beside it is told with its traceback."""
    snippet = "def compute_scores(sample, solver_output):\n    return {'x': 1 / 0}\n"
    own = {
        "type": "python",
        "compute_scores_snippet": snippet,
        "metrics": [{"type": "mean", "field": "x"}],
    }
    scorers = [*TASK["definition"]["scorers"], own]
    task = {**TASK, "definition": {**TASK["definition"], "scorers": scorers}}
    run = ak.score(task, ROWS, ["B", "A", "A"], trust_code=True)
    assert run.tasks["quiz"].counts["failed"] == 0
    (found,) = run.tasks["quiz"].tally["failures"]["python"].items()
    assert found[0] == "SNIPPET_FAILED (raised): ZeroDivisionError"
    assert (found[1]["count"], found[1]["example"]["sample_id"]) == (3, "000001")
    assert "return {'x': 1 / 0}" in found[1]["example"]["traceback"]
    assert "  python         SNIPPET_FAILED (raised): ZeroDivisionError      3  000001\n" in str(run)


def test_a_run_is_shown_in_few_words_and_printed_in_full(tmp_path: Path) -> None:
    """The representation has what matters on one line; printed, a run is its summary."""
    task, rows = write_project(tmp_path, solved_task())
    run = ak.run(task, dataset=rows, model="builtin/constant?choice=A", out=tmp_path / "run")
    assert repr(run) == (
        "Run(key='quiz', status='complete', tasks={'quiz': Accuracy=0.6667, samples=3},"
        f" path={str(tmp_path / 'run')!r})"
    )
    assert repr(run.tasks["quiz"]) == "TaskRun(key='quiz', Accuracy=0.6667, samples=3)"
    assert str(run).startswith("Quiz  complete\n")


def test_a_run_shows_itself_in_a_notebook() -> None:
    """The notebook hook gives escaped HTML with the numbers."""
    run = ak.score(TASK, ROWS, ["B", "A", "<b>A</b>"])
    html = run._repr_html_()
    assert "66.67" in html
    assert "<b>" not in html


def test_public_names_are_listed_and_others_refused() -> None:
    """A name that is not there is refused as Python does."""
    with pytest.raises(AttributeError, match="no attribute"):
        _ = ak.nonsense
    assert set(dir(ak)) >= {"run", "score", "judge", "check", "compare", "load_run", "load_task"}


def test_a_task_is_loaded_once_and_used_many_times(tmp_path: Path) -> None:
    """`load_task` gives a task that `score` takes; its errors come all at once."""
    file, _ = write_project(tmp_path, TASK)
    task = ak.load_task(file)
    assert ak.score(task, ROWS, ["B", "A", "A"]).metrics["Accuracy"].value == 1.0
    with pytest.raises(ak.AnswerkeyError):
        ak.load_task({"key": "x"})


def test_a_mean_of_text_is_found_at_load_and_costs_no_other_metric() -> None:
    """A mean of a text field is E115 at load; of a snippet's text it is a null with the reason."""
    wrong = {**TASK["definition"]["scorers"][0], "metrics": [{"type": "mean", "field": "predicted_choice"}]}
    with pytest.raises(ak.SpecError, match="needs numbers") as caught:
        ak.load_task({**TASK, "definition": {**TASK["definition"], "scorers": [wrong]}})
    assert caught.value.code == "E115"
    snippet = {
        "type": "python",
        "compute_scores_snippet": "def compute_scores(sample):\n    return {'word': 'x', 'one': 1}\n",
        "metrics": [{"type": "mean", "field": "word"}, {"type": "mean", "field": "one", "key": "other"}],
    }
    task = {**TASK, "definition": {**TASK["definition"], "scorers": [snippet]}}
    run = ak.score(task, ROWS, trust_code=True)
    assert run.metrics["one_mean"].value == 1.0
    assert run.metrics["word_mean"].value is None
    assert "needs numbers" in str(run.metrics["word_mean"].note)
