"""The extraction rules that look at the beginning: `first_character`, its literal form,
`leading_label`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from answerkey.reader.characters import (
    LINE_BREAKS,
    WHITE_SPACE,
    Reading,
    compose,
    is_word_character,
    match_word,
    measure_character,
    read_character,
    skip_spaces,
)
from answerkey.reader.lexicon import (
    ANSWER,
    BE,
    BREAK,
    BULLETS,
    COLONS,
    FILL,
    LINKS,
    OPEN,
    OWN,
    RIGHT,
    WRAPPING,
    list_names,
)
from answerkey.reader.units import Units, read_labels, split_units

# The extraction rule `first_character`: the first character, if it unambiguously names a choice.

#: `;` twice: the Greek question mark is the same character in NFC.
SEPARATORS = frozenset(",/&+;\u037e\u3001\uff0c\u060c")
JOINING_WORDS = frozenset(list_names("or and und oder ou et o y"))
JOINING_CHARACTERS = frozenset("或和")
#: The Unicode category "dash punctuation" as far as it is written between letters, and the minus
#: sign.
DASHES = frozenset(
    "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\u301c\ufe58\ufe63\uff0d"
)
HYPHENS = frozenset("-\xad\u2010\u2011\ufe63\uff0d")
APOSTROPHES = frozenset("'\u2019\uff07")
#: The words that may follow, on its line, the choice itself and the other choice.
WORDS_AFTER = frozenset({"is", "because", "since"})
WORDS_AFTER_ANOTHER = WORDS_AFTER | {"are", "both", "or", "and"}
LABEL_MARKS = frozenset(".):")

_INSIDE_WORDS = APOSTROPHES | HYPHENS | {"/"}
_INSIDE_NUMBERS = frozenset(".,:")


def read_first_character(text: str, choices: Sequence[str], _options: object = None) -> Reading:
    """Return the choice that the text begins with, or the first reason why that is not
    unambiguous.
    """
    text = text.lstrip(WHITE_SPACE)
    if not text:
        return Reading(reason="EMPTY")
    label, end = read_character(text)
    if label not in choices:
        return Reading(reason="NOT_A_CHOICE")
    if _names_another(text, label, end, choices):
        return Reading(reason="SEVERAL_CHOICES")
    if _is_part_of_word(text, label, end):
        return Reading(reason="PART_OF_A_WORD")
    if _runs_into_word(text, end, WORDS_AFTER):
        return Reading(reason="RUNS_INTO_TEXT")
    if label == choices[0] and _echoes_choices(text, end, choices):
        return Reading(reason="ECHOES_CHOICES")
    return Reading(label)


def _names_another(text: str, label: str, end: int, choices: Sequence[str]) -> bool:
    """Say whether a label that ends at `end` is joined to another choice, as in `A/B/C`."""
    waiting = [(end, False)]
    seen = set(waiting)
    while waiting:
        at, is_other = waiting.pop()
        for begin in _find_joined_positions(text, at):
            joined, stop = read_character(text, begin)
            if joined not in choices:
                continue
            following = (stop, is_other or joined != label)
            if following[1] and _stands_alone(text, joined, stop):
                return True
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return False


def _stands_alone(text: str, label: str, end: int) -> bool:
    """Say whether a joined label, which ends at `end`, is separate from what follows it."""
    if _is_part_of_word(text, label, end):
        return False
    return not _runs_into_word(text, end, WORDS_AFTER_ANOTHER)


def _find_joined_positions(text: str, at: int) -> Iterator[int]:
    """Yield where a character may begin that is joined to the one that ends at `at`."""
    if text[at : at + 1] in DASHES:
        yield at + 1
    begin = skip_spaces(text, at)
    if text[begin : begin + 1] in SEPARATORS:
        begin = skip_spaces(text, begin + 1)
        yield begin
        yield from _skip_joining_word(text, begin)
    elif begin > at or text[begin : begin + 1] in JOINING_CHARACTERS:
        yield from _skip_joining_word(text, begin)


def _skip_joining_word(text: str, at: int) -> Iterator[int]:
    if text[at : at + 1] in JOINING_CHARACTERS:
        yield skip_spaces(text, at + 1)
        return
    size = match_word(text, at, JOINING_WORDS) or 0
    begin = skip_spaces(text, at + size)
    if size and begin > at + size:
        yield begin


def _is_part_of_word(text: str, label: str, end: int) -> bool:
    """Say whether a label, which ends at `end`, begins a longer word or number."""
    following = text[end : end + 1]
    if following in _INSIDE_WORDS:
        return is_word_character(text[end + 1 : end + 2])
    if following in _INSIDE_NUMBERS and label.isdecimal():
        return text[end + 1 : end + 2].isdecimal()
    return is_word_character(following)


def _runs_into_word(text: str, end: int, harmless: frozenset[str]) -> bool:
    """Say whether, after white space on the same line, a word follows that is not harmless."""
    begin = skip_spaces(text, end)
    return begin > end and match_word(text, begin, harmless) is None


def _echoes_choices(text: str, end: int, choices: Sequence[str]) -> bool:
    """Say whether later lines begin with two other choices (or the only other one).

    They count if their labels have the same mark as the first.
    """
    mark = text[end : end + 1]
    if mark not in LABEL_MARKS:
        return False
    others = choices[1:]
    echoed = set()
    items = [line.lstrip(WHITE_SPACE) for line in text[end:].splitlines()[1:]]
    for item in filter(None, items):
        label, size = read_character(item)
        is_alike = item[size : size + 1] == mark and label in others
        if is_alike and not _is_part_of_word(item, label, size):
            echoed.add(label)
    return 0 < min(2, len(others)) <= len(echoed)


def read_first_code_point(text: str, choices: Sequence[str], _options: object = None) -> Reading:
    """Return exactly the first code point of the raw text, as the hosted platform does, or why
    not.
    """
    if not text:
        return Reading(reason="EMPTY")
    if text[0] in choices:
        return Reading(text[0])
    return Reading(reason="NOT_A_CHOICE")


# The extraction rule `leading_label`: the first character after its wrapping, if it names a choice.

#: The number of characters within which an answer label begins, and of words within which it ends.
_LONGEST_WRAPPING = 400
_LONGEST_ANSWER_LABEL = 8

#: What may stand between a label and the mark that ends it.
_AROUND = FILL | OWN | RIGHT | BE
_ANSWER_LABEL_ENDS = COLONS | {"\u3011"}
_ANSWER_TAGS = frozenset(
    list_names(
        "<answer> <final_answer> <finalanswer> <final> <choice> <option> <ans> <correct_answer>"
    )
)
_LEADING = OPEN | BULLETS | _ANSWER_TAGS | _ANSWER_LABEL_ENDS | {BREAK, "="}

_OPENERS = r"\"'\u00ab\u2018\u201c\u201e\u300c\u300e*_`~(\[{\u3010\uff08$"
_CLOSERS = r"\"'\u00bb\u2019\u201d\u201c\u300d\u300f*_`~)\]}\u3011\uff09$"
_LINE_PREFIX = re.compile(rf"(?<=[{LINE_BREAKS}])[{_OPENERS}>#+\-\u2022 \t]{{1,12}}")


def read_leading_label(text: str, choices: Sequence[str], _options: object = None) -> Reading:
    """Return the choice that the text begins with after its wrapping, or why that is not
    unambiguous.
    """
    if not text.strip(WHITE_SPACE):
        return Reading(reason="EMPTY")
    begin, part = _find_text_begin(text, tuple(choices))
    remainder = text[begin:]
    size = measure_character(remainder)
    span = (begin, begin + size) if size else None
    remainder = _drop_underscores(remainder, size)
    fold, names = _fold_choices(tuple(choices))
    remainder = fold(remainder)
    labels = tuple(names)
    reading = _find_wrapped_choices(remainder, labels) or read_first_character(remainder, labels)
    reason = reading.reason
    if reason == "EMPTY":
        reason = "NOT_A_CHOICE"
    choice = reading.choice and names[reading.choice]
    return Reading(choice, reason, span, part)


def _drop_underscores(text: str, size: int) -> str:
    """Return the text without the `_` that close emphasis after its first character."""
    remainder = text[size:].lstrip("_")
    if is_word_character(remainder[:1]):
        return text
    return text[:size] + remainder


@lru_cache(maxsize=256)
def _fold_choices(choices: tuple[str, ...]) -> tuple[Callable[[str], str], dict[str, str]]:
    """Return a function that folds the case of a text, and the choices by their folded labels.

    If two choices differ only in case, nothing is folded.
    """
    names = {compose(choice.lower()): choice for choice in choices}
    if len(names) == len(choices):
        return str.lower, names
    return str, dict(zip(choices, choices, strict=True))


def _find_text_begin(text: str, choices: tuple[str, ...]) -> tuple[int, str]:
    """Return where the text begins after its wrapping, and what was taken off."""
    offset = len(text) - len(text.lstrip(WHITE_SPACE))
    units = split_units(text[offset : offset + _LONGEST_WRAPPING], read_labels(choices))
    at, part = _skip_wrapping(units)
    return offset + units.start(at), part


def _skip_wrapping(units: Units) -> tuple[int, str]:
    """Return the first unit after the wrapping, and what was taken off."""
    at, part = 0, "as_it_is"
    while at < units.size:
        after_label = _skip_answer_label(units, at)
        if after_label is not None:
            at = after_label
            part = "after_label"
        elif units.words[at] in _LEADING and units.labels[at] is None:
            at += 1
            if part == "as_it_is":
                part = "unwrapped"
        else:
            break
    return at, part


def _skip_answer_label(units: Units, at: int) -> int | None:
    """Return the first unit after a label such as `**The correct answer is:**`, None if there is
    none.
    """
    has_noun = False
    for further in range(at, min(at + _LONGEST_ANSWER_LABEL, units.size)):
        word, roles = units.words[further], units.roles[further]
        if has_noun and word in (LINKS if units.gaps[further] else _ANSWER_LABEL_ENDS):
            return further + 1
        if not roles & (_AROUND | ANSWER) and word not in WRAPPING:
            return None
        has_noun = has_noun or bool(roles & ANSWER)
    return None


def _find_wrapped_choices(text: str, choices: tuple[str, ...]) -> Reading | None:
    """Return the reading if further choices, perhaps wrapped, make the first one ambiguous."""
    first = text.splitlines()[0] if text else ""
    bare = _write_wrapped(choices).sub(r"\1", first)
    several = read_first_character(bare, choices)
    if several.reason == "SEVERAL_CHOICES" or bare == text:
        return several
    echo = read_first_character(_LINE_PREFIX.sub("", text), choices)
    return echo if echo.reason == "ECHOES_CHOICES" else None


@lru_cache(maxsize=256)
def _write_wrapped(choices: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, sorted(choices, key=len, reverse=True)))
    return re.compile(rf"[{_OPENERS}]{{0,4}}({names})[{_CLOSERS}]{{1,4}}")
