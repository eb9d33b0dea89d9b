"""The extraction rule `leading_label`: the first character after its wrapping, if it names a choice.

Wrapping is quotes, brackets, emphasis, list and heading marks, LaTeX, HTML, and labels such as `Answer:`.
Case is ignored when no two choices differ only by case. The rest is judged as `first_character` judges it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from answerkey.scorers.characters import WHITE_SPACE, compose, is_word_character, measure_character
from answerkey.scorers.first_character import read_first_character
from answerkey.scorers.heads import Reading
from answerkey.scorers.stated.labels import read_labels
from answerkey.scorers.stated.marks import BULLETS, COLONS, LINKS, OPEN, WRAPPING
from answerkey.scorers.stated.markup import ANSWER_TAGS
from answerkey.scorers.stated.roles import ANSWER, BE, FILL, OWN, RIGHT
from answerkey.scorers.stated.units import BREAK, Units, split_units

#: An answer label begins within so many characters, and ends within so many words.
_HEAD = 400
_LABEL = 8

#: What may stand between a label and the mark that ends it.
_AROUND = FILL | OWN | RIGHT | BE
_ENDS = COLONS | {"\u3011"}
_LEADING = OPEN | BULLETS | ANSWER_TAGS | _ENDS | {BREAK, "="}

_OPENERS = r"\"'\u00ab\u2018\u201c\u201e\u300c\u300e*_`~(\[{\u3010\uff08$"
_CLOSERS = r"\"'\u00bb\u2019\u201d\u201c\u300d\u300f*_`~)\]}\u3011\uff09$"
_LINE_HEAD = re.compile(rf"^[{_OPENERS}>#+\-\u2022 \t]{{1,12}}")


def read_leading_label(text: str, choices: Sequence[str]) -> Reading:
    """Return the choice that the text begins with after its wrapping, or why that is not unambiguous."""
    if not text.strip(WHITE_SPACE):
        return Reading(reason="EMPTY")
    begin, part = _find_begin(text, tuple(choices))
    rest = text[begin:]
    size = measure_character(rest)
    span = (begin, begin + size) if size else None
    rest = _drop_underscores(rest, size)
    folded = _fold(tuple(choices))
    lowered = rest.lower() if folded is not None else rest
    names = list(choices) if folded is None else list(folded)
    found = _see_through(lowered, names) or read_first_character(lowered, names)
    if found.choice is None:
        reason = "NOT_A_CHOICE" if found.reason == "EMPTY" else found.reason
        return Reading(None, reason, part, span)
    choice = found.choice if folded is None else folded[found.choice]
    return Reading(choice, None, part, span)


def _drop_underscores(text: str, size: int) -> str:
    """Return the text without the `_` that close emphasis after its first character: they end no word."""
    end = len(text) - len(text[size:].lstrip("_"))
    return text if is_word_character(text[end : end + 1]) else text[:size] + text[end:]


@lru_cache(maxsize=256)
def _fold(choices: tuple[str, ...]) -> dict[str, str] | None:
    """Return the choices by their lower case; None when case tells two of them apart."""
    folded = {compose(choice.lower()): choice for choice in choices}
    return folded if len(folded) == len(choices) else None


def _find_begin(text: str, choices: tuple[str, ...]) -> tuple[int, str]:
    """Return where the text begins after its wrapping, and what was taken off."""
    offset = len(text) - len(text.lstrip(WHITE_SPACE))
    units = split_units(text[offset : offset + _HEAD], read_labels(choices))
    at, part = 0, "as_it_is"
    while at < units.size:
        after_label = _skip_answer_label(units, at)
        if after_label is not None:
            at, part = after_label, "after_label"
        elif units.words[at] in _LEADING and units.labels[at] is None:
            at, part = at + 1, part if part == "after_label" else "unwrapped"
        else:
            break
    return offset + (units.start(at) if at < units.size else units.ends[-1]), part


def _skip_answer_label(units: Units, at: int) -> int | None:
    """Return the first unit after a label such as `**The correct answer is:**`, None if there is none."""
    has_noun = False
    for further in range(at, min(at + _LABEL, units.size)):
        word, roles = units.words[further], units.roles[further]
        if has_noun and word in (LINKS if units.gaps[further] else _ENDS):
            return further + 1
        if not roles & (_AROUND | ANSWER) and word not in WRAPPING:
            return None
        has_noun = has_noun or bool(roles & ANSWER)
    return None


def _see_through(text: str, choices: list[str]) -> Reading | None:
    """Return the reading if other choices make the first ambiguous, wrapped as they may be."""
    first, *others = text.splitlines() or [""]
    several = read_first_character(_write_wrapped(tuple(choices)).sub(r"\1", first), choices)
    if several.reason == "SEVERAL_CHOICES":
        return several
    lines = [_LINE_HEAD.sub("", line, count=1) for line in others if line]
    echo = read_first_character("\n".join([first, *lines]), choices)
    return echo if echo.reason == "ECHOES_CHOICES" else None


@lru_cache(maxsize=256)
def _write_wrapped(choices: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, sorted(choices, key=len, reverse=True)))
    return re.compile(rf"[{_OPENERS}]{{0,4}}({names})[{_CLOSERS}]{{1,4}}")
