"""Laws of the recogniser: the columns of a table, judged on all rows.

What cannot be told is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.unit.shapes import SHAPES, Shape

from answerkey.datasets import rows as blocks
from answerkey.datasets.questions import QuestionColumns
from answerkey.datasets.recognition import recognise
from answerkey.datasets.tables import FileFields, load_rows, load_table
from answerkey.errors import DataError, SpecError
from answerkey.types import Samples

Row = Mapping[str, Any]
FOUR = ["red", "green", "blue", "grey"]


def read(rows: Sequence[Row], **chosen: str) -> tuple[QuestionColumns, pl.DataFrame]:
    """Return what is recognised in some rows, and the columns that come of it."""
    samples = load_rows(rows, name="mine.jsonl").samples
    result = recognise(samples, chosen)
    return result, as_frame(result.derive(samples))


def as_frame(samples: Samples) -> pl.DataFrame:
    """Return the fields of samples as columns."""
    return pl.DataFrame(list(map(dict, samples.rows())), infer_schema_length=None, strict=False)


def ask(*answers: object, **more: object) -> list[dict[str, Any]]:
    """Return a row for each answer, with four options."""
    return [
        {"question": "Which colour?", "options": FOUR, "answer": truth, **more} for truth in answers
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_columns_of_known_datasets_are_recognised(
    shape: Shape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever they are called and however the truth is spelled.

    A file of one's own needs no other names. Block by block the same is recognised, and row by row
    the same is made of it.
    """
    rows = load_table(shape.write(tmp_path)).rows
    result = recognise(rows)
    assert result.say() == shape.questions
    derived = result.derive(rows.load())
    first = derived.row(0)
    assert derived.values("truth") == list(shape.truths)
    assert (first["options"], first.get("passage")) == (list(shape.options), shape.passage)
    parts = as_frame(derived).select("options", "choices", "truth").rows()
    right = [options[labels.index(truth)] for options, labels, truth in parts]
    assert right == list(shape.right)
    assert QuestionColumns.of(result.say(), rows) == result
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 1)
    assert recognise(rows) == result
    single = [result.derive(rows.slice(place, 1).load()).rows() for place in range(len(rows))]
    assert list(chain.from_iterable(single)) == list(derived.rows())


@pytest.mark.parametrize(
    ("rows", "chosen", "form", "truths"),
    [
        (ask("B", "D"), {}, "label", ["B", "D"]),
        (ask("(b)", "**D**."), {}, "label", ["B", "D"]),
        (ask("green", "Grey"), {}, "text", ["B", "D"]),
        (ask("B. green", "(D) grey"), {}, "text", ["B", "D"]),
        (ask(0, 3), {}, "0", ["A", "D"]),
        (ask("0.0", "3.0"), {}, "0", ["A", "D"]),
        (ask(1.0, 4.0), {}, "1", ["A", "D"]),
        (ask([2], [0]), {}, "0", ["C", "A"]),
        (ask([0, 0, 1, 0], [1, 0, 0, 0]), {}, "flag", None),
        (ask(1, 2), {"truth": "answer:0"}, "0", ["B", "C"]),
        (ask(1, 2), {"truth": "answer:1"}, "1", ["A", "B"]),
        (ask(1, 2), {"truth": ":1"}, "1", ["A", "B"]),
        (ask("A", "B", gold="C"), {"truth": "gold"}, "label", ["C", "C"]),
        (ask(*["B"] * 19, "?"), {}, "label", [*["B"] * 19, "?"]),
        (ask(*["B"] * 19, None), {}, "label", [*["B"] * 19, None]),
    ],
)
def test_a_truth_is_read_as_it_is_spelled(
    rows: list[Row], chosen: dict[str, str], form: str, truths: list[str | None] | None
) -> None:
    """As a label, an index, a text or a mark.

    A single row that says otherwise keeps what it says.
    """
    fields, frame = read(rows, **chosen)
    assert fields.form == form
    if truths is not None:
        assert frame["truth"].to_list() == truths


