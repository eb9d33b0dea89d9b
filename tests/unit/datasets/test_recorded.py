"""Recorded completions: columns, matching, trials."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.samples import read_cases

from answerkey.datasets.dataset import Dataset
from answerkey.datasets.recorded import find_own_completions, match_completions
from answerkey.datasets.rows import Rows
from answerkey.datasets.tables import FileFields, load_rows, load_table
from answerkey.errors import AnswerkeyError, DataError
from answerkey.types import COMPLETION_SCHEMA, Completions, CompletionStatus

CASES = read_cases(__file__)

Cells = Sequence[dict[str, object]]
ALL = ("a", "b", "c")


def build(
    ids: Sequence[str] = ALL, kept: Sequence[str] = ALL, every: Sequence[str] = ALL
) -> Dataset:
    """Return a dataset with these samples selected, out of those kept, out of all."""
    whole = Dataset.of(
        load_rows([{"sample_id": key} for key in every], name="samples").rows, name="samples"
    )
    places = [pl.Series([every.index(key) for key in some], dtype=pl.Int64) for some in (kept, ids)]
    return replace(whole, kept=places[0], chosen=places[1])


def match(
    rows: Cells | Rows, dataset: Dataset, column: str | None = None, num_trials: int = 1
) -> Completions:
    """Return the completions of these rows for the samples of a dataset."""
    if isinstance(rows, Sequence):
        table = load_rows(rows, name="answers.jsonl", by_trial=True).rows
    else:
        table = rows
    result = match_completions(table, dataset, column=column, num_trials=num_trials)
    return result.read(dataset.samples())


def load(rows: Cells, ids: Sequence[str] = ALL, column: str | None = None) -> Completions:
    """Return the completions of these rows for these samples, which are all there are."""
    return match(rows, build(ids, ids, ids), column)


def texts(completions: Completions) -> list[object]:
    """Return the texts."""
    return completions.frame["completion"].to_list()


def test_the_table_has_the_schema_of_completions() -> None:
    """Plain texts and messages give the same columns with the same types."""
    plain = load([{"completion": "B"}], "a")
    message = load([{"completion": {"role": "assistant", "content": "B"}}], "a")
    assert dict(plain.frame.schema) == dict(message.frame.schema) == COMPLETION_SCHEMA
    assert plain.frame.drop("reply").equals(message.frame.drop("reply"))
    assert plain.frame["source"].to_list() == ["recorded"]


def name_cells(names: Sequence[str], **more: object) -> Cells:
    """Return a completion for each of these samples, which repeats its id."""
    return [{"sample_id": name, "completion": name, **more} for name in names]


@pytest.mark.parametrize(("rows", "ids", "words"), CASES["misfits"])
def test_what_does_not_fit_is_refused_in_words(rows: Cells, ids: str, words: str) -> None:
    """Both sides of a mismatch, ids that come twice, columns and statuses that cannot be told."""
    with pytest.raises(AnswerkeyError, match=f"(?s){words}"):
        load(rows, tuple(ids))


def test_rows_with_ids_are_matched_in_any_order() -> None:
    """Completions may cover the whole dataset when only a part is used, but no unknown samples."""
    result = load(name_cells("cab"))
    assert texts(result) == result.frame["sample_id"].to_list() == ["a", "b", "c"]
    assert texts(match(name_cells("abc"), build(["c"]))) == ["c"]
    assert texts(match(name_cells("cba"), build(["a", "c"]))) == ["a", "c"]
    with pytest.raises(DataError, match=r"completions without a sample: 1 \(`z`\)"):
        match(name_cells("abz"), build(["a"]))


@pytest.mark.parametrize(
    ("count", "ids", "kept", "expected"),
    [
        (3, "abc", "abc", "012"),
        (3, "c", "abc", "2"),
        (3, "c", "bc", "2"),
        (2, "ab", "abc", "01"),
        (1, "b", "bc", "0"),
        (2, "bc", "abc", None),
        (4, "abc", "abc", None),
        (1, "c", "abc", None),
        (2, "c", "bc", None),
    ],
)
def test_rows_without_ids_go_by_order(
    count: int, ids: str, kept: str, expected: str | None
) -> None:
    """One completion per row of the dataset, of its filtered rows, or of the selected head of
    either.

    Any other number of rows, or as many as a selection that is no head, gives E209.
    """
    rows: Cells = [{"completion": str(n)} for n in range(count)]
    dataset = build(list(ids), list(kept))
    if expected is None:
        with pytest.raises(DataError, match=r"(?s)E209.*add a column `sample_id`"):
            match(rows, dataset)
        return
    matched = match(rows, dataset)
    assert texts(matched) == list(expected)
    assert matched.frame["sample_id"].to_list() == list(ids)


@pytest.mark.parametrize("name", ["completion", "output", "response", "model_output"])
def test_the_usual_names_are_found(name: str) -> None:
    """Each accepted name holds completions.

    `completion` wins over the others, a named column over all.
    """
    assert texts(load([{name: "B"}], "a")) == ["B"]
    assert texts(load([{name: "no", "completion": "B"}], "a")) == ["B"]
    assert texts(load([{name: "no", "by": {"m-1.5": "B"}}], "a", column="by.m-1.5")) == ["B"]


def test_a_missing_column_is_refused_with_those_there_are() -> None:
    """E209 lists the columns."""
    with pytest.raises(DataError, match=r"(?s)E209.*did you mean `text`\? columns: `text`, `by`$"):
        load([{"text": "A", "by": {"m1": "B"}}], "a", column="texts")


def test_messages_are_read() -> None:
    """A cell may be a message, a whole exchange, text or a number.

    Null is NO_TEXT, empty text is text.
    """
    cells: list[object] = [
        {"role": "assistant", "content": "A"},
        {"role": "assistant", "content": None, "refusal": "I cannot"},
        [{"role": "user", "content": "?"}, {"role": "assistant", "content": "B"}],
        "C",
        1,
        1.5,
        None,
    ]
    result = load([{"completion": cell} for cell in cells], "abcdefg")
    assert texts(result) == ["A", None, "B", "C", "1", "1.5", None]
    assert result.frame["status"].to_list() == ["OK", "REFUSED", "OK", "OK", "OK", "OK", "NO_TEXT"]
    assert texts(load([{"completion": 1}, {"completion": None}], "ab")) == ["1", None]
    result = load([{"completion": None}, {"completion": ""}], "ab")
    assert (texts(result), result.frame["status"].to_list()) == ([None, ""], ["NO_TEXT", "OK"])


@pytest.mark.parametrize("cell", [True, ["A"], {"x": 1}, float("inf")])
def test_cells_that_are_no_completions_are_refused(cell: object) -> None:
    """Booleans, lists of texts, other objects and numbers that are none give E209."""
    with pytest.raises(DataError, match=r"(?s)E209.*\(and in 1 more rows\)\n  --> answers.jsonl:2"):
        load([{"completion": text} for text in ("fine", cell, cell)], "abc")


@pytest.mark.usefixtures("way")
def test_a_cell_below_texts_that_is_no_completion_is_refused(tmp_path: Path) -> None:
    """Every row of a file counts, however large the file is."""
    file = tmp_path / "answers.jsonl"
    file.write_text('{"completion": "A"}\n{"completion": null}\n{"completion": true}\n')
    with pytest.raises(DataError, match=r"(?s)E209.*answers.jsonl:3"):
        find_own_completions(load_table(file).rows)


def test_statuses_of_the_file_are_kept() -> None:
    """`completion_status` says what became of the question.

    A text that is no answer is kept as the reply.
    """
    texts_told = ["B", "Sorry", "cut", None, "C", "D"]
    statuses = ["OK", "REFUSED", "ERROR", "OK", None, ""]
    pairs = zip(texts_told, statuses, strict=True)
    rows: Cells = [{"completion": text, "completion_status": status} for text, status in pairs]
    result = load(rows, "abcdef")
    assert texts(result) == ["B", None, None, None, "C", "D"]
    assert result.frame["status"].to_list() == ["OK", "REFUSED", "ERROR", "NO_TEXT", "OK", "OK"]
    replies = [None if raw is None else json.loads(raw) for raw in result.frame["reply"].to_list()]
    refusal = {"role": "assistant", "content": None, "refusal": "Sorry"}
    assert replies == [None, refusal, {"role": "assistant", "content": "cut"}, None, None, None]
    assert [row.status for row in result][1] is CompletionStatus.REFUSED


@pytest.mark.parametrize(("column", "cells", "expected"), CASES["beside"])
def test_other_columns_come_along(column: str, cells: list[object], expected: list[object]) -> None:
    """Verdicts of others, why it ended, log-probabilities; what has no such form is left out."""
    result = load([{"completion": "A", column: cell} for cell in cells], "ab")
    assert [getattr(completion, column) for completion in result] == expected


def test_completions_may_stand_beside_the_questions() -> None:
    """A dataset with a completion column holds its completions; one without holds none."""
    samples = load_rows([{"question": "?", "completion": "B"}], name="both").samples
    result = find_own_completions(samples)
    assert result is not None
    assert texts(result.read(samples)) == ["B"]
    bare = load_rows([{"question": "?"}], name="bare").samples
    assert find_own_completions(bare) is None
    with pytest.raises(DataError, match="E209"):
        find_own_completions(bare, column="reply")


def test_a_file_in_the_order_of_the_dataset_is_read_where_it_lies() -> None:
    """Ids that line up, with all samples or with the selected ones, need no join in memory."""
    table = load_rows(name_cells("abc"), name="answers.jsonl").rows
    chosen = match_completions(table, build(["a", "c"], ["a", "c"]))
    assert texts(chosen.take(range(1, 2)).read(build(["c"]).samples())) == ["c"]


SAMPLES = build(["a", "b"], ["a", "b"], ["a", "b"])
ROWS: list[dict[str, object]] = [
    {"sample_id": name, "trial": trial, "completion": f"{name}{trial}"}
    for trial in (1, 0)
    for name in "ba"
]


def test_rows_are_matched_by_sample_and_trial(tmp_path: Path) -> None:
    """In whatever order the file has them, the trials of a sample stand one after the other."""
    frame = match(ROWS, SAMPLES, num_trials=2).frame
    assert frame["completion"].to_list() == ["a0", "a1", "b0", "b1"]
    assert frame["sample_id"].to_list() == ["a", "a", "b", "b"]
    assert frame["trial"].to_list() == [0, 1, 0, 1]
    file = tmp_path / "answers.csv"  # the cells of a CSV file are text, and still numbers
    file.write_text("sample_id,trial,completion\na,0,x\na,1,y\nb,1,v\nb,0,u\n")
    matched = match(load_table(file, by_trial=True).rows, SAMPLES, num_trials=2)
    assert texts(matched) == ["x", "y", "u", "v"]
    # What `export` writes of a run without trials can be scored again.
    assert texts(match(name_cells("ab", trial=0), SAMPLES)) == ["a", "b"]


@pytest.mark.parametrize(("rows", "num_trials", "words"), CASES["trials"])
def test_trials_that_do_not_fit_are_refused(rows: Cells, num_trials: int, words: str) -> None:
    """Missing ones and too many, none where a task asks several times, several where it asks
    once.
    """
    with pytest.raises(DataError, match=f"(?s){words}"):
        match(rows, SAMPLES, num_trials=num_trials)


@pytest.mark.parametrize(("row", "name"), CASES["names"])
def test_the_exact_name_first_then_the_longest(row: dict[str, object], name: str) -> None:
    """A dotted name reaches the exact column, else the field under the longest matching name."""
    assert texts(load([row], "a", column=name)) == ["x"]


@pytest.mark.parametrize("name", ["b", "a.c", "a.b.c", "a.", ".a", "a..b"])
def test_names_that_reach_nothing(name: str) -> None:
    """A name without a column or field reaches nothing."""
    with pytest.raises(DataError, match="no column holds the completions"):
        load([{"a": {"b": "x"}, "t": "text"}], "a", column=name)


def test_objects_of_different_shapes_are_searched_row_by_row() -> None:
    """Which column a name means is decided for the whole file.

    A row without the field has a null cell.
    """
    cells: list[object] = [{"m": "x"}, {"n": 1}, None, {"m": None}]
    samples = load_rows([{"by": cell} for cell in cells], name="both").samples
    in_samples = find_own_completions(samples, column="by.m")
    assert in_samples is not None
    assert texts(in_samples.read(samples)) == ["x", None, None, None]
    assert texts(in_samples.read(samples.slice(1, 1))) == [None]
    with pytest.raises(DataError, match=r"looked for `by\.k`"):
        find_own_completions(samples, column="by.k")


FOLDER = Path(__file__).parents[4] / "shared" / "data"


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the folder with real files is not there")
def test_real_files_are_read_whole() -> None:
    """No row is lost.

    Completions are fields of a struct, Python lists in CSV cells are lists of four.
    """
    for name, count in {
        "arc_challenge/ARC-Challenge-Test.jsonl": 1172,
        "arc_challenge/ARC-Challenge-Dev.jsonl": 299,
        "agieval/logiqa-zh.jsonl": 651,
        "tricky_completions.jsonl": 58,
    }.items():
        assert len(load_table(FOLDER / name).samples) == count
    samples = load_table(FOLDER / "helm_mmlu" / "helm_mmlu.jsonl").samples
    assert len(samples) == 14_014
    assert isinstance(samples.row(0)["completions"], dict)
    known_right = {"anthropic_claude-3-opus-20240229": 11_918, "openai_gpt-4o-2024-05-13": 11_886}
    for model, right in known_right.items():
        recorded = find_own_completions(samples, column=f"completions.{model}")
        assert recorded is not None
        texts_read = recorded.read(samples).frame["completion"].to_list()
        pairs = zip(texts_read, samples.values("answer"), strict=True)
        assert sum(text == answer for text, answer in pairs) == right
    how = FileFields(columns={"choices": "list", "groundtruth_answer": "int"})
    samples = load_table(FOLDER / "helm_mmlu" / "mmlu_redux_5700_with_14_models.csv", how).samples
    assert {len(row["choices"]) for row in samples.rows() if isinstance(row["choices"], list)} == {
        4
    }
    assert set(samples.values("groundtruth_answer")) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("names", "read"),
    [
        ("cab", "abc"),  # each is the id of a sample: it says which
        ("abc", "abc"),
        ("xyz", "xyz"),  # ids of something else: what counts is the order
    ],
)
@pytest.mark.parametrize("is_own", [True, False])
def test_a_column_of_ids_says_which_sample_is_meant(names: str, read: str, *, is_own: bool) -> None:
    """As the samples' ids, or as a column of the same name that the dataset has."""
    dataset = build()
    if not is_own:
        rows = load_rows([{"id": one} for one in ALL], name="samples").rows
        dataset = Dataset.of(rows, name="samples")
    recorded: Cells = [{"id": name, "completion": f"answer of {name}"} for name in names]
    assert texts(match(recorded, dataset)) == [f"answer of {one}" for one in read]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("abx", r"E209.*samples without a completion: 1 \(`c`\); completions .* sample: 1 \(`x`\)"),
        ("aab", r"E208.*: several completions have the same `id`: `a`"),
    ],
)
def test_ids_that_name_only_some_of_the_samples_are_no_order(names: str, message: str) -> None:
    """A misspelt or a repeated id is an error: by order, replies would be those of others."""
    recorded: Cells = [{"id": name, "completion": name} for name in names]
    with pytest.raises(DataError, match=message) as caught:
        match(recorded, build())
    assert "`id`" in str(caught.value)


def test_a_column_of_ids_may_name_the_selected_samples_alone() -> None:
    """In any order; what is missing is an error."""
    dataset = build(("b", "c"), ALL, ALL)
    recorded: Cells = [{"id": name, "completion": name} for name in "cb"]
    assert texts(match(recorded, dataset)) == ["b", "c"]
    with pytest.raises(DataError, match=r"samples without a completion: 1 \(`b`\)"):
        match(recorded[:1], dataset)
