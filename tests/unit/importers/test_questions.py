"""Laws of questions and prompts in logs: labels, lists in cells, columns by their names."""

from __future__ import annotations

from typing import Any

import pytest

from answerkey.datasets.options import label_options, read_option_cell, take_labels
from answerkey.datasets.questions import find_columns
from answerkey.datasets.recognition import recognise
from answerkey.datasets.tables import load_rows
from answerkey.importers.prompts import find_question, read_messages
from answerkey.importers.questions import DERIVED, Question, parse_prompt, read_question, read_texts

ABCD = ("A", "B", "C", "D")
TEXTS = ("Paris", "Lyon", "Nice", "Lyon")


def test_options_without_labels_get_letters_then_digits() -> None:
    """As other tools go on after Z; none are left for a great many options."""
    assert label_options(4) == ABCD
    assert label_options(28) == (*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "1", "2")
    assert (label_options(0), label_options(62)) == (None, None)


@pytest.mark.parametrize(
    ("texts", "labels", "counting"),
    [
        ([" A", " B"], ("A", "B"), ("A", "B")),
        (["1", "2"], ("1", "2"), ("1", "2")),
        (["0", "4", "2"], ("0", "4", "2"), None),
        (["B", "A"], ("B", "A"), None),
        (["A", "A"], None, None),
        (["yes", "no"], None, None),
        ([], None, None),
    ],
)
def test_distinct_characters_are_labels(texts: list[str], labels: object, counting: object) -> None:
    """White space around them does not count.

    What does not count up may be options: those of a sum.
    """
    assert (take_labels(texts), take_labels(texts, counting=True)) == (labels, counting)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        *(("B", "B"), (" B ", "B"), ("(B)", "B"), ("**B**.", "B"), ("Paris", "A"), ("Lyon", None)),
        *((2, "C"), ("2", "C"), (2.0, "C"), (2.5, None), (4, None), (-1, None)),
        *(("E", None), ("[invalid]", None), (True, None), (None, None), ("", None)),
    ],
)
def test_a_label_is_found_by_itself_its_place_or_its_text(value: object, label: str | None) -> None:
    """An option's text counts when no other option has it."""
    assert Question(choices=ABCD, options=TEXTS).find_label(value) == label


def test_a_number_is_a_label_before_it_is_a_place() -> None:
    """Unless places are meant; without choices a value stays what it is."""
    question = Question(choices=("1", "2", "3"))
    assert (question.find_label("1"), question.find_label("1", by_index=True)) == ("1", "2")
    assert question.find_label("3", by_index=True) == "3"
    assert Question().find_label("A") is None


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
        ({"not A": 0, "not B": 1}, ["not A", "not B"], []),
        ("['x' 'it\\'s' \"y\"]", ["x", "it's", "y"], []),
        ('{"A": "x", "B": "y"}', ["x", "y"], ["A", "B"]),
        ("no list", None, []),
        ("[", None, []),
        ({"a": []}, None, []),
        (7, None, []),
        (None, None, []),
    ],
)
def test_options_are_read_in_every_spelling(cell: object, texts: object, labels: list[str]) -> None:
    """Lists, texts of lists, lists of mappings and mappings of both kinds are options."""
    assert read_option_cell(cell) == (texts, labels)


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        *((["a", 1], ("a", "1")), ('["a", "b"]', ("a", "b")), ("['a', 'b']", ("a", "b"))),
        *(({"A": "a", "B": "b"}, ("a", "b")), ("a, b", None), ("[", None)),
        *(([], None), ([["a"]], None), (None, None)),
    ],
)
def test_lists_of_texts_are_read_from_lists_and_their_texts(value: object, texts: object) -> None:
    """JSON, a Python literal, or the values of a mapping."""
    assert read_texts(value) == texts


@pytest.mark.parametrize(
    ("row", "choices", "options"),
    [
        ({"choices": {"text": ["x", "y"], "label": ["1", "2"]}}, ("1", "2"), ("x", "y")),
        ({"options": {"A": "x", "B": "y"}}, ("A", "B"), ("x", "y")),
        ({"options": "['x', 'yy']"}, ("A", "B"), ("x", "yy")),
        ({"options": ["x", "yy"], "labels": ["p", "q"]}, ("p", "q"), ("x", "yy")),
        ({"options": ["x", "yy"], "choices": ["p", "q"]}, ("p", "q"), ("x", "yy")),
        ({"choices": ["A", "B"]}, ("A", "B"), None),
        ({"choice1": "x", "choice2": "yy"}, ("A", "B"), ("x", "yy")),
        ({"option_a": "x", "option_b": "yy"}, ("A", "B"), ("x", "yy")),
        ({"A": "x", "B": "yy", "C": ""}, ("A", "B"), ("x", "yy")),
        ({}, None, None),
    ],
)
def test_a_question_is_read_from_columns_of_any_usual_name(
    row: dict[str, Any], choices: tuple[str, ...] | None, options: object
) -> None:
    """Labels that a table states are kept.

    The truth is a label, and what is no part of it stays aside.
    """
    truth = choices[1] if choices else "B"
    whole = {"Question": "q", "answer": truth, "subject": "maps", "note": 1, **row}
    result = read_question(find_columns(tuple(whole)), whole)
    samples = load_rows([whole], name="rows").samples
    columns = recognise(samples, needs_all=False)
    derived = next(columns.derive(samples).rows())
    assert read_question(DERIVED, derived, columns.taken.union(DERIVED.taken)) == result
    assert (result.question, result.choices, result.options) == ("q", choices, options)
    assert result.truth == truth
    assert (result.category, result.original) == ("maps", {"note": 1})


