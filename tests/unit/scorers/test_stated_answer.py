from __future__ import annotations

import pytest

from answerkey.scorers.heads import Reading
from answerkey.scorers.stated_answer import read_stated_answer

CHOICES = ("A", "B", "C", "D")


def quote(text: str) -> str | None:
    """Return the passage that decided."""
    span = read_stated_answer(text, CHOICES).span
    return None if span is None else text[span[0] : span[1]]


@pytest.mark.parametrize(
    ("text", "passage"),
    [
        ("Well, the answer is (B), I think.", "answer is (B)"),
        ("  \n**B**\n", "**B**"),
        ("<think>A</think>\n\nAnswer: C", "Answer: C"),
        ("Question: x?\nAnswer: D\n\nQuestion: y?\nAnswer: A", "Answer: D"),
        ("It isn't A. It's D.", "It's D"),
        ("答案是C。", "答案是C"),
        ("\\boxed{\\text{B}}", "\\boxed{\\text{B}}"),
        ("Nothing here.", None),
    ],
)
def test_passage_is_where_the_answer_is_stated(text: str, passage: str | None) -> None:
    """The span covers the cue and the label, also behind thoughts and before another question."""
    assert quote(text) == passage


def test_only_what_follows_the_thought_is_read() -> None:
    """The last closed thought counts; one that is never closed leaves what stands before it."""
    assert read_stated_answer("<think>A</think>B<think>C</think>D", CHOICES).choice == "D"
    assert read_stated_answer("Answer: B\n<think>or C", CHOICES).choice == "B"
    assert read_stated_answer("<think>B", CHOICES) == Reading(None, "NOTHING_STATED", "unclosed_thought")
    assert read_stated_answer("<think>B</think>", CHOICES).reason == "NOTHING_STATED"


def test_first_turn_that_states_something_decides() -> None:
    """An echoed question is passed over, a further question is not read, whatever it states."""
    text = "Question: which?\nA. x\nB. y\nC. z\nD. w\nAnswer: C\n\nQuestion: and now?\nAnswer: A"
    assert read_stated_answer(text, CHOICES).choice == "C"
    assert read_stated_answer("A or B\n\nQuestion: next\nAnswer: A", CHOICES).reason == "SEVERAL_CHOICES"


def test_statements_have_to_agree_unless_one_corrects_the_others() -> None:
    """What was corrected does not count, unless it is stated again."""
    assert read_stated_answer("Answer: A. Wait, Answer: B. Answer: B", CHOICES).choice == "B"
    assert read_stated_answer("Answer: A. Wait, Answer: B. Answer: A", CHOICES).reason == "SEVERAL_CHOICES"
    assert read_stated_answer("Answer: A. Answer: B. Sorry, Answer: C", CHOICES).choice == "C"


def test_weaker_statements_count_only_without_stronger_ones() -> None:
    """What is called right in passing gives way to a stated answer, a guess to a definite one."""
    assert read_stated_answer("A is correct in part. The answer is B.", CHOICES).choice == "B"
    assert (
        read_stated_answer("It might be that the answer could be A. The answer is B.", CHOICES).choice == "B"
    )
    assert read_stated_answer("The closest option is A. The answer is B.", CHOICES).choice == "B"


def test_options_of_another_length_go_with_the_first_choices() -> None:
    """Fewer texts than choices, or more, are read in order."""
    assert read_stated_answer("The answer is Rome.", CHOICES, ["Paris", "Rome"]).choice == "B"
    assert read_stated_answer("The answer is Rome.", ("A", "B"), ["Paris", "Rome", "Oslo"]).choice == "B"
    assert read_stated_answer("The answer is Oslo.", ("A", "B"), ["Paris", "Rome", "Oslo"]).choice is None
