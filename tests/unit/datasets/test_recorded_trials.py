from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from answerkey.datasets import Dataset, Rows, load_rows, load_table, match_completions
from answerkey.errors import DataError
from answerkey.types import Completions

SAMPLES = load_rows([{"sample_id": "a"}, {"sample_id": "b"}], name="samples").samples
ROWS: list[dict[str, object]] = [
    {"sample_id": name, "trial": trial, "completion": f"{name}{trial}"} for trial in (1, 0) for name in "ba"
]


def load(rows: Sequence[dict[str, object]], num_trials: int = 2) -> Completions:
    """Return the completions of these rows for the samples `a` and `b`."""
    return match(load_rows(rows, name="answers.jsonl", by_trial=True).rows, num_trials)


def match(table: Rows, num_trials: int = 2) -> Completions:
    """Return the completions of a table for the samples `a` and `b`."""
    dataset = Dataset.of(SAMPLES, name="samples")
    return match_completions(table, dataset, num_trials=num_trials).read(SAMPLES)


def test_rows_are_matched_by_sample_and_trial() -> None:
    """In whatever order the file has them, the trials of a sample stand one after the other."""
    frame = load(ROWS).frame
    assert frame["completion"].to_list() == ["a0", "a1", "b0", "b1"]
    assert frame["sample_id"].to_list() == ["a", "a", "b", "b"]
    assert frame["trial"].to_list() == [0, 1, 0, 1]


def test_trial_numbers_in_text_files_are_read(tmp_path: Path) -> None:
    """The cells of a CSV file are text, and still numbers."""
    file = tmp_path / "answers.csv"
    file.write_text("sample_id,trial,completion\na,0,x\na,1,y\nb,1,v\nb,0,u\n")
    found = match(load_table(file, by_trial=True).rows)
    assert found.frame["completion"].to_list() == ["x", "y", "u", "v"]


def test_a_missing_trial_and_one_too_many_are_shown() -> None:
    """A mismatch names what is missing on both sides."""
    rows = [*ROWS[1:], {"sample_id": "a", "trial": 7, "completion": "?"}]
    with pytest.raises(DataError) as caught:
        load(rows)
    assert caught.value.code == "E209"
    assert "trials without a completion: 1 (`b trial 1`)" in caught.value.message
    assert "completions that belong nowhere: 1 (`a trial 7`)" in caught.value.message


def test_one_completion_for_each_sample_is_not_enough() -> None:
    """Without a column `trial` the trials need a model."""
    with pytest.raises(DataError, match="asks each sample 2 times") as caught:
        load([{"sample_id": "a", "completion": "x"}, {"sample_id": "b", "completion": "x"}])
    assert caught.value.code == "E209"
    assert "ask a model" in str(caught.value.hint)


def test_trials_for_a_task_that_asks_once_are_refused() -> None:
    """The hint says how to use them."""
    with pytest.raises(DataError, match="up to 2 trials of a sample") as caught:
        load(ROWS, num_trials=1)
    assert "num_trials: 2" in str(caught.value.hint)


def test_a_single_trial_is_as_good_as_none() -> None:
    """What `export` writes of a run without trials can be scored again."""
    rows = [{"sample_id": name, "trial": 0, "completion": name} for name in "ab"]
    assert load(rows, num_trials=1).frame["completion"].to_list() == ["a", "b"]


def test_the_same_trial_twice_is_refused() -> None:
    """A sample and its trial are there once."""
    with pytest.raises(DataError, match="trial 0 of sample id `a` is used twice") as caught:
        load([*ROWS, {"sample_id": "a", "trial": 0, "completion": "?"}])
    assert caught.value.code == "E208"


def test_trials_in_the_order_of_the_samples_are_read_where_they_lie() -> None:
    """A file that has each sample's trials one after the other is not put in order in memory."""
    table = load_rows(sorted(ROWS, key=str), name="answers.jsonl", by_trial=True).rows
    found = match_completions(table, Dataset.of(SAMPLES, name="samples"), num_trials=2)
    assert found.rows is table
    assert found.read(SAMPLES).frame["completion"].to_list() == ["a0", "a1", "b0", "b1"]
    second = found.slice(1, 1).read(SAMPLES.slice(1, 1))
    assert second.frame["completion"].to_list() == ["b0", "b1"]
