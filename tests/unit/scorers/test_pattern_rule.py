from __future__ import annotations

import polars as pl
import pytest

from answerkey.errors import SpecError
from answerkey.scorers.extraction import find_rule
from answerkey.scorers.heads import Reading
from answerkey.scorers.pattern_rule import check_pattern

CHOICES = ("A", "B", "C", "D")


def read(pattern: str, text: str) -> Reading:
    """Return what a pattern reads."""
    return find_rule({"pattern": pattern}).read(text, CHOICES)


@pytest.mark.parametrize(
    ("pattern", "text", "reading"),
    [
        (r"answer is \(?([A-D])", "The answer is (B).", Reading("B", None, None, (4, 16))),
        (r"([A-D])", "x A B", Reading("A", None, None, (2, 3))),
        (r"(?s).*([A-D])", "x A\nB y", Reading("B", None, None, (0, 5))),
        (r"(?i)answer: ([a-d])", "ANSWER: b", Reading("B", None, None, (0, 9))),
        (r"answer:(?P<letter>.*)", "answer:  C \n", Reading("C", None, None, (0, 11))),
        (r"answer is (\w+)", "answer is Paris", Reading(None, "NOT_A_CHOICE", None, (0, 15))),
        (r"answer is (\w)", "no such words", Reading(None, "NOTHING_STATED")),
        (r"x(y)?", "x", Reading(None, "NOTHING_STATED")),
        (r"(.)", " \n", Reading(None, "EMPTY")),
        (r"答案(?:是|：)(.)", "所以，答案是C。", Reading("C", None, None, (3, 7))),
        (r"é(.)", "éé B é\u00a0x éB", Reading(None, "NOT_A_CHOICE", None, (0, 2))),
    ],
)
def test_first_match_decides(pattern: str, text: str, reading: Reading) -> None:
    """The group, without white space, is the choice; the passage is the whole match, in characters."""
    assert read(pattern, text) == reading


def test_case_is_ignored_only_where_it_tells_no_choices_apart() -> None:
    """`b` is `B` unless both are choices, or only the other is written."""
    rule = find_rule({"pattern": "(.)"})
    assert rule.read("b", ("A", "B")).choice == "B"
    assert rule.read("b", ("B", "b")).choice == "b"
    assert rule.read("a", ("A", "B", "b")).reason == "NOT_A_CHOICE"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(a", "is not a regular expression: unclosed group"),
        (r"(a)\1", "is not a regular expression: backreferences are not supported"),
        ("(?=a)(b)", "is not a regular expression: look-around"),
        ("a{1,1000000}(b)", "is not a regular expression: Compiled regex exceeds size limit"),
        ("abc", "has 0 groups, and needs exactly one"),
        ("(a)(b)", "has 2 groups, and needs exactly one"),
    ],
)
def test_bad_patterns_are_refused(pattern: str, message: str) -> None:
    """A pattern that is none, or has not one group, is an error of the task; the hint shows a good one."""
    with pytest.raises(SpecError) as caught:
        find_rule({"pattern": pattern})
    assert caught.value.code == "E108"
    assert message in caught.value.message
    assert "`answer is" in str(caught.value.hint)


@pytest.mark.parametrize("pattern", [3, None, ["x"]])
def test_pattern_has_to_be_text(pattern: object) -> None:
    """Anything but text is an error of the task."""
    with pytest.raises(SpecError, match="must be text") as caught:
        find_rule({"pattern": pattern})
    assert caught.value.code == "E108"


def test_lone_surrogates_are_text_like_any_other() -> None:
    """What Polars cannot hold is replaced, character by character."""
    assert read("answer is (.)", "\ud800 answer is B") == Reading("B", None, None, (2, 13))


def test_column_form_reads_each_distinct_text_once() -> None:
    """The table has a row for each text, in order, equal texts included."""
    texts = pl.Series(["is A", "é is B", "is A", "nothing"])
    rows = find_rule({"pattern": "is (.)"}).read_all(texts, CHOICES).rows()
    assert rows == [
        ("A", None, None, [0, 4]),
        ("B", None, None, [2, 6]),
        ("A", None, None, [0, 4]),
        (None, "NOTHING_STATED", None, None),
    ]


def test_a_pattern_that_cannot_be_compiled_is_explained() -> None:
    """The message ends with what is wrong, without white space after it."""
    with pytest.raises(SpecError) as caught:
        check_pattern("(a")
    assert caught.value.message == caught.value.message.strip()
    assert caught.value.code == "E108"
