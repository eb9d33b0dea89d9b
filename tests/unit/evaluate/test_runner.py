"""Laws of `run` and `score`: what they take, what they refuse, what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.projects import SCORER, describe_task

import answerkey as ak
from answerkey.evaluate.dry_run import plan_calls
from answerkey.spec import Options

if TYPE_CHECKING:
    from tests.unit.evaluate.conftest import Project

ROWS = [{"question": f"q{number}", "answer": truth} for number, truth in enumerate("BAA", start=1)]
BAD = {"question": "q4", "answer": "E"}


TASK = describe_task(scorers=[SCORER])


def test_scoring_in_memory_takes_texts_rows_frames_and_files(project: Project) -> None:
    """The same completions give the same numbers in every form that `score` takes.

    A task is loaded once.
    """
    texts = ["B", "A", "Answer: A"]
    rows = [{"completion": text} for text in texts]
    file = Path(project.write_rows(rows, "said"))
    beside = [{**row, "completion": text} for row, text in zip(ROWS, texts, strict=True)]
    loaded = ak.load_task(project.write_task(TASK))
    runs = [
        ak.score(TASK, ROWS, texts),
        ak.score(TASK, ROWS, rows),
        ak.score(loaded, pl.DataFrame(ROWS), pl.DataFrame(rows)),
        ak.score(loaded, ROWS, file),
        ak.score(TASK, beside),
    ]
    for run in runs:
        assert run.metrics["Accuracy"].value == 2 / 3
        assert run.tasks["quiz"].counts["invalid"] == 1
    with pytest.raises(ak.AnswerkeyError):
        ak.load_task({"key": "x"})


def test_scoring_in_memory_needs_completions_from_somewhere(project: Project) -> None:
    """Without completions, a column or a model there is nothing to score, and it says so."""
    for task in (TASK, project.task()):
        with pytest.raises(ak.DataError, match=r"E209.*needs completions: no model is called"):
            ak.score(task, ROWS)
    run = ak.score(project.task(), ROWS, model="builtin/constant?choice=A")
    assert run.metrics["Accuracy"].value == 2 / 3


def test_a_row_that_is_wrong_stops_the_run_unless_allowed(project: Project) -> None:
    """A truth outside the choices is the dataset's fault: no run, or FAILED and left out of every
    metric.
    """
    second = {"type": "string_equals", "ground_truth": "{{ sample.answer }}"}
    project.write_task(project.task(scorers=[SCORER, second]))
    project.write_rows([*ROWS, BAD])
    with pytest.raises(ak.DataError, match="'E' is not among the choices") as caught:
        project.run("refused", model="builtin/random")
    assert caught.value.code == "E204"
    assert "--allow-failed 1" in str(caught.value.hint)
    assert not (project.folder / "refused").exists()
    run = project.run(model="builtin/random", allow_failed="25%")
    counts = run.tasks["quiz"].counts
    assert (counts["samples"], counts["scored"], counts["failed"], counts["errors"]) == (4, 3, 1, 0)
    assert all(value.n_excluded == {"failed": 1} for value in run.metrics.values())
    statuses = run.tasks["quiz"].scores["string_equals"].struct.field("status").to_list()
    assert statuses == ["SCORED", "SCORED", "SCORED", "FAILED"]


def test_the_scorer_is_named_when_a_task_has_several() -> None:
    """Two scorers that find fault with the same row are told apart."""
    scorers = [{**SCORER, "key": key} for key in ("one", "two")]
    with pytest.raises(ak.Problems) as caught:
        ak.score(describe_task(scorers=scorers), [*ROWS, BAD], ["A"] * 4)
    scorers_named = [error.message.rpartition(" (")[2] for error in caught.value.errors]
    assert scorers_named == ["scorer `one`)", "scorer `two`)"]


def test_an_allowance_that_is_no_number_is_refused(project: Project) -> None:
    """`allow_failed` is a count or a share; a run with another leaves no folder."""
    assert Options(allow_failed="2%").failed_limit(1000) == 20
    assert Options(allow_failed=3).failed_limit(10) == 3
    for wrong in ("x", "1.5", "-1", "5 rows", "101%"):
        with pytest.raises(ak.SpecError, match="E119"):
            project.run(allow_failed=wrong, model="builtin/random")
        assert not (project.folder / "run").exists()


def test_a_check_needs_no_model_and_a_run_does(project: Project) -> None:
    """`check` never asks for a model.

    `run` refuses to start without one, or with an engine that is none.
    """
    rows = str(project.folder / "rows.jsonl")
    assert ak.check(project.folder / "task.yaml", dataset=rows).errors == ()
    for options, code in (({}, "E119"), ({"model": "builtin/random", "engine": "rya"}, "E601")):
        with pytest.raises(ak.AnswerkeyError) as caught:
            project.run(**options)
        assert caught.value.code == code
        assert not (project.folder / "run").exists()


def test_a_dry_run_counts_calls_and_shows_the_first_prompt(project: Project) -> None:
    """The plan says how many calls, and asks nothing; recorded completions need none."""
    rows, task = project.write_rows(ROWS), project.folder / "task.yaml"
    planned = plan_calls(task, dataset=rows, model="builtin/random").tasks[0]
    assert (planned.calls, planned.samples, planned.prompt_tokens) == (3, 3, 2)
    assert planned.first_prompt == [{"role": "user", "content": "q1"}]
    replies = project.write_rows([{"completion": "A"}] * 3, "said")
    assert plan_calls(task, dataset=rows, completions=replies).tasks[0].calls == 0


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
    """As for any function, an unknown keyword is a TypeError.

    It names the verb and the nearest option.
    """
    near = f"`{verb.__name__}` has no option `complections`; did you mean `completions`?"
    with pytest.raises(TypeError, match=near.replace("?", r"\?")):
        verb(*arguments, complections="x.jsonl")
    with pytest.raises(TypeError, match="has no option `bogus`; options: `config`, `model`, "):
        verb(*arguments, bogus=1)


def test_a_failing_python_scorer_beside_the_main_one_is_counted() -> None:
    """The counts are the main scorer's; what failed beside it is told with its traceback."""
    snippet = "def compute_scores(sample, solver_output):\n    return {'x': 1 / 0}\n"
    metrics = [{"type": "mean", "field": "x"}]
    counting = {"type": "python", "compute_scores_snippet": snippet, "metrics": metrics}
    run = ak.score(
        describe_task(scorers=[SCORER, counting]), ROWS, ["B", "A", "A"], trust_code=True
    )
    assert run.tasks["quiz"].counts["failed"] == 0
    reason = "SNIPPET_FAILED (raised): ZeroDivisionError"
    failure = run.tasks["quiz"].totals["failures"]["python"][reason]
    assert (failure["count"], failure["example"]["sample_id"]) == (3, "000001")
    assert "return {'x': 1 / 0}" in failure["example"]["traceback"]
    assert f"  python         {reason}      3  000001\n" in str(run)


