from __future__ import annotations

import sys
import unicodedata

import pytest

from answerkey.reader import Reading, read_leading_label
from answerkey.reader.characters import (
    LINE_BREAKS,
    LONGEST_CHARACTER,
    WHITE_SPACE,
    compose,
    is_word_character,
    measure_character,
)
from answerkey.reader.first_character import read_first_character

EVERY_CHARACTER = "".join(map(chr, range(sys.maxunicode + 1)))


def test_white_space_is_what_python_says_and_three_invisible_characters() -> None:
    """White space is `str.isspace`, U+FEFF, U+200B and U+2060, over all of Unicode."""
    assert set(WHITE_SPACE) == {c for c in EVERY_CHARACTER if c.isspace()} | {
        "\ufeff",
        "\u200b",
        "\u2060",
    }


def test_line_breaks_are_those_of_splitlines() -> None:
    """A line break is where `str.splitlines` breaks, over all of Unicode."""
    assert set(LINE_BREAKS) == {c for c in EVERY_CHARACTER if len(f"a{c}b".splitlines()) > 1}


def test_word_characters_are_letters_numbers_marks_and_the_underscore() -> None:
    """A word character has the Unicode category L, N or M, or is `_`, over all of Unicode."""
    expected = {c for c in EVERY_CHARACTER if unicodedata.category(c)[0] in "LNM"} | {"_"}
    assert {c for c in EVERY_CHARACTER if is_word_character(c)} == expected
    assert not is_word_character("")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 0),
        ("B", 1),
        ("BC", 1),
        ("B\u0301C", 2),
        ("\U0001f171\ufe0fx", 2),
        ("\u1100\u1161\u11a8", 3),
        ("1\ufe0f\u20e3", 3),
        ("\u0915\u093e", 2),
        ("\U0001f1e9\U0001f1ea\U0001f1eb", 2),
        ("B\u200b", 1),
    ],
)
def test_character_is_what_a_reader_sees_as_one(text: str, size: int) -> None:
    """A character is an extended grapheme cluster."""
    assert measure_character(text) == size


def test_composing_makes_spellings_equal() -> None:
    """Composed and decomposed spellings are equal.

    What is longer than any choice stays as it is.
    """
    assert compose("A\u030a") == "\u00c5"
    assert compose("\u1100\u1161") == "\uac00"
    longest = "a" + "\u0301\u0327" * LONGEST_CHARACTER
    assert compose(longest) == longest


def test_at_the_end_there_is_no_character() -> None:
    """Wherever the end is."""
    assert [measure_character(text, len(text)) for text in ("", "ab", "aé")] == [0, 0, 0]
    assert measure_character("ab", 1) == 1


def test_long_runs_of_marks_are_not_composed() -> None:
    """A character of as many code points as one may have is composed, a longer one is left
    alone.
    """
    longest = "A\u030a" + "\u0301" * (LONGEST_CHARACTER - 2)
    assert len(longest) == LONGEST_CHARACTER
    assert compose(longest).startswith("\u01fa")
    assert compose(longest + "\u0301") == longest + "\u0301"


LETTERS = ("A", "B", "C", "D")


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("B", (0, 1)),
        ("  **B**", (4, 5)),
        ("Answer: (B)", (9, 10)),
        ("\\boxed{B}", (7, 8)),
        ("「B」", (1, 2)),
    ],
)
def test_passage_is_the_label_alone(text: str, span: tuple[int, int]) -> None:
    """The span is the one character that was read."""
    assert read_leading_label(text, LETTERS).span == span


@pytest.mark.parametrize(
    "text", ["B", "B.", "A, B", "A lot", "Answer", "B (x)", "D'accord", "B\n\nA. x\nC. y"]
)
def test_unwrapped_text_is_judged_as_by_the_first_character(text: str) -> None:
    """Where there is no wrapping the two rules agree."""
    first, leading = read_first_character(text, LETTERS), read_leading_label(text, LETTERS)
    assert (leading.choice, leading.reason) == (first.choice, first.reason)


def test_wrapping_may_be_long_but_not_endless() -> None:
    """White space of any length is skipped, brackets only to a limit; nothing raises."""
    assert read_leading_label("\n" * 5_000 + "B", LETTERS).choice == "B"
    assert read_leading_label("(" * 300 + "B", LETTERS).choice == "B"
    assert read_leading_label("(" * 5_000 + "B", LETTERS) == Reading(
        None, "NOT_A_CHOICE", (400, 401), "unwrapped"
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
    reading = read_leading_label(text, LETTERS)
    assert (reading.choice, reading.reason, reading.part) == (choice, reason, part)


def test_wrapped_choices_make_the_first_ambiguous() -> None:
    """Every choice is seen through its brackets, the first and the last."""
    for choice in "XYZ":
        assert (
            read_leading_label(f"W or ({choice})", ("W", "X", "Y", "Z")).reason == "SEVERAL_CHOICES"
        )
