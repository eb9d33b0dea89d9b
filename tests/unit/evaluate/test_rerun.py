"""Laws of runs that are gone on with, opened again, scored again, or measured by other groups."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.projects import SCORER, describe_solver

import answerkey as ak
from answerkey.errors import DataError, Problems, RunError
from answerkey.evaluate.reopen import DerivedRows, regroup, reopen

if TYPE_CHECKING:
    from tests.unit.evaluate.conftest import Project

MODEL = "builtin/simulated?accuracy=0.5&style=mixed&seed=3"
SAYS_A = "builtin/constant?choice=A"
ROWS = [
    {"question": "q1", "answer": "A", "second": "B"},
    {"question": "q2", "answer": "B", "second": "B"},
    {"question": "q3", "answer": "A", "second": "A"},
]


Start = Callable[..., ak.Run]


def by_second(project: Project) -> dict[str, Any]:
    """Return the task with another column as its truth."""
    return project.task(scorers=[{**SCORER, "ground_truth_choice": "{{ sample.second }}"}])


def interrupt(
    project: Project, start: Start | None = None, *, after: int = 1, **options: object
) -> Path:
    """Return the folder of a run that was interrupted after this many chunks."""
    stopped, stages = project.folder / "stopped", list[str]()

    def stop(stage: str, *_: object) -> None:
        stages.append(stage)
        if stages.count("score") == after:
            raise KeyboardInterrupt

    rows = project.folder / "rows.jsonl"
    start = start or partial(ak.run, project.folder / "task.yaml", dataset=rows)
    with pytest.raises(KeyboardInterrupt) as caught:
        start(out=stopped, progress=stop, **options)
    assert caught.value.__notes__ == [f"answerkey resume {stopped}"]
    assert not (stopped / "lock").exists()
    assert ak.load_run(stopped).status == "incomplete"
    return stopped


def read_results(folder: Path) -> dict[str, object]:
    """Return every file of a run, `run.json` without its times."""
    results: dict[str, object] = {}
    for path in folder.rglob("*"):
        if path.is_file():
            results[str(path.relative_to(folder))] = path.read_bytes()
    manifest = json.loads((folder / "run.json").read_text())
    return results | {"run.json": {**manifest, "started_at": None, "ended_at": None}}


# `resume`


@pytest.mark.parametrize("how", ["model", "recorded", "repetitions", "rescored"])
def test_a_resumed_run_is_the_uninterrupted_one(project: Project, how: str) -> None:
    """Every file is the same, byte by byte, and so is what ran, times aside.

    The task file may be gone. A rescored run goes on with the completions of the run that it scores
    again.
    """
    rows = project.folder / "rows.jsonl"
    start = partial(ak.run, project.folder / "task.yaml", model=MODEL, dataset=rows)
    if how == "recorded":
        replies = project.write_rows([{"completion": letter} for letter in "ABABBX"], "said")
        start = partial(start, model=None, completions=replies)
    if how == "repetitions":
        repeated = {"repeatability": {"num_runs": 2}, "model_key": MODEL}
        start = partial(ak.run, project.plan(repeated, trials={"num_trials": 2}))
    if how == "rescored":
        start = partial(ak.rescore, project.run("old", model=MODEL))
    whole = start(out=project.folder / "whole")
    stopped = interrupt(project, start, after=2 if how == "repetitions" else 1)
    (project.folder / "task.yaml").unlink()
    resumed = ak.resume(stopped)
    assert (resumed.status, resumed.metrics) == ("complete", whole.metrics)
    assert read_results(stopped) == read_results(project.folder / "whole")


def test_options_of_the_start_still_hold(project: Project) -> None:
    """Selection, allowance and config need not be given again."""
    project.write_rows([*ROWS, {"question": "q", "answer": "Z"}, *ROWS])
    stopped = interrupt(project, model=MODEL, num_samples=5, allow_failed=2, subsampling="head")
    counts = ak.resume(stopped).tasks["quiz"].counts
    assert (counts["samples"], counts["failed"]) == (5, 1)


def test_examples_are_picked_again(project: Project) -> None:
    """A run with examples from a second dataset is resumed with the same prompts.

    Changed ones are E505.
    """
    pool = [{"question": f"p{n}", "answer": "A"} for n in range(5)]
    project.write_rows(pool, "pool")
    examples = {"dataset": "pool", "num_examples": 2}
    solver = {**describe_solver("{{ examples }} {{ sample.question }}"), "examples": examples}
    plan = project.plan({}, datasets=("rows", "pool"), solver=solver, dataset={"key": "rows"})
    stopped = interrupt(project, partial(ak.run, plan), model=MODEL)
    part = stopped / "tasks" / "quiz" / "completions" / "part-00000.parquet"
    before = part.read_bytes()
    project.write_rows([{"question": "other", "answer": "A"}] * 5, "pool")
    with pytest.raises(RunError, match=r"E505.*examples cannot be opened again"):
        ak.resume(stopped)
    project.write_rows(pool, "pool")
    assert ak.resume(stopped).status == "complete"
    assert part.read_bytes() == before


def test_a_complete_run_is_left_as_it_is(project: Project) -> None:
    """Resuming it changes no byte, and returns it."""
    project.run("whole", model=MODEL)
    before = (project.folder / "whole" / "run.json").read_bytes()
    (project.folder / "rows.jsonl").unlink()
    assert ak.resume(project.folder / "whole").status == "complete"
    assert (project.folder / "whole" / "run.json").read_bytes() == before


@pytest.mark.parametrize(("name", "is_gone"), [("rows", False), ("rows", True), ("said", False)])
def test_files_that_have_changed_are_e505(project: Project, name: str, *, is_gone: bool) -> None:
    """Half of one dataset and half of another is no result; the run stays as it was."""
    replies = project.write_rows([{"completion": "A"}] * 6, "said")
    stopped = interrupt(project, completions=replies)
    before = (stopped / "run.json").read_bytes()
    changed = project.write_rows([{"question": "o", "answer": "B", "completion": "B"}] * 6, name)
    if is_gone:
        Path(changed).unlink()
    what = "dataset" if name == "rows" else "completions"
    with pytest.raises(RunError, match=f"E505.*{what} cannot be opened again"):
        ak.resume(stopped)
    assert (stopped / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": {"warp": 9}}, "options that it cannot decide: `warp`"),
        ({"options": {"trust_code": True}}, "options that it cannot decide: `trust_code`"),
        ({"options": {"allow_hosts": ["collector.example"]}}, "it cannot decide: `allow_hosts`"),
        ({"options": {"env": "evil.env"}}, "options that it cannot decide: `env`"),
        ({"rescored_from": {"path": "/old", "started_at": None}}, "`/old` is no longer the run"),
    ],
)
def test_a_refused_resume_says_why(project: Project, change: dict[str, Any], message: str) -> None:
    """E507, whatever is missing."""
    stopped = interrupt(project, model=MODEL)
    manifest = json.loads((stopped / "run.json").read_text())
    (stopped / "run.json").write_text(json.dumps(manifest | change))
    with pytest.raises(RunError, match=f"E507.*{message}"):
        ak.resume(stopped)


def test_what_decides_the_numbers_cannot_be_changed(project: Project) -> None:
    """Another model or dataset is another run; samples and completions are those of the old one."""
    stopped = interrupt(project, model=MODEL)
    with pytest.raises(
        ak.SpecError, match=r"E119.*`model` cannot be changed: the old run has fixed it"
    ):
        ak.resume(stopped, model="builtin/random")
    with pytest.raises(
        ak.SpecError, match=r"E119.*`num_samples` cannot be changed: the old run has fixed it"
    ):
        ak.rescore(ak.resume(stopped), out=project.folder / "new", num_samples=2)


# `rescore`


@pytest.fixture
def old(project: Project) -> ak.Run:
    """Return a finished run of a model that always says A."""
    project.write_rows(ROWS)
    return project.run("old", model=SAYS_A)


def test_the_same_task_gives_the_same_numbers(old: ak.Run, tmp_path: Path) -> None:
    """Without a new task the old one is used; the new run says which run it comes from."""
    again = ak.rescore(old, out=tmp_path / "new")
    assert again.metrics == old.metrics
    assert again.manifest["rescored_from"]["path"] == str(tmp_path / "old")
    new, before = again.tasks["quiz"], old.tasks["quiz"]
    assert new.scores.equals(before.scores)
    assert new.completions.equals(before.completions)
    for name in ("model", "dataset"):
        assert new.manifest[name] == before.manifest[name]


@pytest.mark.parametrize("form", ["file", "task", "mapping"])
def test_a_changed_task_changes_the_numbers_only(project: Project, old: ak.Run, form: str) -> None:
    """A task file, a mapping and a Task do the same, of any key; the old run stays as it is."""
    before = (project.folder / "old" / "run.json").read_bytes()
    mapping = by_second(project) | {"key": "renamed"}
    file = project.write_task(mapping)
    forms: dict[str, Any] = {"file": file, "task": ak.load_task(file), "mapping": mapping}
    again = ak.rescore(project.folder / "old", forms[form], out=project.folder / "new")
    assert old.metrics["Accuracy"].value == pytest.approx(2 / 3)
    assert again.tasks["quiz"].metrics["Accuracy"].value == pytest.approx(1 / 3)
    assert again.manifest["notices"] == []
    assert (project.folder / "old" / "run.json").read_bytes() == before


def test_config_values_are_taken_over(project: Project) -> None:
    """A value that is not given is taken from the old run; the caller's wins."""
    truth = "{{ sample.<< config.column >> }}"
    task = project.task(scorers=[{**SCORER, "ground_truth_choice": truth}])
    task["config_spec"] = [{"type": "dataset_column", "key": "column", "display_name": "Column"}]
    file, _ = project.write_task(task), project.write_rows(ROWS)
    first = project.run("old", config={"column": "second"}, model=SAYS_A)
    same = ak.rescore(first, file, out=project.folder / "same")
    changed = ak.rescore(first, file, config={"column": "answer"}, out=project.folder / "other")
    values = [run.metrics["Accuracy"].value for run in (first, same, changed)]
    assert values == pytest.approx([1 / 3, 1 / 3, 2 / 3])