def test_what_columns_hold_tells_which_is_meant() -> None:
    """Fields inside a cell are found, a column of nulls is passed over, and letters alone are no
    options.
    """
    listed = [{"text": "x", "label": "1"}, {"text": "y", "label": "2"}]
    row = {
        "question": {"stem": "q", "choices": listed},
        "answer": None,
        "label": "2",
        "labels": ["1", "2"],
    }
    samples = load_rows([row], name="rows").samples
    result = recognise(samples)
    names = {"question": "question.stem", "options": "question.choices", "choices": "labels"}
    assert result.columns == {**names, "truth": "label"}
    derived = result.derive(samples).row(0)
    assert [derived[name] for name in ("question", "options", "choices", "truth")] == [
        *("q", ["x", "y"], ["1", "2"], "2")
    ]


# Prompts.


@pytest.mark.parametrize(
    ("prompt", "choices", "options"),
    [
        ("Which?\nA) one\nB) two\nAnswer:", ("A", "B"), ("one", "two")),
        ("  Which?\n\n(A) one\n(B) two\n(C) three", ("A", "B", "C"), ("one", "two", "three")),
        ("Which?\nA. one\nmore of it\nB. two\n", ("A", "B"), ("one\nmore of it", "two")),
        ("Which?\nA\uff0eone\nB\uff0etwo", ("A", "B"), ("one", "two")),
    ],
)
def test_lettered_options_at_the_end_are_those_of_the_question(
    prompt: str, choices: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """What stands before them is the question; options further up are of worked examples."""
    for example in ("", "Q\nA. x\nB. y\n\nAnswer: A\n\n"):
        shown = parse_prompt(example + prompt)
        assert (shown.choices, shown.options) == (choices, options)
        assert shown.question == (example + prompt[: prompt.index("?") + 1]).strip()


@pytest.mark.parametrize(
    "prompt", [None, "", "Which?", "A. Smith asks.", "B) two\nC) three", "A) one\nC) two"]
)
def test_a_prompt_without_two_letters_in_order_shows_no_options(prompt: str | None) -> None:
    """Nothing is guessed."""
    assert parse_prompt(prompt) == Question(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "Which?\n\nOr not?\nA) one\nB) two",
        "Question: Which?\n\nOr not?\nA. one\nB. two\nAnswer:",
        (
            "Answer the following multiple choice question. Be brief.\n\nWhich?\n\nOr "
            "not?\nA) one\nB) two"
        ),
        "回答下面的单项选择题，请选出其中的正确答案。\n\n问题：Which?\n\nOr not?\n选项：\nA) one\nB) two\n",  # noqa: E501 - one case a line
        "Question: Which?\n\nOr not?\nChoices:\n(A) one\n(B) two",
    ],
)
def test_the_words_of_a_harness_around_a_question_are_not_part_of_it(prompt: str) -> None:
    """The question is that of the dataset."""
    assert parse_prompt(prompt) == Question("Which?\n\nOr not?", ("A", "B"), ("one", "two"))


@pytest.mark.parametrize(
    "prompt", [None, "Question: Which?", "Answer the following multiple choice question"]
)
def test_a_prompt_without_options_is_the_question(prompt: str | None) -> None:
    """Nothing is taken away."""
    assert parse_prompt(prompt) == Question(prompt)


def test_words_of_a_harness_alone_are_the_question() -> None:
    """Nothing else stands before the options."""
    assert parse_prompt("Question:\nA) one\nB) two").question == "Question:"


def test_prompts_become_messages_whatever_their_form() -> None:
    """A text, a chat, parts of a text, and the roles of OpenCompass."""
    assert read_messages("Which?") == [{"role": "user", "content": "Which?"}]
    parts = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]
    assert read_messages(parts) == [{"role": "user", "content": "a\nb"}]
    turns = [{"role": "HUMAN", "prompt": "Which?"}, {"role": "BOT", "prompt": "A"}]
    result = read_messages(turns)
    assert [tuple(turn.values()) for turn in result or ()] == [
        ("user", "Which?"),
        ("assistant", "A"),
    ]
    assert (find_question(result), read_messages(None)) == ("Which?", None)
