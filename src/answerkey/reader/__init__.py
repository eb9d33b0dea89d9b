"""Which choice a text names: the extraction rules, and how other harnesses extract.

Plain Python and `regex`.

from answerkey.reader import read
read("The answer is (B).", ["A", "B", "C", "D"])
# Reading(choice='B', reason=None, span=(4, 17), part='answer_cue', doubted=None, doubt=None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from answerkey.reader.characters import GRADES, Reading, accept_reading
from answerkey.reader.explain import PART_REASONS, PARTS, REASONS, explain_reading
from answerkey.reader.extractors import EXTRACTORS, Extractor
from answerkey.reader.first_character import (
    read_first_character,
    read_first_code_point,
    read_leading_label,
)
from answerkey.reader.stated_answer import read_stated_answer

__all__ = [
    "EXTRACTORS",
    "GRADES",
    "PARTS",
    "PART_REASONS",
    "REASONS",
    "RULES",
    "Extractor",
    "Reading",
    "accept_reading",
    "explain_reading",
    "read",
    "read_first_character",
    "read_first_code_point",
    "read_leading_label",
    "read_many",
    "read_stated_answer",
]

#: The rules by name: from a text, its choices and the texts of the options (or None) to a reading.
RULES: dict[str, Callable[[str, Sequence[str], Sequence[str] | None], Reading]] = {
    "first_character": read_first_character,
    "first_character_literal": read_first_code_point,
    "leading_label": read_leading_label,
    "stated_answer": read_stated_answer,
}


def read(
    text: str,
    choices: Sequence[str],
    options: Sequence[str] | None = None,
    rule: str = "stated_answer",
    accept: str = "stated",
) -> Reading:
    """Return the choice that a text names, or why it names none.

    `options` are the texts of the choices, `accept` the lowest of the `GRADES` that counts.
    """
    return accept_reading(RULES[rule](text, choices, options), accept)


def read_many(
    texts: Iterable[str],
    choices: Sequence[str],
    options: Sequence[str] | None = None,
    rule: str = "stated_answer",
) -> list[Reading]:
    """Return what `read` gives for each of several answers to questions with equal choices."""
    return [RULES[rule](text, choices, options) for text in texts]
