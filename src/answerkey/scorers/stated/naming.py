"""Labels as a text names them: one, or several joined, set off from the words around them."""

from __future__ import annotations

from dataclasses import dataclass

from answerkey.scorers.stated.joints import find_joined
from answerkey.scorers.stated.marks import (
    CLOSE,
    COMMAS,
    DASHES,
    LABEL_MARKS,
    OPEN,
    ROUND_CLOSE,
    ROUND_OPEN,
    STOPS,
)
from answerkey.scorers.stated.places import WRAPS, Scan, begins_well, close_label, find_label, is_end, stands

#: More labels than these are a list of something else.
MANY = 26

_BETWEEN = LABEL_MARKS | OPEN | DASHES
_ENDS = CLOSE | STOPS | COMMAS


@dataclass(frozen=True, slots=True)
class Named:
    """The choices that a place in the text names, from one unit to another.

    `is_wrapped`: in brackets, quotes or emphasis. `clashes`: followed by the text of another option.
    """

    choices: tuple[str, ...]
    begin: int
    end: int
    is_wrapped: bool = False
    clashes: bool = False


def read_names(scan: Scan, at: int) -> Named | None:
    """Return the labels named from here on, if they are set off from the words around them."""
    units = scan.units
    position = find_label(units, at)
    if position is None or not begins_well(units, position):
        return None
    found = [position]
    while len(found) < MANY and (further := find_joined(scan, found[-1])) is not None:
        found.append(further)
    if not stands(scan, found[-1]):
        return None
    choices = tuple(dict.fromkeys(str(units.labels[one]) for one in found))
    end = close_label(units, found[-1])
    clashes = len(choices) == 1 and _clashes(scan, end, choices[0])
    return Named(choices, at, end, end > position + 1, clashes)


def _clashes(scan: Scan, end: int, choice: str) -> bool:
    """Say whether the label is followed by the full text of another option, up to the end of its line."""
    units = scan.units
    at, opened = end, False
    while at < min(end + WRAPS, units.size) and units.words[at] in _BETWEEN:
        opened = opened or units.words[at] in ROUND_OPEN
        at += 1
    text = scan.texts.find(units, at)
    if text is None or text.choice == choice:
        return False
    at = text.end
    if opened and at < units.size and units.words[at] in ROUND_CLOSE:
        return True
    while at < min(text.end + WRAPS, units.size) and units.words[at] in _ENDS:
        at += 1
    return is_end(units, at)
