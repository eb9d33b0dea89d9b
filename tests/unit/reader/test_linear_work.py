"""Every extraction rule is linear in the length of the text: its work is counted, not timed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any, SupportsIndex, overload

import pytest

from answerkey.reader import EXTRACTORS, first_character, stated_answer
from answerkey.reader.units import Labels, Units, split_units
from answerkey.scorers.extraction import find_rule

LENGTH = 100_000
CHOICES = ("A", "B", "C", "D")
OPTIONS = ("Sydney", "Canberra", "Canberra Canberra Canberra", "Perth")

#: Texts that repeat what a rule has to look at closely.
PIECES = (
    "A", "A, ", "A or ", "A/", "A-", "(", "((((A", "A)", "**", "**A", "$A", '"', "answer ",
    "answer is ", "answer is not ", "the the correct ", "the answer is A. ",
    "answer to the question of ", "I choose ", "choose A, ", "it is ", "so A ", "not A but ",
    "wait, actually A. ", "if the answer is A. ", "A is ", "A is correct. ", "A (x",
    "my option is ",
    "\\boxed{", "\\boxed{A}", "<answer>", "<think>", "</think>", "[[A", '{"answer": "A"', "\n",
    "\nA",
    "\nA. x", "\nA. correct", "B\nQuestion:\n", " ", "Canberra ", "The answer is Canberra ",
    "答案是", "答案A、", "正解は", "정답은 ", "1.", "1,", "A\u0301", "\u0301", "B\u200d",
    "'", "d'", "<a", "<|", "x", "-=", "<|channel|>", "<|channel|>final<|message|>A",
    "<answer>A</answer>",
    "- [x] A\n", "| A | wrong |\n", '{"A": false, ', '"answer": "A", ', "(A) (B) ",
    "(A) x (B) y (C) z ",
    "A. x\nB. y\nC. z\nD. w\n", "Why?\nA. x\nB. y\nC. z\n", "Q: x\nA: ", "analysisA",
    "assistantfinal",
)  # fmt: skip
#: Pieces that leave nothing to look at.
UNREAD = {"<think>", "</think>", "\n", " ", "analysisA", "assistantfinal"}
LONG = bool(os.environ.get("ANSWERKEY_LONG"))
WHOLE = PIECES if LONG else ("answer is ", "A is correct. ", "Canberra ")


class CountingList(list[Any]):
    """A list that counts how many of its elements are looked at."""

    looks = 0

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> Any: ...  # noqa: ANN401 - as in a list of anything
    @overload
    def __getitem__(self, key: slice, /) -> list[Any]: ...
    def __getitem__(self, key: SupportsIndex | slice, /) -> Any:
        """Return an element, or some of them."""
        result = super().__getitem__(key)
        CountingList.looks += len(result) if isinstance(key, slice) else 1
        return result

    def __iter__(self) -> Iterator[Any]:
        """Return the elements one after the other."""
        CountingList.looks += len(self)
        return super().__iter__()


def repeat(piece: str, length: int) -> str:
    """Return a text of this length that repeats the piece."""
    return (piece * (length // len(piece) + 1))[:length]


@pytest.fixture
def _count_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    def split_and_count(text: str, labels: Labels, options: Sequence[str] | None = None) -> Units:
        units = split_units(text, labels, options)
        lists: dict[str, Any] = {
            name: CountingList(getattr(units, name))
            for name in ("raw", "gaps", "words", "roles", "labels", "marked")
        }
        return replace(units, **lists)

    for module in (stated_answer, first_character):
        monkeypatch.setattr(module, "split_units", split_and_count)


def count_looks(extraction: str, text: str) -> int:
    """Return how often the rule looks at a unit of the text."""
    CountingList.looks = 0
    find_rule(extraction).read(text, CHOICES, OPTIONS)
    return CountingList.looks


@pytest.mark.usefixtures("_count_looks")
@pytest.mark.parametrize("piece", WHOLE)
def test_twice_the_text_is_twice_the_looks(piece: str) -> None:
    """In a text of double length, the units are looked at no more than twice as often."""
    length = LENGTH if LONG else LENGTH // 4
    once, twice = (
        count_looks("stated_answer", repeat(piece, size)) for size in (length, 2 * length)
    )
    assert (once > 0) == (piece not in UNREAD)
    assert twice <= 2.2 * once + 1_000  # the two texts may end differently


def count_lines(read: Callable[[], object]) -> int:
    """Return how many lines of the rules are executed."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - as `sys.settrace` has it
        nonlocal count
        count += event == "line"
        return trace if "reader" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("extraction", ["leading_label", "stated_answer"])
