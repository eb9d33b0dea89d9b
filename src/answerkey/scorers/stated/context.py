"""What stands before a cue and changes its meaning: conditions, questions, others' opinions, negations."""

from __future__ import annotations

from answerkey.scorers.stated.following import REACH
from answerkey.scorers.stated.marks import COMMAS, LINKS, QUESTION_MARKS, STOPS
from answerkey.scorers.stated.places import is_word
from answerkey.scorers.stated.roles import AND, BE, BUT, FILL, FIX, IF, IT, NOT, OWN, RIGHT, SAYS, WRONG
from answerkey.scorers.stated.units import BREAK, Units

#: How far back a cue is affected, in units.
BEFORE = 8

_ENDS = STOPS | {BREAK}
_CLAUSE_ENDS = _ENDS | COMMAS | LINKS


def look_back(at: int) -> range:
    """Return the units before `at` that may affect it, the nearest first."""
    return range(at - 1, max(at - 1 - BEFORE, -1), -1)


def skip_back(units: Units, at: int, roles: int) -> int:
    """Return the nearest unit before `at` that does not play one of these roles; -1 at the beginning."""
    for before in look_back(at):
        if not units.roles[before] & roles:
            return before
    return max(at - 1 - BEFORE, -1)


def is_hypothetical(units: Units, at: int) -> bool:
    """Say whether what stands before a cue makes it a condition, a question or somebody else's opinion."""
    in_clause = True
    for before in look_back(at):
        word, roles = units.words[before], units.roles[before]
        if word in _ENDS or roles & BUT:
            break
        in_clause = in_clause and word not in COMMAS
        if roles & SAYS or (in_clause and roles & IF):
            return True
    return _asks(units, at)


def _asks(units: Units, at: int) -> bool:
    """Say whether the cue is the subject of a question: `Could the answer be B?`."""
    before = skip_back(units, at, FILL | OWN | RIGHT)
    if before < 0 or not units.roles[before] & BE or units.roles[before] & (FILL | OWN | IT):
        return False
    is_first = before == 0 or units.words[before - 1] in _ENDS
    return is_first and not QUESTION_MARKS.isdisjoint(units.words[at : at + REACH])


def is_denied(units: Units, at: int) -> bool:
    """Say whether a negation stands before a cue in its clause: `I don't think the answer is`."""
    for before in look_back(at):
        roles = units.roles[before]
        if units.words[before] in _CLAUSE_ENDS or roles & (BUT | AND | FIX):
            return False
        if roles & WRONG:
            return before == at - 1
        if roles & NOT:
            return True
    return False


def starts_line(units: Units, at: int) -> bool:
    """Say whether nothing but marks, emphasis and light words stands before the unit on its line."""
    for before in look_back(at):
        if units.words[before] == BREAK:
            return True
        if is_word(units, before) and not units.roles[before] & (FILL | OWN | RIGHT):
            return False
    return at <= BEFORE