def test_a_task_that_would_ask_something_else_is_noted(project: Project, old: ak.Run) -> None:
    """The completions are answers to the old prompts, and the run says so."""
    solver = describe_solver("Please: {{ sample.question }}")
    again = ak.rescore(old, project.task(solver=solver), out=project.folder / "new")
    assert "task `quiz` would send other prompts now" in again.manifest["notices"][0]


def test_recorded_completions_are_still_referred_to(project: Project) -> None:
    """They are not copied, unless that is asked for."""
    replies = project.write_rows([{"completion": text} for text in "ABABAB"], "said")
    first = project.run("old", completions=replies)
    again = ak.rescore(first, out=project.folder / "new")
    assert again.metrics == first.metrics
    assert again.tasks["quiz"].completions.is_empty()
    third = ak.rescore(again, out=project.folder / "third", copy=True)
    assert third.tasks["quiz"].completions.height == 6


def test_a_row_that_was_not_asked_is_an_error_once_it_is_in_order(project: Project) -> None:
    """The old run left out a row with a bad truth.

    With a truth it has no completion, and no score.
    """
    project.write_rows([*ROWS, {"question": "q4", "answer": "Z", "second": "A"}])
    first = project.run("old", model=SAYS_A, allow_failed=1)
    assert first.tasks["quiz"].counts["failed"] == 1
    same = ak.rescore(first, out=project.folder / "same")
    assert (same.status, same.tasks["quiz"].counts) == ("complete", first.tasks["quiz"].counts)
    again = ak.rescore(first, by_second(project), out=project.folder / "new")
    counts = again.tasks["quiz"].counts
    assert again.status == "incomplete"
    assert (counts["scored"], counts["failed"], counts["errors"]) == (3, 0, 1)


