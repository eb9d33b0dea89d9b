from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from answerkey.dataset_audit.questions import (
    Question,
    find_fields,
    find_place,
    guess_form,
    name_options,
    read_questions,
)
from answerkey.datasets import HeldRows, load_rows
from answerkey.evaluate import read_option_cell


def read(rows: list[dict[str, Any]], **said: Any) -> list[Question]:  # noqa: ANN401 - the fields of find_fields
    """Return the questions of rows, with the parts found by name unless said."""
    samples = load_rows(rows, name="rows").samples
    return read_questions(samples, find_fields(HeldRows(samples), **said))


@pytest.mark.parametrize(
    ("cell", "texts", "labels"),
    [
        (["x", "y"], ["x", "y"], []),
        ('["x", "y"]', ["x", "y"], []),
        ("['x', 'y']", ["x", "y"], []),
        ([1, 2.5, None], ["1", "2.5", None], []),
        ([{"text": "x", "label": "A"}, {"text": "y", "label": "B"}], ["x", "y"], ["A", "B"]),
        ({"text": ["x", "y"], "label": ["1", "2"]}, ["x", "y"], ["1", "2"]),
        ({"A": "x", "B": "y", "C": None}, ["x", "y"], ["A", "B"]),
        ("no list", None, []),
        (7, None, []),
        (None, None, []),
    ],
)
def test_options_are_read_in_every_spelling(cell: object, texts: object, labels: list[str]) -> None:
    """Lists, texts of lists, lists of mappings and mappings of both kinds are options."""
    assert read_option_cell(cell) == (texts, labels)


def test_columns_are_found_by_their_names() -> None:
    """A passage belongs to the question; options may stand in columns of their own."""
    rows = [{"passage": "p", "question": "q", "choice0": "x", "choice1": "y", "label": 1}]
    (question,) = read(rows, truth_form="index")
    assert (question.text, question.options, question.labels) == ("p\nq", ("x", "y"), ("A", "B"))
    assert (question.truth, question.said) == (1, "1")


def test_lettered_columns_give_the_labels() -> None:
    """Columns `A`, `B`, `C` are options that are called so."""
    (question,) = read([{"question": "q", "A": "x", "B": "y", "C": "z", "answer": "C"}])
    assert (question.options, question.labels, question.truth) == (("x", "y", "z"), ("A", "B", "C"), 2)


def test_parts_may_be_nested() -> None:
    """Fields of mappings are found, too, and paths may be given."""
    row = {
        "question": {"stem": "q", "choices": [{"text": "x", "label": "1"}, {"text": "y", "label": "2"}]},
        "answerKey": "2",
    }
    (found,) = read([row])
    assert (found.text, found.labels, found.truth) == ("q", ("1", "2"), 1)
    (said,) = read([row], question=("question.stem",), truth="{{ sample.answerKey }}")
    assert said == found


def test_labels_before_options_are_taken_off() -> None:
    """`(A)x`, `(B)y` are the texts x and y; a text that only looks like it stays."""
    (plain,) = read([{"question": "q", "options": ["(A)x", "(B) y"], "answer": "A"}])
    assert plain.options == ("x", "y")
    (other,) = read([{"question": "q", "options": ["A. Lincoln", "G. Washington"], "answer": "A"}])
    assert other.options == ("A. Lincoln", "G. Washington")


def test_a_column_of_nulls_is_no_truth() -> None:
    """Of several columns that could hold the truth the first is taken that holds anything."""
    (question,) = read([{"question": "q", "options": ["x", "y"], "answer": None, "label": "B"}])
    assert question.truth == 1


def test_labels_are_not_mistaken_for_options() -> None:
    """A column `choices` of single letters says what options are called."""
    row = {"question": "q", "choices": ["P", "Q"], "options": ["one", "two"], "answer": "Q"}
    (question,) = read([row])
    assert (question.options, question.labels, question.truth) == (("one", "two"), ("P", "Q"), 1)


def test_a_column_of_choices_may_hold_options() -> None:
    """Texts in a column `choices` are options, be they single characters that are no labels."""
    (question,) = read([{"question": "q", "choices": ["7", "2", "9"], "answer": "B"}])
    assert (question.options, question.labels) == (("7", "2", "9"), ("A", "B", "C"))


@pytest.mark.parametrize(
    ("said", "form", "place"),
    [
        ("B", "label", 1),
        (" B ", "label", 1),
        ("E", "label", None),
        ("1", "index", 1),
        ("4", "index", None),
        ("4", "number", 3),
        ("0", "number", None),
        ("-1", "index", None),
        ("y", "text", 1),
        ("z", "text", None),
        (None, "label", None),
    ],
)
def test_a_truth_names_its_option(said: str | None, form: Any, place: int | None) -> None:  # noqa: ANN401 - a literal
    """By label, by a place counted from 0 or from 1, or by text."""
    assert find_place(said, ["A", "B", "C", "D"], ["x", "y", "v", "w"], form) == place


@pytest.mark.parametrize(
    ("truths", "form"),
    [
        (["A", "B"], "label"),
        (["0", "1"], "index"),
        (["1", "2"], "number"),
        (["x", "y"], "text"),
        (["1", "0", "1"], "index"),
    ],
)
def test_the_form_of_truths_is_guessed(truths: list[str], form: str) -> None:
    """Labels first; numbers count from 0 if one is 0, else from 1; else texts."""
    questions = [Question("q", ("x", "y"), ("A", "B"), None, said) for said in truths]
    assert guess_form(questions) == form


def test_options_without_names_get_letters() -> None:
    """Up to 26 options are letters, more are numbers."""
    assert name_options(3) == ["A", "B", "C"]
    assert name_options(27)[-1] == "27"


def test_fields_say_which_columns_they_read() -> None:
    """Only the columns of the parts are loaded."""
    frame = pl.DataFrame({"question": ["q"], "options": [["x", "y"]], "answer": ["A"], "notes": ["long"]})
    rows = HeldRows(load_rows(frame, name="rows").samples)
    assert find_fields(rows).columns == frozenset({"question", "options", "answer"})
