"""Holds the reader against replies that were labelled by hand, and against plain ones: a label with
its own option's text, in twenty forms.

The options are those of `plain_options.jsonl` and, where `../shared/data/mmlu` lies beside the
project, of 150 questions of MMLU; of 600 in the long series.
"""

from __future__ import annotations

import csv
import json
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from answerkey.reader import read

FOLDER = Path(__file__).parent
MMLU = FOLDER.parents[2] / "shared" / "data" / "mmlu" / "test"
LABELS = ("A", "B", "C", "D")
QUESTIONS = 600 if os.environ.get("ANSWERKEY_LONG") else 150
#: As measured on the labels as they are.
FEWEST_RIGHT, MOST_WRONG = 385, 5


def list_own() -> list[list[str]]:
    """Return options that were written to be mistaken for something else."""
    lines = (FOLDER / "plain_options.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def list_mmlu() -> list[list[str]]:
    """Return the options of some questions of MMLU, the same every time."""
    questions = []
    for file in sorted(MMLU.glob("*.csv")):
        with file.open(encoding="utf-8", newline="") as rows:
            questions += [row[1:5] for row in csv.reader(rows)]
    random.Random(1).shuffle(questions)
    distinct = [options for options in questions if len(set(options)) == len(LABELS)]
    return distinct[:QUESTIONS]


@pytest.mark.parametrize("form", (FOLDER / "plain_forms.txt").read_text("utf-8").splitlines())
def test_a_label_with_its_own_text_is_read(form: str) -> None:
    """Whatever the words of the option are: no, not, whether, another label."""
    unread = []
    for options in list_own() + list_mmlu():
        for label, text in zip(LABELS, options, strict=True):
            reply = form.format(label=label, text=text)
            if read(reply, LABELS, options).choice != label:
                unread.append(reply)
    assert unread == []


def count(name: str) -> Counter[str]:
    """Return how often the reader is right, names a wrong letter, or misses an answer."""
    counts: Counter[str] = Counter()
    for line in (FOLDER / "corpus" / name).read_text(encoding="utf-8").splitlines():
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