def test_trials_and_repetitions_are_scored_again(project: Project) -> None:
    """Each trial and each repetition keeps its completions; another number of trials is E507."""
    asks = {"model_key": "builtin/random", "repeatability": {"num_runs": 2}}
    first = ak.run(project.plan(asks, trials={"num_trials": 3}), out=project.folder / "old")
    assert first.tasks["quiz"].completions.height == 18
    again = ak.rescore(first, out=project.folder / "new")
    assert again.metrics == first.metrics
    assert again.tasks["quiz"].completions.equals(first.tasks["quiz"].completions)
    assert again.tasks["quiz"].repeatability == first.tasks["quiz"].repeatability
    repeated = zip(again.tasks["quiz"].repetitions, first.tasks["quiz"].repetitions, strict=True)
    assert all(new.scores.equals(before.scores) for new, before in repeated)
    with pytest.raises(RunError, match=r"E507.*1 trials; the old run called its model 3 times"):
        ak.rescore(first, project.task(), out=project.folder / "other")


def test_what_cannot_be_scored_again_leaves_no_run(project: Project, old: ak.Run) -> None:
    """A task with errors shows them all; a run that is not finished is resumed first."""
    file = project.write_task(project.task(scorers=[{"type": "nonsense"}]))
    with pytest.raises(ak.SpecError, match="E109"):
        ak.rescore(old, file, out=project.folder / "new")
    manifest = json.loads((project.folder / "old" / "run.json").read_text())
    (project.folder / "old" / "run.json").write_text(json.dumps({**manifest, "status": "running"}))
    with pytest.raises(RunError, match=r"E507.*not finished"):
        ak.rescore(project.folder / "old", out=project.folder / "new")
    assert not (project.folder / "new").exists()