def test_a_mean_of_text_is_found_at_load_and_costs_no_other_metric() -> None:
    """A mean of a text field is E115 at load; of a snippet's text it is a null with the reason."""
    wrong = {**SCORER, "metrics": [{"type": "mean", "field": "predicted_choice"}]}
    with pytest.raises(ak.SpecError, match=r"E115.*needs numbers"):
        ak.load_task(describe_task(scorers=[wrong]))
    snippet = "def compute_scores(sample):\n    return {'word': 'x', 'one': 1}\n"
    metrics = [{"type": "mean", "field": "word"}, {"type": "mean", "field": "one", "key": "other"}]
    scorer = {"type": "python", "compute_scores_snippet": snippet, "metrics": metrics}
    run = ak.score(describe_task(scorers=[scorer]), ROWS, trust_code=True)
    assert (run.metrics["one_mean"].value, run.metrics["word_mean"].value) == (1.0, None)
    assert "needs numbers" in str(run.metrics["word_mean"].note)


def test_a_run_is_shown_in_few_words_and_printed_in_full(project: Project) -> None:
    """One line has what matters.

    Printed, a run is its summary; a notebook shows it in escaped HTML.
    """
    project.write_rows(ROWS)
    run = project.run(model="builtin/constant?choice=A")
    assert repr(run) == (
        "Run(key='quiz', status='complete', tasks={'quiz': Accuracy=0.6667, samples=3},"
        f" path={str(project.folder / 'run')!r})"
    )
    assert repr(run.tasks["quiz"]) == "TaskRun(key='quiz', Accuracy=0.6667, samples=3)"
    assert str(run).startswith("Quiz  complete\n")
    html = ak.score(TASK, ROWS, ["B", "A", "<b>A</b>"])._repr_html_()
    assert "66.67" in html
    assert "<b>" not in html


