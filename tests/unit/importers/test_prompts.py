from __future__ import annotations

import pytest

from answerkey.importers import Question
from answerkey.importers.questions import find_question, find_shown, read_messages


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
