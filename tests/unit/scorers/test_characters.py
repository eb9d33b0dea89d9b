from __future__ import annotations

import sys
import unicodedata

import pytest

from answerkey.scorers.characters import (
    LINE_BREAKS,
    LONGEST_CHARACTER,
    WHITE_SPACE,
    compose,
    is_word_character,
    measure_character,
    read_word,
    skip_spaces,
    strip_white_space,
)

EVERY_CHARACTER = [chr(code) for code in range(sys.maxunicode + 1)]


def test_white_space_is_what_python_says_and_three_invisible_characters() -> None:
    """White space is `str.isspace`, U+FEFF, U+200B and U+2060, over all of Unicode."""
    assert set(WHITE_SPACE) == {one for one in EVERY_CHARACTER if one.isspace()} | {
        "\ufeff",
        "\u200b",
        "\u2060",
    }


def test_line_breaks_are_those_of_splitlines() -> None:
    """A line break is where `str.splitlines` breaks, over all of Unicode."""
    assert set(LINE_BREAKS) == {one for one in EVERY_CHARACTER if len(f"a{one}b".splitlines()) > 1}


def test_word_characters_are_letters_numbers_marks_and_the_underscore() -> None:
    """A word character has the Unicode category L, N or M, or is `_`, over all of Unicode."""
    expected = {one for one in EVERY_CHARACTER if unicodedata.category(one)[0] in "LNM"} | {"_"}
    assert {one for one in EVERY_CHARACTER if is_word_character(one)} == expected
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
    """Composed and decomposed spellings are equal; what is longer than any choice stays as it is."""
    assert compose("A\u030a") == "\u00c5"
    assert compose("\u1100\u1161") == "\uac00"
    longest = "a" + "\u0301\u0327" * LONGEST_CHARACTER
    assert compose(longest) == longest


def test_words_are_read_up_to_a_limit() -> None:
    """A word ends at the first other character, or at the limit."""
    assert read_word("is it", 0, limit=8) == "is"
    assert read_word("x because", 2, limit=3) == "bec"
    assert read_word("!", 0, limit=8) == ""


def test_spaces_are_skipped_up_to_a_line_break() -> None:
    """Skipping spaces stops at a line break and at the end."""
    assert skip_spaces("a \t\u200b\nb", 1) == 4
    assert skip_spaces("a  ", 1) == 3
    assert strip_white_space("\ufeff B\n\u2060") == "B"
