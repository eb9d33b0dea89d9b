"""Grades of confidence: what is stated, what is doubted and why, what is only named."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from answerkey.errors import SpecError
from answerkey.reader import explain_reading, read
from answerkey.reader.markup import split_thoughts
from answerkey.reader.stated_answer import read_stated_answer
from answerkey.scorers import judge
from answerkey.scorers.extraction import find_rule

CITIES = ("Sydney", "Canberra", "Melbourne", "Perth")
FAR = "It is Canberra" + " and on" * 8 + ", so the answer is A."
LONG = "And so it goes on. " * 12
LONG_REMARK = "The answer is B (" + "one " * 20 + ")."


@pytest.mark.parametrize(
    ("text", "options", "answer", "doubt"),
    [
        ('The note "the answer is B', None, "B", None),
        (LONG + "It is Canberra. The answer is A.", CITIES, "A", None),
        (
            LONG + "It is Canberra, so the answer is A.",
            CITIES,
            "CONTRADICTS_ITSELF",
            "other_text",
        ),
        ("So Canberra. The answer is A.", CITIES, "A", None),
        (
            "So Canberra, where we go in the warm months of a year or two. A it is.",
            CITIES,
            "A",
            None,
        ),
        ("It is Canberra, so the answer is A.", CITIES, "CONTRADICTS_ITSELF", "other_text"),
        ("The answer is A. It is Canberra.", CITIES, "CONTRADICTS_ITSELF", "other_text"),
        ("The answer is B. I doubt that B is it.", None, "NOTHING_STATED", "denied"),
        ("Answer: A\nNext question. x\nAnswer: B", None, "A", None),
        ("The answer is B or", None, "SEVERAL_CHOICES", "other_choice"),
        ("Hence B. The correct option is D.", None, "SEVERAL_CHOICES", "other_statement"),
        ("That leaves A; but the answer is B.", None, "B", None),
        ("The answer is (C) for part a) and (D) for b).", None, "SEVERAL_CHOICES", "other_choice"),
        ("For x the value is A, for y it is B.", None, "SEVERAL_CHOICES", "other_choice"),
        ("Tanto la A como la D son correctas.", None, "NOTHING_STATED", "only_named"),
        ("答えはB、東京です。", ("東京", "京都"), "CONTRADICTS_ITSELF", "other_text"),
        ("Thus x = 2 or x = -2.", ("2", "-2"), "NOTHING_STATED", None),
        ("The answer is (A).", ("x", "y", "(a)", "z"), "A", None),
        ("정답은 서울입니다.", ("부산", "서울"), "B", None),
        ("정답은 인천광역시다.", ("부산", "인천"), "NOTHING_STATED", None),
        ("I choose option C++.", None, "NOTHING_STATED", None),
        ("The answer is A. It is 5.", ("4", "5", "6"), "CONTRADICTS_ITSELF", "other_text"),
        ("B seems fine to me.", None, "NOTHING_STATED", "only_named"),
        ("The answer is D. Then Canberra rocks.", CITIES, "D", None),
        ("The judges' answer is B, as is the jurors'.", None, "B", None),
        ("Wäre es kalt, wäre es B.", None, "NOTHING_STATED", "only_named"),
        (
            "If it is sealed, it is A; in a vented one it is C.",
            None,
            "SEVERAL_CHOICES",
            "other_choice",
        ),
        ("If it were sealed, it would be A, but it is C.", None, "C", None),
        ("I lean towards C, but I cannot answer.", None, "NOTHING_STATED", "taken_back"),
        ("A would be right. B would be right.", None, "SEVERAL_CHOICES", "other_statement"),
    ],
)
def test_what_speaks_against_an_answer_is_named(
    text: str, options: Sequence[str] | None, answer: str, doubt: str | None
) -> None:
    """A doubted choice is INVALID with a reason, and says what speaks against it."""
    reading = read_stated_answer(text, ("A", "B", "C", "D"), options)
    assert (reading.choice or reading.reason, reading.doubt) == (answer, doubt)


def test_roman_numerals_contradict_nothing() -> None:
    """`(i)` numbers a statement where `I` is a choice, too."""
    text = "It is (i). (ii) is false. The answer is B."
    assert read_stated_answer(text, tuple("ABCDEFGHIJ")).choice == "B"


@pytest.mark.parametrize(
    ("text", "confidence", "accepting"),
    [
        ("The answer is B.", "stated", ("B", "B", "B")),
        ("The answer is B. Let me reconsider.", "doubted", (None, "B", "B")),
        ("B seems fine to me.", "weak", (None, None, "B")),
        ("Nothing here.", None, (None, None, None)),
    ],
)
def test_readings_count_down_to_the_grade_that_is_accepted(
    text: str, confidence: str | None, accepting: tuple[str | None, ...]
) -> None:
    """By default only what is stated counts."""
    labels = ("A", "B")
    assert read(text, labels).confidence == confidence
    grades = ("stated", "doubted", "weak")
    assert tuple(read(text, labels, accept=grade).choice for grade in grades) == accepting


def test_a_task_may_accept_doubted_answers() -> None:
    """The scorer records the grade, the choice and the doubt in either case."""
    text = "The answer is B. Let me reconsider."
    strict = judge(text, ["A", "B"], "B", "stated_answer")
    lenient = judge(text, ["A", "B"], "B", {"rule": "stated_answer", "accept": "doubted"})
    assert (strict.values["is_correct"], lenient.values["is_correct"]) == (0.0, 1.0)
    for score in (strict, lenient):
        assert score.metadata["confidence"] == "doubted"
        assert score.metadata["doubted_choice"] == "B"
        assert score.metadata["doubt"] == "taken_back"


@pytest.mark.parametrize(
    "extraction",
    [{"rule": "stated_answer", "accept": "all"}, {"rule": "leading_label", "accept": "weak"}],
)
def test_only_known_grades_are_accepted(extraction: dict[str, str]) -> None:
    """And only by the rule that has grades."""
    with pytest.raises(SpecError, match="accept: GRADE"):
        find_rule(extraction)


def test_an_unclosed_thought_is_explained() -> None:
    """The text ends within it, so nothing is stated."""
    labels = ("A", "B")
    metadata = judge("<think>B", labels, "B", "stated_answer").metadata
    unread = {**metadata, "validity_reason": "NOTHING_STATED"}
    why = explain_reading("<think>B", labels, unread)
    assert why.startswith("INVALID: the text states no answer: the text ends within a thought")


def test_channels_without_tokens_are_told_apart() -> None:
    """What follows the answer in another channel is left out."""
    text = "analysisA it is. assistantfinalB. assistantanalysisC"
    assert split_thoughts(text) == ("A it is.", "B. ")
