"""Texts that answer nothing: whatever the choices are, no rule may find a choice in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from answerkey.scorers.extraction import find_rule

LABELS = (
    "ABCD", "ABCDEFGHIJ", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "1234", "abcd", "YN", "①②③④", "ⅠⅡⅢⅣ",
    "αβγδ",
    "АБВГ", "أبجد", "甲乙丙丁", "アイウエ", "가나다라", "कखगघ",
)  # fmt: skip
OPTIONS = {"ABCD": ("Sydney", "Canberra", "Melbourne", "Perth"), "YN": ("Yes", "No")}

#: Refusals in seventeen languages, and texts about something else.
FILE = Path(__file__).parents[2] / "cases" / "no_answer.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def draw_noise(random: Random) -> Iterator[str]:
    """Yield noise: letters without sense, marks, other scripts, words shuffled."""
    words = " ".join(row["text"] for row in ROWS if row["kind"] == "off topic").split()
    latin, greek, cyrillic = (0xA1, 0x17F), (0x370, 0x3FF), (0x400, 0x45F)
    ranges = ((0x21, 0x7E), latin, greek, cyrillic, (0x4E00, 0x4FFF), (0x1F300, 0x1F5FF))
    for number in range(400):
        low, high = ranges[number % len(ranges)]
        yield " ".join(
            "".join(chr(random.randint(low, high)) for _ in range(random.randint(3, 12)))
            for _ in range(random.randint(1, 8))
        )
        lower = [
            word.lower() for word in random.sample(words, 12) if len(word) > 3 and word.isalpha()
        ]
        yield " ".join(lower)
        yield "".join(random.choices("qwxzjkvp ", k=random.randint(5, 60))) + "qx"


def list_texts() -> list[tuple[str, str]]:
    """Return every text of the corpus with its kind."""
    texts = [(row["kind"], row["text"]) for row in ROWS]
    refusals: dict[str, list[str]] = {}
    for kind, text in texts:
        refusals.setdefault(kind, []).append(text)
    refusals.pop("off topic")
    joined = [(language, " ".join(each)) for language, each in refusals.items()]
    noise = [("noise", text) for text in draw_noise(Random(5))]
    return [*texts, *joined, *noise]


@pytest.mark.parametrize("labels", LABELS)
def test_no_answer_is_found_where_none_is_stated(labels: str) -> None:
    """Refusals in seventeen languages, off-topic text and noise are INVALID, every one of them."""
    rule = find_rule("stated_answer")
    choices, options = tuple(labels), OPTIONS.get(labels)
    for kind, text in list_texts():
        for texts_of_options in (None, options):
            reading = rule.read(text, choices, texts_of_options)
            assert (kind, text, reading.choice) == (kind, text, None)
            assert reading.reason is not None