def test_twice_the_text_is_twice_the_lines_executed(extraction: str) -> None:
    """The same for every line of code of the rules, over many more texts of a smaller size."""
    rule, size = find_rule(extraction), 20_000 if LONG else 800
    rule.read("warm", CHOICES, OPTIONS)
    for piece in PIECES:
        counts = [
            count_lines(lambda length=length: rule.read(repeat(piece, length), CHOICES, OPTIONS))  # type: ignore[misc]  # noqa: B023 - called at once
            for length in (size, 2 * size)
        ]
        assert (piece, counts[1]) <= (piece, int(2.15 * counts[0]) + 2_000)


#: White space of every kind: on its line, and between lines.
BLANKS = (
    " ",
    "\t",
    "\n",
    "\r\n",
    "\n \n",
    "\x0b",
    "\x85",
    "\xa0",
    "\u2003",
    "\u2028",
    "\u3000",
    "\ufeff",
)
AROUND = (
    "{}A",
    "The answer is{}B.",
    "A{}B",
    "The answer is B{}",
    "({}B{})",
    "Answer:{}",
    "A.{}B. x",
)
#: Lines of code that are executed for one more blank: a line break is a unit of `stated_answer`.
MOST_LINES = {"stated_answer": 64.0}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(
    "extraction",
    ["first_character", "first_character_literal", "leading_label", "stated_answer", *EXTRACTORS],
)
def test_blanks_cost_next_to_nothing(extraction: str, around: str) -> None:
    """White space of any kind, anywhere in a text, is gone over a fixed number of times."""
    rule = EXTRACTORS.get(extraction) or find_rule(extraction)
    for blank in BLANKS:
        texts = [around.format(*[repeat(blank, size)] * 2) for size in (5_000, 10_000)]
        rule.read(texts[0], CHOICES, OPTIONS)
        counts = [count_lines(partial(rule.read, text, CHOICES, OPTIONS)) for text in texts]
        assert (blank, counts[1]) <= (blank, counts[0] + 5_000 * MOST_LINES.get(extraction, 2.1))


@pytest.mark.parametrize("blank", BLANKS)
def test_a_label_is_read_across_any_number_of_line_breaks(blank: str) -> None:
    """Where a reading is told to be, and what is read, do not depend on how blanks are counted."""
    for size in (200, 300, 1_000, 50_000):
        text = f"Think.{repeat(blank, size)}The answer is B.{repeat(blank, size)}Done."
        result = find_rule("stated_answer").read(text, CHOICES, OPTIONS)
        assert (result.choice, text[slice(*result.span or (0, 0))]) == ("B", "answer is B")


def test_pattern_is_one_search_by_a_linear_engine() -> None:
    """A pattern that makes a backtracking engine explode is refused or matched.

    The first match decides.
    """
    rule = find_rule({"pattern": r"(?:a|a)*(?:a|a)*(?:a|a)*b([A-D])"})
    assert rule.read("a" * 2 * LENGTH, CHOICES).reason == "NOTHING_STATED"
    assert rule.read("a" * LENGTH + "bC", CHOICES).choice == "C"


def list_texts(length: int) -> Sequence[str]:
    """Return one text of this length for each piece."""
    return [repeat(piece, length) for piece in PIECES]


def test_long_texts_are_read_by_every_rule() -> None:
    """No text of 100,000 characters raises, or overflows, or takes a recursion too deep."""
    for text in list_texts(LENGTH)[:: 1 if LONG else 9]:
        for extraction in (
            "first_character",
            "leading_label",
            "stated_answer",
            {"pattern": "answer is (.)"},
        ):
            assert find_rule(extraction).read(text, CHOICES, OPTIONS) is not None