def test_the_last_row_decides_as_much_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows are looked at: one 0, or one 4, tells where the index begins."""
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 64)
    middle = [1, 2, 3] * 100
    assert read(ask(*middle, 0))[0].form == "0"
    assert read(ask(*middle, 4))[0].form == "1"
    with pytest.raises(DataError, match="E215"):
        read(ask(*middle))


def test_labels_of_the_table_come_before_places() -> None:
    """A number among the labels that a table states is a label; they are what may be answered."""
    choices = {"text": FOUR, "label": ["1", "2", "3", "4"]}
    fields, frame = read([{"question": "?", "choices": choices, "answer": n} for n in ("1", "2")])
    assert (fields.form, frame["truth"].to_list()) == ("label", ["1", "2"])
    assert frame["choices"][0].to_list() == ["1", "2", "3", "4"]


def test_columns_that_say_the_same_are_one_reading() -> None:
    """Only where they differ in some row must the caller say which is meant."""
    same = [row | {"label": at} for row, at in zip(ask("B", "A", "D"), (1, 0, 3), strict=True)]
    assert read(same)[0].say()["truth"] == "answer:label"
    with pytest.raises(DataError, match="E215") as caught:
        read([*same, *ask("A", label=2)])
    assert caught.value.hint == (
        "say which is meant: `--column truth=answer:label` or `--column truth=label:0`"
    )


def test_several_questions_in_a_row_are_one_each() -> None:
    """As lists beside each other, or as a list of questions; ids are numbered within their row."""
    listed = [
        {"question": "q1", "options": FOUR, "gold_label": 4},
        {"question": "q2", "options": FOUR, "gold_label": 1},
    ]
    fields, frame = read([{"id": "x", "article": "text", "questions": listed}])
    assert fields.say() == {
        "question": "questions.question",
        "passage": "article",
        "options": "questions.options",
        "truth": "questions.gold_label:1",
        "id": "id",
    }
    assert frame.select("sample_id", "question", "truth", "passage").rows() == [
        ("x-1", "q1", "D", "text"),
        ("x-2", "q2", "A", "text"),
    ]
    uneven = {"questions": ["q1", "q2"], "options": [FOUR, FOUR], "answers": ["A"]}
    with pytest.raises(DataError, match=r"E202.*`answers`.* are not equally long"):
        read([uneven])


def test_right_and_wrong_answers_are_shuffled_by_content() -> None:
    """The order depends on question and options alone.

    The right one is not always at the same place.
    """
    answers = {"correct_answer": "yes", "incorrect_answers": ["no", "so"]}
    rows = [{"question": f"q{number}", **answers} for number in range(60)]
    frame = read(rows)[1]
    for options, label in frame.select("options", "truth").rows():
        assert options["ABC".index(label)] == "yes"
        assert len(options) == 3
    counts = frame["truth"].value_counts().rows()
    assert sorted(label for label, _ in counts) == ["A", "B", "C"]
    assert min(count for _, count in counts) > 10
    backwards = read(rows[::-1])[1]
    assert backwards.reverse().select("options", "truth").equals(frame.select("options", "truth"))
    twice = read([{"question": "q", "correct_answer": "no", "incorrect_answers": ["no", "so"]}])[1]
    assert twice["truth"][0] is not None


MARKED = [{"text": "x", "is_correct": False}, {"text": "y", "is_correct": True}]


@pytest.mark.parametrize(
    ("row", "truth", "right"),
    [
        ({"options": MARKED}, "options:flag", "y"),
        ({"options": "A. x\nB. y", "answer": "b"}, "answer:label", "y"),
        ({"question": "So?\nA. x\nB. No", "target": "No"}, "target:text", "No"),
        ({"answer": "False"}, "answer:true", "False"),
        ({"answer": "no"}, "answer:yes", "No"),
    ],
)
def test_options_are_found_wherever_they_stand(row: Row, truth: str, right: str) -> None:
    """With marks, as lines of one cell, as a list in the question, or as nothing but yes and no."""
    fields, frame = read([{"question": "Which?", **row}])
    assert fields.say()["truth"] == truth
    assert frame["options"][0]["AB".index(frame["truth"][0])] == right
    assert "Options" not in frame["question"][0]


AMBIGUOUS = """\
error[E215]: the truths can be read in 2 ways, which all fit
  line 1: `answer` 1 as index from 0 is 'green'; `answer` 1 as index from 1 is 'red'
  line 2: `answer` 3 as index from 0 is 'grey'; `answer` 3 as index from 1 is 'blue'
  line 3: `answer` 2 as index from 0 is 'blue'; `answer` 2 as index from 1 is 'green'
  --> mine.jsonl, column `answer`
  = help: say which is meant: `--column truth=answer:0` or `--column truth=answer:1`"""
UNFIT = """\
error[E215]: 2 of 3 truths match no option
  line 1: `answer` 'E' as label matches no option
  line 3: `answer` 'x' as label matches no option
  --> mine.jsonl, column `answer`
  = help: a row has one right option: rows with several (`A, C`) or none cannot be scored; \
