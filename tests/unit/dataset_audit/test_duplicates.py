from __future__ import annotations

import random
import time
from pathlib import Path

import polars as pl
import pytest

from answerkey.dataset_audit import audit
from answerkey.dataset_audit.audit import (
    WordWeights,
    group_pairs,
    measure_likeness,
    pair_rows,
    read_words,
    sketch_questions,
)
from answerkey.dataset_audit.questions import Question

OPTIONS = ["Sydney", "Canberra", "Perth", "Hobart"]
TEXT = (
    "Which of these cities has been the capital of Australia since the beginning of the "
    "last century?"
)


def pair(questions: list[tuple[str, list[str]]], folder: Path) -> tuple[pl.DataFrame, int]:
    """Return the candidates among questions with their options, and how many there are."""
    texts = pl.Series([text for text, _ in questions], dtype=pl.String)
    options = [options for _, options in questions]
    codes = pl.int_range(len(questions), dtype=pl.UInt32, eager=True)
    return pair_rows(sketch_questions(texts, options, codes, 0).lazy(), len(questions), folder)


def compare(one: tuple[str, list[str]], other: tuple[str, list[str]]) -> float:
    """Return how alike two questions are among some others."""
    others = [(f"What is item number {number} of the list?", OPTIONS) for number in range(50)]
    words = [
        read_words(Question(text, tuple(options), (), None, None))
        for text, options in (one, other, *others)
    ]
    return measure_likeness(words[0], words[1], WordWeights(words))


def test_nearly_the_same_questions_are_candidates(tmp_path: Path) -> None:
    """Two questions that differ in a word are held against each other; strangers are not."""
    rng = random.Random(1)
    words = [f"word{number}" for number in range(2000)]
    strangers = [(" ".join(rng.sample(words, 15)), rng.sample(words, 4)) for _ in range(300)]
    rows = [*strangers, (TEXT, OPTIONS), (TEXT.replace("cities", "towns"), OPTIONS)]
    found, count = pair(rows, tmp_path)
    assert found.row(0) == (300, 301)
    assert count == found.height < 20


def test_candidates_grow_with_the_rows_even_if_all_are_alike(tmp_path: Path) -> None:
    """Where every question shares a template there are at most twice as many pairs in a band as
    rows.
    """
    rows = [(f"{TEXT} Mind the year {number}.", OPTIONS) for number in range(400)]
    assert pair(rows, tmp_path)[1] <= 2 * 12 * len(rows)


def test_candidates_are_the_same_whatever_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables that are put into files, and looked at in parts, give the same pairs, the likeliest
    first.
    """
    rng = random.Random(2)
    words = [f"word{number}" for number in range(40)]
    rows = [(" ".join(rng.sample(words, 6)), rng.sample(words, 3)) for _ in range(200)]
    rows += [("", []), ("", []), (TEXT, OPTIONS), (TEXT, OPTIONS[::-1])]
    whole, count = pair(rows, tmp_path)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(audit, "MOST_IN_MEMORY", 30)
    monkeypatch.setattr(audit, "PAIR_ROWS", 7)
    monkeypatch.setattr(audit, "SKETCH_ROWS", 11)
    monkeypatch.setattr(audit, "MOST_PAIRS", 20)
    few, again = pair(rows, tmp_path)
    assert list(tmp_path.iterdir())
    assert again == count > 20
    assert few.rows() == whole.head(20).rows()


def test_sketching_takes_time_in_proportion_to_the_rows(tmp_path: Path) -> None:
    """Four times as many rows take far less than sixteen times as long."""
    rows = [(f"{TEXT} {number}", OPTIONS) for number in range(8000)]

    def measure(count: int) -> float:
        spent = []
        for _ in range(3):  # the least of them, for other work on the machine only adds
            begun = time.process_time()
            pair(rows[:count], tmp_path)
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


def test_pairs_that_differ_in_what_is_decisive_need_no_second_look() -> None:
    """Questions with the same numbers, signs and turning words have the same `decisive`, or
    none.
    """
    rng = random.Random(3)
    words = [
        "alpha",
        "Not",
        "NO",
        "12",
        "x+y",
        "3.5",
        "a_b",
        "-",
        "caf\u00e9",
        "\uff11\uff12",
        "\u00b1",
        "most",
        "\t",
    ]
    texts = [" ".join(rng.choices(words, k=rng.randint(0, 3))) for _ in range(300)]
    options = [rng.choices(words, k=rng.randint(0, 2)) for _ in texts]
    sketches = sketch_questions(
        pl.Series(texts),
        options,
        pl.int_range(len(texts), dtype=pl.UInt32, eager=True),
        0,
    )
    read = [
        read_words(Question(text, tuple(some), (), None, None)).decisive
        for text, some in zip(texts, options, strict=True)
    ]
    known = [
        (one, words)
        for one, words in zip(sketches["decisive"], read, strict=True)
        if one is not None
    ]
    assert len(known) > 50
    assert len({one for one, _ in known}) == len({words for _, words in known}) == len(set(known))


def test_pairs_become_groups() -> None:
    """Rows that are connected, however indirectly, are one group."""
    assert group_pairs([(3, 7), (1, 2), (7, 9), (2, 5)]) == [[1, 2, 5], [3, 7, 9]]
    assert group_pairs([]) == []
