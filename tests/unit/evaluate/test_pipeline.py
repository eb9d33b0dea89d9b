"""Laws of the one path: rows are checked as they are scored, and wrong ones leave nothing of a
run.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests import projects
from tests.projects import describe_task, write_rows

import answerkey as ak
from answerkey.datasets.dataset import Chunk, Dataset, split_into_chunks
from answerkey.datasets.recorded import find_own_completions
from answerkey.datasets.sources import InlineSource
from answerkey.datasets.tables import load_rows
from answerkey.engines import Spread
from answerkey.evaluate.chunk import evaluate_chunk
from answerkey.spec import DatasetSpec, Job, Task, job

if TYPE_CHECKING:
    from tests.unit.conftest import Bucket

SCORER = {**projects.SCORER, "choices": "{{ sample.choices }}"}
SOLVER = projects.describe_solver("{{ sample.answer }}")
TASK = describe_task(scorers=[SCORER])
#: Rows 3, 7, 11, … are wrong.
EVERY = {"choices": ["A", "B"], "unused": "x" * 50}
ROWS = [{**EVERY, "answer": "ABAE"[n % 4], "completion": "ABX"[n % 3]} for n in range(100)]
GOOD = [row for row in ROWS if row["answer"] != "E"]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let chunks be small, and temporary files lie where they can be seen."""
    monkeypatch.setattr(job, "CHUNK_ROWS", 20)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def score(folder: Path, rows: list[dict[str, Any]], out: Path | str, **changes: Any) -> ak.Run:  # noqa: ANN401 - options
    """Run a task over these rows."""
    task = describe_task(scorers=[SCORER], **changes.pop("definition", {}))
    (folder / "task.yaml").write_text(json.dumps(task))
    write_rows(folder / "rows.jsonl", rows)
    return ak.run(folder / "task.yaml", dataset=str(folder / "rows.jsonl"), out=out, **changes)


def refuse(folder: Path, rows: list[dict[str, Any]], out: Path | str, **changes: Any) -> str:  # noqa: ANN401 - options
    """Return all that is wrong with these rows."""
    with pytest.raises(ak.AnswerkeyError) as caught:
        score(folder, rows, out, **changes)
    return str(caught.value)


@pytest.mark.usefixtures("quick_workers")
@pytest.mark.parametrize("spread", ["alone", "apart", "processes"])
def test_wrong_rows_are_told_the_same_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread: str
) -> None:
    """Five are shown, the rest is counted.

    No folder is left, and the same command works on mended rows.
    """
    monkeypatch.setattr(job, "choose_spread", lambda _: spread)
    out = tmp_path / "new" / "folders" / "run"
    message = refuse(tmp_path, ROWS, out)
    assert message.count("error[E204]") == 6
    assert "sample `000004`: ground truth 'E' is not among the choices" in message
    assert "scorer `string_equals_mcqa`: 20 more rows have the same problem" in message
    assert "`allow_failed=25`" in message
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "tmp").iterdir()) == []
    out.mkdir(parents=True)  # a folder that was there stays: only what the run has made is removed
    assert message == refuse(tmp_path, ROWS, out, copy=True)
    assert list(out.iterdir()) == []
    assert score(tmp_path, GOOD, out).status == "complete"


def test_wrong_rows_leave_nothing_on_object_storage(bucket: Bucket, tmp_path: Path) -> None:
    """No object is left, and nothing of the journal's folder on this machine."""
    url = f"{bucket.url}/runs/one"
    assert refuse(tmp_path, ROWS, url).count("error[E204]") == 6
    assert bucket.list("runs/") == []
    assert [path for path in (tmp_path / "cache").rglob("runs/**/*") if path.is_file()] == []
    assert score(tmp_path, GOOD, url).status == "complete"


def test_a_model_is_not_called_as_long_as_a_row_is_wrong(tmp_path: Path) -> None:
    """Also where another task of the run is the one with the wrong rows; no folder is made."""
    tasks = []
    datasets = []
    for name, rows, more in (("good", GOOD, {"solver": SOLVER}), ("bad", ROWS, {})):
        write_rows(tmp_path / f"{name}.jsonl", rows)
        source = {"type": "local", "file_path": f"{name}.jsonl"}
        datasets.append({"key": name, "display_name": name, "source": source})
        task = describe_task(dataset={"key": name}, scorers=[SCORER], **more)
        tasks.append({**task, "key": name})
    pairs = [{"task_key": "good", "model_key": "builtin/random"}, {"task_key": "bad"}]
    evaluation = {"key": "both", "display_name": "Both", "task_specifications": pairs}
    plan = {"tasks": tasks, "datasets": datasets, "evaluation": evaluation}
    (tmp_path / "run.yaml").write_text(json.dumps(plan))
    stages: list[str] = []

    def note(stage: str, *_: object) -> None:
        stages.append(stage)

    with pytest.raises(ak.AnswerkeyError, match="E204"):
        ak.run(tmp_path / "run.yaml", out=tmp_path / "run", progress=note)
    assert set(stages) == {"check"}
    assert not (tmp_path / "run").exists()


