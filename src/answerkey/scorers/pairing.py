"""Texts with the option texts of their rows: pairs that are read alike are read once.

Option texts can change what `stated_answer` reads only where one of them begins in the completion. Most short
completions hold no word that an option begins with, and are read once for all rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from answerkey.scorers.heads import Reading
from answerkey.scorers.stated_answer import read_stated_answer

_WORD = re.compile(r"[a-z0-9]+")

#: The text of an option begins with one of its first words: its own label and an article may stand before it.
_FIRST_WORDS = 3
_HEAD = 64


def read_pairs(
    texts: Iterable[str], options: Iterable[Sequence[str] | None], choices: Sequence[str]
) -> tuple[list[Reading], list[int]]:
    """Return the distinct readings of texts with their option texts, and which of them each pair has."""
    known: dict[tuple[str, tuple[str, ...] | None], int] = {}
    codes = [
        known.setdefault((text, tuple(told) if told and may_matter(text, told) else None), len(known))
        for text, told in zip(texts, options, strict=True)
    ]
    return [read_stated_answer(text, choices, told) for text, told in known], codes


def may_matter(text: str, options: Sequence[str]) -> bool:
    """Say whether an option's text may begin somewhere in the text; never wrongly no."""
    words = _list_words(text)
    if words is None:
        return True
    for option in options:
        head = option[:_HEAD].lstrip().lower()
        found = _WORD.findall(head)[:_FIRST_WORDS]
        is_whole = len(found) == _FIRST_WORDS or len(option) < _HEAD
        if head and not (is_whole and head.isascii() and head[0].isalnum() and words.isdisjoint(found)):
            return True
    return False


@lru_cache(maxsize=4096)
def _list_words(text: str) -> frozenset[str] | None:
    """Return the words of a text; None when it has other letters than those of ASCII."""
    return frozenset(_WORD.findall(text.lower())) if text.isascii() else None