score the others with `--column truth=answer:label allow_failed=2`, or name another column with \
`--column truth=NAME`; columns: `question`, `options`, `answer`"""


@pytest.mark.parametrize(
    ("rows", "message"), [(ask(1, 3, 2, 1), AMBIGUOUS), (ask("E", "A", "x"), UNFIT)]
)
def test_what_cannot_be_decided_is_asked(rows: list[Row], message: str) -> None:
    """Never guessed: the rows are shown, and the flag that decides."""
    with pytest.raises(DataError) as caught:
        read(rows)
    assert str(caught.value) == message


@pytest.mark.parametrize("truth", [-1, "-1", "", None])
def test_truths_that_are_hidden_are_refused(truth: object) -> None:
    """E215: every row needs a truth."""
    with pytest.raises(DataError, match=r"E215.*2 of 2 truths match no option"):
        read(ask(truth, truth))


@pytest.mark.parametrize(
    ("row", "chosen", "code", "words"),
    [
        ({"frage": "?"}, {}, "E206", "no column holds the question"),
        ({"question": "?", "answer": "A"}, {}, "E206", "no column holds the options"),
        ({"question": "?", "options": FOUR}, {}, "E206", "no column holds the truth"),
        (ask("A")[0], {"truth": "anwser"}, "E206", "truth: there is no column `anwser`"),
        (ask("A")[0], {"options": "A,B"}, "E206", "options: there is no column `A`"),
        (ask("A", output="A", response="B")[0], {}, "E209", "several columns may hold the com"),
        (ask("A", choices=["x", "y", "z", "v"])[0], {}, "E215", "2 ways"),
    ],
)
def test_what_is_missing_is_named(row: Row, chosen: dict[str, str], code: str, words: str) -> None:
    """With the columns that there are."""
    with pytest.raises(DataError, match=words) as caught:
        read([row], **chosen)
    assert caught.value.code == code
    assert caught.value.hint


def test_the_caller_says_what_is_what() -> None:
    """Another column, several for the options, none for the passage.

    A colon may be part of a name.
    """
    row = {"frage": "?", "x": "red", "y": "blue", "a:0": "B", "context": "c"}
    fields, frame = read([row], question="frage", options="x,y", truth="a:0", passage="")
    assert (fields.spread, fields.form, "passage" in fields.columns) == (("x", "y"), "label", False)
    assert (frame["truth"][0], frame["options"][0].to_list()) == ("B", ["red", "blue"])


def test_hostile_names_are_names() -> None:
    """Templates, variables, quotes and dots in a column's name mean nothing."""
    names = ["$HOME", "{{ 7*7 }}", "a.b", "it's", "<< config.x >>"]
    row = dict(zip(names, ["?", FOUR, "B", "id", "c"], strict=True))
    fields, frame = read(
        [row], question=names[0], options=names[1], truth=names[2], id=names[3], category=names[4]
    )
    derived = frame.select("question", "truth", "sample_id", "category").row(0)
    assert derived == ("?", "B", "id", "c")
    assert fields.say()["options"] == "{{ 7*7 }}"


def test_cells_that_hold_nothing_are_told_when_rows_are_checked() -> None:
    """A row without options keeps its place, with null; ids of articles may come again."""
    rows = [*ask(*["B"] * 19, doc_id="same"), {"question": "?", "options": None, "answer": "A"}]
    fields, frame = read(rows)
    assert "id" not in fields.columns
    assert (frame["options"][19], frame["choices"][19], frame["truth"][19]) == (None, None, "A")


def test_a_part_that_there_is_not_is_refused() -> None:
    """In `questions` of a dataset file."""
    with pytest.raises(SpecError, match=r"E107.*unknown key `anwser` in `questions`"):
        FileFields(questions={"anwser": "x"})


def test_single_digits_that_do_not_count_from_one_are_options() -> None:
    """Options of a sum may be 4, 5 and 6; labels begin with A, a, 0 or 1."""
    rows = [
        {"question": "2 + 3?", "choices": ["4", "5", "6"], "answer": "5"},
        {"question": "9 - 1?", "choices": ["7", "8", "9"], "answer": "8"},
    ]
    fields, frame = read(rows)
    assert fields.say() == {"question": "question", "options": "choices", "truth": "answer:text"}
    assert frame["truth"].to_list() == ["B", "B"]