def test_scoring_in_memory_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is written, whether the rows are in order or not."""
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert ak.score(TASK, GOOD).status == "complete"
    with pytest.raises(ak.AnswerkeyError, match="E204"):
        ak.score(TASK, ROWS)
    assert sorted(tmp_path.rglob("*")) == before


def test_rows_that_may_fail_are_the_same_either_way(tmp_path: Path) -> None:
    """Scores and metrics do not depend on whether completions are kept."""
    first, second = (
        score(tmp_path, ROWS, tmp_path / name, allow_failed=25, copy=copy)
        for name, copy in (("one", False), ("two", True))
    )
    assert first.tasks["quiz"].counts == second.tasks["quiz"].counts
    assert first.tasks["quiz"].counts["failed"] == 25
    assert first.metrics == second.metrics
    assert first.tasks["quiz"].scores.equals(second.tasks["quiz"].scores)


def test_a_column_that_is_missing_is_told_once(tmp_path: Path) -> None:
    """All columns that there are are named, also those that the task does not read."""
    rows = [{name: value for name, value in row.items() if name != "choices"} for row in ROWS]
    message = refuse(tmp_path, rows, tmp_path / "run")
    assert message.count("error[E206]") == 1
    assert "`unused`" in message
    assert not (tmp_path / "run").exists()


def test_wrong_rows_come_before_what_fails_in_scoring(tmp_path: Path) -> None:
    """An action that cannot be evaluated is told when the rows are in order, and leaves no run
    either.
    """
    odd = {"op": "greater_than", "expression": "{{ sample.unused }}", "value": 3}
    definition = {"actions": [{"key": "odd", "action": "exclude_from_metrics", "filter": odd}]}
    message = refuse(tmp_path, ROWS, tmp_path / "run", definition=definition)
    assert "E204" in message
    assert "action `odd`" not in message
    message = refuse(tmp_path, GOOD, tmp_path / "run", definition=definition)
    assert message.startswith("error[E207]: action `odd`")
    assert not (tmp_path / "run").exists()


def test_long_rows_make_more_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk holds a bearable number of bytes, of which completions in another file are a part."""
    monkeypatch.setattr(job, "CHUNK_ROWS", 100_000)
    monkeypatch.setattr(job, "CHUNK_BYTES", 40_000_000)
    sizes: list[int] = []
    choose = job.choose_chunk_rows

    def note(prepared: Job, spread: Spread) -> int:
        sizes.append(choose(prepared, spread))
        return sizes[-1]

    monkeypatch.setattr(job, "choose_chunk_rows", note)
    rows = [{"answer": "A", "choices": ["A", "B"]}] * 2500
    for length in (1, 10_000):
        replies = tmp_path / "said.jsonl"
        replies.write_text(f'{{"completion": "{"A" * length}"}}\n' * len(rows))
        score(tmp_path, rows, tmp_path / f"run-{length}", completions=str(replies))
    assert sizes[0] == 100_000
    assert 2_000 < sizes[1] < 4_000


def test_many_rows_are_checked_by_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages of few rows are in memory together."""
    monkeypatch.setattr(job, "WORKER_ROWS", 10)
    monkeypatch.setattr(job, "WORKER_CHUNK_ROWS", 7)
    monkeypatch.setattr(job, "FEWEST_ROWS", 10)
    task = ak.load_task(describe_task(solver=SOLVER, scorers=[SCORER]))
    rows = [{"answer": "A", "choices": ["A", f"B{n}"]} for n in range(100)]
    dataset = Dataset.of(load_rows(rows, name="rows").rows, name="rows")
    checked = make_job(task, dataset).only_check()
    assert (checked.spread, checked.chunk_rows) == ("processes", 7)


def make_job(task: Task, dataset: Dataset) -> Job:
    """Return the job of a task on these rows, opened."""
    spec = DatasetSpec("rows", InlineSource(rows=()))
    return Job(task.key, task, spec, opened=dataset, keep_completions=False)


def cut() -> tuple[Job, Chunk]:
    """Return a task with four rows, which are one chunk."""
    task = ak.load_task(TASK)
    dataset = Dataset.of(load_rows(GOOD[:4], name="rows").rows, name="rows")
    chunk = next(split_into_chunks(dataset, 9, find_own_completions(dataset.rows)))
    return make_job(task, dataset), chunk


def work(chunk: Chunk, prepared: Job) -> pl.DataFrame:
    """Return the scores of a chunk as they are stored, one column for each field of a verdict."""
    result = evaluate_chunk(prepared, chunk)
    assert result.problems.rows == 4
    assert result.scores is not None
    return result.scores.unnest(prepared.task.main_step.key)


@pytest.mark.parametrize("skipped", [(1,), (0, 3), (0, 1, 2, 3)])
def test_skipped_rows_are_failed_and_change_no_other(skipped: tuple[int, ...]) -> None:
    """Each row is there once, in its place; the others are judged as ever."""
    prepared, chunk = cut()
    whole, skipping = work(chunk, prepared), work(replace(chunk, skipped=skipped), prepared)
    left = [row for row in range(4) if row not in skipped]
    assert skipping["sample_id"].to_list() == whole["sample_id"].to_list()
    assert skipping[left].rows() == whole[left].rows()
    verdicts = skipping[list(skipped)].select("status", "reason").rows()
    assert set(verdicts) == {("FAILED", "ENDED_WORKER")}