# `regroup`

GROUPED = [
    {"answer": "A", "completion": reply, "passage": passage, "level": level}
    for reply, passage, level in zip("AABBABAABB", "aabbccddee", [1, 2] * 5, strict=True)
]


def run_grouped(project: Project, out: str = "run", **definition: object) -> ak.Run:
    """Return a finished run of rows in groups and clusters."""
    project.write_task(project.task(solver=None, **definition))
    project.write_rows(GROUPED)
    return project.run(out)


def test_groups_and_clusters_are_those_of_a_task_that_names_them(project: Project) -> None:
    """Measured again or from the start, the values are the same, bit for bit.

    The folder keeps them.
    """
    plain = run_grouped(project, "a")
    grouped = run_grouped(project, "b", group_by=["level", "passage"], cluster_by="passage")
    again = regroup(plain, group_by=["level", "passage"], cluster_by="passage")
    assert again.metrics == grouped.metrics
    assert plain.metrics["Accuracy"].groups == ()
    groups = grouped.metrics["Accuracy"].groups
    assert [group.column for group in groups] == ["level", "passage"]
    assert [value.group for value in groups[0].values] == ["1", "2"]
    assert ak.load_run(project.folder / "b").metrics == grouped.metrics


def test_a_metric_may_have_its_own_design(project: Project) -> None:
    """What a metric says wins over the task."""
    usual = {"type": "mean", "field": "is_correct", "name": "usual"}
    metrics = [{**usual, "name": "own", "cluster_by": "level", "group_by": []}, usual]
    scorers = [{**SCORER, "metrics": metrics}]
    run = run_grouped(project, cluster_by="passage", group_by="level", scorers=scorers)
    first, second = run.metrics["own"], run.metrics["usual"]
    assert (first.details["cluster_by"], first.groups) == ("level", ())
    assert (second.details["cluster_by"], len(second.groups)) == ("passage", 1)


