"""Cues and what they state: `the answer is B`, `I choose B`, `that leaves B`, `not A`."""

from __future__ import annotations

from answerkey.scorers.stated.context import is_denied, is_hypothetical, skip_back, starts_line
from answerkey.scorers.stated.following import Followed, follow, follow_contrast
from answerkey.scorers.stated.joints import skip_remark
from answerkey.scorers.stated.marks import CLOSE, COLONS, COMMAS, DASHES, DRESS, MATHEMATICS, OPEN, STOPS
from answerkey.scorers.stated.naming import read_names
from answerkey.scorers.stated.places import Scan, is_end, is_word
from answerkey.scorers.stated.roles import (
    AFTER,
    AND,
    ANSWER,
    BARE,
    BE,
    BUT,
    DROP,
    FILL,
    FIX,
    IT,
    LEAVE,
    MATCH,
    MAYBE,
    MUTE,
    NOT,
    OPTION,
    OWN,
    PICK,
    RIGHT,
    SO,
    THINK,
    UNDO,
    WRONG,
)
from answerkey.scorers.stated.statements import Findings, Statement, Weight
from answerkey.scorers.stated.units import BREAK, Units

CUES = ANSWER | OPTION | RIGHT | PICK | THINK | IT | SO | LEAVE | MATCH | DROP | NOT | FIX

#: What may stand before `the correct one is`; a subject or a verb may not.
_BEFORE_RIGHT = SO | AND | BUT | FIX | AFTER | THINK | OWN | IT
_LIGHT = FILL | OPTION | ANSWER | MAYBE | BE | NOT | IT | RIGHT
_NEAR = 6
_BACK = 4
_CLAUSE_ENDS = STOPS | COMMAS | CLOSE | DASHES


def read_cue(scan: Scan, at: int, findings: Findings) -> None:
    """Note what the cue at `at` states or excludes."""
    roles = scan.units.roles[at]
    if roles & (ANSWER | OPTION | RIGHT):
        _read_noun(scan, at, findings)
    if roles & PICK:
        _note(scan, at, _follow_pick(scan, at), findings, part="chosen")
    elif roles & THINK and not roles & ANSWER:
        found = follow(scan, at + 1, is_linked=True)
        _note(scan, at, found, findings, part="chosen", weight=Weight.TENTATIVE)
    elif roles & FIX and not roles & (UNDO | MUTE):
        _note(scan, at, _follow_hint(scan, at), findings, part="correction")
    elif roles & (LEAVE | MATCH | SO | IT):
        _note(scan, at, _follow_hint(scan, at), findings, part=_name_hint(roles), weight=Weight.VERDICT)
    elif roles & (NOT | DROP):
        _exclude(scan, at, findings)


def _read_noun(scan: Scan, at: int, findings: Findings) -> None:
    """Note what `the answer`, `the correct option` or `the correct one` leads to."""
    roles = scan.units.roles[at]
    weight = _weigh(scan.units, at)
    if roles & ANSWER:
        found = _follow_answer(scan, at)
    elif roles & OPTION:
        found = None if roles & PICK else _follow_option(scan, at)
        weight = weight if found is not None and found.has_link else Weight.VERDICT
    else:
        found = None if roles & WRONG else _follow_right(scan, at)
    _note(scan, at, found, findings, part="answer_cue", weight=weight)


def _weigh(units: Units, at: int) -> Weight:
    """Return the weight of a cue: `the closest answer`, `my guess` and `answers` say less."""
    before = skip_back(units, at, FILL | RIGHT | OWN)
    roles = any(one & (THINK | MAYBE) for one in units.roles[before + 1 : at + 1])
    return Weight.TENTATIVE if roles else Weight.DEFINITE


def _note(
    scan: Scan,
    at: int,
    found: Followed | None,
    findings: Findings,
    *,
    part: str,
    weight: Weight = Weight.DEFINITE,
) -> None:
    """Add what a cue leads to: a statement, or choices excluded and perhaps the one that replaces them."""
    if found is None or is_hypothetical(scan.units, at):
        return
    if is_denied(scan.units, at):
        findings.exclude(found.choices, at)
        return
    if found.is_negated:
        findings.exclude(found.choices, at)
        found = follow_contrast(scan, found.end)
    if found is None or found.is_negated or len(found.choices) == len(scan.labels.choices) > 1:
        return
    weight = max(weight, Weight.TENTATIVE) if found.is_maybe else weight
    findings.statements.append(Statement(found.choices, part, weight, at, found.end, found.clashes))


def _follow_answer(scan: Scan, at: int) -> Followed | None:
    units = scan.units
    found = follow(scan, at + 1)
    if found is None or found.has_link:
        return found
    is_close = bool(units.roles[at] & BARE) or starts_line(units, at) or found.is_wrapped
    return found if found.choices and (is_close or _has_verb_after(units, found.end)) else None


def _has_verb_after(units: Units, at: int) -> bool:
    """Say whether the clause ends with the verb, as in German: `dass die Antwort B ist`."""
    is_verb = at < units.size and bool(units.roles[at] & BE)
    return is_verb and (is_end(units, at + 1) or units.words[at + 1] in _CLAUSE_ENDS)


