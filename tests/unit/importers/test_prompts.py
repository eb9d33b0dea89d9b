"""Laws of prompts in logs."""

from __future__ import annotations

import pytest

from answerkey.importers import Question
from answerkey.importers.prompts import find_question, read_messages
from answerkey.importers.questions import find_shown


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
        shown = find_shown(example + prompt)
        assert (shown.choices, shown.options) == (choices, options)
        assert shown.question == (example + prompt[: prompt.index("?") + 1]).strip()


@pytest.mark.parametrize(
    "prompt", [None, "", "Which?", "A. Smith asks.", "B) two\nC) three", "A) one\nC) two"]
)
def test_a_prompt_without_two_letters_in_order_shows_no_options(prompt: str | None) -> None:
    """Nothing is guessed."""
    assert find_shown(prompt) == Question(prompt)


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
    assert find_shown(prompt) == Question("Which?\n\nOr not?", ("A", "B"), ("one", "two"))


@pytest.mark.parametrize(
    "prompt", [None, "Question: Which?", "Answer the following multiple choice question"]
)
def test_a_prompt_without_options_is_the_question(prompt: str | None) -> None:
    """Nothing is taken away."""
    assert find_shown(prompt) == Question(prompt)


def test_words_of_a_harness_alone_are_the_question() -> None:
    """Nothing else stands before the options."""
    assert find_shown("Question:\nA) one\nB) two").question == "Question:"


def test_prompts_become_messages_whatever_their_form() -> None:
    """A text, a chat, parts of a text, and the roles of OpenCompass."""
    assert read_messages("Which?") == [{"role": "user", "content": "Which?"}]
    parts = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]
    assert read_messages(parts) == [{"role": "user", "content": "a\nb"}]
    turns = [{"role": "HUMAN", "prompt": "Which?"}, {"role": "BOT", "prompt": "A"}]
    result = read_messages(turns)
    assert [tuple(one.values()) for one in result or ()] == [("user", "Which?"), ("assistant", "A")]
    assert (find_question(result), read_messages(None)) == ("Which?", None)
