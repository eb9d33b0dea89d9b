from __future__ import annotations

import pytest

from answerkey.scorers.first_character import read_first_character
from answerkey.scorers.heads import Reading
from answerkey.scorers.leading_label import read_leading_label

CHOICES = ("A", "B", "C", "D")


@pytest.mark.parametrize(
    ("text", "span"),
    [("B", (0, 1)), ("  **B**", (4, 5)), ("Answer: (B)", (9, 10)), ("\\boxed{B}", (7, 8)), ("「B」", (1, 2))],
)
def test_passage_is_the_label_alone(text: str, span: tuple[int, int]) -> None:
    """The span is the one character that was read."""
    assert read_leading_label(text, CHOICES).span == span


@pytest.mark.parametrize(
    "text", ["B", "B.", "A, B", "A lot", "Answer", "B (x)", "D'accord", "B\n\nA. x\nC. y"]
)
def test_unwrapped_text_is_judged_as_by_the_first_character(text: str) -> None:
    """Where there is no wrapping the two rules agree."""
    first, leading = read_first_character(text, CHOICES), read_leading_label(text, CHOICES)
    assert (leading.choice, leading.reason) == (first.choice, first.reason)


def test_wrapping_may_be_long_but_not_endless() -> None:
    """White space of any length is skipped, brackets only to a limit; nothing raises."""
    assert read_leading_label("\n" * 5_000 + "B", CHOICES).choice == "B"
    assert read_leading_label("(" * 300 + "B", CHOICES).choice == "B"
    assert read_leading_label("(" * 5_000 + "B", CHOICES) == Reading(
        None, "NOT_A_CHOICE", "unwrapped", (400, 401)
    )


def test_small_forms_of_any_letter_are_read() -> None:
    """A choice whose small form has two code points is one character all the same."""
    assert read_leading_label("İ", ("İ", "A")).choice == "İ"
    assert read_leading_label("a", ("İ", "A")).choice == "A"


@pytest.mark.parametrize(
    ("text", "choice", "reason", "part"),
    [
        ("The **answer**: B", "B", None, "after_label"),
        ("Answer xylophone: B", None, "PART_OF_A_WORD", "as_it_is"),
        ("Xylophone answer: B", None, "NOT_A_CHOICE", "as_it_is"),
        ("B_x", None, "PART_OF_A_WORD", "as_it_is"),
        ("B_ is it", "B", None, "as_it_is"),
        ("**", None, "NOT_A_CHOICE", "unwrapped"),
    ],
)
def test_only_words_for_the_answer_are_taken_off(
    text: str, choice: str | None, reason: str | None, part: str
) -> None:
    """A label before the answer may be emphasized, and has no other words in it."""
    reading = read_leading_label(text, CHOICES)
    assert (reading.choice, reading.reason, reading.part) == (choice, reason, part)


def test_wrapped_choices_make_the_first_ambiguous() -> None:
    """Every choice is seen through its brackets, the first and the last."""
    for other in "XYZ":
        assert read_leading_label(f"W or ({other})", ("W", "X", "Y", "Z")).reason == "SEVERAL_CHOICES"
