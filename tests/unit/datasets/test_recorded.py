"""Recorded completions: columns, matching, trials."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from answerkey.datasets.dataset import Dataset
from answerkey.datasets.recorded import find_completion_column, find_own_completions, match_completions
from answerkey.datasets.rows import Rows
from answerkey.datasets.tables import load_rows, load_table
from answerkey.errors import AnswerkeyError, DataError
from answerkey.types import COMPLETION_SCHEMA, Completions, CompletionStatus

Cells = Sequence[dict[str, object]]
ALL = ("a", "b", "c")


def build(ids: Sequence[str] = ALL, kept: Sequence[str] = ALL, every: Sequence[str] = ALL) -> Dataset:
    """Return a dataset with these samples selected, out of those kept, out of all."""
    whole = Dataset.of(
        load_rows([{"sample_id": one} for one in every], name="samples").samples, name="samples"
    )
    places = [pl.Series([every.index(one) for one in some], dtype=pl.Int64) for some in (kept, ids)]
    return replace(whole, kept=places[0], chosen=places[1])


def match(rows: Cells, dataset: Dataset, column: str | None = None) -> Completions:
    """Return the completions of these rows for the samples of a dataset."""
    table = load_rows(rows, name="answers.jsonl", by_trial=True).rows
    return match_completions(table, dataset, column=column).read(dataset.samples())


def load(rows: Cells, ids: Sequence[str] = ALL, column: str | None = None) -> Completions:
    """Return the completions of these rows for these samples, which are all there are."""
    return match(rows, build(ids, ids, ids), column)


def texts(completions: Completions) -> list[object]:
    """Return the texts."""
    return completions.frame["completion"].to_list()


def test_rows_are_matched_by_id_in_any_order() -> None:
    """With `sample_id`, the order of the file does not matter."""
    rows: Cells = [{"sample_id": name, "completion": name.upper()} for name in "cab"]
    found = load(rows)
    assert texts(found) == ["A", "B", "C"]
    assert found.frame["sample_id"].to_list() == ["a", "b", "c"]


def test_the_table_has_the_schema_of_completions() -> None:
    """Plain texts and messages give the same columns with the same types."""
    plain = load([{"completion": "B"}], "a")
    message = load([{"completion": {"role": "assistant", "content": "B"}}], "a")
    assert dict(plain.frame.schema) == COMPLETION_SCHEMA
    assert dict(message.frame.schema) == COMPLETION_SCHEMA
    assert plain.frame.drop("reply").equals(message.frame.drop("reply"))
    assert plain.frame["source"].to_list() == ["recorded"]


def test_null_is_no_text() -> None:
    """A null cell is NO_TEXT; empty text is text."""
    found = load([{"completion": None}, {"completion": ""}], "ab")
    assert found.frame["status"].to_list() == ["NO_TEXT", "OK"]
    assert texts(found) == [None, ""]


REFUSED: list[tuple[Cells, str, str, str]] = [
    (
        [{"sample_id": name, "completion": "A"} for name in ("a", "x1", "x2", "x3", "x4", "x5", "x6")],
        "abc",
        "E209",
        "samples without a completion: 2 (`b`, `c`); completions without a sample: 6 (`x1`, `x2`, `x3`",
    ),
    ([{"sample_id": "a", "completion": "A"}] * 2, "a", "E208", "sample id `a` is used twice"),
    (
        [{"response": "A", "output": "B"}],
        "a",
        "E209",
        "several columns may hold the completions: `output`, `response`",
    ),
    ([{"text": "A"}], "a", "E209", "no column holds completions"),
    (
        [{"completion": {"m1": "A", "m2": "B"}}],
        "a",
        "E209",
        "name a field: `completion.m1`, `completion.m2`",
    ),
    ([{"completion": "B", "completion_status": "ok"}], "a", "E209", "'ok' is not a completion status"),
    (
        [{"completion": "B", "completion_status": "ok"}],
        "a",
        "E209",
        "answers.jsonl:1, column `completion_status`",
    ),
    ([{"completion": "A"}], "abc", "E209", "there is 1 completion without `sample_id` for 3 samples"),
    ([{"completion": "A"}] * 2, "a", "E209", "there are 2 completions without `sample_id` for 1 sample"),
]


@pytest.mark.parametrize(("rows", "ids", "code", "words"), REFUSED)
def test_what_does_not_fit_is_refused_in_words(rows: Cells, ids: str, code: str, words: str) -> None:
    """Both sides of a mismatch, ids that come twice, columns and statuses that cannot be told."""
    with pytest.raises(AnswerkeyError) as caught:
        load(rows, tuple(ids))
    assert caught.value.code == code
    assert words in str(caught.value)


def test_completions_of_samples_that_are_not_selected_are_left_aside() -> None:
    """Completions may cover the whole dataset when only a part is used."""
    rows: Cells = [{"sample_id": name, "completion": name} for name in "abc"]
    assert texts(match(rows, build(["c"]))) == ["c"]
    assert texts(match(rows[::-1], build(["a", "c"]))) == ["a", "c"]


def test_completions_of_unknown_samples_are_refused() -> None:
    """An id outside the whole dataset gives E209 even if every sample has its completion."""
    rows: Cells = [{"sample_id": name, "completion": name} for name in "abz"]
    with pytest.raises(DataError, match=r"completions without a sample: 1 \(`z`\)"):
        match(rows, build(["a"]))


@pytest.mark.parametrize(
    ("count", "ids", "kept", "expected"),
    [
        (3, ["a", "b", "c"], ["a", "b", "c"], ["0", "1", "2"]),
        (3, ["c"], ["a", "b", "c"], ["2"]),
        (3, ["c"], ["b", "c"], ["2"]),
        (2, ["c"], ["b", "c"], ["1"]),
        (2, ["a", "b"], ["a", "b", "c"], ["0", "1"]),
        (1, ["b"], ["b", "c"], ["0"]),
    ],
)
def test_rows_without_ids_are_matched_by_order(
    count: int, ids: list[str], kept: list[str], expected: list[str]
) -> None:
    """One completion per row of the dataset, of its filtered rows, or of the selected head of either."""
    found = match([{"completion": str(n)} for n in range(count)], build(ids, kept))
    assert texts(found) == expected
    assert found.frame["sample_id"].to_list() == ids


@pytest.mark.parametrize(("count", "ids"), [(2, ["b", "c"]), (4, ["a", "b", "c"]), (1, ["c"])])
def test_an_order_that_cannot_be_told_is_refused(count: int, ids: list[str]) -> None:
    """Any other number of rows, or as many as a selection that is no head, gives E209."""
    with pytest.raises(DataError) as caught:
        match([{"completion": str(n)} for n in range(count)], build(ids))
    assert caught.value.code == "E209"
    assert "add a column `sample_id`" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["completion", "output", "response", "model_output"])
def test_the_usual_names_are_found(name: str) -> None:
    """Each accepted name holds completions; `completion` wins over the others."""
    assert texts(load([{name: "B"}], "a")) == ["B"]
    assert texts(load([{name: "no", "completion": "B"}], "a")) == ["B"]


def test_a_named_column_is_used() -> None:
    """A named column or field wins over the usual names."""
    row: dict[str, object] = {"completion": "no", "by": {"m-1.5": "B"}}
    assert texts(load([row], "a", column="by.m-1.5")) == ["B"]


def test_a_missing_column_is_refused_with_those_there_are() -> None:
    """E209 lists columns and the fields of structs."""
    with pytest.raises(DataError) as caught:
        load([{"text": "A", "by": {"m1": "B"}}], "a", column="by.m2")
    assert caught.value.code == "E209"
    assert caught.value.hint == "did you mean `by.m1`?; columns: `text`, `by.m1`"


def test_messages_are_read() -> None:
    """A cell may be a message, a whole exchange, text or a whole number."""
    cells: list[object] = [
        {"role": "assistant", "content": "A"},
        {"role": "assistant", "content": None, "refusal": "I cannot"},
        [{"role": "user", "content": "?"}, {"role": "assistant", "content": "B"}],
        "C",
        1,
        1.5,
        None,
    ]
    found = load([{"completion": cell} for cell in cells], "abcdefg")
    assert texts(found) == ["A", None, "B", "C", "1", "1.5", None]
    assert found.frame["status"].to_list() == ["OK", "REFUSED", "OK", "OK", "OK", "OK", "NO_TEXT"]


def test_a_column_of_whole_numbers_is_text() -> None:
    """The choice 1 written as a number is the text `1`."""
    assert texts(load([{"completion": 1}, {"completion": None}], "ab")) == ["1", None]


def test_cells_that_are_no_completions_are_reported_together() -> None:
    """Booleans, lists of texts, other objects and numbers that are none give E209 with their places."""
    cells: list[object] = [True, ["A"], {"x": 1}, "fine", float("nan")]
    with pytest.raises(AnswerkeyError) as caught:
        load([{"completion": cell} for cell in cells], "abcde")
    errors: list[AnswerkeyError] = list(getattr(caught.value, "errors", ()))
    places = [(error.code, error.where and error.where.line) for error in errors]
    assert places == [("E209", line) for line in (1, 2, 3, 5)]


def test_statuses_of_the_file_are_kept() -> None:
    """`completion_status` says what became of the question; a text that is no answer is kept as the reply."""
    told = [("B", "OK"), ("Sorry", "REFUSED"), ("cut", "ERROR"), (None, "OK"), ("C", None), ("D", "")]
    rows: Cells = [{"completion": text, "completion_status": status} for text, status in told]
    found = load(rows, "abcdef")
    assert texts(found) == ["B", None, None, None, "C", "D"]
    assert found.frame["status"].to_list() == ["OK", "REFUSED", "ERROR", "NO_TEXT", "OK", "OK"]
    replies = [None if one is None else json.loads(one) for one in found.frame["reply"].to_list()]
    refusal = {"role": "assistant", "content": None, "refusal": "Sorry"}
    assert replies == [None, refusal, {"role": "assistant", "content": "cut"}, None, None, None]
    assert [one.status for one in found.rows()][1] is CompletionStatus.REFUSED


def test_completions_may_stand_beside_the_questions() -> None:
    """A dataset with a completion column holds its completions; one without holds none."""
    samples = load_rows([{"question": "?", "completion": "B"}], name="both").samples
    found = find_own_completions(samples)
    assert found is not None
    assert texts(found.read(samples)) == ["B"]
    assert find_own_completions(load_rows([{"question": "?"}], name="bare").samples) is None


def test_a_named_column_must_be_in_the_dataset() -> None:
    """Naming a completion column that is not there gives E209."""
    with pytest.raises(DataError) as caught:
        find_own_completions(load_rows([{"question": "?"}], name="bare").samples, column="reply")
    assert caught.value.code == "E209"


def test_a_file_in_the_order_of_the_dataset_is_read_where_it_lies() -> None:
    """Ids that line up, with all samples or with the selected ones, need no join in memory."""
    rows: Cells = [{"sample_id": name, "completion": name} for name in "abc"]
    table = load_rows(rows, name="answers.jsonl").rows
    assert match_completions(table, build()).rows is table
    chosen = match_completions(table, build(["a", "c"], ["a", "c"]))
    assert chosen.slice(1, 1).read(build(["c"]).samples()).frame["completion"].to_list() == ["c"]


def test_cells_of_a_field_that_some_parts_lack_are_null() -> None:
    """Which column a dotted name means is decided for the whole file, not for each part of it."""
    cells: list[object] = [{"m1": "A"}, {"m2": "B", "x": 1}, {"m1": "C", "x": [1]}]
    samples = load_rows([{"by": cell} for cell in cells], name="both").samples
    own = find_own_completions(samples, column="by.m1")
    assert own is not None
    assert own.read(samples.slice(1, 1)).frame["completion"].to_list() == [None]
    assert own.read(samples).frame["completion"].to_list() == ["A", None, "C"]


def test_verdicts_of_others_come_along() -> None:
    """They are numbers and texts; what is none is left out, for it decides nothing."""
    rows: Cells = [
        {"completion": "A", "their_score": 1, "their_answer": "A"},
        {"completion": "B", "their_score": 0, "their_answer": None},
    ]
    found = load(rows, ("a", "b")).frame
    assert found["their_score"].to_list() == [1.0, 0.0]
    assert found["their_answer"].to_list() == ["A", None]
    written = load([{"completion": "A", "their_score": "0.5"}, {"completion": "B", "their_score": "x"}], "ab")
    assert written.frame["their_score"].to_list() == [0.5, None]
    mixed = load([{"completion": "A", "their_score": [1]}, {"completion": "B", "their_score": 1}], "ab")
    assert mixed.frame["their_score"].to_list() == [None, None]


def test_why_a_completion_ended_comes_along() -> None:
    """So that those which were cut off are counted."""
    found = load([{"completion": "A", "finish_reason": "length"}], "a").frame
    assert found["finish_reason"].to_list() == ["length"]


SAMPLES = load_rows([{"sample_id": "a"}, {"sample_id": "b"}], name="samples").samples
ROWS: list[dict[str, object]] = [
    {"sample_id": name, "trial": trial, "completion": f"{name}{trial}"} for trial in (1, 0) for name in "ba"
]


def load_trials(rows: Sequence[dict[str, object]], num_trials: int = 2) -> Completions:
    """Return the completions of these rows for the samples `a` and `b`."""
    return match_trials(load_rows(rows, name="answers.jsonl", by_trial=True).rows, num_trials)


def match_trials(table: Rows, num_trials: int = 2) -> Completions:
    """Return the completions of a table for the samples `a` and `b`."""
    dataset = Dataset.of(SAMPLES, name="samples")
    return match_completions(table, dataset, num_trials=num_trials).read(SAMPLES)


def test_rows_are_matched_by_sample_and_trial() -> None:
    """In whatever order the file has them, the trials of a sample stand one after the other."""
    frame = load_trials(ROWS).frame
    assert frame["completion"].to_list() == ["a0", "a1", "b0", "b1"]
    assert frame["sample_id"].to_list() == ["a", "a", "b", "b"]
    assert frame["trial"].to_list() == [0, 1, 0, 1]


def test_trial_numbers_in_text_files_are_read(tmp_path: Path) -> None:
    """The cells of a CSV file are text, and still numbers."""
    file = tmp_path / "answers.csv"
    file.write_text("sample_id,trial,completion\na,0,x\na,1,y\nb,1,v\nb,0,u\n")
    found = match_trials(load_table(file, by_trial=True).rows)
    assert found.frame["completion"].to_list() == ["x", "y", "u", "v"]


def test_a_missing_trial_and_one_too_many_are_shown() -> None:
    """A mismatch names what is missing on both sides."""
    rows = [*ROWS[1:], {"sample_id": "a", "trial": 7, "completion": "?"}]
    with pytest.raises(DataError) as caught:
        load_trials(rows)
    assert caught.value.code == "E209"
    assert "trials without a completion: 1 (`b trial 1`)" in caught.value.message
    assert "completions that belong nowhere: 1 (`a trial 7`)" in caught.value.message


def test_one_completion_for_each_sample_is_not_enough() -> None:
    """Without a column `trial` the trials need a model."""
    with pytest.raises(DataError, match="asks each sample 2 times") as caught:
        load_trials([{"sample_id": "a", "completion": "x"}, {"sample_id": "b", "completion": "x"}])
    assert caught.value.code == "E209"
    assert "ask a model" in str(caught.value.hint)


def test_trials_for_a_task_that_asks_once_are_refused() -> None:
    """The hint says how to use them."""
    with pytest.raises(DataError, match="up to 2 trials of a sample") as caught:
        load_trials(ROWS, num_trials=1)
    assert "num_trials: 2" in str(caught.value.hint)


def test_a_single_trial_is_as_good_as_none() -> None:
    """What `export` writes of a run without trials can be scored again."""
    rows = [{"sample_id": name, "trial": 0, "completion": name} for name in "ab"]
    assert load_trials(rows, num_trials=1).frame["completion"].to_list() == ["a", "b"]


def test_the_same_trial_twice_is_refused() -> None:
    """A sample and its trial are there once."""
    with pytest.raises(DataError, match="trial 0 of sample id `a` is used twice") as caught:
        load_trials([*ROWS, {"sample_id": "a", "trial": 0, "completion": "?"}])
    assert caught.value.code == "E208"


def test_trials_in_the_order_of_the_samples_are_read_where_they_lie() -> None:
    """A file that has each sample's trials one after the other is not put in order in memory."""
    table = load_rows(sorted(ROWS, key=str), name="answers.jsonl", by_trial=True).rows
    found = match_completions(table, Dataset.of(SAMPLES, name="samples"), num_trials=2)
    assert found.rows is table
    assert found.read(SAMPLES).frame["completion"].to_list() == ["a0", "a1", "b0", "b1"]
    second = found.slice(1, 1).read(SAMPLES.slice(1, 1))
    assert second.frame["completion"].to_list() == ["b0", "b1"]


