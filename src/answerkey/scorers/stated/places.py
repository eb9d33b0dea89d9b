"""Where a label can stand: what may be before it and after it without making it something else."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.scorers.stated.labels import Labels
from answerkey.scorers.stated.marks import CLOSE, DRESS, HYPHENS, OPEN, SPOILING
from answerkey.scorers.stated.option_texts import OptionTexts
from answerkey.scorers.stated.roles import (
    AFTER,
    AND,
    ANSWER,
    BE,
    BUT,
    FILL,
    FIX,
    IF,
    MAYBE,
    NOT,
    NOT_AFTER,
    OPTION,
    OR,
    PICK,
    RIGHT,
    WRONG,
)
from answerkey.scorers.stated.units import BREAK, Units

#: How many brackets and marks of emphasis may stand around a label: the work at one place is bounded.
WRAPS = 6

#: Labels that are words, too, and the verbs that may follow them all the same.
_WORDS = frozenset({"a", "i"})
_VERBS = frozenset({"is", "are", "ist", "est", "es", "\u00e8", "\u00e9", "\u4e3a", "\u662f"})
#: A conjunction in French, and a noun in English.
_CAR = "car"

_FOLLOWING = AFTER | BE | OR | AND | BUT | IF | FIX
#: Parts of verbs that end a sentence: `B नहीं है`, `B चुनता हूँ`.
_FOREIGN = PICK | NOT_AFTER | RIGHT | ANSWER
_PARTICLES = BE | OPTION | FILL | RIGHT | WRONG | AND | OR | AFTER | MAYBE


@dataclass(frozen=True, slots=True)
class Scan:
    """What a text is read with: its units, the labels of its choices, and the texts of its options."""

    units: Units
    labels: Labels
    texts: OptionTexts


def find_label(units: Units, at: int) -> int | None:
    """Return where the label is that begins here, after brackets and emphasis."""
    words, gaps, labels = units.words, units.gaps, units.labels
    for position in range(at, min(at + WRAPS, len(words))):
        if position > at and gaps[position] and words[position - 1] in DRESS:
            return None
        if labels[position] is not None:
            return position
        if words[position] not in OPEN:
            return None
    return None


def close_label(units: Units, position: int) -> int:
    """Return the first unit after a label and what closes its wrapping."""
    at, end = position + 1, min(position + WRAPS, units.size)
    while at < end and units.words[at] in CLOSE and not units.gaps[at]:
        at += 1
    return at


def is_word(units: Units, at: int) -> bool:
    """Say whether the unit is a word, a number or a phrase."""
    return at < units.size and (not units.words[at] or units.words[at][0].isalnum())


def is_end(units: Units, at: int) -> bool:
    """Say whether the text or its line ends here."""
    return at >= units.size or units.words[at] == BREAK


def begins_well(units: Units, position: int) -> bool:
    """Say whether nothing before a label makes it part of a word or a number."""
    if position == 0 or units.gaps[position]:
        return True
    before, token = units.token(position - 1), units.token(position)
    if before[-1:].isalnum():
        return not (before[-1:].isascii() and token.isascii())
    if before in HYPHENS:
        is_joined = position > 1 and not units.gaps[position - 1] and is_word(units, position - 2)
        return not is_joined and not token.isdecimal()
    return not (before == "$" and token.isdecimal() and "$" not in units.words[position + 1 : position + 3])


def stands(scan: Scan, position: int) -> bool:
    """Say whether a label is set off from what follows it."""
    units = scan.units
    at = close_label(units, position)
    if is_end(units, at):
        return True
    if not is_word(units, at):
        return _may_open(scan, position, at) if units.gaps[at] else not _spoils(scan, at)
    if not units.gaps[at]:
        return _may_touch(units, position, at)
    if at > position + 1 and units.words[at - 1] != "_":
        return True
    return _may_follow(scan, position, at)


def _may_open(scan: Scan, position: int, at: int) -> bool:
    """Say whether a mark after a label and a space sets it off; emphasis and quotes belong to their words."""
    units, end = scan.units, at
    while end < min(at + WRAPS, units.size) and units.words[end] in DRESS:
        end += 1
    if end == at or not is_word(units, end):
        return True
    return scan.texts.is_own(units, end, units.labels[position])


def _spoils(scan: Scan, at: int) -> bool:
    """Say whether the mark right after a label makes it something else: `C++`, `A-level`, `f(x)`, `i.e.`."""
    units, word = scan.units, scan.units.words[at]
    if word in {"(", "["}:
        return scan.texts.find(units, at + 1) is None
    if word in SPOILING:
        return True
    if at + 1 >= units.size:
        return False
    if word in HYPHENS or word == "/":
        return not units.gaps[at + 1] and is_word(units, at + 1) and units.labels[at + 1] is None
    following = units.words[at + 1]
    is_initial = len(following) == 1 and following.isalpha() and units.words[at + 2 : at + 3] == ["."]
    return word == "." and is_initial


def _may_touch(units: Units, position: int, at: int) -> bool:
    """Say whether a word may stand directly after a label: in another script, as in `B입니다`."""
    label = units.token(position)
    if label.isascii() and units.token(at).isascii():
        return False
    if label.isascii() and label.isalpha():
        return bool(units.roles[at])
    return bool(units.roles[at] & _PARTICLES)


def _may_follow(scan: Scan, position: int, at: int) -> bool:
    """Say whether the word after a label, and after a space, leaves it a label: `B because`."""
    units = scan.units
    roles, word, token = units.roles[at], units.words[at], units.token(position)
    if token.lower() in _WORDS and (roles & BE or word == _CAR):
        return word in _VERBS
    if roles & _FOLLOWING or (roles & NOT and not roles & WRONG):
        return True
    if (roles & OPTION and token.isupper()) or (roles & _FOREIGN and not units.token(at).isascii()):
        return True
    return scan.texts.is_own(units, at, units.labels[position])