def test_a_column_that_is_not_there_is_named(project: Project) -> None:
    """Each, before anything runs, at its place in the task; and when it is asked for later."""
    with pytest.raises(Problems) as caught:
        run_grouped(project, cluster_by="passge", group_by=["y"])
    assert {error.code for error in caught.value.errors} == {"E206"}
    message = "`cluster_by` names the column `passge`"
    (error,) = [error for error in caught.value.errors if message in error.message]
    assert error.hint == "did you mean `passage`?"
    assert error.where is not None
    assert str(error.where.file).endswith("task.yaml")
    run = run_grouped(project)
    with pytest.raises(DataError, match="has no column `levl`"):
        regroup(run, group_by=["levl"])
    (project.folder / "rows.jsonl").unlink()  # the labels are in the file, not in the run
    with pytest.raises(RunError, match="cannot be opened again"):
        regroup(run, group_by=["level"])


# `reopen`


@pytest.mark.parametrize("how", ["recorded", "dataset", "builtin", "copy"])
def test_a_run_opens_again_with_its_samples_and_completions(project: Project, how: str) -> None:
    """Whatever gave the completions, a finished run gives them back in the order of its scores."""
    project.write_rows([{**row, "completion": text} for row, text in zip(ROWS, "BBA", strict=True)])
    if how != "builtin":
        project.write_task(project.task(solver=None))
    replies = project.write_rows([{"completion": text} for text in "BBA"], "said")
    choices: dict[str, dict[str, Any]] = {
        "recorded": {"completions": replies},
        "copy": {"completions": replies, "copy": True},
        "dataset": {},
        "builtin": {"model": "builtin/constant?choice=B"},
    }
    run = project.run(**choices[how])
    again = reopen(ak.load_run(project.folder / "run"))
    whole = again.read(range(len(again)))
    texts = whole.completions.frame["completion"].to_list()
    assert texts == list("BBB" if how == "builtin" else "BBA")
    assert whole.samples.ids.to_list() == run.tasks["quiz"].scores["sample_id"].to_list()
    assert whole.scores.equals(run.tasks["quiz"].scores)
    assert again.task.fingerprint == run.tasks["quiz"].manifest["task"]["fingerprint"]


def test_a_run_whose_files_changed_is_not_opened_again(project: Project) -> None:
    """A dataset or a completions file that is not what it was is E505, never silently other
    numbers.
    """
    replies = project.write_rows([{"completion": "B"}] * 6, "said")
    run = project.run(completions=replies)
    project.write_rows([{"completion": "A"}] * 6, "said")
    with pytest.raises(RunError, match=r"E505.*content has changed"):
        reopen(run)
    Path(replies).unlink()
    with pytest.raises(RunError, match="not there any more"):
        reopen(run)
    project.write_rows([{"question": "other", "answer": "A"}])
    with pytest.raises(RunError, match="the run's dataset"):
        reopen(run)


@pytest.mark.parametrize("named_by", ["name", ""])
def test_rows_of_a_recognised_file_are_derived_when_loaded(tmp_path: Path, named_by: str) -> None:
    """Some of them are what they are among all of them, with the ids of the run."""
    file = tmp_path / "rows.csv"
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", "question", "A", "B", "answer", "completion"])
        for number in range(20):
            writer.writerow([f"s{number}", f"{number}?", "one", "two", "AB"[number % 2], "A"])
    columns = {"id": named_by} if named_by else {}
    opened = reopen(ak.run(file, columns=columns, out=tmp_path / "run"))
    assert isinstance(opened.dataset.table, DerivedRows)
    whole = next(opened.iterate())
    some = opened.read(pl.Series([3, 11]))
    assert some.samples.ids.to_list() == (["s3", "s11"] if named_by else ["000004", "000012"])
    assert some.scores["sample_id"].to_list() == some.samples.ids.to_list()
    assert some.samples.items == whole.samples.take([3, 11]).items
    assert some.samples.row(0)["options"] == ["one", "two"]
    assert opened.dataset.rows.ids.to_list() == whole.scores["sample_id"].to_list()
