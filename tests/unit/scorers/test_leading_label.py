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
