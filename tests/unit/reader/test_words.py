"""Runs the example of every word: it states what it says, and does not with a word that means
nothing.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

import pytest

from answerkey.reader import read

#: A word of each script that is none.
NONSENSE = {
    "CJK": "龘",
    "HIRAGANA": "龘",
    "KATAKANA": "龘",
    "HANGUL": "뷁",
    "CYRILLIC": "щъыф",
    "ARABIC": "ظظظ",
    "DEVANAGARI": "झझझ",
    "BENGALI": "ঝঝঝ",
    "GREEK": "ξξξ",
    "HEBREW": "קקק",
    "THAI": "ฮฮฮ",
}

#: Words whose line says why it has no example; fewer are better.
MOST_WITHOUT_EXAMPLE = 230


@dataclass(frozen=True)
class Line:
    """One line of a word list: where it stands, its words, the example or the reason why there is
    none.
    """

    file: str
    number: int
    words: tuple[str, ...]
    example: str


def list_lines() -> Iterator[Line]:
    """Yield the lines of all word lists."""
    for file in sorted(
        (resources.files("answerkey.reader") / "words").iterdir(), key=lambda path: path.name
    ):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if not line.startswith("#"):
                words, bar, example = line.partition(": ")[2].partition(" | ")
                assert bar, f"{file.name} line {number} has no example"
                yield Line(file.name, number, tuple(words.split(", ")), example)


LINES = list(list_lines())


def read_example(example: str, word: str) -> tuple[str, str | None]:
    """Return the choice that the example states with this word, and the part that decided.

    `-` stands for none, `declined` for a text that declines to answer.
    """
    text = example.rpartition(" => ")[0]
    assert "~" in text
    reading = read(text.replace("\\n", "\n").replace("~", word), tuple("ABCD"))
    if reading.reason == "DECLINED":
        return "declined", None
    return reading.choice or "-", reading.part


@pytest.mark.parametrize("file", sorted({one.file for one in LINES}))
def test_every_word_does_what_its_example_says(file: str) -> None:
    """The example holds with each word of its line, and is read otherwise with nonsense there."""
    wrong = []
    for line in LINES:
        if line.file != file or line.example.startswith("#"):
            continue
        for word in line.words:
            result = read_example(line.example, word)
            expected = line.example.rpartition(" => ")[2]
            nonsense = NONSENSE.get(unicodedata.name(word[0], "?").split()[0], "qwx")
            if result[0] != expected or read_example(line.example, nonsense) == result:
                wrong.append((line.number, word, result))
    assert wrong == []


def test_few_words_have_no_example() -> None:
    """Lines without an example say why; there are no more of them than there were."""
    without = [line for line in LINES if line.example.startswith("#")]
    assert all(len(entry.example) > len("# ") for entry in without)
    assert sum(len(entry.words) for entry in without) <= MOST_WITHOUT_EXAMPLE