def reach(rows: list[dict[str, object]], name: str) -> list[object] | None:
    """Return the cells that a name reaches."""
    samples = load_rows(rows, name="rows").samples
    try:
        found = find_completion_column(samples, name)
    except DataError:
        return None
    cells = None if found is None else found.cells(samples)
    return cells.to_list() if isinstance(cells, pl.Series) else cells


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"a": "x"}, "a"),
        ({"a.b": "x", "a": {"b": "no"}}, "a.b"),
        ({"a": {"b": "x"}}, "a.b"),
        ({"a": {"b.c": "x", "b": {"c": "no"}}}, "a.b.c"),
        ({"a": {"b": {"c": "x"}}}, "a.b.c"),
        ({"a.b": {"c": "x"}, "a": {"b": {"c": "no"}}}, "a.b.c"),
        ({"a.b": {"z": "no"}, "a": {"b": {"c": "x"}}}, "a.b.c"),
        ({"by": {"org_model-1.5@001": "x"}}, "by.org_model-1.5@001"),
        ({"by": {"v1": {"no": 1}, "v1.5": "x"}}, "by.v1.5"),
    ],
)
def test_the_exact_name_first_then_the_longest(row: dict[str, object], name: str) -> None:
    """A dotted name reaches the exact column, else the field under the longest matching name."""
    assert reach([row], name) == ["x"]


@pytest.mark.parametrize("name", ["b", "a.c", "a.b.c", "a.", ".a", "a..b"])
def test_names_that_reach_nothing(name: str) -> None:
    """A name without a column or field reaches nothing."""
    assert reach([{"a": {"b": "x"}, "t": "text"}], name) is None


def test_objects_of_different_shapes_are_searched_row_by_row() -> None:
    """A row without the field has a null cell."""
    rows: list[dict[str, object]] = [{"by": {"m": "x"}}, {"by": {"n": 1}}, {"by": None}, {"by": {"m": None}}]
    assert reach(rows, "by.m") == ["x", None, None, None]
    assert reach(rows, "by.k") is None
