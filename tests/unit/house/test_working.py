from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from answerkey.datasets import Dataset, InlineSource, Shard, cut_shards, find_own_completions, load_rows
from answerkey.evaluate.pipeline import run_shard
from answerkey.evaluate.prepare import Prepared
from answerkey.runs import TaskWriter
from answerkey.runs.store import MemoryStore
from answerkey.spec import DatasetSpec, Specification, load_task

TASK = {
    "key": "quiz",
    "display_name": "Quiz",
    "description": "Four rows.",
    "definition": {
        "scorers": [
            {
                "type": "string_equals_mcqa",
                "ground_truth_choice": "{{ sample.answer }}",
                "choices": "{{ sample.choices }}",
            }
        ]
    },
}
ROWS = [{"answer": "A", "choices": ["A", "B"], "completion": said} for said in ("A", "B", "hm", "A.")]


def prepare() -> tuple[Prepared, Shard]:
    """Return a task with four rows, which are one shard."""
    task = load_task(TASK).value
    assert task is not None
    dataset = Dataset.of(load_rows(ROWS, name="rows").rows, name="rows")
    recorded = find_own_completions(dataset.rows)
    specification = Specification(task.key, task, DatasetSpec("rows", InlineSource(rows=())))
    return Prepared(specification, dataset), next(iter(cut_shards(dataset, 9, recorded)))


def work(shard: Shard, prepared: Prepared) -> pl.DataFrame:
    """Return the scores of a shard as they are stored, one column for each field of a verdict."""
    writer = TaskWriter(MemoryStore(), "tasks/task")
    measured = run_shard(prepared, writer, shard)
    assert measured.rows == 4
    return writer.read_scores().unnest(prepared.task.main_step.key)


@pytest.mark.parametrize("withheld", [(1,), (0, 3), (0, 1, 2, 3)])
def test_withheld_rows_are_failed_and_change_no_other(withheld: tuple[int, ...]) -> None:
    """Each row is there once, in its place; the others are judged as ever."""
    prepared, shard = prepare()
    whole, found = work(shard, prepared), work(replace(shard, withheld=withheld), prepared)
    left = [row for row in range(4) if row not in withheld]
    assert found["sample_id"].to_list() == whole["sample_id"].to_list()
    assert found[left].rows() == whole[left].rows()
    assert set(found[list(withheld)].select("status", "reason").rows()) == {("FAILED", "ENDED_WORKER")}


def test_a_trial_leaves_nothing_behind() -> None:
    """What is done to find a row is not written."""
    prepared, shard = prepare()
    store = MemoryStore()
    assert run_shard(prepared, TaskWriter(store, "tasks/task"), replace(shard, is_trial=True)).rows == 4
    assert store.content == {}
