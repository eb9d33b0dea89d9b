"""Holds the reader against replies that were labelled by hand: no more wrong letters, no fewer
answers.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from answerkey.reader import read
from answerkey.reader.stated_answer import list_statements, narrow_options

FOLDER = Path(__file__).parent / "corpus"


def load(name: str) -> list[dict[str, Any]]:
    """Return the rows of a part of the corpus."""
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def count(name: str) -> Counter[str]:
    """Return how often the reader is right, names a wrong letter, or misses an answer."""
    found: Counter[str] = Counter()
    for row in load(name):
        choice = read(row["completion"], row["choices"], row["options"]).choice
        found[
            "right" if choice == row["label"] else "missed" if choice is None else "wrong letter"
        ] += 1
    return found


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [("open.jsonl", 456, 0), ("sealed.jsonl", 374, 7), ("further.jsonl", 5_142, 16)],
)
def test_replies_are_read_as_a_careful_person_does(name: str, right: int, wrong: int) -> None:
    """Says only how many: the rows of the sealed half are not looked at by those who change the
    reader.
    """
    found = count(name)
    assert found["wrong letter"] <= wrong
    assert found["right"] >= right


def test_narrowed_options_change_nothing() -> None:
    """Neither what is read nor what is stated, with the options of a reply and with those of
    another.
    """
    rows = [
        row for row in load("further.jsonl") if row["options"] and len(row["completion"]) <= 200
    ]
    narrowed = 0
    for row, other in zip(rows, [*rows[97:], *rows[:97]], strict=True):
        text, choices = row["completion"], row["choices"]
        for options in (row["options"], other["options"]):
            few = narrow_options(text, choices, options)
            narrowed += "" in few
            if few != tuple(options):
                assert read(text, choices, few) == read(text, choices, options)
                assert list_statements(text, choices, few) == list_statements(
                    text, choices, options
                )
    assert narrowed > len(rows) / 2
