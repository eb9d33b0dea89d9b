"""From a cue to what it states: `the answer is, I think, option (B)`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from answerkey.scorers.stated.marks import CLOSE, COMMAS, EQUALS, LINKS, OPEN, OPERATORS, STOPS, WRAPPING
from answerkey.scorers.stated.naming import Named, read_names
from answerkey.scorers.stated.places import WRAPS, Scan, close_label, is_word, stands
from answerkey.scorers.stated.roles import (
    AFTER,
    AND,
    ANSWER,
    BARE,
    BE,
    BUT,
    FILL,
    FIX,
    IF,
    IT,
    MAYBE,
    NONE,
    NOT,
    NOT_AFTER,
    OPTION,
    OR,
    OWN,
    PICK,
    PREP,
    RIGHT,
    THINK,
)
from answerkey.scorers.stated.units import BREAK, Units

#: How far a cue reaches, in units, and a remark after it: the work at one cue is bounded.
REACH = 24
_REMARK = 14
_NEGATION = 4

#: More verbs and words for the answer than these are other sentences, which speak for themselves.
_CUES = 4

_LIGHT = FILL | OWN | RIGHT | OPTION | THINK | FIX | MAYBE | IT | PICK
_BRACKETS = frozenset("([\uff08\u3010")
_PAUSES = CLOSE | COMMAS


@dataclass(frozen=True, slots=True)
class Followed:
    """What a cue leads to; `choices` are none when it is something that is not a choice.

    `has_link`: by way of a verb, a colon or the like.
    """

    choices: tuple[str, ...]
    end: int
    is_negated: bool = False
    is_maybe: bool = False
    has_link: bool = False
    is_wrapped: bool = False
    clashes: bool = False


@dataclass(slots=True)
class _Way:
    """What the words since the cue allow and mean."""

    has_link: bool
    may_pause: bool
    may_break: bool
    has_paused: bool = False
    cues: int = 0
    is_negated: bool = False
    is_maybe: bool = False


def follow(scan: Scan, at: int, *, is_linked: bool = False, may_pause: bool = True) -> Followed | None:
    """Return what is named after a cue that ends at `at`, or None if the words lead elsewhere.

    `is_linked`: the cue needs no verb or colon. `may_pause`: a comma may follow it.
    """
    way = _Way(is_linked, may_pause, is_linked)
    end = min(at + REACH, scan.units.size)
    while at < end:
        found = _read_here(scan, at, has_link=way.has_link)
        if found is not None:
            if way.has_paused and not way.has_link:
                return None
            is_maybe = way.is_maybe or found.is_maybe
            found = replace(found, is_negated=way.is_negated, is_maybe=is_maybe, has_link=way.has_link)
            return _look_after(scan, found)
        further = _step(scan, at, way)
        if further is None:
            return None
        at = further
    return None


def _step(scan: Scan, at: int, way: _Way) -> int | None:
    """Return the unit after this one, if it may stand between a cue and what it leads to."""
    units = scan.units
    word, roles = units.words[at], units.roles[at]
    if roles & NOT:
        way.is_negated = True
    elif roles & PREP and not _leads_to_label(scan, at):
        if way.has_link:
            return at + 1 if roles & _LIGHT else None
        return _skip_remark(units, at)
    elif roles & (BE | _LIGHT) or (roles & ANSWER and way.has_link):
        is_verb = bool(roles & BE)
        way.cues += is_verb or bool(roles & ANSWER)
        if way.cues > _CUES:
            return None
        way.has_link, way.may_pause = way.has_link or is_verb, way.may_pause or is_verb
        way.may_break, way.is_maybe = way.may_break or is_verb, way.is_maybe or bool(roles & MAYBE)
    elif word in LINKS:
        way.has_link = way.may_pause = True
        way.may_break = way.may_break or word not in EQUALS
    elif word in COMMAS:
        way.has_paused = True
        return at + 1 if way.may_pause else None
    elif not (way.may_break if word == BREAK else word in WRAPPING):
        return None
    return at + 1


def _read_here(scan: Scan, at: int, *, has_link: bool) -> Followed | None:
    """Return the labels, the option text, or the answer that is no choice, that stand here."""
    units = scan.units
    names = read_names(scan, at)
    text = scan.texts.find(units, at)
    if text is not None and text.choice is not None and _ends_text(units, text.end):
        if names is None or text.end > names.end:
            return read_text(scan, text.choice, text.end)
        is_option = names.is_wrapped or (at > 0 and bool(units.roles[at - 1] & OPTION))
        if names.choices != (text.choice,) and not is_option:
            return Followed(names.choices, names.end, clashes=True)
    if names is not None:
        return _from_names(names)
    if not has_link:
        return None
    return Followed((), at + 1, is_maybe=True) if units.roles[at] & NONE else _read_foreign(scan, at)


def _from_names(names: Named) -> Followed:
    return Followed(names.choices, names.end, is_wrapped=names.is_wrapped, clashes=names.clashes)


def _ends_text(units: Units, end: int) -> bool:
    """Say whether an option's text is complete here: no further word, no joint to another."""
    at = end
    while at < min(end + WRAPS, units.size) and units.words[at] in CLOSE:
        at += 1
    if at >= units.size:
        return True
    if not is_word(units, at):
        is_number = units.words[at - 1][:1].isdecimal()
        return units.words[at] not in OPERATORS or (bool(units.gaps[at]) and not is_number)
    return bool(units.roles[at] & AFTER) and not units.roles[at] & (OR | AND)


