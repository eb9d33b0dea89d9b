"""Holds the reader against replies that were labelled by hand: no more wrong letters, no fewer
answers.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from answerkey.reader import read

#: As measured on the labels as they are.
FEWEST_RIGHT, MOST_WRONG = 385, 5

FOLDER = Path(__file__).parent / "corpus"


def count(name: str) -> Counter[str]:
    """Return how often the reader is right, names a wrong letter, or misses an answer."""
    counts: Counter[str] = Counter()
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        choice = read(row["completion"], row["choices"], row["options"]).choice
        if choice == row["label"]:
            counts["right"] += 1
        else:
            counts["missed" if choice is None else "wrong letter"] += 1
    return counts


def test_replies_are_read_as_a_careful_person_does() -> None:
    """Says only how many: nobody who changes the reader looks at the rows of the sealed half.

    `bench/extractors.py` prints the figures of the other parts, which the reader was changed for.
    """
    counts = count("sealed.jsonl")
    assert counts["wrong letter"] <= MOST_WRONG
    assert counts["right"] >= FEWEST_RIGHT
