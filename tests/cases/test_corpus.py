"""Holds the reader against replies that were labelled by hand: no more wrong letters, no fewer answers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from answerkey.reader import read

FOLDER = Path(__file__).parent / "corpus"


def count(name: str) -> Counter[str]:
    """Return how often the reader is right, names a wrong letter, or misses an answer."""
    found: Counter[str] = Counter()
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        choice = read(row["completion"], row["choices"], row["options"]).choice
        found["right" if choice == row["label"] else "missed" if choice is None else "wrong letter"] += 1
    return found


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [("open.jsonl", 456, 0), ("sealed.jsonl", 374, 7), ("further.jsonl", 5_142, 16)],
)
def test_replies_are_read_as_a_careful_person_does(name: str, right: int, wrong: int) -> None:
    """Says only how many: the rows of the sealed half are not looked at by those who change the reader."""
    found = count(name)
    assert found["wrong letter"] <= wrong
    assert found["right"] >= right
