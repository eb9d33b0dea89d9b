from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from answerkey.errors import DataError, SpecError

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk


def test_columns_are_known_by_the_names_that_people_give_them(desk: Desk, tmp_path: Path) -> None:
    """CSV with an option in each column, as many have it; a row may have fewer options than others."""
    (tmp_path / "mine.csv").write_text(
        "index,question,A,B,C,answer,prediction,response,category,note\n"
        "7,Which?,one,two,three,B,(B),The answer is B.,maps,easy\n"
        "8,Other?,yes,no,,A,B,No.,maps,\n",
        encoding="utf-8",
    )
    found = desk.bring(tmp_path / "mine.csv")
    assert (found.kind, found.samples, found.judged, found.their_mean) == ("plain", 2, 2, 0.5)
    assert desk.dataset()[0] == {
        "sample_id": "7",
        "question": "Which?",
        "options": ["one", "two", "three"],
        "choices": ["A", "B", "C"],
        "answer": "B",
        "category": "maps",
        "original": '{"note": "easy"}',
    }
    assert desk.dataset()[1]["choices"] == ["A", "B"]
    assert desk.completions()[0] == {
        "sample_id": "7",
        "completion": "The answer is B.",
        "completion_status": "OK",
        "their_score": 1.0,
        "their_answer": "B",
    }


def test_json_lines_with_lists_places_and_messages(desk: Desk) -> None:
    """An index is a place, a message is what it says, and a score is a verdict."""
    asked = {"question": "Which?", "choices": ["x", "yy"]}
    said, refused = ({"content": "B"}, {"content": None, "refusal": "no"})
    rows = [
        {"id": "a", **asked, "answer_index": 1, "is_correct": True, "output": {"role": "assistant", **said}},
        {
            "id": "b",
            **asked,
            "answer_index": 0,
            "is_correct": False,
            "output": {"role": "assistant", **refused},
        },
    ]
    found = desk.bring(desk.lines("mine.jsonl", rows))
    assert found.statuses == {"OK": 1, "REFUSED": 1}
    assert [row["answer"] for row in desk.dataset()] == ["B", "A"]
    assert [row["their_score"] for row in desk.completions()] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("row", "choices", "options"),
    [
        ({"choices": {"text": ["x", "y"], "label": ["1", "2"]}}, ["1", "2"], ["x", "y"]),
        ({"options": {"A": "x", "B": "y"}}, ["A", "B"], ["x", "y"]),
        ({"options": "['x', 'yy']"}, ["A", "B"], ["x", "yy"]),
        ({"options": ["x", "yy"], "labels": ["p", "q"]}, ["p", "q"], ["x", "yy"]),
        ({"choices": ["A", "B"]}, ["A", "B"], None),
        ({"choice1": "x", "choice2": "yy"}, ["A", "B"], ["x", "yy"]),
        ({"option_a": "x", "option_b": "yy"}, ["A", "B"], ["x", "yy"]),
    ],
)
def test_options_come_in_many_forms(
    desk: Desk, row: dict[str, Any], choices: list[str], options: list[str] | None
) -> None:
    """Labels that a table states are kept."""
    desk.bring(desk.lines("mine.jsonl", [{"question": "?", "answer": choices[0], "output": "x", **row}]))
    assert desk.dataset()[0]["choices"] == choices
    assert desk.dataset()[0].get("options") == options


def test_the_caller_says_which_column_is_what(desk: Desk) -> None:
    """Whatever it is called."""
    log = desk.lines("mine.jsonl", [{"frage": "?", "loesung": "A", "sagt": "A", "output": "no"}])
    desk.bring(log, columns={"question": "frage", "answer": "loesung", "completion": "sagt"})
    assert (desk.dataset()[0]["question"], desk.completions()[0]["completion"]) == ("?", "A")


def test_a_dotted_name_reaches_into_a_cell(desk: Desk) -> None:
    """The longest name of a field first, for names of models have dots."""
    said = {"gpt-4": {"1": "no"}, "gpt-4.1": "A"}
    log = desk.lines("mine.jsonl", [{"question": "?", "answer": "A", "completions": said}])
    desk.bring(log, columns={"completion": "completions.gpt-4.1"})
    assert desk.completions()[0]["completion"] == "A"


@pytest.mark.parametrize(
    ("columns", "message"),
    [({"answre": "x"}, "nothing is called `answre`"), ({"answer": "truht"}, "there is no column `truht`")],
)
def test_a_mistyped_column_is_refused(desk: Desk, columns: dict[str, str], message: str) -> None:
    """With what was probably meant."""
    with pytest.raises(SpecError, match=message) as caught:
        desk.bring(desk.lines("mine.jsonl", [{"truth": "A", "completion": "A"}]), columns=columns)
    assert caught.value.code == "E119"
    assert "did you mean" in str(caught.value.hint)


def test_a_table_without_truth_or_completion_is_refused(desk: Desk) -> None:
    """The hint says how to name the column."""
    with pytest.raises(DataError, match="no column holds the truth") as caught:
        desk.bring(desk.lines("a.jsonl", [{"question": "?", "output": "A"}]))
    assert caught.value.code == "E206"
    with pytest.raises(DataError, match="no column holds completions") as caught:
        desk.bring(desk.lines("b.jsonl", [{"question": "?", "answer": "A"}]))
    assert "--column completion=NAME" in str(caught.value.hint)


def test_choices_that_no_row_lists_are_told_from_the_truths(desk: Desk) -> None:
    """From A to the last truth, at least to D; the task says so."""
    rows = [{"question": "?", "answer": "E", "output": "E"}, {"question": "?", "answer": "A", "output": "A"}]
    found = desk.bring(desk.lines("mine.jsonl", rows))
    assert "taken to be `A`, `B`, `C`, `D`, `E`, by the truths" in found.notices[0].message
    assert 'choices: ["A", "B", "C", "D", "E"]' in desk.text("task.yaml")


def test_trials_of_a_table_are_trials(desk: Desk) -> None:
    """Rows of one sample that differ in `trial`."""
    rows = [{"sample_id": "a", "trial": trial, "answer": "A", "completion": "A"} for trial in (0, 1)]
    assert desk.bring(desk.lines("mine.jsonl", rows)).num_trials == 2
