"""Laws of prompts in logs."""

from __future__ import annotations

import pytest

from answerkey.datasets.questions import find_shown
from answerkey.importers import Question
from answerkey.importers.prompts import find_question, read_messages


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


def test_prompts_become_messages_whatever_their_form() -> None:
    """A text, a chat, parts of a text, and the roles of OpenCompass."""
    assert read_messages("Which?") == [{"role": "user", "content": "Which?"}]
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert read_messages(parts) == [{"role": "user", "content": "a\nb"}]
    turns = [{"role": "HUMAN", "prompt": "Which?"}, {"role": "BOT", "prompt": "A"}]
    found = read_messages(turns)
    assert [tuple(one.values()) for one in found or ()] == [("user", "Which?"), ("assistant", "A")]
    assert (find_question(found), read_messages(None)) == ("Which?", None)