def read_text(scan: Scan, choice: str, end: int) -> Followed:
    """Return the choice of an option text; the label in brackets after it has to be the same."""
    units, at = scan.units, end
    while at < min(end + WRAPS, units.size) and units.words[at] in _PAUSES:
        at += 1
    names = read_names(scan, at) if at < units.size and units.words[at] in _BRACKETS else None
    if names is None:
        return Followed((choice,), end)
    return Followed((choice,), names.end, clashes=choice not in names.choices)


def _read_foreign(scan: Scan, at: int) -> Followed | None:
    """Return an answer that is no choice when a label stands here that is not among them."""
    units, position = scan.units, at
    while position < min(at + WRAPS, units.size) and units.words[position] in OPEN:
        position += 1
    if position >= units.size or units.labels[position] is not None:
        return None
    if not scan.labels.resembles(units.token(position)):
        return None
    end = close_label(units, position)
    return None if is_word(units, end) or not stands(scan, position) else Followed((), end)


def _leads_to_label(scan: Scan, at: int) -> bool:
    """Say whether a word that may be a preposition is none here: `odpowiedź to B`."""
    roles = scan.units.roles[at]
    if not roles & (BE | FILL | OPTION):
        return False
    return bool(roles & OPTION) or read_names(scan, at + 1) is not None


def _skip_remark(units: Units, at: int) -> int | None:
    """Return where the verb or the colon is after `to this question`; None when there is none."""
    for further in range(at + 1, min(at + _REMARK, units.size)):
        if units.roles[further] & BE and not units.roles[further] & PREP:
            return further
        if units.words[further] in LINKS and not units.gaps[further]:
            return further
        if units.words[further] in STOPS or units.words[further] == BREAK:
            break
    return None


def _look_after(scan: Scan, found: Followed) -> Followed | None:
    """Return the finding, negated if a negation follows it; None if it is only a condition."""
    units, at = scan.units, found.end
    if at < units.size and units.roles[at] & IF and not units.roles[at] & AFTER:
        return None
    for further in range(at, min(at + _NEGATION, units.size)):
        if units.roles[further] & NOT_AFTER:
            return replace(found, is_negated=True, end=further + 1)
        if not units.roles[further] & (FILL | BE | OPTION | RIGHT | BARE):
            break
    return found


def follow_contrast(scan: Scan, end: int) -> Followed | None:
    """Return what follows an exclusion: `not A but B`, `nicht A, sondern B`, `B가 아니라 C`."""
    units, at = scan.units, end
    while at < min(end + WRAPS, units.size) and units.words[at] in _PAUSES:
        at += 1
    if at >= units.size:
        return None
    if units.roles[at] & BUT:
        return follow(scan, at + 1, is_linked=True)
    return follow(scan, at, is_linked=True) if units.roles[at - 1] & NOT_AFTER else None