def test_public_names_are_listed_and_others_refused() -> None:
    """A name that is not there is refused as Python does."""
    with pytest.raises(AttributeError, match="no attribute"):
        _ = ak.nonsense
    assert set(dir(ak)) >= {"run", "score", "judge", "check", "compare", "load_run", "load_task"}


# Recorded completions that a run file names.


@pytest.fixture
def recorded(project: Project) -> Project:
    """Return a project with two rows and two files of completions beside them."""
    project.write_rows([{"sample_id": name, "question": name, "answer": "A"} for name in "ab"])
    for name, replies in (("said", {"b": "B", "a": "A"}), ("other", {"a": "A", "b": "A"})):
        rows = [{"sample_id": key, "completion": text} for key, text in replies.items()]
        project.write_rows(rows, name)
    return project


@pytest.mark.parametrize("solver", [False, True])
def test_completions_beside_the_run_file_are_scored(
    recorded: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, solver: bool
) -> None:
    """Wherever the command is given.

    No model is asked, though the task has a solver; `rescore` agrees.
    """
    changes: dict[str, Any] = {} if solver else {"solver": None}
    recorded.plan({"completions": "said.jsonl"}, **changes)
    monkeypatch.chdir(tmp_path.parent)
    run = ak.run(tmp_path.name, out=tmp_path / "run")
    assert run.metrics["Accuracy"].value == 0.5
    source = run.tasks["quiz"].manifest["completions"]
    assert (source["source"], source["file"]) == ("recorded", str(tmp_path / "said.jsonl"))
    assert ak.rescore(run, out=tmp_path / "again").metrics == run.metrics


def test_the_caller_wins_over_the_file(recorded: Project, tmp_path: Path) -> None:
    """By other completions, or by a model that is to be asked."""
    plan = recorded.plan({"completions": "said.jsonl"})
    by_file = ak.run(plan, out=tmp_path / "one", completions=tmp_path / "other.jsonl")
    by_model = ak.run(plan, out=tmp_path / "two", model="builtin/constant?choice=A")
    assert (by_file.metrics["Accuracy"].value, by_model.metrics["Accuracy"].value) == (1.0, 1.0)
    assert by_model.tasks["quiz"].manifest["completions"]["source"] == "builtin"


def test_whose_completions_they_are_may_be_said(recorded: Project, tmp_path: Path) -> None:
    """By the key of a model, which is not asked.

    Its display name is shown. A file that is gone is E201.
    """
    plan = recorded.plan({"completions": "said.jsonl", "model_key": "they"}, solver=None)
    plan_text = json.loads((plan / "run.yaml").read_text())
    they = {"key": "they", "display_name": "They", "config": {"connection_type": "placeholder"}}
    (plan / "run.yaml").write_text(json.dumps({**plan_text, "models": [they]}))
    entry = ak.run(plan, out=tmp_path / "run").tasks["quiz"].manifest
    assert (entry["model"], entry["completions"]["model"]) == (None, "They")
    with pytest.raises(ak.DataError, match=r"E201.*there is no data file"):
        ak.run(recorded.plan({"completions": "gone.jsonl"}), out=tmp_path / "none")