def _follow_option(scan: Scan, at: int) -> Followed | None:
    """Return what an option word leads to, if it is `the correct option` or `my choice`."""
    units = scan.units
    before = skip_back(units, at, FILL & ~(RIGHT | OWN))
    around = (units.roles[before] if before >= 0 else 0) | units.roles[at]
    around |= units.roles[at + 1] & RIGHT if at + 1 < units.size else 0
    if not around & (RIGHT | OWN) and not _is_key(units, at):
        return None
    found = follow(scan, at + 1)
    return found if found is not None and (found.has_link or around & RIGHT) else None


def _is_key(units: Units, at: int) -> bool:
    """Say whether a line begins with the word and a colon: `Choice: B`, `"option": "B"`."""
    after = [word for word in units.words[at + 1 : at + _BACK] if word not in DRESS]
    return bool(after) and after[0] in COLONS and starts_line(units, at)


def _follow_right(scan: Scan, at: int) -> Followed | None:
    """Return what `the correct one is` and `正确的是` lead to; not `B is correct: A is too small`."""
    units = scan.units
    before = skip_back(units, at, FILL)
    is_inside = before >= 0 and is_word(units, before) and not units.roles[before] & _BEFORE_RIGHT
    if is_inside and not starts_line(units, at):
        return None
    if at + 1 < units.size and units.roles[at + 1] & (ANSWER | OPTION):
        return None
    found = follow(scan, at + 1)
    return found if found is not None and found.has_link and found.choices else None


def _follow_pick(scan: Scan, at: int) -> Followed | None:
    """Return what is chosen; a variable (`choose $A$`) is not."""
    units = scan.units
    if at + 1 < units.size and units.words[at + 1] in MATHEMATICS:
        return None
    found = follow(scan, at + 1, is_linked=True, may_pause=False)
    return _look_back(scan, at) if found is None and not units.token(at).isascii() else found


def _look_back(scan: Scan, at: int) -> Followed | None:
    """Return the label before a verb that ends its sentence: `B를 선택합니다`."""
    units, before = scan.units, at - 1
    while before > max(at - _BACK, 0) and units.labels[before] is None:
        if not units.roles[before] & (FILL | OPTION) and units.words[before] not in CLOSE:
            return None
        before -= 1
    names = read_names(scan, before) if before >= 0 and units.labels[before] is not None else None
    return None if names is None else Followed(names.choices, at + 1, clashes=names.clashes)


def _name_hint(roles: int) -> str:
    if roles & LEAVE:
        return "remaining"
    return "reference" if roles & MATCH else "conclusion"


def _follow_hint(scan: Scan, at: int) -> Followed | None:
    """Return what `it is`, `so`, `that leaves` and `matches option` lead to, if the clause ends there."""
    units, roles = scan.units, scan.units.roles[at]
    begin = at + 1
    if roles & IT and not roles & BE:
        if begin >= units.size or not units.roles[begin] & BE:
            return None
        begin += 0 if units.roles[begin] & NOT else 1
    found = follow(scan, begin, is_linked=True, may_pause=bool(roles & (FIX | SO)))
    if found is None or not found.choices:
        return None
    is_near = all(_is_light(units, between) for between in range(begin, min(found.end, begin + _NEAR)))
    is_clear = found.is_wrapped or any(one & OPTION for one in units.roles[begin : found.end])
    if not roles & MATCH:
        is_clear = is_clear or not units.token(found.end - 1).islower()
    return found if is_near and is_clear and _ends_clause(scan, found) else None


def _is_light(units: Units, at: int) -> bool:
    is_plain = not is_word(units, at) and units.words[at] not in STOPS and units.words[at] != BREAK
    return is_plain or units.labels[at] is not None or bool(units.roles[at] & _LIGHT)


def _ends_clause(scan: Scan, found: Followed) -> bool:
    """Say whether nothing is said of the label any more: `so B.`, not `so B is wrong` or `so $B = 2$`."""
    units = scan.units
    if not MATHEMATICS.isdisjoint(units.words[max(found.end - _BACK, 0) : found.end]):
        return False
    at = skip_remark(scan, found.end, found.choices[0])
    if is_end(units, at) or units.words[at] in _CLAUSE_ENDS:
        return True
    return bool(units.roles[at] & (AFTER | BUT | AND | NOT)) or not units.gaps[at]


def _exclude(scan: Scan, at: int, findings: Findings) -> None:
    """Note the labels after `not`, `neither`, `eliminate`, `rule out options`."""
    units, names = scan.units, None
    for further in range(at + 1, min(at + 1 + _BACK, units.size)):
        names = read_names(scan, further)
        is_light = units.roles[further] & (FILL | OPTION) or units.words[further] in OPEN
        if names is not None or not is_light:
            break
    if names is None:
        return
    findings.exclude(names.choices, at)
    found = follow_contrast(scan, names.end)
    if found is not None and found.choices and not found.is_negated:
        statement = Statement(found.choices, "conclusion", Weight.VERDICT, at, found.end, found.clashes)
        findings.statements.append(statement)
