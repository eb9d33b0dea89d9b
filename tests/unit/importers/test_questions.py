"""Laws of labels and of options in prompts."""

from __future__ import annotations

import pytest

from answerkey.datasets.questions import Question, find_label, label_options, read_texts, take_labels
from answerkey.importers.prompts import find_question, find_shown, read_messages

ABCD = ("A", "B", "C", "D")
TEXTS = ("Paris", "Lyon", "Nice", "Lyon")


def test_options_without_labels_get_letters_then_digits() -> None:
    """As other tools go on after Z; none are left for a great many options."""
    assert label_options(4) == ABCD
    assert label_options(28) == (*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "1", "2")
    assert label_options(0) is None
    assert label_options(62) is None


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        ([" A", " B"], ("A", "B")),
        (["1", "2"], ("1", "2")),
        (["A", "A"], None),
        (["yes", "no"], None),
        ([], None),
    ],
)
def test_texts_are_labels_when_they_are_distinct_characters(
    texts: list[str], labels: tuple[str, ...] | None
) -> None:
    """White space around them does not count."""
    assert take_labels(texts) == labels


@pytest.mark.parametrize(
    ("texts", "labels"),
    [([" A", " B"], ("A", "B")), (["1", "2"], ("1", "2")), (["0", "4", "2"], None), (["B", "A"], None)],
)
def test_texts_that_count_are_labels_and_other_single_characters_may_be_options(
    texts: list[str], labels: tuple[str, ...] | None
) -> None:
    """The options of a sum are digits, and no labels."""
    assert take_labels(texts, counting=True) == labels


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("B", "B"),
        (" B ", "B"),
        ("(B)", "B"),
        ("**B**.", "B"),
        ("Paris", "A"),
        ("Lyon", None),
        (2, "C"),
        ("2", "C"),
        (2.0, "C"),
        (2.5, None),
        (4, None),
        (-1, None),
        ("E", None),
        ("[invalid]", None),
        (True, None),
        (None, None),
        ("", None),
    ],
)
def test_a_label_is_found_by_itself_its_place_or_its_text(value: object, label: str | None) -> None:
    """An option's text counts when no other option has it."""
    assert find_label(value, ABCD, TEXTS) == label


def test_a_number_is_a_label_before_it_is_a_place() -> None:
    """Unless the log is known to mean places."""
    assert find_label("1", ("1", "2", "3"), None) == "1"
    assert find_label("1", ("1", "2", "3"), None, by_index=True) == "2"
    assert find_label("3", ("1", "2", "3"), None, by_index=True) == "3"


def test_without_choices_there_is_no_label() -> None:
    """The value stays what it is."""
    assert find_label("A", None, None) is None


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (["a", 1], ("a", "1")),
        ('["a", "b"]', ("a", "b")),
        ("['a', 'b']", ("a", "b")),
        ({"A": "a", "B": "b"}, ("a", "b")),
        ("a, b", None),
        ("[", None),
        ([], None),
        ([["a"]], None),
        (None, None),
    ],
)
def test_lists_of_texts_are_read_from_lists_and_their_texts(
    value: object, texts: tuple[str, ...] | None
) -> None:
    """JSON, a Python literal, or the values of a mapping."""
    assert read_texts(value) == texts


@pytest.mark.parametrize(
    ("prompt", "choices", "options"),
    [
        ("Which?\nA) one\nB) two\nAnswer:", ("A", "B"), ("one", "two")),
        ("Which?\n(A) one\n(B) two\n(C) three", ("A", "B", "C"), ("one", "two", "three")),
        ("Q\nA. x\nB. y\n\nAnswer: A\n\nQ\nA. one\nB. two", ("A", "B"), ("one", "two")),
        ("Q\nA. one\nmore of it\nB. two\n", ("A", "B"), ("one\nmore of it", "two")),
        ("Q\nA\uff0eone\nB\uff0etwo", ("A", "B"), ("one", "two")),
    ],
)
def test_the_last_lettered_options_are_those_of_the_question(
    prompt: str, choices: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """Those before them are of worked examples."""
    shown = find_shown(prompt)
    assert (shown.choices, shown.options) == (choices, options)


@pytest.mark.parametrize(
    "prompt", [None, "", "Which?", "A. Smith asks.", "B) two\nC) three", "A) one\nC) two"]
)
def test_a_prompt_without_two_letters_in_order_shows_no_options(prompt: str | None) -> None:
    """Nothing is guessed."""
    assert find_shown(prompt) == Question(prompt)


def test_the_question_is_what_stands_before_the_options() -> None:
    """Without white space around it."""
    shown = find_shown("  Which of them?\n\nA) one\nB) two")
    assert shown.question == "Which of them?"


def test_prompts_become_messages_whatever_their_form() -> None:
    """A text, a chat, parts of a text, and the roles of OpenCompass."""
    assert read_messages("Which?") == [{"role": "user", "content": "Which?"}]
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert read_messages(parts) == [{"role": "user", "content": "a\nb"}]
    turns = [{"role": "HUMAN", "prompt": "Which?"}, {"role": "BOT", "prompt": "A"}]
    assert read_messages(turns) == [
        {"role": "user", "content": "Which?"},
        {"role": "assistant", "content": "A"},
    ]
    assert find_question(read_messages(turns)) == "Which?"
    assert read_messages(None) is None
