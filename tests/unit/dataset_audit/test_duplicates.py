from __future__ import annotations

import random
import time

import pytest

from answerkey.dataset_audit import duplicates
from answerkey.dataset_audit.duplicates import (
    Sketches,
    WordWeights,
    group_pairs,
    measure_likeness,
    pair_rows,
    read_words,
)
from answerkey.dataset_audit.questions import Question

OPTIONS = ["Sydney", "Canberra", "Perth", "Hobart"]
TEXT = (
    "Which of these cities has been the capital of Australia since the beginning of the "
    "last century?"
)


def pair(questions: list[tuple[str, list[str]]]) -> tuple[list[tuple[int, int]], int]:
    """Return the candidates among questions with their options, and how many there are."""
    sketches = Sketches()
    rows = [Question(text, tuple(options), (), None, None) for text, options in questions]
    sketches.add(rows, 0)
    return pair_rows(sketches.collect())


def compare(one: tuple[str, list[str]], other: tuple[str, list[str]]) -> float:
    """Return how alike two questions are among some others."""
    others = [(f"What is item number {number} of the list?", OPTIONS) for number in range(50)]
    words = [
        read_words(Question(text, tuple(options), (), None, None))
        for text, options in (one, other, *others)
    ]
    return measure_likeness(words[0], words[1], WordWeights(words))


def test_nearly_the_same_questions_are_candidates() -> None:
    """Two questions that differ in a word are held against each other; strangers are not."""
    rng = random.Random(1)
    words = [f"word{number}" for number in range(2000)]
    strangers = [(" ".join(rng.sample(words, 15)), rng.sample(words, 4)) for _ in range(300)]
    rows = [*strangers, (TEXT, OPTIONS), (TEXT.replace("cities", "towns"), OPTIONS)]
    found, count = pair(rows)
    assert found[0] == (300, 301)
    assert count == len(found) < 20


def test_candidates_grow_with_the_rows_even_if_all_are_alike() -> None:
    """Where every question shares a template there are at most twice as many pairs in a band as
    rows.
    """
    rows = [(f"{TEXT} Mind the year {number}.", OPTIONS) for number in range(400)]
    assert pair(rows)[1] <= 2 * 12 * len(rows)


def test_only_the_likeliest_candidates_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many, those that share most bands remain, and all are counted."""
    rng = random.Random(2)
    words = [f"word{number}" for number in range(40)]
    rows = [(" ".join(rng.sample(words, 6)), rng.sample(words, 3)) for _ in range(200)]
    rows += [("", []), ("", []), (TEXT, OPTIONS), (TEXT, OPTIONS[::-1])]
    whole, count = pair(rows)
    assert whole[0] == (202, 203)
    monkeypatch.setattr(duplicates, "MOST_PAIRS", 20)
    assert pair(rows) == (whole[:20], count)


def test_sketching_takes_time_in_proportion_to_the_rows() -> None:
    """Four times as many rows take far less than sixteen times as long."""
    rows = [(f"{TEXT} {number}", OPTIONS) for number in range(8000)]

    def measure(count: int) -> float:
        spent = []
        for _ in range(3):  # the least of them, for other work on the machine only adds
            begun = time.process_time()
            pair(rows[:count])
            spent.append(time.process_time() - begun)
        return min(spent)

    assert measure(8000) < 12 * measure(2000)


def test_likeness_is_that_of_the_less_alike_part() -> None:
    """A shared passage does not make two questions one: their options differ."""
    other = ["Parliament moved there", "It was a compromise", "The king chose it", "Nobody knows"]
    assert compare((TEXT, OPTIONS), (TEXT, OPTIONS)) == 1.0
    assert compare((TEXT, OPTIONS), (TEXT.replace("cities", "towns"), OPTIONS)) > 0.75
    assert compare((TEXT, OPTIONS), (TEXT, other)) < 0.1
    # What differs in a number, in a sign or in *not* asks something else.
    for one, two in (
        ("What is 12 + 30?", "What is 12 + 31?"),
        ("Solve x + y = 3", "Solve x - y = 3"),
        ("Which of these is a mammal?", "Which of these is not a mammal?"),
    ):
        assert compare((one, OPTIONS), (two, OPTIONS)) == 0.0
    # Scripts without spaces are compared by characters.
    chinese = "以下哪一个城市是澳大利亚的首都城市？"
    assert 0.6 < compare((chinese, OPTIONS), (chinese.replace("个", "座"), OPTIONS)) < 1.0


def test_pairs_become_groups() -> None:
    """Rows that are connected, however indirectly, are one group."""
    assert group_pairs([(3, 7), (1, 2), (7, 9), (2, 5)]) == [[1, 2, 5], [3, 7, 9]]
    assert group_pairs([]) == []
