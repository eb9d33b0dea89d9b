from __future__ import annotations

import pytest

from answerkey.scorers.pairing import may_matter, read_pairs


@pytest.mark.parametrize(
    ("text", "options", "matters"),
    [
        ("The answer is B.", ["Sydney", "Canberra"], False),
        ("The answer is Canberra.", ["Sydney", "Canberra"], True),
        ("The answer is Canberra.", ["(A) Sydney", "(B) Canberra"], True),
        ("The answer is B.", ["A. Sydney", "C. Oslo"], False),
        ("anther", ["The sepal", "The anther"], True),
        ("B", ["the anther", "B"], True),
        ("B", ["", " "], False),
        ("B", ["-5", "x"], True),
        ("B", ["堪培拉", "x"], True),
        ("答案是B", ["x", "y"], True),
        ("B", ["x" * 100], True),
    ],
)
def test_options_matter_where_one_may_begin(text: str, options: list[str], *, matters: bool) -> None:
    """What holds no first word of an option is read without them; in doubt they are told."""
    assert may_matter(text, options) is matters


def test_pairs_that_are_read_alike_are_read_once() -> None:
    """Rows whose options make no difference share a reading."""
    readings, codes = read_pairs(
        ["Answer: B", "Answer: B", "Answer: Rome", "Answer: Rome", "Answer: B"],
        [["x", "y"], ["z", "w"], ["Rome", "Oslo"], ["Oslo", "Rome"], None],
        ("A", "B"),
    )
    assert [readings[code].choice for code in codes] == ["B", "B", "A", "B", "B"]
    assert len(readings) == 3
